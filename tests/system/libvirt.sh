#!/bin/bash
# SPDX-License-Identifier: MIT
# A real libvirtd in namespaces of its own runs small VMs under TCG. The test follows vgpud's leases through starts, ends,
# crashes and restarts of VMs, libvirtd and vgpud. The VMs use no VF (the lab tests that); only the leases count here.
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
define() { # N CLAIM [ARGUMENTS OF QEMU]
	virsh -q define /dev/stdin <<-XML || fail "vm$1 cannot be defined"
		<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>vm$1</name><uuid>$(printf '8a1f0b3c-0000-4000-8000-%012d' "$1")</uuid>
		<metadata>$2</metadata><memory unit='MiB'>24</memory><vcpu>1</vcpu>
		<os><type arch='x86_64' machine='pc'>hvm</type></os><on_crash>destroy</on_crash>
		<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
		<controller type='usb' model='none'/><memballoon model='none'/></devices>
		<qemu:commandline>${3:-}</qemu:commandline></domain>
	XML
}
claim() { echo "<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'>$1</v:vf></v:vgpu>"; }
state_is() { [ "$(virsh -q domstate vm$1)" = "$2" ]; }
qemu_of() { cat "/run/libvirt/qemu/vm$1.pid"; }

# A libvirtd that ends while it is asked is an error, and no more: here one accepts, and hangs up.
python3 - "$run/ends.sock" "$agent" >"$run/said" 2>&1 <<-'PY' || fail "vgpud-libvirt and a libvirtd that ends: $(cat "$run/said")"
	import socket, subprocess, sys, threading
	path, agent = sys.argv[1:]
	listener = socket.socket(socket.AF_UNIX)
	listener.bind(path)
	listener.listen(8)
	def end():
	    while True:
	        listener.accept()[0].close()
	threading.Thread(target=end, daemon=True).start()
	for i in range(100):
	    asks = subprocess.run([agent, '--connect', 'qemu+unix:///system?socket=' + path, 'list'], capture_output=True, text=True)
	    if asks.returncode not in (1, 3) or not asks.stderr:
	        sys.exit(f'{i}: {asks}')
PY
first_libvirtd
start_softgpu --vfs 4
conf
start_vgpud
define 1 "$(claim '<v:sched><v:weight>300</v:weight></v:sched>')"
define 2 "$(claim "<v:memory unit='GiB'>9</v:memory>")"
define 3 ""
virsh dumpxml vm1 | "$vgpuctl" validate - | grep -q 'weight 300' || fail "vgpuctl validate does not show the weight of vm1's claim"

