/* SPDX-License-Identifier: MIT */
/*
 * Executes packets in tiles, which are so short that a VF is preempted only between two of them. A
 * tile uses a copy of the packet, which was checked once and which the guest cannot change. All
 * progress is in struct job, so that a packet can be saved and continued after any tile. Results do
 * not depend on how often that happens, because the order of operations does not.
 */
#include <string.h>

#include "sha256.h"
#include "vf.h"
#include "vgpu/clock.h"

#define TILE_BYTES 16384u
#define TILE_SHA 2048u
#define TILE_ITERATIONS 4096u
#define TILE_NS 20000u
#define GEMM_EDGE 16u
#define GEMM_DEPTH 64u

/* The types of data in guest memory are the guest's choice, so these types may alias all others. */
typedef float __attribute__((may_alias)) guest_float;
typedef uint32_t __attribute__((may_alias)) guest_word;

static float as_float(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float f;

	memcpy(&f, &low, sizeof(f));
	return f;
}

static double as_double(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}

static uint64_t chunk(const struct job *job, uint64_t total)
{
	return total - job->at < TILE_BYTES ? total - job->at : TILE_BYTES;
}

static enum tile advance(struct job *job, uint64_t by, uint64_t total)
{
	job->at += by;
	return job->at >= total ? TILE_DONE : TILE_MORE;
}

static enum tile fill(const struct vf *vf, struct job *job)
{
	const uint64_t *a = job->packet.arg;
	uint64_t n = chunk(job, a[1]), i;
	guest_word *p = (guest_word *)(vf->memory + a[0] + job->at);

	for (i = 0; i < n / 4; i++)
		p[i] = (uint32_t)a[2];
	return advance(job, n, a[1]);
}

static enum tile copy(const struct vf *vf, struct job *job)
{
	const uint64_t *a = job->packet.arg;
	uint64_t n = chunk(job, a[2]);

	memcpy(vf->memory + a[0] + job->at, vf->memory + a[1] + job->at, n);
	return advance(job, n, a[2]);
}

static enum tile saxpy(const struct vf *vf, struct job *job)
{
	const uint64_t *a = job->packet.arg;
	guest_float *y = (guest_float *)(vf->memory + a[0]) + job->at;
	const guest_float *x = (const guest_float *)(vf->memory + a[1]) + job->at;
	uint64_t n = a[2] - job->at < TILE_BYTES / 8 ? a[2] - job->at : TILE_BYTES / 8, i;
	float alpha = as_float(a[3]);

	for (i = 0; i < n; i++)
		y[i] = alpha * x[i] + y[i];
	return advance(job, n, a[2]);
}

/* Returns the number of blocks of N rows or columns. */
static uint64_t blocks(uint64_t n)
{
	return (n + GEMM_EDGE - 1) / GEMM_EDGE;
}

/* Computes GEMM_DEPTH products for each element of one block of C. The partial sums stay in the job
 * until the block is done. */
static enum tile gemm(const struct vf *vf, struct job *job)
{
	const uint64_t *arg = job->packet.arg;
	uint64_t m = (uint32_t)arg[3], n = arg[3] >> 32, k = arg[4];
	uint64_t across = blocks(n), down = blocks(m);
	uint64_t row = job->at / across * GEMM_EDGE, column = job->at % across * GEMM_EDGE;
	uint64_t rows = m - row < GEMM_EDGE ? m - row : GEMM_EDGE;
	uint64_t columns = n - column < GEMM_EDGE ? n - column : GEMM_EDGE;
	uint64_t depth = k - job->inner < GEMM_DEPTH ? k - job->inner : GEMM_DEPTH, i, j, l;
	guest_float *c = (guest_float *)(vf->memory + arg[0]);
	const guest_float *a = (const guest_float *)(vf->memory + arg[1]);
	const guest_float *b = (const guest_float *)(vf->memory + arg[2]);

