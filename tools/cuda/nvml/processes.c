/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "library.h"

/* Where the processes go: one of these arrays, with room for MOST. */
struct list {
	struct nvml_process_v1 *old;
	struct nvml_process *processes;
	struct nvml_named_process *named;
	uint32_t n, most;
};

/* One whose name cannot be read has ended since. */
static void put_named(struct nvml_named_process *out, uint32_t pid, uint64_t used)
{
	*out = (struct nvml_named_process){.pid = pid,
					   .used = used,
					   .gpu_instance = NVML_NO_INSTANCE,
					   .compute_instance = NVML_NO_INSTANCE};
	if (process_name(pid, out->name, sizeof(out->name)) != NVML_SUCCESS)
		strcpy(out->name, "ended");
}

static void list_program(void *data, const struct program *p)
{
	struct list *l = data;
	uint64_t used = p->known ? p->record.used : NVML_NOT_AVAILABLE;

	if (l->n < l->most && l->old)
		l->old[l->n] = (struct nvml_process_v1){.pid = (uint32_t)p->pid, .used = used};
	else if (l->n < l->most && l->named)
		put_named(&l->named[l->n], (uint32_t)p->pid, used);
	else if (l->n < l->most)
		l->processes[l->n] = (struct nvml_process){.pid = (uint32_t)p->pid,
							   .used = used,
							   .gpu_instance = NVML_NO_INSTANCE,
							   .compute_instance = NVML_NO_INSTANCE};
	l->n++;
}

/* *N: the room in; how many there are, or how many were written, out. NONE: there are none. */
static nvmlReturn_t list(nvmlDevice_t device, uint32_t *n, struct list l, bool none)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, n && (*n == 0 || l.old || l.processes || l.named), &vf);

	if (e != NVML_SUCCESS)
		return e;
	l.most = *n;
	if (!none)
		programs_each(vf, list_program, &l);
	*n = l.n;
	return l.n > l.most ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define LIST(name, type, array, none)                                                              \
	nvmlReturn_t name(nvmlDevice_t device, uint32_t *n, type *out)                             \
	{                                                                                          \
		return CALL_END(list(device, n, (struct list){.array = out}, none));               \
	}
LIST(nvmlDeviceGetComputeRunningProcesses, struct nvml_process_v1, old, false)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, struct nvml_process, processes, false)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, struct nvml_process, processes, false)
LIST(processes_named, struct nvml_named_process, named, false)
/* A VF draws nothing, and does not know NVIDIA's MPS. */
LIST(nvmlDeviceGetGraphicsRunningProcesses, struct nvml_process_v1, old, true)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, struct nvml_process, processes, true)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, struct nvml_process, processes, true)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, struct nvml_process_v1, old, true)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, struct nvml_process, processes, true)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, struct nvml_process, processes, true)
