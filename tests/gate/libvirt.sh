#!/bin/bash
# SPDX-License-Identifier: MIT
# libvirt.sh DIR: a VM of libvirt whose programs compute by Venus on lavapipe. libvirt, QEMU and its user are those of the Debian 13
# that tests/gate/setup made in DIR; the claim is in the domain's XML, and <emulator> is vgpud-qemu. What it may not claim is refused;
# vgpud, libvirtd and a render worker are killed; the end of the VM is the end of its VF.
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath "${1:?usage: libvirt.sh DIR}")
root=$dir/root
libvirtd() { chroot "$root" /usr/sbin/libvirtd "$@"; }
virsh() { chroot "$root" /usr/bin/virsh "$@"; }
. "$here/../system/libvirtd.sh"
keeper=$VGPU_BUILD/tools/keeper/vgpud-keeper
agent=$VGPU_BUILD/tools/libvirt/daemon/vgpud-libvirt
load=$VGPU_BUILD/tools/render/load/vgpu-vulkan
qemu=$VGPU_BUILD/tools/render/qemu/vgpud-qemu
layers=$(grep -ao '/[a-z0-9/_-]*/vgpud/vulkan' "$qemu" | head -1)
[ -n "$layers" ] || fail "vgpud-qemu names no directory of layers"
mount --bind "$root" "$root"
for d in dev proc sys; do mount --rbind /$d "$root/$d"; done
for d in /etc/libvirt /run/libvirt /run/vgpud /var/lib/libvirt /var/cache/libvirt /var/log/libvirt "$run"; do
	mkdir -p "$root$d"
	mount --bind "$d" "$root$d"
done
mkdir -p "$root/usr/libexec/vgpud" "$root$layers" "$run/share"
mount -t tmpfs tmpfs "$root/usr/libexec/vgpud"
mount -t tmpfs tmpfs "$root$layers"
{
	cp "$qemu" "$root/usr/libexec/vgpud/" &&
		cp "$VGPU_BUILD"/tools/render/venus/libvgpud-venus-only.so "$VGPU_BUILD"/tools/render/layer/{libVkLayer_vgpud_gate.so,VkLayer_vgpud_gate.json} "$root$layers" &&
		cp "$VGPU_BUILD/tools/libvirt/hook/vgpud-hook" "$run/etc/hooks/qemu.d/50-vgpud.new" &&
		mv "$run/etc/hooks/qemu.d/50-vgpud.new" "$run/etc/hooks/qemu.d/50-vgpud" && cp "$dir"/kernel/boot/vmlinuz-* "$run/vmlinuz"
} || fail "this build has no Vulkan layer, or $dir no kernel"
"$here/guest" "$dir" "$run/guest" "$load" || fail "the guest cannot be packed"
# QEMU's user is Debian's.
sed -i -e '/^user *=/d' -e '/^group *=/d' /etc/libvirt/qemu.conf
chmod 755 "$run"
chmod 777 "$run/share"
cat >"$run/vgpud.conf" <<CONF
[daemon]
[gpu gpu0]
device = vulkan:llvmpipe
vfs = 2
policy = fair
grace_ms = 5000
[gpu gpu1]
device = null:
vfs = 1
policy = fair
CONF
"$keeper" "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
keeper_pid=$!
trap 'r=$?; kill $keeper_pid; wait $keeper_pid; (exit $r); finish' EXIT
await 30 ctl gpu list
first_libvirtd
"$agent" 2>>"$run/agent.log" &
child() { cat "/proc/$keeper_pid/task/$keeper_pid/children" | tr -d ' '; }

