/* SPDX-License-Identifier: MIT */
#include "workload.h"

#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sha256.h"

/* References are computed plainly, as in a textbook, one operation after the other: that is what
 * docs/softgpu.md promises the packets to be equal to, to the bit. */

struct workload_state {
	const struct workload *w;
	struct workload_options o;
	uint32_t slots;
	uint8_t *memory;
	uint64_t offset, slot_size; /* what packets call the memory that they work on */
	uint64_t window;
	uint8_t *expected; /* as many bytes as a slot, for each slot */
	uint8_t *own;	   /* the guest's own memory, at DMA_IOVA for the device */
	uint64_t own_size; /* of a slot */
	uint64_t jobs;
};

static uint8_t *slot_memory(const struct workload_state *s, uint32_t slot)
{
	return s->memory + slot * s->slot_size;
}

static uint64_t slot_offset(const struct workload_state *s, uint32_t slot)
{
	return s->offset + slot * s->slot_size;
}

static uint8_t *slot_expected(const struct workload_state *s, uint32_t slot)
{
	return s->expected + slot * s->slot_size;
}

/* Repeatable, and different for each slot. */
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
	       mandelbrot_bytes(&s->o)); /* so that nothing old is taken for new */
	guest_put(g, &p);
}

static bool mandelbrot_check(struct workload_state *s, uint32_t slot)
{
	return memcmp(slot_memory(s, slot), slot_expected(s, slot), mandelbrot_bytes(&s->o)) == 0;
}

/* sha256: of a few hundred KiB */

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

	memset(slot_memory(s, slot), 0xa5, 32); /* so that nothing old is taken for new */
	guest_put(g, &p);
}

static bool sha_check(struct workload_state *s, uint32_t slot)
{
	return memcmp(slot_memory(s, slot), slot_expected(s, slot), 32) == 0;
}

/* gemm: C = A * B, edges that are no multiples of a block */

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
	       gemm_edge(&s->o) * gemm_edge(&s->o) * 4); /* so that nothing old is taken for new */
	guest_put(g, &p);
}

static bool gemm_check(struct workload_state *s, uint32_t slot)
{
	uint64_t bytes = gemm_edge(&s->o) * gemm_edge(&s->o) * 4;

	return memcmp(slot_memory(s, slot), slot_expected(s, slot), bytes) == 0;
}

/* saxpy: copies y, adds to the copy */

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
	       saxpy_n(&s->o) * 4); /* so that nothing old is taken for new */
	guest_put(g, &copy);
	guest_put(g, &add);
}

static bool saxpy_check(struct workload_state *s, uint32_t slot)
{
	return memcmp(slot_memory(s, slot), slot_expected(s, slot), saxpy_n(&s->o) * 4) == 0;
}

/* mixed: all four in turn, and a fill whose result is looked at */

static const char *const mixed_parts[] = {"mandelbrot", "sha256", "gemm", "saxpy"};
#define PARTS 4u

/* Does FN to each part, in a place of its own within the slot. */
static bool each_part(struct workload_state *s, struct guest *g, uint32_t slot,
		      bool (*fn)(const struct workload *w, struct workload_state *part,
				 struct guest *g, uint32_t slot))
{
	uint64_t before = 0;
	bool right = true;
	uint32_t i;

