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
# VGPU_PACKAGES: a directory with the packages, if they are built already.
if [ -n "${VGPU_PACKAGES:-}" ]; then
	cp "$VGPU_PACKAGES"/*.deb "$run/debs/"
else
	"$(dirname "$0")/../../tools/packaging/debian/build" "$run/debs" || fail "the packages cannot be built"
fi
rm -f "$run"/debs/*dbgsym*
cp "$run"/debs/*.deb "$root/tmp/"
command -v lintian >/dev/null || { echo "skipped: lintian is missing"; exit 77; }
lintian --allow-root --fail-on error "$run"/debs/*.deb >"$run/lintian.log" 2>&1 || fail "lintian finds errors in the packages"
within() { chroot "$root" /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_OFFLINE=1 DEBIAN_FRONTEND=noninteractive "$@"; }
# dpkg_as_on_a_host ARGS...: dpkg, whose scripts find a running systemd: one that notes in $root/tmp/units what it is told, and that
# says of every unit that it is active, but for the units that earlier packages had, unless $root/tmp/earlier names them.
mkdir "$root/tmp/systemd"
cat >"$root/tmp/systemd/systemctl" <<'SH'
#!/bin/sh
for w; do case $w in --*) ;; *) words="${words:+$words }$w" ;; esac; done
echo "$words" >>/tmp/units
case $words in is-active*.socket | is-active*.timer) grep -qsx "${words#is-active }" /tmp/earlier || exit 3 ;; esac
case $words in preset* | is-enabled*) exec /usr/bin/systemctl "$@" ;; esac
SH
chmod +x "$root/tmp/systemd/systemctl"
rm -f "$root/usr/sbin/policy-rc.d" # containers forbid that packages start services
dpkg_as_on_a_host() {
	mkdir -p "$root/run/systemd/system"
	: >"$root/tmp/units"
	within sh -c 'PATH=/tmp/systemd:$PATH exec dpkg "$@"' dpkg "$@" >"$run/dpkg.log" 2>&1
	local r=$?
	rm -r "$root/run/systemd"
	cp "$root/tmp/units" "$run/units.log"
	return $r
}
told() { grep -qx -- "$1" "$run/units.log" || fail "systemd was not told: $1"; }
state() { within dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | tr -d ' '; }
packages="vgpud vgpud-libvirt vgpud-openstack vgpud-dev softgpu vgpu-cuda"
for p in $packages; do [ -z "$(state $p)" ] || { echo "skipped: $p is installed here"; exit 77; }; done

# vgpud-libvirt depends on vgpud and is not configured without it.
within dpkg -i --force-depends-version /tmp/vgpud-libvirt_*.deb >"$run/dpkg.log" 2>&1 && fail "vgpud-libvirt was installed without vgpud"
dpkg_as_on_a_host -R -i /tmp || fail "the packages cannot be installed"
# libvirt looks for hooks when it starts and when it reloads.
told "try-reload-or-restart libvirtd.service"
told "try-reload-or-restart virtqemud.service"
for p in $packages; do [ "$(state $p)" = ii ] || fail "package $p has state $(state $p), want ii"; done
within vgpud --check-config >"$run/said.log" 2>&1 || fail "vgpud refuses the configuration that the package installs"
within getent group vgpu >/dev/null || fail "the package made no group vgpu"
within systemd-analyze verify --man=no vgpud.service vgpud-libvirt.service vgpud-softgpu@soft0.service vgpud-booking.{service,socket} vgpud-providers.service 2>&1 |
	grep vgpud && fail "systemd-analyze verify finds faults in the units"
for unit in vgpud.service vgpud-libvirt.service; do
	within systemctl is-enabled --quiet $unit || fail "$unit is not enabled"
done
within systemctl is-enabled --quiet vgpud-softgpu@.service && fail "vgpud-softgpu@.service is enabled by default"
unit=$(within systemctl --global is-enabled vgpud-names.service)
[ "$unit" = disabled ] || fail "vgpud-names.service is ${unit:-not there} for users, want disabled"
hook=/etc/libvirt/hooks/qemu.d/50-vgpud
has_hook() { [ "$(readlink "$root$hook")" = /usr/sbin/vgpud-hook ]; }
has_hook || fail "the hook is not installed where libvirt looks for it"
echo "<domain type='kvm'><name>x</name></domain>" | within /etc/libvirt/hooks/qemu.d/50-vgpud x prepare begin - || fail "the hook refuses a VM that claims no VF"
# What the units and the documents refer to is installed, but for the sources (../).
for unit in vgpud-booking.service vgpud-booking.socket vgpud-providers.timer; do
	within systemctl is-enabled --quiet $unit && fail "$unit is enabled by default"
done
for unit in "$root"/lib/systemd/system/vgpud*; do
	pages=$(sed -n 's/^Documentation=//p' "$unit")
	[ -n "$pages" ] || fail "${unit##*/} names no documentation"
	for page in $pages; do
		[[ $page =~ ^man:(.*)\((.)\)$ ]] && [ -e "$root/usr/share/man/man${BASH_REMATCH[2]}/${BASH_REMATCH[1]}.${BASH_REMATCH[2]}.gz" ] ||
			fail "${unit##*/}: Documentation=$page is not installed"
	done
