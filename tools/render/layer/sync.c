/* SPDX-License-Identifier: MIT */
/* Fences and semaphores. */
#include <stdlib.h>

#include "submit.h"
#include "vgpu/clock.h"

/* One wait in the driver is at most this long, so that the loss of the device is noticed: the
 * driver does not know of a fence whose submission failed late. */
#define SLICE (100 * VGPU_MSEC)
/* The same, while the driver has only some of the fences, or they are of several queues. */
#define MOMENT VGPU_MSEC

static VkResult lost(const struct device *d, VkResult otherwise)
{
	return atomic_load(&d->lost) ? VK_ERROR_DEVICE_LOST : otherwise;
}

static const void *chained(const void *chain, VkStructureType type)
{
	const VkBaseInStructure *b = chain;

	while (b && b->sType != type)
		b = b->pNext;
	return b;
}

ENTRY(VkResult, CreateSemaphore, VkDevice device, const VkSemaphoreCreateInfo *info,
      const VkAllocationCallbacks *allocator, VkSemaphore *out)
{
	const VkSemaphoreTypeCreateInfo *type =
		chained(info->pNext, VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
	const VkExportSemaphoreCreateInfo *export =
		chained(info->pNext, VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO);
	struct device *d = device_of(device);
	struct map_value v = {.a = type && type->semaphoreType == VK_SEMAPHORE_TYPE_TIMELINE};
	VkResult r;
	bool ok;

	if (page && export &&
	    export->handleTypes & ~(VkFlags)VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT) {
		say("a semaphore can be exported to other processes only as SYNC_FD on a gated "
		    "GPU");
		return VK_ERROR_OUT_OF_DEVICE_MEMORY;
	}
	r = d->CreateSemaphore(device, info, allocator, out);
	if (r != VK_SUCCESS || !page)
		return r;
	pthread_mutex_lock(&d->lock);
	ok = map_put(&d->semaphores, (uint64_t)*out, v);
	pthread_mutex_unlock(&d->lock);
	if (ok)
		return VK_SUCCESS;
	d->DestroySemaphore(device, *out, allocator);
	return VK_ERROR_OUT_OF_HOST_MEMORY;
}

ENTRY(void, DestroySemaphore, VkDevice device, VkSemaphore semaphore,
      const VkAllocationCallbacks *allocator)
{
	struct device *d = device_of(device);
	struct map_value v;

	if (page && semaphore) {
		pthread_mutex_lock(&d->lock);
		map_take(&d->semaphores, (uint64_t)semaphore, &v);
		pthread_mutex_unlock(&d->lock);
	}
	d->DestroySemaphore(device, semaphore, allocator);
}

/* Waits until the driver has the operation SIGNALLER. Returns VK_SUCCESS or VK_ERROR_DEVICE_LOST.
 */
static VkResult flush(struct dependency signaller)
{
	VkResult r;

	if (!signaller.queue)
		return VK_SUCCESS;
	r = queue_flush(signaller.queue, signaller.seq);
	pthread_mutex_unlock(&signaller.queue->lock);
	return r;
}

static struct dependency signaller_in(struct device *d, struct map *map, uint64_t key, bool take)
{
	struct dependency s = {NULL, 0};
	struct map_value *v;

	pthread_mutex_lock(&d->lock);
	v = map_get(map, key);
	if (v && v->b)
		s = (struct dependency){(struct queue *)(uintptr_t)v->b, v->c};
	if (v && take)
		v->b = 0;
	pthread_mutex_unlock(&d->lock);
	return s;
}

/*
 * Returns the operation that signals a fence. The driver may be asked about a fence only when it
 * has that submission; the program may wait for the fence as soon as it has submitted. So the layer
 * itself waits until the submission has been passed on: otherwise the driver would be given a fence
 * for which another thread already waits there, which it need not expect.
 */
static struct dependency submission_of(struct device *d, VkFence fence)
{
	return signaller_in(d, &d->fences, (uint64_t)fence, false);
}

static bool is_the_drivers(struct device *d, VkFence fence, vgpu_nsec timeout)
{
	struct dependency s = page ? submission_of(d, fence) : (struct dependency){NULL, 0};

	return !s.queue || queue_await(&s, timeout);
}

ENTRY(void, DestroyFence, VkDevice device, VkFence fence, const VkAllocationCallbacks *allocator)
{
	struct device *d = device_of(device);
	struct map_value v;

	if (page && fence) {
		flush(submission_of(d, fence));
		pthread_mutex_lock(&d->lock);
		map_take(&d->fences, (uint64_t)fence, &v);
		pthread_mutex_unlock(&d->lock);
	}
	d->DestroyFence(device, fence, allocator);
}

ENTRY(VkResult, ResetFences, VkDevice device, uint32_t n, const VkFence *fences)
{
	struct device *d = device_of(device);
	uint32_t i;

	for (i = 0; page && i < n; i++)
		flush(submission_of(d, fences[i]));
	return d->ResetFences(device, n, fences);
}

/* Returns whether all fences are signalled by submissions of the first one's queue. */
static bool of_one_queue(struct device *d, uint32_t n, const VkFence *fences)
{
	struct queue *first = submission_of(d, fences[0]).queue;
	uint32_t i;

	for (i = 1; i < n; i++)
		if (submission_of(d, fences[i]).queue != first)
			return false;
	return true;
}

/* Waits once, for at most LENGTH ns. With ALL the driver is asked when it has all fences; else
 * about those that it has, and only for a moment if there are others. */
static VkResult wait_once(struct device *d, uint32_t n, const VkFence *fences, VkBool32 all,
			  uint64_t length, VkFence *known)
{
	vgpu_nsec began = vgpu_now(), left = length, spent;
	uint32_t i, k = 0;

	for (i = 0; i < n; i++) {
		if (is_the_drivers(d, fences[i], all ? left : 0))
			known[k++] = fences[i];
		spent = vgpu_now() - began;
		left = spent < length ? length - spent : 0;
	}
	if (k < n && (all || k == 0)) {
		if (!all)
			is_the_drivers(d, fences[0],
				       left < MOMENT || of_one_queue(d, n, fences) ? left : MOMENT);
		return VK_TIMEOUT;
	}
	return d->WaitForFences(d->handle, k, known, all, k < n && left > MOMENT ? MOMENT : left);
}

ENTRY(VkResult, WaitForFences, VkDevice device, uint32_t n, const VkFence *fences, VkBool32 all,
      uint64_t timeout)
{
	struct device *d = device_of(device);
	vgpu_nsec began = vgpu_now(), spent = 0;
	VkFence few[16], *known = few;
	VkResult r;

	if (!page)
		return d->WaitForFences(device, n, fences, all, timeout);
	if (n > 16)
		known = malloc(n * sizeof(*known));
	if (!known)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	do {
		uint64_t left = timeout - spent;

		r = wait_once(d, n, fences, all, left < SLICE ? left : SLICE, known);
		spent = vgpu_now() - began;
	} while (r == VK_TIMEOUT && spent < timeout && !atomic_load(&d->lost));
	if (known != few)
		free(known);
	return r == VK_TIMEOUT ? lost(d, r) : r;
}

ENTRY(VkResult, GetFenceStatus, VkDevice device, VkFence fence)
{
	struct device *d = device_of(device);
	VkResult r = is_the_drivers(d, fence, 0) ? d->GetFenceStatus(device, fence) : VK_NOT_READY;

	return r == VK_NOT_READY ? lost(d, r) : r;
}

ENTRY(VkResult, WaitSemaphores, VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
	struct device *d = device_of(device);
	uint64_t slice;
	VkResult r;

	do {
		slice = page && timeout > SLICE ? SLICE : timeout;
		r = d->WaitSemaphores(device, info, slice);
		timeout -= timeout == UINT64_MAX ? 0 : slice;
	} while (r == VK_TIMEOUT && timeout > 0 && !atomic_load(&d->lost));
	return r == VK_TIMEOUT ? lost(d, r) : r;
}

ENTRY(VkResult, SignalSemaphore, VkDevice device, const VkSemaphoreSignalInfo *info)
{
	struct device *d = device_of(device);
	VkResult r = d->SignalSemaphore(device, info);

	if (page && r == VK_SUCCESS)
		queues_pump(d);
	return r;
}

ENTRY(VkResult, GetSemaphoreCounterValue, VkDevice device, VkSemaphore semaphore, uint64_t *value)
{
	struct device *d = device_of(device);
	VkResult r = d->GetSemaphoreCounterValue(device, semaphore, value);

	return lost(d, r);
}

VkResult semaphore_flush(struct device *d, VkSemaphore semaphore, bool take)
{
	return flush(signaller_in(d, &d->semaphores, (uint64_t)semaphore, take));
}

/* SYNC_FD takes the semaphore's payload, as a wait would: its signaller must be the driver's. */
ENTRY(VkResult, GetSemaphoreFdKHR, VkDevice device, const VkSemaphoreGetFdInfoKHR *info, int *fd)
{
	struct device *d = device_of(device);
	VkResult r;

	if (!page)
		return d->GetSemaphoreFdKHR(device, info, fd);
	if (info->handleType != VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT) {
		say("a semaphore can be exported to other processes only as SYNC_FD on a gated "
		    "GPU");
		return VK_ERROR_TOO_MANY_OBJECTS;
	}
	r = semaphore_flush(d, info->semaphore, true);
	return r == VK_SUCCESS ? d->GetSemaphoreFdKHR(device, info, fd)
			       : VK_ERROR_OUT_OF_HOST_MEMORY;
}

ENTRY(VkResult, ImportSemaphoreFdKHR, VkDevice device, const VkImportSemaphoreFdInfoKHR *info)
{
	struct device *d = device_of(device);

	if (!page)
		return d->ImportSemaphoreFdKHR(device, info);
	if (info->handleType != VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT) {
		say("a semaphore of another process can be imported only as SYNC_FD on a gated "
		    "GPU");
		return VK_ERROR_INVALID_EXTERNAL_HANDLE;
	}
	signaller_in(d, &d->semaphores, (uint64_t)info->semaphore, true);
	return d->ImportSemaphoreFdKHR(device, info);
}

ENTRY(VkResult, GetFenceFdKHR, VkDevice device, const VkFenceGetFdInfoKHR *info, int *fd)
{
	struct device *d = device_of(device);
	VkResult r = VK_SUCCESS;

	if (page && info->handleType == VK_EXTERNAL_FENCE_HANDLE_TYPE_SYNC_FD_BIT)
		r = flush(signaller_in(d, &d->fences, (uint64_t)info->fence, true));
	return r == VK_SUCCESS ? d->GetFenceFdKHR(device, info, fd) : VK_ERROR_OUT_OF_HOST_MEMORY;
}

/* Acquiring an image signals the semaphore: a wait for it depends on no submission. */
ENTRY(VkResult, AcquireNextImageKHR, VkDevice device, VkSwapchainKHR chain, uint64_t timeout,
      VkSemaphore semaphore, VkFence fence, uint32_t *index)
{
	struct device *d = device_of(device);

	if (page && semaphore)
		signaller_in(d, &d->semaphores, (uint64_t)semaphore, true);
	return d->AcquireNextImageKHR(device, chain, timeout, semaphore, fence, index);
}

ENTRY(VkResult, AcquireNextImage2KHR, VkDevice device, const VkAcquireNextImageInfoKHR *info,
      uint32_t *index)
{
	struct device *d = device_of(device);

	if (page && info->semaphore)
		signaller_in(d, &d->semaphores, (uint64_t)info->semaphore, true);
	return d->AcquireNextImage2KHR(device, info, index);
}
