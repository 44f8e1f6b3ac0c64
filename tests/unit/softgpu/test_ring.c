/* SPDX-License-Identifier: MIT */
/* A worker's ring on the CPU, in this process: launches of a guest's own GPU kernels from end to
 * end, and work that is stopped and continued. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "confine.h"
#include "draw.h"
#include "forbear.h"
#include "fill_params.h"
#include "output.h"
#include "ring.h"
#include "slot.h"
#include "suite.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/*
 * A device that computes on the CPU, with a slow compiler that knows one GPU kernel. A LAUNCH of it
 * takes the whole path: its arguments are checked and put where the GPU kernel expects them.
 */
static _Atomic uint32_t compiler_may_end, woken;
static const char *complaint;
static int compilers_nice; /* getpriority(2) of the thread that compiles */
static pid_t compiler;	   /* its number */

static int slow_compile(struct device *, uint32_t, uint8_t *image, uint64_t, uint32_t,
			void **compiled, char *log, uint32_t log_size)
{
	compilers_nice = getpriority(PRIO_PROCESS, 0);
	compiler = gettid();
	while (!atomic_load(&compiler_may_end))
		sched_yield();
	snprintf(log, log_size, "%s", complaint ? complaint : (char *)image);
	free(image);
	*compiled = NULL;
	return complaint ? -EINVAL : 0;
}

static int load_nothing(struct device *, uint32_t, void *)
{
	return 0;
}

/* Finds fill(dst, words, value), whose parameters have 8 bytes each. */
static int find_fill(struct device *, uint32_t, const char *name, struct piece *p,
		     struct device_params *params)
{
	if (strcmp(name, "fill") != 0 || p->block[0] != 256)
		return -EINVAL;
	p->kind = PIECE_KERNEL;
	p->kernel = KERNEL_FILL;
	fill_params(params);
	return 0;
}

/* The same for a question, which names no grid. */
static int find_any_block(struct device *d, uint32_t module, const char *name, struct piece *p,
			  struct device_params *params)
{
	CU_ASSERT_PTR_NOT_NULL(memchr(name, 0, sizeof(((struct softgpu_function *)0)->name)));
	p->block[0] = 256;
	return find_fill(d, module, name, p, params);
}

static int know_nothing(struct device *, uint32_t, const char *name, int32_t *out)
{
	out[4] = (int32_t)strlen(name);
	return 0;
}

static uint8_t variable[4u << 20];

/* "variable", a large one. */
static int find_variable(struct device *, uint32_t module, const char *name, uint64_t *at,
			 uint64_t *bytes)
{
	if (strcmp(name, "variable") != 0 || module != 3)
		return -EINVAL;
	*at = (uintptr_t)variable;
	*bytes = sizeof(variable);
	return 0;
}

static int count_blocks(struct device *, uint32_t, const char *name, uint32_t threads,
			uint32_t shared, uint32_t *blocks)
{
	*blocks = threads + shared;
	return strcmp(name, "fill") == 0 ? 0 : -EINVAL;
}

static void count_wake(void)
{
	woken++;
}

/* The ring's thread, once it has sent a DMA; and how often it had slept then. */
static _Atomic int sender;
static long sender_slept;

static void hear(const struct worker_message *m)
{
	struct rusage usage;

	if (m->type != WORKER_DMA)
		return;
	getrusage(RUSAGE_THREAD, &usage);
	sender_slept = usage.ru_nvcsw;
	atomic_store(&sender, gettid());
}

#define MIB (UINT64_C(1) << 20)
struct bench {
	struct device_ops ops;
	struct device *device;
	struct worker_shared shared;
	struct ring *ring;
	uint8_t *window;
	int event_fd;
	struct worker_message ended;
};

static void bench_open(struct bench *b)
{
	struct device_setup setup = {.window_size = MIB, .size = 2 * MIB};
	struct ring_setup ring = {.window_size = MIB,
				  .size = 2 * MIB,
				  .modules = true,
				  .linger = 50 * VGPU_USEC};
	struct vgpu_error err;

	memset(b, 0, sizeof(*b));
	b->window = setup.window = ring.window = aligned_alloc(4096, MIB);
	memset(b->window, 0, MIB);
	b->ops = device_host;
	b->ops.compile = slow_compile;
	b->ops.load = load_nothing;
	b->ops.function = find_fill;
	b->ops.attributes = know_nothing;
	b->ops.symbol = find_variable;
	b->ops.occupancy = count_blocks;
	b->event_fd = eventfd(0, EFD_CLOEXEC);
	CU_ASSERT_FATAL(b->ops.prepare(&b->device, &setup, &err) == 0);
	CU_ASSERT_FATAL(b->ops.open(b->device, &setup, &err) == 0);
	ring.device = b->device;
	ring.ops = &b->ops;
	ring.shared = &b->shared;
	ring.event_fd = b->event_fd;
	ring.send = hear;
	ring.wake = count_wake;
	b->ring = ring_create(&ring);
	CU_ASSERT_PTR_NOT_NULL_FATAL(b->ring);
}

static void bench_close(struct bench *b)
{
	ring_destroy(b->ring);
	b->ops.close(b->device);
	close(b->event_fd);
	free(b->window);
}

static void bench_put(struct bench *b, struct softgpu_packet p)
{
	uint64_t at = atomic_load(&b->shared.wptr);

	memcpy(b->window + at % 16 * sizeof(p), &p, sizeof(p));
	atomic_store(&b->shared.wptr, at + 1);
}

static void bench_begin(struct bench *b)
{
	struct worker_message m = {.run = {0, 16, b->ended.ended.rptr, 4096, 0, 0}};

	ring_run(b->ring, &m);
}

/* Waits until the run ends. Returns how it ended. */
static uint32_t bench_end(struct bench *b)
{
	uint64_t n;

	do {
		CU_ASSERT_FATAL(read(b->event_fd, &n, sizeof(n)) == sizeof(n));
	} while (!ring_end(b->ring, &b->ended));
	return b->ended.ended.end;
}

static uint32_t bench_run(struct bench *b)
{
	bench_begin(b);
	return bench_end(b);
}

static const struct softgpu_packet load_packet = {SOFTGPU_MODULE_LOAD, 0, {3, 8192, 5, 12288, 16}};

/* Runs until the packet that compiles has ended. */
static void bench_compile(struct bench *b)
{
	while (bench_run(b) == WORKER_IDLE && b->ended.ended.active)
		while (atomic_load(&b->shared.waits))
			sched_yield();
}

static void bench_load(struct bench *b)
{
	atomic_store(&compiler_may_end, 1);
	bench_put(b, load_packet);
	bench_compile(b);
}

static void put_launch(struct bench *b, const char *name, uint32_t threads,
		       struct softgpu_launch_arg first, uint32_t n)
{
	struct softgpu_launch l = {
		.grid = {1, 1, 1},
		.block = {threads, 1, 1},
		.n_args = n,
		.args = {first, {SOFTGPU_ARG_VALUE, 0, 1000, 8}, {SOFTGPU_ARG_BYTES, 0, 20480, 8}},
	};

	snprintf(l.function, sizeof(l.function), "%s", name);
	memcpy(b->window + 16384, &l, sizeof(l));
	bench_put(b, (struct softgpu_packet){SOFTGPU_LAUNCH, 0, {3, 16384, sizeof(l)}});
}

/* softgpu counts what a worker uses for compilers by one thread: see device/spent.h. */
TEST(compilers, "one thread compiles one module after the other")
{
	struct bench b;
	pid_t first;

	bench_open(&b);
	bench_load(&b);
	first = compiler;
	compiler = 0;
	bench_load(&b);
	CU_ASSERT(first > 0 && compiler == first);
	CU_ASSERT_FALSE(ring_compiles(b.ring));
	atomic_store(&compiler_may_end, 0);
	bench_put(&b, load_packet);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT_TRUE(ring_compiles(b.ring));
	atomic_store(&compiler_may_end, 1);
	bench_close(&b);
}

TEST(modules, "modules are loaded, launched and unloaded")
{
	const struct softgpu_launch_arg dst = {SOFTGPU_ARG_BUFFER, 0, MIB, 4000};
	const int own_nice = getpriority(PRIO_PROCESS, 0);
	struct bench b;
	uint32_t i, wrong = 0;

	bench_open(&b);
	atomic_store(&compiler_may_end, 0);
	woken = 0;
	memcpy(b.window + 8192, "image", 5);
	bench_put(&b, load_packet);
	/* the compiler is at work: the ring is idle, and the packet has not ended */
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(b.ended.ended.active && atomic_load(&b.shared.waits) == 1 && woken == 0);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(b.ended.ended.active);
	atomic_store(&compiler_may_end, 1);
	while (!woken)
		sched_yield();
	CU_ASSERT_EQUAL(atomic_load(&b.shared.waits), 0);
	/* it takes little of the CPUs from whoever else needs them */
	CU_ASSERT(compilers_nice == CONFINE_NICE ||
		  (own_nice > CONFINE_NICE && compilers_nice == own_nice));
	/* the GPU kernel writes to an address of device memory; the value comes from the window */
	*(uint64_t *)(b.window + 20480) = 0xabcd1234;
	put_launch(&b, "fill", 256, dst, 3);
	bench_put(&b, (struct softgpu_packet){SOFTGPU_DOWNLOAD, 0, {32768, MIB, 4004}});
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(!b.ended.ended.active && b.ended.ended.rptr == 3);
	CU_ASSERT_STRING_EQUAL((char *)b.window + 12288, "image");
	for (i = 0; i < 1000; i++)
		wrong += ((uint32_t *)(b.window + 32768))[i] != 0xabcd1234;
	CU_ASSERT(wrong == 0 && ((uint32_t *)(b.window + 32768))[1000] == 0);
	bench_put(&b, (struct softgpu_packet){SOFTGPU_MODULE_UNLOAD, 0, {3}});
	put_launch(&b, "fill", 256, dst, 3);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_FAILED);
	CU_ASSERT_EQUAL(b.ended.ended.error, SOFTGPU_BAD_LAUNCH);
	bench_close(&b);
}

