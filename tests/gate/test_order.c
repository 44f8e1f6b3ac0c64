/* SPDX-License-Identifier: MIT */
/* The layer over a driver that is as strict as the specification: order, deadlocks, errors. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layer.h"
#include "pages.h"
#include "strict.h"
#include "submit.h"
#include "suite.h"
#include "vgpu/clock.h"

#define OPS 400u
#define ROUNDS 12u
#define MOST 3u /* waits of an operation */

static struct pages pages;
static struct strict s;
static PFN_vkGetInstanceProcAddr gipa;
static PFN_vkGetDeviceProcAddr gdpa;

#define CALL(name) ((PFN_vk##name)(void *)gdpa(s.device, "vk" #name))

static uint64_t rng = 88172645463325252u;

static uint32_t below(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng % n);
}

static void open_all(bool gate)
{
	static bool once;

	if (!once) {
		VkNegotiateLayerInterface i = {.loaderLayerInterfaceVersion = 2};

		CU_ASSERT_FATAL(pages_open(&pages, "strict"));
		CU_ASSERT_EQUAL_FATAL(vkNegotiateLoaderLayerInterfaceVersion(&i), VK_SUCCESS);
		gipa = i.pfnGetInstanceProcAddr;
		gdpa = i.pfnGetDeviceProcAddr;
		once = true;
	}
	pages_gate(&pages, gate);
	CU_ASSERT_FATAL(strict_open(&s, gipa, gdpa));
}

static VkSemaphore semaphore(bool timeline)
{
	VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
					  .semaphoreType = timeline ? VK_SEMAPHORE_TYPE_TIMELINE
								    : VK_SEMAPHORE_TYPE_BINARY};
	VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
				      .pNext = &type};
	VkSemaphore out;

	CU_ASSERT_EQUAL_FATAL(CALL(CreateSemaphore)(s.device, &info, NULL, &out), VK_SUCCESS);
	return out;
}

static VkFence fence(void)
{
	VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
	VkFence out;

	CU_ASSERT_EQUAL_FATAL(CALL(CreateFence)(s.device, &info, NULL, &out), VK_SUCCESS);
	return out;
}

static VkResult submit(uint32_t q, uint32_t number, VkSemaphore wait, VkSemaphore signal, VkFence f)
{
	VkCommandBuffer commands = strict_commands(number);
	VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
	VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
			     .waitSemaphoreCount = wait != NULL,
			     .pWaitSemaphores = &wait,
			     .pWaitDstStageMask = &stage,
			     .commandBufferCount = 1,
			     .pCommandBuffers = &commands,
			     .signalSemaphoreCount = signal != NULL,
			     .pSignalSemaphores = &signal};

	return CALL(QueueSubmit)(s.queues[q], 1, &info, f);
}

/* A plan: operations in an order in which they can be done, one queue after the other in it. */
static struct plan {
	uint32_t queue, n_binary, n_timeline, host;
	VkSemaphore binary[MOST]; /* waited for */
	uint32_t from[MOST];	  /* who signals them */
	uint32_t of[MOST];	  /* operations of which the timeline is waited for */
	uint32_t n_signals;
	VkSemaphore signals[2];
	bool empty, two, fenced;
	VkFence fence;
} plan[OPS];
static _Atomic bool submitted[OPS], over;
static VkSemaphore timelines[STRICT_QUEUES], host;

static void make_plan(void)
{
	VkSemaphore spare[OPS];
	uint32_t of[OPS], n = 0, i, k;

	for (i = 0; i < STRICT_QUEUES; i++)
		timelines[i] = semaphore(true);
	host = semaphore(true);
	memset(plan, 0, sizeof(plan));
	for (i = 0; i < OPS; i++) {
		struct plan *p = &plan[i];

		submitted[i] = false;
		p->queue = below(STRICT_QUEUES);
		p->empty = below(5) == 0;
		p->two = below(2);
		p->fenced = below(3) == 0;
		p->fence = p->fenced ? fence() : VK_NULL_HANDLE;
		p->host = below(20) == 0 ? i + 1 : 0;
		for (k = below(MOST + 1); k > 0 && n > 0; k--) {
			uint32_t which = below(n);

			p->from[p->n_binary] = of[which];
			p->binary[p->n_binary++] = spare[which];
			spare[which] = spare[--n];
			of[which] = of[n];
		}
		for (k = below(MOST); k > 0 && i > 0; k--)
			p->of[p->n_timeline++] = below(i);
		for (k = below(3); k > 0; k--) {
			spare[n] = p->signals[p->n_signals++] = semaphore(false);
			of[n++] = i;
		}
	}
}

