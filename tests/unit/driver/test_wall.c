/* SPDX-License-Identifier: MIT */
/*
 * The wall behind the Vulkan layer, with Linux's own seccomp: processes make the calls of DRM
 * drivers at /dev/null, since the filter does not see what a descriptor is of, or by hand at
 * another device, $VGPU_TEST_NODE. What passes has the error that it has without a wall. Gate and
 * door are those of the real driver.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The part that makes calls for others, here for terminals: this machine may have no GPU. */
#define DRM_MAJOR 5u /* /dev/ptmx */
#define wall_look look_at_terminal
#define wall_waits always_waits
#include "kept.h"
#include "look.c"
#undef wall_look
#undef wall_waits

#include "suite.h"
#include "vfio/kernel.h"
#include "vgpu/clock.h"
#include "vgpu/driver.h"
#include "vgpu/local_socket.h"
#include "vgpu/process.h"
#include "wall.h"

#define CS 0xc0186444ul /* amdgpu */
#define USERQ 0xc0486456ul
#define CTX 0xc0106442ul
#define US VGPU_USEC
#define THREADS 8u

static const struct vgpu_driver_ops *const ops = &vgpu_gated_driver;
static struct vgpu_driver *driver;
static struct vgpu_driver_found found;
static char door[64];
static vgpu_nsec now;

/* What parent and children share. */
static struct shared {
	_Atomic int step;	/* the child's */
	_Atomic int go;		/* the parent's: on to the step after this one */
	_Atomic int result[16]; /* errno of a call; -1: not made, or not back yet */
	_Atomic uint32_t keeper;
	_Atomic uint32_t
		epoch; /* odd: the gate is shut, and vgpud knows that nothing is under way */
	_Atomic uint64_t passed, past;
} * shared;

static bool busy, idle, was_reset, up;

static void sink(void *, const struct vgpu_event *event)
{
	busy = event->type == VGPU_EV_BUSY || (busy && event->type != VGPU_EV_EMPTY);
	idle |= event->type == VGPU_EV_DONE && event->code == VGPU_CMD_IDLE;
	was_reset |= event->type == VGPU_EV_RESET_DONE;
	up |= event->type == VGPU_EV_RELEASE;
}

/* Something did not happen in time: what follows is not waited for. */
static bool gave_up;

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		struct pollfd p_ = {.fd = ops->device->fd(driver), .events = POLLIN};              \
		vgpu_nsec limit_ = gave_up ? 0 : vgpu_now() + 30 * VGPU_SEC;                       \
		while (!(condition) && vgpu_now() < limit_) {                                      \
			poll(&p_, 1, 1);                                                           \
			now += US;                                                                 \
			ops->device->dispatch(driver, now);                                        \
		}                                                                                  \
		gave_up |= !(condition);                                                           \
		CU_ASSERT(condition);                                                              \
	} while (0)

static int open_driver(const char *wall)
{
	struct vgpu_driver_config config = {.device = "vulkan:test device",
					    .n_vfs = 1,
					    .door = door,
					    .wall = wall};
	struct vgpu_driver_caps caps;
	struct vgpu_error err = {""};
	int r;

	vfio_store = &store;
	snprintf(door, sizeof(door), "/tmp/vgpud-test-wall.%d", (int)getpid());
	busy = idle = was_reset = up = false;
	now = vgpu_now();
	r = ops->device->open(&driver, &config, &caps, &found, sink, NULL, &err);
	if (r < 0)
		fprintf(stderr, "%s\n", err.text);
	return r;
}

static void command(enum vgpu_command c)
{
	struct vgpu_order order = {0, c, false};

	CU_ASSERT_EQUAL(ops->switched->commands(driver, &order, 1, now), 0);
}

static void stop(void)
{
	idle = false;
	command(VGPU_CMD_IDLE);
	UNTIL(idle);
}

static const char *node(void)
{
	const char *named = getenv("VGPU_TEST_NODE");

	return named ? named : "/dev/null";
}

/* A call of a DRM driver; the error that it ends with. */
static int call(unsigned long request)
{
	int fd = open(node(), O_RDWR | O_CLOEXEC), r;
	char argument[64] = "";

	r = ioctl(fd, request, argument) < 0 ? errno : 0;
	close(fd);
	return r;
}

