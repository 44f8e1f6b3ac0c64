/* SPDX-License-Identifier: MIT */
/*
 * vgpud-keeper: runs vgpud on hosts without a service manager, and holds the descriptors that must
 * stay open while vgpud restarts. It acts as systemd does in sd_notify(3) (FDSTORE=,
 * FDSTOREREMOVE=) and sd_listen_fds(3), so that vgpud needs only one protocol.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgpu/about.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */
#define MAX_HELD 512
#define NAME_SIZE 256
#define MESSAGE_SIZE 4096
/* Pauses before a crashed command is started again: twice as long each time, until it has run for
 * RUNS_WELL_MS. */
#define FIRST_WAIT_MS 100
#define LONGEST_WAIT_MS 10000
#define RUNS_WELL_MS 10000

static struct {
	char name[NAME_SIZE];
	int fd;
	void *memory; /* mapping of a GPU's host memory; else NULL */
	size_t size;
} held[MAX_HELD];
static int n_held;
static char dir[64], path[80]; /* of the socket */
static bool was_ready;	       /* the command has sent READY=1 at least once */
static bool ended, asked;      /* to end the keeper; to restart the command */

static long long now_ms(void)
{
	return (long long)(vgpu_now() / VGPU_MSEC);
}

static void drop(const char *name)
{
	int i, kept = 0;

	for (i = 0; i < n_held; i++) {
		if (strcmp(held[i].name, name) == 0) {
			close(held[i].fd);
			if (held[i].memory)
				munmap(held[i].memory, held[i].size);
		} else
			held[kept++] = held[i];
	}
	n_held = kept;
}

/* Maps and locks a GPU's host memory, which holds data of guests, so that it stays in memory while
 * vgpud restarts. NULL: NAME is another descriptor. */
static void *lock_memory(const char *name, int fd, size_t *size)
{
	struct stat st;
	void *p;

	if (strncmp(name, "host-", 5) != 0 || fstat(fd, &st) < 0 || st.st_size == 0)
		return NULL;
	*size = (size_t)st.st_size;
	p = mmap(NULL, *size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (mlock2(p, *size, 0) < 0)
		fprintf(stderr,
			"<4>vgpud-keeper: cannot lock the host memory of a GPU: %s; it may be "
			"swapped to disk while vgpud restarts\n",
			strerror(errno));
	return p;
}

static bool is_name(const char *name)
{
	return name[0] && strlen(name) < NAME_SIZE && !strpbrk(name, ":\n");
}

/* Holds FD under NAME in place of an earlier one; closes it when it is dropped. */
static void hold(const char *name, int fd)
{
	drop(name);
	if (n_held == MAX_HELD) {
		fprintf(stderr,
			"<3>vgpud-keeper: cannot hold %s: %d descriptors are held already\n", name,
			MAX_HELD);
		close(fd);
		return;
	}
	strcpy(held[n_held].name, name);
	held[n_held].memory = lock_memory(name, fd, &held[n_held].size);
	held[n_held++].fd = fd;
}

/* Handles a message of the command: lines NAME=VALUE, and descriptors. */
static void on_notification(char *text, struct vgpu_received *got)
{
	bool store = false, remove = false;
	const char *name = "stored";
	char *line, *rest = NULL;
	uint32_t i;

	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		store |= strcmp(line, "FDSTORE=1") == 0;
		remove |= strcmp(line, "FDSTOREREMOVE=1") == 0;
		was_ready |= strcmp(line, "READY=1") == 0;
		if (strncmp(line, "FDNAME=", 7) == 0)
			name = line + 7;
	}
	if (remove && is_name(name))
		drop(name);
	for (i = 0; i < got->n_fds && store && is_name(name); i++)
		hold(name, vgpu_take(&got->fds[i]));
}

static void receive(int socket, pid_t child)
{
	struct vgpu_received got;
	char text[MESSAGE_SIZE];
	ssize_t size = vgpu_socket_receive(socket, text, sizeof(text) - 1, MSG_DONTWAIT, &got);

	if (size < 0)
		return;
	text[size] = '\0';
	/* Other processes of this user may write to the socket: ignore all but our child. */
	if (got.from.pid == child)
		on_notification(text, &got);
	vgpu_received_drop(&got);
}

/* Creates the socket in a directory that only this user can enter: another process could fill it,
 * so that vgpud waits, and send descriptors whose close blocks. Returns it, or -errno. */
static int make_socket(void)
{
	static const char *const places[] = {"/run", "/tmp"};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, one = 1;
	size_t i;

	for (i = 0; i < 2; i++) {
		snprintf(dir, sizeof(dir), "%s/vgpud-keeper.XXXXXX", places[i]);
		if (mkdtemp(dir))
			break;
	}
	if (i == 2)
		return -errno;
	snprintf(path, sizeof(path), "%s/notify", dir);
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) < 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return fd;
}

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

