#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpuctl and the control socket: views, changes, refusals, exit codes, malformed input.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 3
config <<-CONF
	vfs = 3
	policy = fair
	[vf gpu0/1]
	weight = 300
CONF
group=$(getent group | awk -F: '$3 > 0 && $3 != 65534 {name = $1} END {print name}')
sed -i "/^\[daemon\]/a group = $group" "$run/vgpud.conf"
start_vgpud
code() { # EXPECTED COMMAND...
	local want=$1 got
	shift
	"$@" >"$run/out.txt" 2>"$run/err.txt"
	got=$?
	[ $got = "$want" ] || fail "exit code $got, not $want: $* ($(cat "$run/err.txt"))"
}
says() { grep -qF -- "$1" "$run/err.txt" || fail "'$1' is not in: $(cat "$run/err.txt")"; }
for view in "gpu list" "gpu show" "memory show" "vf list" "vf show 1" "policy list" "policy show" "policy explain" stats events timeline \
	"top --count 1 --interval 0.1"; do
	code 0 ctl $view
	[ -s "$run/out.txt" ] || [ "$view" = events ] || fail "$view prints nothing"
	code 0 json $view
	jq -e . "$run/out.txt" >/dev/null || fail "$view: not JSON"
done
# memory show covers the whole memory: extents without gaps, and each VF's extent where vf show has it.
json memory show | jq -e '[.extents[].bytes] == [32, 64, 64, 64, 32 | . * 1048576] and
	([foreach .extents[] as $e (0; . + $e.bytes; $e.offset + $e.bytes == .)] | all) and
	.total_bytes == 268435456 and .free_bytes == 33554432 and .extents[0].owner == "pf" and .extents[4].state == "free"' >"$run/said" ||
	fail "memory show: $(json memory show | jq -c .)"
for i in 0 1 2; do
	[ "$(json memory show | jq ".extents[] | select(.vf == $i) | .offset")" = "$(vf $i memory_offset)" ] || fail "memory show and vf show give different offsets for VF $i"
done
code 0 ctl memory show --svg "$run/memory.svg"
[ "$(grep -c '<title>' "$run/memory.svg")" = 5 ] && /usr/bin/python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$run/memory.svg" ||
	fail "memory.svg is not well-formed or does not have 5 extents"
