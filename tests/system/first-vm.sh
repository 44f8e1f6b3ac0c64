#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs the commands of docs/first-vm.md for the software GPU, and those of README.md for a VM, in namespaces of their own, and
# compares what they print with what the documents show. Instead of systemd, a stand-in starts what ExecStart= of our unit files
# says.
here=$(cd "$(dirname "$0")" && pwd)
agent=$VGPU_BUILD/tools/libvirt/daemon/vgpud-libvirt
[ -x "$agent" ] || { echo "skipped: vgpud-libvirt is not built: libvirt's headers are missing"; exit 77; }
. "$here/libvirtd.sh"
page=$(realpath "${PAGE:-$here/../../docs/first-vm.md}")
mkdir -p "$run"/{bin,home,etc-vgpud/vgpud.conf.d,softgpu,units} /etc/vgpud /run/softgpu
mount --bind "$run/etc-vgpud" /etc/vgpud
mount --bind "$run/softgpu" /run/softgpu
cp "$here/../../tools/packaging/systemd/vgpud.conf" /etc/vgpud/
ln -s "$vgpud" "$vgpuctl" "$softgpu" "$guest" "$agent" "$run/bin/"
cp "$VGPU_BUILD"/tools/{packaging/systemd,libvirt/daemon}/*.service "$run/units/"
cat >"$run/bin/systemctl" <<SH
#!/bin/bash
# Starts units: systemctl enable --now UNIT..., systemctl restart UNIT. A unit is ready when it answers.
cd "$run"
for unit; do
	case \$unit in enable | restart | --now) continue ;; esac
	unit=\${unit%.service} file=\${unit%%@*} instance=
	case \$unit in *@*) instance=\${unit#*@} file+=@ ;; esac
	if [ -e "\$unit.pid" ]; then
		kill "\$(cat "\$unit.pid")"
		while [ -e "/proc/\$(cat "\$unit.pid")" ]; do sleep 0.05; done
	fi
	value() { sed -n "s/^\$1=-\?//p" "units/\$file.service" | sed "s/%i/\$instance/g"; }
	options=\$(value EnvironmentFile)
	program=\$(value ExecStart)
	(
		SOFTGPU_OPTIONS=
		[ ! -e "\$options" ] || . "\$options"
		exec setsid \$(basename "\${program%% *}") \$(eval echo "\${program#"\${program%% *}"}") >>"\$unit.log" 2>&1 </dev/null
	) &
	echo \$! >"\$unit.pid"
	case \$file in
	vgpud) ready="vgpuctl gpu list" ;;
	vgpud-softgpu@) ready="test -S /run/softgpu/\$instance/pf.sock" ;;
	*) ready=true ;;
	esac
	for i in {1..600}; do \$ready >/dev/null 2>&1 && continue 2; sleep 0.05; done
	echo "\$unit does not start: \$(tail -3 "\$unit.log")"
	exit 1
done
SH
chmod +x "$run/bin/systemctl"
PATH=$run/bin:$PATH
# QEMU before 10.1 has no vfio-user, and where there is no KVM, VMs are emulated.
qemu=${VGPU_QEMU:-$here/../../build/vm-vfio-user/qemu}
if [ -x "$qemu" ]; then
	mount --bind "${qemu%/*}/root/usr/lib/x86_64-linux-gnu/qemu" /usr/lib/x86_64-linux-gnu/qemu
	for q in /usr/bin/qemu-system-*; do mount --bind "$qemu" "$q"; done
fi
first_libvirtd
cp "$page" "$run/home/page.md"
kvm-ok() { virsh -q capabilities | grep -q "<domain type='kvm'"; }
kvm-ok || sed -i "s/<domain type='kvm'/<domain type='qemu'/" "$run/home/page.md"
if ! qemu-system-x86_64 -device help 2>&1 | grep -q '"vfio-user-pci"'; then
	echo "without the VM's device: $(qemu-system-x86_64 --version | head -1) has no vfio-user"
	sed -i "/<qemu:commandline>/,/<\/qemu:commandline>/d; s/ alias='ua-vgpu0'//" "$run/home/page.md"
fi
cd "$run/home" || exit 1
sed -i 's/--engine cuda/--engine host/' page.md
follow() { # PAGE SECTION
	"$here/run-page.py" ${SHOW:+--show} "$1" "$2" || fail "${1##*/} shows something else than the programs print"
}
follow page.md softgpu
# README.md has the same VM, as it was defined.
"$agent" set vm1 weight=200 >/dev/null || fail "vm1 does not get its former weight"
follow "$here/../../README.md" "One VM, from its XML to its end"
follow page.md "CUDA worker"
cd /
for unit in "$run"/*.pid; do kill "$(cat "$unit")"; done
stop_libvirtd TERM
