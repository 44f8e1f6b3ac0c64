#!/bin/bash
# SPDX-License-Identifier: MIT
# VMs come from another host, or from a file, with the state of VFs that can move. vgpud-hook is called as libvirt calls it;
# vgpud runs the driver for Intel GPUs, on files in the place of a GPU (fake-xe.sh). What is compared is what libvirt would
# get: the domain's XML, byte for byte.
. "$(dirname "$0")/fake-xe.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hooks.sh"
fake_xe 41 4
export VGPUD_LIBVIRT_DIR=$run/here
mkdir "$run/here" "$run/there"
conf() { # more lines
	cat >"$run/vgpud.conf" <<-CONF
		[daemon]
		socket = $run/control.sock
		lease_s = ${lease_s:-120}
		incoming_s = ${incoming_s:-600}
		[gpu gpu0]
		device = xe:0000:41:00.0
		vfs = 4
	CONF
}
travel() { # ATTRIBUTES
	echo "<t:travel xmlns:t='urn:vgpud:xmlns:travel:1'><t:vf name='a' ${1:-gpu='8086:e212:01' driver='xe-vfio-pci' memory='0' vfs='4' owed-us='0'}/></t:travel>"
}
# coming N BUS FUNCTION [METADATA]: the XML of vmN, as libvirt makes it and with what a careless program could mistake for its
# VF's address: the same text in a comment, in CDATA, at another device and in the guest's address.
coming() {
	cat <<-XML
		<?xml version='1.0' encoding='utf-8'?>
		<!-- <address domain='0x0000' bus='0x$2' slot='0x00' function='0x$3'/> -->
		<domain type='kvm'><name>vm$1</name><uuid>$(uuid "$1")</uuid>
		<metadata><v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1' ${required:-}><v:vf name='a' alias='ua-vgpu0'/></v:vgpu>${4-$(travel)}
		  <x:note xmlns:x='urn:x'>&lt;&amp;&#x20AC; <![CDATA[<address domain='0x0000' bus='0x$2' slot='0x00' function='0x$3'/>]]>  ä</x:note></metadata>
		<devices>
		  <hostdev mode='subsystem' type='pci' managed='no'>
		    <source><address domain='0x0000' bus='0x7a' slot='0x1f' function='0x7'/></source>
		    <address type='pci' domain='0x0000' bus='0x$2' slot='0x00' function='0x$3'/>
		  </hostdev>
		  <hostdev mode='subsystem' type='pci' managed='no'>
		    <driver name='vfio'/>
		    <source>
		      <address  bus="0x$2" domain = '0x0000' slot='0x00'
		        function='0x$3' />
		    </source>
		    <alias name='ua-vgpu0'/><address type='pci' domain='0x0000' bus='0x07' slot='0x00' function='0x0'/>
		  </hostdev>
		</devices></domain>
	XML
}
# move N OPERATION: calls the hook with $run/in.xml; what it prints is $run/out.xml.
move() { "$hook_program" "vm$1" "$2" begin - <"$run/in.xml" >"$run/out.xml" 2>"$run/said"; }
unchanged() { [ ! -s "$run/out.xml" ] || fail "the hook printed XML: $(cat "$run/out.xml")"; }
turned_away() { # WORDS N OPERATION
	refused "$1" move "$2" "$3"
	unchanged
}
# Only the address of the VF has changed, to FUNCTION of bus 41.
redirected() { # FUNCTION
	sed -e 's/<address  bus="0x99"/<address  bus="0x41"/' -e "s/^\( *\)function='0x2' \/>/\1function='0x$1' \/>/" "$run/in.xml" >"$run/want.xml"
	cmp -s "$run/want.xml" "$run/in.xml" && fail "the test's own edit does nothing"
	cmp "$run/want.xml" "$run/out.xml" || fail "libvirt gets: $(diff "$run/in.xml" "$run/out.xml")"
}
# ask METHOD ARGUMENTS: asks vgpud at the hook's socket, and prints the result.
ask() {
	/usr/bin/python3 - "$run/hook.sock" "$@" <<-'PY'
		import json, socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.connect(sys.argv[1])
		s.sendall(json.dumps({"method": sys.argv[2], "args": json.loads(sys.argv[3])}).encode() + b"\n")
		answer = json.loads(s.makefile().readline())
		print(json.dumps(answer["result"]) if "result" in answer else sys.exit(str(answer)))
	PY
}
# What vgpud-libvirt puts into the domain whose XML is FILE.
travel_of() { ask vm.travel "$(jq -n --rawfile xml "$1" --arg host "$host" '{xml: $xml, host: $host}')" | jq -r '.travel // ""'; }
host=$(named "$run/here")

conf
start_vgpud
# A domain without a claim, and one whose claim has no device: the hook prints nothing.
coming 1 99 2 >"$run/with.xml"
sed '/<metadata>/,/<\/metadata>/d' "$run/with.xml" >"$run/in.xml"
for operation in migrate restore; do
	move 1 $operation || fail "$(cat "$run/said")"
	unchanged
