#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpuctl inventory: what it offers is what vgpud admits, and what it writes is what Nova and Prometheus read (docs/fleet.md).
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 6
conf() { # POLICY, lines for the GPU
	cat >"$run/vgpud.conf" <<-CONF
		[daemon]
		socket = $run/control.sock
		metrics = unix:$run/metrics.sock
		[gpu gpu0]
		device = vfio-user:$run/gpu/pf.sock
		pool = render.big
		policy = $1
		vfs = 6
		partition = demand
	CONF
}
shares() { jq ".gpus[0].shares.$1" "$run/inventory.json"; }
look_at_inventory() { ctl inventory --format json >"$run/inventory.json" || fail "no inventory"; }
all() { for v in 0 1 2 3 4 5; do ctl vf set $v min_ppm="$1" >/dev/null 2>"$run/said" || return; done; }
none() { all 0 || fail "$(cat "$run/said")"; }

conf qos
start_vgpud
look_at_inventory
total=$(shares total) least=$(shares least) most=$(shares most) n=$(shares total_vfs)
[ "$n" = 6 ] || fail "equal shares are possible for $n of 6 VFs: $(cat "$run/inventory.json")"
# Equal shares on all VFs are admitted, and not a per mille more.
each=$((total / 6))
all $((each * 1000)) || fail "$total per mille are offered, and a sixth is refused: $(cat "$run/said")"
none
all $(((each + 1) * 1000)) && fail "$total per mille are offered, and 6 x $((each + 1)) are admitted, too"
none
# The least share and the most that one VF can have.
ctl vf set 0 min_ppm=$((least * 1000)) >/dev/null || fail "the least share, $least, is refused"
ctl vf set 0 min_ppm=$(((least - 1) * 1000)) >/dev/null 2>&1 && fail "less than the least share, $least, is admitted"
ctl vf set 0 min_ppm=$((most * 1000)) >/dev/null || fail "the largest share, $most, is refused"
# What is left beside a VM's share is the largest that is admitted now.
ctl vf set 5 min_ppm=0 >/dev/null
ctl vf set 0 min_ppm=500000 >/dev/null || fail "half of the GPU is refused"
# No VM has VF 0, so the question is what VF 0 itself could have: the answer must be found by asking, not by adding.
look_at_inventory
free=$(shares largest_free)
ctl vf set 0 min_ppm=$((free * 1000)) >/dev/null || fail "the largest free share, $free, is refused"
[ "$free" = 1000 ] || ! ctl vf set 0 min_ppm=$(((free + 1) * 1000)) >/dev/null 2>&1 || fail "more than the largest free share is admitted"
# The metrics say the same, also when it changes: what they say is admitted for VF 0, and not a per mille more.
metric() { curl -sS --unix-socket "$run/metrics.sock" http://localhost/metrics | sed -n "s/^$1{[^}]*} //p"; }
before=0
for others in 200000 300000 200000 0; do
	ctl vf set 0 min_ppm=0 >/dev/null
	ctl vf set 5 min_ppm=$others >/dev/null || fail "VF 5 cannot have $others ppm"
	free=$(jq -n "$(metric vgpud_gpu_largest_free_share_ratio) * 1000 | round")
	[ "$free" != "$before" ] || fail "the largest free share is $free per mille, whatever VF 5 has"
	before=$free
	ctl vf set 0 min_ppm=$((free * 1000)) >/dev/null || fail "VF 5 has $others ppm: the metrics say $free per mille, which are refused"
	[ "$free" = 1000 ] || ! ctl vf set 0 min_ppm=$(((free + 1) * 1000)) >/dev/null 2>&1 || fail "more than the metrics say is admitted"
done
none
# The largest partition: room for it is made by moving VF 1's.
for size in 0:64M 1:32M 0:none; do ctl memory set ${size%:*} ${size#*:} >/dev/null || fail "VF ${size%:*} cannot have ${size#*:}"; done
all_clear() { [ "$(json memory show | jq .scrubbing_bytes)" = 0 ]; }
await 60 all_clear
largest=$(($(metric vgpud_gpu_largest_free_memory_bytes) >> 20)) granule=$(($(json memory show | jq .granule_bytes) >> 20))
[ "$largest" -gt $(($(json memory show | jq .largest_free_bytes) >> 20)) ] || fail "$largest MiB are free without a move"
ctl memory set 2 $((largest + granule))M >/dev/null 2>&1 && fail "the metrics say that $largest MiB are the most, and more are given"
ctl memory set 2 ${largest}M >/dev/null || fail "the metrics say that $largest MiB can be had, and they cannot"
[ "$(metric vgpud_gpu_largest_free_memory_bytes)" = 0 ] || fail "all memory is given, and $(metric vgpud_gpu_largest_free_memory_bytes) bytes are free"
for vf in 1 2; do ctl memory set $vf none >/dev/null; done

# provider.yaml, by the document's own schema of Nova: version 1.0, CUSTOM_ classes and traits, whole numbers.
ctl inventory --format nova --output "$run/vgpud.yaml" || fail "not written"
/usr/bin/python3 - "$run/vgpud.yaml" "$run/inventory.json" <<'PY' || fail "$(cat "$run/vgpud.yaml")"
import json, re, sys, yaml
y, inventory = yaml.safe_load(open(sys.argv[1])), json.load(open(sys.argv[2]))
gpu = inventory["gpus"][0]
assert y["meta"] == {"schema_version": "1.0"} and set(y) == {"meta", "providers"}, y
[p] = y["providers"]
assert set(p) == {"identification", "inventories", "traits"} and p["identification"] == {"uuid": "$COMPUTE_NODE"}, p
classes = {}
for item in p["inventories"]["additional"]:
    [(name, values)] = item.items()
    assert re.fullmatch("CUSTOM_[A-Z0-9_]{1,248}", name), name
    assert set(values) == {"total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio"}, values
    assert 1 <= values["min_unit"] <= values["max_unit"] <= values["total"] and values["step_size"] >= 1, values
    classes[name] = values
assert set(classes) == {"CUSTOM_VGPUD_VF", "CUSTOM_VGPUD_SHARE", "CUSTOM_VGPUD_MEMORY_MB"}, classes
assert classes["CUSTOM_VGPUD_VF"]["total"] == 6
assert classes["CUSTOM_VGPUD_SHARE"]["total"] == gpu["shares"]["total"] < 900, classes # less than the cap: switches take time
assert classes["CUSTOM_VGPUD_MEMORY_MB"]["total"] == gpu["memory"]["total_bytes"] >> 20
traits = p["traits"]["additional"]
assert all(re.fullmatch("CUSTOM_[A-Z0-9_]{1,248}", t) for t in traits), traits
assert {"CUSTOM_VGPUD", "CUSTOM_VGPUD_POLICY_QOS", "CUSTOM_VGPUD_POOL_RENDER_BIG"} < set(traits), traits
PY
[ "$(ls "$run"/vgpud.yaml*)" = "$run/vgpud.yaml" ] || fail "a part of the writing is left: $(ls "$run")"
# --check: for configuration management.
ctl inventory --format nova --output "$run/vgpud.yaml" --check >/dev/null || fail "what was just written is out of date"
sed -i 's/VF: {total: 6/VF: {total: 8/' "$run/vgpud.yaml"
ctl inventory --format nova --output "$run/vgpud.yaml" --check >"$run/said" && fail "a changed file is taken for up to date"
grep -q "^-.*VF: {total: 8" "$run/said" && grep -q "^+.*VF: {total: 6" "$run/said" || fail "$(cat "$run/said")"
grep -q "VF: {total: 8" "$run/vgpud.yaml" || fail "--check changed the file"
ctl inventory --format nova --output "$run/none/vgpud.yaml" 2>"$run/said"; [ $? = 1 ] || fail "a file was written where no directory is"
ctl inventory --format nova --output "$run/none.yaml" --check 2>/dev/null; [ $? = 1 ] || fail "a missing file is up to date"
for wrong in "--check" "--format yaml" "--output $run/x" "--format nova --check"; do
	ctl inventory $wrong >/dev/null 2>"$run/said"; [ $? = 2 ] || fail "inventory $wrong: no usage error"
done
ctl inventory --format nova-pci >/dev/null 2>"$run/said" && fail "PCI devices of a GPU that is none"
grep -q "VFs of this GPU are not; use --format nova" "$run/said" || fail "$(cat "$run/said")"
# Metrics at a UNIX socket are no target of Prometheus'.
ctl inventory --format prometheus-sd >/dev/null 2>"$run/said"; [ $? = 1 ] && grep -q "Prometheus cannot reach vgpud's metrics at 'unix:" "$run/said" || fail "$(cat "$run/said")"
ctl inventory | grep -q "6 of 6" || fail "$(ctl inventory)"
ctl inventory --format nova >/dev/full 2>"$run/said"; [ $? = 1 ] && grep -q "stdout: No space" "$run/said" || fail "a full disk goes unnoticed: $(cat "$run/said")"

# Under a policy that guarantees no shares there are none to offer; VFs and memory are.
ctl policy set fair >/dev/null || fail "the policy cannot be changed"
await 60 sh -c "'$vgpuctl' --socket '$run/control.sock' -o json gpu show | grep -q '\"policy\":.*fair'"
ctl inventory --format nova >"$run/fair.yaml"
grep -q CUSTOM_VGPUD_SHARE "$run/fair.yaml" && fail "shares are offered under fair"
grep -q "CUSTOM_VGPUD_MEMORY_MB: {total" "$run/fair.yaml" && grep -q POLICY_FAIR "$run/fair.yaml" || fail "$(cat "$run/fair.yaml")"

# With host memory, no VF has more than the GPU, and VFs that are guaranteed shares must fit on the GPU together, unless they may be
# swapped nevertheless.
memory_is() { # TOTAL MOST, in MiB
	look_at_inventory
	jq -e ".gpus[0].memory | .total_bytes == $1 * 1048576 and .most_bytes == $2 * 1048576" "$run/inventory.json" >/dev/null ||
		fail "want $1 and $2 MiB: $(jq -c .gpus[0].memory "$run/inventory.json")"
}
kill $vgpud_pid; wait $vgpud_pid
conf qos
echo "host_memory_mib = 512" >>"$run/vgpud.conf"
start_vgpud
memory_is 224 224
ctl memory set 0 240M >/dev/null 2>&1 && fail "a VF has more memory than the GPU"
ctl memory set 0 224M >/dev/null || fail "all of the GPU's memory is refused"
ctl memory set 0 none >/dev/null
ctl policy set fair >/dev/null || fail "the policy cannot be changed"
memory_is 512 224
kill $vgpud_pid; wait $vgpud_pid
printf '[vf gpu0/%s]\npinned = no\n' 0 1 2 3 4 5 >>"$run/vgpud.conf"
start_vgpud
memory_is 512 224

# Partitions of 1/1, 1/2, 1/4 ...: memory is booked in the smallest of these, because 1 MiB more takes twice as much.
kill $vgpud_pid; wait $vgpud_pid
conf qos
{ echo "placement = profile"; printf '[profile %s]\nweight = 50\n' small -x x_; } >>"$run/vgpud.conf"
port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
sed -i "s/^metrics = .*/metrics = 127.0.0.1:$port/" "$run/vgpud.conf"
start_vgpud
[ "$(ctl inventory --format prometheus-sd | jq -r '.[0].targets[0], .[0].labels.vgpud_pools' | paste -sd' ')" = "$(hostname):$port ,render.big," ] ||
	fail "$(ctl inventory --format prometheus-sd)"
# What containers may ask for: a version that every podman with CDI reads, each name once, and no environment but that of hooks.
ctl inventory --format cdi --output "$run/cdi.json" 2>"$run/said" && jq -e '.cdiVersion == "0.5.0" and .kind == "vgpud.dev/gpu" and ([.devices[].name] | length > 1 and length == (unique | length)) and
	([.devices[].containerEdits, .containerEdits | select(has("env"))] == []) and ([.devices[].containerEdits.hooks[]?.env[]] | all(startswith("PATH=")))' "$run/cdi.json" >/dev/null &&
	[ "$(stat -c %a "$run/cdi.json")" = 644 ] || fail "$(cat "$run/cdi.json")"
[ "$(jq -r '[.devices[].name] | join(" ")' "$run/cdi.json")" = "later gpu0 small" ] && [ "$(grep -c 'profile -x is left out\|profile x_ is left out' "$run/said")" = 2 ] ||
	fail "names that CDI does not take: $(cat "$run/said")"
ctl inventory --format cdi --output "$run/cdi.json" --check >/dev/null 2>&1 || fail "the file for containers is out of date at once"
look_at_inventory
jq -e '.gpus[0].memory | .total_bytes == 224 * 1048576 and .unit_bytes == 112 * 1048576' "$run/inventory.json" >/dev/null ||
	fail "$(jq -c .gpus[0].memory "$run/inventory.json")"
ctl inventory --format nova | grep -q "MEMORY_MB: {total: 224, reserved: 0, min_unit: 112, max_unit: 224, step_size: 112," || fail "$(ctl inventory --format nova)"

# What the PF leaves of a larger GPU is an odd number of granules; it can still be halved, and what is offered for one VM is had.
kill $vgpud_pid; wait $vgpud_pid
kill "$softgpu_pid"; wait "$softgpu_pid"
rm -rf "$run/gpu"
start_softgpu --vfs 6 --vram 4096M
start_vgpud
look_at_inventory
granule=$(json memory show | jq .granule_bytes)
jq -e --argjson g "$granule" '.gpus[0].memory | .total_bytes / .unit_bytes >= 4 and .total_bytes % .unit_bytes == 0 and .unit_bytes % $g == 0
	and .most_bytes == .total_bytes and .total_bytes > 31 / 32 * (4096 * 1048576 - 2 * $g)' "$run/inventory.json" >/dev/null ||
	fail "$(jq -c .gpus[0].memory "$run/inventory.json")"
unit=$(jq '.gpus[0].memory.unit_bytes / 1048576' "$run/inventory.json") parts=$(jq '.gpus[0].memory | .total_bytes / .unit_bytes' "$run/inventory.json")
for vf in 0 1 2 3; do
	ctl memory set $vf $((unit * parts / 4))M >/dev/null && [ "$(mib $vf)" = $((unit * parts / 4)) ] || fail "a quarter of what is offered: $(ctl memory show)"
done
ctl memory set 4 ${unit}M >/dev/null 2>&1 && fail "more is given than is offered: $(ctl memory show)"

# A GPU that is lost: no inventory, and the file stays.
kill -9 "$softgpu_pid"; wait "$softgpu_pid" 2>/dev/null
lost() { [ "$(json gpu show | jq -r .state)" = lost ]; }
await 60 lost
ctl inventory --format nova --output "$run/vgpud.yaml" 2>"$run/said"; [ $? = 1 ] || fail "an inventory without the lost GPU"
grep -q "gpu0 is lost" "$run/said" || fail "$(cat "$run/said")"
grep -q "VF: {total: 8" "$run/vgpud.yaml" || fail "the file was changed"
ctl inventory --format cdi --output "$run/cdi.json" 2>/dev/null; [ $? = 1 ] && grep -q '"gpu0"' "$run/cdi.json" || fail "the file for containers has lost gpu0"

# A vgpud without a GPU has no inventory: nova-compute would not start with an empty one.
kill $vgpud_pid; wait $vgpud_pid
printf '[daemon]\nsocket = %s\n' "$run/control.sock" >"$run/vgpud.conf"
start_vgpud
for format in nova nova-pci json prometheus-sd; do
	ctl inventory --format $format --output "$run/vgpud.yaml" 2>"$run/said"; [ $? = 1 ] || fail "an inventory without a GPU"
	grep -q "vgpud has no GPU" "$run/said" || fail "$(cat "$run/said")"
done
grep -q "VF: {total: 8" "$run/vgpud.yaml" || fail "the file was changed"
# Containers can have a slot all the same.
offered() { ctl inventory --format cdi 2>"$run/said" | jq -r '[.devices[].name] | join(" ")'; }
[ "$(offered)" = later ] || fail "without a GPU, containers are offered: $(offered) $(cat "$run/said")"
