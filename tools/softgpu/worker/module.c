/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "confine.h"
#include "module.h"
#include "output.h"
#include "question.h"

#define LOG_SIZE 8192u
#define KNOWN_COSTS 64u

enum compiling { COMPILING_NONE = 0, COMPILING_BUSY, COMPILING_DONE };

struct module_table {
	const struct device_ops *ops;
	struct device *device;
	struct worker_shared *shared;
	void (*wake)(void);
	bool loaded[DEVICE_MODULES];
	bool prints[DEVICE_MODULES]; /* its GPU kernels can print */
	struct output output;

	/* The thread that compiles, from the first module on: softgpu counts what one thread of a
	 * worker uses for that (device/spent.h). */
	pthread_t thread;
	sem_t begins, ended; /* a module, or that the thread must end */
	bool has_thread, quit;

	/* the module being compiled; owned by the thread while BUSY */
	_Atomic uint32_t compiling; /* enum compiling */
	uint8_t *image;
	uint64_t bytes;
	uint32_t number;
	bool orphan;	/* its ring was closed meanwhile */
	uint32_t flags; /* flags of MODULE_LOAD */
	void *compiled;
	int result;
	char log[LOG_SIZE];

	/* how long functions took lately; a new function replaces the oldest */
	struct {
		const void *function;
		vgpu_nsec cost;
	} costs[KNOWN_COSTS];
	uint32_t next_cost;
};

struct module_table *module_table_create(const struct device_ops *ops, struct device *device,
					 struct worker_shared *shared, void (*wake)(void))
{
	struct module_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->ops = ops;
	t->device = device;
	t->output = (struct output){.ops = ops, .device = device};
	t->shared = shared;
	t->wake = wake;
	sem_init(&t->begins, 0, 0);
	sem_init(&t->ended, 0, 0);
	return t;
}

static void wait_for(sem_t *s)
{
	while (sem_wait(s) < 0)
		;
}

static void *compile(void *arg)
{
	struct module_table *t = arg;

	/* A guest can have modules compiled without an end, beside the slices of others. */
	setpriority(PRIO_PROCESS, 0, CONFINE_NICE);
	for (wait_for(&t->begins); !t->quit; wait_for(&t->begins)) {
		t->result = t->ops->compile(t->device, t->number, t->image, t->bytes, t->flags,
					    &t->compiled, t->log, sizeof(t->log));
		atomic_store(&t->compiling, COMPILING_DONE);
		atomic_store(&t->shared->waits, 0);
		t->wake();
		sem_post(&t->ended);
	}
	return NULL;
}

static int unload(struct module_table *t, uint32_t module)
{
	if (!t->loaded[module])
		return MODULE_DONE;
	t->ops->unload(t->device, module);
	t->loaded[module] = t->prints[module] = false;
	memset(t->costs, 0, sizeof(t->costs));
	return MODULE_DONE;
}

static int unload_all(struct module_table *t, uint32_t source)
{
	uint32_t i;

	for (i = 0; i < SOFTGPU_MAX_MODULES; i++)
		unload(t, source * SOFTGPU_MAX_MODULES + i);
	return MODULE_DONE;
}

static int begin_to_compile(struct module_table *t, uint32_t module, const struct softgpu_packet *p,
			    const uint8_t *window)
{
	const uint64_t *a = p->arg;

	t->image = malloc(a[2] + 1);
	if (!t->image)
		return -SOFTGPU_BAD_MODULE;
	memcpy(t->image, window + a[1], a[2]);
	t->image[a[2]] = 0;
	t->bytes = a[2];
	t->number = module;
	t->orphan = false;
	t->flags = p->flags;
	memset(t->log, 0, sizeof(t->log));
	if (!t->has_thread && pthread_create(&t->thread, NULL, compile, t) != 0) {
		free(t->image);
		return -SOFTGPU_BAD_MODULE;
	}
	t->has_thread = true;
	atomic_store(&t->compiling, COMPILING_BUSY);
	sem_post(&t->begins);
	return MODULE_COMPILES;
}

