/* SPDX-License-Identifier: MIT */
/*
 * The kernel's driver xe over the machine of machine.h: an Intel GPU at PF with up to 8 VFs, two
 * GTs and its own memory. It does what Linux 7.3 does (drivers/gpu/drm/xe): one mutex guards all
 * settings, each GT is written in turn and the first error is kept, too large values are clamped in
 * silence, memory is taken before more is looked for, and VFs get what nobody has set when they are
 * made.
 */
#pragma once

#include "machine.h"

#define XE_VFS 8u
#define XE_GTS 2u
#define XE_ENGINES 3u /* render, copy and compute, of GT 0 */
#define XE_MIB UINT64_C(1048576)
#define XE_TICKS 19200u /* of a counter, in a millisecond */

struct xe_function {
	uint32_t quantum[XE_GTS], timeout[XE_GTS]; /* ms, us */
	uint32_t priority;			   /* 0 low, 1 normal, 2 high */
	uint64_t memory;
	unsigned resets, stops;
	uint64_t active[XE_ENGINES], total; /* ticks */
};

/* 0: the PF. */
extern struct xe_function xe_functions[XE_VFS + 1];
/* Bytes that no VF has; VF whose memory Linux cannot change, because it runs (0: none). */
extern uint64_t xe_free;
extern uint32_t xe_running;
/* What was written, a line each: "vf1/profile/exec_quantum_ms=16", "sriov_numvfs=2". */
extern char xe_trace[16384];
/* The next TIMES reads and WRITES, or writes alone, of files whose path ends with END (NULL: none)
 * fail with ERROR. TIMES 0: all. APPLIED: bitmap of GTs that have what was written all the same. */
extern struct xe_fault {
	const char *end;
	int error;
	unsigned times;
	bool writes;
	uint32_t applied;
} xe_fault;
/* Error of opening counters; of reading them. */
extern int xe_no_counters, xe_counters_gone;
/* Number of kernel calls; the number of the one that fails with EIO (0: none). */
extern _Atomic unsigned xe_calls, xe_fail_at;

/* Make the machine with the GPU, on which vfio then looks (machine.h); and remove it. */
void make_xe_machine(void);
void remove_xe_machine(void);

/* Holds the mutex of the settings, as Linux does while it resets a VF. */
void xe_hold(void);
void xe_release(void);
/* Waits until a thread waits for that mutex. Returns whether one does within 20 s. */
bool xe_is_waited_for(void);

/* Lets MS pass, for the counters of entitlement: each function gets its quantum's part. */
void xe_pass(uint64_t ms);
/* FUNCTION uses an engine for so long. */
void xe_serve(uint32_t function, uint32_t engine, uint64_t ms);
/* A process has VF N open, or none has. */
void xe_use(uint32_t n);
void xe_use_none(void);
