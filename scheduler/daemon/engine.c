/* SPDX-License-Identifier: MIT */
#include "engine.h"
#include "vgpu/record.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "builtin.h"
#include "spsc.h"

#define FIFO_ENGINE 50
#define STACK_SIZE (256u << 10)
#define LOCAL_EVENTS 512u
#define RECORDS 16384u
#define REQUESTS 64u
/* Between attempts to find a lost device again. */
#define REOPEN_AFTER (500 * VGPU_MSEC)
/* Decisions that take so long, so many of them in so long, condemn a plug-in. */
#define SLOW_DECISION (2 * VGPU_MSEC)
#define SLOW_LIMIT 3u
#define SLOW_SPAN (10 * VGPU_SEC)
/* How long a stop waits for the switch in progress. */
#define STOP_WITHIN (2 * VGPU_SEC)

struct engine {
	struct engine_config config;
	const struct vgpu_driver_ops *ops;
	struct vgpu_driver *driver; /* NULL: lost */
	struct vgpu_driver_caps caps;
	struct vgpu_driver_found found;
	vgpu_nsec reopen_at;
	struct vgpu_error lost_why;

	struct vgpu_core *core;
	struct recorder *recorder;	      /* and the memory of the core and its policies */
	const struct vgpu_policy_ops *policy; /* as last asked for */
	bool is_plugin;
	int64_t params[VGPU_MAX_PARAMS];
	int64_t vf_params[VGPU_GPU_MAX_VFS][VGPU_MAX_PARAMS];
	bool slot_used[RECORD_SLOTS]; /* by the policy in force, and the one in waiting */

	struct vgpu_event local[LOCAL_EVENTS]; /* what the driver has handed out */
	uint32_t local_head, local_tail;
	struct engine_request *held; /* to be tried again */
	struct vram vram;
	struct vgpu_output out;

	pthread_t thread;
	int epoll, timer, wake, tell, driver_fd;
	vgpu_nsec timer_at;
	_Atomic bool quit, look;
	_Atomic uint32_t rounds;
	uint32_t seen_rounds; /* by who asks whether it is alive */
	bool realtime, told;
	_Atomic(const char *) trouble; /* why the device is lost; NULL: it is not */
	bool device_speaks;	       /* the driver's descriptor is readable */
	struct spsc requests, replies, records;

	struct histogram lateness, switches, preemption, decisions;
	vgpu_nsec slow_since; /* the first of n_slow decisions that took too long */
	uint32_t n_slow;
	vgpu_nsec idle_issued, idle_acked;
	uint64_t records_lost, steps;
};

static vgpu_nsec clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

static void notify(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		return; /* full: it will be read all the same */
}

/* The driver's events wait here until the step at hand is done. */
static void sink(void *data, const struct vgpu_event *event)
{
	struct engine *e = data;

	/* More than 31 VFs can have under way: a few events for each, taken out after each call. */
	assert(e->local_tail - e->local_head < LOCAL_EVENTS);
	e->local[e->local_tail++ % LOCAL_EVENTS] = *event;
}

/* What vfio_check and the driver say of a device that can no longer be used. */
static const char *trouble(int r)
{
	static const struct {
		int error;
		const char *text;
	} texts[] = {
		{-ESTALE, "the kernel wants the device back, and has it"},
		{-EREMOTEIO, "PCI Express reported an error that it could not mend"},
		{-ECONNRESET, "the device was reset, by others than vgpud"},
	};
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].error == r)
			return texts[i].text;
	return "the device stopped answering";
}

static void lose(struct engine *e, int r)
{
	vgpu_error_set(&e->lost_why, r, "%s", trouble(r));
	atomic_store(&e->trouble, trouble(r));
	vram_close(&e->vram);
	e->ops->close(e->driver, true);
	e->driver = NULL;
	e->driver_fd = -1;
	e->local_head = e->local_tail;
	e->reopen_at = clock_now() + REOPEN_AFTER;
}

