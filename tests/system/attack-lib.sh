# SPDX-License-Identifier: MIT
# Sourced by tests in which VF 3 has a hostile client, and VFs 0, 1 and 2 compute. Neighbours are judged by vgpud's own records.
slice_ms=10 grace_ms=100
credit_ms=500 # what a VF may owe when a window of it begins
room_us=200 # strict leaves this between slices, however long a switch takes
# A client can end its own VF's process by SIGBUS: that is no finding of a sanitizer's.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_sigbus=0"
attack=$VGPU_BUILD/tests/system/attack
pages=/proc/sys/vm/nr_hugepages
tenants=()
start_tenants() { # options of softgpu
	start_softgpu --vfs 4 "$@"
	config <<-CONF
		vfs = 4
		policy = strict
		slice_us = $((slice_ms * 1000))
		switch_us = $room_us
		grace_ms = $grace_ms
	CONF
	start_vgpud
	for n in 0 1 2 3; do await 30 is $n state available; done
	# They always have work, at any moment.
	start_guest t0 0 sha256 --size 8 --depth 16 --seconds 600; tenants+=($guest_pid)
	start_guest t1 1 spin --us 50000 --depth 16 --seconds 600; tenants+=($guest_pid)
	start_guest t2 2 spin --us 50000 --depth 16 --seconds 600; tenants+=($guest_pid)
	await 30 active 3
	# They have paid for their drivers' starts.
	await 30 nothing_owed
	observe before
	await 40 have_run before 80
	observe after
	bound=$(jq '[.vfs[0:3][] | .lag_bound_ns] | max' "$run/after.json")
	quiet=null
	judge "nobody attacks" before after
	quiet=$figures
}
# observe NAME: saves what vgpud's ledgers have by now, as NAME.json.
observe() { jq -s '.[0] + {engine: .[1]}' <(json vf list) <(json stats) >"$run/$1.json"; }
nothing_owed() { json vf list | jq -e '[.vfs[0:3][] | .debt_ns == 0] | all'; }
# have_run NAME [SLICES]: every neighbour has had 40 slices since NAME.
have_run() {
	json vf list | jq -e --slurpfile was "$run/$1.json" --argjson least $((${2:-40} * slice_ms * 1000000)) \
		'[range(3) as $i | .vfs[$i].run_ns - $was[0].vfs[$i].run_ns >= $least] | all'
}
# since NAME: saves vgpud's records since NAME as records.json, one list.
since() {
	local began now
	began=$(jq .now_ns "$run/$1.json")
	now=$(json vf list | jq .now_ns)
	# "vgpuctl timeline" counts from when vgpud answers, which may be a while from now.
	json timeline --ms $(((now - began) / 1000000 + 5000)) | jq -c --argjson began "$began" '[.records[] | select(.t_ns >= $began)]' >"$run/records.json"
	jq -e --argjson began "$began" 'length < 32000 and .[0].t_ns < $began + 1000000000' "$run/records.json" >/dev/null || fail "vgpud no longer has its records since $1"
}
# judge WHAT BEFORE AFTER: fails unless, between the two,
#  - the neighbours had their shares of the time that could be had: what exclusive windows, resets, switches, and stops that vgpud
#    could not charge to anybody left;
#  - they had their shares of all time, but for what one VF may take at once by windows and resets: its credit, and one window;
#  - VF 3's windows and resets took its share of the time, what it was charged for them, its credit, and one window and the reset
#    that ends its driver at most;
#  - nobody waited longer than without an attack by more than a slice and the grace, one window or reset of VF 3 not counted in
#    each wait;
#  - ends of the neighbours' turns were as late as without an attack: the middle one of all turns, and what they make together,
#    to which one stop that takes a slice and the grace may come;
#  - no neighbour was reset, or owes time.
# Sets $figures, prints them, and adds them to the file $VGPU_ATTACK_FIGURES, if that is set.
judge() {
	since "$2"
	figures=$(jq -cn --arg attack "$1" --slurpfile b "$run/$2.json" --slurpfile a "$run/$3.json" --slurpfile records "$run/records.json" \
		--argjson quiet "$quiet" --argjson bound "$bound" --argjson slice $slice_ms --argjson grace $grace_ms --argjson room $room_us \
		--argjson credit $credit_ms '
		def ms: . / 1e5 | round / 10;
		def took: .exclusive_ns + .reset_ns;
		def gone: took + .forgiven_ns;
		$b[0] as $b | $a[0] as $a | [$records[0][] | select(.t_ns <= $a.now_ns)] as $records |
		# Windows and resets of VF 3, each from FROM to TO.
		([$records[] | select(.vf == 3 and (.type == "window-end" or .type == "reset-done")) | {from: (.t_ns - .a), to: .t_ns}] +
		 [["window", "reset"][] as $kind | [$records[] | select(.vf == 3 and (.type == $kind or .type == $kind + "-end" or .type == $kind + "-done"))] |
		  last | select(.type == $kind) | {from: .t_ns, to: $a.now_ns}]) as $lost |
		# Waits of the neighbours, as vgpud counts them: from the end of a turn, or from waking, to the next turn. One that goes on
		# is as long as it is by now.
		[range(3) as $i | reduce ([$records[] | select(.vf == $i)] + [{t_ns: $a.now_ns, type: "end"}])[] as $r
			({runs: false, awake: true, from: $b.now_ns, waits: []};
			 if $r.type == "stop" then .runs = false | .from = $r.t_ns
			 elif $r.type == "sleep" then .awake = false
			 elif $r.type == "wake" then .awake = true | if .runs then . else .from = $r.t_ns end
			 elif $r.type == "end" and .runs then .
			 elif $r.type == "run" or $r.type == "end" then .runs = true | if .awake then .waits += [{from: .from, to: $r.t_ns}] else . end
			 else . end) | .waits[]] as $waits |
		[$records[] | select(.type == "stop" and .vf < 3) | .b] as $late |
		($a.wall_ns - $b.wall_ns) as $wall |
		($slice * 1000 / ($slice * 1000 + $room)) as $part |
		(($wall - ([$a.vfs[] | gone] | add) + ([$b.vfs[] | gone] | add)) * $part) as $available |
		[range(3) as $i | ($a.vfs[$i].run_ns - $b.vfs[$i].run_ns)] as $had |
		([$lost[] | .to - .from] | max // 0) as $largest |
		([["window-end", "reset-done"][] as $kind | [$records[] | select(.vf == 3 and .type == $kind) | .a] | max // 0] | add) as $pair |
		{attack: $attack, available_ms: ($available / 1e6 | round), share: ($had | map(. / $available * 1000 | round / 1000)),
		 missing_ms: ([$available / 4 - ($had | min), 0] | max | ms), bound_ms: ($bound / 1e6),
		 share_of_all: (($had | min) / $wall * 1000 | round / 1000),
		 missing_of_all_ms: ([$wall * $part / 4 - ($had | min), 0] | max | ms), bound_of_all_ms: ($bound + $largest + $a.vfs[3].forgiven_ns - $b.vfs[3].forgiven_ns | . / 1e6 + $credit),
		 lost_ms: (($a.vfs[3] | took) - ($b.vfs[3] | took) | ms), largest_lost_ms: ($largest | ms),
		 may_lose_ms: ($wall / 4 + $a.vfs[3].debt_charged_ns - $b.vfs[3].debt_charged_ns + $pair | . / 1e6 + $credit | round),
		 longest_wait_ms: ([$waits[] | .to - .from] | max | ms),
		 wait_ms: ([$waits[] as $w | $w.to - $w.from - ([$lost[] | ([.to, $w.to] | min) - ([.from, $w.from] | max) | select(. > 0)] | max // 0)] | max | ms),
		 turns: ($late | length), late_us: ($late | sort | .[length / 2 | floor] / 1e3 | round), overran_ms: ($late | add | ms),
		 owed_ms: ([$a.vfs[0:3][] | .debt_ns] | max | ms),
		 switch_us: (($a.engine.switch_ns - $b.engine.switch_ns) / ([$a.engine.switches - $b.engine.switches, 1] | max) / 1e3 | round),
		 latest_ms: ($a.engine.boundary_lateness.max_ns | ms),
		 resets: ([$a.vfs[0:3][] | .resets + .guest_resets + .hangs] | add)} |
		($quiet // .) as $quiet |
		. + {extra_wait_ms: (.wait_ms - $quiet.wait_ms | . * 10 | round / 10), most_extra_wait_ms: ($slice + $grace),
		 most_late_us: (2 * $quiet.late_us + 100),
		 most_overran_ms: (.turns * ($quiet.overran_ms / $quiet.turns) + $slice + $grace | . * 10 | round / 10)}')
	echo "$1: $figures"
	[ -z "${VGPU_ATTACK_FIGURES:-}" ] || echo "$figures" >>"$VGPU_ATTACK_FIGURES"
	holds '.missing_ms <= .bound_ms' || fail "$1: a neighbour did not get its share"
	holds '.missing_of_all_ms <= .bound_of_all_ms' || fail "$1: windows and resets took a neighbour's share"
	holds '.lost_ms <= .may_lose_ms' || fail "$1: windows and resets of VF 3 took more than it may have"
	holds '.extra_wait_ms <= .most_extra_wait_ms' || fail "$1: a neighbour waited too long: $(ctl events | tail -20)"
	holds '.late_us <= .most_late_us and .overran_ms <= .most_overran_ms' || fail "$1: turns of neighbours ended late"
	holds '.owed_ms == 0' || fail "$1: a neighbour owes time that others took"
	holds '.resets == 0' || fail "$1: an innocent VF was reset: $(ctl vf list)"
}
holds() { jq -e "$1" <<<"$figures" >/dev/null; }
# neighbours_keep WHAT [CONDITION]: judges what has been since `before`, for as long as 40 more slices take, or until the condition
# holds; vgpud's records of the last seconds break no bound of the policy.
neighbours_keep() {
	observe middle
	await 20 have_run middle
	await 60 "${@:2}"
	observe after
	judge "$1" before after
	recordings=("$run/shares.rec")
	ctl record --output "${recordings[0]}" >/dev/null || fail "vgpuctl record failed"
	audit
	[ "$(jq .broken "$run/shares.json")" = null ] || fail "$1: vgpud broke a bound of its policy: $(jq -c . "$run/shares.json")"
}
# VF 3 can be had; an operator has brought it back if vgpud has punished it.
free_again() {
	! is 3 state quarantined || ctl vf reset 3
	is 3 state available
}
attacks_or_ended() { grep -q begun "$run/attack.txt" || ! kill -0 "${pids[-1]}"; }
# Three short windows and two long ones; or it has kept some of them for too long.
many_windows() {
	json vf list | jq -e --slurpfile was "$run/before.json" '.vfs[3] | .windows - $was[0].vfs[3].windows >= 5 or .state == "quarantined"'
}
declare -A until=([windows]=many_windows)
# attack_all "KIND...": the client of VF 3 attacks in each of these ways; then the next client is served, and all ends.
attack_all() {
	local kind result
	count_what_is_held
	were=$(cat $pages)
	trap 'r=$?; echo "$were" 2>/dev/null >$pages; (exit $r); finish' EXIT
	for kind in $1; do
		if [ "$kind" = huge ] && ! { echo $((were + 4)) >$pages; } 2>/dev/null; then
			echo "skipped: $kind: this machine has no huge pages to set aside"
			continue
		fi
		: >"$run/attack.txt"
		"$attack" "$kind" "$run/gpu/vf3.sock" 600 >"$run/attack.txt" 2>&1 &
		pids+=($!)
		# After many resets and windows vgpud may make VF 3 wait for its next one.
		await 60 attacks_or_ended
		observe before
		neighbours_keep "$kind" "${until[$kind]:-true}"
		kill "${pids[-1]}" 2>/dev/null
		wait "${pids[-1]}"; result=$?
		[ "$kind" != huge ] || echo "$were" >$pages
		[ $result != 3 ] || echo "skipped: $kind is not possible here: $(cat "$run/attack.txt")"
		[ $result = 0 ] || [ $result = 3 ] || fail "the attack $kind ended with $result: $(cat "$run/attack.txt")"
		# It is served again, within the time that a process has to say that it is there.
		"$attack" look "$run/gpu/vf3.sock" 30 >"$run/look.txt" || fail "after $kind the VF is not served"
		await 30 free_again
	done
	nothing_more_is_held
	end_tenants
}
# use_impostors NAME: softgpu finds tests/system/impostor where it would find softgpu-NAME (vf or worker). becomes KIND: what the
# next such process of VF 3 is.
use_impostors() {
	local name
	mkdir -p "$run/bin" "$run/libexec/vgpud"
	cp "$softgpu" "$run/bin/softgpu"
	for name in vf worker; do ln -s "$VGPU_BUILD/tools/softgpu/$name/softgpu-$name" "$run/libexec/vgpud/"; done
	cp --remove-destination "$VGPU_BUILD/tests/system/impostor" "$run/libexec/vgpud/softgpu-$1"
	softgpu=$run/bin/softgpu
	export IMPOSTOR=$run/kind REAL=$VGPU_BUILD/tools/softgpu/$1
}
becomes() { echo "$1" >"$IMPOSTOR"; rm -f "$IMPOSTOR.began"; }
runs() { [ -n "$(program_of "$1" "$2")" ]; }
# ends NAME N: kills that process, as soon as there is one.
ends() {
	await 30 runs "$1" "$2"
	kill -9 "$(program_of "$1" "$2")"
}
# What softgpu holds: its descriptors, and the memory of the files among them, of which it has mapped some. Partitions keep what
# their tenants have used: a ring of 64 KiB fills up only with time.
rings=$((4 * 65536))
descriptors() { find "/proc/$softgpu_pid/fd" -type l | wc -l; }
memory_held() { find "/proc/$softgpu_pid/fd" -lname '/memfd:*' -exec stat -Lc '%i %b' {} + | sort -u | awk '{n += $2 * 512} END {print n}'; }
memory_mapped() { awk '/^RssShmem:/ {print $2 * 1024}' "/proc/$softgpu_pid/status"; }
count_what_is_held() { had=("$(descriptors)" "$(memory_held)" "$(memory_mapped)"); }
no_more_is_held() { [ "$(descriptors)" -le "${had[0]}" ] && [ "$(memory_held)" -le $((had[1] + rings)) ] && [ "$(memory_mapped)" -le "${had[2]}" ]; }
nothing_more_is_held() {
	local end=$((SECONDS + 10)) figures
	until no_more_is_held || [ $SECONDS -ge $end ]; do sleep 0.1; done
	figures="descriptors, bytes of memory files, bytes mapped of them: before ${had[*]}, after $(descriptors) $(memory_held) $(memory_mapped)"
	echo "$figures"
	no_more_is_held || fail "softgpu holds more than before: $figures"
}
# end_tenants: the neighbours' results are right, and everything ends as it does without attacks.
end_tenants() {
	local i
	kill -INT "${tenants[@]}"
	for i in 0 1 2; do wait_guest "${tenants[$i]}" "t$i"; done
	tenants=()
	kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
	kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
	[ -z "$(ls "$run/gpu")" ] || fail "sockets are left over: $(ls "$run/gpu")"
}
