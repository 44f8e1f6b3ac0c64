# SPDX-License-Identifier: MIT
# A host whole: systemd, vgpud as its service, libvirtd with vgpud's hook, and VMs, each with a VF of the GPU, that
# compute on it.
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
check "each has the VF of its device" leases_are '["a 0 running","b 2 running"]'
need "a computes" await 120 has_done a 8
need "b computes" await 120 has_done b 8
check "shares follow the claims' weights" shares_kept 0=200 2=100

# vgpud killed: systemd starts it again, and nothing that runs notices.
old=$(systemctl show -P MainPID vgpud)
kill -9 $old
is_new() { [ "$(systemctl show -P MainPID vgpud)" != $old ] && [ "$(systemctl is-active vgpud)" = active ]; }
need "systemd starts vgpud again" await 30 is_new
check "who has what is known" leases_are '["a 0 running","b 2 running"]'
check "a goes on" await 60 has_done a $(($(jobs_of a) + 16))
check "b goes on" await 60 has_done b $(($(jobs_of b) + 8))

# One VM destroyed in mid-slice: the other does not notice.
was=$(jobs_of a)
check "b is destroyed" virsh -q destroy b
check "its lease ends" leases_are '["a 0 running"]'
check "its VF is reset, scrubbed and free" await 30 is 2 state available
check "a goes on" await 60 has_done a $((was + 16))
check "every result of a was right" never_wrong a
check "every result of b was right" never_wrong b
rm -f /run/b.console
check "b starts again" virsh -q start b
check "and computes" await 120 has_done b 8
check "every result of it was right" never_wrong b

# VM c brings no device: vgpud-libvirt attaches a VF to it, and what the guest does with it is the same.
dynamic() { # WEIGHT
	echo "<vgpu version='1'><vf name='x'><sched><weight>$1</weight></sched></vf></vgpu>"
}
uri=urn:vgpud:xmlns:domain:1
define c "" ""
virsh -q metadata c --config --uri $uri --key v --set "$(dynamic 100)"
check "what it would get is told" sh -c "vgpuctl vm explain c | grep -q 'c/x: free: VF 1 of gpu0'"
check "its claim is read from libvirt" sh -c "vgpuctl validate c | grep -q 'VF claim x: any GPU, weight 100'"
check "VM c starts" virsh -q start c
check "it has a VF" await 20 leases_are '["a 0 running","b 2 running","c 1 running"]'
check "which is attached" await 60 sh -c "virsh -q dumpxml c | grep -q \"alias name='ua-vgpud-x'\""
check "and used" await 120 has_done c 8
check "that is told, too" sh -c "vgpuctl vm explain c | grep -q 'c/x: running: VF 1 of gpu0, at $(vf_address 1)$'"
# Its claim is removed: the guest is asked to let go, and does.
virsh -q metadata c --live --uri $uri --remove
check "its VF is taken from it" await 60 leases_are '["a 0 running","b 2 running"]'
check "and is free again" await 30 is 1 state available
check "every result of c was right" never_wrong c
# A claim that comes while it runs: from there to the first slice.
virsh -q metadata c --live --uri $uri --key v --set "$(dynamic 300)"
began=$(cut -d' ' -f1 /proc/uptime)
check "a VF is attached while it runs" await 60 is 1 state active
say "from the claim to the first slice: $(echo "$(cut -d' ' -f1 /proc/uptime) $began" | awk '{print $1 - $2}') s"
check "with its weight" [ "$(ctl -o json vf show 1 | jq .params.weight)" = 300 ]
used_again() { [ "$(sed '1,/is up/d' /run/c.console | sed -n '/is up/,$p' | grep -c 'wrong 0')" -ge 2 ]; }
check "and used" await 120 used_again
check "every result of c was right" never_wrong c

virsh -q destroy a
virsh -q destroy b
virsh -q destroy c
check "all is given back" leases_are '[]'
failed_units=$(systemctl --failed --no-legend --plain | grep vgpud)
check "no unit of ours has failed $failed_units" [ -z "$failed_units" ]
systemctl stop libvirtd
finish
