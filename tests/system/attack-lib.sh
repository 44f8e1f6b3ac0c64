# SPDX-License-Identifier: MIT
# Sourced by tests in which VF 3, and with attackers > 1 those after it, have hostile clients, and VFs 0, 1 and 2 compute. Neighbours are judged by vgpud's own records.
slice_ms=10 grace_ms=100 judged_slices=40 attackers=1
[ -z "${ATTACK_FIGURES:-}" ] || judged_slices=200 # a benchmark counts jobs, and one more or less is no matter
max_stolen=1 # percent of this machine's CPU time that its host may take while neighbours are judged
room_us=200 # strict leaves this between slices, however long a switch takes
# A client can end its own VF's process by SIGBUS: that is no finding of a sanitizer's.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_sigbus=0"
attack=$VGPU_BUILD/tests/system/attack
[ "$(id -u)" != 0 ] || . "$(dirname "$0")/hooks.sh"
pages=/proc/sys/vm/nr_hugepages
tenants=()
start_tenants() { # options of softgpu
	start_softgpu --vfs $((3 + attackers)) "$@"
	config <<-CONF
		vfs = $((3 + attackers))
		policy = strict
		slice_us = $((slice_ms * 1000))
		switch_us = $room_us
		grace_ms = $grace_ms
	CONF
	start_vgpud
	for ((n = 0; n < 3 + attackers; n++)); do await 30 is $n state available; done
	observe start
	# They always have work once they have begun: t0 may prepare its jobs for seconds while its driver is ready.
	start_guest t0 0 sha256 --size 8 --depth 16 --seconds 600; tenants+=($guest_pid)
	start_guest t1 1 spin --us 50000 --depth 16 --seconds 600; tenants+=($guest_pid)
	start_guest t2 2 spin --us 50000 --depth 16 --seconds 600; tenants+=($guest_pid)
	await 60 have_run start
	# They have paid for their drivers' starts.
	await 30 nothing_owed
	observe before
	await 60 have_run before
	observe after
	recordings=()
	bound=$(jq '[.vfs[0:3][] | .lag_bound_ns] | max' "$run/after.json")
	judge "nobody attacks"
}
# CPU time, in ticks, that the host of a virtual machine took from it since boot.
stolen() { awk '/^cpu / {print $9}' /proc/stat; }
# threads: of each thread of softgpu and vgpud, its policy (0: ordinary), and its CPU time in ns. One of the real-time class is an
# ordinary one while it starts a process.
threads() {
	local t policy ns
	for t in /proc/"$softgpu_pid"/task/* /proc/"$vgpud_pid"/task/*; do
		policy=$(awk '{print $41}' "$t/stat") && ns=$(cut -d' ' -f1 "$t/schedstat") && echo "\"${t##*/}\": [$policy, $ns]"
	done 2>/dev/null | paste -sd, | sed 's/.*/{&}/'
}
# In jq: what threads of the real-time class had between B and A.
had_real_time='def had_real_time($a; $b): [$a | to_entries[] | ($b[.key] // [0, 0]) as $was | select(.value[0] + $was[0] > 0) | .value[1] - $was[1]] | add // 0;'
# observe NAME: saves what vgpud's ledgers have by now, as NAME.json.
observe() { jq --argjson stolen "$(stolen)" --argjson threads "$(threads)" '. + {stolen: $stolen, threads: $threads}' <(json vf list) >"$run/$1.json"; }
# control WHAT: for a benchmark, how it is without the attack that follows.
control() {
	[ -n "${ATTACK_FIGURES:-}" ] || return 0
	observe before
	neighbours_keep "nobody attacks, before $1"
}
# was_fit BEFORE AFTER: this machine's host took at most max_stolen percent of its CPU time meanwhile.
was_fit() {
	jq -en --slurpfile b "$run/$1.json" --slurpfile a "$run/$2.json" --argjson most $max_stolen --argjson ticks "$(($(getconf CLK_TCK) * $(nproc)))" \
		'($a[0].stolen - $b[0].stolen) <= ($a[0].wall_ns - $b[0].wall_ns) / 1e9 * $ticks * $most / 100' >/dev/null
}
nothing_owed() { json vf list | jq -e '[.vfs[0:3][] | .debt_ns == 0] | all'; }
# timed NAME COMMAND...: notes how long the command takes, us.
timed() {
	local name=$1 at=${EPOCHREALTIME/./} r
	shift
	"$@"; r=$?
	echo "$name $((${EPOCHREALTIME/./} - at))" >>"$run/answers"
	return $r
}
ask_hook() { domain 9 "$(claim "<v:device gpu='none'/>")" | "$hook_program" vm9 prepare begin - 2>/dev/null; }
# The answer that 99 of 100 came sooner than, ms, of those with that NAME; null: none did.
slowest() { awk -v name="$1" '$1 == name {print $2}' "$run/answers" | sort -n | awk '{t[NR] = $1} END {if (NR) print t[int((NR * 99 + 99) / 100)] / 1000; else print "null"}'; }
# have_run NAME: every neighbour has had so many slices since NAME. Meanwhile root asks vgpud, and so does the hook.
have_run() {
	[ "$(id -u)" != 0 ] || timed hook ask_hook
	timed list json vf list | jq -e --slurpfile was "$run/$1.json" --argjson least $((judged_slices * slice_ms * 1000000)) \
		'[range(3) as $i | .vfs[$i].run_ns - $was[0].vfs[$i].run_ns >= $least] | all'
}
# judge WHAT: fails unless since `before` the neighbours had their shares of the time that could be had, waited no longer than
# without an attack by more than a slice and the grace, were not reset and owe no time; and attackers had no more than their own shares
# in turns, windows and resets, but for what they still owe, and what vgpud wrote off after hangs. vgpud's ledgers say what they
# had; its records say how long each wait was, less the windows and resets in it, and when a neighbour had no work, which is not
# missing. What neighbours ran beyond their grants is the machine's lateness, and is allowed. Whether this machine was fit for
# that is decided before anybody looks at what was measured. Prints the figures, and adds them to the file
# $ATTACK_FIGURES.
judge() {
	local figures
	record_more
	since=$(jq '.wall_ns / 1e9' "$run/before.json")
	audit
	[ "$(jq .broken "$run/shares.json")" = null ] || fail "$1: vgpud broke a bound of its policy: $(jq -c . "$run/shares.json")"
	jq -e '.begin_ns <= $b[0].wall_ns' --slurpfile b "$run/before.json" "$run/shares.json" >/dev/null || fail "$1: the records begin too late"
	: "${quiet:=$(jq '[.vfs[0:3][].waited_ns] | max' "$run/shares.json")}"
	was_fit before after || { echo "skipped: $1 is not judged: the host of this machine took more than $max_stolen % of its CPU time"; return; }
	figures=$(jq -cn --arg attack "$1" --slurpfile b "$run/before.json" --slurpfile a "$run/after.json" --slurpfile r "$run/shares.json" \
		--argjson quiet "$quiet" --argjson bound "$bound" --argjson slice $((slice_ms * 1000)) --argjson room $room_us \
		--argjson attackers $attackers --argjson grace $grace_ms --argjson list "$(slowest list)" --argjson hook "$(slowest hook)" "$had_real_time"'
		$b[0] as $b | $a[0] as $a | $r[0].vfs as $r | def ms: . / 1e5 | round / 10;
		def taken: [.vfs[] | .exclusive_ns + .reset_ns] | add; def attackers: .vfs[3:]; def own: attackers | map(.run_ns + .exclusive_ns + .reset_ns - .debt_ns) | add;
		def sum($key): attackers | map(.[$key]) | add;
		($a.wall_ns - $b.wall_ns) as $wall | (($a | sum("forgiven_ns")) - ($b | sum("forgiven_ns"))) as $forgiven |
		(($wall - $forgiven - ($a | taken) + ($b | taken)) * $slice / ($slice + $room)) as $available |
		[range(3) as $i | {had: ($a.vfs[$i].run_ns - $b.vfs[$i].run_ns), asleep: $r[$i].asleep_ns, late: ($a.vfs[$i].overrun_ns - $b.vfs[$i].overrun_ns)}] as $n |
		($n | map(.late) | add) as $late |
		{attack: $attack, available_ms: ($available / 1e6 | round), share: ($n | map(.had / $available * 1000 | round / 1000)),
		 missing_ms: ($n | map($available / (3 + $attackers) - .had - .asleep) | [max, 0] | max | ms), bound_ms: ($bound + $late | ms), late_ms: ($late | ms),
		 asleep_ms: ($n | map(.asleep) | max | ms), naps: ([$r[0:3][].naps] | max),
		 extra_wait_ms: ([([$r[0:3][].waited_ns] | max) - $quiet, 0] | max | ms), wait_bound_ms: ($slice * 1e3 + $grace * 1e6 + $late | ms),
		 attacker_ms: (($a | own) - ($b | own) | ms), attacker_bound_ms: (($wall / (3 + $attackers) + $bound) * $attackers + $forgiven | ms),
		 forgiven_ms: ($forgiven | ms), windows: (($a | sum("windows")) - ($b | sum("windows"))), windows_ms: (($a | sum("exclusive_ns")) - ($b | sum("exclusive_ns")) | ms),
		 reset_ms: (($a | sum("reset_ns")) - ($b | sum("reset_ns")) | ms), owed_ms: ([$a.vfs[0:3][].debt_ns] | max | ms),
		 jobs_per_s: (([$a.vfs[0:3][].jobs] | add) - ([$b.vfs[0:3][].jobs] | add) | . / $wall * 1e10 | round / 10),
		 real_time_percent: (had_real_time($a.threads; $b.threads) / $wall * 1000 | round / 10),
		 list_p99_ms: $list, hook_p99_ms: $hook, innocents_reset: ([$a.vfs[0:3][] | .resets + .guest_resets + .hangs] | add)}')
	: >"$run/answers"
	echo "$figures" | tee -a "${ATTACK_FIGURES:-/dev/null}"
	jq -e '.missing_ms <= .bound_ms' <<<"$figures" >/dev/null || fail "$1: a neighbour did not get its share"
	jq -e '.extra_wait_ms <= .wait_bound_ms' <<<"$figures" >/dev/null || fail "$1: a neighbour waited too long: $(ctl events | tail -20)"
	jq -e '.attacker_ms <= .attacker_bound_ms' <<<"$figures" >/dev/null || fail "$1: attackers had more than their shares: $(ctl vf list)"
	jq -e '.owed_ms == 0' <<<"$figures" >/dev/null || fail "$1: a neighbour owes time that others took"
	jq -e '.innocents_reset == 0' <<<"$figures" >/dev/null || fail "$1: an innocent VF was reset: $(ctl vf list)"
}
# A VF process that was taken over can cause so many events that one recording does not reach back to the beginning.
record_more() {
	recorded=$(steps)
	recordings+=("$run/shares.${#recordings[@]}.rec")
	ctl record --output "${recordings[-1]}" >/dev/null || fail "vgpuctl record failed"
}
have_run_in_records() { # NAME
	[ "$(steps)" -lt $((recorded + 3000)) ] || record_more
	have_run "$1"
}
# neighbours_keep WHAT: judges what has been since `before`, for as long as 40 more slices take.
neighbours_keep() {
	recordings=()
	record_more
	observe middle
	await 60 have_run_in_records middle
	observe after
	judge "$1"
}
# free_again [VF]: VF 3 can be had; an operator has brought it back if vgpud has punished it.
free_again() {
	! is "${1:-3}" state quarantined || ctl vf reset "${1:-3}"
	is "${1:-3}" state available
}
# For a benchmark, what the client itself computes steps back, as a VM's control group would make it: on two CPUs it would else be most of
# what is measured. run_attack KIND [VF]
run_attack() {
	[ -z "${ATTACK_FIGURES:-}" ] || exec setsid sh -c 'echo 19 >/proc/self/autogroup; exec "$@"' - "$attack" "$1" "$run/gpu/vf${2:-3}.sock" 600
	exec "$attack" "$1" "$run/gpu/vf${2:-3}.sock" 600
}
attacks_or_ended() { grep -q begun "$run/attack.txt" || ! kill -0 $attacker; }
# attack_all "KIND...": the client of VF 3 attacks in each of these ways; then the next client is served, and all ends.
attack_all() {
	local kind had result
	had=$(descriptors)
	were=$(cat $pages)
	trap 'r=$?; echo "$were" 2>/dev/null >$pages; (exit $r); finish' EXIT
	for kind in $1; do
		if [ "$kind" = huge ] && ! { echo $((were + 4)) >$pages; } 2>/dev/null; then
			echo "skipped: $kind: this machine has no huge pages to set aside"
			continue
		fi
		control "$kind"
		: >"$run/attack.txt"
		run_attack "$kind" >"$run/attack.txt" 2>&1 &
		attacker=$!
		# After many resets and windows vgpud may make VF 3 wait for its next one.
		await 60 attacks_or_ended
		observe before
		neighbours_keep "$kind"
		kill $attacker 2>/dev/null
		wait $attacker; result=$?
		[ "$kind" != huge ] || echo "$were" >$pages
		[ $result != 3 ] || echo "skipped: $kind is not possible here: $(cat "$run/attack.txt")"
		[ $result = 0 ] || [ $result = 3 ] || fail "the attack $kind ended with $result: $(cat "$run/attack.txt")"
		# It is served again, within the time that a process has to say that it is there.
		timeout 60 "$attack" look "$run/gpu/vf3.sock" 30 >"$run/look.txt" || fail "after $kind the VF is not served"
		await 30 free_again
	done
	await 60 no_more_descriptors "$had"
	end_tenants
}
# use_impostors PROGRAM: softgpu finds tests/system/impostor where it would find that program of a VF. becomes KIND: what VF 3's
# next one is.
use_impostors() {
	mkdir -p "$run/bin" "$run/libexec/vgpud"
	cp "$softgpu" "$run/bin/softgpu"
	ln -s "$VGPU_BUILD"/tools/softgpu/{vf/softgpu-vf,worker/softgpu-worker} "$run/libexec/vgpud"
	rm "$run/libexec/vgpud/$1"
	cp "$VGPU_BUILD/tests/system/impostor" "$run/libexec/vgpud/$1"
	softgpu=$run/bin/softgpu
	export IMPOSTOR=$run/kind REAL=$VGPU_BUILD/tools/softgpu/${1#softgpu-}
}
becomes() { echo "$1" >"$IMPOSTOR"; }
runs() { [ -n "$(process_of "$1")" ]; }
# ends N: kills the process of VF N, as soon as there is one.
kills() { kill -9 "$(process_of "$1")" 2>/dev/null; }
ends() { await 30 kills "$1"; }
descriptors() { find "/proc/$softgpu_pid/fd" -type l | wc -l; }
no_more_descriptors() { [ "$(descriptors)" -le "$1" ]; }
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
