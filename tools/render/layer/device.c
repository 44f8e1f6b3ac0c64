/* SPDX-License-Identifier: MIT */
/* Devices, and their memory. */
#include <stdlib.h>

#include "submit.h"

#define KEY(handle) (*(void *const *)(handle))

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct device *devices;

struct device *device_of(const void *handle)
{
	struct device *d;

	pthread_rwlock_rdlock(&lock);
	for (d = devices; d && d->key != KEY(handle); d = d->next)
		;
	pthread_rwlock_unlock(&lock);
	return d;
}

/* The gate is open, or the VF was taken from this process. */
static void gate_changed(void)
{
	struct device *d;

	pthread_rwlock_rdlock(&lock);
	for (d = devices; d; d = d->next)
		if (page_is_taken())
			queues_lose(d);
		else
			queues_pump(d);
	pthread_rwlock_unlock(&lock);
}

/* Returns whether a queue asks for a priority above the usual one, which would count against other
 * VFs without vgpud's knowledge. */
static bool is_too_high(const VkDeviceCreateInfo *info)
{
	const VkBaseInStructure *b;
	uint32_t i;

	for (i = 0; i < info->queueCreateInfoCount; i++)
		for (b = info->pQueueCreateInfos[i].pNext; b; b = b->pNext)
			if (b->sType ==
				    VK_STRUCTURE_TYPE_DEVICE_QUEUE_GLOBAL_PRIORITY_CREATE_INFO_KHR &&
			    ((const VkDeviceQueueGlobalPriorityCreateInfoKHR *)b)->globalPriority >
				    VK_QUEUE_GLOBAL_PRIORITY_MEDIUM_KHR)
				return true;
	return false;
}

static VkResult check(const VkDeviceCreateInfo *info)
{
	uint32_t i;

	for (i = 0; i < info->enabledExtensionCount; i++)
		if (!is_shown(info->ppEnabledExtensionNames[i])) {
			say("the extension %s is not supported on a gated GPU",
			    info->ppEnabledExtensionNames[i]);
			return VK_ERROR_EXTENSION_NOT_PRESENT;
		}
	if (is_too_high(info)) {
		say("a queue with more than medium global priority is not permitted on a gated "
		    "GPU");
		return VK_ERROR_NOT_PERMITTED_KHR;
	}
	return VK_SUCCESS;
}

/* Returns the member of the chain of features that says whether timeline semaphores are used, or
 * NULL. */
static VkBool32 *timeline_of(const VkDeviceCreateInfo *info)
{
	VkBaseOutStructure *b;

	for (b = (void *)(uintptr_t)info->pNext; b; b = b->pNext) {
		if (b->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)
			return &((VkPhysicalDeviceVulkan12Features *)b)->timelineSemaphore;
		if (b->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES)
			return &((VkPhysicalDeviceTimelineSemaphoreFeatures *)b)->timelineSemaphore;
	}
	return NULL;
}

/* Creates the device with timeline semaphores, which the layer needs for itself. A structure of the
 * program's that does not ask for them is changed for the length of the call, and changed back. */
static VkResult create(PFN_vkCreateDevice next, VkPhysicalDevice physical,
		       const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator,
		       VkDevice *out)
{
	VkPhysicalDeviceTimelineSemaphoreFeatures ours = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
		.pNext = (void *)(uintptr_t)info->pNext,
		.timelineSemaphore = VK_TRUE,
	};
	VkBool32 *wanted = timeline_of(info), before = VK_TRUE;
	VkDeviceCreateInfo changed = *info;
	VkResult r;

	if (!wanted) {
		changed.pNext = &ours;
	} else if (!*wanted) {
		before = *wanted;
		*wanted = VK_TRUE;
	}
	r = next(physical, &changed, allocator, out);
	if (wanted && !before)
		*wanted = before;
	return r;
}

