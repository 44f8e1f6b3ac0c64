/* SPDX-License-Identifier: MIT */
/*
 * The inside of the layer VK_LAYER_VGPUD_gate, which holds what a program submits to its GPU while
 * vgpud has shut the gate of the program's VF.
 *
 *   entry.c     the table of entry points, and how the loader finds them
 *   instance.c  instances; shows one device, with the memory that the VF has
 *   device.c    devices, their queues and their memory
 *   submit.c    what is submitted: copied, and appended to its queue
 *   queue.c     queues: what is held, and when it goes on
 *   sync.c      fences and semaphores
 *   copy.c      deep copies of what is submitted
 *   page.c      the pages that are shared with vgpud, and the door
 *   map.c       a table by handle
 *
 * A submission is deferred, never disguised: the driver gets it when all on which it depends has
 * been submitted or has happened, so whatever the driver sees is in an order that is valid without
 * a gate. Each VkQueue has a FIFO for all its operations. What the driver is given ends without
 * anything that is still held.
 *
 * Locks, in the order in which they are taken: a queue's, then its device's.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include "vgpu/gate.h"
#include "vgpu/types.h"

/* map.c: values by handles. A table is all zeros at first; the caller locks it. */
struct map_value {
	uint64_t a, b, c, d;
};
struct map {
	struct map_entry *entries;
	size_t size, used, taken; /* taken: with those that were removed */
};
/* Returns the value of KEY (not 0), which is valid until the next map_put(), or NULL. */
struct map_value *map_get(struct map *map, uint64_t key);
/* Sets the value of KEY (not 0). Returns false if out of memory. */
bool map_put(struct map *map, uint64_t key, struct map_value value);
/* Removes KEY, and writes its value to OUT. Returns false if there is none. */
bool map_take(struct map *map, uint64_t key, struct map_value *out);
/* Frees the table. Returns the sum of all `a` in it. */
uint64_t map_free(struct map *map);

/* copy.c: an operation of a queue, with all that it refers to, in one piece of memory. */
enum op_type { OP_SUBMIT, OP_SUBMIT2 };

struct queue;
struct dependency {
	struct queue *queue;
	uint64_t seq; /* the operation of that queue that must have gone on */
};
struct timeline {
	VkSemaphore semaphore;
	uint64_t value;
	struct dependency signaller; /* of that value or more, that is known; else no queue */
};

struct op {
	struct op *next;
	enum op_type type;
	bool works;	 /* has command buffers */
	bool waited;	 /* for the gate */
	uint64_t seq;	 /* of its queue, from 1 */
	uint64_t done;	 /* value of the queue's semaphore `done`, if it works */
	vgpu_nsec began; /* when the driver got it */
	uint32_t n;	 /* batches */
	void *batches;	 /* VkSubmitInfo or VkSubmitInfo2 */
	VkFence fence;
	uint64_t *done_value;		 /* where `done` goes in the copy; NULL: it does not work */
	struct dependency *dependencies; /* of binary semaphores that it waits for */
	uint32_t n_dependencies;
	struct timeline *timelines; /* that it waits for */
	uint32_t n_timelines;
	uint32_t n_waits; /* semaphores, of all batches */
};

/* Copies a submission, which then also signals DONE with its last batch if it has command buffers.
 * Returns the copy, which the caller frees with free(); or NULL, with the error in *R and, if
 * something in it cannot be copied, the reason in *WHY. */
struct op *copy_submit(uint32_t n, const VkSubmitInfo *submits, VkFence fence, VkSemaphore done,
		       VkResult *r, const char **why);
struct op *copy_submit2(uint32_t n, const VkSubmitInfo2 *submits, VkFence fence, VkSemaphore done,
			VkResult *r, const char **why);
/* Calls EACH for every semaphore that a batch of OP waits for, or signals, in their order. */
void op_each(const struct op *op, uint32_t batch, bool signals,
	     void (*each)(void *data, VkSemaphore semaphore, uint64_t value), void *data);

