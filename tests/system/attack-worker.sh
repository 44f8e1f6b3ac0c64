#!/bin/bash
# SPDX-License-Identifier: MIT
# The worker of one VF is taken over, while three tenants compute on the other VFs with workers of their own. They keep their
# shares, wait no longer than without an attack by more than a slice and the grace, and are not reset; and the process of that
# VF goes on serving its client. attack-worker.sh KIND...: what a worker is that is taken over (tests/system/impostor.c).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
grace_ms=4000
use_impostors softgpu-worker
becomes none
start_tenants --engine host --window 32M --kill-after 2000
had=$(descriptors)
was_reset() { at_least 3 resets $((resets + 1)); }
for kind in ${*:-deaf asks fences scribble truncate}; do
	resets=$(vf 3 resets)
	becomes "$kind"
	ends 3 # and its worker: the next one is taken over
	await 30 runs 3
	await 30 is 3 state available
	observe before
	start_guest victim 3 spin --us 50000 --depth 16 --seconds 600; victim=$guest_pid
	await 60 was_reset
	neighbours_keep "a worker that was taken over: $kind"
	! grep "its process is killed" "$run/softgpu.log" || fail "$kind: the VF's process waited for its worker"
	kill -9 $victim 2>/dev/null # it may have ended when its VF was put into quarantine
	wait $victim 2>/dev/null
	await 60 free_again
done
becomes none
ends 3
await 30 runs 3
start_guest next 3 mandelbrot --jobs 2; wait_guest $guest_pid next
await 30 is 3 state available
await 30 no_more_descriptors "$had"
end_tenants
