/* SPDX-License-Identifier: MIT */
/*
 * A device for fuzz_ring.c. It executes pieces in order, block by block, with the code that
 * kernels.ptx is made of, but only when it is told to. Its addresses are none of this process, so
 * it looks up each range that a piece reads or writes: softgpu's own pieces must stay inside of the
 * partition; a guest's function that does not is a fault, as on a GPU. It also checks what a GPU
 * takes for granted: that its queue, modules and gate are used in an order that makes sense.
 */
#include <errno.h>

#include "fill_params.h"
#include "gate.h"
#include "grid.h"
#include "ring_model.h"

#define PARTITION_AT UINT64_C(0x700000000000)
#define SCRATCH_AT UINT64_C(0x710000000000)
#define VARIABLE_AT UINT64_C(0x720000000000)
#define ARENA_DEVICE_AT UINT64_C(0x730000000000)
#define ARENA_BYTES (DEVICE_SOURCES * GRANULES * GRANULE)
#define VARIABLE 600u
#define MOST_BLOCKS 64u
/* What the pieces of an input may compute, in steps of loops; what is beyond is left out. Other
 * tests look at what is computed. */
#define MOST_STEPS 1500u

#define DECLARE(number, name) void kernel_##name(struct kernel_args p);
#define POINTER(number, name) kernel_##name,
KERNEL_LIST(DECLARE)
static void (*const kernels[KERNELS])(struct kernel_args p) = {KERNEL_LIST(POINTER)};
extern _Thread_local uint32_t kernel_block, kernel_thread;

struct slot {
	struct piece piece;
	enum device_state state;
	bool used;			  /* it has had a piece */
	bool marks[MOST_BLOCKS];	  /* blocks that have run */
	uint64_t gate_marks[MOST_BLOCKS]; /* the same, as the worker's gate notes it */
	uint64_t at;			  /* blocks that have been looked at; COUNT: rounds */
	bool skipped;
};

struct device {
	struct slot slots[DEVICE_SLOTS];
	uint32_t queue[DEVICE_SLOTS], n; /* slots whose pieces run, the first one first */
	uint64_t serial, steps;
	bool shut, held, rests, faulted, hurries, has_printed;
	bool loaded[DEVICE_MODULES];
	struct code *code[DEVICE_MODULES]; /* of code_text; NULL: it has another image */
	/* what the worker's gate reads and writes */
	uint32_t gate_flag;
	uint64_t gate_skipped, gate_relay[2], gate_epoch;
	uint32_t compiled; /* modules that are neither loaded nor dropped */
	uint8_t variable[VARIABLE], scratch[64];
	uint32_t mapped[DEVICE_SOURCES * GRANULES];
	uint64_t maps_left;
};

static struct device device;
struct device *const model_device = &device;
uint8_t *model_window, *model_memory;

void device_begin(uint64_t maps)
{
	if (!model_window) {
		model_window = aligned_alloc(4096, WINDOW);
		model_memory = aligned_alloc(4096, SIZE - WINDOW);
		HOLDS(model_window && model_memory);
	}
	memset(&device, 0, sizeof(device));
	memset(model_window, 0, WINDOW);
	memset(model_memory, 0, SIZE - WINDOW);
	device.rests = true;
	device.gate_epoch = 1;
	device.maps_left = maps;
}

void device_end(bool idle)
{
	uint32_t i;

	HOLDS(device.compiled == 0);
	for (i = 0; i < DEVICE_MODULES; i++)
		code_destroy(device.code[i]);
	for (i = 0; i < DEVICE_SOURCES * GRANULES && idle; i++)
		HOLDS(device.mapped[i] == 0);
}

void device_hold(bool held)
{
	device.held = held;
}

void device_rest(bool rests)
{
	HOLDS(!rests || device.n == 0 || device.held || device.faulted);
	device.rests = rests;
}

void device_hurry(void)
{
	device.hurries = true;
}

bool device_has_faulted(void)
{
	return device.faulted;
}

