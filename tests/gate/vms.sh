#!/bin/bash
# SPDX-License-Identifier: MIT
# vms.sh DIR: two virtual machines, emulated, whose programs compute by Venus on lavapipe, and share it by weight. Their QEMU is
# Debian 13's, in a root of its own that tests/gate/setup made in DIR. Shares; virgl is off; an endless shader; vgpud, a render
# worker, the render server and QEMU are killed. What belongs to the other VM goes on each time.
. "$(dirname "$0")/../system/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath "${1:?usage: vms.sh DIR}")
keeper=$VGPU_BUILD/tools/keeper/vgpud-keeper
. "$here/vm.sh"
cc -O1 -o "$run/capset" "$here/capset.c" || fail "tests/gate/capset.c does not compile"
"$here/guest" "$dir" "$run/guest" "$load" "$run/capset" || fail "the guest cannot be packed"
config vulkan:llvmpipe <<CONF
vfs = 2
policy = fair
slice_us = 20000
grace_ms = 5000
CONF
"$keeper" "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
keeper_pid=$!
trap 'r=$?; [ -z "$keeper_pid" ] || { kill $keeper_pid; wait $keeper_pid; }; (exit $r); finish' EXIT
await 30 ctl gpu list
child() { cat "/proc/$keeper_pid/task/$keeper_pid/children" | tr -d ' '; }

boot a 70; a=$booted
boot_up b 30; b=$booted
until up a || ! kill -0 "$a" 2>/dev/null; do sleep 0.2; done
up a || { boot_up a 70; a=$booted; }

# The guest has Venus alone: OpenGL in QEMU's process would pass the gate.
in_guest a 'for i in 0 1 1 2 4; do capset $i; done'
await 60 ended a "$began"
for i in 1 2; do grep -q "cap set .: id $i, max-version [1-9]" "$run/a/dmesg" && fail "the guest has capset $i: $(grep 'cap set' "$run/a/dmesg")"; done
grep -q "capset 4: submission: taken" "$run/a/out.$began" || fail "no context of Venus: $(said a "$began")"
[ "$(grep -c "refuses contexts of capset 1:" "$run/a.log")" = 1 ] ||
	fail "QEMU has made a context of capset 1, or a guest fills its log: $(said a "$began"; cat "$run/a.log")"

computes a
computes b

# More device memory than the VM has claimed: an error, where the guest's Venus waits for the answer.
in_guest a 'VN_PERF=no_async_mem_alloc exec vgpu-vulkan --seconds 1 --steps 2000 --memory 1024'
right a "$began"
[ "$(jq .memory_mib "$run/a/out.$began")" = 496 ] || fail "a VM with 512 MiB, of which it uses one buffer, got $(said a "$began")"

# Shares: both always have work.
in_guest a 'vgpu-vulkan --seconds 600 --steps 8000 --deep 4'; in_a=$began
in_guest b 'vgpu-vulkan --seconds 600 --steps 8000 --deep 4'; in_b=$began
await 60 ready a $in_a
await 60 ready b $in_b
await 60 at_least "$(vf_of "$a")" dispatches 20
await 60 at_least "$(vf_of "$b")" dispatches 20
shares_kept 10 "$(vf_of "$a")=70" "$(vf_of "$b")=30"

# vgpud is killed: both go on, and the next vgpud adopts them.
old=$(child)
other_child() { [ -n "$(child)" ] && [ "$(child)" != "$old" ] && ctl gpu list; }
kill -9 "$old"
await 60 other_child
[ "$(json gpu show | jq .adopted)" = true ] || fail "the GPU was not adopted"
more() { [ "$(json vf show "$(vf_of "$1")" | jq .dispatches)" -gt "$2" ]; }
for i in $a $b; do
	await 30 vf_of "$i"
	await 60 more "$i" 10
done
in_guest a 'killall -INT vgpu-vulkan'
right a $in_a

# An endless shader: its program is ended after grace_ms. Its VM lives, and the next program is right; the neighbour goes on.
in_guest a 'vgpu-vulkan --seconds 600 --endless'
await 120 ended a "$began"
[ "$(cat "$run/a/rc.$began")" != 0 ] || fail "the endless shader has ended: $(said a "$began")"
[ "$(vf "$(vf_of "$a")" hangs)" -ge 1 ] || fail "there was no hang: $(ctl vf list)"
computes a
before=$(json vf show "$(vf_of "$b")" | jq .dispatches)
await 60 more "$b" $((before + 5))

# A render worker is killed: its program ends, the next one is right.
in_guest a 'vgpu-vulkan --seconds 600 --steps 8000'; in_a=$began
await 60 ready a $in_a
read -r server worker _ < <(workers "$a")
[ -n "${worker:-}" ] || fail "there is no render worker of VM a: $(workers "$a")"
kill -9 "$worker"
await 120 ended a $in_a
computes a
alive "$a"

# The render server is killed: its VM has no GPU any more, and lives; the neighbour goes on.
kill -9 "$server"
before=$(json vf show "$(vf_of "$b")" | jq .dispatches)
await 60 more "$b" $((before + 5))
in_guest a 'echo here'
await 60 ended a "$began"
alive "$a"

# QEMU is killed: its VF is free, and a new VM has it.
kill -9 "$a"
wait "$a" 2>/dev/null
await 30 seat_free
boot_up a 70; a=$booted
computes a

in_guest b 'killall -INT vgpu-vulkan'
right b $in_b
alive "$b"
