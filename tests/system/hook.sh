#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpud-hook is called with the sequences of operations that libvirt makes, as recorded (docs/domain.md), while vgpud runs,
# is down, is stopped or is restarted in between. The test checks the answers and vgpud's leases.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hooks.sh"
start_softgpu --vfs 4
conf() { # POLICY, more lines for the daemon and the GPU
	cat >"$run/vgpud.conf" <<-CONF
		[daemon]
		socket = $run/control.sock
		lease_s = ${lease_s:-120}
		[gpu gpu0]
		device = vfio-user:$run/gpu/pf.sock
		pool = render
		policy = $1
		vfs = 4
	CONF
}
weight() { json vf show "$1" | jq .params.weight; }

conf fair
start_vgpud
any=$(claim "")
heavy=$(claim "<v:device pool='render'/><v:sched><v:weight>300</v:weight></v:sched>")

# A VM starts and ends. While it has the VF, the VF has the weight of its claim.
sequence 1 "$heavy" prepare start || fail "$(cat "$run/said")"
leases_are '["vm1 reserved"]'
[ "$(weight 0)" = 300 ] || fail "the weight is not set"
hook 1 "$heavy" started || fail "$(cat "$run/said")"; leases_are '["vm1 running"]'
[ "$(vf 0 domain)" = vm1 ] || fail "vf show 0 does not name the domain vm1"
# The claim decides: vf set refuses a VM's VF, applies nothing of it, and names the command that changes the claim.
! ctl vf set 0 weight=500 latency_slice_us=2000 2>"$run/refusal" || fail "vf set changed a VF that belongs to vm1"
grep -qF "VF 0 of gpu0 belongs to VM vm1, whose claim decides: use 'vgpuctl vm set vm1 a:weight=500 a:latency_slice_us=2000'" "$run/refusal" ||
	fail "$(cat "$run/refusal")"
[ "$(weight 0)" = 300 ] || fail "a refused vf set changed the weight"
sequence 1 "$heavy" stopped release || fail "$(cat "$run/said")"; leases_are '[]'
[ "$(weight 0)" = 100 ] || fail "the VF still has the weight of vm1 after its end"
ctl vf set 0 weight=100 >/dev/null || fail "vf set was refused although the VF belongs to no VM"
grep -q "vm1 has ended: destroyed" "$run/vgpud.log" || fail "vgpud's log does not give libvirt's reason for the end of vm1"
await 60 is 0 state available
# A start that another hook refuses; a crash; a restart of libvirtd; operations that vgpud ignores.
sequence 1 "$any" prepare stopped release || fail "$(cat "$run/said")"; leases_are '[]'
sequence 1 "$any" prepare start started stopped release prepare start started || fail "$(cat "$run/said")"; leases_are '["vm1 running"]'
sequence 1 "$any" reconnect attach restore || fail "$(cat "$run/said")"; leases_are '["vm1 running"]'
# The hook works under its other name, hooks/qemu, which libvirt before 6.5 needs.
ln -s "$hook_program" "$run/qemu"
domain 1 "$any" | "$run/qemu" vm1 reconnect begin - || fail "the hook failed under the name hooks/qemu"
# libvirtd was killed, so no hook reported the end of vm1: its next start replaces the lease.
sequence 1 "$any" prepare start || fail "$(cat "$run/said")"; leases_are '["vm1 reserved"]'
sequence 1 "$any" started
# A running VM that vgpud does not know is added by reconnect.
hook 9 "$(claim "<v:device gpu='gpu0' vf='2'/>")" reconnect || fail "$(cat "$run/said")"; leases_are '["vm1 running","vm9 running"]'
hook 9 "$any" release

# What the hook refuses for a device of the domain's, 'validate' refuses with the same sentence, without vgpud.
device() { # ATTRIBUTES SOURCE
	echo "</metadata><devices><hostdev mode='subsystem' $1><source>$2</source><alias name='ua-g'/></hostdev></devices><metadata>"
}
named=$(claim "" | sed "s/name='a'/name='a' alias='ua-g'/")
for wrong in "" "$(device "type='mdev' model='vfio-pci'" "<address uuid='c2177883-f1bb-47f0-914d-32a22e3a8804'/>")" \
	"$(device "type='pci' managed='yes'" "<address domain='0' bus='0x41' slot='0' function='1'/>")"; do
	! hook 2 "$named$wrong" prepare || fail "the hook takes: $wrong"
	domain 2 "$named$wrong" >"$run/wrong.xml"
	"$vgpuctl" validate "$run/wrong.xml" >/dev/null 2>"$run/validate.txt"; r=$?
	[ "$r $(sed "s|^vgpuctl: $run/wrong.xml|vgpud|" "$run/validate.txt")" = "1 $(cat "$run/said")" ] ||
		fail "validate ends with $r: $(cat "$run/validate.txt"); the hook: $(cat "$run/said")"
