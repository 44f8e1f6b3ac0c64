/* SPDX-License-Identifier: MIT */
/*
 * Stopping a process's channels, against a resource manager in software that keeps NVIDIA's rules:
 * a call must come through the file that made the client, and name a subdevice of the GPU that the
 * channels are on; it has at most 64 channels; scheduling a channel makes it run, whatever stopped
 * it before; a group has a time slice, and the firmware accepts none that is too short.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "draw.h"
#include "protocol.h"
#include "rm.h"
#include "rm_calls.h"
#include "suite.h"

struct disable {
	uint8_t disable, pad[3];
	uint32_t n;
	uint8_t only_scheduling, rewind, pad2[6];
	uint64_t event;
	uint32_t clients[64], channels[64];
};
#define CLIENT 7u
#define GROUP 0xa06cu
#define CHANNEL 0xc86fu
#define SUBDEVICE 0x2080u
#define INVALID_ARGUMENT 0x1fu
#define INVALID_OBJECT 0x33u

/* the resource manager in software */

#define OBJECTS 512u
static struct object {
	uint32_t handle, parent, class;
	bool exists, scheduled, disabled;
	uint64_t timeslice; /* of a group, us */
} objects[OBJECTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ino_t client_file; /* of the file through which the client was made */
static uint32_t schedule_bytes = 3, calls, scheduled_while_stopped, made_while_stopped;
static bool refuses;		       /* it refuses all commands */
static uint64_t least, sets;	       /* the least time slice, us; how often one was asked for */
static uint32_t refuses_set;	       /* the group whose time slice cannot be set */
static uint32_t refuses_longer;	       /* the one whose time slice can only be made shorter */
static _Atomic uint32_t slow;	       /* a call to schedule waits until this is 0 */
static _Atomic uint32_t stopped, turn; /* between rm_stop() and rm_resume(); counts the latter */

static struct object *find(uint32_t handle)
{
	uint32_t i;

	for (i = 0; i < OBJECTS; i++)
		if (objects[i].exists && objects[i].handle == handle)
			return &objects[i];
	return NULL;
}

static uint32_t device_of(const struct object *o)
{
	const struct object *parent = find(o->parent);

	return parent && parent->class == GROUP ? parent->parent : o->parent;
}

static bool runs(const struct object *o)
{
	const struct object *group = find(o->parent);
	bool scheduled = o->scheduled || (group && group->scheduled);

	return o->exists && o->class == CHANNEL && scheduled && !o->disabled;
}

static uint32_t running(void)
{
	uint32_t i, n = 0;

	pthread_mutex_lock(&lock);
	for (i = 0; i < OBJECTS; i++)
		n += runs(&objects[i]);
	pthread_mutex_unlock(&lock);
	return n;
}

static uint32_t disable(const struct object *on, const struct disable *d, uint32_t size)
{
	struct object *o;
	uint32_t i;

	if (size != 536 || d->n == 0 || d->n > 64 || d->event || on->class != SUBDEVICE)
		return INVALID_ARGUMENT;
	for (i = 0; i < d->n; i++) {
		o = find(d->channels[i]);
		if (!o || o->class != CHANNEL || d->clients[i] != CLIENT ||
		    device_of(o) != on->parent)
			return INVALID_OBJECT;
	}
	for (i = 0; i < d->n; i++)
		find(d->channels[i])->disabled = d->disable;
	return 0;
}

static uint32_t schedule(struct object *on, uint8_t enable, uint32_t size)
{
	uint32_t i;

	if (on->class == GROUP && size != schedule_bytes)
		return INVALID_ARGUMENT;
	on->scheduled = enable;
	scheduled_while_stopped += enable && stopped;
	for (i = 0; enable && i < OBJECTS; i++)
		if (objects[i].handle == on->handle || objects[i].parent == on->handle)
			objects[i].disabled = false;
	return 0;
}

static uint32_t timeslice(struct object *on, bool set, uint64_t *us, uint32_t size)
{
	if (on->class != GROUP || size != sizeof(*us))
		return INVALID_ARGUMENT;
	if (!set) {
		*us = on->timeslice;
		return 0;
	}
	sets++;
	if (*us < least || on->handle == refuses_set ||
	    (on->handle == refuses_longer && *us > on->timeslice))
		return 0x56u;
	on->timeslice = *us;
	return 0;
}

static uint32_t command(const struct control *c)
{
	struct object *on = find(c->object);
	void *params = (void *)(uintptr_t)c->params;

	calls++;
	if (refuses)
		return 0x1bu;
	if (!on || c->client != CLIENT)
		return INVALID_OBJECT;
	if (c->command == 0x2080110bu)
		return disable(on, params, c->params_size);
	if (c->command == 0xa06c0103u || c->command == 0xa06c0104u)
		return timeslice(on, c->command == 0xa06c0103u, params, c->params_size);
	return schedule(on, *(const uint8_t *)params, c->params_size);
}

static uint32_t alloc(const struct alloc *a)
{
	uint32_t i;

	made_while_stopped += a->class == CHANNEL && atomic_load(&stopped);
	for (i = 0; i < OBJECTS && objects[i].exists; i++)
		;
	if (i == OBJECTS || find(a->object))
		return INVALID_ARGUMENT;
	objects[i] = (struct object){a->object, a->parent, a->class, true, false, false, 2048};
	return 0;
}

static uint32_t release(uint32_t handle)
{
	struct object *o = find(handle);
	uint32_t i;

	for (i = 0; i < OBJECTS; i++)
		if (objects[i].exists && objects[i].parent == handle)
			release(objects[i].handle);
	if (o)
		o->exists = false;
	return 0;
}

int rm_call(int fd, unsigned long request, void *argument)
{
	struct control *c = argument;
	struct alloc *a = argument;
	struct gone *g = argument;
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_ino != client_file) {
		errno = ENOTTY;
		return -1;
	}
	while (request == CONTROL && c->command != 0x2080110bu && atomic_load(&slow) == 1)
		sched_yield();
	pthread_mutex_lock(&lock);
	if (request == ALLOC)
		a->status = alloc(a);
	else if (request == FREE)
		g->status = release(g->object);
	else
		c->status = command(c);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* what libcuda does */

static int nvidiactl;
static _Atomic uint32_t made; /* of what threads make, or begin */

static void make(uint32_t parent, uint32_t handle, uint32_t class)
{
	struct alloc a = {CLIENT, parent, handle, class, 0, 0, 0};

	CU_ASSERT_EQUAL(ioctl(nvidiactl, ALLOC, &a), 0);
	CU_ASSERT_EQUAL(a.status, 0);
}

static void drop(uint32_t handle)
{
	struct gone g = {CLIENT, 0, handle, 0};

	CU_ASSERT_EQUAL(ioctl(nvidiactl, FREE, &g), 0);
}

static void put_on_runlist(uint32_t handle, uint32_t class)
{
	/* all numbers that the resource manager knows for a channel's command, and one to come */
	static const uint32_t commands[] = {0xa06f0103, 0xa16f0103, 0xa26f0103, 0xb06f0103,
					    0xc06f0103, 0xc36f0103, 0xcb6f0103};
	static _Atomic uint32_t which;
	uint8_t params[3] = {1};
	struct control c = {.client = CLIENT,
			    .object = handle,
			    .command = class == GROUP ? 0xa06c0101u : commands[which++ % 7],
			    .params = (uintptr_t)params,
			    .params_size = class == GROUP ? schedule_bytes : 2};

	CU_ASSERT_EQUAL(ioctl(nvidiactl, CONTROL, &c), 0);
	CU_ASSERT_EQUAL(c.status, 0);
}

static void make_channels(uint32_t group, uint32_t first, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		make(group, first + i, CHANNEL);
}

/* Opens the file, as libcuda does, and makes a device with a subdevice and a group. */
static void begin(void)
{
	struct stat st;

	memset(objects, 0, sizeof(objects));
	nvidiactl = open("/dev/null", O_RDWR | O_CLOEXEC);
	CU_ASSERT_FATAL(nvidiactl >= 0 && fstat(nvidiactl, &st) == 0);
	client_file = st.st_ino;
	calls = 0;
	refuses = false;
	least = sets = refuses_set = 0;
	make(CLIENT, 0x10, 0x80);
	make(0x10, 0x11, SUBDEVICE);
	make(0x10, 0x100, GROUP);
}

static uint32_t open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint32_t n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

static void end(void)
{
	drop(CLIENT);
	close(nvidiactl);
}

/* the tests */

TEST(channels, "all channels stop in one call, and 65 are refused")
{
	uint32_t files = open_files();

	begin();
	make_channels(0x100, 0x200, 64);
	put_on_runlist(0x100, GROUP);
	CU_ASSERT_EQUAL(running(), 64);
	CU_ASSERT(rm_offers(WORKER_STOP_CHANNELS));
	calls = 0;
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_CHANNELS), 0);
	CU_ASSERT_EQUAL(running(), 0);
	CU_ASSERT_EQUAL(calls, 1); /* all of them at the same instant */
	CU_ASSERT_EQUAL(rm_resume(), 0);
	CU_ASSERT_EQUAL(running(), 64);
	/* One more is more than a call can disable, and half of a group must not go on alone. */
	make(0x100, 0x300, CHANNEL);
	put_on_runlist(0x100, GROUP);
	calls = 0;
	CU_ASSERT(!rm_offers(WORKER_STOP_CHANNELS));
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_CHANNELS), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(calls, 0);
	CU_ASSERT_EQUAL(running(), 65);
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_GROUPS), 0);
	CU_ASSERT_EQUAL(running(), 0);
	CU_ASSERT_EQUAL(rm_resume(), 0);
	CU_ASSERT_EQUAL(running(), 65);
	drop(0x300);
	CU_ASSERT(rm_offers(WORKER_STOP_CHANNELS));
	end();
	CU_ASSERT(!rm_offers(WORKER_STOP_CHANNELS) && !rm_offers(WORKER_STOP_GROUPS));
	CU_ASSERT_EQUAL(open_files(), files);
}

