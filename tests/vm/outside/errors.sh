# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the test asks for, in this order or a part of it: errors of PCI Express, one that kills a transaction and one that
# kills the link; and the hand that takes the card out and puts it back.
asked() { wait_for $((deadline - SECONDS)) "^LAB-$1\|^LAB-RESULT" && grep -qa "^LAB-$1" "$log"; }
case $append in *hold=vfio*) asked ERROR-COMP_ABORT && monitor "pcie_aer_inject_error gpu0 COMP_ABORT" ;; esac
asked ERROR-MALF_TLP && monitor "pcie_aer_inject_error gpu0 MALF_TLP"
asked UNPLUG && monitor "device_del gpu0"
asked PLUG && monitor "device_add softgpu,id=gpu0,bus=rp0,vfs=4,vram-mb=256"
