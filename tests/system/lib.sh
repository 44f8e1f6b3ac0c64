# SPDX-License-Identifier: MIT
# For the system tests: the real programs, on sockets of their own, ended when the test ends.
# Waiting is for something to become true, with a deadline; a deadline that passes is a failure.
set -uo pipefail
softgpu=$VGPU_BUILD/tools/softgpu/softgpu
vgpud=$VGPU_BUILD/scheduler/daemon/vgpud
vgpuctl=$VGPU_BUILD/tools/vgpuctl/vgpuctl
guest=$VGPU_BUILD/tools/guest/vgpu-guest
run=$(mktemp -d /tmp/vgpud-test.XXXXXX)
pids=()
command -v jq >/dev/null || { echo "skipped: jq is missing"; exit 77; }

# For figures.
this_machine() { echo "$(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo), $(nproc) CPUs, Linux $(uname -r)"; }
fail() {
	echo "FAILED: $*"
	for f in "$run"/*.log; do [ -s "$f" ] && { echo "--- $f"; tail -30 "$f"; }; done
	exit 1
}
finish() {
	local r=$? p
	for p in "${pids[@]}"; do kill -9 "$p" 2>/dev/null; done
	wait 2>/dev/null
	# A sanitizer's report is a failure, whatever the test thought of it.
	if grep -lE 'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error' "$run"/*.log 2>/dev/null; then
		cat "$run"/*.log
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
		[ $SECONDS -lt $end ] || fail "gave up waiting for: $*"
		sleep 0.02
	done
}
ctl() { "$vgpuctl" --socket "$run/control.sock" "$@"; }
json() { ctl -o json "$@"; }
# A number or word of a VF: vf N FIELD
vf() { json vf show "$1" | jq -r ".$2"; }
is() { [ "$(vf "$1" "$2")" = "$3" ]; }
at_least() { [ "$(vf "$1" "$2")" -ge "$3" ]; }
# A VF's partition in MiB, how large and where; and whether no memory waits to be cleared.
mib() { echo $(($(vf "$1" memory_bytes) >> 20)); }
at() { echo $(($(vf "$1" memory_offset) >> 20)); }
clean() { [ "$(json memory show | jq .scrubbing_bytes)" = 0 ]; }

start_softgpu() { # options
	"$softgpu" --dir "$run/gpu" --vram 256M "$@" 2>>"$run/softgpu.log" &
	softgpu_pid=$!
	pids+=($!)
	await 20 test -S "$run/gpu/pf.sock"
}
config() { # further lines for the GPU on stdin
	cat >"$run/vgpud.conf" <<CONF
[daemon]
socket = $run/control.sock
[gpu gpu0]
device = vfio-user:$run/gpu/pf.sock
$(cat)
CONF
}
start_vgpud() {
	"$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
	vgpud_pid=$!
	pids+=($!)
	await 30 ctl gpu list
}
# start_guest_at NAME SOCKET WORKLOAD options: its report goes to NAME.json; the pid to $guest_pid
start_guest_at() {
	local name=$1 socket=$2
	shift 2
	"$guest" "$@" --json --socket "$socket" >"$run/$name.json" 2>>"$run/$name.log" &
	guest_pid=$!
	pids+=($!)
}
# start_guest NAME VF WORKLOAD options
start_guest() {
	local name=$1 vf=$2
	shift 2
	start_guest_at "$name" "$run/gpu/vf$vf.sock" "$@"
}
# wait_guest PID NAME: it ends well, and nothing was wrong.
wait_guest() {
	wait "$1" || fail "guest $2 ended with $?: $(cat "$run/$2.json" "$run/$2.log")"
	[ "$(jq .wrong "$run/$2.json")" = 0 ] || fail "guest $2: wrong results: $(cat "$run/$2.json")"
	[ "$(jq .jobs "$run/$2.json")" -gt 0 ] || fail "guest $2 did nothing"
}
field() { jq -r ".$2" "$run/$1.json"; }
active() { [ "$(json vf list | jq '[.vfs[] | select(.state == "active")] | length')" = "$1" ]; }
# shares_kept PERCENT: of what the active VFs ran between two looks, with each of them having run for
# half a second. A machine that stands still for long in a window spoils it, so one of ten has to do.
ran_since() { # FILE MS: every active VF has run so long since the look in FILE
	json vf list >"$run/now.json" &&
		jq -en --slurpfile a "$1" --slurpfile b "$run/now.json" --argjson ms "$2" \
			'[range(0; $b[0].vfs | length) | select($b[0].vfs[.].state == "active") | $b[0].vfs[.].run_ns - $a[0].vfs[.].run_ns] | min > $ms * 1000000'
}
shares_in_window() { # PERCENT
	json vf list >"$run/before.json"
	await 60 ran_since "$run/before.json" 500
	jq -en --slurpfile a "$run/before.json" --slurpfile b "$run/now.json" --argjson p "$1" '
		[range(0; $b[0].vfs | length) | select($b[0].vfs[.].state == "active") | {
			promised: ($b[0].vfs[.].share_numerator / $b[0].vfs[.].share_denominator),
			run: ($b[0].vfs[.].run_ns - $a[0].vfs[.].run_ns)}]
		| (map(.run) | add) as $all | (map(.promised) | add) as $whole
		| map((.run / $all) / (.promised / $whole) - 1 | fabs) | max < $p / 100' >/dev/null
}
shares_kept() { # PERCENT
	local i
	for i in 1 2 3 4 5 6 7 8 9 10; do shares_in_window "$1" && return; done
	fail "shares are off by more than $1 %: $(ctl vf list)"
}
