# SPDX-License-Identifier: MIT
# For hosts whole (tests/vm/guest/host): vgpud and libvirtd as services, VMs inside that run tests/vm/bare/tenant.c, for a
# Linux in a machine in a machine takes a minute.
. /tests/lib.sh
ctl() { vgpuctl "$@"; }
mkdir -p /etc/vgpud

# The user that Debian's libvirt asks for at its start, whatever its configuration says.
grep -q '^libvirt-qemu:' /etc/passwd || echo 'libvirt-qemu:x:64055:64055::/nonexistent:/usr/sbin/nologin' >>/etc/passwd
for g in libvirt-qemu kvm; do grep -q "^$g:" /etc/group || echo "$g:x:6405${#g}:" >>/etc/group; done
cp /tests/qemu.conf /etc/libvirt/
printf 'auth_unix_ro = "none"\nauth_unix_rw = "none"\nlog_outputs = "3:file:/run/libvirtd.log"\n' >/etc/libvirt/libvirtd.conf
cat >/etc/systemd/system/libvirtd.service <<END
[Service]
Type=notify
ExecStart=/usr/sbin/libvirtd
KillMode=process
END
systemctl daemon-reload
# vgpud, with what is in /etc/vgpud/vgpud.conf, and libvirtd.
start_host() {
	need "vgpud.service starts" systemctl start vgpud
	need "its VFs are ready" await 20 is 1 state available
	say "$(systemctl show -P StatusText vgpud)"
	need "libvirtd starts" systemctl start libvirtd
	need "and answers" await 180 virsh -q version
	systemctl start vgpud-libvirt
}
address() { # VF, as libvirt writes it
	vf_address "$1" | sed -E 's/(....):(..):(..)\.(.)/domain="0x\1" bus="0x\2" slot="0x\3" function="0x\4"/'
}
hostdev() { # VF ALIAS
	echo "<hostdev mode='subsystem' type='pci' managed='no'><source><address $(address $1)/></source><alias name='$2'/></hostdev>"
}
define() { # NAME CLAIM DEVICES [MORE]
	virsh -q define /dev/stdin <<END
<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>$1</name><metadata>$2</metadata><memory unit='MiB'>32</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type><kernel>/usr/libexec/vgpud/tenant</kernel></os>
<features><acpi/></features><cpu mode='custom' match='exact'><model>qemu64</model></cpu><on_reboot>destroy</on_reboot>
<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
<controller type='usb' model='none'/><memballoon model='none'/>
<controller type='pci' index='0' model='pcie-root'/>
<controller type='pci' model='pcie-root-port'/><controller type='pci' model='pcie-root-port'/>
<serial type='file'><source path='/run/$1.console'/></serial>$3</devices>${4:-}</domain>
END
}
jobs_of() { tr -d '\r' </run/$1.console | sed -n 's/^jobs \([0-9]*\) wrong 0$/\1/p' | tail -1; }
has_done() { [ "$(jobs_of $1)" -ge "$2" ]; }
never_wrong() { has_done $1 8 && ! grep -qE 'wrong [1-9]|reset' /run/$1.console; }
leases() { ctl -o json vm list | jq -c '[.vms[] | "\(.domain) \(.vf) \(.state)"] | sort'; }
leases_are() { [ "$(leases)" = "$1" ]; }
