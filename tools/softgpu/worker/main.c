/* SPDX-License-Identifier: MIT */
/*
 * softgpu-worker: executes the packets of one VF on a device. softgpu starts it. This thread
 * receives softgpu's messages and stops the device. It calls nothing that waits for the device, so
 * that it answers even while the device hangs.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "confine.h"
#include "protocol.h"
#include "ring.h"
#include "swap.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"
#include "vgpu/options.h"

/* How long clearing the VF's memory may take at the end. After that a signal ends the process, and
 * its memory is cleared without it. */
#define CLOSE_SECONDS 5

/* How long after a stop for which the driver was too busy the next one is tried. */
#define AGAIN VGPU_MSEC

/* How long work that was stopped hard may run beside the VF that has the slice, so that this VF can
 * be swapped; and how long it is stopped again for, before the process ends. */
#define DRAIN_MOST (50 * VGPU_MSEC)
#define STOP_AGAIN_MOST VGPU_SEC
/* Such work has at most 1 % of the GPU in this way, because a tenant could cause this request again
 * and again. */
#define DRAIN_PART 100

/* How long a run looks for the next packet before it ends. A program that has waited for its last
 * packet makes the next one at once, and a run that ends and begins anew wakes three more threads
 * than a packet that is found. For about as long as that costs a VM (60 to 130 us): whatever its
 * program does next, no more is lost than twice the least (Karlin et al., Empirical Studies of
 * Competitive Spinning for a Shared-Memory Multiprocessor, SOSP 1991). A program on a socket would
 * have enough with less. */
#define LINGER (100 * VGPU_USEC)

struct worker {
	const struct device_ops *ops;
	struct device *device;
	struct worker_shared *shared;
	struct worker_turn *turn;
	struct ring *ring;
	struct swap swap;
	vgpu_nsec drain_at; /* when work that was stopped hard may run for a swap again */
	int event_fd;
	uint32_t stops;	   /* enum worker_stop: methods allowed in this run */
	bool open;	   /* ENDED has not been sent for the last RUN */
	bool held;	   /* the device is stopped, or has the shortest time slice */
	vgpu_nsec hard_at; /* when to stop the device; VGPU_NEVER: no stop is due */
};

static void send_message(const struct worker_message *m)
{
	/* If softgpu is gone, serve() sees the end of the socket. */
	vgpu_socket_send_all(WORKER_SOCKET_FD, m, sizeof(*m));
}

static void wake_softgpu(void)
{
	vgpu_eventfd_signal(WORKER_WAKE_FD);
}

static void send_ended(struct worker *w, const struct worker_message *m)
{
	w->open = false;
	w->hard_at = VGPU_NEVER;
	atomic_store(&w->turn->runs, 0);
	send_message(m);
	if (m->ended.end == WORKER_LOST)
		_exit(1);
}

/* The ring's thread has signalled that the run is over. */
static void on_run_end(struct worker *w)
{
	struct worker_message m;

	if (w->open && ring_end(w->ring, &m))
		send_ended(w, &m);
}

/* The work in flight did not end within the time that ring_stop() gave it. */
static void stop_hard(struct worker *w)
{
	static const struct {
		uint32_t method;
		enum softgpu_preempt level;
	} methods[] = {
		{WORKER_STOP_CHANNELS, SOFTGPU_PREEMPT_HARD},
		{WORKER_STOP_GROUPS, SOFTGPU_PREEMPT_HARD},
		{WORKER_STOP_SOFT, SOFTGPU_PREEMPT_SOFT},
	};
	enum softgpu_preempt level = SOFTGPU_PREEMPT_HARD;
	struct worker_message m;
	bool busy = false;
	size_t i;
	int r;

	for (i = 0; i < sizeof(methods) / sizeof(methods[0]) && !w->held; i++) {
		if (!(w->stops & methods[i].method))
			continue;
		r = w->ops->stop(w->device, methods[i].method);
		if (r == -EIO)
			_exit(1); /* the VF must not run on with what the stop has left */
		w->held = r == 0;
		level = methods[i].level;
		busy |= r == -EBUSY;
	}
	/* Another process may hold the driver's locks for long: it is tried again. softgpu kills
	 * this process if the work does not end by itself either. */
	w->hard_at = busy && !w->held ? vgpu_now() + AGAIN : VGPU_NEVER;
	if (!w->held)
		return;
	ring_freeze(w->ring, level, &m);
	if (w->open)
		send_ended(w, &m);
}

