/* SPDX-License-Identifier: MIT */
/*
 * What each function has used of the GPU, by the kernel's counters (perf). There are two for each
 * function and engine: `active`, the ticks in which the engine worked for the function, and
 * `total`, the ticks that the function was entitled to: its quantum's part of all time, so that the
 * totals of all functions together are the time that has passed. How long a tick is, the kernel
 * does not say. So
 *
 *     used = time passed x active of the function / total of all functions
 *
 * All engines of a GT switch from function to function together, and how long a function was on
 * them is not counted. Its service is that of the engine that worked most for it. Only the first
 * GT counts: the engines of a media GT have turns of their own.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vfio/kernel.h"
#include "vgpu/descriptor.h"
#include "vgpu/number.h"
#include "xe.h"

#define CLASSES 5u    /* render, copy, decode, enhance, compute */
#define INSTANCES 16u /* of a class; the kernel has at most 9 */
#define MAX_ENGINES 32u

/* Where the unit's events are in a counter's 64-bit number, from the files of its `format`. */
enum field { EVENT = 0, INSTANCE, CLASS, FUNCTION, GT, FIELDS };
static const char *const field_names[FIELDS] = {"event", "engine_instance", "engine_class",
						"function", "gt"};

struct unit {
	char name[XE_UNIT_SIZE];
	uint32_t type;
	int cpu;
	uint32_t shifts[FIELDS];
	uint64_t active, total; /* numbers of the events */
};

struct counter {
	int fd;
	uint64_t last, passed; /* ticks: its value, and how many since the reading before */
};

struct xe_counters {
	uint32_t n_functions, n_engines;
	struct counter totals[XE_FUNCTIONS];
	struct counter actives[XE_FUNCTIONS][MAX_ENGINES];
	vgpu_nsec used[VGPU_GPU_MAX_VFS];
	vgpu_nsec last; /* VGPU_NEVER: there was no reading */
};

static int read_format(struct unit *u, const char *pf, struct vgpu_error *err)
{
	char text[64];
	uint32_t i, last;
	int r;

	for (i = 0; i < FIELDS; i++) {
		r = kernel_read_text(text, sizeof(text), XE_UNITS "/%s/format/%s", u->name,
				     field_names[i]);
		if (r >= 0 &&
		    sscanf(text, "config:%" SCNu32 "-%" SCNu32, &u->shifts[i], &last) != 2)
			r = -EINVAL;
		if (r < 0 || u->shifts[i] > 63)
			return vgpu_error_set(err, -ENODEV,
					      "%s: this kernel does not count what each VF uses: "
					      "no " XE_UNITS
					      "/%s/format/%s; vgpud needs Linux 6.19 "
					      "or later, with CONFIG_PERF_EVENTS",
					      pf, u->name, field_names[i]);
	}
	return 0;
}

/* "event=0x02" */
static int read_event(const struct unit *u, const char *name, uint64_t *out)
{
	char text[64];
	int r = kernel_read_text(text, sizeof(text), XE_UNITS "/%s/events/%s", u->name, name);

	if (r < 0)
		return r;
	return strncmp(text, "event=", 6) == 0 ? vgpu_parse_unsigned(text + 6, 0xfff, out)
					       : -EINVAL;
}

static int read_unit(struct unit *u, const char *pf, struct vgpu_error *err)
{
	char text[64];
	int64_t type = 0;
	int r;

	xe_unit(pf, u->name);
	r = read_format(u, pf, err);
	if (r < 0)
		return r;
	r = kernel_read_number(&type, XE_UNITS "/%s/type", u->name);
	if (r == 0)
		r = read_event(u, "engine-active-ticks", &u->active);
	if (r == 0)
		r = read_event(u, "engine-total-ticks", &u->total);
	if (r < 0)
		return vgpu_error_set(err, r,
				      "%s: cannot read " XE_UNITS "/%s: %s; vgpud needs "
				      "its engine-active-ticks and engine-total-ticks, which newer "
				      "GuC firmware has (linux-firmware)",
				      pf, u->name, strerror(-r));
	u->type = (uint32_t)type;
	/* Without the file, any CPU will do. */
	if (kernel_read_text(text, sizeof(text), XE_UNITS "/%s/cpumask", u->name) > 0)
		u->cpu = atoi(text);
	return 0;
}

static int open_counter(const struct unit *u, uint64_t event, uint32_t function, uint32_t engine,
			struct counter *out)
{
	uint64_t config = event << u->shifts[EVENT] |
			  (uint64_t)(engine % INSTANCES) << u->shifts[INSTANCE] |
			  (uint64_t)(engine / INSTANCES) << u->shifts[CLASS] |
			  (uint64_t)function << u->shifts[FUNCTION]; /* GT 0 */
	int fd = vfio_kernel->perf_open(u->type, config, u->cpu);

	if (fd >= 0)
		*out = (struct counter){.fd = fd};
	return fd < 0 ? fd : 0;
}

