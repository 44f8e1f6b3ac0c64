/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's management library (NVML), as far as this library carries it: types, errors, and the
 * table of calls. What is in the table is exported. absent.list has the calls that are not carried.
 */
#pragma once

#include <stdint.h>

typedef int nvmlReturn_t;
typedef struct nvml_device *nvmlDevice_t;
typedef struct nvml_events *nvmlEventSet_t;
struct nvml_table;

/* code, name, sentence */
#define NVML_ERRORS(X)                                                                             \
	X(0, NVML_SUCCESS, "no error")                                                             \
	X(1, NVML_ERROR_UNINITIALIZED, "nvmlInit was not called")                                  \
	X(2, NVML_ERROR_INVALID_ARGUMENT, "invalid argument")                                      \
	X(3, NVML_ERROR_NOT_SUPPORTED, "not supported: a VF does not tell this")                   \
	X(4, NVML_ERROR_NO_PERMISSION, "this user may not know this, or may not use the VF")       \
	X(6, NVML_ERROR_NOT_FOUND, "not found")                                                    \
	X(7, NVML_ERROR_INSUFFICIENT_SIZE, "the buffer is too small")                              \
	X(9, NVML_ERROR_DRIVER_NOT_LOADED, "this machine has no VF")                               \
	X(10, NVML_ERROR_TIMEOUT, "nothing came in time")                                          \
	X(15, NVML_ERROR_GPU_IS_LOST, "the VF does not answer")                                    \
	X(20, NVML_ERROR_MEMORY, "out of memory")                                                  \
	X(25, NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "the version of the structure is not known")   \
	X(999, NVML_ERROR_UNKNOWN, "unknown error")

enum {
#define NVML_CODE(code, name, text) name = code,
	NVML_ERRORS(NVML_CODE)
#undef NVML_CODE
};

#define NVML_INIT_NO_GPUS 1u   /* flags of nvmlInitWithFlags: no VF is no error */
#define NVML_INIT_NO_ATTACH 2u /* devices are not attached; nothing attaches to a VF here */
#define NVML_NOT_AVAILABLE UINT64_MAX
#define NVML_NO_INSTANCE UINT32_MAX
#define NVML_NO_DOMAIN UINT32_MAX
/* The values of modes that a VF has. */
#define NVML_COMPUTEMODE_DEFAULT 0	     /* several processes can have it at a time */
#define NVML_COMPUTEMODE_EXCLUSIVE_PROCESS 3 /* one can */
#define NVML_GPU_VIRTUALIZATION_MODE_VGPU 2  /* a share of a GPU, in a VM */
#define NVML_FEATURE_DISABLED 0
#define NVML_DEVICE_MIG_DISABLE 0u
#define NVML_MEMORY_V2 (sizeof(struct nvml_memory_v2) | 2u << 24)

struct nvml_memory {
	uint64_t total, left, used;
};
struct nvml_memory_v2 {
	uint32_t version, pad;
	uint64_t total, reserved, left, used;
};
struct nvml_utilization {
	uint32_t gpu, memory; /* percent */
};
struct nvml_process_v1 {
	uint32_t pid, pad;
	uint64_t used;
};
struct nvml_process {
	uint32_t pid, pad;
	uint64_t used;
	uint32_t gpu_instance, compute_instance;
};
/* As nvidia-smi's own list has it: see smi.c. */
struct nvml_named_process {
	uint32_t pid, pad;
	uint64_t used;
	uint32_t gpu_instance, compute_instance;
	uint64_t used_protected;
	char name[4096];
};
/* nvmlDeviceGetPciInfo fills it up to SUBSYSTEM, and _v2 up to ADDRESS. */
struct nvml_pci {
	char legacy[16];
	uint32_t domain, bus, device, id;
	uint32_t subsystem;
	char address[32];
};