/* One client has a device for each GPU that the process sees. */
TEST(gpus, "channels are stopped on the GPU that they are on")
{
	begin();
	make(CLIENT, 0x20, 0x80);
	make(0x20, 0x21, SUBDEVICE);
	make(0x20, 0x400, GROUP);
	make_channels(0x400, 0x500, 3);
	put_on_runlist(0x400, GROUP);
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_CHANNELS), 0);
	CU_ASSERT_EQUAL(running(), 0);
	CU_ASSERT_EQUAL(rm_resume(), 0);
	/* channels on both, and one without a group */
	make_channels(0x100, 0x200, 60);
	make(0x10, 0x600, CHANNEL);
	put_on_runlist(0x100, GROUP);
	put_on_runlist(0x600, CHANNEL);
	CU_ASSERT_EQUAL(running(), 64);
	calls = 0;
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_CHANNELS), 0);
	CU_ASSERT_EQUAL(running(), 0);
	CU_ASSERT_EQUAL(calls, 2);
	CU_ASSERT_EQUAL(rm_resume(), 0);
	CU_ASSERT_EQUAL(running(), 64);
	drop(0x11); /* the first GPU's subdevice: its channels cannot be disabled any more */
	CU_ASSERT(!rm_offers(WORKER_STOP_CHANNELS));
	end();
}