uint64_t device_mapped(uint64_t offset)
{
	uint64_t in = offset - SOFTGPU_ARENA_AT, granule;

	if (in >= ARENA_BYTES || device.mapped[in / GRANULE] == 0)
		return UINT64_MAX;
	granule = device.mapped[in / GRANULE] - 1;
	return WINDOW + granule * GRANULE + in % GRANULE;
}

/* Where N bytes at AT lie, which belong to the partition or, with ALL, to something else of the
 * VF's. NULL: they do not. */
static uint8_t *find(uint64_t at, uint64_t n, bool all)
{
	const struct {
		uint64_t at, size;
		uint8_t *bytes;
	} places[] = {
		{PARTITION_AT, WINDOW, model_window},
		{PARTITION_AT + WINDOW, SIZE - WINDOW, model_memory},
		{VARIABLE_AT, VARIABLE, device.variable},
		{SCRATCH_AT, sizeof(device.scratch), device.scratch},
	};
	uint32_t count = all ? 4 : 2, i;

	for (i = 0; i < count; i++)
		if (at >= places[i].at && at - places[i].at <= places[i].size &&
		    n <= places[i].size - (at - places[i].at))
			return places[i].bytes + (at - places[i].at);
	return NULL;
}

/* Returns whether AT is an address of the arena. */
static bool in_arena(uint64_t at)
{
	return at - ARENA_DEVICE_AT <= ARENA_BYTES;
}

/* Copies N bytes between the arena at AT and BYTES. False: some are not mapped. */
static bool copy_arena(uint64_t at, uint8_t *bytes, uint64_t n, bool out)
{
	uint64_t offset = SOFTGPU_ARENA_AT + (at - ARENA_DEVICE_AT), in, is;

	for (; n > 0; offset += in, bytes += in, n -= in) {
		in = GRANULE - offset % GRANULE < n ? GRANULE - offset % GRANULE : n;
		is = device_mapped(offset);
		if (is == UINT64_MAX)
			return false;
		if (out)
			memcpy(model_memory + (is - WINDOW), bytes, in);
		else
			memcpy(bytes, model_memory + (is - WINDOW), in);
	}
	return true;
}

/* N bytes at AT as this process can reach them: where they lie, or a copy of what is mapped in the
 * arena. NULL: they are not the VF's. */
static uint8_t *lend(uint64_t at, uint64_t n, bool all)
{
	uint8_t *bytes;

	if (!in_arena(at))
		return find(at, n, all);
	if (n > ARENA_BYTES)
		return NULL;
	bytes = malloc(n ? n : 1);
	HOLDS(bytes);
	if (copy_arena(at, bytes, n, false))
		return bytes;
	free(bytes);
	return NULL;
}

/* Ends the use of what was lent, and which a GPU kernel has written to if it WRITES. */
static void give_back(uint64_t at, uint8_t *bytes, uint64_t n, bool writes)
{
	if (!in_arena(at))
		return;
	if (writes)
		HOLDS(copy_arena(at, bytes, n, true));
	free(bytes);
}

static uint64_t model_address(struct device *, uint64_t offset)
{
	HOLDS(offset < SIZE);
	return PARTITION_AT + offset;
}

static uint64_t model_scratch(struct device *)
{
	return SCRATCH_AT;
}

/* The arguments of softgpu's GPU kernels that are addresses, and how many bytes lie there; and how
 * many steps a block takes. */
struct extents {
	struct {
		uint32_t arg;
		uint64_t bytes;
		enum { READ, WRITE, STATE } use;
	} at[3];
	uint32_t n;
	uint64_t steps;
};

static struct extents extents_of(enum kernel which, const uint64_t *a)
{
	uint64_t m = (uint32_t)a[3], n = a[3] >> 32, k = a[4];