/* In a child: says that it has come to its next step, and waits until the parent wants that. */
static void step(void)
{
	int at = atomic_fetch_add(&shared->step, 1) + 1;

	while (atomic_load(&shared->go) < at)
		usleep(200);
}

/* The VF's driver comes up, as it does from when somebody has the VF. */
static void come_up(void)
{
	up = false;
	command(VGPU_CMD_INIT);
	ops->switched->notice(driver, 0, VGPU_NOTICE_READY);
	UNTIL(up);
}

/* Begins a child, gives it the VF, and lets it take up the wall. PLAY is what it does then. */
static pid_t begin(void (*play)(void), bool spares)
{
	struct vgpu_process p;
	pid_t child;
	size_t i;

	if (!shared)
		shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset((void *)shared, 0, sizeof(*shared));
	for (i = 0; i < 16; i++)
		atomic_store(&shared->result[i], -1);
	child = fork();
	if (child == 0) {
		struct vgpu_error err = {""};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		step();
		if (wall_take_up(door, spares, &err) < 0) {
			fprintf(stderr, "%s\n", err.text);
			_exit(1);
		}
		atomic_store(&shared->keeper, (uint32_t)atoi(getenv(GATE_WALL_KEEPER)));
		play();
		_exit(0);
	}
	CU_ASSERT_EQUAL_FATAL(vgpu_process_read((uint32_t)child, &p), 0);
	CU_ASSERT_EQUAL(ops->seats->give(driver, 0, (uint32_t)child, p.started, 0), 0);
	come_up();
	atomic_store(&shared->go, 1);
	return child;
}

static void end(pid_t child, bool well)
{
	int status;

	if (gave_up)
		kill(child, SIGKILL);
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(WIFEXITED(status) && WEXITSTATUS(status) == 0, well);
}

/* Ends a process that a child has named. It has named none if it failed: -1 would be everybody. */
static void end_named(pid_t process)
{
	if (process > 0)
		kill(process, SIGKILL);
}

/* Also of one that its parent, which may be this machine's first process, does not wait for. */
static bool has_ended(pid_t process)
{
	char path[64], state = 'X';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", process);
	f = fopen(path, "r");
	if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = '?';
	if (f)
		fclose(f);
	return state == 'X' || state == 'Z';
}

static void close_all(void)
{
	ops->device->close(driver, false);
	drop_all();
}

#define RESULT(n) atomic_load(&shared->result[n])
#define AGAIN_BUSY                                                                                 \
	do {                                                                                       \
		UNTIL(!busy);                                                                      \
		UNTIL(busy);                                                                       \
	} while (0)

/* As a process of the layer it comes through the door. */
static struct gate_worker *become_worker(int *status)
{
	struct gate_welcome welcome = {.status = -1};
	struct vgpu_received got = {.n_fds = 0};
	int fd = vgpu_socket_connect(door, 0);
	void *page = NULL;

	if (fd >= 0 &&
	    vgpu_socket_receive(fd, &welcome, sizeof(welcome), 0, &got) == sizeof(welcome) &&
	    got.n_fds == GATE_DESCRIPTORS)
		page = mmap(NULL, GATE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, got.fds[2], 0);
	*status = welcome.status;
	return page;
}

static const unsigned long same[] = {CS, 0x44, 0xffffff44, 0x123456789abcde44};

static void play_gate(void)
{
	struct gate_worker *worker;
	int status;
	size_t i;

	/* Whatever else the command says, the kernel's driver sees its low byte alone. */
	for (i = 0; i < 4; i++) {
		atomic_store(&shared->result[i], call(same[i]));
		step();
	}
	worker = become_worker(&status);
	if (!worker)
		_exit(2);
	atomic_store(&worker->in_flight, 1);
	step();
	/* vgpud has shut the gate, and waits for what is in flight. */
	atomic_store(&shared->result[4], call(CS));
	atomic_store(&worker->in_flight, 0);
	step();
	atomic_store(&shared->result[5], call(CS));
}

/* A submission waits for the gate, gets its VF a turn, and passes then; also one that was let in
 * before the gate was shut, until vgpud has seen the end of all of them. */
