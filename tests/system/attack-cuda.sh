#!/bin/bash
# SPDX-License-Identifier: MIT
# The guest of one VF, on CUDA's driver in software, has modules compiled that take memory and time, launches as much as it can, and has its
# rings wait for each other, while three tenants compute on the other VFs. They keep their shares, wait no longer than without an attack
# by more than a slice and the grace, and are not reset. A worker that takes more of the host's memory than it may ends, and its VF alone is
# reset. attack-cuda.sh KIND...: tests/system/attack_cuda.c.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
driver=$VGPU_BUILD/tools/cuda/driver
[ -e "$driver/libcuda.so.1" ] || fail "$driver/libcuda.so.1 is missing: build it first"
grace_ms=4000 worker_mib=192
LD_LIBRARY_PATH=$driver start_tenants --engine cuda --window 32M --kill-after 2000 --worker-memory ${worker_mib}M

# Little text, a million instructions: its worker ends before it has more memory than it may.
most=0
worker_ended() {
	local p kib
	p=$(process_of 3 softgpu-worker)
	kib=$(awk '/^RssAnon/ {print $2}' "/proc/$p/status")
	[ "${kib:-0}" -le $most ] || most=$kib
	grep -q "VF 3: its worker has died" "$run/softgpu.log"
}
: >"$run/attack.txt"
run_attack bomb >"$run/attack.txt" 2>&1 & attacker=$!
await 120 worker_ended
kill $attacker; wait $attacker 2>/dev/null
[ $most -le $(((worker_mib + 64) << 10)) ] || fail "a worker had $((most >> 10)) MiB, and may have $worker_mib"
echo "a worker that may have $worker_mib MiB had $((most >> 10)) MiB"
await 60 free_again
attack_all "${*:-bombs launches cycle}"
