/* SPDX-License-Identifier: MIT */
/*
 * The layers of the library and the files of each. A file calls files of its own layer and of those
 * above it in this list; tests/rooms checks that.
 *
 *   cuda_base.h: lock log errors handles image; table, which only names the calls
 *   cuda_vf.h: find record flush edges output link pieces heap
 *   cuda_call.h: call
 *   cuda_memory.h: symbol ipc ipc_event physical arena shareable registered pinned memory
 *   cuda_work.h: copy rows set launch event list work
 *   graph.h: graph user_object capture put
 *   cuda_calls.h: all others, the calls and start
 *
 * Everything that the library checks protects the program from itself; the worker on the host
 * checks each packet.
 */
#pragma once

#include <stdbool.h>

#include "entries.h"
#include "handles.h"
#include "softgpu/packets.h"
#include "vgpu/types.h"

/* lock.c: one lock protects all of the library's state. A call holds it while it waits for the VF.
 */

/* Takes the lock, and waits for it if necessary. A thread must not take it twice. Any thread. */
void lock_take(void);
/* Takes the lock if it is free. Returns whether it did. */
bool lock_try(void);
void lock_give(void);
/* Makes a new lock that is free. Called in the child of fork(), which has one thread. */
void lock_renew(void);

/* log.c */

/* Writes one line to standard error if VGPU_CUDA_LOG is 1 or 2. Any thread, with or without the
 * lock. */
__attribute__((format(printf, 1, 2))) void log_line(const char *format, ...);
/* As log_line(), for a name that a program looks up and does not find. cudart looks up more than a
 * hundred such names and works without them, so if VGPU_CUDA_LOG is 1, only the first such line is
 * written. */
__attribute__((format(printf, 1, 2))) void log_lookup(const char *format, ...);
/* Logs that the call NAME is not supported. Returns CUDA_ERROR_NOT_SUPPORTED. */
CUresult log_absent(const char *name);

/* image.c: sets *IMAGE to the beginning of the image, and *BYTES to its length. MOST: the largest
 * possible length, bytes, after which a zero byte must follow; or IMAGE_UNKNOWN. Returns false if
 * the image is longer than MOST, or than a packet can load. */
#define IMAGE_UNKNOWN UINT64_MAX
bool image_find(const void **image, uint64_t most, uint64_t *bytes);
