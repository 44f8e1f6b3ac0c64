/* SPDX-License-Identifier: MIT */
#include "compute.h"

#include <stdio.h>

static const uint32_t shader[] = {
#include "chain.inc"
};

static bool ok(VkResult r, const char *what)
{
	if (r >= 0)
		return true;
	fprintf(stderr, "%s: VkResult %d\n", what, r);
	return false;
}
#define TRY(call)                                                                                  \
	do {                                                                                       \
		if (!ok(call, #call))                                                              \
			return false;                                                              \
	} while (0)

static bool open_device(struct compute *c)
{
	VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
					 .apiVersion = VK_API_VERSION_1_2};
	VkInstanceCreateInfo instance = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
					 .pApplicationInfo = &application};
	float priority = 1;
	VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
					 .queueCount = 1,
					 .pQueuePriorities = &priority};
	VkPhysicalDeviceTimelineSemaphoreFeatures timelines = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
		.timelineSemaphore = VK_TRUE};
	VkDeviceCreateInfo device = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
				     .pNext = &timelines,
				     .queueCreateInfoCount = 1,
				     .pQueueCreateInfos = &queue};
	VkQueueFamilyProperties families[16];
	uint32_t n = 1;

	TRY(vkCreateInstance(&instance, NULL, &c->instance));
	TRY(vkEnumeratePhysicalDevices(c->instance, &n, &c->physical));
	if (n == 0) {
		fprintf(stderr, "there is no Vulkan device\n");
		return false;
	}
	n = 16;
	vkGetPhysicalDeviceQueueFamilyProperties(c->physical, &n, families);
	while (queue.queueFamilyIndex < n &&
	       !(families[queue.queueFamilyIndex].queueFlags & VK_QUEUE_COMPUTE_BIT))
		queue.queueFamilyIndex++;
	if (queue.queueFamilyIndex == n) {
		fprintf(stderr, "the device has no queue for compute shaders\n");
		return false;
	}
	TRY(vkCreateDevice(c->physical, &device, NULL, &c->device));
	vkGetDeviceQueue(c->device, queue.queueFamilyIndex, 0, &c->queue);
	VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
					.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
					.queueFamilyIndex = queue.queueFamilyIndex};
	TRY(vkCreateCommandPool(c->device, &pool, NULL, &c->pool));
	return true;
}

static bool open_buffer(struct compute *c)
{
	VkBufferCreateInfo buffer = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
				     .size = COMPUTE_NUMBERS * sizeof(uint32_t),
				     .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
	const VkFlags want =
		VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	VkPhysicalDeviceMemoryProperties memory;
	VkMemoryRequirements needs;
	uint32_t i;

	TRY(vkCreateBuffer(c->device, &buffer, NULL, &c->buffer));
	vkGetBufferMemoryRequirements(c->device, c->buffer, &needs);
	vkGetPhysicalDeviceMemoryProperties(c->physical, &memory);
	while (c->memory_type < memory.memoryTypeCount &&
	       (!(needs.memoryTypeBits >> c->memory_type & 1) ||
		(memory.memoryTypes[c->memory_type].propertyFlags & want) != want))
		c->memory_type++;
	VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
					 .allocationSize = needs.size,
					 .memoryTypeIndex = c->memory_type};
	TRY(vkAllocateMemory(c->device, &allocate, NULL, &c->memory));
	TRY(vkBindBufferMemory(c->device, c->buffer, c->memory, 0));
	TRY(vkMapMemory(c->device, c->memory, 0, VK_WHOLE_SIZE, 0, (void **)&c->numbers));
	for (i = 0; i < COMPUTE_NUMBERS; i++)
		c->numbers[i] = i * 7;
	for (i = 0; i < COMPUTE_NUMBERS / 512; i++)
		c->expected[i] = i * 512 * 7;
	return true;
}

static bool open_pipeline(struct compute *c)
{
	VkDescriptorSetLayoutBinding binding = {.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
						.descriptorCount = 1,
						.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
	VkDescriptorSetLayoutCreateInfo set = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
		.bindingCount = 1,
		.pBindings = &binding};
	VkPushConstantRange steps = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(uint32_t)};
	VkShaderModuleCreateInfo module = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
					   .codeSize = sizeof(shader),
					   .pCode = shader};
	VkComputePipelineCreateInfo pipeline = {
		.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
			  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
			  .pName = "main"}};
	VkResult r;

	TRY(vkCreateDescriptorSetLayout(c->device, &set, NULL, &c->set_layout));
	VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
					     .setLayoutCount = 1,
					     .pSetLayouts = &c->set_layout,
					     .pushConstantRangeCount = 1,
					     .pPushConstantRanges = &steps};
	TRY(vkCreatePipelineLayout(c->device, &layout, NULL, &c->layout));
	TRY(vkCreateShaderModule(c->device, &module, NULL, &pipeline.stage.module));
	pipeline.layout = c->layout;
	r = vkCreateComputePipelines(c->device, NULL, 1, &pipeline, NULL, &c->pipeline);
	vkDestroyShaderModule(c->device, pipeline.stage.module, NULL);
	return ok(r, "vkCreateComputePipelines");
}

