/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "protocol.h"
#include "rm.h"
#include "rm_objects.h"
#include "vfio/thread.h"

/* nvos.h, nv_escape.h */
#define NV_MAGIC 'F'
#define NV_ESC_FREE 0x29
#define NV_ESC_CONTROL 0x2a
#define NV_ESC_ALLOC 0x2b
#define NV_ESC_XFER 211

struct nv_free {
	uint32_t client, parent, object, status;
};
struct nv_control {
	uint32_t client, object, command, flags;
	uint64_t params;
	uint32_t params_size, status;
};
struct nv_alloc {
	uint32_t client, parent, object, class;
	uint64_t params;
	uint32_t params_size, status;
};
/* The same call with requested access rights. The size of the argument distinguishes the two. */
struct nv_alloc_rights {
	uint32_t client, parent, object, class;
	uint64_t params, rights;
	uint32_t params_size, flags, status, pad;
};
struct nv_transfer {
	uint32_t command, size;
	uint64_t argument;
};
_Static_assert(sizeof(struct nv_free) == 16 && sizeof(struct nv_control) == 32 &&
		       sizeof(struct nv_alloc) == 32 && sizeof(struct nv_alloc_rights) == 48 &&
		       sizeof(struct nv_transfer) == 16,
	       "the kernel's layout");
#define NV_IOCTL_CONTROL _IOWR(NV_MAGIC, NV_ESC_CONTROL, struct nv_control)

/* ctrl2080fifo.h: after this call none of the channels runs until they are enabled. */
#define FIFO_DISABLE_CHANNELS 0x2080110bu
#define DISABLE_MOST 64u
struct disable_channels {
	uint8_t disable, pad[3];
	uint32_t n;
	uint8_t only_scheduling, rewind, pad2[6];
	uint64_t preempt_event; /* 0 in user space */
	uint32_t clients[DISABLE_MOST], channels[DISABLE_MOST];
};
_Static_assert(sizeof(struct disable_channels) == 536 &&
		       offsetof(struct disable_channels, clients) == 24 &&
		       offsetof(struct disable_channels, channels) == 280,
	       "the kernel's layout");
/* ctrla06c.h, ctrla06fgpfifo.h: the first byte of the parameters says whether the group or channel
 * is put on its runlist or taken off. A group's have two bytes, three from 575 on. */
#define GROUP_SCHEDULE 0xa06c0101u
#define LONG_SCHEDULE_SINCE 575u
/* A group's time slice, in microseconds. The kernel module has no minimum, but the firmware may. 0
 * may mean "no time slice", so the first value that is tried is 1. */
#define SET_TIMESLICE 0xa06c0103u
#define GET_TIMESLICE 0xa06c0104u
#define FIRST_TIMESLICE 1u
/* The command for a channel has one number for each class in which it was added: a06f, a16f, a26f,
 * b06f, c06f and c36f up to now (g_kernel_channel_nvoc.c), and a channel accepts each of them. All
 * classes of channels end in 6f. */
#define CHANNEL_SCHEDULE 0x006f0103u
#define CHANNEL_SCHEDULE_MASK 0x00ffffffu

/* How long rm_stop() waits for threads that are changing what may run. Their call is one message to
 * the GPU's firmware, well below a millisecond; 10 ms allows for another process that holds RM's
 * locks, and is less than the deadline after which softgpu kills this process. */
#define CHANGE_WAIT_NS 10000000L
/* The number of RM's refusals that are reported; more would only fill the log. */
#define MOST_REPORTS 16u

static pthread_mutex_t lock;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static const struct method *stopped_by; /* NULL: channels may run */
static uint32_t changing;		/* number of threads in a call that changes what may run */
static uint32_t schedule_size = 3;
static uint64_t shortest = FIRST_TIMESLICE; /* the shortest time slice that may be accepted, us */
static uint32_t reports;

/* The lock inherits priority: rm_stop() waits for it at real-time priority, and meanwhile other
 * processes must not keep the lock's holder from a CPU. */
__attribute__((constructor)) static void begin(void)
{
	vfio_mutex_init(&lock);
}

uint32_t rm_driver(const char *file)
{
	FILE *f = fopen(file, "re");
	char line[256] = "", *at;
	unsigned major = 0, minor;

	if (f && fgets(line, sizeof(line), f))
		/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release ..."
		 */
		for (at = strchr(line, ' '); at && major == 0; at = strchr(at + 1, ' '))
			if (sscanf(at, " %u.%u", &major, &minor) != 2)
				major = 0;
	if (f)
		fclose(f);
	pthread_mutex_lock(&lock);
	schedule_size = major == 0 || major >= LONG_SCHEDULE_SINCE ? 3 : 2;
	pthread_mutex_unlock(&lock);
	return major;
}

