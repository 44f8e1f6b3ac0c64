#!/bin/bash
# SPDX-License-Identifier: MIT
# libvirt's hook: the sequences of operations that libvirt makes, as recorded from it (docs/domain.md), and what vgpud
# makes of them; with vgpud there, gone, stopped, and restarted in the middle.
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
any=$(slice "")
heavy=$(slice "<v:device pool='render'/><v:sched><v:weight>300</v:weight></v:sched>")

# A VM's life. Its weight is its VF's while it lives.
sequence 1 "$heavy" prepare start || fail "$(cat "$run/said")"
leases_are '["vm1 reserved"]'
[ "$(weight 0)" = 300 ] || fail "the weight is not set"
hook 1 "$heavy" started || fail "$(cat "$run/said")"; leases_are '["vm1 running"]'
[ "$(vf 0 domain)" = vm1 ] || fail "the VF does not know its domain"
sequence 1 "$heavy" stopped release || fail "$(cat "$run/said")"; leases_are '[]'
[ "$(weight 0)" = 100 ] || fail "the weight has stayed"
grep -q "vm1 has ended: destroyed" "$run/vgpud.log" || fail "libvirt's reason is not told"
await 10 is 0 state available
# A start that somebody else's hook refuses; a crash; a restart of libvirtd; operations that mean nothing to us.
sequence 1 "$any" prepare stopped release || fail "$(cat "$run/said")"; leases_are '[]'
sequence 1 "$any" prepare start started stopped release prepare start started || fail "$(cat "$run/said")"; leases_are '["vm1 running"]'
sequence 1 "$any" reconnect attach restore || fail "$(cat "$run/said")"; leases_are '["vm1 running"]'
# Under its other name it is the same: hooks/qemu, for a libvirt before 6.5.
ln -s "$hook_program" "$run/qemu"
domain 1 "$any" | "$run/qemu" vm1 reconnect begin - || fail "as hooks/qemu it does nothing"
# No end was told (libvirtd was killed): the next start puts that right.
sequence 1 "$any" prepare start || fail "$(cat "$run/said")"; leases_are '["vm1 reserved"]'
sequence 1 "$any" started
# A VM that runs, and of which we know nothing.
hook 9 "$(slice "<v:device gpu='gpu0' vf='2'/>")" reconnect || fail "$(cat "$run/said")"; leases_are '["vm1 running","vm9 running"]'
hook 9 "$any" release

# Refusals, each with one sentence that helps.
refused "vm2/a: there is no GPU gpu7" hook 2 "$(slice "<v:device gpu='gpu7'/>")" prepare
refused "there is no GPU in pool fast" hook 2 "$(slice "<v:device pool='fast'/>")" prepare
theirs=$(vf_of 1)
refused "VF $theirs of gpu0 belongs to vm1" hook 2 "$(slice "<v:device gpu='gpu0' vf='$theirs'/>")" prepare
refused "has VFs 0 to 3, no VF 9" hook 2 "$(slice "<v:device gpu='gpu0' vf='9'/>")" prepare
refused "9000 MiB are claimed; gpu0 can free at most" hook 2 "$(slice "<v:memory unit='MiB'>9000</v:memory>")" prepare
refused "gpu0 has policy fair, but the claim wants strict" hook 2 "$(slice "<v:sched policy='strict'/>")" prepare
refused "policy fair: slots: no such parameter" hook 2 "$(slice "<v:sched><v:param name='slots' value='2'/></v:sched>")" prepare
refused "policy fair: weight = 99999: want 1 to" hook 2 "$(slice "<v:sched><v:weight>99999</v:weight></v:sched>")" prepare
refused "line 1: <weigth> is not known in <sched>" hook 2 "$(slice "<v:sched><v:weigth>9</v:weigth></v:sched>")" prepare
refused "cannot be moved to another host" hook 2 "$any" migrate
hook 2 "$(slice "<v:device gpu='gpu7'/>" "required='no'")" prepare || fail "it is not required"
hook 2 "<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1'>" reconnect || fail "reconnect was refused"
leases_are '["vm1 running"]'
# Its VF is being scrubbed when it is started again: it waits for that, and is not refused.
own=$(slice "<v:device gpu='gpu0' vf='3'/>")
sequence 3 "$own" prepare start started stopped release prepare start started stopped release || fail "$(cat "$run/said")"
# Two slices: both or none.
two="<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'><v:sched><v:weight>50</v:weight></v:sched></v:vf><v:vf name='b'><v:device gpu='gpu7'/></v:vf></v:vgpu>"
refused "vm2/b: there is no GPU gpu7" hook 2 "$two" prepare
leases_are '["vm1 running"]'
for i in 1 2 3; do [ "$(weight $i)" = 100 ] && continue; [ $i = "$theirs" ] || fail "half of a refused claim has stayed"; done

