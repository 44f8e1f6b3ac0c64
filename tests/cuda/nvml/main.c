/* SPDX-License-Identifier: MIT */
/* nvml-sample: what libnvidia-ml.so.1 says of the VF, one fact a line; a call that fails is a line
 * with its error. */
#include <stdio.h>

#include "calls.h"

#define ROOM 16u

static void report(const char *what, nvmlReturn_t e, const char *text)
{
	printf("%s %s\n", what, e == NVML_SUCCESS ? text : nvmlErrorString(e));
}

/* Prints the error of a call that has failed. Whether it has not. */
static int went(const char *what, nvmlReturn_t e)
{
	if (e != NVML_SUCCESS)
		report(what, e, NULL);
	return e == NVML_SUCCESS;
}

/* Names of a mode's values. */
static const char *const modes_off[] = {"disabled", "enabled"};
static const char *const modes_compute[] = {"default", "exclusive thread", "prohibited",
					    "exclusive process"};
static const char *const modes_virtual[] = {"none", "passthrough", "vGPU", "host of vGPU",
					    "host of vSGA"};

static void show_modes(nvmlDevice_t d)
{
	static const struct {
		const char *what;
		nvmlReturn_t (*get)(nvmlDevice_t device, int *mode);
		const char *const *names;
	} modes[] = {
		{"compute", nvmlDeviceGetComputeMode, modes_compute},
		{"virtualization", nvmlDeviceGetVirtualizationMode, modes_virtual},
		{"persistence", nvmlDeviceGetPersistenceMode, modes_off},
	};
	uint32_t current, pending;
	size_t i;
	int mode;

	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (went(modes[i].what, modes[i].get(d, &mode)))
			printf("%s %s\n", modes[i].what, modes[i].names[mode]);
	if (went("mig", nvmlDeviceGetMigMode(d, &current, &pending)))
		printf("mig %s, then %s\n", modes_off[current], modes_off[pending]);
}

static void show(nvmlDevice_t d)
{
	struct nvml_process processes[ROOM];
	struct nvml_utilization utilization;
	struct nvml_memory memory;
	struct nvml_pci pci;
	char text[96] = "";
	int major, minor;
	uint32_t n = ROOM, i;
	nvmlReturn_t e;

	e = nvmlDeviceGetName(d, text, sizeof(text));
	report("name", e, text);
	e = nvmlDeviceGetUUID(d, text, sizeof(text));
	report("uuid", e, text);
	e = nvmlDeviceGetPciInfo_v3(d, &pci);
	report("pci", e, pci.address);
	if (went("capability", nvmlDeviceGetCudaComputeCapability(d, &major, &minor)))
		printf("capability %d.%d\n", major, minor);
	if (went("memory", nvmlDeviceGetMemoryInfo(d, &memory)))
		printf("total %ju\nused %ju\nfree %ju\n", (uintmax_t)memory.total,
		       (uintmax_t)memory.used, (uintmax_t)memory.left);
	if (went("utilization", nvmlDeviceGetUtilizationRates(d, &utilization)))
		printf("utilization %u\n", utilization.gpu);
	show_modes(d);
	went("processes", nvmlDeviceGetComputeRunningProcesses_v3(d, &n, processes));
	for (i = 0; i < n && i < ROOM; i++)
		if (processes[i].used == NVML_NOT_AVAILABLE)
			printf("process %u unknown\n", processes[i].pid);
		else
			printf("process %u %ju\n", processes[i].pid, (uintmax_t)processes[i].used);
}

int main(void)
{
	nvmlDevice_t device;
	nvmlReturn_t e = nvmlInit_v2();
	int version;

	if (!went("init", e))
		return 1;
	if (went("cuda", nvmlSystemGetCudaDriverVersion_v2(&version)))
		printf("cuda %d\n", version);
	if (went("device", nvmlDeviceGetHandleByIndex_v2(0, &device)))
		show(device);
	return nvmlShutdown() != NVML_SUCCESS;
}