static VkResult submit_one(const struct plan *p, uint32_t i)
{
	VkSemaphoreSubmitInfo waits[2 * MOST + 1], signals[3];
	VkSemaphore w[2 * MOST + 1], g[3];
	uint64_t wv[2 * MOST + 1], gv[3];
	VkPipelineStageFlags stages[2 * MOST + 1];
	VkCommandBuffer commands = strict_commands(i);
	VkCommandBufferSubmitInfo c = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO,
				       .commandBuffer = commands};
	uint32_t n = 0, m = 0, k;

	for (k = 0; k < p->n_binary; k++, n++) {
		w[n] = p->binary[k];
		wv[n] = 0;
	}
	for (k = 0; k < p->n_timeline; k++, n++) {
		w[n] = timelines[plan[p->of[k]].queue];
		wv[n] = p->of[k] + 1;
	}
	if (p->host) {
		w[n] = host;
		wv[n++] = p->host;
	}
	for (k = 0; k < p->n_signals; k++, m++) {
		g[m] = p->signals[k];
		gv[m] = 0;
	}
	g[m] = timelines[p->queue];
	gv[m++] = i + 1;
	for (k = 0; k < n; k++) {
		stages[k] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
		waits[k] = (VkSemaphoreSubmitInfo){
			VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, NULL, w[k], wv[k],
			VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,	 0};
	}
	for (k = 0; k < m; k++)
		signals[k] = (VkSemaphoreSubmitInfo){
			VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, NULL, g[k], gv[k],
			VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,	 0};
	VkSubmitInfo2 two = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
			     .waitSemaphoreInfoCount = n,
			     .pWaitSemaphoreInfos = waits,
			     .commandBufferInfoCount = !p->empty,
			     .pCommandBufferInfos = &c,
			     .signalSemaphoreInfoCount = m,
			     .pSignalSemaphoreInfos = signals};
	VkTimelineSemaphoreSubmitInfo t = {.sType =
						   VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
					   .waitSemaphoreValueCount = n,
					   .pWaitSemaphoreValues = wv,
					   .signalSemaphoreValueCount = m,
					   .pSignalSemaphoreValues = gv};
	VkSubmitInfo one = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
			    .pNext = &t,
			    .waitSemaphoreCount = n,
			    .pWaitSemaphores = w,
			    .pWaitDstStageMask = stages,
			    .commandBufferCount = !p->empty,
			    .pCommandBuffers = &commands,
			    .signalSemaphoreCount = m,
			    .pSignalSemaphores = g};

	return p->two ? CALL(QueueSubmit2)(s.queues[p->queue], 1, &two, p->fence)
		      : CALL(QueueSubmit)(s.queues[p->queue], 1, &one, p->fence);
}

/* Submits one queue's operations, each when the signallers of its binary semaphores have been. */
static void *submitter(void *arg)
{
	uint32_t q = (uint32_t)(uintptr_t)arg, i, k;

	for (i = 0; i < OPS; i++) {
		if (plan[i].queue != q)
			continue;
		for (k = 0; k < plan[i].n_binary; k++)
			while (!atomic_load(&submitted[plan[i].from[k]]))
				sched_yield();
		CU_ASSERT_EQUAL(submit_one(&plan[i], i), VK_SUCCESS);
		atomic_store(&submitted[i], true);
	}
	return NULL;
}

/* Opens and shuts the gate; while it is shut and nothing is in flight, the driver has nothing. */
static void *toggler(void *unused)
{
	struct timespec pause = {0, 300000};

	(void)unused;
	while (!atomic_load(&over)) {
		pages_gate(&pages, true);
		nanosleep(&pause, NULL);
		CU_ASSERT(pages_shut(&pages));
		CU_ASSERT_EQUAL(strict_under_way(), 0);
		nanosleep(&pause, NULL);
		CU_ASSERT_EQUAL(strict_under_way(), 0);
	}
	pages_gate(&pages, true);
	return NULL;
}

