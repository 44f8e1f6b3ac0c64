/* SPDX-License-Identifier: MIT */
/* Memory that programs of one VF hold in common, by descriptors: each program is a process with the
 * library, over a real worker whose CUDA driver is the one in software. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "entries.h"
#include "played_vf.h"
#include "processes.h"
#include "program.h"
#include "record.h"

#include "vgpu/clock.h"
#include "vgpu/local_socket.h"

#define GRANULE ((size_t)2 << 20)
#define GRANULES 8u	     /* of the VF's device memory */
#define LOOK (15 * VGPU_SEC) /* for others that look after memory */
#define SLICE_US 20000
#define VICTIMS 10u
#define MARKS_AT (INT64_C(1) << 32) /* see vfio/locks.c */
#define COMMON 8192u
/* In the window: see share.c. */
#define PAGE_AT (128u << 10)
#define N_COMMON_AT (PAGE_AT + 84)
#define OWNERS_AT (PAGE_AT + 8192)
#define COMMONS_AT (OWNERS_AT + (sizeof(uint32_t) << 17) + 1024 * 144)

/* What the test and its programs have in common. */
static struct talk {
	_Atomic uint32_t ready[8], go, stop; /* READY: of each program */
	CUdeviceptr at;
} * talk;

/* Descriptors on their way between programs; in both ends of it nothing else is. */
static int way[2];

static const struct cuda_allocation plain = {.type = 1, .location = {1, 0}};
static const struct cuda_allocation shared = {.type = 1, .handles = 1, .location = {1, 0}};
static const struct cuda_access both = {{1, 0}, 3};

static int left_is(size_t granules)
{
	vgpu_nsec until = vgpu_now() + LOOK;
	size_t left, all;

	do /* another program may be looking after the memory just now */
		OK(cuMemGetInfo_v2(&left, &all));
	while (left != granules * GRANULE && vgpu_now() < until);
	if (left != granules * GRANULE)
		printf("%zu granules are left, not %zu\n", left / GRANULE, granules);
	TRY(left == granules * GRANULE && all == GRANULES * GRANULE);
	return 0;
}

/* Sends FD, and closes it here. */
static int send_fd(int fd)
{
	char zero = 0;
	struct iovec byte = {&zero, 1};

	TRY(vgpu_socket_send(way[0], &byte, 1, &fd, 1, 0) == 1);
	close(fd);
	return 0;
}

static int receive_fd(int *fd)
{
	struct vgpu_received got;
	char byte;

	TRY(vgpu_socket_receive(way[1], &byte, 1, 0, &got) == 1 && got.n_fds == 1);
	*fd = got.fds[0];
	return 0;
}

static void *as_handle(int fd)
{
	return (void *)(intptr_t)fd;
}

/* Maps N granules of H at new addresses. */
static int map(CUmemHandle h, size_t n, CUdeviceptr *at)
{
	OK(cuMemAddressReserve(at, n * GRANULE, 0, 0, 0));
	OK(cuMemMap(*at, n * GRANULE, 0, h, 0));
	OK(cuMemSetAccess(*at, n * GRANULE, &both, 1));
	return 0;
}

/* Has each of N granules from AT on be all of another number, from FIRST on. */
static int put_marks(CUdeviceptr at, size_t n, uint32_t first)
{
	size_t i;

	for (i = 0; i < n; i++)
		OK(cuMemsetD32Async(at + i * GRANULE, first + (uint32_t)i, GRANULE / 4, NULL));
	return 0;
}

static int mark(CUdeviceptr at, size_t n, uint32_t first)
{
	TRY(put_marks(at, n, first) == 0);
	OK(cuCtxSynchronize());
	return 0;
}

/* Whether they are so, looked at in steps. */
static int are_marked(CUdeviceptr at, size_t n, uint32_t first)
{
	uint32_t seen;
	size_t i;

	for (i = 0; i < n * 4; i++) {
		OK(cuMemcpyDtoH_v2(&seen, at + i * GRANULE / 4, 4));
		TRY(seen == first + i / 4);
	}
	return 0;
}

