/* SPDX-License-Identifier: MIT */
/*
 * A Vulkan driver that computes nothing, and is as strict as the specification: it checks that what
 * it is given is in a valid order, and aborts the test if it is not. It never submits by thread: a
 * binary semaphore that is waited for must have a signaller that was submitted, with all on which
 * that depends. Its queues do what they were given in their order; a program of the test says when
 * one more submission may end.
 *
 * The layer is called through the table of functions that a loader would use.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define STRICT_QUEUES 4u

/* Opens an instance and a device through GIPA, the layer's. */
struct strict {
	VkInstance instance;
	VkPhysicalDevice physical;
	VkDevice device;
	VkQueue queues[STRICT_QUEUES];
	PFN_vkGetInstanceProcAddr gipa;
	PFN_vkGetDeviceProcAddr gdpa;
};
bool strict_open(struct strict *s, PFN_vkGetInstanceProcAddr gipa, PFN_vkGetDeviceProcAddr gdpa);
void strict_close(struct strict *s);

/* Command buffer N, which stands for that much work; it is noted when it has been executed. */
VkCommandBuffer strict_commands(uint32_t n);
/* How many submissions are under way in the driver, with commands. */
uint32_t strict_under_way(void);
/* The numbers of the command buffers of queue Q that were executed, in order; how many. */
uint32_t strict_executed(uint32_t q, const uint32_t **list);
/* Each submission with commands takes that long, nanoseconds; with HOLD none ends. */
void strict_takes(uint64_t ns, bool hold);
/* The next submission fails so, if it is not VK_SUCCESS. */
void strict_fail(VkResult r);
/* How many structures with a `pNext` chain of DeviceGroup, Protected came through. */
uint32_t strict_chained(void);
