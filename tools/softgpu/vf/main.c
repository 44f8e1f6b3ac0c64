/* SPDX-License-Identifier: MIT */
/*
 * softgpu-vf: serves one VF of softgpu to one client. The device starts it, with the descriptors of
 * page.h. If anything fails here, or the client breaks the process, it ends, and the VF's state
 * with it; the device then starts another.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "confine.h"
#include "vf.h"
#include "vfio/thread.h"
#include "vfio/user_proto.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"
#include "vgpu/options.h"

/* A client's mappings for DMA, its vectors, and the descriptors of the process itself. */
#define MAX_DESCRIPTORS (VFIO_USER_MAX_DMA_MAPS + 128u)
/* The part of one CPU that serving the client may use, and how much of it can be saved up: an
 * engine that computes at SCHED_IDLE has no other protection from a flood of messages. */
#define SERVER_PERCENT 20
#define SERVER_SAVED (50 * VGPU_MSEC)

struct packet_limits vf_limits(const struct vf *vf)
{
	return (struct packet_limits){.window = vf->window,
				      .size = vf->size,
				      .modules = vf->modules};
}

bool vf_publish(struct vf *vf)
{
	uint64_t bits = (vf->busy ? VF_BUSY : 0) | (vf->dead ? VF_DEAD : 0) |
			(vf->dead && vf->error == SOFTGPU_FAULTED ? VF_FAULTED : 0);

	bits |= (uint64_t)vf->generation << 32;
	return atomic_exchange(&vf->page->status, bits) != bits;
}

void vf_note(struct vf *vf)
{
	atomic_fetch_add(&vf->page->notices, 1);
}

void vf_notify(struct vf *vf)
{
	vf_note(vf);
	vgpu_eventfd_signal(VF_NOTICE_FD);
}

int vf_dma(const struct vf *vf, uint64_t iova, void *buffer, uint32_t size, bool to_client)
{
	struct vf_dma ask = {.iova = iova, .size = size, .to_client = to_client};
	struct iovec iov[2] = {{&ask, sizeof(ask)}, {buffer, size}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = to_client ? 2 : 1};

	if (!vf->has_carrier)
		return vfio_endpoint_dma(vf->endpoint, iova, buffer, size, to_client);
	if (sendmsg(VF_DMA_FD, &m, MSG_NOSIGNAL) < 0)
		return -EFAULT;
	m.msg_iovlen = to_client ? 1 : 2;
	if (recvmsg(VF_DMA_FD, &m, 0) < (ssize_t)sizeof(ask))
		return -EFAULT;
	return ask.result;
}

/*
 * Takes over the file of a partition; -1: there is none. Its number never changes: the server's
 * thread sends it to a client after it has let go of the lock, and must not send what else has got
 * the number meanwhile. Returns 0 or -errno.
 */