/* Waits until nothing of the VF is on the device. Returns false if UNTIL passes first. */
static bool await_still(struct worker *w, vgpu_nsec until)
{
	struct pollfd p = {w->event_fd, POLLIN, 0};
	vgpu_nsec now;

	while (!ring_is_still(w->ring)) {
		now = vgpu_now();
		if (now >= until)
			return false;
		poll(&p, 1, (int)((until - now) / VGPU_MSEC) + 1);
		vgpu_eventfd_drain(w->event_fd);
	}
	return true;
}

/* Brings the VF to the end of a GPU kernel: work that was stopped hard continues for a short time,
 * because memory must not be taken from it. Returns whether it has ended; if not, it is stopped
 * again. */
static bool continue_to_end(struct worker *w)
{
	const struct timespec pause = {.tv_nsec = AGAIN};
	vgpu_nsec until;

	if (w->ops->resume(w->device) < 0)
		_exit(1);
	w->held = false;
	ring_drain(w->ring);
	if (await_still(w, vgpu_now() + DRAIN_MOST))
		return true;
	until = vgpu_now() + STOP_AGAIN_MOST;
	for (stop_hard(w); !w->held; stop_hard(w)) {
		/* It must not run on in the slices of others. */
		if (vgpu_now() >= until)
			_exit(1);
		nanosleep(&pause, NULL);
	}
	w->hard_at = VGPU_NEVER;
	return false;
}

/* Sees to it that nothing of the VF is on the device. Returns 0; -EBUSY: the VF runs, or its GPU
 * kernel does not end, or has run for this too lately. */
static int drain(struct worker *w)
{
	vgpu_nsec began = vgpu_now();
	bool ended;

	if (w->open || (w->held && began < w->drain_at))
		return -EBUSY;
	if (!w->held)
		return 0;
	ended = continue_to_end(w);
	w->drain_at = vgpu_now() + (vgpu_now() - began) * DRAIN_PART;
	return ended ? 0 : -EBUSY;
}

static void on_memory(struct worker *w, struct worker_memory *m)
{
	int r = drain(w);

	m->result = r;
	if (r == 0)
		r = swap_serve(&w->swap, m);
	vgpu_socket_send_all(WORKER_MEMORY_FD, m, sizeof(*m));
	if (r == -EIO)
		_exit(1);
}

static void on_message(struct worker *w, const struct worker_message *m)
{
	switch (m->type) {
	case WORKER_RUN:
		atomic_store(&w->turn->runs, 1);
		/* softgpu runs a VF that has the GPU, and is not swapped out. */
		if (w->swap.away || !atomic_load(&w->turn->may_run))
			_exit(1);
		if (w->held && w->ops->resume(w->device) < 0)
			_exit(1);
		w->held = false;
		w->open = true;
		w->hard_at = VGPU_NEVER;
		w->stops = m->run.stops;
		ring_run(w->ring, m);
		break;
	case WORKER_STOP:
		if (!w->open)
			break; /* ENDED has been sent already */
		w->hard_at = vgpu_now() + ring_stop(w->ring);
		if (!(w->stops & WORKER_STOP_BLOCK))
			w->hard_at = vgpu_now();
		break;
	case WORKER_DMA_DONE:
		ring_dma_done(w->ring, m->dma.result < 0 ? m->dma.result : 0);
		break;
	default:
		break;
	}
}

/* Set by a signal, not by a message: a process with the socket could keep messages from
 * arriving. */
static volatile sig_atomic_t quit;

static void on_quit(int)
{
	quit = 1;
}

