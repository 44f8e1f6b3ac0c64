#!/bin/bash
# SPDX-License-Identifier: MIT
# Several attackers at once, beside three tenants: VF 3's process is taken over and computes in many threads; VF 4's guest floods its
# registers, or restarts its driver endlessly; VF 5's client leaves sockets that take long to close; and a member of the group that may read
# asks vgpud without an end, and sends it such sockets.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || { echo "skipped: needs root and setpriv to be another user"; exit 77; }
attackers=3 group=$(getent group nogroup | cut -d: -f3)
daemon_keys="group = nogroup"
chmod 755 "$run"
use_impostors softgpu-vf
becomes none
start_tenants
had=$(descriptors)
# shellcheck disable=SC2016
asks='while :; do "$1" request "$3" 20; "$2" --socket "$3" vf list; "$1" unread "$3" 20; done </dev/null >/dev/null 2>&1'
as_member=(setpriv --reuid=65534 --regid="$group" --clear-groups)
"${as_member[@]}" "$vgpuctl" --socket "$run/control.sock" vf list >"$run/member.txt" 2>&1 ||
	fail "a member of the group gets no answer: $(cat "$run/member.txt")"
member() {
	local nice=0
	[ -z "${ATTACK_FIGURES:-}" ] || nice=19
	exec setsid sh -c 'echo "$1" >/proc/self/autogroup; shift; exec "$@"' - $nice "${as_member[@]}" \
		bash -c "$asks" - "$VGPU_BUILD/tests/system/lingering" "$vgpuctl" "$run/control.sock"
}
taken_over() { [ "$(readlink "/proc/$(process_of 3)/exe")" -ef "$run/libexec/vgpud/softgpu-vf" ]; }
# How often softgpu has said that VF 3's process takes too much; whether more often than N times.
warnings() { grep -c "VF 3: its process takes " "$run/softgpu.log"; }
warns_again() { [ "$(warnings)" -gt "$1" ]; }
has_begun() { grep -q begun "$run/attack$1.txt"; }
kinds=${*:-registers windows}
for kind in $kinds; do
	control "all at once, with $kind"
	rm -f "$run"/attack[45].txt
	warned=$(warnings)
	run_attack "$kind" 4 >"$run/attack4.txt" 2>&1 &
	began=($!)
	run_attack lingers 5 >"$run/attack5.txt" 2>&1 &
	began+=($!)
	member &
	began+=($!)
	becomes burns
	ends 3
	await 30 taken_over
	for n in 4 5; do await 60 has_begun $n; done
	observe before
	neighbours_keep "all at once: a VF process that computes, $kind, lingers, and a member of the group"
	await 30 warns_again "$warned"
	becomes none
	kill "${began[0]}" "${began[1]}"
	for n in 4 5; do
		wait "${began[n - 4]}" || fail "the attack on VF $n ended with $?: $(cat "$run/attack$n.txt")"
	done
	kill -- -"${began[2]}" || fail "the member had ended"
	wait "${began[2]}" 2>/dev/null
	for n in 3 4 5; do
		timeout 60 "$attack" look "$run/gpu/vf$n.sock" 30 >"$run/look.txt" || fail "after these attacks VF $n is not served"
		await 60 free_again $n
	done
done
await 30 no_more_descriptors "$had"
end_tenants