/* The engines that the GPU has are those whose counters can be opened. */
static int find_engines(struct xe_counters *c, const struct unit *u, uint32_t *engines)
{
	uint32_t i;
	int r;

	for (i = 0; i < CLASSES * INSTANCES && c->n_engines < MAX_ENGINES; i++) {
		r = open_counter(u, u->active, XE_PF, i, &c->actives[XE_PF][c->n_engines]);
		if (r == 0)
			engines[c->n_engines++] = i;
		else if (r != -ENOENT && r != -EINVAL)
			return r;
	}
	return c->n_engines ? 0 : -ENOENT;
}

static int open_all(struct xe_counters *c, const struct unit *u)
{
	uint32_t engines[MAX_ENGINES], i, k;
	int r = find_engines(c, u, engines);

	for (i = 0; i < c->n_functions && r == 0; i++) {
		r = open_counter(u, u->total, i, engines[0], &c->totals[i]);
		for (k = 0; k < c->n_engines && r == 0 && i != XE_PF; k++)
			r = open_counter(u, u->active, i, engines[k], &c->actives[i][k]);
	}
	return r;
}

static const char *cure_of(int r)
{
	if (r == -EACCES || r == -EPERM)
		return "allow vgpud the kernel's counters: a drop-in of vgpud.service with "
		       "SystemCallFilter=perf_event_open (see vgpud's xe.md)";
	if (r == -EMFILE || r == -ENFILE)
		return "raise the limit on open files (LimitNOFILE of the service)";
	return "vgpud needs GuC firmware that counts for each VF (linux-firmware)";
}

int xe_counters_open(struct xe_counters **out, const char *pf, uint32_t n, struct vgpu_error *err)
{
	struct unit u = {.cpu = 0};
	struct xe_counters *c;
	uint32_t i, k;
	int r = read_unit(&u, pf, err);

	if (r < 0)
		return r;
	c = calloc(1, sizeof(*c));
	if (!c)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	c->n_functions = n + 1;
	c->last = VGPU_NEVER;
	for (i = 0; i < XE_FUNCTIONS; i++) {
		c->totals[i].fd = -1;
		for (k = 0; k < MAX_ENGINES; k++)
			c->actives[i][k].fd = -1;
	}
	r = open_all(c, &u);
	if (r < 0) {
		xe_counters_close(c);
		return vgpu_error_set(err, r, "%s: cannot open its counters (perf, %s): %s; %s", pf,
				      u.name, strerror(-r), cure_of(r));
	}
	*out = c;
	return 0;
}

/* Reads on. *ABSURD: the counter went back, as it does when VFs were disabled meanwhile. */
static int advance(struct counter *counter, bool *absurd)
{
	uint64_t value;
	int r = vfio_kernel->perf_read(counter->fd, &value);

	if (r < 0)
		return r;
	*absurd |= value < counter->last;
	counter->passed = value - counter->last;
	counter->last = value;
	return 0;
}

static int read_all(struct xe_counters *c, uint64_t *total, bool *absurd)
{
	uint32_t i, k;
	int r = 0;

	*total = 0;
	for (i = 0; i < c->n_functions && r == 0; i++) {
		r = advance(&c->totals[i], absurd);
		*total += c->totals[i].passed;
		for (k = 0; k < c->n_engines && r == 0; k++)
			r = advance(&c->actives[i][k], absurd);
	}
	return r;
}

static uint64_t most_active(const struct xe_counters *c, uint32_t function)
{
	uint64_t most = 0;
	uint32_t k;

	for (k = 0; k < c->n_engines; k++)
		if (c->actives[function][k].passed > most)
			most = c->actives[function][k].passed;
	return most;
}

int xe_counters_read(struct xe_counters *c, vgpu_nsec *active, vgpu_nsec now)
{
	vgpu_nsec passed = c->last == VGPU_NEVER ? 0 : now - c->last;
	uint64_t total, most;
	bool absurd = false;
	uint32_t i;
	int r = read_all(c, &total, &absurd);

	if (r < 0)
		return r;
	c->last = now;
	for (i = 0; i + 1 < c->n_functions && passed; i++) {
		most = most_active(c, xe_function_of(i));
		absurd |= most > total + total / 8;
		if (total && !absurd)
			c->used[i] += (vgpu_nsec)((__uint128_t)passed * most / total);
	}
	if (absurd)
		memset(c->used, 0, sizeof(c->used));
	memcpy(active, c->used, sizeof(c->used[0]) * (c->n_functions - 1));
	return 0;
}

void xe_counters_close(struct xe_counters *c)
{
	uint32_t i, k;

	if (!c)
		return;
	for (i = 0; i < c->n_functions; i++) {
		vgpu_close(&c->totals[i].fd);
		for (k = 0; k < c->n_engines; k++)
			vgpu_close(&c->actives[i][k].fd);
	}
	free(c);
}
