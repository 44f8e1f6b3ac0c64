#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpud-keeper starts its child again when the child dies, passes the stored descriptors to the new child, and ends the
# child when it ends itself.
. "$(dirname "$0")/lib.sh"
keeper=$VGPU_BUILD/tools/keeper/vgpud-keeper
start_softgpu --vfs 2
config <<-CONF
	vfs = 2
CONF
"$keeper" "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
keeper_pid=$!
# A keeper that is killed leaves its vgpud; one that is asked to end, as here if a step fails, does not.
trap 'r=$?; [ -z "$keeper_pid" ] || { kill $keeper_pid; wait $keeper_pid; }; (exit $r); finish' EXIT
await 30 ctl gpu list
child() { cat "/proc/$keeper_pid/task/$keeper_pid/children" | tr -d ' '; }
start_guest a 0 sha256 --seconds 100; a=$guest_pid
await 30 active 1
other_child() { [ -n "$(child)" ] && [ "$(child)" != "$1" ] && ctl gpu list; }
for how in 'kill -9 $old' 'kill -HUP $keeper_pid'; do
	old=$(child)
	eval "$how"
	await 30 other_child "$old"
	[ "$(json gpu show | jq .adopted)" = true ] || fail "the GPU was not adopted"
	await 30 at_least 0 dispatches 20
done
kill -INT $a
wait_guest $a a
last=$(child)
kill $keeper_pid
wait $keeper_pid || fail "the keeper ended with $?"
keeper_pid=
[ ! -e "/proc/$last" ] || fail "vgpud outlived the keeper"
# A program that fails at its first start is not started again.
echo nonsense >"$run/vgpud.conf"
"$keeper" "$vgpud" --config "$run/vgpud.conf" 2>"$run/refused.txt"
[ $? = 78 ] || fail "the keeper did not end with vgpud's status although vgpud refused its configuration"
# Descriptors that one child stores are passed to the next child. The keeper ignores messages of other processes.
cat >"$run/life.py" <<'PY'
import os, signal, socket, sys
run = sys.argv[1]
def want(condition, what): # the keeper would start a program that fails again and again
    if not condition:
        print(what, file=sys.stderr, flush=True)
        os.kill(os.getppid(), signal.SIGTERM)
        os._exit(1)
def say(text, fds=()):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.connect(os.environ["NOTIFY_SOCKET"])
    socket.send_fds(s, [text.encode()], list(fds))
life = len(open(run + "/lives").read()) if os.path.exists(run + "/lives") else 0
open(run + "/lives", "a").write("x")
names = os.environ.get("LISTEN_FDNAMES", "").split(":")
if life == 0:
    say("READY=1")
    for name in "one", "two", "three":
        f = open(run + "/" + name, "w+"); f.write(name); f.flush()
        say("FDSTORE=1\nFDNAME=" + name, [f.fileno()])
    if os.fork() == 0: # this process is not the keeper's child
        say("FDSTOREREMOVE=1\nFDNAME=one")
        os._exit(0)
    os.wait()
    if os.geteuid() == 0 and os.fork() == 0: # another user cannot even reach the keeper
        os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
        try:
            say("READY=1")
        except PermissionError:
            os._exit(0)
        os._exit(1)
    want(os.geteuid() != 0 or os.wait()[1] == 0, "another user reaches the keeper")
    say("FDSTOREREMOVE=1\nFDNAME=two")
    os.kill(os.getpid(), 9)
want(names == ["one", "three"], f"the keeper holds {names}")
want(int(os.environ["LISTEN_PID"]) == os.getpid() and os.environ["LISTEN_FDS"] == "2", "whose descriptors these are is wrong")
for i, name in enumerate(names):
    want(os.pread(3 + i, 10, 0).decode() == name, f"{name} is not what was kept")
PY
"$keeper" /usr/bin/python3 "$run/life.py" "$run" 2>"$run/life.txt" || fail "$(cat "$run/life.txt")"