/* Whether NVML's programs are told that this one has so much memory. */
static int shows(size_t granules)
{
	char link[64], to[64];
	struct record r;
	int fd;

	for (fd = 3; fd < 100; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		memset(to, 0, sizeof(to));
		if (readlink(link, to, sizeof(to) - 1) > 0 && strcmp(to, RECORD_LINK) == 0)
			break;
	}
	TRY(pread(fd, &r, sizeof(r), 0) == sizeof(r) && r.used == granules * GRANULE);
	return 0;
}

/* Whether all memory is there, and clear. */
static int look_at_all(uint32_t)
{
	const size_t bytes = GRANULES * GRANULE;
	uint8_t *seen = malloc(bytes);
	CUdeviceptr p;
	size_t i;

	TRY(seen && begin() == 0 && left_is(GRANULES) == 0);
	OK(cuMemAlloc_v2(&p, bytes));
	OK(cuMemcpyDtoH_v2(seen, p, bytes));
	for (i = 0; i < bytes; i++)
		TRY(seen[i] == 0);
	free(seen);
	return 0;
}

/* Makes N granules that do not lie in a row, maps and marks them. */
static int make(size_t n, CUmemHandle *h, CUdeviceptr *at)
{
	CUmemHandle other[4];
	size_t i;

	for (i = 0; i < 4; i++)
		OK(cuMemCreate(&other[i], GRANULE, &plain, 0));
	OK(cuMemRelease(other[0]));
	OK(cuMemRelease(other[2]));
	OK(cuMemCreate(h, n * GRANULE, &shared, 0));
	OK(cuMemRelease(other[1]));
	OK(cuMemRelease(other[3]));
	TRY(map(*h, n, at) == 0 && mark(*at, n, 100) == 0);
	return 0;
}

/* Has the VF until the test says that it is enough: what others leave is not gone with the last of
 * them. */
static int keep_up(uint32_t number)
{
	close(way[0]);
	close(way[1]);
	TRY(begin() == 0);
	atomic_store(&talk->ready[number], 1);
	TRY(reaches(&talk->stop, 1));
	return left_is(GRANULES) == 0 ? 0 : 3;
}

/* Two programs, step by step. */

