#!/bin/bash
# SPDX-License-Identifier: MIT
# The client of one VF makes that VF's process wait, fail, starve and die, by messages and descriptors, while three tenants
# compute on the other VFs. They keep their shares, wait no longer than without an attack by more than a slice and the grace,
# and are not reset; and the VF serves its next client.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
start_tenants
# A reset by an operator replaces a process that its client has stopped, at once.
: >"$run/attack.txt"
"$attack" lingers "$run/gpu/vf3.sock" 600 >"$run/attack.txt" 2>&1 &
attacker=$!
await 30 grep -q begun "$run/attack.txt"
# "begun" comes before the process has what it will wait for.
replaced() { ctl vf reset 3; grep -q "VF 3: its process does not answer after a reset" "$run/softgpu.log"; }
stuck=$(process_of 3)
await 30 replaced
has_next() { local p; p=$(process_of 3); [ -n "$p" ] && [ "$p" != "$stuck" ]; }
await 30 has_next # it is counted what softgpu has for it
kill $attacker 2>/dev/null
await 60 is 3 state available
kinds="interrupts registers doorbells requests maps crowd descriptors lingers resets windows silence"
[ -z "$tsan" ] || kinds="registers crowd descriptors resets silence" # in which threads have most to do with each other
attack_all "${*:-$kinds}"
