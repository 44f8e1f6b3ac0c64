#!/bin/bash
# SPDX-License-Identifier: MIT
# Who can connect to softgpu's VFs, and how long softgpu serves them: the owner, group and mode of their sockets, also of a VF that has
# had a client; what it tells systemd; and that SIGUSR1, unlike SIGTERM, ends it only when no VF has a client any more.
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
. "$(dirname "$0")/lib.sh"
chmod 755 "$run"
owner() { stat -c '%U %G %a' "$run/gpu/$1.sock"; }
has() { [ "$(owner "$1")" = "$2" ]; }
as() { # USER COMMAND...
	ASAN_OPTIONS=${ASAN_OPTIONS%:log_path=*} UBSAN_OPTIONS=${UBSAN_OPTIONS%:log_path=*} setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
}
# What softgpu tells systemd.
python3 -u - "$run/notify" >"$run/told" <<'PY' &
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
while True:
    print(s.recv(4096).decode())
PY
await 60 test -S "$run/notify"
told() { tail -1 "$run/told" | grep -qx -- "$1"; }

for wrong in "--socket-user no-such-user" "--socket-group no-such-group" "--socket-mode 0678" "--socket-mode 1777" "--socket-mode ''"; do
	eval "$softgpu --dir $run/wrong $wrong" 2>"$run/refused" && fail "softgpu takes $wrong"
	grep -q -- "${wrong%% *}" "$run/refused" || fail "softgpu refuses $wrong, and says: $(cat "$run/refused")"
done

NOTIFY_SOCKET=$run/notify start_softgpu --vfs 2 --socket-user daemon --socket-group games --socket-mode 640
await 60 grep -qx READY=1 "$run/told"
await 60 told "STATUS=VFs in use: none"
has pf "root root 600" || fail "pf.sock is not root's alone: $(owner pf)"
config <<<"vfs = 2"
start_vgpud
for vf in vf0 vf1; do has $vf "daemon games 640" || fail "$vf.sock: $(owner $vf)"; done
as daemon "$guest" mandelbrot --socket "$run/gpu/vf0.sock" --jobs 1 >/dev/null || fail "the sockets' user cannot use a VF"
as 12345 "$guest" mandelbrot --socket "$run/gpu/vf0.sock" --jobs 1 >"$run/out" 2>&1 && fail "a stranger can use a VF"
grep -qi 'permission denied' "$run/out" || fail "a stranger is refused, but with: $(cat "$run/out")"
# The socket of the next process of the VF.
await 60 told "STATUS=VFs in use: none"
as daemon "$guest" mandelbrot --socket "$run/gpu/vf0.sock" --jobs 1 >/dev/null || fail "the next client of the VF cannot use it"
has vf0 "daemon games 640" || fail "vf0.sock, after a client: $(owner vf0)"

# It drains.
start_guest one 0 spin --seconds 600; one=$guest_pid
start_guest two 1 spin --seconds 600; two=$guest_pid
await 60 told "STATUS=VFs in use: 0, 1"
kill -USR1 "$softgpu_pid"
await 60 told "STATUS=VFs in use: 0, 1; ends when they are free, .*"
kill -INT "$one"
await 60 told "STATUS=VFs in use: 1; ends when they are free, .*"
kill -0 "$softgpu_pid" || fail "softgpu has ended while VF 1 was in use"
# Of two softgpus in one directory, the one that ends last would remove the sockets of the other.
timeout 60 $softgpu --dir "$run/gpu" 2>"$run/refused" && fail "a second softgpu took the directory of one that drains"
grep -q "another softgpu has its sockets there" "$run/refused" || fail "a second softgpu says: $(cat "$run/refused")"
[ -S "$run/gpu/vf0.sock" ] || fail "a second softgpu removed sockets of the first"
kill -KILL "$two"
wait "$softgpu_pid" || fail "softgpu ended with $?"
[ ! -e "$run/gpu/vf0.sock" ] || fail "softgpu has left its sockets behind"

# SIGTERM ends one that drains. Without options, a root's softgpu has the users that libvirt gives to QEMU here.
NOTIFY_SOCKET=$run/notify start_softgpu --vfs 2
await 60 test -S "$run/gpu/vf0.sock"
user=root group=root
for u in qemu libvirt-qemu; do ! id -u $u >/dev/null 2>&1 || user=$u; done
if [ $user != root ]; then for g in qemu kvm; do ! getent group $g >/dev/null || group=$g; done; fi
has vf0 "$user $group 600" || fail "vf0.sock, without options: $(owner vf0), not $user $group 600"
start_guest three 0 spin --seconds 600
await 60 told "STATUS=VFs in use: 0"
kill -USR1 "$softgpu_pid"
kill -TERM "$softgpu_pid"
wait "$softgpu_pid" || fail "softgpu ended with $? at SIGTERM"
