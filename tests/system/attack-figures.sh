#!/bin/bash
# SPDX-License-Identifier: MIT
# attack-figures.sh FILE: runs all attacks, and writes what their judges have measured to FILE, as one JSON value.
here=$(dirname "$0")
[ $# = 1 ] || { echo "usage: attack-figures.sh FILE" >&2; exit 2; }
VGPU_ATTACK_FIGURES=$(mktemp /tmp/vgpud-attacks.XXXXXX)
export VGPU_ATTACK_FIGURES
trap 'rm -f "$VGPU_ATTACK_FIGURES"' EXIT
for name in attacks attack-memory attack-process attack-worker; do "$here/$name.sh" || exit; done
jq -s --arg machine "$(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo), $(nproc) CPUs, Linux $(uname -r)" \
	'{machine: $machine, attacks: .}' "$VGPU_ATTACK_FIGURES" >"$1"
