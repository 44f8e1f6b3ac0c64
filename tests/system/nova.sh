#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpud-hook is called with domains as OpenStack Nova writes them (docs/fleet.md): the flavor is the claim, with extra specs
# (Nova 32 and later) or by its name alone (up to 31), and nothing that a tenant writes is read.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hooks.sh"
start_softgpu --vfs 4
conf() {
	cat >"$run/vgpud.conf" <<-CONF
		[daemon]
		socket = $run/control.sock
		metrics = unix:$run/metrics.sock
		[gpu gpu0]
		device = vfio-user:$run/gpu/pf.sock
		pool = render
		policy = qos
		vfs = 4
		[profile office]
		min_ppm = 100000
		memory_mib = 16
	CONF
}
spec() { echo "        <nova:extraSpec name=\"$1\">$2</nova:extraSpec>"; }
# instance FLAVOR [EXTRA-SPECS [NAME]]: the metadata of a server, as nova/virt/libvirt/config.py writes them.
instance() {
	local specs=
	[ -z "${2:-}" ] || specs="<nova:extraSpecs>
$2
      </nova:extraSpecs>"
	cat <<-XML
		<nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
		      <nova:package version="34.0.0"/>
		      <nova:name>${3:-web}</nova:name>
		      <nova:creationTime>2026-11-22 10:00:00</nova:creationTime>
		      <nova:flavor name="$1" id="7a5bd4a4-5a4c-4f6e-8a0c-7f5d9f0c1f11">
		        <nova:memory>64</nova:memory>
		        <nova:disk>1</nova:disk>
		        <nova:swap>0</nova:swap>
		        <nova:ephemeral>0</nova:ephemeral>
		        <nova:vcpus>1</nova:vcpus>
		        $specs
		      </nova:flavor>
		      <nova:image uuid="d0b3c1a6-0b0c-4e0e-9d5c-3c0a1f2b3c4d">
		        <nova:properties><nova:property name="vgpud:weight">9999</nova:property></nova:properties>
		      </nova:image>
		      <nova:owner>
		        <nova:user uuid="9a1">tenant</nova:user>
		        <nova:project uuid="9a2">tenants</nova:project>
		      </nova:owner>
		    </nova:instance>
	XML
}
param() { json vf show "$1" | jq ".params.$2"; }

conf
start_vgpud
quarter=$(instance any.name "$(spec resources:CUSTOM_VGPUD_VF 1; spec resources:CUSTOM_VGPUD_SHARE 255
	spec resources:CUSTOM_VGPUD_MEMORY_MB 24; spec vgpud:weight 300; spec vgpud:share_max 50; spec vgpud:pool render
	spec hw:cpu_policy shared)")

# What is booked is what is set.
sequence 1 "$quarter" prepare start started || fail "$(cat "$run/said")"
leases_are '["vm1 running"]'
v=$(vf_of 1)
[ "$(param "$v" min_ppm) $(param "$v" max_ppm) $(param "$v" weight)" = "255000 500000 300" ] || fail "VF $v: $(json vf show "$v" | jq -c .params)"
[ "$(mib "$v")" -ge 24 ] || fail "VF $v has $(mib "$v") MiB, 24 are claimed"
sequence 1 "$quarter" stopped release || fail "$(cat "$run/said")"
leases_are '[]'

# The name of a flavor stands for a profile, up to Nova 31.
hook 2 "$(instance vgpud.office)" prepare || fail "$(cat "$run/said")"
v=$(vf_of 2)
[ "$(param "$v" min_ppm)" = 100000 ] || fail "VF $v: $(json vf show "$v" | jq -c .params)"
[ "$(mib "$v")" -ge 16 ] || fail "VF $v has $(mib "$v") MiB, 16 are in the profile"
refused "no \[profile home\] is configured" hook 3 "$(instance vgpud.home)" prepare
hook 3 "$(instance m1.small)" prepare || fail "a flavor without a claim was refused: $(cat "$run/said")"
leases_are '["vm2 reserved"]'

