/* SPDX-License-Identifier: MIT */
/*
 * Lets kernels.cl compile both to PTX (as OpenCL C, by clang) and for the CPU (as C). On the CPU, a
 * call is one thread of a grid; two variables hold the numbers of its block and thread.
 */
#pragma once

#include "grid.h"

#ifdef __OPENCL_C_VERSION__
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;
struct kernel_args {
	u64 a[8];
};
#define KERNEL(name) __kernel void name(struct kernel_args p)
#define BLOCK __nvvm_read_ptx_sreg_ctaid_x()
#define THREAD __nvvm_read_ptx_sreg_tid_x()
#define AS_FLOAT(x) __builtin_astype((x), float)
#define AS_DOUBLE(x) __builtin_astype((x), double)
#define INLINE static inline
static inline u64 nanoseconds(void)
{
	u64 t;

	__asm__ volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}
#define NANOSECONDS() nanoseconds()
#else
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "device.h"
/* The types of data in guest memory are the guest's choice, so these types may alias all others. */
typedef uint8_t u8;
typedef uint32_t __attribute__((may_alias)) u32;
typedef uint64_t __attribute__((may_alias)) u64;
typedef float __attribute__((may_alias)) guest_float;
#define float guest_float
#define global
#define constant static const
#define INLINE static inline

extern _Thread_local uint32_t kernel_block, kernel_thread;
#define KERNEL(name)                                                                               \
	void kernel_##name(struct kernel_args p);                                                  \
	void kernel_##name(struct kernel_args p)
#define BLOCK kernel_block
#define THREAD kernel_thread
static inline float as_float(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}
static inline double as_double(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}
#define AS_FLOAT(x) as_float(x)
#define AS_DOUBLE(x) as_double(x)
static inline uint64_t nanoseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
#define NANOSECONDS() nanoseconds()
#endif