#define NVML_ENTRIES(X)                                                                            \
	X(nvmlInit, (void))                                                                        \
	X(nvmlInit_v2, (void))                                                                     \
	X(nvmlInitWithFlags, (uint32_t flags))                                                     \
	X(nvmlShutdown, (void))                                                                    \
	X(nvmlSystemGetDriverVersion, (char *version, uint32_t size))                              \
	X(nvmlSystemGetNVMLVersion, (char *version, uint32_t size))                                \
	X(nvmlSystemGetCudaDriverVersion, (int *version))                                          \
	X(nvmlSystemGetCudaDriverVersion_v2, (int *version))                                       \
	X(nvmlSystemGetProcessName, (uint32_t pid, char *name, uint32_t size))                     \
	X(nvmlDeviceGetCount, (uint32_t * n))                                                      \
	X(nvmlDeviceGetCount_v2, (uint32_t * n))                                                   \
	X(nvmlDeviceGetHandleByIndex, (uint32_t index, nvmlDevice_t * out))                        \
	X(nvmlDeviceGetHandleByIndex_v2, (uint32_t index, nvmlDevice_t * out))                     \
	X(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *out))                        \
	X(nvmlDeviceGetHandleByPciBusId, (const char *address, nvmlDevice_t *out))                 \
	X(nvmlDeviceGetHandleByPciBusId_v2, (const char *address, nvmlDevice_t *out))              \
	X(nvmlDeviceGetIndex, (nvmlDevice_t device, uint32_t * index))                             \
	X(nvmlDeviceGetName, (nvmlDevice_t device, char *name, uint32_t size))                     \
	X(nvmlDeviceGetUUID, (nvmlDevice_t device, char *uuid, uint32_t size))                     \
	X(nvmlDeviceGetPciInfo, (nvmlDevice_t device, struct nvml_pci * pci))                      \
	X(nvmlDeviceGetPciInfo_v2, (nvmlDevice_t device, struct nvml_pci * pci))                   \
	X(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, struct nvml_pci * pci))                   \
	X(nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t device, int *major, int *minor))       \
	X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, struct nvml_memory * memory))             \
	X(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, struct nvml_memory_v2 * memory))       \
	X(nvmlDeviceGetUtilizationRates,                                                           \
	  (nvmlDevice_t device, struct nvml_utilization * utilization))                            \
	X(nvmlDeviceGetComputeRunningProcesses,                                                    \
	  (nvmlDevice_t device, uint32_t * n, struct nvml_process_v1 * out))                       \
	X(nvmlDeviceGetComputeRunningProcesses_v2,                                                 \
	  (nvmlDevice_t device, uint32_t * n, struct nvml_process * out))                          \
	X(nvmlDeviceGetComputeRunningProcesses_v3,                                                 \
	  (nvmlDevice_t device, uint32_t * n, struct nvml_process * out))                          \
	X(nvmlDeviceGetGraphicsRunningProcesses,                                                   \
	  (nvmlDevice_t device, uint32_t * n, struct nvml_process_v1 * out))                       \
	X(nvmlDeviceGetGraphicsRunningProcesses_v2,                                                \
	  (nvmlDevice_t device, uint32_t * n, struct nvml_process * out))                          \
	X(nvmlDeviceGetGraphicsRunningProcesses_v3,                                                \
	  (nvmlDevice_t device, uint32_t * n, struct nvml_process * out))                          \
	X(nvmlDeviceGetMPSComputeRunningProcesses,                                                 \
	  (nvmlDevice_t device, uint32_t * n, struct nvml_process_v1 * out))                       \
	X(nvmlDeviceGetMPSComputeRunningProcesses_v2,                                              \
	  (nvmlDevice_t device, uint32_t * n, struct nvml_process * out))                          \
	X(nvmlDeviceGetMPSComputeRunningProcesses_v3,                                              \
	  (nvmlDevice_t device, uint32_t * n, struct nvml_process * out))                          \
	X(nvmlDeviceIsMigDeviceHandle, (nvmlDevice_t device, uint32_t * is))                       \
	X(nvmlDeviceGetComputeMode, (nvmlDevice_t device, int *mode))                              \
	X(nvmlDeviceGetVirtualizationMode, (nvmlDevice_t device, int *mode))                       \
	X(nvmlDeviceGetPersistenceMode, (nvmlDevice_t device, int *mode))                          \
	X(nvmlDeviceGetMigMode, (nvmlDevice_t device, uint32_t * current, uint32_t * pending))     \
	X(nvmlEventSetCreate, (nvmlEventSet_t * out))                                              \
	X(nvmlEventSetFree, (nvmlEventSet_t set))                                                  \
	X(nvmlEventSetWait, (nvmlEventSet_t set, void *data, uint32_t timeout_ms))                 \
	X(nvmlEventSetWait_v2, (nvmlEventSet_t set, void *data, uint32_t timeout_ms))              \
	X(nvmlDeviceGetSupportedEventTypes, (nvmlDevice_t device, uint64_t * types))               \
	X(nvmlDeviceRegisterEvents, (nvmlDevice_t device, uint64_t types, nvmlEventSet_t set))     \
	X(nvmlInternalGetExportTable, (const struct nvml_table **out, const uint8_t id[16]))

#define NVML_DECLARE(symbol, signature)                                                            \
	__attribute__((visibility("default"))) nvmlReturn_t symbol signature;
/* NVML's own interface, as its documentation describes it. */
NVML_ENTRIES(NVML_DECLARE)
#undef NVML_DECLARE
__attribute__((visibility("default"))) const char *nvmlErrorString(nvmlReturn_t code);
