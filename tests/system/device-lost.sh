#!/bin/bash
# SPDX-License-Identifier: MIT
# The device dies under vgpud, and comes back: vgpud says so, finds it again, and schedules on,
# with what had been changed meanwhile.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 2
config <<-CONF
	vfs = 2
	policy = strict
CONF
start_vgpud
start_guest a 0 sha256 --seconds 60
await 30 is 0 state active
ctl policy set fair >/dev/null || fail "policy set"
ctl vf set 1 weight=250 >/dev/null || fail "vf set"
state_is() { [ "$(json gpu show | jq -r .state)" = "$1" ]; }
kill -9 $softgpu_pid
await 30 state_is lost
ctl gpu show | grep -q '^why' || fail "no reason"
ctl vf set 1 weight=1 2>/dev/null && fail "a change was taken although the device is gone"
start_softgpu --vfs 2
await 30 state_is running
[ "$(vf 1 params.weight)" = 250 ] || fail "a change was forgotten"
start_guest b 1 gemm --jobs 5; b=$guest_pid
wait_guest $b b
# and one that answers with ones only
kill $vgpud_pid; wait $vgpud_pid; kill $softgpu_pid; wait $softgpu_pid
start_softgpu --vfs 2 --fault die,us=3000000
start_vgpud
start_guest c 0 sha256 --seconds 60
await 60 state_is lost
