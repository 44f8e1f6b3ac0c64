/* SPDX-License-Identifier: MIT */
/*
 * softgpu-worker: executes the packets of one VF on a device, for softgpu, which starts it. This
 * thread hears what softgpu wants and makes the device stop; it never calls what waits for the
 * device, so it answers also while that stands still.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
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
#include "vgpu/clock.h"

/* How long clearing the VF's memory may take when it is given back; then the kernel does it. */
#define CLOSE_SECONDS 5

struct worker {
	const struct device_ops *ops;
	struct device *device;
	struct worker_shared *shared;
	struct ring *ring;
	int event_fd;
	uint32_t stops;	   /* what STOP may use in this run */
	bool open;	   /* a RUN whose ENDED has not been sent */
	bool held;	   /* the device is stopped */
	vgpu_nsec hard_at; /* when to stop it, VGPU_NEVER: it need not be */
};

static void send_message(const struct worker_message *m)
{
	while (send(WORKER_SOCKET_FD, m, sizeof(*m), MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static void wake_softgpu(void)
{
	const uint64_t one = 1;

	if (write(WORKER_WAKE_FD, &one, sizeof(one)) < 0)
		_exit(1); /* nobody is there any more */
}

static void send_ended(struct worker *w, const struct worker_message *m)
{
	w->open = false;
	w->hard_at = VGPU_NEVER;
	send_message(m);
	if (m->ended.end == WORKER_LOST)
		_exit(1);
}

/* The run is over, if it is. */
static void end_if_over(struct worker *w)
{
	struct worker_message m;

	if (w->open && ring_end(w->ring, &m))
		send_ended(w, &m);
}

/* What is in flight has had its time. */
static void stop_hard(struct worker *w)
{
	static const uint32_t methods[] = {WORKER_STOP_CHANNELS, WORKER_STOP_GROUPS};
	struct worker_message m;
	size_t i;

	w->hard_at = VGPU_NEVER;
	for (i = 0; i < sizeof(methods) / sizeof(methods[0]) && !w->held; i++)
		w->held = w->stops & methods[i] && w->ops->stop(w->device, methods[i]) == 0;
	if (!w->held)
		return; /* softgpu kills us, if it does not end by itself */
	ring_freeze(w->ring, &m);
	send_ended(w, &m);
}

static void on_message(struct worker *w, const struct worker_message *m)
{
	switch (m->type) {
	case WORKER_RUN:
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
			break; /* it has ended meanwhile, and said so */
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

/* A signal, and not a message: whoever has the socket could see to it that no message comes. */
static volatile sig_atomic_t quit;

static void on_quit(int signal)
{
	(void)signal;
	quit = 1;
}

/* Blocked in all threads; serve() takes it while it waits. */
static void catch_quit(void)
{
	const struct sigaction action = {.sa_handler = on_quit};
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &term, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* Until softgpu says to quit, or is gone. */
static void serve(struct worker *w)
{
	struct pollfd fds[] = {{WORKER_SOCKET_FD, POLLIN, 0}, {w->event_fd, POLLIN, 0}};
	struct worker_message m;
	struct timespec t;
	sigset_t none;
	uint64_t count;
	ssize_t n;

	sigemptyset(&none);
	while (!quit) {
		vgpu_nsec at = vgpu_now(), left = w->hard_at > at ? w->hard_at - at : 0;

		t = (struct timespec){(time_t)(left / VGPU_SEC), (long)(left % VGPU_SEC)};
		if (ppoll(fds, 2, w->hard_at == VGPU_NEVER ? NULL : &t, &none) < 0) {
			if (errno != EINTR)
				return;
			continue;
		}
		if (fds[1].revents && read(w->event_fd, &count, sizeof(count)) > 0)
			end_if_over(w);
		if (fds[0].revents) {
			n = recv(WORKER_SOCKET_FD, &m, sizeof(m), MSG_DONTWAIT);
			if (n == 0)
				return;
			if (n == sizeof(m))
				on_message(w, &m);
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

static int run(struct worker *w, const struct device_setup *setup, uid_t uid, gid_t gid)
{
	struct ring_setup ring = {
		.ops = w->ops,
		.shared = w->shared,
		.window = setup->window,
		.window_size = setup->window_size,
		.size = setup->size,
		.event_fd = w->event_fd,
		.send = send_message,
		.wake = wake_softgpu,
	};
	struct vgpu_error err = {""};
	int r;

	r = w->ops->prepare(&w->device, setup, &err);
	r = r ? r : confine_user(uid, gid, w->ops->file, &err);
	r = r ? r : w->ops->open(w->device, setup, &err);
	r = r ? r : confine_calls(&err);
	if (r < 0)
		return refuse(w, r, err.text);
	w->ops->about(w->device, &w->shared->about);
	ring.modules = w->shared->about.modules;
	ring.device = w->device;
	w->ring = ring_create(&ring);
	if (!w->ring) {
		w->ops->close(w->device);
		return refuse(w, -ENOMEM, "out of memory");
	}
	atomic_store(&w->shared->state, WORKER_READY);
	wake_softgpu();
	serve(w);
	/* What was stopped hard must not go on in somebody else's time: it ends with the process,
	 * whose memory the driver clears, and whoever gets it again clears it, too. */
	if (w->held)
		_exit(0);
	alarm(CLOSE_SECONDS);
	ring_destroy(w->ring);
	w->ops->close(w->device);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"device", required_argument, NULL, 'd'},
		{"gpu", required_argument, NULL, 'g'},
		{"size", required_argument, NULL, 's'},
		{"vf", required_argument, NULL, 'v'},
		{"limit", required_argument, NULL, 'l'},
		{"realtime", required_argument, NULL, 'r'},
		{"user", required_argument, NULL, 'u'},
		{"group", required_argument, NULL, 'G'},
		{NULL, 0, NULL, 0},
	};
	struct sched_param param = {0};
	struct rlimit none = {0, 0};
	struct worker w = {.hard_at = VGPU_NEVER};
	struct device_setup setup = {0};
	struct stat st;
	uid_t uid = 0;
	gid_t gid = 0;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'd':
			w.ops = strcmp(optarg, "cuda") == 0 ? &device_cuda : &device_host;
			break;
		case 'g':
			setup.gpu = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 's':
			setup.size = strtoull(optarg, NULL, 10);
			break;
		case 'v':
			setup.vf = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'l':
			setup.limit = strtoull(optarg, NULL, 10);
			break;
		case 'r':
			param.sched_priority = atoi(optarg);
			break;
		case 'u':
			uid = (uid_t)strtoul(optarg, NULL, 10);
			break;
		case 'G':
			gid = (gid_t)strtoul(optarg, NULL, 10);
			break;
		default:
			return 2;
		}
	}
	if (!w.ops || fstat(WORKER_WINDOW_FD, &st) < 0) {
		fputs("softgpu-worker: softgpu starts it; it does nothing by itself\n", stderr);
		return 2;
	}
	prctl(PR_SET_TIMERSLACK, 1000);
	catch_quit();
	setrlimit(RLIMIT_CORE, &none);
	w.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w.shared = mmap(NULL, sizeof(*w.shared), PROT_READ | PROT_WRITE, MAP_SHARED,
			WORKER_SHARED_FD, 0);
	setup.window_size = (uint64_t)st.st_size;
	setup.window = mmap(NULL, setup.window_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			    WORKER_WINDOW_FD, 0);
	if (w.event_fd < 0 || w.shared == MAP_FAILED || setup.window == MAP_FAILED)
		return 1;
	/* This thread's alone: those that it makes, the driver's too, have ordinary priority. */
	if (param.sched_priority > 0)
		sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
	return run(&w, &setup, uid, gid);
}
