#!/bin/bash
# SPDX-License-Identifier: MIT
# The process of one VF is stopped, killed, and taken over, and so is its worker, while three tenants compute on the other VFs.
# They keep their shares, wait no longer than without an attack by more than a slice and the grace, and are not reset; and the VF
# serves its next client.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
# softgpu finds impostors where it would be installed.
mkdir -p "$run/bin" "$run/libexec/vgpud" "$run/real"
cp "$softgpu" "$run/bin/softgpu"
for name in vf worker; do
	cp "$VGPU_BUILD/tests/system/impostor" "$run/libexec/vgpud/softgpu-$name"
	ln -s "$VGPU_BUILD/tools/softgpu/$name/softgpu-$name" "$run/real/softgpu-$name"
done
softgpu=$run/bin/softgpu
export IMPOSTOR=$run/kind REAL=$run/real
taken_over() { # KIND: VF 3's next process, or its worker
	echo "$1" >"$IMPOSTOR"
	kill -9 "$(vf_process 3)"
}
echo none >"$IMPOSTOR"
start_tenants

# Each process is nobody's, cannot become more, goes first where memory runs out, and has a budget of descriptors.
for n in 0 1 2 3; do
	p=$(vf_process $n)
	[ "$(echo "$p" | wc -w)" = 1 ] || fail "VF $n has the processes '$p'"
	for line in "NoNewPrivs:	1" "Seccomp:	2" "CapPrm:	0*" "CapEff:	0*"; do
		grep -qx "$line" "/proc/$p/status" || fail "VF $n: $(cat "/proc/$p/status")"
	done
	[ "$(id -u)" != 0 ] || ! grep -qE '^(Uid|Gid):.*\b0\b' "/proc/$p/status" || fail "VF $n's process is root's"
	[ "$(cat "/proc/$p/oom_score_adj")" -gt "$(cat "/proc/$softgpu_pid/oom_score_adj")" ] || fail "VF $n's process would outlive the device"
	[ "$(awk '/open files/ {print $5}' "/proc/$p/limits")" -le 1200 ] || fail "VF $n's process may have any number of files"
	# Nothing of what its client can send runs at a priority of the real-time class, and nothing in it can raise its own.
	grep -qE '^Max realtime priority +0 +0 ' "/proc/$p/limits" || fail "VF $n's process may become real-time: $(cat "/proc/$p/limits")"
	grep -qE '^Max nice priority +0 +0 ' "/proc/$p/limits" || fail "VF $n's process may be less nice: $(cat "/proc/$p/limits")"
	for t in /proc/"$p"/task/*; do
		case $(cat "$t/comm") in sv-server | sv-bell) [ "$(awk '{print $41}' "$t/stat")" = 0 ] || fail "$(cat "$t/comm") is real-time" ;; esac
	done
	# The files of partitions that it has are its own VF's.
	for f in /proc/"$p"/fd/*; do
		case $(readlink "$f") in /memfd:softgpu\ *) stat -Lc "$n %i" "$f" ;; esac
	done
done >"$run/files"
[ "$(wc -l <"$run/files")" = 4 ] || fail "VFs' processes have these files of partitions: $(cat "$run/files")"
[ "$(cut -d' ' -f2 "$run/files" | sort | uniq -d)" = "" ] || fail "two VFs' processes have one file: $(cat "$run/files")"

had=$(descriptors)
under() { # WHAT: judges the neighbours while it goes on
	observe before
	await 20 have_run before
	observe after
	judge "$1" before after
	audited "$1"
}
serves_again() { # WHAT
	await 60 served 3
	await 60 is 3 state available
	start_guest next 3 mandelbrot --jobs 2; wait_guest $guest_pid next
	await 60 is 3 state available
}
for kind in deaf scribble truncate notices late; do
	taken_over $kind
	await 30 served 3
	under "a VF process that was taken over: $kind"
	taken_over none
	serves_again
done
for signal in STOP KILL; do
	start_guest victim 3 spin --us 50000 --depth 16 --seconds 600; victim=$guest_pid
	await 30 is 3 state active
	kill -$signal "$(vf_process 3)"
	under "a VF process gets SIG$signal"
	wait $victim
	serves_again
done
await 10 [ "$(descriptors)" -le "$had" ]
end_tenants

start_tenants --engine host --window 16M
had=$(descriptors)
for kind in deaf scribble truncate; do
	taken_over none
	serves_again
	echo $kind >"$IMPOSTOR"
	start_guest victim 3 spin --us 50000 --depth 16 --seconds 600; victim=$guest_pid
	kill -9 $victim; wait $victim 2>/dev/null # the next worker is the impostor
	await 60 is 3 state available
	start_guest victim 3 spin --us 50000 --depth 16 --seconds 600; victim=$guest_pid
	under "a worker that was taken over: $kind"
	kill -9 $victim; wait $victim 2>/dev/null
done
end_tenants
