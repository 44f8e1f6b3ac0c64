# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Sourced, after tests/system/lib.sh, with $dir: emulated machines whose programs compute by Venus on lavapipe. Their QEMU is Debian 13's,
# in a root of its own that tests/gate/setup made in $dir. The caller starts vgpud.
load=$VGPU_BUILD/tools/render/load/vgpu-vulkan
mkdir -p "$run/layers"
{
	cp "$VGPU_BUILD"/tools/render/venus/libvgpud-venus-only.so "$VGPU_BUILD"/tools/render/layer/{libVkLayer_vgpud_gate.so,VkLayer_vgpud_gate.json} "$run/layers" &&
		cp "$VGPU_BUILD/tools/render/qemu/vgpud-qemu" "$run" && cp "$dir"/kernel/boot/vmlinuz-* "$run/vmlinuz"
} || fail "this build has no Vulkan layer, or $dir no kernel"
export VGPUD_SOCKET=$run/control.sock VGPUD_LAYERS=$run/layers VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json
unset DISPLAY WAYLAND_DISPLAY VK_ICD_FILENAMES

# boot NAME WEIGHT: starts a VM; sets $booted. Everything is one process, which ends as QEMU. With WEIGHT -, it is QEMU alone, without
# vgpud. The VM has $guest_mib of memory, and the folder $programs, where that is set, as a share of its own that it can only read.
guest_mib=768 programs=''
boot() {
	local launch=("$vgpuctl" run --gpu gpu0 --weight "$2" --memory 512M --) emulator=("$run/vgpud-qemu")
	local sandbox=(-sandbox "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny") share=()
	[ "$2" != - ] || launch=() emulator=(qemu-system-x86_64) sandbox=()
	[ -z "$programs" ] || share=(-fsdev "local,id=programs,path=/srv,security_model=none,readonly=on" -device "virtio-9p-pci,fsdev=programs,mount_tag=programs")
	rm -rf "${run:?}/$1"
	mkdir -p "$run/$1"
	"${launch[@]}" unshare --mount --propagation private bash -c '
		root=$1 run=$2 programs=$3; shift 3
		mount --rbind "$root" "$root"
		for d in dev proc sys; do mount --rbind /$d "$root/$d"; done
		[ -z "$programs" ] || mount --bind "$programs" "$root/srv"
		mkdir -p "$root$run"; mount --bind "$run" "$root$run"
		cd /; exec chroot "$root" "$@"' sh "$dir/root" "$run" "$programs" "${emulator[@]}" \
		-nodefaults -no-reboot -machine q35,memory-backend=ram -accel tcg -cpu max -smp 1 -m "$guest_mib" \
		-object "memory-backend-memfd,id=ram,size=${guest_mib}M,share=on" -kernel "$run/vmlinuz" -initrd "$run/guest" \
		-append "console=ttyS0 panic=-1" -serial "file:$run/$1/serial" -fsdev "local,id=share,path=$run/$1,security_model=none" \
		-device virtio-9p-pci,fsdev=share,mount_tag=share "${share[@]}" -display egl-headless,rendernode=/dev/null "${sandbox[@]}" \
		-device '{"driver":"virtio-gpu-gl-pci","id":"gpu","venus":true,"blob":true,"hostmem":1073741824}' >"$run/$1.log" 2>&1 &
	booted=$!
}
n=0
# in_guest NAME SCRIPT: begins it in the guest; sets $began, its number.
in_guest() {
	began=$((n += 1))
	echo "$2" >"$run/$1/next.$n"
	mv "$run/$1/next.$n" "$run/$1/cmd.$n"
}
ended() { [ -e "$run/$1/rc.$2" ]; }
said() { cat "$run/$1"/{out,err}."$2"; }
# right NAME NUMBER: the program ends, with right results.
right() {
	await 120 ended "$1" "$2"
	[ "$(cat "$run/$1/rc.$2")" = 0 ] && [ "$(jq .wrong "$run/$1/out.$2")" = 0 ] || fail "VM $1, program $2: $(said "$1" "$2")"
}
computes() { # NAME: a short program, which begins and ends now
	in_guest "$1" "vgpu-vulkan --seconds 1 --steps 2000"
	right "$1" "$began"
}
alive() { kill -0 "$1" 2>/dev/null || fail "QEMU has ended: $(tail -5 "$run"/?.log)"; }
vf_of() { json vf list | jq -r --arg d "[$1]" '.vfs[] | select(.domain // "" | endswith($d)) | .vf'; }
seat_free() { [ "$(json vf list | jq '[.vfs[] | select(.state == "available")] | length')" -ge 1 ]; }
up() { [ -e "$run/$1/up" ]; }
ready() { grep -q 'ready on' "$run/$1/err.$2"; }
workers() { # PID: the render server of a QEMU, then its workers
	local server
	for server in $(cat /proc/"$1"/task/*/children); do
		grep -qz virgl_render_server "/proc/$server/cmdline" || continue
		echo "$server $(cat "/proc/$server/task/$server/children")"
	done
}
# QEMU under an emulated CPU aborts now and then by itself (in iotlb_to_section): such a VM is booted again, visibly.
aborted() { grep -q iotlb_to_section "$run/$1.log" && echo "QEMU of VM $1 has aborted by itself"; }
boot_up() { # NAME WEIGHT
	local try
	for try in 1 2 3; do
		boot "$@"
		until up "$1" || ! kill -0 "$booted" 2>/dev/null; do sleep 0.2; done
		! up "$1" || return 0
		aborted "$1" || break
		[ "$2" = - ] || await 30 seat_free
	done
	fail "VM $1 does not come up: $(tail -5 "$run/$1.log" "$run/$1/serial")"
}