	switch (which) {
	case KERNEL_FILL:
		return (struct extents){{{0, a[1] * 4, WRITE}}, 1, a[1]};
	case KERNEL_COPY8:
		return (struct extents){{{0, a[2] * 8, WRITE}, {1, a[2] * 8, READ}}, 2, a[2]};
	case KERNEL_COPY1:
		return (struct extents){{{0, a[2], WRITE}, {1, a[2], READ}}, 2, a[2]};
	case KERNEL_SAXPY:
		return (struct extents){{{0, a[2] * 4, WRITE}, {1, a[2] * 4, READ}}, 2, a[2]};
	case KERNEL_GEMM:
		return (struct extents){{{0, m * n * 4, WRITE},
					 {1, m * k * 4, READ},
					 {2, k * n * 4, READ}},
					3,
					THREADS * ((a[5] >> 32) - (uint32_t)a[5])};
	case KERNEL_SHA256:
		return (struct extents){{{0, 32, STATE}, {1, a[2] * 64, READ}}, 2, a[2] * 256};
	case KERNEL_SHA256_END:
		return (struct extents){{{0, 32, STATE}, {1, a[2] % 64, READ}, {3, 32, WRITE}},
					3,
					512};
	case KERNEL_MANDELBROT:
		return (struct extents){{{0, (uint32_t)a[1] * (a[1] >> 32) * 4, WRITE}},
					1,
					THREADS * a[5]};
	case KERNEL_COUNT:
		return (struct extents){{{0, 8, WRITE}}, 1, 1};
	default:
		return (struct extents){.steps = 1};
	}
}

/* Executes block BLOCK of P, whose arguments A are in this process's addresses by now. */
static void compute(const struct piece *p, const struct kernel_args *args, uint32_t block)
{
	kernel_block = block;
	for (kernel_thread = 0; kernel_thread < p->block[0]; kernel_thread++)
		kernels[p->kernel](*args);
}

/* Returns whether P is of code_text; other functions of a guest are as softgpu's FILL. */
static bool is_code(const struct piece *p)
{
	return p->kind == PIECE_FUNCTION && p->flags != 0;
}

/* The array that a guest's function writes to. */
static uint64_t array_of(const struct piece *p, uint64_t *words)
{
	uint64_t args[2];

	if (is_code(p))
		return code_array(p, words);
	memcpy(args, p->params, sizeof(args));
	*words = args[1];
	return args[0];
}

/* The addresses of a guest's function are the guest's choice. False: it faults. */
static bool function_may_run(const struct piece *p)
{
	uint64_t words, at = array_of(p, &words);
	uint8_t *bytes;

	bytes = words > SIZE || at % 4 != 0 ? NULL : lend(at, words * 4, true);
	if (!bytes)
		return false;
	give_back(at, bytes, words * 4, false);
	if (in_arena(at))
		may_write(SOFTGPU_ARENA_AT + (at - ARENA_DEVICE_AT), words * 4);
	else if (at - PARTITION_AT < SIZE)
		may_write(at - PARTITION_AT, words * 4);
	return true;
}

static void execute_block(struct slot *s, uint32_t block)
{
	const struct piece *p = &s->piece;
	enum kernel which = p->kind == PIECE_FUNCTION ? KERNEL_FILL : (enum kernel)p->kernel;
	struct kernel_args args, own;
	struct extents e;
	uint8_t *lent[3];
	uint32_t i;

	memcpy(&args, p->params, sizeof(args));
	if (p->kind == PIECE_FUNCTION && !function_may_run(p)) {
		device.faulted = true;
		return;
	}
	e = extents_of(which, args.a);
	own = args;
	for (i = 0; i < e.n; i++) {
		lent[i] = lend(args.a[e.at[i].arg], e.at[i].bytes,
			       e.at[i].use == STATE || p->kind == PIECE_FUNCTION);
		HOLDS(lent[i]);
		own.a[e.at[i].arg] = (uintptr_t)lent[i];
	}
	if (which == KERNEL_COUNT)
		memcpy(lent[0], &s->at, sizeof(s->at));
	else if (which != KERNEL_SPIN && device.steps + e.steps <= MOST_STEPS)
		compute(p, &own, block);
	device.steps += e.steps;
	for (i = 0; i < e.n; i++)
		give_back(args.a[e.at[i].arg], lent[i], e.at[i].bytes, e.at[i].use == WRITE);
}

/* Executes a block of code_text, which RUNS unless the worker's gate keeps it from that, or it has
 * run already. */