TEST(test_gate, "gate")
{
	pid_t child;
	int i;

	CU_ASSERT_EQUAL_FATAL(open_driver("amdgpu"), 0);
	child = begin(play_gate, false);
	for (i = 0; i < 4; i++) {
		UNTIL(busy);
		CU_ASSERT_EQUAL(RESULT(i), -1);
		command(VGPU_CMD_RUN);
		UNTIL(RESULT(i) == call(same[i]));
		stop();
		UNTIL(!busy);
		atomic_store(&shared->go, i + 2);
	}
	UNTIL(atomic_load(&shared->step) == 6);
	command(VGPU_CMD_RUN);
	idle = false;
	command(VGPU_CMD_IDLE);
	CU_ASSERT_FALSE(idle);
	atomic_store(&shared->go, 6);
	UNTIL(RESULT(4) == call(CS));
	UNTIL(idle);
	UNTIL(!busy);
	atomic_store(&shared->go, 7);
	UNTIL(busy);
	CU_ASSERT_EQUAL(RESULT(5), -1);
	command(VGPU_CMD_RUN);
	end(child, true);
	CU_ASSERT_EQUAL(RESULT(5), call(CS));
	close_all();
}

#if defined(__x86_64__)
static int call_32(unsigned long request)
{
	long r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(54l), "b"(0l), "c"(request), "d"(0l)
			 : "memory");
	return (int)-r;
}
#endif

static int error_of(long r)
{
	return r < 0 ? errno : 0;
}

static void play_ways(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3];
	char argument[64] = "";
	int pidfd, own;

	atomic_store(&shared->result[0], call(USERQ));
	atomic_store(&shared->result[1], call(0x56));
	atomic_store(&shared->result[2], error_of(syscall(SYS_io_uring_setup, 1, argument)));
	atomic_store(&shared->result[3],
		     error_of(ptrace(PTRACE_ATTACH, (pid_t)atomic_load(&shared->keeper), 0, 0)));
	pidfd = (int)syscall(SYS_pidfd_open, getppid(), 0);
	own = pidfd >= 0;
	atomic_store(&shared->result[4], own ? error_of(syscall(SYS_pidfd_getfd, pidfd, 0, 0)) : 0);
	atomic_store(&shared->result[5],
		     error_of(syscall(SYS_process_vm_writev, getppid(), NULL, 0, NULL, 0, 0)));
#if defined(__x86_64__)
	atomic_store(&shared->result[6], call_32(CS));
	atomic_store(&shared->result[7],
		     error_of(syscall(SYS_ioctl | 0x40000000, 0, CS, argument)));
#else
	atomic_store(&shared->result[6], ENOSYS);
	atomic_store(&shared->result[7], ENOSYS);
#endif
	/* What is looked at is never let pass at a descriptor that may become another one. */
	atomic_store(&shared->result[8], call(CTX));
	/* Filters of its own, with a keeper of its own: none; and other calls are as ever. */
	atomic_store(&shared->result[9], -wall_filter(vgpu_wall_of("amdgpu")));
	atomic_store(&shared->result[10], call(0xc0106441));
	atomic_store(&shared->result[11], prctl(PR_CAPBSET_READ, CAP_SYS_NICE, 0, 0, 0));
	atomic_store(&shared->result[12], error_of(syscall(SYS_capget, &head, has)));
	/* Whoever is not root may have it otherwise: ambient, from its service. */
	atomic_store(&shared->result[13],
		     !!((has[0].permitted | has[0].inheritable) & CAP_TO_MASK(CAP_SYS_NICE)));
}

/* Other ways past the wall. */
TEST(test_ways, "ways")
{
	const int want[] = {EACCES, EACCES,    ENOSYS, ENOSYS,		 ENOSYS, ENOSYS, ENOSYS,
			    ENOSYS, call(CTX), EBUSY,  call(0xc0106441), 0,	 0,	 0};
	pid_t child;
	size_t i;

	CU_ASSERT_EQUAL_FATAL(open_driver("amdgpu"), 0);
	child = begin(play_ways, false);
	end(child, true);
	for (i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		if (RESULT(i) != want[i])
			fprintf(stderr, "way %zu: error %d, want %d\n", i, RESULT(i), want[i]);
		CU_ASSERT_EQUAL(RESULT(i), want[i]);
	}
	close_all();
}

