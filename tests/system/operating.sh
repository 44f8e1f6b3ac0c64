#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs the examples of docs/operating.md, section after section, with a real libvirtd in namespaces of its own, and compares what they
# print with what the page shows. In place of systemd, a stand-in restarts vgpud. The VMs have a VF reserved and no device, which any
# QEMU runs; vgpu-guest computes on their VFs in their place, as the page says.
here=$(cd "$(dirname "$0")" && pwd)
agent=$VGPU_BUILD/tools/libvirt/daemon/vgpud-libvirt
[ -x "$agent" ] || { echo "skipped: vgpud-libvirt is not built: libvirt's headers are missing"; exit 77; }
. "$here/libvirtd.sh"
page=$(realpath "${PAGE:-$here/../../docs/operating.md}")
mkdir -p "$run"/{bin,home,etc-vgpud/vgpud.conf.d,softgpu} /etc/vgpud /run/softgpu
mount --bind "$run/etc-vgpud" /etc/vgpud
mount --bind "$run/softgpu" /run/softgpu
cp "$here/../../tools/packaging/systemd/vgpud.conf" /etc/vgpud/
ln -s "$vgpud" "$vgpuctl" "$softgpu" "$guest" "$agent" "$run/bin/"
cat >"$run/bin/systemctl" <<SH
#!/bin/bash
# systemctl restart vgpud: it is ready when it answers.
[ "\$*" = "restart vgpud" ] || { echo "systemctl \$*: this stand-in cannot do that"; exit 1; }
if [ -e "$run/vgpud.pid" ]; then
	kill "\$(cat "$run/vgpud.pid")"
	while [ -e "/proc/\$(cat "$run/vgpud.pid")" ]; do sleep 0.05; done
fi
setsid vgpud --config /etc/vgpud/vgpud.conf >>"$run/vgpud.log" 2>&1 </dev/null &
echo \$! >"$run/vgpud.pid"
for i in {1..600}; do vgpuctl gpu list >/dev/null 2>&1 && exit; sleep 0.05; done
echo "vgpud does not start: \$(tail -3 "$run/vgpud.log")"
exit 1
SH
chmod +x "$run/bin/systemctl"
PATH=$run/bin:$PATH
"$softgpu" --dir /run/softgpu/soft0 --vfs 4 2>"$run/softgpu.log" &
await 60 test -S /run/softgpu/soft0/pf.sock
printf '%s\n' "[gpu soft0]" "device = vfio-user:/run/softgpu/soft0/pf.sock" "vfs = 4" >/etc/vgpud/vgpud.conf.d/soft0.conf
systemctl restart vgpud || fail "vgpud does not start"
first_libvirtd
"$agent" 2>"$run/agent.log" &
cp "$page" "$run/home/page.md"
virsh -q capabilities | grep -q "<domain type='kvm'" || sed -i "s/<domain type='kvm'/<domain type='qemu'/; s/--virt-type kvm/--virt-type qemu/" "$run/home/page.md"
cd "$run/home" || exit 1
while read -r section; do
	"$here/run-page.py" ${SHOW:+--show} page.md "$section" || fail "operating.md shows something else than the programs print"
done < <(awk '/^## / {s = substr($0, 4)} /^```console/ && s != last {print s; last = s}' page.md)
cd /
virsh -q list --name | xargs -rn1 virsh -q destroy
kill "$(cat "$run/vgpud.pid")"
stop_libvirtd TERM
