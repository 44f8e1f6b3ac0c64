# SPDX-License-Identifier: MIT
# vgpud whole: configuration, VFs, slices between tenants that compute on VFs through the kernel's VFIO.
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
check "four VFs" [ "$(cat $devices/$pf/sriov_numvfs)" = 4 ]
for i in 0 1 2 3; do check "VF $i has vfio-pci" [ "$(driver_of "$(vf_address $i)")" = vfio-pci ]; done
check "VFs are ready" await 20 is 3 state available

# libvirt's hook: the VF is the one whose address the domain's device with the slice's alias has.
hook() { # ADDRESS OPERATION [TOKEN]
	a=${1#*:}
	VGPUD_HOOK_SOCKET=/run/hook.sock vgpud-hook vm1 $2 begin - <<END 2>/run/said
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
	check "with what is missing" grep -q "the domain's override gives ua-a no vf-token" /run/said
	hook "$(vf_address 2)" prepare 00000000-0000-4000-8000-000000000000
	check "and one with another, too" grep -q "gives ua-a a wrong vf-token" /run/said
fi
check "the hook lets vm1 through" hook "$(vf_address 2)" prepare "$secret"
check "with the VF of its device" [ "$(ctl -o json vm list | jq -c '[.vms[] | .domain, .vf]')" = '["vm1",2]' ]
hook "$(vf_address 2)" release
check "and gives it back" [ "$(ctl -o json vm list | jq -c .vms)" = '[]' ]
hook 0000:00:1f.2 prepare
check "a device that is no VF of ours is refused" [ $? = 1 ]
check "and named" grep -q "there is no GPU with a VF at 0000:00:1f.2" /run/said
await 20 is 2 state available

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

# Two that never run out of work, with weights 1 and 3.
start_guest c 0 spin --us 20000 --depth 16 --seconds 10000
c=$guest_pid
start_guest d 1 spin --us 20000 --depth 16 --seconds 10000
d=$guest_pid
check "both drivers come up" await 30 is 1 state active
check "both run" await 30 at_least 0 dispatches 10
check "shares follow weights" shares_kept 0=100 1=300
kill -INT $c $d
wait $c $d
ctl vf list
ctl gpu show | grep -E "over|switches"
ctl stats | head -5
if [ "$hold" = sysfs ]; then
	check "not released while it is held" sh -c "vgpud --release $pf 2>&1 | grep -q 'another program holds'"
fi
check "vgpud ends well" stop_vgpud
check "VFs are still there" [ "$(cat $devices/$pf/sriov_numvfs)" = 4 ]
check "the GPU is given back" vgpud --release $pf
check "without VFs" [ "$(cat $devices/$pf/sriov_numvfs)" = 0 ]
check "and without our driver" [ ! -e $devices/$pf/driver ]
finish
