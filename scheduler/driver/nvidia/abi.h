/* SPDX-License-Identifier: MIT */
/*
 * The parts of NVIDIA's management library (NVML, libnvidia-ml.so.1) that this driver uses: layouts
 * and numbers, by the declarations that NVIDIA publishes (NVIDIA/go-nvml, gen/nvml/nvml.h, API 13).
 * Structures of the second version have no field for their version: the name of the function says
 * which one it takes.
 */
#pragma once

#include <stdint.h>

#define NVML_ENTRIES 200u
#define NVML_GRAPHICS 1u /* engine */
#define NVML_VM_IS_UUID 1u
#define NVML_VALUE_IS_UINT 1u
#define NVML_ID_SIZE 80u

enum nvml_result {
	NVML_OK = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_TOO_SMALL = 7,
	NVML_NO_DRIVER = 9,
	NVML_NO_FUNCTION = 13,
	NVML_LOST = 15,
	NVML_RESET_REQUIRED = 16,
	NVML_BLOCKED = 17,
	NVML_MISMATCH = 18,
	NVML_IN_USE = 19,
	NVML_UNKNOWN = 999,
};

enum nvml_policy { NVML_BEST_EFFORT = 1, NVML_EQUAL_SHARE = 2, NVML_FIXED_SHARE = 3 };
#define NVML_POLICIES 3u

/* Adaptive round robin: the overrun of a vGPU is subtracted from its next turns. */
enum nvml_arr { NVML_ARR_DEFAULT = 0, NVML_ARR_OFF = 1, NVML_ARR_ON = 2 };

struct nvml_caps {
	uint32_t policies[NVML_POLICIES];
	uint32_t max_slice, min_slice; /* ns */
	uint32_t has_arr;
	uint32_t max_frequency, min_frequency; /* Hz */
	uint32_t max_average, min_average;
};

/* With ARR {average, slice}, without {slice}. */
union nvml_got {
	struct {
		uint32_t average, slice;
	} arr;
	struct {
		uint32_t slice;
	} plain;
};

/* With ARR {average, frequency}, without {slice}; 0: the default. */
union nvml_want {
	struct {
		uint32_t average, frequency;
	} arr;
	struct {
		uint32_t slice;
	} plain;
};

struct nvml_state1 {
	uint32_t policy, arr;
	union nvml_got got;
};

struct nvml_set1 {
	uint32_t policy, arr;
	union nvml_want want;
};

struct nvml_state2 {
	uint32_t engine, policy, average, slice; /* slice: ns */
};

struct nvml_set2 {
	uint32_t engine, policy, average, frequency;
};

/* All times in nanoseconds. */
struct nvml_entry1 {
	uint64_t timestamp, run_total, run;
	uint32_t runlist;
	uint64_t target, preemption_total;
};

struct nvml_entry2 {
	uint64_t timestamp, run_total, run;
	uint32_t runlist;
	uint64_t target, preemption_total;
	uint32_t weight;
};

struct nvml_log1 {
	uint32_t engine, policy, arr;
	union nvml_got got;
	uint32_t n;
	struct nvml_entry1 entries[NVML_ENTRIES];
};

struct nvml_log2 {
	uint32_t engine, policy, average, slice, n;
	struct nvml_entry2 entries[NVML_ENTRIES];
};

union nvml_value {
	uint32_t percent;
	uint64_t all;
};

struct nvml_sample {
	uint32_t vgpu;
	uint64_t timestamp; /* us */
	union nvml_value sm, memory, encoder, decoder;
};

_Static_assert(sizeof(struct nvml_caps) == 40 && sizeof(struct nvml_state1) == 16 &&
		       sizeof(struct nvml_set1) == 16 && sizeof(struct nvml_state2) == 16 &&
		       sizeof(struct nvml_set2) == 16 && sizeof(struct nvml_entry1) == 48 &&
		       sizeof(struct nvml_entry2) == 56 && sizeof(struct nvml_log1) == 9624 &&
		       sizeof(struct nvml_log2) == 11224 && sizeof(struct nvml_sample) == 48,
	       "the layouts of NVML");
