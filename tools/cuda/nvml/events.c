/* SPDX-License-Identifier: MIT */
/* Sets of events. A VF tells of none, so they are all one, which stays empty. */
#include <time.h>

#include "library.h"

static struct nvml_events {
	char unused;
} the_set;

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out)
{
	nvmlReturn_t e = call_begin_system(out, NULL);

	if (e == NVML_SUCCESS)
		*out = &the_set;
	return CALL_END(e);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	return CALL_END(call_begin_system(set == &the_set, NULL));
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
	nvmlReturn_t e = call_begin(device, set == &the_set, &vf);

	if (e == NVML_SUCCESS && types)
		e = NVML_ERROR_NOT_SUPPORTED;
	return CALL_END(e);
}

/* Waits without the lock: other threads' calls go on. */
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, void *data, uint32_t timeout_ms)
{
	struct timespec left = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
	nvmlReturn_t e = call_begin_system(set == &the_set && data, NULL);

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
