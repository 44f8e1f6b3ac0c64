/* SPDX-License-Identifier: MIT */
/*
 * GPU kernels that a guest of fuzz_ring.c may load: PTX, run by the machine of
 * tools/cuda/driver/ptx.h, with the worker's gate where the module is loaded as gated. Both add to
 * the words of an array, one for each thread along x, so that what a block has done, and how often,
 * can be told from the array.
 */
#include "gate.h"
#include "ptx.h"
#include "ring_model.h"

/* The parameters of "c" have other sizes, and another order; its threads give each other what they
 * add. */
const char code_text[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
			 ".visible .entry a(.param .u64 x,.param .u64 n,.param .u64 y)\n{\n"
			 ".reg .pred %p<2>;\n.reg .b32 %r<4>;\n.reg .b64 %d<4>;\n"
			 "mov.u32 %r1,%ctaid.x;\nmov.u32 %r2,%ntid.x;\nmov.u32 %r3,%tid.x;\n"
			 "mad.lo.u32 %r1,%r1,%r2,%r3;\ncvt.u64.u32 %d1,%r1;\n"
			 "ld.param.u64 %d2,[n];\nsetp.ge.u64 %p1,%d1,%d2;\n@%p1 ret;\n"
			 "ld.param.u64 %d3,[x];\nmul.wide.u32 %d1,%r1,4;\nadd.u64 %d3,%d3,%d1;\n"
			 "ld.param.u32 %r2,[y];\nld.global.u32 %r3,[%d3];\n"
			 "add.u32 %r3,%r3,%r2;\nst.global.u32 [%d3],%r3;\nret;\n}\n"
			 ".visible .entry c(.param .u32 n,.param .u64 x,.param .u8 y)\n{\n"
			 ".shared .align 4 .b32 s;\n"
			 ".reg .pred %p<2>;\n.reg .b32 %r<4>;\n.reg .b64 %d<3>;\n"
			 "ld.param.u8 %r2,[y];\nst.shared.u32 [s],%r2;\nbar.sync 0;\n"
			 "mov.u32 %r1,%ctaid.x;\nmov.u32 %r2,%ntid.x;\nmov.u32 %r3,%tid.x;\n"
			 "mad.lo.u32 %r1,%r1,%r2,%r3;\n"
			 "ld.param.u32 %r2,[n];\nsetp.ge.u32 %p1,%r1,%r2;\n@%p1 ret;\n"
			 "ld.param.u64 %d1,[x];\nmul.wide.u32 %d2,%r1,4;\nadd.u64 %d1,%d1,%d2;\n"
			 "ld.shared.u32 %r2,[s];\nld.global.u32 %r3,[%d1];\n"
			 "add.u32 %r3,%r3,%r2;\nst.global.u32 [%d1],%r3;\nret;\n}\n";
_Static_assert(sizeof(code_text) <= IMAGE_ROOM, "it is an image");

/* Which parameter is the array, the number of its words, and what is added to them. */
static const struct shape {
	char name[2];
	uint32_t x, n, y;
} shapes[] = {{"a", 0, 1, 2}, {"c", 1, 0, 2}};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))
#define PARAMS 3u

struct code_function {
	const struct shape *shape;
	struct ptx *ptx;
	bool gated;
	struct device_params params; /* without the gate's */
};

struct code {
	struct code_function functions[SHAPES];
};

/* What the functions of a text are, with a gate and without, is read once: the worker's gate makes
 * the same text each time. */
static struct ptx *read_once(const char *text, uint32_t shape, bool gated)
{
	static struct ptx *read[2][SHAPES];
	static char *texts[2];

	if (!texts[gated])
		texts[gated] = strdup(text);
	HOLDS(texts[gated] && strcmp(texts[gated], text) == 0);
	if (!read[gated][shape])
		read[gated][shape] = ptx_read(text, shapes[shape].name);
	HOLDS(read[gated][shape]);
	return read[gated][shape];
}

static void read_params(struct code_function *f)
{
	const uint32_t before = f->gated ? GATE_PARAM_SIZE : 0;
	uint32_t i, at, size;

	f->params.n = PARAMS;
	for (i = 0; i < PARAMS; i++) {
		HOLDS(ptx_param(f->ptx, i + f->gated, &at, &size) && at >= before);
		f->params.offset[i] = at - before;
		f->params.size[i] = size;
		f->params.bytes = at - before + size;
	}
	HOLDS(!ptx_param(f->ptx, i + f->gated, &at, &size));
}

struct code *code_create(const char *text, bool gated)
{
	struct code *c = calloc(1, sizeof(*c));
	uint32_t i;

	HOLDS(c);
	for (i = 0; i < SHAPES; i++) {
		struct code_function *f = &c->functions[i];

		f->shape = &shapes[i];
		f->gated = gated;
		f->ptx = read_once(text, i, gated);
		read_params(f);
	}
	return c;
}

void code_destroy(struct code *c)
{
	free(c);
}

bool code_find(struct code *c, const char *name, struct piece *p, struct device_params *params)
{
	uint32_t i;

	for (i = 0; i < SHAPES; i++) {
		struct code_function *f = &c->functions[i];

		if (strcmp(f->shape->name, name) != 0)
			continue;
		p->function = f;
		p->gated = f->gated && !p->together;
		*params = f->params;
		return true;
	}
	return false;
}

static uint64_t param_of(const struct piece *p, uint32_t i)
{
	const struct code_function *f = p->function;
	uint64_t value = 0;

	memcpy(&value, p->params + f->params.offset[i], f->params.size[i]);
	return value;
}

uint64_t code_array(const struct piece *p, uint64_t *words)
{
	const struct shape *s = ((const struct code_function *)p->function)->shape;

	*words = param_of(p, s->n);
	return param_of(p, s->x);
}

/* What the block adds to the word WORD: each thread along x has one, as have those beside it along
 * y and z. */
static uint32_t added(const struct piece *p, uint32_t block, uint64_t word)
{
	const struct shape *s = ((const struct code_function *)p->function)->shape;
	const uint64_t first = (uint64_t)(block % p->grid[0]) * p->block[0];

	if (word < first || word - first >= p->block[0])
		return 0;
	return (uint32_t)param_of(p, s->y) * p->block[1] * p->block[2];
}

void code_run(const struct piece *p, const struct gate_param *gate, uint32_t block, uint32_t *array,
	      bool runs)
{
	const struct code_function *f = p->function;
	const uint64_t number = block;
	_Alignas(16) uint8_t params[GATE_PARAM_SIZE + SOFTGPU_MAX_LAUNCH_BYTES] = {0};
	uint8_t *own = params + (f->gated ? GATE_PARAM_SIZE : 0);
	const struct ptx_launch launch = {
		.grid = {p->grid[0], p->grid[1], p->grid[2]},
		.block = {p->block[0], p->block[1], p->block[2]},
		.only = &number,
		.params = params,
	};
	const uint64_t at = (uintptr_t)array;
	uint64_t words, i;
	uint32_t *wanted;

	code_array(p, &words);
	wanted = malloc(words * 4 + 1);
	HOLDS(wanted);
	for (i = 0; i < words; i++)
		wanted[i] = array[i] + (runs ? added(p, block, i) : 0);
	if (f->gated)
		memcpy(params, gate, sizeof(*gate));
	memcpy(own, p->params, p->params_size);
	memcpy(own + f->params.offset[f->shape->x], &at, sizeof(at));
	ptx_run(f->ptx, &launch);
	HOLDS(memcmp(array, wanted, words * 4) == 0);
	free(wanted);
}
