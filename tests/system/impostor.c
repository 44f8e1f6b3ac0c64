/* SPDX-License-Identifier: MIT */
/*
 * A VF process, or a worker, that somebody has taken over: softgpu starts it by the name of the
 * real one. For VF 3 it does what the file $IMPOSTOR says, from when the real one would be ready;
 * for others, and where the file says "none", it becomes the real program, in $REAL.
 *
 *   deaf      answers nothing, takes no order, and does not stop
 *   scribble  writes numbers at random over all that it shares with the device
 *   truncate  truncates and punches what it shares, and fills what can be filled
 *   hold      keeps the lock of the page's file, from before the device has sealed it
 *   notices   asks the device to look, without an end
 *   lingers   sends the device descriptors whose close takes a minute, and ends
 *   keeps     leaves a process behind that accepts clients
 *   keeps-on  has work for ever, and computes for 15 ms each time that it must stop
 *   borrows   makes threads while it must stop, and says if one has a real-time priority
 *   burns     leaves something in its memory, and computes in 16 threads; it answers
 *   late      says that it has stopped, and fails, and has work, all at once, without an end
 *
 * As a worker, from when it has its first run, or, if it burns, when it is ready:
 *
 *   burns     computes in 16 threads
 *   stays     the same, when it is told to end, which it does not
 *   deaf      reads nothing, and does not stop
 *   asks      asks for copies without an end, and reads no answer
 *   fences    makes who reads its eventfd wait for ever, and reports fences without an end
 *   lingers   sends softgpu descriptors whose close takes a minute, and ends
 *   scribble  writes numbers at random over all that it shares with others
 *   truncate  truncates and punches what it shares, and fills what can be filled
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lingering.h"
#include "page.h"
#include "protocol.h"
#include "vfio/gpuiov.h"
#include "vgpu/local_socket.h"

static void become(const char *name, char **argv)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", getenv("REAL"), name);
	execv(path, argv);
	_exit(127);
}

static bool is_vf_3(int argc, char **argv)
{
	int i;

	for (i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], "--vf") == 0)
			return strcmp(argv[i + 1], "3") == 0;
	return false;
}

static void notify(int fd)
{
	const uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

/* What is shared is taken away, and what can be full is full. */
static void truncate_all(int shared, int event, int socket)
{
	static char bytes[4096];
	const uint64_t full = UINT64_MAX - 1;
	int flags = fcntl(event, F_GETFL);

	if (ftruncate(shared, 0) < 0 &&
	    fallocate(shared, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) < 0)
		notify(event);
	if (write(event, &full, sizeof(full)) == sizeof(full))
		fcntl(event, F_SETFL, flags & ~O_NONBLOCK);
	send(socket, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void scribble(uint32_t *words, size_t size)
{
	size_t i;

	for (i = 0; i < size / 4; i++)
		((_Atomic uint32_t *)words)[i] = (uint32_t)random();
}

/* Says everything at once that a VF process can say. */
static void say_all(struct vf_page *page)
{
	uint32_t run = atomic_load(&page->run);

	atomic_store(&page->run, VF_RUN_WORD(run >> 3, VF_STOPPED));
	atomic_store(&page->status,
		     (uint64_t)atomic_load(&page->generation) << 32 | (random() & 7));
	atomic_store(&page->answered, atomic_load(&page->asked));
	atomic_fetch_add(&page->resets, 1);
	atomic_fetch_add(&page->violations, 1);
	atomic_fetch_add(&page->to_pf.serial, 1);
	atomic_store(&page->to_vf_taken, (uint32_t)random());
}

/* Writes to what is shared from a page that never comes, which keeps the file's lock. */
static void *write_for_ever(void *never)
{
	if (pwrite(VF_PAGE_FD, never, 64, 0) < 0)
		perror("impostor: pwrite");
	return NULL;
}

static void hold_lock(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffd_msg fault;
	pthread_t thread;

	range.range.start = (uintptr_t)page;
	range.range.len = 4096;
	if (fd < 0 || page == MAP_FAILED || ioctl(fd, UFFDIO_API, &api) < 0 ||
	    ioctl(fd, UFFDIO_REGISTER, &range) < 0 ||
	    pthread_create(&thread, NULL, write_for_ever, page) != 0 ||
	    read(fd, &fault, sizeof(fault)) != sizeof(fault))
		perror("impostor: userfaultfd");
}

/* Sends a descriptor, and ends, so that the last close of it is the receiver's. */
static void send_lingering(int to)
{
	struct iovec part = {(char[]){0}, 1};
	int fd = lingering(60);

	if (fd < 0 || vgpu_socket_send(to, &part, 1, &fd, 1, MSG_DONTWAIT) < 0)
		fprintf(stderr, "impostor: nobody takes the descriptor\n");
	usleep(500000); /* it does not end so often that the records of it hide all others */
	_exit(0);
}

/* A process that outlives this one, and has what it had: accepts what others want to be accepted.
 */
static void keep_all(void)
{
	int fd, accepts;
	socklen_t size;

	if (fork() != 0)
		return;
	while (access(getenv("IMPOSTOR"), F_OK) == 0) { /* while the test runs */
		for (fd = VF_CONTROL_FD; fd < 32; fd++) {
			accepts = 0;
			size = sizeof(accepts);
			if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) < 0 ||
			    !accepts || accept4(fd, NULL, NULL, SOCK_NONBLOCK) < 0)
				continue;
			fprintf(stderr, "impostor: accepts a client of its successor's\n");
			sleep(60);
		}
		usleep(100);
	}
	_exit(0);
}

