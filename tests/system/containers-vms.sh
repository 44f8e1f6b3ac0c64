#!/bin/bash
# SPDX-License-Identifier: MIT
# Two containers of podman, root's and a user's, and two VMs share a GPU for ten seconds by their weights, within the policy's bound: by
# vgpud's own records, and by the time that each VF's ledger has. Prints one JSON object, which is a benchmark's, too. The VMs run
# tests/vm/bare/tenant.c in the QEMU that tests/vm/setup-vfio-user has fetched.
# shellcheck disable=SC2046 # gpu and named print several words
qemu=${VGPU_QEMU:-$(realpath "$(dirname "$0")/../..")/build/vm-vfio-user/qemu}
tenant=$VGPU_BUILD/tests/vm/tenant
[ -x "$qemu" ] || { echo "skipped: no QEMU with vfio-user; tests/vm/setup-vfio-user fetches one"; exit 77; }
[ -e "$tenant" ] || { echo "skipped: the tenant is for x86_64"; exit 77; }
. "$(dirname "$0")/containers-lib.sh"
vfs=4 more='grace_ms = 1000'
start_gpu() { start_softgpu --vfs $vfs --socket-user root; }
start_host 0
declare -A kind=() weight=()

vm() { # NAME WEIGHT: claims a VF, as libvirt does, and starts
	local vf
	echo "<domain><name>$1</name><uuid>8a1f0b3c-0000-4000-8000-00000000000${1#vm}</uuid><metadata><v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'>
		<v:vf name='a'><v:sched><v:weight>$2</v:weight></v:sched></v:vf></v:vgpu></metadata></domain>" >"$run/$1.xml"
	for operation in start started; do
		VGPUD_HOOK_SOCKET=$run/hook.sock VGPUD_LIBVIRT_DIR=$run "$VGPU_BUILD/tools/libvirt/hook/vgpud-hook" "$1" $operation begin - <"$run/$1.xml" ||
			fail "$1 is refused"
	done
	vf=$(json vm list | jq -e --arg n "$1" '.vms[] | select(.domain == $n).vf') || fail "$1 has no VF: $(ctl vm list)"
	kind[$vf]=vm weight[$vf]=$2
	"$qemu" -nodefaults -no-user-config -display none -monitor none -serial "file:$run/$1.console" -machine q35,memory-backend=m -m 32 \
		-object memory-backend-memfd,id=m,size=32M,share=on -accel tcg -cpu qemu64 -kernel "$tenant" -device pcie-root-port,id=rp1,chassis=1,slot=1 \
		-device "{\"driver\":\"vfio-user-pci\",\"bus\":\"rp1\",\"socket\":{\"type\":\"unix\",\"path\":\"$run/gpu/vf$vf.sock\"}}" 2>"$run/$1.log" &
}
container() { # WHO WEIGHT
	local vf
	begin "$1" $(gpu) $(named "$1") --annotation "vgpud.dev/weight=$2" -- /build/vgpu-guest spin --device lease:/run/vgpud/gpu/vf.sock \
		--us 20000 --depth 16 --seconds 1000 >"$run/$1.id"
	vf=$(json tenant list | jq -e --arg n "$1" '.tenants[] | select(.name == $n).vf') || fail "$1's container has no VF: $("as_$1" logs "$(cat "$run/$1.id")" 2>&1)"
	kind[$vf]=container weight[$vf]=$2
}
vm vm1 300
vm vm2 100
container root 200
container tenant 100
[ ${#kind[@]} = 4 ] || fail "four tenants do not have four VFs: ${!kind[*]}; $(cat "$run"/*.id | while read -r id; do as_root logs "$id"; as_tenant logs "$id"; done 2>&1)"
all_have_turns() { json vf list | jq -e --slurpfile was "$run/was.json" '[.vfs[] | .dispatches - $was[0].vfs[.vf].dispatches >= 10] | all'; }
look was
await 120 all_have_turns
look was
sleep 10 # what is measured
look now
recordings=("$run/shares.rec")
ctl record --output "${recordings[0]}" >/dev/null || fail "vgpuctl record failed"
audit
tenants=$(for vf in "${!kind[@]}"; do echo "{\"vf\": $vf, \"kind\": \"${kind[$vf]}\", \"weight\": ${weight[$vf]}}"; done | jq -cs .)
# Of each tenant: its part of the time that all had; by how much time that is off; what the policy allows, with this machine's lateness; and
# for how long it had no work meanwhile, which leaves more to the others.
jq -n --argjson tenants "$tenants" --slurpfile was "$run/was.json" --slurpfile now "$run/now.json" --slurpfile audit "$run/shares.json" '
	def spent(f): [$tenants[] | ($now[0].vfs[.vf] | f) - ($was[0].vfs[.vf] | f)];
	($tenants | map(.weight) | add) as $weights | spent(.run_ns) as $ran | spent(.run_ns + .wait_ns) as $busy | ($ran | add) as $all
	| {seconds: 10, tenants: [range(4) as $i | $tenants[$i] | . + {
		promised_percent: (100 * .weight / $weights), received_percent: (100 * $ran[$i] / $all),
		off_ms: (($ran[$i] - $all * .weight / $weights) / 1e6), allowed_ms: ($audit[0].vfs[.vf].allowed_ns / 1e6),
		compared_ms: ($audit[0].vfs[.vf].had_ns / 1e6), asleep_ms: ((($busy | max) - $busy[$i]) / 1e6)}],
	   shares_over_bound: $audit[0].pairs_over_bound, waits_over_bound: $audit[0].wait_over_bound, broken: $audit[0].broken}' | tee "$run/figures.json"
jq -e '.broken == null and .shares_over_bound <= 1 and ([.tenants[].compared_ms > 0] | all)' "$run/figures.json" >/dev/null || fail "the policy's bound is not kept"
jq -e '([.tenants[].asleep_ms] | add) as $asleep | [.tenants[] | (.off_ms | fabs) <= .allowed_ms + $asleep] | all' "$run/figures.json" >/dev/null || fail "the ledgers' shares are off by more than the policy allows"
for vm in vm1 vm2; do
	tr -d '\r' <"$run/$vm.console" | grep -q 'jobs [0-9]* wrong 0' && ! grep -qE 'wrong [1-9]' "$run/$vm.console" || fail "$vm: $(tail -3 "$run/$vm.console")"
done