static bool await(uint32_t i)
{
	uint64_t value = i + 1;
	VkSemaphoreWaitInfo w = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
				 .semaphoreCount = 1,
				 .pSemaphores = &timelines[plan[i].queue],
				 .pValues = &value};

	return CALL(WaitSemaphores)(s.device, &w, 60 * VGPU_SEC) == VK_SUCCESS;
}

static void check_order(void)
{
	const uint32_t *list;
	uint32_t q, i, n, at;

	for (q = 0; q < STRICT_QUEUES; q++) {
		n = strict_executed(q, &list);
		for (i = at = 0; i < OPS; i++)
			if (plan[i].queue == q && !plan[i].empty)
				CU_ASSERT(at < n && list[at++] == i);
		CU_ASSERT_EQUAL(at, n);
	}
}

static void forget_plan(void)
{
	uint32_t i, k;

	for (i = 0; i < OPS; i++) {
		for (k = 0; k < plan[i].n_signals; k++)
			CALL(DestroySemaphore)(s.device, plan[i].signals[k], NULL);
		if (plan[i].fenced)
			CALL(DestroyFence)(s.device, plan[i].fence, NULL);
	}
	for (i = 0; i < STRICT_QUEUES; i++)
		CALL(DestroySemaphore)(s.device, timelines[i], NULL);
	CALL(DestroySemaphore)(s.device, host, NULL);
}

static void random_round(void)
{
	VkSemaphoreSignalInfo signal = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO};
	pthread_t threads[STRICT_QUEUES], gate;
	uint32_t i;

	open_all(false);
	strict_takes(20000, false);
	make_plan();
	atomic_store(&over, false);
	pthread_create(&gate, NULL, toggler, NULL);
	for (i = 0; i < STRICT_QUEUES; i++)
		pthread_create(&threads[i], NULL, submitter, (void *)(uintptr_t)i);
	signal.semaphore = host;
	for (i = 0; i < OPS; i++) {
		CU_ASSERT_FATAL(i == 0 || await(i - 1));
		if (!plan[i].host)
			continue;
		signal.value = plan[i].host;
		CU_ASSERT_EQUAL(CALL(SignalSemaphore)(s.device, &signal), VK_SUCCESS);
	}
	CU_ASSERT_FATAL(await(OPS - 1));
	for (i = 0; i < STRICT_QUEUES; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < OPS; i++)
		if (plan[i].fenced)
			CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 1, &plan[i].fence, VK_TRUE,
							    60 * VGPU_SEC),
					VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(DeviceWaitIdle)(s.device), VK_SUCCESS);
	atomic_store(&over, true);
	pthread_join(gate, NULL);
	check_order();
	forget_plan();
	strict_close(&s);
	CU_ASSERT_EQUAL(atomic_load(&pages.worker->in_flight), 0);
	CU_ASSERT_EQUAL(atomic_load(&pages.worker->work), 0);
}

/* Random semaphores across four queues, each with a thread, while the gate opens and shuts. */
TEST(test_random, "random")
{
	uint32_t i;

	for (i = 0; i < ROUNDS; i++)
		random_round();
}

/* While the gate is shut, calls return at once, and the driver gets nothing. */
TEST(test_shut, "shut")
{
	VkFence f;
	VkSemaphore b;

	open_all(false);
	f = fence();
	b = semaphore(false);
	pages_rung(&pages);
	CU_ASSERT_EQUAL(submit(0, 1, NULL, b, VK_NULL_HANDLE), VK_SUCCESS);
	CU_ASSERT_EQUAL(submit(1, 2, b, NULL, f), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(GetFenceStatus)(s.device, f), VK_NOT_READY);
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 1, &f, VK_TRUE, VGPU_MSEC), VK_TIMEOUT);
	CU_ASSERT_EQUAL(strict_under_way(), 0);
	CU_ASSERT_EQUAL(atomic_load(&pages.worker->in_flight), 0);
	CU_ASSERT(atomic_load(&pages.worker->work) > 0);
	CU_ASSERT_EQUAL(pages_rung(&pages), 1); /* there is work, and nothing else to tell */
	pages_gate(&pages, true);
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 1, &f, VK_TRUE, 60 * VGPU_SEC), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(DeviceWaitIdle)(s.device), VK_SUCCESS);
	CALL(DestroySemaphore)(s.device, b, NULL);
	CALL(DestroyFence)(s.device, f, NULL);
	strict_close(&s);
}