static void execute_code(struct slot *s, uint32_t block, bool runs)
{
	const struct piece *p = &s->piece;
	const struct gate_param gate = {
		.marks = p->gated ? (uintptr_t)s->gate_marks : 0,
		.flag = (uintptr_t)&device.gate_flag,
		.skipped = (uintptr_t)&device.gate_skipped,
		.serial = p->serial,
		.relay = (uintptr_t)device.gate_relay,
		.epoch = device.gate_epoch,
		.period = GATE_PERIOD,
	};
	const bool has_run = s->gate_marks[block] == p->serial;
	uint64_t words, at = array_of(p, &words);
	uint8_t *array;

	if (runs && !function_may_run(p)) {
		device.faulted = true;
		return;
	}
	array = words > SIZE || at % 4 != 0 ? NULL : lend(at, words * 4, true);
	device.steps += p->block[0] * p->block[1] * p->block[2];
	if (!array || device.steps > MOST_STEPS) {
		if (array)
			give_back(at, array, words * 4, false);
		return;
	}
	device.gate_skipped = 0;
	code_run(p, &gate, block, (uint32_t *)array, runs);
	if (p->gated) {
		HOLDS((s->gate_marks[block] == p->serial) == (runs || has_run));
		HOLDS(device.gate_skipped == (runs || has_run ? 0 : p->serial));
	}
	give_back(at, array, words * 4, runs);
}

/* Returns whether P takes time: it is executed step by step, not more than one each time. */
static bool takes_time(const struct piece *p)
{
	return p->kind == PIECE_KERNEL && (p->kernel == KERNEL_COUNT || p->kernel == KERNEL_SPIN);
}

/* How often execute_block() is called for P. */
static uint64_t blocks_of(const struct piece *p)
{
	uint64_t n;

	if (takes_time(p)) {
		memcpy(&n, p->params + (p->kernel == KERNEL_COUNT ? 8 : 0), sizeof(n));
		return p->kernel == KERNEL_COUNT ? n : n / 100000 + 1;
	}
	return (uint64_t)p->grid[0] * p->grid[1] * p->grid[2];
}

/* Executes the next block of S. Whether there is none left. */
static bool advance(struct slot *s)
{
	const struct piece *p = &s->piece;
	uint8_t *to, *from;
	bool runs = true;
	uint32_t block;

	if (p->kind == PIECE_TRANSFER) {
		to = lend(p->dst, p->bytes, true);
		from = lend(p->src, p->bytes, true);
		HOLDS(to && from);
		memmove(to, from, p->bytes);
		give_back(p->src, from, p->bytes, false);
		give_back(p->dst, to, p->bytes, true);
		return true;
	}
	if (s->at >= blocks_of(p) || device.hurries)
		return true;
	block = (uint32_t)s->at++;
	if (p->gated && blocks_of(p) <= MOST_BLOCKS) {
		runs = !s->marks[block] && !device.shut;
		s->skipped |= !s->marks[block] && device.shut;
		s->marks[block] |= runs;
	}
	if (is_code(p))
		execute_code(s, block, runs);
	else if (runs)
		execute_block(s, block);
	return s->at >= blocks_of(p);
}

void device_advance(uint32_t blocks)
{
	struct slot *s;
	uint32_t i;

	for (; blocks > 0 && device.n > 0 && !device.held && !device.faulted; blocks--) {
		HOLDS(!device.rests);
		s = &device.slots[device.queue[0]];
		/* what follows blocks that have not run must not run before them */
		for (i = 0; i < DEVICE_SLOTS; i++)
			HOLDS(device.slots[i].state != DEVICE_SKIPPED ||
			      device.slots[i].piece.serial > s->piece.serial || device.shut);
		if (takes_time(&s->piece))
			blocks = 1;
		if (!advance(s))
			continue;
		s->state = s->skipped ? DEVICE_SKIPPED : DEVICE_DONE;
		device.n--;
		memmove(device.queue, device.queue + 1, device.n * sizeof(device.queue[0]));
	}
}