static bool open_set(struct compute *c)
{
	VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
	VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
					   .maxSets = 1,
					   .poolSizeCount = 1,
					   .pPoolSizes = &size};
	VkDescriptorBufferInfo buffer = {c->buffer, 0, VK_WHOLE_SIZE};

	TRY(vkCreateDescriptorPool(c->device, &pool, NULL, &c->descriptors));
	VkDescriptorSetAllocateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
					   .descriptorPool = c->descriptors,
					   .descriptorSetCount = 1,
					   .pSetLayouts = &c->set_layout};
	TRY(vkAllocateDescriptorSets(c->device, &set, &c->set));
	VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
				      .dstSet = c->set,
				      .descriptorCount = 1,
				      .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
				      .pBufferInfo = &buffer};
	vkUpdateDescriptorSets(c->device, 1, &write, 0, NULL);
	return true;
}

bool compute_open(struct compute *c)
{
	VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO,
				   .flags = VK_FENCE_CREATE_SIGNALED_BIT};
	uint32_t i;

	*c = (struct compute){.instance = NULL};
	if (!open_device(c) || !open_buffer(c) || !open_pipeline(c) || !open_set(c))
		return false;
	VkCommandBufferAllocateInfo commands = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.commandPool = c->pool,
		.commandBufferCount = COMPUTE_SLOTS};
	TRY(vkAllocateCommandBuffers(c->device, &commands, c->commands));
	for (i = 0; i < COMPUTE_SLOTS; i++)
		TRY(vkCreateFence(c->device, &fence, NULL, &c->fences[i]));
	return true;
}

void compute_close(struct compute *c)
{
	uint32_t i;

	if (c->device) {
		vkDeviceWaitIdle(c->device);
		for (i = 0; i < COMPUTE_SLOTS; i++)
			vkDestroyFence(c->device, c->fences[i], NULL);
		vkDestroyDescriptorPool(c->device, c->descriptors, NULL);
		vkDestroyPipeline(c->device, c->pipeline, NULL);
		vkDestroyPipelineLayout(c->device, c->layout, NULL);
		vkDestroyDescriptorSetLayout(c->device, c->set_layout, NULL);
		vkDestroyBuffer(c->device, c->buffer, NULL);
		vkFreeMemory(c->device, c->memory, NULL);
		vkDestroyCommandPool(c->device, c->pool, NULL);
		vkDestroyDevice(c->device, NULL);
	}
	if (c->instance)
		vkDestroyInstance(c->instance, NULL);
}

bool compute_record(struct compute *c, uint32_t slot, uint32_t steps, uint32_t times)
{
	VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
					  .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
	VkMemoryBarrier before = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
				  .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
				  .dstAccessMask =
					  VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
	VkMemoryBarrier after = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
				 .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
				 .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
	VkCommandBuffer b = c->commands[slot];

	TRY(vkBeginCommandBuffer(b, &begin));
	vkCmdPipelineBarrier(b, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
			     VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &before, 0, NULL, 0, NULL);
	vkCmdBindPipeline(b, VK_PIPELINE_BIND_POINT_COMPUTE, c->pipeline);
	vkCmdBindDescriptorSets(b, VK_PIPELINE_BIND_POINT_COMPUTE, c->layout, 0, 1, &c->set, 0,
				NULL);
	vkCmdPushConstants(b, c->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(steps), &steps);
	vkCmdDispatch(b, COMPUTE_NUMBERS / 64, times, 1);
	vkCmdPipelineBarrier(b, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0,
			     1, &after, 0, NULL, 0, NULL);
	TRY(vkEndCommandBuffer(b));
	return true;
}

bool compute_submit(struct compute *c, uint32_t slot)
{
	VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
			       .commandBufferCount = 1,
			       .pCommandBuffers = &c->commands[slot]};

	TRY(vkResetFences(c->device, 1, &c->fences[slot]));
	TRY(vkQueueSubmit(c->queue, 1, &submit, c->fences[slot]));
	return true;
}

bool compute_wait(struct compute *c, uint32_t slot)
{
	TRY(vkWaitForFences(c->device, 1, &c->fences[slot], VK_TRUE, UINT64_MAX));
	return true;
}

void compute_expect(struct compute *c, uint32_t steps)
{
	uint32_t i, k, x;

	for (i = 0; i < COMPUTE_NUMBERS / 512; i++) {
		x = c->expected[i] + 1;
		for (k = 0; k < steps; k++)
			x = x * 1664525u + 1013904223u;
		c->expected[i] = x;
	}
}

uint32_t compute_wrong(const struct compute *c)
{
	uint32_t i, wrong = 0;

	for (i = 0; i < COMPUTE_NUMBERS / 512; i++)
		wrong += c->expected[i] != c->numbers[i * 512];
	return wrong;
}
