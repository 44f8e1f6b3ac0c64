#!/bin/bash
# SPDX-License-Identifier: MIT
# A softgpu that schedules itself, governed by vgpud: shares by weight although one VF stops late, and while another one takes
# window after window; an idle VF; vgpud killed; plans that the GPU refuses; counters that freeze. Judged by the GPU's counters.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 4 --scheduler firmware --fault late-idle,vf=3,us=6000 --fault refuse-plan,count=2
config <<-CONF
	vfs = 4
	grace_ms = 400
	policy = fair
	[vf gpu0/0]
	weight = 200
CONF
gpu_field() { [ "$(json gpu show | jq -r ".$1")" = "$2" ]; }
said() { grep -q "$1" "$run/vgpud.log"; }
# Time on the engine since the look BEFORE, of all VFs together, in ms.
passed() { json vf list | jq --slurpfile a "$run/before.json" '([.vfs[].run_ns] | add) - ([$a[0].vfs[].run_ns] | add) | . / 1e6 | floor'; }
has_passed() { [ "$(passed)" -ge "$1" ]; }
# by_weight MS POINTS VF=WEIGHT...: while the VFs of this GPU use it for MS ms, each of those named here gets its share of what
# they get together, give or take POINTS percent of it. ThreadSanitizer slows the GPU's own scheduler, so that shares tell nothing.
by_weight() {
	local ms=$1 points=${tsan:+100} weights='' i
	points=${points:-$2}
	for i in "${@:3}"; do weights+="${weights:+,}\"${i%=*}\":${i#*=}"; done
	look before
	await 120 has_passed "$ms"
	look after
	jq -en --slurpfile a "$run/before.json" --slurpfile b "$run/after.json" --argjson w "{$weights}" --argjson points "$points" '
		[$w | to_entries[] | (.key | tonumber) as $i | {vf: $i, weight: .value, ran: ($b[0].vfs[$i].run_ns - $a[0].vfs[$i].run_ns)}]
		| (map(.ran) | add) as $all | (map(.weight) | add) as $weights
		| map(. + {off: (100 * (.ran / $all - .weight / $weights) | . * 100 | round / 100)})
		| stderr | all(.off | fabs <= $points)' >/dev/null 2>"$run/shares" || fail "shares are not by weight: $(cat "$run/shares")"
	cat "$run/shares"
	echo
}

# replays NAME: what vgpud has recorded of its governor is replayed, with the same outcome of every step.
replays() {
	ctl record --output "$run/$1.rec" || fail "vgpuctl record failed"
	"$sim" replay "$run/$1.rec" >"$run/said" 2>&1 || fail "the replay of $1 differs: $(cat "$run/said")"
	grep -q " [1-9][0-9]* decisions: the same" "$run/said" || fail "the recording $1 has no plan: $(cat "$run/said")"
	cat "$run/said"
}

# What no firmware can do is refused before vgpud takes the GPU, and later.
sed '/vf gpu0/,$d; s/policy = fair/policy = deadline/' "$run/vgpud.conf" >"$run/deadline.conf"
start_lost "$run/deadline.conf" "cannot run first the VF that is due" ||
	fail "a policy that firmware cannot carry out was not refused: $(cat "$run/lost.txt")"
sed '/^device/a gpu_reset = yes' "$run/vgpud.conf" >"$run/reset.conf"
start_lost "$run/reset.conf" "gpu_reset = yes: vgpud resets the whole GPU only where it switches the VFs" ||
	fail "gpu_reset was not refused on a GPU that schedules itself: $(cat "$run/lost.txt")"
"$vgpud" --config "$run/reset.conf" --check-config >"$run/said" 2>&1
[ $? = 78 ] && grep -q "\[gpu gpu0\]: gpu_reset = yes: " "$run/said" || fail "--check-config of gpu_reset: $(cat "$run/said")"
start_vgpud
ctl policy set deadline >"$run/said" 2>&1 && fail "policy deadline was taken"
grep -q "cannot run first the VF that is due" "$run/said" || fail "policy set: $(cat "$run/said")"
ctl memory set 1 none >"$run/said" 2>&1 && fail "a partition was changed"
grep -q "set the VFs' memory in the configuration" "$run/said" || fail "memory set: $(cat "$run/said")"

# The GPU refuses two plans: vgpud says so, and writes them again.
await 30 gpu_field plans_failed 2
await 30 said "the GPU has refused a part of the plan"
for n in 0 1 2 3; do start_guest g$n $n endless --seconds 1000; guests[n]=$guest_pid; done
await 60 active 4
ctl vf set 1 weight=100
await 30 gpu_field governor governed
by_weight 3000 100 0=2 # the first epochs
by_weight 9000 3 0=2 1=1 2=1 3=1
ctl vf list
[ "$(vf 3 late_ns)" -gt 1000000 ] || fail "vgpud has not found VF 3 late: $(ctl vf list)"

