/* SPDX-License-Identifier: MIT */
#include "bus.h"

#include <time.h>

const struct gpuiov_layout *layout;
uint16_t sriov, cap, block;
uint64_t wptr[VFS];

uint32_t where(enum gpuiov_register reg, uint32_t *region)
{
	const struct gpuiov_location *at = &layout->at[reg];

	*region = at->space == GPUIOV_MMIO ? VFIO_REGION_BAR5 : VFIO_REGION_CONFIG;
	return at->offset + (at->space == GPUIOV_CAP ? cap : at->space == GPUIOV_BLOCK ? block : 0);
}

uint32_t get(enum gpuiov_register reg)
{
	uint32_t region, offset = where(reg, &region), value;

	bus->read(SOFTGPU_PF, region, offset, &value, 4);
	return value;
}

void set(enum gpuiov_register reg, uint32_t value)
{
	uint32_t region, offset = where(reg, &region);

	bus->write(SOFTGPU_PF, region, offset, &value, 4);
}

uint32_t get_own(uint32_t offset)
{
	uint32_t value;

	bus->read(SOFTGPU_PF, VFIO_REGION_BAR5, offset, &value, 4);
	return value;
}

void set_config16(uint32_t offset, uint16_t value)
{
	bus->write(SOFTGPU_PF, VFIO_REGION_CONFIG, offset, &value, 2);
}

void partition(uint32_t vf, uint32_t mib, uint32_t at_mib)
{
	uint32_t region, offset = where(GPUIOV_FB_TABLE, &region);
	uint32_t entry = (mib / 16 - layout->fb_size_bias) | (at_mib / 16) << 16;

	bus->write(SOFTGPU_PF, region, offset + 4 * vf, &entry, 4);
}

bool await(bool (*condition)(void *), void *arg)
{
	struct timespec pause = {0, 200000};
	int i;

	for (i = 0; i < 100000; i++) {
		if (condition(arg))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

bool is_settled(void *)
{
	return !(get(GPUIOV_CMD) & GPUIOV_CMD_EXECUTE) &&
	       (get(GPUIOV_CMD_STATUS) & 0xff) < GPUIOV_STATUS_IDLING;
}

uint32_t command(uint32_t code, uint32_t vf)
{
	set(GPUIOV_CMD, code | GPUIOV_CMD_EXECUTE | GPUIOV_FCN_VF(vf) << 8);
	CU_ASSERT(await(is_settled, NULL));
	return get(GPUIOV_CMD_STATUS) & 0xff;
}

bool is_filled(void *)
{
	return !(get_own(SOFTGPU_FILL_CTRL) & SOFTGPU_FILL_BUSY);
}

bool is_reset(void *vf)
{
	uint32_t bit = 1u << *(uint32_t *)vf;

	return get(GPUIOV_RESET_NOTIFICATION) & bit && !(get(GPUIOV_VF_RESET_REQ) & bit);
}

void reset_vf(uint32_t vf)
{
	set(GPUIOV_VF_RESET_REQ, 1u << vf);
	CU_ASSERT(await(is_reset, &vf));
	set(GPUIOV_RESET_NOTIFICATION, 1u << vf);
	CU_ASSERT_EQUAL(get(GPUIOV_VM_INIT) >> vf & 1, 0);
}

void vf_write64(uint32_t vf, uint32_t offset, uint64_t value)
{
	bus->write((int)vf, VFIO_REGION_BAR5, offset, &value, 8);
}

uint32_t vf_read32(uint32_t vf, uint32_t offset)
{
	uint32_t value;

	bus->read((int)vf, VFIO_REGION_BAR5, offset, &value, 4);
	return value;
}

void bring_up(uint32_t vf)
{
	set(GPUIOV_GATE_REGISTERS, 0xf);
	set(GPUIOV_GATE_DOORBELL, 0xf);
	set(GPUIOV_GATE_MEMORY, 0xf);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_INIT, vf), 0);
	vf_write64(vf, SOFTGPU_RING_SIZE, 64);
	vf_write64(vf, SOFTGPU_FENCE_ADDR, FENCE_AT);
	wptr[vf] = 0;
}

void put(uint32_t vf, struct softgpu_packet p)
{
	bus->write((int)vf, VFIO_REGION_BAR0, wptr[vf] % 64 * 64, &p, 64);
	wptr[vf]++;
}

void ring(uint32_t vf)
{
	bus->write((int)vf, VFIO_REGION_BAR2, 0, &wptr[vf], 8);
}

bool fence_reached(void *fence)
{
	const struct fence *f = fence;
	uint64_t value;

	bus->read((int)f->vf, VFIO_REGION_BAR0, FENCE_AT, &value, 8);
	return value == f->value;
}

void begin(const char *name)
{
	uint8_t bytes[4096];
	uint16_t at = 0;
	uint32_t vsec, i;

	layout = gpuiov_layout_by_name(name);
	bus->begin(name);
	bus->read(SOFTGPU_PF, VFIO_REGION_CONFIG, 0, bytes, sizeof(bytes));
	sriov = cap = 0;
	CU_ASSERT_FATAL(vfio_find_ext_cap(bytes, PCI_EXT_CAP_SRIOV, &sriov));
	do {
		CU_ASSERT_FATAL(vfio_find_ext_cap(bytes, PCI_EXT_CAP_VENDOR, &at));
		memcpy(&vsec, bytes + at + 4, 4);
	} while ((vsec & 0xffff) != GPUIOV_VSEC_ID);
	CU_ASSERT_EQUAL(vsec >> 20, layout->cap_length);
	cap = at;
	block = layout->block_pointer ? (uint16_t)(cap + (bytes[cap + layout->block_pointer] << 4))
				      : cap;
	set(GPUIOV_CONTEXT, 4u << 10); /* the save area starts 1 MiB into the PF's memory */
	for (i = 0; i < VFS; i++)
		partition(i, VF_MIB, 64 + i * VF_MIB);
	bus->enable_vfs();
}

void end(void)
{
	bus->end();
}
