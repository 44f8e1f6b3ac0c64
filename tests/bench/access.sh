#!/bin/bash
# SPDX-License-Identifier: MIT
# How long a client's accesses of a VF take while its neighbours are quiet, and while clients of three neighbours send as much
# as they can: small requests, doorbells, and reads of 256 KiB. Prints JSON; "machine" is what this machine needs for a trip
# by itself at the same time, so a ratio is to be compared with the machine's own.
. "$(dirname "$0")/../system/lib.sh"
tools=${BENCH_TOOLS:-$VGPU_BUILD}/tests/bench
start_softgpu --vfs 4
config <<-CONF
	vfs = 4
	policy = fair
CONF
start_vgpud
for n in 0 1 2 3; do await 30 is $n state available; done
accesses() { "$tools/bench-access" "$run/gpu/vf0.sock" 5000 >"$run/$1.json" || fail "bench-access ended with $?"; await 30 is 0 state available; }
accesses quiet
n=0
for kind in requests doorbells registers; do
	n=$((n + 1))
	"$VGPU_BUILD/tests/system/attack" $kind "$run/gpu/vf$n.sock" 600 >"$run/attack.$kind" 2>&1 &
done
accesses flooded
jq -n --arg machine "$(this_machine)" --slurpfile q "$run/quiet.json" --slurpfile f "$run/flooded.json" '
	{machine: $machine, quiet: $q[0], flooded: $f[0],
	 ratio_p50: ($q[0] | with_entries(.value = ($f[0][.key].p50_us / .value.p50_us * 100 | round / 100))),
	 ratio_p99: ($q[0] | with_entries(.value = ($f[0][.key].p99_us / .value.p99_us * 100 | round / 100)))}'
