/* SPDX-License-Identifier: MIT */
/*
 * softgpu's packets as GPU kernels; no thread waits for another. kernels.ptx is compiled from this
 * file (see make-ptx). The same file is compiled for the CPU, so that hosts without a GPU test the
 * same code. Every operation is rounded, as on the CPU engine, so results are the same to the bit.
 */
#include "kernels.h"
#include "sha256_k.h"

KERNEL(fill)
{
	global u32 *dst = (global u32 *)p.a[0];
	u64 i = (u64)BLOCK * ELEMENTS + THREAD, j;

	for (j = 0; j < ELEMENTS / THREADS && i < p.a[1]; j++, i += THREADS)
		dst[i] = (u32)p.a[2];
}

KERNEL(copy8)
{
	global u64 *dst = (global u64 *)p.a[0];
	global const u64 *src = (global const u64 *)p.a[1];
	u64 i = (u64)BLOCK * ELEMENTS + THREAD, j;

	for (j = 0; j < ELEMENTS / THREADS && i < p.a[2]; j++, i += THREADS)
		dst[i] = src[i];
}

KERNEL(copy1)
{
	global u8 *dst = (global u8 *)p.a[0];
	global const u8 *src = (global const u8 *)p.a[1];
	u64 i = (u64)BLOCK * ELEMENTS + THREAD, j;

	for (j = 0; j < ELEMENTS / THREADS && i < p.a[2]; j++, i += THREADS)
		dst[i] = src[i];
}

KERNEL(saxpy)
{
	global float *y = (global float *)p.a[0];
	global const float *x = (global const float *)p.a[1];
	float a = AS_FLOAT((u32)p.a[3]);
	u64 i = (u64)BLOCK * ELEMENTS + THREAD, j;

	for (j = 0; j < ELEMENTS / THREADS && i < p.a[2]; j++, i += THREADS)
		y[i] = a * x[i] + y[i];
}

/* Arguments: c, a, b, m + n << 32, k, from + to << 32 (of k), number of the first block. A block
 * computes 16 x 16 elements. If FROM is not 0, C holds the sums so far. */
KERNEL(gemm)
{
	global float *c = (global float *)p.a[0];
	global const float *a = (global const float *)p.a[1];
	global const float *b = (global const float *)p.a[2];
	u64 m = (u32)p.a[3], n = p.a[3] >> 32, k = p.a[4], l = (u32)p.a[5], end = p.a[5] >> 32;
	u64 across = (n + 15) / 16, block = p.a[6] + BLOCK;
	u64 row = block / across * 16 + THREAD / 16, column = block % across * 16 + THREAD % 16;
	float sum;

	if (row >= m || column >= n)
		return;
	sum = l ? c[row * n + column] : 0;
	for (; l < end; l++)
		sum += a[row * k + l] * b[l * n + column];
	c[row * n + column] = sum;
}

constant u32 sha_k[64] = {SHA256_K};

INLINE u32 turn(u32 x, u32 by)
{
	return x >> by | x << (32 - by);
}

/* FIPS 180-4, section 6.2.2, for the block in W. */
INLINE void sha_rounds(global u32 *h, u32 *w)
{
	u32 v[8], s, t, i;

	for (i = 0; i < 8; i++)
		v[i] = h[i];
	for (i = 0; i < 64; i++) {
		if (i >= 16) {
			u32 x = w[(i - 15) & 15], y = w[(i - 2) & 15];

			w[i & 15] += (turn(x, 7) ^ turn(x, 18) ^ x >> 3) + w[(i - 7) & 15] +
				     (turn(y, 17) ^ turn(y, 19) ^ y >> 10);
		}
		s = v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) +
		    ((v[4] & v[5]) ^ (~v[4] & v[6])) + sha_k[i] + w[i & 15];
		t = (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) +
		    ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
		v[7] = v[6];
		v[6] = v[5];
		v[5] = v[4];
		v[4] = v[3] + s;
		v[3] = v[2];
		v[2] = v[1];
		v[1] = v[0];
		v[0] = s + t;
	}
	for (i = 0; i < 8; i++)
		h[i] += v[i];
}

