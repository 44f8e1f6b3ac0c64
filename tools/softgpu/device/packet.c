/* SPDX-License-Identifier: MIT */
#include "packet.h"

/* Returns whether BYTES at OFFSET lie in the ring's range of the arena. *FIRST, *END: the granules
 * that they are in. */
static bool in_arena(const struct packet_limits *l, uint64_t offset, uint64_t bytes,
		     uint64_t *first, uint64_t *end)
{
	uint64_t in = offset - l->arena_at, all = l->granules * l->granule;

	if (!l->arena || offset < l->arena_at || in > all || bytes > all - in)
		return false;
	*first = in / l->granule;
	*end = bytes > 0 ? (in + bytes - 1) / l->granule + 1 : *first;
	return true;
}

static enum softgpu_error mapped_range(const struct packet_limits *l, uint64_t offset,
				       uint64_t count, uint64_t size)
{
	uint64_t bytes, i, end;

	if (__builtin_mul_overflow(count, size, &bytes) || !in_arena(l, offset, bytes, &i, &end))
		return SOFTGPU_OUT_OF_RANGE;
	for (; i < end; i++)
		if (l->arena[i] == 0)
			return SOFTGPU_OUT_OF_RANGE;
	return SOFTGPU_OK;
}

enum softgpu_error packet_range(const struct packet_limits *limits, uint64_t offset, uint64_t count,
				uint64_t size)
{
	uint64_t end = offset < limits->window ? limits->window : limits->size;

	if (offset % size)
		return SOFTGPU_BAD_ARGUMENT;
	if (offset >= SOFTGPU_ARENA_AT)
		return mapped_range(limits, offset, count, size);
	if (offset > end || count > (end - offset) / size)
		return SOFTGPU_OUT_OF_RANGE;
	return SOFTGPU_OK;
}

static enum softgpu_error in_window(const struct packet_limits *limits, uint64_t offset,
				    uint64_t bytes)
{
	const struct packet_limits window = {.window = limits->window, .size = limits->window};

	return packet_range(&window, offset, bytes, 1);
}

static bool overlap(uint64_t a, uint64_t b, uint64_t bytes)
{
	return a < b + bytes && b < a + bytes;
}

/* Returns the first error of three. */
static enum softgpu_error first_of(enum softgpu_error a, enum softgpu_error b, enum softgpu_error c)
{
	if (a != SOFTGPU_OK)
		return a;
	if (b != SOFTGPU_OK)
		return b;
	return c;
}

static enum softgpu_error check_copy(const struct packet_limits *l, const uint64_t *a)
{
	enum softgpu_error e = first_of(packet_range(l, a[0], a[2], 1),
					packet_range(l, a[1], a[2], 1), SOFTGPU_OK);

	if (e == SOFTGPU_OK && overlap(a[0], a[1], a[2]))
		return SOFTGPU_BAD_ARGUMENT;
	return e;
}

static enum softgpu_error check_gemm(const struct packet_limits *l, const uint64_t *a)
{
	uint64_t m = (uint32_t)a[3], n = a[3] >> 32, k = a[4];

	/* Products of numbers below 2^20 do not wrap. */
	if (m == 0 || n == 0 || k == 0 || m >> 20 || n >> 20 || k >> 20)
		return SOFTGPU_BAD_ARGUMENT;
	return first_of(packet_range(l, a[0], m * n, 4), packet_range(l, a[1], m * k, 4),
			packet_range(l, a[2], k * n, 4));
}

static enum softgpu_error check_mandelbrot(const struct packet_limits *l, const uint64_t *a)
{
	uint64_t w = (uint32_t)a[1], h = a[1] >> 32;

	if (w == 0 || h == 0 || w > 16384 || h > 16384 || a[5] == 0 || a[5] > 1000000)
		return SOFTGPU_BAD_ARGUMENT;
	return packet_range(l, a[0], w * h, 4);
}

/* Checks where a packet with the flag REPORT writes its error. */
static enum softgpu_error check_report(const struct packet_limits *l,
				       const struct softgpu_packet *p)
{
	if (!(p->flags & SOFTGPU_REPORT))
		return SOFTGPU_OK;
	return p->arg[6] % 8 ? SOFTGPU_BAD_ARGUMENT : in_window(l, p->arg[6], 8);
}

