/* SPDX-License-Identifier: MIT */
/*
 * A small Vulkan program: numbers that a compute shader (chain.comp) carries on, in order, and that
 * the CPU carries on beside it. Messages go to standard error. One thread each.
 */
#ifndef LOAD_COMPUTE_H
#define LOAD_COMPUTE_H

#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

#define COMPUTE_NUMBERS 4096u
#define COMPUTE_SLOTS 8u /* command buffers */

struct compute {
	VkInstance instance;
	VkPhysicalDevice physical;
	VkDevice device;
	VkQueue queue;
	VkCommandPool pool;
	VkDescriptorSetLayout set_layout;
	VkPipelineLayout layout;
	VkPipeline pipeline;
	VkDescriptorPool descriptors;
	VkDescriptorSet set;
	VkBuffer buffer;
	VkDeviceMemory memory;
	uint32_t memory_type;
	uint32_t *numbers; /* on the device, mapped */
	VkCommandBuffer commands[COMPUTE_SLOTS];
	VkFence fences[COMPUTE_SLOTS];
	uint32_t expected[COMPUTE_NUMBERS / 512]; /* every 512th number, by the CPU */
};

/* Opens the first device, with a compute queue and timeline semaphores; prints what failed. */
bool compute_open(struct compute *c);
void compute_close(struct compute *c);
/* The most steps of one invocation: llvmpipe ends loops after so many turns. */
#define COMPUTE_STEPS 65535u
/* Records the shader with that many steps into a slot's command buffer, TIMES over at once: more
 * often than once it has no right result. */
bool compute_record(struct compute *c, uint32_t slot, uint32_t steps, uint32_t times);
/* Submits it, with the slot's fence; carries the CPU's numbers on if they are to be compared. */
bool compute_submit(struct compute *c, uint32_t slot);
bool compute_wait(struct compute *c, uint32_t slot);
void compute_expect(struct compute *c, uint32_t steps);
/* How many of the compared numbers are wrong, when nothing is under way. */
uint32_t compute_wrong(const struct compute *c);

#endif
