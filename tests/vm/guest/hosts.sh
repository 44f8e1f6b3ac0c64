# SPDX-License-Identifier: MIT
# Sourced by tests on whole hosts (tests/vm/guest/host): vgpud and libvirtd run as services. VMs run tests/vm/bare/tenant.c,
# because Linux takes a minute to boot in a nested machine.
. /tests/lib.sh
ctl() { vgpuctl "$@"; }
mkdir -p /etc/vgpud

# Debian's libvirt looks up this user when it starts, whatever its configuration says.
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
# Starts vgpud, with the configuration in /etc/vgpud/vgpud.conf, and libvirtd.
start_host() {
	need "vgpud.service starts" systemctl start vgpud
	need "vgpud's VFs are ready" await 60 is 1 state available
	say "$(systemctl show -P StatusText vgpud)"
	need "libvirtd starts" systemctl start libvirtd
	need "libvirtd answers" await 180 virsh -q version
	systemctl start vgpud-libvirt
}
address() { # VF: its PCI address in libvirt's form
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