static int set_memfd(struct vf *vf, int fd)
{
	int r = 0;

	if (fd < 0)
		fd = memfd_create("no partition", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (vf->memfd < 0) {
		vf->memfd = fd;
		return 0;
	}
	if (dup3(fd, vf->memfd, O_CLOEXEC) < 0)
		r = -errno;
	close(fd);
	return r;
}

/* Changes the partition. The device does this only while nothing is executed. */
static void take_memory(struct vf *vf, const struct vf_order *order, const int *fds)
{
	void *p;

	if (vf->executing)
		_exit(1);
	compute_destroy(vf->compute);
	vf->compute = NULL;
	if (vf->memory)
		munmap(vf->memory, vf->window);
	p = fds[0] >= 0 ? mmap(NULL, order->window, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0)
			: NULL;
	if (p == MAP_FAILED || set_memfd(vf, fds[0]) < 0)
		_exit(1);
	vf->memory = p;
	vf->window = order->window;
	vf->modules = order->modules;
	vf->size = order->size;
}

static void take_worker(struct vf *vf, const struct vf_order *order, const int *fds)
{
	const struct compute_setup setup = {
		.socket = fds[0],
		.shared = fds[1],
		.wake = fds[2],
		.stops = order->stops,
		.stop_us = order->stop_us,
		.kill_after = order->kill_after,
		.kill_disturbed = order->kill_disturbed,
	};

	if (vf->executing)
		_exit(1);
	compute_destroy(vf->compute);
	vf->modules = order->modules;
	vf->compute = compute_create(vf, &setup);
	if (!vf->compute)
		_exit(1);
}

static void receive_order(struct vf *vf)
{
	int fds[VF_ORDER_FDS] = {-1, -1, -1};
	struct vgpu_received received;
	struct vf_order order;

	if (vgpu_socket_receive(VF_CONTROL_FD, &order, sizeof(order), 0, &received) !=
		    (ssize_t)sizeof(order) ||
	    received.n_fds > VF_ORDER_FDS)
		_exit(1);
	memcpy(fds, received.fds, received.n_fds * sizeof(*fds));
	switch (order.type) {
	case VF_ORDER_MEMORY:
		take_memory(vf, &order, fds);
		break;
	case VF_ORDER_CLIENT:
		vf->client = fds[0];
		break;
	case VF_ORDER_WORKER:
		take_worker(vf, &order, fds);
		break;
	}
}

/* The VF has been reset: resets all its state except its memory. */
static void forget(struct vf *vf)
{
	memset(&vf->live, 0, sizeof(vf->live));
	atomic_store(&vf->wptr, 0);
	vf->bell_heard = vf->bell;
	vf->loaded = false;
	vf->dead = false;
	vf->int_enable = 0;
	vf->to_pf = 0;
	atomic_store(&vf->page->to_pf.serial, 0);
	pci_build(&vf->pci, SOFTGPU_DEVICE_VF, SOFTGPU_VF_VECTORS, vf->vram);
}

static void take_context(struct vf *vf)
{
	struct packet_limits limits = vf_limits(vf);

	switch (VF_CONTEXT_KIND(vf->context)) {
	case VF_CONTEXT_INIT:
		memset(&vf->live, 0, sizeof(vf->live));
		atomic_store(&vf->wptr, 0);
		vf->bell_heard = vf->bell;
		vf->dead = false;
		vf->loaded = true;
		break;
	case VF_CONTEXT_LOADED:
		memcpy(&vf->live, vf->page->image, sizeof(vf->live));
		/* The saved packet has been checked, but the VF may have another partition now. */
		if (vf->live.job.active &&
		    (packet_check(&limits, &vf->live.job.packet) != SOFTGPU_OK ||
		     !kernel_job_is_valid(&vf->live.job)))
			vf->live.job.active = false;
		vf->loaded = true;
		break;
	default:
		memset(&vf->live, 0, sizeof(vf->live));
		vf->loaded = false;
		break;
	}
}

void vf_take_orders(struct vf *vf)
{
	for (; vf->orders != atomic_load(&vf->page->orders); vf->orders++)
		receive_order(vf);
}

/* The device changes FORGET, then GENERATION: a new generation is read before what it begins with,
 * and applied after that. So what this process says in a generation is never of the one before. */
void vf_follow(struct vf *vf)
{
	struct vf_page *page = vf->page;
	uint32_t generation = atomic_load(&page->generation), word;

	if (!vf->executing)
		vf_take_orders(vf);
	word = atomic_load(&page->forget);
	if (word != vf->forget) {
		vf->forget = word;
		forget(vf);
	}
	word = atomic_load(&page->context);
	if (word != vf->context) {
		vf->context = word;
		take_context(vf);
	}
	if (generation != vf->generation) {
		vf->generation = generation;
		vf->busy = false;
		vf_publish(vf);
		vf_notify(vf);
	}
}

/* Takes note of the PF's messages and acknowledgements. Returns whether the mailbox's vector must
 * be raised. */
static bool follow_mailbox(struct vf *vf)
{
	uint32_t in = atomic_load(&vf->page->to_vf.serial);
	uint32_t taken = atomic_load(&vf->page->to_pf_taken);
	bool raise = in != vf->to_vf_seen && in && vf->int_enable & GPUIOV_MBOX_INT_VALID;

	raise |= taken != vf->to_pf_seen && taken && taken == vf->to_pf &&
		 vf->int_enable & GPUIOV_MBOX_INT_ACK;
	vf->to_vf_seen = in;
	vf->to_pf_seen = taken;
	return raise;
}

/* Answers the device, which asks whether this process still works: in the server's thread, between
 * two messages. There is no answer if a client has made that thread wait, possibly for ever, even
 * after the client has gone: by what it does to files, or by a descriptor whose close takes long.
 */
static void answer(void *arg)
{
	struct vf *vf = arg;
	uint32_t asked = atomic_load(&vf->page->asked);

	if (vf->endpoint)
		vfio_endpoint_sync(vf->endpoint);
	atomic_store(&vf->page->answered, asked);
}

static void *bell_thread(void *arg)
{
	struct vf *vf = arg;
	uint32_t bell;
	bool raise;
	int client;

	for (;;) {
		bell = atomic_load(&vf->page->bell);
		pthread_mutex_lock(&vf->lock);
		vf_follow(vf);
		raise = follow_mailbox(vf);
		client = vf->client;
		pthread_mutex_unlock(&vf->lock);
		/* Without the lock, because the server's callbacks take it. */
		if (client >= 0 && !vf->endpoint &&
		    vfio_server_adopt(vf->server, client, &registers_ops, vf, &vf->endpoint) < 0)
			_exit(1);
		if (raise && vf->endpoint)
			vfio_endpoint_irq(vf->endpoint, SOFTGPU_VECTOR_MAILBOX);
		if (atomic_load(&vf->page->asked) != atomic_load(&vf->page->answered))
			vfio_server_ask(vf->server, answer, vf);
		vf_futex_wait(&vf->page->bell, bell, NULL);
	}
	return NULL;
}

/* Prepares the process before there is a client. 0 or -errno with one sentence. */
static int start(struct vf *vf, uid_t uid, gid_t gid, pid_t device, struct vgpu_error *err)
{
	struct rlimit none = {0, 0}, descriptors = {MAX_DESCRIPTORS, MAX_DESCRIPTORS};
	pthread_t bell;
	int r;

	prctl(PR_SET_TIMERSLACK, 1000);
	/* softgpu may run at a low priority, because its threads that answer are real-time. A
	 * client's requests wait for this process, which therefore has ordinary priority. */
	if (getpriority(PRIO_PROCESS, 0) > 0)
		setpriority(PRIO_PROCESS, 0, 0);
	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_NOFILE, &descriptors);
	vf->page = mmap(NULL, sizeof(*vf->page), PROT_READ | PROT_WRITE, MAP_SHARED, VF_PAGE_FD, 0);
	if (vf->page == MAP_FAILED)
		return vgpu_error_set(err, -errno, "the shared page: %s", strerror(errno));
	close(VF_PAGE_FD);
	pci_build(&vf->pci, SOFTGPU_DEVICE_VF, SOFTGPU_VF_VECTORS, vf->vram);
	r = confine_user(uid, gid, NULL, err);
	if (r < 0)
		return r;
	/* This process ends with the device. A change of the user clears the setting, so it is made
	 * after that. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The device may have ended before that. (Its end of the control socket may still be open,
	 * in a process that the device was just starting.) */
	if (getppid() != device)
		_exit(0);
	r = confine_files(err);
	if (r < 0)
		return r;
	r = vfio_server_create(&vf->server, "sv-server", 0, err);
	if (r < 0)
		return r;
	vfio_server_limit(vf->server, SERVER_PERCENT, SERVER_SAVED);
	r = vf->has_worker ? compute_watch(vf) : 0; /* before an order can bring a worker */
	if (r == 0)
		r = -vfio_thread_create(&bell, "sv-bell", SCHED_OTHER, 0, bell_thread, vf);
	if (r < 0)
		return vgpu_error_set(err, r, "a thread cannot be started: %s", strerror(-r));
	return confine_calls(false, err);
}

