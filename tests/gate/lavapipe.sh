# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Sourced: Vulkan programs find the CPU's driver alone, vgpud's layer, and no window system.
export VGPUD_SOCKET=$run/control.sock VGPUD_LAYERS=$VGPU_BUILD/tools/render/layer
load=$VGPU_BUILD/tools/render/load/vgpu-vulkan
[ -x "$load" ] || { echo "skipped: this build has no Vulkan layer"; exit 77; }
export VK_DRIVER_FILES="" VK_ICD_FILENAMES=""
for f in /usr/share/vulkan/icd.d/lvp_icd*.json; do VK_DRIVER_FILES=$f VK_ICD_FILENAMES=$f; done
[ -e "$VK_DRIVER_FILES" ] || { echo "skipped: lavapipe is missing (Debian: mesa-vulkan-drivers)"; exit 77; }
unset DISPLAY WAYLAND_DISPLAY
