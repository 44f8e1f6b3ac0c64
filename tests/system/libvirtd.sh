# SPDX-License-Identifier: MIT
# Sourced by tests with a real libvirtd of their own, in namespaces of their own: the script is started anew in them.
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
for p in libvirtd virsh qemu-system-x86_64 unshare; do
	command -v $p >/dev/null || { echo "skipped: $p is missing"; exit 77; }
done
if [ -z "${IN_NAMESPACE:-}" ]; then
	unshare --mount --pid --fork true 2>/dev/null || { echo "skipped: no namespaces here"; exit 77; }
	IN_NAMESPACE=1 exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$0"
fi
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Its /etc, /run and /var are directories of this test; vgpud's /run, too.
for d in etc/hooks/qemu.d run lib cache log vgpud; do mkdir -p "$run/$d"; done
mkdir -p /etc/libvirt /run/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /run/vgpud
mount --bind "$run/etc" /etc/libvirt
for d in lib cache log; do mount --bind "$run/$d" /var/$d/libvirt; done
mount --bind "$run/run" /run/libvirt
mount --bind "$run/vgpud" /run/vgpud
# The user that Debian's libvirt asks for at its start, whatever its configuration says.
for f in passwd group; do cp /etc/$f "$run/$f"; done
grep -q '^libvirt-qemu:' /etc/passwd || echo 'libvirt-qemu:x:64055:64055::/nonexistent:/usr/sbin/nologin' >>"$run/passwd"
for g in libvirt-qemu kvm; do grep -q "^$g:" /etc/group || echo "$g:x:6405${#g}:" >>"$run/group"; done
for f in passwd group; do mount --bind "$run/$f" /etc/$f; done
cp "$(dirname "${BASH_SOURCE[0]}")/../lib/qemu.conf" /etc/libvirt/
cat >/etc/libvirt/libvirtd.conf <<CONF
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "3:file:$run/libvirtd.log"
CONF
: >/etc/libvirt/libvirt.conf
ln -s "$VGPU_BUILD/tools/libvirt/hook/vgpud-hook" /etc/libvirt/hooks/qemu.d/50-vgpud
start_libvirtd() {
	libvirtd --daemon --pid-file /run/libvirt/libvirtd.pid
	await 30 virsh -q version
}
stop_libvirtd() { # SIGNAL
	local pid
	pid=$(cat /run/libvirt/libvirtd.pid)
	kill -"$1" "$pid"
	await 90 gone "$pid" # its own limit for a shutdown that does not end is 30 s (virNetDaemon's finish timer)
	rm -f /run/libvirt/libvirtd.pid
}
gone() { [ ! -e "/proc/$1" ]; }
# Whether it runs here at all has nothing to do with us.
first_libvirtd() {
	local i
	libvirtd --daemon --pid-file /run/libvirt/libvirtd.pid
	for i in $(seq 300); do virsh -q version >/dev/null 2>&1 && return; sleep 0.1; done
	echo "skipped: libvirtd does not run here: $(tail -3 "$run/libvirtd.log")"
	exit 77
}
ctl() { "$vgpuctl" "$@"; } # at its usual place
leases() { json vm list | jq -c '[.vms[] | "\(.domain) \(.state)"] | sort'; }
leases_are() { [ "$(leases)" = "$1" ]; }
