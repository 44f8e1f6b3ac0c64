#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpuctl inventory --format nova-pci on a host whose VFs are PCI devices (fake-xe.sh): what it prints is what Nova reads, and a
# host with two GPUs gets none (docs/fleet.md).
. "$(dirname "$0")/fake-xe.sh"
. "$(dirname "$0")/lib.sh"
fake_xe 41 3 2048
fake_xe 81 2
conf() { # GPUS...
	printf '[daemon]\nsocket = %s\n' "$run/control.sock" >"$run/vgpud.conf"
	while [ $# -gt 0 ]; do
		printf '[gpu gpu%s]\ndevice = xe:0000:%s:00.0\nvfs = %s\npool = render\n' "$1" "$1" "$2" >>"$run/vgpud.conf"
		[ "$1" != 41 ] || printf '[vf gpu41/%s]\nmemory_mib = 2048\n' 0 1 2 >>"$run/vgpud.conf"
		shift 2
	done
}
conf 41 3
# The address as nvidia-smi prints it; vgpud and vgpuctl have one form of it, and take every form that tools print.
sed -i 's/xe:0000:41:00.0/xe:00000000:41:00.0/' "$run/vgpud.conf"
"$vgpud" --config "$run/vgpud.conf" --check-config || fail "the address is refused"
start_vgpud
[ "$(json gpu list | jq -r '.gpus[0].device')" = xe:0000:41:00.0 ] || fail "$(ctl gpu list)"
for address in 0000:41:00.1 41:00.1 00000000:41:00.1 pci_0000_41_00_1; do
	[ "$(json vf show $address | jq .vf)" = 0 ] || fail "no VF at $address"
done
for address in 0000:41:00.0 41:00.0 00000000:41:00.0 pci_0000_41_00_0; do
	ctl --gpu $address gpu show >/dev/null || fail "no GPU at $address"
done
sed 's/xe:00000000:41:00.0/xe:0000:4x:00.0/' "$run/vgpud.conf" >"$run/wrong.conf"
"$vgpud" --config "$run/wrong.conf" --check-config 2>"$run/said" && fail "0000:4x:00.0 is no address"
grep -q "not a PCI address; want one like 0000:01:00.0" "$run/said" || fail "$(cat "$run/said")"
ctl inventory --format nova-pci --output "$run/pci.yaml" 2>"$run/said" || fail "$(cat "$run/said")"
ctl inventory --format json >"$run/inventory.json"
/usr/bin/python3 - "$run/pci.yaml" "$run/inventory.json" "$(hostname)" <<'PY' || fail "$(cat "$run/pci.yaml")"
import json, re, sys, yaml
text = open(sys.argv[1]).read()
y, gpu, host = yaml.safe_load(text), json.load(open(sys.argv[2]))["gpus"][0], sys.argv[3]
assert y["meta"] == {"schema_version": "1.0"} and set(y) == {"meta", "providers"}, y
[p] = y["providers"]
# The name that Nova gives to the PF's provider.
assert p["identification"] == {"name": f"{host}_0000:41:00.0"}, p
# Nova's schema wants lists: what is not offered is left out.
assert all(set(p[k]) == {"additional"} and type(p[k]["additional"]) is list and p[k]["additional"] for k in set(p) - {"identification"}), p
classes = {k: v for item in p.get("inventories", {"additional": []})["additional"] for k, v in item.items()}
# The VFs are Nova's to count; what else the host offers must be what the other formats say.
assert "CUSTOM_VGPUD_VF" not in classes, classes
want = {"CUSTOM_VGPUD_SHARE": (gpu.get("shares") or {}).get("total", 0), "CUSTOM_VGPUD_MEMORY_MB": 3 * 2048}
assert {k: v["total"] for k, v in classes.items()} == {k: v for k, v in want.items() if v}, (classes, want)
# The kernel divides the memory, and a VF has what is configured for it.
memory = classes["CUSTOM_VGPUD_MEMORY_MB"]
assert (memory["min_unit"], memory["max_unit"], memory["step_size"]) == (1, 2048, 1), memory
assert {"CUSTOM_VGPUD", "CUSTOM_VGPUD_POOL_RENDER"} < set(p["traits"]["additional"]), p
# The lines for nova.conf: each VF once, by an address that the kernel has, with one class and one set of traits for the whole PF.
lines = [line[1:].strip() for line in text.splitlines() if line.startswith("#")]
specs = [json.loads(line.split("=", 1)[1]) for line in lines if line.startswith("device_spec =")]
assert [s.pop("address") for s in specs] == [f"0000:41:00.{n}" for n in (1, 2, 3)], specs
assert all(s == {"managed": "no", "resource_class": "CUSTOM_VGPUD_VF", "traits": "CUSTOM_VGPUD"} for s in specs), specs
[alias] = [json.loads(line.split("=", 1)[1]) for line in lines if line.startswith("alias =")]
assert alias == {"name": "vgpud", "device_type": "type-VF", "resource_class": "CUSTOM_VGPUD_VF"}, alias
assert {"[pci]", "report_in_placement = True", "[filter_scheduler]", "pci_in_placement = True"} <= set(lines), lines
PY
for n in 1 2 3; do [ -d "/sys/bus/pci/devices/0000:41:00.$n" ] || fail "the test has no VF $n"; done
ctl inventory --format nova-pci --output "$run/pci.yaml" --check >/dev/null || fail "what was just written is out of date"

vf 0 memory_bytes | grep -qx $((2048 << 20)) && [ "$(vf 0 swapped)" = false ] || fail "$(json vf show 0)"
# Nova may know the host by another name than the host itself.
ctl inventory --format nova-pci --provider gpu7.example | grep -q "name: 'gpu7.example_0000:41:00.0'" || fail "$(ctl inventory --format nova-pci --provider gpu7.example)"
ctl inventory --format nova --provider gpu7.example 2>"$run/said"; [ $? = 2 ] || fail "--format nova --provider: no usage error"

# With two GPUs, Nova could book the VF of one and the share of the other.
kill $vgpud_pid; wait $vgpud_pid
conf 41 3 81 2
start_vgpud
cp "$run/pci.yaml" "$run/before.yaml"
ctl inventory --format nova-pci --output "$run/pci.yaml" 2>"$run/said"; [ $? = 1 ] || fail "two GPUs are offered as one"
grep -q "for hosts with one GPU, a PCI device: with several" "$run/said" || fail "$(cat "$run/said")"
cmp "$run/pci.yaml" "$run/before.yaml" || fail "the file was changed"
# One of them may be meant, if the other is not for VMs of Nova's.
ctl inventory --format nova-pci --gpu gpu81 >"$run/one.yaml" 2>"$run/said" || fail "$(cat "$run/said")"
grep -q "name: '$(hostname)_0000:81:00.0'" "$run/one.yaml" && [ "$(grep -c device_spec "$run/one.yaml")" = 2 ] || fail "$(cat "$run/one.yaml")"
# Of its memory vgpud knows nothing, and offers none.
! grep -q MEMORY_MB "$run/one.yaml" || fail "$(cat "$run/one.yaml")"
