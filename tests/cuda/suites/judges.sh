#!/bin/bash
# SPDX-License-Identifier: MIT
# Tests that judge, on results that are made up, says of each change whether it is for the worse; and that within counts CPU time.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT
printf '%s\t%s\t%s\t%s\n' one passed 2 '' one c ours 'a reason' other d ours 'another suite' >"$at/known"
fail() { echo "FAILED: $*"; exit 1; }
judge() { # STATUS WORDS [NAME RESULT]...: judges a suite in which a and b pass and c fails, but for these
	local status=$1 words=$2 said
	shift 2
	{ printf '%s\t%s\n' "$@"; printf '%s\t%s\n' a passed b passed c 'failed: 1' s 'skipped: no'; } | awk -F'\t' '$1 != "" && !seen[$1]++ && $2 != "gone"' >"$at/results"
	said=$("$here/judge" one "$at/known" "$at/results")
	[ $? = "$status" ] && grep -q "$words" <<<"$said" || fail "judged $*: $said"
}
judge 0 '^one: 2 of 3 passed$' '' ''
judge 0 'one: 3 of 4 passed' e passed
judge 0 'one: c passes now' c passed
judge 1 'FAILED: one: b.failed: 3' b 'failed: 3'
judge 1 'FAILED: one: d.failed' d 'failed: it is known of another suite'
judge 1 'FAILED: one: x.ended with 124' x 'ended with 124' e passed
judge 1 'FAILED: one: 2 passed before' b gone
judge 1 'FAILED: one: 2 passed before' b 'skipped: now'

# A program that sleeps is ended by the clock on the wall, one that computes by the CPU's, whatever else the machine does.
"$here/within" 1 sleep 60 2>"$at/log"
[ $? = 124 ] || fail "a program that sleeps was not ended"
times >"$at/before"
"$here/within" 1 sh -c 'while :; do :; done' 2>"$at/log"
[ $? = 124 ] || fail "a program that computes was not ended"
times >"$at/after"
used=$(tail -qn 1 "$at/before" "$at/after" | awk '{ split($1, t, /[ms]/); s = t[1] * 60 + t[2] - s } END { print s }')
awk -v used="$used" 'BEGIN { exit !(used > 0.9) }' || fail "a program was ended after $used s of the CPU's time"
"$here/within" 60 sh -c 'exit 5'
[ $? = 5 ] || fail "a program's status is lost"
