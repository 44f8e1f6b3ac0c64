/* SPDX-License-Identifier: MIT */
/* Memory that the library has given or mapped, from and to which the VF copies by itself: later
 * than the call if that names a stream. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define BUSY (32u << 10)
#define BYTES 20000u

/* What keeps the VF busy for some milliseconds. */
struct work {
	CUfunction add;
	CUdeviceptr at;
};

static bool begin(struct work *w)
{
	CUmodule module;

	CHECK(sample_begin());
	OK(cuModuleLoadData(&module, sample_ptx));
	OK(cuModuleGetFunction(&w->add, module, "vector_add"));
	OK(cuMemAlloc_v2(&w->at, BUSY * 4));
	return true;
}

static bool keep_busy(struct work *w)
{
	OK(cuLaunchKernel(w->add, BUSY / 128, 1, 1, 128, 1, 1, 0, NULL,
			  (void *[]){&w->at, &w->at, &w->at, &(uint32_t){BUSY}}, NULL));
	return true;
}

static void draw_bytes(uint8_t *p, size_t n)
{
	while (n-- > 0)
		p[n] = (uint8_t)sample_draw(256);
}

/* Each call that names no stream has done its work when it returns. */
static bool now(void)
{
	uint8_t *p, model[BYTES], seen[BYTES];
	struct work w;
	CUdeviceptr x;

	CHECK(begin(&w));
	OK(cuMemHostAlloc((void **)&p, BYTES, 0));
	OK(cuMemAlloc_v2(&x, BYTES));
	draw_bytes(model, BYTES);
	CHECK(keep_busy(&w));
	memcpy(p, model, BYTES);
	OK(cuMemcpyHtoD_v2(x, p, BYTES));
	memset(p, 0, BYTES);
	OK(cuMemcpyDtoH_v2(seen, x, BYTES));
	CHECK(memcmp(seen, model, BYTES) == 0);
	CHECK(keep_busy(&w));
	OK(cuMemcpyDtoH_v2(p, x, BYTES));
	CHECK(memcmp(p, model, BYTES) == 0);
	/* freed behind work that reads it: that has what was there */
	draw_bytes(p, BYTES);
	memcpy(model, p, BYTES);
	CHECK(keep_busy(&w));
	OK(cuMemcpyHtoDAsync_v2(x, p, BYTES, NULL));
	OK(cuMemFreeHost(p));
	OK(cuMemHostAlloc((void **)&p, BYTES, 0));
	memset(p, 0, BYTES);
	OK(cuMemcpyDtoH_v2(seen, x, BYTES));
	CHECK(memcmp(seen, model, BYTES) == 0);
	return sample_end();
}

/* Two pinned buffers, one that is registered, one that is neither, and two of the device; and the
 * same on the CPU. */
enum { PINNED, OTHER_PINNED, REGISTERED, PLAIN, DEVICE, OTHER_DEVICE, SIDES };
#define PAGES 20480u

struct sides {
	uint8_t *host[DEVICE], *model[SIDES];
	CUdeviceptr device[SIDES];
};

static bool make_sides(struct sides *s)
{
	int mapped;
	uint32_t i;

	OK(cuDeviceGetAttribute(&mapped, 19, 0));
	for (i = 0; i < SIDES; i++) {
		s->model[i] = malloc(BYTES);
		CHECK(s->model[i]);
		draw_bytes(s->model[i], BYTES);
		if (i >= DEVICE) {
			OK(cuMemAlloc_v2(&s->device[i], BYTES));
			OK(cuMemcpyHtoD_v2(s->device[i], s->model[i], BYTES));
			continue;
		}
		if (i >= REGISTERED)
			s->host[i] = aligned_alloc(4096, PAGES);
		else
			OK(cuMemHostAlloc((void **)&s->host[i], BYTES, 0));
		CHECK(s->host[i]);
		if (i == REGISTERED)
			OK(cuMemHostRegister_v2(s->host[i], PAGES, mapped ? 2 : 0));
		memcpy(s->host[i], s->model[i], BYTES);
	}
	return true;
}

static bool are_alike(const struct sides *s)
{
	uint8_t seen[BYTES];
	uint32_t i;

	OK(cuCtxSynchronize());
	for (i = 0; i < DEVICE; i++)
		CHECK(memcmp(s->host[i], s->model[i], BYTES) == 0);
	for (; i < SIDES; i++) {
		OK(cuMemcpyDtoH_v2(seen, s->device[i], BYTES));
		CHECK(memcmp(seen, s->model[i], BYTES) == 0);
	}
	return true;
}

/* Rows of WIDTH bytes at two places, between SIDES that are not both the host's. */
static bool copy_rows(struct sides *s, uint32_t to, uint32_t from)
{
	const size_t pitch = 100, rows = 1 + sample_draw(40), width = 1 + sample_draw(100);
	const size_t to_at = sample_draw(8000), from_at = sample_draw(8000);
	const struct cuda_copy_2d c = {{.type = from < DEVICE ? 1 : 2,
					.host = from < DEVICE ? s->host[from] + from_at : NULL,
					.device = from < DEVICE ? 0 : s->device[from] + from_at,
					.pitch = pitch},
				       {.type = to < DEVICE ? 1 : 2,
					.host = to < DEVICE ? s->host[to] + to_at : NULL,
					.device = to < DEVICE ? 0 : s->device[to] + to_at,
					.pitch = pitch},
				       width,
				       rows};
	size_t i;

	OK(cuMemcpy2DAsync_v2(&c, NULL));
	for (i = 0; i < rows; i++)
		memcpy(s->model[to] + to_at + i * pitch, s->model[from] + from_at + i * pitch,
		       width);
	return true;
}