static int model_launch(struct device *d, uint32_t slot, const struct piece *p)
{
	struct slot *s = &d->slots[slot];
	uint32_t i;

	on_moment(false);
	HOLDS(slot < DEVICE_SLOTS && d->n < DEVICE_SLOTS && !d->rests);
	HOLDS(p->kind <= PIECE_TRANSFER);
	for (i = 0; i < d->n; i++) {
		HOLDS(d->queue[i] != slot);
		HOLDS(d->slots[d->queue[i]].piece.gated == p->gated);
	}
	if (p->kind == PIECE_FUNCTION && p->grid[1] > 1)
		return -EINVAL;
	/* the same piece again, or a new one */
	if (s->state == DEVICE_SKIPPED && s->piece.serial == p->serial) {
		HOLDS(memcmp(&s->piece, p, sizeof(*p)) == 0);
	} else {
		HOLDS(p->serial > d->serial);
		d->serial = p->serial;
		memset(s->marks, 0, sizeof(s->marks));
		s->piece = *p;
	}
	if (p->kind == PIECE_TRANSFER && p->src - VARIABLE_AT < VARIABLE)
		may_write(in_arena(p->dst) ? SOFTGPU_ARENA_AT + (p->dst - ARENA_DEVICE_AT)
					   : p->dst - PARTITION_AT,
			  p->bytes);
	s->at = 0;
	s->skipped = false;
	s->used = true;
	s->state = DEVICE_RUNNING;
	d->queue[d->n++] = slot;
	return 0;
}

static enum device_state model_poll(struct device *d, uint32_t slot)
{
	HOLDS(slot < DEVICE_SLOTS && d->slots[slot].used && !d->rests);
	on_moment(false);
	return d->faulted ? DEVICE_LOST : d->slots[slot].state;
}

static void model_gate(struct device *d, bool shut)
{
	d->shut = shut;
	d->gate_flag = shut;
	d->gate_epoch += !shut;
}

/* What the compiler makes: the text of a module, with the gate if it is GATED. */
struct compiled {
	uint32_t module;
	bool is_code, gated, checks;
	char *text;
};

static void model_drop(void *compiled)
{
	struct compiled *c = compiled;

	device.compiled--;
	free(c->text);
	free(c);
}

/* Stands in for the compiler, of whose work only the gate is tested here. */
static int model_compile(struct device *d, uint32_t module, uint8_t *image, uint64_t bytes,
			 uint32_t flags, void **compiled, char *log, uint32_t log_size)
{
	struct vgpu_error err = {.text = ""};
	struct compiled *c = calloc(1, sizeof(*c));
	int r = 0;

	HOLDS(c && module < DEVICE_MODULES && image[bytes] == 0);
	*c = (struct compiled){.module = module,
			       .gated = flags & SOFTGPU_MODULE_GATED,
			       .checks = flags & SOFTGPU_MODULE_CHECK};
	c->is_code = bytes == strlen(code_text) && memcmp(image, code_text, bytes) == 0;
	if (image[0] == '?')
		r = -EINVAL;
	else if (gate_is_ptx(image, bytes) && c->gated)
		r = gate_ptx((char *)image, bytes, &c->text, &err);
	snprintf(log, log_size, "%s", err.text);
	free(image);
	d->compiled++;
	if (r == 0)
		*compiled = c;
	else
		model_drop(c);
	return r;
}

/* Module 15 of each ring does not load. */
static int model_load(struct device *d, uint32_t module, void *compiled)
{
	struct compiled *c = compiled;
	bool loads = module % SOFTGPU_MAX_MODULES != 15;

	HOLDS(module < DEVICE_MODULES && !d->loaded[module] && !d->rests);
	HOLDS(c->module == module && !c->checks && d->n == 0);
	d->loaded[module] = loads;
	if (loads && c->is_code)
		d->code[module] = code_create(c->text ? c->text : code_text, c->gated);
	model_drop(compiled);
	return loads ? (int)(module & 1) : -EINVAL;
}

static void model_unload(struct device *d, uint32_t module)
{
	HOLDS(module < DEVICE_MODULES && d->loaded[module] && d->n == 0);
	d->loaded[module] = false;
	code_destroy(d->code[module]);
	d->code[module] = NULL;
}