TEST(hostile_launches, "hostile launches fail with an error")
{
	static const struct {
		const char *name;
		uint32_t threads, n;
		struct softgpu_launch_arg first;
		uint32_t error;
	} cases[] = {
		{"nothing", 256, 3, {SOFTGPU_ARG_BUFFER, 0, MIB, 4000}, SOFTGPU_BAD_LAUNCH},
		{"fill", 0, 3, {SOFTGPU_ARG_BUFFER, 0, MIB, 4000}, SOFTGPU_BAD_LAUNCH},
		{"fill", 257, 3, {SOFTGPU_ARG_BUFFER, 0, MIB, 4000}, SOFTGPU_BAD_LAUNCH},
		{"fill", 256, 2, {SOFTGPU_ARG_BUFFER, 0, MIB, 4000}, SOFTGPU_BAD_LAUNCH},
		{"fill",
		 256,
		 SOFTGPU_MAX_LAUNCH_ARGS + 1,
		 {SOFTGPU_ARG_BUFFER, 0, MIB, 4000},
		 SOFTGPU_BAD_LAUNCH},
		{"fill", 256, UINT32_MAX, {SOFTGPU_ARG_BUFFER, 0, MIB, 4000}, SOFTGPU_BAD_LAUNCH},
		{"fill", 256, 3, {SOFTGPU_ARG_BUFFER, 0, 2 * MIB - 8, 16}, SOFTGPU_OUT_OF_RANGE},
		{"fill", 256, 3, {SOFTGPU_ARG_BUFFER, 0, MIB - 8, 16}, SOFTGPU_OUT_OF_RANGE},
		{"fill", 256, 3, {SOFTGPU_ARG_BUFFER, 0, UINT64_MAX, 2}, SOFTGPU_OUT_OF_RANGE},
		{"fill", 256, 3, {SOFTGPU_ARG_VALUE, 0, 1, 4}, SOFTGPU_BAD_LAUNCH},
		{"fill", 256, 3, {SOFTGPU_ARG_VALUE, 0, 1, UINT64_MAX}, SOFTGPU_BAD_LAUNCH},
		{"fill", 256, 3, {SOFTGPU_ARG_BYTES, 0, MIB - 4, 8}, SOFTGPU_OUT_OF_RANGE},
		{"fill", 256, 3, {SOFTGPU_ARG_BYTES, 0, MIB, 8}, SOFTGPU_OUT_OF_RANGE},
		{"fill", 256, 3, {3, 0, MIB, 8}, SOFTGPU_BAD_LAUNCH},
	};
	struct bench b;
	size_t i;

	complaint = NULL;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bench_open(&b);
		bench_load(&b);
		put_launch(&b, cases[i].name, cases[i].threads, cases[i].first, cases[i].n);
		CU_ASSERT_EQUAL(bench_run(&b), WORKER_FAILED);
		CU_ASSERT_EQUAL(b.ended.ended.error, cases[i].error);
		bench_close(&b);
	}
	/* a name without a terminating zero */
	bench_open(&b);
	bench_load(&b);
	put_launch(&b, "fill", 256, cases[0].first, 3);
	memset(b.window + 16384 + offsetof(struct softgpu_launch, function), 'f',
	       SOFTGPU_NAME_BYTES);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_FAILED);
	bench_close(&b);
	/* a module that does not compile leaves the compiler's message, cut to the room that there
	 * is */
	complaint = "line 17: what is this supposed to be?";
	bench_open(&b);
	memset(b.window + 12288, 'x', 64);
	bench_load(&b);
	CU_ASSERT_EQUAL(b.ended.ended.end, WORKER_FAILED);
	CU_ASSERT_EQUAL(b.ended.ended.error, SOFTGPU_BAD_MODULE);
	CU_ASSERT_STRING_EQUAL((char *)b.window + 12288, "line 17: what i");
	CU_ASSERT_EQUAL(b.window[12288 + 16], 'x');
	bench_close(&b);
	complaint = NULL;
}

/* A device whose launches of functions fail, like a driver that refuses the grid. */
static int refuse_launch(struct device *d, uint32_t slot, const struct piece *p)
{
	return p->kind == PIECE_FUNCTION ? -EINVAL : device_host.launch(d, slot, p);
}

static int find_refused(struct device *d, uint32_t module, const char *name, struct piece *p,
			struct device_params *params)
{
	int r = find_fill(d, module, name, p, params);

	p->kind = PIECE_FUNCTION;
	return r;
}

static struct softgpu_launch_arg to_memory(void)
{
	return (struct softgpu_launch_arg){SOFTGPU_ARG_BUFFER, 0, MIB, 4000};
}

/* What is wrong with a module or a launch is written to where the packet says, and the VF works
 * on; without the flag, or if a packet itself is wrong, the VF stops. */
TEST(reports, "what is wrong is reported where the packet says")
{
	struct softgpu_packet load = load_packet,
			      last = {SOFTGPU_LAUNCH, 0, {3, 16384, sizeof(struct softgpu_launch)}};
	struct bench b;
	uint64_t *seen;

	bench_open(&b);
	seen = (uint64_t *)(b.window + 40960);
	load.flags = SOFTGPU_REPORT;
	load.arg[6] = 40960;
	last.flags = SOFTGPU_REPORT;
	last.arg[6] = 40968;
	complaint = "no";
	atomic_store(&compiler_may_end, 1);
	bench_put(&b, load);
	bench_compile(&b);
	CU_ASSERT_EQUAL(b.ended.ended.end, WORKER_IDLE);
	CU_ASSERT(seen[0] == SOFTGPU_BAD_MODULE && seen[1] == 0);
	CU_ASSERT_STRING_EQUAL((char *)b.window + 12288, "no");
	complaint = NULL;
	/* nothing is loaded */
	put_launch(&b, "fill", 256, to_memory(), 3);
	b.shared.wptr--;
	bench_put(&b, last);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT_EQUAL(seen[1], SOFTGPU_BAD_LAUNCH);
	bench_load(&b);
	/* refused by the worker, by the range of an argument, and by the device */
	seen[1] = 0;
	put_launch(&b, "nothing", 256, to_memory(), 3);
	b.shared.wptr--;
	bench_put(&b, last);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT_EQUAL(seen[1], SOFTGPU_BAD_LAUNCH);
	put_launch(&b, "fill", 256, (struct softgpu_launch_arg){SOFTGPU_ARG_BUFFER, 0, 9 * MIB, 1},
		   3);
	b.shared.wptr--;
	bench_put(&b, last);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT_EQUAL(seen[1], SOFTGPU_OUT_OF_RANGE);
	b.ops.launch = refuse_launch;
	b.ops.function = find_refused;
	seen[1] = 0;
	put_launch(&b, "fill", 256, to_memory(), 3);
	b.shared.wptr--;
	bench_put(&b, last);
	bench_put(&b, (struct softgpu_packet){SOFTGPU_FENCE, 0, {77}});
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(seen[1] == SOFTGPU_BAD_LAUNCH && *(uint64_t *)(b.window + 4096) == 77);
	CU_ASSERT_EQUAL(seen[0], SOFTGPU_BAD_MODULE);
	/* a right launch writes nothing */
	b.ops.launch = device_host.launch;
	b.ops.function = find_fill;
	seen[1] = 1234;
	put_launch(&b, "fill", 256, to_memory(), 3);
	b.shared.wptr--;
	bench_put(&b, last);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT_EQUAL(seen[1], 1234);
	last.arg[6] = MIB - 4;
	bench_put(&b, last);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_FAILED);
	CU_ASSERT_EQUAL(b.ended.ended.error, SOFTGPU_BAD_ARGUMENT);
	bench_close(&b);
}

/* FUNCTION and ABOUT. */
TEST(questions, "questions about functions and the device are answered")
{
	const struct softgpu_packet ask = {SOFTGPU_FUNCTION,
					   0,
					   {3, 40960, sizeof(struct softgpu_function)}};
	struct softgpu_function *f;
	struct softgpu_about *about;
	struct bench b;

	bench_open(&b);
	f = (struct softgpu_function *)(b.window + 40960);
	about = (struct softgpu_about *)(b.window + 49152);
	snprintf(f->name, sizeof(f->name), "fill");
	bench_put(&b, ask);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(f->error == SOFTGPU_BAD_LAUNCH && f->n_params == 0); /* not loaded */
	bench_load(&b);
	b.ops.function = find_any_block;
	bench_put(&b, ask);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(f->error == SOFTGPU_OK && f->n_params == 3 && f->offset[2] == 16 &&
		  f->size[2] == 8 && f->attributes[4] == 4);
	memset(f->name, 'f', sizeof(f->name)); /* without an end */
	bench_put(&b, ask);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(f->error == SOFTGPU_BAD_LAUNCH && f->n_params == 0 &&
		  f->name[SOFTGPU_NAME_BYTES - 1] == 'f');
	snprintf(b.shared.about.name, sizeof(b.shared.about.name), "a device");
	b.shared.about.attributes[127] = 42;
	bench_put(&b, (struct softgpu_packet){SOFTGPU_ABOUT, 0, {0, 49152, sizeof(*about)}});
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT_STRING_EQUAL(about->name, "a device");
	CU_ASSERT(about->attributes[127] == 42 && about->window_at == b.ops.address(b.device, 0) &&
		  about->memory_at == b.ops.address(b.device, MIB));
	bench_put(&b, (struct softgpu_packet){SOFTGPU_ABOUT, 0, {0, MIB - 8, sizeof(*about)}});
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_FAILED);
	CU_ASSERT_EQUAL(b.ended.ended.error, SOFTGPU_OUT_OF_RANGE);
	bench_close(&b);
}