static int carry_out(struct engine *e, const struct vgpu_action *a)
{
	vgpu_nsec now;
	uint32_t slot;

	switch (a->type) {
	case VGPU_AC_COMMAND:
		now = clock_now();
		if (a->code == VGPU_CMD_IDLE) {
			e->idle_issued = now;
			if (a->planned && now >= a->planned)
				histogram_add(&e->lateness, now - a->planned);
		}
		return e->ops->command(e->driver, a->vf, (enum vgpu_command)a->code, now);
	case VGPU_AC_RESET:
		return e->ops->reset(e->driver, a->vf, (enum vgpu_reset_level)a->code, clock_now());
	case VGPU_AC_GATES:
		return e->ops->gates(e->driver, a->vf, a->code);
	case VGPU_AC_NOTICE:
		return e->ops->notice(e->driver, a->vf, (enum vgpu_notice)a->code);
	case VGPU_AC_SCRUB:
		vram_scrub(&e->vram, a->vf, clock_now());
		return 0;
	case VGPU_AC_RETIRE:
		slot = recorder_slot_of(e->recorder, a->memory);
		if (slot < RECORD_SLOTS)
			e->slot_used[slot] = false;
		return 0;
	}
	return 0;
}

static void measure(struct engine *e, const struct vgpu_event *event)
{
	if (event->type != VGPU_EV_DONE)
		return;
	if (event->code == VGPU_CMD_IDLE) {
		e->idle_acked = event->now;
		if (e->idle_issued && event->now >= e->idle_issued)
			histogram_add(&e->preemption, event->now - e->idle_issued);
		e->idle_issued = 0;
	} else if (event->code == VGPU_CMD_RUN) {
		if (e->idle_acked)
			histogram_add(&e->switches, event->now - e->idle_acked);
		e->idle_acked = 0;
	} else if (event->code == VGPU_CMD_SHUTDOWN || event->code == VGPU_CMD_INIT) {
		e->idle_acked = 0; /* not a plain switch */
	}
}

/* What this thread has computed: a machine that stands still is not the policy's doing. */
static vgpu_nsec cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

/* A step takes a microsecond. Three in ten seconds that take milliseconds cost a plug-in its place.
 */
static void judge_decision(struct engine *e, vgpu_nsec took)
{
	vgpu_nsec now;

	if (took < SLOW_DECISION)
		return;
	now = clock_now();
	e->n_slow = now - e->slow_since > SLOW_SPAN ? 1 : e->n_slow + 1;
	if (e->n_slow == 1)
		e->slow_since = now;
	if (e->n_slow < SLOW_LIMIT)
		return;
	e->n_slow = 0;
	sink(e, &(struct vgpu_event){.type = VGPU_EV_CONDEMN, .code = VGPU_FAULT_SLOW});
}

/* One event through the core, and what follows from it. */
static int step(struct engine *e, struct vgpu_event *event)
{
	vgpu_nsec computed;
	uint32_t i;
	int r, failed = 0;

	event->now = clock_now();
	measure(e, event);
	computed = e->is_plugin ? cpu_time() : 0;
	r = recorder_step(e->recorder, e->core, event, &e->out);
	histogram_add(&e->decisions, clock_now() - event->now);
	if (e->is_plugin)
		judge_decision(e, cpu_time() - computed);
	e->steps++;
	for (i = 0; i < e->out.n_actions; i++)
		if (failed == 0 || e->out.actions[i].type == VGPU_AC_RETIRE)
			failed = carry_out(e, &e->out.actions[i]) < 0 ? -EIO : failed;
	for (i = 0; i < e->out.n_records; i++) {
		if (e->out.records[i].type == VGPU_REC_PARK)
			e->idle_acked = 0;
		if (!spsc_push(&e->records, &e->out.records[i]))
			e->records_lost++;
	}
	if (failed < 0)
		lose(e, -ENODEV);
	return r;
}

static void drain_local(struct engine *e)
{
	while (e->driver && e->local_head != e->local_tail) {
		struct vgpu_event event = e->local[e->local_head++ % LOCAL_EVENTS];

		step(e, &event);
	}
}