done

# Each refusal is one sentence that says what is wrong.
refused "vm2/a: there is no GPU gpu7" hook 2 "$(claim "<v:device gpu='gpu7'/>")" prepare
refused "there is no GPU in pool fast" hook 2 "$(claim "<v:device pool='fast'/>")" prepare
theirs=$(vf_of 1)
refused "VF $theirs of gpu0 belongs to vm1" hook 2 "$(claim "<v:device gpu='gpu0' vf='$theirs'/>")" prepare
refused "has VFs 0 to 3, no VF 9" hook 2 "$(claim "<v:device gpu='gpu0' vf='9'/>")" prepare
refused "9000 MiB are claimed; gpu0 can free at most" hook 2 "$(claim "<v:memory unit='MiB'>9000</v:memory>")" prepare
refused "gpu0 has policy fair, but the claim wants strict" hook 2 "$(claim "<v:sched policy='strict'/>")" prepare
refused "policy fair: min: no such parameter; the parameters are: weight" hook 2 "$(claim "<v:sched><v:share min='30'/></v:sched>")" prepare
refused "policy fair: slots: no such parameter" hook 2 "$(claim "<v:sched><v:param name='slots' value='2'/></v:sched>")" prepare
refused "policy fair: latency_slice = 2000 ms: want 0 to 500 ms" hook 2 "$(claim "<v:sched><v:latency-slice unit='ms'>2000</v:latency-slice></v:sched>")" prepare
refused "policy fair: latency_slice_us = 2000000: want 0 to 500000 us" hook 2 "$(claim "<v:sched><v:latency-slice>2000000</v:latency-slice></v:sched>")" prepare
refused "policy fair: weight = 99999: want 1 to" hook 2 "$(claim "<v:sched><v:weight>99999</v:weight></v:sched>")" prepare
refused "line 1: <weigth> is not known in <sched>" hook 2 "$(claim "<v:sched><v:weigth>9</v:weigth></v:sched>")" prepare
# The state of softgpu's VFs cannot be moved; a VM that brings no device has no state to move.
soft="$any</metadata><q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><q:arg
	value='{\"driver\":\"vfio-user-pci\",\"id\":\"ua-vgpu0\",\"socket\":{\"path\":\"$run/gpu/vf1.sock\"}}'/></q:commandline><metadata>"
refused "cannot be moved to another host" hook 2 "$soft" migrate
refused "was saved without the state of its VF" hook 2 "$soft" restore
hook 2 "$any" migrate || fail "$(cat "$run/said")"
hook 2 "$(claim "<v:device gpu='gpu7'/>" "required='no'")" prepare || fail "a claim with required='no' that cannot be met blocked the VM"
hook 2 "<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1'>" reconnect || fail "reconnect was refused"
leases_are '["vm1 running"]'
# The VF is being scrubbed when its VM starts again: the start waits for the scrub and is not refused.
own=$(claim "<v:device gpu='gpu0' vf='3'/>")
sequence 3 "$own" prepare start started stopped release prepare start started stopped release || fail "$(cat "$run/said")"
# A VM claims two VFs: it gets both or none.
two="<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'><v:sched><v:weight>50</v:weight></v:sched></v:vf><v:vf name='b'><v:device gpu='gpu7'/></v:vf></v:vgpu>"
refused "vm2/b: there is no GPU gpu7" hook 2 "$two" prepare
leases_are '["vm1 running"]'
for i in 1 2 3; do [ "$(weight $i)" = 100 ] && continue; [ $i = "$theirs" ] || fail "VF $i kept the weight of a claim that was refused"; done

# Twenty VMs start at once for the three free VFs: three of them get one, and no VF is given twice.
for n in $(seq 30 49); do
	(domain $n "$any" | "$hook_program" vm$n prepare begin - 2>"$run/said.$n"; echo $? >"$run/verdict.$n") &
	starters+=($!)
