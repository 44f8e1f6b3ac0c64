#!/bin/bash
# SPDX-License-Identifier: MIT
# Tests compare and table with builds whose benchmark only prints figures: 100 ns, give or take a tenth, from a fixed seed; now
# and then five times as much. compare must find nothing between equal builds, and a build that is a fifth slower.
set -uo pipefail
here=$(dirname "$0")
run=$(mktemp -d /tmp/vgpud-test.XXXXXX)
trap 'rm -rf "$run"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
command -v jq >/dev/null || { echo "skipped: jq is missing"; exit 77; }
build() { # NAME FACTOR SEED
	mkdir -p "$run/$1/tests/bench/figures"
	echo 0 >"$run/$1/runs"
	cat >"$run/$1/tests/bench/bench-policy" <<-SCRIPT
		#!/bin/bash
		n=\$((\$(cat "$run/$1/runs") + 1))
		echo \$n >"$run/$1/runs"
		awk -v factor=$2 -v seed=$3 -v n=\$n '
			function figure() {return factor * (90 + 20 * rand()) * (outlier ? 5 : 1)}
			BEGIN {
				srand(seed * 1000 + n)
				outlier = n == 4
				printf "{\"results\":["
				split("fair qos prio", names, " ")
				for (i = 1; i <= 3; i++)
					printf "%s{\"policy\":\"%s\",\"vfs\":64,\"load\":\"all awake\",\"median\":%f}", (i > 1 ? "," : ""), names[i], figure()
				print "]}"
			}'
	SCRIPT
	chmod +x "$run/$1/tests/bench/bench-policy"
}
# judge OLD NEW STATUS VERDICT: what compare says of all three figures.
judge() {
	local r
	"$here/compare" "$run/$1" "$run/$2" policy >"$run/said" 2>&1
	r=$?
	[ $r = "$3" ] && [ "$(grep -c "^$4 .*pick + account" "$run/said")" = 3 ] || fail "$1 and $2: compare ended with $r: $(cat "$run/said")"
}
build one 1 1
build same 1 2
build slow 1.2 3
judge one same 0 -
judge one one 0 -
judge one slow 1 WORSE
judge slow one 0 better
"$here/compare" "$run/one" "$run/slow" policy --runs 5 >"$run/said" 2>&1
[ $? = 2 ] && grep -q "too few runs" "$run/said" || fail "five pairs were enough for a judgement: $(cat "$run/said")"
echo '{"ping_pong": {"p50_us": 20}, "first_tile": {"p50_us": 50}}' >"$run/one/tests/bench/figures/guests.json"
"$here/table" "$run/one" | grep -qE 'doorbell to first tile, p50 +us +50 +20 +2.5 ' || fail "table: $("$here/table" "$run/one")"
! "$here/table" "$run/slow" || fail "table shows figures that nobody has measured"
