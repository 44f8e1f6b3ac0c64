/* SPDX-License-Identifier: MIT */
/* The driver for gated GPUs, in virtual time. This program, and its children, play processes with
 * the layer: they come through the door, and write their pages by hand. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kept.h"
#include "suite.h"
#include "vgpu/clock.h"
#include "vgpu/driver.h"
#include "vgpu/gate.h"
#include "vgpu/local_socket.h"
#include "vgpu/process.h"
#include "fdinfo.h"
#include "vfio/kernel.h"
#include "vfio/pci.h"

#define VFS 3u
#define US VGPU_USEC
#define MS VGPU_MSEC

static const struct vgpu_driver_ops *const ops = &vgpu_gated_driver;
static struct vgpu_driver *driver;
static struct vgpu_driver_caps caps;
static struct vgpu_driver_found found;
static char door[64];

/* What the driver has said since the last call of happened(). */
static struct vgpu_event events[64];
static uint32_t n_events;

static void sink(void *, const struct vgpu_event *event)
{
	if (n_events < 64)
		events[n_events++] = *event;
}

static bool happened(enum vgpu_event_type type, uint32_t vf, uint32_t code)
{
	uint32_t i;

	for (i = 0; i < n_events; i++)
		if (events[i].type == type && events[i].vf == vf && events[i].code == code) {
			events[i] = events[--n_events];
			return true;
		}
	return false;
}

static vgpu_nsec now;

static void go(vgpu_nsec by)
{
	now += by;
	CU_ASSERT_EQUAL(ops->device->dispatch(driver, now), 0);
}

static const char *device = "vulkan:test device";
static enum vgpu_watch watch;

static int open_driver(void)
{
	struct vgpu_driver_config config = {.device = device,
					    .n_vfs = VFS,
					    .door = door,
					    .watch = watch,
					    .wall = "off",
					    .sizes = {64u << 20}};
	struct vgpu_error err = {""};
	int r;

	snprintf(door, sizeof(door), "/tmp/vgpud-test-gated.%d", (int)getpid());
	vfio_store = &store;
	n_events = 0;
	now = vgpu_now();
	r = ops->device->open(&driver, &config, &caps, &found, sink, NULL, &err);
	if (r < 0)
		fprintf(stderr, "%s\n", err.text);
	return r;
}

static void close_driver(void)
{
	ops->device->close(driver, false);
}

/* A process with the layer, as far as vgpud sees one. */
struct player {
	struct gate_welcome welcome;
	const struct gate_seat *seat;
	struct gate_account *account;
	struct gate_worker *page;
	int bell, seat_fd;
};

static bool enter(struct player *p)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct vgpu_received got = {.n_fds = 0};
	const int rw = PROT_READ | PROT_WRITE;

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", door);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		perror(door);
		close(fd);
		return false;
	}
	if (vgpu_socket_receive(fd, &p->welcome, sizeof(p->welcome), 0, &got) !=
	    sizeof(p->welcome)) {
		perror("the door's answer");
		close(fd);
		return false;
	}
	close(fd);
	if (got.n_fds != GATE_DESCRIPTORS) {
		fprintf(stderr, "the door: %s, %u descriptors\n", p->welcome.why, got.n_fds);
		return false;
	}
	p->seat_fd = got.fds[0];
	p->seat = mmap(NULL, GATE_PAGE, PROT_READ, MAP_SHARED, got.fds[0], 0);
	p->account = mmap(NULL, GATE_PAGE, rw, MAP_SHARED, got.fds[1], 0);
	p->page = mmap(NULL, GATE_PAGE, rw, MAP_SHARED, got.fds[2], 0);
	p->bell = got.fds[3];
	return true;
}

static void ring(struct player *p)
{
	uint64_t one = 1;

	CU_ASSERT_EQUAL(write(p->bell, &one, sizeof(one)), sizeof(one));
}

static bool gate_of(const struct player *p)
{
	return gate_is_open(atomic_load(&p->seat->gate));
}

static int command(uint32_t vf, enum vgpu_command c)
{
	struct vgpu_order order = {vf, c, false};

	return ops->switched->commands(driver, &order, 1, now);
}

/* Gives the VF to a process, whose driver then comes up. */
static void give(uint32_t vf, pid_t pid)
{
	struct vgpu_process p;

	CU_ASSERT_EQUAL_FATAL(vgpu_process_read((uint32_t)pid, &p), 0);
	CU_ASSERT_EQUAL(ops->seats->give(driver, vf, (uint32_t)pid, p.started, 0), 0);
	go(US);
	CU_ASSERT(happened(VGPU_EV_REQUEST, vf, VGPU_WINDOW_INIT));
	CU_ASSERT_EQUAL(command(vf, VGPU_CMD_INIT), 0);
	CU_ASSERT(happened(VGPU_EV_DONE, vf, VGPU_CMD_INIT));
	ops->switched->notice(driver, vf, VGPU_NOTICE_READY);
	CU_ASSERT(ops->device->deadline(driver) <= now);
	go(US);
	CU_ASSERT(happened(VGPU_EV_RELEASE, vf, VGPU_WINDOW_INIT));
}