# A mistake in a flavor is refused in one sentence, with its line in the XML.
refused "Nova's flavor any: line 12: vgpud:wieght is not known: want one of profile" hook 3 "$(instance any "$(spec vgpud:wieght 5)")" prepare
refused "CUSTOM_VGPUD_SHARE = '2000': want per mille" hook 3 "$(instance any "$(spec resources:CUSTOM_VGPUD_SHARE 2000)")" prepare
# The scheduler said yes, and vgpud says what there is no time for.
refused "policy qos: " hook 3 "$(instance any "$(spec resources:CUSTOM_VGPUD_SHARE 950)")" prepare
leases_are '["vm2 reserved"]'
# The metrics count each refusal by its reason, and what was granted.
counted() { curl -sS --unix-socket "$run/metrics.sock" http://localhost/metrics | sed -n 's/^vgpud_\(grants\|refusals\)_total{\(.*\)} \([1-9].*\)/\1 \2 \3/p'; }
counted >"$run/counted"
diff "$run/counted" - <<-'WANT' || fail "the metrics count other refusals"
	grants request="start" 2
	refusals request="start",reason="claim" 2
	refusals request="start",reason="policy" 1
	refusals request="start",reason="time" 1
WANT
hook 2 "$(instance vgpud.office)" release

# Two groups are two VFs, both or none.
two=$(instance any "$(spec resources_A:CUSTOM_VGPUD_SHARE 100; spec resources_B:CUSTOM_VGPUD_SHARE 200)")
hook 4 "$two" prepare || fail "$(cat "$run/said")"
[ "$(json vm list | jq -c '[.vms[] | .vf_name] | sort')" = '["A","B"]' ] || fail "$(json vm list)"
hook 4 "$two" release
leases_are '[]'

# A device at one of our VFs is the claim's, without an alias: QEMU's own id differs, as libvirt's does under Nova.
device() { # N METADATA VF: the domain, with a device for that VF
	domain "$1" "$2" | sed "s|</domain>|<commandline xmlns='http://libvirt.org/schemas/domain/qemu/1.0'><arg value='-device'/>\
<arg value='{\"driver\":\"vfio-user-pci\",\"id\":\"hostdev0\",\"socket\":{\"type\":\"unix\",\"path\":\"$run/gpu/vf$3.sock\"}}'/></commandline></domain>|"
}
device 5 "$quarter" 3 >"$run/domain.xml"
"$hook_program" vm5 prepare begin - <"$run/domain.xml" 2>"$run/said" || fail "$(cat "$run/said")"
[ "$(vf_of 5)" = 3 ] || fail "vm5 has the device of VF 3, and the lease of VF $(vf_of 5)"
[ "$(param 3 weight)" = 300 ] || fail "VF 3: $(json vf show 3 | jq -c .params)"
# Its VF is another VM's: refused, and no other VF is taken instead.
device 6 "$quarter" 3 >"$run/other.xml"
"$hook_program" vm6 prepare begin - <"$run/other.xml" 2>"$run/said" && fail "vm6 got the VF of vm5"
grep -q "VF 3 of gpu0 belongs to vm5" "$run/said" || fail "$(cat "$run/said")"
# vgpud loses its leases, and learns from the device which VF the VM has.
"$hook_program" vm5 started begin - <"$run/domain.xml"
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
rm -f "$run/leases.json"
start_vgpud
"$hook_program" vm5 reconnect begin - <"$run/domain.xml"
[ "$(vf_of 5)" = 3 ] || fail "vgpud adopted VF $(vf_of 5) for vm5, which has VF 3"
"$hook_program" vm5 release end - <"$run/domain.xml"
leases_are '[]'

# A tenant calls the server like a claim that is not required. vgpud is down: the server needs its GPU nevertheless.
kill $vgpud_pid; wait $vgpud_pid
hostile="&lt;v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1' required='no'&gt;&lt;v:vf name='a'/&gt;&lt;/v:vgpu&gt;"
refused "requires a GPU, and vgpud is not running" hook 7 "$(instance any "$(spec vgpud:weight 5)" "$hostile")" prepare
refused "requires a GPU, and vgpud is not running" hook 7 "$(instance vgpud.office "" "$hostile")" prepare
hook 7 "$(instance m1.small "" "$hostile")" prepare || fail "a server without a GPU was refused: $(cat "$run/said")"