/* A stop that fails half way leaves everything running, and RM's status is in the log. */
TEST(refusals, "a refused stop leaves everything running")
{
	int saved = dup(STDERR_FILENO), log = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char text[512] = "";

	begin();
	make_channels(0x100, 0x200, 2);
	put_on_runlist(0x100, GROUP);
	refuses = true;
	CU_ASSERT_FATAL(saved >= 0 && log >= 0 && dup2(log, STDERR_FILENO) == STDERR_FILENO);
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_CHANNELS), -EOPNOTSUPP);
	dup2(saved, STDERR_FILENO);
	CU_ASSERT(pread(log, text, sizeof(text) - 1, 0) > 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "0x2080110b"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "class 0x2080: status 0x1b\n"));
	refuses = false;
	CU_ASSERT_EQUAL(running(), 2);
	CU_ASSERT_EQUAL(rm_resume(), 0);
	close(log);
	close(saved);
	end();
}

static uint64_t timeslice_of(uint32_t group)
{
	return find(group)->timeslice;
}

/* A soft stop gives all groups the shortest time slice, and its end gives each its own. */
TEST(soft, "a soft stop sets all groups' time slices, and sets them back")
{
	begin();
	CU_ASSERT(!rm_offers(WORKER_STOP_SOFT | WORKER_STOP_GROUPS)); /* one at a time */
	make(0x10, 0x101, GROUP);
	make_channels(0x100, 0x200, 2);
	make_channels(0x101, 0x300, 1);
	put_on_runlist(0x100, GROUP);
	put_on_runlist(0x101, GROUP);
	find(0x101)->timeslice = 1000;
	CU_ASSERT(rm_offers(WORKER_STOP_SOFT));
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_SOFT), 0);
	CU_ASSERT(timeslice_of(0x100) == 1 && timeslice_of(0x101) == 1);
	CU_ASSERT_EQUAL(running(), 3); /* it does not stop them */
	CU_ASSERT_EQUAL(rm_resume(), 0);
	CU_ASSERT(timeslice_of(0x100) == 2048 && timeslice_of(0x101) == 1000);
	/* a channel without a group has no time slice that can be set */
	make(0x10, 0x400, CHANNEL);
	CU_ASSERT(!rm_offers(WORKER_STOP_SOFT));
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_SOFT), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(rm_resume(), 0); /* so that it does not wait if it was stopped */
	drop(0x400);
	/* a firmware that has a least one: it is found once */
	least = 100;
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_SOFT), 0);
	CU_ASSERT(timeslice_of(0x100) == 128 && timeslice_of(0x101) == 128);
	CU_ASSERT_EQUAL(rm_resume(), 0);
	CU_ASSERT(timeslice_of(0x100) == 2048 && timeslice_of(0x101) == 1000);
	sets = 0;
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_SOFT), 0);
	CU_ASSERT_EQUAL(sets, 2);
	CU_ASSERT_EQUAL(rm_resume(), 0);
	end();
}

