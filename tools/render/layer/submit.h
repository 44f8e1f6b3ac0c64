/* SPDX-License-Identifier: MIT */
/* The entry points, by the files that have them. */
#pragma once

#include "layer.h"

/* sync.c: waits until the driver has the operation that signals a binary semaphore; with TAKE, the
 * caller consumes the signal. Returns VK_SUCCESS or VK_ERROR_DEVICE_LOST. */
VkResult semaphore_flush(struct device *d, VkSemaphore semaphore, bool take);

/* submit.c */
ENTRY(VkResult, QueueSubmit, VkQueue, uint32_t, const VkSubmitInfo *, VkFence);
ENTRY(VkResult, QueueSubmit2, VkQueue, uint32_t, const VkSubmitInfo2 *, VkFence);
ENTRY(VkResult, QueueBindSparse, VkQueue, uint32_t, const VkBindSparseInfo *, VkFence);
ENTRY(VkResult, QueueWaitIdle, VkQueue);
ENTRY(VkResult, DeviceWaitIdle, VkDevice);
ENTRY(VkResult, QueuePresentKHR, VkQueue, const VkPresentInfoKHR *);
ENTRY(void, QueueBeginDebugUtilsLabelEXT, VkQueue, const VkDebugUtilsLabelEXT *);
ENTRY(void, QueueEndDebugUtilsLabelEXT, VkQueue);
ENTRY(void, QueueInsertDebugUtilsLabelEXT, VkQueue, const VkDebugUtilsLabelEXT *);

/* sync.c */
ENTRY(VkResult, CreateSemaphore, VkDevice, const VkSemaphoreCreateInfo *,
      const VkAllocationCallbacks *, VkSemaphore *);
ENTRY(void, DestroySemaphore, VkDevice, VkSemaphore, const VkAllocationCallbacks *);
ENTRY(void, DestroyFence, VkDevice, VkFence, const VkAllocationCallbacks *);
ENTRY(VkResult, ResetFences, VkDevice, uint32_t, const VkFence *);
ENTRY(VkResult, WaitForFences, VkDevice, uint32_t, const VkFence *, VkBool32, uint64_t);
ENTRY(VkResult, GetFenceStatus, VkDevice, VkFence);
ENTRY(VkResult, WaitSemaphores, VkDevice, const VkSemaphoreWaitInfo *, uint64_t);
ENTRY(VkResult, SignalSemaphore, VkDevice, const VkSemaphoreSignalInfo *);
ENTRY(VkResult, GetSemaphoreCounterValue, VkDevice, VkSemaphore, uint64_t *);
ENTRY(VkResult, GetSemaphoreFdKHR, VkDevice, const VkSemaphoreGetFdInfoKHR *, int *);
ENTRY(VkResult, ImportSemaphoreFdKHR, VkDevice, const VkImportSemaphoreFdInfoKHR *);
ENTRY(VkResult, GetFenceFdKHR, VkDevice, const VkFenceGetFdInfoKHR *, int *);
ENTRY(VkResult, AcquireNextImageKHR, VkDevice, VkSwapchainKHR, uint64_t, VkSemaphore, VkFence,
      uint32_t *);
ENTRY(VkResult, AcquireNextImage2KHR, VkDevice, const VkAcquireNextImageInfoKHR *, uint32_t *);

/* device.c */
ENTRY(VkResult, CreateDevice, VkPhysicalDevice, const VkDeviceCreateInfo *,
      const VkAllocationCallbacks *, VkDevice *);
ENTRY(void, DestroyDevice, VkDevice, const VkAllocationCallbacks *);
ENTRY(VkResult, AllocateMemory, VkDevice, const VkMemoryAllocateInfo *,
      const VkAllocationCallbacks *, VkDeviceMemory *);
ENTRY(void, FreeMemory, VkDevice, VkDeviceMemory, const VkAllocationCallbacks *);

/* instance.c */
ENTRY(VkResult, CreateInstance, const VkInstanceCreateInfo *, const VkAllocationCallbacks *,
      VkInstance *);
ENTRY(void, DestroyInstance, VkInstance, const VkAllocationCallbacks *);
ENTRY(VkResult, EnumeratePhysicalDevices, VkInstance, uint32_t *, VkPhysicalDevice *);
ENTRY(VkResult, EnumeratePhysicalDeviceGroups, VkInstance, uint32_t *,
      VkPhysicalDeviceGroupProperties *);
ENTRY(VkResult, EnumerateDeviceExtensionProperties, VkPhysicalDevice, const char *, uint32_t *,
      VkExtensionProperties *);
ENTRY(void, GetPhysicalDeviceFeatures, VkPhysicalDevice, VkPhysicalDeviceFeatures *);
ENTRY(void, GetPhysicalDeviceFeatures2, VkPhysicalDevice, VkPhysicalDeviceFeatures2 *);
ENTRY(void, GetPhysicalDeviceQueueFamilyProperties, VkPhysicalDevice, uint32_t *,
      VkQueueFamilyProperties *);
ENTRY(void, GetPhysicalDeviceQueueFamilyProperties2, VkPhysicalDevice, uint32_t *,
      VkQueueFamilyProperties2 *);
ENTRY(void, GetPhysicalDeviceMemoryProperties, VkPhysicalDevice,
      VkPhysicalDeviceMemoryProperties *);
ENTRY(void, GetPhysicalDeviceMemoryProperties2, VkPhysicalDevice,
      VkPhysicalDeviceMemoryProperties2 *);
ENTRY(void, GetPhysicalDeviceExternalSemaphoreProperties, VkPhysicalDevice,
      const VkPhysicalDeviceExternalSemaphoreInfo *, VkExternalSemaphoreProperties *);

/* instance.c: returns whether the layer shows a device's extension. */
bool is_shown(const char *extension);

/* entry.c: returns the layer's function of that name, or NULL. OF_DEVICE: only functions of
 * devices. */
PFN_vkVoidFunction entry_find(const char *name, bool of_device);
