#!/bin/bash
# SPDX-License-Identifier: MIT
# Two VFs that always have work take turns, and are stopped by force at the end of each, while a third one's worker comes and goes: that
# makes stops slow, because a GPU's driver holds its locks then. Counts the stops, the comings and goings, and what a stop that was too
# slow does to the two: resets, and workers that were killed, after the first of which their tenants have no work, so that it ends.
# Then measures what the worker of a VF that is stopped in its work takes of a CPU. One JSON object on stdout. With --engine cuda the
# driver is the one in software, or with VGPU_ON_GPU=yes the host's.
# Usage: VGPU_BUILD=DIR stops.sh host|cuda [STOPS [SECONDS]]
. "$(dirname "$0")/../system/lib.sh"
engine=$1 stops=${2:-10000} seconds=${3:-10} driver=
[ "$engine" != cuda ] || choose_driver
LD_LIBRARY_PATH=$driver start_softgpu --engine "$engine" --vfs 3 --window 32M
# turns US: starts vgpud with slices of so many microseconds.
turns() {
	config <<-CONF
		vfs = 3
		policy = equal
		slice_us = $1
		grace_ms = 10000
	CONF
	start_vgpud
}
turns 2000
for i in 0 1; do
	start_guest "tenant$i" $i endless --seconds 3600
done
await 60 active 2
worker() { process_of "$1" softgpu-worker; }
count() { json vf list | jq "[.vfs[0, 1].$1] | add"; }
has_worker() { [ -n "$(worker 2)" ]; }
has_none() { [ -z "$(worker 2)" ]; }
begun=$(count dispatches) resets=$(count resets) churns=0 had=0 workers=("$(worker 0)" "$(worker 1)")
killed() { # prints how many of the two workers are not there any more
	local p n=0
	for p in "${workers[@]}"; do [ -e "/proc/$p" ] || n=$((n + 1)); done
	echo $n
}
unharmed() { [ "$(killed)" = 0 ] && [ "$(count resets)" = "$resets" ]; }
while [ $had -lt "$stops" ] && unharmed; do
	ctl memory set 2 none >/dev/null || fail "$(ctl memory show)"
	await 60 has_none
	ctl memory set 2 64M >/dev/null || fail "$(ctl memory show)"
	await 60 has_worker
	churns=$((churns + 1)) last=$had had=$(($(count dispatches) - begun))
	[ $had -gt "$last" ] || ! unharmed || fail "nobody was stopped while VF 2's worker came and went: $(ctl events)"
done
resets=$(($(count resets) - resets)) killed=$(killed) took=null
[ "$killed" = 0 ] || { ctl events; tail "$run/softgpu.log"; } >&2
# vgpud stands still just after a turn of VF 1 has begun: VF 0 is stopped in the middle of its work, and stays so.
if [ "$killed" = 0 ]; then
	kill "$vgpud_pid"; wait "$vgpud_pid"
	turns 500000
	waits() { json vf list | jq -e '(.vfs[0] | .on_engine | not) and .vfs[0].has_work and .vfs[1].on_engine' >/dev/null; }
	await 30 is 0 on_engine true
	await 30 waits
	kill -STOP "$vgpud_pid"
	ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }
	before=$(ticks "${workers[0]}")
	sleep "$seconds" # what is measured is how little happens meanwhile
	took=$(($(ticks "${workers[0]}") - before))
	kill -CONT "$vgpud_pid"
fi
jq -n --arg machine "$(this_machine)" --arg engine "$engine" --arg driver "$([ "$engine" = cuda ] && driver_name)" --argjson stops $had \
	--argjson churns $churns --argjson resets $resets --argjson killed "$killed" --argjson took "$took" --argjson seconds "$seconds" \
	--argjson hz "$(getconf CLK_TCK)" '
	{bench: "stops", machine: $machine, engine: $engine} + (if $driver == "" then {} else {driver: $driver} end) +
	{stops: $stops, comings_and_goings: $churns, resets: $resets, workers_killed: $killed,
	 stopped_cpu_percent: (if $took then $took / $hz / $seconds * 100 else null end)}'
