# SPDX-License-Identifier: MIT
# The VFs of a PF that VFIO holds can be opened only with the host's token. QEMU 8.1 or later passes the token if the domain's
# override gives it. This host uses the QEMU that tests/vm/setup-vfio-user fetched.
. /tests/hosts.sh
[ -x "$qemu" ] || { echo "skipped: no QEMU with vfio-user"; exit 77; }
mount --bind "${qemu%/*}/root/usr/lib/x86_64-linux-gnu/qemu" /usr/lib/x86_64-linux-gnu/qemu
for q in /usr/bin/qemu-system-*; do mount --bind "$qemu" "$q"; done
cat >/etc/vgpud/vgpud.conf <<END
[gpu gpu0]
device = vfio:$pf
grace_ms = 1000
vfs = 2
END
start_host
claim="<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a' alias='ua-a'/></v:vgpu>"
override() { # TOKEN
	echo "<qemu:override><qemu:device alias='ua-a'><qemu:frontend><qemu:property name='vf-token' type='string' value='$1'/></qemu:frontend></qemu:device></qemu:override>"
}
define a "$claim" "$(hostdev 0 ua-a)"
virsh -q start a 2>/run/said
check "without the token the start is refused" [ $? != 0 ]
check "the refusal says that the token is missing" grep -q "the domain's override gives ua-a no vf-token" /run/said
virsh -q undefine a
define a "$claim" "$(hostdev 0 ua-a)" "$(override "$(cat /var/lib/vgpud/vf-token)")"
need "with the token VM a starts" virsh -q start a
need "VM a computes" await 120 has_done a 8
old=$(systemctl show -P MainPID vgpud)
kill -9 $old
is_new() { [ "$(systemctl show -P MainPID vgpud)" != $old ] && [ "$(systemctl is-active vgpud)" = active ]; }
need "systemd starts vgpud again" await 30 is_new
check "VM a continues" await 60 has_done a $(($(jobs_of a) + 16))
check "every result of a was right" never_wrong a
virsh -q destroy a
check "a's lease ends" leases_are '[]'
check "a's VF is reset, scrubbed and free" await 30 is 0 state available
systemctl stop libvirtd
finish
