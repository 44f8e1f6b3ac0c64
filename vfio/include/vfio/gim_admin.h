/* SPDX-License-Identifier: MIT */
/*
 * AMD GPUs that are bound to AMD's driver GIM (amd/MxGPU-Virtualization). GIM creates the VFs when
 * it is loaded. The VFs of a Radeon PRO V710 have turns, whose lengths are in a file of debugfs.
 * GPUs of the MI300 kind are divided in space: each VF has its own part of the GPU, so they have no
 * time slices. Calls may block. Any thread, one at a time for each GPU.
 */
#pragma once

#include "vfio/pci.h"

#define GIM_DRIVER "gim"
/* The range that asymmetric_timeslice accepts, microseconds. */
#define GIM_SLICE_MIN 100u
#define GIM_SLICE_MAX 1000000u
#define GIM_SLICE_STEP 100u

/* How the GPU's own scheduler treats VFs without work (GIM's parameter sch_policy). */
enum gim_mode {
	GIM_MODE_UNKNOWN = 0, /* the parameter is not set, or differs between GPUs */
	GIM_MODE_SOLID,	      /* 1: a VF without work keeps its turn, which passes unused */
	GIM_MODE_LIQUID,      /* 2: VFs without work are skipped */
	GIM_MODE_SOFTWARE,    /* 3 and more: GIM itself switches, with one slice for all VFs */
};

/* How a GPU is divided in space, by GIM's report. */
struct gim_partitions {
	char profile[16]; /* "CPX" */
	char memory[16];  /* "NPS4" */
	uint32_t index;	  /* the profile's number */
};

/* Describes the GPU with that address if vgpud can schedule it. Returns 0, or -errno with the
 * reason in ERR. Changes nothing. */
int gim_recognise(const char *address, struct pci_info *out, struct vgpu_error *err);

/* Reads the slices of VFs 0 to N - 1, microseconds. Returns 0 or -errno; -EOPNOTSUPP: the GPU has
 * no slices; -EINVAL: the file has an unknown form, or fewer VFs. */
int gim_read_slices(const char *pf, uint32_t n, uint32_t *slices);
/* Writes the slice of a VF, microseconds, for which GIM stops and restarts the GPU's scheduler.
 * Returns 0 or -errno; 0 does not mean that the GPU has accepted the slice. */
int gim_write_slice(const char *pf, uint32_t vf, uint32_t slice);

enum gim_mode gim_mode(void);

/* Returns whether the GPU is divided in space. */
bool gim_read_partitions(const char *pf, struct gim_partitions *out);