/* Checks a structure of SIZE bytes in the window. */
static enum softgpu_error check_structure(const struct packet_limits *l, const uint64_t *a,
					  uint64_t size)
{
	return a[2] != size || a[1] % 8 ? SOFTGPU_BAD_ARGUMENT : in_window(l, a[1], size);
}

static enum softgpu_error check_module(const struct packet_limits *l,
				       const struct softgpu_packet *p)
{
	const uint64_t *a = p->arg;

	if (!l->modules)
		return SOFTGPU_BAD_OPCODE;
	if (a[0] >= SOFTGPU_MAX_MODULES)
		return SOFTGPU_BAD_ARGUMENT;
	switch (p->opcode) {
	case SOFTGPU_MODULE_LOAD:
		if (a[2] == 0 || a[2] >> 30)
			return SOFTGPU_BAD_ARGUMENT;
		return first_of(check_report(l, p), in_window(l, a[1], a[2]),
				in_window(l, a[3], a[4]));
	case SOFTGPU_LAUNCH:
		if (a[2] != sizeof(struct softgpu_launch))
			return SOFTGPU_BAD_ARGUMENT;
		return first_of(check_report(l, p), in_window(l, a[1], a[2]), SOFTGPU_OK);
	case SOFTGPU_FUNCTION:
		return check_structure(l, a, sizeof(struct softgpu_function));
	case SOFTGPU_ABOUT:
		return check_structure(l, a, sizeof(struct softgpu_about));
	case SOFTGPU_ARENA:
		return check_structure(l, a, sizeof(struct softgpu_arena));
	case SOFTGPU_OUTPUT:
		return check_structure(l, a, sizeof(struct softgpu_output));
	case SOFTGPU_SYMBOL:
		return check_structure(l, a, sizeof(struct softgpu_symbol));
	case SOFTGPU_OCCUPANCY:
		return check_structure(l, a, sizeof(struct softgpu_occupancy));
	case SOFTGPU_SYMBOL_COPY:
		return first_of(check_report(l, p),
				check_structure(l, a, sizeof(struct softgpu_symbol_copy)),
				SOFTGPU_OK);
	default:
		return SOFTGPU_OK;
	}
}

static enum softgpu_error check_slots(const struct packet_limits *l, const uint64_t *a)
{
	if (!l->modules)
		return SOFTGPU_BAD_OPCODE;
	if (a[0] % sizeof(struct softgpu_slot) || a[1] > SOFTGPU_MAX_SLOTS)
		return SOFTGPU_BAD_ARGUMENT;
	return in_window(l, a[0], a[1] * sizeof(struct softgpu_slot));
}

static enum softgpu_error check_await(const struct packet_limits *l, const uint64_t *a)
{
	if (!l->modules)
		return SOFTGPU_BAD_OPCODE;
	return a[0] < SOFTGPU_MAX_SLOTS ? SOFTGPU_OK : SOFTGPU_BAD_ARGUMENT;
}

/* Returns whether BYTES at OFFSET are whole granules, counted from BEGIN. */
static bool are_granules(const struct packet_limits *l, uint64_t offset, uint64_t begin,
			 uint64_t bytes)
{
	return bytes > 0 && bytes % l->granule == 0 && (offset - begin) % l->granule == 0;
}

static enum softgpu_error check_map(const struct packet_limits *l, const struct softgpu_packet *p)
{
	const uint64_t *a = p->arg;
	enum softgpu_error e = check_report(l, p);
	uint64_t i, end;

	if (!l->arena)
		return SOFTGPU_BAD_OPCODE;
	if (e != SOFTGPU_OK)
		return e;
	if (!are_granules(l, a[0], l->arena_at, a[2]) || !are_granules(l, a[1], l->window, a[2]))
		return SOFTGPU_BAD_ARGUMENT;
	if (!in_arena(l, a[0], a[2], &i, &end) || a[1] < l->window || a[1] >= SOFTGPU_ARENA_AT ||
	    packet_range(l, a[1], a[2], 1) != SOFTGPU_OK)
		return SOFTGPU_OUT_OF_RANGE;
	for (; i < end; i++)
		if (l->arena[i] != 0)
			return SOFTGPU_BAD_ARGUMENT;
	return SOFTGPU_OK;
}

