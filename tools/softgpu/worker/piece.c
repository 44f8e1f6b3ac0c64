/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "grid.h"
#include "piece.h"

/* Through PCIe 4.0 x16 (some 25 GB/s) 2 MiB take 80 us; device memory is 10 to 100 times faster. */
#define BYTES_BY_BUS (UINT64_C(2) << 20)
#define BYTES_LOCAL (UINT64_C(64) << 20)
#define DMA_BYTES (UINT64_C(64) << 10)
#define SHA_BLOCKS 256u	  /* one thread: about 1 us a block */
#define GEMM_BLOCKS 4096u /* a few waves of a large GPU */
#define GEMM_DEPTH 1024u  /* products of each thread */
#define MANDELBROT_BLOCKS 4096u
#define SPIN_NS 100000u

uint64_t piece_address(const struct piece_space *space, uint64_t offset)
{
	if (offset >= SOFTGPU_ARENA_AT)
		return space->arena_at + (offset - SOFTGPU_ARENA_AT);
	return offset < space->window_size ? space->window_at + offset
					   : space->memory_at + (offset - space->window_size);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Returns the bytes of a range that one piece covers. A and B: offsets of the range and of its
 * source. */
static uint64_t piece_bytes(const struct piece_space *space, uint64_t a, uint64_t b)
{
	return a < space->window_size || b < space->window_size ? BYTES_BY_BUS : BYTES_LOCAL;
}

static void kernel(struct piece *out, enum kernel which, uint64_t blocks, uint32_t threads,
		   const uint64_t *args, uint32_t n)
{
	*out = (struct piece){
		.kind = PIECE_KERNEL,
		.gated = true,
		.kernel = which,
		.grid = {(uint32_t)blocks, 1, 1},
		.block = {threads, 1, 1},
		.params_size = sizeof(struct kernel_args),
	};
	memcpy(out->params, args, n * sizeof(*args));
}

static uint64_t blocks_of(uint64_t n, uint64_t each)
{
	return (n + each - 1) / each;
}

/* Takes the next elements of an array of TOTAL, at most MOST. How many; 0: there are no more. */
static uint64_t next_of_array(struct piece_job *job, uint64_t total, uint64_t most)
{
	uint64_t n = least(total - job->at, most);

	job->at += n;
	return n;
}

static bool fill(struct piece_job *job, const struct piece_space *space, struct piece *out)
{
	const uint64_t *a = job->packet.arg;
	uint64_t from = job->at,
		 n = next_of_array(job, a[1] / 4, piece_bytes(space, a[0], a[0]) / 4);
	uint64_t args[] = {piece_address(space, a[0] + from * 4), n, a[2]};

	if (n == 0)
		return false;
	kernel(out, KERNEL_FILL, blocks_of(n, ELEMENTS), THREADS, args, 3);
	return true;
}

static bool copy(struct piece_job *job, const struct piece_space *space, struct piece *out)
{
	const uint64_t *a = job->packet.arg;
	uint64_t unit = (a[0] | a[1] | a[2]) % 8 ? 1 : 8, from = job->at;
	uint64_t n = next_of_array(job, a[2] / unit, piece_bytes(space, a[0], a[1]) / 8);
	uint64_t args[] = {piece_address(space, a[0] + from * unit),
			   piece_address(space, a[1] + from * unit), n};

	if (n == 0)
		return false;
	kernel(out, unit == 8 ? KERNEL_COPY8 : KERNEL_COPY1, blocks_of(n, ELEMENTS), THREADS, args,
	       3);
	return true;
}

static bool transfer(struct piece_job *job, const struct piece_space *space, struct piece *out)
{
	const uint64_t *a = job->packet.arg;
	uint64_t from = job->at, n = next_of_array(job, a[2], BYTES_BY_BUS);

	*out = (struct piece){
		.kind = PIECE_TRANSFER,
		.dst = piece_address(space, a[0] + from),
		.src = piece_address(space, a[1] + from),
		.bytes = n,
	};
	return n > 0;
}

static bool dma(struct piece_job *job, struct piece *out)
{
	const uint64_t *a = job->packet.arg;
	uint64_t from = job->at, n = next_of_array(job, a[2], DMA_BYTES);

	*out = (struct piece){
		.kind = PIECE_DMA,
		.dst = a[0] + from,
		.src = a[1] + from,
		.bytes = n,
		.flags = job->packet.opcode == SOFTGPU_DMA_OUT,
	};
	return n > 0;
}

static bool saxpy(struct piece_job *job, const struct piece_space *space, struct piece *out)
{
	const uint64_t *a = job->packet.arg;
	uint64_t from = job->at, n = next_of_array(job, a[2], piece_bytes(space, a[0], a[1]) / 8);
	uint64_t args[] = {piece_address(space, a[0] + from * 4),
			   piece_address(space, a[1] + from * 4), n, a[3]};

	if (n == 0)
		return false;
	kernel(out, KERNEL_SAXPY, blocks_of(n, ELEMENTS), THREADS, args, 4);
	return true;
}

/* Makes the next piece of a GEMM. AT: number of blocks of C that are done; INNER: products done of
 * each element of the current blocks. */
static bool gemm(struct piece_job *job, const struct piece_space *space, struct piece *out)
{
	const uint64_t *a = job->packet.arg;
	uint64_t m = (uint32_t)a[3], n = a[3] >> 32, k = a[4];
	uint64_t all = blocks_of(m, 16) * blocks_of(n, 16),
		 blocks = least(all - job->at, GEMM_BLOCKS);
	uint64_t to = least(k, job->inner + GEMM_DEPTH);
	uint64_t args[] = {piece_address(space, a[0]),
			   piece_address(space, a[1]),
			   piece_address(space, a[2]),
			   a[3],
			   k,
			   job->inner | to << 32,
			   job->at};

	if (blocks == 0)
		return false;
	kernel(out, KERNEL_GEMM, blocks, THREADS, args, 7);
	job->inner = to;
	if (to == k) {
		job->inner = 0;
		job->at += blocks;
	}
	return true;
}

/* Makes the next piece of a SHA256. INNER: 0 at first; 1 after the first piece of whole blocks; 2
 * after the piece with the end. */
static bool sha256(struct piece_job *job, const struct piece_space *space, struct piece *out)
{
	const uint64_t *a = job->packet.arg;
	uint64_t whole = a[2] / 64, n = least(whole - job->at, SHA_BLOCKS);
	uint64_t blocks[] = {space->scratch, piece_address(space, a[1]) + job->at * 64, n,
			     job->at == 0};
	uint64_t end[] = {space->scratch, piece_address(space, a[1]) + whole * 64, a[2],
			  piece_address(space, a[0])};

	if (job->inner == 2)
		return false;
	if (n > 0 || job->inner == 0) {
		/* The first piece sets the state up, even if there is no whole block. */
		kernel(out, KERNEL_SHA256, 1, 1, blocks, 4);
		job->at += n;
		job->inner = 1;
		return true;
	}
	kernel(out, KERNEL_SHA256_END, 1, 1, end, 4);
	job->inner = 2;
	return true;
}

static bool mandelbrot(struct piece_job *job, const struct piece_space *space, struct piece *out)
{
	const uint64_t *a = job->packet.arg;
	uint64_t from = job->at, all = (uint64_t)(uint32_t)a[1] * (a[1] >> 32);
	uint64_t n = next_of_array(job, all, MANDELBROT_BLOCKS * THREADS);
	uint64_t args[] = {piece_address(space, a[0]), a[1], a[2], a[3], a[4], a[5], from};

	if (n == 0)
		return false;
	kernel(out, KERNEL_MANDELBROT, blocks_of(n, THREADS), THREADS, args, 7);
	return true;
}

static bool spin(struct piece_job *job, struct piece *out, uint64_t total, uint64_t most)
{
	uint64_t n = next_of_array(job, total, most);

	kernel(out, KERNEL_SPIN, 1, 1, &n, 1);
	return n > 0;
}

static bool count(struct piece_job *job, const struct piece_space *space, struct piece *out)
{
	const uint64_t *a = job->packet.arg;
	uint64_t args[] = {piece_address(space, a[0]), a[1]};

	kernel(out, KERNEL_COUNT, 1, 1, args, 2);
	out->gated = false;
	return job->at++ == 0;
}

static bool fence(struct piece_job *job, struct piece *out)
{
	*out = (struct piece){
		.kind = PIECE_FENCE,
		.value = job->packet.arg[0],
		.flags = job->packet.flags,
	};
	return job->at++ == 0;
}

/* Makes one piece without a gate, however long: it can only be stopped hard. */
static bool nonpreemptible(struct piece_job *job, struct piece *out)
{
	uint64_t total = job->packet.arg[0] * VGPU_USEC;
	bool is_piece = spin(job, out, total, total);

	out->gated = false;
	return is_piece;
}

bool piece_next(struct piece_job *job, const struct piece_space *space, struct piece *out)
{
	switch (job->packet.opcode) {
	case SOFTGPU_FILL:
		return fill(job, space, out);
	case SOFTGPU_COPY:
		return copy(job, space, out);
	case SOFTGPU_UPLOAD:
	case SOFTGPU_DOWNLOAD:
		return transfer(job, space, out);
	case SOFTGPU_SAXPY:
		return saxpy(job, space, out);
	case SOFTGPU_GEMM:
		return gemm(job, space, out);
	case SOFTGPU_SHA256:
		return sha256(job, space, out);
	case SOFTGPU_MANDELBROT:
		return mandelbrot(job, space, out);
	case SOFTGPU_DMA_IN:
	case SOFTGPU_DMA_OUT:
		return dma(job, out);
	case SOFTGPU_SPIN:
		return spin(job, out, job->packet.arg[0] * VGPU_USEC, SPIN_NS);
	case SOFTGPU_ENDLESS:
		job->at = 0;
		return spin(job, out, SPIN_NS, SPIN_NS);
	case SOFTGPU_COUNT:
		return count(job, space, out);
	case SOFTGPU_NONPREEMPTIBLE:
		return nonpreemptible(job, out);
	case SOFTGPU_FENCE:
		return fence(job, out);
	case SOFTGPU_EVENT:
		*out = (struct piece){.kind = PIECE_EVENT, .dst = job->packet.arg[0]};
		return job->at++ == 0;
	default:
		return false;
	}
}
