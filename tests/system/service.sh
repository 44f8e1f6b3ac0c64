#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpud as a service: the messages that it sends to a service manager. A stand-in speaks systemd's protocol (sd_notify,
# sd_listen_fds), because this machine may have no systemd that could start a unit.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 2
cat >"$run/vgpud.conf" <<CONF
[daemon]
socket = $run/control.sock
[gpu gpu0]
device = vfio-user:$run/gpu/pf.sock
vfs = 2
CONF
cat >"$run/manager.py" <<'PY'
import os, signal, socket, struct, subprocess, sys, threading, time
vgpud, run, vgpuctl = sys.argv[1:4]
def listening(name):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.bind(f"{run}/{name}.sock"); s.listen(16)
    return s
sockets = {name: listening(name) for name in ("control", "hook")}
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind(f"{run}/notify"); notify.settimeout(60)
def start():
    def child(): # copies first: descriptors 3 and 4 may be in use here
        fds = [os.dup(s.fileno()) for s in sockets.values()]
        for i, fd in enumerate(fds):
            os.dup2(fd, 3 + i)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="2", LISTEN_FDNAMES=":".join(sockets),
                          NOTIFY_SOCKET=f"{run}/notify", WATCHDOG_USEC="10000000")
        os.execv(vgpud, [vgpud, "--config", f"{run}/vgpud.conf"])
    pid = os.fork()
    if pid == 0:
        child()
    return pid
def until(word): # reads messages up to a line that begins with the word
    while True:
        for line in notify.recv(4096).decode().split("\n"):
            if line.startswith(word):
                return line
def answer():
    return subprocess.run([vgpuctl, "--socket", f"{run}/control.sock", "gpu", "list"], capture_output=True).returncode
try:
    pid = start()
    until("READY=1")
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
    # vgpud is terminated: it announces that, and leaves the sockets, which belong to the manager.
    os.kill(pid, signal.SIGTERM)
    until("STOPPING=1")
    assert os.waitpid(pid, 0)[1] == 0
    assert all(os.path.exists(f"{run}/{name}.sock") for name in sockets)
finally:
    try: os.kill(pid, signal.SIGKILL)
    except ProcessLookupError: pass
PY
/usr/bin/python3 "$run/manager.py" "$vgpud" "$run" "$vgpuctl" 2>"$run/manager.log" || fail "manager.py failed: see manager.log"
