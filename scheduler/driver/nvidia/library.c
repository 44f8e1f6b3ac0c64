/* SPDX-License-Identifier: MIT */
#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void *(*nvidia_symbol)(void *handle, const char *name) = dlsym;

struct nvidia_calls {
	int (*init)(void);
	int (*shutdown)(void);
	int (*find)(const char *address, void **device);
	int (*limits)(void *device, struct nvml_caps *out);
	int (*running)(void *device, uint32_t *n, uint32_t *vgpus);
	int (*get1)(void *device, struct nvml_state1 *out);
	int (*get2)(void *device, struct nvml_state2 *out);
	int (*set1)(void *device, struct nvml_set1 *want);
	int (*set2)(void *device, struct nvml_set2 *want);
	int (*log1)(void *device, struct nvml_log1 *out);
	int (*log2)(void *device, struct nvml_log2 *out);
	int (*busy)(void *device, unsigned long long since, int *type, uint32_t *n,
		    struct nvml_sample *out);
	int (*vm)(uint32_t vgpu, char *out, uint32_t size, int *type);
};

/* Functions that vgpud cannot do without come first; of the pairs that follow, one each. */
static const struct {
	const char *name;
	size_t at;
} names[] = {
#define CALL(name, member)                                                                         \
	{                                                                                          \
		name, offsetof(struct nvidia_calls, member)                                        \
	}
	CALL("nvmlInit_v2", init),
	CALL("nvmlShutdown", shutdown),
	CALL("nvmlDeviceGetHandleByPciBusId_v2", find),
	CALL("nvmlDeviceGetVgpuSchedulerCapabilities", limits),
	CALL("nvmlDeviceGetActiveVgpus", running),
	CALL("nvmlDeviceGetVgpuSchedulerState", get1),
	CALL("nvmlDeviceGetVgpuSchedulerState_v2", get2),
	CALL("nvmlDeviceSetVgpuSchedulerState", set1),
	CALL("nvmlDeviceSetVgpuSchedulerState_v2", set2),
	CALL("nvmlDeviceGetVgpuSchedulerLog", log1),
	CALL("nvmlDeviceGetVgpuSchedulerLog_v2", log2),
	CALL("nvmlDeviceGetVgpuUtilization", busy),
	CALL("nvmlVgpuInstanceGetVmID", vm),
#undef CALL
};
#define NEEDED 5u

static const struct {
	int result, error;
	const char *cause;
} results[] = {
	{NVML_UNINITIALIZED, ENODEV, "the library was shut down"},
	{NVML_INVALID, EINVAL, "it takes other arguments: vgpud does not know this version"},
	{NVML_NOT_SUPPORTED, EOPNOTSUPP,
	 "not supported: the host driver is not that of vGPU software, MIG is on, or a vGPU "
	 "exists"},
	{NVML_NO_PERMISSION, EPERM, "no permission: run this as root"},
	{NVML_NOT_FOUND, ENOENT, "not found"},
	{NVML_NO_DRIVER, ENODEV, "the driver nvidia is not loaded"},
	{NVML_NO_FUNCTION, ENOSYS, "the library has no such function: update the host driver"},
	{NVML_LOST, ENODEV, "the GPU has fallen off the bus: restart the host"},
	{NVML_RESET_REQUIRED, EIO, "the GPU needs a reset: restart the host"},
	{NVML_BLOCKED, EPERM,
	 "the system blocks /dev/nvidiactl: allow it, by a drop-in of vgpud.service with "
	 "DeviceAllow=/dev/nvidiactl rw (see vgpud's nvidia-vgpu.md)"},
	{NVML_MISMATCH, EINVAL, "library and driver differ in their version: restart the host"},
	{NVML_IN_USE, EBUSY, "the GPU is in use: end the VMs that have its vGPUs"},
};

