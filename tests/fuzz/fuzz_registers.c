/* SPDX-License-Identifier: MIT */
/*
 * softgpu's device from both sides: configuration space, GPU-IOV registers and mailboxes of the PF
 * and its VFs, doorbells, memory, resets, and a VF's user that leaves, in any order. Packets are
 * executed as they arrive. The device asks its carrier only for what is within bounds, and the
 * device can always be destroyed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "fuzz.h"
#include "softgpu.h"
#include "vfio/device.h"

#define VFS 3u
#define VRAM (8 * (uint64_t)GPUIOV_FB_UNIT)
#define MAX_OPS 100u
#define CLIENT 65536u

static uint8_t client[CLIENT];

static void on_irq(void *opaque, int fn, uint32_t vector)
{
	(void)opaque;
	HOLDS(fn >= SOFTGPU_PF && fn < (int)VFS && vector < 32);
}

static int on_dma(void *opaque, int fn, uint64_t iova, void *buffer, uint64_t size, bool to_client)
{
	(void)opaque;
	HOLDS(fn >= SOFTGPU_PF && fn < (int)VFS);
	if (iova > CLIENT || size > CLIENT - iova)
		return -EFAULT;
	memcpy(to_client ? client + iova : buffer, to_client ? buffer : client + iova, size);
	return 0;
}

static void on_vfs(void *opaque, uint32_t n)
{
	(void)opaque;
	HOLDS(n <= VFS);
}

static const struct softgpu_carrier carrier = {.irq = on_irq, .dma = on_dma, .vfs_changed = on_vfs};

static struct softgpu *gpu;
static const struct gpuiov_layout *layout;
static uint32_t sriov, cap, block;

/* Finds the offsets of the capabilities. */
static void look(void)
{
	uint8_t config[4096];
	uint16_t at = 0;

	softgpu_read(gpu, SOFTGPU_PF, VFIO_REGION_CONFIG, 0, config, sizeof(config));
	HOLDS(vfio_find_ext_cap(config, PCI_EXT_CAP_SRIOV, &at));
	sriov = at;
	at = 0;
	HOLDS(vfio_find_ext_cap(config, PCI_EXT_CAP_VENDOR, &at));
	cap = at;
	block = layout->block_pointer ? cap + ((uint32_t)config[cap + layout->block_pointer] << 4)
				      : cap;
}

static void write_config(uint32_t at, uint32_t value, uint32_t size)
{
	softgpu_write(gpu, SOFTGPU_PF, VFIO_REGION_CONFIG, at, &value, size);
}

/* Enables VFs with 16 MiB each and opens all gates, as vgpud does. */
static void bring_up(void)
{
	uint32_t i, all = UINT32_MAX;

	for (i = 0; i < VFS; i++)
		write_config(cap + layout->at[GPUIOV_FB_TABLE].offset + 4 * i,
			     (4 + i) << 16 | (1 - layout->fb_size_bias), 4);
	write_config(sriov + SRIOV_NUM_VFS, VFS, 2);
	write_config(sriov + SRIOV_CTRL, SRIOV_CTRL_VF_ENABLE | SRIOV_CTRL_MSE, 2);
	for (i = GPUIOV_GATE_REGISTERS; i <= GPUIOV_GATE_MEMORY; i++)
		softgpu_write(gpu, SOFTGPU_PF, VFIO_REGION_BAR5, layout->at[i].offset, &all, 4);
}

/* A region, and an offset in it, which is usually that of a register. */
static uint32_t some_place(struct input *in, uint64_t *offset)
{
	static const uint32_t regions[] = {VFIO_REGION_BAR0, 2, 4, VFIO_REGION_BAR5,
					   VFIO_REGION_CONFIG};
	uint32_t choice = (uint32_t)input_number(in, 1), n = (uint32_t)input_number(in, 1);
	const struct gpuiov_location *at = &layout->at[n % GPUIOV_REGISTERS];

	if (choice & 0x80) { /* a register of the layout, or one of softgpu's own */
		*offset = at->space == GPUIOV_MMIO  ? at->offset
			  : at->space == GPUIOV_CAP ? cap + at->offset
						    : block + at->offset;
		if (at->space == GPUIOV_NOWHERE)
			*offset = 0x1000 + 4 * (n % 64);
		if (at->space == GPUIOV_NOWHERE || at->space == GPUIOV_MMIO)
			return VFIO_REGION_BAR5;
		return VFIO_REGION_CONFIG;
	}
	*offset = input_number(in, choice & 0x40 ? 8 : 2);
	return regions[choice % 5];
}

static void operate(struct input *in)
{
	uint32_t op = (uint32_t)input_number(in, 1), region, size;
	int fn = (int)(input_number(in, 1) % (VFS + 1)) - 1;
	uint8_t data[64];
	uint64_t at;

	switch (op % 8) {
	case 0:
		softgpu_function_reset(gpu, fn);
		break;
	case 1:
		softgpu_function_closed(gpu, fn);
		break;
	case 2:
		region = some_place(in, &at);
		softgpu_read(gpu, fn, region, at, data, 1 + op / 8 % sizeof(data));
		break;
	case 3: /* a command with its code and VF */
		at = layout->at[GPUIOV_CMD].offset +
		     (layout->at[GPUIOV_CMD].space == GPUIOV_BLOCK ? block : cap);
		write_config((uint32_t)at, (uint32_t)input_number(in, 4), 4);
		break;
	default:
		region = some_place(in, &at);
		size = op & 0x40 ? (uint32_t)input_number(in, 1) % sizeof(data) + 1
		       : op & 8	 ? 8
				 : 4;
		input_bytes(in, data, size);
		softgpu_write(gpu, fn, region, at, data, size);
		break;
	}
}

static int next_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	HOLDS(fd >= 0);
	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint64_t shape = input_number(&in, 1);
	struct softgpu_config config = {.n_vfs = VFS, .vram = VRAM, .seed = 1};
	struct softgpu_region region;
	struct vgpu_error err;
	int before = next_fd(), fn;
	uint32_t i;

	layout = shape & 1 ? &gpuiov_layout_tonga : &gpuiov_layout_navi;
	config.layout = layout;
	HOLDS(softgpu_create(&gpu, &config, &carrier, NULL, &err) == 0);
	look();
	if (shape & 2)
		bring_up();
	for (i = 0; i < MAX_OPS && in.left > 0; i++)
		operate(&in);
	for (fn = 0; fn < (int)VFS; fn++) {
		softgpu_region(gpu, fn, VFIO_REGION_BAR0, &region);
		HOLDS(region.mmap_fd < 0 || region.mmap_size <= VRAM);
	}
	softgpu_destroy(gpu);
	HOLDS(next_fd() == before);
	return 0;
}