static int own(uint32_t number)
{
	struct cuda_allocation what;
	CUmemHandle h, same, alone;
	CUdeviceptr at;
	uint64_t types = 0;
	size_t unit = 0;
	int fd, again, has = 0;

	TRY(begin() == 0);
	OK(cuDeviceGetAttribute(&has, 103, 0));
	TRY(has == 1);
	OK(cuMemGetAllocationGranularity(&unit, &shared, 0));
	TRY(unit == GRANULE && make(3, &h, &at) == 0 && left_is(5) == 0);
	OK(cuMemGetAllocationPropertiesFromHandle(&what, h));
	TRY(memcmp(&what, &shared, sizeof(what)) == 0);
	OK(cuPointerGetAttribute(&types, 14, at));
	TRY(types == 1);
	/* what cannot be exported */
	OK(cuMemCreate(&alone, GRANULE, &plain, 0));
	IS(cuMemExportToShareableHandle(&fd, alone, 1, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRelease(alone));
	IS(cuMemExportToShareableHandle(&fd, alone, 1, 0), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemExportToShareableHandle(NULL, h, 1, 0), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemExportToShareableHandle(&fd, h, 1, 1), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemExportToShareableHandle(&fd, h, 0, 0), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemExportToShareableHandle(&fd, h, 2, 0), CUDA_ERROR_INVALID_VALUE);
	/* what was put for it is done before anybody else has it */
	TRY(put_marks(at, 3, 7) == 0 && put_marks(at, 3, 100) == 0);
	OK(cuMemExportToShareableHandle(&fd, h, 1, 0));
	OK(cuStreamQuery(NULL));
	/* each time a descriptor, which gives no right to write */
	OK(cuMemExportToShareableHandle(&again, h, 1, 0));
	TRY(fd >= 0 && again >= 0 && fd != again);
	TRY((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	TRY(left_is(5) == 0 && are_marked(at, 3, 100) == 0 && shows(3) == 0);
	/* the program's own memory is the same again */
	IS(cuMemImportFromShareableHandle(NULL, as_handle(fd), 1), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemImportFromShareableHandle(&same, as_handle(fd), 2), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemImportFromShareableHandle(&same, as_handle(again), 1));
	TRY(same == h && send_fd(fd) == 0);
	close(again);
	OK(cuMemRelease(same));
	atomic_store(&talk->ready[number], 1);
	TRY(reaches(&talk->ready[1], 1));
	TRY(are_marked(at, 3, 200) == 0 && mark(at, 3, 300) == 0);
	atomic_store(&talk->ready[number], 2);
	TRY(reaches(&talk->ready[1], 2));
	/* the other one has let go of it */
	TRY(are_marked(at, 3, 300) == 0 && left_is(5) == 0);
	OK(cuMemUnmap(at, 3 * GRANULE));
	TRY(left_is(5) == 0);
	OK(cuMemRelease(h));
	IS(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE);
	TRY(shows(0) == 0);
	return left_is(GRANULES);
}

static int use(uint32_t number)
{
	struct cuda_allocation what;
	CUmemHandle h, same;
	CUdeviceptr at, twice;
	int fd, more;

	TRY(begin() == 0 && receive_fd(&fd) == 0 && reaches(&talk->ready[0], 1));
	TRY(left_is(5) == 0);
	OK(cuMemImportFromShareableHandle(&h, as_handle(fd), 1));
	OK(cuMemImportFromShareableHandle(&same, as_handle(fd), 1));
	TRY(same == h && left_is(5) == 0);
	OK(cuMemRelease(same));
	OK(cuMemGetAllocationPropertiesFromHandle(&what, h));
	TRY(memcmp(&what, &shared, sizeof(what)) == 0);
	close(fd);
	TRY(map(h, 3, &at) == 0 && map(h, 1, &twice) == 0 && are_marked(at, 3, 100) == 0);
	TRY(are_marked(twice, 1, 100) == 0);
	TRY(shows(0) == 0); /* it is counted once */
	IS(cuMemMap(twice + GRANULE, 4 * GRANULE, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	TRY(mark(at, 3, 200) == 0);
	/* it can be shown on */
	OK(cuMemExportToShareableHandle(&more, h, 1, 0));
	OK(cuMemImportFromShareableHandle(&same, as_handle(more), 1));
	TRY(same == h);
	close(more);
	OK(cuMemRelease(h));
	OK(cuMemRelease(h));
	atomic_store(&talk->ready[number], 1);
	TRY(reaches(&talk->ready[0], 2));
	TRY(are_marked(at, 3, 300) == 0);
	OK(cuMemUnmap(at, 3 * GRANULE));
	TRY(are_marked(twice, 1, 300) == 0);
	OK(cuMemUnmap(twice, GRANULE));
	TRY(left_is(5) == 0);
	atomic_store(&talk->ready[number], 2);
	return 0;
}

/* Who ends while others go on. */

enum { LET_GO, BE_KILLED, JUST_END };

/* Shows three granules, and ends as the test says. */
static int show(uint32_t number)
{
	CUmemHandle h;
	CUdeviceptr at;
	int fd;

	TRY(begin() == 0 && make(3, &h, &at) == 0);
	OK(cuMemExportToShareableHandle(&fd, h, 1, 0));
	TRY(send_fd(fd) == 0);
	atomic_store(&talk->ready[number], 1);
	if (atomic_load(&talk->go) == BE_KILLED)
		pause();
	if (atomic_load(&talk->go) == JUST_END)
		return 0;
	OK(cuMemUnmap(at, 3 * GRANULE));
	OK(cuMemRelease(h));
	return left_is(5) == 0 ? 0 : 3;
}

/* Nobody but a descriptor has the memory; then this program; then nobody. */
static int take_over(uint32_t)
{
	CUmemHandle h;
	CUdeviceptr at, p;
	int fd;

	TRY(begin() == 0 && left_is(5) == 0);
	IS(cuMemAlloc_v2(&p, GRANULES * GRANULE), CUDA_ERROR_OUT_OF_MEMORY);
	TRY(receive_fd(&fd) == 0);
	OK(cuMemImportFromShareableHandle(&h, as_handle(fd), 1));
	close(fd);
	TRY(left_is(5) == 0 && map(h, 3, &at) == 0 && are_marked(at, 3, 100) == 0);
	OK(cuMemRelease(h));
	OK(cuMemUnmap(at, 3 * GRANULE));
	TRY(left_is(GRANULES) == 0);
	/* also if all of it is wanted at once */
	OK(cuMemAlloc_v2(&p, GRANULES * GRANULE));
	return 0;
}

/* Uses what is shown until it is killed. */
static int use_until_killed(uint32_t number)
{
	CUmemHandle h;
	CUdeviceptr at;
	int fd;

	TRY(begin() == 0 && receive_fd(&fd) == 0);
	OK(cuMemImportFromShareableHandle(&h, as_handle(fd), 1));
	TRY(map(h, 3, &at) == 0 && are_marked(at, 3, 100) == 0);
	TRY(send_fd(fd) == 0);
	atomic_store(&talk->ready[number], 1);
	pause();
	return 0;
}

/* Shows memory to a child, which is no program of the VF, and both wait to be killed. */
static int show_to_child(uint32_t number)
{
	CUmemHandle h;
	CUdeviceptr at;
	pid_t child;
	int fd;

	TRY(begin() == 0 && make(3, &h, &at) == 0);
	OK(cuMemExportToShareableHandle(&fd, h, 1, 0));
	child = fork();
	if (child == 0) {
		char end;

		atomic_store(&talk->ready[number], 1);
		if (recv(way[1], &end, 1, 0) != 1) /* with the descriptor open */
			_exit(1);
		_exit(0);
	}
	TRY(child > 0);
	pause();
	return 0;
}

static int look_at_five(uint32_t)
{
	TRY(begin() == 0);
	return left_is(5);
}

/* Descriptors that show nothing. */

static int lock_it(int fd, short type, int64_t at, int64_t bytes)
{
	struct flock range = {.l_type = type, .l_start = at, .l_len = bytes};

	return fcntl(fd, F_OFD_SETLK, &range);
}

/* What importing says of a new opening of PATH that has locked a range. */
static int import_forged(const char *path, short type, int64_t at, int64_t bytes)
{
	CUmemHandle h;
	int fd = open(path, O_RDWR), e = -1;

	if (fd >= 0 && (bytes == 0 || lock_it(fd, type, at, bytes) == 0))
		e = cuMemImportFromShareableHandle(&h, as_handle(fd), 1);
	close(fd);
	return e;
}

static int forge(uint32_t)
{
	const CUresult wrong = CUDA_ERROR_INVALID_VALUE;
	char link[64], path[128] = "", other[] = "/tmp/other-vf-XXXXXX";
	CUmemHandle h, got;
	CUdeviceptr at;
	int fd, fds[2], file, i;

	TRY(begin() == 0 && make(3, &h, &at) == 0);
	OK(cuMemExportToShareableHandle(&fd, h, 1, 0));
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	TRY(readlink(link, path, sizeof(path) - 1) > 0);
	/* anything else than such a descriptor */
	for (i = -3; i < 3; i++)
		IS(cuMemImportFromShareableHandle(&got, as_handle(i), 1), wrong);
	IS(cuMemImportFromShareableHandle(&got, as_handle(1 << 20), 1), wrong);
	TRY(pipe(fds) == 0 && write(fds[1], "lock: 1:", 8) == 8);
	IS(cuMemImportFromShareableHandle(&got, as_handle(fds[0]), 1), wrong);
	file = memfd_create("forged", 0);
	TRY(file >= 0 && write(file, path, sizeof(path)) == sizeof(path));
	TRY(lock_it(file, F_RDLCK, MARKS_AT, 1) == 0);
	IS(cuMemImportFromShareableHandle(&got, as_handle(file), 1), wrong);
	/* the same mark of another VF's file */
	TRY((file = mkstemp(other)) >= 0 && lock_it(file, F_RDLCK, MARKS_AT, 1) == 0);
	IS(cuMemImportFromShareableHandle(&got, as_handle(file), 1), wrong);
	unlink(other);
	/* this VF's file: without a mark, with a lock, marks of nothing, many marks */
	IS(import_forged(path, F_RDLCK, 0, 0), wrong);
	IS(import_forged(path, F_RDLCK, 100, 1), wrong);
	IS(import_forged(path, F_WRLCK, MARKS_AT + 1, 1), wrong);
	IS(import_forged(path, F_RDLCK, MARKS_AT + 1, 1), wrong);
	IS(import_forged(path, F_RDLCK, MARKS_AT + COMMON, 1), wrong);
	IS(import_forged(path, F_RDLCK, MARKS_AT + (1 << 30), 1), wrong);
	IS(import_forged(path, F_RDLCK, MARKS_AT + UINT32_MAX, 1), wrong);
	IS(import_forged(path, F_RDLCK, MARKS_AT + MARKS_AT, 1), wrong);
	IS(import_forged(path, F_RDLCK, INT64_MAX, 1), wrong);
	IS(import_forged(path, F_RDLCK, MARKS_AT, 2), wrong);
	IS(import_forged(path, F_RDLCK, MARKS_AT - 1, 2), wrong);
	IS(import_forged(path, F_RDLCK, MARKS_AT, INT64_MAX - MARKS_AT), wrong);
	TRY(lock_it(fd, F_RDLCK, MARKS_AT + 5, 1) == 0);
	IS(cuMemImportFromShareableHandle(&got, as_handle(fd), 1), wrong);
	TRY(lock_it(fd, F_UNLCK, MARKS_AT + 5, 1) == 0);
	/* none of it has harmed it; who can open the file may show what all programs can reach */
	OK(cuMemImportFromShareableHandle(&got, as_handle(fd), 1));
	TRY(got == h);
	OK(import_forged(path, F_RDLCK, MARKS_AT, 1));
	return are_marked(at, 3, 100);
}

/* Has a descriptor that is older than what the VF has now. */
static int use_old(uint32_t)
{
	CUmemHandle h, got;
	CUdeviceptr at;
	int fd, old;

	TRY(receive_fd(&old) == 0 && begin() == 0 && left_is(GRANULES) == 0);
	IS(cuMemImportFromShareableHandle(&got, as_handle(old), 1), CUDA_ERROR_INVALID_VALUE);
	TRY(make(3, &h, &at) == 0);
	OK(cuMemExportToShareableHandle(&fd, h, 1, 0));
	IS(cuMemImportFromShareableHandle(&got, as_handle(old), 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemImportFromShareableHandle(&got, as_handle(fd), 1));
	return got == h ? 0 : 3;
}

/* Another program marks all numbers: nothing can be exported, and nothing is lost. */
static int all_marked(uint32_t)
{
	char link[64], path[128] = "";
	CUmemHandle h, other;
	CUdeviceptr at;
	int fd, file;

	TRY(begin() == 0 && make(3, &h, &at) == 0);
	OK(cuMemExportToShareableHandle(&fd, h, 1, 0));
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	TRY(readlink(link, path, sizeof(path) - 1) > 0 && (file = open(path, O_RDWR)) >= 0);
	TRY(lock_it(file, F_RDLCK, MARKS_AT, COMMON) == 0);
	close(fd);
	OK(cuMemCreate(&other, GRANULE, &shared, 0));
	IS(cuMemExportToShareableHandle(&fd, other, 1, 0), CUDA_ERROR_OUT_OF_MEMORY);
	TRY(lock_it(file, F_UNLCK, MARKS_AT + 7, 1) == 0);
	OK(cuMemExportToShareableHandle(&fd, other, 1, 0));
	TRY(are_marked(at, 3, 100) == 0);
	OK(cuMemUnmap(at, 3 * GRANULE));
	OK(cuMemRelease(h));
	OK(cuMemRelease(other));
	close(file);
	TRY(left_is(GRANULES - 1) == 0);
	close(fd);
	return left_is(GRANULES);
}

/* Programs that are killed at any instant. */

/* Shows memory, opens what is shown, lets go of it, and again. */
static int exchange(uint32_t number)
{
	CUmemHandle h;
	CUdeviceptr at;
	int fd;

	TRY(begin() == 0);
	for (;;) {
		if (cuMemCreate(&h, GRANULE, &shared, 0) != CUDA_SUCCESS)
			continue;
		OK(cuMemExportToShareableHandle(&fd, h, 1, 0));
		OK(cuMemRelease(h));
		TRY(send_fd(fd) == 0 && receive_fd(&fd) == 0);
		OK(cuMemImportFromShareableHandle(&h, as_handle(fd), 1));
		close(fd);
		TRY(map(h, 1, &at) == 0 && mark(at, 1, number) == 0);
		OK(cuMemUnmap(at, GRANULE));
		OK(cuMemAddressFree(at, GRANULE));
		OK(cuMemRelease(h));
		atomic_fetch_add(&talk->ready[number], 1);
	}
}

/* Writes anything, or what looks right, to what programs know of common memory. */
static int scribble(uint32_t number)
{
	const struct timespec pause = {0, 200000};
	uint64_t bytes;
	uint8_t *window = played_vf_window(&bytes);
	_Atomic uint32_t *owners = (_Atomic uint32_t *)(window + OWNERS_AT);
	_Atomic uint32_t *commons = (_Atomic uint32_t *)(window + COMMONS_AT);

	TRY(begin() == 0);
	atomic_store(&talk->ready[number], 1);
	for (;;) {
		uint32_t any = draw(2) ? (uint32_t)draw(12) : (uint32_t)draw(UINT64_C(1) << 32);

		if (draw(2))
			atomic_store(&commons[draw(16)], any);
		else if (draw(2))
			atomic_store(&owners[draw(GRANULES)],
				     0x80000000u | (uint32_t)draw(8) << 17 |
					     (uint32_t)draw(draw(2) ? 4 : 1 << 17));
		else
			atomic_store(&owners[draw(GRANULES)], 0x80000000u | any);
		nanosleep(&pause, NULL);
	}
}

/* Beside scribble(), each call may fail, but none harms the program. */
static int use_what_is_damaged(uint32_t number)
{
	CUmemHandle h, got[2];
	CUdeviceptr at;
	uint32_t i, round, imports = 0;
	int fd;

	TRY(begin() == 0);
	OK(cuMemAddressReserve(&at, GRANULES * GRANULE, 0, 0, 0));
	for (round = 0; !atomic_load(&talk->stop); round++) {
		if (cuMemCreate(&h, (1 + draw(3)) * GRANULE, &shared, 0) != CUDA_SUCCESS)
			continue;
		if (cuMemExportToShareableHandle(&fd, h, 1, 0) == CUDA_SUCCESS) {
			OK(cuMemRelease(h));
			for (i = 0; i < 2; i++) {
				got[i] = 0;
				imports += cuMemImportFromShareableHandle(&got[i], as_handle(fd),
									  1) == CUDA_SUCCESS;
			}
			close(fd);
			if (got[0] && cuMemMap(at, GRANULE, 0, got[0], 0) == CUDA_SUCCESS) {
				cuMemSetAccess(at, GRANULE, &both, 1);
				OK(cuMemUnmap(at, GRANULE));
			}
			for (i = 0; i < 2; i++)
				if (got[i])
					OK(cuMemRelease(got[i]));
		} else {
			OK(cuMemRelease(h));
		}
		atomic_store(&talk->ready[number], round > 100 && imports > 5);
	}
	return 0;
}

/* A library that knows no common memory has brought the VF up. */
static int without(uint32_t)
{
	CUmemHandle h;
	int fd = -1, has = 1;

	TRY(begin() == 0);
	OK(cuDeviceGetAttribute(&has, 103, 0));
	TRY(has == 0);
	IS(cuMemCreate(&h, GRANULE, &shared, 0), CUDA_ERROR_NOT_SUPPORTED);
	OK(cuMemCreate(&h, GRANULE, &plain, 0));
	IS(cuMemExportToShareableHandle(&fd, h, 1, 0), CUDA_ERROR_NOT_SUPPORTED);
	IS(cuMemImportFromShareableHandle(&h, as_handle(0), 1), CUDA_ERROR_NOT_SUPPORTED);
	return 0;
}

/* The tests. */

static void open_way(void)
{
	const struct timeval most = {60, 0}; /* for a program whose other one has failed */

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, way), 0);
	setsockopt(way[1], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
}

static void play(void)
{
	memset(talk, 0, sizeof(*talk));
	played_vf_start();
	open_way();
}

/* Closes the way, and what is on it. */
static void close_way(void)
{
	close(way[0]);
	close(way[1]);
}

static pid_t start_keeper(void)
{
	pid_t pid = process_start(keep_up, 7);

	CU_ASSERT_FATAL(reaches(&talk->ready[7], 1));
	return pid;
}

/* All memory is there for a program that had it all along, and for the next one, which finds it
 * clear. */
static void end_keeper(pid_t pid)
{
	CU_ASSERT_EQUAL(end_of(process_start(look_at_all, 6)), 0);
	atomic_store(&talk->stop, 1);
	CU_ASSERT_EQUAL(end_of(pid), 0);
	CU_ASSERT_EQUAL(played_vf_resets(), 0);
	played_vf_end();
}

TEST(step_by_step, "memory is shown, opened, used by both, and ends")
{
	pid_t owner, user, keeper;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		play();
		keeper = start_keeper();
		if (i > 0)
			played_vf_slices(SLICE_US);
		owner = process_start(own, 0);
		user = process_start(use, 1);
		CU_ASSERT_EQUAL(end_of(owner), 0);
		CU_ASSERT_EQUAL(end_of(user), 0);
		close_way();
		end_keeper(keeper);
	}
}

/* The exporter has ended, in either way, while its descriptor is on its way. */
TEST(outlives, "a descriptor keeps memory whose program has ended")
{
	pid_t keeper, exporter;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		play();
		keeper = start_keeper();
		atomic_store(&talk->go, i ? BE_KILLED : LET_GO);
		exporter = process_start(show, 0);
		CU_ASSERT_FATAL(reaches(&talk->ready[0], 1));
		if (i > 0)
			kill_it(exporter);
		else
			CU_ASSERT_EQUAL(end_of(exporter), 0);
		CU_ASSERT_EQUAL(end_of(process_start(take_over, 1)), 0);
		close_way();
		end_keeper(keeper);
	}
}

TEST(lost_on_its_way, "a descriptor that nobody receives keeps nothing")
{
	pid_t keeper, exporter;

	play();
	keeper = start_keeper();
	exporter = process_start(show, 0);
	CU_ASSERT_EQUAL(end_of(exporter), 0);
	CU_ASSERT_EQUAL(end_of(process_start(look_at_five, 1)), 0);
	close_way();
	end_keeper(keeper);
}

/* Nobody has the slot of a program that has ended with its memory mapped, and yet that is free. */
TEST(just_ends, "a program ends with memory mapped that it has shown")
{
	pid_t keeper, exporter;

	play();
	keeper = start_keeper();
	atomic_store(&talk->go, JUST_END);
	exporter = process_start(show, 0);
	CU_ASSERT_EQUAL(end_of(exporter), 0);
	close_way();
	atomic_store(&talk->stop, 1);
	CU_ASSERT_EQUAL(end_of(keeper), 0);
	CU_ASSERT_EQUAL(played_vf_resets(), 0);
	played_vf_end();
}

TEST(users_are_killed, "users are killed one after the other")
{
	pid_t keeper, exporter, user;

	play();
	keeper = start_keeper();
	atomic_store(&talk->go, BE_KILLED);
	exporter = process_start(show, 0);
	user = process_start(use_until_killed, 1);
	CU_ASSERT_FATAL(reaches(&talk->ready[1], 1));
	kill_it(exporter);
	CU_ASSERT_EQUAL(end_of(process_start(look_at_five, 2)), 0);
	kill_it(user); /* it has sent the descriptor on */
	CU_ASSERT_EQUAL(end_of(process_start(take_over, 3)), 0);
	close_way();
	end_keeper(keeper);
}

/* A child of fork() has the descriptor, and no VF. */
TEST(held_by_a_child, "a child keeps memory by its descriptor")
{
	pid_t keeper, exporter;

	play();
	keeper = start_keeper();
	exporter = process_start(show_to_child, 0);
	CU_ASSERT_FATAL(reaches(&talk->ready[0], 1));
	kill_it(exporter);
	CU_ASSERT_EQUAL(end_of(process_start(look_at_five, 2)), 0);
	CU_ASSERT_EQUAL(send(way[0], "", 1, 0), 1);
	end_keeper(keeper);
	close_way();
}

TEST(forged, "forged descriptors show nothing")
{
	pid_t keeper;

	play();
	keeper = start_keeper();
	CU_ASSERT_EQUAL(end_of(process_start(forge, 0)), 0);
	CU_ASSERT_EQUAL(end_of(process_start(all_marked, 0)), 0);
	close_way();
	end_keeper(keeper);
}

/* The last program of the VF has ended, or was killed: so its memory is no more, and a descriptor
 * that is left shows nothing. */
TEST(brought_up_anew, "a descriptor is of no use when the VF was brought up anew")
{
	pid_t exporter;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		play();
		atomic_store(&talk->go, i ? BE_KILLED : LET_GO);
		exporter = process_start(show, 0);
		CU_ASSERT_FATAL(reaches(&talk->ready[0], 1));
		if (i > 0)
			kill_it(exporter);
		else
			CU_ASSERT_EQUAL(end_of(exporter), 0);
		CU_ASSERT_EQUAL(end_of(process_start(use_old, 1)), 0);
		close_way();
		CU_ASSERT_EQUAL(end_of(process_start(look_at_all, 2)), 0);
		played_vf_end();
	}
}

TEST(killed_at_any_instant, "programs are killed at any instant")
{
	pid_t keeper, pids[2];
	struct timespec t = {0, 0};
	uint32_t i;

	play();
	keeper = start_keeper();
	for (i = 0; i < 2; i++)
		pids[i] = process_start(exchange, i);
	for (i = 0; i < VICTIMS; i++) {
		CU_ASSERT_FATAL(reaches(&talk->ready[i % 2], 1));
		t.tv_nsec = (long)draw(20 * VGPU_MSEC);
		nanosleep(&t, NULL);
		kill_it(pids[i % 2]);
		/* one that waits for a descriptor would wait for ever */
		kill_it(pids[!(i % 2)]);
		close_way();
		open_way();
		atomic_store(&talk->ready[0], 0);
		atomic_store(&talk->ready[1], 0);
		pids[0] = process_start(exchange, 0);
		pids[1] = process_start(exchange, 1);
	}
	kill_it(pids[0]);
	kill_it(pids[1]);
	close_way();
	end_keeper(keeper);
}

TEST(damaged, "what programs know of common memory is damaged")
{
	pid_t victim, other;

	play();
	victim = process_start(scribble, 0);
	CU_ASSERT_FATAL(reaches(&talk->ready[0], 1));
	other = process_start(use_what_is_damaged, 1);
	CU_ASSERT_FATAL(reaches(&talk->ready[1], 1));
	kill_it(victim);
	atomic_store(&talk->stop, 1);
	CU_ASSERT_EQUAL(end_of(other), 0);
	close_way();
	CU_ASSERT_EQUAL(end_of(process_start(look_at_all, 2)), 0);
	played_vf_end();
}

TEST(older_library, "an older library knows no common memory")
{
	_Atomic uint32_t *n;
	uint64_t bytes;
	pid_t keeper;

	play();
	keeper = start_keeper();
	n = (_Atomic uint32_t *)(played_vf_window(&bytes) + N_COMMON_AT);
	CU_ASSERT_EQUAL(atomic_load(n), COMMON);
	atomic_store(n, 0);
	CU_ASSERT_EQUAL(end_of(process_start(without, 0)), 0);
	close_way();
	end_keeper(keeper);
}

int main(int argc, char **argv)
{
	return processes_main("cuda_shareable", &talk, sizeof(*talk), argc, argv);
}
