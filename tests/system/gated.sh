#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs on this host share lavapipe, the Vulkan driver that computes on the CPU: shares by weight, memory, an endless shader, the
# end of programs, and vgpud killed while they run.
. "$(dirname "$0")/lib.sh"
keeper=$VGPU_BUILD/tools/keeper/vgpud-keeper
. "$(dirname "$0")/../gate/lavapipe.sh"

config vulkan:llvmpipe <<CONF
vfs = 3
policy = fair
# Lavapipe makes no such calls: the programs run behind a wall, and have none to wait for.
wall = amdgpu
grace_ms = 5000
[vf gpu0/0]
memory_mib = 256
[vf gpu0/1]
memory_mib = 256
[vf gpu0/2]
memory_mib = 256
CONF
"$keeper" "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
keeper_pid=$!
trap 'r=$?; [ -z "$keeper_pid" ] || { kill $keeper_pid; wait $keeper_pid; }; (exit $r); finish' EXIT
await 30 ctl gpu list

# Guarantees count on VFs that stop at most late_us late; a VF of this GPU may stop as late as grace_ms, and no earlier by force.
late="hold only with late_us of at least grace_ms"
! ctl policy set qos 2>"$run/said" || fail "a policy with guarantees was accepted, with late_us = 500 and grace_ms = 5000"
grep -q "$late" "$run/said" || fail "qos was refused so: $(cat "$run/said")"
sed 's/^policy = fair/policy = deadline/; s/^grace_ms = .*/grace_ms = 50/' "$run/vgpud.conf" >"$run/early.conf"
! "$vgpud" --check-config --config "$run/early.conf" >"$run/said" 2>&1 || fail "--check-config takes budgets with late_us = 500"
grep -q "$late" "$run/said" || fail "--check-config says: $(cat "$run/said")"
sed 's/^policy = deadline/&\nlate_us = 50000/' "$run/early.conf" >"$run/late.conf"
"$vgpud" --check-config --config "$run/late.conf" >"$run/said" 2>&1 || fail "late_us = 50000 is refused: $(cat "$run/said")"
child() { cat "/proc/$keeper_pid/task/$keeper_pid/children" | tr -d ' '; }

