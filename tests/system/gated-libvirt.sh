#!/bin/bash
# SPDX-License-Identifier: MIT
# A domain whose <emulator> is vgpud-qemu claims a VF of a gated GPU from a real libvirtd. Its QEMU is known by libvirt's record: a
# process below it, which stands for a render process of a guest (tests/gate/libvirt.sh has a real one), computes by the VM's VF, and
# nobody else does.
load=$VGPU_BUILD/tools/render/load/vgpu-vulkan
[ -x "$load" ] || { echo "skipped: this build has no Vulkan layer"; exit 77; }
. "$(dirname "$0")/libvirtd.sh"
for f in /usr/share/vulkan/icd.d/lvp_icd*.json; do lavapipe=$f; done
[ -e "$lavapipe" ] || { echo "skipped: lavapipe is missing (Debian: mesa-vulkan-drivers)"; exit 77; }
cat >"$run/vgpud.conf" <<CONF
[gpu gpu0]
device = vulkan:llvmpipe
vfs = 1
grace_ms = 5000
[gpu gpu1]
device = null:
vfs = 1
CONF
# vgpud-qemu, which has begun such a process before it becomes QEMU.
cat >"$run/vgpud-qemu" <<QEMU
#!/bin/bash
case \$* in *guest=vm*)
	(export ASAN_OPTIONS=detect_leaks=0 VGPUD_GATE=/run/vgpud/vm-8a1f0b3c-0000-4000-8000-000000000001.door VK_DRIVER_FILES=$lavapipe
	export VK_ICD_FILENAMES=$lavapipe VK_ADD_LAYER_PATH=$VGPU_BUILD/tools/render/layer VK_INSTANCE_LAYERS=VK_LAYER_VGPUD_gate
	until "$load" --seconds 600 --steps 1000; do sleep 0.2; done) >"$run/load.json" 2>"$run/load.log" </dev/null &
esac
exec "$VGPU_BUILD/tools/render/qemu/vgpud-qemu" "\$@"
QEMU
chmod +x "$run/vgpud-qemu"
define() { # CLAIM EMULATOR
	virsh -q define /dev/stdin <<-XML || fail "vm1 cannot be defined"
		<domain type='qemu'><name>vm1</name><uuid>8a1f0b3c-0000-4000-8000-000000000001</uuid>
		<metadata><v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'>$1</v:vf></v:vgpu></metadata>
		<memory unit='MiB'>24</memory><vcpu>1</vcpu><os><type arch='x86_64' machine='pc'>hvm</type></os>
		<devices><emulator>$2</emulator><controller type='usb' model='none'/><memballoon model='none'/></devices></domain>
	XML
}
refused() { # SENTENCE
	! virsh -q start vm1 2>"$run/said" || fail "vm1 has started, and was to be refused: $1"
	grep -q "$1" "$run/said" || fail "want '$1', virsh says: $(cat "$run/said")"
	leases_are '[]' || fail "leases: $(leases)"
}
dispatches() { json --gpu gpu0 vf list | jq "[.vfs[] | select(.domain == \"vm1\") | .dispatches][0] // 0"; }
computes() { [ "$(dispatches)" -gt "$1" ]; }
links() { find /run/vgpud -name 'vm-*.door'; }
by=$run/vgpud-qemu

first_libvirtd
"$VGPU_BUILD/tools/keeper/vgpud-keeper" "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
keeper_pid=$!
trap 'r=$?; kill $keeper_pid; wait $keeper_pid; (exit $r); finish' EXIT
await 30 ctl gpu list
child() { cat "/proc/$keeper_pid/task/$keeper_pid/children" | tr -d ' '; }
define "<v:device gpu='gpu0'/>" /usr/bin/qemu-system-x86_64
refused "gpu0 has VFs for programs and containers, and for VMs whose <emulator> is vgpud-qemu"
define "<v:device gpu='gpu1'/>" "$by"
refused "gpu1 has no VFs for VMs whose <emulator> is vgpud-qemu"
define "" "$by"
virsh -q start vm1 || fail "vm1 does not start: $(cat "$run"/libvirtd.log)"
leases_are '["vm1 running"]' || fail "leases: $(leases)"
[ "$(links)" = /run/vgpud/vm-8a1f0b3c-0000-4000-8000-000000000001.door ] || fail "vgpud-qemu would find no door: $(links)"
await 60 computes 0
# Whoever is not below QEMU has nothing of it.
! VGPUD_GATE=$(links) VK_DRIVER_FILES=$lavapipe VK_ICD_FILENAMES=$lavapipe VK_ADD_LAYER_PATH=$VGPU_BUILD/tools/render/layer \
	VK_INSTANCE_LAYERS=VK_LAYER_VGPUD_gate "$load" --seconds 1 >"$run/said" 2>&1 || fail "a process outside the VM computes by its VF"
# The next vgpud goes on with the VM.
old=$(child)
other_child() { [ -n "$(child)" ] && [ "$(child)" != "$old" ] && ctl gpu list; }
kill -9 "$old"
await 60 other_child
leases_are '["vm1 running"]' || fail "leases after vgpud was killed: $(leases)"
await 60 computes "$(dispatches)"
# A VM that has ended leaves nothing behind: the next one gets the only VF, also after a vgpud that did not see it end.
virsh -q destroy vm1
leases_are '[]' || fail "leases: $(leases)"
[ -z "$(links)" ] || fail "the VM has ended, and the link to the door is there"
is_free() { [ "$(json --gpu gpu0 vf list | jq -r '.vfs[0].state')" = available ]; }
await 30 is_free
virsh -q start vm1 || fail "vm1 does not start again"
await 60 computes 0
kill -STOP $keeper_pid
kill -9 "$(child)"
virsh -q destroy vm1 2>"$run/said"
kill -CONT $keeper_pid
await 60 ctl gpu list
virsh -q start vm1 || fail "vm1 does not start after a vgpud that did not see its end"
await 60 computes 0
virsh -q destroy vm1
await 30 is_free
