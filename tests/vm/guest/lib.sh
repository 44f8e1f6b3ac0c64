# SPDX-License-Identifier: MIT
# Sourced by the scripts that run inside the lab's machines (busybox sh).
pf=0000:01:00.0
devices=/sys/bus/pci/devices
failed=0

say() { echo "# [$(cut -d' ' -f1 /proc/uptime)] $*"; }
check() { # NAME COMMAND...: runs COMMAND and prints one line with the result
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
		[ "$(cut -d. -f1 /proc/uptime)" -lt $end ] || { echo "# timed out waiting for: $*"; return 1; }
		sleep 0.05
	done
}
need() { check "$@"; [ "$failed" = 0 ] || finish; } # like check, but ends the test on failure
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
# rests PID SECONDS: succeeds if vgpud wakes fewer than fifty times a second, and uses less than 5 % of a CPU, and what looking at it
# ten times a second uses, which says how much of its time this machine gets from the one that emulates it. While its GPU is
# lost, vgpud looks for the GPU twice a second, and its control thread looks for records twenty times a second.
rests() {
	spent=$(spent $1) woken=$(woken $1) looked=$(children) passed=$(uptime_cs)
	for look in $(seq $(($2 * 10))); do sleep 0.1; woken $1 >/dev/null; done
	spent=$(($(spent $1) - spent)) woken=$(($(woken $1) - woken)) looked=$(($(children) - looked)) passed=$(($(uptime_cs) - passed))
	say "in $passed hundredths of a second: $spent used, woken $woken times; $look looks: $looked used"
	[ $spent -lt $((passed / 20 + looked)) ] && [ $woken -lt $((passed / 2)) ]
}
uptime_cs() { awk '{print int($1 * 100)}' /proc/uptime; } # hundredths of a second
children() { awk '{print $16 + $17}' /proc/$$/stat; } # the CPU time of this shell's children that have ended, in hundredths of a second
woken() { cat /proc/$1/task/*/status | awk '/^voluntary_ctxt/ {n += $2} END {print n}'; }
spent() { awk '{print $14 + $15}' /proc/$1/stat; } # prints the CPU time of a process, in hundredths of a second
driver_of() { basename "$(readlink $devices/$1/driver)"; }

# An emulated machine may stand still for tens of milliseconds, so the grace is 1 s.
config() { # DEVICE, and lines for the GPU on stdin
	{ printf '[daemon]\nsocket = /run/control.sock\n[gpu gpu0]\ndevice = %s\ngrace_ms = 1000\n' "$1"; cat; } >/run/vgpud.conf
}
suffix='' token=/run/vf-token # suffix: appended to device names
[ "$hold" = vfio ] && suffix=,token-file=$token
# A PF that VFIO holds is reset when its last descriptor is closed: vgpud-keeper holds one, too, and starts vgpud again.
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
stop_vgpud() { # returns its exit status
	kill ${keeper_pid:-$vgpud_pid}
	wait ${keeper_pid:-$vgpud_pid}
}
# Starts vgpud on the PF, held by $hold; reads further lines for the GPU on stdin.
begin() {
	config "$hold:$pf$suffix"
	need "vgpud starts" start_vgpud
	need "VFs are ready" await 60 is 1 state available
}
# start_guest NAME VF WORKLOAD options: starts a guest that writes its report to /run/NAME.json; sets $guest_pid.
start_guest() {
	name=$1 vf=$2
	shift 2
	vgpu-guest "$@" --json --device "vfio:$(vf_address $vf)$suffix" >/run/$name.json 2>/run/$name.log &
	guest_pid=$!
}
# shares_kept VF=WEIGHT...: succeeds if vgpud keeps to its policy's bounds by its own records (see tests/system/lib.sh), and if
# these VFs had work and have these weights. Recording goes on until the bound is at most 3 % of the time that each of them
# received, or for a minute if this emulated machine is slow.
steps() { ctl -o json stats | jq .steps; }
has_steps() { [ "$(steps)" -ge "$1" ]; }
# --late: timers of this emulated machine fire some milliseconds late.
audit() { # succeeds if the recordings can be audited, whatever the verdict
	vgpu-sim audit --late 20000 --json /run/shares.*.rec >/run/shares.json 2>/run/audit.log
	[ $? -lt 2 ]
}
ran_long() {
	jq -e '[.vfs[] | select(.had_ns > 0) | .had_ns - 100 / 3 * .allowed_ns] | length > 1 and min > 0' /run/shares.json >/dev/null
}
shares_kept() {
	rm -f /run/shares.*
	until=$(($(date +%s) + 60)) n=10 next=11 # two digits, so that names sort in order
	while [ "$(date +%s)" -lt $until ]; do
		at=$(steps) n=$((n + 1))
		ctl record --output /run/shares.$n.rec >/dev/null || return 1
		if [ $n = $next ]; then # after 1, 2, 4, ... recordings: an audit is slow here
			next=$((2 * n - 10))
			audit || return 1
			! ran_long || break
		fi
		await 60 has_steps $((at + 4000)) || return 1
	done
	audit || return 1
	vgpu-sim audit --late 20000 /run/shares.*.rec | sed 's/^/# /'
	weights=$(for w in "$@"; do echo "${w%=*} ${w#*=}"; done | jq -s -R -c '[split("\n")[] | select(. != "") | split(" ") | map(tonumber)]')
	jq -e --argjson weights "$weights" '. as $all | .broken == null and
		([$weights[] | . as [$vf, $weight] | $all.vfs[$vf] | select(.had_ns > 0) | .share / $weight]
		| length == ($weights | length) and max <= min * 1.000001)' /run/shares.json >/dev/null
}
right() { # NAME: the guest has finished jobs and all results are right
	[ "$(jq .wrong /run/$1.json)" = 0 ] && [ "$(jq .jobs /run/$1.json)" -gt 0 ]
}
