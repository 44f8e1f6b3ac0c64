# SPDX-License-Identifier: MIT
# Sourced by tests that need a PF with VFs whose state can be moved, which no machine here has. In a mount namespace of the
# test's own, /sys shows an Intel GPU as the driver xe has it, with files in the place of attributes; its counters are
# counters of the kernel's software. vgpud runs its real driver on that.
[ "$(id -u)" = 0 ] || { echo "skipped: needs root, for whom alone the hook asks vgpud"; exit 77; }
command -v unshare >/dev/null || { echo "skipped: unshare is missing"; exit 77; }
if [ -z "${IN_FAKE_XE:-}" ]; then
	unshare --mount --propagation private sh -c 'mount -t tmpfs none /sys/bus/pci' 2>/dev/null ||
		{ echo "skipped: no namespaces here"; exit 77; }
	made=0
	[ -d /lib/modules ] || { mkdir /lib/modules && made=1; }
	IN_FAKE_XE=1 unshare --mount --propagation private "$0" "$@"
	r=$?
	[ $made = 0 ] || rmdir /lib/modules
	exit $r
fi
pci=/sys/bus/pci/devices units=/sys/bus/event_source/devices groups=/sys/kernel/iommu_groups
put() { # FILE TEXT
	mkdir -p "${1%/*}"
	echo "$2" >"$1"
}
function_at() { # ADDRESS DEVICE DRIVER
	put $pci/$1/vendor 0x8086
	put $pci/$1/device "$2"
	put $pci/$1/revision 0x01
	put $pci/$1/class 0x030000
	put $pci/$1/modalias "pci:v00008086d0000E212sv00000000sd00000000bc03sc00i00"
	: >$pci/$1/config
	ln -sfn "/sys/bus/pci/drivers/$3" $pci/$1/driver
}
profile() { # FOLDER
	put "$1/profile/exec_quantum_ms" 16
	put "$1/profile/preempt_timeout_us" 16000
	put "$1/profile/sched_priority" "[low] normal"
}
# A GPU at 0000:BUS:00.0 with VFS VFs, at 0000:BUS:00.1 and on. With MIB, the host divides its memory, and each VF has that.
fake_xe() { # BUS VFS [MIB]
	local pf=0000:$1:00.0 vf n unit
	function_at "$pf" 0xe212 xe
	put $pci/$pf/sriov_totalvfs 7
	put $pci/$pf/sriov_numvfs "$2"
	put $pci/$pf/sriov_drivers_autoprobe 0
	profile $pci/$pf/sriov_admin/pf
	[ -z "${3:-}" ] || put $pci/$pf/sriov_admin/.bulk_profile/vram_quota ""
	for n in $(seq "$2"); do
		vf=0000:$1:00.$n
		function_at "$vf" 0xe212 xe-vfio-pci
		ln -s "../$pf" $pci/$vf/physfn
		ln -s "../$vf" $pci/$pf/virtfn$((n - 1))
		put $pci/$vf/driver_override xe-vfio-pci
		put $pci/$vf/reset 0
		put $groups/7$1$n/devices/"$vf" ""
		ln -s $groups/7$1$n $pci/$vf/iommu_group
		profile $pci/$pf/sriov_admin/vf$n
		put $pci/$pf/sriov_admin/vf$n/stop 0
		[ -z "${3:-}" ] || put $pci/$pf/sriov_admin/vf$n/profile/vram_quota $(($3 << 20))
	done
	unit=$units/xe_${pf//:/_}
	# Software event 7 counts alignment faults; x86 has none, so that no VF is ever served. 7 | FUNCTION is 7, too.
	put "$unit/type" 1
	put "$unit/cpumask" 0
	for n in event:0-3 engine_instance:8-11 engine_class:12-15 gt:56-59 function:0-2; do put "$unit/format/${n%:*}" "config:${n#*:}"; done
	put "$unit/events/engine-active-ticks" event=0x07
	put "$unit/events/engine-total-ticks" event=0x07
}
for d in ${pci%/*} $units $groups /lib/modules; do
	mount -t tmpfs none $d 2>/dev/null || { echo "skipped: nothing can be mounted at $d"; exit 77; }
done
mkdir -p $pci ${pci%/*}/drivers/{xe,xe-vfio-pci,vfio-pci}
put /lib/modules/"$(uname -r)"/modules.alias "alias vfio_pci:v00008086d0000E212sv*sd*bc*sc*i* xe_vfio_pci"
