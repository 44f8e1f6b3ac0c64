#!/bin/bash
# SPDX-License-Identifier: MIT
# The client of one VF makes the host keep memory for it, while three tenants compute on the other VFs: it keeps the files of former
# partitions, and lets DMA fill files of its own. What it keeps is given back when the next client comes, and the device has none of
# it. Large partitions are given back while everybody waits for the engine.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
start_tenants
# What all memory files of this machine hold, MiB.
shared() { awk '/^Shmem:/ {print int($2 / 1024)}' /proc/meminfo; }
had=$(descriptors)
for kind in hoard sparse; do
	observe before
	"$attack" $kind "$run/gpu/vf3.sock" 600 >"$run/attack.txt" 2>&1 &
	attacker=$!
	pids+=($attacker)
	await 20 have_run before
	observe after
	kill $attacker
	wait $attacker || fail "the attack $kind ended with $?: $(cat "$run/attack.txt")"
	judge "$kind, $(cat "$run/attack.txt")" before after
	audited $kind
	await 30 is 3 state available
done
await 10 [ "$(descriptors)" -le "$had" ]
end_tenants
