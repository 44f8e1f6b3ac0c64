#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpu-sim replays vgpud's recordings, made while policies change, bit for bit. It refuses damaged recordings and survives
# forged ones.
. "$(dirname "$0")/lib.sh"
sim=$VGPU_BUILD/tools/sim/vgpu-sim
start_softgpu --vfs 3 --latency idle=10-30,save=20-60,load=20-60
config <<-CONF
	vfs = 3
	policy = strict
CONF
start_vgpud
start_guest a 0 mixed --seconds 100; a=$guest_pid
start_guest b 1 gemm --seconds 100; b=$guest_pid
start_guest c 2 interactive --seconds 100; c=$guest_pid
await 30 active 3
await 60 at_least 0 dispatches 100
ctl record --output "$run/early.rec" || fail "vgpuctl record failed"
"$sim" replay "$run/early.rec" || fail "the replay differs from the early recording"
ctl policy set fair slice_us=2000 >/dev/null || fail "vgpuctl policy set failed"
ctl vf set 1 weight=300 >/dev/null || fail "vgpuctl vf set failed"
ctl policy set qos >/dev/null || fail "vgpuctl policy set failed"
# qos refuses the guarantee while switches look too slow for it, as they do after the machine has stood still.
await 60 ctl vf set 0 min_ppm=100000
await 60 at_least 0 dispatches 300
ctl record --output "$run/middle.rec" || fail "vgpuctl record failed"
"$sim" replay "$run/middle.rec" || fail "the replay differs from the recording with changes of policy"
# Late enough that the first segments are gone: the recording begins with an image of the state at that time.
ctl policy set slice_us=500 >/dev/null || fail "vgpuctl policy set failed"
steps() { [ "$(json stats | jq .steps)" -gt 17000 ]; }
await 120 steps
ctl record --output "$run/late.rec" || fail "vgpuctl record failed"
"$sim" replay "$run/late.rec" || fail "the replay differs from the late recording"
"$sim" replay --log "$run/late.rec" | grep "\"policy\":\"qos\"" >/dev/null || fail "the recording does not name the policy qos"
kill -INT $a $b $c
wait_guest $a a; wait_guest $b b; wait_guest $c c
# A recording that was cut short is refused.
head -c 5000 "$run/early.rec" >"$run/short.rec"
"$sim" replay "$run/short.rec" && fail "vgpu-sim accepted a recording that was cut short"
# A recording with one changed byte, anywhere, is refused.
for i in $(seq 60); do
	I=$i perl -e 'local $/; $_ = <STDIN>; $at = int(length($_) * ($ENV{I} - 0.5) / 60); substr($_, $at, 1) ^= chr($ENV{I}); print' \
		<"$run/late.rec" >"$run/bad.rec"
	"$sim" replay "$run/bad.rec" >"$run/said" 2>&1
	[ $? = 2 ] || fail "vgpu-sim did not refuse a recording with a changed byte: $i: $(cat "$run/said")"
done
# Recordings are forged: their contents change and their checksum is made to fit. The replay differs, or it crashes in a
# process of its own, and vgpu-sim reports that. A sanitizer's report about that process is no failure of this test.
found=0
for i in $(seq 20); do
	I=$i perl -e 'use integer; local $/; $_ = <STDIN>; ($header, $text) = (200, unpack("Q", substr($_, 184, 8)));
		substr($_, $header + $text + (length($_) - $header - $text - 8) * $ENV{I} / 40, 8) = pack("Q", $ENV{I} * 1000003);
		substr($_, 192, 8) = pack("Q", 0); $h = 0xcbf29ce484222325; $h = ($h ^ $_) * 0x100000001b3, $h ^= $h >> 32 & 0xffffffff for unpack("Q*", $_ . "\0" x ((8 - length($_) % 8) % 8));
		substr($_, 192, 8) = pack("Q", $h); print' <"$run/late.rec" >"$run/forged.rec"
	said=$(ASAN_OPTIONS=abort_on_error=1 UBSAN_OPTIONS='' "$sim" replay "$run/forged.rec" 2>&1)
	status=$?
	[ $status -le 2 ] || fail "a forged recording crashed vgpu-sim replay: $i: $status: $said"
	[[ "$said" != *"sum is not"* ]] || fail "the test computes the checksum of a recording wrongly: $said"
	[ $status = 0 ] || found=$((found + 1))
	said=$(ASAN_OPTIONS=abort_on_error=1 UBSAN_OPTIONS='' "$sim" audit "$run/forged.rec" 2>&1)
	status=$?
	[ $status -le 2 ] || fail "a forged recording crashed vgpu-sim audit: $i: $status: $said"
done
[ $found -gt 0 ] || fail "vgpu-sim replay accepted all forged recordings"
