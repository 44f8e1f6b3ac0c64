#!/bin/bash
# SPDX-License-Identifier: MIT
# The worker of one VF is taken over, while three tenants compute on the other VFs, by workers of their own. They keep their
# shares, wait no longer than without an attack by more than a slice and the grace, and are not reset.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
grace_ms=4000 # a busy machine without a GPU stops work late
use_impostors
becomes none
start_tenants --engine host --window 64M --kill-after 2000
start_guest victim 3 spin --us 50000 --depth 16 --seconds 600; victim=$guest_pid
for kind in deaf scribble truncate; do
	await 60 is 3 state active
	observe before
	becomes $kind
	turns=$(vf 3 dispatches)
	ends worker 3
	await 60 at_least 3 dispatches $((turns + 2))
	neighbours_keep "a worker that was taken over: $kind"
	becomes none
done
kill $victim; wait $victim
end_tenants
