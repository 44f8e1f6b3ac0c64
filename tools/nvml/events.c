/* SPDX-License-Identifier: MIT */
/* Sets of events, in which none ever comes: a VF tells of none. */
#include <stdlib.h>
#include <time.h>

#include "library.h"

struct nvml_events {
	char unused;
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out)
{
	nvmlReturn_t e = call_begin_system(out, NULL);

	if (e == NVML_SUCCESS) {
		*out = malloc(sizeof(**out));
		e = *out ? NVML_SUCCESS : NVML_ERROR_MEMORY;
	}
	return CALL_END(e);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	nvmlReturn_t e = call_begin_system(set, NULL);

	if (e == NVML_SUCCESS)
		free(set);
	return CALL_END(e);
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, uint64_t *types)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, types, &vf);

	if (e == NVML_SUCCESS)
		*types = 0;
	return CALL_END(e);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, uint64_t types, nvmlEventSet_t set)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, set, &vf);

	if (e == NVML_SUCCESS && types)
		e = NVML_ERROR_NOT_SUPPORTED;
	return CALL_END(e);
}

/* Waits without the lock: other threads' calls go on. */
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, void *data, uint32_t timeout_ms)
{
	struct timespec left = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
	nvmlReturn_t e = call_begin_system(set && data, NULL);

	if (CALL_END(e) != NVML_SUCCESS)
		return e;
	while (nanosleep(&left, &left) < 0)
		;
	return NVML_ERROR_TIMEOUT;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, void *data, uint32_t timeout_ms)
{
	return nvmlEventSetWait_v2(set, data, timeout_ms);
}
