#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpuctl on terminals of several sizes and in pipes, with two GPUs, 31 VFs, and VMs with long names.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hooks.sh"
config null:busy=30 <<-CONF
	policy = fair
	vfs = 31
	[gpu gpu1]
	device = null:
	policy = fair
	vfs = 3
CONF
start_vgpud
on_terminal() { # ROWS COLUMNS STEP... -- ARGUMENTS: vgpuctl on a terminal
	local steps=()
	while [ "$1" != -- ]; do steps+=("$1"); shift; done
	shift
	"$(dirname "$0")/terminal.py" "${steps[@]}" -- "$vgpuctl" --socket "$run/control.sock" "$@" || fail "vgpuctl $*"
}
# shows PATTERN -- COMMAND...: the whole output is read, so that no command dies of a closed pipe.
shows() { "${@:3}" >"$run/shown" && grep -q -- "$1" "$run/shown"; }
name="the-accounting-department-of-the-northern-branch-<&>-2"
domain() { # N METADATA
	echo "<domain><name>$name-$1</name><uuid>$(printf '00000000-0000-4000-8000-%012d' "$1")</uuid><metadata>$2</metadata></domain>"
}
domain 1 "$(claim "<v:device gpu='gpu0' vf='30'/>")" | sed 's/<&>/\&lt;\&amp;\&gt;/' >"$run/vm1.xml"
"$hook_program" "$name-1" reconnect begin - <"$run/vm1.xml" || fail "the hook failed"

# Without --gpu, both GPUs are shown; with it, one. A pipe gets whole names.
[ "$(json vf list | jq -r '.gpu + " \(.vfs | length)"' | paste -sd,)" = "gpu0 31,gpu1 3" ] || fail "vf list does not show both GPUs"
for view in "gpu show" "memory show" "policy show" "policy explain" stats timeline; do
	[ "$(json $view | jq -rs '[.[].gpu] | join(",")')" = gpu0,gpu1 ] || fail "$view does not show both GPUs"
	[ "$(json --gpu gpu1 $view | jq -r .gpu)" = gpu1 ] || fail "--gpu gpu1 $view does not show gpu1"
done
shows " $name-1 " -- ctl vf list || fail "vf list cuts a name: $(ctl vf list)"
shows " $name-1 " -- ctl top --count 1 --interval 0.05 || fail "top cuts a name in a pipe: $(ctl top --count 1 --interval 0.05)"
ctl trace >"$run/trace.json"
/usr/bin/python3 "$(dirname "$0")/trace-format.py" "$run/trace.json" >"$run/said" 2>&1 && grep -q '^2 processes, 34 threads, [1-9][0-9]* slices, 34 counters, 0 instants$' "$run/said" ||
	fail "the trace of two GPUs: $(cat "$run/said")"
[ "$(jq -r '[.traceEvents[] | select(.name == "process_name").args.name] | join(",")' "$run/trace.json")" = gpu0,gpu1 ] || fail "trace does not have both GPUs"
# A trace has the names of VMs, and counters that add up to the spans of the same time.
ctl --gpu gpu0 trace --ms 2000 >"$run/trace.json"
jq -e --arg name "VF 30 $name-1" '.traceEvents | (map(select(.ph == "C").name) | unique | length) == 31 and any(.name == "thread_name" and .args.name == $name) and
	any(.ph == "C" and (.name | startswith($name + ", % of "))) and
	([.[] | select(.ph == "C") | .args | add] | add > 0 and max <= 100.05)' "$run/trace.json" >/dev/null || fail "the trace lacks a name or counters: $(head -c 600 "$run/trace.json")"
jq -e '[.traceEvents[] | select(.ph == "C" and .name[0:5] == "VF 0 " or .ph == "C" and .name[0:5] == "VF 0,")] as $c | ($c[1].ts - $c[0].ts) as $step | $c[0].ts as $from |
	($from + $step * ($c | length)) as $to |
	([.traceEvents[] | select(.ph == "X" and .tid == 100) | ([.ts + .dur, $to] | min) - ([.ts, $from] | max) | select(. > 0)] | add) as $spans |
	([$c[].args | add] | add * $step / 100) as $counted | $counted > 0 and ($counted - $spans | fabs) <= 0.01 * $step' "$run/trace.json" >/dev/null ||
	fail "the counters of VF 0 do not add up to its spans"
ctl vf set 0 weight=9 2>"$run/said" && fail "vf set chose one of two GPUs"
grep -q "choose one with" "$run/said" || fail "$(cat "$run/said")"
shows "^$name-1  a  *gpu0  *30  running" -- ctl vm || fail "$(ctl vm)"
[ "$(json vm show "$name-1" | jq '.vfs[0].vf')" = 30 ] || fail "vm show does not show VF 30"
# Pictures have the VMs' names, escaped, and an axis.
ctl --gpu gpu0 timeline --svg "$run/t.svg" --ms 50 && /usr/bin/python3 -c 'import sys, xml.dom.minidom as x; t = x.parse(sys.argv[1]).toxml()
assert "VF 30 the-accounting" in t and "-40 ms" in t and "&lt;&amp;&gt;" in t, t' "$run/t.svg" || fail "the SVG lacks a name or the axis"
ctl --gpu gpu0 timeline --html "$run/t.html" --ms 50 && grep -q '^const names=.*"VF 30 the-accounting.*u003c&>' "$run/t.html" && grep -q '^const spans=\[\[' "$run/t.html" ||
	fail "the page lacks a name or the spans"
