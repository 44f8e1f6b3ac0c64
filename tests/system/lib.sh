# SPDX-License-Identifier: MIT
# For the system tests: the real programs, on sockets of their own, ended when the test ends.
# Waiting is for something to become true, with a deadline; a deadline that passes is a failure.
set -uo pipefail
softgpu=$VGPU_BUILD/tools/softgpu/device/softgpu
vgpud=$VGPU_BUILD/scheduler/daemon/vgpud
vgpuctl=$VGPU_BUILD/tools/vgpuctl/vgpuctl
guest=$VGPU_BUILD/tools/softgpu/guest/vgpu-guest
run=$(mktemp -d /tmp/vgpud-test.XXXXXX)
pids=()
# Sanitizers write here, whatever a test does with the outputs of the program that they find fault with: where a refusal is
# wanted, a crash must not pass for one.
for options in ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS; do
	export "$options=${!options:+${!options}:}log_path=$run/sanitizer"
done
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
	# A sanitizer's report is a failure, whatever the test thought of it; also one that a confined program could only
	# write to its standard error, or not at all.
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
# shares_kept PERCENT: active VFs have what their policy promises them, by vgpud's own records (tests/lib/shares.jq), over
# a time in which each of them runs so long that the policy's bound is no more than PERCENT of it; or, where a slow machine
# has made bounds large, over a minute: the bound is kept over any time. Two of them at least have to have work all the
# time, which is found out before their shares are looked at.
shares_jq=$(dirname "${BASH_SOURCE[0]}")/../lib/shares.jq
look() { json vf list >"$run/$1.json"; }
ran_long() { # PERCENT SINCE
	look now && { [ $((SECONDS - $2)) -ge 60 ] || jq -en --slurpfile a "$run/before.json" --slurpfile b "$run/now.json" --argjson p "$1" '
		[$b[0].vfs[] | select(.state == "active") | .run_ns - $a[0].vfs[.vf].run_ns - 200 / $p * .lag_bound_ns] | min > 0'; }
}
always_had_work() {
	jq -en --slurpfile a "$run/before.json" --slurpfile b "$run/now.json" '[$b[0].vfs[] | . as $is | $a[0].vfs[.vf] as $was
		| select($is.state == "active" and $is.has_work and $was.has_work and $is.wakes == $was.wakes)] | length > 1'
}
shares_kept() { # PERCENT
	local i
	for i in 1 2 3 4 5; do
		look before
		await 120 ran_long "$1" $SECONDS
		always_had_work >/dev/null && break
		[ $i -lt 5 ] || fail "tenants run out of work: nothing can be said of shares: $(ctl vf list)"
	done
	jq -n --argjson a "$(<"$run/before.json")" --argjson b "$(<"$run/now.json")" -f "$shares_jq" >"$run/shares.json"
	[ "$(jq 'length > 1 and all(.kept)' "$run/shares.json")" = true ] || fail "shares: $(jq -c '.[]' "$run/shares.json"; ctl vf list)"
}
