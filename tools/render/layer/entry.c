/* SPDX-License-Identifier: MIT */
/*
 * All entry points that the layer has, and how it treats them. tests/gate/test_order.c walks this
 * table, and compares it with the commands of queues that the Vulkan headers know.
 */
#include <string.h>

#include "submit.h"

#define E(treatment, of_device, name)                                                              \
	{                                                                                          \
		"vk" #name, treatment, of_device, (PFN_vkVoidFunction)(void *)gate_##name          \
	}
#define ALIAS(treatment, of_device, name, as)                                                      \
	{                                                                                          \
		"vk" #name, treatment, of_device, (PFN_vkVoidFunction)(void *)gate_##as            \
	}

const struct entry gate_entries[] = {
	E(HOLDS, true, QueueSubmit),
	E(HOLDS, true, QueueSubmit2),
	ALIAS(HOLDS, true, QueueSubmit2KHR, QueueSubmit2),
	E(REFUSES, true, QueueBindSparse),
	E(ORDERS, true, QueueWaitIdle),
	E(ORDERS, true, DeviceWaitIdle),
	E(ORDERS, true, QueuePresentKHR),
	E(REFUSES, true, QueueBeginDebugUtilsLabelEXT),
	E(REFUSES, true, QueueEndDebugUtilsLabelEXT),
	E(REFUSES, true, QueueInsertDebugUtilsLabelEXT),
	E(ORDERS, true, GetSemaphoreFdKHR),
	E(ORDERS, true, GetFenceFdKHR),
	E(TELLS, true, CreateSemaphore),
	E(TELLS, true, DestroySemaphore),
	E(TELLS, true, DestroyFence),
	E(TELLS, true, ResetFences),
	E(TELLS, true, WaitForFences),
	E(TELLS, true, GetFenceStatus),
	E(TELLS, true, WaitSemaphores),
	ALIAS(TELLS, true, WaitSemaphoresKHR, WaitSemaphores),
	E(TELLS, true, SignalSemaphore),
	ALIAS(TELLS, true, SignalSemaphoreKHR, SignalSemaphore),
	E(TELLS, true, GetSemaphoreCounterValue),
	ALIAS(TELLS, true, GetSemaphoreCounterValueKHR, GetSemaphoreCounterValue),
	E(TELLS, true, ImportSemaphoreFdKHR),
	E(TELLS, true, AcquireNextImageKHR),
	E(TELLS, true, AcquireNextImage2KHR),
	E(TELLS, true, DestroyDevice),
	E(COUNTS, true, AllocateMemory),
	E(COUNTS, true, FreeMemory),
	E(TELLS, false, CreateInstance),
	E(TELLS, false, DestroyInstance),
	E(TELLS, false, CreateDevice),
	E(SHOWS, false, EnumeratePhysicalDevices),
	E(SHOWS, false, EnumeratePhysicalDeviceGroups),
	ALIAS(SHOWS, false, EnumeratePhysicalDeviceGroupsKHR, EnumeratePhysicalDeviceGroups),
	E(SHOWS, false, EnumerateDeviceExtensionProperties),
	E(SHOWS, false, GetPhysicalDeviceFeatures),
	E(SHOWS, false, GetPhysicalDeviceFeatures2),
	ALIAS(SHOWS, false, GetPhysicalDeviceFeatures2KHR, GetPhysicalDeviceFeatures2),
	E(SHOWS, false, GetPhysicalDeviceQueueFamilyProperties),
	E(SHOWS, false, GetPhysicalDeviceQueueFamilyProperties2),
	ALIAS(SHOWS, false, GetPhysicalDeviceQueueFamilyProperties2KHR,
	      GetPhysicalDeviceQueueFamilyProperties2),
	E(SHOWS, false, GetPhysicalDeviceMemoryProperties),
	E(SHOWS, false, GetPhysicalDeviceMemoryProperties2),
	ALIAS(SHOWS, false, GetPhysicalDeviceMemoryProperties2KHR,
	      GetPhysicalDeviceMemoryProperties2),
	E(SHOWS, false, GetPhysicalDeviceExternalSemaphoreProperties),
	ALIAS(SHOWS, false, GetPhysicalDeviceExternalSemaphorePropertiesKHR,
	      GetPhysicalDeviceExternalSemaphoreProperties),
	{.name = NULL},
};

PFN_vkVoidFunction entry_find(const char *name, bool of_device)
{
	const struct entry *e;

	for (e = gate_entries; e->name; e++)
		if (strcmp(e->name, name) == 0 && (e->of_device || !of_device))
			return e->function;
	return NULL;
}

/* What a program gets for a command that the driver has at NEXT. A queue's command that is not in
 * the table, as one of a later Vulkan, would reach the queue past the gate: there is none. */
static PFN_vkVoidFunction behind_gate(const char *name, bool of_device, PFN_vkVoidFunction next)
{
	PFN_vkVoidFunction own = next ? entry_find(name, of_device) : NULL;

	if (own)
		return own;
	return page && strncmp(name, "vkQueue", strlen("vkQueue")) == 0 ? NULL : next;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char *name)
{
	struct device *d = device_of(device);

	if (strcmp(name, "vkGetDeviceProcAddr") == 0)
		return (PFN_vkVoidFunction)(void *)get_device_proc;
	return behind_gate(name, true, d ? d->gdpa(device, name) : NULL);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance,
								  const char *name)
{
	struct instance *in = instance ? instance_of(instance) : NULL;

	if (strcmp(name, "vkGetInstanceProcAddr") == 0)
		return (PFN_vkVoidFunction)(void *)get_instance_proc;
	if (strcmp(name, "vkGetDeviceProcAddr") == 0)
		return (PFN_vkVoidFunction)(void *)get_device_proc;
	return in ? behind_gate(name, false, in->gipa(instance, name)) : entry_find(name, false);
}

__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version)
{
	if (version->loaderLayerInterfaceVersion < 2)
		return VK_ERROR_INITIALIZATION_FAILED;
	version->loaderLayerInterfaceVersion = 2;
	version->pfnGetInstanceProcAddr = get_instance_proc;
	version->pfnGetDeviceProcAddr = get_device_proc;
	version->pfnGetPhysicalDeviceProcAddr = NULL;
	return VK_SUCCESS;
}
