/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vgpu/descriptor.h"

static struct record *record;
static int fd = -1;

void record_begin(const char *name)
{
	void *memory = MAP_FAILED;

	fd = memfd_create(RECORD_NAME, MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, sizeof(*record)) == 0)
		memory = mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		vgpu_close(&fd);
		return;
	}
	record = memory;
	find_key(name, record->vf);
	record->layout = RECORD_LAYOUT;
}

void record_show(uint64_t total, const struct softgpu_about *about)
{
	if (!record)
		return;
	record->about = *about;
	__atomic_store_n(&record->total, total, __ATOMIC_RELEASE);
}

void record_used(int64_t bytes)
{
	if (record)
		__atomic_add_fetch(&record->used, (uint64_t)bytes, __ATOMIC_RELAXED);
}

void record_end(void)
{
	if (record)
		munmap(record, sizeof(*record));
	record = NULL;
	vgpu_close(&fd);
}
