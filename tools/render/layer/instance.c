/* SPDX-License-Identifier: MIT */
/* Instances. A worker is shown one device: its VF's, with the memory that the VF has. */
#include <stdlib.h>
#include <string.h>

#include "submit.h"

#define KEY(handle) (*(void *const *)(handle))

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct instance *instances;

/* Extensions with commands of queues or parts of submissions that the layer does not keep in order,
 * with queues of which it would not know, or with a say in the GPU's clocks. */
static const char *const hidden[] = {
	"VK_KHR_video_queue",	      "VK_KHR_video_decode_queue",    "VK_KHR_video_encode_queue",
	"VK_NV_low_latency",	      "VK_NV_low_latency2",	      "VK_EXT_frame_boundary",
	"VK_INTEL_performance_query", "VK_QCOM_queue_perf_hint",      "VK_ARM_tensors",
	"VK_ARM_data_graph",	      "VK_ARM_render_pass_striped",   "VK_SEC_throttle_hint",
	"VK_SEC_amigo_profiling",     "VK_ANDROID_native_buffer",     "VK_OHOS_native_buffer",
	"VK_AMD_gpa_interface",	      "VK_NV_external_compute_queue",
};

bool is_shown(const char *extension)
{
	size_t i;

	for (i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		if (strcmp(extension, hidden[i]) == 0)
			return false;
	return true;
}

struct instance *instance_of(const void *handle)
{
	struct instance *in;

	pthread_rwlock_rdlock(&lock);
	for (in = instances; in && in->key != KEY(handle); in = in->next)
		;
	pthread_rwlock_unlock(&lock);
	return in;
}

/* Creates the instance for Vulkan 1.2 at least: the layer uses timeline semaphores. */
static VkResult create(PFN_vkCreateInstance next, const VkInstanceCreateInfo *info,
		       const VkAllocationCallbacks *allocator, VkInstance *out)
{
	VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO};
	VkInstanceCreateInfo changed = *info;

	if (info->pApplicationInfo)
		application = *info->pApplicationInfo;
	if (application.apiVersion < VK_API_VERSION_1_2)
		application.apiVersion = VK_API_VERSION_1_2;
	changed.pApplicationInfo = &application;
	return next(&changed, allocator, out);
}

ENTRY(VkResult, CreateInstance, const VkInstanceCreateInfo *info,
      const VkAllocationCallbacks *allocator, VkInstance *out)
{
	VkLayerInstanceCreateInfo *link = (void *)(uintptr_t)info->pNext;
	struct instance *in;
	PFN_vkCreateInstance next;
	VkResult r;

	while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO &&
			 link->function == VK_LAYER_LINK_INFO))
		link = (void *)(uintptr_t)link->pNext;
	if (!link || !page_open())
		return VK_ERROR_INITIALIZATION_FAILED;
	in = calloc(1, sizeof(*in));
	if (!in)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	in->gipa = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
	next = (PFN_vkCreateInstance)(void *)in->gipa(NULL, "vkCreateInstance");
	link->u.pLayerInfo = link->u.pLayerInfo->pNext;
	r = page ? create(next, info, allocator, out) : next(info, allocator, out);
	if (r != VK_SUCCESS) {
		free(in);
		return r;
	}
	in->handle = *out;
	in->key = KEY(*out);
#define X(name) in->name = (PFN_vk##name)(void *)in->gipa(*out, "vk" #name);
	INSTANCE_NEXT(X)
#undef X
	pthread_rwlock_wrlock(&lock);
	in->next = instances;
	instances = in;
	pthread_rwlock_unlock(&lock);
	return VK_SUCCESS;
}

ENTRY(void, DestroyInstance, VkInstance instance, const VkAllocationCallbacks *allocator)
{
	struct instance *in = instance ? instance_of(instance) : NULL, **at;

	if (!in)
		return;
	pthread_rwlock_wrlock(&lock);
	for (at = &instances; *at != in; at = &(*at)->next)
		;
	*at = in->next;
	pthread_rwlock_unlock(&lock);
	in->DestroyInstance(instance, allocator);
	free(in);
}

/* Writes 16 bytes as the text of a UUID. */
static void uuid_text(const uint8_t *uuid, char out[37])
{
	char *to = out;
	int i;

	for (i = 0; i < 16; i++)
		to += sprintf(to, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      uuid[i]);
}

static bool has_extension(struct instance *in, VkPhysicalDevice physical, const char *name)
{
	VkExtensionProperties *list;
	uint32_t n = 0, i;
	bool has = false;

	in->EnumerateDeviceExtensionProperties(physical, NULL, &n, NULL);
	list = calloc(n ? n : 1, sizeof(*list));
	if (!list)
		return false;
	in->EnumerateDeviceExtensionProperties(physical, NULL, &n, list);
	for (i = 0; i < n; i++)
		has |= strcmp(list[i].extensionName, name) == 0;
	free(list);
	return has;
}