/* A batch may wait for what an earlier batch of the same submission signals. */
TEST(test_batches, "batches of one submission")
{
	VkCommandBufferSubmitInfo commands[2];
	VkSemaphoreSubmitInfo of[2];
	VkSubmitInfo2 batches[2];
	VkSemaphore t, b;
	VkFence f;
	uint32_t i;

	open_all(true);
	t = semaphore(true);
	b = semaphore(false);
	f = fence();
	of[0] = (VkSemaphoreSubmitInfo){.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
					.semaphore = t,
					.value = 1,
					.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT};
	of[1] = of[0];
	of[1].semaphore = b;
	for (i = 0; i < 2; i++) {
		commands[i] = (VkCommandBufferSubmitInfo){
			.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO,
			.commandBuffer = strict_commands(i + 1)};
		batches[i] = (VkSubmitInfo2){.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
					     .waitSemaphoreInfoCount = i ? 2 : 0,
					     .pWaitSemaphoreInfos = of,
					     .commandBufferInfoCount = 1,
					     .pCommandBufferInfos = &commands[i],
					     .signalSemaphoreInfoCount = i ? 0 : 2,
					     .pSignalSemaphoreInfos = of};
	}
	CU_ASSERT_EQUAL(CALL(QueueSubmit2)(s.queues[0], 2, batches, f), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 1, &f, VK_TRUE, 10 * VGPU_SEC), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(DeviceWaitIdle)(s.device), VK_SUCCESS);
	CALL(DestroySemaphore)(s.device, t, NULL);
	CALL(DestroySemaphore)(s.device, b, NULL);
	CALL(DestroyFence)(s.device, f, NULL);
	strict_close(&s);
}

/* An empty submission with a fence does not overtake what is held. */
TEST(test_empty_fence, "empty fence")
{
	VkFence f;

	open_all(false);
	f = fence();
	CU_ASSERT_EQUAL(submit(0, 1, NULL, NULL, VK_NULL_HANDLE), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(QueueSubmit)(s.queues[0], 0, NULL, f), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 1, &f, VK_TRUE, 5 * VGPU_MSEC), VK_TIMEOUT);
	/* On a queue in which nothing is held it passes a shut gate. */
	CU_ASSERT_EQUAL(CALL(QueueSubmit)(s.queues[1], 0, NULL, VK_NULL_HANDLE), VK_SUCCESS);
	pages_gate(&pages, true);
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 1, &f, VK_TRUE, 60 * VGPU_SEC), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(QueueWaitIdle)(s.queues[0]), VK_SUCCESS);
	CALL(DestroyFence)(s.device, f, NULL);
	strict_close(&s);
}

static _Atomic pid_t waiter;

static void *wait_for_it(void *arg)
{
	atomic_store(&waiter, gettid());
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 1, arg, VK_TRUE, 60 * VGPU_SEC), VK_SUCCESS);
	return NULL;
}

/* Returns when the thread that waits for a fence sleeps. */
static void until_it_waits(void)
{
	vgpu_nsec until = vgpu_now() + 60 * VGPU_SEC;
	char path[64], state = '?';
	FILE *f;

	while (atomic_load(&waiter) == 0)
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)atomic_load(&waiter));
	while (state != 'S' && vgpu_now() < until) {
		sched_yield();
		f = fopen(path, "r");
		CU_ASSERT_PTR_NOT_NULL_FATAL(f);
		CU_ASSERT_EQUAL(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
		fclose(f);
	}
	CU_ASSERT_EQUAL(state, 'S');
}

