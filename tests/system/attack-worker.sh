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
if [ -n "${OLD_KERNEL:-}" ]; then
	! sanitized "$softgpu" || { echo "skipped: nothing can be loaded before a sanitizer"; exit 77; }
	printf '#!/bin/sh\nLD_PRELOAD=%s exec %s "$@"\n' "$VGPU_BUILD/tests/system/libold_kernel.so" "$softgpu" >"$run/bin/old"
	chmod 755 "$run/bin/old"
	softgpu=$run/bin/old
fi
start_tenants --engine host --window 32M --kill-after 2000
had=$(descriptors)
# A worker that need not stop has no real-time priority.
w=$(process_of 3 softgpu-worker)
[ "$(awk '{print $41}' "/proc/$w/stat")" = 0 ] || fail "the worker of VF 3, which has no work, is real-time"
taken_over() { [ "$(readlink "/proc/$(process_of 3 softgpu-worker)/exe")" -ef "$run/libexec/vgpud/softgpu-worker" ]; }
was_reset() { at_least 3 resets $((resets + 1)); }
kinds=${*:-asks fences lingers}
for kind in $kinds; do
	control "$kind"
	resets=$(vf 3 resets)
	becomes "$kind"
	ends 3 # and its worker
	await 30 taken_over
	becomes none # but this one
	await 30 is 3 state available
	p=$(process_of 3)
	observe before
	start_guest victim 3 mandelbrot --depth 16 --seconds 600; victim=$guest_pid
	await 60 was_reset
	neighbours_keep "a worker that was taken over: $kind"
	[ "$(process_of 3)" = "$p" ] || fail "$kind: the VF's process waited for its worker"
	kill -INT $victim
	wait $victim || fail "$kind: the guest ended with $?: $(cat "$run/victim.log")"
	await 30 is 3 state available
	start_guest after 3 sha256 --jobs 2 --seconds 100
	wait_guest $guest_pid after
	await 30 is 3 state available
done
await 30 no_more_descriptors "$had"
end_tenants