done
wait "${starters[@]}"
[ "$(cat "$run"/verdict.* | grep -c '^0$')" = 3 ] || fail "want three of the twenty VMs let through: $(leases)"
[ "$(json vm list | jq '[.vms[].vf] | unique | length')" = 4 ] || fail "a VF has two owners: $(leases)"
grep -q "all 4 VFs of gpu0 are in use" "$run"/said.* || fail "no refusal says that all VFs are in use"
for n in $(seq 30 49); do hook $n "$any" release; done
leases_are '["vm1 running"]'

# A VF that a program uses is not given to a VM.
free=$(((theirs + 1) % 4))
await 60 is $free state available
start_guest p $free sha256 --seconds 100; p=$guest_pid
await 30 is $free state active
refused "VF $free of gpu0 is active" hook 2 "$(claim "<v:device gpu='gpu0' vf='$free'/>")" prepare
kill -INT $p
wait $p || fail "the guest ended with $?"

# vgpud is killed and started again: it knows the leases, and a hook call in between waits for it.
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
domain 2 "$any" | "$hook_program" vm2 prepare begin - 2>"$run/said" &
waiting=$!
start_vgpud
wait $waiting || fail "the hook call that waited for vgpud was refused: $(cat "$run/said")"
leases_are '["vm1 running","vm2 reserved"]'
hook 2 "$any" release
# The parameters of a claim survive the restart.
hook 4 "$heavy" prepare || fail "$(cat "$run/said")"
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
start_vgpud
[ "$(json vf show "$(vf_of 4)" | jq .params.weight)" = 300 ] || fail "vgpud lost the weight of vm4's claim in a restart"
hook 4 "$heavy" release
# vgpud is down: a VM that requires a GPU does not start, other VMs start, and running VMs are not affected.
kill $vgpud_pid; wait $vgpud_pid
refused "requires a GPU, and vgpud is not running" hook 2 "$any" prepare
hook 2 "$(claim "" "required='no'")" prepare || fail "a claim with required='no' that cannot be met blocked the VM"
hook 2 "" prepare || fail "a VM without a claim was refused"
for operation in started stopped release reconnect; do hook 1 "$any" $operation || fail "$operation was refused"; done
# vgpud is stopped and does not answer: the hook gives up after its time-out.
start_vgpud
kill -STOP $vgpud_pid
hook 1 "$any" reconnect || fail "reconnect was refused"
refused "vgpud does not answer" hook 2 "$any" prepare
kill -CONT $vgpud_pid
hook 2 "$any" release
hook 1 "$any" release
leases_are '[]'

# vgpud reads the start and the end of a VM at the same time: no lease is left.
has_a_socket() { find "/proc/$1/fd" -lname "socket:*" | grep -q .; }
for i in 1 2 3; do
	kill -STOP $vgpud_pid
	domain 2 "$any" >"$run/domain.xml"
	"$hook_program" vm2 prepare begin - <"$run/domain.xml" 2>"$run/said" &
	starting=$!
	await 60 has_a_socket $starting
	"$hook_program" vm2 release end - <"$run/domain.xml" 2>>"$run/said" &
	ending=$!
	await 60 has_a_socket $ending
	kill -CONT $vgpud_pid
	wait $starting $ending
	leases_are '[]'
done

# A claim that the policy does not admit is refused with the policy's reason.
kill $vgpud_pid; wait $vgpud_pid
conf qos
start_vgpud
most=$(claim "<v:sched><v:share min='60'/></v:sched>")
hook 1 "$most" prepare || fail "$(cat "$run/said")"
refused "policy qos: " hook 2 "$most" prepare
leases_are '["vm1 reserved"]'
hook 1 "$most" release
# A reservation that is not used ends after lease_s.
kill $vgpud_pid; wait $vgpud_pid
lease_s=1 conf fair
start_vgpud
hook 1 "$any" prepare
leases_are '["vm1 reserved"]'
none() { [ "$(leases)" = '[]' ]; }
await 60 none
# vgpud starts with a damaged file of leases.
kill $vgpud_pid; wait $vgpud_pid
echo '[{"gpu":"gpu0","vf":77},{"gpu":"x"},5' >"$run/leases.json"
start_vgpud
leases_are '[]'