/* Zeroed memory for a policy; NULL: both slots are in use, or it wants more. */
static void *take_slot(struct engine *e, const struct vgpu_policy_ops *policy)
{
	size_t size = policy->memory(e->config.core.max_vfs);
	uint32_t slot = e->slot_used[0] ? 1 : 0;

	if (size > RECORD_SLOT_SIZE || e->slot_used[slot])
		return NULL;
	e->slot_used[slot] = true;
	return memset(recorder_slot_memory(e->recorder, slot), 0, size);
}

/* Puts a core in place, and everything that is configured into it. */
static int build_core(struct engine *e)
{
	const struct vgpu_policy_ops *fallback = vgpu_fallback_policy;
	uint32_t n = e->config.core.max_vfs, i;
	struct vgpu_event event;
	int r;

	if (e->policy->memory(n) > RECORD_SLOT_SIZE)
		return -E2BIG;
	memset(recorder_core_memory(e->recorder), 0, vgpu_core_size(n));
	memset(recorder_fallback_memory(e->recorder), 0, fallback->memory(n));
	e->slot_used[0] = e->slot_used[1] = false;
	recorder_restart(e->recorder);
	e->core = vgpu_core_init(recorder_core_memory(e->recorder), &e->config.core, fallback,
				 recorder_fallback_memory(e->recorder), clock_now());
	e->vram.core = e->core;
	event = (struct vgpu_event){.type = VGPU_EV_POLICY,
				    .policy = e->policy,
				    .memory = take_slot(e, e->policy),
				    .params = e->params,
				    .vf_params = e->vf_params[0]};
	r = step(e, &event);
	for (i = 0; i < n && r == 0 && e->driver; i++) {
		event = (struct vgpu_event){.type = VGPU_EV_ADD,
					    .vf = i,
					    .code = e->found.contexts[i],
					    .value = e->found.driver_up[i],
					    .params = e->vf_params[i]};
		r = step(e, &event);
		event = (struct vgpu_event){.type = VGPU_EV_AWAY, .vf = i, .code = 1};
		if (r == 0 && e->driver && !vram_is_here(&e->vram, i))
			r = step(e, &event);
	}
	event = (struct vgpu_event){.type = VGPU_EV_START};
	if (r == 0 && e->driver)
		step(e, &event);
	return r;
}

static int open_device(struct engine *e, struct vgpu_error *err)
{
	struct epoll_event want = {.events = EPOLLIN};
	int r;

	e->device_speaks = true;
	r = e->ops->open(&e->driver, &e->config.driver, &e->caps, &e->found, sink, e, err);
	if (r < 0) {
		e->driver = NULL;
		return r;
	}
	if (!(e->caps.reset_levels & (1u << VGPU_RESET_ENGINE | 1u << VGPU_RESET_VF))) {
		e->ops->close(e->driver, false);
		e->driver = NULL;
		return vgpu_error_set(
			err, -ENOTSUP,
			"the GPU cannot reset a single VF: one that hangs could not be "
			"stopped");
	}
	e->driver_fd = e->ops->fd(e->driver);
	want.data.fd = e->driver_fd;
	e->config.core.reset_levels = e->caps.reset_levels;
	vram_open(&e->vram, e->ops, e->driver, &e->caps, &e->found, &e->config.driver);
	if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->driver_fd, &want) < 0)
		return vgpu_error_set(err, -errno, "epoll: %s", strerror(errno));
	atomic_store(&e->trouble, NULL);
	r = build_core(e);
	if (r < 0)
		return vgpu_error_set(err, r, "policy %s: %s", e->policy->name,
				      e->out.why ? e->out.why : strerror(-r));
	return 0;
}