# So is a GPU's name, whoever answers.
cat >"$run/answers.py" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(4)
while True:
    f = s.accept()[0].makefile("rw")
    for line in f:
        f.write(json.dumps({"id": json.loads(line)["id"], "result": {"gpu": "<b>&", "gpus": [{"name": "<b>&"}], "vfs": [], "extents": [], "total_bytes": 1 << 30, "free_bytes": 0}}) + "\n")
        f.flush()
END
/usr/bin/python3 "$run/answers.py" "$run/answers.sock" &
await 60 test -S "$run/answers.sock"
"$vgpuctl" --socket "$run/answers.sock" memory show --svg "$run/m.svg" && /usr/bin/python3 -c 'import sys, xml.dom.minidom as x; assert "&lt;b&gt;&amp;" in x.parse(sys.argv[1]).toxml()' "$run/m.svg" ||
	fail "the map of memory is no SVG: $(cat "$run/m.svg")"
shows '^VF 30 the-accounting-depa+' -- ctl --gpu gpu0 timeline || fail "$(ctl --gpu gpu0 timeline)"
shows '-80 ms  .*now$' -- ctl timeline || fail "the timeline has no axis: $(ctl timeline)"

# top fits its terminal: the header stays, rows scroll, keys sort, q ends.
on_terminal 24 80 'see:^gpu0, policy fair, .* NOW: the last [0-9.]*[1-9]' 'see:^0[ *].* active ' "save:$run/first" \
	type:jjjjjjjjjj 'see:\AVF  |\Aq: .*\nVF  .*\n[1-9][0-9]*[ *]' "save:$run/scrolled" type:m 'see:order by vm' type:q -- top --interval 0.1
[ "$(sed -n 2p "$run/first")" = "$(sed -n 2p "$run/scrolled")" ] || fail "the header does not stay: $(cat "$run/scrolled")"
[ "$(wc -l <"$run/first")" = 23 ] || fail "top does not fill 24 lines: $(cat "$run/first")"
grep -q '(overhead)' "$run/first" && grep -q '(idle)' "$run/first" || fail "top has no rows for overhead and idle time"
on_terminal 60 200 'see:^0[ *].* active .* #+\.+ ' "see: $(cut -c 1-39 <<<"$name")\\+ " type:q -- top --interval 0.1
on_terminal 24 80 'see:^30[ *]? +the-accounti.*\+ ' type:q -- vm top --interval 0.1
on_terminal 10 40 'see:^gpu0' type:q -- top --interval 0.1
# Other views are drawn again, and fit, too.
on_terminal 24 80 'see:^gpu0, policy fair' 'see:^VF  VM ' type:jjj type:q -- vf list -w --interval 0.1
on_terminal 24 80 'see:gpu0' -- vf list --watch --interval 0.1 --count 2
on_terminal 24 20000 'see:gpu0' -- timeline --gpu gpu0

# Tables are wrapped between words: a terminal shows the same words as a pipe.
words() { tr -s ' \n' '\n\n' <"$1" | sort; }
ctl policy list >"$run/wide"
on_terminal 400 80 "see:$(tail -1 "$run/wide" | awk '{print $NF}')\$" "save:$run/narrow" -- policy list
[ "$(wc -L <"$run/narrow")" -le 80 ] && [ "$(wc -L <"$run/wide")" -gt 80 ] || fail "policy list: $(cat "$run/narrow")"
diff <(words "$run/narrow") <(words "$run/wide") || fail "policy list cuts words: $(cat "$run/narrow")"

# Events have the time of day; --since leaves out earlier ones, and --follow prints later ones.
before=$(date +%s.%N)
shows '  gpu1  *VF 2  *state  *active' -- ctl events --since "$(date -d '1 hour ago' '+%Y-%m-%d %H:%M:%S')" || fail "$(ctl events --since 1h)"
json events | jq -es 'map(.gpu) == ["gpu0", "gpu1"] and all(.[].records[]; .time | test("^20..-"))' >/dev/null || fail "$(json events)"
[ -z "$(ctl events --since 0s)" ] || fail "--since does not leave out what was before: $(ctl events --since 0s)"
"$vgpuctl" --socket "$run/control.sock" -o json events --follow --limit 1 --interval 0.1 >"$run/followed" &
follower=$!
await 30 test -s "$run/followed"
ctl --gpu gpu1 policy set strict >/dev/null || fail "policy set failed"
followed() { jq -es 'any(.gpu == "gpu1" and .type == "policy" and .t_ns > $t[0].t_ns)' --slurpfile t <(head -1 "$run/followed") "$run/followed"; }
await 30 followed
kill -INT $follower
wait $follower || fail "events --follow ended with $?"
[ -z "$(sort "$run/followed" | uniq -d)" ] || fail "an event was printed twice: $(cat "$run/followed")"
at=$(date -d "$(jq -rs 'map(select(.type == "policy")) | last.time' "$run/followed")" +%s.%N)
jq -ne --argjson from "$before" --argjson at "$at" --argjson to "$(date +%s.%N)" '$from <= $at + 1 and $at <= $to + 1' >/dev/null || fail "the time of the event, $at, is not between $before and now"
