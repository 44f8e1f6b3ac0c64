# SPDX-License-Identifier: MIT
# Sourced by tests in which VF 3 has a hostile client, and VFs 0, 1 and 2 compute. Neighbours are judged by vgpud's own records.
slice_ms=10 grace_ms=100
max_stolen=1 # percent of this machine's CPU time that its host may take while neighbours are judged
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
	observe start
	# They always have work once they have begun: t0 may prepare its jobs for seconds while its driver is ready.
	start_guest t0 0 sha256 --size 8 --depth 16 --seconds 600; tenants+=($guest_pid)
	start_guest t1 1 spin --us 50000 --depth 16 --seconds 600; tenants+=($guest_pid)
	start_guest t2 2 spin --us 50000 --depth 16 --seconds 600; tenants+=($guest_pid)
	await 60 have_run start
	# They have paid for their drivers' starts.
	await 30 nothing_owed
	observe before
	await 20 have_run before
	observe after
	quiet=$(jq '[.vfs[0:3][] | .wait_max_ns] | max' "$run/after.json")
	bound=$(jq '[.vfs[0:3][] | .lag_bound_ns] | max' "$run/after.json")
	judge "nobody attacks" before after
}
# CPU time, in ticks, that the host of a virtual machine took from it since boot.
stolen() { awk '/^cpu / {print $9}' /proc/stat; }
# observe NAME: saves what vgpud's ledgers have by now, as NAME.json.
observe() { jq -s --argjson stolen "$(stolen)" '.[0] + {engine: .[1], stolen: $stolen}' <(json vf list) <(json stats) >"$run/$1.json"; }
# was_fit BEFORE AFTER: this machine's host took at most max_stolen percent of its CPU time meanwhile.
was_fit() {
	jq -en --slurpfile b "$run/$1.json" --slurpfile a "$run/$2.json" --argjson most $max_stolen --argjson ticks "$(($(getconf CLK_TCK) * $(nproc)))" \
		'($a[0].stolen - $b[0].stolen) <= ($a[0].wall_ns - $b[0].wall_ns) / 1e9 * $ticks * $most / 100' >/dev/null
}
nothing_owed() { json vf list | jq -e '[.vfs[0:3][] | .debt_ns == 0] | all'; }
# have_run NAME: every neighbour has had 40 slices since NAME.
have_run() {
	json vf list | jq -e --slurpfile was "$run/$1.json" --argjson least $((40 * slice_ms * 1000000)) \
		'[range(3) as $i | .vfs[$i].run_ns - $was[0].vfs[$i].run_ns >= $least] | all'
}
# judge WHAT BEFORE AFTER: fails unless the neighbours had their shares of the time that could be had in between, nobody
# waited longer than without an attack by more than a slice, the grace, and what VF 3 had of exclusive windows and resets, and
# no neighbour was reset or owes time. Prints the figures. vgpud keeps the longest wait since its start, so
# extra_wait_ms is 0 if that has not grown; latest_ms is the latest that a turn has ended since then. Whether this machine was
# fit for that is decided before anybody looks at what was measured.
judge() {
	local figures
	was_fit "$2" "$3" || { echo "skipped: $1 is not judged: the host of this machine took more than $max_stolen % of its CPU time"; return; }
	figures=$(jq -cn --slurpfile b "$run/$2.json" --slurpfile a "$run/$3.json" --argjson quiet "$quiet" --argjson bound "$bound" \
		--argjson slice $((slice_ms * 1000)) --argjson room $room_us '
		$b[0] as $b | $a[0] as $a |
		((($a.wall_ns - $b.wall_ns) - ([$a.vfs[] | .exclusive_ns + .reset_ns] | add) + ([$b.vfs[] | .exclusive_ns + .reset_ns] | add)) *
		 $slice / ($slice + $room)) as $available |
		[range(3) as $i | ($a.vfs[$i].run_ns - $b.vfs[$i].run_ns)] as $had |
		{available_ms: ($available / 1e6 | round), share: ($had | map(. / $available * 1000 | round / 1000)),
		 missing_ms: ([$available / 4 - ($had | min), 0] | max / 1e6 * 10 | round / 10), bound_ms: ($bound / 1e6),
		 extra_wait_ms: ([$b, $a | [.vfs[0:3][] | .wait_max_ns] | max] | if .[1] > .[0] then .[1] - $quiet else 0 end / 1e5 | round / 10),
		 windows_ms: ([$a.vfs[3].exclusive_ns, -$b.vfs[3].exclusive_ns] | add / 1e5 | round / 10),
		 reset_ms: ([$a.vfs[3].reset_ns, -$b.vfs[3].reset_ns] | add / 1e5 | round / 10),
		 overran_ms: ([range(3) as $i | $a.vfs[$i].overrun_ns - $b.vfs[$i].overrun_ns] | max / 1e5 | round / 10),
		 owed_ms: ([$a.vfs[0:3][] | .debt_ns] | max / 1e5 | round / 10),
		 switch_us: (($a.engine.switch_ns - $b.engine.switch_ns) / ([$a.engine.switches - $b.engine.switches, 1] | max) / 1e3 | round),
		 latest_ms: ($a.engine.boundary_lateness.max_ns / 1e5 | round / 10),
		 resets: ([$a.vfs[0:3][] | .resets + .guest_resets + .hangs] | add)}')
	echo "$1: $figures"
	jq -e '.missing_ms <= .bound_ms' <<<"$figures" >/dev/null || fail "$1: a neighbour did not get its share"
	jq -e --argjson most $((slice_ms + grace_ms)) '.extra_wait_ms <= $most + .windows_ms + .reset_ms' <<<"$figures" >/dev/null || fail "$1: a neighbour waited too long: $(ctl events | tail -20)"
	jq -e '.owed_ms == 0' <<<"$figures" >/dev/null || fail "$1: a neighbour owes time that others took"
	jq -e '.resets == 0' <<<"$figures" >/dev/null || fail "$1: an innocent VF was reset: $(ctl vf list)"
}
# neighbours_keep WHAT: judges what has been since `before`, for as long as 40 more slices take; vgpud's records of the last
# seconds break no bound of the policy.
neighbours_keep() {
	observe middle
	await 20 have_run middle
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
		: >"$run/attack.txt"
		"$attack" "$kind" "$run/gpu/vf3.sock" 600 >"$run/attack.txt" 2>&1 &
		pids+=($!)
		# After many resets and windows vgpud may make VF 3 wait for its next one.
		await 60 attacks_or_ended
		observe before
		neighbours_keep "$kind"
		kill "${pids[-1]}" 2>/dev/null
		wait "${pids[-1]}"; result=$?
		[ "$kind" != huge ] || echo "$were" >$pages
		[ $result != 3 ] || echo "skipped: $kind is not possible here: $(cat "$run/attack.txt")"
		[ $result = 0 ] || [ $result = 3 ] || fail "the attack $kind ended with $result: $(cat "$run/attack.txt")"
		# It is served again, within the time that a process has to say that it is there.
		"$attack" look "$run/gpu/vf3.sock" 30 >"$run/look.txt" || fail "after $kind the VF is not served"
		await 30 free_again
	done
	await 10 no_more_descriptors "$had"
	end_tenants
}
# use_impostors: softgpu finds tests/system/impostor where it would find softgpu-vf. becomes KIND: what VF 3's next process is.
use_impostors() {
	mkdir -p "$run/bin" "$run/libexec/vgpud"
	cp "$softgpu" "$run/bin/softgpu"
	cp "$VGPU_BUILD/tests/system/impostor" "$run/libexec/vgpud/softgpu-vf"
	softgpu=$run/bin/softgpu
	export IMPOSTOR=$run/kind REAL=$VGPU_BUILD/tools/softgpu/vf
}
becomes() { echo "$1" >"$IMPOSTOR"; }
runs() { [ -n "$(process_of "$1")" ]; }
# ends N: kills the process of VF N, as soon as there is one.
ends() {
	await 30 runs "$1"
	kill -9 "$(process_of "$1")"
}
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
