/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "library.h"
#include "vgpu/clock.h"

/* The shortest time that is measured: also how long the first call waits. */
#define LEAST (100 * VGPU_MSEC)

/* The last look; AT is 0 if there was none. With the lock. */
static struct {
	vgpu_nsec at;
	uint64_t ran_ns;
	uint32_t percent; /* until then */
} last;

static nvmlReturn_t look(const struct vf *vf, bool *first)
{
	struct vf_facts facts = {0};
	int r = vf_facts(vf, &facts);
	vgpu_nsec now = vgpu_now();
	uint64_t percent;

	if (r < 0)
		return r == -EIO ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_NOT_SUPPORTED;
	/* Another VF in this place, or another process of the host that counts, begins with 0. */
	*first = last.at == 0 || facts.ran_ns < last.ran_ns;
	if (!*first && now - last.at < LEAST)
		return NVML_SUCCESS;
	percent = *first ? 0 : 100 * (facts.ran_ns - last.ran_ns) / (now - last.at);
	last.percent = percent < 100 ? (uint32_t)percent : 100;
	last.at = now;
	last.ran_ns = facts.ran_ns;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
					   struct nvml_utilization *utilization)
{
	const struct timespec pause = {0, LEAST};
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, utilization, &vf);
	bool first = false;

	if (e == NVML_SUCCESS)
		e = look(vf, &first);
	if (e == NVML_SUCCESS && first) {
		nanosleep(&pause, NULL);
		e = look(vf, &first);
	}
	if (e == NVML_SUCCESS)
		*utilization = (struct nvml_utilization){.gpu = last.percent};
	return CALL_END(e);
}