static void put_copy(struct bench *b, struct softgpu_symbol_copy c, uint32_t flags)
{
	memcpy(b->window + 57344, &c, sizeof(c));
	bench_put(b, (struct softgpu_packet){SOFTGPU_SYMBOL_COPY,
					     flags,
					     {3, 57344, sizeof(c), 0, 0, 0, 65536}});
}

/* SYMBOL, OCCUPANCY and SYMBOL_COPY: right ones; and each wrong one, which is reported or stops the
 * VF, and changes nothing. */
TEST(variables, "variables of modules are found and copied")
{
	static const struct softgpu_symbol_copy wrong[] = {
		{"variables", 0, 0, 8, 0, 0},
		{"variable", sizeof(variable) - 7, 0, 8, 0, 0},
		{"variable", 1, 0, UINT64_MAX, 0, 0},
		{"variable", UINT64_MAX, 0, 8, 0, 0},
		{"variable", 0, 2 * MIB - 7, 8, 1, 0},
		{"variable", 0, MIB - 4, 8, 1, 0}, /* from the window to what is behind it */
		{"variable", 0, 0, 8, 2, 0},
	};
	struct softgpu_symbol *s;
	struct softgpu_occupancy *o;
	struct bench b;
	uint64_t *reported;
	size_t i;

	bench_open(&b);
	bench_load(&b);
	s = (struct softgpu_symbol *)(b.window + 40960);
	o = (struct softgpu_occupancy *)(b.window + 49152);
	reported = (uint64_t *)(b.window + 65536);
	snprintf(s->name, sizeof(s->name), "variable");
	bench_put(&b, (struct softgpu_packet){SOFTGPU_SYMBOL, 0, {3, 40960, sizeof(*s)}});
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(s->error == SOFTGPU_OK && s->at == (uintptr_t)variable &&
		  s->bytes == sizeof(variable));
	bench_put(&b, (struct softgpu_packet){SOFTGPU_SYMBOL, 0, {2, 40960, sizeof(*s)}});
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(s->error == SOFTGPU_BAD_ARGUMENT && s->at == 0); /* not loaded */
	memset(s->name, 'v', sizeof(s->name));
	bench_put(&b, (struct softgpu_packet){SOFTGPU_SYMBOL, 0, {3, 40960, sizeof(*s)}});
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(s->error == SOFTGPU_BAD_ARGUMENT);
	*o = (struct softgpu_occupancy){.name = "fill", .threads = 64, .shared = 3};
	bench_put(&b, (struct softgpu_packet){SOFTGPU_OCCUPANCY, 0, {3, 49152, sizeof(*o)}});
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(o->error == SOFTGPU_OK && o->blocks == 67);
	/* 512 KiB there, and back to another place */
	for (i = 0; i < MIB / 2; i++)
		b.window[MIB / 2 + i] = (uint8_t)(i * 7 + i / 256);
	put_copy(&b, (struct softgpu_symbol_copy){"variable", 5, MIB / 2, MIB / 2, 0, 0}, 0);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(memcmp(variable + 5, b.window + MIB / 2, MIB / 2) == 0);
	put_copy(&b, (struct softgpu_symbol_copy){"variable", 9, MIB, MIB / 2, 1, 0}, 0);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(memcmp((void *)(uintptr_t)b.ops.address(b.device, MIB), variable + 9, MIB / 2) ==
		  0);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		*reported = 0;
		put_copy(&b, wrong[i], SOFTGPU_REPORT);
		CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
		CU_ASSERT(*reported != 0);
	}
	put_copy(&b, wrong[0], 0);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_FAILED);
	CU_ASSERT_EQUAL(b.ended.ended.error, SOFTGPU_BAD_ARGUMENT);
	bench_close(&b);
}

/* What the device holds of printed text. */
static char held[3 * OUTPUT_MOST];
static uint32_t n_held;

static int load_printer(struct device *d, uint32_t module, void *compiled)
{
	return load_nothing(d, module, compiled) + 1;
}

static uint32_t give_text(struct device *, char *text, uint32_t room)
{
	uint32_t n = n_held < room ? n_held : room;

	memcpy(text, held, n);
	n_held -= n;
	memmove(held, held + n, n_held);
	return n;
}

static void hold(const char *text, uint32_t n)
{
	memcpy(held + n_held, text, n);
	n_held += n;
}

/* OUTPUT: text comes once, in order, and the oldest is lost; none is written over what the guest
 * has not taken. */
TEST(printed, "what GPU kernels print is kept for the guest")
{
	static const struct softgpu_packet wrong[] = {
		{SOFTGPU_OUTPUT, 0, {0, 65536, sizeof(struct softgpu_output) - 8}},
		{SOFTGPU_OUTPUT, 0, {0, 65540, sizeof(struct softgpu_output)}},
		{SOFTGPU_OUTPUT, 0, {0, MIB - 8, sizeof(struct softgpu_output)}},
	};
	const struct softgpu_packet ask = {SOFTGPU_OUTPUT,
					   0,
					   {0, 65536, sizeof(struct softgpu_output)}};
	static char much[16384];
	struct softgpu_output *out;
	struct bench b;
	uint64_t got = 0;
	uint32_t i;

	bench_open(&b);
	out = (struct softgpu_output *)(b.window + 65536);
	b.ops.output = give_text;
	bench_load(&b);
	hold("nobody's", 8); /* no module can print */
	put_launch(&b, "fill", 256, to_memory(), 3);
	bench_put(&b, ask);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(out->prints == 0 && out->bytes == 0 && out->left == 0);
	n_held = 0;
	b.ops.load = load_printer;
	bench_load(&b);
	put_launch(&b, "fill", 256, to_memory(), 3);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	hold("one", 3);
	bench_put(&b, ask);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(out->prints == 1 && out->bytes == 3 && out->left == 0);
	CU_ASSERT(memcmp(out->text, "one", 3) == 0);
	put_launch(&b, "fill", 256, to_memory(), 3);
	hold("two", 3);
	bench_put(&b, ask); /* it was not taken */
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(out->bytes == 3 && out->left == 3 && memcmp(out->text, "one", 3) == 0);
	out->bytes = 0;
	bench_put(&b, ask);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(out->bytes == 3 && out->left == 0 && memcmp(out->text, "two", 3) == 0);
	/* more than is kept */
	out->bytes = 0;
	put_launch(&b, "fill", 256, to_memory(), 3);
	hold("oldest", 6);
	memset(much, '-', sizeof(much));
	for (i = 0; i < OUTPUT_MOST / sizeof(much); i++)
		hold(much, sizeof(much));
	do {
		bench_put(&b, ask);
		CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
		CU_ASSERT_FATAL(out->bytes > 0);
		CU_ASSERT_EQUAL(out->text[0], '-'); /* "oldest" is lost */
		got += out->bytes;
		out->bytes = 0;
	} while (out->left > 0);
	CU_ASSERT_EQUAL(got, OUTPUT_MOST);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		bench_put(&b, wrong[i]);
		CU_ASSERT_EQUAL(bench_run(&b), WORKER_FAILED);
		bench_close(&b);
		bench_open(&b);
	}
	bench_close(&b);
}

static enum device_state assert_poll(struct device *d, uint32_t slot)
{
	return device_host.poll(d, slot) == DEVICE_DONE ? DEVICE_ASSERTED : DEVICE_RUNNING;
}

static bool has_said;

/* A driver says it once. */
static void say(struct device *, char *text, uint32_t room)
{
	snprintf(text, room, "%s", has_said ? "" : "an assertion");
	has_said = true;
}

/* The loss is noticed by a launch, and by a poll of each piece in flight. */
static uint32_t launched, looked;

static int launch_two(struct device *, uint32_t, const struct piece *)
{
	return ++launched == 2 ? -ECANCELED : 0;
}

static enum device_state poll_lost(struct device *, uint32_t)
{
	if (launched == 2)
		return DEVICE_ASSERTED;
	return ++looked < 1000 ? DEVICE_RUNNING : DEVICE_DONE;
}

TEST(asserted, "a device that an assertion has ended says so")
{
	struct bench b;

	bench_open(&b);
	has_said = false;
	b.ops.poll = assert_poll;
	b.ops.last_words = say;
	bench_load(&b);
	put_launch(&b, "fill", 256, to_memory(), 3);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_LOST);
	CU_ASSERT_EQUAL(b.ended.ended.error, SOFTGPU_ASSERTED);
	CU_ASSERT_STRING_EQUAL(b.shared.words, "an assertion");
	bench_close(&b);
}

TEST(asserted_twice, "a loss that several pieces show keeps its last words")
{
	struct bench b;

	bench_open(&b);
	has_said = false;
	launched = looked = 0;
	bench_put(&b, (struct softgpu_packet){SOFTGPU_FILL, 0, {65536, 4096, 1}});
	bench_put(&b, (struct softgpu_packet){SOFTGPU_FILL, 0, {65536, 4096, 1}});
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE); /* the pieces' times are known */
	b.ops.launch = launch_two;
	b.ops.poll = poll_lost;
	b.ops.last_words = say;
	bench_put(&b, (struct softgpu_packet){SOFTGPU_FILL, 0, {65536, 4096, 1}});
	bench_put(&b, (struct softgpu_packet){SOFTGPU_FILL, 0, {65536, 4096, 1}});
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_FAILED);
	CU_ASSERT_EQUAL(b.ended.ended.error, SOFTGPU_ASSERTED);
	CU_ASSERT_STRING_EQUAL(b.shared.words, "an assertion");
	bench_close(&b);
}

