/* SPDX-License-Identifier: MIT */
/* The socket of a lease: who may reach it, what comes from it, and that nothing does after the end
 * of the lease, whatever somebody has kept open. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"
#include "tenants/passage.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

#define LEASE "11111111-2222-4333-8444-555555555555"
#define OWNER 12345u

static struct vgpu_error err;
static struct event_base *base;
static struct share share;
static char top[] = "/tmp/passage.XXXXXX", vf[64], socket_path[128];
static int listener = -1;

static void make(void)
{
	memcpy(strchr(top, '.'), ".XXXXXX", 8);
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(top));
	chmod(top, 0755);
	snprintf(vf, sizeof(vf), "%s/vf0.sock", top);
	snprintf(socket_path, sizeof(socket_path), "%s/" LEASE "/gpu/vf.sock", top);
	listener = vgpu_socket_listen(vf, 0600, 1, &err);
	CU_ASSERT_FATAL(listener >= 0);
	base = event_base_new();
}

static void unmake(void)
{
	event_base_free(base);
	vgpu_close(&listener);
	unlink(vf);
	CU_ASSERT_EQUAL(rmdir(top), 0);
}

static struct passage *open_it(void)
{
	struct passage *p = NULL;

	CU_ASSERT_EQUAL_FATAL(passage_open(&p, base, &share, top, LEASE, OWNER, vf, &err), 0);
	return p;
}

/* Connects, and has the passage answer, which takes a breath after each peer. What came. */
static ssize_t ask(char *text, size_t size, struct vgpu_received *with)
{
	vgpu_nsec until = vgpu_now() + 20 * VGPU_SEC;
	int fd = vgpu_socket_connect(socket_path, 0);
	ssize_t n;

	CU_ASSERT_FATAL(fd >= 0);
	do {
		event_base_loop(base, EVLOOP_NONBLOCK);
		n = vgpu_socket_receive(fd, text, size, MSG_DONTWAIT, with);
	} while (n == -EAGAIN && vgpu_now() < until);
	close(fd);
	return n;
}

/* What comes is a connection to the VF, which blocks. */
TEST(passes_on, "it passes connections on")
{
	struct vgpu_received with = {0};
	struct passage *p;
	char text[200] = "";
	int served;

	make();
	p = open_it();
	CU_ASSERT_EQUAL(ask(text, sizeof(text), &with), 1);
	CU_ASSERT_EQUAL_FATAL(with.n_fds, 1);
	CU_ASSERT_EQUAL(fcntl(with.fds[0], F_GETFL) & O_NONBLOCK, 0);
	served = accept(listener, NULL, NULL);
	CU_ASSERT(served >= 0);
	CU_ASSERT_EQUAL(write(with.fds[0], "x", 1), 1);
	CU_ASSERT_EQUAL(read(served, text, sizeof(text)), 1);
	vgpu_received_drop(&with);
	close(served);
	/* nobody listens there: a sentence, and no descriptor */
	vgpu_close(&listener);
	CU_ASSERT(ask(text, sizeof(text) - 1, &with) > 1);
	CU_ASSERT_EQUAL(with.n_fds, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "does not run"));
	passage_close(p);
	unmake();
}

/* connect() as a user, -errno. */
static int connect_as(uid_t uid)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
			_exit(255);
		_exit(-vgpu_socket_connect(socket_path, 0) & 0xff);
	}
	waitpid(pid, &status, 0);
	return -WEXITSTATUS(status);
}

TEST(has_a_wall, "it has a wall")
{
	struct passage *p;
	struct stat st;

	if (geteuid() != 0) {
		puts("skipped: needs root");
		return;
	}
	make();
	umask(077);
	p = open_it();
	umask(022);
	CU_ASSERT_EQUAL(connect_as(OWNER + 1), -EACCES);
	CU_ASSERT(connect_as(OWNER) != -EACCES);
	/* what is mounted is open to every user of a container, and can be changed by none */
	CU_ASSERT_EQUAL(stat(passage_dir(p), &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 0777, 0755);
	CU_ASSERT_EQUAL(stat(socket_path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 0777, 0666);
	passage_close(p);
	unmake();
}

/* A new vgpud goes on in the same directory, which may be mounted. */
TEST(outlives_vgpud, "it outlives vgpud")
{
	struct vgpu_received with = {0};
	struct stat before, after;
	struct passage *p;
	char text[200];

	make();
	p = open_it();
	CU_ASSERT_EQUAL(stat(passage_dir(p), &before), 0);
	passage_leave(p);
	CU_ASSERT_EQUAL(vgpu_socket_connect(socket_path, 0), -ECONNREFUSED);
	p = open_it();
	CU_ASSERT_EQUAL(stat(passage_dir(p), &after), 0);
	CU_ASSERT_EQUAL(before.st_ino, after.st_ino);
	CU_ASSERT_EQUAL(ask(text, sizeof(text), &with), 1);
	vgpu_received_drop(&with);
	passage_leave(p);
	passage_remove(top, LEASE);
	unmake();
}

/* Who has the socket and the directory open has nothing of them after the end. */
TEST(ends, "it ends with the lease")
{
	struct passage *p;
	char kept[64];
	int fd, dir;

	make();
	p = open_it();
	fd = open(socket_path, O_PATH | O_CLOEXEC);
	dir = open(passage_dir(p), O_PATH | O_CLOEXEC);
	snprintf(kept, sizeof(kept), "/proc/self/fd/%d", fd);
	passage_close(p);
	CU_ASSERT_EQUAL(vgpu_socket_connect(kept, 0), -ECONNREFUSED);
	CU_ASSERT(faccessat(dir, "vf.sock", F_OK, 0) < 0 && errno == ENOENT);
	/* the VF's next lease is another directory */
	p = open_it();
	CU_ASSERT_EQUAL(vgpu_socket_connect(kept, 0), -ECONNREFUSED);
	CU_ASSERT(faccessat(dir, "vf.sock", F_OK, 0) < 0 && errno == ENOENT);
	passage_close(p);
	close(fd);
	close(dir);
	unmake();
}

/* Nothing is left of what cannot be made. */
TEST(fails, "it fails whole")
{
	struct passage *p = NULL;
	char path[300];

	make();
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	CU_ASSERT_EQUAL(passage_open(&p, base, &share, path, LEASE, OWNER, vf, &err),
			-ENAMETOOLONG);
	snprintf(path, sizeof(path), "%s/missing", top);
	CU_ASSERT_EQUAL(passage_open(&p, base, &share, path, LEASE, OWNER, vf, &err), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "missing"));
	unmake();
}

SUITE_MAIN("passage")
