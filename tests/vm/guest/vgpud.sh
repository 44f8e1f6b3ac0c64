# SPDX-License-Identifier: MIT
# All of vgpud: configuration, VFs, and slices between tenants that compute on VFs through VFIO of Linux.
. /tests/lib.sh
config "$hold:$pf$suffix" <<END
vfs = 4
policy = fair
slice_us = 4000
[vf gpu0/1]
weight = 300
END
say "vgpud holds the PF by $hold"
need "vgpud starts" start_vgpud
check "the PF has four VFs" [ "$(cat $devices/$pf/sriov_numvfs)" = 4 ]
for i in 0 1 2 3; do check "VF $i has vfio-pci" [ "$(driver_of "$(vf_address $i)")" = vfio-pci ]; done
check "VFs are ready" await 60 is 3 state available

# libvirt's hook: the claim's alias names a device of the domain, and the address of that device selects the VF.
hook() { # ADDRESS OPERATION [TOKEN]
	a=${1#*:}
	VGPUD_HOOK_SOCKET=/run/hook.sock VGPUD_LIBVIRT_DIR=/run vgpud-hook vm1 $2 begin - <<END 2>/run/said
<domain type='kvm' xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><name>vm1</name><uuid>8a1f0b3c-0000-4000-8000-000000000001</uuid>
<metadata><v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a' alias='ua-a'/></v:vgpu></metadata>
<devices><hostdev mode='subsystem' type='pci' managed='no'><source>
<address domain='0x${1%%:*}' bus='0x${a%%:*}' slot='0x$(echo ${a#*:} | cut -d. -f1)' function='0x${a#*.}'/></source>
<alias name='ua-a'/></hostdev></devices>
<q:override><q:device alias='ua-a'><q:frontend><q:property name='vf-token' type='string' value='${3:-}'/></q:frontend></q:device>
</q:override></domain>
END
}
secret=
if [ "$hold" = vfio ]; then
	secret=$(cat $token)
	hook "$(vf_address 2)" prepare
	check "a device without the token is refused" [ $? = 1 ]
	check "the refusal says that the token is missing" grep -q "the domain's override gives ua-a no vf-token" /run/said
	hook "$(vf_address 2)" prepare 00000000-0000-4000-8000-000000000000
	check "a device with a wrong token is refused with the reason" grep -q "gives ua-a a wrong vf-token" /run/said
fi
check "the hook lets vm1 through" hook "$(vf_address 2)" prepare "$secret"
check "vm1 has the VF of its device" [ "$(ctl -o json vm list | jq -c '[.vms[] | .domain, .vf]')" = '["vm1",2]' ]
hook "$(vf_address 2)" release
check "release ends vm1's lease" [ "$(ctl -o json vm list | jq -c .vms)" = '[]' ]
hook 0000:00:1f.2 prepare
check "a device that is not a VF of vgpud's is refused" [ $? = 1 ]
check "the refusal gives the device's address" grep -q "there is no GPU with a VF at 0000:00:1f.2" /run/said
await 60 is 2 state available

start_guest a 0 sha256 --seconds 12
a=$guest_pid
start_guest b 2 sha256 --seconds 12
b=$guest_pid
wait $a
check "tenant A ends well" [ $? = 0 ]
wait $b
check "tenant B ends well" [ $? = 0 ]
check "A's results are right" right a
check "B's results are right" right b

# Two tenants that never run out of work have weights 100 and 300.
start_guest c 0 spin --us 20000 --depth 16 --seconds 10000
c=$guest_pid
start_guest d 1 spin --us 20000 --depth 16 --seconds 10000
d=$guest_pid
check "the guest driver of VF 1 is up" await 30 is 1 state active
check "VF 0 gets slices" await 30 at_least 0 dispatches 10
check "shares follow weights" shares_kept 0=100 1=300
kill -INT $c $d
wait $c $d
ctl vf list
ctl gpu show | grep -E "over|switches"
ctl stats | head -6
if [ "$hold" = sysfs ]; then
	check "vgpud --release is refused while vgpud holds the PF" sh -c "vgpud --release $pf 2>&1 | grep -q 'another program holds'"
fi
check "vgpud ends well" stop_vgpud
check "the VFs still exist" [ "$(cat $devices/$pf/sriov_numvfs)" = 4 ]
check "the GPU is given back" vgpud --release $pf
check "the PF has no VFs" [ "$(cat $devices/$pf/sriov_numvfs)" = 0 ]
check "the PF has no driver" [ ! -e $devices/$pf/driver ]
finish
