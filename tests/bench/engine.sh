#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures costs and benefits of slices on a device with hard preemption: an NVIDIA GPU, or this CPU in its place. For
# comparison the same run measures the same tenants as separate processes without slices, and with MPS if that starts.
# One JSON object on stdout; nothing is asserted.
# Usage: VGPU_BUILD=DIR engine.sh [cuda|host] [SECONDS for each measurement]
. "$(dirname "$0")/../system/lib.sh"
engine=${1:-cuda} seconds=${2:-10}
long=50000 # duration in microseconds of a GPU kernel that does not end by itself within a slice
note() { echo "engine: $*" >&2; }
options=(--engine "$engine" --window 64M --kill-after 1000)
[ "$engine" = host ] && options+=(--vram 512M)
only_host_libraries
# gpu DIR VFS: starts softgpu
gpu() {
	"$softgpu" --dir "$run/$1" --vfs "$2" "${options[@]}" 2>>"$run/softgpu.log" &
	local p=$!
	started() { [ -S "$run/$1/pf.sock" ] || ! kill -0 "$2" 2>/dev/null; }
	await 120 started "$1" $p
	[ -S "$run/$1/pf.sock" ] || { echo "skipped: $(cat "$run/softgpu.log")"; exit 77; }
	gpus+=($p)
}
stop() { kill "$vgpud_pid" "${gpus[@]}"; wait "$vgpud_pid" "${gpus[@]}" 2>/dev/null; rm -rf "$run/a" "$run/b"; gpus=(); }
gpus=()
# tenant NAME SOCKET WORKLOAD options: starts a guest; SOCKET is relative to $run
tenant() {
	local name=$1 socket=$2
	shift 2
	start_guest_at "$name" "$run/$socket" "$@"
}
end() { kill -INT "$@" 2>/dev/null; wait "$@" 2>/dev/null; }
measure() { tenant "$@" --seconds "$seconds"; wait_guest $guest_pid "$1"; }
rate() { jq '.jobs / .seconds' "$run/$1.json"; }
light=(interactive --us 2000 --rate 100) # 20 % of the device
work=(gemm --device-memory --size 4 --depth 4)

two_hogs() {
	tenant h0 a/vf0.sock hog --us $long --seconds 1000; h0=$guest_pid
	tenant h1 a/vf1.sock hog --us $long --seconds 1000; h1=$guest_pid
	await 60 active 2
}

# latency LABEL SOCKET SOCKET: the latency of a tenant with short GPU kernels, alone and beside a tenant that never stops.
latency() {
	local hog
	note "$1: interactive alone, and beside a hog"
	measure alone "$2" "${light[@]}"
	tenant hog "$3" hog --us $long --seconds 1000; hog=$guest_pid
	sleep 1
	measure beside "$2" "${light[@]}"
	end "$hog"
	jq -n --slurpfile alone "$run/alone.json" --slurpfile beside "$run/beside.json" '
		{alone_p99_us: $alone[0].p99_us, beside_p99_us: $beside[0].p99_us, ratio: ($beside[0].p99_us / $alone[0].p99_us)}'
}
# throughput LABEL SOCKET SOCKET: the throughput of two tenants together, compared with one alone.
throughput() {
	local both
	note "$1: one alone, and two hogs"
	measure one "$2" "${work[@]}"
	tenant second "$3" "${work[@]}" --seconds "$seconds"; both=$guest_pid
	measure first "$2" "${work[@]}"
	wait_guest "$both" second
	jq -n --argjson one "$(rate one)" --argjson first "$(rate first)" --argjson second "$(rate second)" '
		{one_jobs_per_s: $one, two_jobs_per_s: ($first + $second), lost_percent: (100 * (1 - ($first + $second) / $one))}'
}
both() { # LABEL SOCKET SOCKET
	local interactive throughput
	interactive=$(latency "$@") || fail "$interactive"
	throughput=$(throughput "$@") || fail "$throughput"
	jq -n --argjson interactive "$interactive" --argjson throughput "$throughput" '{$interactive, $throughput}'
}
# For vgpud, each tenant has a GPU of its own; for the device, the tenants are separate processes.
separate() {
	gpu a 1
	gpu b 1
	cat >"$run/vgpud.conf" <<-CONF
		[daemon]
		socket = $run/control.sock
		[gpu a]
		device = vfio-user:$run/a/pf.sock
		vfs = 1
		lone_slice_ms = 10000
		[gpu b]
		device = vfio-user:$run/b/pf.sock
		vfs = 1
		lone_slice_ms = 10000
	CONF
	start_vgpud
}
sliced() { # reads further lines for the GPU on stdin
	gpu a 2
	cat >"$run/vgpud.conf" <<-CONF
		[daemon]
		socket = $run/control.sock
		[gpu a]
		device = vfio-user:$run/a/pf.sock
		vfs = 2
		slice_us = 10000
		grace_ms = 2000
		$(cat)
	CONF
	start_vgpud
}