/* Work, the gate, and what IDLE waits for. */
TEST(test_gate, "gate")
{
	struct player p;

	CU_ASSERT_EQUAL_FATAL(open_driver(), 0);
	CU_ASSERT_FALSE(found.adopted);
	CU_ASSERT_STRING_EQUAL(caps.preemption, "submission");
	give(1, getpid());
	CU_ASSERT_FATAL(enter(&p));
	CU_ASSERT_EQUAL(p.welcome.status, 0);
	CU_ASSERT_STRING_EQUAL(p.seat->device, "test device");
	CU_ASSERT_FALSE(gate_of(&p));
	go(US);
	CU_ASSERT_EQUAL(n_events, 0);
	atomic_store(&p.page->work, 1);
	ring(&p);
	go(US);
	CU_ASSERT(happened(VGPU_EV_BUSY, 1, 0));
	CU_ASSERT_EQUAL(command(1, VGPU_CMD_RUN), 0);
	CU_ASSERT(happened(VGPU_EV_DONE, 1, VGPU_CMD_RUN));
	CU_ASSERT(gate_of(&p));
	atomic_store(&p.page->in_flight, 2);
	CU_ASSERT_EQUAL(command(1, VGPU_CMD_IDLE), 0);
	CU_ASSERT_FALSE(gate_of(&p));
	CU_ASSERT_EQUAL(n_events, 0);
	atomic_store(&p.page->in_flight, 1);
	go(MS);
	CU_ASSERT_EQUAL(n_events, 0);
	CU_ASSERT(ops->device->deadline(driver) <= now + MS);
	/* Even if nobody rings. */
	atomic_store(&p.page->in_flight, 0);
	go(MS);
	CU_ASSERT(happened(VGPU_EV_DONE, 1, VGPU_CMD_IDLE));
	atomic_store(&p.page->work, 0);
	ring(&p);
	go(US);
	CU_ASSERT(happened(VGPU_EV_EMPTY, 1, 0));
	/* Nothing is in flight: IDLE is done at once. */
	CU_ASSERT_EQUAL(command(1, VGPU_CMD_RUN), 0);
	CU_ASSERT_EQUAL(command(1, VGPU_CMD_IDLE), 0);
	CU_ASSERT(happened(VGPU_EV_DONE, 1, VGPU_CMD_IDLE));
	close_driver();
	drop_all();
}

/* A worker can read its seat, and cannot change it; it cannot cut any page. */
TEST(test_walls, "walls")
{
	struct player p;

	CU_ASSERT_EQUAL_FATAL(open_driver(), 0);
	give(0, getpid());
	CU_ASSERT_FATAL(enter(&p));
	CU_ASSERT_PTR_EQUAL(mmap(NULL, GATE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, p.seat_fd, 0),
			    MAP_FAILED);
	CU_ASSERT(ftruncate(p.seat_fd, 0) < 0);
	CU_ASSERT_EQUAL(atomic_load(&p.seat->memory), 64u << 20);
	close_driver();
	drop_all();
}

/* Who is let in: the owner and its descendants; 16 of a VF, and no more. */
TEST(test_door, "door")
{
	struct player p[20];
	pid_t child;
	uint32_t i;
	int status;

	CU_ASSERT_EQUAL_FATAL(open_driver(), 0);
	CU_ASSERT_FALSE(enter(&p[0]));
	CU_ASSERT_EQUAL(p[0].welcome.status, EPERM);
	give(2, getpid());
	child = fork();
	if (child == 0)
		_exit(enter(&p[0]) ? 0 : 1);
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
	go(US);
	go(US); /* the child's place is free again when its end was seen */
	for (i = 0; i < 100 && i < 16; i++)
		CU_ASSERT(enter(&p[i]));
	CU_ASSERT_FALSE(enter(&p[16]));
	CU_ASSERT_EQUAL(p[16].welcome.status, EBUSY);
	/* Nobody has it any more: those who had it lose their devices. */
	CU_ASSERT_EQUAL(atomic_load(&p[0].seat->lost), 0);
	CU_ASSERT_EQUAL(ops->seats->give(driver, 2, 0, 0, 0), -EBUSY);
	CU_ASSERT_EQUAL(atomic_load(&p[0].seat->lost), p[0].welcome.generation + 1);
	CU_ASSERT_FALSE(enter(&p[16]));
	CU_ASSERT_EQUAL(p[16].welcome.status, EPERM);
	close_driver();
	drop_all();
}

