#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs on this host share lavapipe, the Vulkan driver that computes on the CPU: shares by weight, memory, an endless shader, the
# end of programs, and vgpud killed while they run.
. "$(dirname "$0")/lib.sh"
keeper=$VGPU_BUILD/tools/keeper/vgpud-keeper
load=$VGPU_BUILD/tools/render/load/vgpu-vulkan
export VGPUD_SOCKET=$run/control.sock VGPUD_LAYERS=$VGPU_BUILD/tools/render/layer
[ -x "$load" ] || { echo "skipped: this build has no Vulkan layer"; exit 77; }
# The CPU's driver alone, and no window system.
export VK_DRIVER_FILES="" VK_ICD_FILENAMES=""
for f in /usr/share/vulkan/icd.d/lvp_icd*.json; do VK_DRIVER_FILES=$f VK_ICD_FILENAMES=$f; done
[ -e "$VK_DRIVER_FILES" ] || { echo "skipped: lavapipe is missing (Debian: mesa-vulkan-drivers)"; exit 77; }
unset DISPLAY WAYLAND_DISPLAY

cat >"$run/vgpud.conf" <<CONF
[daemon]
socket = $run/control.sock
[gpu gpu0]
device = vulkan:llvmpipe
vfs = 3
policy = fair
grace_ms = 5000
[vf gpu0/2]
memory_mib = 64
CONF
"$keeper" "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
keeper_pid=$!
trap 'r=$?; [ -z "$keeper_pid" ] || { kill $keeper_pid; wait $keeper_pid; }; (exit $r); finish' EXIT
await 30 ctl gpu list
child() { cat "/proc/$keeper_pid/task/$keeper_pid/children" | tr -d ' '; }

# start NAME OPTIONS... -- PROGRAM...: runs a program with a VF; sets $started.
start() {
	local name=$1
	shift
	"$vgpuctl" run "$@" >"$run/$name.json" 2>"$run/$name.log" &
	started=$!
	pids+=($!)
}
ready() { grep -q "ready on" "$run/$1.log"; }
vf_of() { json vf list | jq -r --arg d "[$1]" '.vfs[] | select(.domain // "" | endswith($d)) | .vf'; }
has_vf() { [ -n "$(vf_of "$1")" ]; }
ends_right() { # PID NAME
	wait "$1" || fail "program $2 ended with $?: $(cat "$run/$2.log" "$run/$2.json")"
	[ "$(jq .wrong "$run/$2.json")" = 0 ] || fail "program $2: wrong results: $(cat "$run/$2.json")"
}
free_again() { [ "$(json vf list | jq '[.vfs[] | select(.state == "available")] | length')" = "$1" ]; }

# Two programs that always have work, weights 70:30.
start a --gpu gpu0 --weight 70 -- "$load" --seconds 600 --steps 1000; a=$started
start b --gpu gpu0 --weight 30 -- "$load" --seconds 600 --steps 3000; b=$started
await 60 ready a
await 60 ready b
await 60 at_least "$(vf_of $a)" dispatches 20
await 60 at_least "$(vf_of $b)" dispatches 20
shares_kept 10 "$(vf_of $a)=70" "$(vf_of $b)=30"
