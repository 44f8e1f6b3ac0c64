# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Acts when the test asks for it, in this order: injects errors of PCI Express (COMP_ABORT aborts a transaction, MALF_TLP is
# fatal for the link), unplugs the GPU and plugs it in again.
asked() { wait_for $((deadline - SECONDS)) "^LAB-$1\|^LAB-RESULT" && grep -qa "^LAB-$1" "$log"; }
case $append in *hold=vfio*) asked ERROR-COMP_ABORT && monitor "pcie_aer_inject_error gpu0 COMP_ABORT" ;; esac
asked ERROR-MALF_TLP && monitor "pcie_aer_inject_error gpu0 MALF_TLP"
asked UNPLUG && monitor "device_del gpu0"
asked PLUG && monitor "device_add softgpu,id=gpu0,bus=rp0,vfs=4,vram-mb=256"
