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
# Keeps what vgpud says of all VFs as NAME.json.
look() { json vf list >"$run/$1.json"; }
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
# shares_kept PERCENT [VF=WEIGHT...] [turns=US]: vgpud keeps to its policy's bounds, by its own records, which vgpu-sim audits:
# shares, waits, and the ends of turns. The bounds are those of a machine that is never late; the lateness that the records
# show is allowed beyond them, so it is vgpud that is judged. VFs are compared while they have work, for so long that the bound
# is PERCENT of what two of them had, or those that are named; or for a minute, where a slow machine has made the bound wide. Whether
# there are such VFs is found out before anything is judged. VF=WEIGHT: these had work, and have these weights, by the test's
# own account; turns=US: by the same, half of all turns are planned to be no longer.
sim=$VGPU_BUILD/tools/sim/vgpu-sim
recordings=()
steps() { json stats | jq .steps; }
audit() { # the recordings so far, as shares.json
	"$sim" audit --json "${recordings[@]}" >"$run/shares.json" 2>"$run/audit.log"
	[ $? -lt 2 ] || fail "no audit"
}
can_be_judged() { jq -e '[.vfs[] | select(.had_ns > 0)] | length > 1' "$run/shares.json" >/dev/null; }
ran_long() { # PERCENT VFS: so many at least
	jq -e --argjson p "$1" --argjson n "$2" '[.vfs[] | select(.had_ns > 100 / $p * .allowed_ns)] | length >= $n' "$run/shares.json" >/dev/null
}
# Saves recordings. Each has the last 8000 steps at least, and so overlaps with the one before it, if this machine is not too
# slow; an audit begins anew where one is missing.
record_shares() { # PERCENT VFS
	local end=$((SECONDS + 60)) next=1 at soon
	recordings=()
	until [ $SECONDS -ge $end ]; do
		at=$(steps)
		recordings+=("$run/shares.${#recordings[@]}.rec")
		ctl record --output "${recordings[-1]}" >/dev/null || fail "no recording"
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
		[ $i -lt 5 ] || fail "tenants run out of work: nothing can be said of shares: $(ctl vf list)"
	done
	"$sim" audit "${recordings[@]}"
	[ "$(jq .broken "$run/shares.json")" = null ] || fail "shares: $(jq -c . "$run/shares.json")"
	jq -e --argjson turns "$turns" --argjson weights "{$weights}" '. as $all
		| [$weights | to_entries[] | .value as $weight | $all.vfs[.key | tonumber] | select(.had_ns > 0) | .share / $weight] as $units
		| ($units | length) == ($weights | length) and (($units | max) // 1) <= (($units | min) // 1) * 1.000001 and
		  ($turns == null or ([.vfs[] | select(.had_ns > 0) | .planned_ns <= 1000 * $turns] | all))' "$run/shares.json" >/dev/null ||
		fail "not ${*:2}: $(jq -c . "$run/shares.json")"
}
