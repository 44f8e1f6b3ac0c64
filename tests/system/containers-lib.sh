# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Sourced by what starts containers of podman with a slice of softgpu, by CDI: root's, and an ordinary user's, "tenant". It sources lib.sh.
# The script runs in a mount namespace, and with a /etc, of its own.
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
for c in podman crun newuidmap busybox; do command -v $c >/dev/null || { echo "skipped: $c is missing"; exit 77; }; done
unshare -m true 2>/dev/null || { echo "skipped: no mount namespace can be made here"; exit 77; }
[ "${OWN_MOUNTS:-}" = "$(readlink /proc/self/ns/mnt)" ] ||
	exec unshare -m --propagation private bash -c 'OWN_MOUNTS=$(readlink /proc/self/ns/mnt) exec "$0" "$@"' "$0" "$@"
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
choose_driver
chmod 755 "$run"
here=$(realpath "$(dirname "$0")")
cd / || exit 1 # whatever directory this is, the user may not be let in
cuda=$VGPU_BUILD/tools/cuda
# What the user needs: the build may lie where only root can look.
mkdir "$run/programs"
cp "$VGPU_BUILD"/tools/container/vgpud-{oci-hook,mount} "$vgpuctl" "$cuda/library/libcuda.so.1" "$cuda/nvml/libnvidia-ml.so.1" "$run/programs"
hook=$run/programs/vgpud-oci-hook
vgpuctl=$run/programs/vgpuctl

# crun refuses machines with both versions of cgroups.
! mountpoint -q /sys/fs/cgroup/unified || umount -l /sys/fs/cgroup/unified
mount -t tmpfs tmpfs /mnt && cp -a /etc /mnt && mount --bind /mnt/etc /etc || fail "no /etc of this test's own"
echo 'tenant:x:7777:7777::/nonexistent:/bin/sh' >>/etc/passwd
printf 'tenant:x:7777:\nvgpu-run:x:7778:tenant\n' >>/etc/group
echo tenant:700000:65536 | tee /etc/subuid >/etc/subgid
mkdir -p /etc/cdi
rm -f /etc/cdi/*

# A file system for containers: busybox, and our programs with what they load.
rootfs=$run/root.fs
mkdir -p "$rootfs"/{bin,proc,sys,dev,run,tmp,etc,usr/lib/x86_64-linux-gnu,lib64,build}
cp "$(command -v busybox)" "$rootfs/bin/busybox"
for c in sh sleep cat env; do ln -s busybox "$rootfs/bin/$c"; done
cp "$guest" "$cuda/library/vgpu-cuda-check" "$rootfs/build"
for f in $(ldd "$guest" "$cuda/library/vgpu-cuda-check" | grep -o '/[^ ]*[^ :]' | sort -u) /lib/x86_64-linux-gnu/libpthread.so.0; do
	[ ! -f "$f" ] || case $f in *.so*) cp -L "$f" "$rootfs/usr/lib/x86_64-linux-gnu/";; esac
done
cp -L /lib64/ld-linux-x86-64.so.2 "$rootfs/lib64/"
ln -s usr/lib "$rootfs/lib"
cp -a "$rootfs" "$run/tenant.fs"
chown -R 7777:7777 "$run/tenant.fs"

vfs=3 more='' # lines for the GPU's configuration
start_gpu() { LD_LIBRARY_PATH=$driver start_softgpu --engine cuda --vfs $vfs --vram 384M --window 32M --kill-after 2000 --socket-user root; }
# start_host HOLD_S: a GPU, vgpud, and the file for CDI as it is written where vgpud is installed: the places are here, and
# the libraries are there.
start_host() {
	start_gpu
	printf 'vfs = %d\n%s\n[profile small]\nweight = 50\n' $vfs "$more" | config
	sed -i "s/^\[daemon\]\$/&\nhold_s = $1/" "$run/vgpud.conf"
	start_vgpud
	mkdir "$run/slot"
	ctl inventory --format cdi | sed "s,/[^\"]*/vgpud-oci-hook\",$hook\",; s,/[^\"]*/share/vgpud/slot\",$run/slot\"," |
		jq --arg s "VGPUD_TENANT_SOCKET=$run/tenant.sock" --arg c "$run/programs/libcuda.so.1" --arg n "$run/programs/libnvidia-ml.so.1" '
			(.devices[].containerEdits.hooks // [])[].env += [$s] |
			.containerEdits.mounts |= map(select(.containerPath | startswith("/usr/") | not)) + [($c, $n) | {hostPath: .,
				containerPath: ("/usr/lib/x86_64-linux-gnu/" + (split("/") | last)), options: ["ro", "nosuid", "nodev", "rbind", "rprivate"]}]' \
		>/etc/cdi/vgpud.json || fail "no file for containers"
}
# The mounting program, started for each order, as by systemd. When each order came is in "times".
start_mount() {
	python3 - "$run/mount.sock" "$run/programs/vgpud-mount" 2>>"$run/mount.log" <<'PY' &
import os, socket, subprocess, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
s.listen(8)
while True:
    c, _ = s.accept()
    with open(os.path.dirname(sys.argv[1]) + "/times", "a") as f:
        print(time.time(), file=f)
    subprocess.run([sys.argv[2]], stdin=c, env={**os.environ, "VGPUD_TENANT_SOCKET": os.path.dirname(sys.argv[1]) + "/tenant.sock"})
    c.close()
PY
	await 60 test -S "$run/mount.sock"
}

