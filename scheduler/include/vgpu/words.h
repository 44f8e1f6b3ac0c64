/* SPDX-License-Identifier: MIT */
/* Copies of memory that another CPU has just written. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* memcpy() by loads and stores. glibc copies data that fits into a cache with "rep movsb", which is
 * slow between two CPUs: half the speed on AMD's Zen 5 if the bytes are in another CPU's cache, and
 * byte by byte in QEMU's TCG. Copies four words at a time, because compilers turn simpler loops
 * into memcpy(). Any thread. */
static inline void vgpu_copy_words(void *to, const void *from, size_t bytes)
{
	typedef uint64_t word __attribute__((vector_size(16), aligned(1), may_alias));
	const word *f = from;
	word *t = to;

	for (; bytes >= 4 * sizeof(word); bytes -= 4 * sizeof(word), f += 4, t += 4) {
		word a = f[0], b = f[1], c = f[2], d = f[3];

		t[0] = a;
		t[1] = b;
		t[2] = c;
		t[3] = d;
	}
	memcpy(t, f, bytes);
}
