/* SPDX-License-Identifier: MIT */
/*
 * gate-waits: a program that waits for its GPU in every way that Vulkan has, each in a thread, with
 * a device and a queue, of its own. All have submitted once when it says "ready on" at standard
 * error. When it has read a byte from standard input, all submit again, and wait. It prints as JSON
 * what the shortest wait was and what went wrong.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "compute.h"
#include "vgpu/clock.h"

#define STEPS 200u
#define TIME_OUT (100 * VGPU_MSEC)
#define SUBMISSIONS 4u /* of each thread, after one another */

struct waiter {
	struct compute c;
	const struct way *way;
	VkSemaphore semaphore; /* of the way's type */
	uint64_t value;	       /* of a timeline: what it was last signalled with */
	vgpu_nsec took;
	bool ok;
};

struct way {
	const char *name;
	bool timeline;
	/* Submits COUNT times, and waits for it. */
	bool (*go)(struct waiter *w, uint32_t count);
};

static pthread_barrier_t barrier;

static bool submit_all(struct waiter *w, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (!compute_submit(&w->c, i))
			return false;
	return true;
}

static bool by_fence(struct waiter *w, uint32_t count)
{
	return submit_all(w, count) && compute_wait(&w->c, count - 1);
}

/* All fences at once, again and again with a time-out. */
static bool by_time_out(struct waiter *w, uint32_t count)
{
	VkResult r;

	if (!submit_all(w, count))
		return false;
	while ((r = vkWaitForFences(w->c.device, count, w->c.fences, VK_TRUE, TIME_OUT)) ==
	       VK_TIMEOUT)
		;
	return r == VK_SUCCESS;
}

/* Any of the fences, of which the last one is waited for last. */
static bool by_any(struct waiter *w, uint32_t count)
{
	return submit_all(w, count) &&
	       vkWaitForFences(w->c.device, count, w->c.fences, VK_FALSE, UINT64_MAX) ==
		       VK_SUCCESS &&
	       compute_wait(&w->c, count - 1);
}

static bool by_status(struct waiter *w, uint32_t count)
{
	struct timespec moment = {.tv_nsec = TIME_OUT};
	VkResult r;

	if (!submit_all(w, count))
		return false;
	while ((r = vkGetFenceStatus(w->c.device, w->c.fences[count - 1])) == VK_NOT_READY)
		nanosleep(&moment, NULL);
	return r == VK_SUCCESS;
}

static bool by_queue(struct waiter *w, uint32_t count)
{
	return submit_all(w, count) && vkQueueWaitIdle(w->c.queue) == VK_SUCCESS;
}

static bool by_device(struct waiter *w, uint32_t count)
{
	return submit_all(w, count) && vkDeviceWaitIdle(w->c.device) == VK_SUCCESS;
}

/* Each submission waits for the value that the one before it signals. */
static bool submit_timeline(struct waiter *w, uint32_t count)
{
	VkPipelineStageFlags stage = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
	uint32_t i;

	for (i = 0; i < count; i++) {
		uint64_t before = w->value++;
		VkTimelineSemaphoreSubmitInfo values = {
			.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
			.waitSemaphoreValueCount = 1,
			.pWaitSemaphoreValues = &before,
			.signalSemaphoreValueCount = 1,
			.pSignalSemaphoreValues = &w->value};
		VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
				       .pNext = &values,
				       .waitSemaphoreCount = 1,
				       .pWaitSemaphores = &w->semaphore,
				       .pWaitDstStageMask = &stage,
				       .commandBufferCount = 1,
				       .pCommandBuffers = &w->c.commands[i],
				       .signalSemaphoreCount = 1,
				       .pSignalSemaphores = &w->semaphore};

		if (vkQueueSubmit(w->c.queue, 1, &submit, VK_NULL_HANDLE) != VK_SUCCESS)
			return false;
	}
	return true;
}

static VkResult wait_timeline(struct waiter *w, vgpu_nsec length)
{
	VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
				    .semaphoreCount = 1,
				    .pSemaphores = &w->semaphore,
				    .pValues = &w->value};

	return vkWaitSemaphores(w->c.device, &wait, length);
}

static bool by_timeline(struct waiter *w, uint32_t count)
{
	return submit_timeline(w, count) && wait_timeline(w, UINT64_MAX) == VK_SUCCESS;
}

