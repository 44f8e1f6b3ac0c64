/* SPDX-License-Identifier: MIT */
/* The pages that are shared with vgpud, and its door. */
#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "layer.h"

/* How long the door may take to answer, seconds. */
#define DOOR_TIMEOUT_S 10
/* The gate is also read this often, ns, in case a wake-up is lost. */
#define LOOK_NS 100000000L

const struct page *page;

static struct page pages;
static pthread_once_t once = PTHREAD_ONCE_INIT, watched = PTHREAD_ONCE_INIT;
static bool refused;
static void (*_Atomic on_changed)(void);

void say(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "vgpud's layer: %s\n", text);
}

static int connect_door(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct timeval timeout = {.tv_sec = DOOR_TIMEOUT_S};
	int fd;

	if (strlen(path) >= sizeof(a.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		int e = errno;

		close(fd);
		errno = e;
		return -1;
	}
	return fd;
}

/* Receives the answer and its descriptors. Returns how many descriptors there are, or -1. */
static int receive(int fd, struct gate_welcome *welcome, int fds[GATE_DESCRIPTORS])
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(GATE_DESCRIPTORS * sizeof(int))];
	} control;
	struct iovec part = {welcome, sizeof(*welcome)};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	int n = 0;

	if (recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL) != sizeof(*welcome))
		return -1;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), (size_t)n * sizeof(int));
	}
	return n;
}

static bool map_pages(const int fds[GATE_DESCRIPTORS])
{
	const int rw = PROT_READ | PROT_WRITE;
	void *seat = mmap(NULL, GATE_PAGE, PROT_READ, MAP_SHARED, fds[0], 0);
	void *account = mmap(NULL, GATE_PAGE, rw, MAP_SHARED, fds[1], 0);
	void *worker = mmap(NULL, GATE_PAGE, rw, MAP_SHARED, fds[2], 0);

	if (seat == MAP_FAILED || account == MAP_FAILED || worker == MAP_FAILED)
		return false;
	pages = (struct page){seat, account, worker, fds[3]};
	close(fds[0]);
	close(fds[1]);
	close(fds[2]);
	return true;
}

static void open_pages(void)
{
	const char *path = getenv(GATE_DOOR), *spared = getenv(GATE_SPARES),
		   *keeper = getenv(GATE_WALL_KEEPER);
	struct gate_welcome welcome;
	int fds[GATE_DESCRIPTORS], fd, n;

	if (!path || !*path || (spared && atoi(spared) == (int)getpid()))
		return;
	refused = true;
	/* The keeper of the wall makes some calls for this process. Where Linux has Yama, it could
	 * not look at what they ask for. */
	if (keeper)
		prctl(PR_SET_PTRACER, strtoul(keeper, NULL, 10));
	fd = connect_door(path);
	if (fd < 0) {
		say("cannot reach vgpud at %s: %s", path, strerror(errno));
		return;
	}
	n = receive(fd, &welcome, fds);
	close(fd);
	if (n < 0 || welcome.magic != GATE_MAGIC) {
		say("no answer from vgpud at %s", path);
	} else if (welcome.version != GATE_VERSION) {
		say("vgpud at %s has version %u of the gate, this layer %u: start the program "
		    "again",
		    path, welcome.version, GATE_VERSION);
	} else if (welcome.status != 0) {
		welcome.why[sizeof(welcome.why) - 1] = '\0';
		say("vgpud refuses this process: %s", welcome.why);
	} else if (n != GATE_DESCRIPTORS || !map_pages(fds)) {
		say("cannot map the pages of vgpud at %s", path);
	} else {
		atomic_store(&pages.worker->generation, welcome.generation);
		page = &pages;
		refused = false;
	}
}

bool page_open(void)
{
	pthread_once(&once, open_pages);
	return !refused;
}

static void ring(void)
{
	uint64_t one = 1;

	/* A bell that is full is heard already; it does not block. */
	if (write(page->bell, &one, sizeof(one)) < 0)
		return;
}

bool page_gate_is_open(void)
{
	return gate_is_open(atomic_load(&page->seat->gate));
}

bool page_is_taken(void)
{
	uint32_t lost = atomic_load(&page->seat->lost);

	return lost != 0 && lost == atomic_load(&page->worker->generation) + 1;
}

void page_leave(void)
{
	if (atomic_fetch_sub(&page->worker->in_flight, 1) == 1 && !page_gate_is_open())
		ring();
}

bool page_enter(void)
{
	/* What is held is looked at often: while the gate is shut it is not even counted. */
	if (!page_gate_is_open())
		return false;
	atomic_fetch_add(&page->worker->in_flight, 1);
	if (page_gate_is_open())
		return true;
	page_leave(); /* vgpud may have seen it, and waits */
	return false;
}

void page_ended(vgpu_nsec took, bool waited)
{
	struct gate_worker *w = page->worker;

	atomic_fetch_add(&w->submissions, 1);
	atomic_fetch_add(&w->held, waited);
	if (took > atomic_load(&w->longest))
		atomic_store(&w->longest, took);
	page_leave();
}

void page_work(bool work)
{
	if (work ? atomic_fetch_add(&page->worker->work, 1) == 0
		 : atomic_fetch_sub(&page->worker->work, 1) == 1)
		ring();
}

bool page_memory_take(uint64_t bytes)
{
	uint64_t limit = atomic_load(&page->seat->memory);
	uint64_t sum = atomic_fetch_add(&page->account->memory, bytes) + bytes;

	if (limit && (sum > limit || sum < bytes)) {
		atomic_fetch_sub(&page->account->memory, bytes);
		atomic_fetch_add(&page->worker->refused, 1);
		return false;
	}
	atomic_fetch_add(&page->worker->memory, bytes);
	return true;
}

void page_memory_give(uint64_t bytes)
{
	atomic_fetch_sub(&page->worker->memory, bytes);
	atomic_fetch_sub(&page->account->memory, bytes);
}

static void *watch(void *unused)
{
	struct timespec look = {.tv_nsec = LOOK_NS};
	uint32_t gate;

	(void)unused;
	prctl(PR_SET_TIMERSLACK, 1L);
	for (;;) {
		gate = atomic_load(&page->seat->gate);
		if (gate_is_open(gate) || page_is_taken())
			atomic_load (&on_changed)();
		syscall(SYS_futex, &page->seat->gate, FUTEX_WAIT, gate, &look, NULL, 0);
	}
	return NULL;
}

static void begin_watch(void)
{
	pthread_t thread;
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&thread, NULL, watch, NULL);
	if (r == 0) {
		pthread_setname_np(thread, "vgpud-gate");
		pthread_detach(thread);
	} else {
		say("cannot start the thread that waits for the gate (%s), so held work never "
		    "runs: raise the limit of processes (ulimit -u), and start the program again",
		    strerror(r));
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void page_watch(void (*changed)(void))
{
	atomic_store(&on_changed, changed);
	pthread_once(&watched, begin_watch);
}
