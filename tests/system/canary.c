/* SPDX-License-Identifier: MIT */
/*
 * Writes marks wherever a guest can write, and looks for marks of other tenants.
 *
 *     write VF MARK      brings the VF up, marks all its memory, and stays until it is killed
 *     again VF MARK      does the same, then brings the VF up again: no mark may be left
 *     find VF MARK...    brings the VF up and looks for marks of earlier tenants
 *     reach VF MIB       writes behind the VF's memory of MIB MiB: the GPU must stop it
 *     pf PF MIB MARK...  looks for marks in all of the GPU's memory, which has MIB MiB
 *
 * VF and PF are sockets. MARK is a number; it is written as 8 bytes, every 8 bytes. Prints how
 * often each mark was found. Exit status: 0 if the search was done, 1 if not.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"
#include "vfio/device.h"

#define PIECE 65536u

static int fail(const struct vgpu_error *err)
{
	fprintf(stderr, "canary: %s\n", err->text);
	return 1;
}

static uint64_t mark_of(const char *text)
{
	return UINT64_C(0xcafe0000c0de0000) + strtoull(text, NULL, 0);
}

static uint64_t count(const void *memory, uint64_t size, uint64_t mark)
{
	uint64_t i, value, n = 0;

	for (i = 0; i + 8 <= size; i += 8) {
		memcpy(&value, (const char *)memory + i, 8);
		n += value == mark;
	}
	return n;
}

static struct guest *come_up(const char *path)
{
	char name[160];
	struct vgpu_error err;
	struct guest *g = NULL;

	snprintf(name, sizeof(name), "vfio-user:%s", path);
	if (guest_open(&g, name, &err) < 0)
		exit(fail(&err));
	if (guest_bring_up(g, 30 * VGPU_SEC, &err) < 0) {
		guest_close(g);
		exit(fail(&err));
	}
	return g;
}

/* Marks all memory, and starts a packet that never ends, whose arguments are saved with it. */
static void leave_marks(struct guest *g, uint64_t mark)
{
	struct softgpu_packet spin = {.opcode = SOFTGPU_ENDLESS,
				      .arg = {0, mark, mark, mark, mark, mark, mark}};
	uint64_t offset, size, i;
	char *memory = guest_memory(g, &offset, &size);

	for (i = 0; i + 8 <= size; i += 8)
		memcpy(memory + i, &mark, 8);
	guest_put(g, &spin);
	guest_ring(g);
}

static int write_marks(const char *vf, uint64_t mark, bool again)
{
	struct guest *g = come_up(vf);
	struct vgpu_error err;
	uint64_t offset, size, n;
	void *memory;

	leave_marks(g, mark);
	memory = guest_memory(g, &offset, &size);
	n = count(memory, size, mark);
	printf("%" PRIu64 "\n", n);
	fflush(stdout);
	if (n == 0) {
		guest_close(g);
		return 1;
	}
	if (!again) {
		pause();
		return 1;
	}
	if (guest_bring_up(g, 30 * VGPU_SEC, &err) < 0) {
		guest_close(g);
		return fail(&err);
	}
	memory = guest_memory(g, &offset, &size);
	printf("%" PRIu64 "\n", count(memory, size, mark));
	guest_close(g);
	return 0;
}

static int find(const char *vf, char **marks)
{
	struct guest *g = come_up(vf);
	uint64_t offset, size;
	const void *memory = guest_memory(g, &offset, &size);

	for (; *marks; marks++)
		printf("%" PRIu64 "\n", count(memory, size, mark_of(*marks)));
	guest_close(g);
	return 0;
}

static int reach(const char *vf, const char *mib)
{
	struct guest *g = come_up(vf);
	struct softgpu_packet fill = {.opcode = SOFTGPU_FILL,
				      .arg = {strtoull(mib, NULL, 0) << 20, 4096, 0xdead}};
	uint64_t fence;
	int r;

	guest_put(g, &fill);
	fence = guest_put_fence(g);
	guest_ring(g);
	r = guest_wait(g, fence, 20 * VGPU_SEC);
	printf("%d\n", r == -EIO ? (int)guest_error(g) : r);
	fflush(stdout);
	pause(); /* the end of this process resets the VF */
	return 0;
}

static int search_all(const char *pf, char **marks)
{
	static char piece[PIECE];
	char name[160];
	struct vfio_device *d;
	struct vgpu_error err;
	uint64_t found[32] = {0}, at, size = 0;
	uint32_t i;

	snprintf(name, sizeof(name), "vfio-user:%s", pf);
	if (vfio_device_open(&d, name, &err) < 0)
		return fail(&err);
	size = (uint64_t)strtoull(marks[0], NULL, 0) << 20;
	marks++;
	for (at = 0; at < size; at += PIECE) {
		if (vfio_read(d, VFIO_REGION_BAR0, at, piece, PIECE) < 0)
			return 1;
		for (i = 0; marks[i] && i < 32; i++)
			found[i] += count(piece, PIECE, mark_of(marks[i]));
	}
	for (i = 0; marks[i] && i < 32; i++)
		printf("%" PRIu64 "\n", found[i]);
	vfio_device_close(d);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	if (strcmp(argv[1], "write") == 0 || strcmp(argv[1], "again") == 0)
		return write_marks(argv[2], mark_of(argv[3]), argv[1][0] == 'a');
	if (strcmp(argv[1], "find") == 0)
		return find(argv[2], argv + 3);
	if (strcmp(argv[1], "reach") == 0)
		return reach(argv[2], argv[3]);
	return strcmp(argv[1], "pf") == 0 ? search_all(argv[2], argv + 3) : 2;
}
