/* SPDX-License-Identifier: MIT */
/*
 * AMD's driver GIM over the machine of machine.h: a Radeon PRO V710 at PF, whose VFs GIM has made
 * when it was loaded. It does what GIM does (amd/MxGPU-Virtualization, gim_debugfs.c): a slice that
 * is out of range is an error, and one that the GPU does not take is none.
 */
#pragma once

#include "reactive.h"

#define GIM_VFS 4u

/* Microseconds. */
extern uint32_t gim_slices[GIM_VFS];
/* Bitmap of VFs whose slices the GPU does not take. */
extern uint32_t gim_deaf;
/* The text of asymmetric_timeslice, in place of the slices; NULL: the slices. */
extern const char *gim_says;
/* Error of reading and of writing slices; of resetting a VF. */
extern int gim_read_error, gim_write_error, gim_reset_error;
extern unsigned gim_resets[GIM_VFS];

/* Make the machine with the GPU, on which vfio then looks (machine.h); and remove it. */
void make_gim_machine(void);
void remove_gim_machine(void);
