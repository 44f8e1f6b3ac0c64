#!/bin/bash
# SPDX-License-Identifier: MIT
# vf-reset.sh [driver|firmware|xe]: a VM's VF goes to no other VM before it is reset: while the reset is under way, while it
# fails, and when vgpud is killed meanwhile. On a GPU of each kind: softgpu that vgpud switches, softgpu that schedules itself,
# and Intel's driver xe, as files.
kind=${1:-driver}
[ "$kind" != xe ] || . "$(dirname "$0")/fake-xe.sh"
. "$(dirname "$0")/lib.sh"
hook=$VGPU_BUILD/tools/libvirt/hook/vgpud-hook
export VGPUD_HOOK_SOCKET=$run/hook.sock VGPUD_LIBVIRT_DIR=$run
domain() { # NUMBER VF
	echo "<domain type='kvm'><name>vm$1</name><uuid>8a1f0b3c-0000-4000-8000-00000000000$1</uuid><metadata>
		<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'><v:device gpu='gpu0' vf='$2'/></v:vf></v:vgpu>
		</metadata></domain>"
}
call() { domain "$1" "$2" | "$hook" "vm$1" "$3" begin - 2>"$run/said"; } # NUMBER VF OPERATION
vm_had() { # VF: VM 1 has had it
	call 1 "$1" prepare && call 1 "$1" started && call 1 "$1" release || fail "VM 1 cannot have VF $1: $(cat "$run/said")"
}
# VM 2 asks for the VF, and its call of the hook waits.
asks() { call 2 "$1" prepare & asking=$!; }
gets() {
	wait $asking || fail "VM 2 did not get the VF once it was reset: $(cat "$run/said")"
	json events | jq -e --argjson vf "$1" '[.records[] | select(.vf == $vf and (.type | startswith("reset")))] | last | .type == "reset-done" and .b == 0' \
		>/dev/null || fail "VM 2 has VF $1, and its reset has not ended: $(ctl events)"
	[ "$(grep -nE "reset of VF $1 failed|VF reserved for vm2/a .*vf=$1\$" "$run/vgpud.log" | tail -1 | grep -c reserved)" = 1 ] ||
		fail "VM 2 got VF $1 while its reset failed"
	call 2 "$1" release
	await 30 is "$1" state available
}
failures() { [ "$(grep -c "reset of VF $1 failed; vgpud will try again, and no VM gets the VF until a reset has succeeded" "$run/vgpud.log")" -ge "$2" ]; }
not_given() { # VF; where a reset ends only when this test says so
	[ "$kind" = xe ] || return 0
	kill -0 $asking 2>/dev/null || fail "VM 2's start did not wait for the reset of VF $1"
	[ "$(json vm list | jq '.vms | length')" = 0 ] || fail "VM 2 has VF $1, which is not reset: $(ctl vm list)"
	is "$1" state scrubbing || fail "VF $1, which must be reset, is $(vf "$1" state)"
}
restart() {
	kill -9 $vgpud_pid
	wait $vgpud_pid
	start_vgpud
}

if [ "$kind" = xe ]; then
	fake_xe 03 3
	config <<<$'vfs = 3\npolicy = fair'
	sed -i 's/^device = .*/device = xe:0000:03:00.0/' "$run/vgpud.conf"
	file() { echo $pci/0000:03:00.$(($1 + 1))/reset; }
	# A reset that is under way: a write that waits until something reads it.
	slow() { rm "$(file "$1")"; mkfifo "$(file "$1")"; }
	ends() { head -c 1 "$(file "$1")" >"$run/read"; rm "$(file "$1")"; put "$(file "$1")" 0; }
	broken() { rm "$(file "$1")"; mkdir "$(file "$1")"; }
	works() { rmdir "$(file "$1")"; put "$(file "$1")" 0; }
else
	# Of VF 1 the first two resets fail, of VF 2 the first three.
	start_softgpu --vfs 3 --scheduler "$kind" --fault refuse-reset,vf=1,count=2 --fault refuse-reset,vf=2,count=3 --latency flr=300000
	config <<<$'vfs = 3\npolicy = fair'
	slow() { :; }
	ends() { :; }
	broken() { :; }
	works() { :; }
fi
start_vgpud
for n in 0 1 2; do await 30 is $n state available; done

# The reset is under way.
slow 0
vm_had 0
asks 0
not_given 0
ends 0
gets 0

# It fails: vgpud tries again.
broken 1
vm_had 1
asks 1
await 30 failures 1 1
not_given 1
works 1
gets 1

# vgpud is killed while it fails: the next one resets the VF before it gives it away, as often as it takes.
broken 2
vm_had 2
await 30 failures 2 1
restart
await 30 at_least 2 resets 1
asks 2
not_given 2
works 2
gets 2
restart
is 2 state available || fail "the next vgpud still takes the VF, which was reset, for one that was not"
[ "$(json vf list | jq '[.vfs[].resets] | add')" = 0 ] || fail "vgpud resets VFs that nobody has had"
