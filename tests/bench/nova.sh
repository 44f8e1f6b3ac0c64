#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures how long a server of OpenStack Nova takes from the request until it is active, with a VF and without, and the hook's part
# of it, in tests/fleet. One JSON object on stdout; nothing is asserted. Usage: VGPU_BUILD=DIR nova.sh [ROUNDS]
fleet=$(cd "$(dirname "$0")/../fleet" && pwd)
dir=$(mktemp -d /tmp/vgpud-nova.XXXXXX)
trap 'rm -rf "$dir"' EXIT
"$fleet/run" "${fleet%/tests/fleet}/build/fleet" fill "times:${1:-10}" >"$dir/out" 2>&1 || { r=$?; tail -5 "$dir/out" >&2; exit $r; }
cat "${fleet%/tests/fleet}/build/fleet/logs/figures.json"
