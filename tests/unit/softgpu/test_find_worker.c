/* SPDX-License-Identifier: MIT */
/*
 * A program with no worker beside it, such as a user's own QEMU, finds the installed worker. The
 * test copies itself to a folder of its own and runs the copy. For this test, the installed worker
 * is the one in the build folder.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "suite.h"

#define WINDOW (4u << 20)
#define ELSEWHERE "--from-elsewhere"

/* Starts a worker and waits until it is ready. Returns an exit status. */
static int start_worker(void)
{
	struct worker_options options = {.device = "host", .size = WINDOW};
	struct vgpu_error err = {""};
	struct worker_client *w = NULL;
	int fd = memfd_create("test", MFD_CLOEXEC), r;

	options.window_fd = fd;
	r = ftruncate(fd, WINDOW) < 0 ? -errno : worker_start(&w, &options, &err);
	r = r ? r : worker_wait_ready(w, 30000, &err);
	if (r < 0)
		fprintf(stderr, "%s\n", err.text);
	if (!worker_kill(w, 30000))
		r = -EBUSY;
	close(fd);
	return r < 0;
}

static void copy(const char *from, const char *to)
{
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0700);
	ssize_t n;

	CU_ASSERT_FATAL(in >= 0 && out >= 0);
	while ((n = sendfile(out, in, NULL, 1 << 30)) > 0)
		;
	CU_ASSERT_EQUAL(n, 0);
	close(in);
	close(out);
}

TEST(from_elsewhere, "a program in another folder finds the installed worker")
{
	char folder[64] = "/tmp/vgpud-worker.XXXXXX", program[80];
	int status = -1;
	pid_t pid;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
	snprintf(program, sizeof(program), "%s/program", folder);
	copy("/proc/self/exe", program);
	pid = fork();
	if (pid == 0) {
		execl(program, program, ELSEWHERE, NULL);
		_exit(127);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	unlink(program);
	rmdir(folder);
}

TEST(from_here, "a program in the build folder finds its worker")
{
	CU_ASSERT_EQUAL(start_worker(), 0);
}

/* A process that was killed may not end: here because a tracer stops it on its way out, as a
 * hanging driver would. Nobody waits for it for ever. */
TEST(stuck, "a worker that does not end is given up")
{
	struct worker_client *w = calloc(1, sizeof(*w));
	pid_t pid = fork();
	int again;

	if (pid == 0)
		for (;;)
			pause();
	CU_ASSERT_FATAL(pid > 0 && w);
	*w = (struct worker_client){.pid = pid,
				    .pidfd = pidfd_open(pid, 0),
				    .socket = -1,
				    .wake_fd = -1,
				    .shared_fd = -1};
	again = pidfd_open(pid, 0);
	CU_ASSERT_FATAL(w->pidfd >= 0 && again >= 0);
	CU_ASSERT_EQUAL_FATAL(ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXIT), 0);
	CU_ASSERT(!worker_kill(w, 200));
	CU_ASSERT_EQUAL(waitpid(pid, NULL, __WALL), pid); /* it has stopped in its exit */
	CU_ASSERT_EQUAL(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
	CU_ASSERT(worker_gone(again, 30000));
}

int main(int argc, char **argv)
{

	return argc == 2 && strcmp(argv[1], ELSEWHERE) == 0
		       ? start_worker()
		       : suite_main("where a worker is found", NULL, argc, argv);
}
