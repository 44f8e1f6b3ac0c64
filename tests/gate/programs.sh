#!/bin/bash
# SPDX-License-Identifier: MIT
# programs.sh DIR [NAME...]: programs of others, from Debian sid's packages, compute on Mesa's lavapipe behind a gate, beside a hog that always
# has work, and print the same as without vgpud. The packages are unpacked in DIR, once; the programs run in that root. With NAMEs only those
# of the table.
. "$(dirname "$0")/../system/lib.sh"
[ "$(uname -m)" = x86_64 ] || { echo "skipped: the programs are for x86_64"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
"$here/programs" "${1:?usage: programs.sh DIR [NAME...]}" || exit
dir=$(realpath "$1")
shift
. "$here/lavapipe.sh"
root=$dir/root

# The table: NAME | what lines that are compared have in them: one of these regular expressions | COMMAND | why it fails without vgpud, too.
# ggml's Vulkan passes over devices of the CPU unless it is told their numbers; zink, unless software is asked for. Both are asked to here.
zink='MESA_LOADER_DRIVER_OVERRIDE=zink LIBGL_ALWAYS_SOFTWARE=1'
filter() { # FILTER: ffmpeg's command for it
	echo "ffmpeg -nostdin -hide_banner -loglevel error -init_hw_device vulkan=v:0 -filter_hw_device v -f lavfi -i testsrc2=size=320x180:rate=10:duration=1" \
		"-vf format=yuv420p,hwupload,$1,hwdownload,format=yuv420p -f framemd5 -"
}
tests="-t opengl.1.1@draw-pixels -t opengl.1.1@masked-clear -t opengl.1.1@scissor-bitmap -t opengl.1.1@texsubimage"
no_cl="rusticl looks for GPUs among DRM's render nodes alone (Mesa, pipe_loader_drm_zink_probe), and lavapipe has none"
table="
ffmpeg-avgblur   | ^[0-9]          | $(filter avgblur_vulkan=sizeX=8)
ffmpeg-chromaber | ^[0-9]          | $(filter chromaber_vulkan=dist_x=3) | ffmpeg 9.0.2 ends with SIGSEGV in this filter on lavapipe
ffmpeg-gblur     | ^[0-9]          | $(filter gblur_vulkan=sigma=2)
ffmpeg-hflip     | ^[0-9]          | $(filter hflip_vulkan)
ffmpeg-scale     | ^[0-9]          | $(filter scale_vulkan=w=160:h=90)
ffmpeg-transpose | ^[0-9]          | $(filter transpose_vulkan)
ggml             | passed          | /usr/libexec/x86_64-linux-gnu/ggml/test-backend-ops -b Vulkan0 -o ADD1,CLAMP,SUM_ROWS,ARGMAX
llama.cpp        | .               | llama-completion -m $run/llama.gguf -dev Vulkan0 -ngl 99 -t 1 -p hello -n 8 --temp 0 -no-cnv --no-warmup
whisper.cpp      | .               | whisper-cli -m $run/whisper.bin -f $run/sound.wav -nf -bs 1 -bo 1 -t 1 -ac 64
libplacebo       |                 | /opt/libplacebo/build/src/tests/test.vulkan.c >/dev/null
vkmark           | Device Name     | vkmark --winsys headless -b vertex:duration=1 -b texture:duration=1
vkcube           |                 | vkcube --c 30 --width 200 --height 150
glmark2-zink     | RENDERER,Valid  | $zink glmark2 --validate -b build -b texture -b shading
piglit-zink      | : pass,: fail   | $zink piglit run -o -1 -p glx $tests quick $run/piglit && piglit summary console $run/piglit
clinfo-rusticl   | Device          | RUSTICL_ENABLE=zink LIBGL_ALWAYS_SOFTWARE=1 clinfo -l ;; grep Device | $no_cl
clpeak-rusticl   | .               | RUSTICL_ENABLE=zink LIBGL_ALWAYS_SOFTWARE=1 clpeak --kernel-latency | $no_cl
"

# in_root COMMAND...: becomes the program, in the root.
in_root() {
	exec unshare --mount --propagation private bash -c '
		root=$1 run=$2; shift 2
		mount --rbind "$root" "$root"
		for d in dev proc sys; do mount --rbind /$d "$root/$d"; done
		mkdir -p "$root$run"; mount --bind "$run" "$root$run"
		cd /; exec chroot "$root" "$@"' sh "$root" "$run" "$@"
}
export VGPUD_LAYERS=$run/layers GGML_VK_VISIBLE_DEVICES=0 USER=root
mkdir "$run/layers"
cp "$VGPU_BUILD"/tools/render/layer/{libVkLayer_vgpud_gate.so,VkLayer_vgpud_gate.json} "$run/layers"
python3 "$here/models.py" "$run" || fail "no models"
config vulkan:llvmpipe <<CONF
vfs = 2
policy = fair
slice_us = 5000
grace_ms = 10000
CONF
start_vgpud
"$vgpuctl" run --gpu gpu0 --weight 100 -- "$load" --seconds 100000 --steps 5000 >"$run/hog.json" 2>"$run/hog.log" &
hog=$!
ready() { grep -q 'ready on' "$run/hog.log"; }
await 60 ready
hog_vf=$(json vf list | jq '[.vfs[] | select(.state != "available").vf][0]')
seat_free() { [ "$(json vf list | jq '[.vfs[] | select(.state == "available")] | length')" -ge 1 ]; }
turns() { json vf list | jq --argjson hog "$hog_vf" '[.vfs[] | select(.vf != $hog).dispatches] | add'; }

# An X server without a screen, whose display the server chooses.
export VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json VK_ICD_FILENAMES=''
(in_root bash -c "exec Xvfb -displayfd 7 -screen 0 800x600x24 -nolisten tcp 7>$run/display" 2>"$run/xvfb.log") &
server=$!
await 120 test -s "$run/display"
DISPLAY=:$(cat "$run/display")
export DISPLAY

# NAME.bare and NAME.gated: what a program prints, and in NAME.HOW.txt its errors; it ends with the program's status.
bare() { (in_root timeout 900 bash -c "$2") </dev/null >"$run/$1.bare" 2>"$run/$1.bare.txt"; }
gated() {
	"$vgpuctl" run --gpu gpu0 --weight 100 -- bash -c "$(declare -f in_root); root=$root run=$run; in_root timeout 900 bash -c \"\$1\"" bash "$2" \
		</dev/null >"$run/$1.gated" 2>"$run/$1.gated.txt"
}
right=0 broken=0
while IFS='|' read -r name keep command why; do
	read -r name <<<"$name"
	read -r keep <<<"${keep//,/|}"
	command=${command//;;/|} began=$SECONDS
	[ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
	if bare "$name" "$command"; then
		[ -z "$why" ] || echo "$name: runs without vgpud now: take the reason out of its row"
	else
		[ -n "$why" ] || fail "$name fails without vgpud, too: $(tail -3 "$run/$name.bare" "$run/$name.bare.txt")"
		echo "$name: fails without vgpud, too:$why"
		broken=$((broken + 1))
		continue
	fi
	await 60 seat_free
	before=$(turns)
	gated "$name" "$command" || fail "$name ended with $? behind the gate: $(tail -5 "$run/$name.gated" "$run/$name.gated.txt")"
	kill -0 "$hog" || fail "the hog has ended: $(cat "$run/hog.log")"
	[ "$(turns)" -gt "$before" ] || fail "$name had no turns, and computed past the gate"
	for how in bare gated; do grep -aE "${keep:-^$}" "$run/$name.$how" >"$run/$name.$how.kept"; done
	[ -z "$keep" ] || [ -s "$run/$name.bare.kept" ] || fail "$name prints nothing to compare: $(cat "$run/$name.bare")"
	cmp -s "$run/$name".{bare,gated}.kept || fail "$name computes something else behind the gate: $(diff "$run/$name".{bare,gated}.kept | head -6)"
	echo "$name: $(grep -c '' "$run/$name.gated.kept") lines are equal, $(($(turns) - before)) turns, $((SECONDS - began)) s"
	right=$((right + 1))
done < <(grep -v '^$' <<<"$table")
kill "$server"
wait "$server"
kill -INT "$hog"
wait "$hog" || fail "the hog ended with $?: $(cat "$run/hog.log")"
[ "$(jq .wrong "$run/hog.json")" = 0 ] || fail "the hog: wrong results"
echo "$right programs compute the same behind the gate, $broken fail without it, too; the hog's $(jq .submissions "$run/hog.json") submissions are right"
