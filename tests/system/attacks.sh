#!/bin/bash
# SPDX-License-Identifier: MIT
# The client of one VF makes that VF's process wait, fail, starve and die, by messages and descriptors, while three tenants
# compute on the other VFs. They keep their shares, wait no longer than without an attack by more than a slice and the grace,
# and are not reset; and the VF serves its next client.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
start_tenants
kinds="interrupts registers doorbells requests maps crowd descriptors resets windows silence"
[ -z "$tsan" ] || kinds="registers crowd descriptors resets silence" # in which threads have most to do with each other
attack_all "${*:-$kinds}"
