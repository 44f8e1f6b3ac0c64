#!/bin/bash
# SPDX-License-Identifier: MIT
# guests.sh DIR PROGRAMS [NAME...]: programs of others, from Debian sid's packages in PROGRAMS/root (tests/gate/programs), compute in a
# virtual machine by Venus on lavapipe, behind a gate, beside a hog in another machine, and print the same as in a machine without vgpud.
# The machines are those of vms.sh, whose QEMU is in DIR. With NAMEs only those of the table.
. "$(dirname "$0")/../system/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath "${1:?usage: guests.sh DIR PROGRAMS [NAME...]}") root=$(realpath "${2:?usage: guests.sh DIR PROGRAMS [NAME...]}")/root
shift 2
"$here/programs" "${root%/root}" || exit
. "$here/vm.sh"

# The table: NAME | what lines that are compared have in them | COMMAND | why it fails without vgpud, too. In a guest, window systems get
# what is drawn by the CPU (MESA_VK_WSI_DEBUG=sw): virglrenderer 1.1.0 exports no dma-buf of lavapipe's memory.
sw='MESA_VK_WSI_DEBUG=sw'
zink="MESA_LOADER_DRIVER_OVERRIDE=zink LIBGL_ALWAYS_SOFTWARE=1 $sw"
filter() { # FILTER: ffmpeg's command for it
	echo "ffmpeg -nostdin -hide_banner -loglevel error -init_hw_device vulkan=v:0 -filter_hw_device v -f lavfi -i testsrc2=size=320x180:rate=10:duration=0.4" \
		"-vf format=yuv420p,hwupload,$1,hwdownload,format=yuv420p -f framemd5 -"
}
piglit() { # PROGRAM...: each must pass
	local program and=''
	for program in "$@"; do
		echo "$and PIGLIT_PLATFORM=surfaceless_egl $zink timeout 900 /usr/lib/x86_64-linux-gnu/piglit/bin/$program -auto -fbo"
		and='&&'
	done | tr '\n' ' '
}
table="
ffmpeg-avgblur   | ^[0-9]      | $(filter avgblur_vulkan=sizeX=8)
ffmpeg-scale     | ^[0-9]      | $(filter scale_vulkan=w=160:h=90)
ffmpeg-transpose | ^[0-9]      | $(filter transpose_vulkan)
ggml             | passed      | /usr/libexec/x86_64-linux-gnu/ggml/test-backend-ops -b Vulkan0 -o ADD1,ARGMAX
llama.cpp        | .           | llama-completion -m /home/llama.gguf -dev Vulkan0 -ngl 99 -t 1 -p hello -n 4 --temp 0 -no-cnv --no-warmup
whisper.cpp      | .           | whisper-cli -m /home/whisper.bin -f /home/sound.wav -nf -bs 1 -bo 1 -t 1 -ac 64 | QEMU makes no blob of some of its memory (error 0x1200), and mapMemory fails
vkmark           | Device Name | $sw vkmark --winsys headless -s 200x150 -b vertex:duration=1 -b texture:duration=1
vkcube           |             | $sw vkcube --c 10 --width 200 --height 150
glmark2-zink     | Valid       | $zink glmark2 --validate -b build -b texture -b shading
piglit-zink      | pass        | $(piglit draw-pixels depthfunc stencil-drawpixels)
"