static void end_compiling(struct module_table *t)
{
	wait_for(&t->ended);
	atomic_store(&t->compiling, COMPILING_NONE);
}

/* Throws away what was compiled for a ring that was closed. */
static void discard(struct module_table *t)
{
	end_compiling(t);
	if (t->result == 0)
		t->ops->drop(t->compiled);
}

bool module_compiles(const struct module_table *t)
{
	return atomic_load(&t->compiling) == COMPILING_BUSY;
}

void module_table_destroy(struct module_table *t)
{
	if (!t)
		return;
	if (atomic_load(&t->compiling) != COMPILING_NONE)
		discard(t);
	if (t->has_thread) {
		t->quit = true;
		sem_post(&t->begins);
		pthread_join(t->thread, NULL);
	}
	sem_destroy(&t->begins);
	sem_destroy(&t->ended);
	output_destroy(&t->output);
	free(t);
}

void module_forget_output(struct module_table *t, uint32_t source)
{
	output_close(&t->output, source);
}

void module_close(struct module_table *t, uint32_t source)
{
	uint32_t first = source * SOFTGPU_MAX_MODULES;

	output_close(&t->output, source);
	unload_all(t, source);
	if (atomic_load(&t->compiling) != COMPILING_NONE && t->number - first < SOFTGPU_MAX_MODULES)
		t->orphan = true;
}

void module_go_on(struct module_table *t)
{
	atomic_store(&t->shared->waits, 0);
}

bool module_wait(struct module_table *t)
{
	if (!module_compiles(t))
		return false;
	atomic_store(&t->shared->waits, 1);
	/* The compiler may have ended just before that. */
	if (!module_compiles(t))
		atomic_store(&t->shared->waits, 0);
	return true;
}

static enum softgpu_error refusal(int result)
{
	return result == -ENOMEM    ? SOFTGPU_NO_ROOM
	       : result == -ENOEXEC ? SOFTGPU_OTHER_GPU
				    : SOFTGPU_BAD_MODULE;
}

static int load(struct module_table *t, uint32_t module, const struct softgpu_packet *p,
		uint8_t *window)
{
	const uint64_t *a = p->arg;
	size_t n;

	if (atomic_load(&t->compiling) == COMPILING_DONE && t->orphan)
		discard(t);
	if (atomic_load(&t->compiling) == COMPILING_NONE)
		return begin_to_compile(t, module, p, window);
	/* One module is compiled at a time; this may be another ring's. */
	if (module_compiles(t) || t->number != module || t->orphan)
		return MODULE_COMPILES;
	end_compiling(t);
	if (t->result == 0 && t->flags & SOFTGPU_MODULE_CHECK) {
		t->ops->drop(t->compiled);
	} else if (t->result == 0) {
		unload(t, module);
		t->result = t->ops->load(t->device, module, t->compiled);
		t->loaded[module] = t->result >= 0;
		t->prints[module] = t->result == 1;
		if (t->result < 0)
			snprintf(t->log, sizeof(t->log),
				 "the GPU's driver does not load the module, or what it needs was "
				 "taken while it was compiled");
	}
	n = strnlen(t->log, sizeof(t->log) - 1) + 1;
	if (a[4] > 0) {
		n = n < a[4] ? n : a[4];
		memcpy(window + a[3], t->log, n);
		window[a[3] + n - 1] = 0;
	}
	return t->result < 0 ? -(int)refusal(t->result) : MODULE_DONE;
}

/* Writes one argument to TO, where the function expects SIZE bytes. 0, or a negative enum
 * softgpu_error. */
