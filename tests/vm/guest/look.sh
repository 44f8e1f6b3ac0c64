# SPDX-License-Identifier: MIT
# What the kernel makes of the device.
for d in /sys/bus/pci/devices/*; do
	echo "${d##*/} $(cat $d/vendor) $(cat $d/device) $(cat $d/class) vfs $(cat $d/sriov_totalvfs 2>/dev/null) group $(readlink $d/iommu_group)"
done
p=/sys/bus/pci/devices/0000:01:00.0
cat $p/resource
echo pci-pf-stub >$p/driver_override; echo 0000:01:00.0 >/sys/bus/pci/drivers_probe; readlink $p/driver
echo 0 >$p/sriov_drivers_autoprobe
time sh -c "echo 4 >$p/sriov_numvfs"; cat $p/sriov_numvfs
ls -d $p/virtfn*; for v in $p/virtfn*; do echo $(basename $(readlink $v)) $(cat $v/vendor) $(cat $v/device) $(readlink $v/driver) $(readlink $v/iommu_group); done
cat $p/virtfn0/resource
dmesg | tail -20
hexdump -C -s 0x400 -n 64 $p/config
