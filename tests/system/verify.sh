#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpuctl verify, on softgpus that vgpud switches and that schedule themselves: bounds that are kept; a weight that acts and is
# put back, also after ^C; a GPU without work. What is planted is found: counters that freeze, a policy that breaks what it promises.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")/../.." && pwd)
[ "$(id -u)" = 0 ] || { echo "skipped: needs root, whom plug-ins have to belong to"; exit 77; }
# verifies CODE options: the report is report.json; what was printed is in said.
verifies() {
	local want=$1 got
	ctl verify --output "$run/report.json" "${@:2}" >"$run/said" 2>&1
	got=$?
	[ $got = "$want" ] || fail "vgpuctl verify ${*:2} ended with $got, want $want: $(cat "$run/said")"
}
# found FILTER: jq of the report's checks.
found() { jq -e "[.checks[] | select($1)] | length $2" "$run/report.json" >/dev/null || fail "not $2 checks with $1: $(cat "$run/said")"; }
weight_is() { [ "$(vf 1 params.weight)" = "$1" ]; }
all_busy() { [ "$(json vf list | jq '[.vfs[] | select(.work == "busy" or .has_work and .work == null)] | length')" = "$1" ]; }
again() { # ends all, to begin with another GPU
	kill -9 $vgpud_pid $softgpu_pid "${guests[@]}" 2>/dev/null
	wait $vgpud_pid $softgpu_pid "${guests[@]}" 2>/dev/null
	rm -rf "$run/gpu" "$run/vgpud.log"
	guests=()
}
guests=()
guests() { # how many: all work without end
	for n in $(seq 0 $(($1 - 1))); do start_guest g$n $n endless --seconds 1000; guests[n]=$guest_pid; done
	await 60 active "$1"
	await 60 all_busy "$1"
}

# A GPU that schedules itself, of which one VF stops late: shares are kept, and who stops late is said.
start_softgpu --vfs 4 --scheduler firmware --fault late-idle,vf=3,us=6000
echo "vfs = 4
grace_ms = 400
policy = fair" | config
start_vgpud
verifies 7 gpu0 --seconds 2
grep -q "nothing could be judged" "$run/said" || fail "without work: $(cat "$run/said")"
guests 4
verifies 0 gpu0 --seconds 12 --busy all --change 1
cat "$run/said"
found '.verdict == "BROKEN"' "== 0"
found '.check == "share" and .verdict == "kept"' "== 4"
found '.check == "received"' "== 4"
found '.check == "stops late" and .vf == 3 and .measured_ns > 3e6 and .measured_ns < 12e6' "== 1"
found '(.check == "change to plan" or .check == "change to effect") and .verdict == "kept" and .measured_ns > 0' "== 2"
weight_is 100 || fail "the weight of VF 1 was not put back"
jq -e '.format == "vgpud-verify-1" and .result == "kept" and .gpu.scheduler == "firmware" and (.samples | length) > 10 and
	([.epochs[] | select(.type == "served")] | length) > 40' "$run/report.json" >/dev/null || fail "the report lacks something"
# ^C, once and twice: the weight is put back.
for n in once twice; do
	"$vgpuctl" --socket "$run/control.sock" verify --seconds 2 --change 1 --output "$run/$n.json" >"$run/said" 2>&1 &
	asked=$!
	await 30 weight_is 200
	kill -INT $asked
	[ $n = once ] || kill -TERM $asked
	wait $asked
	got=$?
	weight_is 100 || fail "the weight of VF 1 was not put back after ^C $n: $(cat "$run/said")"
	[ $got != 0 ] || fail "verify was interrupted, and ended with 0"
