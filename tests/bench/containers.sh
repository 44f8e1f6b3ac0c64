#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures what a slice costs a container of podman: its start with one and without, in pairs, root's and a user's; the hook alone, on a
# container that waits for it, and a program that does nothing; attach to a container that runs, and what podman alone takes to
# say which process that is. Of each attach also its parts (podman's, vgpud's answer, vgpud-mount's), and how long vgpud and anything
# on the machine waited for a CPU meanwhile: the slowest ones are shown whole. One JSON object on stdout; nothing is asserted.
# Usage: VGPU_BUILD=DIR containers.sh [PAIRS]
# shellcheck disable=SC2046 # gpu prints several words
. "$(dirname "$0")/../system/containers-lib.sh"
pairs=${1:-200}
start_host 0
start_mount
quantiles() { jq -cs 'sort | {n: length, p50_ms: (.[length / 2 | floor] / 1000), p99_ms: (.[length * 99 / 100 | floor] / 1000)}'; }
# How much longer each was than the other of its pair, which differ by less than starts do.
differences() { paste "$1" "$2" | awk '{print $1 - $2}' | quantiles; }
# took FILE COMMAND...: appends the microseconds that it takes.
took() {
	local file=$1 from=${EPOCHREALTIME/./}
	"${@:2}" >"$run/took.txt" 2>&1 || fail "${*:2}: $(cat "$run/took.txt")"
	echo $((${EPOCHREALTIME/./} - from)) >>"$file"
}
one() { # WHO KIND OPTIONS...: a container starts, and ends
	took "$run/$1.$2" start "$1" -d "${@:3}" -- sleep 1000
	end "$1" "$(tail -1 "$run/took.txt")"
	await 20 has ""
}
for who in root tenant; do
	one $who first # what podman makes once
	for ((i = 0; i < pairs; i++)); do
		# Which one is first alternates.
		[ $((i % 2)) = 0 ] || one $who with $(gpu)
		one $who without
		[ $((i % 2)) = 1 ] || one $who with $(gpu)
	done
done

id=$(begin root $(gpu later) -- sleep 1000)
pid=$(as_root inspect --format '{{.State.Pid}}' "$id")
export VGPUD_TENANT_SOCKET=$run/tenant.sock
give() { "$hook" createRuntime --gpu gpu0 <"$run/state.json"; }
nothing() { "$hook" --version; }
inspect() { as_root inspect --format '{{.Id}} {{.State.Pid}}' "$id"; }
attach() { by root container attach "$id" --gpu gpu0; }
# From here on podman's calls say when they begin and end, as orders to vgpud-mount do when they come.
sed -i "s,^exec \(.*\),echo \$EPOCHREALTIME >>$run/times; \1; r=\$?; echo \$EPOCHREALTIME >>$run/times; exit \$r," "$run/bin/podman"
waited() { # nanoseconds that threads of vgpud have waited for a CPU; microseconds in which anything has
	echo "$(cat /proc/"$vgpud_pid"/task/*/schedstat | awk '{n += $2} END {printf "%.0f", n}') $(sed -n 's/^some.*total=//p' /proc/pressure/cpu 2>/dev/null)"
}
parts() { # an attach, and a line of what it consisted of
	local vgpud machine vgpud_now machine_now
	: >"$run/times"
	read -r vgpud machine < <(waited)
	took "$run/attach" attach
	read -r vgpud_now machine_now < <(waited)
	paste -sd' ' "$run/times" | awk -v total="$(tail -1 "$run/attach")" -v v=$((vgpud_now - vgpud)) -v m=$((${machine_now:-0} - ${machine:-0})) '{
		printf "{\"ms\": %.1f, \"podman_ms\": %.1f, \"vgpud_ms\": %.1f, \"mount_and_rest_ms\": %.1f, \"vgpud_waited_for_cpu_ms\": %.1f, \"something_waited_for_cpu_ms\": %.1f}\n",
			total / 1e3, ($2 - $1) * 1e3, ($3 - $2) * 1e3, total / 1e3 - ($3 - $1) * 1e3, v / 1e6, m / 1e3}' >>"$run/parts"
}
echo "{\"ociVersion\":\"1.0.0\",\"id\":\"$id\",\"pid\":$pid,\"root\":\"/\",\"bundle\":\"/\",\"annotations\":{\"vgpud.dev/weight\":\"200\"}}" >"$run/state.json"
for ((i = 0; i < pairs; i++)); do
	for what in nothing give inspect attach; do
		if [ $what = attach ]; then parts; else took "$run/$what" $what; fi
		has "" || by root container detach "$(running .lease)" || fail "detach"
	done
done
jq -n --argjson rw "$(quantiles <"$run/root.with")" --argjson ro "$(quantiles <"$run/root.without")" --argjson rd "$(differences "$run/root.with" "$run/root.without")" \
	--argjson tw "$(quantiles <"$run/tenant.with")" --argjson to "$(quantiles <"$run/tenant.without")" --argjson td "$(differences "$run/tenant.with" "$run/tenant.without")" \
	--argjson h "$(quantiles <"$run/give")" --argjson n "$(quantiles <"$run/nothing")" --argjson a "$(quantiles <"$run/attach")" --argjson i "$(quantiles <"$run/inspect")" \
	--argjson s "$(jq -cs 'sort_by(-.ms)[:3]' "$run/parts")" --argjson p "$(jq -cs '[(.[0] | keys_unsorted[]) as $k | {($k): (map(.[$k]) | sort | .[length / 2 | floor])}] | add' "$run/parts")" \
	--arg podman "$(podman --version), $(crun --version | head -1)" \
	'{engine: $podman, root: {with: $rw, without: $ro, difference: $rd}, user: {with: $tw, without: $to, difference: $td},
	  hook: $h, program_that_does_nothing: $n, attach: $a, podman_inspect: $i,
	  attach_parts_p50: $p, slowest_attaches: $s}'