/* page.c: the pages that are shared with vgpud */
struct page {
	const struct gate_seat *seat;
	struct gate_account *account;
	struct gate_worker *worker;
	int bell;
};
/* This process's pages, which page_open() sets once. NULL: the process is no worker, and the layer
 * does nothing. */
extern const struct page *page;
/* Asks vgpud for the pages, once for each process. Returns false, with the reason on stderr, if
 * this process is told to be a worker and cannot be one. May be called from any thread, as all
 * functions of page.c. */
bool page_open(void);
bool page_gate_is_open(void);
/* Returns whether vgpud has taken the VF from this process. */
bool page_is_taken(void);
/* Counts a submission as in flight. Returns false, and counts nothing, if the gate is shut. */
bool page_enter(void);
/* page_leave takes a page_enter() back; page_ended counts a submission as ended after TOOK ns, for
 * whose begin the gate had to open (WAITED) or not. */
void page_leave(void);
void page_ended(vgpu_nsec took, bool waited);
/* Counts one queue more (WORK), or one fewer, that has work; tells vgpud when the first gets work
 * and the last runs out of it. */
void page_work(bool work);
/* page_memory_take counts BYTES of the VF's memory as used, and returns false, and counts nothing,
 * if the VF may not have that much. page_memory_give takes it back. */
bool page_memory_take(uint64_t bytes);
void page_memory_give(uint64_t bytes);
/* Starts the thread that calls OPENED each time the gate has opened. Must be called once only. */
void page_watch(void (*opened)(void));
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* instance.c */
struct instance {
	struct instance *next;
	void *key;
	VkInstance handle;
	PFN_vkGetInstanceProcAddr gipa;
	VkPhysicalDevice shown;
	bool looked; /* for the device to show */
#define INSTANCE_NEXT(X)                                                                           \
	X(DestroyInstance)                                                                         \
	X(EnumeratePhysicalDevices)                                                                \
	X(EnumeratePhysicalDeviceGroups)                                                           \
	X(EnumerateDeviceExtensionProperties)                                                      \
	X(GetPhysicalDeviceProperties2)                                                            \
	X(GetPhysicalDeviceFeatures)                                                               \
	X(GetPhysicalDeviceFeatures2)                                                              \
	X(GetPhysicalDeviceQueueFamilyProperties)                                                  \
	X(GetPhysicalDeviceQueueFamilyProperties2)                                                 \
	X(GetPhysicalDeviceMemoryProperties)                                                       \
	X(GetPhysicalDeviceMemoryProperties2)                                                      \
	X(GetPhysicalDeviceExternalSemaphoreProperties)
#define X(name) PFN_vk##name name;
	INSTANCE_NEXT(X)
#undef X
};
/* Returns the instance to which a dispatchable handle belongs. */
struct instance *instance_of(const void *handle);

/* device.c */
struct device {
	struct device *next;
	void *key;
	VkDevice handle;
	PFN_vkGetDeviceProcAddr gdpa;
	uint64_t local_types; /* bitmap of memory types whose heap counts */
	_Atomic bool lost;
	_Atomic uint32_t n_held;      /* operations, of all queues */
	pthread_mutex_t lock;	      /* of what follows */
	struct queue *_Atomic queues; /* the list only grows, and is read without the lock */
	/* a: 1 timeline; b, c: queue and number of the last signaller, 0: none; d: its value */
	struct map semaphores;
	struct map fences; /* b, c: likewise */
	struct map memory; /* a: bytes that count */
#define DEVICE_NEXT(X)                                                                             \
	X(DestroyDevice)                                                                           \
	X(QueueSubmit)                                                                             \
	X(QueueSubmit2)                                                                            \
	X(QueueWaitIdle)                                                                           \
	X(DeviceWaitIdle)                                                                          \
	X(CreateSemaphore)                                                                         \
	X(DestroySemaphore)                                                                        \
	X(WaitSemaphores)                                                                          \
	X(SignalSemaphore)                                                                         \
	X(GetSemaphoreCounterValue)                                                                \
	X(WaitForFences)                                                                           \
	X(GetFenceStatus)                                                                          \
	X(DestroyFence)                                                                            \
	X(ResetFences)                                                                             \
	X(GetSemaphoreFdKHR)                                                                       \
	X(ImportSemaphoreFdKHR)                                                                    \
	X(GetFenceFdKHR)                                                                           \
	X(AllocateMemory)                                                                          \
	X(FreeMemory)                                                                              \
	X(QueuePresentKHR)                                                                         \
	X(AcquireNextImageKHR)                                                                     \
	X(AcquireNextImage2KHR)                                                                    \
	X(QueueBeginDebugUtilsLabelEXT)                                                            \
	X(QueueEndDebugUtilsLabelEXT)                                                              \
	X(QueueInsertDebugUtilsLabelEXT)
#define X(name) PFN_vk##name name;
	DEVICE_NEXT(X)
#undef X
};
struct device *device_of(const void *handle);

