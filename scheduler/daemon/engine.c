/* SPDX-License-Identifier: MIT */
#include "engine.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "builtin.h"
#include "engine_private.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

#define FIFO_ENGINE 50
#define STACK_SIZE (256u << 10)
#define RECORDS 16384u
/* Time between attempts to find a lost device. */
#define REOPEN_AFTER (500 * VGPU_MSEC)
/* SLOW_LIMIT decisions that take SLOW_DECISION or longer within SLOW_SPAN evict a plug-in. */
#define SLOW_DECISION (2 * VGPU_MSEC)
#define SLOW_LIMIT 3u
#define SLOW_SPAN (10 * VGPU_SEC)
/* How long engine_stop waits for the world switch in progress. */
#define STOP_WITHIN (2 * VGPU_SEC)
/* timer_at when the timer has fired: an instant in the past. The timer stays readable until it is
 * armed again. */
#define FIRED 0

static const char NOT_SET_UP[] =
	"the device is back, but cannot be set up as before ('vgpuctl gpu show' says why)";

/* Queues a driver's event until the current step is done: the core is not entered twice. */
static void sink(void *data, const struct vgpu_event *event)
{
	struct engine *e = data;

	/* LOCAL_EVENTS is more than 31 VFs can cause between two drains: each causes a few. */
	assert(e->local_tail - e->local_head < LOCAL_EVENTS);
	e->local[e->local_tail++ % LOCAL_EVENTS] = *event;
}

/* Why a device can no longer be used, by the errors of vfio_check and the driver. */
static const char *trouble(int r)
{
	static const struct {
		int error;
		const char *text;
	} texts[] = {
		{-ESTALE, "the kernel took the device back"},
		{-EREMOTEIO, "PCI Express reported an uncorrectable error"},
		{-ECONNRESET, "the device was reset, but not by vgpud"},
	};
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].error == r)
			return texts[i].text;
	return "the device stopped answering";
}

static void let_go(struct engine *e, bool lost)
{
	gpu_memory_close(&e->memory);
	e->ops->device->close(e->driver, lost);
	e->driver = NULL;
	e->driver_fd = -1;
	e->local_head = e->local_tail;
	e->reopen_at = vgpu_now() + REOPEN_AFTER;
}

static void lose(struct engine *e, int r)
{
	vgpu_error_set(&e->lost_why, r, "%s", trouble(r));
	atomic_store(&e->trouble, trouble(r));
	/* The next core starts with the values that this one has now. */
	if (e->is_set_up)
		engine_read_values(e, true, &e->config.begin);
	let_go(e, true);
}

void engine_read_values(const struct engine *e, bool to_come, struct policy_values *out)
{
	struct vgpu_core_view core;
	struct vgpu_vf_view vf;
	bool next;
	uint32_t i;

	vgpu_core_view(e->core, &core);
	next = to_come && core.next_policy;
	out->policy = next ? core.next_policy : core.policy;
	memcpy(out->params, next ? core.next_params : core.params, sizeof(out->params));
	for (i = 0; i < e->config.core.max_vfs; i++) {
		vgpu_core_vf_view(e->core, i, &vf);
		if (vf.admitted)
			memcpy(out->vf_params[i], next ? vf.next_params : vf.params,
			       sizeof(out->vf_params[i]));
		else
			vgpu_param_defaults(out->policy->vf_params, out->vf_params[i]);
	}
}

void engine_publish(struct engine *e)
{
	struct engine_policy *p = latest_next(&e->policy);
	struct vgpu_core_view view;

	if (!e->policy_changed || !e->is_set_up)
		return;
	vgpu_core_view(e->core, &view);
	p->change_waits = view.next_policy != NULL;
	engine_read_values(e, false, &p->in_force);
	engine_read_values(e, true, &p->to_come);
	e->is_plugin = !vgpu_builtin_policy(p->in_force.policy->name);
	e->policy_changed = false;
	latest_publish(&e->policy);
}