/* In the child: passes the held descriptors as sd_listen_fds(3) expects, and runs the command. */
static void start(char **command, const sigset_t *mask)
{
	char names[MAX_HELD * NAME_SIZE] = "";
	size_t length = 0;
	int i;

	/* Move them out of the way first: one may have the number that another is to get. */
	for (i = 0; i < n_held; i++)
		held[i].fd = fcntl(held[i].fd, F_DUPFD, FIRST_FD + MAX_HELD);
	for (i = 0; i < n_held; i++) {
		if (held[i].fd < 0 || dup2(held[i].fd, FIRST_FD + i) < 0)
			_exit(127);
		close(held[i].fd);
		length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s",
					   i ? ":" : "", held[i].name);
	}
	if (n_held) {
		set_number("LISTEN_PID", (int)getpid());
		set_number("LISTEN_FDS", n_held);
		setenv("LISTEN_FDNAMES", names, 1);
	}
	setenv("NOTIFY_SOCKET", path, 1);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(command[0], command);
	fprintf(stderr, "<3>vgpud-keeper: %s: %s\n", command[0], strerror(errno));
	_exit(127);
}

/* Runs the command once and returns its exit status. SIGHUP restarts it, SIGTERM and SIGINT end
 * it. */
static int run_once(char **command, int socket, int signals, const sigset_t *mask)
{
	struct pollfd p[] = {{.fd = socket, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
	struct signalfd_siginfo s;
	pid_t child = fork();
	int status;

	if (child < 0) {
		perror("vgpud-keeper: fork");
		return 1;
	}
	if (child == 0)
		start(command, mask);
	asked = false;
	for (;;) {
		poll(p, 2, -1);
		if (p[0].revents)
			receive(socket, child);
		if (!p[1].revents || read(signals, &s, sizeof(s)) != sizeof(s))
			continue;
		if (s.ssi_signo != SIGCHLD) {
			asked = s.ssi_signo == SIGHUP;
			ended |= !asked;
			kill(child, SIGTERM);
		} else if (waitpid(child, &status, WNOHANG) == child) {
			break;
		}
	}
	/* Receive what it sent before it ended. */
	while (poll(p, 1, 0) == 1)
		receive(socket, child);
	if (WIFSIGNALED(status))
		fprintf(stderr, "<4>vgpud-keeper: %s was killed by signal %d%s\n", command[0],
			WTERMSIG(status), ended ? "" : "; starting it again");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Waits MS milliseconds, or until a signal comes. */
static void pause_ms(int signals, int ms)
{
	struct pollfd p = {.fd = signals, .events = POLLIN};
	struct signalfd_siginfo s;

	if (poll(&p, 1, ms) == 1 && read(signals, &s, sizeof(s)) == sizeof(s))
		ended = s.ssi_signo != SIGHUP && s.ssi_signo != SIGCHLD;
}

static const char help[] =
	"usage: vgpud-keeper COMMAND [ARGUMENT...]\n"
	"       vgpud-keeper --help | --version\n"
	"Runs vgpud, restarts it when it dies, and holds the descriptors of GPUs meanwhile.\n"
	"SIGHUP restarts the command; SIGTERM and SIGINT end it.\n"
	"Not needed where systemd runs vgpud (FileDescriptorStoreMax=).\n";

int main(int argc, char **argv)
{
	int socket, signals, status, wait_ms = FIRST_WAIT_MS;
	sigset_t mask, old;
	long long started;

	if (vgpu_about(argc, argv, "vgpud-keeper", help))
		return 0;
	if (argc < 2 || argv[1][0] == '-') {
		fputs(help, stderr);
		return 2;
	}
	socket = make_socket();
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigprocmask(SIG_BLOCK, &mask, &old);
	signals = signalfd(-1, &mask, SFD_CLOEXEC);
	if (socket < 0 || signals < 0) {
		fprintf(stderr, "vgpud-keeper: %s\n", strerror(errno));
		return 1;
	}
	do {
		started = now_ms();
		status = run_once(argv + 1, socket, signals, &old);
		if (!was_ready) /* it never became ready; its own messages say why */
			break;
		if (!ended && !asked && status) {
			wait_ms = now_ms() - started > RUNS_WELL_MS ? FIRST_WAIT_MS : wait_ms;
			pause_ms(signals, wait_ms);
			wait_ms = wait_ms < LONGEST_WAIT_MS / 2 ? wait_ms * 2 : LONGEST_WAIT_MS;
		}
	} while (!ended && (asked || status));
	unlink(path);
	rmdir(dir);
	return status;
}
