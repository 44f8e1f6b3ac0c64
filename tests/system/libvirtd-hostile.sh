#!/bin/bash
# SPDX-License-Identifier: MIT
# libvirtd-hostile.sh [KIND...]: libvirtd lies: events without an end, endless XML, domains that come and go, answers that never come.
# vgpud answers root and another libvirt's hook as soon as another vgpud does, vgpud-libvirt stays small and rests, and who
# has a VF keeps it.
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
most_resident() { awk '/^VmHWM/ {print int($2 / 1024)}' "/proc/$1/status"; }
# ask NAME: root's list and the hook of this vgpud, and of the other one.
ask() {
	local n
	: >"$run/answers"
	for n in $(seq 40); do
		timed hook ask_hook
		VGPUD_HOOK_SOCKET=$run/other/hook.sock timed other_hook ask_hook
		timed list json vf list >/dev/null || fail "$1: vgpud does not answer"
		timed other_list "$vgpuctl" --socket "$run/other/control.sock" -o json vf list >/dev/null || fail "$1: the other vgpud does not answer"
	done
}
# What all answers but two came within, ms.
most() { awk -v name="$1" '$1 == name {print $2}' "$run/answers" | sort -n | awk '{t[NR] = $1} END {print int(t[NR - 2] / 1000)}'; }
asked() { grep -q asked "$run/$kind.txt"; }
looked() { grep looks "$run/$kind.txt" | tail -1; }
# Once in whole; of domains with much XML that takes long.
has_looked() { [ "$kind" = mute ] || [ -n "$(looked)" ] || [ "$(grep -c asked "$run/$kind.txt")" -gt 128 ]; }
# Another vgpud, of which that libvirtd is not: it has the same machine.
mkdir "$run/other"
cat >"$run/other/vgpud.conf" <<-CONF
	[daemon]
	socket = $run/other/control.sock
	hook_socket = $run/other/hook.sock
	[gpu gpu0]
	device = null:
	vfs = 4
CONF
"$vgpud" --config "$run/other/vgpud.conf" 2>"$run/other/vgpud.log" &
other=$!
await 30 test -S "$run/other/hook.sock"
kinds=${*:-storm long churn mute}
for kind in $kinds; do
	rm -f "$run/virt.sock"
	python3 -u "$(dirname "$0")/hostile-libvirtd.py" "$run/virt.sock" $kind >"$run/$kind.txt" 2>"$run/$kind.err" &
	libvirtd=$!
	await 30 test -S "$run/virt.sock"
	# A sanitizer keeps what was freed, which is not the program's.
	ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=1 "$agent" --connect "qemu+unix:///system?socket=$run/virt.sock" --socket "$run/hook.sock" 2>"$run/agent.log" &
	agent_pid=$!
	await 60 asked
	ask $kind
	await 180 has_looked
	echo "$kind: list $(most list) ms, another vgpud's $(most other_list); hook $(most hook) ms, another's $(most other_hook); vgpud-libvirt $(most_resident $agent_pid) MiB, $(looked), load $(cut -d' ' -f1 /proc/loadavg)"
	for what in list hook; do
		[ "$(most $what)" -le $((250 + 2 * $(most other_$what))) ] || fail "$kind: $what takes $(most $what) ms, another vgpud's $(most other_$what)"
	done
	[ "$(most_resident $agent_pid)" -lt 224 ] || fail "$kind: vgpud-libvirt takes $(most_resident $agent_pid) MiB"
	# It rests for twice as long as it has looked.
	awk '$3 > 0.4 {exit 1}' <(looked) || fail "$kind: vgpud-libvirt does not rest: $(looked)"
	kill -0 $agent_pid || fail "$kind: vgpud-libvirt has ended: $(cat "$run/agent.log")"
	is 0 state active || fail "$kind: the tenant of VF 0 has lost it"
	kill -9 $agent_pid $libvirtd
	wait $agent_pid $libvirtd 2>/dev/null
done
kill $other; wait $other || fail "the other vgpud ended with $?"
kill -INT $tenant; wait_guest $tenant tenant
[ "$(field tenant resets)" = 0 ] || fail "the tenant was reset"
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
