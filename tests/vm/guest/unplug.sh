# SPDX-License-Identifier: MIT
# The PF goes away under vgpud, twice: vgpud says so, does not spin, and goes on when it is back. (By the slot: who writes
# to the PF's own `remove` while it has VFs leaves them behind, and the kernel stumbles over them later.)
. /tests/lib.sh
begin <<END
vfs = 2
END

is_gone() { [ ! -e $devices/$pf ]; }
is_back() { [ -e $devices/$pf ]; }
state_is() { [ "$(ctl -o json gpu show | jq -r .state)" = "$1" ]; }

gone_and_back() { # which time
	echo "LAB-UNPLUG-$1"
	check "$1: gone" await 40 is_gone
	check "$1: vgpud says so" await 20 state_is lost
	check "$1: it does not spin" rests $vgpud_pid 4
	check "$1: the reason" sh -c "vgpuctl --socket /run/control.sock gpu show | grep -iE 'lost|no such'"
	echo "LAB-PLUG-$1"
	check "$1: back" await 40 is_back
	check "$1: vgpud goes on" await 30 state_is running
	check "$1: the kernel's news were heard" sh -c "[ \$(grep -c 'the kernel removed $pf' /run/vgpud.log) = $1 ] && [ \$(grep -c 'the kernel added $pf' /run/vgpud.log) = $1 ]"
	check "$1: VFs are ready" await 30 is 1 state available
	start_guest a 0 sha256 --seconds 5
	wait $guest_pid
	check "$1: a tenant computes" right a
}
gone_and_back 1
gone_and_back 2
# A VF that somebody takes from VFIO is told of, and got back by a restart.
vf=$(vf_address 1)
echo $vf >$devices/$vf/driver/unbind
check "a VF without a driver is told of" await 20 grep -q "$vf was unbound from VFIO" /run/vgpud.log
need "vgpud starts again" kill_and_start_vgpud
check "it adopts the GPU" [ "$(ctl -o json gpu show | jq -r .adopted)" = true ]
check "the VF has its driver" [ "$(driver_of $vf)" = vfio-pci ]
check "vgpud ends well" stop_vgpud
finish
