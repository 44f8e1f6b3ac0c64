#!/bin/bash
# SPDX-License-Identifier: MIT
# Two vgpud on one PF, or on one socket: the second is refused, and says why.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 2
config <<-CONF
	vfs = 2
CONF
start_vgpud
sed "s|^socket.*|socket = $run/other/control.sock|" "$run/vgpud.conf" >"$run/other.conf"
"$vgpud" --config "$run/other.conf" 2>"$run/second.txt" && fail "two vgpud on one PF"
grep -q 'another program holds this device' "$run/second.txt" || fail "no reason: $(cat "$run/second.txt")"
[ ! -e "$run/other/control.sock" ] || fail "it left its socket behind"
"$vgpud" --config "$run/vgpud.conf" 2>"$run/third.txt" && fail "two vgpud on one socket"
grep -q 'another program listens here' "$run/third.txt" || fail "no reason: $(cat "$run/third.txt")"
# A file that is not a socket is not removed.
echo kept >"$run/file"
sed "s|^socket.*|socket = $run/file|" "$run/vgpud.conf" >"$run/other.conf"
"$vgpud" --config "$run/other.conf" 2>"$run/fourth.txt" && fail "vgpud listens at a file"
grep -q 'this file is not a socket' "$run/fourth.txt" || fail "no reason: $(cat "$run/fourth.txt")"
[ "$(cat "$run/file")" = kept ] || fail "vgpud removed a file"
ctl gpu show >/dev/null || fail "the first one suffered"
start_guest a 0 sha256 --jobs 5; wait_guest $guest_pid a