/* The number of launches of each piece, by its serial. */
#define SERIALS 65536u
static _Atomic uint8_t launches[SERIALS];

static int count_launch(struct device *d, uint32_t slot, const struct piece *p)
{
	if (!p->gated)
		launches[p->serial % SERIALS]++;
	return device_host.launch(d, slot, p);
}

/* Reports that a piece is done only at the second poll, as if it ended between two polls. */
static enum device_state late_poll(struct device *d, uint32_t slot)
{
	static bool seen[DEVICE_SLOTS];
	enum device_state state = device_host.poll(d, slot);

	seen[slot] = state == DEVICE_DONE && !seen[slot];
	return seen[slot] ? DEVICE_RUNNING : state;
}

/* A piece without a gate is launched once, whenever it is stopped; a piece with a gate is
 * continued. */
TEST(launched_once, "a piece without a gate is launched once")
{
	struct timespec turn = {0};
	uint32_t i, again = 0, stops = 0;
	struct worker_message m;
	struct bench b;
	uint64_t n;

	bench_open(&b);
	b.ops.launch = count_launch;
	b.ops.poll = late_poll;
	memset(launches, 0, sizeof(launches));
	for (i = 0; i < 400; i++) {
		bench_put(&b, (struct softgpu_packet){SOFTGPU_NONPREEMPTIBLE, 0, {20 + draw(60)}});
		bench_put(&b, (struct softgpu_packet){SOFTGPU_DOWNLOAD, 0, {65536, MIB, 65536}});
		bench_put(&b, (struct softgpu_packet){SOFTGPU_FILL, 0, {131072, 65536, i}});
		bench_put(&b, (struct softgpu_packet){SOFTGPU_FENCE, 0, {i + 1}});
		do {
			m = (struct worker_message){.run = {0, 16, b.ended.ended.rptr, 4096, 0, 0}};
			ring_run(b.ring, &m);
			turn.tv_nsec = (long)draw(150000);
			nanosleep(&turn, NULL);
			ring_stop(b.ring);
			do {
				CU_ASSERT_FATAL(read(b.event_fd, &n, sizeof(n)) == sizeof(n));
			} while (!ring_end(b.ring, &b.ended));
			stops++;
			CU_ASSERT_FATAL(b.ended.ended.end <= WORKER_STOPPED);
		} while (b.ended.ended.active || b.ended.ended.rptr != 4 * (i + 1));
		CU_ASSERT_EQUAL(*(uint64_t *)(b.window + 4096), i + 1);
		CU_ASSERT_EQUAL(*(uint32_t *)(b.window + 131072 + 65532), i);
	}
	for (i = 0; i < SERIALS; i++)
		again += launches[i] > 1;
	CU_ASSERT_EQUAL(again, 0);
	CU_ASSERT(stops > 500);
	bench_close(&b);
}

static _Atomic uint64_t polls;

static enum device_state count_poll(struct device *d, uint32_t slot)
{
	polls++;
	return device_host.poll(d, slot);
}

/* Returns whether there is no poll for 50 ms in a row, within ten seconds. */
static bool falls_asleep(void)
{
	const struct timespec step = {.tv_nsec = 10000000};
	uint32_t i, quiet = 0;
	uint64_t before;

	for (i = 0; i < 1000 && quiet < 5; i++) {
		before = polls;
		nanosleep(&step, NULL);
		quiet = before == polls ? quiet + 1 : 0;
	}
	return quiet == 5;
}

/* While the device is stopped hard the ring's thread sleeps, until the next run. */
TEST(frozen, "a ring whose device is stopped sleeps")
{
	struct worker_message m, ended;
	uint32_t i, stops = 0;
	uint64_t before, n;
	struct bench b;

	bench_open(&b);
	b.ops.poll = count_poll;
	bench_put(&b, (struct softgpu_packet){SOFTGPU_COUNT, 0, {65536, 20000}});
	for (i = 0; i < 200; i++) {
		m = (struct worker_message){.run = {0, 16, b.ended.ended.rptr, 4096, 0, 0}};
		before = polls;
		ring_run(b.ring, &m);
		while (i < 3 && polls == before) /* until it is on the device */
			sched_yield();
		ring_stop(b.ring);
		CU_ASSERT_EQUAL_FATAL(b.ops.stop(b.device, WORKER_STOP_CHANNELS), 0);
		stops += ring_freeze(b.ring, SOFTGPU_PREEMPT_HARD, &ended);
		if (i < 3)
			CU_ASSERT(falls_asleep());
		b.ops.resume(b.device);
	}
	m = (struct worker_message){.run = {0, 16, b.ended.ended.rptr, 4096, 0, 0}};
	ring_run(b.ring, &m);
	do {
		CU_ASSERT_FATAL(read(b.event_fd, &n, sizeof(n)) == sizeof(n));
	} while (!ring_end(b.ring, &b.ended));
	CU_ASSERT_EQUAL(b.ended.ended.end, WORKER_IDLE);
	CU_ASSERT_EQUAL(*(uint64_t *)(b.window + 65536), 20000);
	CU_ASSERT(stops > 3);
	bench_close(&b);
}

/* The steps of the test below. The ring's thread fetches the second packet between its second and
 * its third poll, and is held in the third one, so that nobody else knows of the packet yet. */
static struct bench *fetching;
static _Atomic uint32_t fetch_step, unmarked;
enum { SECOND_POLL = 2, HELD, RELEASED };

static enum device_state fetch_poll(struct device *d, uint32_t slot)
{
	enum device_state state = device_host.poll(d, slot);

	if (fetch_step >= HELD)
		return state;
	if (++fetch_step == SECOND_POLL) {
		bench_put(fetching, (struct softgpu_packet){SOFTGPU_NONPREEMPTIBLE, 0, {1}});
	} else if (fetch_step == HELD) {
		while (fetch_step == HELD)
			sched_yield();
		state = device_host.poll(d, slot);
	}
	return fetch_step < HELD ? DEVICE_RUNNING : state;
}

static int count_unmarked(struct device *d, uint32_t slot, const struct piece *p)
{
	unmarked += !p->gated;
	return device_host.launch(d, slot, p);
}

/* A packet that the ring's thread fetches while the device is being stopped hard runs once,
 * although softgpu has not heard of it. */
TEST(fetched_once, "a packet that is fetched during a stop runs once")
{
	struct worker_message m = {.run = {0, 16, 0, 4096, 0, 0}}, frozen;
	struct bench b;
	uint64_t n;

	bench_open(&b);
	b.ops.poll = fetch_poll;
	b.ops.launch = count_unmarked;
	fetching = &b;
	fetch_step = unmarked = 0;
	bench_put(&b, (struct softgpu_packet){SOFTGPU_COUNT, 0, {65536, 10}});
	ring_run(b.ring, &m);
	while (fetch_step != HELD || b.ops.poll(b.device, 0) != DEVICE_DONE)
		sched_yield();
	ring_stop(b.ring);
	CU_ASSERT_EQUAL_FATAL(b.ops.stop(b.device, WORKER_STOP_CHANNELS), 0);
	CU_ASSERT(ring_freeze(b.ring, SOFTGPU_PREEMPT_HARD, &frozen));
	CU_ASSERT_EQUAL(frozen.ended.rptr, 1);
	fetch_step = RELEASED;
	CU_ASSERT_FATAL(read(b.event_fd, &n, sizeof(n)) == sizeof(n)); /* its run is over */
	b.ops.resume(b.device);
	b.ended = frozen;
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT_EQUAL(b.ended.ended.rptr, 2);
	CU_ASSERT_EQUAL(unmarked, 2);
	bench_close(&b);
}

static struct ring *stopping;
static int priority; /* of the thread in gate(), as /proc shows it */

static void *wait_for_lock(void *m)
{
	ring_end(stopping, m);
	return NULL;
}

static int priority_now(void)
{
	FILE *f = fopen("/proc/thread-self/stat", "re");
	int now = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %d",
		   &now) != 1)
		now = 0;
	fclose(f);
	return now;
}

/* Called with the ring's lock held: now a thread with a real-time priority waits for it. */
static void gate_with_waiter(struct device *d, bool shut)
{
	const struct sched_param param = {.sched_priority = 1};
	vgpu_nsec until = vgpu_now() + 20 * VGPU_SEC;
	static struct worker_message m;
	pthread_attr_t attr;
	pthread_t thread;

	(void)d, (void)shut;
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &param);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, &attr, wait_for_lock, &m), 0);
	pthread_attr_destroy(&attr);
	pthread_detach(thread);
	while ((priority = priority_now()) >= 0 && vgpu_now() < until)
		sched_yield();
}

/* On a busy host a thread that has the lock may have no CPU: it gets one when the thread that stops
 * work waits. */
TEST(lock_inherits, "who has the lock that a stop needs gets a CPU")
{
	struct bench b;

	bench_open(&b);
	b.ops.gate = gate_with_waiter;
	stopping = b.ring;
	ring_stop(b.ring);
	CU_ASSERT_EQUAL(priority, -2);
	bench_close(&b);
}