static void play_descendants(void)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(fork() == 0 ? call(CS) : (wait(&status), WEXITSTATUS(status)));
	wait(&status);
	atomic_store(&shared->result[0], WEXITSTATUS(status));
	step();
	child = fork();
	if (child == 0) {
		execlp("perl", "perl", "-e",
		       "open(F, '+<', $ARGV[0]); ioctl(F, 0xc0186444, my $a = '0' x 64); "
		       "exit($!+0)",
		       node(), NULL);
		_exit(127);
	}
	wait(&status);
	atomic_store(&shared->result[1], WEXITSTATUS(status));
}

/* Children, and what they become. wait() knows no keeper. */
TEST(test_descendants, "descendants")
{
	pid_t child;

	CU_ASSERT_EQUAL_FATAL(open_driver("amdgpu"), 0);
	child = begin(play_descendants, false);
	UNTIL(busy);
	CU_ASSERT_EQUAL(RESULT(0), -1);
	command(VGPU_CMD_RUN);
	UNTIL(RESULT(0) == call(CS));
	stop();
	atomic_store(&shared->go, 2);
	AGAIN_BUSY;
	CU_ASSERT_EQUAL(RESULT(1), -1);
	command(VGPU_CMD_RUN);
	end(child, true);
	CU_ASSERT_EQUAL(RESULT(1), call(CS));
	close_all();
}

static void *submit_all_the_time(void *)
{
	for (;;) {
		uint32_t epoch = atomic_load(&shared->epoch);

		call(CS);
		atomic_fetch_add(&shared->passed, 1);
		if (epoch & 1 && atomic_load(&shared->epoch) == epoch)
			atomic_fetch_add(&shared->past, 1);
	}
	return NULL;
}

static void play_flood(void)
{
	pthread_t threads[THREADS];
	uint32_t i;

	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, submit_all_the_time, NULL);
	pause();
}

/* A process that has no layer any more submits all the time, in threads: nothing that was begun
 * while the gate was shut comes back before it opens. */
TEST(test_flood, "flood")
{
	uint64_t before;
	pid_t child;
	int i;

	CU_ASSERT_EQUAL_FATAL(open_driver("amdgpu"), 0);
	child = begin(play_flood, false);
	atomic_store(&shared->epoch, 1);
	for (i = 0; i < 200; i++) {
		UNTIL(busy);
		before = atomic_load(&shared->passed);
		atomic_fetch_add(&shared->epoch, 1);
		command(VGPU_CMD_RUN);
		UNTIL(atomic_load(&shared->passed) > before);
		stop();
		atomic_fetch_add(&shared->epoch, 1);
		usleep(2000);
	}
	CU_ASSERT(atomic_load(&shared->passed) >= 200);
	CU_ASSERT_EQUAL(atomic_load(&shared->past), 0);
	kill(child, SIGKILL);
	end(child, false);
	close_all();
}

static void play_keeper_dies(void)
{
	int status, tries;

	atomic_store(&shared->result[0],
		     error_of(kill((pid_t)atomic_load(&shared->keeper), SIGKILL)));
	while (kill((pid_t)atomic_load(&shared->keeper), 0) == 0)
		waitpid((pid_t)atomic_load(&shared->keeper), &status, __WCLONE | WNOHANG);
	atomic_store(&shared->result[1], call(CS));
	/* The door hears of it a little later. */
	for (tries = 0, status = 0; tries < 10 && status == 0; tries++) {
		become_worker(&status);
		usleep(50000);
	}
	atomic_store(&shared->result[2], status);
}

/* Without its keeper nothing passes, whether the gate is open or not, and nobody is let in. */
TEST(test_keeper_dies, "keeper")
{
	pid_t child;

	CU_ASSERT_EQUAL_FATAL(open_driver("amdgpu"), 0);
	command(VGPU_CMD_RUN);
	child = begin(play_keeper_dies, false);
	UNTIL(RESULT(2) != -1);
	end(child, true);
	CU_ASSERT_EQUAL(RESULT(0), 0);
	CU_ASSERT_EQUAL(RESULT(1), ENOSYS);
	CU_ASSERT_EQUAL(RESULT(2), EPERM);
	close_all();
}