static bool is_known(const struct device *d, uint32_t module, const char *name)
{
	HOLDS(module < DEVICE_MODULES && d->loaded[module] && memchr(name, 0, SOFTGPU_NAME_BYTES));
	return name[0] != '?';
}

/* Finds what the module has under that name if it is of code_text; otherwise fill(dst, words,
 * value) under any name. */
static int model_function(struct device *d, uint32_t module, const char *name, struct piece *p,
			  struct device_params *params)
{
	uint32_t i;

	if (!is_known(d, module, name))
		return -EINVAL;
	for (i = 0; i < 3; i++)
		if (p->grid[i] > MOST_BLOCKS || p->block[i] > 1024)
			return -EINVAL;
	if (p->grid[0] * p->grid[1] * p->grid[2] > MOST_BLOCKS)
		return -EINVAL;
	if (p->block[0] * p->block[1] * p->block[2] > 1024)
		return -EINVAL;
	p->flags = d->code[module] && code_find(d->code[module], name, p, params);
	if (p->flags)
		return 0;
	p->function = d->variable + (uint8_t)name[0];
	p->gated = name[0] & 1 && !p->together;
	fill_params(params);
	return 0;
}

static int model_attributes(struct device *d, uint32_t module, const char *name, int32_t *out)
{
	memset(out, 1, SOFTGPU_FUNCTION_ATTRIBUTES * sizeof(*out));
	return is_known(d, module, name) ? 0 : -EINVAL;
}

static int model_occupancy(struct device *d, uint32_t module, const char *name, uint32_t threads,
			   uint32_t shared, uint32_t *blocks)
{
	*blocks = threads ^ shared;
	return is_known(d, module, name) ? 0 : -EINVAL;
}

static int model_symbol(struct device *d, uint32_t module, const char *name, uint64_t *at,
			uint64_t *bytes)
{
	if (!is_known(d, module, name))
		return -EINVAL;
	*at = VARIABLE_AT;
	*bytes = VARIABLE;
	return 0;
}

/* Each time some text, and then none. */
static uint32_t model_output(struct device *d, char *text, uint32_t room)
{
	HOLDS(d->n == 0 && room >= 5);
	d->has_printed = !d->has_printed;
	memcpy(text, "text\n", 5);
	return d->has_printed ? 5 : 0;
}

static const struct device_arena *model_arena(struct device *d)
{
	static struct device_arena arena = {ARENA_DEVICE_AT, GRANULE, GRANULES, NULL};

	arena.mapped = d->mapped;
	return &arena;
}

static int model_map(struct device *d, uint64_t at, uint64_t from, uint64_t n)
{
	uint64_t i;

	HOLDS(n > 0 && at < DEVICE_SOURCES * GRANULES && n <= DEVICE_SOURCES * GRANULES - at);
	HOLDS(from < (SIZE - WINDOW) / GRANULE && n <= (SIZE - WINDOW) / GRANULE - from);
	HOLDS(d->n == 0);
	for (i = 0; i < n; i++)
		HOLDS(d->mapped[at + i] == 0);
	if (d->maps_left == 0)
		return -ENOMEM;
	d->maps_left--;
	for (i = 0; i < n; i++)
		d->mapped[at + i] = 1 + (uint32_t)(from + i);
	return 0;
}

static int model_unmap(struct device *d, uint64_t at, uint64_t n)
{
	HOLDS(n > 0 && at < DEVICE_SOURCES * GRANULES && n <= DEVICE_SOURCES * GRANULES - at);
	HOLDS(d->n == 0);
	for (; n > 0; n--, at++) {
		HOLDS(d->mapped[at] != 0);
		d->mapped[at] = 0;
	}
	return 0;
}

const struct device_ops model_ops = {
	.address = model_address,
	.scratch = model_scratch,
	.launch = model_launch,
	.poll = model_poll,
	.gate = model_gate,
	.compile = model_compile,
	.load = model_load,
	.drop = model_drop,
	.unload = model_unload,
	.function = model_function,
	.attributes = model_attributes,
	.occupancy = model_occupancy,
	.symbol = model_symbol,
	.output = model_output,
	.arena = model_arena,
	.map = model_map,
	.unmap = model_unmap,
};
