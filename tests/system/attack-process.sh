#!/bin/bash
# SPDX-License-Identifier: MIT
# The process of one VF is stopped, killed, and taken over, while three tenants compute on the other VFs. They keep their
# shares, wait no longer than without an attack by more than a slice and the grace, and are not reset; and the VF serves its
# next client. attack-process.sh KIND...: what a process is that is taken over (tests/system/impostor.c).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
use_impostors softgpu-vf
becomes none
start_tenants
had=$(descriptors)

# Each process is nobody's, cannot become more, goes first where memory runs out, and has a budget of descriptors.
for n in 0 1 2 3; do
	p=$(process_of $n)
	[ "$(echo "$p" | wc -w)" = 1 ] || fail "VF $n has the processes '$p'"
	for line in "NoNewPrivs:	1" "Seccomp:	2" "CapPrm:	0*" "CapEff:	0*"; do
		grep -qx "$line" "/proc/$p/status" || fail "VF $n: $(cat "/proc/$p/status")"
	done
	[ "$(id -u)" != 0 ] || ! grep -qE '^(Uid|Gid):.*\b0\b' "/proc/$p/status" || fail "VF $n's process is root's"
	[ "$(cat "/proc/$p/oom_score_adj")" -gt "$(cat "/proc/$softgpu_pid/oom_score_adj")" ] || fail "VF $n's process would outlive the device"
	[ "$(awk '/open files/ {print $5}' "/proc/$p/limits")" -le 1200 ] || fail "VF $n's process may have any number of files"
	# Nothing of what its client can send runs at a priority of the real-time class, and nothing in it can raise its own.
	grep -qE '^Max realtime priority +0 +0 ' "/proc/$p/limits" || fail "VF $n's process may become real-time: $(cat "/proc/$p/limits")"
	grep -qE '^Max nice priority +0 +0 ' "/proc/$p/limits" || fail "VF $n's process may become less nice: $(cat "/proc/$p/limits")"
	for t in /proc/"$p"/task/*; do
		case $(cat "$t/comm") in sv-server | sv-bell) [ "$(awk '{print $41}' "$t/stat")" = 0 ] || fail "$(cat "$t/comm") is real-time" ;; esac
	done
	# It has no listener: whoever takes it over cannot accept the VF's next client.
	for socket in $(find "/proc/$p/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n'); do
		! awk -v inode="$socket" '$7 == inode && $4 == "00010000" {found = 1} END {exit !found}' /proc/net/unix || fail "VF $n's process can accept clients"
	done
	# Of all partitions' files it has its own VF's.
	find "/proc/$p/fd" -lname '/memfd:softgpu (deleted)' -exec stat -Lc "$n %i" {} + >>"$run/files"
done
[ "$(cut -d' ' -f1 "$run/files" | paste -sd' ')" = "0 1 2 3" ] || fail "VFs' processes have these files of partitions: $(cat "$run/files")"
[ "$(cut -d' ' -f2 "$run/files" | sort | uniq -d)" = "" ] || fail "two VFs' processes have one file: $(cat "$run/files")"

# What VF 3's process shares with softgpu and its client: nothing of it is the next one's.
shares() { awk '/memfd:softgpu/ {print $5}' "/proc/$(process_of 3)/maps" | sort -u; }
shares_something() { [ -n "$(shares)" ]; }
for signal in STOP KILL; do
	control SIG$signal
	start_guest victim 3 spin --us 50000 --depth 16 --seconds 600; victim=$guest_pid
	await 30 is 3 state active
	observe before
	shares >"$run/shared"
	[ "$(wc -l <"$run/shared")" -ge 2 ] || fail "VF 3's process shares $(cat "$run/shared")"
	kill -$signal "$(process_of 3)"
	neighbours_keep "a VF process gets SIG$signal"
	wait $victim
	await 60 is 3 state available
	await 30 shares_something
	shares >"$run/next"
	[ -z "$(comm -12 "$run/next" "$run/shared")" ] || fail "after SIG$signal VF 3's next process has a file of the last one's"
done
start_guest next 3 mandelbrot --jobs 2; wait_guest $guest_pid next
await 60 is 3 state available
is_real_time() { awk '$41 == 1 {found = 1} END {exit !found}' /proc/"$1"/task/*/stat; }
kinds=${*:-deaf hold scribble truncate notices late lingers keeps borrows}
for kind in $kinds; do
	control $kind
	observe before
	becomes $kind
	ends 3
	await 30 runs 3
	neighbours_keep "a VF process that was taken over: $kind"
	# Where softgpu has a real-time priority to lend, this one has had it; its thread has not.
	[ "$kind" != borrows ] || ! is_real_time "$softgpu_pid" || await 30 grep -q "impostor: is lent" "$run/softgpu.log"
	becomes none
	ends 3
	"$attack" look "$run/gpu/vf3.sock" 30 >"$run/look.txt" || fail "after $kind the VF is not served"
	! grep -q "impostor: its thread keeps" "$run/softgpu.log" || fail "$kind: a thread keeps the priority that was lent for a stop"
	! grep -q "impostor: accepts" "$run"/*.log || fail "who has taken over a process accepts clients of the next one"
done
await 60 no_more_descriptors "$had"
end_tenants
