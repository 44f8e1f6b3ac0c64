#!/bin/bash
# SPDX-License-Identifier: MIT
# libvirtd-hostile.sh [KIND...]: libvirtd lies: events without an end, endless XML, domains that come and go, answers that never come.
# vgpud answers root and another libvirt's hook as soon as without it, vgpud-libvirt stays small, and who has a VF keeps it.
agent=$VGPU_BUILD/tools/libvirt/daemon/vgpud-libvirt
[ -x "$agent" ] || { echo "skipped: vgpud-libvirt is not built: libvirt's headers are missing"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hooks.sh"
. "$(dirname "$0")/attack-lib.sh"
start_softgpu --vfs 4
config <<<"vfs = 4"
start_vgpud
start_guest tenant 0 spin --us 2000 --depth 16 --seconds 600; tenant=$guest_pid
await 30 is 0 state active
resident() { awk '/^VmRSS/ {print int($2 / 1024)}' "/proc/$1/status"; }
# ask NAME: root's list and the hook, so often that the slowest is the p99.
ask() {
	local n
	: >"$run/answers"
	for n in $(seq 40); do
		timed hook ask_hook
		timed list json vf list >/dev/null || fail "$1: vgpud does not answer"
	done
}
worst() { awk -v name="$1" '$1 == name && $2 > most {most = $2} END {print int(most / 1000)}' "$run/answers"; }
asked() { grep -q asked "$run/$kind.txt"; }
kinds=${*:-storm long churn mute}
for kind in $kinds; do
	ask "no libvirtd"
	list=$(worst list) hook=$(worst hook)
	python3 -u "$(dirname "$0")/hostile-libvirtd.py" "$run/virt.sock" $kind >"$run/$kind.txt" 2>"$run/$kind.err" &
	libvirtd=$!
	pids+=($libvirtd)
	await 30 test -S "$run/virt.sock"
	# A sanitizer keeps what was freed, which is not the program's.
	ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=1 "$agent" --connect "qemu+unix:///system?socket=$run/virt.sock" --socket "$run/hook.sock" 2>"$run/agent.log" &
	agent_pid=$!
	pids+=($agent_pid)
	await 60 asked
	ask $kind
	echo "$kind: list $(worst list) ms, without $list; hook $(worst hook) ms, without $hook; vgpud-libvirt $(resident $agent_pid) MiB, load $(cut -d' ' -f1 /proc/loadavg)"
	for what in list hook; do
		[ "$(worst $what)" -le $((250 + 4 * ${!what})) ] || fail "$kind: $what takes $(worst $what) ms, ${!what} without a libvirtd"
	done
	[ "$(resident $agent_pid)" -lt 256 ] || fail "$kind: vgpud-libvirt takes $(resident $agent_pid) MiB"
	kill -0 $agent_pid || fail "$kind: vgpud-libvirt has ended: $(cat "$run/agent.log")"
	is 0 state active || fail "$kind: the tenant of VF 0 has lost it"
	kill -9 $agent_pid $libvirtd
	wait $agent_pid $libvirtd 2>/dev/null
done
kill -INT $tenant; wait_guest $tenant tenant
[ "$(field tenant resets)" = 0 ] || fail "the tenant was reset"
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