static int carry_out(struct engine *e, const struct vgpu_action *a)
{
	vgpu_nsec now;
	uint32_t slot;

	switch (a->type) {
	case VGPU_AC_COMMAND:
		now = vgpu_now();
		if (a->code == VGPU_CMD_IDLE) {
			e->idle_issued = now;
			if (a->planned && now >= a->planned)
				histogram_add(&e->lateness, now - a->planned);
		}
		return e->ops->switched->command(e->driver, a->vf, (enum vgpu_command)a->code, now);
	case VGPU_AC_RESET:
		return e->ops->device->reset(e->driver, a->vf, (enum vgpu_reset_level)a->code,
					     vgpu_now());
	case VGPU_AC_ACCESS:
		return e->ops->switched->gates(e->driver, a->vf, (enum vgpu_access)a->code);
	case VGPU_AC_NOTICE:
		return e->ops->switched->notice(e->driver, a->vf, (enum vgpu_notice)a->code);
	case VGPU_AC_SCRUB:
		gpu_memory_scrub(&e->memory, a->vf);
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

/* CPU time of this thread: time in which the host did not run it is not the policy's fault. */
static vgpu_nsec cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

/* Evicts a plug-in whose decisions are too slow: a step normally takes about 1 us. */
static void judge_decision(struct engine *e, vgpu_nsec took)
{
	vgpu_nsec now;

	if (took < SLOW_DECISION)
		return;
	now = vgpu_now();
	e->n_slow = now - e->slow_since > SLOW_SPAN ? 1 : e->n_slow + 1;
	if (e->n_slow == 1)
		e->slow_since = now;
	if (e->n_slow < SLOW_LIMIT)
		return;
	e->n_slow = 0;
	sink(e, &(struct vgpu_event){.type = VGPU_EV_CONDEMN, .code = VGPU_FAULT_SLOW});
}

/* Whether a step may have changed the published policy or values. */
static bool concerns_policy(const struct engine *e, const struct vgpu_event *event)
{
	uint32_t i;

	for (i = 0; i < e->out.n_records; i++)
		if (e->out.records[i].type == VGPU_REC_POLICY ||
		    e->out.records[i].type == VGPU_REC_EVICTED)
			return true;
	return event->type == VGPU_EV_POLICY || event->type == VGPU_EV_SET_POLICY ||
	       event->type == VGPU_EV_SET_VF;
}

int engine_step(struct engine *e, struct vgpu_event *event)
{
	vgpu_nsec computed;
	uint32_t i;
	int r, failed = 0;

	event->now = vgpu_now();
	measure(e, event);
	computed = e->is_plugin ? cpu_time() : 0;
	r = recorder_step(e->recorder, e->core, event, &e->out);
	histogram_add(&e->decisions, vgpu_now() - event->now);
	if (e->is_plugin)
		judge_decision(e, cpu_time() - computed);
	e->steps++;
	e->policy_changed |= concerns_policy(e, event);
	gpu_memory_stepped(&e->memory);
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

void engine_drain(struct engine *e)
{
	while (e->driver && e->local_head != e->local_tail) {
		struct vgpu_event event = e->local[e->local_head++ % LOCAL_EVENTS];

		engine_step(e, &event);
	}
}

void *engine_take_slot(struct engine *e, const struct vgpu_policy_ops *policy)
{
	size_t size = policy->memory(e->config.core.max_vfs);
	uint32_t slot = e->slot_used[0] ? 1 : 0;

	if (size > RECORD_SLOT_SIZE || e->slot_used[slot])
		return NULL;
	e->slot_used[slot] = true;
	return memset(recorder_slot_memory(e->recorder, slot), 0, size);
}

/* Makes a new core, and steps it with the policy, the VFs and their parameters. */
static int build_core(struct engine *e)
{
	const struct vgpu_policy_ops *fallback = vgpu_fallback_policy;
	const struct policy_values *begin = &e->config.begin;
	uint32_t n = e->config.core.max_vfs, i;
	struct vgpu_event event;
	int r;

	e->is_set_up = false;
	if (begin->policy->memory(n) > RECORD_SLOT_SIZE)
		return -E2BIG;
	memset(recorder_core_memory(e->recorder), 0, vgpu_core_size(n));
	memset(recorder_fallback_memory(e->recorder), 0, fallback->memory(n));
	e->slot_used[0] = e->slot_used[1] = false;
	recorder_restart(e->recorder);
	e->core = vgpu_core_init(recorder_core_memory(e->recorder), &e->config.core, fallback,
				 recorder_fallback_memory(e->recorder), vgpu_now());
	e->memory.core = e->core;
	event = (struct vgpu_event){.type = VGPU_EV_POLICY,
				    .policy = begin->policy,
				    .memory = engine_take_slot(e, begin->policy),
				    .params = begin->params,
				    .vf_params = begin->vf_params[0]};
	r = engine_step(e, &event);
	for (i = 0; i < n && r == 0 && e->driver; i++) {
		event = (struct vgpu_event){.type = VGPU_EV_ADD,
					    .vf = i,
					    .code = e->found.contexts[i],
					    .value = e->found.driver_up[i],
					    .policy = begin->policy,
					    .params = begin->vf_params[i]};
		r = engine_step(e, &event);
		event = (struct vgpu_event){.type = VGPU_EV_AWAY, .vf = i, .code = 1};
		if (r == 0 && e->driver && !vgpu_memory_is_here(e->memory.state, i))
			r = engine_step(e, &event);
	}
	event = (struct vgpu_event){.type = VGPU_EV_START};
	if (r == 0 && e->driver)
		engine_step(e, &event);
	e->is_set_up = r == 0 && e->driver;
	return r;
}

static int open_device(struct engine *e, struct vgpu_error *err)
{
	struct epoll_event want = {.events = EPOLLIN};
	int r;

	e->device_speaks = true;
	r = e->ops->device->open(&e->driver, &e->config.driver, &e->caps, &e->found, sink, e, err);
	if (r < 0) {
		e->driver = NULL;
		if (atomic_load(&e->trouble) == NOT_SET_UP)
			atomic_store(&e->trouble, trouble(r));
		return r;
	}
	if (!(e->caps.reset_levels & (1u << VGPU_RESET_ENGINE | 1u << VGPU_RESET_VF))) {
		e->ops->device->close(e->driver, false);
		e->driver = NULL;
		return vgpu_error_set(err, -ENOTSUP,
				      "the GPU cannot reset a single VF, so that vgpud could not "
				      "stop one that hangs");
	}
	e->driver_fd = e->ops->device->fd(e->driver);
	want.data.fd = e->driver_fd;
	e->config.core.reset_levels = e->caps.reset_levels;
	gpu_memory_open(&e->memory, e->ops->memory, e->driver, &e->caps, &e->found,
			&e->config.driver);
	if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->driver_fd, &want) < 0) {
		r = vgpu_error_set(err, -errno, "epoll: %s", strerror(errno));
	} else {
		r = build_core(e);
		if (r < 0)
			vgpu_error_set(err, r, "policy %s: %s", e->config.begin.policy->name,
				       e->out.why ? e->out.why : strerror(-r));
	}
	if (r == 0 && e->driver) /* build_core may have lost it again */
		atomic_store(&e->trouble, NULL);
	if (r < 0 && e->driver) {
		atomic_store(&e->trouble, NOT_SET_UP);
		let_go(e, false);
	}
	return r;
}

/* Tries to open a lost GPU. A GPU that is back but cannot be set up stays lost. */
static void open_again(struct engine *e)
{
	struct vgpu_error err;

	if (open_device(e, &err) == 0)
		return;
	e->lost_why = err;
	e->reopen_at = vgpu_now() + REOPEN_AFTER;
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
	t = vgpu_core_deadline(e->core);
	other = e->ops->device->deadline(e->driver);
	t = other < t ? other : t;
	other = gpu_memory_deadline(&e->memory);
	return other < t ? other : t;
}

static void wait_for_something(struct engine *e)
{
	struct epoll_event events[4];
	/* Sleep in spite of a request only if it was put off for a near deadline. */
	bool asked = !spsc_is_empty(&e->requests) && !e->put_off && !atomic_load(&e->quit);
	int i, n;

	arm(e, next_deadline(e));
	n = epoll_wait(e->epoll, events, 4, asked ? 0 : -1);
	for (i = 0; i < n; i++) {
		e->device_speaks |= events[i].data.fd == e->driver_fd;
		if (events[i].data.fd == e->timer)
			e->timer_at = FIRED;
		if (events[i].data.fd == e->wake)
			vgpu_eventfd_drain(e->wake);
	}
}

/* Dispatches the device's events, and steps the core with them. Negative: the device is gone. */
static int look_at_device(struct engine *e)
{
	int r = e->ops->device->dispatch(e->driver, vgpu_now());

	e->device_speaks = false;
	if (r == 0)
		engine_drain(e);
	return r;
}

/*
 * Steps the core when its deadline has come. If this thread did not run for longer than the device
 * or a guest has time to answer (vgpud was stopped, or the host was busy), the answer may wait
 * beside the expired time-out: so events of the device come before the time-out.
 */
static int keep_time(struct engine *e)
{
	struct vgpu_event timer = {.type = VGPU_EV_TIMER};
	vgpu_nsec now = vgpu_now();
	int r = 0;

	if (now < vgpu_core_deadline(e->core))
		return 0;
	if (vgpu_core_is_overdue(e->core, now))
		r = look_at_device(e);
	if (r == 0 && e->driver && vgpu_now() >= vgpu_core_deadline(e->core))
		engine_step(e, &timer);
	engine_drain(e);
	return r;
}

static void run_once(struct engine *e)
{
	int r;

	if (!e->driver) {
		if (atomic_exchange(&e->look, false) || vgpu_now() >= e->reopen_at)
			open_again(e);
		return;
	}
	r = keep_time(e);
	if (!e->driver)
		return;
	if (r == 0 && (e->device_speaks || vgpu_now() >= e->ops->device->deadline(e->driver)))
		r = look_at_device(e);
	if (r == 0 && e->driver)
		r = gpu_memory_run(&e->memory, vgpu_now());
	if (r < 0)
		lose(e, r);
	engine_drain(e);
}

/* Whether the GPU can be left as it is: a VF runs, or none has work. */
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
		engine_serve(e);
		engine_publish(e);
	}
	if (e->driver)
		engine_step(e, &stop);
	until = vgpu_now() + STOP_WITHIN;
	while (!at_rest(e) && vgpu_now() < until) {
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
	spsc_finish(&e->records);
	latest_finish(&e->policy);
	recorder_free(e->recorder);
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
	    !spsc_init(&e->records, RECORDS, sizeof(struct vgpu_record)))
		return -ENOMEM;
	return 0;
}

