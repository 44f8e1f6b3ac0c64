/* SPDX-License-Identifier: MIT */
#include "quick_gpu.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine_private.h"
#include "vgpu/descriptor.h"

#define WAITING 64u

/* The events that dispatch will hand out. The engine's thread and the test's add to them. */
static struct vgpu_event waiting[WAITING];
static uint32_t n_waiting;
/* The command to be idle that is not answered yet; its type is then VGPU_EV_DONE. */
static struct vgpu_event idle;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int wake = -1; /* -1 while the GPU is closed */

static vgpu_event_sink *sink;
static void *sink_data;
static _Atomic bool busy_vfs[QUICK_VFS];
static uint64_t host;
static uint32_t first_out;
static _Atomic bool stops, present, block;
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

void quick_violates(uint32_t vf, enum vgpu_violation kind)
{
	post((struct vgpu_event){.type = VGPU_EV_VIOLATION, .vf = vf, .code = kind});
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

/* Lays out partitions in multiples of 1 MiB, some of them in host memory, which the null driver
 * lacks. */
static void lay_out(struct vgpu_partition *p, uint32_t n_vfs)
{
	uint32_t i;

	p->pf = (struct vgpu_extent){0, 32 * QUICK_MIB};
	p->save_area = (struct vgpu_extent){0, 3 * QUICK_MIB};
	for (i = 0; i < n_vfs; i++) {
		uint64_t size = first_out < QUICK_VFS ? 48 * QUICK_MIB : 32 * QUICK_MIB;
		uint64_t at = i < first_out ? 32 * QUICK_MIB + i * size
					    : 128 * QUICK_MIB + (i - first_out) * size;

		p->vfs[i] = (struct vgpu_extent){at, size};
	}
}

static int quick_open(struct vgpu_driver **out, const struct vgpu_driver_config *config,
		      struct vgpu_driver_caps *caps, struct vgpu_driver_found *found,
		      vgpu_event_sink *to, void *data, struct vgpu_error *err)
{
	struct vgpu_driver_config null = {.device = "null:memory_mib=128,busy=0",
					  .n_vfs = config->n_vfs};
	uint32_t i;
	int r;

	if (!present)
		return vgpu_error_set(err, -ENODEV, "the quick GPU is not there");
	r = vgpu_null_driver.device->open(out, &null, caps, found, to, data, err);
	if (r < 0)
		return r;
	caps->max_vfs = QUICK_VFS;
	caps->granule = QUICK_MIB;
	caps->host = host;
	found->host_is_new = true;
	lay_out(&found->partition, config->n_vfs);
	found->planned = found->partition;
	pthread_mutex_lock(&lock);
	wake = vgpu_eventfd();
	pthread_mutex_unlock(&lock);
	for (i = 0; i < config->n_vfs; i++)
		if (busy_vfs[i])
			post((struct vgpu_event){.type = VGPU_EV_BUSY, .vf = i});
	sink = to;
	sink_data = data;
	return 0;
}

static void quick_close(struct vgpu_driver *driver, bool lost)
{
	vgpu_null_driver.device->close(driver, lost);
	pthread_mutex_lock(&lock);
	n_waiting = 0;
	idle.type = VGPU_EV_TIMER;
	vgpu_close(&wake);
	pthread_mutex_unlock(&lock);
}

static int quick_commands(struct vgpu_driver *driver, const struct vgpu_order *orders, uint32_t n,
			  vgpu_nsec now)
{
	bool is_idle = orders[0].command == VGPU_CMD_IDLE, kept;

	if (is_idle && watch)
		watch();
	pthread_mutex_lock(&lock);
	kept = is_idle && !stops;
	if (kept)
		idle = (struct vgpu_event){.type = VGPU_EV_DONE,
					   .vf = orders[0].vf,
					   .code = VGPU_CMD_IDLE};
	pthread_mutex_unlock(&lock);
	return kept ? 0 : vgpu_null_driver.switched->commands(driver, orders, n, now);
}

static int quick_fd(const struct vgpu_driver *)
{
	return wake;
}

static int quick_dispatch(struct vgpu_driver *driver, vgpu_nsec now)
{
	struct vgpu_event events[WAITING];
	uint32_t i, n;

	vgpu_eventfd_drain(wake); /* first: what it tells of is looked at below */
	if (block) {
		block = false;
		sem_post(&blocked);
		while (sem_wait(&go) < 0)
			;
	}
	if (!present)
		return -ENODEV;
	pthread_mutex_lock(&lock);
	n = n_waiting;
	memcpy(events, waiting, n * sizeof(events[0]));
	n_waiting = 0;
	pthread_mutex_unlock(&lock);
	for (i = 0; i < n; i++) {
		events[i].now = now;
		sink(sink_data, &events[i]);
	}
	return vgpu_null_driver.device->dispatch(driver, now);
}

static int quick_probe(const char *device, struct vgpu_error *)
{
	return strcmp(device, "quick:") == 0;
}

static struct vgpu_device_face device_face;
static struct vgpu_switched_face switched_face;
struct vgpu_driver_ops quick_driver;

/* Copies the null driver's tables and replaces the operations that the test steers. */
static void make_tables(void)
{
	device_face = *vgpu_null_driver.device;
	device_face.probe = quick_probe;
	device_face.open = quick_open;
	device_face.close = quick_close;
	device_face.fd = quick_fd;
	device_face.dispatch = quick_dispatch;
	switched_face = *vgpu_null_driver.switched;
	switched_face.commands = quick_commands;
	quick_driver = vgpu_null_driver;
	quick_driver.name = "quick";
	quick_driver.device = &device_face;
	quick_driver.switched = &switched_face;
}

void quick_reset(void)
{
	uint32_t i;

	make_tables();
	for (i = 0; i < QUICK_VFS; i++)
		busy_vfs[i] = false;
	n_waiting = 0;
	idle.type = VGPU_EV_TIMER;
	host = 0;
	first_out = QUICK_VFS;
	stops = present = true;
	block = false;
	watch = NULL;
	sem_init(&blocked, 0, 0);
	sem_init(&go, 0, 0);
}

void quick_config(struct engine_config *out, const struct vgpu_policy_ops *policy)
{
	uint32_t i;

	*out = (struct engine_config){.ops = &quick_driver,
				      .driver = {.device = "quick:", .n_vfs = QUICK_VFS},
				      .begin.policy = policy,
				      .epoch = 3600 * VGPU_SEC};
	vgpu_core_defaults(&out->core, QUICK_VFS);
	out->core.grace = 60 * VGPU_SEC; /* a VF that does not stop does not count as hung here */
	vgpu_param_defaults(policy->params, out->begin.params);
	for (i = 0; i < QUICK_VFS; i++)
		vgpu_param_defaults(policy->vf_params, out->begin.vf_params[i]);
}
