/* SPDX-License-Identifier: MIT */
/* How a guest shows packets to the host, whose run may end at any instant. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "softgpu/packets.h"

/* The host sees what was written before this reads anything. For C's fence gcc emits a locked
 * access to the stack. If a machine can only have one CPU, QEMU's TCG makes a plain access of that,
 * which orders nothing. */
static inline void slot_fence(void)
{
#ifdef __x86_64__
	__asm__ volatile("mfence" ::: "memory");
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Shows the packets of S up to WPTR; only the slot's owner may do that. Returns whether the host
 * looks for them by itself: else the owner must ring. Either the host sees them before it ends its
 * run, or it is seen here that the run ends. (A locked access to the slot instead of the fence
 * could be one to uncached memory.) */
static inline bool slot_show(struct softgpu_slot *s, uint64_t wptr)
{
	__atomic_store_n(&s->wptr, wptr, __ATOMIC_RELEASE);
	slot_fence();
	return __atomic_load_n(&s->awake, __ATOMIC_RELAXED);
}