int nvidia_errno(int result)
{
	size_t i;

	for (i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		if (results[i].result == result)
			return -results[i].error;
	return result == NVML_OK ? 0 : -EIO;
}

const char *nvidia_cause(int result)
{
	size_t i;

	for (i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		if (results[i].result == result)
			return results[i].cause;
	return "the library reports an error: see the kernel's log";
}

/* Returns the name of a function that is missing, or NULL. */
static const char *look_up(struct nvidia_library *l)
{
	const struct nvidia_calls *c = l->calls;
	const char *missing = NULL;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *found = nvidia_symbol(l->handle, names[i].name);

		memcpy((char *)l->calls + names[i].at, &found, sizeof(found));
		if (!found && i < NEEDED && !missing)
			missing = names[i].name;
	}
	if (!missing && !c->get1 && !c->get2)
		missing = "nvmlDeviceGetVgpuSchedulerState";
	if (!missing && !c->set1 && !c->set2)
		missing = "nvmlDeviceSetVgpuSchedulerState";
	return missing;
}

static int find_gpu(struct nvidia_library *l, const char *pf, struct vgpu_error *err)
{
	int result = l->calls->init();

	if (result != NVML_OK)
		return vgpu_error_set(err, nvidia_errno(result),
				      "%s: " NVIDIA_LIBRARY " does not start: %s", pf,
				      nvidia_cause(result));
	result = l->calls->find(pf, &l->device);
	if (result == NVML_OK)
		return 0;
	l->calls->shutdown();
	return vgpu_error_set(err, nvidia_errno(result),
			      "%s: " NVIDIA_LIBRARY " does not find this GPU: %s", pf,
			      nvidia_cause(result));
}

int nvidia_library_open(struct nvidia_library *l, const char *pf, struct vgpu_error *err)
{
	const char *missing;
	int r;

	*l = (struct nvidia_library){.handle = dlopen(NVIDIA_LIBRARY, RTLD_NOW | RTLD_LOCAL)};
	if (!l->handle)
		return vgpu_error_set(err, -ENOENT,
				      "%s: cannot load " NVIDIA_LIBRARY
				      " (%s): install NVIDIA's licensed host driver with it",
				      pf, dlerror());
	l->calls = calloc(1, sizeof(*l->calls));
	missing = l->calls ? look_up(l) : NULL;
	r = !l->calls ? vgpu_error_set(err, -ENOMEM, "out of memory")
	    : missing ? vgpu_error_set(err, -ENOSYS,
				       "%s: " NVIDIA_LIBRARY " has no %s: vgpud needs NVIDIA vGPU "
				       "software 17 or later",
				       pf, missing)
		      : find_gpu(l, pf, err);
	if (r < 0) {
		free(l->calls);
		dlclose(l->handle);
	}
	return r;
}

void nvidia_library_close(struct nvidia_library *l)
{
	l->calls->shutdown();
	free(l->calls);
	dlclose(l->handle);
}

static uint32_t ns_of(uint32_t frequency)
{
	return frequency ? 1000000000u / frequency : 0;
}

/* The second version of the call that sets takes a frequency, and so does the first one with ARR.
 */
static bool takes_frequency(const struct nvidia_library *l, const struct nvml_caps *caps)
{
	return l->calls->set2 || caps->has_arr;
}

int nvidia_get_limits(struct nvidia_library *l, struct nvidia_limits *out)
{
	struct nvml_caps caps = {.has_arr = 0};
	int r = l->calls->limits(l->device, &caps);
	uint32_t i;

	*out = (struct nvidia_limits){.policies = 0};
	for (i = 0; i < NVML_POLICIES && r == NVML_OK; i++)
		if (caps.policies[i] < 32)
			out->policies |= 1u << caps.policies[i];
	out->min_slice = caps.min_slice;
	out->max_slice = caps.max_slice;
	if (takes_frequency(l, &caps)) {
		out->min_slice = ns_of(caps.max_frequency);
		out->max_slice = ns_of(caps.min_frequency);
	}
	return r;
}

int nvidia_get_scheduler(struct nvidia_library *l, struct nvidia_scheduler *out)
{
	struct nvml_state2 two = {.engine = NVML_GRAPHICS};
	struct nvml_state1 one = {.policy = 0};
	int r;

	if (l->calls->get2) {
		r = l->calls->get2(l->device, &two);
		*out = (struct nvidia_scheduler){two.policy, two.slice};
		return r;
	}
	r = l->calls->get1(l->device, &one);
	*out = (struct nvidia_scheduler){one.policy, one.arr == NVML_ARR_ON ? one.got.arr.slice
									    : one.got.plain.slice};
	return r;
}

int nvidia_set_scheduler(struct nvidia_library *l, const struct nvidia_scheduler *want)
{
	uint32_t frequency = want->slice ? (1000000000u + want->slice / 2) / want->slice : 0;
	struct nvml_set2 two = {.engine = NVML_GRAPHICS,
				.policy = want->policy,
				.frequency = frequency};
	struct nvml_set1 one = {.policy = want->policy};
	struct nvml_caps caps = {.has_arr = 0};
	int r;

	if (l->calls->set2)
		return l->calls->set2(l->device, &two);
	r = l->calls->limits(l->device, &caps);
	if (r != NVML_OK)
		return r;
	if (caps.has_arr) {
		one.arr = NVML_ARR_ON;
		one.want.arr.frequency = frequency;
	} else {
		one.arr = NVML_ARR_OFF;
		one.want.plain.slice = want->slice;
	}
	return l->calls->set1(l->device, &one);
}

static int get_log1(struct nvidia_library *l, struct nvml_entry2 *out, uint32_t *n)
{
	struct nvml_log1 *log = &l->log.v1;
	uint32_t i;
	int r;

	*log = (struct nvml_log1){.engine = NVML_GRAPHICS};
	r = l->calls->log1(l->device, log);
	*n = r != NVML_OK ? 0 : log->n < NVML_ENTRIES ? log->n : NVML_ENTRIES;
	for (i = 0; i < *n; i++)
		out[i] = (struct nvml_entry2){.timestamp = log->entries[i].timestamp,
					      .run_total = log->entries[i].run_total,
					      .run = log->entries[i].run,
					      .runlist = log->entries[i].runlist,
					      .target = log->entries[i].target,
					      .preemption_total = log->entries[i].preemption_total};
	return r;
}

int nvidia_get_log(struct nvidia_library *l, struct nvml_entry2 *out, uint32_t *n)
{
	struct nvml_log2 *log = &l->log.v2;
	int r;

	*n = 0;
	if (!l->calls->log2)
		return l->calls->log1 ? get_log1(l, out, n) : NVML_NO_FUNCTION;
	*log = (struct nvml_log2){.engine = NVML_GRAPHICS};
	r = l->calls->log2(l->device, log);
	*n = r != NVML_OK ? 0 : log->n < NVML_ENTRIES ? log->n : NVML_ENTRIES;
	memcpy(out, log->entries, *n * sizeof(*out));
	return r;
}

int nvidia_get_running(struct nvidia_library *l, uint32_t *vgpus, uint32_t *n)
{
	uint32_t room = *n;
	int r = l->calls->running(l->device, n, vgpus);

	/* What does not fit in, and is not listed then, exists all the same. */
	if (r == NVML_TOO_SMALL && *n > room)
		r = NVML_OK;
	if (r != NVML_OK)
		*n = 0;
	return r;
}

int nvidia_get_busy(struct nvidia_library *l, uint64_t since, struct nvml_sample *out, uint32_t *n)
{
	uint32_t room = *n;
	int type = -1, r;

	*n = 0;
	if (!l->calls->busy)
		return NVML_NO_FUNCTION;
	*n = room;
	r = l->calls->busy(l->device, since, &type, n, out);
	if (r == NVML_OK && (type != (int)NVML_VALUE_IS_UINT || *n > room))
		r = NVML_UNKNOWN;
	if (r != NVML_OK)
		*n = 0;
	return r == NVML_NOT_FOUND ? NVML_OK : r; /* nothing new */
}

int nvidia_get_vm(struct nvidia_library *l, uint32_t vgpu, char out[NVML_ID_SIZE])
{
	int type = -1, r;

	if (!l->calls->vm)
		return NVML_NO_FUNCTION;
	r = l->calls->vm(vgpu, out, NVML_ID_SIZE, &type);
	out[NVML_ID_SIZE - 1] = '\0';
	return r == NVML_OK && type != (int)NVML_VM_IS_UUID ? NVML_NOT_FOUND : r;
}
