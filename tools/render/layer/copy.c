/* SPDX-License-Identifier: MIT */
/*
 * Deep copies of submissions, each in one piece of memory: what a program passes is its own again
 * when vkQueueSubmit returns. The same code runs twice, first without memory, to find out how much
 * there must be; so no length that the program gives has a limit here.
 *
 * Structures in chains that are not known here are refused: what they refer to cannot be copied.
 */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

struct arena {
	char *base; /* NULL: only count */
	size_t used;
	const char *why; /* what cannot be copied; NULL: nothing */
};

static void *take(struct arena *a, size_t size)
{
	void *at = a->base ? a->base + a->used : NULL;

	a->used += (size + 15) & ~(size_t)15;
	return at;
}

/* Returns a copy of N elements of SIZE bytes, with room for MORE; NULL if N and MORE are 0, or
 * while only counting. */
static void *copy(struct arena *a, const void *from, size_t n, size_t more, size_t size)
{
	char *to;

	if (n + more == 0)
		return NULL;
	to = take(a, (n + more) * size);
	if (to && from)
		memcpy(to, from, n * size);
	else if (to)
		memset(to, 0, n * size);
	if (to)
		memset(to + n * size, 0, more * size);
	return to;
}

/* Puts a copy of a structure of SIZE bytes in front of the chain. */
static void link_in(struct arena *a, const void **chain, void *structure, size_t size)
{
	void *to;

	((VkBaseOutStructure *)structure)->pNext = (void *)(uintptr_t)*chain;
	to = copy(a, structure, 1, 0, size);
	if (to)
		*chain = to;
}

/* Copies a structure of device groups. MORE: how many semaphores the copy signals besides. */
static void copy_group(struct arena *a, const void **chain, const VkDeviceGroupSubmitInfo *from,
		       uint32_t more)
{
	VkDeviceGroupSubmitInfo g = *from;

	g.pWaitSemaphoreDeviceIndices =
		copy(a, g.pWaitSemaphoreDeviceIndices, g.waitSemaphoreCount, 0, sizeof(uint32_t));
	g.pCommandBufferDeviceMasks =
		copy(a, g.pCommandBufferDeviceMasks, g.commandBufferCount, 0, sizeof(uint32_t));
	g.pSignalSemaphoreDeviceIndices = copy(a, g.pSignalSemaphoreDeviceIndices,
					       g.signalSemaphoreCount, more, sizeof(uint32_t));
	g.signalSemaphoreCount += more;
	link_in(a, chain, &g, sizeof(g));
}

