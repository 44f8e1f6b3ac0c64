/* SPDX-License-Identifier: MIT */
#include "engine.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "engine_declared.h"
#include "engine_private.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

#define FIFO_ENGINE 50
/* glibc's default, which other libraries expect: this thread opens a GPU that has returned, with
 * NVML for NVIDIA's. Unused pages take no memory. */
#define STACK_SIZE (8u << 20)
#define RECORDS 32768u /* a power of two; a switch makes about six */
/* How long engine_stop waits for the world switch in progress. */
#define STOP_WITHIN (2 * VGPU_SEC)
/* AMD's self-switch of a lone VF; and a `lone_slice` that in practice never ends. */
#define LONE_SLICE (500 * VGPU_MSEC)
#define LONE_SLICE_OF_KILLED (3600 * VGPU_SEC)
/* value of timer_at after the timer has fired: an instant in the past. The timer stays readable
 * until it is armed again. */
#define FIRED 0

static const char NOT_SET_UP[] =
	"the device is back, but cannot be set up as before ('vgpuctl gpu show' says why)";
static const char NOT_OPENED[] = "it cannot be opened ('vgpuctl gpu show' says why)";

/* By kind of scheduler. */
static const struct engine_time *const times[] = {
	[VGPU_DRIVER_SWITCHED] = &engine_switched,
	[VGPU_DRIVER_PROGRAMMED] = &engine_governed,
	[VGPU_DRIVER_DECLARED] = &engine_declared,
};

/* A GPU with policies of its own gets one when it is opened. */
static int declare(struct engine *e, struct vgpu_error *err)
{
	const char *why = NULL;

	if (e->ops->declared)
		why = declaration_of(&e->config.begin, e->config.core.max_vfs,
				     &e->config.driver.declaration);
	return why ? vgpu_error_set(err, -EOPNOTSUPP, "policy %s: %s", e->config.begin.policy->name,
				    why)
		   : 0;
}

/* Looks for a driver until there is one: the device may appear later. */
static int find_driver(struct engine *e, struct vgpu_error *err)
{
	if (!e->ops)
		e->ops = e->config.ops ? e->config.ops
				       : vgpu_driver_for(e->config.driver.device, err);
	return e->ops ? 0 : -ENODEV;
}

const char *engine_cannot_reset(const struct vgpu_driver_caps *caps, bool gpu_reset)
{
	if (!(caps->reset_levels & (1u << VGPU_RESET_ENGINE | 1u << VGPU_RESET_VF)))
		return "the GPU cannot reset a single VF, so that vgpud could not stop one that "
		       "hangs";
	if (gpu_reset && caps->kind != VGPU_DRIVER_SWITCHED)
		return "gpu_reset = yes: vgpud resets the whole GPU only where it switches the VFs "
		       "itself, and this GPU schedules them: remove gpu_reset";
	return NULL;
}

