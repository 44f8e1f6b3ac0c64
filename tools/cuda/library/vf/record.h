/* SPDX-License-Identifier: MIT */
/*
 * The figures of a program with a VF, for NVML in other programs: a memory file among the program's
 * descriptors. Processes that may read the program's /proc/PID/fd find it there. It ends with the
 * program, also if that is killed. All functions are called with the library's lock.
 */
#pragma once

#include "find.h"
#include "softgpu/packets.h"

/* The name of the memory file, and the target of its link in /proc/PID/fd. */
#define RECORD_NAME "vgpu-cuda"
#define RECORD_LINK "/memfd:" RECORD_NAME " (deleted)"
#define RECORD_LAYOUT UINT64_C(0x31616475632d7076)

struct record {
	uint64_t layout;	 /* RECORD_LAYOUT */
	char vf[FIND_NAME_SIZE]; /* find_key() */
	uint64_t total;		 /* bytes that programs can allocate; 0: the VF is not up yet */
	uint64_t used;		 /* bytes that this program has allocated */
	struct softgpu_about about;
};

/* Begins a record of the VF NAME. If that fails, the program continues without a record. */
void record_begin(const char *name);
/* Records that the VF is up, with its total memory, bytes, and its GPU. */
void record_show(uint64_t total, const struct softgpu_about *about);
/* Adds BYTES, which may be negative, to what this program has allocated. */
void record_used(int64_t bytes);
void record_end(void);