/* A soft stop that fails half way leaves all groups with their own time slices. */
TEST(soft_refused, "a refused soft stop leaves all time slices as they were")
{
	begin();
	make(0x10, 0x101, GROUP);
	make_channels(0x100, 0x200, 1);
	make_channels(0x101, 0x300, 1);
	refuses_set = 0x101;
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_SOFT), -EOPNOTSUPP);
	CU_ASSERT(timeslice_of(0x100) == 2048 && timeslice_of(0x101) == 2048);
	refuses_set = 0;
	least = 4096; /* nothing shorter than what they have */
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_SOFT), -EOPNOTSUPP);
	CU_ASSERT(timeslice_of(0x100) == 2048 && timeslice_of(0x101) == 2048);
	/* one does not get its own again */
	least = 0;
	refuses_set = 0x101;
	refuses_longer = 0x100;
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_SOFT), -EIO);
	CU_ASSERT(timeslice_of(0x100) < 2048);
	refuses_longer = 0;
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_SOFT), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(timeslice_of(0x100), 2048);
	end();
}

static void *set_timeslice(void *arg)
{
	uint64_t us = 500;
	struct control c = {.client = CLIENT,
			    .object = 0x100,
			    .command = 0xa06c0103u,
			    .params = (uintptr_t)&us,
			    .params_size = sizeof(us)};

	made++;
	CU_ASSERT(ioctl(nvidiactl, CONTROL, &c) == 0 && c.status == 0);
	return arg;
}

