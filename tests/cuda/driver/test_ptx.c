/* SPDX-License-Identifier: MIT */
/*
 * Our GPU kernels and the gate, run instruction by instruction (ptx.h): packets that are cut into
 * pieces give the right results, and work that is stopped between blocks and launched again runs
 * each block once.
 */
#include <stdlib.h>

#include "draw.h"
#include "gate.h"
#include "jobs.h"
#include "piece.h"
#include "ptx.h"
#include "suite.h"
#include "vgpu/clock.h"

extern const char kernels_ptx[], shapes_ptx[];

/* The variables that the gate reads and writes. */
static uint64_t marks[DEVICE_MARKS];
static uint32_t shut;
static uint64_t skipped, serial, relay[2], epoch;

static struct ptx *read_gated(const char *text, const char *name)
{
	struct vgpu_error err = {""};
	struct ptx *p;
	char *out;

	CU_ASSERT_EQUAL_FATAL(gate_ptx(text, strlen(text), &out, &err), 0);
	p = ptx_read(out, name);
	free(out);
	return p;
}

struct closing {
	uint64_t after, begun;
};

static void close_gate(void *data, uint64_t n)
{
	struct closing *c = data;

	c->begun = n + 1;
	if (n == c->after)
		shut = 1;
}

/* Launches PARAMS with a gate that closes before a random block begins, and repeats until all
 * blocks have run. Returns the number of launches. */
static uint32_t launch(struct ptx *p, struct ptx_launch l, const void *params, size_t size)
{
	uint64_t blocks = (uint64_t)l.grid[0] * l.grid[1] * l.grid[2];
	uint8_t *buffer = calloc(1, GATE_PARAM_SIZE + size);
	struct gate_param gate = {.marks = (uintptr_t)marks,
				  .flag = (uintptr_t)&shut,
				  .skipped = (uintptr_t)&skipped,
				  .serial = ++serial,
				  .relay = (uintptr_t)relay,
				  .period = draw(3) ? 0 : draw(100000)};
	uint32_t launches = 0;

	memcpy(buffer + GATE_PARAM_SIZE, params, size);
	do {
		struct closing c = {.after = draw(blocks * 2)};

		gate.epoch = ++epoch; /* the gate opens */
		memcpy(buffer, &gate, sizeof(gate));
		l.params = buffer;
		l.begins = close_gate;
		l.data = &c;
		shut = 0;
		skipped = 0;
		ptx_run(p, &l);
		CU_ASSERT_EQUAL(c.begun, blocks);
		CU_ASSERT(skipped == 0 || (skipped == serial && shut));
		launches++;
	} while (skipped);
	free(buffer);
	return launches;
}

/* Each packet that computes gives the right result, to the bit, through its pieces. */
TEST(packets, "packets give the right result, to the bit")
{
#define NAME(number, name) #name,
	static const char *const names[KERNELS] = {KERNEL_LIST(NAME)};
#undef NAME
	struct ptx *kernels[KERNELS];
	uint32_t i, launches = 0, pieces = 0;
	uint64_t scratch[8];

	jobs_begin();
	for (i = 0; i < KERNELS; i++)
		kernels[i] = read_gated(kernels_ptx, names[i]);
	for (i = 0; i < JOBS; i++) {
		uint8_t *slot = calloc(1, jobs[i].bytes), *wanted = calloc(1, jobs[i].bytes);
		struct piece_space space = {.window_at = (uintptr_t)slot,
					    .window_size = jobs[i].bytes,
					    .scratch = (uintptr_t)scratch};
		struct piece_job job = {.packet = jobs[i].packet, .active = true};
		struct piece piece;

		if (jobs[i].fill) {
			jobs[i].fill(slot);
			jobs[i].fill(wanted);
		}
		jobs[i].expect(wanted);
		for (; piece_next(&job, &space, &piece); pieces++) {
			struct ptx_launch l = {.grid = {piece.grid[0], piece.grid[1],
							piece.grid[2]},
					       .block = {piece.block[0], 1, 1}};

			CU_ASSERT_EQUAL_FATAL(piece.kind, PIECE_KERNEL);
			launches +=
				launch(kernels[piece.kernel], l, piece.params, piece.params_size);
		}
		CU_ASSERT(memcmp(slot, wanted, jobs[i].bytes) == 0);
		free(slot);
		free(wanted);
	}
	printf(" %u pieces in %u launches;", pieces, launches);
	CU_ASSERT(launches > pieces);
	for (i = 0; i < KERNELS; i++)
		ptx_free(kernels[i]);
}