static bool by_timeline_time_out(struct waiter *w, uint32_t count)
{
	VkResult r;

	if (!submit_timeline(w, count))
		return false;
	while ((r = wait_timeline(w, TIME_OUT)) == VK_TIMEOUT)
		;
	return r == VK_SUCCESS;
}

/* As a program does that shows frames: one submission draws, and signals a binary semaphore for
 * which another one, without commands and with a fence, waits in the place of the display. */
static bool by_present(struct waiter *w, uint32_t count)
{
	VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
	uint32_t i;

	for (i = 0; i < count; i++) {
		VkSubmitInfo draw = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
				     .commandBufferCount = 1,
				     .pCommandBuffers = &w->c.commands[i],
				     .signalSemaphoreCount = 1,
				     .pSignalSemaphores = &w->semaphore};
		VkSubmitInfo show = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
				     .waitSemaphoreCount = 1,
				     .pWaitSemaphores = &w->semaphore,
				     .pWaitDstStageMask = &stage};

		if (vkResetFences(w->c.device, 1, &w->c.fences[i]) != VK_SUCCESS ||
		    vkQueueSubmit(w->c.queue, 1, &draw, VK_NULL_HANDLE) != VK_SUCCESS ||
		    vkQueueSubmit(w->c.queue, 1, &show, w->c.fences[i]) != VK_SUCCESS)
			return false;
	}
	return compute_wait(&w->c, count - 1);
}

static const struct way ways[] = {
	{"fence", false, by_fence},
	{"fences with a time-out", false, by_time_out},
	{"any fence", false, by_any},
	{"fence's status", false, by_status},
	{"queue", false, by_queue},
	{"device", false, by_device},
	{"timeline", true, by_timeline},
	{"timeline with a time-out", true, by_timeline_time_out},
	{"shown frames", false, by_present},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static bool open_waiter(struct waiter *w)
{
	VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
					  .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
	VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
					   .pNext = w->way->timeline ? &type : NULL};
	uint32_t i;

	if (!compute_open(&w->c) ||
	    vkCreateSemaphore(w->c.device, &semaphore, NULL, &w->semaphore) != VK_SUCCESS)
		return false;
	for (i = 0; i < SUBMISSIONS; i++)
		if (!compute_record(&w->c, i, STEPS, 1))
			return false;
	return w->way->go(w, 1);
}

static void *wait_in(void *arg)
{
	struct waiter *w = arg;
	vgpu_nsec began;
	uint32_t i;

	w->ok = open_waiter(w);
	pthread_barrier_wait(&barrier); /* ready */
	pthread_barrier_wait(&barrier); /* go */
	began = vgpu_now();
	w->ok = w->ok && w->way->go(w, SUBMISSIONS);
	w->took = vgpu_now() - began;
	for (i = 0; i < 1 + SUBMISSIONS; i++)
		compute_expect(&w->c, STEPS);
	w->ok = w->ok && compute_wrong(&w->c) == 0;
	if (w->semaphore && vkDeviceWaitIdle(w->c.device) == VK_SUCCESS)
		vkDestroySemaphore(w->c.device, w->semaphore, NULL);
	compute_close(&w->c);
	return NULL;
}

int main(void)
{
	static struct waiter waiters[WAYS];
	pthread_t threads[WAYS];
	vgpu_nsec shortest = VGPU_NEVER;
	uint32_t i, wrong = 0;
	char go;

	pthread_barrier_init(&barrier, NULL, WAYS + 1);
	for (i = 0; i < WAYS; i++) {
		waiters[i].way = &ways[i];
		if (pthread_create(&threads[i], NULL, wait_in, &waiters[i]) != 0)
			return 1;
	}
	pthread_barrier_wait(&barrier);
	fprintf(stderr, "gate-waits: ready on %zu queues\n", WAYS);
	if (read(STDIN_FILENO, &go, 1) != 1)
		return 1;
	pthread_barrier_wait(&barrier);
	for (i = 0; i < WAYS; i++) {
		pthread_join(threads[i], NULL);
		if (!waiters[i].ok) {
			fprintf(stderr, "gate-waits: %s: ended wrong\n", ways[i].name);
			wrong++;
		}
		if (waiters[i].took < shortest)
			shortest = waiters[i].took;
	}
	pthread_barrier_destroy(&barrier);
	printf("{\"threads\": %zu, \"shortest_ms\": %.3f, \"wrong\": %u}\n", WAYS,
	       (double)shortest / 1e6, wrong);
	return wrong == 0 ? 0 : 1;
}