done
jq -e .interrupted "$run/once.json" >/dev/null || fail "the report does not say that it was interrupted"
# What cannot be: a VF that is not there, a file that cannot be written, no such GPU.
verifies 2 --busy 0,4
verifies 2 --seconds 2 --change 4
verifies 5 gpu7
# A file that cannot be written is refused before anything is measured. One that can is replaced when the report is whole.
timeout 60 "$vgpuctl" --socket "$run/control.sock" verify --seconds 1000 --output "$run/none/report.json" >"$run/said" 2>&1
[ $? = 1 ] && grep -q "No such file" "$run/said" || fail "a report that cannot be written: $(cat "$run/said")"
jq -e .format "$run/report.json" >/dev/null || fail "the report of an earlier time did not stand"
[ -z "$(find "$run" -name '*.new')" ] || fail "a file was left half written"
ctl verify --seconds 1 --output /dev/stdout 2>/dev/null | cat >"$run/said"
sed '/^}$/q' "$run/said" | jq -e .format >/dev/null || fail "the report cannot be written to a pipe"

# Its counters freeze: who says that VFs work learns that they are not counted.
again
start_softgpu --vfs 2 --scheduler firmware --fault freeze-counters,us=2500000
echo "vfs = 2
grace_ms = 400
policy = fair" | config
start_vgpud
for n in 0 1; do start_guest g$n $n endless --seconds 1000; guests[n]=$guest_pid; done
await 60 active 2
verifies 6 --seconds 10 --busy all
found '.check == "counter moves" and .verdict == "BROKEN"' "== 2"
verifies 7 --seconds 2

# Nothing corrects a VF that stops late, and nothing is promised: what it had more is said.
again
start_softgpu --vfs 2 --scheduler firmware --fault late-idle,vf=1,us=12000
echo "vfs = 2
grace_ms = 400
policy = best-effort" | config
start_vgpud
guests 2
verifies 7 --seconds 4 --change 1
found '.check == "share" and .verdict == "not judged"' "== 2"
found '.check == "change to effect" and .verdict == "not judged" and (.what | contains("no weights"))' "== 1"

# A GPU that vgpud switches.
again
start_softgpu --vfs 3
config <<-CONF
	vfs = 3
	policy = fair
	[vf gpu0/0]
	weight = 200
CONF
start_vgpud
guests 3
verifies 0 --seconds 8 --busy 0,1,2 --change 1
cat "$run/said"
found '.check == "share" and .verdict == "kept"' "== 3"
found '.check == "wait" and .verdict == "kept" and .measured_ns > 0' "== 3"
found '.check == "received" and .vf == 0 and (.what | startswith("50") or startswith("49"))' "== 1"
found '.check == "change to effect" and .measured_ns > 0' "== 1"
weight_is 100 || fail "the weight of VF 1 was not put back"

# A policy that states equal shares and waits of 10 ms, gives VF 0 more, and lets it keep the others waiting for longer.
again
mkdir -m 755 "$run/plugins"
chmod 755 "$run"
sed 's/out->slice = t->slice;/out->slice = vf == 0 ? 3 * t->slice : t->slice;/; s/max_lag = VGPU_NEVER/max_lag = 20 * VGPU_MSEC/
	s/max_wait = VGPU_NEVER/max_wait = 10 * VGPU_MSEC/; s/VGPU_PROMISE_WORK_CONSERVING/& | VGPU_PROMISE_PROPORTIONAL/' "$here/docs/example/turns.c" >"$run/turns.c"
"${CC:-gcc}" -std=gnu11 -O1 -fPIC -shared -fvisibility=default -I"$here/scheduler/include" -o "$run/plugins/turns.so" "$run/turns.c" ||
	fail "cannot build the policy"
start_softgpu --vfs 3
echo "vfs = 3
policy = turns" | config
sed -i "s|^\[daemon\]|[daemon]\npolicy_dir = $run/plugins|" "$run/vgpud.conf"
start_vgpud
guests 3
verifies 6 --seconds 8 --busy all
found '.check == "share" and .verdict == "BROKEN"' "== 3"
found '.check == "wait" and .verdict == "BROKEN" and .vf > 0 and .measured_ns > 12e6' "== 2"
jq -e '.result == "BROKEN"' "$run/report.json" >/dev/null || fail "the report's result is not that a bound was broken"