/* A time slice that libcuda sets during a soft stop is set after it, and is kept. */
TEST(soft_race, "a time slice that libcuda sets waits for the end of a soft stop")
{
	pthread_t thread;
	uint32_t k;

	begin();
	make_channels(0x100, 0x200, 1);
	made = 0;
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_SOFT), 0);
	CU_ASSERT_FATAL(pthread_create(&thread, NULL, set_timeslice, NULL) == 0);
	while (made == 0)
		sched_yield();
	for (k = 0; k < 1000; k++) /* for a thread that does not wait */
		sched_yield();
	CU_ASSERT(timeslice_of(0x100) < 500);
	CU_ASSERT_EQUAL(rm_resume(), 0);
	pthread_join(thread, NULL);
	CU_ASSERT_EQUAL(timeslice_of(0x100), 500);
	end();
}

static uint32_t version(const char *text)
{
	char path[] = "/tmp/vgpud-version.XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);
	uint32_t major;

	CU_ASSERT_FATAL(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	major = rm_driver(path);
	unlink(path);
	return major;
}

static bool groups_stop(uint32_t bytes)
{
	bool stops;

	schedule_bytes = bytes;
	stops = rm_stop(WORKER_STOP_GROUPS) == 0;
	if (stops)
		rm_resume();
	return stops;
}

TEST(versions, "the driver's version decides a structure's size")
{
#define KERNEL_MODULE "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
	begin();
	make_channels(0x100, 0x200, 1);
	CU_ASSERT_EQUAL(version(KERNEL_MODULE "550.54.14  Release Build  (a@b)  1\nGCC\n"), 550);
	CU_ASSERT(groups_stop(2) && !groups_stop(3));
	CU_ASSERT_EQUAL(version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.16  x\n"),
			570);
	CU_ASSERT(groups_stop(2) && !groups_stop(3));
	CU_ASSERT_EQUAL(version(KERNEL_MODULE "575.51.02  Release Build\n"), 575);
	CU_ASSERT(groups_stop(3) && !groups_stop(2));
	CU_ASSERT_EQUAL(version(""), 0);
	CU_ASSERT(groups_stop(3) && !groups_stop(2));
	CU_ASSERT_EQUAL(version("NVRM version: of a driver that has no number\n"), 0);
	CU_ASSERT_EQUAL(rm_driver("/nonexistent"), 0);
	CU_ASSERT(groups_stop(3));
	end();
}

/* Threads like those of libcuda make, schedule and free channels while the work is stopped and
 * continued. */
#define THREADS 3u
static _Atomic uint32_t quit, early;

static void *churn(void *arg)
{
	uint32_t handle = 0x1000 + (uint32_t)(uintptr_t)arg * 0x1000, before, n;
	bool was_stopped;

	for (n = 0; !atomic_load(&quit); n++) {
		struct alloc a = {CLIENT, 0x10, handle + n % 16, CHANNEL, 0, 0, 0};

		was_stopped = atomic_load(&stopped);
		before = atomic_load(&turn);
		CU_ASSERT_EQUAL(ioctl(nvidiactl, ALLOC, &a), 0);
		/* asked for while all was stopped: not made before the end */
		if (was_stopped && before == atomic_load(&turn) && atomic_load(&stopped))
			early++;
		put_on_runlist(a.object, CHANNEL);
		drop(a.object);
		made++;
	}
	return NULL;
}

TEST(races, "what libcuda starts during a stop waits for its end")
{
	uint32_t i, k, stops = 0, before, still_runs = 0, not_back = 0, refused = 0;
	pthread_t threads[THREADS];
	int r;

	begin();
	make_channels(0x100, 0x200, 2);
	put_on_runlist(0x100, GROUP);
	quit = made = early = scheduled_while_stopped = made_while_stopped = 0;
	for (i = 0; i < THREADS; i++)
		CU_ASSERT_FATAL(pthread_create(&threads[i], NULL, churn, (void *)(uintptr_t)i) ==
				0);
	while (stops < 300) {
		for (k = atomic_load(&made) + (uint32_t)draw(3); atomic_load(&made) < k;)
			sched_yield();
		for (k = (uint32_t)draw(4); k > 0; k--)
			sched_yield();
		r = rm_stop(WORKER_STOP_CHANNELS);
		refused += r == -EOPNOTSUPP;
		if (r < 0) /* -EBUSY: this machine kept a thread from going on */
			continue;
		atomic_store(&stopped, 1);
		stops++;
		for (k = (uint32_t)draw(4); k > 0; k--) {
			still_runs += running() > 0;
			sched_yield();
		}
		atomic_store(&stopped, 0);
		turn++;
		before = running();
		refused += rm_resume() < 0;
		not_back += before + 2 > running();
	}
	quit = 1;
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CU_ASSERT_EQUAL(refused, 0);
	CU_ASSERT_EQUAL(still_runs, 0);
	CU_ASSERT_EQUAL(not_back, 0);
	CU_ASSERT_EQUAL(scheduled_while_stopped, 0);
	CU_ASSERT_EQUAL(early, 0);
	CU_ASSERT_EQUAL(made_while_stopped, 0);
	CU_ASSERT_EQUAL(running(), 2);
	end();
}

static void *schedule_now(void *arg)
{
	made++;
	put_on_runlist(0x200, CHANNEL);
	return arg;
}

/* Whichever number the command to schedule has, it waits for the end of the stop. */
TEST(numbers, "each number of the command to schedule waits")
{
	pthread_t thread;
	uint32_t i, k;

	begin();
	make(0x10, 0x200, CHANNEL);
	made = scheduled_while_stopped = 0;
	for (i = 0; i < 7; i++) {
		CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_CHANNELS), 0);
		atomic_store(&stopped, 1);
		CU_ASSERT_FATAL(pthread_create(&thread, NULL, schedule_now, NULL) == 0);
		while (made <= i)
			sched_yield();
		for (k = 0; k < 1000; k++) /* for a thread that does not wait */
			sched_yield();
		atomic_store(&stopped, 0);
		CU_ASSERT_EQUAL(rm_resume(), 0);
		pthread_join(thread, NULL);
		CU_ASSERT_EQUAL(running(), 1);
	}
	CU_ASSERT_EQUAL(scheduled_while_stopped, 0);
	end();
}

static void *schedule_slowly(void *arg)
{
	put_on_runlist(0x200, CHANNEL);
	return arg;
}

/* A call to schedule that does not return in time: the stop fails, and says that it is busy. */
TEST(busy, "a stop does not wait forever")
{
	pthread_t thread;

	begin();
	make(0x10, 0x200, CHANNEL);
	atomic_store(&slow, 1);
	CU_ASSERT_FATAL(pthread_create(&thread, NULL, schedule_slowly, NULL) == 0);
	while (rm_stop(WORKER_STOP_CHANNELS) != -EBUSY)
		rm_resume();
	atomic_store(&slow, 0);
	pthread_join(thread, NULL);
	CU_ASSERT_EQUAL(running(), 1);
	CU_ASSERT_EQUAL(rm_stop(WORKER_STOP_CHANNELS), 0);
	CU_ASSERT_EQUAL(running(), 0);
	CU_ASSERT_EQUAL(rm_resume(), 0);
	end();
}

SUITE_MAIN("rm")
