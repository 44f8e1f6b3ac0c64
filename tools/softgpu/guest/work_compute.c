/* SPDX-License-Identifier: MIT */
/* Workloads that compute. The references are computed as in a textbook, one operation after the
 * other; docs/softgpu-interface.md promises that packets give the same results to the bit. */
#include <png.h>
#include <stdio.h>

#include "sha256.h"
#include "workload_state.h"

/* An input value: the same in each run, different for each slot. */
static float sample(uint32_t slot, uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u + slot * 0xbf58476d1ce4e5b9u;

	x ^= x >> 31;
	return (float)(x % 2001) / 1000.0f - 1.0f;
}

static uint64_t pack(uint64_t low, uint64_t high)
{
	return low | high << 32;
}

static uint64_t bits(double value)
{
	uint64_t u;

	memcpy(&u, &value, sizeof(u));
	return u;
}

/* mandelbrot: frames that zoom in, one for each slot */

static uint64_t frame_width(const struct workload_options *o)
{
	return 160u * o->size;
}

static uint64_t frame_height(const struct workload_options *o)
{
	return 120u * o->size;
}

#define ITERATIONS 400u

static uint64_t mandelbrot_bytes(const struct workload_options *o)
{
	return frame_width(o) * frame_height(o) * 4;
}

static void view(const struct workload_state *s, uint32_t slot, double *x, double *y, double *step)
{
	double zoom = 1.0;
	uint32_t i;

	for (i = 0; i < slot % 8; i++)
		zoom *= 0.5;
	*step = 3.0 * zoom / (double)frame_width(&s->o);
	*x = -0.743643 - 2.05 * zoom + 0.55 * (1 - zoom);
	*y = 0.131825 - *step * (double)frame_height(&s->o) / 2;
}

static uint32_t pixel(double cx, double cy)
{
	double x = 0, y = 0, t;
	uint32_t i, c;

	for (i = 0; i < ITERATIONS && x * x + y * y <= 4; i++) {
		t = x * x - y * y + cx;
		y = 2 * x * y + cy;
		x = t;
	}
	c = i * 7;
	return i == ITERATIONS
		       ? 0xff000000
		       : 0xff000000 | (c & 0xff) << 16 | (c * 3 & 0xff) << 8 | (c * 11 & 0xff);
}

static void mandelbrot_fill(struct workload_state *s, uint32_t slot)
{
	uint64_t w = frame_width(&s->o), h = frame_height(&s->o), i;
	uint32_t *out = (uint32_t *)slot_expected(s, slot);
	double x0, y0, step;

	view(s, slot, &x0, &y0, &step);
	for (i = 0; i < w * h; i++)
		out[i] = pixel(x0 + step * (double)(i % w), y0 + step * (double)(i / w));
}

static void mandelbrot_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	struct softgpu_packet p = {.opcode = SOFTGPU_MANDELBROT};
	double x0, y0, step;

	view(s, slot, &x0, &y0, &step);
	p.arg[0] = slot_offset(s, slot);
	p.arg[1] = pack(frame_width(&s->o), frame_height(&s->o));
	p.arg[2] = bits(x0);
	p.arg[3] = bits(y0);
	p.arg[4] = bits(step);
	p.arg[5] = ITERATIONS;
	memset(slot_memory(s, slot), 0xa5,
	       mandelbrot_bytes(&s->o)); /* an old result must not pass as new */
	guest_put(g, &p);
}

static bool mandelbrot_check(struct workload_state *s, uint32_t slot)
{
	return memcmp(slot_memory(s, slot), slot_expected(s, slot), mandelbrot_bytes(&s->o)) == 0;
}

const struct workload work_mandelbrot = {
	.name = "mandelbrot",
	.help = "frames of the Mandelbrot set",
	.depth = 2,
	.slot_bytes = mandelbrot_bytes,
	.fill = mandelbrot_fill,
	.emit = mandelbrot_emit,
	.check = mandelbrot_check,
};

void workload_png(struct workload_state *s, const char *prefix)
{
	png_image image = {.version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_BGRA};
	char path[512];
	uint32_t i;

	if (s->w != &work_mandelbrot)
		return;
	image.width = (png_uint_32)frame_width(&s->o);
	image.height = (png_uint_32)frame_height(&s->o);
	for (i = 0; i < s->slots; i++) {
		snprintf(path, sizeof(path), "%s-%u.png", prefix, i);
		if (!png_image_write_to_file(&image, path, 0, slot_memory(s, i), 0, NULL))
			fprintf(stderr, "vgpu-guest: %s: %s\n", path, image.message);
	}
}