static int place_argument(const struct softgpu_launch_arg *arg, uint8_t *to, uint32_t size,
			  const struct packet_limits *limits, const struct piece_space *space,
			  const uint8_t *window)
{
	const struct packet_limits shown = {.window = limits->window, .size = limits->window};
	enum softgpu_error e;
	uint64_t address;

	switch (arg->kind) {
	case SOFTGPU_ARG_VALUE:
		if (arg->bytes != size || size > sizeof(arg->value))
			return -SOFTGPU_BAD_LAUNCH;
		memcpy(to, &arg->value, size);
		return 0;
	case SOFTGPU_ARG_BUFFER:
		if (size != sizeof(address))
			return -SOFTGPU_BAD_LAUNCH;
		e = packet_range(limits, arg->value, arg->bytes, 1);
		address = piece_address(space, arg->value);
		memcpy(to, &address, size);
		return -(int)e;
	case SOFTGPU_ARG_BYTES:
		if (arg->bytes != size)
			return -SOFTGPU_BAD_LAUNCH;
		e = packet_range(&shown, arg->value, size, 1);
		if (e == SOFTGPU_OK)
			memcpy(to, window + arg->value, size);
		return -(int)e;
	default:
		return -SOFTGPU_BAD_LAUNCH;
	}
}

static vgpu_nsec *cost_of(struct module_table *t, const void *function)
{
	uint32_t i;

	for (i = 0; i < KNOWN_COSTS; i++)
		if (t->costs[i].function == function)
			return &t->costs[i].cost;
	return NULL;
}

void module_learn(struct module_table *t, const void *function, vgpu_nsec took)
{
	vgpu_nsec *cost = cost_of(t, function);

	if (cost) {
		*cost = (*cost * 3 + took) / 4;
		return;
	}
	t->costs[t->next_cost].function = function;
	t->costs[t->next_cost].cost = took;
	t->next_cost = (t->next_cost + 1) % KNOWN_COSTS;
}

static int launch(struct module_table *t, uint32_t source, uint32_t module,
		  const struct softgpu_packet *p, const struct packet_limits *limits,
		  const struct piece_space *space, const uint8_t *window, struct piece *out)
{
	struct device_params params = {0};
	struct softgpu_launch l;
	vgpu_nsec *cost;
	uint32_t i;
	int r = 0;

	memcpy(&l, window + p->arg[1], offsetof(struct softgpu_launch, args));
	if (!t->loaded[module] || l.n_args > SOFTGPU_MAX_LAUNCH_ARGS ||
	    !memchr(l.function, 0, sizeof(l.function)))
		return -SOFTGPU_BAD_LAUNCH;
	memcpy(l.args, window + p->arg[1] + offsetof(struct softgpu_launch, args),
	       l.n_args * sizeof(l.args[0]));
	*out = (struct piece){.kind = PIECE_FUNCTION, .shared = l.shared, .report = UINT64_MAX};
	if (p->flags & SOFTGPU_REPORT)
		out->report = p->arg[6];
	out->together = p->flags & SOFTGPU_LAUNCH_TOGETHER;
	for (i = 0; i < 3; i++) {
		out->grid[i] = l.grid[i];
		out->block[i] = l.block[i];
		if (l.grid[i] == 0 || l.block[i] == 0)
			return -SOFTGPU_BAD_LAUNCH;
	}
	if (t->ops->function(t->device, module, l.function, out, &params) < 0 ||
	    params.n != l.n_args || params.bytes > sizeof(out->params))
		return -SOFTGPU_BAD_LAUNCH;
	for (i = 0; i < params.n && r == 0; i++)
		r = place_argument(&l.args[i], out->params + params.offset[i], params.size[i],
				   limits, space, window);
	out->params_size = params.bytes;
	if (r == 0 && t->prints[module])
		output_begin(&t->output, source);
	cost = cost_of(t, out->function);
	out->cost = cost ? *cost : 0;
	return r < 0 ? r : MODULE_PIECE;
}