# start NAME OPTIONS... -- PROGRAM...: runs a program with a VF; sets $started.
start() {
	local name=$1
	shift
	# lavapipe and its compiler do not free all that they take.
	ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 "$vgpuctl" run "$@" >"$run/$name.json" 2>"$run/$name.log" &
	started=$!
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

# A third program gets the last VF, and no more device memory than it has claimed.
await 60 has_vf $a
start c --gpu gpu0 --weight 30 --memory 64M -- "$load" --seconds 1 --memory 512; c=$started
ends_right $c c
[ "$(jq .memory_mib "$run/c.json")" = 48 ] || fail "a program with 64 MiB, of which it uses one buffer, got $(cat "$run/c.json")"
await 30 free_again 1

# Below the layer, the Vulkan validation layer sees what the driver gets, and finds nothing: while the gate opens and shuts, because
# the other two always have work.
if [ -e /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json ]; then
	VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation start v --gpu gpu0 --weight 30 -- "$load" --seconds 3 --steps 500 --deep 4; v=$started
	ends_right $v v
	! grep -qE 'VUID|Validation' "$run/v.log" "$run/v.json" || fail "the validation layer: $(cat "$run/v.log" "$run/v.json")"
	await 30 free_again 1
else
	echo "not run: the validation layer is missing (Debian: vulkan-validationlayers)"
fi

# Refusals are printed before anything starts, and name what to do.
refused() { # TEXT OPTIONS...
	local text=$1
	shift
	if "$vgpuctl" run "$@" -- touch "$run/began" 2>"$run/refused.txt"; then fail "was not refused: $*"; fi
	[ ! -e "$run/began" ] || fail "the program began although it was refused: $*"
	grep -q "$text" "$run/refused.txt" || fail "refused without \"$text\": $(cat "$run/refused.txt")"
}
refused 'weight' --gpu gpu0 --weight 0
refused 'memory_mib' --gpu gpu0 --memory 257M
refused 'gpu1' --gpu gpu1
# Nor is this GPU for VMs, and no scheduler of VMs is told of it; who reads metrics is.
for format in nova json; do
	ctl inventory --format $format >"$run/inventory" 2>&1 && fail "VMs are offered a GPU that is for programs: $(cat "$run/inventory")"
	grep -q 'for programs' "$run/inventory" || fail "vgpuctl inventory: $(cat "$run/inventory")"
done
ctl inventory --format prometheus-sd >"$run/inventory" 2>&1
grep -q "metrics at ''" "$run/inventory" || fail "of metrics, which this vgpud does not serve, vgpuctl says: $(cat "$run/inventory")"
# doctor says what VMs lack: here a QEMU without Venus, and one with it.
qemu_is() { # HELP COUNT: how often doctor finds fault with a QEMU that prints HELP
	printf '#!/bin/sh\necho "%s"\n' "$1" >"$run/qemu"
	chmod +x "$run/qemu"
	VGPUD_QEMU=$run/qemu json doctor >"$run/doctor.json" # fails where a finding about this host is bad
	jq -e '[.[] | select(.subject == "VMs on gated GPUs" and (.finding | startswith("QEMU'"'"'s")))] | length == '"$2" "$run/doctor.json" >/dev/null ||
		fail "doctor says of a QEMU whose help is \"$1\": $(cat "$run/doctor.json")"
}
qemu_is '  blob=<bool> - on/off' 1
qemu_is '  venus=<bool> - on/off' 0
# A process that nobody gave a VF is turned away at the door, and has no device.
if VGPUD_GATE=$run/gpu0.door VK_ADD_LAYER_PATH=$VGPUD_LAYERS VK_INSTANCE_LAYERS=VK_LAYER_VGPUD_gate "$load" --seconds 1 2>"$run/stranger.txt"; then
	fail "a stranger could use the GPU"
fi
grep -q 'was not started by "vgpuctl run"' "$run/stranger.txt" || fail "a stranger was told: $(cat "$run/stranger.txt")"

# vgpud is killed: programs go on, and the next vgpud adopts the gates as they are.
served() { # PID: how many turns its VF had
	json vf show "$(vf_of "$1")" | jq .dispatches
}
other_child() { [ -n "$(child)" ] && [ "$(child)" != "$1" ] && ctl gpu list; }
for _ in 1 2 3; do
	old=$(child)
	kill -9 $old
	await 60 other_child $old
	[ "$(json gpu show | jq .adopted)" = true ] || fail "the GPU was not adopted"
	await 30 has_vf $a
	await 30 has_vf $b
	await 60 at_least "$(vf_of $a)" dispatches 10
	await 60 at_least "$(vf_of $b)" dispatches 10
done
kill -0 $a && kill -0 $b || fail "a program ended with vgpud"
shares_kept 20 "$(vf_of $a)=70" "$(vf_of $b)=30"

# A shader that takes minutes: its program is ended after grace_ms, the others live.
hung=$(vf_of $b)
kill -INT $b
ends_right $b b
await 30 free_again 2
start d --gpu gpu0 --weight 30 -- "$load" --seconds 600 --endless; d=$started
await 30 ready d
vf=$(vf_of $d)
wait $d
[ $? = 137 ] || fail "the program with the endless shader was not killed"
await 30 free_again 2
[ "$(vf "$vf" hangs)" -ge 1 ] || fail "VF $vf has no hang"
before=$(served $a)
more() { [ "$(served $a)" -gt $((before + 10)) ]; }
await 60 more
# A program that is killed gives its VF back.
start e --gpu gpu0 -- "$load" --seconds 600; e=$started
await 60 ready e
kill -9 $e
wait $e 2>/dev/null
await 30 free_again 2
kill -INT $a
ends_right $a a
await 30 free_again 3