/* sha256: hashes of a few hundred KiB */

static uint64_t sha_bytes(const struct workload_options *o)
{
	return 200003u * o->size; /* not a multiple of a block */
}

static uint64_t sha_slot(const struct workload_options *o)
{
	return 64 + (sha_bytes(o) + 63) / 64 * 64;
}

static void sha_fill(struct workload_state *s, uint32_t slot)
{
	uint64_t n = sha_bytes(&s->o), i;
	uint8_t *in = slot_memory(s, slot) + 64;
	uint32_t state[8];

	for (i = 0; i < n; i++)
		in[i] = (uint8_t)(i * 31 + slot * 7 + (i >> 8));
	sha256_begin(state);
	for (i = 0; i + 64 <= n; i += 64)
		sha256_block(state, in + i);
	sha256_end(state, in + i, n, slot_expected(s, slot));
}

static void sha_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	struct softgpu_packet p = {.opcode = SOFTGPU_SHA256,
				   .arg = {slot_offset(s, slot), slot_offset(s, slot) + 64,
					   sha_bytes(&s->o)}};

	memset(slot_memory(s, slot), 0xa5, 32); /* an old result must not pass as new */
	guest_put(g, &p);
}

static bool sha_check(struct workload_state *s, uint32_t slot)
{
	return memcmp(slot_memory(s, slot), slot_expected(s, slot), 32) == 0;
}

const struct workload work_sha256 = {
	.name = "sha256",
	.help = "hashes of buffers",
	.depth = 2,
	.slot_bytes = sha_slot,
	.fill = sha_fill,
	.emit = sha_emit,
	.check = sha_check,
};

/* gemm: C = A * B; the edges are not multiples of a block */

static uint64_t gemm_edge(const struct workload_options *o)
{
	return 100u * o->size + 3;
}

static uint64_t gemm_slot(const struct workload_options *o)
{
	return 3 * gemm_edge(o) * gemm_edge(o) * 4;
}

static void gemm_fill(struct workload_state *s, uint32_t slot)
{
	uint64_t n = gemm_edge(&s->o), i, j, k;
	float *c = (float *)slot_expected(s, slot);
	float *a = (float *)slot_memory(s, slot) + n * n, *b = a + n * n;

	for (i = 0; i < n * n; i++) {
		a[i] = sample(slot, i);
		b[i] = sample(slot + 100, i);
	}
	for (i = 0; i < n; i++) {
		for (j = 0; j < n; j++) {
			float sum = 0;

			for (k = 0; k < n; k++)
				sum += a[i * n + k] * b[k * n + j];
			c[i * n + j] = sum;
		}
	}
}

static void gemm_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	uint64_t n = gemm_edge(&s->o), at = slot_offset(s, slot);
	struct softgpu_packet p = {.opcode = SOFTGPU_GEMM,
				   .arg = {at, at + n * n * 4, at + n * n * 8, pack(n, n), n}};

	memset(slot_memory(s, slot), 0xa5,
	       gemm_edge(&s->o) * gemm_edge(&s->o) * 4); /* an old result must not pass as new */
	guest_put(g, &p);
}

static bool gemm_check(struct workload_state *s, uint32_t slot)
{
	uint64_t bytes = gemm_edge(&s->o) * gemm_edge(&s->o) * 4;

	return memcmp(slot_memory(s, slot), slot_expected(s, slot), bytes) == 0;
}

const struct workload work_gemm = {
	.name = "gemm",
	.help = "products of matrices, f32",
	.depth = 2,
	.slot_bytes = gemm_slot,
	.fill = gemm_fill,
	.emit = gemm_emit,
	.check = gemm_check,
};

/* saxpy: copies y, and adds to the copy */

static uint64_t saxpy_n(const struct workload_options *o)
{
	return 100001u * o->size;
}

static uint64_t saxpy_slot(const struct workload_options *o)
{
	return 3 * ((saxpy_n(o) * 4 + 63) / 64 * 64);
}

