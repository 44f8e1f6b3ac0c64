#!/bin/bash
# SPDX-License-Identifier: MIT
# storm.sh [N] [--seed S] [--from K] [--plan] [--plant FAULT]: N events (8) in which vgpud, a process of a VF, a guest, libvirtd,
# vgpud-libvirt or a VM's QEMU is killed, or stopped for up to three seconds and continued, at random instants, while three
# programs and a VM compute, visitors leave marks or attack, and operators change memory, policies and weights. After each
# event: every result is right to the bit or reported as lost; nobody whom nothing has hit was reset; shares are within the
# policy's bounds; vgpud's ledger sums up; the table of memory is whole, and no visitor's mark is found; no lease, process,
# descriptor, memory file or socket is left.
# --seed S repeats a storm's choices (storm-plan.sh), --from K all but the first of them; --plan prints them, and does nothing.
# The last line is one of JSON, with the storm's totals.
# --plant FAULT: skip-clear, refuse-reset, keep-visitor or keep-lease. A storm that does not find it is a defect: storm-faults.sh.
here=$(dirname "$0")
. "$here/storm-plan.sh"
args=("$@")
events=8 seed=1 from=1 plant='' only_plan=''
while [ $# -gt 0 ]; do
	case $1 in
	--seed) seed=$2; shift ;;
	--from) from=$2; shift ;;
	--plant) plant=$2; shift ;;
	--plan) only_plan=1 ;;
	*) events=$1 ;;
	esac
	shift
done
state=$seed
if [ -n "$only_plan" ]; then
	for n in $(seq "$events"); do plan $n; planned; done
	exit
fi
set -- "${args[@]}"
agent=$VGPU_BUILD/tools/libvirt/daemon/vgpud-libvirt
[ -x "$agent" ] || { echo "skipped: vgpud-libvirt is not built: libvirt's headers are missing"; exit 77; }
. "$here/libvirtd.sh"
. "$here/storm-checks.sh"
echo "storm: $events events, seed $seed; again: tests/system/storm.sh $events --seed $seed"
canary=$VGPU_BUILD/tests/system/canary
vram_mib=256 # of start_softgpu
mib_of=() next_mib=() marks=(0) recordings=() records=0 written=0
for n in $(seq 0 $((vfs - 1))); do mib_of[n]=16; done
mib_of[2]=32 mib_of[vm]=32
configured=("${mib_of[@]}") restarted=''

# --- The machine -------------------------------------------------------------------------------------------------------
# The VM's VF is a vfio-user device where there is a QEMU that has them (tests/vm/setup-vfio-user). Else its VM only has a lease.
qemu=${VGPU_QEMU:-$(cd "$here/../.." && pwd)/build/vm-vfio-user/qemu}
vm_device='' vm_boot="<os><type arch='x86_64' machine='pc'>hvm</type></os><features><acpi/></features>"
idle_boot=$vm_boot
if [ -x "$qemu" ] && [ -e "$VGPU_BUILD/tests/vm/tenant" ]; then
	mount --bind "${qemu%/*}/root/usr/lib/x86_64-linux-gnu/qemu" /usr/lib/x86_64-linux-gnu/qemu
	for q in /usr/bin/qemu-system-*; do mount --bind "$qemu" "$q"; done
	vm_device="<qemu:commandline><qemu:arg value='-device'/><qemu:arg value='{\"driver\":\"vfio-user-pci\",\"id\":\"ua-x\",\"bus\":\"pci.1\",\"socket\":{\"type\":\"unix\",\"path\":\"$run/gpu/vf$vm.sock\"}}'/></qemu:commandline>"
	vm_boot="<os><type arch='x86_64' machine='q35'>hvm</type><kernel>$VGPU_BUILD/tests/vm/tenant</kernel></os><features><acpi/></features>
		<cpu mode='custom' match='exact'><model>qemu64</model></cpu>"
