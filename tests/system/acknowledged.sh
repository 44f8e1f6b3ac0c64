#!/bin/bash
# SPDX-License-Identifier: MIT
# What vgpud has acknowledged stays, whatever comes beside it: a save beside a policy that is not saved, a reload that is refused
# or not, a crash, a VM's start that is refused, an edit that nobody has reloaded.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hooks.sh"
saved=$run/vgpud.conf.d/zz-saved.conf
conf() { # LINES: of VFs
	{
		printf '[daemon]\nsocket = %s\n' "$run/control.sock"
		for g in 0 1 2 3 4 5; do printf '[gpu gpu%s]\ndevice = null:busy=0\npolicy = qos\nvfs = 4\n' $g; done
		printf '%s\n' "$@"
	} >"$run/vgpud.conf"
}
restart() { # SIGNAL
	kill -"$1" $vgpud_pid
	wait $vgpud_pid 2>/dev/null
	start_vgpud
}
does() { ctl "$@" >"$run/out.txt" 2>"$run/err.txt" || fail "$*: $(cat "$run/err.txt")"; }
values() { json vf list --gpu gpu0 | jq -c "[.vfs[].params.$1]"; }
are() { [ "$(values "$1")" = "$2" ] || fail "$1 is $(values "$1"), want $2; ${3:-}"; }
of() { json vf show "$2" --gpu "gpu$1" | jq -r ".$3"; }
available() { [ "$(of "$1" "$2" state)" = available ]; }
# GPUs without a device begin with guests; a reset ends them.
clear_all() {
	for g in 0 5; do
		for v in 0 1 2 3; do
			ctl vf reset $v --gpu gpu$g >/dev/null || fail "VF $v of gpu$g cannot be reset"
			await 60 available $g $v
		done
	done
}
# begin LINES: a new vgpud with this configuration.
begin() {
	[ -z "${vgpud_pid:-}" ] || { kill $vgpud_pid; wait $vgpud_pid 2>/dev/null; }
	rm -rf "$run/vgpud.conf.d"
	conf "$@"
	start_vgpud
	clear_all
}
# together METHOD ARGS METHOD ARGS: sends both in one message, and prints both answers, a line each.
together() {
	/usr/bin/python3 - "$run/control.sock" "$@" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
s.connect(sys.argv[1])
methods, args = sys.argv[2::2], sys.argv[3::2]
s.sendall("".join(json.dumps({"id": i, "method": m, "args": json.loads(a)}) + "\n" for i, (m, a) in enumerate(zip(methods, args))).encode())
answers = s.makefile()
for a in sorted((json.loads(answers.readline()) for _ in methods), key=lambda a: a["id"]):
	print(a["error"]["message"] if "error" in a else "OK")
END
}
share() { claim "<v:device gpu='$1'/><v:sched><v:share min='$2'/></v:sched>"; } # GPU PERCENT

# A key is saved while a policy runs that is not: what is saved for the configured policy stays.
begin
does vf set 0 min=30% --save --reason "contract 17" --gpu gpu0
does policy set fair --gpu gpu0
does vf set 1 weight=200 --save --gpu gpu0
grep -q "contract 17" "$saved" || fail "a save has taken a guarantee out of $saved: $(cat "$saved")"
restart TERM
are min_ppm '[300000,0,0,0]'
are weight '[100,200,100,100]'

# An edit that nobody has reloaded is not taken over by a save of something else.
begin '[vf gpu0/1]' 'weight = 300'
sed -i 's/weight = 300/weight = 400/' "$run/vgpud.conf"
does vf set 0 weight=5 --save --gpu gpu0
any=$(claim "<v:device gpu='gpu0' vf='1'/>")
hook 1 "$any" prepare || fail "$(cat "$run/said")"
hook 1 "$any" release || fail "$(cat "$run/said")"
await 60 available 0 1
are weight '[5,300,100,100]' "after a VM, VF 1 has what a reload would bring"

# Live changes that only fit together are in force again after a crash.
begin '[vf gpu0/0]' 'min_ppm = 100000' '[vf gpu0/1]' 'min_ppm = 500000'
does vf set 1 min_ppm=100000 --gpu gpu0
does vf set 0 min_ppm=500000 --gpu gpu0
restart KILL
are min_ppm '[500000,100000,0,0]'

# A start that is refused changes nothing of the VFs that it might have had.
begin
does vf set 0 weight=300 --gpu gpu0
two=$(claim "<v:device gpu='gpu0'/></v:vf><v:vf name='b'><v:device gpu='gpu0'/><v:sched policy='fair'/>")
refused "policy" hook 2 "$two" prepare
are weight '[300,100,100,100]' "a refused start"
refused "guarantees" hook 2 "$(share gpu0 99)" prepare
are weight '[300,100,100,100]' "a refused start"
restart KILL
are weight '[300,100,100,100]' "a crash after refused starts"
clear_all
# One that is not refused begins with what is configured, as ever, and so does the VF after it.
hook 3 "$any" prepare && hook 4 "$(claim "<v:device gpu='gpu0' vf='0'/>")" prepare || fail "$(cat "$run/said")"
hook 4 "$(claim "<v:device gpu='gpu0' vf='0'/>")" release || fail "$(cat "$run/said")"
are weight '[100,100,100,100]' "a VM that has been"
hook 3 "$any" release

