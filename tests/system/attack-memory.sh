#!/bin/bash
# SPDX-License-Identifier: MIT
# The client of one VF uses the files that it shares with its VF's process: it holds their locks, punches holes into them,
# keeps those of former partitions, lets DMA fill its own, and gives one at which everybody waits for ever, while
# three tenants compute on the other VFs. They keep their shares, wait no longer than without an attack by more than a slice
# and the grace, and are not reset; what the client keeps is given back when the next one comes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
start_tenants --vram 1G
attack_all "${*:-holes window hoard sparse locked filled huge fuse}"
