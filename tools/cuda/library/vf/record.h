/* SPDX-License-Identifier: MIT */
/*
 * What a program that has a VF tells other programs, for NVML: a memory file among its descriptors,
 * which those find in /proc/PID/fd who may look at that process. It ends with the program, however
 * that ends. All calls with the library's lock.
 */
#pragma once

#include "find.h"
#include "softgpu/packets.h"

/* The name of the memory file, and where a descriptor of it leads. */
#define RECORD_NAME "vgpu-cuda"
#define RECORD_LINK "/memfd:" RECORD_NAME " (deleted)"
#define RECORD_LAYOUT UINT64_C(0x31616475632d7076)

struct record {
	uint64_t layout;	 /* RECORD_LAYOUT */
	char vf[FIND_NAME_SIZE]; /* find_key() */
	uint64_t total;		 /* bytes that programs can have; 0: the VF is not up yet */
	uint64_t used;		 /* bytes that this program has allocated */
	struct softgpu_about about;
};

/* Begins a record of the VF NAME. If there can be none, the program goes on without. */
void record_begin(const char *name);
/* The VF is up. */
void record_show(uint64_t total, const struct softgpu_about *about);
/* This program has allocated BYTES more than before. */
void record_used(int64_t bytes);
void record_end(void);
