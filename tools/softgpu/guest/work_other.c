/* SPDX-License-Identifier: MIT */
/* Workloads that only move bytes, take time, or fail. */
#include "workload_state.h"

static void nothing_to_fill(struct workload_state *, uint32_t slot)
{
	(void)slot; /* no inputs */
}

/* dma: copies from the guest's memory to the VF's, there once more, and back to another place */

static uint64_t dma_half(const struct workload_options *o)
{
	return 300032u * o->size;
}

static uint64_t dma_both(const struct workload_options *o)
{
	return 2 * dma_half(o);
}

static void dma_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	uint64_t n = dma_half(&s->o), at = slot_offset(s, slot), i;
	uint64_t iova = DMA_IOVA + slot * s->own_size;
	uint8_t *in = s->own + slot * s->own_size;
	struct softgpu_packet to = {.opcode = SOFTGPU_DMA_IN, .arg = {at, iova, n - 3}};
	struct softgpu_packet copy = {.opcode = SOFTGPU_COPY, .arg = {at + n, at, n}};
	struct softgpu_packet from = {.opcode = SOFTGPU_DMA_OUT, .arg = {at + n, iova + n, n - 3}};

	s->jobs++;
	for (i = 0; i < n; i++)
		in[i] = (uint8_t)(i * 7 + s->jobs * 13 + (i >> 9));
	memset(in + n, 0xa5, n);
	guest_put(g, &to);
	guest_put(g, &copy);
	guest_put(g, &from);
}

static bool dma_check(struct workload_state *s, uint32_t slot)
{
	uint64_t n = dma_half(&s->o);
	const uint8_t *in = s->own + slot * s->own_size;

	/* The bytes behind the copied ones must be unchanged. */
	return memcmp(in, in + n, n - 3) == 0 && in[2 * n - 1] == 0xa5;
}

const struct workload work_dma = {
	.name = "dma",
	.help = "copies through the VF, from and to the guest's own memory",
	.depth = 2,
	.slot_bytes = dma_both,
	.fill = nothing_to_fill,
	.emit = dma_emit,
	.check = dma_check,
	.dma_bytes = dma_both,
};

/* Workloads that only take time: a word that is filled in at the end shows that they have run. */

static uint64_t word_bytes(const struct workload_options *)
{
	return 64;
}

static void timed_emit(struct workload_state *s, struct guest *g, uint32_t slot,
		       enum softgpu_opcode opcode)
{
	struct softgpu_packet work = {.opcode = opcode, .arg = {s->o.us}};
	struct softgpu_packet mark = {.opcode = SOFTGPU_FILL,
				      .arg = {slot_offset(s, slot), 4, 0x600d0000u + slot}};

	memset(slot_memory(s, slot), 0xa5, 4);
	guest_put(g, &work);
	guest_put(g, &mark);
}

static void spin_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	timed_emit(s, g, slot, SOFTGPU_SPIN);
}

static void hog_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	timed_emit(s, g, slot, SOFTGPU_NONPREEMPTIBLE);
}

static void endless_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	timed_emit(s, g, slot, SOFTGPU_ENDLESS);
}

static void fault_emit(struct workload_state *s, struct guest *g, uint32_t slot)
{
	timed_emit(s, g, slot, SOFTGPU_FAULT);
}

static bool word_check(struct workload_state *s, uint32_t slot)
{
	uint32_t word;

	memcpy(&word, slot_memory(s, slot), sizeof(word));
	return word == 0x600d0000u + slot;
}

const struct workload work_interactive = {
	.name = "interactive",
	.help = "short jobs at a fixed rate, to measure their latency",
	.depth = 1,
	.slot_bytes = word_bytes,
	.fill = nothing_to_fill,
	.emit = spin_emit,
	.check = word_check,
	.rate = 60,
};

const struct workload work_spin = {
	.name = "spin",
	.help = "jobs that keep the engine busy and can be preempted at any time",
	.depth = 2,
	.slot_bytes = word_bytes,
	.fill = nothing_to_fill,
	.emit = spin_emit,
	.check = word_check,
};

const struct workload work_hog = {
	.name = "hog",
	.help = "jobs that keep the engine busy and cannot be preempted",
	.depth = 2,
	.slot_bytes = word_bytes,
	.fill = nothing_to_fill,
	.emit = hog_emit,
	.check = word_check,
};

const struct workload work_endless = {
	.name = "endless",
	.help = "a job that never ends and can be preempted at any time",
	.depth = 1,
	.slot_bytes = word_bytes,
	.fill = nothing_to_fill,
	.emit = endless_emit,
	.check = word_check,
	.endless = true,
};

const struct workload work_fault = {
	.name = "fault",
	.help = "a packet that faults",
	.depth = 1,
	.slot_bytes = word_bytes,
	.fill = nothing_to_fill,
	.emit = fault_emit,
	.check = word_check,
};