/* A call of libcuda, in one form for all layouts of its ioctl. */
struct call {
	unsigned number;
	size_t size;
	const void *argument;
};

static bool read_call(unsigned long request, const void *argument, struct call *out)
{
	struct nv_transfer t;

	if (!argument || _IOC_TYPE(request) != NV_MAGIC)
		return false;
	*out = (struct call){_IOC_NR(request), _IOC_SIZE(request), argument};
	if (out->number == NV_ESC_XFER && out->size == sizeof(t)) {
		memcpy(&t, argument, sizeof(t));
		*out = (struct call){t.command, t.size, (const void *)(uintptr_t)t.argument};
	}
	return out->argument != NULL;
}

/* Returns whether C makes an object, and writes the object to OUT, for all layouts of the call. */
static bool read_alloc(const struct call *c, struct nv_alloc *out)
{
	struct nv_alloc_rights wide;

	if (c->number != NV_ESC_ALLOC || (c->size != sizeof(wide) && c->size != sizeof(*out)))
		return false;
	if (c->size == sizeof(*out)) {
		memcpy(out, c->argument, sizeof(*out));
		return true;
	}
	memcpy(&wide, c->argument, sizeof(wide));
	*out = (struct nv_alloc){.client = wide.client,
				 .parent = wide.parent,
				 .object = wide.object,
				 .class = wide.class,
				 .status = wide.status};
	return true;
}

/* Returns whether C makes, frees or schedules channels or groups, or sets a time slice. Between
 * such a call and its entry in the table no stop and no end of a stop may happen. Called with the
 * lock held. */
static bool changes(const struct call *c)
{
	struct nv_control control;
	struct nv_alloc made;
	struct nv_free gone;

	if (read_alloc(c, &made))
		return rm_kind(made.class) != RM_OTHER;
	if (c->number == NV_ESC_FREE && c->size == sizeof(gone)) {
		memcpy(&gone, c->argument, sizeof(gone));
		return rm_objects_hold(gone.client, gone.object);
	}
	if (c->number != NV_ESC_CONTROL || c->size != sizeof(control))
		return false;
	memcpy(&control, c->argument, sizeof(control));
	if (control.command == SET_TIMESLICE)
		return true;
	return (control.command == GROUP_SCHEDULE ||
		(control.command & CHANNEL_SCHEDULE_MASK) == CHANNEL_SCHEDULE) &&
	       control.params_size > 0 && *(const uint8_t *)(uintptr_t)control.params;
}

static void note(int fd, const struct call *c)
{
	struct nv_alloc made;
	struct nv_free gone;

	if (read_alloc(c, &made) && made.status == 0)
		rm_objects_add(fd, made.client, made.parent, made.object, made.class);
	if (c->number == NV_ESC_FREE && c->size == sizeof(gone)) {
		memcpy(&gone, c->argument, sizeof(gone));
		if (gone.status == 0)
			rm_objects_remove(gone.client, gone.object);
	}
}

void rm_note(int fd, unsigned long request, const void *argument, int result)
{
	struct call c;

	if (result < 0 || !read_call(request, argument, &c))
		return;
	pthread_mutex_lock(&lock);
	note(fd, &c);
	pthread_mutex_unlock(&lock);
}

/* Waits until C may be made: while channels are stopped, calls that change what may run wait.
 * Returns whether end_change() must follow. */
static bool begin_change(const struct call *c)
{
	bool does;

	pthread_mutex_lock(&lock);
	does = changes(c);
	if (does) {
		while (stopped_by)
			pthread_cond_wait(&cond, &lock);
		changing++;
	}
	pthread_mutex_unlock(&lock);
	return does;
}

static void end_change(void)
{
	pthread_mutex_lock(&lock);
	changing--;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&lock);
}

/* Called by libcuda in place of libc's function, because the linker finds symbols in the program
 * before the libraries. */
int ioctl(int fd, unsigned long request, ...)
{
	bool change;
	va_list list;
	void *argument;
	struct call c;
	int r, saved;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	if (_IOC_TYPE(request) != NV_MAGIC)
		return rm_call(fd, request, argument);
	change = read_call(request, argument, &c) && begin_change(&c);
	r = rm_call(fd, request, argument);
	saved = errno;
	rm_note(fd, request, argument, r);
	if (change)
		end_change();
	errno = saved;
	return r;
}

