/* SPDX-License-Identifier: MIT */
/*
 * The settings by which the kernel's driver xe lets a host control the firmware of an Intel GPU:
 * /sys/bus/pci/devices/PF/sriov_admin. Callers check which files exist, not the kernel's version,
 * because vendors backport them to older kernels.
 *
 * Functions are numbered as the kernel does: 0 is the PF, N is VF N - 1 of vgpud. Settings are
 * whole numbers, in the kernel's units. Calls may block while a VF is being reset, for 5 s and
 * more: never call them from a thread that must not block. Any thread, one at a time for each GPU.
 */
#pragma once

#include "vfio/pci.h"

#define XE_DRIVER "xe"
#define XE_PF 0u
/* The least length that the kernel accepts, and the greatest that it does not clamp. */
#define XE_QUANTUM_MAX_MS 100000u
#define XE_TIMEOUT_MAX_US 100000000u

enum xe_setting {
	XE_QUANTUM = 0, /* ms; 0: endless */
	XE_TIMEOUT,	/* preemption time-out, us; 0: endless */
	XE_PRIORITY,	/* enum xe_priority */
	XE_SETTINGS,
};

enum xe_priority {
	XE_LOW = 0, /* the function is skipped while it has no work */
	XE_NORMAL,  /* it keeps its turn */
	XE_HIGH,    /* only for the PF: its turn is the next one */
};

/* Checks that the PF at ADDRESS is an Intel GPU with SR-IOV, bound to the driver xe, and that this
 * kernel has the settings. Changes nothing. Returns 0 with the PF's description in OUT; or -errno
 * with the reason in ERR. */
int xe_recognise(const char *address, struct pci_info *out, struct vgpu_error *err);

/* Reads a setting of a function. Returns 0, or -errno; -EUCLEAN: parts of the GPU have different
 * values, so the setting must be written again. */
int xe_read(const char *pf, uint32_t function, enum xe_setting setting, uint32_t *value);

/* Writes a setting of a function; XE_PRIORITY only of the PF. The kernel clamps values silently,
 * and may have applied a part if it fails. Returns 0, or -errno; -EBUSY: the GPU is being reset, so
 * the setting must be written later; -ECANCELED: the kernel has declared the GPU dead. */
int xe_write(const char *pf, uint32_t function, enum xe_setting setting, uint32_t value);

/* Writes the priority of all functions, which is one setting in the firmware. Returns 0 or
 * -errno. */
int xe_write_priorities(const char *pf, enum xe_priority priority);
/* Returns whether this kernel has the file of xe_write_priorities(). */
bool xe_has_priorities(const char *pf);

/* Returns whether the GPU has its own memory, and this kernel lets the host divide it. */
bool xe_has_memory(const char *pf);
/* Read and write a VF's memory, bytes; 0: none. To change a VF's size, the kernel first frees the
 * VF's memory, and does not restore it if it then fails. */
int xe_read_memory(const char *pf, uint32_t function, uint64_t *bytes);
int xe_write_memory(const char *pf, uint32_t function, uint64_t bytes);

/* Ends all work of a VF and keeps it stopped until the VF is reset. Returns 0 or -errno. */
int xe_stop(const char *pf, uint32_t function);

/* Writes the name that the kernel gives to the GPU's counters: "xe_0000_03_00.0". */
#define XE_UNITS "/sys/bus/event_source/devices"
#define XE_UNIT_SIZE 24
void xe_unit(const char *pf, char out[XE_UNIT_SIZE]);
/* Returns whether the kernel counts engine time for each function. */
bool xe_counts_functions(const char *pf);