static void copy_timeline(struct arena *a, const void **chain, const VkSubmitInfo *s,
			  const VkTimelineSemaphoreSubmitInfo *from, uint32_t more,
			  uint64_t **done_value)
{
	VkTimelineSemaphoreSubmitInfo t = {
		.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
	uint64_t *values;

	if (from && from->waitSemaphoreValueCount) {
		t.waitSemaphoreValueCount = from->waitSemaphoreValueCount;
		t.pWaitSemaphoreValues = copy(a, from->pWaitSemaphoreValues,
					      t.waitSemaphoreValueCount, 0, sizeof(uint64_t));
	}
	t.signalSemaphoreValueCount = s->signalSemaphoreCount + more;
	values = copy(a, NULL, t.signalSemaphoreValueCount, 0, sizeof(uint64_t));
	if (values && from && from->signalSemaphoreValueCount)
		memcpy(values, from->pSignalSemaphoreValues,
		       s->signalSemaphoreCount * sizeof(uint64_t));
	t.pSignalSemaphoreValues = values;
	if (values && more)
		*done_value = &values[s->signalSemaphoreCount];
	link_in(a, chain, &t, sizeof(t));
}

static const void *copy_chain(struct arena *a, const VkSubmitInfo *s, uint32_t more,
			      uint64_t **done_value)
{
	const VkTimelineSemaphoreSubmitInfo *timeline = NULL;
	const VkBaseInStructure *b;
	const void *chain = NULL;

	for (b = s->pNext; b; b = b->pNext) {
		if (b->sType == VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO) {
			timeline = (const void *)b;
		} else if (b->sType == VK_STRUCTURE_TYPE_DEVICE_GROUP_SUBMIT_INFO) {
			copy_group(a, &chain, (const void *)b, more);
		} else if (b->sType == VK_STRUCTURE_TYPE_PROTECTED_SUBMIT_INFO) {
			VkProtectedSubmitInfo p = *(const VkProtectedSubmitInfo *)b;

			link_in(a, &chain, &p, sizeof(p));
		} else if (b->sType == VK_STRUCTURE_TYPE_PERFORMANCE_QUERY_SUBMIT_INFO_KHR) {
			VkPerformanceQuerySubmitInfoKHR p =
				*(const VkPerformanceQuerySubmitInfoKHR *)b;

			link_in(a, &chain, &p, sizeof(p));
		} else {
			a->why = "a structure in the chain of VkSubmitInfo that it does not know";
		}
	}
	if (timeline || more)
		copy_timeline(a, &chain, s, timeline, more, done_value);
	return chain;
}

static uint32_t count_waits(const struct op *op)
{
	uint32_t i, n = 0;

	for (i = 0; i < op->n; i++)
		n += op->type == OP_SUBMIT
			     ? ((const VkSubmitInfo *)op->batches)[i].waitSemaphoreCount
			     : ((const VkSubmitInfo2 *)op->batches)[i].waitSemaphoreInfoCount;
	return n;
}

/* Allocates the operation, with room for the dependencies that will be found. FROM describes the
 * submission as the program passed it. Returns NULL while only counting. */
static struct op *begin_op(struct arena *a, const struct op *from)
{
	uint32_t n = count_waits(from);
	struct op *op = copy(a, from, 1, 0, sizeof(*op));
	struct dependency *d = copy(a, NULL, n, 0, sizeof(*d));
	struct timeline *t = copy(a, NULL, n, 0, sizeof(*t));

	if (op) {
		op->dependencies = d;
		op->timelines = t;
		op->n_waits = n;
	}
	return op;
}

static struct op *fill_submit(struct arena *a, const struct op *from, VkSemaphore done)
{
	struct op *op = begin_op(a, from);
	VkSubmitInfo *to = copy(a, from->batches, from->n, 0, sizeof(*to));
	VkSemaphore *signals;
	uint32_t i, more;

	for (i = 0; i < from->n; i++) {
		VkSubmitInfo s = ((const VkSubmitInfo *)from->batches)[i];
		uint64_t *done_value = NULL;

		more = from->works && i + 1 == from->n;
		s.pNext = copy_chain(a, &s, more, &done_value);
		s.pWaitSemaphores =
			copy(a, s.pWaitSemaphores, s.waitSemaphoreCount, 0, sizeof(VkSemaphore));
		s.pWaitDstStageMask = copy(a, s.pWaitDstStageMask, s.waitSemaphoreCount, 0,
					   sizeof(VkPipelineStageFlags));
		s.pCommandBuffers = copy(a, s.pCommandBuffers, s.commandBufferCount, 0,
					 sizeof(VkCommandBuffer));
		signals = copy(a, s.pSignalSemaphores, s.signalSemaphoreCount, more,
			       sizeof(VkSemaphore));
		if (signals && more)
			signals[s.signalSemaphoreCount] = done;
		s.pSignalSemaphores = signals;
		s.signalSemaphoreCount += more;
		if (!op)
			continue;
		to[i] = s;
		op->done_value = done_value;
	}
	if (op)
		op->batches = to;
	return op;
}

static const void *copy_chain2(struct arena *a, const VkSubmitInfo2 *s)
{
	const VkBaseInStructure *b;
	const void *chain = NULL;

	for (b = s->pNext; b; b = b->pNext) {
		if (b->sType == VK_STRUCTURE_TYPE_PERFORMANCE_QUERY_SUBMIT_INFO_KHR) {
			VkPerformanceQuerySubmitInfoKHR p =
				*(const VkPerformanceQuerySubmitInfoKHR *)b;

			link_in(a, &chain, &p, sizeof(p));
		} else {
			a->why = "a structure in the chain of VkSubmitInfo2 that it does not know";
		}
	}
	return chain;
}

static void check_chains2(struct arena *a, const VkSubmitInfo2 *s)
{
	bool chained = false;
	uint32_t i;

	for (i = 0; i < s->waitSemaphoreInfoCount; i++)
		chained |= s->pWaitSemaphoreInfos[i].pNext != NULL;
	for (i = 0; i < s->commandBufferInfoCount; i++)
		chained |= s->pCommandBufferInfos[i].pNext != NULL;
	for (i = 0; i < s->signalSemaphoreInfoCount; i++)
		chained |= s->pSignalSemaphoreInfos[i].pNext != NULL;
	if (chained)
		a->why = "a structure in the chain of a part of VkSubmitInfo2";
}

static struct op *fill_submit2(struct arena *a, const struct op *from, VkSemaphore done)
{
	struct op *op = begin_op(a, from);
	VkSubmitInfo2 *to = copy(a, from->batches, from->n, 0, sizeof(*to));
	VkSemaphoreSubmitInfo *signals;
	uint32_t i, more;

	for (i = 0; i < from->n; i++) {
		VkSubmitInfo2 s = ((const VkSubmitInfo2 *)from->batches)[i];

		more = from->works && i + 1 == from->n;
		check_chains2(a, &s);
		s.pNext = copy_chain2(a, &s);
		s.pWaitSemaphoreInfos = copy(a, s.pWaitSemaphoreInfos, s.waitSemaphoreInfoCount, 0,
					     sizeof(VkSemaphoreSubmitInfo));
		s.pCommandBufferInfos = copy(a, s.pCommandBufferInfos, s.commandBufferInfoCount, 0,
					     sizeof(VkCommandBufferSubmitInfo));
		signals = copy(a, s.pSignalSemaphoreInfos, s.signalSemaphoreInfoCount, more,
			       sizeof(VkSemaphoreSubmitInfo));
		if (signals && more) {
			signals[s.signalSemaphoreInfoCount] = (VkSemaphoreSubmitInfo){
				.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
				.semaphore = done,
				.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
			};
			op->done_value = &signals[s.signalSemaphoreInfoCount].value;
		}
		s.pSignalSemaphoreInfos = signals;
		s.signalSemaphoreInfoCount += more;
		if (to)
			to[i] = s;
	}
	if (op)
		op->batches = to;
	return op;
}

static struct op *copy_op(const struct op *from, VkSemaphore done,
			  struct op *(*fill)(struct arena *, const struct op *, VkSemaphore),
			  VkResult *r, const char **why)
{
	struct arena a = {.base = NULL};

	fill(&a, from, done);
	if (a.why) {
		*why = a.why;
		*r = VK_ERROR_OUT_OF_DEVICE_MEMORY;
		return NULL;
	}
	a.base = malloc(a.used);
	if (!a.base) {
		*why = "more than there is memory for";
		*r = VK_ERROR_OUT_OF_HOST_MEMORY;
		return NULL;
	}
	a.used = 0;
	return fill(&a, from, done);
}

struct op *copy_submit(uint32_t n, const VkSubmitInfo *submits, VkFence fence, VkSemaphore done,
		       VkResult *r, const char **why)
{
	struct op from = {.type = OP_SUBMIT,
			  .n = n,
			  .batches = (void *)(uintptr_t)submits,
			  .fence = fence};
	uint32_t i;

	for (i = 0; i < n; i++)
		from.works |= submits[i].commandBufferCount > 0;
	return copy_op(&from, done, fill_submit, r, why);
}

struct op *copy_submit2(uint32_t n, const VkSubmitInfo2 *submits, VkFence fence, VkSemaphore done,
			VkResult *r, const char **why)
{
	struct op from = {.type = OP_SUBMIT2,
			  .n = n,
			  .batches = (void *)(uintptr_t)submits,
			  .fence = fence};
	uint32_t i;

	for (i = 0; i < n; i++)
		from.works |= submits[i].commandBufferInfoCount > 0;
	return copy_op(&from, done, fill_submit2, r, why);
}

static void each1(const VkSubmitInfo *s, bool signals,
		  void (*each)(void *data, VkSemaphore semaphore, uint64_t value), void *data)
{
	const VkTimelineSemaphoreSubmitInfo *t = NULL;
	const VkBaseInStructure *b;
	const uint64_t *values;
	uint32_t i, n_values;

	for (b = s->pNext; b; b = b->pNext)
		if (b->sType == VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO)
			t = (const void *)b;
	values = !t ? NULL : signals ? t->pSignalSemaphoreValues : t->pWaitSemaphoreValues;
	n_values = !t ? 0 : signals ? t->signalSemaphoreValueCount : t->waitSemaphoreValueCount;
	for (i = 0; i < (signals ? s->signalSemaphoreCount : s->waitSemaphoreCount); i++)
		each(data, signals ? s->pSignalSemaphores[i] : s->pWaitSemaphores[i],
		     values && i < n_values ? values[i] : 0);
}

static void each2(const VkSubmitInfo2 *s, bool signals,
		  void (*each)(void *data, VkSemaphore semaphore, uint64_t value), void *data)
{
	const VkSemaphoreSubmitInfo *list =
		signals ? s->pSignalSemaphoreInfos : s->pWaitSemaphoreInfos;
	uint32_t n = signals ? s->signalSemaphoreInfoCount : s->waitSemaphoreInfoCount, i;

	for (i = 0; i < n; i++)
		each(data, list[i].semaphore, list[i].value);
}

void op_each(const struct op *op, uint32_t batch, bool signals,
	     void (*each)(void *data, VkSemaphore semaphore, uint64_t value), void *data)
{
	if (op->type == OP_SUBMIT)
		each1((const VkSubmitInfo *)op->batches + batch, signals, each, data);
	else
		each2((const VkSubmitInfo2 *)op->batches + batch, signals, each, data);
}