/* While a thread waits for the fence of what is held, the driver may be given that fence; a wait
 * for any of several fences ends with the first, though another's submission is held. */
TEST(test_fences, "fences")
{
	VkFence f[2];
	pthread_t thread;

	open_all(true);
	f[0] = fence();
	f[1] = fence();
	CU_ASSERT_EQUAL(submit(0, 1, NULL, NULL, f[0]), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 1, f, VK_TRUE, 60 * VGPU_SEC), VK_SUCCESS);
	CU_ASSERT(pages_shut(&pages));
	CU_ASSERT_EQUAL(submit(0, 2, NULL, NULL, f[1]), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 2, f, VK_FALSE, 60 * VGPU_SEC), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 2, f, VK_TRUE, VGPU_MSEC), VK_TIMEOUT);
	pthread_create(&thread, NULL, wait_for_it, &f[1]);
	until_it_waits();
	pages_gate(&pages, true);
	pthread_join(thread, NULL);
	CU_ASSERT_EQUAL(CALL(ResetFences)(s.device, 2, f), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(GetFenceStatus)(s.device, f[1]), VK_NOT_READY);
	CALL(DestroyFence)(s.device, f[0], NULL);
	CALL(DestroyFence)(s.device, f[1], NULL);
	strict_close(&s);
}

/* A submission that fails in its call is the caller's to know; one that fails later loses the
 * device, for waits too. */
TEST(test_failures, "failures")
{
	VkFence f;

	open_all(true);
	strict_fail(VK_ERROR_OUT_OF_HOST_MEMORY);
	CU_ASSERT_EQUAL(submit(0, 1, NULL, NULL, VK_NULL_HANDLE), VK_ERROR_OUT_OF_HOST_MEMORY);
	CU_ASSERT_EQUAL(submit(0, 2, NULL, NULL, VK_NULL_HANDLE), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(QueueWaitIdle)(s.queues[0]), VK_SUCCESS);
	f = fence();
	CU_ASSERT(pages_shut(&pages));
	strict_fail(VK_ERROR_OUT_OF_HOST_MEMORY);
	CU_ASSERT_EQUAL(submit(0, 3, NULL, NULL, f), VK_SUCCESS);
	pages_gate(&pages, true);
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 1, &f, VK_TRUE, UINT64_MAX),
			VK_ERROR_DEVICE_LOST);
	CU_ASSERT_EQUAL(CALL(GetFenceStatus)(s.device, f), VK_ERROR_DEVICE_LOST);
	CU_ASSERT_EQUAL(submit(0, 4, NULL, NULL, VK_NULL_HANDLE), VK_ERROR_DEVICE_LOST);
	CU_ASSERT_EQUAL(CALL(QueueWaitIdle)(s.queues[0]), VK_ERROR_DEVICE_LOST);
	CU_ASSERT_EQUAL(CALL(DeviceWaitIdle)(s.device), VK_ERROR_DEVICE_LOST);
	CALL(DestroyFence)(s.device, f, NULL);
	strict_close(&s);
	CU_ASSERT_EQUAL(atomic_load(&pages.worker->in_flight), 0);
	CU_ASSERT_EQUAL(atomic_load(&pages.worker->work), 0);
}

/* vgpud takes the VF from the process: what is held is dropped, and who waits is told; what
 * computes counts until it has ended. A device that is made now is lost too. */
