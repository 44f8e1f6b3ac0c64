# SPDX-License-Identifier: MIT
# For the scripts that run inside the lab's machines (busybox sh).
pf=0000:01:00.0
devices=/sys/bus/pci/devices
failed=0

say() { echo "# [$(cut -d' ' -f1 /proc/uptime)] $*"; }
check() { # NAME COMMAND...: one line of the result
	name=$1
	shift
	if "$@"; then echo "ok - $name"; else
		echo "not ok - $name"
		failed=1
	fi
}
await() { # SECONDS COMMAND...
	end=$(($(cut -d. -f1 /proc/uptime) + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$(cut -d. -f1 /proc/uptime)" -lt $end ] || { echo "# gave up waiting for: $*"; return 1; }
		sleep 0.05
	done
}
need() { check "$@"; [ "$failed" = 0 ] || finish; } # what all else depends on
finish() {
	[ "$failed" = 0 ] || for f in /run/*.log /run/*.console; do [ -e "$f" ] || continue; echo "--- $f"; tail -20 "$f"; done
	[ "$failed" = 0 ] || [ ! -x /bin/journalctl ] || journalctl -b --no-pager | tail -60
	dmesg | grep -iE 'DMAR.*fault|BUG:|Oops:|WARNING' | sed 's/^/# /' | tail -5
	exit $failed
}

ctl() { vgpuctl --socket /run/control.sock "$@"; }
vf() { ctl -o json vf show "$1" | jq -r ".$2"; }
is() { [ "$(vf "$1" "$2")" = "$3" ]; }
at_least() { [ "$(vf "$1" "$2")" -ge "$3" ]; }
vf_address() { basename "$(readlink $devices/$pf/virtfn$1)"; }
spent() { awk '{print $14 + $15}' /proc/$1/stat; } # CPU time of a process, in hundredths of a second
driver_of() { basename "$(readlink $devices/$1/driver)"; }

# An emulated machine stands still for tens of milliseconds now and then: no hang before a second.
config() { # DEVICE, and lines for the GPU on stdin
	{ printf '[daemon]\nsocket = /run/control.sock\n[gpu gpu0]\ndevice = %s\ngrace_ms = 1000\n' "$1"; cat; } >/run/vgpud.conf
}
suffix= token=/run/vf-token # of device names
[ "$hold" = vfio ] && suffix=,token-file=$token
# A PF held by VFIO is reset by its last close: there vgpud-keeper has it open, too, and starts vgpud again.
start_vgpud() {
	: >>/run/vgpud.log
	if [ "$hold" = vfio ]; then
		vgpud-keeper vgpud --config /run/vgpud.conf 2>>/run/vgpud.log &
		keeper_pid=$!
	else
		vgpud --config /run/vgpud.conf 2>>/run/vgpud.log &
	fi
	await 30 ctl gpu list && vgpud_pid=$(pidof vgpud)
}
is_another() { pid=$(pidof vgpud) && [ "$pid" != "$1" ] && ctl gpu list; }
kill_and_start_vgpud() {
	kill -9 $vgpud_pid
	if [ "$hold" = vfio ]; then
		await 30 is_another $vgpud_pid && vgpud_pid=$(pidof vgpud)
	else
		wait $vgpud_pid
		start_vgpud
	fi
}
stop_vgpud() { # its status
	kill ${keeper_pid:-$vgpud_pid}
	wait ${keeper_pid:-$vgpud_pid}
}
# vgpud on the PF, held as the test says; further lines for the GPU on stdin.
begin() {
	config "$hold:$pf$suffix"
	need "vgpud starts" start_vgpud
	need "VFs are ready" await 20 is 1 state available
}
# start_guest NAME VF WORKLOAD options: its report goes to /run/NAME.json
start_guest() {
	name=$1 vf=$2
	shift 2
	vgpu-guest "$@" --json --device "vfio:$(vf_address $vf)$suffix" >/run/$name.json 2>/run/$name.log &
	guest_pid=$!
}
right() { # NAME: it did something, and nothing was wrong
	[ "$(jq .wrong /run/$1.json)" = 0 ] && [ "$(jq .jobs /run/$1.json)" -gt 0 ]
}