"$here/guest" "$dir" "$run/guest" "$load" || fail "the guest cannot be packed"
python3 "$here/models.py" "$run" || fail "no models"
# up_with_programs NAME WEIGHT: boots a VM that has the programs in /p, and an X server without a screen; sets $a.
up_with_programs() {
	guest_mib=2048 programs=$root
	boot_up "$@"
	a=$booted programs='' guest_mib=768
	cp "$run"/{llama.gguf,whisper.bin,sound.wav} "$run/$1"
	in_guest "$1" 'set -e
		mkdir /p
		mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro programs /p
		for d in dev proc sys; do mount --bind /$d /p/$d; done
		mount -t tmpfs tmp /p/tmp
		mount --bind /share /p/home
		mkdir /p/tmp/.X11-unix'
	await 120 ended "$1" "$began"
	[ "$(cat "$run/$1/rc.$began")" = 0 ] || fail "VM $1: $(said "$1" "$began")"
	in_guest "$1" 'exec chroot /p Xvfb -displayfd 7 -screen 0 800x600x24 -nolisten tcp 7>/share/display'
	await 300 test -s "$run/$1/display"
}
# program NAME COMMAND: begins it in VM NAME.
program() {
	echo "$2" >"$run/$1/program.$((n + 1))"
	in_guest "$1" "exec chroot /p env -i PATH=/usr/bin HOME=/tmp XDG_RUNTIME_DIR=/tmp USER=root DISPLAY=:$(cat "$run/$1/display") \
		VK_DRIVER_FILES=/usr/share/vulkan/icd.d/virtio_icd.json GGML_VK_VISIBLE_DEVICES=0 bash /home/program.$((n + 1))"
}
runs() { [ -n "$1" ] && kill -0 "$1" 2>/dev/null; }
over() { ended "$1" "$began" || ! runs "$a"; }
a='' b=''
# row VM WEIGHT NAME COMMAND: runs it in the VM, beside the hog if VM is gated; NAME.VM, NAME.VM.txt and $status are what it prints and
# ends with, $turns those that it had. If a QEMU aborts by itself, all is done again.
row() {
	local try before
	for try in 1 2 3; do
		[ "$1" = bare ] || runs "$b" || hog_up
		runs "$a" || up_with_programs "$1" "$2"
		before=$(dispatches)
		program "$1" "$4"
		await 1800 over "$1"
		turns=$(($(dispatches) - before))
		if ! runs "$a"; then aborted "$1" && continue; fail "QEMU has ended: $(tail -5 "$run/$1.log")"; fi
		if [ "$1" = gated ] && ! runs "$b"; then aborted b && continue; fail "the hog's QEMU has ended: $(tail -5 "$run/b.log")"; fi
		cp "$run/$1/out.$began" "$run/$3.$1"
		cp "$run/$1/err.$began" "$run/$3.$1.txt"
		status=$(cat "$run/$1/rc.$began")
		return
	done
	fail "QEMU aborts by itself each time"
}
dispatches() { [ "$way" = bare ] && echo 0 || json vf show "$(vf_of "$a")" | jq .dispatches; }
hog_up() {
	boot_up b 100
	b=$booted
	in_guest b 'exec vgpu-vulkan --seconds 100000 --steps 5000'
	hog=$began
	await 120 ready b "$hog"
}
rows() { # runs those of the table that are wanted; judges them where both ways are known
	local name keep command why began_at
	while IFS='|' read -r name keep command why <&3; do
		read -r name <<<"$name"
		read -r keep <<<"$keep"
		[ -z "$only" ] || [[ " $only " == *" $name "* ]] || continue
		began_at=$SECONDS
		if [ $way = bare ]; then
			row bare - "$name" "$command"
			[ "$status" = 0 ] || [ -n "$why" ] || fail "$name fails without vgpud, too ($status): $(tail -3 "$run/$name.bare" "$run/$name.bare.txt")"
			[ "$status" != 0 ] || [ -z "$why" ] || echo "$name: runs without vgpud now: take the reason out of its row"
			[ "$status" = 0 ] || { echo "$name: fails without vgpud, too:$why"; broken+=" $name"; }
			continue
		fi
		[[ "$broken " != *" $name "* ]] || continue
		row gated 100 "$name" "$command"
		[ "$status" = 0 ] || fail "$name ended with $status behind the gate: $(tail -5 "$run/$name.gated" "$run/$name.gated.txt")"
		[ "$turns" -gt 0 ] || fail "$name had no turns, and computed past the gate"
		for how in bare gated; do grep -aE "${keep:-^$}" "$run/$name.$how" >"$run/$name.$how.kept"; done
		[ -z "$keep" ] || [ -s "$run/$name.bare.kept" ] || fail "$name prints nothing to compare: $(cat "$run/$name.bare")"
		cmp -s "$run/$name".{bare,gated}.kept || fail "$name computes something else behind the gate: $(diff "$run/$name".{bare,gated}.kept | head -6)"
		echo "$name: $(grep -c '' "$run/$name.gated.kept") lines are equal, $turns turns, $((SECONDS - began_at)) s"
		right=$((right + 1))
	done 3< <(grep -v '^$' <<<"$table")
}
only=$* broken='' right=0 way=bare
rows
kill -9 "$a"
wait "$a" 2>/dev/null
a='' way=gated
config vulkan:llvmpipe <<CONF
vfs = 2
policy = fair
slice_us = 5000
grace_ms = 10000
CONF
start_vgpud
rows
in_guest b 'killall -INT vgpu-vulkan'
right b "$hog"
echo "$right programs compute the same in a guest behind the gate, $(wc -w <<<"$broken") fail without it, too; the hog's $(jq .submissions "$run/b/out.$hog") submissions are right"