TEST(test_taken, "taken")
{
	VkFence f;

	open_all(true);
	f = fence();
	CU_ASSERT(pages_shut(&pages));
	CU_ASSERT_EQUAL(submit(0, 1, NULL, NULL, f), VK_SUCCESS);
	atomic_store(&pages.seat->lost, atomic_load(&pages.worker->generation) + 1);
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 1, &f, VK_TRUE, UINT64_MAX),
			VK_ERROR_DEVICE_LOST);
	CU_ASSERT_EQUAL(CALL(GetFenceStatus)(s.device, f), VK_ERROR_DEVICE_LOST);
	CU_ASSERT_EQUAL(submit(0, 2, NULL, NULL, VK_NULL_HANDLE), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(DeviceWaitIdle)(s.device), VK_ERROR_DEVICE_LOST);
	CALL(DestroyFence)(s.device, f, NULL);
	strict_close(&s);
	CU_ASSERT_EQUAL(atomic_load(&pages.worker->in_flight), 0);
	CU_ASSERT_EQUAL(atomic_load(&pages.worker->work), 0);
	pages_gate(&pages, true);
	open_all(true);
	f = fence();
	CU_ASSERT_EQUAL(submit(0, 3, NULL, NULL, f), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(GetFenceStatus)(s.device, f), VK_ERROR_DEVICE_LOST);
	CALL(DestroyFence)(s.device, f, NULL);
	strict_close(&s);
	/* Another incarnation's loss is not this one's. */
	atomic_store(&pages.seat->lost, atomic_load(&pages.worker->generation) + 2);
	open_all(true);
	CU_ASSERT_EQUAL(submit(0, 4, NULL, NULL, VK_NULL_HANDLE), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(QueueWaitIdle)(s.queues[0]), VK_SUCCESS);
	strict_close(&s);
	atomic_store(&pages.seat->lost, 0);
}

/* What computes when the VF is taken gets its normal result, and the device is lost only then: a
 * program may free what a lost device used. */
TEST(test_taken_later, "taken while it computes")
{
	VkFence f[2];

	open_all(true);
	strict_takes(0, true);
	f[0] = fence();
	f[1] = fence();
	CU_ASSERT_EQUAL(submit(0, 1, NULL, NULL, f[0]), VK_SUCCESS);
	CU_ASSERT_EQUAL(strict_under_way(), 1);
	pages_gate(&pages, false);
	CU_ASSERT_EQUAL(submit(1, 2, NULL, NULL, f[1]), VK_SUCCESS);
	atomic_store(&pages.seat->lost, atomic_load(&pages.worker->generation) + 1);
	pages_gate(&pages, true);
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 1, &f[1], VK_TRUE, 500 * VGPU_MSEC),
			VK_TIMEOUT);
	CU_ASSERT_EQUAL(CALL(GetFenceStatus)(s.device, f[0]), VK_NOT_READY);
	CU_ASSERT_EQUAL(strict_under_way(), 1);
	CU_ASSERT_EQUAL(atomic_load(&pages.worker->in_flight), 1);
	strict_takes(0, false);
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 1, &f[0], VK_TRUE, UINT64_MAX), VK_SUCCESS);
	CU_ASSERT_EQUAL(CALL(WaitForFences)(s.device, 1, &f[1], VK_TRUE, UINT64_MAX),
			VK_ERROR_DEVICE_LOST);
	CU_ASSERT_EQUAL(CALL(DeviceWaitIdle)(s.device), VK_ERROR_DEVICE_LOST);
	CALL(DestroyFence)(s.device, f[0], NULL);
	CALL(DestroyFence)(s.device, f[1], NULL);
	strict_close(&s);
	CU_ASSERT_EQUAL(atomic_load(&pages.worker->in_flight), 0);
	CU_ASSERT_EQUAL(atomic_load(&pages.worker->work), 0);
	atomic_store(&pages.seat->lost, 0);
}

/* A device is destroyed while the gate is shut: what is held is dropped, nobody waits. */
TEST(test_destroy, "destroy")
{
	open_all(false);
	CU_ASSERT_EQUAL(submit(0, 1, NULL, NULL, VK_NULL_HANDLE), VK_SUCCESS);
	strict_close(&s);
	CU_ASSERT_EQUAL(atomic_load(&pages.worker->work), 0);
}

static void *export_it(void *arg)
{
	VkSemaphoreGetFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR,
					.semaphore = *(VkSemaphore *)arg,
					.handleType =
						VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT};
	int fd;

	CU_ASSERT_EQUAL(CALL(GetSemaphoreFdKHR)(s.device, &info, &fd), VK_SUCCESS);
	return NULL;
}

