/* SPDX-License-Identifier: MIT */
#include "played_vf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "vfio/device.h"
#include "softgpu/registers.h"
#include "softgpu/packets.h"
#include "vfio/gpuiov.h"
#include "vgpu/clock.h"

#define WINDOW (UINT64_C(32) << 20)
#define PARTITION (UINT64_C(48) << 20)
#define READY_MS 60000

/* What all processes have in common. */
struct common {
	_Atomic uint32_t words[4], sent, answer, answered, enable;
	_Atomic uint32_t features;
	_Atomic uint64_t ring_base, ring_size, fence_at, wptr, bell;
	_Atomic uint32_t up;
	_Atomic uint32_t contexts, context; /* how many were asked for; the last that has begun */
	_Atomic uint32_t reset_wanted, reset_done; /* how many */
	_Atomic uint32_t ups, downs, error;
	_Atomic uint32_t refusals, refused, looks; /* to come, so far; at what reads as ones */
	_Atomic int64_t later_s;
	_Atomic bool quit, away;
};

static struct common *c;
static int window_fd, kick_fd;
static uint8_t *window;
static char lock_path[64];
static pthread_t thread;
static _Atomic uint32_t slice;

/* The VF's process. */

static struct worker_client *worker;
static struct worker_ended ended;
static bool running, stopping, sliced;
static uint64_t heard;

static void start_worker(void)
{
	struct worker_options options = {.device = "cuda",
					 .window_fd = window_fd,
					 .size = PARTITION,
					 .modules = UINT64_C(64) << 20,
					 .uid = 65534,
					 .gid = 65534};
	struct vgpu_error err = {""};

	if (worker_start(&worker, &options, &err) < 0 ||
	    worker_wait_ready(worker, READY_MS, &err) < 0) {
		fprintf(stderr, "the worker: %s\n", err.text);
		abort();
	}
	ended = (struct worker_ended){.rptr = 0};
	running = stopping = false;
}

static void reset(void)
{
	worker_gone(worker_quit(worker), READY_MS);
	memset(window, 0, WINDOW);
	atomic_store(&c->up, 0);
	start_worker();
	atomic_fetch_add(&c->reset_done, 1);
}

static bool has_work(void)
{
	if (atomic_load(&c->error))
		return false;
	return atomic_load(&c->bell) != heard ||
	       ((ended.active || ended.rptr != atomic_load(&c->wptr)) &&
		!atomic_load(&worker->shared->waits));
}

static void run(void)
{
	struct worker_message m = {.run = {.ring_base = atomic_load(&c->ring_base),
					   .ring_size = atomic_load(&c->ring_size),
					   .rptr = ended.rptr,
					   .fence_at = atomic_load(&c->fence_at),
					   .stops = WORKER_STOP_BLOCK}};

	heard = atomic_load(&c->bell);
	atomic_store(&worker->shared->wptr, atomic_load(&c->wptr));
	worker_run(worker, &m);
	running = true;
	stopping = false;
	sliced = !sliced;
}

static void hear(void)
{
	struct worker_message m;
	int r;

	while ((r = worker_receive(worker, &m)) > 0) {
		if (m.type == WORKER_DMA) { /* it is no VM's: it has no memory for that */
			m.type = WORKER_DMA_DONE;
			m.dma.result = -EFAULT;
			worker_send(worker, &m);
		}
		if (m.type != WORKER_ENDED)
			continue;
		running = false;
		ended = m.ended;
		if (ended.end >= WORKER_FAILED)
			atomic_store(&c->error, ended.error && ended.error < SOFTGPU_BAD_ADDRESS
							? ended.error
							: SOFTGPU_FAULTED);
	}
	if (r < 0) {
		running = false;
		atomic_store(&c->error, SOFTGPU_FAULTED);
	}
}

/* Begins the context that a guest has asked for. Only here, where nothing runs, WPTR becomes 0: a
 * run never sees that of one context with what another one has done. */
static void take_context(void)
{
	const uint32_t asked = atomic_load(&c->contexts);

	if (asked == atomic_load(&c->context))
		return;
	ended = (struct worker_ended){.rptr = 0};
	atomic_store(&c->wptr, 0);
	atomic_store(&c->error, 0);
	atomic_store(&c->context, asked);
}

static void *play(void *arg)
{
	uint64_t n;

	start_worker();
	atomic_fetch_add(&c->reset_done, 1);
	while (!atomic_load(&c->quit)) {
		struct pollfd p[] = {{kick_fd, POLLIN, 0},
				     {worker->socket, POLLIN, 0},
				     {worker->wake_fd, POLLIN, 0}};
		uint32_t us = atomic_load(&slice);
		struct timespec t = {0, (long)us * 1000};
		bool late =
			ppoll(p, 3, us && sliced && running && !stopping ? &t : NULL, NULL) == 0;

		if (p[0].revents && read(kick_fd, &n, sizeof(n)) < 0)
			abort();
		if (p[2].revents && read(worker->wake_fd, &n, sizeof(n)) < 0)
			abort();
		hear();
		if (late && running)
			worker_stop(worker);
		stopping |= late;
		if (atomic_load(&c->reset_wanted) != atomic_load(&c->reset_done)) {
			reset();
			continue;
		}
		if (running)
			continue;
		take_context();
		if (has_work())
			run();
	}
	worker_gone(worker_quit(worker), READY_MS);
	return arg;
}

