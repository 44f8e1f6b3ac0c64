# SPDX-License-Identifier: MIT
# Sourced by tests that run a real libvirtd in namespaces of their own. Restarts the calling script in new namespaces.
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
for p in libvirtd virsh qemu-system-x86_64 unshare; do
	command -v $p >/dev/null || { echo "skipped: $p is missing"; exit 77; }
done
if [ -z "${IN_NAMESPACE:-}" ]; then
	unshare --mount --pid --fork true 2>/dev/null || { echo "skipped: no namespaces here"; exit 77; }
	IN_NAMESPACE=1 exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$0" "$@"
fi
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# libvirtd's directories in /etc, /run and /var, /run/vgpud and /run/vgpud-tenant, are directories of this test.
for d in etc/hooks/qemu.d run lib cache log vgpud vgpud-tenant; do mkdir -p "$run/$d"; done
mkdir -p /etc/libvirt /run/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /run/vgpud /run/vgpud-tenant
mount --bind "$run/etc" /etc/libvirt
for d in lib cache log; do mount --bind "$run/$d" /var/$d/libvirt; done
mount --bind "$run/run" /run/libvirt
for d in vgpud vgpud-tenant; do mount --bind "$run/$d" /run/$d; done
# Debian's libvirt looks up this user when it starts, whatever its configuration says.
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
	await 90 gone "$pid" # libvirtd gives a shutdown that does not end 30 s (virNetDaemon's finish timer)
	rm -f /run/libvirt/libvirtd.pid
}
gone() { [ ! -e "/proc/$1" ]; }
# Starts libvirtd for the first time. If it does not run on this machine, that is no fault of vgpud's: skip.
first_libvirtd() {
	local i
	libvirtd --daemon --pid-file /run/libvirt/libvirtd.pid
	for i in $(seq 300); do virsh -q version >/dev/null 2>&1 && return; sleep 0.1; done
	echo "skipped: libvirtd does not run here: $(tail -3 "$run/libvirtd.log")"
	exit 77
}
ctl() { "$vgpuctl" "$@"; } # vgpud's socket is at the default path
leases() { json vm list | jq -c '[.vms[] | "\(.domain) \(.state)"] | sort'; }
leases_are() { [ "$(leases)" = "$1" ]; }
