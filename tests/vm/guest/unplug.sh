# SPDX-License-Identifier: MIT
# The PF goes away under vgpud, twice: vgpud says so, does not spin, and goes on when it is back. (By the slot: who writes
# to the PF's own `remove` while it has VFs leaves them behind, and the kernel stumbles over them later.)
. /tests/lib.sh
config "$hold:$pf" <<END
vfs = 2
END
need "vgpud starts" start_vgpud
need "VFs are ready" await 20 is 1 state available

is_gone() { [ ! -e $devices/$pf ]; }
is_back() { [ -e $devices/$pf ]; }
state_is() { [ "$(ctl -o json gpu show | jq -r .state)" = "$1" ]; }
cpu() { awk '{print $14 + $15}' /proc/$vgpud_pid/stat; } # in hundredths of a second

gone_and_back() { # which time
	echo "LAB-UNPLUG-$1"
	check "$1: gone" await 40 is_gone
	check "$1: vgpud says so" await 20 state_is lost
	before=$(cpu)
	sleep 4
	used=$(($(cpu) - before))
	say "used $used hundredths of a second in four"
	check "$1: it does not spin" [ $used -lt 100 ]
	check "$1: the reason" sh -c "vgpuctl --socket /run/control.sock gpu show | grep -iE 'lost|no such'"
	echo "LAB-PLUG-$1"
	check "$1: back" await 40 is_back
	check "$1: vgpud goes on" await 30 state_is running
	check "$1: VFs are ready" await 30 is 1 state available
	start_guest a 0 sha256 --seconds 5
	wait $guest_pid
	check "$1: a tenant computes" right a
}
gone_and_back 1
gone_and_back 2
kill $vgpud_pid
wait $vgpud_pid
check "vgpud ends well" [ $? = 0 ]
finish
