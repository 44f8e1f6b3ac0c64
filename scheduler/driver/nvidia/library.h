/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's management library, loaded when a GPU is opened. Newer functions (_v2) are used where
 * the library has them, older ones otherwise; the driver looks them up by name, never by a version.
 * Calls may block for as long as the GPU's driver does. One thread at a time for each struct.
 */
#pragma once

#include <stdbool.h>

#include "abi.h"
#include "vgpu/driver.h"

#define NVIDIA_LIBRARY "libnvidia-ml.so.1"

struct nvidia_calls; /* the library's functions; NULL: missing */

struct nvidia_library {
	void *handle;
	void *device;
	struct nvidia_calls *calls;
	union {
		struct nvml_log1 v1;
		struct nvml_log2 v2;
	} log;
};

/* The settings of the GPU's scheduler, present or wanted. */
struct nvidia_scheduler {
	uint32_t policy; /* enum nvml_policy */
	uint32_t slice;	 /* ns; 0: the GPU's own default */
};

struct nvidia_limits {
	uint32_t policies;	       /* bitmap of enum nvml_policy */
	uint32_t min_slice, max_slice; /* ns; 0, 0: none can be set */
};

/* Looks up a name in the library: dlsym(). Tests replace it, to hide names. */
extern void *(*nvidia_symbol)(void *handle, const char *name);

/* Loads the library, and finds the GPU at PF. Returns 0, or -errno with the reason in ERR. */
int nvidia_library_open(struct nvidia_library *l, const char *pf, struct vgpu_error *err);
void nvidia_library_close(struct nvidia_library *l);

/* All that follow return an enum nvml_result; also NVML_NO_FUNCTION if the library has no such
 * function. */

/* The settings that the driver's scheduler supports, and the present ones: *OUT is written if they
 * return NVML_SUCCESS. */
int nvidia_get_limits(struct nvidia_library *l, struct nvidia_limits *out);
int nvidia_get_scheduler(struct nvidia_library *l, struct nvidia_scheduler *out);
/* Only while no vGPU exists; NVML_NOT_SUPPORTED otherwise. */
int nvidia_set_scheduler(struct nvidia_library *l, const struct nvidia_scheduler *want);
/* Reads the last turns into OUT, up to NVML_ENTRIES, and their number. */
int nvidia_get_log(struct nvidia_library *l, struct nvml_entry2 *out, uint32_t *n);
/* Lists the vGPUs that exist if there are no more than *N, and sets their number. */
int nvidia_get_running(struct nvidia_library *l, uint32_t *vgpus, uint32_t *n);
/* Reads how busy vGPUs were since the instant SINCE, us; 0: as far back as is known. */
int nvidia_get_busy(struct nvidia_library *l, uint64_t since, struct nvml_sample *out, uint32_t *n);
/* Reads the UUID of the VM that has a vGPU. NVML_NOT_FOUND: it has no UUID. */
int nvidia_get_vm(struct nvidia_library *l, uint32_t vgpu, char out[NVML_ID_SIZE]);

/* The meaning of a result, as an errno, and as a clause for a message, with the remedy. */
int nvidia_errno(int result);
const char *nvidia_cause(int result);
