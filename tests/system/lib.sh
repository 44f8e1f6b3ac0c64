# SPDX-License-Identifier: MIT
# Sourced by the system tests, which run the real programs on sockets of their own. All programs end with the test.
# A test waits for a condition, with a deadline; a deadline that passes is a failure.
set -uo pipefail
softgpu=$VGPU_BUILD/tools/softgpu/device/softgpu
vgpud=$VGPU_BUILD/scheduler/daemon/vgpud
vgpuctl=$VGPU_BUILD/tools/vgpuctl/vgpuctl
guest=$VGPU_BUILD/tools/softgpu/guest/vgpu-guest
run=$(mktemp -d /tmp/vgpud-test.XXXXXX)
pids=() # of programs that end with the test although another program has started them
# Sanitizers write their reports here, whatever a test does with the output of its programs: a test that expects a program
# to refuse something must not take a crash for the refusal.
for options in ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS; do
	export "$options=${!options:+${!options}:}log_path=$run/sanitizer"
done
# The length of slices, in us, for tests of strict that judge when turns end: its default. ThreadSanitizer makes what vgpud
# itself does at the end of a turn ten times as long, and that is no lateness of vgpud's.
tsan='' slice_us=2000
! grep -qa __tsan_init "$vgpud" || tsan=yes slice_us=4000
# Whether PROGRAM is built with a sanitizer of addresses or threads, before which no library can be loaded. The file is read without a
# pipe: a writer that is cut off when grep has seen enough would, with pipefail, look as if nothing had been found.
sanitized() { grep -qaE '__(a|t)san_init' "$1"; }
command -v jq >/dev/null || { echo "skipped: jq is missing"; exit 77; }

