#!/bin/bash
# SPDX-License-Identifier: MIT
# A disk that is full, or a reader that has gone, is no success: every program says so, whatever it prints.
. "$(dirname "$0")/lib.sh"
[ -c /dev/full ] || { echo "skipped: /dev/full is missing"; exit 77; }
sim=$VGPU_BUILD/tools/sim/vgpu-sim
keeper=$VGPU_BUILD/tools/keeper/vgpud-keeper
agent=$VGPU_BUILD/tools/libvirt/daemon/vgpud-libvirt
check=$VGPU_BUILD/tools/cuda/library/vgpu-cuda-check
hook=$VGPU_BUILD/tools/libvirt/hook/vgpud-hook
vf=$VGPU_BUILD/tools/softgpu/vf/softgpu-vf
worker=$VGPU_BUILD/tools/softgpu/worker/softgpu-worker
vulkan=$VGPU_BUILD/tools/render/load/vgpu-vulkan
config null:busy=2 <<CONF
vfs = 2
CONF
start_vgpud
n=0
while read -r program words; do
	path=${!program}
	[ -x "$path" ] || continue
	name=${path##*/} n=$((n + 1))
	[ "$program" != vgpuctl ] || path="$path --socket $run/control.sock"
	timeout 60 $path $words >/dev/full 2>"$run/said"
	r=$?
	[ $r = 1 ] || fail "$name $words ended with $r, and its disk was full"
	[ "$(grep -v '^vgpuctl: this lasts' "$run/said")" = "$name: stdout: No space left on device" ] || fail "$name $words: $(cat "$run/said")"
	timeout 60 $path $words 2>"$run/said" | true
	r=${PIPESTATUS[0]}
	# What it printed before its reader went is no failure of its; most is printed after that.
	[ ! -s "$run/said" ] || grep -q '^vgpuctl: this lasts' "$run/said" || fail "$name $words said to a reader that had gone: $(cat "$run/said")"
	# With SIGPIPE ignored, as under systemd: the write fails, and nobody needs to be told.
	{ sleep 0.2; (trap '' PIPE; timeout 60 $path $words) 2>"$run/said"; echo $? >"$run/code"; } | :
	r=$(cat "$run/code")
	[ "$r" != 0 ] || fail "$name $words succeeded without a reader"
	[ ! -s "$run/said" ] || grep -q '^vgpuctl: this lasts' "$run/said" || fail "$name $words said to no reader: $(cat "$run/said")"
done <<'TABLE'
vgpuctl vf list
vgpuctl -o json vf list
vgpuctl gpu list
vgpuctl events
vgpuctl events --follow
vgpuctl timeline
vgpuctl trace
vgpuctl top --count 3 --interval 0.1
vgpuctl record
vgpuctl policy list
vgpuctl vf set 1 weight=100
vgpuctl inventory
vgpuctl --help
vgpuctl --version
vgpud --help
vgpud --version
vgpud --help-config
sim policies
sim --help
softgpu --help
guest --help
keeper --help
agent --help
check --version
hook --help
vf --version
worker --help
vulkan --version
TABLE
[ $n -ge 20 ] || fail "only $n commands were tried"
"$vgpud" --config "$run/vgpud.conf" --dump-config >/dev/full 2>"$run/said" && fail "vgpud --dump-config succeeded on a full disk"
grep -q "^vgpud: stdout: No space left on device$" "$run/said" || fail "$(cat "$run/said")"
# A closed standard output is one, too; a program that prints nothing does not mind.
"$vgpuctl" --socket "$run/control.sock" vf list >&- 2>"$run/said" && fail "vf list succeeded without a standard output"
"$vgpud" --config "$run/vgpud.conf" --check-config >/dev/full || fail "vgpud --check-config prints nothing, and fails on a full disk"
