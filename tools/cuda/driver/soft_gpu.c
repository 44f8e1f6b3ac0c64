/* SPDX-License-Identifier: MIT */
/*
 * Who has the GPU holds a lock on a byte of the shared file, which ends with its process. Each
 * process has a byte of its own, too: who wants the GPU and is gone does not want it any more.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "soft_gpu.h"

#define PROCESSES 64u
#define PAGE 4096u
#define LOOK_NS 20000

struct shared {
	_Atomic uint32_t turn; /* whose turn it was last: its number, and 1 */
	_Atomic uint32_t wants[PROCESSES];
};
_Static_assert(sizeof(struct shared) <= PAGE, "the file's size");

static struct shared *shared;
static int file = -1;
static uint32_t number;
static uint64_t since; /* when this turn began, ns */

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Byte 0 is the GPU, and byte N + 1 is process N. */
static bool lock_byte(uint32_t byte, short type, int how)
{
	struct flock l = {.l_type = type, .l_start = byte, .l_len = 1};

	return fcntl(file, how, &l) == 0 && (how != F_OFD_GETLK || l.l_type == F_UNLCK);
}

bool soft_gpu_open(void)
{
	const char *path = getenv("SOFT_CUDA_RM");

	if (!path)
		return true;
	file = open(path, O_RDWR | O_CLOEXEC);
	while (number < PROCESSES && !lock_byte(number + 1, F_WRLCK, F_OFD_SETLK))
		number++;
	if (file < 0 || number == PROCESSES)
		return false;
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (shared == MAP_FAILED)
		return false;
	atomic_store(&shared->wants[number], 0); /* of a process that is gone */
	return soft_rm_open();
}

void soft_gpu_take(void)
{
	if (!shared)
		return;
	atomic_store(&shared->wants[number], 1);
	lock_byte(0, F_WRLCK, F_OFD_SETLKW);
	atomic_store(&shared->wants[number], 0);
	atomic_store(&shared->turn, number + 1);
	since = now();
}

void soft_gpu_give(void)
{
	if (shared)
		lock_byte(0, F_UNLCK, F_OFD_SETLK);
}

/* Returns whether another process waits for the GPU. */
static bool others_want(void)
{
	uint32_t i;

	for (i = 0; i < PROCESSES; i++) {
		if (i == number || !atomic_load(&shared->wants[i]))
			continue;
		if (!lock_byte(i + 1, F_WRLCK, F_OFD_GETLK))
			return true;
		atomic_store(&shared->wants[i], 0); /* it is gone */
	}
	return false;
}

static void let_others(void *)
{
	const struct timespec look = {.tv_nsec = LOOK_NS};

	if (now() - since < soft_rm_timeslice() * 1000)
		return;
	if (!others_want()) {
		since = now();
		return;
	}
	atomic_store(&shared->wants[number],
		     1); /* whose turn it is now sees that it is not alone */
	soft_gpu_give();
	while (atomic_load(&shared->turn) == number + 1 && others_want())
		nanosleep(&look, NULL);
	soft_gpu_take();
}

void (*soft_gpu_pauses(void))(void *)
{
	return shared ? let_others : NULL;
}
