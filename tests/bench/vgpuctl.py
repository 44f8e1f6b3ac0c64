# SPDX-License-Identifier: MIT
"""vgpuctl.py list RUNS VGPUCTL...: times "vf list" from its start to its end, beside --version and a program that does nothing.
vgpuctl.py top SECONDS VGPUCTL...: the CPU time of "top" on a terminal of 50 x 200, which must have drawn its views."""
import fcntl, json, os, pty, resource, struct, subprocess, sys, termios, threading, time

what, number, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]


def times(argv):
    took = []
    for _ in range(number):
        begun = time.monotonic()
        subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
        took.append((time.monotonic() - begun) * 1e3)
    took.sort()
    return {f"p{q}": round(took[min(len(took) * q // 100, len(took) - 1)], 2) for q in (50, 90, 99)}


if what == "list":
    print(json.dumps({"list_ms": times(command + ["vf", "list"]), "version_ms": times([command[0], "--version"]), "true_ms": times(["/bin/true"]),
                      "load": os.getloadavg()[0]}))
    sys.exit()
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
shown = bytearray()
begun = time.monotonic()
top = subprocess.Popen(command + ["top", "--count", str(number + 1)], stdin=slave, stdout=slave)
os.close(slave)


def read():
    try:
        while True:
            shown.extend(os.read(master, 65536))
    except OSError:  # the last one has closed the terminal
        pass


reader = threading.Thread(target=read)
reader.start()
top.wait()
took = time.monotonic() - begun
reader.join()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
assert top.returncode == 0 and shown.count(b"PROMISED") >= number, f"top has drawn {shown.count(b'PROMISED')} views"
print(json.dumps({"top_cpu_percent": round(100 * (used.ru_utime + used.ru_stime) / took, 3), "top_seconds": round(took, 1), "top_load": os.getloadavg()[0]}))