/* Returns whether WANT, the configuration's choice, names this device: its UUID, its PCI address,
 * or the beginning of its name. */
static bool is_meant(struct instance *in, VkPhysicalDevice physical, const char *want)
{
	VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
	VkPhysicalDeviceIDProperties id = {.sType =
						   VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
	VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
					 .pNext = &id};
	bool has_pci = has_extension(in, physical, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
	char text[40];

	if (has_pci)
		id.pNext = &pci;
	in->GetPhysicalDeviceProperties2(physical, &p);
	uuid_text(id.deviceUUID, text);
	if (strcasecmp(text, want) == 0)
		return true;
	snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", pci.pciDomain, pci.pciBus, pci.pciDevice,
		 pci.pciFunction);
	if (has_pci && strcasecmp(text, want) == 0)
		return true;
	return strncmp(p.properties.deviceName, want, strlen(want)) == 0;
}

static VkResult choose(struct instance *in)
{
	const char *want = page->seat->device;
	VkPhysicalDevice *list;
	uint32_t n = 0, i;
	VkResult r;

	in->looked = true;
	r = in->EnumeratePhysicalDevices(in->handle, &n, NULL);
	if (r != VK_SUCCESS)
		return r;
	list = calloc(n ? n : 1, sizeof(VkPhysicalDevice));
	if (!list)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	r = in->EnumeratePhysicalDevices(in->handle, &n, list);
	for (i = 0; i < n && !in->shown; i++)
		if (is_meant(in, list[i], want))
			in->shown = list[i];
	free(list);
	if (!in->shown)
		say("none of %u Vulkan devices here is \"%s\" (vulkaninfo --summary)", n, want);
	return r < 0 ? r : VK_SUCCESS;
}

/* Returns the device that the layer shows, or NULL. */
static VkPhysicalDevice shown(struct instance *in)
{
	pthread_rwlock_wrlock(&lock);
	if (!in->looked && choose(in) != VK_SUCCESS)
		in->looked = false;
	pthread_rwlock_unlock(&lock);
	return in->shown;
}

ENTRY(VkResult, EnumeratePhysicalDevices, VkInstance instance, uint32_t *n, VkPhysicalDevice *list)
{
	struct instance *in = instance_of(instance);
	VkPhysicalDevice one;

	if (!page)
		return in->EnumeratePhysicalDevices(instance, n, list);
	one = shown(in);
	if (!list || !one) {
		*n = one != NULL;
		return VK_SUCCESS;
	}
	if (*n == 0)
		return VK_INCOMPLETE;
	*n = 1;
	*list = one;
	return VK_SUCCESS;
}

ENTRY(VkResult, EnumeratePhysicalDeviceGroups, VkInstance instance, uint32_t *n,
      VkPhysicalDeviceGroupProperties *list)
{
	struct instance *in = instance_of(instance);
	VkPhysicalDevice one;

	if (!page)
		return in->EnumeratePhysicalDeviceGroups(instance, n, list);
	one = shown(in);
	if (!list || !one) {
		*n = one != NULL;
		return VK_SUCCESS;
	}
	if (*n == 0)
		return VK_INCOMPLETE;
	*n = 1;
	list->physicalDeviceCount = 1;
	memset(list->physicalDevices, 0, sizeof(list->physicalDevices));
	list->physicalDevices[0] = one;
	list->subsetAllocation = VK_FALSE;
	return VK_SUCCESS;
}

ENTRY(VkResult, EnumerateDeviceExtensionProperties, VkPhysicalDevice physical, const char *layer,
      uint32_t *n, VkExtensionProperties *out)
{
	struct instance *in = instance_of(physical);
	VkExtensionProperties *list;
	uint32_t all = 0, kept = 0, i;
	VkResult r;

	if (layer && strcmp(layer, GATE_LAYER) == 0) {
		*n = 0;
		return VK_SUCCESS;
	}
	if (!page || layer)
		return in->EnumerateDeviceExtensionProperties(physical, layer, n, out);
	r = in->EnumerateDeviceExtensionProperties(physical, NULL, &all, NULL);
	list = calloc(all ? all : 1, sizeof(*list));
	if (!list)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	if (r == VK_SUCCESS)
		r = in->EnumerateDeviceExtensionProperties(physical, NULL, &all, list);
	for (i = 0; i < all && r == VK_SUCCESS; i++)
		if (is_shown(list[i].extensionName))
			list[kept++] = list[i];
	if (r == VK_SUCCESS && out) {
		memcpy(out, list, (*n < kept ? *n : kept) * sizeof(*out));
		r = *n < kept ? VK_INCOMPLETE : VK_SUCCESS;
	}
	if (r == VK_SUCCESS)
		*n = kept;
	free(list);
	return r;
}

