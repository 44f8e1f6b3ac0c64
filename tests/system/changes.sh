#!/bin/bash
# SPDX-License-Identifier: MIT
# Changes that last: until a restart and no longer, over a crash, saved into the configuration, or refused whole.
. "$(dirname "$0")/lib.sh"
saved=$run/vgpud.conf.d/zz-saved.conf
config null: <<CONF
vfs = 3
policy = fair
[vf gpu0/1]
weight = 300
CONF
restart() { # SIGNAL
	kill -"$1" $vgpud_pid
	wait $vgpud_pid 2>/dev/null
	: >"$run/vgpud.log"
	start_vgpud
}
does() { ctl "$@" >"$run/out.txt" 2>"$run/err.txt" || fail "$*: $(cat "$run/err.txt")"; }
refuses() { # WORDS COMMAND...
	local words=$1
	shift
	ctl "$@" >"$run/out.txt" 2>"$run/err.txt" && fail "$* was accepted"
	grep -qF -- "$words" "$run/err.txt" || fail "$*: '$words' is not in: $(cat "$run/err.txt")"
}
weight_is() { [ "$(vf "$1" params.weight)" = "$2" ] || fail "VF $1 has weight $(vf "$1" params.weight), not $2"; }
policy_is() { [ "$(json policy show | jq -r '.next_policy // .policy')" = "$1" ] || fail "the policy is not $1: $(json policy show | jq -c .)"; }
in_force() { [ "$(json policy show | jq -r .policy)" = "$1" ]; }
differs() { # LINES: what config diff prints
	[ "$(ctl config diff)" = "$1" ] || fail "config diff prints: $(ctl config diff)"
}
logs() { grep -qF -- "$1" "$run/vgpud.log" || fail "the log does not say: $1"; }
start_vgpud
differs "vgpud runs as configured"

# Without --save a change lasts until vgpud is restarted, and says so. A crash is no restart.
does vf set 1 weight=50
grep -q "until vgpud is restarted; --save keeps it" "$run/err.txt" || fail "vf set does not say how long it lasts: $(cat "$run/err.txt")"
differs "[vf gpu0/1] weight: runs with 50, configured 300 (a reload changes it)"
restart KILL
logs "a live change survived the crash"
weight_is 1 50
does policy set wdrr
does vf set 2 weight=70
restart SYS
policy_is wdrr
weight_is 1 50
weight_is 2 70
kill $vgpud_pid; wait $vgpud_pid
logs "policy wdrr was not saved, and is lost: the next vgpud begins with fair gpu=gpu0"
logs "weight = 50 was not saved, and is lost"
logs "weight = 70 was not saved, and is lost: the next vgpud begins with 100 gpu=gpu0 vf=2"
[ ! -e "$run/live.json" ] || fail "live.json outlived a clean end"
: >"$run/vgpud.log"
start_vgpud
policy_is fair
weight_is 1 300
weight_is 2 100

# What another policy would promise, as it then does: the same shares, and bounds for lag that grow with how late VFs stop.
does vf set 1 weight=350
promises() { json policy explain "$@" | jq -c '[.policy, .in_force, [.vfs[] | [.share_numerator / .share_denominator, .params]]]'; }
bounds() { json policy explain "$@" | jq -c '[.vfs[].lag_bound_ns, .vfs[].wait_bound_ns]'; }
would=$(promises wdrr)
before=$(bounds wdrr)
[ "$(json policy explain qos | jq -c '.vfs[1].params | [.weight, .min_ppm]')" = "[350,0]" ] || fail "qos would not have VF 1's weight alone: $(json policy explain qos)"
policy_is fair
[ "$(promises)" = "$(promises fair)" ] || fail "explain fair is not about the policy in force: $(promises fair)"
[ "$(jq -r '.[2][1][0] * 550 == 350' <<<"$would")" = true ] || fail "wdrr would not promise VF 1 its present weight: $would"
does policy set wdrr
policy_is wdrr
await 30 in_force wdrr
[ "$(promises)" = "${would/false/true}" ] || fail "wdrr promises $(promises), and said before: $would"
jq -ne --argjson b "$before" --argjson a "$(bounds)" '[$b, $a] | map(.[:3]) | transpose | all(.[0] <= .[1] and .[0] > 0)' >/dev/null || fail "wdrr's bounds for lag are $(bounds), and were said to begin with $before"
jq -ne --argjson a "$(bounds wdrr quantum_us=4000)" --argjson b "$(bounds wdrr quantum_us=40000)" '[$a, $b] | transpose | all(.[0] < .[1])' >/dev/null ||
	fail "a longer quantum does not lengthen the waits: $(bounds wdrr quantum_us=40000)"