/* Arguments: state, src, number of blocks, 1 if they are the first. */
KERNEL(sha256)
{
	global u32 *h = (global u32 *)p.a[0];
	global const u8 *src = (global const u8 *)p.a[1];
	u32 w[16], i;
	u64 n;

	if (THREAD != 0)
		return;
	if (p.a[3]) {
		h[0] = 0x6a09e667;
		h[1] = 0xbb67ae85;
		h[2] = 0x3c6ef372;
		h[3] = 0xa54ff53a;
		h[4] = 0x510e527f;
		h[5] = 0x9b05688c;
		h[6] = 0x1f83d9ab;
		h[7] = 0x5be0cd19;
	}
	for (n = 0; n < p.a[2]; n++, src += 64) {
		for (i = 0; i < 16; i++)
			w[i] = (u32)src[i * 4] << 24 | (u32)src[i * 4 + 1] << 16 |
			       (u32)src[i * 4 + 2] << 8 | src[i * 4 + 3];
		sha_rounds(h, w);
	}
}

/* Arguments: state, the bytes after the last whole block, number of all bytes, dst. */
KERNEL(sha256_end)
{
	global u32 *h = (global u32 *)p.a[0];
	global const u8 *tail = (global const u8 *)p.a[1];
	global u8 *dst = (global u8 *)p.a[3];
	u32 w[16], left = (u32)(p.a[2] % 64), i;

	if (THREAD != 0)
		return;
	for (i = 0; i < 16; i++)
		w[i] = 0;
	for (i = 0; i < left; i++)
		w[i / 4] |= (u32)tail[i] << (24 - i % 4 * 8);
	w[left / 4] |= 0x80u << (24 - left % 4 * 8);
	if (left >= 56) {
		sha_rounds(h, w);
		for (i = 0; i < 16; i++)
			w[i] = 0;
	}
	w[14] = (u32)(p.a[2] >> 29);
	w[15] = (u32)(p.a[2] << 3);
	sha_rounds(h, w);
	for (i = 0; i < 32; i++)
		dst[i] = (u8)(h[i / 4] >> (24 - i % 4 * 8));
}

/* Arguments: pixels, w + h << 32, x0, y0, step, iterations, number of the first pixel. */
KERNEL(mandelbrot)
{
	global u32 *pixels = (global u32 *)p.a[0];
	u64 w = (u32)p.a[1], h = p.a[1] >> 32, at = p.a[6] + (u64)BLOCK * THREADS + THREAD, i;
	double step = AS_DOUBLE(p.a[4]), cx, cy, x = 0, y = 0, t;
	u32 hue;

	if (at >= w * h)
		return;
	cx = AS_DOUBLE(p.a[2]) + step * (double)(at % w);
	cy = AS_DOUBLE(p.a[3]) + step * (double)(at / w);
	for (i = 0; i < p.a[5] && x * x + y * y <= 4; i++) {
		t = x * x - y * y + cx;
		y = 2 * x * y + cy;
		x = t;
	}
	hue = (u32)(i * 7);
	pixels[at] = i == p.a[5] ? 0xff000000
				 : 0xff000000 | (hue & 0xff) << 16 | (hue * 3 & 0xff) << 8 |
					   (hue * 11 & 0xff);
}

/* Argument: nanoseconds. */
KERNEL(spin)
{
	u64 begin = NANOSECONDS();

	if (THREAD != 0)
		return;
	while (NANOSECONDS() - begin < p.a[0])
		;
}

/* Arguments: address of a word, rounds. Counts the word up once in 2 us, which shows others whether
 * the kernel runs. */
KERNEL(count)
{
	global volatile u64 *counter = (global volatile u64 *)p.a[0];
	u64 n, begin;

	if (THREAD != 0)
		return;
	for (n = 1; n <= p.a[1]; n++) {
		for (begin = NANOSECONDS(); NANOSECONDS() - begin < 2000;)
			;
		*counter = n;
	}
}
