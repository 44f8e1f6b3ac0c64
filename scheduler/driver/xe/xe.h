/* SPDX-License-Identifier: MIT */
/*
 * The driver for Intel GPUs whose PF is bound to the kernel's driver xe. The GPU's firmware gives
 * turns to its functions, and vgpud sets the lengths of these turns, through files of sysfs
 * (vfio/xe_admin.h).
 */
#pragma once

#include "../settings/settings.h"
#include "vfio/xe_admin.h"

#define XE_FUNCTIONS (VGPU_GPU_MAX_VFS + 1)
#define XE_UNKNOWN UINT32_MAX
/* The host's own work: the least turn, and the kernel's own time-out. */
#define XE_PF_QUANTUM_MS 1u
#define XE_PF_TIMEOUT_US 16000u

static inline uint32_t xe_function_of(uint32_t vf)
{
	return vf + 1;
}

/* The settings of the PF and of the VFs that are scheduled; XE_UNKNOWN: the GPU's parts
 * disagree. */
struct xe_schedule {
	uint32_t n; /* functions */
	uint32_t at[XE_FUNCTIONS][XE_SETTINGS];
};

/* Reads all settings of OUT->n functions. Returns 0, or -errno; -EUCLEAN: some are XE_UNKNOWN. */
int xe_read_schedule(const char *pf, struct xe_schedule *out);
/*
 * Writes the settings in which the GPU differs from WANT (but not to XE_UNKNOWN), each write being
 * a line in the kernel's log, and reads all back into HAVE. A setting that cannot be written does
 * not prevent the others. While the GPU is being reset it waits, for 5 s, or until END (NULL:
 * never). Returns 0, or the first error; HAVE is valid in both cases.
 */
int xe_write_schedule(const char *pf, const struct xe_schedule *want, struct xe_schedule *have,
		      const _Atomic bool *end);
/* Converts, and clamps to the GPU's ranges. */
void xe_schedule_of(const struct vgpu_program *program, uint32_t n_vfs, struct xe_schedule *out);
void xe_program_of(const struct xe_schedule *schedule, struct vgpu_program *out);

/*
 * Gives VFs 0 to N - 1 the memory WANT, bytes, or leaves all as they are: VFs that change must not
 * be in use. First all that shrink, then all that grow. HAVE: the resulting sizes, which the kernel
 * has rounded up; CHANGED: bitmap of those that have another size. Returns 0, or -errno with the
 * reason in ERR; -EBUSY: one that would change is in use, and nothing was tried.
 */
int xe_set_memory(const char *pf, uint32_t n, const uint64_t *want, uint64_t *have,
		  vgpu_vf_set *changed, struct vgpu_error *err);
int xe_read_all_memory(const char *pf, uint32_t n, uint64_t *have, struct vgpu_error *err);

/* The counters of functions. */
struct xe_counters;
/* Opens the counters of the PF and of N VFs, which must be enabled. Returns 0, or -errno with the
 * reason in ERR. */
int xe_counters_open(struct xe_counters **out, const char *pf, uint32_t n, struct vgpu_error *err);
/* Reads what each VF has used, nanoseconds, since some instant, which changes when the counters
 * contradict each other. Returns 0, or -errno: the GPU has gone. Does not block. */
int xe_counters_read(struct xe_counters *c, vgpu_nsec *active, vgpu_nsec now);
void xe_counters_close(struct xe_counters *c);

/* The calls that the writer uses. */
extern const struct settings_ops xe_settings;

/* The operations of the driver's table, as vgpu/driver.h describes them. */
int xe_probe(const char *device, struct vgpu_error *err);
int xe_check(const struct vgpu_driver_config *config, struct vgpu_driver_caps *caps,
	     struct vgpu_error *err);
int xe_open(struct vgpu_driver **out, const struct vgpu_driver_config *config,
	    struct vgpu_driver_caps *caps, struct vgpu_driver_found *found, vgpu_event_sink *sink,
	    void *data, struct vgpu_error *err);
void xe_close(struct vgpu_driver *d, bool lost);