# A description of this machine, for benchmarks.
this_machine() { echo "$(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo), $(nproc) CPUs, Linux $(uname -r)"; }
fail() {
	echo "FAILED: $*"
	for f in "$run"/*.log; do [ -s "$f" ] && { echo "--- $f"; tail -30 "$f"; }; done
	exit 1
}
finish() {
	local r=$? p
	for p in $(jobs -p) "${pids[@]}"; do kill -9 "$p" 2>/dev/null; done
	wait 2>/dev/null
	# Any report of a sanitizer is a failure, even if the test passed. A confined program may only be able to write its
	# report to standard error, or may fail to open the report file: both are found here, too.
	reports=$(find "$run" -type f -exec grep -laE \
		"ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:|ERROR: Can't open file: $run/sanitizer" {} +)
	if [ -n "$reports" ]; then
		echo "FAILED: a sanitizer has found something"
		for f in $reports; do echo "--- $f"; head -60 "$f"; done
		r=1
	fi
	rm -rf "$run"
	exit $r
}
trap finish EXIT

await() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || fail "timed out waiting for: $*"
		sleep 0.02
	done
}
ctl() { "$vgpuctl" --socket "$run/control.sock" "$@"; }
json() { ctl -o json "$@"; }
# vf N FIELD: prints a field of VF N.
vf() { json vf show "$1" | jq -r ".$2"; }
is() { [ "$(vf "$1" "$2")" = "$3" ]; }
# last_reset N: when the last reset of VF N began, which events say also when it has ended since; null: there was none.
last_reset() { json events --limit 1000 | jq --argjson vf "$1" '[.records[] | select(.vf == $vf and .type == "reset") | .t_ns] | max'; }
# begin_reset N: has VF N reset, by $reset, and returns when that has begun.
begin_reset() {
	local before
	before=$(last_reset "$1") || fail "vgpuctl events failed"
	ctl vf reset "$1" &
	reset=$!
	await 60 reset_has_begun "$1" "$before"
}
reset_has_begun() { # N BEFORE
	local at
	at=$(last_reset "$1") && [ -n "$at" ] && [ "$at" != "$2" ]
}
# look NAME: saves vgpud's view of all VFs as NAME.json.
look() { json vf list >"$run/$1.json"; }
at_least() { [ "$(vf "$1" "$2")" -ge "$3" ]; }
# A VF's partition in MiB: its size (mib) and its offset (at). clean: no memory is waiting to be cleared.
mib() { echo $(($(vf "$1" memory_bytes) >> 20)); }
at() { echo $(($(vf "$1" memory_offset) >> 20)); }
clean() { [ "$(json memory show | jq .scrubbing_bytes)" = 0 ]; }

start_softgpu() { # options
	"$softgpu" --dir "$run/gpu" --vram 256M "$@" 2>>"$run/softgpu.log" &
	softgpu_pid=$!
	await 120 test -S "$run/gpu/pf.sock"
}
# meson puts the folders of libraries that a test needs into LD_LIBRARY_PATH. This takes them out: softgpu would take the library of
# tools/cuda for the host's driver, which then "sees no GPU".
only_host_libraries() { LD_LIBRARY_PATH=$(tr : '\n' <<<"${LD_LIBRARY_PATH:-}" | grep -v "^$VGPU_BUILD/" | paste -sd:); }
# Ends the test as skipped if softgpu finds no NVIDIA GPU here that it can use.
need_gpu() {
	local try
	only_host_libraries
	"$softgpu" --dir "$run/try" --engine cuda --vfs 1 2>"$run/try.log" &
	try=$!
	tried() { [ -S "$run/try/pf.sock" ] || ! kill -0 $try 2>/dev/null; }
	await 90 tried
	if [ ! -S "$run/try/pf.sock" ]; then
		grep -qE 'no NVIDIA driver|sees no GPU|is too old' "$run/try.log" || fail "softgpu does not start on this GPU"
		echo "skipped: $(cat "$run/try.log")"
		exit 77
	fi
	kill $try; wait $try
}
# Sets $driver, the LD_LIBRARY_PATH with which softgpu finds its CUDA driver: the one in software or, with VGPU_ON_GPU=yes, the
# host's own. Programs of the VF do not have the host's path: they are to find the library of tools/cuda.
choose_driver() {
	driver=$VGPU_BUILD/tools/cuda/driver
	[ "${VGPU_ON_GPU:-}" = yes ] || return 0
	need_gpu
	driver=${LD_LIBRARY_PATH:-}
	unset LD_LIBRARY_PATH
}
# The driver's name, for benchmarks: on a GPU what softgpu says that it computes on.
driver_name() {
	if [ "${VGPU_ON_GPU:-}" = yes ]; then sed -n 's/.*softgpu: ready at .*, on //p' "$run/softgpu.log"; else echo "in software"; fi
}
# The process of VF N, or its worker; nothing if there is none.
process_of() { # N [PROGRAM]
	local p
	for p in $(cat /proc/"$softgpu_pid"/task/*/children); do
		tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -q "${2:-softgpu-vf} .*--vf $1 " && echo "$p"
	done
}
config() { # [DEVICE]: reads further lines for the GPU on stdin
	cat >"$run/vgpud.conf" <<CONF
[daemon]
socket = $run/control.sock
${daemon_keys:-}
[gpu gpu0]
device = ${1:-vfio-user:$run/gpu/pf.sock}
$(cat)
CONF
}
start_vgpud() {
	"$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
	vgpud_pid=$!
	await 30 ctl gpu list
}
# start_lost CONFIG REASON: vgpud runs with that configuration and a GPU that it cannot open, says why, and is ended. Returns false if it
# does not say so within a minute. What it says is in $run/lost.txt.
start_lost() {
	local pid end=$((SECONDS + 60)) said=1
	"$vgpud" --config "$1" 2>"$run/lost.txt" &
	pid=$!
	while [ $said = 1 ] && [ $SECONDS -lt $end ]; do
		sleep 0.05
		grep -q "GPU lost: it cannot be opened: .*$2" "$run/lost.txt"
		said=$?
	done
	# Once it answers, a signal ends it cleanly.
	[ $said != 0 ] || "$vgpuctl" --socket "$(sed -n 's/^socket = //p' "$1")" gpu list >/dev/null 2>&1
	kill $pid
	wait $pid
	return $said
}
# start_guest_at NAME SOCKET WORKLOAD options: starts a guest that writes its report to NAME.json; sets $guest_pid.
start_guest_at() {
	local name=$1 socket=$2
	shift 2
	"$guest" "$@" --json --socket "$socket" >"$run/$name.json" 2>>"$run/$name.log" &
	guest_pid=$!
}
# start_guest NAME VF WORKLOAD options
start_guest() {
	local name=$1 vf=$2
	shift 2
	start_guest_at "$name" "$run/gpu/vf$vf.sock" "$@"
}
# wait_guest PID NAME: fails unless the guest exits with 0, has done jobs and all its results are right.
wait_guest() {
	wait "$1" || fail "guest $2 ended with $?: $(cat "$run/$2.json" "$run/$2.log")"
	[ "$(jq .wrong "$run/$2.json")" = 0 ] || fail "guest $2: wrong results: $(cat "$run/$2.json")"
	[ "$(jq .jobs "$run/$2.json")" -gt 0 ] || fail "guest $2 has finished no job"
}
field() { jq -r ".$2" "$run/$1.json"; }
active() { [ "$(json vf list | jq '[.vfs[] | select(.state == "active")] | length')" = "$1" ]; }
# shares_kept PERCENT [VF=WEIGHT...] [turns=US]: fails unless vgpud keeps to its policy's bounds. vgpu-sim audits vgpud's own
# records for it: shares, waits and the ends of turns. The bounds are those of a machine that is never late, plus the lateness
# that the records show: the audit judges vgpud, not the machine. It compares VFs while they have work. Recording goes on until
# the bound is at most PERCENT of the time that two VFs (or all VFs named here) received, or for a minute if a slow machine has
# made the bound wide. The function makes sure that there are such VFs before it judges anything.
# VF=WEIGHT: the test states that this VF had work and has this weight. turns=US: the test states that half of all turns are
# planned to take at most US microseconds.
sim=$VGPU_BUILD/tools/sim/vgpu-sim
recordings=() since=0
steps() { json stats | jq .steps; }
audit() { # the recordings so far, as shares.json; waits since $since seconds of the ledgers' wall_ns
	"$sim" audit --json --from "$since" "${recordings[@]}" >"$run/shares.json" 2>"$run/audit.log"
	[ $? -lt 2 ] || fail "vgpu-sim cannot audit the recordings"
}
can_be_judged() { jq -e '[.vfs[] | select(.had_ns > 0)] | length > 1' "$run/shares.json" >/dev/null; }
ran_long() { # PERCENT VFS: at least VFS of them ran long enough for a bound of PERCENT
	jq -e --argjson p "$1" --argjson n "$2" '[.vfs[] | select(.had_ns > 100 / $p * .allowed_ns)] | length >= $n' "$run/shares.json" >/dev/null
}
# Saves recordings. Each holds at least the last 8000 steps, so on a machine that is not too slow it overlaps with the one
# before it; where steps are missing between two recordings, the audit starts again.
record_shares() { # PERCENT VFS
	local end=$((SECONDS + 60)) next=1 at soon
	recordings=()
	until [ $SECONDS -ge $end ]; do
		at=$(steps)
		recordings+=("$run/shares.${#recordings[@]}.rec")
		ctl record --output "${recordings[-1]}" >/dev/null || fail "vgpuctl record failed"
		if [ ${#recordings[@]} = $next ]; then
			next=$((next * 2))
			audit
			! ran_long "$1" "$2" || return 0
		fi
		soon=$((SECONDS + 2))
		until [ $SECONDS -gt $soon ] || [ "$(steps)" -ge $((at + 3000)) ]; do sleep 0.2; done
	done
	audit
	can_be_judged
}
shares_kept() {
	local percent=$1 turns=null weights='' vfs=0 i
	for i in "${@:2}"; do
		case $i in turns=*) turns=${i#*=} ;; *) weights+="${weights:+,}\"${i%=*}\":${i#*=}" vfs=$((vfs + 1)) ;; esac
	done
	for i in 1 2 3 4 5; do
		record_shares "$percent" $((vfs > 2 ? vfs : 2)) && break
		[ $i -lt 5 ] || fail "fewer than two tenants had work at the same time, so shares cannot be judged: $(ctl vf list)"
	done
	"$sim" audit "${recordings[@]}"
	[ "$(jq .broken "$run/shares.json")" = null ] || fail "vgpud broke a bound of its policy: $(jq -c . "$run/shares.json")"
	jq -e --argjson turns "$turns" --argjson weights "{$weights}" '. as $all
		| [$weights | to_entries[] | .value as $weight | $all.vfs[.key | tonumber] | select(.had_ns > 0) | .share / $weight] as $units
		| ($units | length) == ($weights | length) and (($units | max) // 1) <= (($units | min) // 1) * 1.000001 and
		  ($turns == null or ([.vfs[] | select(.had_ns > 0) | .planned_ns <= 1000 * $turns] | all))' "$run/shares.json" >/dev/null ||
		fail "weights and turns are not ${*:2}: $(jq -c . "$run/shares.json")"
}
