# SPDX-License-Identifier: MIT
# A PF of a device for which vgpud has no driver: vgpud says why it refuses the device, and leaves it unchanged.
. /tests/lib.sh
for x in $devices/*; do [ "$(cat $x/sriov_totalvfs 2>/dev/null || echo 0)" -gt 0 ] && pf=${x##*/}; done
before=$(driver_of $pf)
say "PF $pf, driver $before"
for hold in sysfs vfio; do
	config "$hold:$pf" <<END
vfs = 2
END
	vgpud --config /run/vgpud.conf 2>/run/vgpud.log &
	vgpud_pid=$!
	check "refused by $hold, with the reason" await 60 grep -q "not a GPU that vgpud has a driver for" /run/vgpud.log
	kill $vgpud_pid
	wait $vgpud_pid
	cat /run/vgpud.log
	check "the PF still has its driver" [ "$(driver_of $pf)" = "$before" ]
	check "no VFs were made" [ "$(cat $devices/$pf/sriov_numvfs)" = 0 ]
done
finish