/* Empties a file that a VF had. If a client holds the file's lock, only this process waits for it.
 * Returns the exit status. */
static int give_back(void)
{
	const int how = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	struct stat st;

	if (fstat(VF_CONTROL_FD, &st) < 0 || fallocate(VF_CONTROL_FD, how, 0, st.st_size) < 0)
		return 1;
	return 0;
}

/* What softgpu passes. */
struct options {
	uint32_t number, user, group, device;
	uint64_t vram;
	const char *layout;
	bool workers;
};

#define ROW(name, kind, member)                                                                    \
	VGPU_OPTION(name, NULL, NULL, kind, offsetof(struct options, member))
static const struct vgpu_option rows[] = {
	ROW("vf", WHOLE32, number),	ROW("vram", WHOLE, vram),
	ROW("user", WHOLE32, user),	ROW("group", WHOLE32, group),
	ROW("device", WHOLE32, device), ROW("layout", TEXT, layout),
	ROW("workers", FLAG, workers),	{.name = NULL},
};

static void usage(FILE *to)
{
	fputs("softgpu-vf serves the client of one VF of softgpu and executes its packets.\n"
	      "softgpu starts it; it cannot be used by itself.\n",
	      to);
}

int main(int argc, char **argv)
{
	static struct vf vf = {.memfd = -1, .client = -1};
	struct vgpu_error err = {""};
	struct options o = {0};
	int r;

	if (argc == 2 && strcmp(argv[1], "--give-back") == 0)
		return give_back();
	r = vgpu_options_read("softgpu-vf", rows, usage, argc, argv, &o);
	if (r != 0)
		return r < 0 ? 2 : 0;
	vf.number = o.number;
	vf.vram = o.vram;
	vf.has_worker = o.workers;
	vf.layout = o.layout ? gpuiov_layout_by_name(o.layout) : NULL;
	if (!vf.layout || !vf.vram || fcntl(VF_LOG_FD, F_GETFD) < 0) {
		usage(stderr);
		return 2;
	}
	/* What this process was started with is softgpu's. */
	if (dup2(VF_LOG_FD, STDIN_FILENO) < 0 || dup2(VF_LOG_FD, STDOUT_FILENO) < 0 ||
	    dup2(VF_LOG_FD, STDERR_FILENO) < 0)
		return 1;
	close(VF_LOG_FD);
	vf.began = vgpu_now();
	/* With priority inheritance: the first thread, which must stop in time, may wait for the
	 * lock. */
	vfio_mutex_init(&vf.lock);
	vf.has_carrier = fcntl(VF_DMA_FD, F_GETFD) >= 0;
	if (start(&vf, (uid_t)o.user, (gid_t)o.group, (pid_t)o.device, &err) < 0) {
		fprintf(stderr, "<3>softgpu: VF %u: %s\n", vf.number, err.text);
		return 1;
	}
	atomic_store(&vf.page->ready, 1);
	vf_notify(&vf);
	engine_loop(&vf);
	return 0;
}
