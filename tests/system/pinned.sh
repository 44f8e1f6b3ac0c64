#!/bin/bash
# SPDX-License-Identifier: MIT
# Who is never swapped: VFs that their policy guarantees time, as long as all of them have room beside the largest of the
# others. What swapping costs is said when a VM gets a VF that is swapped, and when one asks.
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
# room for two of four
ctl vf set 2 min_ppm=300000 >/dev/null || fail "no guarantee for VF 2"
[ "$(vf 2 pinned)" = true ] || fail "a guarantee does not pin"
await 30 is 2 swapped false
! ctl vf set 1 min_ppm=300000 2>"$run/refused.log" || fail "more is pinned than leaves room for the others"
grep -q 'a guarantee pins VF 1' "$run/refused.log" || fail "$(cat "$run/refused.log")"
[ "$(vf 1 pinned) $(vf 1 params.min_ppm)" = "false 0" ] || fail "a refusal has changed VF 1"
ctl vf set 3 min_ppm=200000 >/dev/null || fail "no guarantee for one that is swapped all the same"
[ "$(vf 3 pinned)" = false ] || fail "pinned = no does not count"

for n in 0 1 2; do start_guest g$n $n spin --us 1000 --depth 8 --seconds 300; g[n]=$guest_pid; done
await 30 active 3
swapped() { [ "$(json memory show | jq .swaps_in)" -ge "$1" ] && is 2 swapped false; }
await 120 swapped 4
ctl memory show --svg "$run/map.svg" >/dev/null && grep -q 'host memory' "$run/map.svg" && python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$run/map.svg" || fail "no map"

# What it costs.
ctl memory plan 0 96M | grep -q 'out and in within .* in epochs of' || fail "$(ctl memory plan 0 96M)"
! ctl memory plan 2 96M | grep -q 'is swapped' || fail "$(ctl memory plan 2 96M)"
sequence 1 "$(slice '')" prepare start started || fail "VM 1 was refused: $(cat "$run/said")"
[ "$(vf_of 1)" = 3 ] || fail "VM 1 has VF $(vf_of 1)"
grep -q "vm1/a: its memory is swapped to host memory, out and in within" "$run/vgpud.log" || fail "nothing is said of what it costs: $(cat "$run/vgpud.log")"
for n in 0 1 2; do kill -INT ${g[n]}; wait_guest ${g[n]} g$n; done