# Twenty at once for the three VFs that are left: three get one, no VF is given twice.
for n in $(seq 30 49); do
	(domain $n "$any" | "$hook_program" vm$n prepare begin - 2>"$run/said.$n"; echo $? >"$run/verdict.$n") &
	starters+=($!)
done
wait "${starters[@]}"
[ "$(cat "$run"/verdict.* | grep -c '^0$')" = 3 ] || fail "not three were let through: $(leases)"
[ "$(json vm list | jq '[.vms[].vf] | unique | length')" = 4 ] || fail "a VF has two owners: $(leases)"
grep -q "all 4 VFs of gpu0 are in use" "$run"/said.* || fail "no reason was given"
for n in $(seq 30 49); do hook $n "$any" release; done
leases_are '["vm1 running"]'

# A program has a VF: it is not a VM's.
free=$(((theirs + 1) % 4))
await 10 is $free state available
start_guest p $free sha256 --seconds 100; p=$guest_pid
await 30 is $free state active
refused "VF $free of gpu0 is active" hook 2 "$(slice "<v:device gpu='gpu0' vf='$free'/>")" prepare
kill -INT $p
wait $p || fail "the guest ended with $?"

# vgpud killed and started again knows who has what; a hook in between waits for it.
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
domain 2 "$any" | "$hook_program" vm2 prepare begin - 2>"$run/said" &
waiting=$!
start_vgpud
wait $waiting || fail "not let through: $(cat "$run/said")"
leases_are '["vm1 running","vm2 reserved"]'
hook 2 "$any" release
# With the parameters that it claimed.
hook 4 "$heavy" prepare || fail "$(cat "$run/said")"
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
start_vgpud
[ "$(json vf show "$(vf_of 4)" | jq .params.weight)" = 300 ] || fail "a restart has forgotten the weight"
hook 4 "$heavy" release
# vgpud gone: who needs it does not start, who does not, does, and nothing that runs is touched.
kill $vgpud_pid; wait $vgpud_pid
refused "requires a GPU, and vgpud is not running" hook 2 "$any" prepare
hook 2 "$(slice "" "required='no'")" prepare || fail "it is not required"
hook 2 "" prepare || fail "a VM without a claim was held up"
for operation in started stopped release reconnect; do hook 1 "$any" $operation || fail "$operation was refused"; done
# vgpud stopped, and it does not answer: the hook does not wait for ever.
start_vgpud
kill -STOP $vgpud_pid
hook 1 "$any" reconnect || fail "reconnect was refused"
refused "vgpud does not answer" hook 2 "$any" prepare
kill -CONT $vgpud_pid
hook 2 "$any" release
hook 1 "$any" release
leases_are '[]'

# A start and its end that vgpud reads at once: nothing is reserved after the end.
has_a_socket() { find "/proc/$1/fd" -lname "socket:*" | grep -q .; }
for i in 1 2 3; do
	kill -STOP $vgpud_pid
	domain 2 "$any" >"$run/domain.xml"
	"$hook_program" vm2 prepare begin - <"$run/domain.xml" 2>"$run/said" &
	starting=$!
	await 10 has_a_socket $starting
	"$hook_program" vm2 release end - <"$run/domain.xml" 2>>"$run/said" &
	ending=$!
	await 10 has_a_socket $ending
	kill -CONT $vgpud_pid
	wait $starting $ending
	leases_are '[]'
done

# What its policy does not admit is refused in its words.
kill $vgpud_pid; wait $vgpud_pid
conf qos
start_vgpud
most=$(slice "<v:sched><v:share min='60'/></v:sched>")
hook 1 "$most" prepare || fail "$(cat "$run/said")"
refused "policy qos: " hook 2 "$most" prepare
leases_are '["vm1 reserved"]'
hook 1 "$most" release
# A reservation that is never used ends by itself.
kill $vgpud_pid; wait $vgpud_pid
lease_s=1 conf fair
start_vgpud
hook 1 "$any" prepare
leases_are '["vm1 reserved"]'
none() { [ "$(leases)" = '[]' ]; }
await 20 none
# A damaged file of leases costs no start of vgpud.
kill $vgpud_pid; wait $vgpud_pid
echo '[{"gpu":"gpu0","vf":77},{"gpu":"x"},5' >"$run/leases.json"
start_vgpud
leases_are '[]'
