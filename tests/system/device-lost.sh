#!/bin/bash
# SPDX-License-Identifier: MIT
# device-lost.sh [driver|firmware]: the GPU dies while vgpud runs and comes back: vgpud reports the loss, finds the GPU again and schedules it with the settings
# that were changed before the loss. On a GPU that vgpud switches, and on one that schedules itself.
kind=${1:-driver}
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hooks.sh"
start_softgpu --vfs 3 --scheduler "$kind"
config <<-CONF
	vfs = 3
	policy = wdrr
CONF
start_vgpud
start_guest a 0 sha256 --seconds 60
await 30 is 0 state active
ctl policy set fair >/dev/null || fail "vgpuctl policy set failed"
ctl vf set 1 weight=250 >/dev/null || fail "vgpuctl vf set failed"
# A VM that has VF 2 is shown as what it is.
vm=$(claim "<v:device gpu='gpu0' vf='2'/>")
sequence 1 "$vm" prepare start && hook 1 "$vm" started || fail "$(cat "$run/said")"
ctl vm list | grep -q ' running ' || fail "vm1 does not run: $(ctl vm list)"
state_is() { [ "$(json gpu show | jq -r .state)" = "$1" ]; }
kill -9 $softgpu_pid
await 30 state_is lost
ctl gpu show | grep -q '^why' || fail "gpu show gives no reason for the loss"
ctl vm list | grep -q ' running, GPU lost ' || fail "vm list shows a VM whose GPU is lost as: $(ctl vm list)"
ctl vf set 1 weight=1 2>/dev/null && fail "vf set succeeded although the GPU is lost"
# Time stands still for the counters of a lost GPU: figures that are made of them are still figures.
for view in "top --count 2 --interval 0.05" "vf list" "policy explain" stats timeline "timeline --svg $run/t.svg" "timeline --html $run/t.html"; do
	ctl $view >>"$run/views" || fail "$view fails for a lost GPU"
done
! grep -iE '(^|[^a-z])-?(nan|inf)([^a-z]|$)' "$run/views" "$run/t.svg" "$run/t.html" || fail "a figure is not a number"
start_softgpu --vfs 3 --scheduler "$kind"
await 30 state_is running
[ "$(vf 1 params.weight)" = 250 ] || fail "VF 1 lost its weight of 250 with the GPU"
start_guest b 1 gemm --jobs 5; b=$guest_pid
wait_guest $b b
# The GPU fails so that all reads return ones: vgpud reports it as lost, too.
kill $vgpud_pid; wait $vgpud_pid; kill $softgpu_pid; wait $softgpu_pid
start_softgpu --vfs 3 --scheduler "$kind" --fault die,us=3000000
start_vgpud
start_guest c 0 sha256 --seconds 60
await 60 state_is lost
