#!/bin/bash
# SPDX-License-Identifier: MIT
# programs.sh DIR: programs of others, from Debian's packages, compute on lavapipe behind a gate, beside a hog that always has work: each of
# ffmpeg's Vulkan filters gives the same frames, to the bit, as without vgpud, and vkcube shows its in an X server without
# a screen. The packages are unpacked in DIR, once.
. "$(dirname "$0")/../system/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?usage: programs.sh DIR}"
dir=$(realpath "$1")
. "$here/lavapipe.sh"
[ -e "$dir/done" ] || { "$here/../fetch" "$dir" --depends ffmpeg xvfb xkb-data x11-xkb-utils vulkan-tools && touch "$dir/done"; } || exit
root=$dir/root
# with PROGRAM ARGUMENT...: runs it with the libraries of the packages.
libraries=$(find "$root/usr/lib" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
with() { LD_LIBRARY_PATH=$libraries "$@"; }
config vulkan:llvmpipe <<CONF
vfs = 2
policy = fair
slice_us = 5000
grace_ms = 10000
CONF
start_vgpud
gated() { "$vgpuctl" run --gpu gpu0 --weight 100 -- "$@"; }
two_seats() { [ "$(json vf list | jq '[.vfs[] | select(.state == "available")] | length')" -ge 1 ]; }

# taken COMMAND...: runs it, and sees that it has had turns: those of all VFs but the hog's, which has them all the time.
turns() { json vf list | jq --argjson hog "$hog_vf" '[.vfs[] | select(.vf != $hog).dispatches] | add'; }
taken() {
	local before
	before=$(turns)
	"$@" || return
	[ "$(turns)" -gt "$before" ] || fail "it had no turns, and computed past the gate: $*"
}

# The frames' checksums, without vgpud and then behind the gate.
frames() { # OUT FILTER [COMMAND...]
	local out=$1 filter=$2
	shift 2
	with "$@" timeout 120 "$root/usr/bin/ffmpeg" -nostdin -hide_banner -loglevel error -init_hw_device vulkan=v:0 -filter_hw_device v \
		-f lavfi -i "testsrc2=size=320x180:rate=10:duration=1" -vf "format=yuv420p,hwupload,$filter,hwdownload,format=yuv420p" \
		-f framemd5 - >"$out" 2>"$out.log"
}
filters=(avgblur_vulkan=sizeX=8 chromaber_vulkan=dist_x=3 gblur_vulkan=sigma=2 hflip_vulkan vflip_vulkan flip_vulkan
	scale_vulkan=w=160:h=90 transpose_vulkan)
"$vgpuctl" run --gpu gpu0 --weight 100 -- "$load" --seconds 1000 --steps 5000 >"$run/hog.json" 2>"$run/hog.log" &
hog=$!
pids+=($!)
ready() { grep -q 'ready on' "$run/hog.log"; }
await 30 ready
hog_vf=$(json vf list | jq '[.vfs[] | select(.state != "available").vf][0]')
right=0
for filter in "${filters[@]}"; do
	if ! frames "$run/bare" "$filter"; then
		echo "$filter fails without vgpud, too: $(tail -1 "$run/bare.log")"
		continue
	fi
	await 30 two_seats
	taken frames "$run/gated" "$filter" gated || fail "ffmpeg, $filter, ended with $?: $(cat "$run/gated.log")"
	cmp -s "$run/bare" "$run/gated" || fail "$filter computes something else behind the gate: $(diff "$run/bare" "$run/gated" | head -4)"
	right=$((right + 1))
done
echo "ffmpeg: $right of ${#filters[@]} filters give the same frames"
[ $right -ge 6 ] || fail "only $right filters could be compared"

# What is shown: acquire, submit and present, with binary semaphores. An X server without a screen, whose display the server chooses.
# It looks for xkbcomp in /usr/bin alone, and has one of its own there.
LD_LIBRARY_PATH=$libraries unshare --mount sh -c 'mount -t overlay -o "lowerdir=$1/usr/bin:/usr/bin" overlay /usr/bin &&
	exec Xvfb -displayfd 7 -screen 0 640x480x24 -nolisten tcp -xkbdir "$1/usr/share/X11/xkb"' sh "$root" 7>"$run/display" 2>"$run/xvfb.log" &
server=$!
pids+=($server)
await 60 test -s "$run/display"
DISPLAY=:$(cat "$run/display")
export DISPLAY
await 30 two_seats
cube() { with gated timeout 120 "$root/usr/bin/vkcube" --c 60 --width 200 --height 150 >"$run/cube.log" 2>&1; }
taken cube || fail "vkcube ended with $?: $(cat "$run/cube.log")"
kill "$server" # it removes its socket
wait "$server"
kill -INT "$hog"
wait "$hog" || fail "the hog ended with $?: $(cat "$run/hog.log")"
[ "$(jq .wrong "$run/hog.json")" = 0 ] || fail "the hog: wrong results"
echo "vkcube shows its frames; the hog's $(jq .submissions "$run/hog.json") submissions are right"