/* Makes a control call. Returns 0 or -errno; -EOPNOTSUPP if RM refuses, with RM's status in
 * *STATUS. */
static int control_object(const struct rm_object *on, uint32_t command, void *params, uint32_t size,
			  uint32_t *status)
{
	struct nv_control c = {
		.client = on->client,
		.object = on->handle,
		.command = command,
		.params = (uint64_t)(uintptr_t)params,
		.params_size = size,
	};

	if (rm_call(on->fd, NV_IOCTL_CONTROL, &c) < 0)
		return -errno;
	*status = c.status;
	return c.status == 0 ? 0 : -EOPNOTSUPP;
}

static void report(const struct rm_object *on, uint32_t command, uint32_t size, uint32_t status)
{
	if (reports++ < MOST_REPORTS)
		fprintf(stderr,
			"<5>softgpu: NVIDIA's resource manager refuses command 0x%08x with %u "
			"bytes on "
			"an object of class 0x%04x: status 0x%x\n",
			command, size, on->class, status);
}

/* As control_object(); reports a refusal with RM's status. */
static int control(const struct rm_object *on, uint32_t command, void *params, uint32_t size)
{
	uint32_t status = 0;
	int r = control_object(on, command, params, size, &status);

	if (r == -EOPNOTSUPP)
		report(on, command, size, status);
	return r;
}

static bool same_device(const struct rm_object *a, const struct rm_object *b)
{
	return a->client == b->client && rm_objects_device(a) == rm_objects_device(b);
}

/* Collects the channels of the device to which object FIRST belongs, including FIRST. Returns their
 * number, which may exceed the DISABLE_MOST that are collected; 0 if an earlier object is of the
 * same device. */
static uint32_t channels_of(uint32_t first, struct disable_channels *out)
{
	const struct rm_object *o = rm_objects_at(first), *other;
	uint32_t n = 0, i;

	*out = (struct disable_channels){0};
	for (i = 0; i < rm_objects_count(); i++) {
		other = rm_objects_at(i);
		if (rm_kind(other->class) != RM_CHANNEL || !same_device(o, other))
			continue;
		if (i < first)
			return 0;
		if (n < DISABLE_MOST) {
			out->clients[n] = other->client;
			out->channels[n] = other->handle;
		}
		n++;
	}
	out->n = n < DISABLE_MOST ? n : DISABLE_MOST;
	return n;
}

/* Disables or enables all channels, for computing and for copies. The channels of a device are in
 * one call, as in RM's own code around changes of an address space, which has the same limit. */
static int set_channels(bool disable)
{
	struct disable_channels all;
	const struct rm_object *o;
	uint32_t i;
	int r = 0;

	for (i = 0; i < rm_objects_count() && r == 0; i++) {
		o = rm_objects_at(i);
		if (rm_kind(o->class) != RM_CHANNEL || channels_of(i, &all) == 0)
			continue;
		all.disable = disable;
		r = control(rm_objects_subdevice(o), FIFO_DISABLE_CHANNELS, &all, sizeof(all));
	}
	return r;
}

static int set_groups(bool disable)
{
	uint32_t i;
	int r = 0;

	for (i = 0; i < rm_objects_count() && r == 0; i++) {
		uint8_t params[3] = {!disable, 0, 0};

		if (rm_kind(rm_objects_at(i)->class) == RM_GROUP)
			r = control(rm_objects_at(i), GROUP_SCHEDULE, params, schedule_size);
	}
	return r;
}

/* Gives group I the shortest time slice that RM accepts. Returns 0 or -errno; -EOPNOTSUPP if RM
 * refuses every one that is shorter than the group's own. */
static int soften(uint32_t i)
{
	const struct rm_object *group = rm_objects_at(i);
	uint64_t before = 0, us = shortest;
	uint32_t status = 0;
	int r = control(group, GET_TIMESLICE, &before, sizeof(before));

	if (r < 0)
		return r;
	for (r = -EOPNOTSUPP; r == -EOPNOTSUPP && us > 0 && us < before; us *= 2) {
		uint64_t asked = us;

		r = control_object(group, SET_TIMESLICE, &asked, sizeof(asked), &status);
		if (r == 0)
			shortest = us;
	}
	if (r == 0)
		rm_objects_keep_timeslice(i, before);
	else if (r == -EOPNOTSUPP)
		report(group, SET_TIMESLICE, sizeof(us), status);
	return r;
}

/* Gives group I the time slice that it had before soften(). Returns 0 or -errno. */
static int restore(uint32_t i)
{
	const struct rm_object *group = rm_objects_at(i);
	uint64_t us = group->timeslice;
	int r = us ? control(group, SET_TIMESLICE, &us, sizeof(us)) : 0;

	if (r == 0)
		rm_objects_keep_timeslice(i, 0);
	return r;
}

