#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures what a slice costs a container of podman: its start with one and without, in pairs, root's and a user's; the hook alone, on a
# container that waits for it, and a program that does nothing; attach to a container that runs, and what podman alone takes to
# say which process that is. One JSON object on stdout; nothing is asserted.
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
echo "{\"ociVersion\":\"1.0.0\",\"id\":\"$id\",\"pid\":$pid,\"root\":\"/\",\"bundle\":\"/\",\"annotations\":{\"vgpud.dev/weight\":\"200\"}}" >"$run/state.json"
for ((i = 0; i < pairs; i++)); do
	for what in nothing give inspect attach; do
		took "$run/$what" $what
		has "" || by root container detach "$(running .lease)" || fail "detach"
	done
done
jq -n --argjson rw "$(quantiles <"$run/root.with")" --argjson ro "$(quantiles <"$run/root.without")" --argjson rd "$(differences "$run/root.with" "$run/root.without")" \
	--argjson tw "$(quantiles <"$run/tenant.with")" --argjson to "$(quantiles <"$run/tenant.without")" --argjson td "$(differences "$run/tenant.with" "$run/tenant.without")" \
	--argjson h "$(quantiles <"$run/give")" --argjson n "$(quantiles <"$run/nothing")" --argjson a "$(quantiles <"$run/attach")" --argjson i "$(quantiles <"$run/inspect")" \
	--arg podman "$(podman --version), $(crun --version | head -1)" \
	'{engine: $podman, root: {with: $rw, without: $ro, difference: $rd}, user: {with: $tw, without: $to, difference: $td},
	  hook: $h, program_that_does_nothing: $n, attach: $a, podman_inspect: $i}'
