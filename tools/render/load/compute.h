/* SPDX-License-Identifier: MIT */
/*
 * A small Vulkan program: a compute shader (chain.comp) computes a chain of numbers step by step,
 * and the CPU computes some of them too, for comparison. Functions that return false have printed
 * the reason on standard error. Each struct compute is for one thread.
 */
#pragma once

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

/* Opens the first device, with a compute queue and timeline semaphores. compute_close() must follow
 * in any case. */
bool compute_open(struct compute *c);
void compute_close(struct compute *c);
/* The most steps of one invocation: llvmpipe ends loops after this many. */
#define COMPUTE_STEPS 65535u
/* Records the shader with STEPS steps, TIMES times at once, into a slot's command buffer. With
 * TIMES above 1 the result is undefined: runs overlap. */
bool compute_record(struct compute *c, uint32_t slot, uint32_t steps, uint32_t times);
/* Submits a slot's command buffer, with the slot's fence; compute_wait waits for that.
 * compute_expect computes STEPS more on the CPU, for numbers that are to be compared. */
bool compute_submit(struct compute *c, uint32_t slot);
bool compute_wait(struct compute *c, uint32_t slot);
void compute_expect(struct compute *c, uint32_t steps);
/* Returns how many of the compared numbers are wrong. No submission may be in flight. */
uint32_t compute_wrong(const struct compute *c);
