#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures how long libvirt waits for its hook, with a busy vgpud and for a domain without a claim; and how long a restart of
# vgpud takes, from its death to a VF's next slice. One JSON object on stdout; nothing is asserted.
# Usage: VGPU_BUILD=DIR hook.sh [ROUNDS]
. "$(dirname "$0")/../system/lib.sh"
rounds=${1:-300}
export VGPUD_HOOK_SOCKET=$run/hook.sock VGPUD_LIBVIRT_DIR=$run
hook_program=$VGPU_BUILD/tools/libvirt/hook/vgpud-hook
start_softgpu --vfs 4
config <<-CONF
	vfs = 4
	slice_us = 1000
CONF
start_vgpud
start_guest a 0 sha256 --seconds 1000
start_guest b 1 gemm --seconds 1000
start_guest c 2 spin --seconds 1000
await 30 active 3
claim="<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'/></v:vgpu>"
echo "<domain><name>vm1</name><uuid>8a1f0b3c-0000-4000-8000-000000000001</uuid><metadata>$claim</metadata></domain>" >"$run/with.xml"
echo "<domain><name>vm1</name></domain>" >"$run/without.xml"
# measure FILE OPERATIONS...: prints the duration of each call in microseconds, one per line
measure() {
	local file=$1 i from operation
	shift
	for i in $(seq "$rounds"); do
		for operation; do
			from=${EPOCHREALTIME/./}
			"$hook_program" vm1 "$operation" begin - <"$file" || fail "the hook refused $operation"
			echo $((${EPOCHREALTIME/./} - from))
		done
	done
}
quantiles() { jq -cs 'sort | {n: length, p50_us: .[length / 2 | floor], p99_us: .[length * 99 / 100 | floor], max_us: .[-1]}'; }
asked=$(measure "$run/with.xml" start started | quantiles)
"$hook_program" vm1 release end - <"$run/with.xml"
passed=$(measure "$run/without.xml" prepare | quantiles)
for i in $(seq 10); do
	await 10 at_least 0 dispatches 1
	kill -9 $vgpud_pid
	wait $vgpud_pid 2>/dev/null
	from=${EPOCHREALTIME/./}
	"$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
	vgpud_pid=$!
	until [ "$(vf 0 dispatches 2>/dev/null)" -gt 0 ] 2>/dev/null; do sleep 0.005; done
	echo $((${EPOCHREALTIME/./} - from)) >>"$run/restarts"
done
restarts=$(quantiles <"$run/restarts")
jq -n --argjson a "$asked" --argjson p "$passed" --argjson r "$restarts" \
	'{hook_asks_vgpud: $a, hook_without_a_claim: $p, restart_to_next_slice: $r}'
