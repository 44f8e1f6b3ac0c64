/* SPDX-License-Identifier: MIT */
/*
 * The parts of the library, in an order in which each uses only those after it:
 *
 *   device.c, context.c, module.c, launch.c, copy.c, memory.c, stream.c: the calls
 *   table.c    the table of entries, and calls that are not carried
 *   call.c     begins and ends a call: the lock, the current context, the log
 *   errors.c   names and sentences of errors
 *   heap.c     which bytes of the VF's device memory are allocated
 *   handles.c  numbers for contexts, modules, functions, streams and events
 *   link.c     the VF: its ring, and the parts of its window
 *
 * One lock covers all of them. A call that waits for the VF keeps it. Everything that the library
 * checks protects the program from itself; the worker on the host checks each packet.
 */
#ifndef CUDA_LIBRARY_H
#define CUDA_LIBRARY_H

#include <stdbool.h>

#include "entries.h"
#include "vfio/gpuiov.h"
#include "vgpu/types.h"

/* call.c */

struct context {
	void *handle;
	bool primary;
	uint32_t retained; /* of the primary one; 0: it is not active */
	unsigned flags;
};

/* What a call needs. */
enum needs { NEEDS_DEVICE, NEEDS_CONTEXT };

/* Takes the lock. CUDA_SUCCESS, or why the call cannot go on. *CONTEXT, which may be NULL: the
 * calling thread's current context. */
CUresult call_begin(enum needs needs, struct context **context);
/* Gives the lock back, and logs E if it is an error. Returns E. */
CUresult call_end(const char *name, CUresult e);
#define CALL_END(e) call_end(__func__, e)
/* Writes one line to standard error if VGPU_CUDA_LOG is 1. */
__attribute__((format(printf, 1, 2))) void call_log(const char *format, ...);
/* The library's start; called with the lock. CUDA_SUCCESS, or an error. */
CUresult call_start(void);
/* The calling thread's stack of contexts. */
#define CONTEXT_STACK 64
extern __thread void *call_stack[CONTEXT_STACK];
extern __thread int call_depth;
void call_lock(void);

/* stream.c */

struct stream {
	void *handle;
	const struct context *context;
	uint64_t last;	 /* link_count() behind its last packet */
	uint64_t fenced; /* LAST at its last query, and a fence behind that */
	uint64_t fence;
};

/* The stream S, one of CONTEXT's or a default one; NULL: there is none. Who puts packets for it
 * sets LAST. */
struct stream *stream_find(CUstream s, const struct context *context);
/* Ends all streams and events of CONTEXT. */
void stream_end_all(const struct context *context);

/* module.c */

struct module {
	void *handle;
	const struct context *context;
	uint32_t number; /* on the VF */
	struct function *functions;
};

struct function {
	void *handle;
	struct module *module;
	struct function *next;
	struct softgpu_function known;
};

/* Unloads all modules of CONTEXT. */
void module_end_all(const struct context *context);

/* memory.c: the offset in the partition of BYTES at the device address AT; false: they are not all
 * in one allocation. */
bool memory_find(CUdeviceptr at, uint64_t bytes, uint64_t *offset);

/* table.c: logs that NAME is not carried. Returns CUDA_ERROR_NOT_SUPPORTED. */
CUresult table_absent(const char *name);

/* heap.c: offsets are in the VF's device memory. */

void heap_reset(uint64_t size);
/* Allocates BYTES > 0 for OWNER at a multiple of 512. Whether there was room. */
bool heap_take(uint64_t bytes, const void *owner, uint64_t *offset);
/* Whether an allocation begins at OFFSET; it is free from now on. */
bool heap_give(uint64_t offset);
/* Frees all that OWNER has. */
void heap_give_all(const void *owner);
/* Finds the allocation that OFFSET lies in: its first byte, and bytes as they were asked for. */
bool heap_find(uint64_t offset, uint64_t *begin, uint64_t *bytes);
uint64_t heap_left(void);

/* handles.c */

enum handle_kind {
	HANDLE_FREE = 0,
	HANDLE_CONTEXT,
	HANDLE_MODULE,
	HANDLE_FUNCTION,
	HANDLE_STREAM,
	HANDLE_EVENT
};

/* A handle for OBJECT; NULL: out of memory. A number is not used twice in a row. */
void *handle_make(enum handle_kind kind, void *object);
/* The object; NULL: H is no handle of KIND. */
void *handle_find(enum handle_kind kind, const void *h);
/* Ends the handle. Returns its object, which is the caller's again, or NULL. */
void *handle_drop(enum handle_kind kind, const void *h);
/* Goes over the handles of KIND: *AT begins as 0. NULL: there are no more. */
void *handle_next(enum handle_kind kind, uint32_t *at);

/* link.c */

/* What a call may use of the window. */
struct link_parts {
	uint64_t *launch_report, *load_report; /* enum softgpu_error of a packet with REPORT */
	void *structure;		       /* of FUNCTION or ABOUT */
	char *log;			       /* of the compiler */
	uint64_t launch_report_at, load_report_at, structure_at, log_at, times_at;
	uint64_t *times;		 /* of events */
	uint64_t memory_at, memory_size; /* the device memory: its offset in the partition */
};
#define LINK_LOG 8192u
#define LINK_TIMES 4096u
#define LINK_LAUNCH_BYTES 8192u

extern struct link_parts link_parts;
/* What GPU kernels run on. */
extern struct softgpu_about link_about;

/* Connects to the VF and brings it up. CUDA_SUCCESS, or an error with the reason in *ERR. */
CUresult link_up(const char *name, struct vgpu_error *err);
/* Brings it down. The VF is reset if this is not called before the process ends. */
void link_down(void);
/* Lets go of the VF without a word to it: in the child of fork(). */
void link_abandon(void);
/* Whether the VF was lost: then every call returns this error. */
CUresult link_lost(void);

/* The functions below return CUDA_SUCCESS; the error of an earlier launch, once; or link_lost(). */

/* Puts a packet into the ring. It runs after link_ring(). */
CUresult link_put(uint32_t opcode, uint32_t flags, const uint64_t arg[7]);
CUresult link_ring(void);
/* Rings, and waits until all packets are done. */
CUresult link_wait(void);
/* Puts a fence into the ring, and rings: link_reached() tells whether all before it is done. */
CUresult link_fence(uint64_t *fence);
CUresult link_reached(uint64_t fence, bool *reached);
/* How many packets were put; and how many of the first of them were found done by link_wait(). */
uint64_t link_count(void);
uint64_t link_done(void);
CUresult link_wait_for(uint64_t fence);
/* Takes up to *BYTES of the window for data on its way; *BYTES is what there is, and stays so until
 * the packets that are put next are done. *AT: its offset in the partition. */
CUresult link_stage(uint64_t *bytes, uint8_t **memory, uint64_t *at);
/* The most that link_stage() gives. */
uint64_t link_stage_size(void);
/* Takes LINK_LAUNCH_BYTES for a launch. */
CUresult link_launch(uint8_t **memory, uint64_t *at);

#endif