static enum softgpu_error check_unmap(const struct packet_limits *l, const uint64_t *a)
{
	if (!l->arena)
		return SOFTGPU_BAD_OPCODE;
	if (!are_granules(l, a[0], l->arena_at, a[1]))
		return SOFTGPU_BAD_ARGUMENT;
	return mapped_range(l, a[0], a[1], 1);
}

enum softgpu_error packet_check(const struct packet_limits *l, const struct softgpu_packet *p)
{
	const uint64_t *a = p->arg;

	switch (p->opcode) {
	case SOFTGPU_NOP:
	case SOFTGPU_ENDLESS:
	case SOFTGPU_FENCE:
		return SOFTGPU_OK;
	case SOFTGPU_FILL:
		return a[1] % 4 ? SOFTGPU_BAD_ARGUMENT : packet_range(l, a[0], a[1] / 4, 4);
	case SOFTGPU_COPY:
		return check_copy(l, a);
	case SOFTGPU_UPLOAD:
		return first_of(in_window(l, a[1], a[2]), check_copy(l, a), SOFTGPU_OK);
	case SOFTGPU_DOWNLOAD:
		return first_of(in_window(l, a[0], a[2]), check_copy(l, a), SOFTGPU_OK);
	case SOFTGPU_SAXPY:
		return first_of(packet_range(l, a[0], a[2], 4), packet_range(l, a[1], a[2], 4),
				SOFTGPU_OK);
	case SOFTGPU_GEMM:
		return check_gemm(l, a);
	case SOFTGPU_SHA256:
		return first_of(packet_range(l, a[0], 32, 1), packet_range(l, a[1], a[2], 1),
				SOFTGPU_OK);
	case SOFTGPU_MANDELBROT:
		return check_mandelbrot(l, a);
	case SOFTGPU_DMA_IN:
	case SOFTGPU_DMA_OUT:
		return in_window(l, a[0], a[2]);
	case SOFTGPU_SPIN:
	case SOFTGPU_NONPREEMPTIBLE:
		return a[0] > 3600000000u ? SOFTGPU_BAD_ARGUMENT : SOFTGPU_OK;
	case SOFTGPU_EVENT:
		return a[0] % 8 ? SOFTGPU_BAD_ARGUMENT : in_window(l, a[0], 8);
	case SOFTGPU_COUNT:
		return packet_range(l, a[0], 1, 8);
	case SOFTGPU_MODULE_LOAD:
	case SOFTGPU_MODULE_UNLOAD:
	case SOFTGPU_LAUNCH:
	case SOFTGPU_FUNCTION:
	case SOFTGPU_ABOUT:
	case SOFTGPU_SYMBOL:
	case SOFTGPU_OCCUPANCY:
	case SOFTGPU_SYMBOL_COPY:
	case SOFTGPU_ARENA:
	case SOFTGPU_OUTPUT:
		return check_module(l, p);
	case SOFTGPU_MAP:
		return check_map(l, p);
	case SOFTGPU_UNMAP:
		return check_unmap(l, a);
	case SOFTGPU_SLOTS:
		return check_slots(l, a);
	case SOFTGPU_AWAIT:
		return check_await(l, a);
	case SOFTGPU_FAULT:
		return SOFTGPU_FAULTED;
	default:
		return SOFTGPU_BAD_OPCODE;
	}
}

bool packet_ring_is_valid(const struct packet_limits *limits, uint64_t base, uint64_t n)
{
	return n >= 2 && n <= 65536 && (n & (n - 1)) == 0 && base % 64 == 0 &&
	       in_window(limits, base, n * 64) == SOFTGPU_OK;
}

bool packet_fence_is_valid(const struct packet_limits *limits, uint64_t at)
{
	return at % 8 == 0 && in_window(limits, at, 8) == SOFTGPU_OK;
}
