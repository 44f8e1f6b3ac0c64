#!/bin/bash
# SPDX-License-Identifier: MIT
# wall.sh DIR: unit-wall at a real render node: in an emulated machine with Debian 13's Linux, which tests/gate/setup has put into DIR, and
# that kernel's vgem, a DRM driver without a GPU. Calls that pass come to vgem; the one that the wall's keeper makes, too.
set -euo pipefail
kernel=$(realpath "${1:?usage: wall.sh DIR}")/kernel
test=$VGPU_BUILD/tests/unit/test-unit-wall
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
root=$run/root
mkdir -p "$root"/{bin,dev/pts,proc,sys,tmp,lib/modules}
cp /bin/busybox "$test" "$(command -v perl)" "$root/bin/"
{ ldd "$test"; ldd "$(command -v perl)"; } | grep -o '/[^ :]*' | sort -u | while read -r library; do
	mkdir -p "$root$(dirname "$library")"
	cp -L "$library" "$root$library"
done
modprobe -d "$kernel" -S "$(basename "$kernel"/lib/modules/*)" --show-depends vgem | while read -r _ path _; do
	xz -dc "$path" >"$root/lib/modules/$(basename "$path" .xz)"
	basename "$path" .xz >>"$root/lib/modules/order"
done
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
mkdir -p /dev/pts
mount -t devpts pts /dev/pts
mount -t proc proc /proc
mount -t sysfs sys /sys
while read -r m; do insmod /lib/modules/$m; done </lib/modules/order
VGPU_TEST_NODE=/dev/dri/renderD128 test-unit-wall
echo "unit-wall: $?"
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . -print0 | cpio --null -o -H newc --quiet) | gzip -1 >"$run/guest"
timeout 300 qemu-system-x86_64 -nodefaults -no-reboot -accel tcg -cpu max -smp 2 -m 512 -kernel "$kernel"/boot/vmlinuz-* -initrd "$run/guest" \
	-append "console=ttyS0 quiet panic=-1" -serial stdio -display none </dev/null >"$run/out" 2>&1 || { cat "$run/out"; exit 1; }
cat "$run/out"
grep -q "unit-wall: 0" "$run/out"
