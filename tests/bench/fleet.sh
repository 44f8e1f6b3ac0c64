#!/bin/bash
# SPDX-License-Identifier: MIT
# Places servers on many hosts in virtual time (vgpu-sim fleet; docs/fleet.md): how full fleets get, how often hosts refuse what a
# scheduler that knows only sums has sent, and what it costs as hosts grow. One JSON object on stdout; nothing is asserted. Only
# us_per_server depends on the machine.
# Usage: VGPU_BUILD=DIR fleet.sh [LARGEST: hosts, 10000]
. "$(dirname "$0")/../system/lib.sh"
largest=${1:-10000}
fleet() { "$VGPU_BUILD/tools/sim/vgpu-sim" fleet "$@" --json || fail "vgpu-sim fleet $*"; }
offers=$(for vfs in 2 4 6 8 12 16 24 31; do fleet vfs=$vfs hosts=1; done | jq -c '{vfs, share_total, share_least}' | jq -cs .)
full=$(for mix in halves desktops any; do for weigher in spread pack; do
	fleet hosts=100 mix=$mix weigher=$weigher
done; done | jq -c '{mix, weigher, placed, used_pct, whole_gpus_pct, profiles_pct}' | jq -cs .)
refusals=$(while read -r words; do
	# shellcheck disable=SC2086
	fleet servers=20000 $words
done <<-CASES | jq -c '{hosts, gpus, providers, choice, weigher, placement, mix, arrived, no_host, gave_up, refused, refused_shares, refused_memory, refused_pct, used_pct}' | jq -cs .
	hosts=100
	hosts=100 placement=profile
	hosts=100 weigher=pack
	hosts=100 weigher=pack placement=profile
	hosts=100 mix=desktops
	hosts=100 mix=desktops vfs=16
	hosts=100 mix=any
	hosts=100 mix=any weigher=pack
	hosts=25 gpus=4 placement=profile
	hosts=25 gpus=4 placement=profile weigher=pack
	hosts=25 gpus=4 placement=profile providers=gpus
	hosts=25 gpus=4 placement=profile providers=gpus weigher=pack
	hosts=25 gpus=4 placement=profile providers=gpus choice=host
	hosts=25 gpus=4 placement=profile providers=gpus choice=host weigher=pack
CASES
)
scale=$(for ((hosts = 10; hosts <= largest; hosts *= 10)); do
	fleet hosts=$hosts placement=profile servers=$((hosts * 20))
done | jq -c '{hosts, arrived, no_host, refused, candidates, used_pct, us_per_server}' | jq -cs .)
jq -n --arg machine "$(this_machine)" --argjson offers "$offers" --argjson full "$full" --argjson refusals "$refusals" --argjson scale "$scale" \
	'{bench: "fleet", machine: $machine, switch_us: 100, load_pct: 90, offers: $offers, full: $full, refusals: $refusals, scale: $scale}'
