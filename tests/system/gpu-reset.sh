#!/bin/bash
# SPDX-License-Identifier: MIT
# A VF blocks the engine and its own reset fails. By default vgpud retries the reset of the VF. With gpu_reset = yes vgpud
# resets the whole GPU and sets it up again, and the GPU serves new tenants; the same holds if a VF is swapped out.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 2 --fault hang,cmd=idle,vf=1,count=1 --fault refuse-reset,vf=1,count=1
config <<-CONF
	vfs = 2
	policy = equal
	grace_ms = 1000
CONF
start_vgpud
start_guest a 0 sha256 --seconds 100; a=$guest_pid
start_guest b 1 spin --seconds 100; b=$guest_pid
await 60 at_least 1 resets 2
await 30 is 1 state active
[ "$(vf 0 resets)" = 0 ] || fail "VF 0, which did nothing wrong, was reset"
kill -INT $a $b
wait_guest $a a; wait_guest $b b
kill $vgpud_pid; wait $vgpud_pid; kill $softgpu_pid; wait $softgpu_pid
rm -rf "$run/gpu"

for host in '' 'host_memory_mib = 320'; do
	start_softgpu --vfs 2 --latency gpu-reset=20000 --fault hang,cmd=idle,vf=1,count=1 --fault refuse-reset,vf=1,count=1
	config <<-CONF
		vfs = 2
		policy = equal
		grace_ms = 1000
		gpu_reset = yes
		$host
	CONF
	start_vgpud
	start_guest a 0 sha256 --seconds 100
	start_guest b 1 spin --seconds 100
	gpu_reset_seen() { json events | jq -e '[.records[] | select(.type == "reset-done" and .what == "gpu" and .b == 0)] | length == 1'; }
	await 60 gpu_reset_seen
	await 30 is 0 state available
	await 30 test -S "$run/gpu/vf0.sock"
	start_guest c 0 gemm --jobs 5; c=$guest_pid
	start_guest d 1 sha256 --jobs 5; d=$guest_pid
	wait_guest $c c; wait_guest $d d
	[ "$(vf 0 hangs)" = 0 ] && [ "$(vf 1 hangs)" = 1 ] || fail "the hang was not counted for VF 1 alone"
	kill $vgpud_pid; wait $vgpud_pid; kill $softgpu_pid; wait $softgpu_pid
	rm -rf "$run/gpu"
done