# The engine of each of them, also for vgpuctl, which asks the engine of whoever calls it.
mkdir -p "$run/bin" "$run/home" "$run/xdg"
chown 7777:7777 "$run/home" "$run/xdg"
chmod 700 "$run/xdg"
printf '#!/bin/bash\n[ "$(id -u)" = 0 ] && set -- --root %q --runroot %q "$@"\nexec %q --storage-driver vfs --cgroup-manager=cgroupfs --events-backend=file "$@"\n' \
	"$run/store" "$run/runroot" "$(command -v podman)" >"$run/bin/podman"
chmod 755 "$run/bin/podman"
# shellcheck disable=SC2034,SC2054 # by() names them
root_runs=() tenant_runs=(setpriv --reuid 7777 --regid 7777 --groups 7777,7778 env HOME="$run/home" XDG_RUNTIME_DIR="$run/xdg")
as_root() { "$run/bin/podman" "$@"; }
as_tenant() { "${tenant_runs[@]}" "$run/bin/podman" "$@"; }
by() { # WHO vgpuctl's words
	local -n as=$1_runs
	PATH=$run/bin:$PATH "${as[@]}" "$vgpuctl" --socket "$run/control.sock" "${@:2}"
}
# What podman is told here for each container: no network, no control groups, and limits that it may set.
plain=(--network=none --cgroups=disabled --ulimit nofile=1024:1024 --ulimit nproc=4096:4096)
# WHO OPTIONS... -- COMMAND...: a container of root or of tenant.
start() {
	local who=$1 options=()
	shift
	while [ "$1" != -- ]; do options+=("$1"); shift; done
	shift
	"as_$who" run "${plain[@]}" "${options[@]}" --rootfs "$run/$who.fs" "$@"
}
# On every way out: containers, and podman's process that keeps a user's namespaces.
leave() {
	local r=$?
	{ as_root rm -f -a -t 0; as_tenant rm -f -a -t 0; kill -9 "$(cat "$run/xdg/libpod/tmp/pause.pid")"; } >/dev/null 2>&1
	(exit $r)
	finish
}
trap leave EXIT
# The same in the background; prints its id.
begin() {
	local who=$1
	shift
	start "$who" -d "$@" 2>"$run/begin.txt" || fail "a container of $who does not start: $(cat "$run/begin.txt")"
}
end() { "as_$1" rm -f -t 0 "$2" >/dev/null 2>&1; }
running() { json tenant list | jq -r '[.tenants[] | select(.state == "running")] | map('"$1"') | join(" ")'; }
has() { [ "$(running .name)" = "$1" ]; }
gpu() { echo --device vgpud.dev/gpu="${1:-gpu0}"; }
named() { echo --annotation vgpud.dev/name="$1"; }
