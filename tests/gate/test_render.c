/* SPDX-License-Identifier: MIT */
/* What starts and ends the server of a container's render processes. This program is that server,
 * too; a process of the same user's, which is outside, comes with $TMPDIR. */
#include "render.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"
#include "vgpu/process.h"

#define NOBODY 65534
#define SCORE 300
#define NICE 7
#define GROUP "/vgpud-test-render"
static const char *const tops[] = {"/sys/fs/cgroup/pids", "/sys/fs/cgroup/devices",
				   "/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
#define N_TOPS (sizeof(tops) / sizeof(tops[0]))

struct report {
	int user, nice, score, descriptors, signals, looks, looks_up, leaver, mask, grouped;
};

static int open_memory(pid_t of)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)of);
	fd = open(path, O_RDWR);
	return fd < 0 ? errno : 0;
}

static int read_number(const char *path)
{
	FILE *f = fopen(path, "re");
	int n = -1;

	if (f && fscanf(f, "%d", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

/* In how many of the groups of give_groups() this process is; none may be that of devices. */
static int count_groups(void)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[4096];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, ":devices:" GROUP) ? -100 : strstr(line, GROUP) != NULL;
	if (f)
		fclose(f);
	return n;
}

/* A process that leaves the session, and its parent; how it can open the server's memory. */
static pid_t start_leaver(int *looks)
{
	int pipes[2], said[2] = {0, -1};
	pid_t server = getpid();

	if (pipe(pipes) == 0 && fork() == 0) {
		if (fork() != 0)
			_exit(0);
		setsid();
		said[0] = getpid();
		said[1] = open_memory(server);
		if (write(pipes[1], said, sizeof(said)) > 0)
			pause();
		_exit(1);
	}
	*looks = read(pipes[0], said, sizeof(said)) > 0 ? said[1] : -1;
	return said[0];
}

/* virgl_test_server --venus --socket-path PATH, as far as it goes. */
__attribute__((constructor)) static void serve(int argc, char **argv)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct report r = {0};
	struct rlimit most;
	int listener, fd;
	pid_t outside;

	if (argc != 4 || strcmp(argv[1], "--venus") != 0)
		return;
	outside = atoi(getenv("TMPDIR"));
	r.user = (int)getuid();
	r.nice = getpriority(PRIO_PROCESS, 0);
	r.score = read_number("/proc/self/oom_score_adj");
	getrlimit(RLIMIT_NOFILE, &most);
	r.descriptors = (int)most.rlim_max;
	r.signals = kill(outside, 0) < 0 ? errno : 0;
	r.looks = open_memory(outside);
	r.leaver = start_leaver(&r.looks_up);
	r.mask = (int)umask(077);
	r.grouped = count_groups();
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", argv[3]);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 8) < 0)
		_exit(1);
	for (;;) {
		fd = accept(listener, NULL, NULL);
		send(fd, &r, sizeof(r), MSG_NOSIGNAL);
		close(fd);
	}
}

static pid_t start_process(uid_t user)
{
	pid_t pid = fork();
	int fd;

	if (pid != 0) {
		usleep(100000);
		return pid;
	}
	fd = open("/proc/self/oom_score_adj", O_WRONLY);
	if (write(fd, "300", 3) != 3 || setpriority(PRIO_PROCESS, 0, NICE) < 0 ||
	    setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0)
		_exit(1);
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	pause();
	_exit(0);
}

/* Gives a process control groups, of versions 1 and 2, where they can be made. Returns in how many
 * of them the server should be, too. */
static int give_groups(pid_t pid)
{
	char path[64], procs[80];
	int n = 0;
	size_t i;
	FILE *f;

	for (i = 0; i < N_TOPS; i++) {
		snprintf(path, sizeof(path), "%s" GROUP ".%d", tops[i], (int)getpid());
		snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
		f = mkdir(path, 0755) == 0 ? fopen(procs, "r+e") : NULL;
		if (f) {
			fprintf(f, "%d", (int)pid);
			n += fclose(f) == 0 && !strstr(path, "devices");
		} else {
			rmdir(path);
		}
	}
	return n;
}