/* Blocks the signal in all threads; serve() unblocks it while it waits. */
static void catch_quit(void)
{
	const struct sigaction action = {.sa_handler = on_quit};
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &term, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* Returns when softgpu sends SIGTERM or is gone. */
static void serve(struct worker *w)
{
	struct pollfd fds[] = {{WORKER_SOCKET_FD, POLLIN, 0},
			       {w->event_fd, POLLIN, 0},
			       {WORKER_MEMORY_FD, POLLIN, 0}};
	struct worker_memory memory;
	struct worker_message m;
	struct timespec t;
	sigset_t none;
	ssize_t n;

	sigemptyset(&none);
	while (!quit) {
		vgpu_nsec at = vgpu_now(), left = w->hard_at > at ? w->hard_at - at : 0;

		t = (struct timespec){(time_t)(left / VGPU_SEC), (long)(left % VGPU_SEC)};
		if (ppoll(fds, 3, w->hard_at == VGPU_NEVER ? NULL : &t, &none) < 0) {
			if (errno != EINTR)
				return;
			continue;
		}
		if (fds[1].revents && vgpu_eventfd_drain(w->event_fd))
			on_run_end(w);
		if (fds[0].revents) {
			n = recv(WORKER_SOCKET_FD, &m, sizeof(m), MSG_DONTWAIT);
			if (n == 0)
				return;
			if (n == sizeof(m))
				on_message(w, &m);
		}
		if (fds[2].revents) {
			n = recv(WORKER_MEMORY_FD, &memory, sizeof(memory), MSG_DONTWAIT);
			if (n == 0)
				return;
			if (n == sizeof(memory))
				on_memory(w, &memory);
		}
		if (w->hard_at <= vgpu_now())
			stop_hard(w);
	}
}

static int refuse(struct worker *w, int code, const char *text)
{
	w->shared->code = code;
	snprintf(w->shared->text, sizeof(w->shared->text), "%s", text);
	atomic_store(&w->shared->state, WORKER_REFUSED);
	wake_softgpu();
	return 1;
}

/* Opens the device and gives up the privileges that only this needs. From then on the process has
 * at most MEMORY more bytes of its own; 0: any number. */
static int open_device(struct worker *w, const struct device_setup *setup, uint64_t memory,
		       uid_t uid, gid_t gid, struct vgpu_error *err)
{
	int r = w->ops->prepare(&w->device, setup, err);

	if (r < 0)
		return r;
	r = confine_user(uid, gid, w->ops->file, err);
	if (r < 0)
		return r;
	r = w->ops->open(w->device, setup, err);
	if (r == 0 && memory > 0)
		r = confine_memory(memory, err);
	if (r < 0)
		return r;
	return confine_calls(true, err);
}

static int run(struct worker *w, const struct device_setup *setup, uint64_t memory, uid_t uid,
	       gid_t gid)
{
	struct ring_setup ring = {
		.ops = w->ops,
		.shared = w->shared,
		.window = setup->window,
		.window_size = setup->window_size,
		.size = setup->size,
		.linger = LINGER,
		.event_fd = w->event_fd,
		.send = send_message,
		.wake = wake_softgpu,
	};
	struct vgpu_error err = {""};
	int r = open_device(w, setup, memory, uid, gid, &err);

	if (r < 0)
		return refuse(w, r, err.text);
	w->ops->about(w->device, &w->shared->about);
	ring.modules = w->shared->about.modules;
	ring.device = w->device;
	w->swap = (struct swap){.ops = w->ops,
				.device = w->device,
				.bytes = setup->size - setup->window_size};
	w->ring = ring_create(&ring);
	if (!w->ring) {
		w->ops->close(w->device);
		return refuse(w, -ENOMEM, "out of memory");
	}
	atomic_store(&w->shared->state, WORKER_READY);
	wake_softgpu();
	serve(w);
	/* Work that was stopped hard, or does not stop, must not run in another VF's slice: it ends
	 * with this process, and so does what is being compiled, which may take hours. The driver
	 * clears the memory, and so does the worker that gets it next. */
	if (w->held || !await_still(w, vgpu_now() + ring_stop(w->ring)) || ring_compiles(w->ring))
		_exit(0);
	alarm(CLOSE_SECONDS);
	ring_destroy(w->ring);
	w->ops->close(w->device);
	return 0;
}

/* Returns the device NAME; NULL: a build without CUDA has the CPU only. */
static const struct device_ops *device_called(const char *name)
{
#ifdef WORKER_HAS_CUDA
	if (strcmp(name, "cuda") == 0)
		return &device_cuda;
#endif
	return strcmp(name, "host") == 0 ? &device_host : NULL;
}

/* What softgpu passes. */
struct options {
	uint32_t gpu, vf, user, group;
	uint64_t size, limit, modules, memory;
	const struct device_ops *ops;
};

static int take_device(void *options, char *name, struct vgpu_error *err)
{
	struct options *o = options;

	o->ops = device_called(name);
	return o->ops ? 0 : vgpu_error_set(err, -EINVAL, "--device %s: this build has none", name);
}

#define ROW(name, kind, member, ...)                                                               \
	VGPU_OPTION(name, NULL, NULL, kind, offsetof(struct options, member), __VA_ARGS__)
static const struct vgpu_option rows[] = {
	ROW("gpu", WHOLE32, gpu),
	ROW("size", WHOLE, size),
	ROW("vf", WHOLE32, vf),
	ROW("limit", WHOLE, limit),
	ROW("modules", WHOLE, modules),
	ROW("memory", WHOLE, memory),
	ROW("user", WHOLE32, user),
	ROW("group", WHOLE32, group),
	ROW("device", TAKE, ops, .take = take_device),
	{.name = NULL},
};

static void usage(FILE *to)
{
	fputs("softgpu-worker computes for one VF of softgpu, on an NVIDIA GPU or on the CPU.\n"
	      "softgpu starts it; it cannot be used by itself.\n",
	      to);
}

int main(int argc, char **argv)
{
	struct options o = {0};
	struct rlimit none = {0, 0};
	struct worker w = {.hard_at = VGPU_NEVER};
	struct device_setup setup = {0};
	struct stat st;
	int r;

	r = vgpu_options_read("softgpu-worker", rows, usage, argc, argv, &o);
	if (r != 0)
		return r < 0 ? 2 : 0;
	w.ops = o.ops;
	if (!w.ops || fstat(WORKER_WINDOW_FD, &st) < 0 || fcntl(WORKER_LOG_FD, F_GETFD) < 0) {
		usage(stderr);
		return 2;
	}
	/* What this process was started with is softgpu's, which may read no more of the log while
	 * memory is cleared. */
	signal(SIGPIPE, SIG_IGN);
	if (dup2(WORKER_LOG_FD, STDIN_FILENO) < 0 || dup2(WORKER_LOG_FD, STDOUT_FILENO) < 0 ||
	    dup2(WORKER_LOG_FD, STDERR_FILENO) < 0)
		return 1;
	close(WORKER_LOG_FD);
	setup.gpu = o.gpu;
	setup.size = o.size;
	setup.vf = o.vf;
	setup.limit = o.limit;
	setup.modules = o.modules;
	prctl(PR_SET_TIMERSLACK, 1000);
	catch_quit();
	setrlimit(RLIMIT_CORE, &none);
	w.event_fd = vgpu_eventfd();
	w.shared = mmap(NULL, sizeof(*w.shared), PROT_READ | PROT_WRITE, MAP_SHARED,
			WORKER_SHARED_FD, 0);
	setup.window_size = (uint64_t)st.st_size;
	setup.window = mmap((void *)SOFTGPU_WINDOW_HINT, setup.window_size, PROT_READ | PROT_WRITE,
			    MAP_SHARED, WORKER_WINDOW_FD, 0);
	setup.stage =
		mmap(NULL, WORKER_STAGE, PROT_READ | PROT_WRITE, MAP_SHARED, WORKER_STAGE_FD, 0);
	w.turn = mmap(NULL, sizeof(*w.turn), PROT_READ | PROT_WRITE, MAP_SHARED, WORKER_STAGE_FD,
		      WORKER_STAGE);
	if (w.event_fd < 0 || w.turn == MAP_FAILED || w.shared == MAP_FAILED ||
	    setup.window == MAP_FAILED || setup.stage == MAP_FAILED)
		return 1;
	return run(&w, &setup, o.memory, (uid_t)o.user, (gid_t)o.group);
}
