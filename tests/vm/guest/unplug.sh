# SPDX-License-Identifier: MIT
# The PF is unplugged twice while vgpud runs: vgpud reports the loss, does not spin, and continues when the PF is back. (The
# test unplugs it at its slot: a write to the PF's own `remove` leaves its VFs behind, and Linux fails on them later.)
. /tests/lib.sh
begin <<END
vfs = 2
END

is_gone() { [ ! -e $devices/$pf ]; }
is_back() { [ -e $devices/$pf ]; }
state_is() { [ "$(ctl -o json gpu show | jq -r .state)" = "$1" ]; }

gone_and_back() { # TIME: 1 or 2
	echo "LAB-UNPLUG-$1"
	check "$1: the PF is gone" await 40 is_gone
	check "$1: vgpud reports the GPU as lost" await 60 state_is lost
	check "$1: vgpud does not spin" rests $vgpud_pid 4
	check "$1: vgpud gives the reason" sh -c "vgpuctl --socket /run/control.sock gpu show | grep -iE 'lost|no such'"
	echo "LAB-PLUG-$1"
	check "$1: the PF is back" await 40 is_back
	check "$1: vgpud runs the GPU again" await 30 state_is running
	check "$1: vgpud logged the notifications of Linux" sh -c "[ \$(grep -c 'the kernel removed $pf' /run/vgpud.log) = $1 ] && [ \$(grep -c 'the kernel added $pf' /run/vgpud.log) = $1 ]"
	check "$1: VFs are ready" await 30 is 1 state available
	start_guest a 0 sha256 --jobs 2 --seconds 120
	wait $guest_pid
	check "$1: a tenant computes" right a
}
gone_and_back 1
gone_and_back 2
# vgpud reports a VF that is unbound from VFIO, and binds it again when it starts the next time.
vf=$(vf_address 1)
echo $vf >$devices/$vf/driver/unbind
check "vgpud reports that the VF was unbound" await 60 grep -q "$vf was unbound from VFIO" /run/vgpud.log
need "vgpud starts again" kill_and_start_vgpud
check "vgpud adopts the GPU" [ "$(ctl -o json gpu show | jq -r .adopted)" = true ]
check "the VF has vfio-pci again" [ "$(driver_of $vf)" = vfio-pci ]
check "vgpud ends well" stop_vgpud
finish
