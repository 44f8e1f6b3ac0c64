# SPDX-License-Identifier: MIT
# Sourced by storm.sh: what must hold after each event of a storm. Each check waits, with a deadline, for what takes a while,
# and fails the storm if it does not come.

# VFs that this event hit, and whose tenants may have lost work; the visitor's is always one. Everybody else is innocent.
declare -A touched killed
# A process has ended, whether or not its parent has heard of it: its locks and descriptors go with its last thread, which may
# be later than its first.
dead() { ! grep -qs '^State:	[^ZX]' "/proc/$1"/task/*/status; }

# --- Tenants -----------------------------------------------------------------------------------------------------------
declare -A guest_pids resets_of asked_at
works=([0]=sha256 [1]=gemm [2]=saxpy)
start_tenant() { # VF
	start_guest "t$1" "$1" "${works[$1]}" --depth 12 --seconds 100000
	guest_pids[$1]=$guest_pid resets_of[$1]=0
}
reports() { wc -l <"$run/t$1.json"; }
last() { # VF FIELD: sets $field to that of its last report
	[[ $(tail -1 "$run/t$1.json") =~ \"$2\":([0-9]+) ]] && field=${BASH_REMATCH[1]}
}
reported() { [ "$(reports "$1")" -gt "$2" ] || dead "${guest_pids[$1]}"; }
# A result is right to the bit, or it is reported as lost in a reset.
never_wrong() { # VF
	local kind
	[ -s "$run/t$1.json" ] || return 0
	for kind in wrong errors; do last "$1" $kind && [ "$field" = 0 ] || fail "VF $1: $kind: $(tail -1 "$run/t$1.json")"; done
}
# A tenant that was hit has ended, or has reported a reset, and another one takes its VF.
replace() { # VF STATUS
	[ -n "${touched[$1]:-}" ] || fail "the tenant of VF $1, which nothing has hit, has ended with $2: $(tail -3 "$run/t$1.log")"
	case $2 in 1 | 3 | 137) ;; *) fail "the tenant of VF $1 has ended with $2: $(tail -3 "$run/t$1.log")" ;; esac
	never_wrong "$1"
	may_return "$1"
	start_tenant "$1"
}
# After three hangs in a minute it is the operator's turn.
released() { case $(vf "$1" state) in available) ;; quarantined) ctl vf reset "$1"; false ;; *) false ;; esac; }
may_return() { await 60 released "$1"; }
# Asks all tenants what they have done so far. Each answers after its next job: it computes. One that the event has hit may
# still be on its way to its VF, or be gone.
ask() { # VF
	asked_at[$1]=$(reports "$1")
	dead "${guest_pids[$1]}" || kill -USR1 "${guest_pids[$1]}"
}
up() { is "$1" state active || dead "${guest_pids[$1]}"; }
check_tenants() {
	local n status tries=0 left=("${tenants[@]}") again
	while [ ${#left[@]} -gt 0 ]; do
		again=()
		for n in "${left[@]}"; do await 90 up $n; ask $n; done
		for n in "${left[@]}"; do
			await 90 reported $n "${asked_at[$n]}"
			if ! dead "${guest_pids[$n]}"; then
				never_wrong $n
				last $n resets
				[ "$field" = "${resets_of[$n]}" ] || [ -n "${touched[$n]:-}" ] || fail "VF $n was reset, and nothing had hit it: $(ctl events)"
				resets_of[$n]=$field
			else
				wait "${guest_pids[$n]}" 2>/dev/null
				status=$?
				[ $((++tries)) -le 5 ] || fail "no tenant can stay on VF $n: $(tail -3 "$run/t$n.log")"
				replace $n $status
				again+=($n)
			fi
		done
		left=("${again[@]}")
	done
}
jobs_of_vm() { tr -d '\r' <"$run/vm1.console" | sed -n 's/^jobs \([0-9]*\) wrong 0$/\1/p' | tail -1; }
vm_computes() { [ "$(jobs_of_vm)" -gt "${1:-0}" ]; }
check_vm() {
	[ -n "$vm_device" ] || return 0
	! grep -E 'wrong [1-9]' "$run/vm1.console" || fail "the VM's VF computed wrong"
	await 90 vm_computes "$(jobs_of_vm)"
}

# --- vgpud's records ---------------------------------------------------------------------------------------------------
# Shares and waits are within the policy's bounds over the time that was there, by an audit of vgpud's own records, from the
# last event on where they are whole. A proportional policy is judged once two tenants have had enough for a bound of 50 %.
recorded() {
	if grep -q proportional "$run/policy.json"; then ran_long 50 2; else jq -e '.turns >= 200' "$run/shares.json" >/dev/null; fi
}
record() {
	recordings+=("$run/storm.$((++records)).rec")
	ctl record --output "${recordings[-1]}" >/dev/null || fail "vgpuctl record failed"
}
# What vgpud did is needed to find out why: vgpu-sim audit repeats the finding.
keep_recordings() {
	local kept
	kept=$(mktemp -d /tmp/vgpud-storm.XXXXXX)
	cp "${recordings[@]}" "$kept"
	fail "vgpud broke a bound of its policy; its records are in $kept: $(jq -c . "$run/shares.json")"
}
check_shares() {
	local end=$((SECONDS + 60)) next=1
	json policy show >"$run/policy.json"
	while :; do
		record
		if [ ${#recordings[@]} -ge $next ]; then
			next=$((next * 2))
			audit
			[ "$(jq .broken "$run/shares.json")" = null ] || keep_recordings
			recorded && break
		fi
		[ $SECONDS -lt $end ] || fail "fewer than two tenants had work, so shares cannot be judged: $(ctl vf list; jq -c . "$run/shares.json")"
		at=$(steps) soon=$((SECONDS + 2))
		until [ $SECONDS -gt $soon ] || [ "$(steps)" -ge $((at + 1000)) ]; do sleep 0.1; done
	done
	rm -f "${recordings[@]:0:${#recordings[@]}-1}"
	recordings=("${recordings[-1]}")
}
# Every nanosecond is in one counter, and what VFs were charged is what they had.
check_ledger() {
	look now
	jq -e '.wall_ns == ([.vfs[] | .run_ns + .donated_ns + .switch_ns + .exclusive_ns + .reset_ns] | add) + .switch_ns + .idle_ns' \
		"$run/now.json" >/dev/null || fail "the ledger does not sum up: $(jq -c . "$run/now.json")"
	jq -e '[.vfs[] | .run_ns + .switch_ns + .fined_ns + .debt_charged_ns == .charged_ns + .forgiven_ns + .pending_ns and
		.exclusive_ns + .reset_ns + .brought_ns == .debt_ns + .debt_charged_ns + .debt_lapsed_ns + .written_off_ns] | all' \
		"$run/now.json" >/dev/null || fail "a VF's ledger does not sum up: $(jq -c . "$run/now.json")"
	[ "$(json stats | jq -c '[.state, .evictions]')" = '["running",0]' ] || fail "$(ctl gpu show; ctl stats)"
}
# No VF that nothing has hit was reset, hung, or was late in a window. A vgpud that was started meanwhile counts from 0.
check_innocent() {
	local bad
	[ "$vgpud_pid" = "$judged_pid" ] || echo '{"vfs": []}' >"$run/before.json"
	judged_pid=$vgpud_pid
	bad=$(jq -n --slurpfile a "$run/before.json" --slurpfile b "$run/now.json" --arg touched " ${!touched[*]} $idle_vm " -c '
		def counts: .resets + .guest_resets + .hangs + .window_timeouts;
		[$b[0].vfs[] | select(.vf as $n | $touched | contains(" \($n) ") | not) |
		 select(counts != (.vf as $n | $a[0].vfs[$n] // {} | counts // 0)) | .vf]')
	[ "$bad" = '[]' ] || fail "VFs $bad were reset, and nothing had hit them: $(ctl vf list; ctl events)"
	cp "$run/now.json" "$run/before.json"
}

# --- Memory ------------------------------------------------------------------------------------------------------------
# The table covers all memory once; each VF has the partition that it should, and nothing is being moved or cleared. A vgpud
# that was started again gives VFs their configured sizes back as they become free.
all_settled() { # all VFs have their states, and no memory waits
	clean && json vf list | jq -e --argjson active "[${tenants[*]/%/,} $vm]" '[.vfs[] | .vf as $n |
		.state == "available" or (.state == "active" and ($active | index($n)))] | all'
}
check_memory() {
	local n got
	for n in "${!touched[@]}"; do [[ " ${visits[*]} " != *" $n "* ]] || may_return $n; done
	await 60 all_settled
	look now
	n=0
	for got in $(jq '.vfs[].memory_bytes / 1048576' "$run/now.json"); do
		[[ " ${mib_of[n]} ${next_mib[n]:-} ${restarted:+${configured[n]}} " == *" $got "* ]] || fail "VF $n has $got MiB, want ${mib_of[n]} ${next_mib[n]:-}: $(ctl memory show)"
		mib_of[n++]=$got
	done
	next_mib=()
	json memory show | jq -e --argjson sizes "[$(IFS=,; echo "${mib_of[*]}")]" '.total_bytes as $all |
		([foreach .extents[] as $e (0; if . == $e.offset then . + $e.bytes else -1 end)] | last == $all and all(. > 0)) and
		([.extents[].state] | unique - ["owned", "free"] == []) and .failed_pieces == 0 and
		([.extents[] | select(.owner == "pf") | .bytes] == [33554432]) and
		([.extents[] | select(.owner == "vf")] | sort_by(.vf) | map([.vf, .bytes / 1048576])) == ($sizes | to_entries | map([.key, .value]))' \
		>/dev/null || fail "the table of memory is wrong: $(ctl memory show; json memory show | jq -c .)"
}
finds_marks() { "$canary" find "$run/gpu/vf$visit_vf.sock" "${marks[@]}" >"$run/found" 2>>"$run/canary.log"; }
# A new tenant of the visitor's VF finds no mark that anybody has ever left. softgpu asks a VF's process every 5 s whether it
# serves its client, and kills one that the last client has left in a system call: until then the VF cannot be used.
check_marks() {
	await 30 finds_marks
	[ "$(sort -u "$run/found")" = 0 ] || fail "VF $visit_vf has a mark of another tenant: $(paste -sd' ' "$run/found") of ${marks[*]}"
}
# Nor is one anywhere in the GPU's memory. vgpud has let go of the PF.
search_all() { "$canary" pf "$run/gpu/pf.sock" $vram_mib "${recent[@]}" >"$run/found" 2>>"$run/canary.log"; }
check_everywhere() {
	local recent=("${marks[@]}")
	[ ${#marks[@]} -le 30 ] || recent=("${marks[@]: -30}") # canary looks for no more at once
	await 60 search_all
	[ "$(sort -u "$run/found")" = 0 ] || fail "marks are left in the GPU's memory: $(paste -sd' ' "$run/found") of ${recent[*]}"
}

# --- What is left behind -----------------------------------------------------------------------------------------------
# This storm has a process namespace of its own, so each process in it is the storm's.
left_behind() { # prints all processes, descriptors by kind, memory files, and sockets
	local p name role roles=()
	for p in /proc/[0-9]*; do
		{ read -r name <"$p/comm"; } 2>/dev/null || continue
		case $name in storm.sh | find | awk | sort | ls | sleep | uniq) continue ;; esac
		echo "process $name"
		role=$name
		case $name in
		softgpu-vf) { mapfile -d '' -t words <"$p/cmdline"; } 2>/dev/null; role=$name-${words[2]:-} ;;
		softgpu | vgpud | vgpud-libvirt) ;;
		*) continue ;;
		esac
		roles+=("$p/fd")
		printf '%s %s\n' "$p/fd" "$role" >>"$run/roles"
	done
	find "${roles[@]}" -type l -printf '%h %l\n' 2>/dev/null | awk -v roles="$run/roles" '
		BEGIN { while ((getline line < roles) > 0) { split(line, w); role[w[1]] = w[2] } }
		{ kind = substr($0, index($0, " ") + 1); sub(/:\[.*/, "", kind); gsub(/\/[0-9]+/, "/N", kind); print "descriptor of " role[$1] ": " kind }'
	awk '/memfd:softgpu/ { print $5, $6 }' /proc/[0-9]*/maps 2>/dev/null | sort -u | awk '{ print "memory file " $2 }'
	find "$run/gpu" /run/vgpud -mindepth 1 ! -path /run/vgpud/live.json # there while an operator's change is in force
}
as_before() {
	: >"$run/roles"
	left_behind | sort | uniq -c >"$run/left"
	cmp -s "$run/left" "$run/baseline"
}
check_left() {
	local end=$((SECONDS + 30))
	until as_before; do
		[ $SECONDS -lt $end ] || fail "something is left behind: $(diff "$run/baseline" "$run/left")"
		sleep 0.1
	done
}
# Leases are those of the VMs that run, and nothing is reserved.
check_leases() { await 60 leases_are '["vm1 running"]'; }

check_all() {
	check_tenants
	check_vm
	check_memory
	check_marks
	await 60 is $visit_vf state available
	check_leases
	check_shares
	check_ledger
	check_innocent
	check_left
}
