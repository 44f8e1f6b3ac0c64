/* SPDX-License-Identifier: MIT */
/*
 * What nvidia-smi calls beside NVML's public calls: functions that have numbers in place of names,
 * in a table that begins with its size in bytes. NVIDIA shows it in its stand-in for tests,
 * mocknvml in github.com/NVIDIA/k8s-test-infra; the numbers are the same in nvidia-smi 418 to 580.
 * Whoever calls looks at the size first, and does without what is not there.
 */
#include <string.h>

#include "library.h"

enum {
	LOG = 26,	 /* (format, ...) */
	DEVICE = 81,	 /* (index, nvmlDevice_t *, ...) */
	COMPUTING = 213, /* (nvmlDevice_t, uint32_t *n, struct nvml_named_process *) */
	FUNCTIONS = 216, /* 214: the processes that draw; 215: those of MPS */
};

struct nvml_table {
	size_t bytes;
	void (*functions[FUNCTIONS - 1])(void);
};

_Static_assert(sizeof(struct nvml_table) == FUNCTIONS * 8 &&
		       sizeof(struct nvml_named_process) == 4128,
	       "as nvidia-smi has them");

static const uint8_t smi[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
				0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};

/* They read none of their arguments. */
static nvmlReturn_t say_nothing(void)
{
	return NVML_SUCCESS;
}

static nvmlReturn_t absent(void)
{
	return NVML_ERROR_NOT_SUPPORTED;
}

#define FUNCTION(f) ((void (*)(void))(f))
static const struct nvml_table table = {
	.bytes = sizeof(table),
	/* function N is at N - 1 */
	.functions = {[0 ... LOG - 2] = FUNCTION(absent),
		      FUNCTION(say_nothing),
		      [LOG... DEVICE - 2] = FUNCTION(absent),
		      FUNCTION(nvmlDeviceGetHandleByIndex_v2),
		      [DEVICE... COMPUTING - 2] = FUNCTION(absent),
		      FUNCTION(processes_named),
		      FUNCTION(nvmlDeviceGetGraphicsRunningProcesses_v3),
		      FUNCTION(nvmlDeviceGetMPSComputeRunningProcesses_v3)},
};

nvmlReturn_t nvmlInternalGetExportTable(const struct nvml_table **out, const uint8_t id[16])
{
	nvmlReturn_t e = NVML_SUCCESS;

	call_begin_system(true, NULL); /* nvidia-smi asks before nvmlInit(), too */
	if (!out || !id)
		e = NVML_ERROR_INVALID_ARGUMENT;
	else if (memcmp(id, smi, sizeof(smi)) != 0)
		e = NVML_ERROR_NOT_FOUND;
	else
		*out = &table;
	return CALL_END(e);
}
