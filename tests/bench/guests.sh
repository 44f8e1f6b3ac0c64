#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures the path of a guest that has the GPU to itself: from its doorbell to its first tile, from its fence until it runs
# again, and small jobs a second; beside a futex ping-pong and a bare loop. One JSON object on stdout; nothing is asserted.
# Usage: VGPU_BUILD=DIR guests.sh [JOBS]
. "$(dirname "$0")/../system/lib.sh"
tools=${BENCH_TOOLS:-$VGPU_BUILD}/tests/bench
start_softgpu --vfs 1
config <<-CONF
	vfs = 1
CONF
start_vgpud
await 30 is 0 state available
"$tools/bench-guest" "$run/gpu/vf0.sock" "${1:-2000}" >"$run/guest.json" 2>"$run/guest.log" || fail "bench-guest ended with $?"
jq --arg machine "$(this_machine)" '{bench: "guests", machine: $machine} + .' "$run/guest.json"