static void saxpy_fill(struct workload_state *s, uint32_t slot)
{
	uint64_t n = saxpy_n(&s->o), third = saxpy_slot(&s->o) / 3, i;
	float *y = (float *)(slot_memory(s, slot) + third);
	float *x = (float *)(slot_memory(s, slot) + 2 * third);
	float *out = (float *)slot_expected(s, slot), a = 1.5f + (float)slot;

	for (i = 0; i < n; i++) {
		x[i] = sample(slot, i);
		y[i] = sample(slot + 50, i);
		out[i] = a * x[i] + y[i];
	}
}

static void saxpy_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	uint64_t n = saxpy_n(&s->o), third = saxpy_slot(&s->o) / 3, at = slot_offset(s, slot);
	float a = 1.5f + (float)slot;
	uint32_t a_bits;
	struct softgpu_packet copy = {.opcode = SOFTGPU_COPY, .arg = {at, at + third, n * 4}};
	struct softgpu_packet add = {.opcode = SOFTGPU_SAXPY, .arg = {at, at + 2 * third, n, 0}};

	memcpy(&a_bits, &a, sizeof(a_bits));
	add.arg[3] = a_bits;
	memset(slot_memory(s, slot), 0xa5,
	       saxpy_n(&s->o) * 4); /* an old result must not pass as new */
	guest_put(g, &copy);
	guest_put(g, &add);
}

static bool saxpy_check(struct workload_state *s, uint32_t slot)
{
	return memcmp(slot_memory(s, slot), slot_expected(s, slot), saxpy_n(&s->o) * 4) == 0;
}

const struct workload work_saxpy = {
	.name = "saxpy",
	.help = "y = a * x + y, f32",
	.depth = 2,
	.slot_bytes = saxpy_slot,
	.fill = saxpy_fill,
	.emit = saxpy_emit,
	.check = saxpy_check,
};

/* mixed: all four in turn */

static const struct workload *const mixed_parts[] = {&work_mandelbrot, &work_sha256, &work_gemm,
						     &work_saxpy};
#define PARTS 4u

/* Calls FN for each part; each part has its own place within the slot. Returns whether all calls
 * returned true. */
static bool each_part(struct workload_state *s, struct guest *g, uint32_t slot,
		      bool (*fn)(const struct workload *w, struct workload_state *part,
				 struct guest *g, uint32_t slot))
{
	uint64_t before = 0;
	bool right = true;
	uint32_t i;

	for (i = 0; i < PARTS; i++) {
		const struct workload *w = mixed_parts[i];
		struct workload_state part = *s;

		/* All slots of PART lie at this part's place, since its slots have no size. */
		part.w = w;
		part.memory = slot_memory(s, slot) + before;
		part.offset = slot_offset(s, slot) + before;
		part.expected = slot_expected(s, slot) + before;
		part.slot_size = 0;
		right &= fn(w, &part, g, slot);
		before += (w->slot_bytes(&s->o) + 63) / 64 * 64;
	}
	return right;
}

static uint64_t mixed_bytes(const struct workload_options *o)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < PARTS; i++)
		sum += (mixed_parts[i]->slot_bytes(o) + 63) / 64 * 64;
	return sum;
}

static bool part_fill(const struct workload *w, struct workload_state *s, struct guest *,
		      uint32_t slot)
{
	w->fill(s, slot);
	return true;
}

static bool part_emit(const struct workload *w, struct workload_state *s, struct guest *g,
		      uint32_t slot)
{
	w->emit(s, g, slot);
	return true;
}

static bool part_check(const struct workload *w, struct workload_state *s, struct guest *,
		       uint32_t slot)
{
	return w->check(s, slot);
}

static void mixed_fill(struct workload_state *s, uint32_t slot)
{
	each_part(s, NULL, slot, part_fill);
}

static void mixed_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	each_part(s, g, slot, part_emit);
}

static bool mixed_check(struct workload_state *s, uint32_t slot)
{
	return each_part(s, NULL, slot, part_check);
}

const struct workload work_mixed = {
	.name = "mixed",
	.help = "mandelbrot, sha256, gemm and saxpy in turn",
	.depth = 2,
	.slot_bytes = mixed_bytes,
	.fill = mixed_fill,
	.emit = mixed_emit,
	.check = mixed_check,
};