sliced <<<"policy = equal"
device=$(json gpu show)
[ "$(jq -r .preemption <<<"$device")" = hard ] || { echo "skipped: nothing stops a kernel here: $(ctl gpu show | grep preemption)"; exit 77; }
note "hard preemption of kernels of $long us, and world switches"
two_hogs
sleep "$seconds"
stats=$(json stats)
end $h0 $h1
stop

sliced <<<"policy = fair
[vf a/0]
weight = 300"
note "weights 3:1"
two_hogs
sleep 1
json vf list >"$run/before.json"
sleep "$seconds"
shares=$(json vf list | jq --slurpfile b "$run/before.json" '
	[range(0; 2) as $i | .vfs[$i].run_ns - $b[0].vfs[$i].run_ns] as $r | ($r[0] / ($r[0] + $r[1])) as $s
	| {promised: 0.75, received: $s, error_percent: (100 * (($s - 0.75) / 0.75 | fabs))}')
end $h0 $h1
stop

sliced <<<"policy = prio
[vf a/0]
class = 0"
interactive_sliced=$(latency slices a/vf0.sock a/vf1.sock) || fail "$interactive_sliced"
stop

sliced <<<"policy = equal"
throughput_sliced=$(throughput slices a/vf0.sock a/vf1.sock) || fail "$throughput_sliced"
stop

separate
default=$(both default a/vf0.sock b/vf0.sock) || fail "$default"
stop

mps=null
if [ "$engine" = cuda ] && command -v nvidia-cuda-mps-control >/dev/null; then
	export CUDA_MPS_PIPE_DIRECTORY=$run/mps CUDA_MPS_LOG_DIRECTORY=$run/mps
	mkdir "$run/mps"
	if nvidia-cuda-mps-control -d; then
		options+=(--worker-user root) # the MPS daemon is root's
		separate
		mps=$(both mps a/vf0.sock b/vf0.sock) || fail "$mps"
		stop
		echo quit | nvidia-cuda-mps-control
	fi
fi

jq -n --argjson device "$device" --argjson stats "$stats" --argjson shares "$shares" --argjson interactive "$interactive_sliced" \
	--argjson throughput "$throughput_sliced" --argjson default "$default" \
	--argjson mps "$mps" --arg engine "$engine" --arg log "$(sed -n "/ready/{s/.*, on //;p;q}" "$run/softgpu.log")" \
	--arg driver "$(head -1 /proc/driver/nvidia/version 2>/dev/null)" \
	--arg machine "$(this_machine)" '
	{bench: "engine", engine: $engine, device: $log, driver: $driver, machine: $machine,
	 proved: {level: $device.preemption, typical_ns: $device.preempt_typical_ns, longest_ns: $device.preempt_longest_ns},
	 preemption: $stats.preemption, world_switch: $stats.world_switch, shares: $shares,
	 sliced: {$interactive, $throughput}, separate_processes: $default, mps: $mps}'
