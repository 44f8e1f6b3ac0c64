/* SPDX-License-Identifier: MIT */
/*
 * softgpu-vf: serves one VF of softgpu to one client. The device starts it, with the descriptors of
 * page.h. If anything fails here, or the client breaks the process, it ends, and the VF's state
 * with it; the device then starts another.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "confine.h"
#include "vf.h"
#include "vfio/thread.h"
#include "vfio/user_proto.h"
#include "vgpu/clock.h"
#include "vgpu/local_socket.h"
#include "vgpu/options.h"

/* A client's mappings for DMA, its vectors, and the descriptors of the process itself. */
#define MAX_DESCRIPTORS (VFIO_USER_MAX_DMA_MAPS + 128u)
/* How much memory of its own it may have beside what it has when it starts,
 * most of it for the stacks of threads. */
#define MEMORY (UINT64_C(64) << 20)
/* The part of one CPU that serving the client may use, and how much of it can be saved up: an
 * engine that computes at SCHED_IDLE has no other protection from a flood of messages. */
#define SERVER_PERCENT 20
#define SERVER_SAVED (50 * VGPU_MSEC)

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

/* Prepares the process before there is a client. Returns 0 or -errno with one sentence. */
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
	r = confine_memory(MEMORY, err);
	if (r == 0)
		r = confine_files(err);
	if (r < 0)
		return r;
	/* before the threads: an order that brings no partition takes it, and no call makes another
	 * afterwards */
	vf->none = memfd_create("no partition", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (vf->none < 0 || fcntl(vf->none, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return vgpu_error_set(err, -errno, "a file without a partition: %s",
				      strerror(errno));
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