static void cut_features(VkPhysicalDeviceFeatures *f)
{
	if (!page)
		return;
	f->sparseBinding = f->sparseResidencyBuffer = VK_FALSE;
	f->sparseResidencyImage2D = f->sparseResidencyImage3D = VK_FALSE;
	f->sparseResidency2Samples = f->sparseResidency4Samples = VK_FALSE;
	f->sparseResidency8Samples = f->sparseResidency16Samples = VK_FALSE;
	f->sparseResidencyAliased = VK_FALSE;
}

ENTRY(void, GetPhysicalDeviceFeatures, VkPhysicalDevice physical, VkPhysicalDeviceFeatures *out)
{
	instance_of(physical)->GetPhysicalDeviceFeatures(physical, out);
	cut_features(out);
}

ENTRY(void, GetPhysicalDeviceFeatures2, VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *out)
{
	instance_of(physical)->GetPhysicalDeviceFeatures2(physical, out);
	cut_features(&out->features);
}

/* Sparse binding, and video decoding and encoding. */
#define HIDDEN_QUEUES (VK_QUEUE_SPARSE_BINDING_BIT | 0x20u | 0x40u)

ENTRY(void, GetPhysicalDeviceQueueFamilyProperties, VkPhysicalDevice physical, uint32_t *n,
      VkQueueFamilyProperties *out)
{
	uint32_t i;

	instance_of(physical)->GetPhysicalDeviceQueueFamilyProperties(physical, n, out);
	for (i = 0; page && out && i < *n; i++)
		out[i].queueFlags &= ~HIDDEN_QUEUES;
}

ENTRY(void, GetPhysicalDeviceQueueFamilyProperties2, VkPhysicalDevice physical, uint32_t *n,
      VkQueueFamilyProperties2 *out)
{
	uint32_t i;

	instance_of(physical)->GetPhysicalDeviceQueueFamilyProperties2(physical, n, out);
	for (i = 0; page && out && i < *n; i++)
		out[i].queueFamilyProperties.queueFlags &= ~HIDDEN_QUEUES;
}

static void cut_memory(VkPhysicalDeviceMemoryProperties *p)
{
	uint64_t limit = page ? atomic_load(&page->seat->memory) : 0;
	uint32_t i;

	for (i = 0; limit && i < p->memoryHeapCount; i++)
		if (p->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT &&
		    p->memoryHeaps[i].size > limit)
			p->memoryHeaps[i].size = limit;
}

ENTRY(void, GetPhysicalDeviceMemoryProperties, VkPhysicalDevice physical,
      VkPhysicalDeviceMemoryProperties *out)
{
	instance_of(physical)->GetPhysicalDeviceMemoryProperties(physical, out);
	cut_memory(out);
}

static void cut_budget(const VkPhysicalDeviceMemoryProperties *p,
		       VkPhysicalDeviceMemoryBudgetPropertiesEXT *b)
{
	uint64_t limit = atomic_load(&page->seat->memory);
	uint32_t i;

	for (i = 0; i < p->memoryHeapCount; i++) {
		if (!(p->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT))
			continue;
		if (limit && b->heapBudget[i] > limit)
			b->heapBudget[i] = limit;
		b->heapUsage[i] = atomic_load(&page->account->memory);
	}
}

ENTRY(void, GetPhysicalDeviceMemoryProperties2, VkPhysicalDevice physical,
      VkPhysicalDeviceMemoryProperties2 *out)
{
	VkBaseOutStructure *b;

	instance_of(physical)->GetPhysicalDeviceMemoryProperties2(physical, out);
	cut_memory(&out->memoryProperties);
	for (b = out->pNext; page && b; b = b->pNext)
		if (b->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT)
			cut_budget(&out->memoryProperties,
				   (VkPhysicalDeviceMemoryBudgetPropertiesEXT *)b);
}

/* Another process would wait for what this one holds, without knowing that it must not yet. */
ENTRY(void, GetPhysicalDeviceExternalSemaphoreProperties, VkPhysicalDevice physical,
      const VkPhysicalDeviceExternalSemaphoreInfo *info, VkExternalSemaphoreProperties *out)
{
	instance_of(physical)->GetPhysicalDeviceExternalSemaphoreProperties(physical, info, out);
	if (!page || info->handleType == VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT)
		return;
	out->exportFromImportedHandleTypes = 0;
	out->compatibleHandleTypes = 0;
	out->externalSemaphoreFeatures = 0;
}
