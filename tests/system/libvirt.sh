#!/bin/bash
# SPDX-License-Identifier: MIT
# A real libvirtd of our own, in namespaces of its own, with small VMs under TCG: what its hook does at starts, ends,
# crashes and restarts of everything. The VMs have no VF in them (that is the lab's); who has which is what counts.
agent=$VGPU_BUILD/tools/libvirt/daemon/vgpud-libvirt
[ -x "$agent" ] || { echo "skipped: vgpud-libvirt is not built: libvirt's headers are missing"; exit 77; }
. "$(dirname "$0")/libvirtd.sh"
conf() {
	cat >"$run/vgpud.conf" <<-CONF
		[daemon]
		lease_s = ${1:-120}
		[gpu gpu0]
		device = vfio-user:$run/gpu/pf.sock
		vfs = 4
	CONF
}
define() { # N CLAIM
	virsh -q define /dev/stdin <<-XML || fail "vm$1 cannot be defined"
		<domain type='qemu'><name>vm$1</name><uuid>$(printf '8a1f0b3c-0000-4000-8000-%012d' "$1")</uuid>
		<metadata>$2</metadata><memory unit='MiB'>24</memory><vcpu>1</vcpu>
		<os><type arch='x86_64' machine='pc'>hvm</type></os><on_crash>destroy</on_crash>
		<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
		<controller type='usb' model='none'/><memballoon model='none'/></devices></domain>
	XML
}
claim() { echo "<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'>$1</v:vf></v:vgpu>"; }
state_is() { [ "$(virsh -q domstate vm$1)" = "$2" ]; }
qemu_of() { cat "/run/libvirt/qemu/vm$1.pid"; }

first_libvirtd
start_softgpu --vfs 4
conf
start_vgpud
define 1 "$(claim '<v:sched><v:weight>300</v:weight></v:sched>')"
define 2 "$(claim "<v:memory unit='GiB'>9</v:memory>")"
define 3 ""
virsh dumpxml vm1 | "$vgpuctl" validate - | grep -q 'weight 300' || fail "validate does not see the claim"