/* Waits before hard stops, for random work and for work that does what it can to be waited for:
 * each is for work that is predicted to end within it, and waits in vain are few. */
TEST(forbearance, "few waits for the end of work are in vain")
{
	uint32_t i, k, vain, limited = 0, all = 0;
	vgpu_nsec cost, ran, rest, most, wait;
	struct forbear f;
	bool ends, in_vain;

	CU_ASSERT_EQUAL(forbear_rest(0, 5), VGPU_NEVER);
	for (i = 0; i < 400; i++) {
		bool lies = i % 2;
		uint32_t in_row = 0;

		f = (struct forbear){0};
		most = 1 + draw(1000000);
		for (k = 0, vain = 0; k < 2000; k++) {
			cost = draw(4) ? 1 + draw(3 * most) : 0;
			ran = draw(4 * most);
			rest = forbear_rest(cost, ran);
			if (cost > 0 && ran <= 2 * cost)
				CU_ASSERT_EQUAL_FATAL(rest, cost > ran ? cost - ran : 0);
			if (cost == 0 || ran > 2 * cost + 1)
				CU_ASSERT_EQUAL_FATAL(rest, VGPU_NEVER);
			wait = forbear_wait(&f, rest, most);
			CU_ASSERT_FATAL(wait == 0 || (wait == most && rest < most));
			if (!lies && rest < most)
				CU_ASSERT_EQUAL_FATAL(wait, most);
			ends = !lies;
			in_vain = wait > 0 && !ends;
			in_row = in_vain ? in_row + 1 : 0;
			CU_ASSERT_FATAL(in_row <= FORBEAR_MISSES);
			vain += in_vain;
			limited += rest < most && wait == 0;
			all += rest < most;
			forbear_over(&f, ends);
		}
		CU_ASSERT_FATAL(vain <= FORBEAR_MISSES + 2000 / FORBEAR_AGAIN);
		CU_ASSERT(!lies || vain > FORBEAR_MISSES); /* it is tried again */
		/* work that ends as predicted is waited for again, at the latest after this */
		for (k = 0; lies && k < FORBEAR_AGAIN && forbear_wait(&f, 0, most) == 0; k++)
			forbear_over(&f, false);
		CU_ASSERT(k < FORBEAR_AGAIN);
		forbear_over(&f, true);
		CU_ASSERT_EQUAL(forbear_wait(&f, 0, most), most);
	}
	CU_ASSERT(limited > 1000 && all > limited);
}

/* The module's function counts without a gate: unlike a spin, it takes as long as it runs. */
#define COUNTS 100000u
static _Atomic uint64_t polls_before;

static int launch_count(struct device *d, uint32_t slot, const struct piece *p)
{
	const uint64_t args[] = {device_host.address(d, 65536), COUNTS};
	struct piece count = *p;

	count.kind = PIECE_KERNEL;
	count.kernel = KERNEL_COUNT;
	count.block[0] = 1;
	memcpy(count.params, args, sizeof(args));
	polls_before = polls;
	unmarked++;
	return device_host.launch(d, slot, &count);
}

static int find_count(struct device *d, uint32_t module, const char *name, struct piece *p,
		      struct device_params *params)
{
	p->function = &polls_before; /* its name for module_learn() */
	return find_refused(d, module, name, p, params);
}

/* Begins a run, and waits until the ring's thread knows the N-th launch as its head. */
static void run_until_launched(struct bench *b, uint32_t n)
{
	struct worker_message m = {.run = {0, 16, b->ended.ended.rptr, 4096, 0, UINT32_MAX}};

	ring_run(b->ring, &m);
	while (unmarked < n || polls < polls_before + 2)
		sched_yield();
}

/* A hard stop waits for a GPU kernel that is about to end, by what it took before; but not for one
 * that has not ended several times. Time while it is stopped does not count. */
TEST(forbears, "a hard stop waits for work that is about to end")
{
	const vgpu_nsec most = 2 * VGPU_USEC * UINT32_MAX;
	struct worker_message ended;
	vgpu_nsec begun = vgpu_now(), more; /* than twice what any launch can have taken */
	struct bench b;
	uint32_t i;
	uint64_t n;

	bench_open(&b);
	bench_load(&b);
	b.ops.function = find_count;
	b.ops.launch = launch_count;
	b.ops.poll = count_poll;
	unmarked = 0;
	put_launch(&b, "fill", 256, to_memory(), 3);
	run_until_launched(&b, 1);
	CU_ASSERT_EQUAL(ring_stop(b.ring), 0); /* nobody knows how long it takes */
	do {
		CU_ASSERT_FATAL(read(b.event_fd, &n, sizeof(n)) == sizeof(n));
	} while (!ring_end(b.ring, &b.ended));
	put_launch(&b, "fill", 256, to_memory(), 3);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	more = 3 * (vgpu_now() - begun);
	put_launch(&b, "fill", 256, to_memory(), 3);
	for (i = 0; i <= FORBEAR_MISSES; i++) {
		run_until_launched(&b, 3);
		CU_ASSERT_EQUAL(ring_stop(b.ring), i < FORBEAR_MISSES ? most : 0);
		CU_ASSERT_EQUAL_FATAL(b.ops.stop(b.device, WORKER_STOP_CHANNELS), 0);
		CU_ASSERT_FATAL(ring_freeze(b.ring, SOFTGPU_PREEMPT_HARD, &ended));
		if (i == 0)
			nanosleep(&(struct timespec){(time_t)(more / VGPU_SEC),
						     (long)(more % VGPU_SEC)},
				  NULL);
		b.ops.resume(b.device);
		b.ended = ended;
	}
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	bench_close(&b);
}

/* Slots, each with a ring of 16 packets. */

#define SLOT_RING(slot) (131072u + (slot)*4096u)

static struct softgpu_slot *slot_of(const struct bench *b, uint32_t slot)
{
	return (struct softgpu_slot *)(b->window + 65536) + slot;
}

static void open_slots(struct bench *b, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		*slot_of(b, i) =
			(struct softgpu_slot){.asked = 1, .ring = SLOT_RING(i), .packets = 16};
	bench_put(b, (struct softgpu_packet){SOFTGPU_SLOTS, 0, {65536, n}});
	CU_ASSERT_EQUAL(bench_run(b), WORKER_IDLE);
	for (i = 0; i < n; i++)
		CU_ASSERT(slot_of(b, i)->answered == 1 && slot_of(b, i)->error == SOFTGPU_OK);
}

/* Returns whether the worker looks for it. */
static bool slot_put(struct bench *b, uint32_t slot, struct softgpu_packet p)
{
	struct softgpu_slot *s = slot_of(b, slot);

	memcpy(b->window + SLOT_RING(slot) + s->wptr % 16 * sizeof(p), &p, sizeof(p));
	return slot_show(s, s->wptr + 1);
}

static struct softgpu_packet a_fence(uint64_t value)
{
	return (struct softgpu_packet){SOFTGPU_FENCE, 0, {value}};
}

static struct softgpu_packet a_fill(uint64_t at, uint64_t value)
{
	return (struct softgpu_packet){SOFTGPU_FILL, 0, {at, 4096, value}};
}

/* A packet of each slot in turn: each fill overwrites the one of the slot before. */
TEST(slots_in_turn, "a packet of each slot in turn")
{
	struct bench b;
	uint32_t i;

	bench_open(&b);
	open_slots(&b, 3);
	for (i = 0; i < 3; i++) {
		slot_put(&b, i, a_fill(MIB + i * 4096, i + 1));
		slot_put(&b, i, a_fill(MIB + (i + 2) % 3 * 4096, 10 + i));
		slot_put(&b, i, a_fence(100 + i));
	}
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(!b.ended.ended.active);
	for (i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(slot_of(&b, i)->fence, 100 + i);
		bench_put(&b, (struct softgpu_packet){SOFTGPU_DOWNLOAD,
						      0,
						      {32768 + i * 8, MIB + i * 4096, 8}});
	}
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	/* the second packets came after all first ones */
	for (i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(((uint32_t *)(b.window + 32768))[i * 2], 10 + (i + 1) % 3);
	bench_close(&b);
}

/* What is wrong stops its slot, which begins anew when its guest asks for it. */
TEST(wrong_slots, "what is wrong stops its slot only")
{
	static const struct {
		struct softgpu_packet packet;
		uint64_t wptr;
		uint32_t error;
	} cases[] = {
		{{99, 0, {0}}, 1, SOFTGPU_BAD_OPCODE},
		{{SOFTGPU_SLOTS, 0, {65536, 1}}, 1, SOFTGPU_BAD_OPCODE},
		{{SOFTGPU_ENDLESS, 0, {0}}, 1, SOFTGPU_BAD_OPCODE},
		{{SOFTGPU_FAULT, 0, {0}}, 1, SOFTGPU_FAULTED},
		{{SOFTGPU_FILL, 0, {2 * MIB, 4}}, 1, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_MODULE_LOAD, 0, {SOFTGPU_MAX_MODULES, 0, 4}}, 1, SOFTGPU_BAD_ARGUMENT},
		{{SOFTGPU_LAUNCH, 0, {3, 16384, sizeof(struct softgpu_launch)}},
		 1,
		 SOFTGPU_BAD_LAUNCH},
		{{SOFTGPU_NOP, 0, {0}}, 17, SOFTGPU_BAD_RING},
		{{SOFTGPU_NOP, 0, {0}}, UINT64_MAX, SOFTGPU_BAD_RING},
	};
	struct bench b;
	size_t i;

	bench_open(&b);
	open_slots(&b, 2);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct softgpu_slot *wrong = slot_of(&b, 0);

		slot_put(&b, 0, cases[i].packet);
		wrong->wptr = cases[i].wptr;
		slot_put(&b, 1, a_fence(i + 1));
		CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
		CU_ASSERT_EQUAL(wrong->error, cases[i].error);
		CU_ASSERT_EQUAL(slot_of(&b, 1)->fence, i + 1);
		CU_ASSERT_EQUAL(slot_of(&b, 1)->error, SOFTGPU_OK);
		/* nothing more of it runs */
		slot_put(&b, 0, a_fence(7));
		CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
		CU_ASSERT_EQUAL(wrong->fence, 0);
		/* a ring that is not valid is told, and one that is runs */
		wrong->wptr = 0;
		wrong->ring = MIB;
		wrong->asked++;
		CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
		CU_ASSERT(wrong->answered == wrong->asked && wrong->error == SOFTGPU_BAD_RING);
		wrong->ring = SLOT_RING(0);
		wrong->asked++;
		slot_put(&b, 0, a_fence(8));
		CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
		CU_ASSERT(wrong->answered == wrong->asked && wrong->error == SOFTGPU_OK);
		CU_ASSERT_EQUAL(wrong->fence, 8);
		wrong->wptr = 0;
		wrong->asked++;
		CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
		CU_ASSERT_EQUAL(wrong->fence, 0);
	}
	/* a new context has no slots, whatever lies there */
	slot_put(&b, 1, a_fence(99));
	b.ended.ended.rptr = 0;
	atomic_store(&b.shared.wptr, 0);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	slot_of(&b, 0)->asked++;
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT_EQUAL(slot_of(&b, 1)->fence, sizeof(cases) / sizeof(cases[0]));
	CU_ASSERT_NOT_EQUAL(slot_of(&b, 0)->answered, slot_of(&b, 0)->asked);
	bench_close(&b);
}