static void remove_groups(void)
{
	char path[80];
	size_t i;

	for (i = 0; i < 2 * N_TOPS; i++) {
		snprintf(path, sizeof(path), "%s" GROUP ".%d%s", tops[i / 2], (int)getpid(),
			 i % 2 ? "" : "/vgpud-render");
		rmdir(path);
	}
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

/* Waits until nothing is there any more, for a minute at most. */
static bool is_gone(const char *dir, pid_t pid)
{
	char path[80];
	int i;

	for (i = 0; i < 6000 && (is_there(dir) || (pid && kill(pid, 0) == 0)); i++)
		usleep(10000);
	snprintf(path, sizeof(path), "%.*s", (int)(strrchr(dir, '/') - dir), dir);
	return i < 6000 && !is_there(path);
}

static void begin(struct render *r, pid_t container, int *process)
{
	struct vgpu_error err = {""};

	*process = (int)syscall(SYS_pidfd_open, container, 0);
	CU_ASSERT_EQUAL(render_begin(r, *process, container, &err), 0);
	CU_ASSERT_STRING_EQUAL(err.text, "");
}

TEST(test_serves, "the server has the container's place, and is fenced off")
{
	pid_t container = start_process(0), outside = start_process(NOBODY);
	VGPU_AUTO_CLOSE int process = -1, fd = -1;
	struct vgpu_error err = {""};
	struct report said = {.user = -1};
	struct render r;
	struct stat st;
	char text[16], path[80];
	int grouped = give_groups(container);

	snprintf(text, sizeof(text), "%d", (int)outside);
	setenv("TMPDIR", text, 1);
	begin(&r, container, &process);
	CU_ASSERT_EQUAL(render_serve(&r, "/nonexistent/door", &err), 0);
	CU_ASSERT_STRING_EQUAL(err.text, "");
	snprintf(path, sizeof(path), "%s/" RENDER_SOCKET, r.dir);
	CU_ASSERT_TRUE(stat(path, &st) == 0 && (st.st_mode & 0777) == 0666);
	fd = vgpu_socket_connect(path, 0);
	CU_ASSERT_EQUAL(recv(fd, &said, sizeof(said), MSG_WAITALL), sizeof(said));
	render_leave(&r, true);
	CU_ASSERT_EQUAL(said.user, NOBODY);
	CU_ASSERT_EQUAL(said.nice, NICE);
	CU_ASSERT_EQUAL(said.score, SCORE);
	CU_ASSERT_TRUE(said.descriptors <= 16384);
	CU_ASSERT_EQUAL(said.mask, 077);
	CU_ASSERT_EQUAL(said.grouped, grouped);
	CU_ASSERT_EQUAL(said.looks_up, EACCES);
	/* As far as this kernel can. */
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1u) >= 6) {
		CU_ASSERT_EQUAL(said.looks, EACCES);
		CU_ASSERT_EQUAL(said.signals, EPERM);
	}
	usleep(100000);
	CU_ASSERT_TRUE(said.leaver > 1 && kill(said.leaver, 0) == 0 && is_there(r.dir));
	end(container);
	CU_ASSERT_TRUE(is_gone(r.dir, said.leaver));
	remove_groups();
	end(outside);
}

/* A process that may not move others to the container's control groups. Returns whether it was
 * told. */
static bool is_warned(pid_t container)
{
	struct vgpu_error err = {""};
	int process, status = -1;
	struct render r;
	pid_t user = fork();

	if (user == 0) {
		if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
		    setresuid(NOBODY, NOBODY, NOBODY) < 0)
			_exit(2);
		process = (int)syscall(SYS_pidfd_open, container, 0);
		if (render_begin(&r, process, container, &err) < 0 ||
		    render_serve(&r, "/nonexistent/door", &err) < 0)
			_exit(3);
		render_leave(&r, false);
		if (!is_gone(r.dir, 0))
			_exit(4);
		_exit(strstr(r.warning, "Permission denied") != NULL);
	}
	CU_ASSERT_EQUAL(waitpid(user, &status, 0), user);
	CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
	return WEXITSTATUS(status) == 1;
}

TEST(test_warned, "a user who may not move processes to a container's control groups is told so")
{
	pid_t container = start_process(0);
	int grouped = give_groups(container);

	setenv("TMPDIR", "1", 1);
	CU_ASSERT_EQUAL(is_warned(container), grouped > 0);
	end(container);
	remove_groups();
}

