/* SPDX-License-Identifier: MIT */
/*
 * What the files of this device share. Each calls only those after it (tests/circles):
 *
 *   cuda.c           executes pieces
 *   cuda_question.c  answers guests' queries about their modules
 *   cuda_module.c    guests' modules
 *   cuda_link.c      makes binaries for the GPU
 *   cuda_memory.c    the VF's device memory
 *   cuda_arena.c     the arena
 *   cuda_granules.c  maps granules
 *   cuda_output.c    output of GPU kernels
 *   cuda_error.c     error texts
 */
#pragma once

#include <stdatomic.h>

#include "cuda.h"
#include "device.h"

#define NAME_SIZE 48

/* Host memory that the GPU reads and writes, and which no packet can access. */
struct gate_page {
	_Atomic uint32_t flag;
	uint32_t pad[15];
	_Atomic uint64_t skipped[DEVICE_SLOTS];
	uint8_t copied[65536]; /* buffer for copies at the worker's start, when the guest may
				* already be writing to the window */
};

/* Upper bounds of what the driver has allocated for the VF beside its partition; bytes. */
struct cuda_extra {
	uint64_t most;	/* the VF's allowance for all of these */
	uint64_t fixed; /* the heap and the output buffer of GPU kernels */
	uint64_t least; /* the most that a small module takes; CUDA_PAGE: modules share no pages */
	/* Bytes of each module. The ring's thread writes it; the compiler's thread reads it without
	 * a lock, so its result may be outdated. Modules below CUDA_PAGE share pages. */
	_Atomic uint64_t modules[DEVICE_MODULES];
	_Atomic uint64_t small_most; /* the largest total of small modules since the VF last had
				      * none */
	_Atomic uint64_t local;	     /* local memory of all threads that can run at a time */
	uint64_t threads;	     /* number of threads that can run at a time on the whole GPU */
	uint64_t stack; /* local memory that each thread of a context has from the start */
	bool reported;	/* a GPU kernel that needs too much local memory has been reported */
};

struct device {
	struct cuda_api api;
	CUcontext context;
	CUstream stream;
	CUdevice gpu;
	CUevent events[DEVICE_SLOTS];
	uint64_t serials[DEVICE_SLOTS]; /* serial of the gated piece in a slot; 0: none */
	CUhandle *granules; /* the device memory, in parts that can each be mapped several times */
	uint64_t granule;   /* bytes of a granule */
	bool here;	    /* the memory exists; false: the VF is swapped out */
	struct device_arena arena; /* MAPPED NULL: there is no arena */
	CUdeviceptr window_at, stage_at, memory_at, gate_at, marks_at, scratch_at;
	uint64_t window_size, behind, reserved;
	struct gate_page *gate;
	CUdeviceptr relay_at; /* see struct gate_param */
	uint64_t epoch;	      /* see struct gate_param; owned by the thread that opens the gate and
			       * launches */
	CUmodule own;
	CUfunction kernels[KERNELS];
	CUmodule modules[DEVICE_MODULES];
	bool gated[DEVICE_MODULES];
	int max_grid[3], max_shared, major, minor;
	struct cuda_extra extra;
	struct vgpu_error limit_error; /* why the driver's memory cannot be limited; "": it can
					* be */
	char name[NAME_SIZE];
	uint32_t vf;
	int printed; /* the pipe into which the driver writes what GPU kernels print */
};

/* Flag of a PIECE_FUNCTION: its module has a gate. */
#define HAS_GATE 1u

/* The driver allocates memory beside the partition in pages of this size. */
#define CUDA_PAGE (UINT64_C(2) << 20)
static inline uint64_t cuda_pages(uint64_t bytes)
{
	return (bytes + CUDA_PAGE - 1) / CUDA_PAGE * CUDA_PAGE;
}

/* Modules up to SMALL_MODULE may share pages. They count SMALL_COUNTS times their largest total so
 * far: first fit of blocks of 4 to 256 KiB never needs more (Robson 1977: log2(64) + 1). */
#define SMALL_MODULE (UINT64_C(256) << 10)
#define SMALL_COUNTS 7u

/* cuda_packing.c: measures extra.least. */
void cuda_measure_packing(struct device *d);
/* Returns the bytes with which a module of BYTES, at most 2^63, is counted. */
uint64_t cuda_module_takes(const struct device *d, uint64_t bytes);

