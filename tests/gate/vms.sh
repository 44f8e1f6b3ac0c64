#!/bin/bash
# SPDX-License-Identifier: MIT
# vms.sh DIR: two virtual machines, emulated, whose programs compute by Venus on lavapipe, and share it by weight. Their QEMU is
# Debian 13's, in a root of its own that tests/gate/setup made in DIR. Shares; virgl is off; an endless shader; vgpud, a render
# worker, the render server and QEMU are killed. What belongs to the other VM goes on each time.
. "$(dirname "$0")/../system/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath "${1:?usage: vms.sh DIR}")
keeper=$VGPU_BUILD/tools/keeper/vgpud-keeper
load=$VGPU_BUILD/tools/render/load/vgpu-vulkan
mkdir -p "$run/layers"
{
	cp "$VGPU_BUILD"/tools/render/venus/libvgpud-venus-only.so "$VGPU_BUILD"/tools/render/layer/{libVkLayer_vgpud_gate.so,VkLayer_vgpud_gate.json} "$run/layers" &&
		cp "$VGPU_BUILD/tools/render/qemu/vgpud-qemu" "$run" && cp "$dir"/kernel/boot/vmlinuz-* "$run/vmlinuz"
} || fail "this build has no Vulkan layer, or $dir no kernel"
cc -O1 -o "$run/capset" "$here/capset.c" || fail "tests/gate/capset.c does not compile"
"$here/guest" "$dir" "$run/guest" "$load" "$run/capset" || fail "the guest cannot be packed"
export VGPUD_SOCKET=$run/control.sock VGPUD_LAYERS=$run/layers VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json
unset DISPLAY WAYLAND_DISPLAY VK_ICD_FILENAMES
config vulkan:llvmpipe <<CONF
vfs = 2
policy = fair
slice_us = 20000
grace_ms = 5000
CONF
"$keeper" "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
keeper_pid=$!
trap 'r=$?; [ -z "$keeper_pid" ] || { kill $keeper_pid; wait $keeper_pid; }; (exit $r); finish' EXIT
await 30 ctl gpu list
child() { cat "/proc/$keeper_pid/task/$keeper_pid/children" | tr -d ' '; }

