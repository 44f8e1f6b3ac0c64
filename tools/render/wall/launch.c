/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"
#include "wall.h"

/* Closes all descriptors of the program except standard error and BUT, which becomes descriptor
 * 3. */
static void leave_all(int but)
{
	int null, i;

	dup2(but, 3); /* first, because it may be one of those that are closed below */
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (i = 0; i < 2; i++)
		dup2(null, i);
	syscall(SYS_close_range, 4u, ~0u, 0);
}

/* Turns this process into the keeper: asks vgpud at DOOR, tells LAUNCHER the driver of the wall,
 * receives the listener, and answers calls. Does not return. */
static void become_keeper(int launcher, const char *door, pid_t owner, bool spares)
{
	struct vgpu_received got = {.n_fds = 0};
	struct wall_gate gate;
	sigset_t none;
	char byte;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* In its own session the keeper gets no signals from the terminal. PR_SET_DUMPABLE 0 keeps
	 * the program, which has the same user, from tracing it. */
	setsid();
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	prctl(PR_SET_NAME, "vgpud-wall", 0, 0, 0);
	leave_all(launcher);
	launcher = 3;
	if (wall_knock(door, &gate) < 0)
		_exit(1);
	if (vgpu_socket_send_all(launcher, gate.driver, sizeof(gate.driver)) < 0 ||
	    !vgpu_wall_of(gate.driver) || vgpu_socket_receive(launcher, &byte, 1, 0, &got) != 1 ||
	    got.n_fds != 1)
		_exit(0);
	if (vgpu_socket_send_all(launcher, &byte, 1) < 0)
		_exit(0);
	close(launcher);
	wall_keep(got.fds[0], door, &gate, owner, spares);
	_exit(0);
}

/* Gives up CAP_SYS_NICE, which a process that can gain no privileges cannot get back. Returns 0 or
 * -errno. */
static int give_up_nice(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3];
	const uint32_t nice = CAP_TO_MASK(CAP_SYS_NICE);

	if (prctl(PR_CAPBSET_READ, CAP_SYS_NICE, 0, 0, 0) == 1)
		prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0);
	if (syscall(SYS_capget, &head, has) < 0)
		return -errno;
	has[0].effective &= ~nice;
	has[0].permitted &= ~nice;
	has[0].inheritable &= ~nice; /* this removes it from the ambient set, too */
	return syscall(SYS_capset, &head, has) < 0 ? -errno : 0;
}

/* Sets the filter, and passes its listener to the keeper. Returns 0 or -errno. */
static int set_up(int keeper, const struct vgpu_wall *wall)
{
	VGPU_AUTO_CLOSE int listener = -1;
	char byte = 0;
	struct iovec part = {&byte, 1};
	int r = give_up_nice();

	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	listener = wall_filter(wall);
	if (listener < 0)
		return listener;
	if (vgpu_socket_send(keeper, &part, 1, &listener, 1, 0) != 1 || read(keeper, &byte, 1) != 1)
		return -EPIPE;
	return 0;
}

int wall_take_up(const char *door, bool spares, struct vgpu_error *err)
{
	const struct vgpu_wall *wall;
	pid_t owner = getpid(), keeper;
	char driver[sizeof(((struct gate_wall *)0)->driver)] = "", text[16];
	int ends[2], r = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return vgpu_error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	/* clone() without an exit signal, so that the program's wait() does not return the
	 * keeper. */
	keeper = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
	if (keeper == 0) {
		close(ends[0]);
		become_keeper(ends[1], door, owner, spares);
	}
	close(ends[1]);
	if (keeper < 0 || recv(ends[0], driver, sizeof(driver), MSG_WAITALL) != sizeof(driver))
		r = vgpu_error_set(err, -EAGAIN,
				   "the wall's keeper does not start, or vgpud does not answer it "
				   "at %s" GATE_WALL_DOOR ": try again",
				   door);
	driver[sizeof(driver) - 1] = '\0'; /* terminate it also if nothing was received */
	wall = r == 0 ? vgpu_wall_of(driver) : NULL;
	if (!wall && keeper > 0)
		waitpid(keeper, NULL, __WCLONE);
	if (wall) {
		r = set_up(ends[0], wall);
		snprintf(text, sizeof(text), "%d", (int)keeper);
		if (r == 0 && setenv(GATE_WALL_KEEPER, text, 1) < 0)
			r = -ENOMEM;
		if (r < 0)
			vgpu_error_set(err, r,
				       "the wall for %s's submit calls cannot be set up: %s%s",
				       driver, strerror(-r),
				       r == -EBUSY ? ": there is a filter of another program "
						     "(seccomp) that has a keeper"
						   : "");
	}
	close(ends[0]);
	return r;
}
