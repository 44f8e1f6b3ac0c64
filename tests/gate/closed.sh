#!/bin/bash
# SPDX-License-Identifier: MIT
# closed.sh [SECONDS]: the gates of two programs, which wait for their GPU in every way that Vulkan has, stay shut so long (10 minutes): for
# the first tenth because the policy prefers another program that always has work, then because vgpud is stopped. They use
# hardly any CPU meanwhile, and end right when the gates open.
. "$(dirname "$0")/../system/lib.sh"
seconds=${1:-600}
. "$(dirname "$0")/lavapipe.sh"
waits=$VGPU_BUILD/tests/gate/gate-waits
export LP_NUM_THREADS=1
config vulkan:llvmpipe <<CONF
vfs = 3
policy = prio
starve_ms = 1000000
grace_ms = 10000
CONF
start_vgpud
program() { # NAME CLASS PROGRAM...: sets $started; its standard input is $run/NAME.go
	local name=$1 class=$2
	shift 2
	mkfifo "$run/$name.go"
	ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 "$vgpuctl" run --gpu gpu0 "class=$class" -- "$@" \
		<>"$run/$name.go" >"$run/$name.json" 2>"$run/$name.log" &
	started=$!
}
ready() { grep -q 'ready on' "$run/$1.log"; }
ends_right() { # PID NAME
	wait "$1" || fail "program $2 ended with $?: $(cat "$run/$2.log" "$run/$2.json")"
	[ "$(jq .wrong "$run/$2.json")" = 0 ] || fail "program $2: wrong results: $(cat "$run/$2.json")"
}
program a 4 "$waits"; a=$started
program b 4 "$waits"; b=$started
await 60 ready a
await 60 ready b
program hog 0 "$load" --seconds 100000 --steps 20000 --deep 8; hog=$started
await 60 ready hog
vf_of() { json vf list | jq -r --arg d "[$1]" '.vfs[] | select(.domain // "" | endswith($d)) | .vf'; }
await 60 at_least "$(vf_of "$hog")" dispatches 1

# cpu_ms PID: of all its threads, until now.
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) * 1000 / hz }' "/proc/$1/stat"; }
turns() { json vf list | jq --argjson hog "$(vf_of "$hog")" '[.vfs[] | select(.vf != $hog).dispatches] | add'; }
had=$(turns)
shut=$(date +%s%N)
printf . >"$run/a.go"
printf . >"$run/b.go"
sleep $((seconds / 10))
[ "$(turns)" = "$had" ] || fail "a program had a turn while another of class 0 had work"
kill -STOP "$vgpud_pid"
kill -9 "$hog" # its own gate may be shut just now
wait "$hog" 2>/dev/null
before=$(($(cpu_ms "$a") + $(cpu_ms "$b")))
sleep $((seconds - seconds / 10))
after=$(($(cpu_ms "$a") + $(cpu_ms "$b")))
kill -0 "$a" && kill -0 "$b" || fail "a program ended while its gate was shut"
open=$(date +%s%N)
kill -CONT "$vgpud_pid"
ends_right "$a" a
ends_right "$b" b
for name in a b; do
	jq -e --argjson ms $(((open - shut) / 1000000 - 100)) '.shortest_ms >= $ms' "$run/$name.json" >/dev/null ||
		fail "program $name was done before its gate opened: $(cat "$run/$name.json")"
done
# Each of the nine threads, and the layer's for its queue, looks ten times a second if it still has its device: together 0.3 % of a CPU,
# of which sanitizers make more.
budget=$(((seconds - seconds / 10) * 2 * 10))
echo "gates shut for $(((open - shut) / 1000000)) ms: both programs, $(jq .threads "$run/a.json") threads each, ended right; CPU while vgpud was stopped $((after - before)) ms together"
[ $((after - before)) -le $budget ] || fail "programs that wait used $((after - before)) ms of CPU while vgpud was stopped, more than $budget"
