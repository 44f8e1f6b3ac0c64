# SPDX-License-Identifier: MIT
# A whole host: systemd, vgpud as a service, libvirtd with vgpud's hook, and VMs that compute, each on a VF of the GPU.
. /tests/hosts.sh
cat >/etc/vgpud/vgpud.conf <<END
[gpu gpu0]
device = sysfs:$pf
grace_ms = 1000
vfs = 4
policy = fair
slice_us = 4000
END
start_host
claim() { # WEIGHT
	echo "<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a' alias='ua-a'><v:sched><v:weight>$1</v:weight></v:sched></v:vf></v:vgpu>"
}

define a "$(claim 200)" "$(hostdev 0 ua-a)"
define b "$(claim 100)" "$(hostdev 2 ua-a)"
need "VM a starts" virsh -q start a
need "VM b starts" virsh -q start b
check "each VM has the VF of its device" leases_are '["a 0 running","b 2 running"]'
need "VM a computes" await 120 has_done a 8
need "VM b computes" await 120 has_done b 8
check "shares follow the claims' weights" shares_kept 0=200 2=100

# vgpud is killed: systemd starts it again, and the VMs continue.
old=$(systemctl show -P MainPID vgpud)
kill -9 $old
is_new() { [ "$(systemctl show -P MainPID vgpud)" != $old ] && [ "$(systemctl is-active vgpud)" = active ]; }
need "systemd starts vgpud again" await 30 is_new
check "vgpud knows the leases" leases_are '["a 0 running","b 2 running"]'
check "VM a continues" await 60 has_done a $(($(jobs_of a) + 16))
check "VM b continues" await 60 has_done b $(($(jobs_of b) + 8))

# VM b is destroyed during a slice: VM a continues.
was=$(jobs_of a)
check "virsh destroy b succeeds" virsh -q destroy b
check "b's lease ends" leases_are '["a 0 running"]'
check "b's VF is reset, scrubbed and free" await 30 is 2 state available
check "VM a continues undisturbed" await 60 has_done a $((was + 16))
check "every result of a was right" never_wrong a
check "every result of b was right" never_wrong b
rm -f /run/b.console
check "VM b starts again" virsh -q start b
check "VM b computes again" await 120 has_done b 8
check "every result of b was right again" never_wrong b

# VM c defines no device: vgpud-libvirt attaches a VF to it, and its guest uses the VF as the others do.
dynamic() { # WEIGHT
	echo "<vgpu version='1'><vf name='x'><sched><weight>$1</weight></sched></vf></vgpu>"
}
uri=urn:vgpud:xmlns:domain:1
define c "" ""
virsh -q metadata c --config --uri $uri --key v --set "$(dynamic 100)"
check "vm explain says which VF c would get" sh -c "vgpuctl vm explain c | grep -q 'c/x: free: VF 1 of gpu0'"
check "validate reads c's claim from libvirt" sh -c "vgpuctl validate c | grep -q 'VF claim x: any GPU, weight 100'"
check "VM c starts" virsh -q start c
check "VM c has a lease" await 60 leases_are '["a 0 running","b 2 running","c 1 running"]'
check "c's VF is attached to it" await 60 sh -c "virsh -q dumpxml c | grep -q \"alias name='ua-vgpud-x'\""
check "VM c computes" await 120 has_done c 8
check "vm explain says which VF c has" sh -c "vgpuctl vm explain c | grep -q 'c/x: running: VF 1 of gpu0, at $(vf_address 1)$'"
# The claim of VM c is removed: vgpud has the VF detached, and the guest releases it.
virsh -q metadata c --live --uri $uri --remove
check "c's lease ends" await 60 leases_are '["a 0 running","b 2 running"]'
check "c's VF is free again" await 30 is 1 state available
check "every result of c was right" never_wrong c
# VM c gets a claim while it runs. The time from the claim to the first slice is printed.
virsh -q metadata c --live --uri $uri --key v --set "$(dynamic 300)"
began=$(cut -d' ' -f1 /proc/uptime)
check "VF 1 is attached to c and active" await 60 is 1 state active
say "from the claim to the first slice: $(echo "$(cut -d' ' -f1 /proc/uptime) $began" | awk '{print $1 - $2}') s"
check "VF 1 has the weight of the new claim" [ "$(ctl -o json vf show 1 | jq .params.weight)" = 300 ]
used_again() { [ "$(sed '1,/is up/d' /run/c.console | sed -n '/is up/,$p' | grep -c 'wrong 0')" -ge 2 ]; }
check "VM c computes on it" await 120 used_again
check "every result of c was right again" never_wrong c

virsh -q destroy a
virsh -q destroy b
virsh -q destroy c
check "all leases have ended" leases_are '[]'
failed_units=$(systemctl --failed --no-legend --plain | grep vgpud)
check "no unit of vgpud's has failed $failed_units" [ -z "$failed_units" ]
systemctl stop libvirtd
finish