static void fill_snapshot(struct engine *e, struct engine_snapshot *s)
{
	const char *warning = vgpu_core_warning(e->core);
	struct vgpu_memory local = vgpu_memory_local(&e->vram.table);
	uint32_t i;

	*s = (struct engine_snapshot){
		.now = clock_now(),
		.lost = !e->driver,
		.caps = e->caps,
		.found = e->found,
		.n_extents = e->vram.table.n,
		.memory = e->vram.counters,
		.epoch = vgpu_residency_epoch(&e->vram.residency),
		.waited = e->vram.residency.wait_max,
		.n_vfs = e->config.core.max_vfs,
		.records_lost = e->records_lost,
		.steps = e->steps,
		.realtime = e->realtime,
	};
	if (warning)
		strncpy(s->warning, warning, sizeof(s->warning) - 1);
	if (s->lost)
		memcpy(s->lost_why, e->lost_why.text, sizeof(s->lost_why) - 1);
	memcpy(s->extents, e->vram.extents, sizeof(s->extents));
	s->found.partition = e->vram.partition;
	s->found.partition.free = vgpu_memory_in(&local, VGPU_EXTENT_FREE);
	s->lateness = e->lateness;
	s->switches = e->switches;
	s->preemption = e->preemption;
	s->decisions = e->decisions;
	vgpu_core_view(e->core, &s->core);
	memcpy(s->params, e->params, sizeof(s->params));
	memcpy(s->vf_params, e->vf_params, sizeof(s->vf_params));
	for (i = 0; i < s->n_vfs; i++) {
		vgpu_core_vf_view(e->core, i, &s->vfs[i]);
		s->pinned |= (uint32_t)vram_is_pinned(&e->vram, i) << i;
	}
}

/* What has been changed is remembered, for the day that the device has to be opened again. */
static void remember(struct engine *e, const struct vgpu_event *event)
{
	switch (event->type) {
	case VGPU_EV_POLICY:
		e->policy = event->policy;
		e->is_plugin = !vgpu_builtin_policy(e->policy->name);
		memcpy(e->params, event->params, sizeof(e->params));
		memcpy(e->vf_params, event->vf_params,
		       e->config.core.max_vfs * sizeof(e->vf_params[0]));
		break;
	case VGPU_EV_SET_POLICY:
		memcpy(e->params, event->params, sizeof(e->params));
		break;
	case VGPU_EV_SET_VF:
		memcpy(e->vf_params[event->vf], event->params, sizeof(e->vf_params[0]));
		break;
	default:
		break;
	}
}

static bool reply(struct engine *e, struct engine_request *request)
{
	/* The sender has room for all that it has sent. */
	spsc_push(&e->replies, &request);
	e->told = true;
	return true;
}

/* A change of partitions has come to its end. */
static void on_changed(void *data, struct engine_request *request)
{
	const struct vram_request *want = &request->memory;
	struct engine *e = data;

	/* For the day that the device has to be set up anew. */
	if (request->result == 0 && want->what == VRAM_SET)
		e->config.driver.sizes[want->vf] = want->size ? want->size : VGPU_SIZE_NONE;
	if (request->snapshot)
		fill_snapshot(e, request->snapshot);
	reply(e, request);
}

/* There is no memory for it: until a change under way is over, or ever. */
static bool refuse_policy(struct engine *e, struct engine_request *request)
{
	if (request->event.policy->memory(e->config.core.max_vfs) <= RECORD_SLOT_SIZE)
		return false;
	request->result = -E2BIG;
	snprintf(request->why, sizeof(request->why), "the policy wants more than %u KiB of memory",
		 RECORD_SLOT_SIZE >> 10);
	return reply(e, request);
}

/* A guarantee pins its VF to the GPU, where it must have room beside all that are pinned: else the
 * VF is as it was. */
static void check_pins(struct engine *e, struct engine_request *request)
{
	const struct vgpu_event *asked = &request->event;
	uint32_t vf = asked->vf;
	struct vgpu_event back = {.type = VGPU_EV_SET_VF, .vf = vf, .params = e->vf_params[vf]};

	if (asked->type != VGPU_EV_SET_VF || !vram_is_pinned(&e->vram, vf) ||
	    e->vram.partition.vfs[vf].size <= vram_most(&e->vram, vf) || step(e, &back) < 0)
		return;
	request->result = -ENOSPC;
	snprintf(request->why, sizeof(request->why),
		 "a guarantee pins VF %u to the GPU's memory, which has no room for all that are "
		 "pinned and the largest of the others",
		 vf);
}

