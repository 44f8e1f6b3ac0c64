#!/bin/bash
# SPDX-License-Identifier: MIT
# Four VMs run CUDA programs at a time (tests/vm/guest/cuda-four.sh), VM N on VF N of one softgpu, under strict. All checks of the
# programs pass in each VM. While all four compute, vgpud serves each within the bounds of strict. Then the QEMU of VM 3 is killed while
# it computes: the others compute on with right results, and none of their VFs is reset.
. "$(dirname "$0")/cuda-lib.sh"
quota=32 window=16 # MiB
qemus=()
make_image "$VGPU_BUILD"/{tests/cuda/programs/cuda-sample,tools/cuda/library/vgpu-cuda-check,tools/cuda/library/libcuda.so.1,tools/cuda/nvml/libnvidia-ml.so.1}
start_cuda_softgpu --vfs 4 --vram 160M
config <<-CONF
	vfs = 4
	policy = strict
	slice_us = 50000
	grace_ms = 10000
CONF
start_vgpud
for n in 0 1 2 3; do
	await 60 is $n state available
	[ "$(mib $n)" = $quota ] || fail "VF $n has $(mib $n) MiB, not $quota MiB"
	# Programs can have what is behind the window.
	vm $n $n 256 cuda-four "lab.mib=$((quota - window))"
	qemus+=($qemu_pid)
done
said_or_gone() { said "$1" "$2" || gone "${qemus[$1]}"; }
# all_say PATTERN VM...: each of them says so before it ends, and no check has failed in it.
all_say() {
	local n
	for n in "${@:2}"; do
		await 400 said_or_gone "$n" "$1"
		said "$n" "$1" && ! said "$n" '^not ok' || fail "VM $n has not said $1: $(console "$n" | tail -40)"
	done
}
order_all() { # WORD VM...: orders it, and waits till all have done it
	local n
	for n in "${@:2}"; do order "$n" "$1"; done
	all_say "^DONE $1" "${@:2}"
}
# served_more NAME VM...: since `look NAME`, each has had 50 more turns, and has waited, because others had work meanwhile.
served_more() {
	look now
	jq -e --slurpfile was "$run/$1.json" '[.vfs[$ARGS.positional[] | tonumber] as $vf | $was[0].vfs[$vf.vf] as $was
		| $vf.dispatches >= $was.dispatches + 50 and $vf.run_ns > $was.run_ns and $vf.wait_ns > $was.wait_ns] | all' \
		"$run/now.json" --args "${@:2}"
}
# kept: by vgpud's own records, its turns keep to the bounds of strict (vgpu-sim audits them, see shares_kept), and each VF had turns while
# others had work.
kept() {
	recordings=("$run/turns.rec")
	ctl record --output "${recordings[0]}" >/dev/null || fail "vgpuctl record failed"
	audit
	"$sim" audit "${recordings[@]}"
	jq -e '.broken == null and ([.vfs[] | select(.had_ns > 0 and .turns >= 10)] | length == 4)' "$run/shares.json" >/dev/null ||
		fail "vgpud has not served all VFs within the bounds of strict: $(jq -c . "$run/shares.json")"
}
unharmed() { jq -c '[.vfs[$ARGS.positional[] | tonumber] | {vf, memory_bytes, hangs, resets, guest_resets, window_timeouts}]' "$run/now.json" --args "$@"; }

all_say '^READY' 0 1 2 3
order_all programs 0 1 2 3
order_all work 0 1 2 3
look all
await 120 served_more all 0 1 2 3
kept
were=$(unharmed 0 1 2)
active 4 || fail "not all VMs compute: $(ctl vf list)"
kill -9 "${qemus[3]}"
wait "${qemus[3]}" 2>>"$run/3.qemu.log"
await 60 is 3 state available
look three
await 120 served_more three 0 1 2
[ "$(unharmed 0 1 2)" = "$were" ] || fail "a VF was harmed: $were, then: $(unharmed 0 1 2)"
# VF 3 serves its next client, with all of its memory clear.
VGPU_CUDA_LOG=1 VGPU_CUDA_VF=$run/gpu/vf3.sock LD_LIBRARY_PATH=$VGPU_BUILD/tools/cuda/library "$VGPU_BUILD/tests/cuda/programs/cuda-sample" clean >"$run/next.log" 2>&1 || fail "$(cat "$run/next.log")"
order_all rest 0 1 2
for n in 0 1 2; do order $n end; done
for n in 0 1 2; do
	await 60 gone "${qemus[n]}"
	ends_well $n "${qemus[n]}"
done
for n in 0 1 2 3; do
	echo "--- VM $n"
	console $n
	await 60 is $n state available
done
stop_all
