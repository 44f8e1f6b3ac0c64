/* SPDX-License-Identifier: MIT */
/* vgpud's words for NVIDIA's three policies, and putting one into force. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "nvidia.h"

static const struct {
	uint32_t policy;
	const char *name;
} policies[] = {
	{NVML_BEST_EFFORT, "best-effort"},
	{NVML_EQUAL_SHARE, "equal"},
	{NVML_FIXED_SHARE, "strict"},
};

const char *nvidia_policy_name(uint32_t policy)
{
	size_t i;

	for (i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
		if (policies[i].policy == policy)
			return policies[i].name;
	return NULL;
}

uint32_t nvidia_policy_of(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
		if (strcmp(policies[i].name, name) == 0)
			return policies[i].policy;
	return 0;
}

int nvidia_translate(const struct nvidia_limits *limits, const struct vgpu_declaration *from,
		     struct nvidia_scheduler *to, struct vgpu_error *err)
{
	*to = (struct nvidia_scheduler){.policy = nvidia_policy_of(from->policy)};
	if (!to->policy || !(limits->policies >> to->policy & 1))
		return vgpu_error_set(err, -EOPNOTSUPP,
				      "the driver of this GPU does not offer it for its vGPUs; "
				      "choose another of strict, equal and best-effort");
	/* Best effort has slices of its own. */
	if (to->policy == NVML_BEST_EFFORT || !from->slice)
		return 0;
	if (from->slice < limits->min_slice || from->slice > limits->max_slice)
		return vgpu_error_set(err, -EINVAL,
				      "slice_us = %" PRIu64 ": this GPU takes %" PRIu32
				      " to %" PRIu32 "; slice = auto is its own default",
				      (uint64_t)(from->slice / VGPU_USEC),
				      (limits->min_slice + 999) / 1000, limits->max_slice / 1000);
	to->slice = (uint32_t)from->slice;
	return 0;
}

bool nvidia_is_as_wanted(const struct nvidia_scheduler *has, const struct nvidia_scheduler *want)
{
	uint32_t off =
		has->slice > want->slice ? has->slice - want->slice : want->slice - has->slice;

	return has->policy == want->policy && (!want->slice || off <= want->slice / 50);
}

int nvidia_put(struct nvidia_library *l, const struct nvidia_scheduler *want)
{
	struct nvidia_scheduler has = {.policy = 0};
	int r = nvidia_set_scheduler(l, want);

	if (r == NVML_OK)
		r = nvidia_get_scheduler(l, &has);
	return r == NVML_OK && !nvidia_is_as_wanted(&has, want) ? NVML_UNKNOWN : r;
}
