/* SPDX-License-Identifier: MIT */
/*
 * A worker and the NVIDIA driver before they work together, with the driver in software: a driver
 * that lacks one entry, and drivers of all versions. A worker that cannot use its driver refuses,
 * with one sentence that says what to do, and exits. Any other starts, and works.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "cuda.h"
#include "suite.h"
#include "softgpu/packets.h"

#define WINDOW (UINT64_C(4) << 20)
#define PARTITION (UINT64_C(16) << 20)
#define RING_PACKETS 64u
#define FENCE_AT (RING_PACKETS * 64u)
#define HERE (UINT64_C(1) << 20) /* in the window, and behind it */
#define THERE (2 * HERE)
#define BEHIND WINDOW
#define BYTES 4096u
#define PATIENCE_MS 60000

struct guest {
	struct worker_client *worker;
	uint8_t *window;
	int fd;
};

/* Starts a worker, and waits until it is ready or has refused. 0 or -errno with the reason. */
static int begin(struct guest *g, struct vgpu_error *err)
{
	struct worker_options options = {.device = "cuda",
					 .size = PARTITION,
					 .modules = UINT64_C(64) << 20,
					 .uid = 65534,
					 .gid = 65534};

	err->text[0] = 0;
	g->fd = memfd_create("test-handshake", MFD_CLOEXEC);
	CU_ASSERT_EQUAL_FATAL(ftruncate(g->fd, (off_t)WINDOW), 0);
	g->window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, g->fd, 0);
	CU_ASSERT_FATAL(g->window != MAP_FAILED);
	options.window_fd = g->fd;
	CU_ASSERT_EQUAL_FATAL(worker_start(&g->worker, &options, err), 0);
	return worker_wait_ready(g->worker, PATIENCE_MS, err);
}

/* The status with which the worker ends; -1: it does not, or a signal ends it. */
static int exit_status(const struct guest *g)
{
	struct pollfd p = {g->worker->pidfd, POLLIN, 0};
	siginfo_t info = {0};

	if (poll(&p, 1, PATIENCE_MS) != 1 ||
	    waitid(P_PIDFD, (id_t)p.fd, &info, WEXITED | WNOWAIT) < 0)
		return -1;
	return info.si_code == CLD_EXITED ? info.si_status : -1;
}

static void end(struct guest *g)
{
	CU_ASSERT(worker_gone(worker_quit(g->worker), PATIENCE_MS));
	munmap(g->window, WINDOW);
	close(g->fd);
}

/* Runs the packets of the ring, of which there are N. Whether all are executed. */
static bool run(struct guest *g, uint64_t n)
{
	struct pollfd p = {g->worker->socket, POLLIN, 0};
	struct worker_message m = {.run = {0, RING_PACKETS, 0, FENCE_AT, WORKER_STOP_BLOCK, 0}};
	int r;

	atomic_store(&g->worker->shared->wptr, n);
	worker_run(g->worker, &m);
	do
		r = worker_receive(g->worker, &m);
	while ((r == 0 && poll(&p, 1, PATIENCE_MS) == 1) || (r > 0 && m.type != WORKER_ENDED));
	return r > 0 && m.ended.end == WORKER_IDLE && m.ended.rptr == n;
}

/* Data go to the GPU's memory and come back. */
static bool works(struct guest *g)
{
	const struct softgpu_packet packets[] = {{SOFTGPU_UPLOAD, 0, {BEHIND, HERE, BYTES}},
						 {SOFTGPU_DOWNLOAD, 0, {THERE, BEHIND, BYTES}}};

	memcpy(g->window, packets, sizeof(packets));
	memset(g->window + HERE, 0x5c, BYTES);
	memset(g->window + THERE, 0, BYTES);
	return run(g, 2) && memcmp(g->window + HERE, g->window + THERE, BYTES) == 0;
}

