/* SPDX-License-Identifier: MIT */
#include "fake_nvml.h"

#include <stdio.h>
#include <string.h>

struct fake_nvml fake_nvml = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int device;

#define LOCKED(result, what)                                                                       \
	do {                                                                                       \
		int r;                                                                             \
		pthread_mutex_lock(&fake_nvml.lock);                                               \
		r = (result);                                                                      \
		if (r == NVML_OK) {                                                                \
			what;                                                                      \
		}                                                                                  \
		pthread_mutex_unlock(&fake_nvml.lock);                                             \
		return r;                                                                          \
	} while (0)

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
	LOCKED(fake_nvml.init, fake_nvml.inits++);
}

int nvmlShutdown(void);
int nvmlShutdown(void)
{
	LOCKED(NVML_OK, fake_nvml.shutdowns++);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **out);
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **out)
{
	LOCKED(fake_nvml.find			     ? fake_nvml.find
	       : strcmp(address, fake_nvml.gpu) == 0 ? NVML_OK
						     : NVML_NOT_FOUND,
	       *out = &device);
}

/* What each call about the GPU begins with. */
static int check(void *d, const void *out, int result)
{
	if (d != &device || !out || fake_nvml.inits == fake_nvml.shutdowns)
		return NVML_INVALID;
	return result;
}

int nvmlDeviceGetVgpuSchedulerCapabilities(void *d, struct nvml_caps *out);
int nvmlDeviceGetVgpuSchedulerCapabilities(void *d, struct nvml_caps *out)
{
	LOCKED(check(d, out, fake_nvml.limits), *out = fake_nvml.caps);
}

int nvmlDeviceGetActiveVgpus(void *d, uint32_t *n, uint32_t *ids);
int nvmlDeviceGetActiveVgpus(void *d, uint32_t *n, uint32_t *ids)
{
	uint32_t room = n ? *n : 0, i;

	LOCKED(check(d, n, fake_nvml.running), {
		*n = fake_nvml.n_vgpus + fake_nvml.more;
		if (room < *n)
			r = NVML_TOO_SMALL;
		if (room < *n && ids) /* nobody says what is there then */
			memset(ids, 0xee, room * sizeof(*ids));
		for (i = 0; i < fake_nvml.n_vgpus && r == NVML_OK; i++)
			ids[i] = fake_nvml.vgpus[i].id;
	});
}

int nvmlDeviceGetVgpuSchedulerState(void *d, struct nvml_state1 *out);
int nvmlDeviceGetVgpuSchedulerState(void *d, struct nvml_state1 *out)
{
	LOCKED(check(d, out, fake_nvml.get), {
		memset(out, 0xff, sizeof(*out));
		out->policy = fake_nvml.policy;
		out->arr = fake_nvml.arr;
		if (fake_nvml.arr == NVML_ARR_ON)
			out->got.arr.slice = fake_nvml.slice;
		else
			out->got.plain.slice = fake_nvml.slice;
	});
}

int nvmlDeviceGetVgpuSchedulerState_v2(void *d, struct nvml_state2 *out);
int nvmlDeviceGetVgpuSchedulerState_v2(void *d, struct nvml_state2 *out)
{
	LOCKED(check(d, out, out->engine != NVML_GRAPHICS ? NVML_INVALID : fake_nvml.get), {
		out->policy = fake_nvml.policy;
		out->slice = fake_nvml.slice;
		out->average = 33;
	});
}

static int may_set(void *d, const void *want)
{
	return fake_nvml.n_vgpus ? NVML_NOT_SUPPORTED : check(d, want, fake_nvml.set);
}

static void apply(uint32_t policy, uint32_t slice)
{
	fake_nvml.sets++;
	if (fake_nvml.deaf)
		return;
	fake_nvml.policy = policy;
	fake_nvml.slice = slice ? slice : 2000000;
}

static uint32_t slice_of(uint32_t frequency)
{
	return frequency ? 1000000000u / frequency : 0;
}

int nvmlDeviceSetVgpuSchedulerState(void *d, struct nvml_set1 *want);
int nvmlDeviceSetVgpuSchedulerState(void *d, struct nvml_set1 *want)
{
	LOCKED(may_set(d, want), {
		fake_nvml.set1 = *want;
		fake_nvml.arr = want->arr;
		apply(want->policy, want->arr == NVML_ARR_ON ? slice_of(want->want.arr.frequency)
							     : want->want.plain.slice);
	});
}

int nvmlDeviceSetVgpuSchedulerState_v2(void *d, struct nvml_set2 *want);
int nvmlDeviceSetVgpuSchedulerState_v2(void *d, struct nvml_set2 *want)
{
	LOCKED(want->engine != NVML_GRAPHICS ? NVML_INVALID : may_set(d, want), {
		fake_nvml.set2 = *want;
		fake_nvml.arr = NVML_ARR_ON;
		apply(want->policy, slice_of(want->frequency));
	});
}

int nvmlDeviceGetVgpuSchedulerLog(void *d, struct nvml_log1 *out);
int nvmlDeviceGetVgpuSchedulerLog(void *d, struct nvml_log1 *out)
{
	uint32_t i;

	LOCKED(check(d, out, fake_nvml.log), {
		out->n = fake_nvml.n_log;
		for (i = 0; i < out->n; i++)
			memcpy(&out->entries[i], &fake_nvml.entries[i], sizeof(out->entries[i]));
	});
}

int nvmlDeviceGetVgpuSchedulerLog_v2(void *d, struct nvml_log2 *out);
int nvmlDeviceGetVgpuSchedulerLog_v2(void *d, struct nvml_log2 *out)
{
	LOCKED(check(d, out, fake_nvml.log), {
		out->n = fake_nvml.n_log;
		memcpy(out->entries, fake_nvml.entries, sizeof(out->entries));
	});
}

int nvmlDeviceGetVgpuUtilization(void *d, unsigned long long since, int *type, uint32_t *n,
				 struct nvml_sample *out);
int nvmlDeviceGetVgpuUtilization(void *d, unsigned long long since, int *type, uint32_t *n,
				 struct nvml_sample *out)
{
	uint32_t i;

	LOCKED(check(d, out, fake_nvml.now <= since ? NVML_NOT_FOUND : fake_nvml.busy), {
		*type = NVML_VALUE_IS_UINT;
		*n = fake_nvml.n_vgpus;
		for (i = 0; i < *n; i++) {
			/* The rest of a union's value is not written. */
			memset(&out[i], 0xee, sizeof(out[i]));
			out[i].vgpu = fake_nvml.vgpus[i].id;
			out[i].timestamp = fake_nvml.now;
			out[i].sm.percent = fake_nvml.vgpus[i].percent;
		}
	});
}

int nvmlVgpuInstanceGetVmID(uint32_t vgpu, char *out, uint32_t size, int *type);
int nvmlVgpuInstanceGetVmID(uint32_t vgpu, char *out, uint32_t size, int *type)
{
	uint32_t i;

	LOCKED(fake_nvml.vm, {
		r = NVML_NOT_FOUND;
		for (i = 0; i < fake_nvml.n_vgpus; i++) {
			if (fake_nvml.vgpus[i].id != vgpu)
				continue;
			snprintf(out, size, "%s", fake_nvml.vgpus[i].vm);
			*type = fake_nvml.vm_ids;
			r = NVML_OK;
		}
	});
}