/* cuda_error.c */
const char *cuda_error_name(struct device *d, CUresult e);
/* Sets *ERR to a sentence that names WHAT failed, the error, and, if known, what to do. Returns
 * -errno. */
int cuda_failed(struct device *d, CUresult e, const char *what, struct vgpu_error *err);

/* cuda_granules.c: maps N granules of the device memory, from number FROM on, at the reserved
 * address AT, and makes them accessible. Returns CUDA_SUCCESS or the driver's error; after an error
 * no granule is mapped, unless *LOST says that unmapping failed, too. */
CUresult cuda_map_granules(struct device *d, CUdeviceptr at, uint64_t from, uint64_t n, bool *lost);

/* cuda_arena.c: cuda_take_arena() reserves the arena, if the driver has addresses for it; the size
 * of a granule must be known. cuda_give_arena() frees the arena's lists. */
void cuda_take_arena(struct device *d);
void cuda_give_arena(struct device *d);
/* cuda_leave_arena() unmaps all mappings of the arena when the VF is swapped out;
 * cuda_enter_arena() restores them when it is swapped in. After an error nothing is mapped, unless
 * *LOST says that unmapping failed. */
CUresult cuda_leave_arena(struct device *d);
CUresult cuda_enter_arena(struct device *d, bool *lost);
/* As in struct device_ops. */
const struct device_arena *cuda_arena(struct device *d);
int cuda_map(struct device *d, uint64_t at, uint64_t from, uint64_t n);
int cuda_unmap(struct device *d, uint64_t at, uint64_t n);

/* cuda_memory.c: reserves the addresses of the VF's device memory, allocates it, maps it there, and
 * clears it. The context must be current. Returns 0, or -errno with one sentence. */
int cuda_take_memory(struct device *d, struct vgpu_error *err);
/* As in struct device_ops. */
int cuda_copy(struct device *d, uint64_t at, uint64_t bytes, bool out);
int cuda_leave(struct device *d);
int cuda_enter(struct device *d);

/* cuda_link.c: compiles the PTX TEXT to a binary for this GPU, *OUT of *SIZE bytes, which the
 * caller frees. The compiler's messages are written to LOG. */
CUresult cuda_assemble(struct device *d, char *text, uint8_t **out, size_t *size, char *log,
		       uint32_t log_size);
/* Makes such a binary from the image of a MODULE_LOAD packet with its FLAGS; a zero byte must
 * follow the image. *OUT may be NULL after a CHECK. Returns 0; or -errno with *ERR, which is empty
 * if LOG has the compiler's messages. */
int cuda_make_binary(struct device *d, uint8_t *image, uint64_t bytes, uint32_t flags,
		     uint8_t **out, uint64_t *size, char *log, uint32_t log_size,
		     struct vgpu_error *err);

/* cuda_module.c: as in struct device_ops. */
int cuda_compile(struct device *d, uint32_t module, uint8_t *image, uint64_t bytes, uint32_t flags,
		 void **compiled, char *log, uint32_t log_size);
int cuda_load_module(struct device *d, uint32_t module, void *compiled);
void cuda_drop(void *compiled);
void cuda_unload(struct device *d, uint32_t module);
/* Allows launches of F to use all dynamic shared memory of the GPU. The limit is never reduced,
 * because a launch that was skipped may be repeated after others. */
CUresult cuda_allow_shared(struct device *d, CUfunction f);
int cuda_function(struct device *d, uint32_t module, const char *name, struct piece *p,
		  struct device_params *params);

/* cuda_output.c: replaces standard output by the pipe. Returns 0, or -errno with one sentence. */
int cuda_begin_output(struct device *d, struct vgpu_error *err);
void cuda_end_output(struct device *d);
/* As in struct device_ops. */
uint32_t cuda_output(struct device *d, char *text, uint32_t room);
void cuda_last_words(struct device *d, char *text, uint32_t room);

/* cuda_question.c: as in struct device_ops. */
int cuda_attributes(struct device *d, uint32_t module, const char *name, int32_t *out);
int cuda_occupancy(struct device *d, uint32_t module, const char *name, uint32_t threads,
		   uint32_t shared, uint32_t *blocks);
int cuda_symbol(struct device *d, uint32_t module, const char *name, uint64_t *at, uint64_t *bytes);