# All of it is recorded and replayed: refused plans, epochs, changes. The timeline shows who was served how much, and plans.
ctl policy set wdrr >/dev/null || fail "vgpuctl policy set failed"
ctl policy set fair >/dev/null || fail "vgpuctl policy set failed"
replays changes
ctl timeline --ms 60000 >"$run/timeline" || fail "vgpuctl timeline failed"
grep -qE "^VF 3 .*[1-7]{4}" "$run/timeline" && grep -qE '^plans .*\|' "$run/timeline" || fail "timeline: $(cat "$run/timeline")"
ctl timeline --svg "$run/t.svg" && grep -q "VF 3 served" "$run/t.svg" && ctl timeline --html "$run/t.html" || fail "pictures of the timeline"
ctl trace --ms 20000 >"$run/trace.json"
/usr/bin/python3 "$(dirname "$0")/trace-format.py" "$run/trace.json" >"$run/said" 2>&1 && grep -q '^1 processes, 4 threads, 0 slices, 4 counters, [1-9]' "$run/said" ||
	fail "the trace of a governed GPU: $(cat "$run/said")"
[ -n "$tsan" ] || jq -e '[.traceEvents[] | select(.ph == "C" and (.name | startswith("VF 3"))).args.served | select(. > 0)] | length > 5 and (add / length | . > 10 and . < 30)' "$run/trace.json" \
	>/dev/null || fail "trace has not what VF 3 was served"
# A recording in which one counter, of any reading, is another, with a sum that fits: the replay sees that something else follows.
for i in 1 2 3 4 5 6; do
	I=$i perl -e 'use integer; local $/; $_ = <STDIN>; ($n, $payload, $text) = unpack("Q3", substr($_, 168, 24)); $entries = length($_) - $payload - 40 * $n;
		for $k (0 .. $n - 1) { ($type, $at) = unpack("x16 L x8 L", substr($_, $entries + 40 * $k, 40)); push @found, $at if $type == 0x201 && $at }
		$at = length($_) - $payload + $found[@found * $ENV{I} / 7] - 1 + 8 * ($ENV{I} % 4);
		substr($_, $at, 8) = pack("Q", unpack("Q", substr($_, $at, 8)) + 1); substr($_, 192, 8) = pack("Q", 0);
		$h = 0xcbf29ce484222325; $h = ($h ^ $_) * 0x100000001b3, $h ^= $h >> 32 & 0xffffffff for unpack("Q*", $_ . "\0" x ((8 - length($_) % 8) % 8));
		substr($_, 192, 8) = pack("Q", $h); print' <"$run/changes.rec" >"$run/other.rec"
	"$sim" replay "$run/other.rec" >"$run/said" 2>&1
	[ $? = 1 ] && grep -q "of the governor differs" "$run/said" || fail "the replay of another recording: $(cat "$run/said")"
done

# VF 2 is idle, and then taken and left by one guest after another, each with two windows. Its neighbours share the rest.
kill -9 "${guests[2]}"
await 30 is 2 state available
(until [ -e "$run/enough" ]; do "$guest" spin --jobs 1 --us 100 --socket "$run/gpu/vf2.sock"; done) >/dev/null 2>&1 &
flood=$!
by_weight 6000 4 0=2 1=1 3=1
jq -en --slurpfile a "$run/before.json" --slurpfile b "$run/after.json" '[range(4) | $b[0].vfs[.].run_ns - $a[0].vfs[.].run_ns] | .[2] < (add / 5)' >/dev/null ||
	fail "windows have taken more than the share of VF 2: $(ctl vf list)"
touch "$run/enough"
wait $flood

# vgpud is killed: its last plan stands, guests go on, and another guest comes up. The next vgpud adopts all.
kill -9 $vgpud_pid
wait $vgpud_pid 2>/dev/null
start_guest alone 2 spin --jobs 3
wait_guest $guest_pid alone
start_vgpud
gpu_field adopted true || fail "$(ctl gpu show)"
for n in 0 1 3; do is $n state active || fail "VF $n was not adopted: $(ctl vf list)"; done
by_weight 5000 5 0=2 1=1 3=1
replays adopted
said "are not usable" && fail "vgpud took an adopted GPU's counters for nonsense"
for n in 0 1 3; do is $n guest_resets 0 || fail "VF $n was reset: $(ctl vf list)"; done
kill $vgpud_pid
wait $vgpud_pid || fail "vgpud ended with $?"
kill -9 $softgpu_pid "${guests[@]}" 2>/dev/null

# The counters freeze: the plan falls back to the policy's shares, and vgpud says why.
rm -r "$run/gpu" "$run/vgpud.log"
start_softgpu --vfs 2 --scheduler firmware --fault freeze-counters,us=2500000 --fault late-idle,vf=1,us=6000
config <<-CONF
	vfs = 2
	policy = fair
CONF
start_vgpud
for n in 0 1; do start_guest f$n $n endless --seconds 1000; done
await 60 gpu_field governor "counters stand still"
await 30 said "no VF's counter moves"
quanta_are_equal() { [ "$(vf 0 quantum_ns)" = "$(vf 1 quantum_ns)" ]; }
await 30 quanta_are_equal
replays frozen
