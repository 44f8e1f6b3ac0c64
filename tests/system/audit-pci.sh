#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpud-openstack audit on a host whose VFs are PCI devices (fake-xe.sh): a server whose VF vgpud-libvirt has not attached is found, though
# it has its lease, and one with the memory that its VF always has is not (docs/fleet.md). vgpud gets vgpud-libvirt's reports from
# this test.
. "$(dirname "$0")/fake-xe.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hooks.sh"
. "$(dirname "$0")/placement.sh"
fake_xe 41 2 2048
host=$(named "$VGPUD_LIBVIRT_DIR")
config xe:0000:41:00.0 <<-CONF
	vfs = 2
	[vf gpu0/0]
	memory_mib = 2048
	[vf gpu0/1]
	memory_mib = 2048
CONF
start_vgpud
server() { # N [FUNCTION]: vmN as Nova writes it, and with that VF
	echo "<domain type='kvm'><name>vm$1</name><uuid>$(uuid "$1")</uuid><metadata><n:instance xmlns:n='http://openstack.org/xmlns/libvirt/nova/1.1'>\
<n:flavor name='f'><n:extraSpecs><n:extraSpec name='resources:CUSTOM_VGPUD_VF'>1</n:extraSpec>\
<n:extraSpec name='resources:CUSTOM_VGPUD_MEMORY_MB'>1024</n:extraSpec></n:extraSpecs></n:flavor></n:instance></metadata><devices>${2:+\
<hostdev mode='subsystem' type='pci' managed='no'><source><address domain='0x0000' bus='0x41' slot='0x00' function='0x$2'/></source>\
<alias name='ua-vgpud-vgpu'/></hostdev>}</devices></domain>"
}
start_server() { # N [FUNCTION]
	for operation in prepare start started; do
		server "$@" | "$hook_program" "vm$1" $operation begin - 2>"$run/said" || fail "$(cat "$run/said")"
	done
}
audit() { # CODE FINDINGS: of the servers 1 and 2
	local r=0 n
	for n in 1 2; do echo "{\"allocations\": {\"$(uuid $n)\": {\"resources\": {\"CUSTOM_VGPUD_VF\": 1, \"CUSTOM_VGPUD_MEMORY_MB\": 1024}}}}"; done |
		jq -s . >"$run/placement.json"
	"$agent" audit -o json --allocations "$run/placement.json" >"$run/audit.json" 2>"$run/said" || r=$?
	local found
	found=$(jq -c '[.servers[] | "\(.domain) \(.finding)"] | sort' "$run/audit.json")
	[ "$r $found" = "$1 $2" ] || fail "want $1 $2; got $r $found: $(cat "$run/said")"
}

# vgpud-libvirt is down: vm1 has its lease and no VF. vm2 has its VF in its XML from the start, as with Nova's PCI alias.
start_server 1
start_server 2 2
audit 1 '["vm1 not-attached","vm2 agrees"]'
ctl vm list | grep -q "vm1 .*running, not attached" || fail "$(ctl vm list)"
# vgpud-libvirt reports: nothing is attached yet, then it is, and a guest gives its VF back.
server 1 >"$run/1.xml"
server 2 2 >"$run/2.xml"
vm_sync 0 "$run/1.xml" "$run/2.xml"
audit 1 '["vm1 not-attached","vm2 agrees"]'
server 1 1 >"$run/1.xml"
vm_sync 0 "$run/1.xml" "$run/2.xml"
audit 0 '["vm1 agrees","vm2 agrees"]'
ctl vm list | grep -q "not attached" && fail "$(ctl vm list)"
server 2 >"$run/2.xml"
vm_sync 0 "$run/1.xml" "$run/2.xml"
audit 1 '["vm1 agrees","vm2 not-attached"]'
# The next vgpud knows it, too.
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
start_vgpud
audit 1 '["vm1 agrees","vm2 not-attached"]'

# The log of vgpud-libvirt says why: libvirt's test driver attaches nothing.
vgpud_libvirt=$VGPU_BUILD/tools/libvirt/daemon/vgpud-libvirt
[ -x "$vgpud_libvirt" ] || exit 0
for n in 1 2; do server $n | sed "s/type='kvm'/type='test'/; s|<devices>|<memory>65536</memory><os><type>hvm</type></os><devices>|"; done |
	sed '1i <node>' | sed '$a </node>' >"$run/node.xml"
"$vgpud_libvirt" --connect "test://$run/node.xml" --socket "$run/hook.sock" 2>"$run/agent.txt" &
await 60 grep -q "vm2: ua-vgpud-vgpu cannot be attached: .*\(support\|evice\)" "$run/agent.txt"
