#!/bin/bash
# SPDX-License-Identifier: MIT
# Four VFs always have work, and the GPU has room for two: shares are kept over epochs. Over a time in which every VF has had
# the engine for at least four epochs, vgpud's counters show each VF within two epochs of its share: one at either end.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 4 --vram 64M
config <<-CONF
	vfs = 4
	policy = fair
	grace_ms = 1000
	host_memory_mib = 64
	epoch_ms = 200
	[vf gpu0/0]
	memory_mib = 16
	weight = 200
	[vf gpu0/1]
	memory_mib = 16
	[vf gpu0/2]
	memory_mib = 16
	[vf gpu0/3]
	memory_mib = 16
CONF
start_vgpud
for n in 0 1 2 3; do await 30 is $n state available; done
[ "$(json vf list | jq '[.vfs[] | select(.swapped)] | length')" = 2 ] || fail "want two of the four VFs swapped out: $(ctl memory show)"
for n in 0 1 2 3; do start_guest g$n $n spin --us 5000 --depth 16 --seconds 1000; g[n]=$guest_pid; done
await 60 active 4
# vgpud chooses the length of an epoch: at least four times the swap time that it measured.
longest_epoch=0
had_epochs() { # N: every VF has run for N times the longest epoch so far
	epoch=$(json memory show | jq .epoch_ns)
	[ "$epoch" -le "$longest_epoch" ] || longest_epoch=$epoch
	look now && jq -en --slurpfile a "$run/before.json" --slurpfile b "$run/now.json" --argjson least $(($1 * longest_epoch)) \
		'[range(0; 4) | $b[0].vfs[.].run_ns - $a[0].vfs[.].run_ns] | min >= $least'
}
swaps() { [ "$(json memory show | jq .swaps_in)" -ge "$1" ]; }
await 60 swaps 2
look before
await 200 had_epochs 4
jq -nc --slurpfile a "$run/before.json" --slurpfile b "$run/now.json" --argjson epoch "$longest_epoch" '
	[range(0; 4) | $b[0].vfs[.].run_ns - $a[0].vfs[.].run_ns] as $ran | ($ran | add) as $all
	| [range(0; 4) | ((if . == 0 then 2 else 1 end) / 5 * $all) as $due
		| {vf: ., epoch: $epoch, ran: $ran[.], off: ($ran[.] - $due | round), kept: (($ran[.] - $due | fabs) <= 2 * $epoch)}]' >"$run/shares.json"
[ "$(jq 'length == 4 and all(.kept)' "$run/shares.json")" = true ] || fail "shares over epochs: $(jq -c '.[]' "$run/shares.json"; ctl memory show)"
for n in 0 1 2 3; do kill -INT ${g[n]}; wait_guest ${g[n]} g$n; [ "$(field g$n resets)" = 0 ] || fail "guest $n was reset"; done
