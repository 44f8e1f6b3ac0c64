/* SPDX-License-Identifier: MIT */
/*
 * The parts of the library:
 *
 *   device.c, memory.c, modes.c, processes.c, utilization.c, system.c: the calls
 *   events.c    sets of events, which stay empty
 *   smi.c       what nvidia-smi calls beside NVML's own calls
 *   absent.c    calls that are not carried
 *   errors.c    sentences of errors
 *   call.c      begins and ends a call: the lock, the count of nvmlInit(), the log
 *   programs.c  the programs that have the VF, by what their libraries tell (cuda/record.h)
 *   vf.c        the VF, by what its registers tell
 *
 * The library looks, and claims nothing: a VF has one owner, the program that uses it. It opens no
 * socket of a VF, takes no lock and writes no register.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "calls.h"
#include "record.h"
#include "vgpu/types.h"

/* call.c */

struct vf;
/* Takes the lock, and finds the VF of DEVICE. NVML_SUCCESS, or why the call cannot go on. OK:
 * whether its other arguments are right. */
nvmlReturn_t call_begin(nvmlDevice_t device, bool ok, const struct vf **vf);
/* Begins a call that needs no device. *VF, which may be NULL: the VF, or NULL if there is none. */
nvmlReturn_t call_begin_system(bool ok, const struct vf **vf);
/* Gives the lock back, and logs E if it is an error. Returns E. */
nvmlReturn_t call_end(const char *name, nvmlReturn_t e);
#define CALL_END(e) call_end(__func__, e)
/* Writes one line to standard error if VGPU_CUDA_LOG is 1. */
__attribute__((format(printf, 1, 2))) void call_log(const char *format, ...);
/* The handle of the only device. */
nvmlDevice_t call_device(void);
/* Writes TEXT to OUT of SIZE bytes, or says that it does not fit. */
nvmlReturn_t call_text(char *out, uint32_t size, const char *text);

/* system.c: writes what fits of the first word of the process's command line, as NVIDIA's library
 * cuts it. NVML_ERROR_NOT_FOUND: there is no such process. */
nvmlReturn_t process_name(uint32_t pid, char *name, uint32_t size);

/* processes.c: the processes that compute, with their names; N as in
 * nvmlDeviceGetComputeRunningProcesses_v3(). */
nvmlReturn_t processes_named(nvmlDevice_t device, uint32_t *n, struct nvml_named_process *out);

/* vf.c; with the lock */

/* What is known of a VF without a program that uses it. */
struct vf_facts {
	uint64_t total;	 /* bytes that programs can have */
	uint64_t ran_ns; /* for which the GPU has executed its packets */
	char name[64];	 /* of the GPU; "": its softgpu does not tell */
	int major, minor;
	bool shared; /* programs that name it as this process does can have it at a time */
};

/* Finds the VF of this machine's programs, and maps its registers. 0; -ENODEV: there is none;
 * -EACCES: this user may not use it; or another -errno; with the reason in ERR. */
int vf_open(struct vf **out, struct vgpu_error *err);
/* VF may be NULL. */
void vf_close(struct vf *vf);
/* 0; -EOPNOTSUPP: only a program that uses the VF can know; -EIO: it does not answer. */
int vf_facts(const struct vf *vf, struct vf_facts *out);
const char *vf_key(const struct vf *vf);
/* "GPU-" and a UUID */
#define VF_UUID_SIZE 41
void vf_uuid(const struct vf *vf, char out[VF_UUID_SIZE]);
/* The VF's place. One that is a socket has none here, and a domain that no function can have. */
void vf_pci(const struct vf *vf, struct nvml_pci *out);
/* Returns whether TEXT is that place, as of find_parse(). */
bool vf_is_at(const struct vf *vf, const char *text);
/* Calls EACH for every lock on the VF with the process that has taken it, by the kernel's list of
 * locks: a process that has several comes several times. For none if that cannot be known. */
void vf_holders(const struct vf *vf, void (*each)(void *data, pid_t pid), void *data);

/* programs.c; with the lock */

struct program {
	pid_t pid;
	bool known; /* false: its record is another user's, or it has none */
	struct record record;
};

/* Calls EACH for every program that has VF. */
void programs_each(const struct vf *vf, void (*each)(void *data, const struct program *p),
		   void *data);
/* What the programs tell together. */
struct programs_sum {
	uint64_t total, used; /* bytes; TOTAL is 0 if no program tells */
	bool unknown;	      /* there is a program that is not known */
	struct softgpu_about about;
};
void programs_sum(const struct vf *vf, struct programs_sum *out);
