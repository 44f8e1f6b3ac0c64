# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# PCI Express errors, when the test asks for them: one that kills a transaction, and one that kills the link.
for error in COMP_ABORT MALF_TLP; do
	wait_for $((deadline - SECONDS)) "^LAB-ERROR-$error" && monitor "pcie_aer_inject_error gpu0 $error"
done
