/* SPDX-License-Identifier: MIT */
/*
 * A file for DMA whose file system is this client: it opens the file, and answers nothing else. Who
 * reads or writes the file, or asks what kind of file it is, waits in the kernel, where no signal
 * ends it, while the client lives.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "attack.h"
#include "guest.h"

#define SIZE (1u << 20)

static void reply(int fuse, uint64_t request, int error, const void *body, size_t size)
{
	struct fuse_out_header out = {.len = (uint32_t)(sizeof(out) + size),
				      .error = error,
				      .unique = request};
	struct iovec parts[] = {{&out, sizeof(out)}, {(void *)body, size}};

	if (writev(fuse, parts, 2) < 0 && errno != ENOENT)
		perror("attack: fuse");
}

/* Answers what opening the file takes. */
static void answer(int fuse, const struct fuse_in_header *in)
{
	const struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION,
					   .minor = 31,
					   .max_write = 1u << 16};
	const struct fuse_attr_out attr = {
		.attr_valid = 3600,
		.attr = {.ino = 1, .size = SIZE, .mode = S_IFREG | 0666, .nlink = 1}};
	const struct fuse_open_out open = {.fh = 1};

	switch (in->opcode) {
	case FUSE_INIT:
		reply(fuse, in->unique, 0, &init, sizeof(init));
		break;
	case FUSE_GETATTR:
		reply(fuse, in->unique, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
		reply(fuse, in->unique, 0, &open, sizeof(open));
		break;
	case FUSE_STATFS:
	case FUSE_READ:
	case FUSE_WRITE:
	case FUSE_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		reply(fuse, in->unique, -ENOSYS, NULL, 0);
	}
}

/* The file system is a process of its own: this one will wait for it where no signal ends a wait.
 * It ends with the thread that has started it. */
static void *serve(void *arg)
{
	static char buffer[1u << 17];
	int fuse = *(int *)arg;
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (read(fuse, buffer, sizeof(buffer)) > 0 || errno == EINTR || errno == ENOENT)
			answer(fuse, (const struct fuse_in_header *)buffer);
		_exit(0);
	}
	close(fuse); /* whoever holds it keeps the file system alive */
	for (;;)
		pause();
	return NULL;
}

/* The file, in a mount namespace of this thread's own. */
static int open_file(void)
{
	static int fuse;
	char path[] = "/tmp/vgpud-attack.XXXXXX", options[96];
	pthread_t server;
	int file = mkstemp(path), fd;

	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=%o,user_id=%u,group_id=%u,allow_other",
		 fuse, S_IFREG, (unsigned)getuid(), (unsigned)getgid());
	if (file < 0 || fuse < 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("attack", path, "fuse", MS_NOSUID | MS_NODEV, options) < 0 ||
	    pthread_create(&server, NULL, serve, &fuse) != 0) {
		unlink(path);
		attack_give_up("a file system of our own");
	}
	close(file);
	fd = open(path, O_RDWR | O_CLOEXEC);
	umount2(path, MNT_DETACH);
	unlink(path);
	return fd;
}

void attack_fuse(struct guest *g)
{
	static int fd = -1;

	if (fd < 0)
		fd = open_file();
	if (fd < 0)
		attack_give_up("a file of a file system of our own");
	attack_goes_on();
	if (guest_map_dma(g, fd, ATTACK_IOVA, SIZE) == 0)
		attack_dma_out(g, SIZE);
}