static int open_device(struct engine *e, struct vgpu_error *err)
{
	struct epoll_event want = {.events = EPOLLIN};
	int r = find_driver(e, err);
	const char *why;

	if (r == 0)
		r = declare(e, err);
	if (r < 0)
		return r;
	e->device_speaks = true;
	r = e->ops->device->open(&e->driver, &e->config.driver, &e->caps, &e->found, engine_sink, e,
				 err);
	if (r < 0) {
		e->driver = NULL;
		if (atomic_load(&e->trouble) == NOT_SET_UP)
			atomic_store(&e->trouble, engine_why_lost(r));
		return r;
	}
	why = engine_cannot_reset(&e->caps, e->config.core.gpu_reset);
	if (why) {
		e->ops->device->close(e->driver, false);
		e->driver = NULL;
		return vgpu_error_set(err, -ENOTSUP, "%s", why);
	}
	/* 0: vgpud does not divide the GPU's memory; other code divides by the granule. */
	e->caps.granule += e->caps.granule == 0;
	e->driver_fd = e->ops->device->fd(e->driver);
	want.data.fd = e->driver_fd;
	e->config.core.reset_levels = e->caps.reset_levels;
	e->config.core.chains = e->caps.chain >= VGPU_CHAIN;
	/* Stopping the VF would kill it to no purpose. The GPU may have returned as another one. */
	if (e->config.lone_slice_by_kind)
		e->config.core.lone_slice =
			e->caps.preemption && strcmp(e->caps.preemption, "kill") == 0
				? LONE_SLICE_OF_KILLED
				: LONE_SLICE;
	e->opened = true;
	gpu_memory_open(&e->memory, e->ops->memory, e->driver, &e->caps, &e->found,
			&e->config.driver);
	if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->driver_fd, &want) < 0) {
		r = vgpu_error_set(err, -errno, "epoll: %s", strerror(errno));
	} else {
		e->time = times[e->caps.kind];
		e->is_set_up = false;
		e->slot_used[0] = e->slot_used[1] = false;
		r = e->time->build(e);
		e->is_set_up = r == 0 && e->driver;
		e->was_set_up |= e->is_set_up;
		if (r < 0)
			vgpu_error_set(err, r, "policy %s: %s", e->config.begin.policy->name,
				       e->out.why ? e->out.why : strerror(-r));
	}
	if (r == 0 && e->driver) { /* the GPU may have been lost again */
		atomic_store(&e->trouble, NULL);
		e->failures = 0;
	}
	if (r < 0 && e->driver) {
		atomic_store(&e->trouble, NOT_SET_UP);
		engine_let_go(e, false);
	}
	return r;
}

/* Tries to open a lost GPU. A GPU that is back but cannot be set up stays lost. */
static void open_again(struct engine *e)
{
	struct vgpu_error err;

	if (open_device(e, &err) == 0)
		return;
	e->policy_changed |= strcmp(err.text, e->lost_why.text) != 0;
	e->lost_why = err;
	e->failures++;
	engine_try_later(e);
}

/* The GPU cannot be opened at the start: begins in the state of a lost GPU of which nothing is
 * known. */
static void begin_lost(struct engine *e, const struct vgpu_error *why)
{
	e->lost_why = *why;
	if (!e->opened)
		e->caps = (struct vgpu_driver_caps){.driver = "unknown",
						    .model = "unknown",
						    .layout = "unknown",
						    .transport = "unknown",
						    .preemption = "unknown",
						    .max_vfs = e->config.core.max_vfs,
						    .granule = 1};
	atomic_store(&e->trouble, NOT_OPENED);
	e->policy_changed = true;
	engine_try_later(e);
}

