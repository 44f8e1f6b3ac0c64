/* SPDX-License-Identifier: MIT */
/* Host memory that GPU kernels reach at the program's own address: mapped, and managed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

#define N 3000u

enum { MAPPED_HOST_MEMORY = 19, MANAGED_MEMORY = 83 };
enum { ATTACH_GLOBAL = 1, ATTACH_HOST, ATTACH_SINGLE = 4 };

static bool load(CUfunction *f, const char *name)
{
	CUmodule module;

	OK(cuModuleLoadData(&module, sample_ptx));
	OK(cuModuleGetFunction(f, module, name));
	return true;
}

static bool is_there(bool *is, int which)
{
	int value;

	OK(cuDeviceGetAttribute(&value, which, 0));
	*is = value == 1;
	CHECK(value == 0 || value == 1);
	return true;
}

/* X = A + B by the GPU, all of them memory of the host, and again into X. */
static bool add_in(CUfunction add, float *x, float *a, float *b)
{
	CUdeviceptr at[3] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)x};
	uint32_t i, n = N;

	for (i = 0; i < N; i++) {
		a[i] = (float)sample_draw(1 << 20);
		b[i] = (float)sample_draw(1 << 20);
		x[i] = 0;
	}
	OK(cuLaunchKernel(add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL,
			  (void *[]){&at[2], &at[0], &at[1], &n}, NULL));
	OK(cuLaunchKernel(add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL,
			  (void *[]){&at[2], &at[2], &at[1], &n}, NULL));
	OK(cuStreamSynchronize(NULL));
	for (i = 0; i < N; i++)
		CHECK(x[i] == a[i] + 2 * b[i]);
	return true;
}

/* Copies and sets take its address as one of the device. */
static bool as_device_memory(uint32_t *x)
{
	CUdeviceptr at = (uintptr_t)x, other, base;
	uint32_t i, seen[N];
	size_t bytes;

	OK(cuMemAlloc_v2(&other, N * 4));
	OK(cuMemsetD32_v2(at, 77, N));
	for (i = 0; i < N; i++) {
		CHECK(x[i] == 77);
		x[i] = i;
	}
	OK(cuMemcpyDtoD_v2(other, at, N * 4));
	OK(cuMemcpyDtoH_v2(seen, at + 4, (N - 1) * 4));
	CHECK(memcmp(seen, x + 1, (N - 1) * 4) == 0);
	for (i = 0; i < N; i++)
		x[i] = 1;
	OK(cuMemcpyDtoD_v2(at, other, N * 4));
	for (i = 0; i < N; i++)
		CHECK(x[i] == i);
	for (i = 0; i < N; i++)
		seen[i] = 5 * i;
	OK(cuMemcpyHtoD_v2(at, seen, N * 4));
	CHECK(memcmp(seen, x, N * 4) == 0);
	OK(cuMemGetAddressRange_v2(&base, &bytes, at + 100));
	CHECK(base == at && bytes == N * 4);
	CHECK(cuMemcpyHtoD_v2(at + 4, seen, N * 4) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemsetD8_v2(at, 0, N * 4 + 1) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(other));
	return true;
}