/* Who has a VF next has an account of its own: what its predecessor has kept is of no use. */
TEST(test_successor, "successor")
{
	struct vgpu_process next;
	struct player p;
	pid_t child;
	int ends[2], status;
	char byte;

	CU_ASSERT_EQUAL_FATAL(open_driver(), 0);
	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		if (read(ends[0], &byte, 1) != 1 || !enter(&p))
			_exit(1);
		_exit(atomic_fetch_add(&p.account->memory, 1000) == 0 ? 0 : 2);
	}
	give(0, getpid());
	CU_ASSERT_FATAL(enter(&p));
	atomic_store(&p.account->memory, 7);
	CU_ASSERT_EQUAL_FATAL(vgpu_process_read((uint32_t)child, &next), 0);
	CU_ASSERT_EQUAL(ops->seats->give(driver, 0, (uint32_t)child, next.started, 0), 0);
	CU_ASSERT_EQUAL(write(ends[1], "x", 1), 1);
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL(atomic_load(&p.account->memory), 7);
	close(ends[0]);
	close(ends[1]);
	close_driver();
	drop_all();
}

/* A child that comes through the door, says that it computes, and does not end. */
static pid_t start_child(int *says)
{
	int ends[2], go_on[2];
	pid_t child;

	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	CU_ASSERT_EQUAL_FATAL(pipe(go_on), 0);
	child = fork();
	if (child == 0) {
		struct player p;
		char byte;

		close(go_on[1]);
		if (read(go_on[0], &byte, 1) < 0 || !enter(&p))
			_exit(1);
		atomic_store(&p.page->work, 1);
		atomic_store(&p.page->in_flight, 1);
		atomic_store(&p.page->memory, 1000);
		atomic_fetch_add(&p.account->memory, 1000);
		if (write(ends[1], "x", 1) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	close(go_on[0]);
	*says = ends[0];
	give(0, child);
	close(go_on[1]);
	CU_ASSERT_EQUAL(read(*says, &(char){0}, 1), 1);
	close(*says);
	return child;
}

/* Dispatches until CONDITION, in steps of real time: a process's end is not virtual. */
#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		struct pollfd p_ = {.fd = ops->device->fd(driver), .events = POLLIN};              \
		vgpu_nsec limit_ = vgpu_now() + 30 * VGPU_SEC;                                     \
		while (!(condition) && vgpu_now() < limit_) {                                      \
			poll(&p_, 1, 1);                                                           \
			go(US);                                                                    \
		}                                                                                  \
	} while (0)

/* A program that does not stop: its reset ends it, and is done when it has ended. */
TEST(test_hang, "hang")
{
	pid_t child;
	int says, status;

	CU_ASSERT_EQUAL_FATAL(open_driver(), 0);
	child = start_child(&says);
	UNTIL(happened(VGPU_EV_BUSY, 0, 0));
	CU_ASSERT_EQUAL(command(0, VGPU_CMD_RUN), 0);
	CU_ASSERT_EQUAL(command(0, VGPU_CMD_IDLE), 0);
	go(50 * MS);
	CU_ASSERT_FALSE(happened(VGPU_EV_DONE, 0, VGPU_CMD_IDLE));
	CU_ASSERT_EQUAL(ops->device->reset(driver, 0, VGPU_RESET_VF, now), 0);
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	bool done = false;
	UNTIL(done || (done = happened(VGPU_EV_RESET_DONE, 0, VGPU_RESET_VF)));
	CU_ASSERT(done);
	/* The command that the reset has cut off is never answered. */
	CU_ASSERT_FALSE(happened(VGPU_EV_DONE, 0, VGPU_CMD_IDLE));
	close_driver();
	drop_all();
}

/* A bell that rings all the time is heard ever less often, and its page is still read. */
TEST(test_flood, "flood")
{
	struct pollfd p = {.events = POLLIN};
	struct player w;
	uint32_t i, heard = 0;

	CU_ASSERT_EQUAL_FATAL(open_driver(), 0);
	give(0, getpid());
	CU_ASSERT_FATAL(enter(&w));
	go(US);
	p.fd = ops->device->fd(driver);
	for (i = 0; i < 2000; i++) {
		ring(&w);
		heard += poll(&p, 1, 0) > 0;
		go(US);
	}
	CU_ASSERT(heard < 300);
	CU_ASSERT(ops->device->deadline(driver) != VGPU_NEVER);
	atomic_store(&w.page->work, 1);
	go(100 * MS);
	CU_ASSERT(happened(VGPU_EV_BUSY, 0, 0));
	close_driver();
	drop_all();
}

/* The next vgpud finds gates, owners and workers as they were. */
TEST(test_adoption, "adoption")
{
	struct player a;
	uint64_t generation;

	CU_ASSERT_EQUAL_FATAL(open_driver(), 0);
	give(1, getpid());
	CU_ASSERT_FATAL(enter(&a));
	go(US);
	generation = atomic_load(&a.seat->generation);
	CU_ASSERT_EQUAL(command(1, VGPU_CMD_RUN), 0);
	atomic_store(&a.page->work, 1);
	atomic_store(&a.page->in_flight, 1);
	close_driver();
	CU_ASSERT(gate_of(&a));
	CU_ASSERT_EQUAL_FATAL(open_driver(), 0);
	CU_ASSERT(found.adopted);
	CU_ASSERT_EQUAL(found.contexts[1], VGPU_CTX_RUNNING);
	CU_ASSERT(found.driver_up[1]);
	CU_ASSERT_EQUAL(found.contexts[0], VGPU_CTX_NONE);
	CU_ASSERT_EQUAL(atomic_load(&a.seat->generation), generation);
	go(US);
	CU_ASSERT(happened(VGPU_EV_BUSY, 1, 0));
	CU_ASSERT_EQUAL(command(1, VGPU_CMD_IDLE), 0);
	CU_ASSERT_FALSE(happened(VGPU_EV_DONE, 1, VGPU_CMD_IDLE));
	atomic_store(&a.page->in_flight, 0);
	ring(&a);
	go(US);
	CU_ASSERT(happened(VGPU_EV_DONE, 1, VGPU_CMD_IDLE));
	/* Shut, with something in flight that does not end: the VF must be reset first. */
	atomic_store(&a.page->in_flight, 1);
	close_driver();
	CU_ASSERT_EQUAL_FATAL(open_driver(), 0);
	CU_ASSERT_EQUAL(found.contexts[1], VGPU_CTX_RUNNING);
	CU_ASSERT_FALSE(found.driver_up[1]);
	close_driver();
	drop_all();
}

/* What drivers show: engine time (amdgpu, i915), cycles alone (xe), and descriptors that are none.
 */
TEST(test_fdinfo, "fdinfo")
{
	char i915[] = "pos:\t0\nflags:\t02100002\ndrm-driver:\ti915\ndrm-client-id:\t7\n"
		      "drm-pdev:\t0000:00:02.0\ndrm-engine-render:\t9288864723 ns\n"
		      "drm-engine-video:\t0 ns\ndrm-engine-capacity-video:\t2\n";
	char xe[] = "drm-client-id:\t8\ndrm-cycles-ccs:\t1000\ndrm-total-cycles-ccs:\t50000\n";
	char later[] = "drm-client-id:\t8\ndrm-cycles-ccs:\t1600\ndrm-total-cycles-ccs:\t51000\n";
	char none[] = "pos:\t0\nflags:\t02\nmnt_id:\t15\n";
	struct gated_fdinfo f, was, nothing = {.n = 0};

	CU_ASSERT_FATAL(gated_fdinfo_parse(i915, &f));
	CU_ASSERT_EQUAL(f.id, 7);
	CU_ASSERT_EQUAL_FATAL(f.n, 2);
	CU_ASSERT_STRING_EQUAL(f.engines[1].name, "video");
	CU_ASSERT_EQUAL(f.engines[1].capacity, 2);
	CU_ASSERT_EQUAL(gated_fdinfo_grown(&f, &nothing, 0, MS), 9288864723);
	was = f;
	was.engines[0].ns += 1;
	CU_ASSERT_EQUAL(gated_fdinfo_grown(&f, &was, 0, MS), 0);
	gated_fdinfo_note(&was, &f);
	CU_ASSERT_EQUAL(was.engines[0].ns, 9288864724);
	CU_ASSERT(gated_fdinfo_parse(xe, &was));
	CU_ASSERT(gated_fdinfo_parse(later, &f));
	CU_ASSERT_EQUAL(gated_fdinfo_grown(&f, &was, 0, 10 * MS), 6 * MS);
	CU_ASSERT_FALSE(gated_fdinfo_parse(none, &f));
}

/* /proc of processes, each with a descriptor 7 of a GPU, of the same client, N further ones of
 * clients of its own, descriptor 6 of another GPU, and N others. */
#define CLIENT 100000u /* the first of them */
static struct {
	_Atomic uint64_t ns;
	_Atomic uint32_t others, searches, reads;
	_Atomic uint32_t locks; /* bytes, shown before the rest */
	_Atomic int error;	/* of searches */
	_Atomic uint32_t
		unseen; /* so many searches more find no descriptors of an ending process */
	_Atomic bool absent, no_id, blocked;
	_Atomic uint32_t clients, clients_of_last; /* the latter of process LAST */
	_Atomic uint32_t last;
	_Atomic uint32_t of_others;
} shown;

static uint32_t process_of(const char *path)
{
	return (uint32_t)atoi(path + strlen("/proc/"));
}

static void wait_while_blocked(void)
{
	while (atomic_load(&shown.blocked))
		poll(NULL, 0, 1);
}

static int shown_list(const char *path, int (*each)(void *data, const char *name), void *data)
{
	uint32_t i, clients, n = atomic_load(&shown.others);
	char name[16];
	int r = 0;

	if (strcmp(path, PCI_DEVICES "/0000:03:00.0/drm") == 0)
		return atomic_load(&shown.error) ? -ENOENT : each(data, "renderD128");
	atomic_fetch_add(&shown.searches, 1);
	wait_while_blocked();
	if (atomic_load(&shown.error))
		return atomic_load(&shown.error);
	if (atomic_load(&shown.unseen)) {
		atomic_fetch_sub(&shown.unseen, 1);
		return -ENOENT;
	}
	if (!atomic_load(&shown.absent))
		r = each(data, "7");
	for (i = 0; i < atomic_load(&shown.of_others) && r == 0; i++)
		r = each(data, "6");
	clients = atomic_load(process_of(path) == atomic_load(&shown.last) ? &shown.clients_of_last
									   : &shown.clients);
	for (i = 0; i < clients && r == 0; i++) {
		snprintf(name, sizeof(name), "%u", CLIENT + i);
		r = each(data, name);
	}
	for (i = 0; i < n && r == 0; i++) {
		snprintf(name, sizeof(name), "%u", 8 + i);
		r = each(data, name);
	}
	return r;
}

static bool shown_device(const char *path, uint32_t *major, uint32_t *minor)
{
	const char *name = strrchr(path, '/') + 1;

	*major = 226;
	*minor = strcmp(name, "6") == 0 ? 129 : 128;
	return strcmp(name, "7") == 0 || strcmp(name, "6") == 0 || (uint32_t)atoi(name) >= CLIENT;
}

static int shown_open(const char *path, int flags)
{
	static const char lock[] = "lock:\t1: OFDLCK  ADVISORY  READ -1 00:06:400 0 0\n";
	const uint32_t number = (uint32_t)atoi(strrchr(path, '/') + 1);
	uint32_t n;
	int fd;

	if (strncmp(path, PCI_DEVICES, strlen(PCI_DEVICES)) == 0) {
		fd = memfd_create("value", MFD_CLOEXEC);
		dprintf(fd, "0x30\n");
		return fd;
	}
	if (!strstr(path, "/fdinfo/") || strncmp(path, "/proc/self/", 11) == 0)
		return vfio_real_kernel.open(path, flags);
	atomic_fetch_add(&shown.reads, 1);
	wait_while_blocked();
	fd = memfd_create("fdinfo", MFD_CLOEXEC);
	for (n = 0; n < atomic_load(&shown.locks); n += (uint32_t)strlen(lock))
		dprintf(fd, "%s", lock);
	if (number >= CLIENT) {
		dprintf(fd, "drm-client-id: %u\n", process_of(path) * 100 + number - CLIENT);
		return fd;
	}
	if (!atomic_load(&shown.no_id))
		dprintf(fd, "drm-client-id: 1\n");
	/* What descriptor 6 shows is no concern of vgpud's. */
	dprintf(fd, "drm-engine-gfx: %llu ns\n",
		(unsigned long long)atomic_load(&shown.ns) * (number == 6 ? 100 : 1));
	return fd;
}

static struct vgpu_spent spent;

/* Dispatches until what the kernel's driver counts has come to vgpud. */
static bool counted(vgpu_nsec ns)
{
	now = vgpu_now();
	ops->device->spent(driver, &spent);
	return spent.driver[0] == ns;
}

static bool told(enum vgpu_violation what)
{
	return happened(VGPU_EV_VIOLATION, 0, what);
}

static int count_thread(void *data, const char *)
{
	++*(uint32_t *)data;
	return 0;
}

static uint32_t threads(void)
{
	uint32_t n = 0;

	vfio_real_kernel.list("/proc/self/task", count_thread, &n);
	return n;
}

static uint32_t threads_before;

static void show(void)
{
	static struct vfio_kernel kernel;

	kernel = vfio_real_kernel;
	kernel.list = shown_list;
	kernel.device = shown_device;
	kernel.open = shown_open;
	vfio_kernel = &kernel;
	memset(&shown, 0, sizeof(shown));
	threads_before = threads();
	device = "vulkan:0000:03:00.0";
}

static void begin_watched(struct player *p, enum vgpu_watch how, bool absent)
{
	show();
	atomic_store(&shown.absent, absent);
	atomic_store(&shown.ns, absent ? 0 : 5 * VGPU_SEC); /* before it was a worker */
	memset(&spent, 0, sizeof(spent));
	watch = how;
	CU_ASSERT_EQUAL_FATAL(open_driver(), 0);
	CU_ASSERT(caps.watches);
	give(0, getpid());
	CU_ASSERT_FATAL(enter(p));
	go(US);
	UNTIL(atomic_load(&shown.searches) > 0 && (absent || atomic_load(&shown.reads) > 2));
}

/* Waits until the watching thread has ended, which may look for longer than its driver waits for
 * it, and would then count into what the next test shows. */
static void stop_watching(void)
{
	vgpu_nsec limit = vgpu_now() + 30 * VGPU_SEC;

	while (threads() != threads_before && vgpu_now() < limit)
		poll(NULL, 0, 1);
	CU_ASSERT_EQUAL(threads(), threads_before);
	drop_all();
	watch = VGPU_WATCH_OFF;
	device = "vulkan:test device";
	vfio_kernel = &vfio_real_kernel;
}

/* Holds the watching thread in a look, before what the look shows is written. */
static void block(void)
{
	uint32_t reads;

	atomic_store(&shown.blocked, true);
	reads = atomic_load(&shown.reads);
	UNTIL(atomic_load(&shown.reads) > reads);
}

static void end_watched(void)
{
	close_driver();
	stop_watching();
}

/* A worker whose page says nothing, and which computes. In its turn it may; after that, what
 * drivers do on their own is no crime, and more is. */
static void computes_past_the_gate(enum vgpu_watch how)
{
	struct player p;
	bool found_out = false;
	uint32_t reads;

	begin_watched(&p, how, false);
	now = vgpu_now();
	command(0, VGPU_CMD_RUN);
	UNTIL(vgpu_now() > now + 100 * MS);
	atomic_fetch_add(&shown.ns, 100 * MS);
	UNTIL(counted(100 * MS));
	CU_ASSERT_EQUAL(spent.driver[0], 100 * MS);
	CU_ASSERT_EQUAL(spent.beyond[0], 0);
	now = vgpu_now();
	command(0, VGPU_CMD_IDLE);
	atomic_fetch_add(&shown.ns, 20 * MS);
	UNTIL(counted(120 * MS));
	CU_ASSERT_FALSE(told(VGPU_VIOLATION_GATE));
	/* Until what the turn allows is no longer credited: two whole rounds. */
	reads = atomic_load(&shown.reads);
	UNTIL(atomic_load(&shown.reads) > reads + 4);
	atomic_fetch_add(&shown.ns, 500 * MS);
	UNTIL(found_out || (found_out = told(VGPU_VIOLATION_GATE)));
	CU_ASSERT(found_out);
	CU_ASSERT_EQUAL(happened(VGPU_EV_HANG, 0, 0), how == VGPU_WATCH_END);
	UNTIL(counted(620 * MS));
	CU_ASSERT(spent.beyond[0] >= 500 * MS);
	end_watched();
}

TEST(test_past_the_gate, "past the gate")
{
	computes_past_the_gate(VGPU_WATCH_END);
	computes_past_the_gate(VGPU_WATCH_COUNT);
}

/* A turn is as long as the gate was open, also if the engine thread had no CPU in between, and the
 * watching thread none until the turn was over. */
TEST(test_long_turn, "a turn longer than meant")
{
	struct player p;
	vgpu_nsec began;

	begin_watched(&p, VGPU_WATCH_END, false);
	block();
	began = vgpu_now();
	command(0, VGPU_CMD_RUN);
	UNTIL(vgpu_now() > began + 300 * MS);
	atomic_fetch_add(&shown.ns, 300 * MS);
	command(0, VGPU_CMD_IDLE); /* by a time that was read before */
	atomic_store(&shown.blocked, false);
	UNTIL(counted(300 * MS));
	CU_ASSERT_EQUAL(spent.driver[0], 300 * MS);
	CU_ASSERT_EQUAL(spent.beyond[0], 0);
	CU_ASSERT_FALSE(told(VGPU_VIOLATION_GATE));
	end_watched();
}

/* A program asks at the door before its driver opens the GPU, and computes at once. */
TEST(test_new_client, "a new client")
{
	struct player p;
	uint32_t searches;

	begin_watched(&p, VGPU_WATCH_END, true);
	searches = atomic_load(&shown.searches);
	UNTIL(atomic_load(&shown.searches) > searches);
	now = vgpu_now();
	command(0, VGPU_CMD_RUN);
	UNTIL(vgpu_now() > now + 120 * MS);
	atomic_store(&shown.ns, 120 * MS);
	atomic_store(&shown.absent, false);
	UNTIL(counted(120 * MS));
	CU_ASSERT_EQUAL(spent.driver[0], 120 * MS);
	CU_ASSERT_EQUAL(spent.beyond[0], 0);
	CU_ASSERT_FALSE(told(VGPU_VIOLATION_GATE));
	end_watched();
}

static void hides(const char *how, bool expected)
{
	bool found_out = false;
	uint32_t reads = atomic_load(&shown.reads), searches = atomic_load(&shown.searches);

	UNTIL((found_out |= told(VGPU_VIOLATION_HIDES)) ||
	      (!expected && atomic_load(&shown.reads) > reads + 3 &&
	       atomic_load(&shown.searches) > searches + 6));
	if (found_out != expected)
		fprintf(stderr, "%s\n", how);
	CU_ASSERT_EQUAL(found_out, expected);
	CU_ASSERT(expected || atomic_load(&shown.reads) > reads + 3);
	CU_ASSERT(expected || atomic_load(&shown.searches) > searches + 6);
	CU_ASSERT_EQUAL(happened(VGPU_EV_HANG, 0, 0), expected);
	end_watched();
}

/* Work that another GPU does is its own affair; a process that cannot be looked through is not. */
TEST(test_hides, "hides")
{
	struct player p;

	begin_watched(&p, VGPU_WATCH_END, false);
	atomic_store(&shown.of_others, 100);
	atomic_fetch_add(&shown.locks, 10000);
	hides("descriptors of another GPU, and locks", false);
	CU_ASSERT_EQUAL(spent.beyond[0], 0);
	begin_watched(&p, VGPU_WATCH_END, false);
	atomic_store(&shown.others, 20000);
	hides("many descriptors", true);
	begin_watched(&p, VGPU_WATCH_END, false);
	atomic_store(&shown.locks, 100000);
	hides("many locks", true);
	begin_watched(&p, VGPU_WATCH_END, false);
	atomic_store(&shown.no_id, true);
	hides("no client's number", true);
	begin_watched(&p, VGPU_WATCH_END, false);
	atomic_store(&shown.error, -EACCES);
	hides("no descriptors", true);
}

/* A process that is ending shows none; that is no crime, however late the watching thread looks. */
TEST(test_late, "looks that come late")
{
	vgpu_nsec began;
	struct player p;

	begin_watched(&p, VGPU_WATCH_END, false);
	block();
	began = vgpu_now();
	UNTIL(vgpu_now() > began + 2500 * MS);
	atomic_store(&shown.unseen, 5);
	atomic_store(&shown.blocked, false);
	hides("an ending process", false);
	CU_ASSERT_EQUAL(atomic_load(&shown.unseen), 0);
}

static void *wait_for_end(void *)
{
	while (pause() != 0)
		;
	return NULL;
}

/* A descendant that comes through the door, and goes on as HOW says. */
enum how { LIVES, ENDS, ENDS_BUT_FOR_A_THREAD };
static pid_t descendant(enum how how)
{
	pid_t child = fork();
	pthread_t thread;
	struct player p;

	if (child > 0)
		return child;
	if (!enter(&p) || pthread_create(&thread, NULL, wait_for_end, NULL) != 0)
		_exit(1);
	if (how == ENDS_BUT_FOR_A_THREAD)
		pthread_exit(NULL);
	if (how == ENDS)
		_exit(0);
	wait_for_end(NULL);
	return 0;
}

static void end_descendant(pid_t child)
{
	CU_ASSERT_EQUAL(kill(child, SIGKILL), 0);
	CU_ASSERT_EQUAL(waitpid(child, NULL, 0), child);
}

/* The most that can be watched, and one more: descriptors of a process, clients of a VF. */
TEST(test_most, "as many as can be watched")
{
	pid_t child[2];
	struct player p;
	uint32_t more;

	for (more = 0; more < 2; more++) {
		begin_watched(&p, VGPU_WATCH_END, false);
		atomic_store(&shown.clients, 31 + more);
		hides("descriptors of the GPU", more > 0);
		begin_watched(&p, VGPU_WATCH_END, false);
		child[0] = descendant(LIVES);
		child[1] = descendant(LIVES);
		atomic_store(&shown.last, (uint32_t)child[1]);
		atomic_store(&shown.clients, 31);
		atomic_store(&shown.clients_of_last, 1 + more);
		hides("clients of a VF", more > 0);
		end_descendant(child[0]);
		end_descendant(child[1]);
	}
}

/* A process whose first thread has ended shows no descriptors any more, and its others may compute:
 * that is not so if it has ended altogether, whether its parent asks for its end or not. */
TEST(test_leader, "a first thread that has ended")
{
	struct player p;
	uint32_t searches;
	vgpu_nsec limit;
	pid_t child;

	begin_watched(&p, VGPU_WATCH_END, false);
	child = descendant(ENDS_BUT_FOR_A_THREAD);
	hides("a first thread that has ended", true);
	end_descendant(child);
	begin_watched(&p, VGPU_WATCH_END, false);
	child = descendant(ENDS);
	CU_ASSERT_EQUAL(waitid(P_PID, (id_t)child, NULL, WEXITED | WNOWAIT), 0);
	go(US); /* it is a worker; its end is seen at the next dispatch, which comes late */
	limit = vgpu_now() + 60 * VGPU_SEC;
	searches = atomic_load(&shown.searches);
	while (atomic_load(&shown.searches) < searches + 24 && vgpu_now() < limit)
		poll(NULL, 0, 1);
	hides("a process that has ended", false);
	CU_ASSERT_EQUAL(waitpid(child, NULL, 0), child);
}

/* What is counted while a VF is reset, also by a look that began before, and what the client of the
 * next owner had before, is nobody's crime; from then on it is. */
TEST(test_reset_watched, "a reset of who is watched")
{
	bool done = false, found_out = false;
	struct player p;
	uint32_t reads;
	pid_t child;
	int says;

	show();
	watch = VGPU_WATCH_END;
	memset(&spent, 0, sizeof(spent));
	CU_ASSERT_EQUAL_FATAL(open_driver(), 0);
	child = start_child(&says);
	UNTIL(atomic_load(&shown.reads) > 2);
	CU_ASSERT_EQUAL(command(0, VGPU_CMD_RUN), 0);
	CU_ASSERT_EQUAL(command(0, VGPU_CMD_IDLE), 0);
	block();
	CU_ASSERT_EQUAL(ops->device->reset(driver, 0, VGPU_RESET_VF, now), 0);
	atomic_fetch_add(&shown.ns, VGPU_SEC);
	CU_ASSERT_EQUAL(waitpid(child, NULL, 0), child);
	UNTIL(done || (done = happened(VGPU_EV_RESET_DONE, 0, VGPU_RESET_VF)));
	CU_ASSERT(done);
	atomic_store(&shown.blocked, false);
	UNTIL(counted(VGPU_SEC));
	atomic_fetch_add(&shown.ns, VGPU_SEC);
	CU_ASSERT_EQUAL(ops->seats->give(driver, 0, 0, 0, 0), 0);
	give(0, getpid());
	CU_ASSERT_FATAL(enter(&p));
	go(US);
	reads = atomic_load(&shown.reads);
	UNTIL(atomic_load(&shown.reads) > reads + 10);
	CU_ASSERT_FALSE(told(VGPU_VIOLATION_GATE));
	UNTIL(counted(VGPU_SEC));
	CU_ASSERT_EQUAL(spent.driver[0], VGPU_SEC);
	atomic_fetch_add(&shown.ns, 500 * MS);
	UNTIL(found_out || (found_out = told(VGPU_VIOLATION_GATE)));
	CU_ASSERT(found_out);
	CU_ASSERT_FALSE(told(VGPU_VIOLATION_GATE));
	end_watched();
}

/* The kernel does not answer: the driver closes all the same, and the thread then frees what it
 * had. */
TEST(test_blocked, "a look that does not end")
{
	struct player p;
	vgpu_nsec began;

	begin_watched(&p, VGPU_WATCH_END, false);
	block();
	began = vgpu_now();
	close_driver();
	CU_ASSERT(vgpu_now() - began < 30 * VGPU_SEC);
	CU_ASSERT_EQUAL(threads(), threads_before + 1);
	atomic_store(&shown.blocked, false);
	stop_watching();
}

/* What cannot be watched for is said, and keeps nobody from the GPU. */
TEST(test_unwatched, "no account to watch")
{
	watch = VGPU_WATCH_COUNT;
	CU_ASSERT_EQUAL(open_driver(), -EINVAL);
	show();
	atomic_store(&shown.error, -ENOENT);
	CU_ASSERT_EQUAL_FATAL(open_driver(), 0);
	CU_ASSERT_FALSE(caps.watches);
	CU_ASSERT(strncmp(caps.note, "watch: ", strlen("watch: ")) == 0);
	close_driver();
	stop_watching();
	CU_ASSERT_EQUAL_FATAL(open_driver(), 0);
	CU_ASSERT_FALSE(caps.watches);
	close_driver();
	drop_all();
}

TEST(test_names, "names")
{
	struct vgpu_error err;

	CU_ASSERT_EQUAL(ops->device->probe("vulkan:llvmpipe", &err), 1);
	CU_ASSERT_EQUAL(ops->device->probe("vulkan:", &err), -EINVAL);
	CU_ASSERT_EQUAL(ops->device->probe("null:", &err), 0);
}

SUITE_MAIN("gated")