done
docs=$root/usr/share/doc/vgpud
n=0
while read -r file link; do
	[[ $link == ../[a-z]* ]] || [ -e "$(dirname "$file")/$link" ] || fail "$file refers to $link, which is not installed"
	n=$((n + 1))
done < <(grep -oE '\]\([^):#]+' "$docs/README.md" "$docs"/docs/*.md | sed 's/:](/ /')
[ $n -gt 20 ] || fail "the installed documents have $n links to each other, want more than 20"
within sh -c 'man -w vgpud.conf >/dev/null 2>&1 || test -e /usr/share/man/man5/vgpud.conf.5.gz' || fail "the manual page vgpud.conf(5) is not installed"
for program in vgpud vgpuctl vgpud-keeper softgpu vgpu-guest vgpu-sim vgpud-libvirt vgpud-openstack vgpu-cuda-check; do
	within $program --help >/dev/null || fail "$program does not start"
done
within test -x /usr/libexec/vgpud/softgpu-worker || fail "softgpu-worker is not installed"
# In a guest programs find the library by its name, and the check says why they cannot run here: there is no VF.
within vgpu-cuda-check >"$run/check.txt" 2>&1 && fail "vgpu-cuda-check finds a VF"
grep -q "^library .*/libcuda.so.1$" "$run/check.txt" && grep -q "^NVML .*/libnvidia-ml.so.1$" "$run/check.txt" && grep -q "no VF of softgpu" "$run/check.txt" || fail "vgpu-cuda-check says: $(cat "$run/check.txt")"
within test -e /usr/lib/udev/rules.d/60-vgpu-cuda.rules || fail "vgpu-cuda has no udev rule" # vm-cuda applies it
within test -x /usr/libexec/vgpud/softgpu-vf || fail "softgpu-vf is not installed"

# An upgrade keeps changed configuration files, and does not put back a hook that the operator removed.
rm "$root$hook"
echo "# mine" >>"$root/etc/vgpud/vgpud.conf"
within sh -c 'mkdir -p /var/lib/vgpud && touch /var/lib/vgpud/vf-token'
for p in $packages; do
	within sh -c "cd /tmp && dpkg-deb -R ${p}_*.deb new && rm ${p}_*.deb &&
		sed -i '/^Version\|^Depends/s/0\.2\.0/0.2.1/' new/DEBIAN/control && dpkg-deb -b new ${p}_new.deb >/dev/null && rm -r new" || fail "$p cannot be rebuilt as version 0.2.1"
done
dpkg_as_on_a_host -R -i /tmp || fail "the packages cannot be upgraded"
told "restart vgpud.service"
grep -E "^stop|libvirtd|virtqemud|restart .*socket" "$run/units.log" && fail "an upgrade stops what must go on"
for p in $packages; do [ "$(within dpkg-query -W -f '${Version}' $p)" = 0.2.1 ] || fail "$p does not have version 0.2.1 after the upgrade"; done
grep -q "^# mine" "$root/etc/vgpud/vgpud.conf" || fail "the upgrade lost the operator's change of vgpud.conf"

[ ! -L "$root$hook" ] || fail "the upgrade has put back the hook that the operator removed"
within dpkg -r vgpud-libvirt >"$run/dpkg.log" 2>&1 && within dpkg -i /tmp/vgpud-libvirt_new.deb >"$run/dpkg.log" 2>&1 ||
	fail "vgpud-libvirt cannot be installed again"
[ ! -L "$root$hook" ] || fail "the second installation has put back the hook that the operator removed"
# One that is there goes and comes with the package.
ln -s /usr/sbin/vgpud-hook "$root$hook"
within dpkg -r vgpud-libvirt >"$run/dpkg.log" 2>&1 || fail "vgpud-libvirt cannot be removed"
[ ! -L "$root$hook" ] || fail "removing vgpud-libvirt leaves the hook"
within dpkg -i /tmp/vgpud-libvirt_new.deb >"$run/dpkg.log" 2>&1 && has_hook || fail "the second installation has not made the hook"

# Removing the packages removes programs and the hook (without vgpud the hook would block VMs), and ends what runs. Configuration and state stay until the packages are purged.
wants=/etc/systemd/system/multi-user.target.wants
ln -s /lib/systemd/system/vgpud-softgpu@.service "$root$wants/vgpud-softgpu@soft0.service"
mkdir -p "$root/etc/vgpud/vgpud.conf.d"
touch "$root/etc/vgpud/softgpu-soft0.conf" "$root/etc/vgpud/vgpud.conf.d/mine.conf"
mkdir -p "$root"/run/{vgpud,vgpud-tenant} "$root/etc/cdi" && touch "$root/run/vgpud/leases.json" "$root/run/vgpud-tenant/mount.sock" "$root/etc/cdi/vgpud.json"
dpkg_as_on_a_host -r $packages || fail "the packages cannot be removed"
told "stop vgpud-softgpu@\*.service"
told "stop vgpud-booking.socket vgpud-booking.service vgpud-providers.timer"
told "stop vgpud-libvirt.service"
told "stop vgpud.service"
told "stop vgpud-mount.socket vgpud-cdi.path vgpud-names.service"
left=$(within sh -c 'ls -d /etc/cdi/vgpud.json /usr/sbin/vgpud* /usr/bin/vgpu* /usr/bin/softgpu /usr/libexec/vgpud /lib/systemd/system/vgpud* /usr/lib/*/libcuda.so.1 /usr/lib/*/libnvidia-ml.so.1 /usr/lib/udev/rules.d/60-vgpu* /etc/libvirt/hooks/qemu.d/50-vgpud 2>/dev/null')
[ -z "$left" ] || fail "files are left after the packages were removed: $left"
grep -q "^# mine" "$root/etc/vgpud/vgpud.conf" || fail "removing the packages deleted the configuration"
[ -e "$root/var/lib/vgpud/vf-token" ] || fail "removing the packages deleted the VF token"
within dpkg -P $packages >"$run/dpkg.log" 2>&1 || fail "the packages cannot be purged"
left=$(within sh -c 'ls -d /etc/vgpud /var/lib/vgpud* /run/vgpud* 2>/dev/null; find /etc/systemd /etc/libvirt /var/lib/systemd /usr/share -name "*vgpu*"')
[ -z "$left" ] || fail "files are left after the packages were purged: $left"

# From a version that had the agent's units in vgpud: vgpud-openstack is not installed beside it, and takes them over in an upgrade of both.
within sh -c "cd /tmp && dpkg-deb -R vgpud_new.deb old && sed -i '/^Version/s/0\.2\.1/0.1.0/' old/DEBIAN/control &&
	dpkg-deb --fsys-tarfile vgpud-openstack_new.deb | tar -C old -x --wildcards '*/vgpud-booking.socket' && dpkg-deb -b old vgpud_old.deb && rm -r old" \
	>"$run/old.log" 2>&1 || fail "vgpud cannot be rebuilt as version 0.1.0: $(cat "$run/old.log")"
within dpkg -i /tmp/vgpud_old.deb >"$run/dpkg.log" 2>&1 || fail "vgpud cannot be installed as version 0.1.0"
# What the old version knew of its timer, which the operator enabled, and what that left.
timer=vgpud-booking-token.timer
printf '[Timer]\nOnActiveSec=0\n[Install]\nWantedBy=timers.target\n' >"$root/lib/systemd/system/$timer"
within DPKG_MAINTSCRIPT_PACKAGE=vgpud deb-systemd-helper update-state $timer && within systemctl enable $timer 2>/dev/null && rm "$root/lib/systemd/system/$timer" ||
	fail "the old timer cannot be enabled"
link=$root/etc/systemd/system/timers.target.wants/$timer
[ -L "$link" ] || fail "the old timer is not enabled"
mkdir -p "$root"/run/{private/,}vgpud-booking-token
echo $timer >"$root/tmp/earlier"
within dpkg -i /tmp/vgpud-openstack_new.deb >"$run/dpkg.log" 2>&1 && fail "vgpud-openstack was installed beside vgpud 0.1.0"
grep -q 'would break vgpud' "$run/dpkg.log" || fail "dpkg does not say why vgpud-openstack is not installed"
dpkg_as_on_a_host -B -i /tmp/vgpud-openstack_new.deb /tmp/vgpud_new.deb || fail "the packages cannot be upgraded from 0.1.0"
told "stop $timer"
left=$(cd "$root" && ls -d run/vgpud-booking-token run/private/vgpud-booking-token 2>/dev/null; find etc/systemd var/lib/systemd -name "$timer*")
[ -z "$left" ] || fail "the upgrade leaves of the old timer: $left"
within dpkg -S vgpud-booking.socket | grep -q ^vgpud-openstack: || fail "vgpud-booking.socket does not belong to vgpud-openstack"
within dpkg -P vgpud vgpud-openstack >"$run/dpkg.log" 2>&1 || fail "the packages cannot be purged after an upgrade from 0.1.0"