/* Returns whether the ring's thread has slept since it sent the DMA: then it has the next piece
 * ready. */
static bool sender_sleeps(void)
{
	char path[64], line[128];
	long slept = 0;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", atomic_load(&sender));
	status = fopen(path, "re");
	CU_ASSERT_PTR_NOT_NULL_FATAL(status);
	while (fgets(line, sizeof(line), status))
		sscanf(line, "voluntary_ctxt_switches: %ld", &slept);
	fclose(status);
	return slept > sender_slept;
}

/* A DMA of several pieces fails at the first: the rest is nobody else's. Of two slots, the one
 * whose turn is first has nothing to wait for, so that each has the DMA once. */
static void rest_of_a_dma(uint32_t slot)
{
	vgpu_nsec end = vgpu_now() + 20000 * VGPU_MSEC;
	struct bench b;

	bench_open(&b);
	open_slots(&b, 2);
	slot_put(&b, slot, (struct softgpu_packet){SOFTGPU_DMA_IN, 0, {0, 0, MIB}});
	slot_put(&b, !slot, a_fence(1));
	atomic_store(&sender, 0);
	bench_begin(&b);
	while (!atomic_load(&sender) || !sender_sleeps()) {
		CU_ASSERT_FATAL(vgpu_now() < end);
		sched_yield();
	}
	atomic_store(&sender, 0);
	ring_dma_done(b.ring, -EFAULT);
	while (__atomic_load_n(&slot_of(&b, !slot)->fence, __ATOMIC_ACQUIRE) != 1 &&
	       !atomic_load(&sender)) {
		CU_ASSERT_FATAL(vgpu_now() < end);
		sched_yield();
	}
	CU_ASSERT_EQUAL_FATAL(atomic_load(&sender), 0);
	CU_ASSERT_EQUAL(bench_end(&b), WORKER_IDLE);
	CU_ASSERT_EQUAL(slot_of(&b, slot)->error, SOFTGPU_DMA_FAULT);
	CU_ASSERT_EQUAL(slot_of(&b, !slot)->error, SOFTGPU_OK);
	CU_ASSERT_EQUAL(slot_of(&b, !slot)->fence, 1);
	bench_close(&b);
}

TEST(rests_of_dmas, "the rest of a DMA that has failed is not another slot's")
{
	rest_of_a_dma(0);
	rest_of_a_dma(1);
}

/* Reads what a GPU kernel writes meanwhile, which a device does without atomics. */
__attribute__((no_sanitize("thread"), noinline)) static uint64_t peek(const volatile uint64_t *at)
{
	return *at;
}

/* A wrong packet ends the run, but not while the device still executes what another ring has put
 * there: that would be in the next VF's slice. */
TEST(wrong_beside_others, "a wrong packet waits for what other rings have in flight")
{
	enum { COUNTED = 40960, ROUNDS = 50000 };
	const vgpu_nsec end = vgpu_now() + 20000 * VGPU_MSEC;
	uint64_t *counted;
	struct bench b;

	bench_open(&b);
	open_slots(&b, 1);
	counted = (uint64_t *)(b.window + COUNTED);
	slot_put(&b, 0, (struct softgpu_packet){SOFTGPU_COUNT, 0, {COUNTED, ROUNDS}});
	bench_begin(&b);
	while (peek(counted) == 0) {
		CU_ASSERT_FATAL(vgpu_now() < end);
		sched_yield();
	}
	bench_put(&b, (struct softgpu_packet){.opcode = 99});
	CU_ASSERT_EQUAL(bench_end(&b), WORKER_FAILED);
	CU_ASSERT_EQUAL(b.ended.ended.error, SOFTGPU_BAD_OPCODE);
	CU_ASSERT_EQUAL(*counted, ROUNDS);
	bench_close(&b);
}

static uint32_t loads, unloads, drops;

static int count_load(struct device *d, uint32_t module, void *compiled)
{
	(void)compiled;
	loads++;
	return load_nothing(d, module, compiled);
}

static void count_unload(struct device *, uint32_t)
{
	unloads++;
}

static void count_drop(void *)
{
	drops++;
}

/* Opens a bench with an image, which counts what becomes of modules. */
static void bench_open_counting(struct bench *b)
{
	complaint = NULL;
	loads = unloads = drops = 0;
	bench_open(b);
	b->ops.load = count_load;
	b->ops.unload = count_unload;
	b->ops.drop = count_drop;
	memcpy(b->window + 8192, "image", 5);
}

/* While the module of one slot is compiled, another goes on; each has modules of its own, which go
 * with it, also one that is still being compiled. */
TEST(modules_of_slots, "each slot has modules of its own")
{
	const struct softgpu_launch l = {.function = "fill",
					 .grid = {1, 1, 1},
					 .block = {256, 1, 1},
					 .n_args = 3,
					 .args = {{SOFTGPU_ARG_BUFFER, 0, MIB, 4000},
						  {SOFTGPU_ARG_VALUE, 0, 1000, 8},
						  {SOFTGPU_ARG_VALUE, 0, 5, 8}}};
	const struct softgpu_packet launch = {SOFTGPU_LAUNCH, 0, {3, 16384, sizeof(l)}};
	const vgpu_nsec until = vgpu_now() + 20000 * VGPU_MSEC;
	struct bench b;

	bench_open_counting(&b);
	memcpy(b.window + 16384, &l, sizeof(l));
	open_slots(&b, 2);
	atomic_store(&compiler_may_end, 0);
	slot_put(&b, 0, load_packet);
	slot_put(&b, 0, launch);
	slot_put(&b, 0, a_fence(1));
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(b.ended.ended.active && atomic_load(&b.shared.waits));
	slot_put(&b, 1, a_fence(1));
	slot_put(&b, 1, load_packet); /* after the other's */
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(slot_of(&b, 1)->fence == 1 && slot_of(&b, 0)->fence == 0 && loads == 0);
	/* the slot whose module is compiled is closed */
	slot_of(&b, 0)->asked = 0;
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT_EQUAL(slot_of(&b, 0)->answered, 0);
	atomic_store(&compiler_may_end, 1);
	while (loads < 1 && vgpu_now() < until) {
		CU_ASSERT_EQUAL_FATAL(bench_run(&b), WORKER_IDLE);
		sched_yield();
	}
	CU_ASSERT_EQUAL_FATAL(loads, 1);
	CU_ASSERT_EQUAL(drops, 1); /* what nobody wanted any more */
	/* the other's module is not that of the first */
	slot_of(&b, 0)->asked = 2;
	slot_of(&b, 0)->wptr = 0;
	slot_put(&b, 0, launch);
	slot_put(&b, 1, launch);
	slot_put(&b, 1, a_fence(2));
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT_EQUAL(slot_of(&b, 0)->error, SOFTGPU_BAD_LAUNCH);
	CU_ASSERT_EQUAL(slot_of(&b, 1)->fence, 2);
	slot_of(&b, 1)->asked = 0;
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT_EQUAL(unloads, 1);
	bench_close(&b);
}

/* A slot whose packet is stopped while another's module is compiled has work, and does not wait for
 * the compiler. */
TEST(stopped_beside_a_compiler, "a slot that is stopped while another compiles has work")
{
	struct bench b;

	bench_open(&b);
	memcpy(b.window + 8192, "image", 5);
	open_slots(&b, 2);
	atomic_store(&compiler_may_end, 0);
	slot_put(&b, 0, load_packet);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(atomic_load(&b.shared.waits));
	slot_put(&b, 1, a_fence(1));
	slot_put(&b, 1, (struct softgpu_packet){SOFTGPU_SPIN, 0, {60000000}});
	bench_begin(&b);
	while (__atomic_load_n(&slot_of(&b, 1)->fence, __ATOMIC_ACQUIRE) != 1)
		sched_yield();
	ring_stop(b.ring);
	CU_ASSERT_EQUAL(bench_end(&b), WORKER_STOPPED);
	CU_ASSERT(b.ended.ended.active && !atomic_load(&b.shared.waits));
	atomic_store(&compiler_may_end, 1);
	bench_close(&b);
}