fi
define() { # NAME CLAIM BOOT DEVICES COMMANDLINE
	virsh -q define /dev/stdin <<-XML || fail "$1 cannot be defined"
		<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>$1</name>
		<metadata><v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'>$2</v:vgpu></metadata>
		<memory unit='MiB'>32</memory><memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking><vcpu>1</vcpu>$3
		<devices><emulator>/usr/bin/qemu-system-x86_64</emulator><controller type='usb' model='none'/><memballoon model='none'/>
		$4<serial type='file'><source path='$run/$1.console'/></serial></devices>$5</domain>
	XML
}
start_agent() {
	: >"$run/agent.log"
	"$agent" 2>>"$run/agent.log" &
	agent_pid=$!
	await 60 grep -q 'connected to libvirt' "$run/agent.log"
}
vf_process() { # VF: sets $process to its process, or nothing
	local p words
	process=
	for p in $(cat "/proc/$softgpu_pid/task"/*/children); do
		{ mapfile -d '' -t words <"/proc/$p/cmdline"; } 2>/dev/null
		[ "${words[1]:-} ${words[2]:-}" != "--vf $1" ] || process=$p
	done
	[ -n "$process" ]
}
has_ended() { [ "$(virsh -q domstate "$1")" = "shut off" ]; }
start_vm() {
	virsh -q start vm1 2>>"$run/virsh.log" || fail "vm1 does not start"
	[ -z "$vm_device" ] || await 90 vm_computes 0
}

# --- What happens ------------------------------------------------------------------------------------------------------
clock() { local t=${EPOCHREALTIME/[.,]/}; ms=$((t / 1000)); }
sleep_until() { # MS from the event's start: its random instant
	local rest
	clock
	rest=$((began + $1 - ms))
	[ $rest -le 0 ] || sleep "$((rest / 1000)).$(printf %03d $((rest % 1000)))"
}
strike() {
	case $what in
	vgpud) victim=$vgpud_pid ;;
	vf) await 60 vf_process $target; vf_process $target; victim=$process touched[$target]=1 ;;
	guest) victim=${guest_pids[$target]} touched[$target]=1 ;;
	libvirtd) victim=$(cat /run/libvirt/libvirtd.pid) ;;
	agent) victim=$agent_pid ;;
	qemu) victim=$(cat /run/libvirt/qemu/vm1.pid) touched[$vm]=1 ;;
	esac
	strike_at "$what" $signal "$victim"
}
strike_at() { # WHAT SIGNAL PID
	kill -"$2" "$3" || return
	[ "$2" = STOP ] || { killed[$1]=1; await 60 dead "$3"; }
}
go_on() { kill -CONT "$victim" 2>/dev/null; }
beside() {
	local command=()
	case $aside in
	nothing) return ;;
	vgpud) [ -n "${killed[vgpud]:-}" ] || strike_at vgpud KILL $vgpud_pid; return ;;
	compact) command=("$vgpuctl" memory compact) ;;
	resize) command=("$vgpuctl" memory set $aside_vf ${aside_mib}M); next_mib[$aside_vf]=$aside_mib ;;
	resize-force)
		command=("$vgpuctl" memory set $aside_vf ${aside_mib}M --force)
		next_mib[$aside_vf]=$aside_mib touched[$aside_vf]=1
		;;
	reset) command=("$vgpuctl" vf reset $aside_vf); touched[$aside_vf]=1 ;;
	policy) read -ra command <<<"$vgpuctl policy set $aside_text" ;;
	weight) command=("$vgpuctl" vf set $aside_vf weight=$weight) ;;
	rubbish) command=("$VGPU_BUILD/tests/system/rubbish" /run/vgpud/control.sock) ;;
	vm) command=(virsh -q start vm2) ;;
	esac
	timeout 120 "${command[@]}" >>"$run/aside.log" 2>&1 &
	aside_pid=$!
}
arrive() {
	touched[$visit_vf]=1
	if [ $visitor = canary ]; then
		: >"$run/write"
		"$canary" write "$run/gpu/vf$visit_vf.sock" $event >"$run/write" 2>>"$run/canary.log" &
	else
		"$VGPU_BUILD/tests/system/attack" $visitor "$run/gpu/vf$visit_vf.sock" 600 >"$run/attack.log" 2>&1 &
	fi
	visitor_pid=$!
}
leave() {
	[ "$plant" != keep-visitor ] || return
	kill -KILL $visitor_pid
	wait $visitor_pid 2>/dev/null
}
# Everything at its instant, one after the other.
happen() {
	local at act acts="$hit_at strike
$aside_at beside
$visit_end leave"
	[ $signal = KILL ] || acts+="
$((hit_at + hit_for)) go_on"
	clock; began=$ms
	arrive
	while read -r at act <&3; do
		sleep_until "$at"
		$act
	done 3< <(sort -sn <<<"$acts")
}

# --- What operators do after it ----------------------------------------------------------------------------------------
restart_vgpud() {
	restarted=1
	wait $vgpud_pid 2>/dev/null
	check_everywhere
	recordings=()
	start_vgpud
	[ "$(json gpu show | jq .adopted)" = true ] || fail "vgpud did not adopt the GPU: $(tail -5 "$run/vgpud.log")"
}
mend() {
	local status p
	[ -z "${killed[vgpud]:-}" ] || restart_vgpud
	[ -z "${killed[libvirtd]:-}" ] || { rm -f /run/libvirt/libvirtd.pid; start_libvirtd; }
	[ -z "${killed[agent]:-}" ] || { wait $agent_pid 2>/dev/null; start_agent; }
	for p in $vgpud_pid $agent_pid $softgpu_pid "$(cat /run/libvirt/libvirtd.pid)"; do ! dead "$p" || fail "a process that nothing has killed has ended"; done
	if [ -n "$aside_pid" ]; then
		wait $aside_pid
		status=$?
		case $status in 0 | 1 | 3) ;; *) fail "'$aside' has ended with $status: $(tail -5 "$run/aside.log")" ;; esac
		aside_pid=
	fi
	if ! has_ended vm2; then
		virsh -q destroy vm2
		await 60 has_ended vm2
	fi
	if [ -n "${touched[$vm]:-}" ] && [ "$signal $what" != "STOP qemu" ]; then
		has_ended vm1 || virsh -q destroy vm1 2>>"$run/virsh.log"
		await 60 has_ended vm1
		may_return $vm
		start_vm
	fi
}

first_libvirtd
faults=()
case $plant in
skip-clear) faults=(--fault 'skip-clear,skip=22,count=1000000') ;;
refuse-reset) faults=(--fault 'refuse-reset,skip=12,count=1000000') ;;
esac
start_softgpu --vfs $vfs "${faults[@]}"
cat >"$run/vgpud.conf" <<CONF
[daemon]
lease_s = $([ "$plant" = keep-lease ] && echo 86400 || echo 20)
[gpu gpu0]
device = vfio-user:$run/gpu/pf.sock
vfs = $vfs
policy = fair
slice_us = 4000
grace_ms = 1000
$(for n in $(seq 0 $((vfs - 1))); do printf '[vf gpu0/%d]\nmemory_mib = %d\n' "$n" "${mib_of[n]}"; done)
CONF
start_vgpud
define vm1 "<v:vf name='x'${vm_device:+ alias='ua-x'}><v:device gpu='gpu0' vf='$vm'/></v:vf>" "$vm_boot" \
	"${vm_device:+<controller type='pci' index='0' model='pcie-root'/><controller type='pci' index='1' model='pcie-root-port'/>}" "$vm_device"
define vm2 "<v:vf name='x'><v:device gpu='gpu0' vf='$idle_vm'/></v:vf>" "$idle_boot" '' ''
start_agent
start_vm
for n in "${tenants[@]}"; do start_tenant $n; done
case $plant in
keep-lease) virsh dumpxml vm2 | "$VGPU_BUILD/tools/libvirt/hook/vgpud-hook" vm2 prepare begin - ;;
esac
for n in "${tenants[@]}"; do await 60 is $n state active; done
await 60 all_settled
as_before
mv "$run/left" "$run/baseline"
look before; judged_pid=$vgpud_pid
aside_pid=
declare -A hits_of visits_of # how often each came
for event in $(seq "$events"); do
	plan "$event"
	[ "$event" -ge "$from" ] || continue
	printf '%d: ' "$event"
	planned
	touched=() killed=()
	hits_of[$what $signal]=$((${hits_of[$what $signal]:-0} + 1)) visits_of[$visitor]=$((${visits_of[$visitor]:-0} + 1))
	happen
	mend
	if [ $visitor = canary ]; then
		marks+=("$event")
		[ ! -s "$run/write" ] || written=$((written + 1))
	fi
	check_all
done

# --- The end -----------------------------------------------------------------------------------------------------------
for n in "${tenants[@]}"; do
	kill -INT "${guest_pids[$n]}"
	wait "${guest_pids[$n]}" || fail "the tenant of VF $n has ended with $?: $(tail -3 "$run/t$n.log")"
	never_wrong $n
done
virsh -q destroy vm1
await 30 leases_are '[]'
await 60 clean
kill $agent_pid; wait $agent_pid || fail "vgpud-libvirt ended with $?"
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
check_everywhere
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
stop_libvirtd TERM
[ -z "$(find "$run/gpu" -name 'vf*')" ] || fail "sockets are left: $(ls "$run/gpu")"
[ $events -lt 20 ] || [ $written -gt 0 ] || fail "no visitor has left a mark"
echo "storm: $events events, seed $seed, $written visitors left marks, $SECONDS s: nothing was found"
for kind in "${!hits_of[@]}" "${!visits_of[@]}"; do echo "$kind ${hits_of[$kind]:-${visits_of[$kind]}}"; done |
	jq -Rnc --arg machine "$(this_machine)" --argjson events $((events - from + 1)) --argjson seed "$seed" --argjson marks $written --argjson seconds $SECONDS '
	[inputs | split(" ")] as $kinds |
	{machine: $machine, events: $events, seed: $seed, seconds: $seconds, found: 0, marks: $marks,
	 hits: ([$kinds[] | select(length == 3) | {"\(.[0]) \(.[1])": (.[2] | tonumber)}] | add),
	 visitors: ([$kinds[] | select(length == 2) | {(.[0]): (.[1] | tonumber)}] | add)}'