claim() { echo "<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'>$1</v:vf></v:vgpu>"; }
define() { # CLAIM [EMULATOR [PROPERTIES OF THE GPU]]
	local props=${3-"<qemu:property name='venus' type='bool' value='true'/><qemu:property name='hostmem' type='unsigned' value='1073741824'/>"}
	virsh -q define /dev/stdin <<-XML || fail "vm1 cannot be defined"
		<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
		<name>vm1</name><uuid>8a1f0b3c-0000-4000-8000-000000000001</uuid><metadata>$1</metadata><memory unit='MiB'>768</memory><vcpu>1</vcpu>
		<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>
		<os><type arch='x86_64' machine='q35'>hvm</type><kernel>$run/vmlinuz</kernel><initrd>$run/guest</initrd><cmdline>console=ttyS0 panic=-1</cmdline></os>
		<cpu mode='maximum'/><on_reboot>destroy</on_reboot>
		<devices><emulator>${2:-/usr/libexec/vgpud/vgpud-qemu}</emulator>
		<filesystem type='mount' accessmode='squash'><source dir='$run/share'/><target dir='share'/></filesystem>
		<serial type='file'><source path='$run/share/serial'/></serial>
		<graphics type='egl-headless'><gl rendernode='/dev/null'/></graphics>
		<video><model type='virtio' blob='on'><acceleration accel3d='yes'/></model><alias name='ua-gpu'/></video>
		<memballoon model='none'/></devices>
		<qemu:override><qemu:device alias='ua-gpu'><qemu:frontend>$props</qemu:frontend></qemu:device></qemu:override></domain>
	XML
}
refused() { # SENTENCE
	! virsh -q start vm1 2>"$run/said" || fail "vm1 has started, and was to be refused: $1"
	grep -q "$1" "$run/said" || fail "want '$1', virsh says: $(cat "$run/said")"
	await 30 leases_are '[]'
}
pid_of() { cat /run/libvirt/qemu/vm1.pid; }
up() { [ -e "$run/share/up" ]; }
n=0
in_guest() {
	began=$((n += 1))
	echo "$1" >"$run/share/next.$n"
	mv "$run/share/next.$n" "$run/share/cmd.$n"
}
ended() { [ -e "$run/share/rc.$1" ]; }
computes() {
	in_guest "vgpu-vulkan --seconds 1 --steps 2000"
	await 120 ended "$began"
	[ "$(cat "$run/share/rc.$began")" = 0 ] && [ "$(jq .wrong "$run/share/out.$began")" = 0 ] ||
		fail "program $began: $(cat "$run/share"/{out,err}."$began" "$run/log/qemu/vm1.log")"
}

define "$(claim "<v:device gpu='gpu0'/>")" /usr/bin/qemu-system-x86_64
refused "gpu0 has VFs for programs and containers, and for VMs whose <emulator> is vgpud-qemu"
define "$(claim "<v:device gpu='gpu1'/>")"
refused "gpu1 has no VFs for VMs whose <emulator> is vgpud-qemu"
define "" # it would compute past the gate
refused "vgpud-qemu: the VM has no VF"
define "$(claim "<v:device gpu='gpu0'/>")" "" "<qemu:property name='venus' type='bool' value='true'/>"
refused "want hostmem=a size"

define "$(claim "<v:device gpu='gpu0'/><v:memory unit='MiB'>512</v:memory><v:sched><v:weight>300</v:weight></v:sched>")"
virsh -q start vm1 || fail "vm1 does not start: $(tail -5 "$run/log/qemu/vm1.log")"
leases_are '["vm1 running"]' || fail "leases: $(leases)"
[ "$(ps -o user= -p "$(pid_of)")" != root ] || fail "QEMU runs as root"
await 240 up
computes
[ "$(json --gpu gpu0 vf show 0 | jq .dispatches)" -gt 0 ] || fail "the program in the guest was not scheduled: $(json --gpu gpu0 vf show 0)"

# A worker that is killed takes its program with it, and nothing else.
in_guest "vgpu-vulkan --seconds 600 --steps 2000"; long=$began
worker() { pgrep -P "$(pgrep -P "$(pid_of)" -f virgl_render_server)"; }
await 60 worker
worker | xargs kill -9
computes

# The next vgpud finds the VM, and so does the next libvirtd.
old=$(child)
other_child() { [ -n "$(child)" ] && [ "$(child)" != "$old" ] && ctl gpu list; }
kill -9 "$old"
await 60 other_child
leases_are '["vm1 running"]' || fail "leases after vgpud was killed: $(leases)"
computes
stop_libvirtd TERM
start_libvirtd
await 30 virsh -q domstate vm1
computes
leases_are '["vm1 running"]' || fail "leases after libvirtd was restarted: $(leases)"

# The VM ends.
virsh -q destroy vm1
await 30 leases_are '[]'
[ -z "$(find /run/vgpud -name 'vm-*')" ] || fail "the link to the door is still there"
virsh -q start vm1 || fail "vm1 does not start again: $(tail -5 "$run/log/qemu/vm1.log")"
kill -9 "$(pid_of)"
await 30 leases_are '[]'
