#!/bin/bash
# SPDX-License-Identifier: MIT
# sched.sh DIR: gated VFs at a GPU that the kernel's own DRM scheduler drives (tests/vm/sched/lab_sched.c), in an emulated machine with
# Debian 12's Linux, whose packages are unpacked in DIR. A program that ignores its gate is found in fdinfo, and ended within a second
# (`watch = end`), or counted (`watch = count`), or held by the wall, so that nothing is found; one that waits for its gate is not accused.
set -euo pipefail
[ "$(uname -m)" = x86_64 ] || { echo "skipped: the machine is for x86_64"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?usage: sched.sh DIR}"
dir=$(realpath "$1")
[ -e "$dir/done" ] || { "$here/../fetch" "$dir" --depends linux-image-amd64 linux-headers-amd64 linux-kbuild-6.1 && touch "$dir/done"; } || exit
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
root=$run/root
modules=$dir/root/lib/modules
mkdir -p "$root"/{bin,dev/pts,proc,sys,tmp,run,lib/modules}
"$here/../vm/sched/build" "$dir" "$run"
programs=("$VGPU_BUILD"/scheduler/daemon/vgpud "$VGPU_BUILD"/tools/vgpuctl/vgpuctl "$VGPU_BUILD"/tests/gate/gate-client "$(command -v jq)")
cp /bin/busybox "${programs[@]}" "$root/bin/"
ldd "${programs[@]}" | grep -o '/[^ :]*' | sort -u | while read -r library; do
	case $library in *.so*) mkdir -p "$root$(dirname "$library")" && cp -L "$library" "$root$library" ;; esac
done
mkdir "$root/lib/layers"
cp "$VGPU_BUILD"/tools/render/layer/VkLayer_vgpud_gate.json "$root/lib/layers/"
depmod -b "$dir/root" "$(basename "$modules"/*)"
for m in gpu-sched drm; do
	modprobe -d "$dir/root" -S "$(basename "$modules"/*)" --show-depends $m
done | while read -r _ path _; do
	name=$(basename "$path")
	[ -e "$root/lib/modules/$name" ] || { cp "$path" "$root/lib/modules/" && echo "$name" >>"$root/lib/modules/order"; }
done
cp "$run/lab_sched.ko" "$root/lib/modules/"
echo lab_sched.ko >>"$root/lib/modules/order"
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t proc proc /proc
mount -t sysfs sys /sys
ip link set lo up
while read -r m; do insmod /lib/modules/$m || echo "insmod $m failed"; done </lib/modules/order
pci=$(basename "$(readlink -f /sys/class/drm/renderD128/device)")
export VGPUD_SOCKET=/run/control.sock VGPUD_LAYERS=/lib/layers
ms() { awk '{ print int($1 * 1000) }' /proc/uptime; }
# begin WATCH WALL: a vgpud.
begin() {
	cat >/run/vgpud.conf <<-CONF
		[daemon]
		socket = /run/control.sock
		[gpu gpu0]
		device = vulkan:$pci
		vfs = 2
		policy = fair
		slice_us = 20000
		grace_ms = 10000
		watch = $1
		wall = $2
	CONF
	vgpud --config /run/vgpud.conf 2>/run/log &
	vgpud=$!
	until vgpuctl gpu list >/dev/null 2>&1; do sleep 0.1; done
}
run() { vgpuctl run --gpu gpu0 --weight 100 -- /bin/gate-client "$@"; }
# result NAME: what vgpud says, as a line of JSON.
result() {
	vgpuctl -o json vf list >/run/vfs
	jq -cM --arg name "$1" --arg status "${status:-}" --arg ms "${took:-}" '{name: $name, status: $status, ms: $ms, vfs: [.vfs[] |
		select(.vf < 2) | {vf, dispatches, run_ms: (.run_ns / 1e6 | floor), driver_ms: (.driver_ns / 1e6 | floor),
		beyond_ms: (.driver_beyond_ns / 1e6 | floor), hangs, violations}]}' /run/vfs
}
end() { kill $vgpud; wait $vgpud; grep -v '^<6>' /run/log; }

begin end off
run waits 14 >/run/out & waits=$!
sleep 3
began=$(ms)
run ignores 10
status=$? took=$(($(ms) - began))
wait $waits || echo "the program that waits for its gate ended with $?"
result end
end
for wall in off panfrost; do
	begin count $wall
	run waits 12 >/run/out & waits=$!
	sleep 2
	run ignores 6 >/run/ignores
	status=$? took=
	wait $waits || echo "the program that waits for its gate ended with $?"
	result count-$wall
	end
done
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . -print0 | cpio --null -o -H newc --quiet) | gzip -1 >"$run/guest"
timeout 600 qemu-system-x86_64 -nodefaults -no-reboot -accel tcg -cpu max -smp 2 -m 768 -kernel "$dir"/root/boot/vmlinuz-* -initrd "$run/guest" \
	-device pci-testdev -append "console=ttyS0 quiet panic=-1" -serial stdio -display none </dev/null >"$run/out" 2>&1 || { cat "$run/out"; exit 1; }
sed 's/\r//' "$run/out" | tee "$run/lines"
# judge NAME CONDITION WHAT: VF 0 waits for its gate, VF 1 ignores it. 50 ms are what drivers may do on their own.
judge() {
	grep "^{\"name\":\"$1\"" "$run/lines" | jq -e "(.vfs | map({key: \"\\(.vf)\", value: .}) | from_entries) as \$v | $2" >/dev/null || { echo "FAILED: $1: $3"; exit 1; }
}
for name in end count-off count-panfrost; do
	judge $name '.status != "" and $v["0"].dispatches > 2 and $v["0"].driver_ms > 100' "the program that waits for its gate does not compute"
	judge $name '$v["0"].beyond_ms <= 50 and $v["0"].hangs == 0' "the program that waits for its gate is accused"
done
judge end '.status == "137" and $v["1"].hangs == 1' "the program that ignores its gate was not ended"
judge end '$v["1"].beyond_ms <= 1000' "the program that ignores its gate computed for more than a second past it"
judge count-off '.status == "0" and $v["1"].hangs == 0 and $v["1"].beyond_ms > 500' "the program that ignores its gate was not counted"
judge count-panfrost '.status == "0" and $v["1"].beyond_ms <= 50' "the program computed past the wall"
