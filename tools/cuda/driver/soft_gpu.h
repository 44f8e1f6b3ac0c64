/* SPDX-License-Identifier: MIT */
/*
 * One GPU for all processes that use the CUDA driver in software, and a resource manager of
 * NVIDIA's in software. They exist if SOFT_CUDA_RM names a file of at least a page, which the
 * processes share.
 *
 * GPU kernels of different processes take turns, each for the time slice of its channel group. The
 * resource manager serves ioctl() as the kernel does: a system call filter traps those of NVIDIA's
 * type. It refuses to stop channels, as to a caller without the right to; it sets time slices. With
 * SOFT_CUDA_INERT they have no effect, as on some GPUs. With SOFT_CUDA_STICKS a soft stop fails
 * half way, and cannot be undone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Opens the GPU and makes this process's channels, as libcuda does. Returns false on failure; true
 * also without SOFT_CUDA_RM. Called once, by the thread that makes all others. */
bool soft_gpu_open(void);

/* Called by the executing thread, which has the GPU from take to give. Without SOFT_CUDA_RM they do
 * nothing. */
void soft_gpu_take(void);
void soft_gpu_give(void);
/* Returns the function that gives the GPU to other processes when it is their turn; the executing
 * thread calls it in the middle of GPU kernels. NULL without SOFT_CUDA_RM. */
void (*soft_gpu_pauses(void))(void *);

/* soft_rm.c: makes the channels. Returns false on failure. */
bool soft_rm_open(void);
/* Returns the time slice of the group that computes, us. Any thread. */
uint64_t soft_rm_timeslice(void);
