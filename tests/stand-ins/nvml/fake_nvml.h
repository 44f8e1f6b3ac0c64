/* SPDX-License-Identifier: MIT */
/*
 * A library in the place of NVIDIA's management library, for its protocol and errors: it schedules
 * nothing. It does what NVIDIA's documentation says: the scheduler can be set only while no vGPU
 * exists, slices come out rounded to whole frequencies, and the log keeps the last 200 turns.
 * Programs find STRUCT fake_nvml in it by its name.
 */
#pragma once

#include <pthread.h>

#include "abi.h"

#define FAKE_VGPUS 8u

struct fake_nvml {
	pthread_mutex_t lock;
	char gpu[32]; /* the address that it knows */
	/* Results of the calls; 0: as they go. */
	int init, find, limits, get, set, running, log, busy, vm;
	int deaf;   /* what is set has no effect */
	int vm_ids; /* type of the VMs' identifiers */
	struct nvml_caps caps;
	uint32_t policy, slice, arr;
	/* What was set last, as it came. */
	struct nvml_set1 set1;
	struct nvml_set2 set2;
	unsigned inits, shutdowns, sets;
	uint32_t n_vgpus,
		more; /* more: vGPUs that are counted, and nothing else is known of them */
	struct {
		uint32_t id, percent;
		char vm[NVML_ID_SIZE];
	} vgpus[FAKE_VGPUS];
	uint64_t now; /* us */
	uint32_t n_log;
	struct nvml_entry2 entries[NVML_ENTRIES];
};