done
domain 1 "$(claim "")" >"$run/in.xml"
move 1 migrate || fail "$(cat "$run/said")"; unchanged; leases_are '[]'

# A VM comes, and owes 40 ms: its XML gets the address of a VF of this host, and nothing else changes. The VF is its own from then on.
sed "s/owed-us='0'/owed-us='40000'/" "$run/with.xml" >"$run/in.xml"
move 1 migrate || fail "$(cat "$run/said")"
redirected 1
leases_are '["vm1 incoming"]'
[ -z "$(travel_of "$run/out.xml")" ] || fail "a VM that has not come yet would take its VF further"
cp "$run/out.xml" "$run/vm1.xml"
# libvirt goes on with the new XML: the VM keeps that VF, and it is not yet running when "started" is called.
for operation in prepare start started; do
	"$hook_program" vm1 $operation begin - <"$run/vm1.xml" >"$run/out.xml" 2>"$run/said" || fail "$operation: $(cat "$run/said")"
	unchanged
	leases_are '["vm1 incoming"]'
	[ "$(vf_of 1)" = 0 ] || fail "$operation has given vm1 another VF"
done
vm_sync 1 "$run/vm1.xml"
leases_are '["vm1 incoming"]'
# Another libvirt does not have the domain, and does not end its lease; nor does a domain of the same UUID there, which ends.
host=$(named "$run/there") vm_sync 0
VGPUD_LIBVIRT_DIR=$run/there "$hook_program" vm1 release end migrated <"$run/with.xml"
leases_are '["vm1 incoming"]'
vm_sync 0 "$run/vm1.xml"
leases_are '["vm1 running"]'
grep -q "domain vm1 has resumed here" "$run/vgpud.log" || fail "vgpud does not say that vm1 has resumed"
await 60 is 0 brought_ns 40000000
# What it would take with it to the next host is what that host reads, the debt that it has brought included.
gone=$(travel_of "$run/vm1.xml")
[ "$gone" = "<travel xmlns='urn:vgpud:xmlns:travel:1'><vf name='a' gpu='8086:e212:01' driver='xe-vfio-pci' memory='0' vfs='4' owed-us='40000'/></travel>" ] ||
	fail "vm1 would take with it: $gone"
# The same VM moves to the other libvirt of this machine: two leases, and the end of one leaves the other.
sed -e 's/bus="0x41"/bus="0x99"/' -e "s|<t:travel.*</t:travel>|$gone|" "$run/vm1.xml" >"$run/in.xml"
export VGPUD_LIBVIRT_DIR=$run/there
move 1 migrate || fail "$(cat "$run/said")"
leases_are '["vm1 incoming","vm1 running"]'
cp "$run/out.xml" "$run/vm1-there.xml"
VGPUD_LIBVIRT_DIR=$run/here "$hook_program" vm1 release end migrated <"$run/vm1.xml"
leases_are '["vm1 incoming"]'
vm_sync 0; leases_are '["vm1 incoming"]'
host=$(named "$run/there") vm_sync 0 "$run/vm1-there.xml"
leases_are '["vm1 running"]'
vm_sync 0; leases_are '["vm1 running"]'
host=$(named "$run/there") vm_sync 0
leases_are '[]'
export VGPUD_LIBVIRT_DIR=$run/here

# A VM with a VF of softgpu, and without the block device that keeps QEMU from saving it: doctor says so while it runs.
warned_of() { ctl -o json doctor | jq -r '.[] | select(.subject | startswith("VM ")) | "\(.verdict) \(.subject) \(.finding)"'; }
sed 's|</domain>|<q:commandline xmlns:q="http://libvirt.org/schemas/domain/qemu/1.0"><q:arg value='"'"'{"driver":"vfio-user-pci","id":"ua-x","socket":{"path":"/x/vf0.sock"}}'"'"'/></q:commandline></domain>|; s/required=.*yes.//' "$run/with.xml" >"$run/soft.xml"
vm_sync 0 "$run/soft.xml"
grep -q "^note VM vm1 could be saved or migrated, and its VF would be dead after that" <<<"$(warned_of)" || fail "doctor says: $(warned_of)"
host=$(named "$run/there") vm_sync 0
grep -q "VM vm1 could be saved" <<<"$(warned_of)" || fail "another libvirt's list has ended the warning of vm1"
vm_sync 0
[ -z "$(warned_of)" ] || fail "doctor warns of a VM that is gone: $(warned_of)"
leases_are '[]'

# At an address that is free here, the VM stays, and its XML as it was.
coming 2 41 3 >"$run/in.xml"
move 2 migrate || fail "$(cat "$run/said")"
unchanged
[ "$(vf_of 2)" = 2 ] || fail "vm2 got VF $(vf_of 2), although the VF at its address was free"
# vgpud is restarted meanwhile, and knows the lease. The migration is given up.
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
start_vgpud
leases_are '["vm2 incoming"]'
"$hook_program" vm2 release end failed <"$run/in.xml"
leases_are '[]'

