/* SPDX-License-Identifier: MIT */
/*
 * gate-comes: a program that runs before there is a GPU, and when there is none any more. Twice it
 * says "has a GPU", computes until that fails, and says with which VkResult: first it asks again
 * and again whether work has ended, then it waits.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "compute.h"

static void breathe(void)
{
	struct timespec moment = {0, 10000000};

	nanosleep(&moment, NULL);
}

static VkResult asks(struct compute *c)
{
	VkResult r;

	while ((r = vkGetFenceStatus(c->device, c->fences[0])) == VK_NOT_READY)
		breathe();
	return r;
}

static VkResult waits(struct compute *c)
{
	return vkWaitForFences(c->device, 1, &c->fences[0], VK_TRUE, UINT64_MAX);
}

int main(void)
{
	VkResult (*const ways[])(struct compute * c) = {asks, waits};
	struct compute c;
	VkResult r;
	size_t i;

	for (i = 0; i < 2; i++) {
		while (memset(&c, 0, sizeof(c)), !compute_open(&c)) {
			compute_close(&c);
			breathe();
		}
		puts("has a GPU");
		fflush(stdout);
		r = compute_record(&c, 0, 200, 1) ? VK_SUCCESS : VK_ERROR_UNKNOWN;
		while (r == VK_SUCCESS)
			r = compute_submit(&c, 0) ? ways[i](&c) : VK_ERROR_UNKNOWN;
		printf("VkResult %d\n", r);
		fflush(stdout);
		compute_close(&c);
	}
	return 0;
}