/* Each block of any grid runs once, with all its threads, however often the launch is stopped; and
 * again when the grid is another piece. */
TEST(each_once, "each block runs once")
{
	struct ptx *p = read_gated(shapes_ptx, "visit");
	static uint32_t visits[4096];
	uint32_t i, k, x, y, z, launches = 0;

	for (i = 0; i < 300; i++) {
		struct ptx_launch l = {
			.grid = {1 + (uint32_t)draw(16), 1 + (uint32_t)draw(16),
				 1 + (uint32_t)draw(3)},
			.block = {1 + (uint32_t)draw(4), 1 + (uint32_t)draw(3),
				  1 + (uint32_t)draw(2)},
		};
		uint32_t threads = l.block[0] * l.block[1] * l.block[2], *at = visits, wrong = 0;

		memset(visits, 0, sizeof(visits));
		launches += launch(p, l, &at, sizeof(at));
		for (k = 0; k < 4096; k++) {
			x = k % 16;
			y = k / 16 % 16;
			z = k / 256;
			wrong += visits[k] !=
				 (x < l.grid[0] && y < l.grid[1] && z < l.grid[2] ? threads : 0);
		}
		CU_ASSERT_EQUAL(wrong, 0);
	}
	CU_ASSERT(launches > 300);
	ptx_free(p);
}

#define RELAYED 64u
#define HOUR (3600 * VGPU_SEC)
static uint64_t opens_at; /* how many blocks begin before the gate opens */

static void open_gate(void *, uint64_t n)
{
	if (n == opens_at)
		shut = 0;
}

/* Launches RELAYED blocks. Returns how many run. */
static uint32_t count_runs(struct ptx *p, struct gate_param *gate)
{
	_Alignas(16) uint8_t buffer[GATE_PARAM_SIZE + 8] = {0};
	uint32_t visits[RELAYED] = {0}, *at = visits, i, n = 0;
	struct ptx_launch l = {.grid = {16, RELAYED / 16, 1}, .block = {1, 1, 1}, .params = buffer};

	gate->epoch = epoch;
	skipped = 0;
	memcpy(buffer, gate, sizeof(*gate));
	memcpy(buffer + GATE_PARAM_SIZE, &at, sizeof(at));
	l.begins = open_gate;
	ptx_run(p, &l);
	for (i = 0; i < RELAYED; i++)
		n += visits[i];
	CU_ASSERT_EQUAL(skipped, n < RELAYED ? gate->serial : 0);
	return n;
}

/* A block trusts what another one has read, for a while if that was "open", and until the
 * gate opens if it was "shut". */
TEST(relayed, "blocks tell each other whether the gate is shut")
{
	struct ptx *p = read_gated(shapes_ptx, "visit");
	struct gate_param gate = {.marks = (uintptr_t)marks,
				  .flag = (uintptr_t)&shut,
				  .skipped = (uintptr_t)&skipped,
				  .serial = ++serial,
				  .relay = (uintptr_t)relay,
				  .period = HOUR};

	shut = 1;
	epoch++;
	opens_at = UINT64_MAX;
	relay[0] = vgpu_now(); /* found open just now */
	CU_ASSERT_EQUAL(count_runs(p, &gate), RELAYED);
	gate.serial = ++serial;
	relay[0] = vgpu_now() - 2 * HOUR;
	CU_ASSERT_EQUAL(count_runs(p, &gate), 0);
	CU_ASSERT_EQUAL(relay[1], gate.epoch);
	/* another block of that launch had found it open just before that: the launch that follows
	 * does not run before those blocks that did not */
	relay[0] = vgpu_now();
	gate.serial = ++serial;
	CU_ASSERT_EQUAL(count_runs(p, &gate), 0);
	/* the flag changes meanwhile: nor do the blocks of the launch itself */
	opens_at = RELAYED / 3;
	CU_ASSERT_EQUAL(count_runs(p, &gate), 0);
	CU_ASSERT(shut == 0);
	epoch++;
	CU_ASSERT_EQUAL(count_runs(p, &gate), RELAYED);
	CU_ASSERT(vgpu_now() - relay[0] < HOUR);
	ptx_free(p);
}