/* False: it cannot be done yet. */
static bool answer(struct engine *e, struct engine_request *request)
{
	struct vgpu_event *event = &request->event;

	request->result = 0;
	if (request->ask == ENGINE_SNAPSHOT) {
		fill_snapshot(e, request->snapshot);
	} else if (!e->driver) {
		request->result = -ENODEV;
		snprintf(request->why, sizeof(request->why), "%.150s", e->lost_why.text);
	} else if (request->ask == ENGINE_MEMORY) {
		vram_begin(&e->vram, request, clock_now());
		return true;
	} else {
		if (event->type == VGPU_EV_POLICY)
			event->memory = take_slot(e, event->policy);
		if (event->type == VGPU_EV_POLICY && !event->memory)
			return refuse_policy(e, request);
		request->result = step(e, event);
		if (request->result < 0 && event->type == VGPU_EV_POLICY)
			e->slot_used[recorder_slot_of(e->recorder, event->memory)] = false;
		if (request->result == -EBUSY)
			return false;
		if (request->result == 0)
			check_pins(e, request);
		if (request->result == 0)
			remember(e, event);
		else if (e->out.why)
			snprintf(request->why, sizeof(request->why), "%s", e->out.why);
	}
	return reply(e, request);
}

static void serve(struct engine *e)
{
	struct engine_request *request;

	while (e->held || spsc_pop(&e->requests, &request)) {
		if (e->held)
			request = e->held;
		e->held = NULL;
		if (!answer(e, request)) {
			/* A change of policy is under way; it ends with the next switch. */
			e->held = request;
			break;
		}
		drain_local(e);
	}
	if (e->told)
		notify(e->tell);
	e->told = false;
}