/* queue.c */
struct queue {
	struct queue *next;
	struct device *device;
	VkQueue handle;
	VkSemaphore done; /* a timeline: one more for each operation with commands */
	pthread_t thread; /* waits for what is in flight, and passes on what is held */
	pthread_mutex_t lock;
	pthread_cond_t wake; /* of the thread */
	pthread_cond_t news; /* for those that wait for the queue */
	bool ends;
	bool busy;		  /* vgpud was told that it has work */
	uint64_t seq, n_done;	  /* of the last operation */
	_Atomic uint64_t gone_on; /* the last operation that the driver was given */
	struct op *held, **held_end;
	struct op *flying, **flying_end; /* with commands, not known to have ended */
	uint32_t n_flying;
	vgpu_nsec typical;   /* how long its submissions take */
	vgpu_nsec last_done; /* when the last one had ended */
};
/* Returns the device's queue with that HANDLE, which it makes at first use; NULL if out of memory.
 * Any thread, as all functions of queue.c. */
struct queue *queue_of(struct device *device, VkQueue handle);
/* Appends OP, which it takes over, and passes on to the driver what may go. Returns VK_SUCCESS;
 * VK_ERROR_OUT_OF_HOST_MEMORY; or the driver's error for OP, if OP has been passed on at once. */
VkResult queue_append(struct queue *q, struct op *op);
/* Passes on to the driver all held operations of the device that may go. */
void queues_pump(struct device *device);
/* Loses the device of a process whose VF is taken, and wakes all who wait for it, unless the driver
 * still computes: a program may free what a lost device used. Called again until then. */
void queues_lose(struct device *device);
/* Waits until the driver has all operations up to SEQ (ALL: all that were appended). Returns
 * VK_SUCCESS, or VK_ERROR_DEVICE_LOST if it never will; in both cases with the queue's lock held.
 */
#define ALL UINT64_MAX
VkResult queue_flush(struct queue *q, uint64_t seq);
/* Returns whether the driver has the operation WHAT; waits for at most TIMEOUT ns for that, perhaps
 * for less. */
bool queue_await(const struct dependency *what, vgpu_nsec timeout);
/* As queue_flush(ALL), and then waits until no operation of the queue is in flight. */
VkResult queue_drain(struct queue *q);
/* Ends all queues of the device: drops held operations, and waits for those in flight. */
void queues_end(struct device *device);

/* submit.c, sync.c, device.c, instance.c: the entry points. */
enum treatment {
	HOLDS,	 /* what is asked for may be held, and the call returns at once */
	ORDERS,	 /* waits until the driver has what was submitted before, then asks it */
	TELLS,	 /* passes, and lets on what waited for it; or knows that the device is lost */
	COUNTS,	 /* memory */
	SHOWS,	 /* one device, and what of it the VF has */
	REFUSES, /* what the layer cannot keep in order */
};
struct entry {
	const char *name;
	enum treatment treatment;
	bool of_device;
	PFN_vkVoidFunction function;
};
extern const struct entry gate_entries[]; /* ends at a NULL name */

#define ENTRY(ret, name, ...) VKAPI_ATTR ret VKAPI_CALL gate_##name(__VA_ARGS__)