	for (i = 0; i < PARTS; i++) {
		const struct workload *w = workload_find(mixed_parts[i]);
		struct workload_state part = *s;

		/* Slot 0 of a state that begins at this part's place. */
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
		sum += (workload_find(mixed_parts[i])->slot_bytes(o) + 63) / 64 * 64;
	return sum;
}

static bool part_fill(const struct workload *w, struct workload_state *s, struct guest *g,
		      uint32_t slot)
{
	(void)g;
	w->fill(s, slot);
	return true;
}

static bool part_emit(const struct workload *w, struct workload_state *s, struct guest *g,
		      uint32_t slot)
{
	w->emit(s, g, slot);
	return true;
}

static bool part_check(const struct workload *w, struct workload_state *s, struct guest *g,
		       uint32_t slot)
{
	(void)g;
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

/* dma: from the guest's memory to the VF's, a copy there, and back to another place */

#define DMA_IOVA (UINT64_C(1) << 32)

static uint64_t dma_half(const struct workload_options *o)
{
	return 300032u * o->size;
}

static uint64_t dma_both(const struct workload_options *o)
{
	return 2 * dma_half(o);
}

static void dma_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	uint64_t n = dma_half(&s->o), at = slot_offset(s, slot), i;
	uint64_t iova = DMA_IOVA + slot * s->own_size;
	uint8_t *in = s->own + slot * s->own_size;
	struct softgpu_packet to = {.opcode = SOFTGPU_DMA_IN, .arg = {at, iova, n - 3}};
	struct softgpu_packet copy = {.opcode = SOFTGPU_COPY, .arg = {at + n, at, n}};
	struct softgpu_packet from = {.opcode = SOFTGPU_DMA_OUT, .arg = {at + n, iova + n, n - 3}};

	s->jobs++;
	for (i = 0; i < n; i++)
		in[i] = (uint8_t)(i * 7 + s->jobs * 13 + (i >> 9));
	memset(in + n, 0xa5, n);
	guest_put(g, &to);
	guest_put(g, &copy);
	guest_put(g, &from);
}

static bool dma_check(struct workload_state *s, uint32_t slot)
{
	uint64_t n = dma_half(&s->o);
	const uint8_t *in = s->own + slot * s->own_size;

	/* Nothing beyond what was asked for is written. */
	return memcmp(in, in + n, n - 3) == 0 && in[2 * n - 1] == 0xa5;
}

/* Those that only take time: a word that is filled in last shows that they have run. */

static uint64_t word_bytes(const struct workload_options *o)
{
	(void)o;
	return 64;
}

static void nothing_to_fill(struct workload_state *s, uint32_t slot)
{
	(void)s;
	(void)slot; /* no inputs */
}

static void timed_emit(struct workload_state *s, struct guest *g, uint32_t slot,
		       enum softgpu_opcode opcode)
{
	struct softgpu_packet work = {.opcode = opcode, .arg = {s->o.us}};
	struct softgpu_packet mark = {.opcode = SOFTGPU_FILL,
				      .arg = {slot_offset(s, slot), 4, 0x600d0000u + slot}};

	memset(slot_memory(s, slot), 0xa5, 4);
	guest_put(g, &work);
	guest_put(g, &mark);
}

static void spin_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	timed_emit(s, g, slot, SOFTGPU_SPIN);
}

static void hog_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	timed_emit(s, g, slot, SOFTGPU_NONPREEMPTIBLE);
}

static void endless_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	timed_emit(s, g, slot, SOFTGPU_ENDLESS);
}

static void fault_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	timed_emit(s, g, slot, SOFTGPU_FAULT);
}

static bool word_check(struct workload_state *s, uint32_t slot)
{
	uint32_t word;

	memcpy(&word, slot_memory(s, slot), sizeof(word));
	return word == 0x600d0000u + slot;
}

const struct workload workloads[] = {
	{"mandelbrot", "frames of the Mandelbrot set", 2, 0, false, mandelbrot_bytes,
	 mandelbrot_fill, mandelbrot_emit, mandelbrot_check, NULL},
	{"sha256", "hashes of buffers", 2, 0, false, sha_slot, sha_fill, sha_emit, sha_check, NULL},
	{"gemm", "products of matrices, f32", 2, 0, false, gemm_slot, gemm_fill, gemm_emit,
	 gemm_check, NULL},
	{"saxpy", "y = a * x + y, f32", 2, 0, false, saxpy_slot, saxpy_fill, saxpy_emit,
	 saxpy_check, NULL},
	{"dma", "copies through the VF, from and to the guest's own memory", 2, 0, false, dma_both,
	 nothing_to_fill, dma_emit, dma_check, dma_both},
	{"mixed", "mandelbrot, sha256, gemm and saxpy in turn", 2, 0, false, mixed_bytes,
	 mixed_fill, mixed_emit, mixed_check, NULL},
	{"interactive", "short jobs at a rate; its latency is what counts", 1, 60, false,
	 word_bytes, nothing_to_fill, spin_emit, word_check, NULL},
	{"spin", "keeps the engine busy, preemptible at any time", 2, 0, false, word_bytes,
	 nothing_to_fill, spin_emit, word_check, NULL},
	{"hog", "back-to-back work that cannot be preempted", 2, 0, false, word_bytes,
	 nothing_to_fill, hog_emit, word_check, NULL},
	{"endless", "a job that never ends, but can be preempted", 1, 0, true, word_bytes,
	 nothing_to_fill, endless_emit, word_check, NULL},
	{"fault", "a packet that faults", 1, 0, false, word_bytes, nothing_to_fill, fault_emit,
	 word_check, NULL},
	{.name = NULL},
};