static void play_hidden(void)
{
	signal(SIGCHLD, SIG_IGN);
	/* It has never been at the door. */
	if (fork() == 0) {
		call(CS);
		atomic_store(&shared->result[0], getpid());
		for (;;)
			pause();
	}
	step();
	atomic_store(&shared->result[1], call(CS));
	pause();
}

/* A reset ends all processes that have submitted something, known to vgpud or not; the wall stays.
 */
TEST(test_hidden, "hidden")
{
	pid_t child, hidden;

	CU_ASSERT_EQUAL_FATAL(open_driver("amdgpu"), 0);
	child = begin(play_hidden, false);
	UNTIL(busy);
	command(VGPU_CMD_RUN);
	UNTIL(RESULT(0) != -1);
	hidden = RESULT(0);
	CU_ASSERT(!has_ended(hidden));
	CU_ASSERT_EQUAL(ops->device->reset(driver, 0, VGPU_RESET_VF, now), 0);
	UNTIL(was_reset);
	UNTIL(has_ended(hidden));
	CU_ASSERT_EQUAL(kill((pid_t)atomic_load(&shared->keeper), 0), 0);
	/* Its owner, which had submitted nothing, lives, and waits for the gate. */
	come_up();
	atomic_store(&shared->go, 2);
	UNTIL(busy);
	CU_ASSERT_EQUAL(RESULT(1), -1);
	kill(child, SIGKILL);
	end(child, false);
	close_all();
}

/* Forks a child with a number, which only root may choose: else, with any. */
static pid_t fork_as(pid_t number)
{
	struct clone_args args = {.exit_signal = SIGCHLD,
				  .set_tid = (uint64_t)(uintptr_t)&number,
				  .set_tid_size = 1};
	pid_t child = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	return child < 0 && errno == EPERM ? fork() : child;
}

static void play_same_number(void)
{
	pid_t first = fork();

	if (first == 0) {
		call(CS);
		_exit(0);
	}
	waitpid(first, NULL, 0);
	signal(SIGCHLD, SIG_IGN);
	if (fork_as(first) == 0) {
		call(CS);
		atomic_store(&shared->result[0], getpid());
		for (;;)
			pause();
	}
	pause();
}

/* A reset also ends a process that has the number of one that had submitted something, and ended.
 */
TEST(test_same_number, "number")
{
	pid_t child, second;

	CU_ASSERT_EQUAL_FATAL(open_driver("amdgpu"), 0);
	child = begin(play_same_number, false);
	UNTIL(busy);
	command(VGPU_CMD_RUN);
	UNTIL(RESULT(0) != -1);
	second = RESULT(0);
	CU_ASSERT_EQUAL(ops->device->reset(driver, 0, VGPU_RESET_VF, now), 0);
	UNTIL(was_reset);
	UNTIL(has_ended(second));
	end_named(second);
	kill(child, SIGKILL);
	end(child, false);
	close_all();
}

