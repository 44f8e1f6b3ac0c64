#!/bin/bash
# SPDX-License-Identifier: MIT
# A member of the group that may read sends vgpud descriptors whose last close takes 120 s. Root's calls are answered meanwhile:
# where the kernel refuses descriptors, and where they were sent before vgpud could make it do so, as on kernels before 6.16.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || { echo "skipped: needs root and setpriv to be another user"; exit 77; }
lingering=$VGPU_BUILD/tests/system/lingering
chmod 755 "$run"
group=$(getent group nogroup | cut -d: -f3)
cat >"$run/vgpud.conf" <<-CONF
	[daemon]
	socket = $run/control.sock
	hook_socket = $run/hook.sock
	group = nogroup
	metrics = unix:$run/metrics.sock
	[gpu gpu0]
	device = null:command_us=10
	vfs = 4
CONF
mkfifo "$run/hold"
exec 9<>"$run/hold" # attackers end with it
refused=0 sent=0
# attack WAY [SOCKET]: sends a descriptor so; counts whether the kernel has refused it.
attack() {
	setpriv --reuid=65534 --regid="$group" --clear-groups "$lingering" "$1" "$run/${2:-control}.sock" 120 <"$run/hold" >"$run/$1.txt" 2>&1 &
	attacker=$!
	began() { grep -q sent "$run/$1.txt" || ! kill -0 $attacker; }
	await 60 began "$1"
	if grep -q sent "$run/$1.txt"; then
		sent=$((sent + 1))
	else
		wait $attacker
		[ $? = 3 ] || fail "lingering $1: $(cat "$run/$1.txt")"
		refused=$((refused + 1))
	fi
}
# answers_root WHAT: root's call is answered in a quarter of the linger, however slow this machine is.
answers_root() {
	local began=$EPOCHREALTIME
	timeout 30 "$vgpuctl" --socket "$run/control.sock" vf list >/dev/null || fail "$1: root's call was not answered within 30 s"
	echo "$1: root's call took $(awk "BEGIN {print int(1000 * ($EPOCHREALTIME - $began))}") ms"
}
start_vgpud
ways='request behind unread urgent'
for way in $ways; do
	attack $way
	answers_root "$way"
done
# The same at the socket of the metrics, which an operator has given to others.
chmod 666 "$run/metrics.sock"
for way in $ways; do
	attack $way metrics
	answers_root "metrics: $way"
done
[ $refused = 0 ] || [ $sent = 0 ] || fail "the kernel refused $refused descriptors, and not $sent"
echo "the kernel refused $refused of $((refused + sent)) messages"
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"

# A listener that others have made, and connections that are there before vgpud.
cat >"$run/activate.py" <<'END'
import os, socket, sys
path, command = sys.argv[1], sys.argv[2:]
s = socket.socket(socket.AF_UNIX)
s.bind(path)
os.chmod(path, 0o666)
s.listen(16)
sys.stdin.readline()
if s.fileno() != 3:
    os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="control")
os.execv(command[0], command)
END
rm -f "$run/control.sock"
mkfifo "$run/go"
exec 8<>"$run/go"
/usr/bin/python3 "$run/activate.py" "$run/control.sock" "$vgpud" --config "$run/vgpud.conf" <"$run/go" 2>>"$run/vgpud.log" &
vgpud_pid=$!
await 30 test -S "$run/control.sock"
refused=0 sent=0
for way in $ways; do attack $way; done
[ $sent = 4 ] || fail "$sent of 4 descriptors were sent before vgpud began"
echo >"$run/go"
await 60 ctl vf list
for i in 1 2 3; do answers_root "sent before vgpud began"; done
# Who has sent one is told why it is not served.
grep -q EPERM "$run"/vgpud.log && fail "vgpud logs what members of the group do"
kill $vgpud_pid
ended() { ! kill -0 $vgpud_pid 2>/dev/null; }
await 30 ended
wait $vgpud_pid || fail "vgpud ended with $?"
