/* SPDX-License-Identifier: MIT */
#include "strict.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgpu/clock.h"

#define RULE(holds, text)                                                                          \
	do {                                                                                       \
		if (!(holds)) {                                                                    \
			fprintf(stderr, "the strict driver: %s\n", text);                          \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* Dispatchable handles begin with the loader's pointer. */
struct handle {
	void *loader;
	uint32_t number;
};

/* A semaphore, or a fence. A binary semaphore is PENDING while its signal was submitted, and no
 * wait for it. */
struct sync {
	bool timeline, pending, signalled;
	uint32_t users; /* fence: threads that wait for it now */
	uint64_t value;
	uint64_t promised; /* timeline: the largest value whose signal was submitted */
};

struct point {
	struct sync *sync;
	uint64_t value;
};

struct batch {
	struct batch *next;
	uint32_t n_waits, n_signals, n_commands;
	struct point *waits, *signals;
	uint32_t *commands;
	struct sync *fence;
	vgpu_nsec ends; /* 0: it has not begun */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t news;
	pthread_t engine;
	bool ends, hold;
	uint64_t takes;
	VkResult fail;
	uint32_t under_way, chained;
	struct batch *queued[STRICT_QUEUES], **end[STRICT_QUEUES];
	uint32_t *executed[STRICT_QUEUES], n_executed[STRICT_QUEUES];
} gpu = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};

static void *dispatch_table[4];
static struct handle instance = {&dispatch_table[0], 0}, physical = {&dispatch_table[0], 0},
		     device = {&dispatch_table[1], 0};
static struct handle queue_handles[STRICT_QUEUES], command_handles[1u << 16];

VkCommandBuffer strict_commands(uint32_t n)
{
	command_handles[n] = (struct handle){&dispatch_table[1], n};
	return (VkCommandBuffer)&command_handles[n];
}

uint32_t strict_under_way(void)
{
	uint32_t n;

	pthread_mutex_lock(&gpu.lock);
	n = gpu.under_way;
	pthread_mutex_unlock(&gpu.lock);
	return n;
}

uint32_t strict_executed(uint32_t q, const uint32_t **list)
{
	*list = gpu.executed[q];
	return gpu.n_executed[q];
}

void strict_takes(uint64_t ns, bool hold)
{
	pthread_mutex_lock(&gpu.lock);
	gpu.takes = ns;
	gpu.hold = hold;
	pthread_cond_broadcast(&gpu.news);
	pthread_mutex_unlock(&gpu.lock);
}

void strict_fail(VkResult r)
{
	pthread_mutex_lock(&gpu.lock);
	gpu.fail = r;
	pthread_mutex_unlock(&gpu.lock);
}

uint32_t strict_chained(void)
{
	return gpu.chained;
}

/* The engine: each queue's first batch, when its waits are over, for as long as it takes. */

static bool may_begin(const struct batch *b)
{
	uint32_t i;

	for (i = 0; i < b->n_waits; i++)
		if (b->waits[i].sync->timeline ? b->waits[i].sync->value < b->waits[i].value
					       : !b->waits[i].sync->signalled)
			return false;
	return true;
}

static void begin(struct batch *b, vgpu_nsec now)
{
	uint32_t i;

	for (i = 0; i < b->n_waits; i++)
		if (!b->waits[i].sync->timeline)
			b->waits[i].sync->signalled = false;
	b->ends = now + (b->n_commands ? gpu.takes : 0);
}

static void finish(uint32_t q, struct batch *b)
{
	uint32_t i, n = gpu.n_executed[q];

	for (i = 0; i < b->n_commands; i++) {
		if (((n + i) & (n + i - 1)) == 0)
			gpu.executed[q] =
				realloc(gpu.executed[q], (2 * (n + i) + 2) * sizeof(uint32_t));
		gpu.executed[q][n + i] = b->commands[i];
	}
	gpu.n_executed[q] += b->n_commands;
	for (i = 0; i < b->n_signals; i++) {
		struct sync *s = b->signals[i].sync;

		if (s->timeline) {
			RULE(b->signals[i].value > s->value, "a timeline goes back");
			s->value = b->signals[i].value;
		} else {
			RULE(!s->signalled, "a binary semaphore is signalled twice");
			s->signalled = true;
		}
	}
	if (b->fence)
		b->fence->signalled = true;
	gpu.under_way -= b->n_commands > 0;
	gpu.queued[q] = b->next;
	if (!b->next)
		gpu.end[q] = &gpu.queued[q];
	free(b->waits);
	free(b->signals);
	free(b->commands);
	free(b);
}

static void *engine(void *unused)
{
	vgpu_nsec now, soon;
	struct timespec until;
	bool any;
	uint32_t q;

	(void)unused;
	pthread_mutex_lock(&gpu.lock);
	while (!gpu.ends) {
		any = false;
		soon = vgpu_now() + 100 * VGPU_MSEC;
		for (q = 0; q < STRICT_QUEUES; q++) {
			struct batch *b = gpu.queued[q];

			now = vgpu_now();
			if (b && !b->ends && may_begin(b))
				begin(b, now);
			if (b && b->ends && b->ends <= now && !(gpu.hold && b->n_commands)) {
				finish(q, b);
				any = true;
			} else if (b && b->ends && b->ends < soon && !gpu.hold) {
				soon = b->ends;
			}
		}
		if (any) {
			pthread_cond_broadcast(&gpu.news);
			continue;
		}
		until = (struct timespec){(time_t)(soon / VGPU_SEC), (long)(soon % VGPU_SEC)};
		pthread_cond_timedwait(&gpu.news, &gpu.lock, &until);
	}
	pthread_mutex_unlock(&gpu.lock);
	return NULL;
}

/* Submissions. */

static void check_wait(struct sync *s)
{
	if (s->timeline)
		return;
	RULE(s->pending,
	     "VUID 03238: a wait for a binary semaphore whose signal was not submitted");
	s->pending = false;
}

static void check_signal(struct sync *s, uint64_t value)
{
	if (s->timeline) {
		RULE(value > s->promised, "VUID 03242: a timeline's value does not go up");
		s->promised = value;
	} else {
		RULE(!s->pending, "a binary semaphore is signalled again before it was waited for");
		s->pending = true;
	}
}

static void enqueue(uint32_t q, struct batch *b)
{
	uint32_t i;

	for (i = 0; i < b->n_waits; i++)
		check_wait(b->waits[i].sync);
	for (i = 0; i < b->n_signals; i++)
		check_signal(b->signals[i].sync, b->signals[i].value);
	gpu.under_way += b->n_commands > 0;
	*gpu.end[q] = b;
	gpu.end[q] = &b->next;
}

static struct batch *new_batch(uint32_t waits, uint32_t commands, uint32_t signals)
{
	struct batch *b = calloc(1, sizeof(*b));

	*b = (struct batch){.n_waits = waits, .n_commands = commands, .n_signals = signals};
	b->waits = calloc(waits + 1, sizeof(*b->waits));
	b->signals = calloc(signals + 1, sizeof(*b->signals));
	b->commands = calloc(commands + 1, sizeof(*b->commands));
	return b;
}

static struct batch *batch1(const VkSubmitInfo *s)
{
	struct batch *b =
		new_batch(s->waitSemaphoreCount, s->commandBufferCount, s->signalSemaphoreCount);
	const VkTimelineSemaphoreSubmitInfo *t = NULL;
	const VkBaseInStructure *c;
	uint32_t i;

	for (c = s->pNext; c; c = c->pNext) {
		if (c->sType == VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO)
			t = (const void *)c;
		else
			gpu.chained++;
		if (c->sType == VK_STRUCTURE_TYPE_DEVICE_GROUP_SUBMIT_INFO) {
			const VkDeviceGroupSubmitInfo *g = (const void *)c;

			RULE(g->waitSemaphoreCount == s->waitSemaphoreCount &&
				     g->commandBufferCount == s->commandBufferCount &&
				     g->signalSemaphoreCount == s->signalSemaphoreCount,
			     "a device group's counts differ from its batch's");
		}
	}
	for (i = 0; i < s->waitSemaphoreCount; i++)
		b->waits[i] =
			(struct point){(struct sync *)s->pWaitSemaphores[i],
				       t && t->waitSemaphoreValueCount ? t->pWaitSemaphoreValues[i]
								       : 0};
	for (i = 0; i < s->commandBufferCount; i++)
		b->commands[i] = ((struct handle *)s->pCommandBuffers[i])->number;
	for (i = 0; i < s->signalSemaphoreCount; i++)
		b->signals[i] = (struct point){(struct sync *)s->pSignalSemaphores[i],
					       t && t->signalSemaphoreValueCount
						       ? t->pSignalSemaphoreValues[i]
						       : 0};
	RULE(!t || !t->signalSemaphoreValueCount ||
		     t->signalSemaphoreValueCount == s->signalSemaphoreCount,
	     "VUID 03241: as many values as semaphores");
	return b;
}

static struct batch *batch2(const VkSubmitInfo2 *s)
{
	struct batch *b = new_batch(s->waitSemaphoreInfoCount, s->commandBufferInfoCount,
				    s->signalSemaphoreInfoCount);
	uint32_t i;

	for (i = 0; i < s->waitSemaphoreInfoCount; i++)
		b->waits[i] = (struct point){(struct sync *)s->pWaitSemaphoreInfos[i].semaphore,
					     s->pWaitSemaphoreInfos[i].value};
	for (i = 0; i < s->commandBufferInfoCount; i++)
		b->commands[i] = ((struct handle *)s->pCommandBufferInfos[i].commandBuffer)->number;
	for (i = 0; i < s->signalSemaphoreInfoCount; i++)
		b->signals[i] = (struct point){(struct sync *)s->pSignalSemaphoreInfos[i].semaphore,
					       s->pSignalSemaphoreInfos[i].value};
	return b;
}

static VkResult submit(VkQueue queue, uint32_t n, const VkSubmitInfo *one, const VkSubmitInfo2 *two,
		       VkFence fence)
{
	uint32_t q = ((struct handle *)queue)->number, i;
	struct batch *b;
	VkResult r;

	pthread_mutex_lock(&gpu.lock);
	r = gpu.fail;
	gpu.fail = VK_SUCCESS;
	if (r != VK_SUCCESS)
		n = 0;
	for (i = 0; i < n + (n == 0) && r == VK_SUCCESS; i++) {
		b = n == 0 ? new_batch(0, 0, 0) : one ? batch1(&one[i]) : batch2(&two[i]);
		if (i + 1 >= n)
			b->fence = (struct sync *)fence;
		RULE(!b->fence || (b->fence->users == 0 && !b->fence->signalled),
		     "a fence that a thread waits for, or that is signalled, is submitted");
		enqueue(q, b);
	}
	pthread_cond_broadcast(&gpu.news);
	pthread_mutex_unlock(&gpu.lock);
	return r;
}

static VKAPI_ATTR VkResult VKAPI_CALL queue_submit(VkQueue q, uint32_t n, const VkSubmitInfo *s,
						   VkFence fence)
{
	return submit(q, n, s, NULL, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL queue_submit2(VkQueue q, uint32_t n, const VkSubmitInfo2 *s,
						    VkFence fence)
{
	return submit(q, n, NULL, s, fence);
}

/* Waits until COND, for at most TIMEOUT. */
#define AWAIT(cond, timeout)                                                                       \
	({                                                                                         \
		vgpu_nsec limit_ =                                                                 \
			vgpu_now() + ((timeout) > 1000 * VGPU_SEC ? 1000 * VGPU_SEC : (timeout));  \
		struct timespec at_ = {(time_t)(limit_ / VGPU_SEC), (long)(limit_ % VGPU_SEC)};    \
		pthread_mutex_lock(&gpu.lock);                                                     \
		while (!(cond) && vgpu_now() < limit_)                                             \
			pthread_cond_timedwait(&gpu.news, &gpu.lock, &at_);                        \
		bool held_ = (cond);                                                               \
		pthread_mutex_unlock(&gpu.lock);                                                   \
		held_;                                                                             \
	})

static VKAPI_ATTR VkResult VKAPI_CALL queue_wait_idle(VkQueue queue)
{
	uint32_t q = ((struct handle *)queue)->number;

	AWAIT(!gpu.queued[q], UINT64_MAX);
	return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL device_wait_idle(VkDevice d)
{
	(void)d;
	AWAIT(!gpu.queued[0] && !gpu.queued[1] && !gpu.queued[2] && !gpu.queued[3], UINT64_MAX);
	return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_semaphore(VkDevice d,
						       const VkSemaphoreCreateInfo *info,
						       const VkAllocationCallbacks *a,
						       VkSemaphore *out)
{
	const VkSemaphoreTypeCreateInfo *t = info->pNext;
	struct sync *s = calloc(1, sizeof(*s));

	(void)d;
	(void)a;
	s->timeline = t && t->sType == VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO &&
		      t->semaphoreType == VK_SEMAPHORE_TYPE_TIMELINE;
	*out = (VkSemaphore)s;
	return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_semaphore(VkDevice d, VkSemaphore s,
						    const VkAllocationCallbacks *a)
{
	(void)d;
	(void)a;
	free((struct sync *)s);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_fence(VkDevice d, const VkFenceCreateInfo *info,
						   const VkAllocationCallbacks *a, VkFence *out)
{
	struct sync *s = calloc(1, sizeof(*s));

	(void)d;
	(void)a;
	s->signalled = info->flags & VK_FENCE_CREATE_SIGNALED_BIT;
	*out = (VkFence)s;
	return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_fence(VkDevice d, VkFence s,
						const VkAllocationCallbacks *a)
{
	(void)d;
	(void)a;
	free((struct sync *)s);
}

static VKAPI_ATTR VkResult VKAPI_CALL reset_fences(VkDevice d, uint32_t n, const VkFence *fences)
{
	uint32_t i;

	(void)d;
	pthread_mutex_lock(&gpu.lock);
	for (i = 0; i < n; i++)
		((struct sync *)fences[i])->signalled = false;
	pthread_mutex_unlock(&gpu.lock);
	return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL get_fence_status(VkDevice d, VkFence fence)
{
	(void)d;
	return AWAIT(((struct sync *)fence)->signalled, 0) ? VK_SUCCESS : VK_NOT_READY;
}

static bool all_signalled(uint32_t n, const VkFence *fences)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (!((struct sync *)fences[i])->signalled)
			return false;
	return true;
}

static bool any_signalled(uint32_t n, const VkFence *fences)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (((struct sync *)fences[i])->signalled)
			return true;
	return false;
}

static void use(uint32_t n, const VkFence *fences, int how)
{
	uint32_t i;

	pthread_mutex_lock(&gpu.lock);
	for (i = 0; i < n; i++)
		((struct sync *)fences[i])->users += (uint32_t)how;
	pthread_mutex_unlock(&gpu.lock);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_for_fences(VkDevice d, uint32_t n, const VkFence *fences,
						      VkBool32 all, uint64_t timeout)
{
	bool done;

	(void)d;
	use(n, fences, 1);
	done = AWAIT(all ? all_signalled(n, fences) : any_signalled(n, fences), timeout);
	use(n, fences, -1);
	return done ? VK_SUCCESS : VK_TIMEOUT;
}

static bool all_reached(const VkSemaphoreWaitInfo *info)
{
	uint32_t i;

	for (i = 0; i < info->semaphoreCount; i++)
		if (((struct sync *)info->pSemaphores[i])->value < info->pValues[i])
			return false;
	return true;
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_semaphores(VkDevice d, const VkSemaphoreWaitInfo *info,
						      uint64_t timeout)
{
	(void)d;
	return AWAIT(all_reached(info), timeout) ? VK_SUCCESS : VK_TIMEOUT;
}

static VKAPI_ATTR VkResult VKAPI_CALL signal_semaphore(VkDevice d,
						       const VkSemaphoreSignalInfo *info)
{
	struct sync *s = (struct sync *)info->semaphore;

	(void)d;
	pthread_mutex_lock(&gpu.lock);
	check_signal(s, info->value);
	s->value = info->value;
	pthread_cond_broadcast(&gpu.news);
	pthread_mutex_unlock(&gpu.lock);
	return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL get_value(VkDevice d, VkSemaphore s, uint64_t *value)
{
	(void)d;
	pthread_mutex_lock(&gpu.lock);
	*value = ((struct sync *)s)->value;
	pthread_mutex_unlock(&gpu.lock);
	return VK_SUCCESS;
}

/* SYNC_FD: the signal must have been submitted, and is taken. */
static VKAPI_ATTR VkResult VKAPI_CALL get_semaphore_fd(VkDevice d,
						       const VkSemaphoreGetFdInfoKHR *info, int *fd)
{
	struct sync *s = (struct sync *)info->semaphore;

	(void)d;
	pthread_mutex_lock(&gpu.lock);
	RULE(s->pending, "VUID 03254: a SYNC_FD of a semaphore whose signal was not submitted");
	s->pending = false;
	pthread_mutex_unlock(&gpu.lock);
	AWAIT(s->signalled, UINT64_MAX);
	pthread_mutex_lock(&gpu.lock);
	s->signalled = false;
	pthread_mutex_unlock(&gpu.lock);
	*fd = -1;
	return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL get_device_queue(VkDevice d, uint32_t family, uint32_t i,
						   VkQueue *out)
{
	(void)d;
	(void)family;
	queue_handles[i] = (struct handle){&dispatch_table[1], i};
	*out = (VkQueue)&queue_handles[i];
}

/* Instances and devices. */

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
						      const VkAllocationCallbacks *a,
						      VkInstance *out)
{
	(void)a;
	RULE(info->pApplicationInfo && info->pApplicationInfo->apiVersion >= VK_API_VERSION_1_2,
	     "the layer needs Vulkan 1.2");
	*out = (VkInstance)&instance;
	return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy(void *what, const VkAllocationCallbacks *a)
{
	(void)what;
	(void)a;
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate(VkInstance in, uint32_t *n, VkPhysicalDevice *list)
{
	(void)in;
	if (list)
		*list = (VkPhysicalDevice)&physical;
	*n = 1;
	return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice p, const char *layer, uint32_t *n,
						 VkExtensionProperties *list)
{
	(void)p;
	(void)layer;
	if (list)
		list[0] = (VkExtensionProperties){"VK_KHR_video_queue", 1};
	if (list)
		list[1] = (VkExtensionProperties){"VK_KHR_maintenance3", 1};
	*n = 2;
	return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice p, VkPhysicalDeviceProperties2 *out)
{
	(void)p;
	snprintf(out->properties.deviceName, sizeof(out->properties.deviceName), "strict device");
}

static VKAPI_ATTR void VKAPI_CALL memory_properties(VkPhysicalDevice p,
						    VkPhysicalDeviceMemoryProperties *out)
{
	(void)p;
	*out = (VkPhysicalDeviceMemoryProperties){
		.memoryTypeCount = 2,
		.memoryTypes = {{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0},
				{VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, 1}},
		.memoryHeapCount = 2,
		.memoryHeaps = {{UINT64_C(8) << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT},
				{UINT64_C(16) << 30, 0}}};
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice d, const VkMemoryAllocateInfo *info,
					       const VkAllocationCallbacks *a, VkDeviceMemory *out)
{
	static uint64_t next = 1;

	(void)d;
	(void)info;
	(void)a;
	*out = (VkDeviceMemory)(uintptr_t)(next++ << 8);
	return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice d, VkDeviceMemory m,
					      const VkAllocationCallbacks *a)
{
	(void)d;
	(void)m;
	(void)a;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice p,
						    const VkDeviceCreateInfo *info,
						    const VkAllocationCallbacks *a, VkDevice *out)
{
	const VkBaseInStructure *b;
	bool timeline = false;

	(void)p;
	(void)a;
	for (b = info->pNext; b; b = b->pNext)
		if (b->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES)
			timeline = ((const VkPhysicalDeviceTimelineSemaphoreFeatures *)b)
					   ->timelineSemaphore;
	RULE(timeline, "the layer needs timeline semaphores");
	*out = (VkDevice)&device;
	return VK_SUCCESS;
}

static const struct {
	const char *name;
	void *function;
} functions[] = {
	{"vkCreateInstance", create_instance},
	{"vkDestroyInstance", destroy},
	{"vkEnumeratePhysicalDevices", enumerate},
	{"vkEnumerateDeviceExtensionProperties", extensions},
	{"vkGetPhysicalDeviceProperties2", properties2},
	{"vkGetPhysicalDeviceMemoryProperties", memory_properties},
	{"vkCreateDevice", create_device},
	{"vkDestroyDevice", destroy},
	{"vkGetDeviceQueue", get_device_queue},
	{"vkQueueSubmit", queue_submit},
	{"vkQueueSubmit2", queue_submit2},
	{"vkQueueWaitIdle", queue_wait_idle},
	{"vkDeviceWaitIdle", device_wait_idle},
	{"vkCreateSemaphore", create_semaphore},
	{"vkDestroySemaphore", destroy_semaphore},
	{"vkCreateFence", create_fence},
	{"vkDestroyFence", destroy_fence},
	{"vkResetFences", reset_fences},
	{"vkGetFenceStatus", get_fence_status},
	{"vkWaitForFences", wait_for_fences},
	{"vkWaitSemaphores", wait_semaphores},
	{"vkSignalSemaphore", signal_semaphore},
	{"vkGetSemaphoreCounterValue", get_value},
	{"vkGetSemaphoreFdKHR", get_semaphore_fd},
	{"vkAllocateMemory", allocate},
	{"vkFreeMemory", free_memory},
};

/* All further commands of queues, also those of later headers. */
static VKAPI_ATTR void VKAPI_CALL past_gate(void)
{
	RULE(false, "a command of queues that the layer does not know has come past it");
}

static PFN_vkVoidFunction find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (strcmp(functions[i].name, name) == 0)
			return (PFN_vkVoidFunction)functions[i].function;
	return strncmp(name, "vkQueue", strlen("vkQueue")) == 0 ? past_gate : NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL of_instance(VkInstance in, const char *name)
{
	(void)in;
	return find(name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL of_device(VkDevice d, const char *name)
{
	(void)d;
	return find(name);
}

bool strict_open(struct strict *s, PFN_vkGetInstanceProcAddr gipa, PFN_vkGetDeviceProcAddr gdpa)
{
	VkLayerInstanceLink link = {.pfnNextGetInstanceProcAddr = of_instance};
	VkLayerInstanceCreateInfo chain = {.sType = VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO,
					   .function = VK_LAYER_LINK_INFO,
					   .u.pLayerInfo = &link};
	VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
				     .pNext = &chain};
	VkLayerDeviceLink device_link = {.pfnNextGetInstanceProcAddr = of_instance,
					 .pfnNextGetDeviceProcAddr = of_device};
	VkLayerDeviceCreateInfo device_chain = {.sType =
							VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO,
						.function = VK_LAYER_LINK_INFO,
						.u.pLayerInfo = &device_link};
	VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
					  .pNext = &device_chain};
	pthread_condattr_t monotonic;
	uint32_t n = 1, i;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&gpu.news, &monotonic);
	gpu.ends = gpu.hold = false;
	gpu.takes = 0;
	for (i = 0; i < STRICT_QUEUES; i++) {
		gpu.end[i] = &gpu.queued[i];
		gpu.n_executed[i] = 0;
	}
	pthread_create(&gpu.engine, NULL, engine, NULL);
	*s = (struct strict){.gipa = gipa, .gdpa = gdpa};
	if (((PFN_vkCreateInstance)gipa(NULL, "vkCreateInstance"))(&info, NULL, &s->instance) !=
		    0 ||
	    ((PFN_vkEnumeratePhysicalDevices)gipa(s->instance, "vkEnumeratePhysicalDevices"))(
		    s->instance, &n, &s->physical) != 0 ||
	    n != 1 ||
	    ((PFN_vkCreateDevice)gipa(s->instance, "vkCreateDevice"))(s->physical, &device_info,
								      NULL, &s->device) != 0)
		return false;
	for (i = 0; i < STRICT_QUEUES; i++)
		get_device_queue(s->device, 0, i, &s->queues[i]);
	return true;
}

void strict_close(struct strict *s)
{
	uint32_t i;

	((PFN_vkDestroyDevice)s->gdpa(s->device, "vkDestroyDevice"))(s->device, NULL);
	((PFN_vkDestroyInstance)s->gipa(s->instance, "vkDestroyInstance"))(s->instance, NULL);
	pthread_mutex_lock(&gpu.lock);
	gpu.ends = true;
	pthread_cond_broadcast(&gpu.news);
	pthread_mutex_unlock(&gpu.lock);
	pthread_join(gpu.engine, NULL);
	for (i = 0; i < STRICT_QUEUES; i++) {
		RULE(!gpu.queued[i], "the device was destroyed with work under way");
		free(gpu.executed[i]);
		gpu.executed[i] = NULL;
	}
}
