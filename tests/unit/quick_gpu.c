/* SPDX-License-Identifier: MIT */
#include "quick_gpu.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "engine_private.h"
#include "vgpu/descriptor.h"

#define WAITING 64u

/* The events that dispatch hands out; both threads add to them. */
static struct vgpu_event waiting[WAITING];
static uint32_t n_waiting;
static struct vgpu_event idle; /* not answered yet: its type is VGPU_EV_DONE */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int wake = -1; /* while it is open */

static vgpu_event_sink *sink;
static void *sink_data;
static _Atomic bool busy_vfs[QUICK_VFS];
static uint64_t host;
static uint32_t first_out;
static _Atomic bool stops, clears, present, block;
static void (*_Atomic watch)(void);
static sem_t blocked, go;

static void notify(void)
{
	pthread_mutex_lock(&lock);
	if (wake >= 0)
		vgpu_eventfd_signal(wake);
	pthread_mutex_unlock(&lock);
}

static void post(struct vgpu_event event)
{
	pthread_mutex_lock(&lock);
	if (n_waiting < WAITING)
		waiting[n_waiting++] = event;
	pthread_mutex_unlock(&lock);
	notify();
}

void quick_reset(void)
{
	uint32_t i;

	for (i = 0; i < QUICK_VFS; i++)
		busy_vfs[i] = false;
	n_waiting = 0;
	idle.type = VGPU_EV_TIMER;
	host = 0;
	first_out = QUICK_VFS;
	stops = clears = present = true;
	block = false;
	watch = NULL;
	sem_init(&blocked, 0, 0);
	sem_init(&go, 0, 0);
}

void quick_host(uint64_t bytes, uint32_t out)
{
	host = bytes;
	first_out = out;
}

void quick_busy(uint32_t vf, bool yes)
{
	busy_vfs[vf] = yes;
	post((struct vgpu_event){.type = yes ? VGPU_EV_BUSY : VGPU_EV_EMPTY, .vf = vf});
}

void quick_stops(bool yes)
{
	struct vgpu_event event;

	pthread_mutex_lock(&lock);
	stops = yes;
	event = idle;
	if (yes)
		idle.type = VGPU_EV_TIMER;
	pthread_mutex_unlock(&lock);
	if (yes && event.type == VGPU_EV_DONE)
		post(event);
}

void quick_clears(bool yes)
{
	clears = yes;
}

void quick_present(bool yes)
{
	present = yes;
	notify();
}

void quick_block(void)
{
	block = true;
	notify();
	while (sem_wait(&blocked) < 0)
		;
}

void quick_unblock(void)
{
	sem_post(&go);
}

void quick_watch(void (*see)(void))
{
	watch = see;
}

static int quick_open(struct vgpu_driver **out, const struct vgpu_driver_config *config,
		      struct vgpu_driver_caps *caps, struct vgpu_driver_found *found,
		      vgpu_event_sink *to, void *data, struct vgpu_error *err)
{
	struct vgpu_partition *p = &found->partition;
	uint32_t i;

	if (!present)
		return vgpu_error_set(err, -ENODEV, "the quick GPU is not there");
	*caps = (struct vgpu_driver_caps){.driver = "quick",
					  .model = "quick",
					  .layout = "none",
					  .transport = "memory",
					  .max_vfs = QUICK_VFS,
					  .memory = 128 * QUICK_MIB,
					  .host = host,
					  .granule = QUICK_MIB,
					  .reset_levels = 1u << VGPU_RESET_VF,
					  .preemption = "hard"};
	*found = (struct vgpu_driver_found){.adopted = true, .host_is_new = true};
	pthread_mutex_lock(&lock);
	wake = vgpu_eventfd();
	pthread_mutex_unlock(&lock);
	p->pf = (struct vgpu_extent){0, 32 * QUICK_MIB};
	p->save_area = (struct vgpu_extent){0, 3 * QUICK_MIB};
	for (i = 0; i < config->n_vfs; i++) {
		uint64_t size = first_out < QUICK_VFS ? 48 * QUICK_MIB : 32 * QUICK_MIB;
		uint64_t at = i < first_out ? 32 * QUICK_MIB + i * size
					    : 128 * QUICK_MIB + (i - first_out) * size;

		p->vfs[i] = (struct vgpu_extent){at, size};
		found->contexts[i] = VGPU_CTX_SAVED;
		found->driver_up[i] = true;
		if (busy_vfs[i])
			post((struct vgpu_event){.type = VGPU_EV_BUSY, .vf = i});
	}
	found->planned = *p;
	sink = to;
	sink_data = data;
	*out = (struct vgpu_driver *)&wake; /* there is one */
	return 0;
}

static void quick_close(struct vgpu_driver *driver, bool lost)
{
	(void)driver, (void)lost;
	pthread_mutex_lock(&lock);
	n_waiting = 0;
	idle.type = VGPU_EV_TIMER;
	close(wake);
	wake = -1;
	pthread_mutex_unlock(&lock);
}