	if (job->inner == 0)
		memset(job->acc, 0, sizeof(job->acc));
	for (i = 0; i < rows; i++) {
		for (l = job->inner; l < job->inner + depth; l++) {
			float left = a[(row + i) * k + l];

			for (j = 0; j < columns; j++)
				job->acc[i * GEMM_EDGE + j] += left * b[l * n + column + j];
		}
	}
	job->inner += depth;
	if (job->inner < k)
		return TILE_MORE;
	for (i = 0; i < rows; i++)
		for (j = 0; j < columns; j++)
			c[(row + i) * n + column + j] = job->acc[i * GEMM_EDGE + j];
	job->inner = 0;
	return advance(job, 1, across * down);
}

static enum tile sha256(const struct vf *vf, struct job *job)
{
	const uint64_t *a = job->packet.arg;
	uint64_t whole = a[2] / 64 * 64, end = job->at + TILE_SHA;
	uint8_t block[64], digest[32];

	if (job->at == 0 && !job->inner) {
		sha256_begin(job->sha);
		job->inner = 1;
	}
	for (; job->at < whole && job->at < end; job->at += 64) {
		memcpy(block, vf->memory + a[1] + job->at, 64);
		sha256_block(job->sha, block);
	}
	if (job->at < whole)
		return TILE_MORE;
	memcpy(block, vf->memory + a[1] + whole, a[2] - whole);
	sha256_end(job->sha, block, a[2], digest);
	memcpy(vf->memory + a[0], digest, sizeof(digest));
	return TILE_DONE;
}

/* Returns the colour of a pixel after I iterations, which docs/softgpu-interface.md defines. */
static uint32_t colour(uint64_t i, uint64_t most)
{
	uint32_t t = (uint32_t)(i * 7);

	if (i == most)
		return 0xff000000;
	return 0xff000000 | (t & 0xff) << 16 | (t * 3 & 0xff) << 8 | (t * 11 & 0xff);
}

static enum tile mandelbrot(const struct vf *vf, struct job *job)
{
	const uint64_t *a = job->packet.arg;
	uint64_t w = (uint32_t)a[1], h = a[1] >> 32, left = TILE_ITERATIONS;
	double x0 = as_double(a[2]), y0 = as_double(a[3]), step = as_double(a[4]), cx, cy, t;
	guest_word *pixels = (guest_word *)(vf->memory + a[0]);

	while (left > 0) {
		cx = x0 + step * (double)(job->at % w);
		cy = y0 + step * (double)(job->at / w);
		if (job->inner == 0)
			job->z.x = job->z.y = 0;
		while (left > 0 && job->inner < a[5] &&
		       job->z.x * job->z.x + job->z.y * job->z.y <= 4) {
			t = job->z.x * job->z.x - job->z.y * job->z.y + cx;
			job->z.y = 2 * job->z.x * job->z.y + cy;
			job->z.x = t;
			job->inner++;
			left--;
		}
		if (left == 0)
			break;
		pixels[job->at] = colour(job->inner, a[5]);
		job->inner = 0;
		if (advance(job, 1, w * h) == TILE_DONE)
			return TILE_DONE;
		left--;
	}
	return TILE_MORE;
}

_Static_assert(TILE_BYTES <= VF_DMA_MOST, "a tile fits a DMA message");

static enum tile dma(const struct vf *vf, struct job *job, uint64_t *error)
{
	const uint64_t *a = job->packet.arg;
	uint64_t n = chunk(job, a[2]);
	bool out = job->packet.opcode == SOFTGPU_DMA_OUT;
	uint8_t bounce[TILE_BYTES];

	if (out)
		memcpy(bounce, vf->memory + a[0] + job->at, n);
	if (n && vf_dma(vf, a[1] + job->at, bounce, (uint32_t)n, out) < 0) {
		*error = SOFTGPU_DMA_FAULT;
		return TILE_ERROR;
	}
	if (!out)
		memcpy(vf->memory + a[0] + job->at, bounce, n);
	return advance(job, n, a[2]);
}

