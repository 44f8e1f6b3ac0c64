/* SPDX-License-Identifier: MIT */
#include "jobs.h"

#include <string.h>

#include "sha256.h"

#define N 20011u /* elements; not a multiple of a block */
#define M_ 67u
#define K_ 1500u /* deeper than one piece */
#define L_ 45u
#define W_ 173u
#define H_ 61u
#define DEEP 300u

static float sample(uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;

	x ^= x >> 31;
	return (float)(x % 2001) / 1000.0f - 1.0f;
}

static uint64_t bits_of_float(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static uint64_t bits_of_double(double d)
{
	uint64_t u;

	memcpy(&u, &d, sizeof(u));
	return u;
}

static void floats(uint8_t *slot, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		((float *)slot)[i] = sample(i);
}

static void noise(uint8_t *slot)
{
	uint64_t i;

	for (i = 0; i < 4 * N; i++)
		slot[i] = (uint8_t)(i * 31 + (i >> 8));
}

static void fill_expect(uint8_t *slot)
{
	uint32_t i;

	for (i = 0; i < N; i++)
		((uint32_t *)slot)[i] = 0xdeadbeef;
}

static void copy_expect(uint8_t *slot)
{
	memcpy(slot + 8 * N, slot, 4 * N);
}

static void copy_odd_expect(uint8_t *slot)
{
	memcpy(slot + 8 * N + 1, slot + 3, 4 * N - 5);
}

static void saxpy_fill(uint8_t *slot)
{
	floats(slot, 2 * N);
}

static void saxpy_expect(uint8_t *slot)
{
	float *y = (float *)slot, *x = y + N;
	uint32_t i;

	for (i = 0; i < N; i++) {
		float product = 1.7f * x[i];

		y[i] = product + y[i];
	}
}

static void gemm_fill(uint8_t *slot)
{
	floats(slot, M_ * L_ + M_ * K_ + K_ * L_);
}

static void gemm_expect(uint8_t *slot)
{
	float *c = (float *)slot, *a = c + M_ * L_, *b = a + M_ * K_;
	uint32_t i, j, k;

	for (i = 0; i < M_; i++) {
		for (j = 0; j < L_; j++) {
			float sum = 0;

			for (k = 0; k < K_; k++) {
				float product = a[i * K_ + k] * b[k * L_ + j];

				sum = sum + product;
			}
			c[i * L_ + j] = sum;
		}
	}
}

static void sha_of(uint8_t *slot, uint64_t n)
{
	uint32_t state[8];
	uint64_t i;

	sha256_begin(state);
	for (i = 0; i + 64 <= n; i += 64)
		sha256_block(state, slot + i);
	sha256_end(state, slot + i, n, slot + 8 * N);
}

static void sha_expect(uint8_t *slot)
{
	sha_of(slot, 4 * N - 1);
}

static void sha_short_expect(uint8_t *slot)
{
	sha_of(slot, 57);
}

static void sha_empty_expect(uint8_t *slot)
{
	sha_of(slot, 0);
}

#define X0 (-2.0)
#define Y0 (-1.1)
#define STEP_ 0.017

static void mandelbrot_expect(uint8_t *slot)
{
	uint32_t *out = (uint32_t *)slot, i, k;

	for (i = 0; i < W_ * H_; i++) {
		double cx = X0 + STEP_ * (double)(i % W_), cy = Y0 + STEP_ * (double)(i / W_);
		double x = 0, y = 0, t;
		uint32_t hue;

		for (k = 0; k < DEEP && x * x + y * y <= 4; k++) {
			t = x * x - y * y + cx;
			y = 2 * x * y + cy;
			x = t;
		}
		hue = k * 7;
		out[i] = k == DEEP ? 0xff000000
				   : 0xff000000 | (hue & 0xff) << 16 | (hue * 3 & 0xff) << 8 |
					     (hue * 11 & 0xff);
	}
}

static void count_expect(uint8_t *slot)
{
	*(uint64_t *)slot = 500;
}

struct job jobs[JOBS] = {
	{"FILL", {SOFTGPU_FILL, 0, {0, 4 * N, 0xdeadbeef}}, 1, 4 * N, 4 * N, noise, fill_expect},
	{"COPY", {SOFTGPU_COPY, 0, {8 * N, 0, 4 * N}}, 3, 4 * N, 12 * N, noise, copy_expect},
	{"COPY odd",
	 {SOFTGPU_COPY, 0, {8 * N + 1, 3, 4 * N - 5}},
	 3,
	 4 * N,
	 12 * N,
	 noise,
	 copy_odd_expect},
	{"SAXPY", {SOFTGPU_SAXPY, 0, {0, 4 * N, N}}, 3, 8 * N, 8 * N, saxpy_fill, saxpy_expect},
	{"GEMM",
	 {SOFTGPU_GEMM, 0, {0, 4 * M_ *L_, 4 * (M_ * L_ + M_ * K_), M_ | (uint64_t)L_ << 32, K_}},
	 7,
	 4 * (M_ * L_ + M_ * K_ + K_ * L_),
	 4 * (M_ * L_ + M_ * K_ + K_ * L_),
	 gemm_fill,
	 gemm_expect},
	{"SHA256",
	 {SOFTGPU_SHA256, 0, {8 * N, 0, 4 * N - 1}},
	 3,
	 4 * N,
	 8 * N + 32,
	 noise,
	 sha_expect},
	{"SHA256 short",
	 {SOFTGPU_SHA256, 0, {8 * N, 0, 57}},
	 3,
	 4 * N,
	 8 * N + 32,
	 noise,
	 sha_short_expect},
	{"SHA256 empty",
	 {SOFTGPU_SHA256, 0, {8 * N, 0, 0}},
	 3,
	 4 * N,
	 8 * N + 32,
	 noise,
	 sha_empty_expect},
	{"MANDELBROT",
	 {SOFTGPU_MANDELBROT, 0, {0, W_ | (uint64_t)H_ << 32, 0, 0, 0, DEEP}},
	 1,
	 0,
	 4 * W_ *H_,
	 NULL,
	 mandelbrot_expect},
	{"COUNT", {SOFTGPU_COUNT, 0, {0, 500}}, 1, 8, 8, NULL, count_expect},
};

void jobs_begin(void)
{
	jobs[3].packet.arg[3] = bits_of_float(1.7f);
	jobs[8].packet.arg[2] = bits_of_double(X0);
	jobs[8].packet.arg[3] = bits_of_double(Y0);
	jobs[8].packet.arg[4] = bits_of_double(STEP_);
}
