// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Memory of VFs. As in Linux 7.3 (xe_gt_sriov_pf_config.c, pf_provision_vf_lmem): a size is rounded
 * up to 2 MiB, what the VF has is taken away before the new size is looked for, and that is not
 * undone. softgpu's table has units of 16 MiB: a VF gets as many as its size needs.
 */
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/sizes.h>

#include "lab_xe.h"

#include "vfio/gpuiov.h"

#define FB_AVAILABLE 0x28
#define FB_TABLE 0x38
#define CONTEXT 0x24
#define PF_UNITS 1 /* the PF's memory, in which VFs' contexts are saved */

static u32 units_of(u64 bytes)
{
	return (u32)div_u64(bytes + GPUIOV_FB_UNIT - 1, GPUIOV_FB_UNIT);
}

void lab_memory_init(struct lab_xe *x)
{
	x->units = (lab_config_read(x, x->cap + FB_AVAILABLE) & 0xffff) / (GPUIOV_FB_UNIT / SZ_1M);
	lab_config_write(x, x->cap + CONTEXT, 0);
}

static bool is_free(const struct lab_xe *x, u32 at, u32 n)
{
	unsigned int i;

	for (i = 1; i <= lab_last(x); i++) {
		const struct lab_function *f = &x->functions[i];

		if (f->vram && at < f->offset + units_of(f->vram) && f->offset < at + n)
			return false;
	}
	return true;
}

/* Tells softgpu, which refuses while the VF runs. */
static int place(struct lab_xe *x, unsigned int function, u32 offset, u32 units)
{
	int at = x->cap + FB_TABLE + 4 * (function - 1);
	u32 entry = units ? offset << 16 | units : 0;

	lab_config_write(x, at, entry);
	return lab_config_read(x, at) == entry ? 0 : -EIO;
}

static int set_one(struct lab_xe *x, unsigned int function, u64 bytes)
{
	struct lab_function *f = &x->functions[function];
	u32 n, at;
	int r;

	bytes = round_up(bytes, SZ_2M);
	n = units_of(bytes);
	if (f->vram) {
		r = place(x, function, 0, 0);
		if (r)
			return r;
		f->vram = 0;
	}
	if (!bytes)
		return 0;
	for (at = PF_UNITS; at + n <= x->units && !is_free(x, at, n); at++)
		;
	if (at + n > x->units)
		return -ENOSPC;
	r = place(x, function, at, n);
	if (r)
		return r;
	f->offset = at;
	f->vram = bytes;
	return 0;
}

int lab_set_vram_locked(struct lab_xe *x, unsigned int first, unsigned int last, u64 bytes)
{
	unsigned int i;
	int r = 0;

	for (i = first; i <= last && r == 0; i++)
		r = set_one(x, i, bytes);
	return r;
}

int lab_set_vram(struct lab_xe *x, unsigned int first, unsigned int last, u64 bytes)
{
	int r;

	mutex_lock(&x->master);
	r = lab_set_vram_locked(x, first, last, bytes);
	mutex_unlock(&x->master);
	return r;
}

u64 lab_get_vram(struct lab_xe *x, unsigned int function)
{
	u64 bytes;

	mutex_lock(&x->master);
	bytes = x->functions[function].vram;
	mutex_unlock(&x->master);
	return bytes;
}

/* The PF's share and one for each VF, a power of two; none if any of them has some already. */
int lab_fair_vram_locked(struct lab_xe *x, unsigned int vfs)
{
	u64 all = (u64)(x->units - PF_UNITS) * GPUIOV_FB_UNIT;
	unsigned int i;

	for (i = 1; i <= vfs; i++)
		if (x->functions[i].vram)
			return 0;
	return lab_set_vram_locked(x, 1, vfs, rounddown_pow_of_two(div_u64(all, vfs + 1)));
}