/* Keeps the engine busy for NS, or until the run is killed. */
static void burn(const struct vf *vf, vgpu_nsec ns)
{
	vgpu_nsec until = vgpu_now() + ns;

	while (vgpu_now() < until && VF_RUN_STATE(atomic_load(&vf->page->run)) != VF_KILLING)
		;
}

static enum tile spin(const struct vf *vf, struct job *job)
{
	uint64_t total = job->packet.arg[0] * VGPU_USEC;
	uint64_t n = total - job->at < TILE_NS ? total - job->at : TILE_NS;

	burn(vf, n);
	return advance(job, n, total);
}

/* Counts up to 8 rounds of 2 us. */
static enum tile count(const struct vf *vf, struct job *job)
{
	const uint64_t *a = job->packet.arg;
	uint64_t n = a[1] - job->at < 8 ? a[1] - job->at : 8, i;

	for (i = 1; i <= n; i++) {
		burn(vf, 2 * VGPU_USEC);
		__atomic_store_n((uint64_t *)(vf->memory + a[0]), job->at + i, __ATOMIC_RELAXED);
	}
	return advance(job, n, a[1]);
}

bool kernel_job_is_valid(const struct job *job)
{
	const uint64_t *a = job->packet.arg;
	uint64_t low = (uint32_t)a[3], high = a[3] >> 32;

	switch (job->packet.opcode) {
	case SOFTGPU_FILL:
		return job->at <= a[1] && job->at % 4 == 0;
	case SOFTGPU_COPY:
	case SOFTGPU_UPLOAD:
	case SOFTGPU_DOWNLOAD:
	case SOFTGPU_SAXPY:
	case SOFTGPU_DMA_IN:
	case SOFTGPU_DMA_OUT:
		return job->at <= a[2];
	case SOFTGPU_GEMM:
		return job->at < blocks(low) * blocks(high) && job->inner < a[4];
	case SOFTGPU_SHA256:
		return job->at <= a[2] && job->at % 64 == 0;
	case SOFTGPU_MANDELBROT:
		return job->at < (uint64_t)(uint32_t)a[1] * (a[1] >> 32) && job->inner <= a[5];
	default: /* the progress of these is no place in memory */
		return true;
	}
}

/* Runs one tile of a packet that packet_check() has accepted. On TILE_ERROR, *ERROR says why. */
enum tile kernel_tile(const struct vf *vf, struct job *job, uint64_t *error)
{
	switch (job->packet.opcode) {
	case SOFTGPU_FILL:
		return fill(vf, job);
	case SOFTGPU_COPY:
	case SOFTGPU_UPLOAD:
	case SOFTGPU_DOWNLOAD:
		return copy(vf, job);
	case SOFTGPU_SAXPY:
		return saxpy(vf, job);
	case SOFTGPU_GEMM:
		return gemm(vf, job);
	case SOFTGPU_SHA256:
		return sha256(vf, job);
	case SOFTGPU_MANDELBROT:
		return mandelbrot(vf, job);
	case SOFTGPU_DMA_IN:
	case SOFTGPU_DMA_OUT:
		return dma(vf, job, error);
	case SOFTGPU_SPIN:
		return spin(vf, job);
	case SOFTGPU_NONPREEMPTIBLE:
		burn(vf, job->packet.arg[0] * VGPU_USEC);
		return TILE_DONE;
	case SOFTGPU_EVENT:
		__atomic_store_n((uint64_t *)(vf->memory + job->packet.arg[0]),
				 vgpu_now() - vf->began, __ATOMIC_RELEASE);
		return TILE_DONE;
	case SOFTGPU_COUNT:
		return count(vf, job);
	case SOFTGPU_ENDLESS:
		burn(vf, TILE_NS);
		return TILE_MORE;
	default: /* NOP and FENCE compute nothing */
		return TILE_DONE;
	}
}
