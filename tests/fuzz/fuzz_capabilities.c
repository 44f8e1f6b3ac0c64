/* SPDX-License-Identifier: MIT */
/*
 * Looks for the SR-IOV and GPU-IOV capabilities in a configuration space that a device, or a
 * vfio-user server, invents, and compares the result with a second walk, which remembers the places
 * it has visited. Then enables VFs in that space. The input is the number of bytes that can be
 * read, and then pairs of offset and dword.
 */
#include <errno.h>
#include <stdbool.h>

#include "fuzz.h"
#include "vfio/device.h"
#include "vfio/gpuiov.h"
#include "vfio/recognise.h"

#define EXTENDED 256u
#define SRIOV 0x10u
#define VENDOR 0x0bu

static uint32_t dword_at(const uint8_t *config, uint32_t at)
{
	uint32_t value;

	memcpy(&value, config + at, sizeof(value));
	return value;
}

/* The offset of each capability, in the order of the list. The list ends where it leaves the space
 * or returns to a place that it has visited. */
static uint32_t list_of(const uint8_t *config, uint16_t *list)
{
	bool seen[GPUIOV_CONFIG_SIZE] = {false};
	uint32_t at = EXTENDED, n = 0;

	while (at >= EXTENDED && at <= GPUIOV_CONFIG_SIZE - 8 && at % 4 == 0 && !seen[at] &&
	       dword_at(config, at) != 0 && dword_at(config, at) != UINT32_MAX) {
		seen[at] = true;
		list[n++] = (uint16_t)at;
		at = dword_at(config, at) >> 20;
	}
	return n;
}

static uint32_t id_of(const uint8_t *config, uint32_t at)
{
	return dword_at(config, at) & 0xffff;
}

static bool is_ours(const uint8_t *config, uint32_t at)
{
	return id_of(config, at) == VENDOR && (dword_at(config, at + 4) & 0xffff) == GPUIOV_VSEC_ID;
}

static void compare(const uint8_t *config, const struct gpuiov_identity *is, int r)
{
	static uint16_t list[GPUIOV_CONFIG_SIZE];
	uint32_t n = list_of(config, list), i, sriov = 0, cap = 0;

	for (i = 0; i < n; i++) {
		if (!sriov && id_of(config, list[i]) == SRIOV)
			sriov = list[i];
		if (!cap && is_ours(config, list[i]))
			cap = list[i];
	}
	/* A capability that does not fit into the space counts as absent. */
	sriov = sriov <= GPUIOV_CONFIG_SIZE - SRIOV_SIZE ? sriov : 0;
	cap = cap && cap + (dword_at(config, cap + 4) >> 20) <= GPUIOV_CONFIG_SIZE ? cap : 0;
	HOLDS((r == 0) == (sriov && cap));
	if (r == 0) {
		HOLDS(is->sriov == sriov && is->cap == cap);
		HOLDS(is->cap_length == dword_at(config, cap + 4) >> 20);
	}
}

static uint8_t *space;

static int on_read(struct vfio_device *, uint32_t region, uint64_t offset, void *data,
		   uint32_t size)
{
	HOLDS(region == VFIO_REGION_CONFIG && offset + size <= GPUIOV_CONFIG_SIZE);
	memcpy(data, space + offset, size);
	return 0;
}

static int on_write(struct vfio_device *, uint32_t region, uint64_t offset, const void *data,
		    uint32_t size)
{
	HOLDS(region == VFIO_REGION_CONFIG && offset + size <= GPUIOV_CONFIG_SIZE);
	memcpy(space + offset, data, size);
	return 0;
}

static const struct vfio_device_ops device_ops = {.name = "fuzz",
						  .read = on_read,
						  .write = on_write};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct vgpu_error err = {.text = ""};
	uint32_t n = (uint32_t)input_number(&in, 2) % (GPUIOV_CONFIG_SIZE + 1), at, value;
	uint8_t *config = calloc(1, GPUIOV_CONFIG_SIZE);
	struct vfio_device device = {.ops = &device_ops};
	struct gpuiov_identity is;
	int r;

	HOLDS(config);
	n = n ? n : GPUIOV_CONFIG_SIZE;
	value = 0x53471234; /* softgpu */
	memcpy(config, &value, sizeof(value));
	while (in.left > 0) {
		at = (uint32_t)input_number(&in, 2) % (GPUIOV_CONFIG_SIZE - 3);
		value = (uint32_t)input_number(&in, 4);
		memcpy(config + at, &value, sizeof(value));
	}
	r = gpuiov_recognise(config, n, &is, &err);
	HOLDS(r == 0 || ((r == -ENODEV || r == -EACCES) && err.text[0]));
	HOLDS(r != 0 || n == GPUIOV_CONFIG_SIZE);
	if (n == GPUIOV_CONFIG_SIZE && dword_at(config, 0) == 0x53471234)
		compare(config, &is, r);
	space = config;
	vfio_enable_vfs(&device, 1, &err);
	vfio_enable_vfs(&device, 0, &err);
	free(config);
	return 0;
}