/* SYNC_FD waits until the driver has the signaller. */
TEST(test_export, "export")
{
	VkSemaphore b;
	pthread_t thread;

	open_all(false);
	b = semaphore(false);
	CU_ASSERT_EQUAL(submit(0, 1, NULL, b, VK_NULL_HANDLE), VK_SUCCESS);
	pthread_create(&thread, NULL, export_it, &b);
	pages_gate(&pages, true);
	pthread_join(thread, NULL);
	CU_ASSERT_EQUAL(CALL(DeviceWaitIdle)(s.device), VK_SUCCESS);
	CALL(DestroySemaphore)(s.device, b, NULL);
	strict_close(&s);
}

/* Structures that are known are copied with the batch; others are refused. */
TEST(test_chains, "chains")
{
	VkCommandBuffer commands = strict_commands(1);
	uint32_t mask = 1;
	VkProtectedSubmitInfo protected = {.sType = VK_STRUCTURE_TYPE_PROTECTED_SUBMIT_INFO};
	VkDeviceGroupSubmitInfo group = {.sType = VK_STRUCTURE_TYPE_DEVICE_GROUP_SUBMIT_INFO,
					 .pNext = &protected,
					 .commandBufferCount = 1,
					 .pCommandBufferDeviceMasks = &mask};
	VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
			     .pNext = &group,
			     .commandBufferCount = 1,
			     .pCommandBuffers = &commands};
	uint32_t before;

	open_all(false);
	before = strict_chained();
	CU_ASSERT_EQUAL(CALL(QueueSubmit)(s.queues[0], 1, &info, VK_NULL_HANDLE), VK_SUCCESS);
	memset(&group, 0xff, sizeof(group)); /* the program's own again */
	memset(&info, 0xff, sizeof(info));
	pages_gate(&pages, true);
	CU_ASSERT_EQUAL(CALL(DeviceWaitIdle)(s.device), VK_SUCCESS);
	CU_ASSERT_EQUAL(strict_chained(), before + 2);
	group = (VkDeviceGroupSubmitInfo){.sType = VK_STRUCTURE_TYPE_MAX_ENUM};
	info = (VkSubmitInfo){.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
			      .pNext = &group,
			      .commandBufferCount = 1,
			      .pCommandBuffers = &commands};
	CU_ASSERT_EQUAL(CALL(QueueSubmit)(s.queues[0], 1, &info, VK_NULL_HANDLE),
			VK_ERROR_OUT_OF_DEVICE_MEMORY);
	strict_close(&s);
}

static VkResult allocate(uint64_t bytes, uint32_t type, VkDeviceMemory *out)
{
	VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
				     .allocationSize = bytes,
				     .memoryTypeIndex = type};

	return CALL(AllocateMemory)(s.device, &info, NULL, out);
}

/* Memory of the device counts, up to the limit; that of the host does not; heaps show the limit. */
TEST(test_memory, "memory")
{
	VkPhysicalDeviceMemoryProperties p;
	VkDeviceMemory a, b, c;

	atomic_store(&pages.seat->memory, 100u << 20);
	open_all(true);
	((PFN_vkGetPhysicalDeviceMemoryProperties)
		 gipa(s.instance, "vkGetPhysicalDeviceMemoryProperties"))(s.physical, &p);
	CU_ASSERT_EQUAL(p.memoryHeaps[0].size, 100u << 20);
	CU_ASSERT_EQUAL(p.memoryHeaps[1].size, UINT64_C(16) << 30);
	CU_ASSERT_EQUAL(allocate(60u << 20, 0, &a), VK_SUCCESS);
	CU_ASSERT_EQUAL(allocate(60u << 20, 0, &b), VK_ERROR_OUT_OF_DEVICE_MEMORY);
	CU_ASSERT_EQUAL(allocate(UINT64_MAX - 4096, 0, &b), VK_ERROR_OUT_OF_DEVICE_MEMORY);
	CU_ASSERT_EQUAL(allocate(UINT64_C(1) << 30, 1, &c), VK_SUCCESS);
	CU_ASSERT_EQUAL(atomic_load(&pages.account->memory), 60u << 20);
	CALL(FreeMemory)(s.device, a, NULL);
	CU_ASSERT_EQUAL(allocate(100u << 20, 0, &b), VK_SUCCESS);
	strict_close(&s); /* its end frees what is left */
	CU_ASSERT_EQUAL(atomic_load(&pages.account->memory), 0);
	CU_ASSERT_EQUAL(atomic_load(&pages.worker->memory), 0);
	CU_ASSERT_EQUAL(atomic_load(&pages.worker->refused), 2);
	atomic_store(&pages.seat->memory, 0);
}