static int quick_command(struct vgpu_driver *driver, uint32_t vf, enum vgpu_command command,
			 vgpu_nsec now)
{
	struct vgpu_event done = {.type = VGPU_EV_DONE, .vf = vf, .code = command};
	bool kept;

	(void)driver, (void)now;
	if (command == VGPU_CMD_IDLE && watch)
		watch();
	pthread_mutex_lock(&lock);
	kept = command == VGPU_CMD_IDLE && !stops;
	if (kept)
		idle = done;
	pthread_mutex_unlock(&lock);
	if (!kept)
		post(done);
	return 0;
}

static int quick_reset_vf(struct vgpu_driver *driver, uint32_t vf, enum vgpu_reset_level level,
			  vgpu_nsec now)
{
	(void)driver, (void)now;
	post((struct vgpu_event){.type = VGPU_EV_RESET_DONE, .vf = vf, .code = level});
	return 0;
}

static int quick_gates(struct vgpu_driver *driver, uint32_t vf, uint32_t gates)
{
	(void)driver, (void)vf, (void)gates;
	return 0;
}

static int quick_notice(struct vgpu_driver *driver, uint32_t vf, enum vgpu_notice notice)
{
	(void)driver, (void)vf, (void)notice;
	return 0;
}

static int quick_place(struct vgpu_driver *driver, uint32_t vf, struct vgpu_extent where)
{
	(void)driver, (void)vf, (void)where;
	return 0;
}

static int quick_clear(struct vgpu_driver *driver, struct vgpu_extent where)
{
	(void)driver, (void)where;
	return 0;
}

static int quick_copy(struct vgpu_driver *driver, struct vgpu_extent from, uint64_t to)
{
	(void)driver, (void)from, (void)to;
	return 0;
}

static int quick_is_busy(struct vgpu_driver *driver, bool *failed)
{
	(void)driver;
	*failed = false;
	return !clears;
}

static int quick_read(struct vgpu_driver *driver, uint64_t offset, void *data, uint32_t size)
{
	(void)driver, (void)offset;
	memset(data, 0, size);
	return 0;
}

static int quick_fd(const struct vgpu_driver *driver)
{
	(void)driver;
	return wake;
}

static vgpu_nsec quick_deadline(const struct vgpu_driver *driver)
{
	(void)driver;
	return VGPU_NEVER;
}

static int quick_dispatch(struct vgpu_driver *driver, vgpu_nsec now)
{
	struct vgpu_event events[WAITING];
	uint32_t i, n;

	(void)driver;
	if (block) {
		block = false;
		sem_post(&blocked);
		while (sem_wait(&go) < 0)
			;
	}
	if (!present)
		return -ENODEV;
	vgpu_eventfd_drain(wake);
	pthread_mutex_lock(&lock);
	n = n_waiting;
	memcpy(events, waiting, n * sizeof(events[0]));
	n_waiting = 0;
	pthread_mutex_unlock(&lock);
	for (i = 0; i < n; i++) {
		events[i].now = now;
		sink(sink_data, &events[i]);
	}
	return 0;
}

static int quick_probe(const char *device, struct vgpu_error *err)
{
	(void)err;
	return strcmp(device, "quick:") == 0;
}

static const struct vgpu_device_face device_face = {
	.probe = quick_probe,
	.open = quick_open,
	.close = quick_close,
	.fd = quick_fd,
	.deadline = quick_deadline,
	.dispatch = quick_dispatch,
	.reset = quick_reset_vf,
};

static const struct vgpu_switched_face switched_face = {
	.command = quick_command,
	.gates = quick_gates,
	.notice = quick_notice,
};

static const struct vgpu_memory_face memory_face = {
	.place = quick_place,
	.clear = quick_clear,
	.copy = quick_copy,
	.busy = quick_is_busy,
	.read = quick_read,
};

const struct vgpu_driver_ops quick_driver = {
	.size = sizeof(struct vgpu_driver_ops),
	.name = "quick",
	.kind = VGPU_DRIVER_SWITCHED,
	.device = &device_face,
	.switched = &switched_face,
	.memory = &memory_face,
};

void quick_config(struct engine_config *out, const struct vgpu_policy_ops *policy)
{
	uint32_t i;

	*out = (struct engine_config){.ops = &quick_driver,
				      .driver = {.device = "quick:", .n_vfs = QUICK_VFS},
				      .begin.policy = policy,
				      .epoch = 3600 * VGPU_SEC};
	vgpu_core_defaults(&out->core, QUICK_VFS);
	out->core.grace = 60 * VGPU_SEC; /* who does not stop is no hang here */
	vgpu_param_defaults(policy->params, out->begin.params);
	for (i = 0; i < QUICK_VFS; i++)
		vgpu_param_defaults(policy->vf_params, out->begin.vf_params[i]);
}
