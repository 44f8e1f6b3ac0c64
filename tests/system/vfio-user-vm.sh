#!/bin/bash
# SPDX-License-Identifier: MIT
# VMs of a real libvirtd compute, each on a VF of softgpu that is attached as a vfio-user device. This needs no GPU, no VFIO of
# Linux and no rights except libvirt's. The VMs run tests/vm/bare/tenant.c in the QEMU that tests/vm/setup-vfio-user fetched.
qemu=${VGPU_QEMU:-$(cd "$(dirname "$0")/../.." && pwd)/build/vm-vfio-user/qemu}
tenant=$VGPU_BUILD/tests/vm/tenant
[ -x "$qemu" ] || { echo "skipped: no QEMU with vfio-user; tests/vm/setup-vfio-user fetches one"; exit 77; }
[ -e "$tenant" ] || { echo "skipped: the tenant is for x86_64"; exit 77; }
. "$(dirname "$0")/libvirtd.sh"
# The fetched QEMU replaces this machine's QEMU in this namespace: libvirtd must query no other QEMU, and the fetched one must
# not find modules of another version.
mount --bind "${qemu%/*}/root/usr/lib/x86_64-linux-gnu/qemu" /usr/lib/x86_64-linux-gnu/qemu
for q in /usr/bin/qemu-system-*; do mount --bind "$qemu" "$q"; done
define() { # NAME VF WEIGHT
	virsh -q define /dev/stdin <<-XML || fail "$1 cannot be defined"
		<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>$1</name>
		<metadata><v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='x' alias='ua-x'>
		<v:sched><v:weight>$3</v:weight></v:sched></v:vf></v:vgpu></metadata>
		<memory unit='MiB'>32</memory><memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking><vcpu>1</vcpu>
		<os><type arch='x86_64' machine='q35'>hvm</type><kernel>$tenant</kernel></os>
		<features><acpi/></features><cpu mode='custom' match='exact'><model>qemu64</model></cpu>
		<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
		<controller type='usb' model='none'/><memballoon model='none'/>
		<controller type='pci' index='0' model='pcie-root'/><controller type='pci' index='1' model='pcie-root-port'/>
		<serial type='file'><source path='$run/$1.console'/></serial></devices>
		<qemu:commandline><qemu:arg value='-device'/>
		<qemu:arg value='{"driver":"vfio-user-pci","id":"ua-x","bus":"pci.1","socket":{"type":"unix","path":"$run/gpu/vf$2.sock"}}'/>
		</qemu:commandline></domain>
	XML
}
jobs_of() { tr -d '\r' <"$run/$1.console" | sed -n 's/^jobs \([0-9]*\) wrong 0$/\1/p' | tail -1; }
has_done() { [ "$(jobs_of $1)" -ge "$2" ]; }
never_wrong() { has_done $1 8 && ! grep -qE 'wrong [1-9]|reset' "$run/$1.console"; }

first_libvirtd
start_softgpu --vfs 4
cat >"$run/vgpud.conf" <<CONF
[gpu gpu0]
device = vfio-user:$run/gpu/pf.sock
vfs = 4
grace_ms = 1000
CONF
start_vgpud
define a 0 200
define b 2 100
define c 2 100
virsh -q start a || fail "a does not start"
virsh -q start b || fail "b does not start"
[ "$(json vm list | jq -c '[.vms[] | "\(.domain) \(.vf) \(.state)"] | sort')" = '["a 0 running","b 2 running"]' ] ||
	fail "the VMs do not have the VFs of their devices: $(leases)"
virsh -q start c 2>"$run/said" && fail "c has started with b's VF"
grep -q "c/x: VF 2 of gpu0 belongs to b" "$run/said" || fail "virsh says: $(cat "$run/said")"
await 60 has_done a 8
await 60 has_done b 8
shares_kept 3 0=200 2=100
# vgpud is killed and started again: both VMs keep their VFs and continue.
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
start_vgpud
leases_are '["a running","b running"]' || fail "leases: $(leases)"
await 60 has_done a $(($(jobs_of a) + 16))
# VM b is destroyed during a slice: VM a continues, and VM c gets b's VF.
was=$(jobs_of a)
virsh -q destroy b
leases_are '["a running"]' || fail "leases: $(leases)"
await 30 is 2 state available
await 60 has_done a $((was + 16))
virsh -q start c || fail "c does not start"
await 60 has_done c 8
for vm in a b c; do never_wrong $vm || fail "$vm: $(tail -3 "$run/$vm.console")"; done
# QEMU of VM c is killed: its lease ends. VM a is reset: its VF is reset with it, and its guest brings the VF up again.
kill -9 "$(cat /run/libvirt/qemu/c.pid)"
await 30 leases_are '["a running"]'
virsh -q reset a
up_again() { [ "$(grep -c "is up" "$run/a.console")" -ge 2 ]; }
await 60 up_again
virsh -q destroy a
await 60 leases_are '[]'
stop_libvirtd TERM
