#!/bin/bash
# SPDX-License-Identifier: MIT
# Four tenants compute under strict slices, in all layouts, with interrupts and by polling: all results are right, and
# every tenant gets its share although one of them is a hog.
. "$(dirname "$0")/lib.sh"
# With ThreadSanitizer a run takes up to a minute, and its threads are the same in all layouts.
kinds=(navi:{interrupt,poll} tonga:{interrupt,poll} soft:{interrupt,poll})
[ -z "$tsan" ] || kinds=(navi:poll soft:interrupt)
for kind in "${kinds[@]}"; do
	layout=${kind%:*} completion=${kind#*:}
	start_softgpu --vfs 4 --layout $layout
	config <<-CONF
		vfs = 4
		policy = strict
		slice_us = $slice_us
		grace_ms = 1000
		completion = $completion
	CONF
	start_vgpud
	[ "$(json gpu show | jq -r .layout)" = $layout ] || fail "vgpud did not recognise layout $layout"
	start_guest a 0 mixed --depth 8 --seconds 300; a=$guest_pid
	start_guest b 1 dma --seconds 300; b=$guest_pid
	start_guest c 2 sha256 --depth 8 --seconds 300; c=$guest_pid
	start_guest d 3 hog --us 4000 --depth 8 --seconds 300; d=$guest_pid
	await 30 active 4
	shares_kept 3 0=1 2=1 3=1 turns=$slice_us
	kill -INT $a $b $c $d
	wait_guest $a a; wait_guest $b b; wait_guest $c c; wait_guest $d d
	kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
	kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
	[ ! -e "$run/gpu/vf0.sock" ] || fail "softgpu left its sockets behind"
	rm -rf "$run/gpu"
done
