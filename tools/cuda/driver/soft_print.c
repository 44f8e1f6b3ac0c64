/* SPDX-License-Identifier: MIT */
/*
 * What GPU kernels print: a ring of texts, each with its length before it. It has as many bytes as
 * CU_LIMIT_PRINTF_FIFO_SIZE says when the first text comes. The oldest texts make room for new
 * ones.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "soft_print.h"
#include "ptx.h"

static uint8_t *ring;
static uint64_t size, begin, end; /* BEGIN and END count all bytes that there ever were */

static void copy_in(const void *from, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		ring[end++ % size] = ((const uint8_t *)from)[i];
}

static void copy_out(void *to, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		((uint8_t *)to)[i] = ring[begin++ % size];
}

int soft_print_put(size_t room, const char *format, const void *arguments)
{
	char text[PTX_PRINT_MOST];
	uint32_t length;
	size_t n = 0;
	int r = ptx_print(text, &n, format, arguments);

	if (r < 0)
		return r;
	if (!ring) {
		ring = malloc(room);
		size = room;
	}
	if (!ring || n + sizeof(length) > size)
		return -2;
	while (end - begin + sizeof(length) + n > size) {
		copy_out(&length, sizeof(length));
		begin += length;
	}
	length = (uint32_t)n;
	copy_in(&length, sizeof(length));
	copy_in(text, n);
	return r;
}

void soft_print_flush(FILE *to)
{
	char text[PTX_PRINT_MOST];
	uint32_t length;

	if (begin == end)
		return;
	while (begin < end) {
		copy_out(&length, sizeof(length));
		copy_out(text, length);
		fwrite(text, 1, length, to);
	}
	fflush(to);
}