static void arm(struct engine *e, vgpu_nsec at)
{
	struct itimerspec t = {.it_value = {0, 0}};

	if (at == e->timer_at)
		return;
	e->timer_at = at;
	if (at != VGPU_NEVER) /* an instant of 0 would switch it off */
		t.it_value =
			(struct timespec){(time_t)(at / VGPU_SEC), (long)(at % VGPU_SEC) + !at};
	timerfd_settime(e->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static vgpu_nsec next_deadline(const struct engine *e)
{
	vgpu_nsec t, other;

	if (!e->driver)
		return e->reopen_at;
	t = vgpu_core_deadline(e->core);
	other = e->ops->deadline(e->driver);
	t = other < t ? other : t;
	other = vram_deadline(&e->vram);
	return other < t ? other : t;
}

static void wait_for_something(struct engine *e)
{
	struct epoll_event events[4];
	uint64_t count;
	int i, n;

	arm(e, next_deadline(e));
	n = epoll_wait(e->epoll, events, 4, -1);
	for (i = 0; i < n; i++) {
		e->device_speaks |= events[i].data.fd == e->driver_fd;
		if (events[i].data.fd == e->timer || events[i].data.fd == e->wake) {
			if (read(events[i].data.fd, &count, sizeof(count)) < 0)
				continue;
			if (events[i].data.fd == e->timer)
				e->timer_at = VGPU_NEVER;
		}
	}
}

static void run_once(struct engine *e)
{
	struct vgpu_event timer = {.type = VGPU_EV_TIMER};
	struct vgpu_error err;
	int r = 0;

	if (!e->driver) {
		if ((atomic_exchange(&e->look, false) || clock_now() >= e->reopen_at) &&
		    open_device(e, &err) < 0) {
			e->lost_why = err;
			e->reopen_at = clock_now() + REOPEN_AFTER;
		}
		return;
	}
	/* What is planned comes first. */
	if (clock_now() >= vgpu_core_deadline(e->core))
		step(e, &timer);
	drain_local(e);
	if (!e->driver)
		return;
	if (e->device_speaks || clock_now() >= e->ops->deadline(e->driver)) {
		e->device_speaks = false;
		r = e->ops->dispatch(e->driver, clock_now());
		if (r == 0)
			drain_local(e);
	}
	if (r == 0 && e->driver)
		r = vram_run(&e->vram, clock_now());
	if (r < 0)
		lose(e, r);
	drain_local(e);
}

/* Whether the GPU is in a state to be left alone in: somebody runs, or nobody wants to. */
static bool at_rest(struct engine *e)
{
	struct vgpu_core_view view;

	if (!e->driver)
		return true;
	vgpu_core_view(e->core, &view);
	return view.phase == VGPU_PHASE_RUN || view.phase == VGPU_PHASE_PARKED;
}

static void *engine_thread(void *arg)
{
	struct engine *e = arg;
	struct vgpu_event stop = {.type = VGPU_EV_STOP};
	vgpu_nsec until;

	while (!atomic_load(&e->quit)) {
		atomic_fetch_add(&e->rounds, 1);
		wait_for_something(e);
		run_once(e);
		serve(e);
	}
	if (e->driver)
		step(e, &stop);
	until = clock_now() + STOP_WITHIN;
	while (!at_rest(e) && clock_now() < until) {
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
		return vgpu_error_set(err, -r, "engine thread: %s", strerror(r));
	pthread_setname_np(e->thread, "vgpud-engine");
	return 0;
}

static void engine_free(struct engine *e)
{
	int fds[] = {e->epoll, e->timer, e->wake, e->tell};
	unsigned i;

	if (e->driver)
		e->ops->close(e->driver, false);
	for (i = 0; i < 4; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	spsc_finish(&e->requests);
	spsc_finish(&e->replies);
	spsc_finish(&e->records);
	recorder_free(e->recorder);
	free(e);
}

int engine_start(struct engine **out, const struct engine_config *config, struct vgpu_error *err)
{
	struct epoll_event want = {.events = EPOLLIN};
	struct engine *e = calloc(1, sizeof(*e));
	int r = 0;

	if (!e)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	e->config = *config;
	e->timer_at = VGPU_NEVER;
	e->ops = &vgpu_gpuiov_driver;
	e->vram.sink = sink;
	e->vram.reply = on_changed;
	e->vram.data = e;
	e->vram.residency.epoch = config->epoch;
	e->vram.swappable = config->swappable;
	e->policy = config->policy;
	e->is_plugin = !vgpu_builtin_policy(e->policy->name);
	memcpy(e->params, config->params, sizeof(e->params));
	memcpy(e->vf_params, config->vf_params, sizeof(e->vf_params));
	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	e->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	e->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e->tell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e->driver_fd = -1;
	want.data.fd = e->timer;
	if (e->epoll < 0 || e->timer < 0 || e->wake < 0 || e->tell < 0 ||
	    epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->timer, &want) < 0)
		r = -errno;
	want.data.fd = e->wake;
	if (r == 0 && epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->wake, &want) < 0)
		r = -errno;
	if (r == 0 && (!spsc_init(&e->requests, REQUESTS, sizeof(void *)) ||
		       !spsc_init(&e->replies, 2 * REQUESTS, sizeof(void *)) ||
		       !spsc_init(&e->records, RECORDS, sizeof(struct vgpu_record))))
		r = -ENOMEM;
	if (r < 0)
		vgpu_error_set(err, r, "%s", strerror(-r));
	e->recorder = r ? NULL : recorder_new(config->core.max_vfs, err);
	r = r ? r : e->recorder ? 0 : -ENOMEM;
	r = r ? r : open_device(e, err);
	r = r ? r : start_thread(e, err);
	if (r < 0) {
		engine_free(e);
		return r;
	}
	*out = e;
	return 0;
}

void engine_stop(struct engine *e)
{
	atomic_store(&e->quit, true);
	notify(e->wake);
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
	notify(e->wake);
	return alive;
}

void engine_look(struct engine *e)
{
	atomic_store(&e->look, true);
	notify(e->wake);
}

const char *engine_trouble(const struct engine *e)
{
	return atomic_load(&e->trouble);
}

bool engine_send(struct engine *e, struct engine_request *request)
{
	if (!spsc_push(&e->requests, &request))
		return false;
	notify(e->wake);
	return true;
}

struct engine_request *engine_receive(struct engine *e)
{
	struct engine_request *request;

	return spsc_pop(&e->replies, &request) ? request : NULL;
}

bool engine_record(struct engine *e, struct vgpu_record *out)
{
	return spsc_pop(&e->records, out);
}

int engine_fd(const struct engine *e)
{
	return e->tell;
}

int engine_recording(struct engine *e, struct recording *out)
{
	return recorder_copy(e->recorder, out);
}