/* One slot waits for another. */

static struct softgpu_packet an_await(uint64_t slot, uint64_t asked, uint64_t fence)
{
	return (struct softgpu_packet){SOFTGPU_AWAIT, 0, {slot, asked, fence}};
}

/* Runs what there is. Whether the ring says that there is more. */
static bool more_work(struct bench *b)
{
	CU_ASSERT_EQUAL_FATAL(bench_run(b), WORKER_IDLE);
	return b->ended.ended.active;
}

/* What is behind the wait comes after what the other slot has put before its fence. While only
 * waits are left, there is no work. */
TEST(awaits_a_fence, "a slot waits for another's fence")
{
	struct bench b;

	bench_open(&b);
	open_slots(&b, 3);
	slot_put(&b, 1, an_await(0, 1, 5));
	slot_put(&b, 1, a_fill(MIB, 2));
	slot_put(&b, 1, a_fence(1));
	CU_ASSERT(!more_work(&b));
	/* the fence in the window is what a guest says; the worker knows its own */
	slot_of(&b, 0)->fence = 100;
	CU_ASSERT(!more_work(&b));
	slot_put(&b, 0, a_fence(4));
	slot_put(&b, 2, a_fence(7));
	CU_ASSERT(!more_work(&b));
	CU_ASSERT(slot_of(&b, 0)->fence == 4 && slot_of(&b, 2)->fence == 7);
	CU_ASSERT_EQUAL(slot_of(&b, 1)->fence, 0);
	slot_put(&b, 0, a_fill(MIB, 1));
	slot_put(&b, 0, a_fence(5));
	CU_ASSERT(!more_work(&b));
	CU_ASSERT_EQUAL(slot_of(&b, 1)->fence, 1);
	bench_put(&b, (struct softgpu_packet){SOFTGPU_DOWNLOAD, 0, {32768, MIB, 8}});
	CU_ASSERT(!more_work(&b));
	CU_ASSERT_EQUAL(*(uint32_t *)(b.window + 32768), 2);
	/* what was reached is not waited for, nor what nobody will do any more */
	slot_put(&b, 1, an_await(0, 1, 5));
	slot_put(&b, 1, an_await(0, 1, 2));
	slot_put(&b, 1, an_await(0, 2, 100));
	slot_put(&b, 1, an_await(7, 1, 100));
	slot_put(&b, 1, a_fence(2));
	CU_ASSERT(!more_work(&b));
	CU_ASSERT_EQUAL(slot_of(&b, 1)->fence, 2);
	bench_close(&b);
}

static void close_it(struct softgpu_slot *s)
{
	s->asked = 0;
}

static void begin_it_anew(struct softgpu_slot *s)
{
	s->wptr = 0;
	s->asked++;
}

static void break_its_ring(struct softgpu_slot *s)
{
	s->wptr = UINT64_MAX;
}

/* Nobody waits for a slot whose opening has ended, however it has. */
TEST(awaits_nobody, "a slot waits for no slot that has ended")
{
	static void (*const ends[])(struct softgpu_slot * s) = {close_it, begin_it_anew,
								break_its_ring};
	struct bench b;
	size_t i;

	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		bench_open(&b);
		open_slots(&b, 2);
		slot_put(&b, 0, a_fence(9));
		slot_put(&b, 1, an_await(0, 1, 10));
		slot_put(&b, 1, a_fence(1));
		CU_ASSERT(!more_work(&b));
		CU_ASSERT_EQUAL(slot_of(&b, 1)->fence, 0);
		ends[i](slot_of(&b, 0));
		CU_ASSERT(!more_work(&b));
		CU_ASSERT_EQUAL(slot_of(&b, 1)->fence, 1);
		CU_ASSERT_EQUAL(slot_of(&b, 1)->error, SOFTGPU_OK);
		bench_close(&b);
	}
	/* a slot that begins anew has reached nothing yet */
	bench_open(&b);
	open_slots(&b, 2);
	slot_put(&b, 0, a_fence(9));
	CU_ASSERT(!more_work(&b));
	begin_it_anew(slot_of(&b, 0));
	CU_ASSERT(!more_work(&b));
	slot_put(&b, 1, an_await(0, 2, 9));
	slot_put(&b, 1, a_fence(1));
	CU_ASSERT(!more_work(&b));
	CU_ASSERT_EQUAL(slot_of(&b, 1)->fence, 0);
	bench_close(&b);
}

TEST(wrong_awaits, "a slot does not wait for itself, or for none")
{
	static const uint64_t wrong[] = {0, SOFTGPU_MAX_SLOTS, UINT32_MAX, UINT64_MAX};
	struct bench b;
	size_t i;

	bench_open(&b);
	open_slots(&b, 2);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		slot_put(&b, 0, an_await(wrong[i], slot_of(&b, 0)->asked, 0));
		slot_put(&b, 1, a_fence(i + 1));
		CU_ASSERT(!more_work(&b));
		CU_ASSERT_EQUAL(slot_of(&b, 0)->error, SOFTGPU_BAD_ARGUMENT);
		CU_ASSERT_EQUAL(slot_of(&b, 1)->fence, i + 1);
		begin_it_anew(slot_of(&b, 0));
		CU_ASSERT(!more_work(&b));
	}
	bench_put(&b, an_await(1, 1, 0));
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_FAILED);
	CU_ASSERT_EQUAL(b.ended.ended.error, SOFTGPU_BAD_OPCODE);
	bench_close(&b);
}

/* Slots that wait for each other have no work, and keep nobody else from it. The end of one frees
 * the others. */
