#!/bin/bash
# SPDX-License-Identifier: MIT
# Memory on demand: a VF has no memory until a VM claims some, by size or by profile. The VM keeps it until the VM ends, also
# across a restart of vgpud; then it is free again. A claim that does not fit is refused. A partition that is in the way
# is moved while its guest runs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hooks.sh"
start_softgpu --vfs 4 --vram 512M
config <<-CONF
	vfs = 4
	partition = demand
	grace_ms = 1000
	[vf gpu0/3]
	memory_mib = 32
	[profile office]
	memory_mib = 96
	weight = 50
	[profile light]
	weight = 20
CONF
mib_is() { [ "$(mib "$1")" = "$2" ]; }
weight() { json vf show "$1" | jq .params.weight; }
office=$(claim "<v:profile>office</v:profile>")
start_vgpud
for n in 0 1 2 3; do await 30 is $n state available; done
[ "$(mib 0)" = 0 ] && [ "$(mib 3)" = 32 ] || fail "$(ctl vf list)"

# A profile sets memory and weight; values in the claim itself take precedence.
sequence 1 "$office" prepare start started || fail "$(cat "$run/said")"
one=$(vf_of 1)
[ "$(mib "$one")" = 96 ] && [ "$(weight "$one")" = 50 ] || fail "$(ctl vf list)"
sequence 2 "$(claim "<v:profile>office</v:profile><v:memory unit='MiB'>160</v:memory><v:sched><v:weight>70</v:weight></v:sched>")" \
	prepare start started || fail "$(cat "$run/said")"
two=$(vf_of 2)
[ "$(mib "$two")" = 160 ] && [ "$(weight "$two")" = 70 ] || fail "$(ctl vf list)"

# A claim that cannot be met is refused with one sentence and leaves no lease.
refused "no \[profile huge\] is configured" hook 5 "$(claim "<v:profile>huge</v:profile>")" prepare
refused "VFs of gpu0 have no memory until a VM claims some" hook 5 "$(claim "<v:device gpu='gpu0' vf='2'/>")" prepare
refused "480 MiB are claimed; gpu0 can free at most" hook 5 "$(claim "<v:memory unit='MiB'>480</v:memory>")" prepare
leases_are '["vm1 running","vm2 running"]'
# A claim without memory gets the VF whose memory is configured.
sequence 6 "$(claim "<v:profile>light</v:profile>")" prepare start started || fail "$(cat "$run/said")"
[ "$(vf_of 6)" = 3 ] && [ "$(mib 3)" = 32 ] && [ "$(weight 3)" = 20 ] || fail "$(ctl vf list)"

# vgpud is killed: VMs keep their partitions, even those whose guest has not started.
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
start_vgpud
await 30 is "$one" state available
[ "$(mib "$one")" = 96 ] && [ "$(mib "$two")" = 160 ] || fail "$(ctl vf list)"

# A guest computes in vm2's VF. vm1 ends; the hole that it leaves is too small for vm7, so vgpud moves vm2's partition down.
start_guest g "$two" sha256 --seconds 200; g=$guest_pid
await 30 is "$two" state active
sequence 1 "$office" stopped release || fail "$(cat "$run/said")"
await 30 mib_is "$one" 0
await 30 clean
before=$(vf "$two" memory_offset)
rest=$(($(json memory show | jq .after_compaction_bytes) >> 20))
[ $rest -gt $(($(json memory show | jq .largest_free_bytes) >> 20)) ] || fail "nothing to compact: $(ctl memory show)"
sequence 7 "$(claim "<v:memory unit='MiB'>$rest</v:memory>")" prepare start started || fail "$(cat "$run/said"; ctl memory show)"
[ "$(mib "$(vf_of 7)")" = "$rest" ] || fail "$(ctl vf list)"
[ "$(vf "$two" memory_offset)" != "$before" ] || fail "vm2's partition was not moved: $(ctl memory show)"
runs=$(vf "$two" dispatches)
await 30 at_least "$two" dispatches $((runs + 5))
kill -INT $g; wait_guest $g g
[ "$(field g resets)" = 0 ] || fail "the guest whose partition was moved was reset"

# Memory that VMs claimed is given back when they end; memory that was set by vgpuctl stays.
for n in 2 6 7; do hook $n "$office" release; done
for n in 0 1 2; do await 30 mib_is $n 0; done
ctl memory set 0 64M >/dev/null || fail "memory set failed"
sequence 8 "$(claim "<v:memory unit='MiB'>128</v:memory><v:device gpu='gpu0' vf='0'/>")" prepare start started || fail "$(cat "$run/said")"
[ "$(mib 0)" = 128 ] || fail "$(ctl vf list)"
hook 8 "$office" release
await 30 mib_is 0 64
[ "$(mib 3)" = 32 ] || fail "$(ctl vf list)"
