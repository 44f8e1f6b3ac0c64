#!/bin/bash
# SPDX-License-Identifier: MIT
# Draws docs/figures/timeline.svg: what vgpuctl shows of softgpu with four tenants of weights 300, 200, 100 and 100. The last one hogs
# the engine: its work cannot be stopped for 8 ms. The leases are those of VMs; programs compute in their place.
. "$(dirname "$0")/../system/lib.sh"
. "$(dirname "$0")/../system/hooks.sh"
figures=$(cd "$(dirname "$0")/../../docs/figures" && pwd)
start_softgpu --vfs 4 --latency "idle=10-20,save=20-40,load=20-40,run=5"
config <<-CONF
	vfs = 4
	policy = fair
	slice_us = 2000
CONF
start_vgpud
n=0
for vm in "render 300" "office 200" "batch 100" "hog 100"; do
	domain $n "$(claim "<v:device gpu='gpu0' vf='$n'/><v:sched><v:weight>${vm#* }</v:weight></v:sched>")" | sed "s/>vm$n</>${vm% *}</" |
		"$hook_program" "${vm% *}" reconnect begin - || fail "the hook failed"
	n=$((n + 1))
done
for i in 0 1 2; do start_guest g$i $i spin --us 20000 --depth 16 --seconds 300; done
start_guest hog 3 hog --us 8000 --depth 4 --seconds 300
await 30 active 4
ran_all() { [ "$(json vf list | jq '[.vfs[].dispatches] | min')" -gt 50 ]; }
await 60 ran_all
ctl timeline --ms 100 --svg "$figures/timeline.svg" || fail "vgpuctl draws no timeline"
ctl vf list
