#!/bin/bash
# SPDX-License-Identifier: MIT
# softgpu starts on a host without a free CPU: its test must not take the host's delays for a device that cannot be stopped.
. "$(dirname "$0")/lib.sh"
for _ in $(seq $((6 * $(nproc)))); do
	while :; do :; done &
done
"$softgpu" --dir "$run/gpu" --vram 256M --engine host --vfs 1 --window 32M --no-realtime 2>>"$run/softgpu.log" &
softgpu_pid=$!
await 300 test -S "$run/gpu/pf.sock"
! grep 'cannot be stopped' "$run/softgpu.log" || fail "the test of the device has failed"
grep -q 'work stops within' "$run/softgpu.log" || fail "softgpu's log does not say how work is stopped"
kill $softgpu_pid
wait $softgpu_pid || fail "softgpu ended with $?"
