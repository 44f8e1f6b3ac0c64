/* SPDX-License-Identifier: MIT */
/*
 * Types that every part of vgpud uses: time, VF numbers, error texts.
 */
#ifndef VGPU_TYPES_H
#define VGPU_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds: a length of time, or an instant of CLOCK_MONOTONIC. */
typedef uint64_t vgpu_nsec;

#define VGPU_NEVER UINT64_MAX
#define VGPU_USEC UINT64_C(1000)
#define VGPU_MSEC UINT64_C(1000000)
#define VGPU_SEC UINT64_C(1000000000)

/* "No VF", wherever a VF number is expected. VFs are numbered from 0. */
#define VGPU_NO_VF UINT32_MAX

/* The largest number of VFs of one GPU. Intel's GPU Max has 63, NVIDIA's RTX PRO 6000 48; GPUs that
 * vgpud switches have fewer, because a GPU-IOV register has 32 bits, one for each VF (gpuiov.h). */
#define VGPU_GPU_MAX_VFS 64u

/* A bitmap of the VFs of one GPU. */
typedef uint64_t vgpu_vf_set;
#define VGPU_VF_BIT(vf) (UINT64_C(1) << (vf))

/* Returns the set of the VFs 0 to N - 1. */
static inline vgpu_vf_set vgpu_first_vfs(uint32_t n)
{
	return n < VGPU_GPU_MAX_VFS ? VGPU_VF_BIT(n) - 1 : UINT64_MAX;
}

/* An error message for a person: what went wrong, where, and what to do. */
struct vgpu_error {
	char text[320];
};

/*
 * Writes the sentence into ERR (NULL is allowed) and returns CODE, so that a caller can write
 * `return vgpu_error_set(err, -EINVAL, ...)`. Any thread.
 */
__attribute__((format(printf, 3, 4))) int vgpu_error_set(struct vgpu_error *err, int code,
							 const char *format, ...);

/* Puts "PREFIX: " before the sentence that ERR already holds; returns CODE. */
__attribute__((format(printf, 3, 4))) int vgpu_error_prefix(struct vgpu_error *err, int code,
							    const char *format, ...);

#endif