refuses "policy wdrr: slice_us: no such parameter" policy explain wdrr slice_us=1000
does policy set qos
does vf set 0 min=60 period_ms=300
grep -q "^min_ppm *600000 (60 %)$" "$run/out.txt" || fail "a guarantee in percent is shown as $(cat "$run/out.txt")"
refuses "VF 0: policy qos: " policy explain qos cap_pct=30
# What each policy promises reads true: no share of nothing, no number without its unit, and what it does not promise is "-".
await 30 in_force qos
ctl policy explain | grep -q ' 60 % of each 300 ms ' || fail "a guarantee of 60 % is explained otherwise: $(ctl policy explain)"
does vf set 0 min_ppm=0
does vf set 2 weight=100
explained() { # POLICY PATTERN...: each is a line of what "policy explain" prints
	local pattern name=${1%% *}
	does policy explain $1
	grep -qE '^gpu0, policy '"$name" "$run/out.txt" || fail "explain $1: $(cat "$run/out.txt")"
	grep -E '(^|[^0-9])0\.00 %|nan|inf|-0\.' "$run/out.txt" && fail "explain $1 prints a number that is none: $(cat "$run/out.txt")"
	sed -n '/^[0-9]/p' "$run/out.txt" | sed -E 's/[0-9.]+ (us|ms|%|times)//g; s/^[0-9]+ //; s/class [0-9]//g' | grep -E '[0-9]' && fail "explain $1 prints a number without a unit: $(cat "$run/out.txt")"
	for pattern in "${@:2}"; do grep -qE -- "$pattern" "$run/out.txt" || fail "explain $1: no line is '$pattern': $(cat "$run/out.txt")"; done
}
third='^[0-2]   -   33\.33 %   +[0-9.]+ ms  +[0-9.]+ ms +- +-$'
explained fair '^1   -   63\.64 %  +[0-9.]+ ms +[0-9.]+ ms +- +-$' '^2   -   18\.18 % '
explained wdrr '^1   -   63\.64 %  +[0-9.]+ ms +[0-9.]+ ms +- +-$'
explained strict "$third"
explained equal "$third"
explained best-effort '^0   - +- +- +- +- +-$' '^best-effort promises nothing: VFs with work take turns\.$'
explained prio '^1   -   63\.64 % of class 4 +- +[0-9.]+ ms +- +-$' '^SHARE: part of what its class gets'
explained qos '^1   -   63\.64 % ' '^A VF has this share at least'
explained deadline '^1   - +- +- +- +- +-$' '^No VF has a budget: all take turns, and nothing is promised\.$'
does policy set deadline
await 30 in_force deadline
does vf set 0 budget_us=50000 period_us=200000
does vf set 1 budget_us=30000 period_us=300000
# Of the sum, the test itself computes: 50/200 + 30/300, and two world switches in each period; unless switches have just been
# measured anew between the two answers.
sum_is_right() {
	local most
	most=$(json policy explain | jq '.switch_high_ns as $w | (50/200 + 30/300 + 2 * $w / 200e6 + 2 * $w / 300e6) * 100 * 100 | round / 100')
	ctl policy explain deadline | grep -q "^Budgets and their world switches take at most $(printf %.2f "$most") % of the engine's time; VFs without$"
}
await 30 sum_is_right
explained deadline '^0   -   25\.00 % +- +[0-9.]+ ms +50000 us in each 200000 us +-$' '^1   -   10\.00 % ' '^2   - +- +- +- +- +-$'
explained "deadline reclaim=grub cap_pct=80" "^Budgets and their world switches take at most 80.00 % of the engine's time; VFs without$"
[ "$(json policy explain | jq -c '[.vfs[].share_of]')" = '["period","period",null]' ] || fail "share_of: $(json policy explain)"
# What is not promised is not shown as a share elsewhere either.
[ "$(ctl vf list | awk '$1 ~ /^[0-9]/ && /available|active/ {print $0}' | grep -c ' 0\.00 %  *[0-9.-]* ')" = 0 ] || fail "vf list: $(ctl vf list)"
does vf set 0 budget_us=0
does vf set 1 budget_us=0
does policy set fair
does vf set 1 weight=300
await 30 in_force fair

# With --save it stays, with date and reason; a live change beside it is not saved along.
does vf set 2 weight=60
does vf set 1 weight=75 --save --reason "night shift"
does policy set slice_us=2000 --save
restart TERM
weight_is 1 75
weight_is 2 100
differs "vgpud runs as configured"
grep -qE '^# 20[0-9-]+ [0-9:]+ UTC, by uid 0: night shift$' "$saved" || fail "the saved weight has no date or reason: $(cat "$saved")"
[ "$(json policy show | jq .values.slice_us)" = 2000 ] || fail "the saved slice_us is lost"
does vf set 1 weight=80 --save
[ "$(grep -c weight "$saved")" = 1 ] || fail "a key is saved twice: $(cat "$saved")"

