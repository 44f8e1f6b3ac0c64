#!/bin/bash
# SPDX-License-Identifier: MIT
# The client of one VF makes that VF's process wait, fail, starve and die, by messages, descriptors and files, while three
# tenants compute on the other VFs. They keep their shares of the time that can be had, wait no longer than without an attack by
# more than a slice and the grace, and are not reset; and the VF serves its next client. attacks.sh KIND...: only these.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
kinds=(interrupts holes window locked filled huge registers doorbells requests maps crowd descriptors resets silence)
pages=/proc/sys/vm/nr_hugepages
start_tenants
had=$(descriptors)
for kind in "${@:-${kinds[@]}}"; do
	observe before
	[ $kind != huge ] || { were=$(cat $pages) && echo $((were + 4)) >$pages; } 2>/dev/null || { echo "$kind: this machine has no huge pages"; continue; }
	"$attack" $kind "$run/gpu/vf3.sock" 600 >"$run/attack.txt" 2>&1 &
	attacker=$!
	pids+=($attacker)
	await 20 have_run before
	observe after
	kill $attacker
	wait $attacker; r=$?
	[ $kind != huge ] || echo "$were" >$pages
	[ $r = 0 ] || fail "the attack $kind ended with $r: $(cat "$run/attack.txt")"
	judge "$kind, $(cat "$run/attack.txt")" before after
	audited $kind
	# It is served again, within the time that a process has to say that it is there.
	"$attack" look "$run/gpu/vf3.sock" 30 >"$run/look.txt" || fail "after $kind the VF is not served"
	await 30 is 3 state available
done
await 10 [ "$(descriptors)" -le "$had" ]
end_tenants