TEST(test_ended, "a worker ends with all that it has started when the container loses its VF")
{
	pid_t container = start_process(0);
	VGPU_AUTO_CLOSE int process = -1, fd = -1;
	struct vgpu_error err = {""};
	struct report said = {.user = -1};
	struct vgpu_process worker;
	struct render r;
	char path[80];

	setenv("TMPDIR", "1", 1);
	begin(&r, container, &process);
	CU_ASSERT_EQUAL(render_serve(&r, "/nonexistent/door", &err), 0);
	snprintf(path, sizeof(path), "%s/" RENDER_SOCKET, r.dir);
	fd = vgpu_socket_connect(path, 0);
	CU_ASSERT_EQUAL(recv(fd, &said, sizeof(said), MSG_WAITALL), sizeof(said));
	render_leave(&r, true);
	CU_ASSERT_EQUAL(vgpu_process_read((uint32_t)r.worker, &worker), 0);
	render_end((int)container, worker.started - 1); /* another has the number now */
	CU_ASSERT_TRUE(said.leaver > 1 && kill(said.leaver, 0) == 0);
	render_end(r.worker, worker.started);
	CU_ASSERT_TRUE(is_gone(r.dir, said.leaver));
	CU_ASSERT_EQUAL(waitpid(container, NULL, WNOHANG), 0); /* it lives */
	end(container);
}

TEST(test_refused, "whoever does not start leaves nothing")
{
	pid_t container = start_process(0);
	VGPU_AUTO_CLOSE int process = -1;
	struct vgpu_error err = {""};
	char *own = strdup(getenv("VGPUD_VTEST"));
	struct render r;
	int i;

	for (i = 0; i < 2; i++) { /* no server; and a container that gets no mount */
		setenv("VGPUD_VTEST", i == 0 ? "/nonexistent" : own, 1);
		begin(&r, container, &process);
		CU_ASSERT_EQUAL(render_serve(&r, "/nonexistent/door", &err), i == 0 ? -EIO : 0);
		render_leave(&r, false);
		CU_ASSERT_TRUE(is_gone(r.dir, 0));
		vgpu_close(&process);
	}
	CU_ASSERT_TRUE(strstr(err.text, "/nonexistent: No such file") != NULL);
	free(own);
	end(container);
}

TEST(test_swept, "what a killed worker has left goes; what another's uses stays")
{
	pid_t container = start_process(0);
	VGPU_AUTO_CLOSE int process = -1, second = -1;
	char made[] = "/tmp/vgpud-before.XXXXXX", old[] = "/tmp/vgpud-render.XXXXXX", path[64];
	struct render a, b;

	/* Whole under its name at once: other tests' workers sweep, too. */
	CU_ASSERT_PTR_NOT_NULL(mkdtemp(made));
	snprintf(path, sizeof(path), "%s/gpu", made);
	memcpy(strrchr(old, '.'), strrchr(made, '.'), strlen(".XXXXXX"));
	CU_ASSERT_TRUE(mkdir(path, 0755) == 0 && rename(made, old) == 0);
	begin(&a, container, &process);
	CU_ASSERT_FALSE(is_there(old));
	begin(&b, container, &second);
	CU_ASSERT_TRUE(is_there(a.dir) && is_there(b.dir));
	render_leave(&a, false);
	CU_ASSERT_TRUE(is_gone(a.dir, 0));
	CU_ASSERT_TRUE(is_there(b.dir));
	render_leave(&b, false);
	CU_ASSERT_TRUE(is_gone(b.dir, 0));
	end(container);
}

/* The server's user may not be let in where the build is. */
static bool prepare(const char *dir, const char *build)
{
	char command[4352], path[64];

	snprintf(command, sizeof(command),
		 "chmod 755 %s && cp /proc/%d/exe %s/server && cp "
		 "'%s'/tools/render/venus/libvgpud-venus-only.so %s/",
		 dir, (int)getpid(), dir, build, dir);
	snprintf(path, sizeof(path), "%s/server", dir);
	return setenv("VGPUD_VTEST", path, 1) == 0 && setenv("VGPUD_LAYERS", dir, 1) == 0 &&
	       system(command) == 0;
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/vgpud-test.XXXXXX", command[64];
	const char *build = getenv("VGPU_BUILD"); /* else it is here */
	int r = 1;

	if (geteuid() != 0) {
		puts("skipped: needs root");
		return 77;
	}
	if (mkdtemp(dir) && prepare(dir, build ? build : "."))
		r = suite_main("gate-render", NULL, argc, argv);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command) == 0 ? r : 1;
}