static void *compute(void *arg)
{
	for (volatile uint64_t n = 0;; n++)
		;
	return arg;
}

/* Its memory has to be given back afterwards. */
static void fill_memory(void)
{
	static const char bytes[4096] = "left";
	struct vf_order order = {.type = 0};
	struct vgpu_received with;

	while (order.type != VF_ORDER_MEMORY)
		if (vgpu_socket_receive(VF_CONTROL_FD, &order, sizeof(order), 0, &with) <= 0)
			_exit(1);
	if (pwrite(with.fds[0], bytes, sizeof(bytes), 0) < 0)
		perror("impostor: pwrite");
}

static void compute_in_threads(void)
{
	pthread_t thread;
	int i;

	for (i = 0; i < 16; i++)
		pthread_create(&thread, NULL, compute, NULL);
}

static void burn(struct vf_page *page)
{
	fill_memory();
	compute_in_threads();
	for (;; usleep(10000))
		atomic_store(&page->answered, atomic_load(&page->asked));
}

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool is_real_time(void)
{
	return (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO;
}

static void *say_priority(void *arg)
{
	if (is_real_time())
		fprintf(stderr, "impostor: its thread keeps a real-time priority\n");
	return arg;
}

/* Says to vgpud what a guest's driver says when it starts: it wants the engine, and then lets go.
 */
static void start_driver(struct vf_page *page)
{
	static const uint32_t says[] = {GPUIOV_REQ_INIT, GPUIOV_REL_INIT};
	static unsigned said;

	if (said == 2 || atomic_load(&page->to_pf_taken) != said ||
	    (said == 1 && atomic_load(&page->to_vf.serial) == 0))
		return;
	atomic_store(&page->to_vf_taken, atomic_load(&page->to_vf.serial));
	atomic_store(&page->to_pf.words[0], says[said]);
	atomic_store(&page->to_pf.serial, ++said);
}

/* Computes for so long, by this thread's CPU time. Each second it says how much of that was at a
 * real-time priority. */
static void compute_for(uint64_t ns)
{
	static uint64_t real_time, said_at;
	uint64_t began = nanoseconds(CLOCK_THREAD_CPUTIME_ID), last = began, now;

	for (now = began; now - began < ns; last = now) {
		now = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
		real_time += is_real_time() ? now - last : 0;
	}
	now = nanoseconds(CLOCK_MONOTONIC);
	if (now - said_at < 1000000000)
		return;
	if (said_at)
		fprintf(stderr, "impostor: was real-time for %llu us of %llu\n",
			(unsigned long long)real_time / 1000,
			(unsigned long long)(now - said_at) / 1000);
	real_time = 0;
	said_at = now;
}

/* Has work for ever, and stops at once but for that; LATE: after it has computed for 15 ms. */
static void borrow(struct vf_page *page, bool late)
{
	bool has_said = false;
	pthread_t thread;
	uint32_t run;

	for (;;) {
		run = atomic_load(&page->run);
		start_driver(page);
		atomic_store(&page->answered, atomic_load(&page->asked));
		atomic_store(&page->status,
			     (uint64_t)atomic_load(&page->generation) << 32 | VF_BUSY);
		if (VF_RUN_STATE(run) != VF_RUN && VF_RUN_STATE(run) != VF_STOPPED) {
			if (late)
				compute_for(15000000);
			else
				usleep(1000);
			if (!late && is_real_time() && !has_said &&
			    pthread_create(&thread, NULL, say_priority, NULL) == 0) {
				pthread_join(thread, NULL);
				fprintf(stderr, "impostor: is lent a real-time priority\n");
				has_said = true;
			}
			atomic_store(&page->run, VF_RUN_WORD(run >> 3, VF_STOPPED));
		}
		atomic_fetch_add(&page->notices, 1);
		notify(VF_NOTICE_FD);
		usleep(200);
	}
}

/* It computes no more than softgpu lets it, so that it goes on for as long as the test takes. */
static void rest(void)
{
	static uint64_t last;
	struct timespec t;
	uint64_t used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	used = (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
	if (used - last > 10000)
		usleep(30000);
	last = used - last > 10000 ? used : last;
}

static void be_vf(const char *kind)
{
	struct vf_page *page =
		mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, VF_PAGE_FD, 0);
	bool quiet = strcmp(kind, "deaf") == 0 || strcmp(kind, "hold") == 0 ||
		     strcmp(kind, "keeps") == 0;

	if (page == MAP_FAILED)
		_exit(1);
	if (strcmp(kind, "hold") == 0)
		hold_lock();
	atomic_store(&page->ready, 1);
	notify(VF_NOTICE_FD);
	if (strcmp(kind, "lingers") == 0)
		send_lingering(VF_CONTROL_FD);
	if (strcmp(kind, "keeps") == 0)
		keep_all();
	if (strcmp(kind, "burns") == 0)
		burn(page);
	if (strcmp(kind, "borrows") == 0 || strcmp(kind, "keeps-on") == 0)
		borrow(page, strcmp(kind, "keeps-on") == 0);
	while (!quiet) {
		if (strcmp(kind, "scribble") == 0)
			scribble((uint32_t *)page, sizeof(*page));
		if (strcmp(kind, "late") == 0)
			say_all(page);
		if (strcmp(kind, "truncate") == 0)
			truncate_all(VF_PAGE_FD, VF_NOTICE_FD, VF_CONTROL_FD);
		atomic_fetch_add(&page->notices, 1);
		notify(VF_NOTICE_FD);
		rest();
	}
	for (;;)
		pause();
}

static void stay(int)
{
	compute_in_threads();
}

static void be_worker(const char *kind)
{
	struct worker_message m = {.type = strcmp(kind, "asks") == 0 ? WORKER_DMA : WORKER_FENCE};
	struct pollfd has_run = {WORKER_SOCKET_FD, POLLIN, 0};
	struct worker_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					    MAP_SHARED, WORKER_SHARED_FD, 0);

	if (shared == MAP_FAILED)
		_exit(1);
	atomic_store(&shared->state, WORKER_READY);
	if (strcmp(kind, "fences") == 0)
		fcntl(WORKER_WAKE_FD, F_SETFL, 0);
	else
		notify(WORKER_WAKE_FD);
	if (strcmp(kind, "stays") == 0)
		signal(SIGTERM, stay);
	if (strcmp(kind, "burns") == 0)
		compute_in_threads();
	poll(&has_run, 1, -1);
	if (strcmp(kind, "lingers") == 0)
		send_lingering(WORKER_MEMORY_FD);
	for (;;) {
		if (strcmp(kind, "deaf") == 0 || strcmp(kind, "burns") == 0 ||
		    strcmp(kind, "stays") == 0)
			pause();
		if (strcmp(kind, "scribble") == 0)
			scribble((uint32_t *)shared, sizeof(*shared));
		if (strcmp(kind, "truncate") == 0) {
			truncate_all(WORKER_SHARED_FD, WORKER_WAKE_FD, WORKER_SOCKET_FD);
			truncate_all(WORKER_WINDOW_FD, WORKER_WAKE_FD, WORKER_SOCKET_FD);
		}
		if (m.type == WORKER_DMA || strcmp(kind, "fences") == 0)
			send(WORKER_SOCKET_FD, &m, sizeof(m), MSG_NOSIGNAL);
	}
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	char kind[32] = "";
	FILE *f = fopen(getenv("IMPOSTOR"), "re");

	if (!f || fscanf(f, "%31s", kind) != 1 || strcmp(kind, "none") == 0 || !is_vf_3(argc, argv))
		become(name, argv);
	fclose(f);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* it never ends by itself */
	if (strcmp(name, "softgpu-worker") == 0)
		be_worker(kind);
	be_vf(kind);
}