static uint64_t local_types(struct instance *in, VkPhysicalDevice physical)
{
	VkPhysicalDeviceMemoryProperties p;
	uint64_t types = 0;
	uint32_t i;

	in->GetPhysicalDeviceMemoryProperties(physical, &p);
	for (i = 0; i < p.memoryTypeCount; i++)
		if (p.memoryHeaps[p.memoryTypes[i].heapIndex].flags &
		    VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
			types |= UINT64_C(1) << i;
	return types;
}

static void add(struct device *d, struct instance *in, VkPhysicalDevice physical)
{
	d->key = KEY(d->handle);
#define X(name) d->name = (PFN_vk##name)(void *)d->gdpa(d->handle, "vk" #name);
	DEVICE_NEXT(X)
#undef X
	if (!d->QueueSubmit2)
		d->QueueSubmit2 =
			(PFN_vkQueueSubmit2)(void *)d->gdpa(d->handle, "vkQueueSubmit2KHR");
	pthread_mutex_init(&d->lock, NULL);
	d->local_types = local_types(in, physical);
	d->lost = page && page_is_taken();
	pthread_rwlock_wrlock(&lock);
	d->next = devices;
	devices = d;
	pthread_rwlock_unlock(&lock);
	if (page)
		page_watch(gate_changed);
}

ENTRY(VkResult, CreateDevice, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
      const VkAllocationCallbacks *allocator, VkDevice *out)
{
	VkLayerDeviceCreateInfo *link = (void *)(uintptr_t)info->pNext;
	struct instance *in = instance_of(physical);
	PFN_vkCreateDevice next;
	struct device *d;
	VkResult r;

	while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO &&
			 link->function == VK_LAYER_LINK_INFO))
		link = (void *)(uintptr_t)link->pNext;
	if (!link || !in)
		return VK_ERROR_INITIALIZATION_FAILED;
	r = page ? check(info) : VK_SUCCESS;
	if (r != VK_SUCCESS)
		return r;
	d = calloc(1, sizeof(*d));
	if (!d)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	d->gdpa = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
	next = (PFN_vkCreateDevice)(void *)
		       link->u.pLayerInfo->pfnNextGetInstanceProcAddr(in->handle, "vkCreateDevice");
	link->u.pLayerInfo = link->u.pLayerInfo->pNext;
	r = page ? create(next, physical, info, allocator, out)
		 : next(physical, info, allocator, out);
	if (r != VK_SUCCESS) {
		free(d);
		return r;
	}
	d->handle = *out;
	add(d, in, physical);
	return VK_SUCCESS;
}

ENTRY(void, DestroyDevice, VkDevice device, const VkAllocationCallbacks *allocator)
{
	struct device *d = device ? device_of(device) : NULL, **at;

	if (!d)
		return;
	pthread_rwlock_wrlock(&lock);
	for (at = &devices; *at != d; at = &(*at)->next)
		;
	*at = d->next;
	pthread_rwlock_unlock(&lock);
	queues_end(d);
	d->DestroyDevice(device, allocator);
	if (page)
		page_memory_give(map_free(&d->memory));
	map_free(&d->semaphores);
	map_free(&d->fences);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/* Returns how many bytes of an allocation count for the VF: memory of the device that is not
 * imported, because imported memory counts where it comes from. */
static uint64_t counted(const struct device *d, const VkMemoryAllocateInfo *info)
{
	const VkBaseInStructure *b;

	for (b = info->pNext; b; b = b->pNext)
		if (b->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR ||
		    b->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT)
			return 0;
	return d->local_types >> info->memoryTypeIndex & 1 ? info->allocationSize : 0;
}

ENTRY(VkResult, AllocateMemory, VkDevice device, const VkMemoryAllocateInfo *info,
      const VkAllocationCallbacks *allocator, VkDeviceMemory *out)
{
	struct device *d = device_of(device);
	uint64_t bytes = page ? counted(d, info) : 0;
	VkResult r;
	bool ok;

	if (bytes && !page_memory_take(bytes))
		return VK_ERROR_OUT_OF_DEVICE_MEMORY;
	r = d->AllocateMemory(device, info, allocator, out);
	if (!bytes)
		return r;
	pthread_mutex_lock(&d->lock);
	ok = r == VK_SUCCESS && map_put(&d->memory, (uint64_t)*out, (struct map_value){.a = bytes});
	pthread_mutex_unlock(&d->lock);
	if (ok)
		return VK_SUCCESS;
	page_memory_give(bytes);
	if (r != VK_SUCCESS)
		return r;
	d->FreeMemory(device, *out, allocator);
	return VK_ERROR_OUT_OF_HOST_MEMORY;
}

ENTRY(void, FreeMemory, VkDevice device, VkDeviceMemory memory,
      const VkAllocationCallbacks *allocator)
{
	struct device *d = device_of(device);
	struct map_value v;
	bool counts;

	pthread_mutex_lock(&d->lock);
	counts = memory && map_take(&d->memory, (uint64_t)memory, &v);
	pthread_mutex_unlock(&d->lock);
	d->FreeMemory(device, memory, allocator);
	if (counts)
		page_memory_give(v.a);
}
