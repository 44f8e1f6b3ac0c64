#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the Debian packages, then installs, upgrades, removes and purges them in a root of their own: an overlay over this
# machine's files.
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
command -v dh_installsystemd >/dev/null || { echo "skipped: debhelper is missing"; exit 77; }
if [ -z "${IN_NAMESPACE:-}" ]; then
	unshare --mount --pid --fork true 2>/dev/null || { echo "skipped: no namespaces here"; exit 77; }
	IN_NAMESPACE=1 exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$0"
fi
. "$(dirname "$0")/lib.sh"
# The root is mounted in this namespace only. It is not below $run, which is removed at the end.
root=$(mktemp -d /tmp/vgpud-root.XXXXXX)
trap 'r=$?; umount -l "$root/tmp" "$root/run" "$root" "$root" 2>/dev/null; rmdir "$root"; (exit $r); finish' EXIT
mount -t tmpfs tmpfs "$root"
mkdir "$run/debs" "$root"/{over,work}
mount -t overlay overlay -o "lowerdir=/,upperdir=$root/over,workdir=$root/work" "$root" || { echo "skipped: no overlay here"; exit 77; }
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/run"
"$(dirname "$0")/../../tools/packaging/debian/build" "$run/debs" || fail "the packages cannot be built"
rm -f "$run"/debs/*dbgsym*
cp "$run"/debs/*.deb "$root/tmp/"
within() { chroot "$root" /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_OFFLINE=1 DEBIAN_FRONTEND=noninteractive "$@"; }
state() { within dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | tr -d ' '; }
packages="vgpud vgpud-libvirt vgpud-dev softgpu"
for p in $packages; do [ -z "$(state $p)" ] || { echo "skipped: $p is installed here"; exit 77; }; done

# vgpud-libvirt depends on vgpud and is not configured without it.
within dpkg -i --force-depends-version /tmp/vgpud-libvirt_*.deb >"$run/dpkg.log" 2>&1 && fail "vgpud-libvirt was installed without vgpud"
within sh -c 'dpkg -i /tmp/*.deb' >"$run/dpkg.log" 2>&1 || fail "the packages cannot be installed"
for p in $packages; do [ "$(state $p)" = ii ] || fail "package $p has state $(state $p), want ii"; done
within vgpud --check-config >"$run/said.log" 2>&1 || fail "vgpud refuses the configuration that the package installs"
within getent group vgpu >/dev/null || fail "the package made no group vgpu"
within systemd-analyze verify --man=no vgpud.service vgpud-libvirt.service vgpud-control.socket vgpud-hook.socket vgpud-softgpu@soft0.service 2>&1 |
	grep vgpud && fail "systemd-analyze verify finds faults in the units"
for unit in vgpud.service vgpud-control.socket vgpud-hook.socket vgpud-libvirt.service; do
	within systemctl is-enabled --quiet $unit || fail "$unit is not enabled"
done
within systemctl is-enabled --quiet vgpud-softgpu@.service && fail "vgpud-softgpu@.service is enabled by default"
[ "$(within readlink /etc/libvirt/hooks/qemu.d/50-vgpud)" = /usr/sbin/vgpud-hook ] || fail "the hook is not installed where libvirt looks for it"
echo "<domain type='kvm'><name>x</name></domain>" | within /etc/libvirt/hooks/qemu.d/50-vgpud x prepare begin - || fail "the hook refuses a VM that claims no VF"
within sh -c 'man -w vgpud.conf >/dev/null 2>&1 || test -e /usr/share/man/man5/vgpud.conf.5.gz' || fail "the manual page vgpud.conf(5) is not installed"
for program in vgpud vgpuctl vgpud-keeper softgpu vgpu-guest vgpu-sim vgpud-libvirt; do
	within $program --help >/dev/null || fail "$program does not start"
done
within test -x /usr/libexec/vgpud/softgpu-worker || fail "softgpu-worker is not installed"
within test -x /usr/libexec/vgpud/softgpu-vf || fail "softgpu-vf is not installed"

# An upgrade keeps changed configuration files.
echo "# mine" >>"$root/etc/vgpud/vgpud.conf"
within sh -c 'mkdir -p /var/lib/vgpud && touch /var/lib/vgpud/vf-token'
for p in $packages; do
	within sh -c "cd /tmp && dpkg-deb -R ${p}_*.deb new && rm ${p}_*.deb &&
		sed -i 's/0\.1\.0/0.1.1/' new/DEBIAN/control && dpkg-deb -b new ${p}_new.deb >/dev/null && rm -r new" || fail "$p cannot be rebuilt as version 0.1.1"
done
within sh -c 'dpkg -i /tmp/*_new.deb' >"$run/dpkg.log" 2>&1 || fail "the packages cannot be upgraded"
for p in $packages; do [ "$(within dpkg-query -W -f '${Version}' $p)" = 0.1.1 ] || fail "$p does not have version 0.1.1 after the upgrade"; done
grep -q "^# mine" "$root/etc/vgpud/vgpud.conf" || fail "the upgrade lost the operator's change of vgpud.conf"

# Removing the packages removes programs and the hook (without vgpud the hook would block VMs). Configuration and state stay
# until the packages are purged.
within dpkg -r $packages >"$run/dpkg.log" 2>&1 || fail "the packages cannot be removed"
left=$(within sh -c 'ls -d /usr/sbin/vgpud* /usr/bin/vgpu* /usr/bin/softgpu /usr/libexec/vgpud /lib/systemd/system/vgpud* /etc/libvirt/hooks/qemu.d/50-vgpud 2>/dev/null')
[ -z "$left" ] || fail "files are left after the packages were removed: $left"
grep -q "^# mine" "$root/etc/vgpud/vgpud.conf" || fail "removing the packages deleted the configuration"
[ -e "$root/var/lib/vgpud/vf-token" ] || fail "removing the packages deleted the VF token"
within dpkg -P $packages >"$run/dpkg.log" 2>&1 || fail "the packages cannot be purged"
left=$(within sh -c 'ls -d /etc/vgpud /var/lib/vgpud 2>/dev/null; find /etc/systemd /var/lib/systemd -name "vgpud*"')
[ -z "$left" ] || fail "files are left after the packages were purged: $left"
