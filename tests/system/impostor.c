/* SPDX-License-Identifier: MIT */
/*
 * A VF process or a worker that somebody has taken over: softgpu starts it by the name of the real
 * one. For VF 3 it does what the file $IMPOSTOR says: a VF process from when the real one would let
 * a client in, a worker from its first RUN, when it creates the file $IMPOSTOR.began. For other
 * VFs, and where the file says "none", it becomes the real program, in $REAL.
 *
 *   deaf      answers nothing, takes no order, and does not stop
 *   scribble  writes numbers at random over all that it shares with the device
 *   truncate  truncates and punches what it shares, and fills what can be filled
 *   notices   asks the device to look, without an end
 *   late      says that it has stopped, and fails, and has work, all at once, without an end
 *   fill      fills the socket and the eventfd, and reads nothing (a worker)
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "page.h"
#include "protocol.h"

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

static void be_vf(const char *kind)
{
	struct vf_page *page =
		mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, VF_PAGE_FD, 0);
	bool quiet = strcmp(kind, "deaf") == 0;

	if (page == MAP_FAILED)
		_exit(1);
	atomic_store(&page->ready, 1);
	notify(VF_NOTICE_FD);
	/* Nobody has taken it over before it has clients. */
	while (!(fcntl(VF_PAGE_FD, F_GET_SEALS) & F_SEAL_SHRINK))
		usleep(100);
	while (!quiet) {
		if (strcmp(kind, "scribble") == 0)
			scribble((uint32_t *)page, sizeof(*page));
		if (strcmp(kind, "late") == 0)
			say_all(page);
		if (strcmp(kind, "truncate") == 0)
			truncate_all(VF_PAGE_FD, VF_NOTICE_FD, VF_CONTROL_FD);
		atomic_fetch_add(&page->notices, 1);
		notify(VF_NOTICE_FD);
	}
	for (;;)
		pause();
}

static void has_begun(void)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s.began", getenv("IMPOSTOR"));
	f = fopen(path, "we");
	if (f)
		fclose(f);
}

/* Fills what the VF's process reads, and what wakes it, and lets it write for nobody. */
static void fill(int event, int socket)
{
	const uint64_t full = UINT64_MAX - 1;
	struct worker_message m = {.type = WORKER_DMA};

	if (write(event, &full, sizeof(full)) == sizeof(full))
		fcntl(event, F_SETFL, fcntl(event, F_GETFL) & ~O_NONBLOCK);
	/* Each of these wants an answer that this process never reads. */
	while (send(socket, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		;
}

static void be_worker(const char *kind)
{
	struct worker_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					    MAP_SHARED, WORKER_SHARED_FD, 0);
	struct worker_message m;

	if (shared == MAP_FAILED)
		_exit(1);
	strcpy(shared->about.name, "impostor");
	atomic_store(&shared->state, WORKER_READY);
	notify(WORKER_WAKE_FD);
	/* A client's first packet is what could have taken it over. */
	if (recv(WORKER_SOCKET_FD, &m, sizeof(m), 0) <= 0)
		_exit(0);
	has_begun();
	while (strcmp(kind, "deaf") != 0) {
		if (strcmp(kind, "scribble") == 0) {
			scribble((uint32_t *)shared, sizeof(*shared));
			scribble((uint32_t *)&m, sizeof(m));
			m.type = (uint32_t)random() % 8;
			send(WORKER_SOCKET_FD, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT);
			notify(WORKER_WAKE_FD);
		}
		if (strcmp(kind, "truncate") == 0)
			truncate_all(WORKER_SHARED_FD, WORKER_WAKE_FD, WORKER_SOCKET_FD);
		if (strcmp(kind, "fill") == 0)
			fill(WORKER_WAKE_FD, WORKER_SOCKET_FD);
	}
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	char kind[32] = "";
	FILE *f = fopen(getenv("IMPOSTOR"), "re");

	if (!f || fscanf(f, "%31s", kind) != 1 || strcmp(kind, "none") == 0 || !is_vf_3(argc, argv))
		become(name, argv);
	fclose(f);
	if (strcmp(name, "softgpu-worker") == 0)
		be_worker(kind);
	be_vf(kind);
}
