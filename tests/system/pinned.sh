#!/bin/bash
# SPDX-License-Identifier: MIT
# VFs with guaranteed time are pinned: never swapped out. A guarantee is refused if the pinned VFs would leave no room for the
# largest of the others. vgpud states the cost of swapping when a VM gets a swapped VF, and in memory plan.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hooks.sh"
start_softgpu --vfs 4 --vram 256M
config <<-CONF
	vfs = 4
	grace_ms = 1000
	policy = qos
	host_memory_mib = 384
	epoch_ms = 200
	[vf gpu0/3]
	pinned = no
CONF
start_vgpud
for n in 0 1 2 3; do await 30 is $n state available; done
# the GPU has room for two of the four VFs
ctl vf set 2 min_ppm=300000 >/dev/null || fail "the guarantee for VF 2 was refused"
[ "$(vf 2 pinned)" = true ] || fail "VF 2 has a guarantee and is not pinned"
await 30 is 2 swapped false
! ctl vf set 1 min_ppm=300000 2>"$run/refused.log" || fail "a guarantee was accepted although its VF, pinned, leaves no room for the others"
grep -q 'a guarantee pins VF 1' "$run/refused.log" || fail "$(cat "$run/refused.log")"
[ "$(vf 1 pinned) $(vf 1 params.min_ppm)" = "false 0" ] || fail "the refused guarantee changed VF 1"
ctl vf set 3 min_ppm=200000 >/dev/null || fail "the guarantee for VF 3, which has pinned = no, was refused"
[ "$(vf 3 pinned)" = false ] || fail "VF 3 is pinned although it has pinned = no"

for n in 0 1 2; do start_guest g$n $n spin --us 1000 --depth 8 --seconds 300; g[n]=$guest_pid; done
await 30 active 3
swapped() { [ "$(json memory show | jq .swaps_in)" -ge "$1" ] && is 2 swapped false; }
await 120 swapped 4
ctl memory show --svg "$run/map.svg" >/dev/null && grep -q 'host memory' "$run/map.svg" && python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$run/map.svg" || fail "the SVG of the memory is not well-formed or does not show host memory"

# The cost of swapping is stated.
ctl memory plan 0 96M | grep -q 'out and in within .* in epochs of' || fail "$(ctl memory plan 0 96M)"
! ctl memory plan 2 96M | grep -q 'is swapped' || fail "$(ctl memory plan 2 96M)"
sequence 1 "$(claim '')" prepare start started || fail "VM 1 was refused: $(cat "$run/said")"
[ "$(vf_of 1)" = 3 ] || fail "VM 1 has VF $(vf_of 1)"
grep -q "vm1/a: its memory is swapped to host memory, out and in within" "$run/vgpud.log" || fail "vgpud's log does not state the cost of swapping for vm1: $(cat "$run/vgpud.log")"
for n in 0 1 2; do kill -INT ${g[n]}; wait_guest ${g[n]} g$n; done