void played_vf_start(void)
{
	int fd;

	atomic_store(&slice, 0);
	c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	window_fd = memfd_create("played-vf", MFD_CLOEXEC);
	kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	snprintf(lock_path, sizeof(lock_path), "/tmp/played-vf-XXXXXX");
	fd = mkstemp(lock_path);
	if (c == MAP_FAILED || kick_fd < 0 || fd < 0 || ftruncate(window_fd, (off_t)WINDOW) < 0)
		abort();
	close(fd);
	window = mmap((void *)SOFTGPU_WINDOW_HINT, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED,
		      window_fd, 0);
	if (window == MAP_FAILED)
		abort();
	atomic_store(&c->features, SOFTGPU_HAS_MODULES | SOFTGPU_HAS_SLOTS | SOFTGPU_HAS_ARENA |
					   SOFTGPU_HAS_AWAIT | SOFTGPU_HAS_IMAGES |
					   SOFTGPU_HAS_MANY_MODULES | SOFTGPU_HAS_OUTPUT);
	atomic_store(&c->reset_wanted, 1); /* the first worker */
	if (pthread_create(&thread, NULL, play, NULL) != 0)
		abort();
	while (atomic_load(&c->reset_done) == 0)
		sched_yield();
}

static void kick(void)
{
	const uint64_t one = 1;

	if (write(kick_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		abort();
}

void played_vf_end(void)
{
	atomic_store(&c->quit, true);
	kick();
	pthread_join(thread, NULL);
	unlink(lock_path);
	munmap(window, WINDOW);
	close(window_fd);
	close(kick_fd);
	munmap(c, sizeof(*c));
	c = NULL;
}

void played_vf_slices(uint32_t us)
{
	atomic_store(&slice, us);
	kick();
}

void played_vf_features(uint32_t features)
{
	atomic_store(&c->features, features);
}

void played_vf_away(bool away)
{
	atomic_store(&c->away, away);
}

uint32_t played_vf_looks(void)
{
	return atomic_load(&c->looks);
}

void played_vf_refuse(uint32_t times)
{
	atomic_store(&c->refusals, times);
}

uint32_t played_vf_refused(void)
{
	return atomic_load(&c->refused);
}

void played_vf_later(int64_t s)
{
	atomic_fetch_add(&c->later_s, s);
}

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	int r = __real_clock_gettime(clock, t);

	if (c)
		t->tv_sec += atomic_load(&c->later_s);
	return r;
}

uint32_t played_vf_resets(void)
{
	return atomic_load(&c->reset_done) - 1;
}

uint32_t played_vf_ups(void)
{
	return atomic_load(&c->ups);
}

uint32_t played_vf_downs(void)
{
	return atomic_load(&c->downs);
}

uint8_t *played_vf_window(uint64_t *bytes)
{
	*bytes = WINDOW;
	return window;
}

void played_vf_bell(void)
{
	atomic_fetch_add(&c->bell, 1);
	kick();
}

/* The PF answers in the process that asks. */

static void bring_up(void)
{
	const vgpu_nsec until = vgpu_now() + READY_MS * VGPU_MSEC;
	uint32_t asked;

	if (atomic_load(&c->up)) {
		atomic_fetch_add(&c->reset_wanted, 1);
		kick();
		while (atomic_load(&c->reset_done) != atomic_load(&c->reset_wanted))
			sched_yield();
	}
	asked = atomic_fetch_add(&c->contexts, 1) + 1;
	kick();
	/* another program may ask meanwhile, and get a later one */
	while ((int32_t)(atomic_load(&c->context) - asked) < 0) {
		if (vgpu_now() >= until) {
			fprintf(stderr, "the played VF begins no context\n");
			abort();
		}
		sched_yield();
	}
	atomic_store(&c->up, 1);
	atomic_fetch_add(&c->ups, 1);
}

static void hear_guest(uint32_t word)
{
	bool refuse = word == GPUIOV_REQ_INIT && atomic_load(&c->refusals) > 0;

	if (refuse) {
		atomic_fetch_sub(&c->refusals, 1);
		atomic_fetch_add(&c->refused, 1);
	} else if (word == GPUIOV_REQ_INIT) {
		bring_up();
	}
	if (word == GPUIOV_REQ_INIT || word == GPUIOV_REQ_FINI) {
		atomic_store(&c->answer, refuse ? GPUIOV_FAIL : GPUIOV_READY);
		atomic_store(&c->answered, 1);
	}
	if (word == GPUIOV_REL_FINI) {
		atomic_store(&c->up, 0);
		atomic_fetch_add(&c->downs, 1);
	}
}

/* The files of sysfs. */

struct played {
	struct vfio_device device;
	int lock_fd;
};

static _Atomic uint32_t *mailbox(uint64_t offset)
{
	const struct gpuiov_location *at = gpuiov_layout_navi.at;

	if (offset == at[GPUIOV_MBOX_TRN].offset)
		return &c->words[0];
	if (offset == at[GPUIOV_MBOX_RCV].offset)
		return &c->answer;
	return offset == at[GPUIOV_MBOX_INT].offset ? &c->enable : NULL;
}

static int read_vf(struct vfio_device *, uint32_t region, uint64_t offset, void *data,
		   uint32_t size)
{
	const _Atomic uint32_t *word = mailbox(offset);
	uint64_t value = 0;

	if (region != VFIO_REGION_BAR5)
		return -EINVAL;
	if (word)
		value = atomic_load(word);
	else if (offset == gpuiov_layout_navi.at[GPUIOV_MBOX_CONTROL].offset)
		value = (atomic_load(&c->sent) ? GPUIOV_MBOX_TRN_VALID | GPUIOV_MBOX_TRN_ACK : 0) |
			(atomic_load(&c->answered) ? GPUIOV_MBOX_RCV_VALID : 0);
	else if (offset == SOFTGPU_MEMORY_SIZE)
		value = WINDOW;
	else if (offset == SOFTGPU_PARTITION_SIZE)
		value = PARTITION;
	else if (offset == SOFTGPU_FEATURES)
		value = atomic_load(&c->features);
	else if (offset == SOFTGPU_STATUS)
		value = atomic_load(&c->error);
	if (atomic_load(&c->away)) {
		value = UINT64_MAX;
		atomic_fetch_add(&c->looks, 1);
	}
	memcpy(data, &value, size);
	return 0;
}

static int write_vf(struct vfio_device *, uint32_t region, uint64_t offset, const void *data,
		    uint32_t size)
{
	_Atomic uint32_t *word = region == VFIO_REGION_BAR5 ? mailbox(offset) : NULL;
	uint64_t value = 0;

	memcpy(&value, data, size);
	if (atomic_load(&c->away))
		return 0;
	if (region == VFIO_REGION_BAR2 && offset == SOFTGPU_DOORBELL) {
		atomic_store(&c->wptr, value);
		if (worker)
			kick();
	} else if (region == VFIO_REGION_BAR2 && offset == SOFTGPU_SLOT_DOORBELL) {
		played_vf_bell();
	} else if (word) {
		atomic_store(word, (uint32_t)value);
	} else if (offset == gpuiov_layout_navi.at[GPUIOV_MBOX_CONTROL].offset) {
		if (value & GPUIOV_MBOX_RCV_ACK)
			atomic_store(&c->answered, 0);
		else if (!atomic_exchange(&c->sent, value & GPUIOV_MBOX_TRN_VALID) &&
			 value & GPUIOV_MBOX_TRN_VALID)
			hear_guest(atomic_load(&c->words[0]));
	} else if (offset == SOFTGPU_RING_BASE) {
		atomic_store(&c->ring_base, value);
	} else if (offset == SOFTGPU_RING_SIZE) {
		atomic_store(&c->ring_size, value);
	} else if (offset == SOFTGPU_FENCE_ADDR) {
		atomic_store(&c->fence_at, value);
	}
	return 0;
}

static int map_vf(struct vfio_device *, uint32_t region, void *, void **out, size_t *size)
{
	*out = window;
	*size = WINDOW;
	return region == VFIO_REGION_BAR0 ? 0 : -EINVAL;
}

static int no_irqs(struct vfio_device *, const int *, uint32_t)
{
	return -ENOTSUP;
}

static int lock_fd_of(struct vfio_device *d)
{
	return ((struct played *)d)->lock_fd;
}

static void close_vf(struct vfio_device *d)
{
	close(((struct played *)d)->lock_fd);
	free(d);
}

static const struct vfio_device_ops ops = {
	.name = "played",
	.read = read_vf,
	.write = write_vf,
	.map = map_vf,
	.irqs = no_irqs,
	.lock_fd = lock_fd_of,
	.close = close_vf,
};

int __wrap_vfio_device_open(struct vfio_device **out, const char *name, struct vgpu_error *err);

int __wrap_vfio_device_open(struct vfio_device **out, const char *, struct vgpu_error *err)
{
	struct played *p = calloc(1, sizeof(*p));

	p->device.ops = &ops;
	p->lock_fd = open(lock_path, O_RDWR | O_CLOEXEC);
	if (p->lock_fd < 0)
		return vgpu_error_set(err, -errno, "%s: %s", lock_path, strerror(errno));
	*out = &p->device;
	return 0;
}