static bool copy_bytes(struct sides *s, uint32_t to, uint32_t from)
{
	const size_t n = 1 + sample_draw(8000), to_at = sample_draw(8000),
		     from_at = sample_draw(8000);

	if (to < DEVICE && from < DEVICE)
		OK(cuMemcpyAsync((uintptr_t)s->host[to] + to_at, (uintptr_t)s->host[from] + from_at,
				 n, NULL));
	else if (to >= DEVICE && from >= DEVICE)
		OK(cuMemcpyDtoDAsync_v2(s->device[to] + to_at, s->device[from] + from_at, n, NULL));
	else if (to >= DEVICE)
		OK(cuMemcpyHtoDAsync_v2(s->device[to] + to_at, s->host[from] + from_at, n, NULL));
	else
		OK(cuMemcpyDtoHAsync_v2(s->host[to] + to_at, s->device[from] + from_at, n, NULL));
	memcpy(s->model[to] + to_at, s->model[from] + from_at, n);
	return true;
}

static bool in_order(void)
{
	struct sides s = {0};
	uint32_t i, to, from;
	struct work w;
	int unified;

	CHECK(begin(&w) && make_sides(&s));
	OK(cuDeviceGetAttribute(&unified, 41, 0));
	for (i = 0; i < 600; i++) {
		from = sample_draw(SIDES);
		to = (from + 1 + sample_draw(SIDES - 1)) % SIDES;
		if (i % 50 == 0)
			CHECK(keep_busy(&w));
		if (to < DEVICE && from < DEVICE && !unified)
			continue;
		CHECK(sample_draw(4) || (to < DEVICE && from < DEVICE) ? copy_bytes(&s, to, from)
								       : copy_rows(&s, to, from));
		/* what is not pinned is the program's again */
		if (from == PLAIN) {
			draw_bytes(s.host[PLAIN], 1000);
			memcpy(s.model[PLAIN], s.host[PLAIN], 1000);
		}
		if (i % 100 == 99) {
			CHECK(are_alike(&s));
			draw_bytes(s.host[PINNED], BYTES);
			memcpy(s.model[PINNED], s.host[PINNED], BYTES);
		}
	}
	CHECK(are_alike(&s));
	for (i = 0; i < SIDES; i++)
		free(s.model[i]);
	OK(cuMemHostUnregister(s.host[REGISTERED]));
	free(s.host[REGISTERED]);
	free(s.host[PLAIN]);
	return sample_end();
}

/* More than the window has, beside copies of other memory, for which room is left. */
#define MANY 28u
#define LARGE ((size_t)2 << 20)
static bool without_end(void)
{
	const size_t most = (size_t)512 << 10;
	size_t bytes[MANY];
	uint8_t *p[MANY], *large = malloc(LARGE), *seen = malloc(LARGE);
	uint32_t i, k, n, order[MANY];
	CUdeviceptr x, y;

	CHECK(large && seen && sample_begin());
	OK(cuMemAlloc_v2(&x, MANY * most));
	OK(cuMemAlloc_v2(&y, LARGE));
	for (n = 0; n < 3; n++) {
		for (i = 0; i < MANY; i++) {
			order[i] = i;
			bytes[i] = most / 2 + sample_draw(most / 2);
			OK(cuMemHostAlloc((void **)&p[i], bytes[i], 0));
			for (k = 0; k < bytes[i]; k++)
				CHECK(p[i][k] == 0);
			memset(p[i], (int)(i + n + 1), bytes[i]);
			OK(cuMemcpyHtoDAsync_v2(x + i * most, p[i], bytes[i], NULL));
		}
		draw_bytes(large, LARGE);
		OK(cuMemcpyHtoD_v2(y, large, LARGE));
		OK(cuMemcpyDtoH_v2(seen, y, LARGE));
		CHECK(memcmp(seen, large, LARGE) == 0);
		/* in any order; some stay, among which the next round has to fit */
		for (i = 0; i < MANY; i++) {
			k = i + sample_draw(MANY - i);
			OK(cuMemcpyDtoH_v2(seen, x + order[k] * most, bytes[order[k]]));
			CHECK(seen[0] == order[k] + n + 1);
			CHECK(memcmp(seen, seen + 1, bytes[order[k]] - 1) == 0);
			CHECK(memcmp(seen, p[order[k]], bytes[order[k]]) == 0);
			if (n == 1 || i % 4)
				OK(cuMemFreeHost(p[order[k]]));
			order[k] = order[i];
		}
	}
	for (i = 0; i < 1000; i++)
		OK(cuMemHostAlloc((void **)&p[0], i < 380 ? 40000 : 4096, 0));
	OK(cuMemcpyHtoD_v2(y, seen, LARGE));
	OK(cuMemcpyDtoH_v2(large, y, LARGE));
	CHECK(memcmp(seen, large, LARGE) == 0);
	CHECK(cuMemHostAlloc((void **)&p[0], SIZE_MAX, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	free(large);
	free(seen);
	return sample_end();
}

const struct sample_check pinned_checks[] = {
	{"pinned memory, now", now},
	{"pinned memory, in order", in_order},
	{"pinned memory without end", without_end},
	{NULL, NULL},
};
