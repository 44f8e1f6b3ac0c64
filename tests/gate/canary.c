/* SPDX-License-Identifier: MIT */
/* canary write|find: fills MIB of device memory with a mark, says so, and waits to be killed; or
 * allocates as much, and prints how many marks are in it. What a VF's program has written must not
 * be found by the next one. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compute.h"

#define PIECES 8u
#define PIECE (16u << 20)
#define MARK UINT64_C(0x6d61726b6d61726b)

/* Allocates and maps the pieces. */
static bool get(struct compute *c, uint64_t *pieces[PIECES])
{
	VkMemoryAllocateInfo piece = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
				      .allocationSize = PIECE,
				      .memoryTypeIndex = c->memory_type};
	VkDeviceMemory memory;
	uint32_t i;

	for (i = 0; i < PIECES; i++)
		if (vkAllocateMemory(c->device, &piece, NULL, &memory) != VK_SUCCESS ||
		    vkMapMemory(c->device, memory, 0, VK_WHOLE_SIZE, 0, (void **)&pieces[i]) !=
			    VK_SUCCESS)
			return false;
	return true;
}

static uint64_t find(uint64_t *const pieces[PIECES])
{
	uint64_t found = 0;
	size_t i, k;

	for (i = 0; i < PIECES; i++)
		for (k = 0; k < PIECE / sizeof(MARK); k++)
			found += pieces[i][k] == MARK;
	return found;
}

int main(int argc, char **argv)
{
	uint64_t *pieces[PIECES];
	struct compute c;
	size_t i, k;

	if (argc != 2 || !compute_open(&c) || !get(&c, pieces)) {
		fputs("canary: no memory, or wrong usage\n", stderr);
		return 1;
	}
	if (strcmp(argv[1], "write") == 0)
		for (i = 0; i < PIECES; i++)
			for (k = 0; k < PIECE / sizeof(MARK); k++)
				pieces[i][k] = MARK;
	printf("%llu\n", (unsigned long long)find(pieces));
	fflush(stdout);
	if (strcmp(argv[1], "write") == 0)
		pause();
	compute_close(&c); /* the device's end frees the memory */
	return 0;
}