# What does not fit is refused with one sentence, and nothing is reserved.
for wrong in "gpu='8086:e212:02' driver='xe-vfio-pci' memory='0' vfs='4' owed-us='0'|the state is of a GPU 8086:e212:02 (vendor:device:revision), and gpu0 is 8086:e212:01" \
	"gpu='8086:e212:01' driver='nvidia-vfio' memory='0' vfs='4' owed-us='0'|the state was saved by driver nvidia-vfio, and VFs of gpu0 have xe-vfio-pci" \
	"gpu='8086:e212:01' driver='xe-vfio-pci' memory='0' vfs='3' owed-us='0'|one of 3 among which the kernel divides a GPU, and gpu0 has 4" \
	"gpu='8086:e212:01' driver='xe-vfio-pci' memory='0' vfs='4' owed-us='-5'|its <vf> has no usable owed-us" \
	"gpu='8086:e212:01' driver='xe-vfio-pci' memory='0' vfs='4' owed-us='99999999999'|its <vf> has no usable owed-us" \
	"gpu='8086:e212:01' driver='xe\&#10;vfio-pci' memory='0' vfs='4' owed-us='0'|its <vf> has no usable driver"; do
	coming 3 99 2 "$(travel "${wrong%|*}")" | sed 's/\\&/\&/' >"$run/in.xml"
	for operation in migrate restore; do turned_away "${wrong#*|}" 3 $operation; done
	leases_are '[]'
done
coming 3 99 2 "$(travel)$(travel)" >"$run/in.xml"
turned_away "a second <travel>" 3 migrate
# A VM that does not need a GPU to start needs the VF whose state it brings.
required="required='no'" coming 3 99 2 "$(travel "gpu='8086:e212:02' driver='xe-vfio-pci' memory='0' vfs='4' owed-us='0'")" >"$run/in.xml"
turned_away "the state is of a GPU" 3 migrate
# A second device at the same address: the XML cannot be changed exactly.
coming 3 99 2 | sed "s/bus='0x7a' slot='0x1f' function='0x7'/bus='0x99' slot='0x00' function='0x2'/" >"$run/in.xml"
turned_away "no PCI device at 0000:99:00.2, or more than one" 3 migrate
"$hook_program" vm3 release end failed <"$run/in.xml"
# Without a word of where it comes from, the kernel alone judges; vgpud says so.
coming 3 99 2 "" >"$run/in.xml"
move 3 restore || fail "$(cat "$run/said")"
redirected 1
grep -q "domain vm3 has no record of the GPU" "$run/vgpud.log" || fail "vgpud does not say that it knows nothing of vm3's state"
"$hook_program" vm3 release end failed <"$run/in.xml"
# VFs with a driver that moves no state.
for n in 1 2 3 4; do ln -sfn /sys/bus/pci/drivers/vfio-pci $pci/0000:41:00.$n/driver; done
coming 3 99 2 >"$run/in.xml"
turned_away "VFs of gpu0 have driver vfio-pci, which does not move their state" 3 migrate
for n in 1 2 3 4; do ln -sfn /sys/bus/pci/drivers/xe-vfio-pci $pci/0000:41:00.$n/driver; done
# All VFs are taken.
for n in 11 12 13 14; do coming $n 99 2 >"$run/in.xml"; move $n migrate || fail "$(cat "$run/said")"; done
coming 15 99 2 >"$run/in.xml"
turned_away "all 4 VFs of gpu0 are in use" 15 migrate
[ "$(json vm list | jq '[.vms[].vf] | unique | length')" = 4 ] || fail "a VF has two owners: $(leases)"
for n in 11 12 13 14; do coming $n 99 2 | "$hook_program" vm$n release end failed; done
leases_are '[]'
# vgpud does not run: the VM does not come.
kill $vgpud_pid; wait $vgpud_pid
turned_away "requires a GPU, and vgpud is not running" 15 migrate

# A VM that is not seen to resume: its VF gets turns after incoming_s. One that never arrives: its VF is free after lease_s.
incoming_s=1 conf
start_vgpud
coming 1 99 2 >"$run/in.xml"
move 1 migrate || fail "$(cat "$run/said")"
# The kernel enables a VF while VFIO has it open: QEMU waits for the state.
put $pci/0000:41:00.1/enable 1
await 60 grep -q "domain vm1 was not seen to resume within incoming_s; its VF gets turns" "$run/vgpud.log"
leases_are '["vm1 running"]'
# Another one of its UUID is turned away, and takes nothing from it.
for operation in migrate restore; do turned_away "domain vm1 is here already, and uses VF 0 of gpu0" 1 $operation; done
leases_are '["vm1 running"]'
"$hook_program" vm1 release end failed <"$run/in.xml"
put $pci/0000:41:00.1/enable 0
kill $vgpud_pid; wait $vgpud_pid
lease_s=1 conf
start_vgpud
move 1 migrate || fail "$(cat "$run/said")"
none() { [ "$(leases)" = '[]' ]; }
await 60 none
grep -q "domain vm1 did not start within lease_s" "$run/vgpud.log" || fail "vgpud does not say that vm1 did not come"
