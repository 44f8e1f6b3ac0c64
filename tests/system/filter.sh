#!/bin/bash
# SPDX-License-Identifier: MIT
# softgpu and its processes need no system call and no capability that the unit vgpud-softgpu@.service forbids: they run as under it,
# where a call that is forbidden is SIGSYS, and serve clients, with and without workers.
. "$(dirname "$0")/lib.sh"
command -v systemd-analyze >/dev/null && command -v setpriv >/dev/null || { echo "skipped: systemd-analyze or setpriv is missing"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "skipped: needs root, as the unit has it"; exit 77; }
! sanitized "$softgpu" || { echo "skipped: sanitizers make calls of their own"; exit 77; }
unit=$VGPU_BUILD/tools/packaging/systemd/vgpud-softgpu@.service
value() { sed -n "s/^$1=//p" "$unit"; }
[ -z "$(value SystemCallErrorNumber)" ] || fail "the unit does not kill who makes a forbidden call any more: follow it here"
# expand: names of calls, and of systemd's groups of calls, to names of calls, on each line one.
expand() {
	local name
	while read -r name; do
		case $name in
		@*) systemd-analyze syscall-filter "$name" | sed 1d | grep -v '#' | expand ;;
		*) echo "$name" ;;
		esac
	done
}
value SystemCallFilter | tr ' ' '\n' | expand | sort -u >"$run/calls"
grep -qx read "$run/calls" || fail "$unit allows no read: $(head "$run/calls")"
capabilities=$(value CapabilityBoundingSet | tr 'A-Z ' 'a-z,' | sed 's/cap_/+/g')
bare=$softgpu
softgpu=$run/as-a-service
printf '#!/bin/sh\nexec setpriv --no-new-privs --bounding-set "-all,%s" "%s" "%s" "%s" "$@"\n' "$capabilities" "$VGPU_BUILD/tests/system/filtered" "$run/calls" "$bare" >"$softgpu"
chmod 755 "$softgpu"

for engine in cpu host; do
	start_softgpu --vfs 2 --engine $engine
	config <<<"vfs = 2"
	start_vgpud
	for n in 0 1; do await 30 is $n state available; done
	start_guest first 0 mandelbrot --jobs 3
	wait_guest $guest_pid first
	await 30 is 0 state available
	ctl vf reset 0
	await 30 is 0 state available
	start_guest next 0 sha256 --jobs 2
	wait_guest $guest_pid next
	kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
	kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
	! grep -E "has died|does not|cannot" "$run/softgpu.log" || fail "a process of softgpu's was killed, or missed something: $(cat "$run/softgpu.log")"
done
