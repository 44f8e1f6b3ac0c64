#!/bin/bash
# SPDX-License-Identifier: MIT
# softgpu lets commands hang, loses interrupts, refuses a reset and answers IDLE late: all results of all tenants are right,
# and the GPU keeps running.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 3 --seed 5 --latency idle=10-30,save=20-60,load=20-60,run=~10/0.5,init=500 \
	--fault lose-irq,ppm=20000 --fault late-idle,vf=1,us=1000-2000 \
	--fault hang,cmd=save,vf=2,skip=30,count=1 --fault hang,cmd=load,vf=2,skip=60,count=1 \
	--fault refuse-reset,vf=2,count=1
config <<-CONF
	vfs = 3
	policy = equal
	grace_ms = 200
CONF
start_vgpud
start_guest a 0 mixed --seconds 100; a=$guest_pid
start_guest b 1 sha256 --seconds 100; b=$guest_pid
start_guest c 2 spin --us 500 --seconds 100; c=$guest_pid
await 90 at_least 2 hangs 2
await 60 is 2 state active
await 60 at_least 0 dispatches 200
[ "$(vf 0 hangs)" = 0 ] && [ "$(vf 1 hangs)" = 0 ] || fail "a hang was counted for VF 0 or VF 1, which had none"
kill -INT $a $b $c
wait_guest $a a; wait_guest $b b; wait_guest $c c
[ "$(field c resets)" -ge 2 ] || fail "the guest of VF 2 did not see its resets"
