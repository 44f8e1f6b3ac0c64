#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures what vgpud costs users of libvirt: the time that the start of a VM takes without the hook, with the hook but
# without a claim, and with both; and the time from the return of virsh metadata until vgpuctl shows the changed weight.
# One JSON object on stdout; nothing is asserted. Usage: VGPU_BUILD=DIR libvirt.sh [ROUNDS]
rounds=${1:-20}
. "$(dirname "$0")/../system/libvirtd.sh"
agent=$VGPU_BUILD/tools/libvirt/daemon/vgpud-libvirt
define() { # NAME CLAIM
	virsh -q define /dev/stdin <<-XML
		<domain type='qemu'><name>$1</name><metadata>$2</metadata><memory unit='MiB'>24</memory><vcpu>1</vcpu>
		<os><type arch='x86_64' machine='pc'>hvm</type></os>
		<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
		<controller type='usb' model='none'/><memballoon model='none'/></devices></domain>
	XML
}
claim() { echo "<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'><v:sched><v:weight>$1</v:weight></v:sched></v:vf></v:vgpu>"; }
starts() { # VM
	local i from
	for i in $(seq "$rounds"); do
		from=${EPOCHREALTIME/./}
		virsh -q start "$1" || fail "$1 does not start"
		echo $((${EPOCHREALTIME/./} - from))
		virsh -q destroy "$1"
	done
}
quantiles() { jq -cs 'sort | {n: length, p50_us: .[length / 2 | floor], p99_us: .[length * 99 / 100 | floor], max_us: .[-1]}'; }
first_libvirtd
start_softgpu --vfs 4
printf '[gpu gpu0]\ndevice = vfio-user:%s\nvfs = 4\n' "$run/gpu/pf.sock" >"$run/vgpud.conf"
start_vgpud
define with "$(claim 100)"
define without ""
claimed=$(starts with | quantiles)
hooked=$(starts without | quantiles)
"$agent" 2>"$run/agent.log" &
await 20 grep -q "connected to libvirt" "$run/agent.log"
virsh -q start with
vf=$(json vm list | jq '.vms[0].vf')
counts() { [ "$(json vf show "$vf" | jq .params.weight)" = "$1" ]; }
changed=$(for i in $(seq "$rounds"); do
	virsh -q metadata with --live --uri urn:vgpud:xmlns:domain:1 --key v --set "<vgpu version='1'><vf name='a'><sched><weight>$((100 + i))</weight></sched></vf></vgpu>"
	from=${EPOCHREALTIME/./}
	until counts $((100 + i)); do :; done
	echo $((${EPOCHREALTIME/./} - from))
done | quantiles)
looked=$(for i in $(seq "$rounds"); do
	from=${EPOCHREALTIME/./}
	counts 0
	echo $((${EPOCHREALTIME/./} - from))
done | quantiles)
virsh -q destroy with
stop_libvirtd TERM
rm /etc/libvirt/hooks/qemu.d/50-vgpud
start_libvirtd
bare=$(starts without | quantiles)
stop_libvirtd TERM
jq -cn --argjson bare "$bare" --argjson hooked "$hooked" --argjson claimed "$claimed" --argjson changed "$changed" --argjson looked "$looked" \
	'{start_without_hook: $bare, start_with_hook: $hooked, start_with_claim: $claimed, metadata_to_effect: $changed, one_look_at_it: $looked}'