/* Takes up the wall in a child that has no standard input and output. Returns its status. */
static int take_up_bare(void)
{
	struct vgpu_error err = {""};
	pid_t child = fork();
	int status = -1;

	if (child == 0) {
		alarm(30);
		close(STDIN_FILENO);
		close(STDOUT_FILENO);
		if (wall_take_up(door, false, &err) == 0)
			_exit(prctl(PR_GET_SECCOMP) == 2 ? 0 : 2);
		_exit(1);
	}
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Where nobody is, there is no wall; where nobody answers, nothing is started without one. */
TEST(test_answers, "answers")
{
	char path[96], long_door[108];
	struct vgpu_driver_config config = {.device = "vulkan:x",
					    .n_vfs = 1,
					    .door = long_door,
					    .wall = "amdgpu"};
	struct vgpu_driver_caps caps;
	struct vgpu_error err = {""};
	int fd;

	CU_ASSERT_EQUAL_FATAL(open_driver("amdgpu"), 0);
	CU_ASSERT_EQUAL(take_up_bare(), 0);
	close_all();
	CU_ASSERT_EQUAL(take_up_bare(), 2);
	close(open(door, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	CU_ASSERT_EQUAL(take_up_bare(), 2);
	snprintf(path, sizeof(path), "%s" GATE_WALL_DOOR, door);
	fd = vgpu_socket_listen(path, 0, 8, &err);
	CU_ASSERT(fd >= 0);
	CU_ASSERT_EQUAL(take_up_bare(), 1);
	close(fd);
	unlink(path);
	unlink(door);
	/* The walls' door has a longer name. */
	snprintf(long_door, sizeof(long_door), "/tmp/vgpud-test-%0*d", 90, (int)getpid());
	CU_ASSERT_EQUAL(ops->device->open(&driver, &config, &caps, &found, sink, NULL, &err),
			-ENAMETOOLONG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, GATE_WALL_DOOR ": File name too long"));
	unlink(long_door);
}

static void play_spared(void)
{
	/* QEMU's own, with the gate shut. */
	atomic_store(&shared->result[0], call(CS));
	atomic_store(&shared->result[1], call(USERQ));
	if (fork() == 0) {
		atomic_store(&shared->result[2], call(CS));
		_exit(0);
	}
	wait(NULL);
}

/* QEMU itself is spared, and nobody else of its VM. */
TEST(test_spared, "spared")
{
	pid_t child;

	CU_ASSERT_EQUAL_FATAL(open_driver("amdgpu"), 0);
	child = begin(play_spared, true);
	UNTIL(busy);
	CU_ASSERT_EQUAL(RESULT(0), call(CS));
	CU_ASSERT_EQUAL(RESULT(1), call(CS));
	CU_ASSERT_EQUAL(RESULT(2), -1);
	command(VGPU_CMD_RUN);
	end(child, true);
	CU_ASSERT_EQUAL(RESULT(2), call(CS));
	close_all();
}

static void play_once(void)
{
	atomic_store(&shared->result[0], call(CS));
	step();
	atomic_store(&shared->result[1], call(CS));
}

/* vgpud is killed: what is held stays held, and the next vgpud gives it its turn. A VF without a
 * wall has none to keep. */
TEST(test_adoption, "adoption")
{
	pid_t child;

	CU_ASSERT_EQUAL_FATAL(open_driver("amdgpu"), 0);
	child = begin(play_once, false);
	UNTIL(busy);
	ops->device->close(driver, false);
	CU_ASSERT_EQUAL_FATAL(open_driver("amdgpu"), 0);
	CU_ASSERT(found.adopted);
	UNTIL(busy);
	CU_ASSERT_EQUAL(RESULT(0), -1);
	command(VGPU_CMD_RUN);
	UNTIL(RESULT(0) == call(CS));
	stop();
	UNTIL(!busy);
	/* The keeper is no process that a reset ends, also for the next vgpud. */
	CU_ASSERT_EQUAL(ops->device->reset(driver, 0, VGPU_RESET_VF, now), 0);
	UNTIL(was_reset);
	CU_ASSERT_EQUAL(kill((pid_t)atomic_load(&shared->keeper), 0), 0);
	kill(child, SIGKILL);
	end(child, false);
	close_all();
}

static void play_heir(void)
{
	int status;

	become_worker(&status);
	atomic_store(&shared->result[0], status);
	atomic_store(&shared->result[1], call(CS));
}

static void play_leaves_one(void)
{
	pid_t left = fork();

	if (left == 0)
		for (;;)
			pause();
	atomic_store(&shared->result[0], left);
}

/* A program has left a process that has never submitted anything: the wall of who has the VF next
 * is its own, and the former one falls. */
TEST(test_heir, "heir")
{
	pid_t child, former, left;

	CU_ASSERT_EQUAL_FATAL(open_driver("amdgpu"), 0);
	child = begin(play_leaves_one, false);
	end(child, true);
	former = (pid_t)atomic_load(&shared->keeper);
	left = RESULT(0);
	CU_ASSERT_EQUAL(ops->device->reset(driver, 0, VGPU_RESET_VF, now), 0);
	UNTIL(was_reset);
	CU_ASSERT(!has_ended(former));
	child = begin(play_heir, false);
	UNTIL(busy);
	CU_ASSERT_EQUAL(RESULT(0), 0);
	CU_ASSERT_EQUAL(RESULT(1), -1);
	command(VGPU_CMD_RUN);
	end(child, true);
	CU_ASSERT_EQUAL(RESULT(1), call(CS));
	UNTIL(has_ended(former));
	end_named(left);
	close_all();
}

bool always_waits(int listener, const struct seccomp_notif *)
{
	return listener == 0;
}

/* A call that is looked at is made at the caller's descriptor, with a copy of what it gives. The
 * call is TIOCGPTN, which writes the terminal's number. */
TEST(test_look, "look")
{
	struct vgpu_wall_row row = {.kind = VGPU_WALL_LOOKED,
				    .command = TIOCGPTN,
				    .rules = {{0, 0, 77, 0, 0}},
				    .n_rules = 1};
	struct seccomp_notif n = {.data.args = {0, TIOCGPTN, 0}};
	int64_t result = -1;
	int in[2], out[2], terminal = posix_openpt(O_RDWR | O_NOCTTY), null;
	unsigned int number = 0, *value;
	pid_t child;

	CU_ASSERT_FATAL(terminal >= 0 && ioctl(terminal, TIOCGPTN, &number) == 0);
	CU_ASSERT_EQUAL_FATAL(pipe(in), 0);
	CU_ASSERT_EQUAL_FATAL(pipe(out), 0);
	null = open("/dev/null", O_RDWR);
	value = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	child = fork();
	if (child == 0) {
		*value = 5;
		if (write(out[1], "x", 1) < 0 || read(in[0], &number, 1) < 0)
			_exit(1);
		_exit(*value == number ? 0 : 2);
	}
	CU_ASSERT_EQUAL(read(out[0], &(char){0}, 1), 1);
	n.data.args[0] = (uint64_t)terminal;
	n.data.args[2] = (uint64_t)(uintptr_t)value;
	CU_ASSERT_EQUAL(look_at_terminal(0, &n, child, &row, &result), 0);
	CU_ASSERT_EQUAL(result, 0);
	CU_ASSERT_EQUAL(*value, 0); /* the caller's memory, and not this process's */
	/* What may not be; a descriptor and an address that are none; another device; an end. */
	row.rules[0].is = (int32_t)number;
	row.rules[0].low = row.rules[0].high = (int32_t)number + 1;
	CU_ASSERT_EQUAL(look_at_terminal(0, &n, child, &row, &result), -EACCES);
	CU_ASSERT_EQUAL(look_at_terminal(1, &n, child, &row, &result), -ESRCH);
	row.n_rules = 0;
	n.data.args[2] = 1;
	CU_ASSERT_EQUAL(look_at_terminal(0, &n, child, &row, &result), -EFAULT);
	n.data.args[0] = (uint64_t)null;
	CU_ASSERT_EQUAL(look_at_terminal(0, &n, child, &row, &result), -ENOTTY);
	n.data.args[0] = 999;
	CU_ASSERT_EQUAL(look_at_terminal(0, &n, child, &row, &result), -EPERM);
	CU_ASSERT_EQUAL(write(in[1], "x", 1), 1);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(terminal);
	close(null);
	munmap((void *)value, 4096);
}

/* What calls that are looked at may ask for. */
TEST(test_rules, "rules")
{
	const struct vgpu_wall_row *ctx = vgpu_wall_row_of(vgpu_wall_of("amdgpu"), CTX),
				   *queue = vgpu_wall_row_of(vgpu_wall_of("msm"), 0x4a);
	const struct {
		int32_t op, priority;
		bool may;
	} contexts[] = {{1, 0, true},	  {1, -512, true}, {1, 1, false}, {1, 512, false},
			{1, 1023, false}, {2, 512, true},  {5, 0, true},  {6, 0, false}};
	const struct vgpu_wall *w;
	size_t i;

	for (i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++) {
		const int32_t argument[4] = {contexts[i].op, 0, 0, contexts[i].priority};

		CU_ASSERT_EQUAL(vgpu_wall_allows(ctx, argument), contexts[i].may);
	}
	CU_ASSERT_FALSE(vgpu_wall_allows(queue, ((const int32_t[3]){0, 0, 0})));
	CU_ASSERT(vgpu_wall_allows(queue, ((const int32_t[3]){0, 1, 0})));
	for (w = vgpu_walls; w->driver; w++) {
		CU_ASSERT(strlen(w->driver) < 16);
		for (i = 0; i < VGPU_WALL_CALLS && w->rows[i].number; i++) {
			const struct vgpu_wall_row *row = &w->rows[i];

			/* DRM's own calls are below, and KVM_RUN would be slow. */
			CU_ASSERT(row->number >= 0x40 && row->number != 0x80);
			if (row->kind != VGPU_WALL_LOOKED)
				continue;
			CU_ASSERT_EQUAL(row->command & 0xff, row->number);
			CU_ASSERT(_IOC_SIZE(row->command) <= VGPU_WALL_COPY);
		}
	}
}

/* Render nodes of a simulated host: "NODE DRIVER, ..." */
static const char *nodes;

static int list(const char *path, int (*each)(void *data, const char *name), void *data)
{
	char text[256], *word, *rest;
	int r = 0;

	CU_ASSERT_STRING_EQUAL(path, "/sys/class/drm");
	snprintf(text, sizeof(text), "%s", nodes);
	for (word = strtok_r(text, " ,", &rest); word && r == 0; word = strtok_r(NULL, " ,", &rest))
		r = each(data, word);
	return r;
}

static ssize_t read_link(const char *path, char *out, size_t size)
{
	char name[32] = "", of[32] = "";
	const char *at;

	if (strcmp(path, "/sys/bus/pci/devices/0000:03:00.0/driver") == 0)
		return snprintf(out, size, "../../amdgpu");
	if (sscanf(path, "/sys/class/drm/%31[^/]", name) != 1 || !(at = strstr(nodes, name)) ||
	    sscanf(at + strlen(name), " %31[^,]", of) != 1)
		return -ENOENT;
	return snprintf(out, size, "../../%s", of);
}

/* Which wall a GPU has: that of its driver; if the device is named otherwise than by its address,
 * that of the only driver that has one. */
TEST(test_which, "which")
{
	static const struct {
		const char *nodes, *wall, *of; /* NULL: refused */
	} cases[] = {
		{"", "auto", ""},
		{"renderD128 amdgpu,card0 amdgpu,renderD129 amdgpu", "auto", "amdgpu"},
		{"renderD128 nvidia,renderD129 xe", "auto", "xe"},
		{"renderD128 msm_dpu,renderD129 adreno", "auto", "msm"},
		{"renderD128 vc4-drm", "auto", "vc4"},
		{"renderD128 vc4-drm,renderD129 msm_mdp", "auto", NULL},
		{"renderD128 i915,renderD129 amdgpu", "auto", NULL},
		{"renderD128 i915,renderD129 amdgpu", "i915", "i915"},
		{"renderD128 amdgpu", "off", ""},
		{"renderD128 amdgpu", "radeon", NULL},
	};
	struct vfio_kernel kernel = vfio_real_kernel;
	struct gate_wall answer = {.driver = ""};
	struct vgpu_driver_config config = {.device = "vulkan:ffff:ff:1f.7"};
	struct vgpu_driver_caps caps = {.max_vfs = 0};
	struct vgpu_received got;
	struct vgpu_error err = {""};
	char path[96];
	size_t i;
	int fd;

	CU_ASSERT_EQUAL(ops->device->check(&config, &caps, &err), -ENODEV);
	CU_ASSERT_STRING_EQUAL(err.text, "ffff:ff:1f.7: no such PCI function");
	kernel.list = list;
	kernel.readlink = read_link;
	vfio_kernel = &kernel;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		nodes = cases[i].nodes;
		CU_ASSERT_EQUAL(open_driver(cases[i].wall) < 0, cases[i].of == NULL);
		if (!cases[i].of)
			continue;
		snprintf(path, sizeof(path), "%s" GATE_WALL_DOOR, door);
		fd = vgpu_socket_connect(path, 0);
		CU_ASSERT_EQUAL(fd >= 0, cases[i].of[0] != '\0');
		if (fd >= 0) {
			/* A stranger learns the driver, and no more. */
			CU_ASSERT_EQUAL(vgpu_socket_receive(fd, &answer, sizeof(answer), 0, &got),
					sizeof(answer));
			CU_ASSERT_EQUAL(answer.welcome.status, EPERM);
			CU_ASSERT_EQUAL(got.n_fds, 0);
			CU_ASSERT_STRING_EQUAL(answer.driver, cases[i].of);
			close(fd);
		}
		close_all();
	}
	vfio_kernel = &vfio_real_kernel;
}

SUITE_MAIN("wall")