/* Writes where FUNCTION's parameters lie. A name that is not found is no error of the VF. */
static int find_function(struct module_table *t, uint32_t module, const struct softgpu_packet *p,
			 uint8_t *window)
{
	struct piece one = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
	struct softgpu_function f;
	struct device_params params = {0};

	memcpy(&f, window + p->arg[1], sizeof(f));
	f.error = SOFTGPU_OK;
	if (!t->loaded[module] || !memchr(f.name, 0, sizeof(f.name)) ||
	    t->ops->function(t->device, module, f.name, &one, &params) < 0) {
		f.error = SOFTGPU_BAD_LAUNCH;
		params.n = 0;
	}
	memset(f.attributes, 0, sizeof(f.attributes));
	if (f.error == SOFTGPU_OK)
		t->ops->attributes(t->device, module, f.name, f.attributes);
	f.n_params = params.n;
	memcpy(f.offset, params.offset, sizeof(f.offset));
	memcpy(f.size, params.size, sizeof(f.size));
	memcpy(window + p->arg[1], &f, sizeof(f));
	return MODULE_DONE;
}

static int tell_about(struct module_table *t, const struct softgpu_packet *p,
		      const struct piece_space *space, uint8_t *window)
{
	struct softgpu_about about = {.window_at = space->window_at, .memory_at = space->memory_at};

	_Static_assert(sizeof(about.attributes) == sizeof(t->shared->about.attributes) &&
			       sizeof(about.name) == sizeof(t->shared->about.name),
		       "one layout");
	memcpy(about.name, t->shared->about.name, sizeof(about.name));
	memcpy(about.attributes, t->shared->about.attributes, sizeof(about.attributes));
	memcpy(window + p->arg[1], &about, sizeof(about));
	return MODULE_DONE;
}

bool module_executes(uint32_t opcode)
{
	return (opcode >= SOFTGPU_MODULE_LOAD && opcode <= SOFTGPU_LAUNCH) ||
	       (opcode >= SOFTGPU_FUNCTION && opcode <= SOFTGPU_SYMBOL_COPY) ||
	       opcode == SOFTGPU_OUTPUT;
}

bool module_must_settle(const struct module_table *t, uint32_t source,
			const struct softgpu_packet *p)
{
	if (p->opcode != SOFTGPU_LAUNCH)
		return true;
	return t->prints[source * SOFTGPU_MAX_MODULES + (uint32_t)p->arg[0]] &&
	       output_must_settle(&t->output, source);
}

static bool any_prints(const struct module_table *t, uint32_t source)
{
	return memchr(t->prints + source * SOFTGPU_MAX_MODULES, true, SOFTGPU_MAX_MODULES);
}

int module_packet(struct module_table *t, uint32_t source, struct piece_job *job,
		  const struct packet_limits *limits, const struct piece_space *space,
		  uint8_t *window, struct piece *out)
{
	const struct softgpu_packet *p = &job->packet;
	const uint32_t module = source * SOFTGPU_MAX_MODULES + (uint32_t)p->arg[0];
	const struct question q = {t->ops, t->device, module, t->loaded[module]};
	int r;

	switch (p->opcode) {
	case SOFTGPU_SYMBOL:
	case SOFTGPU_OCCUPANCY:
		question_answer(&q, p->opcode, window + p->arg[1]);
		return MODULE_DONE;
	case SOFTGPU_SYMBOL_COPY:
		r = question_copy(&q, window + p->arg[1], limits, space, &job->at, out);
		return r == 1 ? MODULE_PIECE : r;
	case SOFTGPU_MODULE_LOAD:
		return load(t, module, p, window);
	case SOFTGPU_MODULE_UNLOAD:
		return p->flags & SOFTGPU_MODULE_ALL ? unload_all(t, source) : unload(t, module);
	case SOFTGPU_FUNCTION:
		return find_function(t, module, p, window);
	case SOFTGPU_OUTPUT:
		output_answer(&t->output, source, any_prints(t, source), window + p->arg[1]);
		return MODULE_DONE;
	case SOFTGPU_ABOUT:
		return tell_about(t, p, space, window);
	default:
		return job->at++ > 0 ? MODULE_DONE
				     : launch(t, source, module, p, limits, space, window, out);
	}
}
