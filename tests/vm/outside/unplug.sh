# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Unplugs the GPU and plugs it in again when the test asks for it, twice.
for time in 1 2; do
	wait_for $((deadline - SECONDS)) "^LAB-UNPLUG-$time" && monitor "device_del gpu0"
	wait_for $((deadline - SECONDS)) "^LAB-PLUG-$time" && monitor "device_add softgpu,id=gpu0,bus=rp0,vfs=4,vram-mb=256"
done