start_guest a 0 spin --us 5000 --depth 16 --seconds 300; a=$guest_pid
start_guest b 1 spin --us 5000 --depth 16 --seconds 300; b=$guest_pid
await 30 active 2
shares_kept 3 0=100 1=300
code 0 ctl vf set 1 weight=50
[ "$(vf 1 params.weight)" = 50 ] || fail "the weight did not change"
shares_kept 3 0=100 1=50
code 1 ctl vf set 1 weight=50000; says "weight = 50000: want 1 to 10000"
code 1 ctl vf set 1 latency_slice_us=1000 weight=0; says "weight = 0"
[ "$(vf 1 params.latency_slice_us)" = 0 ] || fail "half of a refused change was applied"
code 1 ctl vf set 1 colour=red; says "no such parameter; the parameters are: weight, latency_slice_us"
code 5 ctl vf set 9 weight=5; says "gpu0 has VFs 0 to 2"
code 2 ctl vf set 1; says "want NAME=VALUE"
code 2 ctl vf set x weight=1; says "x: want the number or the address of a VF"
code 2 ctl vf set; says "want the number or the address of a VF"
code 2 ctl vf explode; says "vf explode: no such command"
code 2 ctl vf lsit; says "did you mean 'vf list'?"
code 2 ctl memry show; says "did you mean 'memory show'?"
code 2 ctl policy; says "policy: want list, show, explain or set"
code 2 ctl; says "usage: vgpuctl"
code 2 ctl gpu list --colour; says "--colour: not an option"
code 2 ctl gpu list --wacth; says "did you mean --watch?"
code 2 ctl gpu list --svg "$run/never.svg"; says "gpu list takes no --svg"
code 2 ctl vf list more; says 'unexpected argument "more"'
code 2 ctl events --since yesteryear; says "--since yesteryear: want 30s"
code 2 ctl vf list --count 3; says "--interval and --count need --watch"
code 2 ctl top --sort colour; says "--sort colour: want vf"
code 2 ctl --socket "$run/nothing.sock" vf set 1; says "want NAME=VALUE"
# The last line of doctor says what to do next, here and now.
next_is() { # WORDS COMMAND...
	"${@:2}" doctor >"$run/out.txt" # fails where a finding is bad
	tail -1 "$run/out.txt" | grep -q "^next: .*$1" || fail "doctor's last line: $(tail -1 "$run/out.txt"), want: $1"
	[ "$(grep -c '^next: ' "$run/out.txt")" = 1 ] || fail "doctor says more than one thing to do next: $(cat "$run/out.txt")"
}
next_is "vgpud has 1 GPU: put a claim into a VM's XML" ctl
grep -q "bad .*libvirt's hook" "$run/out.txt" || next_is "vgpud-softgpu@soft0\|enable --now vgpud.service\|: [a-z]* " "$vgpuctl" --socket "$run/nothing.sock"
tail -1 "$run/out.txt" | grep -q "vgpud has" && fail "doctor finds a vgpud that does not run"
json doctor >"$run/out.txt"
jq -e 'type == "array" and all(.[]; .verdict and .subject)' "$run/out.txt" >/dev/null || fail "doctor does not print JSON"
# Help, in each of the ways in which people ask for it.
for words in "vf set --help" "vf set -h" "help vf set" "vf --help set"; do
	code 0 ctl $words
	grep -q '^usage: vgpuctl vf set VF NAME=VALUE' "$run/out.txt" && grep -q -- --gpu "$run/out.txt" && ! grep -q -- --svg "$run/out.txt" ||
		fail "$words: $(cat "$run/out.txt")"
done
for words in "vf --help" "help vf"; do
	code 0 ctl $words
	[ "$(grep -c '^  vf ' "$run/out.txt")" = 4 ] && ! grep -q '^  gpu ' "$run/out.txt" || fail "$words: $(cat "$run/out.txt")"
done
code 2 ctl help vfs; says "vfs: no such command"
code 5 ctl --gpu nowhere gpu show; says "no such GPU"
code 5 ctl vm show nobody; says "nobody: no VM of that name has a VF"
code 5 ctl vf show 0000:99:00.1; says "no GPU has a VF at that address"
code 0 ctl vf show "$run/gpu/vf1.sock"; grep -q '^  weight  *50$' "$run/out.txt" || fail "the VF of vf1.sock is not VF 1"
code 1 ctl --svg /nowhere/x.svg timeline; says "/nowhere/x.svg: No such file or directory"
code 0 ctl --gpu=gpu0 gpu show
code 5 ctl --gpu=nowhere gpu show; says "no such GPU"
code 2 ctl --force=yes gpu list; says "--force takes no value"
code 2 ctl timeline --ms=0; says "--ms 0: want 1 to 60000"
code 3 "$vgpuctl" --socket="$run/nothing.sock" gpu list; says "$run/nothing.sock"
code 3 "$vgpuctl" --socket "$run/nothing.sock" gpu list; says "is vgpud running?"
code 1 ctl policy set bogus; says "no such policy is built in"
code 1 ctl policy set strict idle=never; says "want one of: hold, donate, compress"
policy_is() { [ "$(json policy show | jq -r .policy)" = "$1" ]; }
for p in strict equal best-effort fair strict; do
	code 0 ctl policy set $p
	await 30 policy_is $p # at the end of the present slice