/* What an engine needs before its thread can run. What there is by then is engine_free's to close.
 */
static int set_up(struct engine *e, struct vgpu_error *err)
{
	int r = open_descriptors(e);

	if (r == 0)
		r = make_queues(e);
	if (r < 0)
		return vgpu_error_set(err, r, "%s", strerror(-r));
	e->recorder = recorder_new(e->config.core.max_vfs, err);
	if (!e->recorder)
		return -ENOMEM;
	e->memory.recorder = e->recorder;
	e->memory.memory = recorder_state_memory(e->recorder);
	r = open_device(e, err);
	if (r < 0)
		return r;
	engine_publish(e);
	return start_thread(e, err);
}

int engine_start(struct engine **out, const struct engine_config *config, struct vgpu_error *err)
{
	const struct vgpu_driver_ops *ops =
		config->ops ? config->ops : vgpu_driver_for(config->driver.device, err);
	struct engine *e;
	int r;

	if (!ops)
		return -ENODEV;
	e = calloc(1, sizeof(*e));
	if (!e)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	e->config = *config;
	e->timer_at = VGPU_NEVER;
	e->ops = ops;
	e->memory.sink = sink;
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
	return 0;
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

void engine_look(struct engine *e)
{
	atomic_store(&e->look, true);
	vgpu_eventfd_signal(e->wake);
}

const char *engine_trouble(const struct engine *e)
{
	return atomic_load(&e->trouble);
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