const struct workload *workload_find(const char *name)
{
	const struct workload *w;

	for (w = workloads; w->name; w++)
		if (strcmp(w->name, name) == 0)
			return w;
	return NULL;
}

/* What is worked on in device memory is brought there, and what comes out is fetched. */
void workload_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	uint64_t shown = s->window + slot * s->slot_size;
	struct softgpu_packet bring = {SOFTGPU_UPLOAD,
				       0,
				       {slot_offset(s, slot), shown, s->slot_size}};
	struct softgpu_packet fetch = {SOFTGPU_DOWNLOAD,
				       0,
				       {shown, slot_offset(s, slot), s->slot_size}};

	if (!s->o.device_memory) {
		s->w->emit(s, g, slot);
		return;
	}
	guest_put(g, &bring);
	s->w->emit(s, g, slot);
	guest_put(g, &fetch);
}

int workload_restart(struct workload_state *s, struct guest *g, struct vgpu_error *err)
{
	uint64_t size;
	uint32_t i;

	s->memory = guest_memory(g, &s->window, &size);
	s->offset = s->window;
	if (s->o.device_memory) {
		uint64_t behind;

		guest_device_memory(g, &s->offset, &behind);
		if (behind == 0 || s->w->dma_bytes)
			return vgpu_error_set(err, -EINVAL, "--device-memory: %s",
					      behind ? "DMA reaches the window only"
						     : "this VF has none behind its window");
		size = behind < size ? behind : size;
	}
	if (s->slot_size * s->slots > size)
		return vgpu_error_set(err, -ENOSPC,
				      "%u jobs of %s take %llu bytes, the VF has %llu; take a "
				      "smaller --size or --depth",
				      s->slots, s->w->name,
				      (unsigned long long)(s->slot_size * s->slots),
				      (unsigned long long)size);
	for (i = 0; i < s->slots; i++)
		s->w->fill(s, i);
	return 0;
}

/* Memory that the device may reach, for as long as we are connected. */
static int map_own_memory(struct workload_state *s, struct guest *g, struct vgpu_error *err)
{
	uint64_t size;
	int fd, r;

	s->own_size = (s->w->dma_bytes(&s->o) + 4095) / 4096 * 4096;
	size = s->own_size * s->slots;
	fd = memfd_create("vgpu-guest", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
		r = -errno;
	} else {
		s->own = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		r = s->own == MAP_FAILED ? -errno : guest_map_dma(g, fd, DMA_IOVA, size);
		if (s->own == MAP_FAILED)
			s->own = NULL;
	}
	if (fd >= 0)
		close(fd);
	return r < 0 ? vgpu_error_set(err, r, "memory for DMA: %s", strerror(-r)) : 0;
}

int workload_prepare(struct workload_state **out, const struct workload *w, struct guest *g,
		     const struct workload_options *o, uint32_t slots, struct vgpu_error *err)
{
	struct workload_state *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	s->w = w;
	s->o = *o;
	s->slots = slots;
	s->slot_size = (w->slot_bytes(o) + 4095) / 4096 * 4096;
	s->expected = calloc(slots, s->slot_size);
	r = s->expected ? workload_restart(s, g, err)
			: vgpu_error_set(err, -ENOMEM, "out of memory");
	if (r == 0 && w->dma_bytes)
		r = map_own_memory(s, g, err);
	if (r < 0) {
		workload_free(s);
		return r;
	}
	*out = s;
	return 0;
}

void workload_png(struct workload_state *s, const char *prefix)
{
	png_image image = {.version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_BGRA};
	char path[512];
	uint32_t i;

	if (s->w != workload_find("mandelbrot"))
		return;
	image.width = (png_uint_32)frame_width(&s->o);
	image.height = (png_uint_32)frame_height(&s->o);
	for (i = 0; i < s->slots; i++) {
		snprintf(path, sizeof(path), "%s-%u.png", prefix, i);
		if (!png_image_write_to_file(&image, path, 0, slot_memory(s, i), 0, NULL))
			fprintf(stderr, "vgpu-guest: %s: %s\n", path, image.message);
	}
}

void workload_free(struct workload_state *s)
{
	if (s && s->own)
		munmap(s->own, s->own_size * s->slots);
	if (s)
		free(s->expected);
	free(s);
}