done
code 0 ctl policy set slice_us=3000 idle=compress
[ "$(json policy show | jq -r '.values.slice_us, .values.idle' | paste -sd,)" = 3000,compress ] || fail "policy show does not have slice_us = 3000, idle = compress"
shares_kept 3 0=1 1=1 turns=3000
# As many requests as vgpud receives in one read: each is answered with a result or with the reason why there is none.
/usr/bin/python3 - "$run/control.sock" <<'END' || fail "a request got no answer or a wrong one"
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
s.connect(sys.argv[1])
n = 740
s.sendall(b''.join(b'{"method":"gpu.show","id":%d}\n' % i for i in range(n)))
answers, results = s.makefile('r'), 0
missing = set(range(n))
for line in answers:
    a = json.loads(line)
    missing.remove(a['id'])
    results += 'result' in a
    assert 'result' in a or a['error']['code'] == 'EAGAIN' and 'under way' in a['error']['message'], a
    if not missing:
        break
assert not missing and results >= 16, (missing, results)
# Parameters that are set right behind a change of policy are for the new policy.
s.sendall(b'{"method":"policy.set","args":{"policy":"prio"}}\n{"method":"policy.set","args":{"policy":"fair"}}\n'
          b'{"method":"vf.set","args":{"vf":0,"params":{"weight":"200"}}}\n{"method":"vf.set","args":{"vf":0,"params":{"latency_slice_us":"2000"}}}\n'
          b'{"method":"policy.set","args":{"policy":"strict"}}\n{"method":"vf.set","args":{"vf":0,"params":{"slots":"2"}}}\n')
got = [json.loads(answers.readline()) for _ in range(6)]
assert all('result' in a for a in got), got
assert got[3]['result'] == {'weight': 200, 'latency_slice_us': 2000}, got
END
now_has() { [ "$(json policy show | jq -r .policy)" = strict ] && [ "$(vf 0 params.slots)" = 2 ]; }
await 30 now_has
ctl vf set 0 slots=1 >/dev/null || fail "vgpuctl vf set failed"
code 0 ctl timeline --ms 50 --svg "$run/t.svg"
grep -q '<svg' "$run/t.svg" && grep -q '</svg>' "$run/t.svg" || fail "the SVG of the timeline is not complete"
code 0 ctl trace --ms 50
jq -e '.traceEvents | length > 5' "$run/out.txt" >/dev/null || fail "the trace has fewer than 6 events"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	# Another user: the kernel refuses the connection; vgpud refuses it; and vgpud refuses a change to one who may read.
	as() { setpriv --reuid=65534 --regid="$1" --clear-groups "$vgpuctl" --socket "$run/control.sock" "${@:2}"; }
	other=$(getent group | awk -F: '$3 > 0 && $3 != 65534 {print $3; exit}')
	chmod 755 "$run"; chgrp "$other" "$run/control.sock"; chmod 660 "$run/control.sock"
	code 4 as 65534 gpu list; says "permission denied on $run/control.sock: you are not in group $(getent group "$other" | cut -d: -f1)"
	chmod 666 "$run/control.sock"
	code 4 as 65534 gpu list; says "permission denied: you are not in group $group"
	code 0 as "$(getent group "$group" | cut -d: -f3)" gpu list
	code 4 as "$(getent group "$group" | cut -d: -f3)" policy set fair; says "policy.set: only root may do this"
	code 0 as "$(getent group "$group" | cut -d: -f3)" policy explain fair
	code 1 as "$(getent group "$group" | cut -d: -f3)" policy explain other; says "policy other: it is neither built in nor loaded"
else
	echo "skipped: needs root and setpriv to be another user"
fi
# Noise, and lines that are no requests: vgpud answers or closes the connection, and serves the next client.
"$VGPU_BUILD/tests/system/rubbish" "$run/control.sock" || fail "vgpud refused a connection after malformed input"
ctl gpu show >/dev/null || fail "vgpud does not answer after malformed input"
kill -INT $a $b
wait_guest $a a; wait_guest $b b
