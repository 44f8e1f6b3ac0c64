/* SPDX-License-Identifier: MIT */
/* Accesses the GPU's table of partitions, and its engine that clears and copies memory. */
#include <errno.h>
#include <string.h>

#include "gpuiov.h"

/* Returns the table's entry for a partition; 0: none. */
static uint32_t table_entry(const struct vgpu_driver *d, struct vgpu_extent where)
{
	if (where.size == 0)
		return 0;
	return (uint32_t)(where.size / GPUIOV_FB_UNIT - d->layout->fb_size_bias) |
	       (uint32_t)(where.offset / GPUIOV_FB_UNIT) << 16;
}

int gpuiov_read_table(struct vgpu_driver *d, struct vgpu_partition *out)
{
	uint32_t region, entry = 0, i;
	uint64_t table;
	int r = 0;

	gpuiov_place(d, GPUIOV_FB_TABLE, &region, &table);
	for (i = 0; i < d->config.n_vfs && r == 0; i++) {
		r = vfio_read(d->device, region, table + 4 * i, &entry, sizeof(entry));
		out->vfs[i] = (struct vgpu_extent){0, 0};
		if (r < 0 || entry == 0)
			continue;
		out->vfs[i].offset = (uint64_t)(entry >> 16) * GPUIOV_FB_UNIT;
		out->vfs[i].size =
			(uint64_t)((entry & 0xffff) + d->layout->fb_size_bias) * GPUIOV_FB_UNIT;
	}
	return r;
}

int gpuiov_set_aperture(struct vgpu_driver *d)
{
	uint64_t aperture[2] = {VFIO_HOST_MEMORY_IOVA, d->host.size}, back[2] = {0, 0};
	int r;

	if (!d->host.memory)
		return 0;
	r = vfio_write_read(d->device, VFIO_REGION_BAR5, SOFTGPU_HOST_BASE, aperture,
			    sizeof(aperture), SOFTGPU_HOST_BASE, back, sizeof(back));
	if (r < 0)
		return r;
	return back[1] == aperture[1] ? 0 : -EOPNOTSUPP;
}

/* An entry is one dword, so that a vgpud killed at any instant leaves the old one or the new
 * one. */
int gpuiov_place_vf(struct vgpu_driver *d, uint32_t vf, struct vgpu_extent where)
{
	uint32_t region, entry = table_entry(d, where), back = ~entry;
	uint64_t table;
	int r;

	gpuiov_place(d, GPUIOV_FB_TABLE, &region, &table);
	r = vfio_write_read(d->device, region, table + 4 * vf, &entry, sizeof(entry),
			    table + 4 * vf, &back, sizeof(back));
	if (r < 0)
		return -ENODEV;
	if (back != entry)
		return -EIO;
	d->partition.vfs[vf] = where;
	return 0;
}

static int start(struct vgpu_driver *d, struct vgpu_extent where, uint32_t what)
{
	uint64_t range[2] = {where.offset, where.size};
	int r = vfio_write(d->device, VFIO_REGION_BAR5, SOFTGPU_FILL_OFFSET, range, sizeof(range));

	if (r != 0)
		return r;
	return vfio_write(d->device, VFIO_REGION_BAR5, SOFTGPU_FILL_CTRL, &what, sizeof(what));
}

int gpuiov_clear(struct vgpu_driver *d, struct vgpu_extent where)
{
	return start(d, where, SOFTGPU_FILL_START);
}

int gpuiov_copy(struct vgpu_driver *d, struct vgpu_extent from, uint64_t to)
{
	int r = vfio_write(d->device, VFIO_REGION_BAR5, SOFTGPU_COPY_FROM, &from.offset,
			   sizeof(from.offset));

	if (r != 0)
		return r;
	return start(d, (struct vgpu_extent){to, from.size}, SOFTGPU_COPY_START);
}

int gpuiov_memory_busy(struct vgpu_driver *d, bool *failed)
{
	uint32_t status = 0;
	int r;

	if (d->gpu_resetting)
		return 1;
	r = gpuiov_read_own(d, SOFTGPU_FILL_CTRL, &status);
	if (r == 0 && status == UINT32_MAX)
		r = -ENODEV;
	*failed = status & SOFTGPU_FILL_FAILED;
	if (r != 0)
		return r;
	return (int)(status & SOFTGPU_FILL_BUSY);
}

int gpuiov_memory_read(struct vgpu_driver *d, uint64_t offset, void *data, uint32_t size)
{
	if (offset >= d->memory) {
		memcpy(data, (const char *)d->host.memory + (offset - d->memory), size);
		return 0;
	}
	return vfio_read(d->device, VFIO_REGION_BAR0, offset, data, size);
}

static void report(struct vgpu_driver *d, uint32_t vfs, enum vgpu_violation code, vgpu_nsec now)
{
	uint32_t vf;

	for (vf = 0; vf < d->config.n_vfs; vf++)
		if (vfs >> vf & 1)
			gpuiov_emit(d, VGPU_EV_VIOLATION, vf, code, 0, now);
}

/* Reports VFs that accessed memory outside their partitions, and partitions that overlap, which
 * would be a fault of vgpud. */
int gpuiov_look_for_violations(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t violators = 0, overlaps = 0;
	int r = gpuiov_read_own(d, SOFTGPU_VIOLATORS, &violators);

	if (r == 0)
		r = gpuiov_read_own(d, SOFTGPU_FB_OVERLAP, &overlaps);
	if (r == 0 && violators)
		r = vfio_write(d->device, VFIO_REGION_BAR5, SOFTGPU_VIOLATORS, &violators,
			       sizeof(violators));
	if (r < 0)
		return r;
	report(d, violators, VGPU_VIOLATION_ACCESS, now);
	report(d, overlaps & ~d->overlaps, VGPU_VIOLATION_OVERLAP, now);
	d->overlaps = overlaps;
	return 0;
}