/* Whether a worker starts now, works, shows ABOUT and ends in order. */
static bool starts(const char *about)
{
	struct vgpu_error err;
	struct guest g;
	bool ok = begin(&g, &err) == 0 && strstr(g.worker->shared->about.name, about) && works(&g);

	if (!ok)
		printf("%s: %s\n", about, err.text);
	pidfd_send_signal(g.worker->pidfd, SIGTERM, NULL, 0);
	ok = exit_status(&g) == 0 && ok;
	end(&g);
	return ok;
}

/* Whether a worker refuses now, with WANTED and a sentence that has both of SAYS, and exits. */
static bool refuses(int wanted, const char *const says[2])
{
	struct vgpu_error err;
	struct guest g;
	int r = begin(&g, &err);
	bool ok = r == wanted && strstr(err.text, says[0]) && strstr(err.text, says[1]) &&
		  !strchr(err.text, '\n') && exit_status(&g) == 1;

	if (!ok)
		printf("expected: %s [...] %s; found: %d, %s\n", says[0], says[1], r, err.text);
	end(&g);
	return ok;
}

static const char *const names[] = {
#define ROW(name, since, signature) #name,
	CUDA_ENTRIES(ROW)
#undef ROW
};

/* Without any one of its entries a driver is of no use to a worker. */
TEST(one_is_missing, "a driver that lacks one entry is refused by its name")
{
	static const char *const ways[] = {"", "=500", "=1"};
	char lacking[96], name[96];
	const char *const says[] = {name, " install another version"};
	size_t i, k;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(name, sizeof(name), "(CUDA %d.%d) has no %s:", CUDA_WANTED / 1000,
			 CUDA_WANTED % 1000 / 10, names[i]);
		for (k = 0; k < sizeof(ways) / sizeof(ways[0]); k++) {
			snprintf(lacking, sizeof(lacking), "%s%s", names[i], ways[k]);
			setenv("SOFT_CUDA_LACKS", lacking, 1);
			CU_ASSERT(refuses(-EOPNOTSUPP, says));
		}
	}
	setenv("SOFT_CUDA_LACKS", "cuMem", 1); /* the beginning of many, and none of them */
	CU_ASSERT(starts(", CUDA 12.4"));
	unsetenv("SOFT_CUDA_LACKS");
}

/* A driver of VERSION is too old, or a worker works with it. */
static void with_version(int version)
{
	char text[16], shown[48];
	const char *const says[] = {shown, "12.4 is needed: install R550 or newer"};

	snprintf(text, sizeof(text), "%d", version);
	setenv("SOFT_CUDA_VERSION", text, 1);
	snprintf(shown, sizeof(shown), "CUDA %d.%d", version / 1000, version % 1000 / 10);
	CU_ASSERT(version < CUDA_WANTED ? refuses(-EOPNOTSUPP, says) : starts(shown));
	unsetenv("SOFT_CUDA_VERSION");
}

/* All versions that there have been, those that there may be, and what is none. */
TEST(versions, "each version of the driver is too old, or works")
{
	static const int edges[] = {0, 1, CUDA_WANTED - 1, CUDA_WANTED + 1, 99990, INT_MAX};
	int major, minor;
	size_t i;

	for (major = 1; major <= 15; major++)
		for (minor = 0; minor <= 9; minor++)
			with_version(1000 * major + 10 * minor);
	for (i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
		with_version(edges[i]);
}

TEST(no_version, "a driver that does not tell its version is refused")
{
	static const int errors[] = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_INITIALIZED,
				     CUDA_ERROR_UNKNOWN};
	static const char *const says[] = {"does not report its version",
					   ": check that the NVIDIA driver is installed"};
	char text[16];
	size_t i;

	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		snprintf(text, sizeof(text), "-%d", errors[i]);
		setenv("SOFT_CUDA_VERSION", text, 1);
		CU_ASSERT(refuses(-ENODEV, says));
	}
	unsetenv("SOFT_CUDA_VERSION");
}

int main(int argc, char **argv)
{

	setenv("LD_LIBRARY_PATH", DRIVER, 1); /* for the workers */
	return suite_main("handshake", NULL, argc, argv);
}
