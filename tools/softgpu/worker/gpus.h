/* SPDX-License-Identifier: MIT */
#ifndef WORKER_GPUS_H
#define WORKER_GPUS_H

#include <stddef.h>
#include <stdint.h>

/* Where NVIDIA's kernel driver lists its GPUs. */
#define GPUS_ROOT "/proc/driver/nvidia/gpus"

/* Finds the UUID of the GPU with the number INDEX, in the order of PCI addresses, below ROOT. With
 * it in CUDA_VISIBLE_DEVICES, libcuda opens this GPU alone: the others cost neither memory nor
 * locks, and a GPU that comes or goes does not change which one is meant. 0, or -ENOENT if the
 * driver does not list that GPU. Any thread. */
int gpus_uuid(const char *root, uint32_t index, char *uuid, size_t size);

#endif
