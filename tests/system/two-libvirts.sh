#!/bin/bash
# SPDX-License-Identifier: MIT
# Two real libvirtd, each in a mount namespace of its own, use one vgpud; VMs with claims move from one to the other, and
# back. What one of them reports does not touch what vgpud gave to the other's VMs, not even for the same UUID.
agent=$VGPU_BUILD/tools/libvirt/daemon/vgpud-libvirt
[ -x "$agent" ] || { echo "skipped: vgpud-libvirt is not built: libvirt's headers are missing"; exit 77; }
. "$(dirname "$0")/libvirtd.sh"
command -v nsenter >/dev/null || { echo "skipped: nsenter is missing"; exit 77; }

# The other host: the same kernel, vgpud and QEMU, and its own directories for libvirt.
for d in etc/hooks/qemu.d run lib cache log; do mkdir -p "$run/b/$d"; done
cp -r /etc/libvirt/. "$run/b/etc/"
sed -i "s|$run/libvirtd.log|$run/libvirtd-b.log|" "$run/b/etc/libvirtd.conf"
# Another hook of the second libvirt, behind vgpud's, which prints nothing for VMs without a device, changes the domain that comes.
cat >"$run/b/etc/hooks/qemu.d/60-title" <<'HOOK'
#!/bin/sh
case $2 in migrate) sed 's|</uuid>|&<title>came</title>|' ;; esac
HOOK
chmod +x "$run/b/etc/hooks/qemu.d/60-title"
# libvirt refuses to migrate to a host that has the same UUID.
echo 'host_uuid = "00000000-0000-4000-8000-00000000000a"' >>/etc/libvirt/libvirtd.conf
echo 'host_uuid = "00000000-0000-4000-8000-00000000000b"' >>"$run/b/etc/libvirtd.conf"
unshare --mount --propagation private sleep infinity &
other=$!
await 60 test -d /proc/$other/ns
in_b() { nsenter --mount=/proc/$other/ns/mnt "$@"; }
is_apart() { [ "$(readlink /proc/$other/ns/mnt)" != "$(readlink /proc/self/ns/mnt)" ]; }
await 60 is_apart
in_b mount --bind "$run/b/etc" /etc/libvirt
in_b mount --bind "$run/b/run" /run/libvirt
for d in lib cache log; do in_b mount --bind "$run/b/$d" /var/$d/libvirt; done

first_libvirtd
in_b libvirtd --daemon --pid-file /run/libvirt/libvirtd.pid
await 30 in_b virsh -q version
start_softgpu --vfs 4
cat >"$run/vgpud.conf" <<-CONF
	[daemon]
	[gpu gpu0]
	device = vfio-user:$run/gpu/pf.sock
	vfs = 4
CONF
start_vgpud
for n in 1 2; do
	virsh -q define /dev/stdin <<-XML || fail "vm$n cannot be defined"
		<domain type='qemu'><name>vm$n</name><uuid>8a1f0b3c-0000-4000-8000-00000000000$n</uuid>
		<metadata><v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'><v:sched><v:weight>$((n + 1))00</v:weight></v:sched></v:vf></v:vgpu></metadata>
		<memory unit='MiB'>24</memory><vcpu>1</vcpu><os><type arch='x86_64' machine='pc'>hvm</type></os>
		<devices><emulator>/usr/bin/qemu-system-x86_64</emulator><controller type='usb' model='none'/><memballoon model='none'/></devices></domain>
	XML
	virsh -q start vm$n || fail "vm$n does not start"
done
"$agent" 2>>"$run/agent-a.log" &
in_b "$agent" 2>>"$run/agent-b.log" &
for h in a b; do await 60 grep -q 'connected to libvirt' "$run/agent-$h.log"; done
# Each has told vgpud what it runs: one has both VMs, the other one none.
ask_weight() { json vf show "$(json vm list | jq "[.vms[] | select(.domain == \"$1\")][0].vf")" | jq .params.weight; }
nudge() { # a change that both libvirts' vgpud-libvirt look at
	virsh -q metadata vm2 --live --uri urn:vgpud:xmlns:domain:1 --key v --set "<vgpu version='1'><vf name='a'><sched><weight>$1</weight></sched></vf></vgpu>" || fail "vm2's claim cannot be changed"
}
weight_of_vm2() { [ "$(ask_weight vm2)" = "$1" ]; }
nudge 310; await 60 weight_of_vm2 310
leases_are '["vm1 running","vm2 running"]' || fail "leases: $(leases)"

# vm1 moves, running, from the first to the second libvirt.
there="qemu+unix:///system?socket=$run/b/run/libvirt-sock"
move() { # FROM TO-URI
	$1 virsh -q migrate --live vm1 "$2" --migrateuri "unix://$run/migrate.sock" --disks-uri "unix://$run/disks.sock" 2>"$run/said"
}
virsh -c "$there" -q version >/dev/null || fail "the other libvirt cannot be reached"
move "" "$there" || fail "vm1 does not migrate: $(cat "$run/said")"
[ "$(in_b virsh -q domstate vm1)" = running ] || fail "vm1 does not run at the other libvirt"
[ "$(virsh -q domstate vm1)" = "shut off" ] || fail "vm1 still runs at the first libvirt"
in_b virsh -q dumpxml vm1 | grep -q '<title>came</title>' || fail "the second libvirt has not taken the XML that a hook has printed: $(in_b virsh -q dumpxml vm1)"
# The end of vm1 at the first libvirt has ended its lease there, and no other: it has one VF, with its weight, and vm2 has its own.
one_each() { leases_are '["vm1 running","vm2 running"]'; }
await 60 one_each
nudge 320; await 60 weight_of_vm2 320
one_each || fail "after the first libvirt's report: $(leases)"
[ "$(ask_weight vm1)" = 200 ] || fail "vm1 lost its weight on the way"
in_b virsh -q metadata vm1 --live --uri urn:vgpud:xmlns:domain:1 --key v --set "<vgpu version='1'><vf name='a'><sched><weight>250</weight></sched></vf></vgpu>"
weight_of_vm1() { [ "$(ask_weight vm1)" = "$1" ]; }
await 60 weight_of_vm1 250
one_each || fail "after the other libvirt's report: $(leases)"
# The first libvirt starts a VM of the same UUID that the other one runs: each has its own VF, and the end of one leaves the other.
virsh -q start vm1 || fail "vm1 does not start a second time"
leases_are '["vm1 running","vm1 running","vm2 running"]' || fail "leases: $(leases)"
virsh -q destroy vm1
nudge 330; await 60 weight_of_vm2 330
one_each || fail "after the end of the VM of the same UUID: $(leases)"
await 60 weight_of_vm1 250
# vgpud-libvirt's libvirt is restarted: it is the same one.
stop_libvirtd TERM
start_libvirtd
nudge 340; await 40 weight_of_vm2 340
one_each || fail "after a restart of the first libvirt: $(leases)"
# The VM ends where it runs.
in_b virsh -q destroy vm1
await 60 leases_are '["vm2 running"]'
virsh -q destroy vm2
await 60 leases_are '[]'
stop_libvirtd TERM
kill "$(cat "$run/b/run/libvirtd.pid")"
