#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpud as a service: the messages that it sends to a service manager. A stand-in speaks systemd's protocol (sd_notify,
# sd_listen_fds), because this machine may have no systemd that could start a unit.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 2
config <<CONF
vfs = 2
CONF
cat >"$run/manager.py" <<'PY'
import os, signal, socket, subprocess, sys, threading, time
vgpud, run, vgpuctl = sys.argv[1:4]
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind(f"{run}/notify"); notify.settimeout(60)
store = {} # FDSTORE=1
def start(config="vgpud.conf"):
    def child(): # copies first: descriptors from 3 on may be in use here
        fds = [os.dup(fd) for fd in store.values()]
        for i, fd in enumerate(fds):
            os.dup2(fd, 3 + i)
        if fds:
            os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=":".join(store))
        os.environ.update(NOTIFY_SOCKET=f"{run}/notify", WATCHDOG_USEC="10000000")
        os.execv(vgpud, [vgpud, "--config", f"{run}/{config}"])
    pid = os.fork()
    if pid == 0:
        child()
    return pid
def receive():
    text, fds, _, _ = socket.recv_fds(notify, 4096, 16)
    lines = text.decode().split("\n")
    if "FDSTORE=1" in lines:
        store[next(l for l in lines if l.startswith("FDNAME="))[7:]] = fds[0]
    return lines
def until(word): # reads messages up to a line that begins with the word
    while True:
        for line in receive():
            if line.startswith(word):
                return line
def ask():
    return subprocess.run([vgpuctl, "--socket", f"{run}/control.sock", "gpu", "list"], capture_output=True, text=True)
def answer():
    return ask().returncode
def release(): # as systemd does when the unit is stopped, or has failed for good
    for fd in store.values(): os.close(fd)
    store.clear()
try:
    pid = start()
    until("READY=1")
    assert set(store) >= {"control", "hook"}, store
    assert answer() == 0
    until("WATCHDOG=1")
    assert until("STATUS=") == "STATUS=1 GPU, running; 0 VFs belong to VMs"
    # vgpud is killed: requests that arrive meanwhile wait for the next vgpud and are answered.
    os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
    asking = []
    threads = [threading.Thread(target=lambda: asking.append(answer())) for _ in range(5)]
    for t in threads: t.start()
    began = time.monotonic()
    pid = start()
    for t in threads: t.join(60)
    print("restart to answer: %.0f ms" % ((time.monotonic() - began) * 1000))
    assert asking == [0] * 5, asking
    until("READY=1")
    # vgpud is terminated: it announces that, and leaves the sockets, which the manager holds for a restart.
    os.kill(pid, signal.SIGTERM)
    until("STOPPING=1")
    assert os.waitpid(pid, 0)[1] == 0
    assert all(os.path.exists(f"{run}/{name}.sock") for name in ("control", "hook"))
    # It was a stop: the manager lets go of the sockets, and clients say so, at once. The next start takes the paths again.
    release()
    said = ask()
    assert said.returncode == 3 and "vgpud is not running: it was stopped at 2" in said.stderr, said
    pid = start()
    until("READY=1")
    assert answer() == 0
    # A restart with a configuration that cannot be used: the manager starts vgpud no more, and whoever has connected meanwhile is
    # told why, as well as whoever comes later.
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    waits = subprocess.Popen([vgpuctl, "--socket", f"{run}/control.sock", "gpu", "list"], stderr=subprocess.PIPE, text=True)
    with open(f"{run}/wrong.conf", "w") as f:
        f.write(open(f"{run}/vgpud.conf").read() + "nonsense = 1\n")
    assert os.waitstatus_to_exitcode(os.waitpid(start("wrong.conf"), 0)[1]) == 78
    release()
    assert waits.wait(30) == 3
    said = ask()
    assert said.returncode == 3 and "vgpud is not running: its start failed at 2" in said.stderr and "wrong.conf:7: " in said.stderr, said
    pid = start()
    until("READY=1")
    assert answer() == 0
finally:
    try: os.kill(pid, signal.SIGKILL)
    except ProcessLookupError: pass
PY
/usr/bin/python3 "$run/manager.py" "$vgpud" "$run" "$vgpuctl" 2>"$run/manager.log" || fail "manager.py failed: see manager.log"