# boot NAME WEIGHT: starts a VM; sets $booted. Everything is one process, which ends as QEMU.
boot() {
	rm -rf "${run:?}/$1"
	mkdir -p "$run/$1"
	"$vgpuctl" run --gpu gpu0 --weight "$2" --memory 512M -- unshare --mount --propagation private bash -c '
		root=$1 run=$2; shift 2
		mount --rbind "$root" "$root"
		for d in dev proc sys; do mount --rbind /$d "$root/$d"; done
		mkdir -p "$root$run"; mount --bind "$run" "$root$run"
		cd /; exec chroot "$root" "$@"' sh "$dir/root" "$run" "$run/vgpud-qemu" \
		-nodefaults -no-reboot -machine q35,memory-backend=ram -accel tcg -cpu max -smp 1 -m 768 \
		-object memory-backend-memfd,id=ram,size=768M,share=on -kernel "$run/vmlinuz" -initrd "$run/guest" \
		-append "console=ttyS0 panic=-1" -serial "file:$run/$1/serial" -fsdev "local,id=share,path=$run/$1,security_model=none" \
		-device virtio-9p-pci,fsdev=share,mount_tag=share -display egl-headless,rendernode=/dev/null \
		-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny \
		-device '{"driver":"virtio-gpu-gl-pci","id":"gpu","venus":true,"blob":true,"hostmem":1073741824}' >"$run/$1.log" 2>&1 &
	booted=$!
	pids+=($!)
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
boot_up() { # NAME WEIGHT
	local try
	for try in 1 2 3; do
		boot "$@"
		until up "$1" || ! kill -0 "$booted" 2>/dev/null; do sleep 0.2; done
		! up "$1" || return 0
		grep -q iotlb_to_section "$run/$1.log" || break
		echo "QEMU of VM $1 has aborted by itself, try $try"
		await 30 seat_free
	done
	fail "VM $1 does not come up: $(tail -5 "$run/$1.log" "$run/$1/serial")"
}

boot a 70; a=$booted
boot_up b 30; b=$booted
until up a || ! kill -0 "$a" 2>/dev/null; do sleep 0.2; done
up a || { boot_up a 70; a=$booted; }

# The guest has Venus alone: OpenGL in QEMU's process would pass the gate.
in_guest a 'for i in 0 1 1 2 4; do capset $i; done'
await 60 ended a "$began"
for i in 1 2; do grep -q "cap set .: id $i, max-version [1-9]" "$run/a/dmesg" && fail "the guest has capset $i: $(grep 'cap set' "$run/a/dmesg")"; done
grep -q "capset 4: submission: taken" "$run/a/out.$began" || fail "no context of Venus: $(said a "$began")"
[ "$(grep -c "refuses contexts of capset 1:" "$run/a.log")" = 1 ] ||
	fail "QEMU has made a context of capset 1, or a guest fills its log: $(said a "$began"; cat "$run/a.log")"

# Shares: both always have work.
computes a
computes b
in_guest a 'vgpu-vulkan --seconds 600 --steps 8000 --deep 4'; in_a=$began
in_guest b 'vgpu-vulkan --seconds 600 --steps 8000 --deep 4'; in_b=$began
await 60 ready a $in_a
await 60 ready b $in_b
await 60 at_least "$(vf_of "$a")" dispatches 20
await 60 at_least "$(vf_of "$b")" dispatches 20
shares_kept 10 "$(vf_of "$a")=70" "$(vf_of "$b")=30"

# vgpud is killed: both go on, and the next vgpud adopts them.
old=$(child)
other_child() { [ -n "$(child)" ] && [ "$(child)" != "$old" ] && ctl gpu list; }
kill -9 "$old"
await 60 other_child
[ "$(json gpu show | jq .adopted)" = true ] || fail "the GPU was not adopted"
more() { [ "$(json vf show "$(vf_of "$1")" | jq .dispatches)" -gt "$2" ]; }
for i in $a $b; do
	await 30 vf_of "$i"
	await 60 more "$i" 10
done
in_guest a 'killall -INT vgpu-vulkan'
right a $in_a

# An endless shader: its program is ended after grace_ms. Its VM lives, and the next program is right; the neighbour goes on.
in_guest a 'vgpu-vulkan --seconds 600 --endless'
await 120 ended a "$began"
[ "$(cat "$run/a/rc.$began")" != 0 ] || fail "the endless shader has ended: $(said a "$began")"
[ "$(vf "$(vf_of "$a")" hangs)" -ge 1 ] || fail "there was no hang: $(ctl vf list)"
computes a
before=$(json vf show "$(vf_of "$b")" | jq .dispatches)
await 60 more "$b" $((before + 5))

# A render worker is killed: its program ends, the next one is right.
in_guest a 'vgpu-vulkan --seconds 600 --steps 8000'; in_a=$began
await 60 ready a $in_a
read -r server worker _ < <(workers "$a")
[ -n "${worker:-}" ] || fail "there is no render worker of VM a: $(workers "$a")"
kill -9 "$worker"
await 120 ended a $in_a
computes a
alive "$a"

# The render server is killed: its VM has no GPU any more, and lives; the neighbour goes on.
kill -9 "$server"
before=$(json vf show "$(vf_of "$b")" | jq .dispatches)
await 60 more "$b" $((before + 5))
in_guest a 'echo here'
await 60 ended a "$began"
alive "$a"

# QEMU is killed: its VF is free, and a new VM has it.
kill -9 "$a"
wait "$a" 2>/dev/null
await 30 seat_free
boot_up a 70; a=$booted
computes a

in_guest b 'killall -INT vgpu-vulkan'
right b $in_b
alive "$b"
