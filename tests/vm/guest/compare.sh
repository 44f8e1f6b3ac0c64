# SPDX-License-Identifier: MIT
# Measures a world switch for each way to access a GPU in this machine, with two tenants that never run out of work and VFs
# without state to save. Asserts nothing about the figures.
. /tests/lib.sh
measure() { # DEVICE OPTIONS OPTIONS: the options of both tenants
	config "$1" <<END
vfs = 2
policy = equal
slice_us = 4000
END
	: >/run/vgpud.log
	need "vgpud starts on $1" start_vgpud
	need "VFs are ready" await 60 is 1 state available
	vgpu-guest spin --us 20000 --depth 16 --seconds 60 $2 >/dev/null 2>&1 &
	a=$!
	vgpu-guest spin --us 20000 --depth 16 --seconds 60 $3 >/dev/null 2>&1 &
	b=$!
	need "both run" await 40 at_least 1 dispatches 10
	await 60 at_least 1 dispatches 1000
	ctl -o json gpu show | jq -r .device
	ctl stats | head -6
	kill -INT $a $b
	wait $a $b
	kill $vgpud_pid
	wait $vgpud_pid
}
softgpu --dir /run/gpu --vram 256M --no-realtime 2>/run/softgpu.log &
await 60 test -S /run/gpu/pf.sock
measure vfio-user:/run/gpu/pf.sock "--socket /run/gpu/vf0.sock" "--socket /run/gpu/vf1.sock"
vf0=vfio:0000:01:00.1 vf1=vfio:0000:01:00.2
measure sysfs:$pf "--device $vf0" "--device $vf1"
token=,token-file=/run/vf-token
measure vfio:$pf$token "--device $vf0$token" "--device $vf1$token"
finish