static bool mapped(void)
{
	uint32_t i, own[4], *more;
	float *p[3];
	int type, is_managed = 2;
	CUdeviceptr at;
	CUfunction add;
	bool is;

	CHECK(sample_begin() && load(&add, "vector_add") && is_there(&is, MAPPED_HOST_MEMORY));
	OK(cuMemHostAlloc((void **)&p[0], N * 4, 0));
	if (!is) {
		CHECK(cuMemHostAlloc((void **)&more, 64, 2) == CUDA_ERROR_NOT_SUPPORTED);
		CHECK(cuMemHostGetDevicePointer_v2(&at, p[0], 0) == CUDA_ERROR_NOT_SUPPORTED);
		return sample_end();
	}
	for (i = 1; i < 3; i++)
		OK(cuMemHostAlloc((void **)&p[i], N * 4, 2));
	for (i = 0; i < 3; i++) {
		OK(cuMemHostGetDevicePointer_v2(&at, p[i] + 5, 0));
		CHECK(at == (uintptr_t)(p[i] + 5));
	}
	CHECK(cuMemHostGetDevicePointer_v2(&at, p[0], 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemHostGetDevicePointer_v2(&at, own, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemHostGetDevicePointer_v2(NULL, p[0], 0) == CUDA_ERROR_INVALID_VALUE);
	/* of what was not to be mapped it has none */
	OK(cuMemHostRegister_v2(own, sizeof(own), 0));
	CHECK(cuMemHostGetDevicePointer_v2(&at, own, 0) == CUDA_ERROR_NOT_SUPPORTED);
	OK(cuMemHostUnregister(own));
	CHECK(add_in(add, p[0], p[1], p[2]) && as_device_memory((uint32_t *)p[1]));
	OK(cuPointerGetAttribute(&type, 2, (uintptr_t)p[1]));
	OK(cuPointerGetAttribute(&at, 3, (uintptr_t)p[1] + 8));
	CHECK(type == 1 && at == (uintptr_t)p[1] + 8);
	OK(cuPointerGetAttribute(&is_managed, 8, (uintptr_t)p[1]));
	CHECK((is_managed & 0xff) == 0);
	CHECK(cuMemFree_v2((uintptr_t)p[1]) == CUDA_ERROR_INVALID_VALUE);
	/* it is never plain memory in secret */
	CHECK(cuMemHostAlloc((void **)&more, (size_t)1 << 40, 2) == CUDA_ERROR_OUT_OF_MEMORY);
	for (i = 0; i < 64 && cuMemHostAlloc((void **)&more, (size_t)512 << 10, 2) == CUDA_SUCCESS;
	     i++)
		OK(cuMemHostGetDevicePointer_v2(&at, more, 0));
	CHECK(i > 0);
	/* or where the program asks for that */
	setenv("VGPU_CUDA_PLAIN", "1", 1);
	OK(cuMemHostAlloc((void **)&more, 64, 0));
	unsetenv("VGPU_CUDA_PLAIN");
	CHECK(cuMemHostGetDevicePointer_v2(&at, more, 0) == CUDA_ERROR_NOT_SUPPORTED);
	OK(cuMemFreeHost(p[1]));
	CHECK(cuMemsetD8_v2((uintptr_t)p[1], 0, 4) == CUDA_ERROR_INVALID_VALUE);
	return sample_end();
}

static bool managed(void)
{
	size_t left, now, all;
	float *p[3];
	uint32_t i;
	CUdeviceptr at[3];
	int type, is_managed = 2;
	CUfunction add;
	uint64_t host;
	CUstream s;
	bool is;

	CHECK(sample_begin() && load(&add, "vector_add") && is_there(&is, MANAGED_MEMORY));
	if (!is) {
		CHECK(cuMemAllocManaged(&at[0], 64, ATTACH_GLOBAL) == CUDA_ERROR_NOT_SUPPORTED);
		return sample_end();
	}
	OK(cuDeviceGetAttribute(&type, 89, 0));
	CHECK(type == 0);
	OK(cuMemGetInfo_v2(&left, &all));
	CHECK(cuMemAllocManaged(&at[0], 0, ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAllocManaged(&at[0], 64, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAllocManaged(&at[0], 64, ATTACH_SINGLE) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAllocManaged(NULL, 64, ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAllocManaged(&at[0], SIZE_MAX, ATTACH_GLOBAL) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAllocManaged(&at[0], (size_t)1 << 40, ATTACH_GLOBAL) ==
	      CUDA_ERROR_OUT_OF_MEMORY);
	for (i = 0; i < 3; i++) {
		OK(cuMemAllocManaged(&at[i], N * 4, i == 2 ? ATTACH_HOST : ATTACH_GLOBAL));
		p[i] = (float *)(uintptr_t)at[i];
	}
	CHECK(add_in(add, p[0], p[1], p[2]) && as_device_memory((uint32_t *)p[1]));
	OK(cuPointerGetAttribute(&type, 2, at[0]));
	OK(cuPointerGetAttribute(&is_managed, 8, at[0]));
	OK(cuPointerGetAttribute(&host, 4, at[0] + 12));
	CHECK(type == 2 && (is_managed & 0xff) == 1 && host == at[0] + 12);
	OK(cuStreamCreate(&s, 0));
	OK(cuStreamAttachMemAsync(s, at[0], 0, ATTACH_SINGLE));
	OK(cuStreamAttachMemAsync(s, at[0], N * 4, ATTACH_GLOBAL));
	CHECK(cuStreamAttachMemAsync(s, at[0], 4, ATTACH_HOST) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuStreamAttachMemAsync(s, at[0] + 4, 0, ATTACH_HOST) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuStreamAttachMemAsync(s, at[0], 0, 3) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFreeHost(p[0]) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemHostUnregister(p[0]) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemHostGetFlags((unsigned *)&type, p[0]) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFree_v2(at[0] + 4) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(at[0]));
	CHECK(cuMemFree_v2(at[0]) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemGetInfo_v2(&now, &all));
	CHECK(now == left);  /* it takes nothing of the GPU's */
	return sample_end(); /* which frees the others */
}

/* Work that ends when the program says so. */
struct gate {
	CUfunction wait_for;
	_Atomic uint32_t *open;
};

static bool make_gate(struct gate *g)
{
	CHECK(load(&g->wait_for, "wait_for"));
	OK(cuMemHostAlloc((void **)&g->open, sizeof(*g->open), 2));
	return true;
}

static bool shut(struct gate *g)
{
	atomic_store(g->open, 0);
	OK(cuLaunchKernel(g->wait_for, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&g->open}, NULL));
	return true;
}

/* Copies of pinned memory that name a stream return before they are done, and take what is there
 * when their turn comes. */
static bool later(void)
{
	uint8_t *to, *from, model[N], seen[N];
	CUdeviceptr x, y;
	struct gate g;
	bool is, is_new;
	uint32_t i;
	CUresult e;

	CHECK(sample_begin() && is_there(&is, MAPPED_HOST_MEMORY));
	if (!is)
		return sample_end();
	CHECK(make_gate(&g));
	OK(cuMemHostAlloc((void **)&to, N, 0));
	OK(cuMemHostAlloc((void **)&from, N, 0));
	OK(cuMemAlloc_v2(&x, N));
	OK(cuMemAlloc_v2(&y, N));
	for (i = 0; i < N; i++)
		model[i] = (uint8_t)sample_draw(256);
	OK(cuMemcpyHtoD_v2(x, model, N));
	CHECK(shut(&g));
	OK(cuMemcpyDtoHAsync_v2(to, x, N, NULL));
	OK(cuMemcpyHtoDAsync_v2(y, from, N, NULL));
	e = cuStreamQuery(NULL);
	is_new = to[0] == 0 && memcmp(to, to + 1, N - 1) == 0;
	memcpy(from, model, N);
	atomic_store(g.open, 1);
	OK(cuStreamSynchronize(NULL));
	CHECK(e == CUDA_ERROR_NOT_READY && is_new);
	CHECK(memcmp(to, model, N) == 0);
	OK(cuMemcpyDtoH_v2(seen, y, N));
	CHECK(memcmp(seen, model, N) == 0);
	return sample_end();
}

static void *open_later(void *gate)
{
	const struct timespec a_while = {0, 20000000};
	struct gate *g = gate;

	nanosleep(&a_while,
		  NULL); /* a call that does not wait has returned, or this tries nothing */
	atomic_store(g->open, 1);
	return NULL;
}

enum { HTOD, DTOH, SET, TO_MAPPED, FROM_MAPPED, ON_DEVICE, NOWS };

/* Calls that name no stream return when they are done, and what was before them. */
static bool now(void)
{
	uint8_t *p, own[N];
	CUdeviceptr x, at;
	pthread_t thread;
	struct gate g;
	uint32_t i;
	CUresult e;
	bool is;

	CHECK(sample_begin() && is_there(&is, MAPPED_HOST_MEMORY));
	if (!is)
		return sample_end();
	CHECK(make_gate(&g));
	OK(cuMemHostAlloc((void **)&p, N, 2));
	OK(cuMemAlloc_v2(&x, N));
	at = (uintptr_t)p;
	for (i = 0; i < NOWS; i++) {
		CHECK(shut(&g) && pthread_create(&thread, NULL, open_later, &g) == 0);
		e = i == HTOD	       ? cuMemcpyHtoD_v2(x, p, N)
		    : i == DTOH	       ? cuMemcpyDtoH_v2(p, x, N)
		    : i == SET	       ? cuMemsetD8_v2(at, 1, N)
		    : i == TO_MAPPED   ? cuMemcpyHtoD_v2(at, own, N)
		    : i == FROM_MAPPED ? cuMemcpyDtoH_v2(own, at, N)
				       : cuMemcpyDtoD_v2(at, x, N);
		is = atomic_load(g.open);
		CHECK(pthread_join(thread, NULL) == 0);
		OK(e);
		CHECK(is);
	}
	return sample_end();
}

/* Memory that is both ends of a copy: as on the device. */
static bool to_itself(void)
{
	uint8_t *p, seen[N];
	CUdeviceptr at;
	uint32_t i;
	bool is;

	CHECK(sample_begin() && is_there(&is, MAPPED_HOST_MEMORY));
	if (!is)
		return sample_end();
	OK(cuMemHostAlloc((void **)&p, 2 * N, 2));
	at = (uintptr_t)p;
	for (i = 0; i < 2 * N; i++)
		p[i] = (uint8_t)sample_draw(256);
	memcpy(seen, p, N);
	OK(cuMemcpyHtoD_v2(at, p, N));
	OK(cuMemcpyDtoH_v2(p, at, N));
	CHECK(cuMemcpyHtoD_v2(at + 1, p, N) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyDtoHAsync_v2(p, at + N - 1, N, NULL) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemcpyHtoDAsync_v2(at + N, p, N, NULL));
	OK(cuCtxSynchronize());
	CHECK(memcmp(p, seen, N) == 0 && memcmp(p + N, seen, N) == 0);
	/* 64 bits at once, at an address of 4 only nowhere */
	OK(cuStreamWriteValue64_v2(NULL, at + 8, UINT64_C(0x1234567887654321), 0));
	OK(cuCtxSynchronize());
	CHECK(*(uint64_t *)(p + 8) == UINT64_C(0x1234567887654321));
	return sample_end();
}

/* All that there is, and again. */
static bool all_managed(void)
{
	CUdeviceptr at[64];
	uint32_t n[2] = {0}, i, k;
	CUresult e;
	bool is;

	CHECK(sample_begin() && is_there(&is, MANAGED_MEMORY));
	for (i = 0; i < 2 && is; i++) {
		do {
			e = cuMemAllocManaged(&at[n[i]], (size_t)512 << 10, ATTACH_GLOBAL);
			n[i] += e == CUDA_SUCCESS;
		} while (e == CUDA_SUCCESS && n[i] < 64);
		CHECK(n[i] == 64 || e == CUDA_ERROR_OUT_OF_MEMORY);
		for (k = 0; k < n[i]; k++)
			OK(cuMemFree_v2(at[k]));
	}
	CHECK(n[0] == n[1] && (n[0] > 0 || !is));
	return sample_end();
}

const struct sample_check mapped_checks[] = {
	{"mapped memory", mapped},
	{"managed memory", managed},
	{"all managed memory", all_managed},
	{"pinned memory, later", later},
	{"calls that name no stream", now},
	{"memory that is both ends", to_itself},
	{NULL, NULL},
};
