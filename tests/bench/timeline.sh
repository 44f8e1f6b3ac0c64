#!/bin/bash
# SPDX-License-Identifier: MIT
# Draws docs/figures/timeline.svg: what vgpuctl shows of softgpu with four tenants of weights 300, 200, 100 and 100. The last one hogs
# the engine: its work cannot be stopped for 8 ms. The leases are those of VMs; programs compute in their place. It looks until it
# has a tenth of a second with one overrun of the hog's and what that costs it, and writes that beside the overrun. On a busy machine:
# chrt --fifo 10 tests/bench/timeline.sh. --check FILE: fails unless FILE shows that.
overrun=3    # ms beyond a grant that are seen as an overrun
others=1     # ms: no other tenant is late by as much
without=30   # ms without a turn, after it
# paid FILE: where the hog's one overrun ends, how long it was, and how long the hog has no turn after it; nothing if the picture
# does not show that, or fewer than three turns of "batch", which has the same weight, meanwhile. A pixel is 0.1 ms.
paid() {
	sed -n 's/^<rect x="\([0-9.]*\)" y="[0-9.]*" width="\([0-9.]*\)".*<title>VF \([0-9]\) \([a-z]*\) \([0-9.]*\) ms.*/\1 \2 \3 \4 \5/p' "$1" |
		sort -n | awk -v late=$overrun -v others=$others -v without=$without '
		$4 == "overrun" && $3 != 3 && $5 >= others {bad = 1}
		$4 == "overrun" && $3 == 3 && $5 >= late {n++; end = $1 + $2; ms = $5; batch = 0; next_turn = 0}
		$4 == "running" && n && $3 == 2 && !next_turn {batch++}
		$4 == "running" && n && $3 == 3 && !next_turn {next_turn = $1}
		END {if (n == 1 && !bad && batch >= 3 && (next_turn - end) / 10 >= without) printf "%.1f %.1f %.0f\n", end, ms, (next_turn - end) / 10}'
}
if [ "${1:-}" = --check ]; then
	[ -n "$(paid "$2")" ] && grep -q "beyond its grant" "$2" || { echo "$2 does not show one overrun and what it costs"; exit 1; }
	exit
fi
. "$(dirname "$0")/../system/lib.sh"
. "$(dirname "$0")/../system/hooks.sh"
figures=$(cd "$(dirname "$0")/../../docs/figures" && pwd)
start_softgpu --vfs 4 --latency "idle=10-20,save=20-40,load=20-40,run=5"
config <<-CONF
	vfs = 4
	policy = fair
	slice_us = 2000
CONF
start_vgpud
n=0
for vm in "render 300" "office 200" "batch 100" "hog 100"; do
	domain $n "$(claim "<v:device gpu='gpu0' vf='$n'/><v:sched><v:weight>${vm#* }</v:weight></v:sched>")" | sed "s/>vm$n</>${vm% *}</" |
		"$hook_program" "${vm% *}" reconnect begin - || fail "the hook failed"
	n=$((n + 1))
done
for i in 0 1 2; do start_guest g$i $i spin --us 20000 --depth 16 --seconds 300; done
start_guest hog 3 hog --us 8000 --depth 4 --seconds 300
await 30 active 4
ran_all() { [ "$(json vf list | jq '[.vfs[].dispatches] | min')" -gt 50 ]; }
await 60 ran_all
shows() { # a look at the last tenth of a second
	ctl timeline --ms 100 --svg "$run/timeline.svg" >/dev/null || fail "vgpuctl draws no timeline"
	paid "$run/timeline.svg" >"$run/paid"
	[ -s "$run/paid" ]
}
await 120 shows
read -r end ms gap <"$run/paid"
sed "s|^</svg>|<text x=\"$(awk -v x="$end" 'BEGIN {print x + 4}')\" y=\"127\" font-size=\"11\">$ms ms beyond its grant, paid for by $gap ms without a turn</text>\n&|" \
	"$run/timeline.svg" >"$figures/timeline.svg"
ctl vf list