# What cannot be saved is not changed either, and nothing that was saved is touched.
kept=$(cat "$saved")
refuses "weight = 0: want 1 to 10000" vf set 1 weight=0 --save
refuses "policy strict: weight: no such parameter" policy set strict --save
refuses "reason: want one line" vf set 1 weight=9 --save --reason "two
lines"
refuses "reason: only with save" vf set 1 weight=9 --reason why
printf '[vf gpu0/1]\nweight = 1\n' >"$run/vgpud.conf.d/zzz.conf"
refuses "a drop-in that is read after zz-saved.conf sets the same key" vf set 1 weight=9 --save
rm "$run/vgpud.conf.d/zzz.conf"
echo "include = other" >>"$saved"
kept=$(cat "$saved")
refuses "the configuration would be wrong" vf set 1 weight=9 --save
[ "$(cat "$saved")" = "$kept" ] || fail "a refused change has touched $saved: $(cat "$saved")"
weight_is 1 80
policy_is fair
# A saved policy takes the saved parameters of the one before it along.
sed -i /include/d "$saved"
sed -i '/^\[vf/,$d' "$run/vgpud.conf"
restart TERM
weight_is 1 80
does policy set strict slice_us=3000 --save
restart KILL
policy_is strict
grep -q weight "$saved" && fail "a parameter of the former policy is still saved: $(cat "$saved")"
differs "vgpud runs as configured"

# A reload puts the files into force as a whole, and says what needs a restart; with a mistake in them it changes nothing.
rm "$saved"
sed -i 's/^policy = .*/policy = qos\nslice_us = 2500\nspin_us = 10/' "$run/vgpud.conf"
# So much of a long period is left that switches that take ten times as long with a sanitizer change no answer.
printf '[vf gpu0/0]\nperiod_ms = 300\nmin_ppm = 500000\n[vf gpu0/1]\nperiod_ms = 300\nmin_ppm = 50000\n' >>"$run/vgpud.conf"
does config reload
policy_is qos
grep -qF "[gpu gpu0] policy: runs with strict, configured qos (changed now)" "$run/out.txt" &&
	grep -qF "[gpu gpu0] spin_us: runs with 0, configured 10 (needs a restart)" "$run/out.txt" || fail "config reload says: $(cat "$run/out.txt")"
differs "[gpu gpu0] spin_us: runs with 0, configured 10 (needs a restart)"
# VF 1 has room for its guarantee only together with VF 0's change.
sed -i 's/min_ppm = 500000/min_ppm = 5/; s/min_ppm = 50000$/min_ppm = 500000/; s/min_ppm = 5$/min_ppm = 50000/' "$run/vgpud.conf"
does config reload
await 30 is 1 params.min_ppm 500000 # at the end of the present slice
cp "$run/vgpud.conf" "$run/good.conf"
printf '[vf gpu0/2]\nmin_ppm = 600000\n' >>"$run/vgpud.conf"
refuses "[vf gpu0/2], with the VFs before it: policy qos" config reload
sed -i 's/slice_us = 2500/slice_us = 1/; s/^vfs = 3/vfs = many/' "$run/vgpud.conf"
refuses "vfs = many: want" config reload
[ "$(json policy show | jq .values.slice_us)" = 2500 ] && [ "$(vf 2 params.min_ppm)" = 0 ] || fail "a refused reload has changed something: $(ctl vf list)"
# A GPU that is lost refuses nothing, and keeps no other from its values.
cp "$run/good.conf" "$run/vgpud.conf"
start_softgpu --vfs 2
printf '[gpu gpu1]\ndevice = vfio-user:%s\nvfs = 2\n' "$run/gpu/pf.sock" >>"$run/vgpud.conf"
restart TERM
kill -9 $softgpu_pid
is_lost() { [ "$(json --gpu gpu1 gpu show | jq -r .state)" = lost ]; }
await 30 is_lost
sed -i 's/slice_us = 2500/slice_us = 2600/; /pf.sock/a slice_us = 3000' "$run/vgpud.conf"
does config reload
has_new() { [ "$(json --gpu gpu0 policy show | jq -c '[.values.slice_us, .next_policy]')" = '[2600,null]' ]; }
await 30 has_new
# A GPU whose firmware schedules: what no firmware can do is neither saved nor put into force.
printf '[daemon]\nsocket = %s\n[gpu gpu0]\ndevice = null-firmware:\nvfs = 2\npolicy = fair\n' "$run/control.sock" >"$run/vgpud.conf"
restart TERM
does vf set 1 weight=300 --save
kept=$(cat "$saved")
refuses "latency_slice_us: firmware gives each VF one turn" vf set 1 latency_slice_us=2000 --save
cp "$run/vgpud.conf" "$run/good.conf"
sed -i 's/^policy = .*/policy = qos/' "$run/vgpud.conf"
printf '[vf gpu0/0]\nmax_ppm = 500000\n' >>"$run/vgpud.conf"
refuses "policy qos: max: firmware gives the turns of VFs without work to the others" config reload
policy_is fair
[ "$(cat "$saved")" = "$kept" ] || fail "a refused change has touched $saved: $(cat "$saved")"
cp "$run/good.conf" "$run/vgpud.conf"
does config reload
does vf set 0 weight=50
restart KILL
weight_is 0 50
weight_is 1 300
[ -z "$(find "$run" -name '*.new')" ] || fail "files were left: $(find "$run" -name '*.new')"
