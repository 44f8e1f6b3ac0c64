#!/bin/bash
# SPDX-License-Identifier: MIT
# attack-worker.sh with descriptors, where the kernel refuses none: softgpu neither receives nor closes them itself.
OLD_KERNEL=yes exec "$(dirname "$0")/attack-worker.sh" lingers