/* Without marks the gate is inactive: all blocks run at each launch. */
TEST(no_gate, "without marks the gate is inactive")
{
	struct ptx *p = read_gated(shapes_ptx, "visit");
	uint32_t visits[8] = {0}, i;
	struct {
		uint8_t gate[GATE_PARAM_SIZE];
		uint32_t *at;
	} params = {{0}, visits};
	struct ptx_launch l = {.grid = {8, 1, 1}, .block = {2, 1, 1}, .params = &params};

	shut = 1;
	ptx_run(p, &l);
	ptx_run(p, &l);
	for (i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(visits[i], 4);
	ptx_free(p);
}

/* The gate's parameter comes before the others, and keeps their layout. */
TEST(parameters, "the gate keeps the layout of parameters")
{
	static const struct {
		const char *entry;
		uint32_t n, at, size; /* offset and size of the last parameter */
	} shapes[] = {
		{"none", 0, 0, 0},     {"bare", 0, 0, 0},     {"most", 2, 4088, 8},
		{"bounded", 2, 64, 8}, {"exchange", 2, 8, 4},
	};
	uint32_t at, size, i, k;

	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct ptx *plain = ptx_read(shapes_ptx, shapes[i].entry);
		struct ptx *gated = read_gated(shapes_ptx, shapes[i].entry);

		for (k = 0; ptx_param(plain, k, &at, &size); k++) {
			uint32_t gated_at, gated_size;

			CU_ASSERT(ptx_param(gated, k + 1, &gated_at, &gated_size));
			CU_ASSERT_EQUAL(gated_at, GATE_PARAM_SIZE + at);
			CU_ASSERT_EQUAL(gated_size, size);
		}
		CU_ASSERT_EQUAL(k, shapes[i].n);
		CU_ASSERT(k == 0 || (at == shapes[i].at && size == shapes[i].size));
		CU_ASSERT(ptx_param(gated, 0, &at, &size) && at == 0 && size == GATE_PARAM_SIZE);
		CU_ASSERT(!ptx_param(gated, k + 1, &at, &size));
		ptx_free(plain);
		ptx_free(gated);
	}
}

/* The gate does not change the result of a GPU kernel with barriers, shared memory and threads that
 * leave early. */
TEST(barriers, "the gate keeps barriers and shared memory right")
{
	struct ptx *plain = ptx_read(shapes_ptx, "exchange");
	struct ptx *gated = read_gated(shapes_ptx, "exchange");
	uint32_t out[2][128] = {{0}}, i;
	struct {
		uint32_t *x, n;
	} params = {out[0], 100};
	struct ptx_launch l = {.grid = {1, 1, 1},
			       .block = {128, 1, 1},
			       .shared = 4,
			       .params = &params};

	ptx_run(plain, &l);
	params.x = out[1];
	launch(gated, l, &params, 12);
	for (i = 0; i < 128; i++) {
		CU_ASSERT_EQUAL(out[0][i], i < 100 ? (i ^ 1) * 10 + 7 : 0);
		CU_ASSERT_EQUAL(out[1][i], out[0][i]);
	}
	ptx_free(plain);
	ptx_free(gated);
}

SUITE_MAIN("ptx")
