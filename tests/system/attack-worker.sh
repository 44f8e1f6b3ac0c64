#!/bin/bash
# SPDX-License-Identifier: MIT
# The worker of one VF is taken over (tests/system/impostor.c), while three tenants compute on the other VFs, by workers of their
# own. They keep their shares, wait no longer than without an attack by more than a slice and the grace, and are not reset; and the
# VF gets another worker, which serves its guest. attack-worker.sh KIND...: what a worker is that is taken over.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
grace_ms=4000 # a machine without a GPU stops a worker's work late when it is busy
use_impostors worker
becomes none
start_tenants --engine host --window 64M --kill-after 2000
count_what_is_held
kinds=${*:-deaf scribble truncate fill}
for kind in $kinds; do
	start_guest victim 3 spin --us 50000 --depth 16 --seconds 600; victim=$guest_pid
	await 60 is 3 state active
	observe before
	becomes "$kind"
	ends worker 3
	neighbours_keep "a worker that was taken over: $kind" test -e "$IMPOSTOR.began"
	becomes none
	kill $victim; wait $victim
	await 60 free_again
	start_guest next 3 mandelbrot --jobs 2; wait_guest $guest_pid next
	await 60 is 3 state available
done
nothing_more_is_held
end_tenants
