# SPDX-License-Identifier: MIT
# Containers of this machine's podman under a systemd of their own: control groups of version 2, with their controllers and rules for
# devices. What they see of the GPU, and who is who there (tests/host/names).
. /tests/lib.sh
mkdir -p /etc/vgpud /etc/cdi
printf '[gpu soft0]\ndevice = vfio-user:/run/softgpu/soft0/pf.sock\nvfs = 4\ngrace_ms = 10000\n' >/etc/vgpud/vgpud.conf
grep -q '^vgpu-run:' /etc/group || groupadd vgpu-run
systemctl daemon-reload
check "control groups are of version 2, with controllers" grep -q pids /sys/fs/cgroup/cgroup.controllers
need "softgpu starts" systemctl start vgpud-softgpu@soft0
need "vgpud starts" systemctl start vgpud
running() { [ "$(vgpuctl -o json gpu list | jq -r '.gpus[0].state')" = running ]; }
need "the GPU runs" await 120 running
need "the file for containers is written" await 60 systemctl start vgpud-cdi
fail() {
	echo "not ok - $*"
	failed=1
}
. /tests/containers-lib
usermod -a -G vgpu-run alice
for who in root alice; do
	"as_$who" podman run --rm --network none --device vgpud.dev/gpu=soft0 localhost/gpu $program >/root/test/said 2>&1
	cat /root/test/said
	check "a container of $who's computes" grep -q ' 0 wrong' /root/test/said
	check "its lease has ended" await 30 leased ""
done
. /tests/names
check "names have changed nothing" [ "$failed" = 0 ]
finish
