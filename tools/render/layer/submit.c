/* SPDX-License-Identifier: MIT */
/* The entry points that take a queue. */
#include "submit.h"

static VkResult refuse(VkResult r, const char *why)
{
	say("a submission with %s is not supported on a gated GPU", why);
	return r;
}

ENTRY(VkResult, QueueSubmit, VkQueue queue, uint32_t n, const VkSubmitInfo *submits, VkFence fence)
{
	struct device *d = device_of(queue);
	const char *why = NULL;
	VkResult r = VK_SUCCESS;
	struct queue *q;
	struct op *op;

	if (!page)
		return d->QueueSubmit(queue, n, submits, fence);
	q = queue_of(d, queue);
	if (!q)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	op = copy_submit(n, submits, fence, q->done, &r, &why);
	return op ? queue_append(q, op) : refuse(r, why);
}

ENTRY(VkResult, QueueSubmit2, VkQueue queue, uint32_t n, const VkSubmitInfo2 *submits,
      VkFence fence)
{
	struct device *d = device_of(queue);
	const char *why = NULL;
	VkResult r = VK_SUCCESS;
	struct queue *q;
	struct op *op;

	if (!page)
		return d->QueueSubmit2(queue, n, submits, fence);
	q = queue_of(d, queue);
	if (!q)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	op = copy_submit2(n, submits, fence, q->done, &r, &why);
	return op ? queue_append(q, op) : refuse(r, why);
}

/* Devices are shown without sparse binding. */
ENTRY(VkResult, QueueBindSparse, VkQueue queue, uint32_t n, const VkBindSparseInfo *info,
      VkFence fence)
{
	(void)queue;
	(void)n;
	(void)info;
	(void)fence;
	say("vkQueueBindSparse is not supported on a gated GPU");
	return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

ENTRY(VkResult, QueueWaitIdle, VkQueue queue)
{
	struct device *d = device_of(queue);
	struct queue *q = page ? queue_of(d, queue) : NULL;
	VkResult r;

	if (!q)
		return d->QueueWaitIdle(queue);
	r = queue_drain(q);
	pthread_mutex_unlock(&q->lock);
	return r == VK_SUCCESS ? d->QueueWaitIdle(queue) : r;
}

ENTRY(VkResult, DeviceWaitIdle, VkDevice device)
{
	struct device *d = device_of(device);
	VkResult r = VK_SUCCESS;
	struct queue *q;

	for (q = d->queues; q && r == VK_SUCCESS; q = q->next) {
		r = queue_drain(q);
		pthread_mutex_unlock(&q->lock);
	}
	/* Nothing is submitted meanwhile: the program must not. */
	return r == VK_SUCCESS ? d->DeviceWaitIdle(device) : r;
}

/* Waits until the driver has the operations that signal these semaphores; consumes their signals.
 */
static VkResult flush_signallers(struct device *d, uint32_t n, const VkSemaphore *semaphores)
{
	VkResult r = VK_SUCCESS;
	uint32_t i;

	for (i = 0; i < n && r == VK_SUCCESS; i++)
		r = semaphore_flush(d, semaphores[i], true);
	return r;
}

ENTRY(VkResult, QueuePresentKHR, VkQueue queue, const VkPresentInfoKHR *info)
{
	struct device *d = device_of(queue);
	struct queue *q = page ? queue_of(d, queue) : NULL;
	VkResult r;

	if (!q)
		return d->QueuePresentKHR(queue, info);
	r = flush_signallers(d, info->waitSemaphoreCount, info->pWaitSemaphores);
	if (r != VK_SUCCESS)
		return r;
	/* After queue_flush() nothing is held, and Vulkan forbids the program to submit meanwhile.
	 * The lock is dropped because presenting can block until the next frame, and the queue's
	 * thread must still notice what has ended. */
	r = queue_flush(q, ALL);
	pthread_mutex_unlock(&q->lock);
	return r == VK_SUCCESS ? d->QueuePresentKHR(queue, info) : r;
}

/* Debug labels are hints for people. With held submissions a label would land in the wrong place,
 * and to wait for these could block for ever, so a worker's labels are dropped. */
ENTRY(void, QueueBeginDebugUtilsLabelEXT, VkQueue queue, const VkDebugUtilsLabelEXT *label)
{
	if (!page)
		device_of(queue)->QueueBeginDebugUtilsLabelEXT(queue, label);
}

ENTRY(void, QueueEndDebugUtilsLabelEXT, VkQueue queue)
{
	if (!page)
		device_of(queue)->QueueEndDebugUtilsLabelEXT(queue);
}

ENTRY(void, QueueInsertDebugUtilsLabelEXT, VkQueue queue, const VkDebugUtilsLabelEXT *label)
{
	if (!page)
		device_of(queue)->QueueInsertDebugUtilsLabelEXT(queue, label);
}