/* Gives all groups the shortest time slice, until an error; or gives all groups their own again, in
 * spite of errors. Returns 0 or the first error. */
static int set_timeslices(bool shortest_ones)
{
	int r = 0, one;
	uint32_t i;

	for (i = 0; i < rm_objects_count() && (r == 0 || !shortest_ones); i++) {
		if (rm_kind(rm_objects_at(i)->class) != RM_GROUP)
			continue;
		one = shortest_ones ? soften(i) : restore(i);
		r = r < 0 ? r : one;
	}
	return r;
}

/* Returns whether every channel is in a group, whose time slice can be set. Called with the lock
 * held. */
static bool knows_timeslices(void)
{
	uint32_t n = 0, i;

	for (i = 0; i < rm_objects_count(); i++) {
		const struct rm_object *o = rm_objects_at(i);

		if (rm_kind(o->class) == RM_CHANNEL && !rm_objects_grouped(o))
			return false;
		n += rm_kind(o->class) == RM_GROUP;
	}
	return n > 0;
}

/* Returns whether every channel can be disabled. Called with the lock held. */
static bool knows_channels(void)
{
	struct disable_channels all;
	const struct rm_object *o;
	uint32_t n = 0, i;

	for (i = 0; i < rm_objects_count(); i++) {
		o = rm_objects_at(i);
		if (rm_kind(o->class) != RM_CHANNEL)
			continue;
		n++;
		if (!rm_objects_subdevice(o) || channels_of(i, &all) > DISABLE_MOST)
			return false;
	}
	return n > 0;
}

static bool knows_groups(void)
{
	uint32_t i;

	for (i = 0; i < rm_objects_count(); i++)
		if (rm_kind(rm_objects_at(i)->class) == RM_GROUP)
			return true;
	return false;
}

/* How each method of enum worker_stop is carried out, and whether the table of objects has all that
 * it needs. KEEPS: undoing a stop that failed half way fails only if a part of the stop is still in
 * effect. Without KEEPS it also fails where RM refuses the method, so a failure proves nothing. */
static const struct method {
	uint32_t method;
	int (*set)(bool stop);
	bool (*knows)(void);
	bool keeps;
} methods[] = {
	{WORKER_STOP_CHANNELS, set_channels, knows_channels, false},
	{WORKER_STOP_GROUPS, set_groups, knows_groups, false},
	{WORKER_STOP_SOFT, set_timeslices, knows_timeslices, true},
};

/* Returns the method NUMBER, or NULL if the table of objects lacks an object that it needs. Called
 * with the lock held. */
static const struct method *find_known(uint32_t method)
{
	const size_t n = sizeof(methods) / sizeof(methods[0]);
	size_t i = 0;

	while (i < n && methods[i].method != method)
		i++;
	return i < n && rm_objects_complete() && methods[i].knows() ? &methods[i] : NULL;
}

bool rm_offers(uint32_t method)
{
	bool offers;

	pthread_mutex_lock(&lock);
	offers = find_known(method);
	pthread_mutex_unlock(&lock);
	return offers;
}

/* Waits for threads in calls that change what may run: after a stop such a call would start a
 * channel again, or a channel in the table may have been freed, and RM would then refuse the stop
 * of all. Called with the lock held. Returns 0 or -EBUSY. */
static int await_changes(void)
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += CHANGE_WAIT_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (changing > 0 && r == 0)
		r = pthread_cond_clockwait(&cond, &lock, CLOCK_MONOTONIC, &until);
	return changing > 0 ? -EBUSY : 0;
}

static void release(void)
{
	stopped_by = NULL;
	pthread_cond_broadcast(&cond);
}

int rm_stop(uint32_t number)
{
	const struct method *method;
	int r = -EOPNOTSUPP;

	pthread_mutex_lock(&lock);
	method = find_known(number);
	if (method) {
		stopped_by = method; /* from now on no thread begins a change */
		r = await_changes();
		if (r == 0) {
			r = method->set(true);
			/* some channels may have been stopped: undo that */
			if (r < 0 && method->set(false) < 0 && method->keeps)
				r = -EIO;
		}
		if (r < 0)
			release();
	}
	pthread_mutex_unlock(&lock);
	return r;
}

int rm_resume(void)
{
	int r;

	pthread_mutex_lock(&lock);
	r = stopped_by ? stopped_by->set(false) : 0;
	release();
	pthread_mutex_unlock(&lock);
	return r;
}