/* Extensions with commands of queues that the layer does not order are neither shown nor taken. */
TEST(test_extensions, "extensions")
{
	VkExtensionProperties list[4];
	uint32_t n = 4;

	open_all(true);
	CU_ASSERT_EQUAL(((PFN_vkEnumerateDeviceExtensionProperties)gipa(
				s.instance, "vkEnumerateDeviceExtensionProperties"))(s.physical,
										     NULL, &n,
										     list),
			VK_SUCCESS);
	CU_ASSERT_EQUAL(n, 1);
	CU_ASSERT_STRING_EQUAL(list[0].extensionName, "VK_KHR_maintenance3");
	strict_close(&s);
}

/* Whether a program could submit by a command: whether it takes a queue, or makes one. */
static bool is_of_queues(const char *name, const char *declaration)
{
	return strstr(declaration, "VkQueue ") || strstr(declaration, "ComputeQueueNV") ||
	       strncmp(name, "vkQueue", strlen("vkQueue")) == 0;
}

/* Each entry of the layer's table is found by its name. Each command with a queue that the Vulkan
 * headers know is in the table; or it only asks; or it is of an extension that the layer hides, and
 * not given out. The headers are those of the build, or VULKAN_HEADER. */
TEST(test_entries, "entries")
{
	static const char *const asks[] = {
		"vkGetDeviceQueue",
		"vkGetDeviceQueue2",
		"vkGetQueueCheckpointDataNV",
		"vkGetQueueCheckpointData2NV",
	};
	/* of extensions that the layer hides */
	static const char *const hidden[] = {
		"vkCreateExternalComputeQueueNV",   "vkDestroyExternalComputeQueueNV",
		"vkGetExternalComputeQueueDataNV",  "vkQueueNotifyOutOfBandNV",
		"vkQueueSetPerfHintQCOM",	    "vkQueueSetPerformanceConfigurationINTEL",
		"vkQueueSignalReleaseImageANDROID", "vkQueueNotifyOutOfBandLegacyNV",
	};
	const char *header = getenv("VULKAN_HEADER"), *declaration;
	FILE *f = fopen(header ? header : VULKAN_HEADER, "r");
	const struct entry *e;
	char name[128], *text = NULL;
	size_t space = 0, i;
	uint32_t n = 0;
	bool known;

	open_all(true);
	for (e = gate_entries; e->name; e++) {
		CU_ASSERT_PTR_NOT_NULL(e->function);
		CU_ASSERT(!e->of_device || !gdpa(s.device, e->name) ||
			  gdpa(s.device, e->name) == e->function);
	}
	CU_ASSERT(!is_shown("VK_NV_external_compute_queue"));
	CU_ASSERT_PTR_NULL(gdpa(s.device, "vkQueueOfTomorrow"));
	CU_ASSERT_PTR_NULL(gipa(s.instance, "vkQueueOfTomorrow"));
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	while (getdelim(&text, &space, ';', f) > 0) {
		declaration = strstr(text, "VKAPI_ATTR");
		if (!declaration ||
		    sscanf(declaration, "VKAPI_ATTR %*s VKAPI_CALL %127[a-zA-Z0-9]", name) != 1 ||
		    !is_of_queues(name, declaration))
			continue;
		known = false;
		for (e = gate_entries; e->name; e++)
			known |= strcmp(e->name, name) == 0;
		for (i = 0; i < sizeof(asks) / sizeof(asks[0]); i++)
			known |= strcmp(asks[i], name) == 0;
		for (i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
			known |= strcmp(hidden[i], name) == 0 && !gdpa(s.device, name);
		if (!known)
			fprintf(stderr, "the layer does not have %s\n", name);
		CU_ASSERT(known);
		n++;
	}
	free(text);
	fclose(f);
	CU_ASSERT(n >= 12);
	strict_close(&s);
}

SUITE_MAIN("gate-order")
