/* SPDX-License-Identifier: MIT */
/*
 * The memory of VFs, by sizes alone: where it lies is the kernel's secret. The kernel takes a VF's
 * memory away before it looks for the new size, and does not undo that if it finds none. So all VFs
 * that shrink come first, each size is read back, and at the first failure all get back what they
 * had, in the same order.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "xe.h"

/* The kernel rounds up to 2 MiB on each of up to 4 tiles. */
#define ROUNDING ((uint64_t)8 << 20)

static bool is_as_wanted(uint64_t have, uint64_t want)
{
	return have >= want && have - want < ROUNDING;
}

int xe_read_all_memory(const char *pf, uint32_t n, uint64_t *have, struct vgpu_error *err)
{
	uint32_t i;
	int r = 0;

	for (i = 0; i < n && r == 0; i++)
		r = xe_read_memory(pf, xe_function_of(i), &have[i]);
	return r < 0 ? vgpu_error_set(err, r, "%s: cannot read the memory of VF %" PRIu32 ": %s",
				      pf, i - 1, strerror(-r))
		     : 0;
}

static int check_unused(const char *pf, uint32_t n, const uint64_t *want, const uint64_t *have,
			struct vgpu_error *err)
{
	char vf[PCI_ADDRESS_SIZE], user[64];
	uint32_t i;

	for (i = 0; i < n; i++)
		if (!is_as_wanted(have[i], want[i]) && pci_vf_address(pf, i, vf) == 0 &&
		    pci_user(vf, user, sizeof(user)))
			return vgpu_error_set(err, -EBUSY,
					      "%s: the memory of VF %" PRIu32
					      " (%s) cannot be changed while %s uses it; end that "
					      "process first",
					      pf, i, vf, user);
	return 0;
}

static int write_one(const char *pf, uint32_t vf, uint64_t want)
{
	uint64_t now = 0;
	int r = xe_write_memory(pf, xe_function_of(vf), want);

	if (r == 0)
		r = xe_read_memory(pf, xe_function_of(vf), &now);
	if (r == -EBUSY)
		return -EAGAIN; /* the GPU is being reset; -EBUSY says that a VF is in use */
	return r < 0 ? r : is_as_wanted(now, want) ? 0 : -EIO;
}

/* Writes all that differ. Returns 0 or -errno, with the VF that failed. */
static int write_all(const char *pf, uint32_t n, const uint64_t *want, const uint64_t *have,
		     uint32_t *failed)
{
	uint32_t grow, i;
	int r;

	for (grow = 0; grow < 2; grow++) {
		for (i = 0; i < n; i++) {
			if (is_as_wanted(have[i], want[i]) || (want[i] > have[i]) != grow)
				continue;
			*failed = i;
			r = write_one(pf, i, want[i]);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* What could not be given back is said, too. */
static int undo(const char *pf, uint32_t n, const uint64_t *before, int r, uint32_t failed,
		struct vgpu_error *err)
{
	uint64_t now[VGPU_GPU_MAX_VFS];
	uint32_t stuck = failed;
	int undone = xe_read_all_memory(pf, n, now, NULL);

	if (undone == 0)
		undone = write_all(pf, n, before, now, &stuck);
	if (undone < 0)
		return vgpu_error_set(err, r,
				      "%s: cannot change the memory of VF %" PRIu32
				      ": %s; and VF %" PRIu32
				      " cannot be set back to its previous size: %s; write it to "
				      "sriov_admin/vf%" PRIu32 "/profile/vram_quota",
				      pf, failed, strerror(-r), stuck, strerror(-undone),
				      stuck + 1);
	return vgpu_error_set(err, r,
			      "%s: cannot change the memory of VF %" PRIu32
			      ": %s; all VFs keep their memory. Give them less (memory_mib)",
			      pf, failed, strerror(-r));
}

int xe_set_memory(const char *pf, uint32_t n, const uint64_t *want, uint64_t *have,
		  vgpu_vf_set *changed, struct vgpu_error *err)
{
	uint64_t before[VGPU_GPU_MAX_VFS];
	uint32_t failed = 0, i;
	int r = xe_read_all_memory(pf, n, before, err);

	*changed = 0;
	if (r == 0)
		r = check_unused(pf, n, want, before, err);
	if (r < 0)
		return r;
	for (i = 0; i < n; i++)
		*changed |= (vgpu_vf_set)!is_as_wanted(before[i], want[i]) << i;
	r = write_all(pf, n, want, before, &failed);
	if (r < 0)
		return undo(pf, n, before, r, failed, err);
	return xe_read_all_memory(pf, n, have, err);
}