explains() { # DOMAIN WORDS
	PATH=$PATH:${agent%/*} ctl vm explain "$1" | grep -q "$2" || fail "vm explain $1 does not say '$2': $(PATH=$PATH:${agent%/*} ctl vm explain "$1" 2>&1)"
}
PATH=$PATH:${agent%/*} ctl validate vm1 | grep -q 'weight 300' || fail "validate does not read from libvirt"
explains vm1 "^vm1/a: free: VF 0 of gpu0 is free, and policy fair admits the claim$"
explains vm2 "^vm2/a: refused: 9216 MiB are claimed"
explains vm3 "^vm3 claims no VF and has none$"
virsh -q start vm1 || fail "vm1 does not start"
leases_are '["vm1 running"]' || fail "leases: $(leases)"
explains vm1 "^vm1/a: running: VF 0 of gpu0, at $run/gpu/vf0.sock$"
for words in "vm explain vm99" "vm set vm99 weight=1" "validate vm99"; do
	PATH=$PATH:${agent%/*} "$vgpuctl" $words 2>"$run/said"; r=$?
	[ $r = 5 ] || fail "$words, which does not exist: exit code $r, not 5: $(cat "$run/said")"
done
# A UUID names a VM in any case, as for virsh.
upper=$(virsh -q domuuid vm1 | head -1 | tr a-f A-F)
PATH=$PATH:${agent%/*} ctl vm explain "$upper" >/dev/null || fail "vm explain does not know $upper"
ctl vm show "$upper" >/dev/null || fail "vm show does not know $upper"
PATH=$PATH:${agent%/*} ctl vm explain vm99 2>"$run/said" && fail "vm explain accepted vm99, which does not exist"
grep -q "vm99: Domain not found" "$run/said" || fail "vm99: $(cat "$run/said")"
virsh -q start vm2 2>"$run/said" && fail "vm2 has started although its claim does not fit"
grep -q "vgpud: vm2/a: 9216 MiB are claimed; gpu0 can free at most" "$run/said" || fail "virsh says: $(cat "$run/said")"
virsh -q start vm3 || fail "vm3, which claims no VF, does not start"
# libvirt calls no hook when a guest is reset, and the lease stays.
virsh -q reset vm1
leases_are '["vm1 running"]' || fail "leases: $(leases)"
# libvirtd is restarted with vgpud running, then killed together with vgpud: VMs keep running.
stop_libvirtd TERM
start_libvirtd
await 60 state_is 1 running
leases_are '["vm1 running"]' || fail "leases: $(leases)"
stop_libvirtd KILL
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
start_libvirtd
await 60 state_is 1 running
await 60 state_is 3 running
start_vgpud
leases_are '["vm1 running"]' || fail "leases: $(leases)"

# QEMU dies: the lease ends.
kill -9 "$(qemu_of 1)"
await 30 leases_are '[]'
await 30 state_is 1 "shut off"
# A VM is saved and restored: its lease ends when it is saved, and it gets a new one when it is restored.
virsh -q start vm1 && virsh -q save vm1 "$run/saved" || fail "vm1 cannot be saved"
leases_are '[]' || fail "leases: $(leases)"
# What a hook prints then, libvirt takes for the domain, with vgpud's hook before it, which prints nothing for a VM without a device.
printf '%s\n' '#!/bin/sh' "case \$2 in restore) sed 's|</uuid>|&<title>restored</title>|' ;; esac" >/etc/libvirt/hooks/qemu.d/60-title
chmod +x /etc/libvirt/hooks/qemu.d/60-title
virsh -q restore "$run/saved" || fail "vm1 cannot be restored"
virsh -q dumpxml vm1 | grep -q '<title>restored</title>' || fail "libvirt has not taken the XML that a hook has printed: $(virsh -q dumpxml vm1)"
rm /etc/libvirt/hooks/qemu.d/60-title
leases_are '["vm1 running"]' || fail "leases: $(leases)"
virsh -q destroy vm1
leases_are '[]' || fail "leases: $(leases)"
# The block device that docs/domain.md has for VMs with vfio-user devices: QEMU, and so libvirt, refuses to save the VM.
mkdir -m 777 "$run/empty"
define 19 "$(claim '')" "<qemu:arg value='-blockdev'/><qemu:arg value='driver=vvfat,node-name=vgpu-stays,dir=$run/empty,rw=on'/>"
virsh -q start vm19 || fail "vm19 does not start"
virsh -q save vm19 "$run/saved" 2>"$run/said" && fail "a VM was saved although a block device of its prevents it"
grep -q "does not support live migration" "$run/said" || fail "virsh says: $(cat "$run/said")"
state_is 19 running || fail "vm19 is $(virsh -q domstate vm19)"
virsh -q destroy vm19
await 30 leases_are '[]'

# vgpud is down: a VM that requires a GPU does not start, and virsh says why. Other VMs start.
virsh -q destroy vm3
kill $vgpud_pid; wait $vgpud_pid
virsh -q start vm1 2>"$run/said" && fail "vm1 has started without vgpud"
grep -q "domain vm1 requires a GPU, and vgpud is not running" "$run/said" || fail "virsh says: $(cat "$run/said")"
virsh -q start vm3 || fail "vm3, which claims no VF, does not start without vgpud"
# libvirtd is killed in the middle of a start: no hook reports the end, and the reservation ends after lease_s.
conf 2
start_vgpud
kill -STOP $vgpud_pid
virsh -q start vm1 >/dev/null 2>&1 &
hook_runs() { pgrep -f "50-vgpud vm1 prepare"; }
await 60 hook_runs
virsh -q domstate vm3 >/dev/null || fail "libvirtd does not answer for other VMs while a hook waits for vgpud"
stop_libvirtd KILL
kill -CONT $vgpud_pid
await 30 leases_are '["vm1 reserved"]'
await 30 leases_are '[]'
kill $vgpud_pid; wait $vgpud_pid
conf # a start may take longer than two seconds
start_vgpud
# libvirtd starts a VM that is marked for autostart, with its VF.
start_libvirtd
virsh -q autostart vm1
stop_libvirtd TERM
rm -f /run/libvirt/qemu/autostarted # otherwise libvirtd skips autostart, which it does once per boot
start_libvirtd
await 30 leases_are '["vm1 running"]'
virsh -q destroy vm1
# vgpud-libvirt follows running VMs: a claim that is changed with --live takes effect at once, one that is changed with
# --config does not.
set_claim() { virsh -q metadata vm1 --uri urn:vgpud:xmlns:domain:1 --key v --set "<vgpu version='1'><vf name='a'>$2</vf></vgpu>" "$1"; }
weight_is() { [ "$(json vf show "$at" | jq .params.weight)" = "$1" ]; }
vf_of() { json vm list | jq ".vms[] | select(.domain == \"vm$1\") | .vf"; }
"$agent" 2>>"$run/agent.log" &
agent_pid=$!
await 60 grep -q 'connected to libvirt' "$run/agent.log"
virsh -q start vm1
at=$(vf_of 1)
weight_is 300 || fail "the VF does not have the weight of the claim"
set_claim --config '<sched><weight>700</weight></sched>'
set_claim --live '<sched><weight>500</weight></sched>'
await 60 weight_is 500
# A changed claim with a value out of range is refused with a log line, and the old claim stays in force.
set_claim --live '<sched><weight>99999</weight></sched>'
await 60 grep -q "vm1/a: the changed claim was refused: weight = 99999" "$run/vgpud.log"
weight_is 500 || fail "a changed claim was refused, but the weight changed"
explains vm1 "VF $at of gpu0, at .*; the changed claim was refused: weight = 99999"
# The VF of vm1 hangs: vm1 is paused or stopped if its claim says so, and otherwise keeps running.
on_hang_is() { [ "$(json vm list | jq -r '.vms[0].on_hang')" = "$1" ]; }
hang() {
	local hangs
	hangs=$(vf "$at" hangs)
	start_guest hang "$at" hog --us 3000000 --seconds 60
	await 60 at_least "$at" hangs $((hangs + 1))
	kill -9 $guest_pid 2>/dev/null
	await 30 is "$at" state available
	grep -q "VF $at is reset before it has stopped: its process is in state R, in .*, on CPU [0-9]* with real-time priority [01];" "$run/softgpu.log" ||
		fail "softgpu does not say what the process of VF $at does"
}
set_claim --live '<sched><weight>500</weight></sched><lifecycle on-hang="pause"/>'
await 60 on_hang_is pause
hang
await 60 state_is 1 paused
virsh -q resume vm1
set_claim --live '<sched><weight>500</weight></sched><lifecycle on-hang="stop"/>'
await 60 on_hang_is stop
hang
await 60 state_is 1 "shut off"
await 60 leases_are '[]'
virsh -q start vm1
at=$(vf_of 1)
set_claim --live '<sched><weight>500</weight></sched>'
await 60 weight_is 500
on_hang_is reset || fail "a claim without lifecycle does not mean on-hang reset"
hang
state_is 1 running || fail "vm1 is not running after a hang"
# The claim gets a second VF while vm1 runs: vgpud cannot attach one, because VFs of this GPU are not PCI devices, and says
# so in the log.
virsh -q metadata vm1 --uri urn:vgpud:xmlns:domain:1 --key v --live --set \
	"<vgpu version='1'><vf name='a'><sched><weight>500</weight></sched></vf><vf name='b'/></vgpu>"
await 60 grep -q "vm1/b: VFs of gpu0 are not PCI devices: they cannot be attached to a running VM; the VM runs without it" "$run/vgpud.log"
leases_are '["vm1 running"]' || fail "leases: $(leases)"
# vgpuctl vm set changes the claim in the definition and live, and says so.
vm_set() { PATH=$PATH:${agent%/*} ctl vm set "$@" >"$run/set.txt" 2>"$run/said"; }
claims() { for of in --config --live; do virsh -q metadata vm1 --uri urn:vgpud:xmlns:domain:1 $of; done; }
vm_set vm1 weight=600 latency_slice_us=3000 || fail "vgpuctl vm set failed: $(cat "$run/said")"
await 60 weight_is 600
[ "$(claims | grep -c '<weight>600</weight>')" = 2 ] && ! claims | grep -q '<param name="weight"' || fail "vm set did not change both claims of vm1: $(claims)"
grep -q "^vm1/a, the definition: weight 700 -> 600$" "$run/set.txt" && grep -q "^vm1/a, the running VM: weight 500 -> 600$" "$run/set.txt" ||
	fail "vm set says: $(cat "$run/set.txt")"
# What vgpud refuses, the hook would refuse at the next start: vm set changes neither claim.
before=$(claims)
for wrong in "weight=0:weight = 0: want 1 to 10000" "weigth=3:weigth: no such parameter" "weight=700 wait=9:wait: no such parameter"; do
	vm_set vm1 ${wrong%%:*} && fail "vm set ${wrong%%:*} was accepted"
	grep -q "vm1/a: gpu0: policy fair: ${wrong#*:}.*; nothing was changed" "$run/said" || fail "vm set ${wrong%%:*} says: $(cat "$run/said")"
	[ "$(claims)" = "$before" ] || fail "vm set ${wrong%%:*} was refused, but changed a claim: $(claims)"
done
vm_set vm2 weight=0 && fail "vm set accepted weight=0 for vm2, which does not run"
weight_is 600 || fail "a changed claim was refused, but the weight changed"
for wrong in "vm99 weight=1" "vm1 weight" "vm1 b:weight=1" "vm3 weight=1"; do
	PATH=$PATH:${agent%/*} ctl vm set $wrong 2>"$run/said" && fail "vm set $wrong was accepted"
	[ -s "$run/said" ] || fail "vm set $wrong was refused without a reason"
done
# libvirtd is restarted: vgpud-libvirt connects again and follows its VMs.
stop_libvirtd TERM
await 60 grep -q "libvirt has closed the connection" "$run/agent.log"
start_libvirtd
set_claim --live "<device gpu='gpu0' vf='$at'/><sched><weight>400</weight></sched>"
await 40 weight_is 400
# vgpud lost its leases: it learns from vgpud-libvirt about a running VM whose claim names its VF.
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
rm /run/vgpud/leases.json
start_vgpud
await 60 leases_are '["vm1 running"]'
await 60 weight_is 400
# A definition that changes while the VM runs is for its next start. A claim that is set live afterwards takes effect.
define 1 "$(claim '<v:sched><v:weight>111</v:weight></v:sched>')"
set_claim --live "<device gpu='gpu0' vf='$at'/><sched><weight>410</weight></sched>"
await 60 weight_is 410
# When its claim is removed, the VM keeps its VF until it ends. When it is undefined, it keeps running with its VF.
virsh -q metadata vm1 --uri urn:vgpud:xmlns:domain:1 --live --remove
explains vm1 "no longer claimed: released when the VM ends"
virsh -q undefine vm1
leases_are '["vm1 running"]' || fail "leases: $(leases)"
# A VM that ends while vgpud is down loses its lease.
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
virsh -q destroy vm1
start_vgpud
await 60 leases_are '[]'
# libvirtd starts without a hook and does not notice the one that is made then: doctor says so, a VM that claims a VF starts
# unasked, and vgpud warns of it once. After a reload the hook is called.
doctor() { PATH=$PATH:${agent%/*} ctl -o json doctor | jq -r '.[] | select(.subject == "libvirt'"'"'s hook") | .verdict'; }
hook_is() { [ "$(doctor)" = "$1" ]; }
hook=/etc/libvirt/hooks/qemu.d/50-vgpud
hook_is ok || fail "doctor says of the hook, which libvirt calls: $(doctor)"
[ -z "$(virsh -q list --all --name | grep probe)" ] || fail "doctor leaves its VM behind"
stop_libvirtd TERM
mv $hook "$run/hook"
start_libvirtd
mv "$run/hook" $hook
hook_is bad || fail "doctor says of the hook, which libvirt does not call: $(doctor)"
next=$(PATH=$PATH:${agent%/*} ctl doctor | tail -1)
[[ $next == "next: libvirt's hook: systemctl reload libvirtd"* ]] || fail "doctor does not end with the hook: $next"
virsh -q start vm2 || fail "vm2 does not start without a hook"
await 60 grep -q "domain vm2 runs, and vgpud did not admit its claim" "$run/vgpud.log"
kill -HUP "$(cat /run/libvirt/libvirtd.pid)"
await 60 hook_is ok
[ "$(grep -c "domain vm2 runs, and vgpud did not" "$run/vgpud.log")" = 1 ] || fail "vgpud warns of vm2 more than once"
virsh -q destroy vm2
kill $agent_pid
wait $agent_pid || fail "the agent ended with $?"
# Eight VMs start at once for four VFs: four of them get one.
for n in 11 12 13 14 15 16 17 18; do define $n "$(claim "")"; done
starters=()
for n in 11 12 13 14 15 16 17 18; do
	(virsh -q start vm$n 2>"$run/said.$n"; echo $? >"$run/verdict.$n") &
	starters+=($!)
done
wait "${starters[@]}"
[ "$(cat "$run"/verdict.* | grep -c '^0$')" = 4 ] || fail "want four of the eight VMs started: $(cat "$run"/verdict.* "$run"/said.*)"
[ "$(json vm list | jq '[.vms[] | select(.state == "running") | .vf] | unique | length')" = 4 ] || fail "leases: $(leases)"
for n in 3 11 12 13 14 15 16 17 18; do virsh -q destroy vm$n 2>/dev/null; done
leases_are '[]' || fail "leases: $(leases)"
stop_libvirtd TERM
