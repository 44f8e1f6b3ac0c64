#!/bin/bash
# SPDX-License-Identifier: MIT
# What stands between VFs' processes, and between them and softgpu: users of their own, so that the kernel's limits of a user are one
# VF's; a log of their own; memory that other processes of the same user cannot reach, and that no core dump has.
. "$(dirname "$0")/lib.sh"
attack=$VGPU_BUILD/tests/system/attack
exec 7>"$run/others"
start_softgpu --vfs 3
config <<<"vfs = 3"
start_vgpud
for n in 0 1 2; do await 30 is $n state available; done

if [ "$(id -u)" = 0 ]; then
	users=$(for n in 0 1 2; do awk '/^Uid:/ {print $2, $3, $4, $5}' "/proc/$(process_of $n)/status"; done)
	[ "$(tr ' ' '\n' <<<"$users" | sort -u | grep -vcx 0)" = 3 ] || fail "VFs' processes have these users: $users"
fi

# It has little memory beside the partition, with control groups and without. A sanitizer takes as it likes.
sanitized "$softgpu" || for n in 0 1 2; do
	awk '/^Max data size/ {exit !($4 > 0 && $4 < 256 * 1048576)}' "/proc/$(process_of $n)/limits" || fail "VF $n's process may have any memory"
done

# A client leaves as many files unread as one VF's process can send. Another VF's client gets the one that it asks for.
"$attack" unread "$run/gpu/vf2.sock" 600 >"$run/unread.txt" 2>&1 &
unread=$!
many() { ls -l "/proc/$unread/fd" | awk '/socket:/ {n++} END {exit n < 20}'; }
await 60 many
for i in 1 2 3 4 5; do
	timeout 30 "$attack" map "$run/gpu/vf0.sock" 600 >"$run/map.txt" || fail "while another VF's client leaves files unread, this one's gets none"
done
kill $unread

[ -z "$(find "/proc/$(process_of 0)/fd" -lname "$run/others")" ] || fail "a VF's process has what whoever started softgpu had open"

# What a process says is logged as its own, and no more than a little of it.
p=$(process_of 1)
echo "<0>vgpud: forged" >"/proc/$p/fd/2"
await 60 grep -qx "<4>softgpu: VF 1's process: vgpud: forged" "$run/softgpu.log"
! grep -q "^<0>" "$run/softgpu.log" || fail "a VF's process writes lines of others"
had=$(stat -c %s "$run/softgpu.log")
yes "no end" | timeout 3 dd bs=4096 of="/proc/$p/fd/2" status=none
[ $(($(stat -c %s "$run/softgpu.log") - had)) -le 500000 ] || fail "a VF's process fills the log"
kill -0 "$p" || fail "the process that said much has ended"

# No core dump of softgpu has a partition.
awk '/^[0-9a-f]+-/ {partition = $0 ~ /memfd:softgpu /} /^VmFlags:/ && partition {n++; if (!/ dd/) exit 1} END {if (!n) exit 1}' "/proc/$softgpu_pid/smaps" ||
	fail "a core dump of softgpu would have tenants' memory"
# Where softgpu is not root, VFs' processes are the same user. None of that user can look into softgpu.
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
if ! sanitized "$softgpu" && [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && chmod 755 "$run" && $nobody test -x "$softgpu"; then
	install -d -o 65534 "$run/nobody"
	$nobody "$softgpu" --dir "$run/nobody" --vfs 1 --no-realtime 2>>"$run/nobody.log" &
	other=$!
	await 30 test -S "$run/nobody/pf.sock"
	$nobody cat "/proc/$other/status" >/dev/null || fail "softgpu is not user nobody's: $(cat "$run/nobody.log")"
	! $nobody cat "/proc/$other/environ" >/dev/null 2>&1 || fail "who is softgpu's user can look into softgpu"
	kill $other; wait $other || fail "softgpu of user nobody ended with $?"
fi
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