TEST(awaits_in_a_circle, "slots that wait for each other have no work")
{
	struct bench b;
	uint32_t i;

	bench_open(&b);
	open_slots(&b, 4);
	for (i = 0; i < 3; i++) {
		slot_put(&b, i, an_await((i + 1) % 3, 1, 1));
		slot_put(&b, i, a_fence(1));
	}
	CU_ASSERT(!more_work(&b));
	slot_put(&b, 3, a_fence(1));
	bench_put(&b, (struct softgpu_packet){.opcode = SOFTGPU_NOP});
	CU_ASSERT(!more_work(&b));
	CU_ASSERT(slot_of(&b, 3)->fence == 1 && b.ended.ended.rptr == 2);
	for (i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(slot_of(&b, i)->fence, 0);
	close_it(slot_of(&b, 1));
	CU_ASSERT(!more_work(&b));
	CU_ASSERT(slot_of(&b, 0)->fence == 1 && slot_of(&b, 2)->fence == 1);
	bench_close(&b);
}

/* A wait goes on after a stop. It ends with the context, and with the slots. */
TEST(awaits_across_stops, "a wait goes on after a stop, and ends with the context")
{
	const vgpu_nsec end = vgpu_now() + 20000 * VGPU_MSEC;
	struct bench b;

	bench_open(&b);
	open_slots(&b, 2);
	slot_put(&b, 0, a_fence(1));
	slot_put(&b, 0, (struct softgpu_packet){SOFTGPU_SPIN, 0, {100000}});
	slot_put(&b, 0, a_fence(2));
	slot_put(&b, 1, an_await(0, 1, 2));
	slot_put(&b, 1, a_fence(1));
	bench_begin(&b);
	while (__atomic_load_n(&slot_of(&b, 0)->fence, __ATOMIC_ACQUIRE) != 1) {
		CU_ASSERT_FATAL(vgpu_now() < end);
		sched_yield();
	}
	ring_stop(b.ring);
	CU_ASSERT_EQUAL(bench_end(&b), WORKER_STOPPED);
	CU_ASSERT(b.ended.ended.active && slot_of(&b, 1)->fence == 0);
	CU_ASSERT(!more_work(&b));
	CU_ASSERT(slot_of(&b, 0)->fence == 2 && slot_of(&b, 1)->fence == 1);
	/* new slots */
	slot_put(&b, 1, an_await(0, 1, 3));
	slot_put(&b, 1, a_fence(2));
	CU_ASSERT(!more_work(&b));
	open_slots(&b, 2);
	slot_put(&b, 1, a_fence(3));
	CU_ASSERT(!more_work(&b));
	CU_ASSERT_EQUAL(slot_of(&b, 1)->fence, 3);
	/* a new context */
	slot_put(&b, 1, an_await(0, 1, 1));
	slot_put(&b, 1, a_fence(4));
	CU_ASSERT(!more_work(&b));
	b.ended.ended.rptr = 0;
	atomic_store(&b.shared.wptr, 0);
	CU_ASSERT(!more_work(&b));
	open_slots(&b, 2);
	slot_put(&b, 1, a_fence(5));
	CU_ASSERT(!more_work(&b));
	CU_ASSERT_EQUAL(slot_of(&b, 1)->fence, 5);
	bench_close(&b);
}

/* A wait that is stopped hard beside what it waits for goes on in the next run, also if that has
 * ended in between, when the pieces in flight were let to their end for a swap. */
TEST(awaits_across_hard_stops, "a wait goes on after a hard stop, and after a drain")
{
	const vgpu_nsec until = vgpu_now() + 60 * VGPU_SEC;
	struct worker_message frozen, m;
	struct bench b;
	uint64_t before;
	uint32_t drains = 0;

	while (drains < 2) {
		bench_open(&b);
		b.ops.poll = count_poll;
		open_slots(&b, 2);
		slot_put(&b, 1, an_await(0, 1, 2));
		slot_put(&b, 1, a_fence(1));
		CU_ASSERT(!more_work(&b));
		slot_put(&b, 0, (struct softgpu_packet){SOFTGPU_COUNT, 0, {196608, 20000}});
		slot_put(&b, 0, a_fence(2));
		before = polls;
		bench_begin(&b);
		while (polls == before) /* until it is on the device */
			sched_yield();
		ring_stop(b.ring);
		CU_ASSERT_EQUAL_FATAL(b.ops.stop(b.device, WORKER_STOP_CHANNELS), 0);
		if (!ring_freeze(b.ring, SOFTGPU_PREEMPT_HARD, &frozen) ||
		    slot_of(&b, 0)->fence > 0) { /* it had ended before it was stopped */
			CU_ASSERT_FATAL(vgpu_now() < until);
			b.ops.resume(b.device);
			bench_close(&b);
			continue;
		}
		CU_ASSERT(frozen.ended.active);
		b.ops.resume(b.device);
		if (drains) {
			ring_drain(b.ring);
			while (!ring_is_still(b.ring))
				sched_yield();
			CU_ASSERT_EQUAL(slot_of(&b, 1)->fence, 0); /* nothing begins */
			vgpu_eventfd_drain(b.event_fd);
		}
		b.ended = frozen;
		m = (struct worker_message){.run = {0, 16, frozen.ended.rptr, 4096, 0, 0}};
		ring_run(b.ring, &m);
		bench_end(&b);
		CU_ASSERT_EQUAL(b.ended.ended.end, WORKER_IDLE);
		CU_ASSERT(!b.ended.ended.active);
		CU_ASSERT(slot_of(&b, 0)->fence == 2 && slot_of(&b, 1)->fence == 1);
		CU_ASSERT(slot_of(&b, 0)->awake == 0 && slot_of(&b, 1)->awake == 0);
		bench_close(&b);
		drains++;
	}
}

static int refuse_to_load(struct device *, uint32_t, void *)
{
	return -EINVAL;
}

/* A module that is compiled but not loaded is refused with a sentence. */
TEST(refused_late, "a module that is refused when it is loaded has a sentence")
{
	const struct softgpu_packet load = {SOFTGPU_MODULE_LOAD,
					    SOFTGPU_REPORT,
					    {3, 8192, 5, 24576, 100, 0, 32768}};
	const vgpu_nsec until = vgpu_now() + 20000 * VGPU_MSEC;
	struct bench b;

	complaint = NULL;
	bench_open(&b);
	b.ops.load = refuse_to_load;
	memcpy(b.window + 8192, "image", 5);
	open_slots(&b, 1);
	atomic_store(&compiler_may_end, 1);
	slot_put(&b, 0, load);
	slot_put(&b, 0, a_fence(1));
	while (slot_of(&b, 0)->fence != 1 && vgpu_now() < until) {
		CU_ASSERT_EQUAL_FATAL(bench_run(&b), WORKER_IDLE);
		sched_yield();
	}
	CU_ASSERT_EQUAL(*(uint64_t *)(b.window + 32768), SOFTGPU_BAD_MODULE);
	CU_ASSERT(memchr(b.window + 24576, 0, 100) && b.window[24576]);
	bench_close(&b);
}

/* Serves the end of a run as a VF's process does: begins the next one if there is work that does
 * not wait for the compiler, or a doorbell that the worker does not know of. Returns whether a run
 * goes on. */
static bool serve_end(struct bench *b)
{
	uint64_t n;

	if (poll(&(struct pollfd){b->event_fd, POLLIN, 0}, 1, 0) == 0)
		return true;
	CU_ASSERT_FATAL(read(b->event_fd, &n, sizeof(n)) == sizeof(n));
	if (!ring_end(b->ring, &b->ended))
		return true;
	CU_ASSERT_EQUAL(b->ended.ended.end, WORKER_IDLE);
	CU_ASSERT_EQUAL(slot_of(b, 0)->awake, 0);
	if ((!b->ended.ended.active || atomic_load(&b->shared.waits)) &&
	    b->ended.ended.heard == atomic_load(&b->shared.bell))
		return false;
	bench_begin(b);
	return true;
}

/* A guest that rings only if its slot is not awake: no packet is left behind, when a packet comes
 * just as the worker goes to sleep, too. */
TEST(awake, "packets of a slot that is awake need no doorbell")
{
	enum { PACKETS = 3000 };
	const vgpu_nsec end = vgpu_now() + 20 * VGPU_SEC;
	uint64_t i, spared = 0, rung = 0;
	bool runs = false, lost = false, rings;
	struct softgpu_slot *s;
	struct bench b;

	bench_open(&b);
	open_slots(&b, 1);
	s = slot_of(&b, 0);
	CU_ASSERT_EQUAL(s->awake, 0);
	for (i = 1; (i <= PACKETS || !spared || !rung) && !lost && vgpu_now() < end; i++) {
		/* at once, or about when the worker goes to sleep */
		const vgpu_nsec until = vgpu_now() + (i % 2) * (30 * VGPU_USEC + i * 7919 % 40000);

		while (vgpu_now() < until)
			runs = runs && serve_end(&b);
		rings = !slot_put(&b, 0, a_fence(i));
		if (rings)
			atomic_fetch_add(&b.shared.bell, 1);
		rung += rings;
		spared += !rings;
		if (rings && !runs) {
			bench_begin(&b);
			runs = true;
		}
		while (__atomic_load_n(&s->fence, __ATOMIC_ACQUIRE) != i && runs)
			runs = serve_end(&b);
		lost = __atomic_load_n(&s->fence, __ATOMIC_ACQUIRE) != i;
	}
	CU_ASSERT(!lost);
	CU_ASSERT(rung > 0 && spared > 0);
	while (runs)
		runs = serve_end(&b);
	bench_close(&b);
}

/* Keeps the calling thread on the first or the last of the CPUs ALL. Threads that it makes stay on
 * its CPU. */
static void keep_on(const cpu_set_t *all, bool last)
{
	cpu_set_t one;
	int cpu = last ? CPU_SETSIZE - 1 : 0;

	while (!CPU_ISSET(cpu, all))
		cpu += last ? -1 : 1;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	CU_ASSERT_EQUAL_FATAL(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* The same while the module of another slot is compiled: a run ends at once then, and the VF has no
 * work but for the compiler. The worker is awake for some instructions only, which a thread on its
 * CPU never sees. */
TEST(awake_beside_a_compiler, "nor do they while another slot's module is compiled")
{
	enum { SPARED = 3000 };
	const vgpu_nsec end = vgpu_now() + 10 * VGPU_SEC;
	uint64_t i, spared = 0;
	struct softgpu_slot *s;
	struct bench b;
	bool runs, lost = false;
	cpu_set_t all;
	uint32_t k;

	CU_ASSERT_EQUAL_FATAL(sched_getaffinity(0, sizeof(all), &all), 0);
	keep_on(&all, false);
	bench_open(&b);
	keep_on(&all, true);
	memcpy(b.window + 8192, "image", 5);
	open_slots(&b, 8);
	s = slot_of(&b, 0);
	atomic_store(&compiler_may_end, 0);
	slot_put(&b, 1, load_packet);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	CU_ASSERT(b.ended.ended.active && atomic_load(&b.shared.waits));
	for (i = 1; spared < SPARED && !lost && vgpu_now() < end; i++) {
		bench_begin(&b);
		runs = true;
		while (runs && !__atomic_load_n(&s->awake, __ATOMIC_RELAXED))
			runs = serve_end(&b);
		/* before or after the worker's last look */
		for (k = 0; k < i % 32; k++)
			__atomic_load_n(&s->fence, __ATOMIC_ACQUIRE);
		if (slot_put(&b, 0, a_fence(i))) {
			spared++;
		} else {
			atomic_fetch_add(&b.shared.bell, 1);
			if (!runs)
				bench_begin(&b);
			runs = true;
		}
		while (runs)
			runs = serve_end(&b);
		lost = __atomic_load_n(&s->fence, __ATOMIC_ACQUIRE) != i;
	}
	CU_ASSERT(!lost);
	/* a busy machine has fewer by the deadline, and one CPU has none */
	CU_ASSERT(spared > 0 || CPU_COUNT(&all) == 1);
	atomic_store(&compiler_may_end, 1);
	bench_close(&b);
	sched_setaffinity(0, sizeof(all), &all);
}

/* A CHECK has an image compiled, and leaves the module in its place as it is. */
TEST(checked, "an image that is only checked replaces nothing")
{
	struct softgpu_packet check = load_packet;
	struct bench b;
	uint32_t i;

	bench_open_counting(&b);
	check.flags = SOFTGPU_MODULE_CHECK | SOFTGPU_REPORT;
	check.arg[6] = 32768;
	bench_load(&b);
	CU_ASSERT(loads == 1 && drops == 0);
	for (i = 0; i < 2; i++) {
		bench_put(&b, check);
		bench_compile(&b);
		CU_ASSERT_EQUAL(b.ended.ended.end, WORKER_IDLE);
		CU_ASSERT_EQUAL(*(uint64_t *)(b.window + 32768), i ? SOFTGPU_BAD_MODULE : 0);
		complaint = "no";
	}
	CU_ASSERT_STRING_EQUAL((char *)b.window + 12288, "no");
	CU_ASSERT(loads == 1 && unloads == 0 && drops == 1);
	complaint = NULL;
	put_launch(&b, "fill", 256, to_memory(), 3);
	CU_ASSERT_EQUAL(bench_run(&b), WORKER_IDLE);
	bench_close(&b);
}

SUITE_MAIN("ring")
