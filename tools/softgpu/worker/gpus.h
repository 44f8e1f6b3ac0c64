/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Where NVIDIA's kernel driver lists its GPUs. */
#define GPUS_ROOT "/proc/driver/nvidia/gpus"

/* Finds the UUID of the GPU with the number INDEX, in the order of PCI addresses, below ROOT. With
 * it in CUDA_VISIBLE_DEVICES, libcuda opens this GPU alone: the others cost neither memory nor
 * locks, and a GPU that comes or goes does not change which one is meant. Returns 0, or -ENOENT if
 * the driver does not list that GPU. Any thread. */
int gpus_uuid(const char *root, uint32_t index, char *uuid, size_t size);
/* Opens the file of the same GPU in the directory DEV. As long as a program has it open, the driver
 * keeps the GPU initialised; otherwise it takes seconds to start whenever the last worker has
 * ended. Returns the descriptor, which is the caller's; -ENOENT if the driver does not list that
 * GPU; or another -errno of opening the file, whose path is in PATH. Any thread. */
int gpus_open(const char *root, const char *dev, uint32_t index, char *path, size_t size);