# Two guarantees that each fit alone are refused before a domain has them.
vms() { printf '{"xml": %s, "claim": %s, "next_start": true}' "$(domain 9 '' | jq -Rs .)" "$(jq -Rs . <<<"$1")"; }
both=$(claim "<v:device gpu='gpu0'/><v:sched><v:share min='60'/></v:sched></v:vf><v:vf name='b'><v:device gpu='gpu0'/><v:sched><v:share min='60'/></v:sched>")
[[ $(together vm.check "$(vms "$both")") == *"guarantees leave too little time"* ]] || fail "vm.check takes 60 % twice: $(together vm.check "$(vms "$both")")"
[ "$(together vm.check "$(vms "${both//60/30}")")" = OK ] || fail "vm.check refuses 30 % twice: $(together vm.check "$(vms "${both//60/30}")")"
[ "$(together vm.check "$(vms "${both/gpu0/gpu1}")")" = OK ] || fail "vm.check refuses 60 % of each of two GPUs"

# A reload that one GPU refuses puts former values back, and does not overwrite what comes meanwhile: of gpu5 a VM has more than the
# files' guarantee leaves, which only gpu5 can know.
changed=()
for g in 0 1 2 3 4; do changed+=("[vf gpu$g/1]" 'weight = 555'); done
begin
hook 5 "$(share gpu5 60)" prepare && hook 7 "$(share gpu0 40)" prepare || fail "$(cat "$run/said")"
does vf set 2 weight=777 --gpu gpu0
guest=$(vf_of 7)
conf "${changed[@]}" '[vf gpu5/2]' 'min_ppm = 500000'
mapfile -t said < <(together config.reload '{}' vf.set '{"gpu": "gpu0", "vf": 2, "params": {"weight": 556}}')
[[ ${said[0]} == "nothing was changed: gpu5: "* ]] && [ "${said[1]}" = OK ] || fail "${said[*]}"
[ "$(of 0 2 params.weight)" = 556 ] || fail "a refused reload has undone a change: $(values weight)"
[ "$(of 0 1 params.weight)" = 100 ] || fail "a refused reload has left its own: $(values weight)"
host=$(jq -r 'first(.. | objects | select(.domain? == "vm7") | .host)' "$run/leases.json")
release=$(jq -n --arg xml "$(domain 7 "$(share gpu0 40)")" --arg host "$host" '{operation: "release", host: $host, xml: $xml}')
mapfile -t said < <(together config.reload '{}' hook "$release")
[[ ${said[0]} == "nothing was changed: gpu5: "* ]] && [ "${said[1]}" = OK ] || fail "${said[*]}"
leases_are '["vm5 reserved"]'
await 60 available 0 "$guest"
are min_ppm '[0,0,0,0]' "the guarantee of a VM that has ended"

# One that succeeds does not forget them either.
conf "${changed[@]}"
mapfile -t said < <(together config.reload '{}' vf.set '{"gpu": "gpu0", "vf": 0, "params": {"weight": 666}}')
[ "${said[*]}" = "OK OK" ] || fail "${said[*]}"
are weight '[666,555,100,100]'
restart KILL
are weight '[666,555,100,100]' "after a crash"
clear_all
mapfile -t said < <(together config.reload '{}' vf.set '{"gpu": "gpu0", "vf": 3, "params": {"weight": 888}, "save": true}')
[ "${said[*]}" = "OK OK" ] || fail "${said[*]}"
hook 8 "$(claim "<v:device gpu='gpu0' vf='3'/>")" prepare && hook 8 "$(claim "<v:device gpu='gpu0' vf='3'/>")" release || fail "$(cat "$run/said")"
await 60 available 0 3
[ "$(of 0 3 params.weight)" = 888 ] || fail "the saved weight is gone after a VM: $(values weight)"
conf
mapfile -t said < <(together config.reload '{}' config.reload '{}')
[ "${said[*]}" = "OK a reload is under way; try again" ] || fail "two reloads at the same time: ${said[*]}"

# A reload that would drop what VMs claim changes nothing and lists it; with --force it does, and going back gives it again.
begin
hook 5 "$(share gpu5 30)" prepare && hook 6 "$(share gpu5 12.5)" prepare || fail "$(cat "$run/said")"
conf '[vf gpu0/1]' 'weight = 555'
sed -i '/^\[gpu gpu5\]/,$s/policy = qos/policy = fair/' "$run/vgpud.conf"
policy_of() { json policy show --gpu gpu5 | jq -r .policy; }
ctl config reload >"$run/said" 2>&1 && fail "a reload has dropped claims in silence"
for words in "policy fair would drop what VMs of gpu5 claim: " "vm5/a: min 30 %" "vm6/a: min 12.5 %" "Nothing was changed; with --force"; do
	grep -qF "$words" "$run/said" || fail "a refused reload does not say \"$words\": $(cat "$run/said")"
done
[ "$(policy_of) $(of 0 1 params.weight)" = "qos 100" ] || fail "a refused reload has changed something: $(policy_of), $(values weight)"
does config reload --force
[ "$(policy_of) $(of 0 1 params.weight)" = "fair 555" ] || fail "a forced reload has not changed everything: $(policy_of), $(values weight)"
ctl vm list >"$run/said"
[ "$(grep -c 'not in force: min .* %: policy fair does not have it' "$run/said")" = 2 ] || fail "vm list does not say what is not in force: $(cat "$run/said")"
conf
does config reload
[ "$(policy_of)" = qos ] || fail "the policy is $(policy_of)"
mapfile -t said < <(json vf list --gpu gpu5 | jq -r '.vfs[].params.min_ppm' | sort -n)
[ "${said[*]}" = "0 0 125000 300000" ] || fail "the VMs do not have again what they claim: ${said[*]}"
