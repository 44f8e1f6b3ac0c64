#!/bin/bash
# SPDX-License-Identifier: MIT
# A second vgpud on the same PF does not get it, and one on the same socket ends; both say why.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 2
config <<-CONF
	vfs = 2
CONF
start_vgpud
sed "s|^socket.*|socket = $run/other/control.sock|" "$run/vgpud.conf" >"$run/other.conf"
start_lost "$run/other.conf" 'another program holds this device' || fail "the second vgpud does not say that the PF is held: $(cat "$run/lost.txt")"
[ ! -e "$run/other/control.sock" ] || fail "the second vgpud left its socket behind"
"$vgpud" --config "$run/vgpud.conf" 2>"$run/third.txt" && fail "a second vgpud started on the same socket"
grep -q 'another program listens here' "$run/third.txt" || fail "the second vgpud does not say that the socket is in use: $(cat "$run/third.txt")"
# vgpud does not remove a file that is not a socket.
echo kept >"$run/file"
sed "s|^socket.*|socket = $run/file|" "$run/vgpud.conf" >"$run/other.conf"
"$vgpud" --config "$run/other.conf" 2>"$run/fourth.txt" && fail "vgpud started although its socket path is a regular file"
grep -q 'this file is not a socket' "$run/fourth.txt" || fail "vgpud does not say that the file is not a socket: $(cat "$run/fourth.txt")"
[ "$(cat "$run/file")" = kept ] || fail "vgpud removed or changed a regular file"
ctl gpu show >/dev/null || fail "the first vgpud no longer answers"
start_guest a 0 sha256 --jobs 5; wait_guest $guest_pid a