explains() { # DOMAIN WORDS
	PATH=$PATH:${agent%/*} ctl vm explain "$1" | grep -q "$2" || fail "vm explain $1 does not say '$2': $(PATH=$PATH:${agent%/*} ctl vm explain "$1" 2>&1)"
}
PATH=$PATH:${agent%/*} ctl validate vm1 | grep -q 'weight 300' || fail "validate does not read from libvirt"
explains vm1 "^vm1/a: free: VF 0 of gpu0 is free, if policy fair admits the claim$"
explains vm2 "^vm2/a: refused: 9216 MiB are claimed"
explains vm3 "^vm3 claims no VF and has none$"
virsh -q start vm1 || fail "vm1 does not start"
leases_are '["vm1 running"]' || fail "leases: $(leases)"
explains vm1 "^vm1/a: running: VF 0 of gpu0, at $run/gpu/vf0.sock$"
PATH=$PATH:${agent%/*} ctl vm explain vm99 2>"$run/said" && fail "vm99 was explained"
grep -q "vm99: Domain not found" "$run/said" || fail "vm99: $(cat "$run/said")"
virsh -q start vm2 2>"$run/said" && fail "vm2 has started"
grep -q "vgpud: vm2/a: 9216 MiB are claimed; gpu0 can free at most" "$run/said" || fail "virsh says: $(cat "$run/said")"
virsh -q start vm3 || fail "vm3, which claims nothing, does not start"
# A reset of the guest calls no hook, and changes nothing.
virsh -q reset vm1
leases_are '["vm1 running"]' || fail "leases: $(leases)"
# libvirtd restarted, and killed, with vgpud there and without: VMs run on.
stop_libvirtd TERM
start_libvirtd
await 20 state_is 1 running
leases_are '["vm1 running"]' || fail "leases: $(leases)"
stop_libvirtd KILL
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
start_libvirtd
await 20 state_is 1 running
await 20 state_is 3 running
start_vgpud
leases_are '["vm1 running"]' || fail "leases: $(leases)"

# A QEMU that dies.
kill -9 "$(qemu_of 1)"
await 30 leases_are '[]'
await 30 state_is 1 "shut off"
# Saved and restored: the VF is given back meanwhile, and found anew.
virsh -q start vm1 && virsh -q save vm1 "$run/saved" || fail "vm1 cannot be saved"
leases_are '[]' || fail "leases: $(leases)"
virsh -q restore "$run/saved" || fail "vm1 cannot be restored"
leases_are '["vm1 running"]' || fail "leases: $(leases)"
virsh -q destroy vm1
leases_are '[]' || fail "leases: $(leases)"

# vgpud down: who needs a GPU is told so by virsh, others start.
virsh -q destroy vm3
kill $vgpud_pid; wait $vgpud_pid
virsh -q start vm1 2>"$run/said" && fail "vm1 has started without vgpud"
grep -q "domain vm1 requires a GPU, and vgpud is not running" "$run/said" || fail "virsh says: $(cat "$run/said")"
virsh -q start vm3 || fail "vm3 needs vgpud"
# libvirtd killed in the middle of a start: nobody tells that it has ended, and the reservation ends by itself.
conf 2
start_vgpud
kill -STOP $vgpud_pid
virsh -q start vm1 >/dev/null 2>&1 &
hook_runs() { pgrep -f "50-vgpud vm1 prepare"; }
await 20 hook_runs
virsh -q domstate vm3 >/dev/null || fail "other VMs cannot be asked meanwhile"
stop_libvirtd KILL
kill -CONT $vgpud_pid
await 30 leases_are '["vm1 reserved"]'
await 30 leases_are '[]'
# Autostart, at libvirtd's start.
start_libvirtd
virsh -q autostart vm1
stop_libvirtd TERM
rm -f /run/libvirt/qemu/autostarted # or libvirtd thinks that this boot has had its autostart
start_libvirtd
await 30 leases_are '["vm1 running"]'
virsh -q destroy vm1
# vgpud-libvirt follows what runs: a claim that is changed live counts at once, one for the next start does not.
set_claim() { virsh -q metadata vm1 --uri urn:vgpud:xmlns:domain:1 --key v --set "<vgpu version='1'><vf name='a'>$2</vf></vgpu>" "$1"; }
weight_is() { [ "$(json vf show "$at" | jq .params.weight)" = "$1" ]; }
vf_of() { json vm list | jq ".vms[] | select(.domain == \"vm$1\") | .vf"; }
"$agent" 2>>"$run/agent.log" &
agent_pid=$!
pids+=($!)
await 20 grep -q 'connected to libvirt' "$run/agent.log"
virsh -q start vm1
at=$(vf_of 1)
weight_is 300 || fail "the weight is not the claim's"
set_claim --config '<sched><weight>700</weight></sched>'
set_claim --live '<sched><weight>500</weight></sched>'
await 20 weight_is 500
# One that makes no sense is refused in the log, and what was stays.
set_claim --live '<sched><weight>99999</weight></sched>'
await 20 grep -q "vm1/a: the changed claim was refused: weight = 99999" "$run/vgpud.log"
weight_is 500 || fail "a refused change has changed something"
explains vm1 "VF $at of gpu0, at .*; the changed claim was refused: weight = 99999"
# Its VF hangs: as it claims, it is paused, or stopped; else it goes on.
on_hang_is() { [ "$(json vm list | jq -r '.vms[0].on_hang')" = "$1" ]; }
hang() {
	local hangs
	hangs=$(vf "$at" hangs)
	start_guest hang "$at" hog --us 3000000 --seconds 60
	await 20 at_least "$at" hangs $((hangs + 1))
	kill -9 $guest_pid 2>/dev/null
	await 30 is "$at" state available
}
set_claim --live '<sched><weight>500</weight></sched><lifecycle on-hang="pause"/>'
await 20 on_hang_is pause
hang
await 20 state_is 1 paused
virsh -q resume vm1
set_claim --live '<sched><weight>500</weight></sched><lifecycle on-hang="stop"/>'
await 20 on_hang_is stop
hang
await 20 state_is 1 "shut off"
await 20 leases_are '[]'
virsh -q start vm1
at=$(vf_of 1)
set_claim --live '<sched><weight>500</weight></sched>'
await 20 weight_is 500
on_hang_is reset || fail "a claim without lifecycle is another"
hang
state_is 1 running || fail "vm1 is not running after a hang"
# A slice more than it was started with: nothing can be attached, for this GPU is on no bus. Told once.
virsh -q metadata vm1 --uri urn:vgpud:xmlns:domain:1 --key v --live --set \
	"<vgpu version='1'><vf name='a'><sched><weight>500</weight></sched></vf><vf name='b'/></vgpu>"
await 20 grep -q "vm1/b: VFs of gpu0 are not PCI devices: they cannot be attached to a running VM; the VM runs without it" "$run/vgpud.log"
leases_are '["vm1 running"]' || fail "leases: $(leases)"
# vgpuctl writes it, too: in the definition, and live.
PATH=$PATH:${agent%/*} ctl vm set vm1 weight=600 latency_slice_us=3000 || fail "vm set"
await 20 weight_is 600
virsh -q metadata vm1 --uri urn:vgpud:xmlns:domain:1 --config | grep -q 'name="weight" value="600"' || fail "the definition has not changed"
PATH=$PATH:${agent%/*} ctl vm set vm1 wait=9 || fail "vm set of a parameter that only the policy can judge"
await 20 grep -q "vm1/a: the changed claim was refused: wait: no such parameter" "$run/vgpud.log"
weight_is 600 || fail "a refused change has changed something"
for wrong in "vm99 weight=1" "vm1 weight" "vm1 b:weight=1" "vm3 weight=1"; do
	PATH=$PATH:${agent%/*} ctl vm set $wrong 2>"$run/said" && fail "vm set $wrong was accepted"
	[ -s "$run/said" ] || fail "vm set $wrong: no reason"
done
# libvirtd restarted: followed again.
stop_libvirtd TERM
await 20 grep -q "libvirt has closed the connection" "$run/agent.log"
start_libvirtd
set_claim --live "<device gpu='gpu0' vf='$at'/><sched><weight>400</weight></sched>"
await 40 weight_is 400
# vgpud forgot all it knew: a VM that names its VF is known again, without anybody's doing.
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
rm /run/vgpud/leases.json
start_vgpud
await 20 leases_are '["vm1 running"]'
await 20 weight_is 400
# Defined anew while it runs: that is for the next start. What is set live afterwards counts.
define 1 "$(claim '<v:sched><v:weight>111</v:weight></v:sched>')"
set_claim --live "<device gpu='gpu0' vf='$at'/><sched><weight>410</weight></sched>"
await 20 weight_is 410
# Its claim is removed: it keeps what it has until its end. Undefined: it runs on, with its VF.
virsh -q metadata vm1 --uri urn:vgpud:xmlns:domain:1 --live --remove
explains vm1 "no longer claimed: released when the VM ends"
virsh -q undefine vm1
leases_are '["vm1 running"]' || fail "leases: $(leases)"
# A VM that ends while vgpud is away has its VF no more.
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
virsh -q destroy vm1
start_vgpud
await 20 leases_are '[]'
kill $agent_pid
wait $agent_pid || fail "the agent ended with $?"
# Eight at once for four VFs.
for n in 11 12 13 14 15 16 17 18; do define $n "$(claim "")"; done
starters=()
for n in 11 12 13 14 15 16 17 18; do
	(virsh -q start vm$n 2>"$run/said.$n"; echo $? >"$run/verdict.$n") &
	starters+=($!)
done
wait "${starters[@]}"
[ "$(cat "$run"/verdict.* | grep -c '^0$')" = 4 ] || fail "not four of eight have started: $(cat "$run"/verdict.* "$run"/said.*)"
[ "$(json vm list | jq '[.vms[] | select(.state == "running") | .vf] | unique | length')" = 4 ] || fail "leases: $(leases)"
for n in 3 11 12 13 14 15 16 17 18; do virsh -q destroy vm$n 2>/dev/null; done
leases_are '[]' || fail "leases: $(leases)"
stop_libvirtd TERM