/* Arms the timer for AT. timerfd_settime also clears an expiry that was not read. */
static void arm(struct engine *e, vgpu_nsec at)
{
	struct itimerspec t = {.it_value = {0, 0}};

	if (at == e->timer_at)
		return;
	e->timer_at = at;
	if (at != VGPU_NEVER) /* it_value 0 would disarm the timer */
		t.it_value =
			(struct timespec){(time_t)(at / VGPU_SEC), (long)(at % VGPU_SEC) + !at};
	timerfd_settime(e->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static vgpu_nsec next_deadline(const struct engine *e)
{
	vgpu_nsec t, other;

	if (!e->driver)
		return e->reopen_at;
	t = e->time->deadline(e);
	other = e->ops->device->deadline(e->driver);
	t = other < t ? other : t;
	other = e->time->moves_memory ? gpu_memory_deadline(&e->memory) : VGPU_NEVER;
	return other < t ? other : t;
}

/* How long before AT this thread wakes up to busy-wait: only for planned instants, never for
 * time-outs. */
static vgpu_nsec spins(const struct engine *e, vgpu_nsec at)
{
	if (e->config.spin == 0 || !e->driver || at == VGPU_NEVER || at <= e->config.spin ||
	    !engine_is_planned(e, at))
		return 0;
	return e->config.spin;
}

/* Busy-waits until UNTIL, or until an event arrives. */
static void spin(struct engine *e, vgpu_nsec until)
{
	vgpu_nsec began = vgpu_now(), now = began;
	struct epoll_event event;

	if (began >= until)
		return;
	vgpu_eventfd_drain(e->timer); /* a timer is read as an eventfd is */
	while (now < until && epoll_wait(e->epoll, &event, 1, 0) == 0)
		now = vgpu_now();
	e->spun += (now < until ? now : until) - began;
}

static void wait_for_something(struct engine *e)
{
	struct epoll_event events[4];
	/* Sleeps despite a waiting request only if the request was deferred for a near deadline. */
	bool asked = !spsc_is_empty(&e->requests) && !e->put_off && !atomic_load(&e->quit);
	vgpu_nsec deadline = next_deadline(e), early = spins(e, deadline);
	int i, n;

	arm(e, deadline - early);
	n = epoll_wait(e->epoll, events, 4, asked ? 0 : -1);
	for (i = 0; i < n; i++) {
		e->device_speaks |= events[i].data.fd == e->driver_fd;
		if (events[i].data.fd == e->timer)
			e->timer_at = FIRED;
		if (events[i].data.fd == e->wake)
			vgpu_eventfd_drain(e->wake);
	}
	if (n == 1 && events[0].data.fd == e->timer && early)
		spin(e, deadline);
}

static void run_once(struct engine *e)
{
	int r;

	if (!e->driver) {
		if (atomic_exchange(&e->look, false) || vgpu_now() >= e->reopen_at)
			open_again(e);
		return;
	}
	r = e->time->keep(e);
	if (!e->driver)
		return;
	if (r == 0 && (e->device_speaks || vgpu_now() >= e->ops->device->deadline(e->driver)))
		r = engine_look(e);
	if (r == 0 && e->driver && e->time->moves_memory)
		r = gpu_memory_run(&e->memory, vgpu_now());
	if (r < 0)
		engine_lose(e, r);
	engine_drain(e);
}

static void *engine_thread(void *arg)
{
	struct engine *e = arg;
	vgpu_nsec until;

	while (!atomic_load(&e->quit)) {
		atomic_fetch_add(&e->rounds, 1);
		wait_for_something(e);
		run_once(e);
		engine_serve(e);
		engine_publish(e);
	}
	if (e->driver)
		e->time->stop(e);
	until = vgpu_now() + STOP_WITHIN;
	while (e->driver && !e->time->at_rest(e) && vgpu_now() < until) {
		wait_for_something(e);
		run_once(e);
	}
	return NULL;
}

static int start_thread(struct engine *e, struct vgpu_error *err)
{
	struct sched_param param = {.sched_priority = FIFO_ENGINE};
	pthread_attr_t attr;
	sigset_t all, old;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &param);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	e->realtime = e->config.realtime;
	r = e->realtime ? pthread_create(&e->thread, &attr, engine_thread, e) : EPERM;
	if (r == EPERM) {
		e->realtime = false;
		pthread_attr_setinheritsched(&attr, PTHREAD_INHERIT_SCHED);
		r = pthread_create(&e->thread, &attr, engine_thread, e);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (r)
		return vgpu_error_set(err, -r, "cannot start the engine thread: %s", strerror(r));
	pthread_setname_np(e->thread, "vgpud-engine");
	return 0;
}

static void engine_free(struct engine *e)
{
	if (e->driver)
		e->ops->device->close(e->driver, false);
	vgpu_close(&e->epoll);
	vgpu_close(&e->timer);
	vgpu_close(&e->wake);
	vgpu_close(&e->tell);
	spsc_finish(&e->requests);
	spsc_finish(&e->replies);
	trail_finish(&e->records);
	latest_finish(&e->policy);
	recorder_free(e->recorder);
	governed_free(e->governed);
	declared_free(e->declared);
	free(e);
}

static int watch(const struct engine *e, int fd)
{
	struct epoll_event want = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &want) < 0 ? -errno : 0;
}

static int open_descriptors(struct engine *e)
{
	int r;

	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (e->epoll < 0)
		return -errno;
	e->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (e->timer < 0)
		return -errno;
	e->wake = vgpu_eventfd();
	if (e->wake < 0)
		return e->wake;
	e->tell = vgpu_eventfd();
	if (e->tell < 0)
		return e->tell;
	r = watch(e, e->timer);
	if (r < 0)
		return r;
	return watch(e, e->wake);
}

static int make_queues(struct engine *e)
{
	if (!spsc_init(&e->requests, ENGINE_REQUESTS, sizeof(void *)) ||
	    !spsc_init(&e->replies, ENGINE_REQUESTS, sizeof(void *)) ||
	    !latest_init(&e->policy, sizeof(struct engine_policy)) ||
	    !trail_init(&e->records, RECORDS))
		return -ENOMEM;
	return 0;
}

/* Acquires the engine's resources before its thread runs. On failure, engine_free releases them. */
static int set_up(struct engine *e, struct vgpu_error *err)
{
	int r = open_descriptors(e), lost;

	if (r == 0)
		r = make_queues(e);
	if (r < 0)
		return vgpu_error_set(err, r, "%s", strerror(-r));
	e->recorder = recorder_new(e->config.core.max_vfs, err);
	if (!e->recorder)
		return -ENOMEM;
	e->memory.recorder = e->recorder;
	e->memory.memory = recorder_state_memory(e->recorder);
	lost = open_device(e, err);
	if (lost == -ENOMEM)
		return lost;
	if (lost < 0)
		begin_lost(e, err);
	engine_publish(e);
	r = start_thread(e, err);
	return r < 0 ? r : lost < 0;
}

int engine_start(struct engine **out, const struct engine_config *config, struct vgpu_error *err)
{
	struct engine *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	e->config = *config;
	e->timer_at = VGPU_NEVER;
	e->memory.sink = engine_sink;
	e->memory.reply = engine_changed;
	e->memory.data = e;
	e->memory.epoch = config->epoch;
	e->memory.swappable = config->swappable;
	e->epoll = e->timer = e->wake = e->tell = e->driver_fd = -1;
	r = set_up(e, err);
	if (r < 0) {
		engine_free(e);
		return r;
	}
	*out = e;
	return r;
}

void engine_stop(struct engine *e)
{
	atomic_store(&e->quit, true);
	vgpu_eventfd_signal(e->wake);
	pthread_join(e->thread, NULL);
	engine_free(e);
}

bool engine_is_realtime(const struct engine *e)
{
	return e->realtime;
}

bool engine_is_alive(struct engine *e)
{
	uint32_t rounds = atomic_load(&e->rounds);
	bool alive = rounds != e->seen_rounds || engine_trouble(e);

	e->seen_rounds = rounds;
	vgpu_eventfd_signal(e->wake);
	return alive;
}

void engine_retry(struct engine *e)
{
	atomic_store(&e->look, true);
	vgpu_eventfd_signal(e->wake);
}

const char *engine_trouble(const struct engine *e)
{
	return atomic_load(&e->trouble);
}

const char *engine_says(const struct engine *e, uint32_t *n)
{
	*n = atomic_load(&e->n_says);
	return atomic_load(&e->says);
}

bool engine_send(struct engine *e, struct engine_request *request)
{
	if (e->under_way == ENGINE_REQUESTS || !spsc_push(&e->requests, &request))
		return false;
	e->under_way++;
	vgpu_eventfd_signal(e->wake);
	return true;
}

struct engine_request *engine_receive(struct engine *e)
{
	struct engine_request *request;

	if (!spsc_pop(&e->replies, &request))
		return NULL;
	e->under_way--;
	return request;
}

const struct engine_policy *engine_policy(struct engine *e)
{
	return latest_get(&e->policy);
}

const struct vgpu_driver_caps *engine_caps(struct engine *e)
{
	const struct engine_policy *p = engine_policy(e);

	return p->opened ? &p->caps : NULL;
}

const struct trail *engine_records(const struct engine *e)
{
	return &e->records;
}

int engine_fd(const struct engine *e)
{
	return e->tell;
}

int engine_recording(struct engine *e, struct recording *out)
{
	return recorder_copy(e->recorder, out);
}
