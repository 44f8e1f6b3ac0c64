/* SPDX-License-Identifier: MIT */
/* Copies of memory that another CPU has just written. */
#ifndef VGPU_WORDS_H
#define VGPU_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* memcpy(), by loads and stores. glibc copies what fits into a cache with "rep movsb", which two
 * CPUs do slowly: AMD's Zen 5 at half of the speed where another CPU's cache has the bytes, and
 * QEMU's TCG byte by byte. Four words at a time, because compilers make a memcpy() of one. Any
 * thread. */
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

#endif
