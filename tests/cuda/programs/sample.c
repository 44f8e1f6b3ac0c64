/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "sample.h"

extern const char sample_ptx[];
CUresult cuMemAdvise(CUdeviceptr at, size_t bytes, int advice, int device);

#define THREADS 256u
#define BLOCKS(n) (((n) + THREADS - 1) / THREADS)

static uint32_t drawn = 1;

/* xorshift32 (Marsaglia, 2003) */
uint32_t sample_draw(uint32_t below)
{
	drawn ^= drawn << 13;
	drawn ^= drawn >> 17;
	drawn ^= drawn << 5;
	return drawn % below;
}

bool sample_begin(void)
{
	CUcontext context;

	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	return true;
}

bool sample_end(void)
{
	OK(cuCtxSetCurrent(NULL));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	return true;
}

static bool device(void)
{
	int n = 0, version = 0, major, minor, value;
	char name[64] = "";
	uint8_t uuid[16] = {0}, none[16] = {0};
	size_t bytes = 0;
	CUdevice d = 7;

	OK(cuDriverGetVersion(&version));
	CHECK(version == 12040);
	OK(cuDeviceGetCount(&n));
	CHECK(n == 1);
	OK(cuDeviceGet(&d, 0));
	CHECK(d == 0);
	CHECK(cuDeviceGet(&d, 1) == CUDA_ERROR_INVALID_DEVICE);
	OK(cuDeviceGetName(name, sizeof(name), 0));
	CHECK(name[0]);
	OK(cuDeviceGetName(name, 5, 0));
	CHECK(strlen(name) <= 4);
	OK(cuDeviceGetUuid_v2(uuid, 0));
	CHECK(memcmp(uuid, none, sizeof(uuid)) != 0);
	OK(cuDeviceTotalMem_v2(&bytes, 0));
	CHECK(bytes >= 16 << 20);
	OK(cuDeviceComputeCapability(&major, &minor, 0));
	CHECK(major >= 7);
	OK(cuDeviceGetAttribute(&value, 75, 0));
	CHECK(value == major);
	OK(cuDeviceGetAttribute(&value, 1, 0));
	CHECK(value >= 512);
	OK(cuDeviceGetAttribute(&value, 88, 0)); /* memory of malloc() */
	CHECK(value == 0);
	CHECK(cuDeviceGetAttribute(&value, 0, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuDeviceGetAttribute(&value, 100000, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuDeviceGetAttribute(&value, -1, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuDeviceGetAttribute(NULL, 1, 0) == CUDA_ERROR_INVALID_VALUE);
	return true;
}

static bool contexts(void)
{
	CUcontext a, b, seen;
	CUdeviceptr p;
	size_t before, left, all;
	unsigned flags;
	int active, i;

	CHECK(cuMemAlloc_v2(&p, 4) == CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuCtxPopCurrent_v2(&seen) == CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuDevicePrimaryCtxRelease_v2(0) == CUDA_ERROR_INVALID_CONTEXT);
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	CHECK(!active);
	CHECK(sample_begin());
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	CHECK(active);
	OK(cuMemGetInfo_v2(&before, &all));
	OK(cuCtxGetCurrent(&a));
	CHECK(cuCtxCreate_v2(&b, 0x100000, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuCtxCreate_v2(&b, 0, 1) == CUDA_ERROR_INVALID_DEVICE);
	OK(cuCtxCreate_v2(&b, 0, 0));
	OK(cuCtxGetCurrent(&seen));
	CHECK(seen == b && a != b);
	OK(cuMemAlloc_v2(&p, 4096));
	OK(cuMemGetInfo_v2(&left, &all));
	CHECK(left < before);
	OK(cuCtxPopCurrent_v2(&seen));
	CHECK(seen == b);
	OK(cuCtxGetCurrent(&seen));
	CHECK(seen == a);
	OK(cuCtxPushCurrent_v2(b));
	OK(cuCtxDestroy_v2(b)); /* and all that it has */
	OK(cuCtxGetCurrent(&seen));
	CHECK(seen == a);
	OK(cuMemGetInfo_v2(&left, &all));
	CHECK(left == before && all >= left);
	CHECK(cuMemFree_v2(p) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuCtxPushCurrent_v2(b) == CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuCtxDestroy_v2(b) == CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuCtxDestroy_v2(a) == CUDA_ERROR_INVALID_CONTEXT); /* primary */
	CHECK(cuCtxPushCurrent_v2((void *)(uintptr_t)0x123456789abcu) ==
	      CUDA_ERROR_INVALID_CONTEXT);
	for (i = 0; cuCtxPushCurrent_v2(a) == CUDA_SUCCESS; i++)
		CHECK(i < 1000);
	while (i-- > 0)
		OK(cuCtxPopCurrent_v2(NULL));
	return sample_end();
}

static bool memory(void)
{
	size_t left, all, all_left, bytes;
	CUdeviceptr p[64] = {0}, q, base;
	uint32_t sizes[64], i, k;
	char text[64];

	CHECK(sample_begin());
	OK(cuMemGetInfo_v2(&left, &all));
	CHECK(left == all);
	CHECK(cuMemAlloc_v2(&q, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAlloc_v2(&q, all + 1) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAlloc_v2(&q, SIZE_MAX) == CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAlloc_v2(&q, all));
	CHECK(cuMemAlloc_v2(&p[0], 1) == CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemFree_v2(q));
	CHECK(cuMemFree_v2(q) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(0));
	/* allocations never overlap, whatever came and went */
	for (i = 0; i < 2000; i++) {
		k = sample_draw(64);
		if (p[k]) {
			CHECK(cuMemFree_v2(p[k] + 256) == CUDA_ERROR_INVALID_VALUE);
			OK(cuMemFree_v2(p[k]));
			p[k] = 0;
			continue;
		}
		sizes[k] = 1 + sample_draw(100000);
		OK(cuMemAlloc_v2(&p[k], sizes[k]));
		CHECK(p[k] % 256 == 0);
		for (q = 0; q < 64; q++)
			CHECK(q == k || !p[q] || p[q] + sizes[q] <= p[k] ||
			      p[k] + sizes[k] <= p[q]);
	}
	for (k = 0; k < 64; k++) {
		if (!p[k])
			continue;
		OK(cuMemGetAddressRange_v2(&base, &bytes, p[k] + sizes[k] - 1));
		CHECK(base == p[k] && bytes == sizes[k]);
		CHECK(cuMemGetAddressRange_v2(&base, &bytes, p[k] + sizes[k]) ==
			      CUDA_ERROR_NOT_FOUND ||
		      base != p[k]);
		OK(cuMemFree_v2(p[k]));
	}
	OK(cuMemGetInfo_v2(&all_left, &all));
	CHECK(all_left == left);
	/* copies stay inside of an allocation */
	OK(cuMemAlloc_v2(&q, 64));
	CHECK(cuMemcpyHtoD_v2(q, text, 65) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyHtoD_v2(q + 1, text, 64) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyHtoD_v2(q - 1, text, 2) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyDtoH_v2(text, q, SIZE_MAX) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyDtoH_v2(NULL, q, 8) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyDtoD_v2(q, q + 8, 16) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemsetD32_v2(q, 1, 17) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemsetD32_v2(q + 2, 1, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemsetD32_v2(q, 1, (size_t)1 << 62) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemcpyHtoD_v2(q, text, 0));
	return sample_end();
}

/* Random copies and sets, and the same on the CPU. */
static bool copies(void)
{
	const uint32_t size = 8192;
	uint8_t *model = calloc(1, size), *seen = calloc(1, size), data[512];
	uint32_t i, k, at, from, n, unit;
	CUdeviceptr p;

	CHECK(model && seen && sample_begin());
	OK(cuMemAlloc_v2(&p, size));
	OK(cuMemsetD8_v2(p, 0, size));
	for (i = 0; i < 600; i++) {
		n = sample_draw(sizeof(data));
		at = sample_draw(size - n);
		switch (sample_draw(5)) {
		case 0:
			for (k = 0; k < n; k++)
				data[k] = (uint8_t)sample_draw(256);
			OK(cuMemcpyHtoD_v2(p + at, data, n));
			memcpy(model + at, data, n);
			memset(data, 0, sizeof(data)); /* it was copied already */
			break;
		case 1:
			from = sample_draw(size - n);
			if (from + n > at && at + n > from)
				break;
			OK(cuMemcpyDtoDAsync_v2(p + at, p + from, n, NULL));
			memmove(model + at, model + from, n);
			break;
		case 2:
			OK(cuMemcpyDtoHAsync_v2(data, p + at, n, NULL));
			CHECK(memcmp(data, model + at, n) == 0);
			break;
		case 3:
			OK(cuMemsetD8Async(p + at, (uint8_t)i, n, NULL));
			memset(model + at, (uint8_t)i, n);
			break;
		default:
			unit = sample_draw(2) ? 2 : 4;
			at = at / unit * unit;
			OK(unit == 2 ? cuMemsetD16_v2(p + at, (uint16_t)(i * 259), n / 2)
				     : cuMemsetD32_v2(p + at, i * 0x01234567u, n / 4));
			for (k = 0; k < n / unit; k++)
				memcpy(model + at + k * unit,
				       &(uint32_t){unit == 2 ? i * 259 : i * 0x01234567u}, unit);
			break;
		}
	}
	OK(cuMemcpyDtoH_v2(seen, p, size));
	CHECK(memcmp(seen, model, size) == 0);
	free(model);
	free(seen);
	return sample_end();
}

/* A copy larger than all that is on its way at a time. */
static bool large_copy(void)
{
	size_t left, all, n, i;
	CUdeviceptr p;
	uint32_t *data;

	CHECK(sample_begin());
	OK(cuMemGetInfo_v2(&left, &all));
	n = all < 40 << 20 ? all : 40 << 20;
	data = malloc(n);
	CHECK(data);
	for (i = 0; i < n / 4; i++)
		data[i] = (uint32_t)(i * 2654435761u);
	OK(cuMemAlloc_v2(&p, n));
	OK(cuMemcpyHtoD_v2(p, data, n));
	memset(data, 0, n);
	OK(cuMemcpyDtoH_v2(data, p, n));
	for (i = 0; i < n / 4; i++)
		CHECK(data[i] == (uint32_t)(i * 2654435761u));
	free(data);
	return sample_end();
}

static bool load(CUmodule *module, CUfunction *function, const char *name)
{
	OK(cuModuleLoadData(module, sample_ptx));
	OK(cuModuleGetFunction(function, *module, name));
	return true;
}

/* Adds two vectors of N numbers. 0; -1: the result is wrong; or a call's error. */
static int add_vectors(CUfunction add, uint32_t n, CUstream stream)
{
	float *a = malloc(n * 4), *b = malloc(n * 4), *c = malloc(n * 4);
	CUdeviceptr on[3] = {0};
	void *params[] = {&on[2], &on[0], &on[1], &n};
	int e = CUDA_SUCCESS, i;
	uint32_t k;

	for (k = 0; k < n; k++) {
		a[k] = (float)k;
		b[k] = (float)sample_draw(1000) / 8;
	}
	for (i = 0; i < 3 && e == CUDA_SUCCESS; i++)
		e = cuMemAlloc_v2(&on[i], n * 4);
	if (e == CUDA_SUCCESS)
		e = cuMemcpyHtoDAsync_v2(on[0], a, n * 4, stream);
	if (e == CUDA_SUCCESS)
		e = cuMemcpyHtoDAsync_v2(on[1], b, n * 4, stream);
	if (e == CUDA_SUCCESS)
		e = cuLaunchKernel(add, BLOCKS(n), 1, 1, THREADS, 1, 1, 0, stream, params, NULL);
	if (e == CUDA_SUCCESS)
		e = cuMemcpyDtoHAsync_v2(c, on[2], n * 4, stream);
	for (i = 0; i < 3 && e == CUDA_SUCCESS; i++)
		e = cuMemFree_v2(on[i]);
	for (k = 0; k < n && e == CUDA_SUCCESS; k++)
		e = c[k] == a[k] + b[k] ? CUDA_SUCCESS : -1;
	free(a);
	free(b);
	free(c);
	return e;
}

static bool vector_add(void)
{
	CUfunction add;
	CUmodule module;
	CUstream stream;
	uint32_t i;

	CHECK(sample_begin() && load(&module, &add, "vector_add"));
	OK(cuStreamCreate(&stream, 1));
	for (i = 0; i < 5; i++)
		CHECK(add_vectors(add, 1 + sample_draw(9000), i % 2 ? stream : NULL) == 0);
	return sample_end();
}

/* Copies that return before the VF has done them, because it computes: together more than the
 * window holds. Each brings what was in memory when it was called. */
static bool copies_behind_work(void)
{
	const uint32_t part = 512 << 10, busy = 256 << 10;
	uint32_t *data = malloc(part), i, k;
	size_t left, all, n;
	CUdeviceptr p, x;
	CUfunction add;
	CUmodule module;

	CHECK(data && sample_begin() && load(&module, &add, "vector_add"));
	OK(cuMemAlloc_v2(&x, busy * 4));
	OK(cuMemGetInfo_v2(&left, &all));
	n = left / 2 / part < 64 ? left / 2 / part : 64;
	CHECK(n > 2);
	OK(cuMemAlloc_v2(&p, n * part));
	OK(cuLaunchKernel(add, BLOCKS(busy), 1, 1, THREADS, 1, 1, 0, NULL,
			  (void *[]){&x, &x, &x, &(uint32_t){busy}}, NULL));
	for (k = 0; k < n; k++) {
		for (i = 0; i < part / 4; i++)
			data[i] = k * 0x01000193u ^ i;
		OK(cuMemcpyHtoDAsync_v2(p + k * part, data, part, NULL));
	}
	for (k = 0; k < n; k++) {
		OK(cuMemcpyDtoH_v2(data, p + k * part, part));
		for (i = 0; i < part / 4; i++)
			CHECK(data[i] == (k * 0x01000193u ^ i));
	}
	free(data);
	return sample_end();
}

static bool reduction(void)
{
	uint32_t n = 20000, blocks = BLOCKS(20000), i, sum = 0, seen;
	uint32_t *data = malloc(n * 4);
	CUdeviceptr in, part, out;
	CUfunction reduce;
	CUmodule module;

	CHECK(data && sample_begin() && load(&module, &reduce, "reduce"));
	for (i = 0; i < n; i++)
		sum += data[i] = sample_draw(UINT32_MAX);
	OK(cuMemAlloc_v2(&in, n * 4));
	OK(cuMemAlloc_v2(&part, blocks * 4));
	OK(cuMemAlloc_v2(&out, 4));
	OK(cuMemcpyHtoD_v2(in, data, n * 4));
	OK(cuLaunchKernel(reduce, blocks, 1, 1, THREADS, 1, 1, 0, NULL, (void *[]){&part, &in, &n},
			  NULL));
	OK(cuLaunchKernel(reduce, 1, 1, 1, THREADS, 1, 1, 0, NULL, (void *[]){&out, &part, &blocks},
			  NULL));
	OK(cuMemcpyDtoH_v2(&seen, out, 4));
	CHECK(seen == sum);
	free(data);
	return sample_end();
}

/* More launches than the library's ring holds, with structures by value and in one buffer. */
static bool many_launches(void)
{
	struct {
		CUdeviceptr x;
		uint32_t by[3];
	} all = {.by = {1000, 3, 5000}};
	size_t size = 20;
	void *extra[] = {(void *)1, &all, (void *)2, &size, NULL};
	uint32_t i, seen = 0, sum = 0;
	CUfunction add;
	CUmodule module;

	CHECK(sample_begin() && load(&module, &add, "add_part"));
	OK(cuMemAlloc_v2(&all.x, 4));
	OK(cuMemsetD32_v2(all.x, 0, 1));
	for (i = 0; i < 1500; i++) {
		all.by[1] = i;
		sum += i;
		OK(i % 2 ? cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra)
			 : cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL,
					  (void *[]){&all.x, all.by}, NULL));
	}
	OK(cuMemcpyDtoH_v2(&seen, all.x, 4));
	CHECK(seen == sum);
	size = 16; /* too few bytes for the structure */
	CHECK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra) ==
	      CUDA_ERROR_INVALID_VALUE);
	extra[0] = (void *)9;
	CHECK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra) ==
	      CUDA_ERROR_INVALID_VALUE);
	return sample_end();
}

#define PARAMETERS 96u
#define NAME_BYTES 1023u

/* A function that adds its parameters up, each times another power of three. */
static void write_long(char *ptx, size_t size, const char *name, unsigned parameters)
{
	size_t n = (size_t)snprintf(ptx, size,
				    ".version 6.0\n.target sm_70\n.address_size 64\n"
				    ".visible .entry %s(.param .u64 p0",
				    name);
	unsigned i;

	for (i = 1; i < parameters; i++)
		n += (size_t)snprintf(ptx + n, size - n, ", .param .u32 p%u", i);
	n += (size_t)snprintf(ptx + n, size - n,
			      ")\n{\n.reg .b64 %%x;\n.reg .b32 %%a, %%b;\n"
			      "ld.param.u64 %%x, [p0];\nmov.u32 %%a, 0;\n");
	for (i = 1; i < parameters; i++)
		n += (size_t)snprintf(ptx + n, size - n,
				      "ld.param.u32 %%b, [p%u];\nmad.lo.u32 %%a, %%a, 3, %%b;\n",
				      i);
	snprintf(ptx + n, size - n, "st.global.u32 [%%x], %%a;\nret;\n}\n");
}

/* Launches a function whose name has BYTES. After one whose name was longer, and a wait, what is
 * behind the name at the launch's place is the same letter. */
static bool has_name(size_t bytes)
{
	static char ptx[16384], name[NAME_BYTES + 2];
	uint32_t values[PARAMETERS], wanted = 0, seen = 0;
	void *params[PARAMETERS];
	CUfunction f;
	CUmodule m;
	CUdeviceptr x;
	unsigned i;

	memset(name, 'n', bytes);
	name[bytes] = 0;
	write_long(ptx, sizeof(ptx), name, PARAMETERS);
	OK(cuModuleLoadData(&m, ptx));
	OK(cuModuleGetFunction(&f, m, name));
	OK(cuMemAlloc_v2(&x, 4));
	params[0] = &x;
	for (i = 1; i < PARAMETERS; i++) {
		values[i] = sample_draw(1000);
		params[i] = &values[i];
		wanted = wanted * 3 + values[i];
	}
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(&seen, x, 4));
	CHECK(seen == wanted);
	name[bytes - 1] = 0;
	CHECK(cuModuleGetFunction(&f, m, name) == CUDA_ERROR_NOT_FOUND);
	OK(cuMemFree_v2(x));
	OK(cuModuleUnload(m));
	return true;
}

static bool long_names(void)
{
	static char ptx[16384];
	CUfunction f;
	CUmodule m;
	size_t bytes;

	CHECK(sample_begin() && has_name(NAME_BYTES));
	for (bytes = 66; bytes > 1; bytes--)
		CHECK(has_name(bytes));
	write_long(ptx, sizeof(ptx), "f", PARAMETERS + 1);
	OK(cuModuleLoadData(&m, ptx));
	CHECK(cuModuleGetFunction(&f, m, "f") == CUDA_ERROR_NOT_FOUND);
	OK(cuModuleUnload(m));
	return sample_end();
}

/* The module is for this GPU, or for another, which is not carried. */
static bool targets(void)
{
	void *values[1];
	int major, minor, alignment;
	CUmodule m;

	CHECK(sample_begin());
	OK(cuDeviceGetAttribute(&major, 75, 0));
	OK(cuDeviceGetAttribute(&minor, 76, 0));
	values[0] = (void *)(uintptr_t)(major * 10 + minor);
	OK(cuModuleLoadDataEx(&m, sample_ptx, 1, (int[]){9}, values));
	OK(cuModuleUnload(m));
	values[0] = (void *)(uintptr_t)(major * 10 + minor + 1);
	CHECK(cuModuleLoadDataEx(&m, sample_ptx, 1, (int[]){9}, values) ==
	      CUDA_ERROR_NOT_SUPPORTED);
	OK(cuDeviceGetAttribute(&alignment, 14, 0)); /* ffmpeg rounds sizes up to it */
	CHECK(alignment > 0);
	return sample_end();
}

/* After each error the context works as before. */
static bool errors(void)
{
	char log[200] = "", name[NAME_BYTES + 2] = "";
	int options[] = {5, 6};
	void *values[] = {log, (void *)sizeof(log)};
	char info[] = "not written";
	int hints[] = {3, 4, 8, 0}; /* the log and its size, the context's GPU, registers */
	void *hint_values[] = {info, (void *)sizeof(info), NULL, (void *)32};
	CUfunction reduce, add;
	CUmodule module, other;
	CUdeviceptr x;
	uint32_t n = 256;
	void *params[] = {&x, &x, &n};

	CHECK(sample_begin() && load(&module, &reduce, "reduce"));
	OK(cuModuleGetFunction(&add, module, "vector_add"));
	OK(cuMemAlloc_v2(&x, 1024));
	CHECK(cuModuleLoadDataEx(&other, ".version 6.0\nnonsense\n", 2, options, values) ==
	      CUDA_ERROR_INVALID_PTX);
	CHECK(strlen(log) > 0 && (uintptr_t)values[1] == strlen(log));
	OK(cuModuleLoadDataEx(&other, sample_ptx, 4, hints, hint_values));
	CHECK(info[0] == 0 &&
	      !hint_values[1]); /* the host says nothing of a module that is right */
	OK(cuModuleUnload(other));
	CHECK(cuModuleLoadData(&other, "#!/bin/sh") == CUDA_ERROR_INVALID_PTX);
	CHECK(cuModuleLoadDataEx(&other, sample_ptx, 1, (int[]){99}, values) ==
	      CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuModuleLoad(&other, "/nonexistent/x.ptx") == CUDA_ERROR_FILE_NOT_FOUND);
	CHECK(cuModuleGetFunction(&add, module, "no_such_function") == CUDA_ERROR_NOT_FOUND);
	memset(name, 'x', sizeof(name) - 1);
	CHECK(cuModuleGetFunction(&add, module, name) == CUDA_ERROR_NOT_FOUND);
	CHECK(cuModuleGetGlobal_v2(&x, NULL, module, name) == CUDA_ERROR_NOT_FOUND);
	CHECK(cuModuleGetFunction(&add, (void *)0x77, "reduce") == CUDA_ERROR_INVALID_HANDLE);
	OK(cuModuleGetFunction(&add, module, "vector_add"));
	CHECK(add_vectors(add, 100, NULL) == 0);
	/* found here */
	CHECK(cuLaunchKernel(reduce, 0, 1, 1, 256, 1, 1, 0, NULL, params, NULL) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(cuLaunchKernel(reduce, 1, 1, 1, 1024, 2, 1, 0, NULL, params, NULL) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(cuLaunchKernel(reduce, 1, 70000, 1, 256, 1, 1, 0, NULL, params, NULL) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(cuLaunchKernel(reduce, 1, 1, 1, 256, 1, 1, 1 << 30, NULL, params, NULL) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(cuLaunchKernel(module, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL) ==
	      CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuLaunchKernel(reduce, 1, 1, 1, 256, 1, 1, 0, module, params, NULL) ==
	      CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuLaunchKernel(reduce, 1, 1, 1, 256, 1, 1, 0, NULL, NULL, NULL) ==
	      CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxSynchronize());
	CHECK(add_vectors(add, 100, NULL) == 0);
	OK(cuModuleUnload(module));
	CHECK(cuModuleUnload(module) == CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuLaunchKernel(reduce, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL) ==
	      CUDA_ERROR_INVALID_HANDLE);
	return sample_end();
}

/* A program that compiles as it goes has a module for each of its GPU kernels. The VF's memory for
 * modules is the limit, and their places can be used again. */
static bool modules(void)
{
	CUmodule module[200];
	CUfunction add;
	uint32_t round, i;
	CUresult e;

	for (round = 0; round < 2; round++) {
		CHECK(sample_begin());
		for (i = 0; i < 200; i++) {
			e = cuModuleLoadData(&module[i], sample_ptx);
			if (e != CUDA_SUCCESS)
				break;
		}
		CHECK(i > 16 && (i == 200 || e == CUDA_ERROR_OUT_OF_MEMORY));
		OK(cuModuleUnload(module[3]));
		OK(cuModuleLoadFatBinary(&module[3], sample_ptx));
		OK(cuModuleGetFunction(&add, module[3], "vector_add"));
		CHECK(add_vectors(add, 300, NULL) == 0);
		CHECK(sample_end()); /* unloads them all */
	}
	return true;
}

static bool events(void)
{
	CUevent a, b, untimed, never;
	float there, back;
	CUdeviceptr x;
	CUfunction add;
	CUmodule module;
	CUstream stream;

	CHECK(sample_begin() && load(&module, &add, "vector_add"));
	OK(cuStreamCreateWithPriority(&stream, 0, -5));
	OK(cuMemAlloc_v2(&x, 1 << 20));
	CHECK(cuStreamCreate(&stream, 8) == CUDA_ERROR_INVALID_VALUE);
	OK(cuEventCreate(&a, 0));
	OK(cuEventCreate(&b, 1));
	OK(cuEventCreate(&untimed, 2));
	OK(cuEventCreate(&never, 0));
	OK(cuEventQuery(never));
	OK(cuEventSynchronize(never));
	OK(cuStreamQuery(stream));
	OK(cuEventRecord(a, stream));
	CHECK(add_vectors(add, 1000, stream) == 0);
	OK(cuEventRecord(b, stream));
	OK(cuStreamWaitEvent(NULL, b, 0));
	OK(cuEventRecord(untimed, NULL));
	OK(cuEventSynchronize(b));
	OK(cuEventQuery(a));
	OK(cuEventElapsedTime(&there, a, b));
	OK(cuEventElapsedTime(&back, b, a));
	CHECK(there > 0 && there == -back);
	CHECK(cuEventElapsedTime(&there, a, never) == CUDA_ERROR_INVALID_HANDLE);
	OK(cuEventSynchronize(untimed));
	CHECK(cuEventElapsedTime(&there, a, untimed) == CUDA_ERROR_INVALID_HANDLE);
	OK(cuStreamSynchronize(stream));
	OK(cuMemsetD8_v2(x, 1, 1 << 20)); /* of another stream */
	OK(cuStreamQuery(stream));
	OK(cuEventDestroy_v2(a));
	OK(cuEventCreate(&never, 0)); /* it may have the other one's place, but not its name */
	CHECK(cuEventRecord(a, stream) == CUDA_ERROR_INVALID_HANDLE);
	OK(cuStreamDestroy_v2(stream));
	CHECK(cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuEventRecord(b, stream) == CUDA_ERROR_INVALID_HANDLE);
	return sample_end();
}

/* Only those with a time are limited in number. */
static bool many_events(void)
{
	CUevent timed[4096], event;
	uint32_t i;
	float ms;

	CHECK(sample_begin());
	for (i = 0; i < 4096; i++)
		OK(cuEventCreate(&timed[i], 0));
	CHECK(cuEventCreate(&event, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	for (i = 0; i < 5000; i++)
		OK(cuEventCreate(&event, 2));
	for (i = 0; i < 2; i++)
		OK(cuEventRecord(timed[i], NULL));
	OK(cuEventRecord(event, NULL));
	OK(cuEventSynchronize(event));
	OK(cuEventElapsedTime(&ms, timed[0], timed[1]));
	CHECK(ms >= 0); /* no time was written in the place of another event */
	OK(cuEventDestroy_v2(timed[77]));
	OK(cuEventCreate(&event, 0));
	return sample_end();
}

/* Until a query says that an event has come, and then it has. */
static bool queries(void)
{
	CUdeviceptr x;
	CUevent event;
	uint32_t i;
	CUresult e;

	CHECK(sample_begin());
	OK(cuEventCreate(&event, 2));
	OK(cuMemAlloc_v2(&x, 1 << 20));
	for (i = 0; i < 50; i++) {
		OK(cuMemsetD32_v2(x, i, 1 << 18));
		OK(cuEventRecord(event, NULL));
		do
			e = i % 2 ? cuEventQuery(event) : cuStreamQuery(NULL);
		while (e == CUDA_ERROR_NOT_READY);
		OK(e);
	}
	return sample_end();
}

static bool table(void)
{
	CUresult (*get)(const char *, void **, int, uint64_t, int *) = NULL;
	const char *text;
	int status = -1;
	void *entry;

	OK(cuGetProcAddress("cuGetProcAddress", (void **)&get, 12000, 0));
	CHECK(get == cuGetProcAddress_v2);
	OK(get("cuMemAlloc", &entry, 12040, 0, &status));
	CHECK(entry == (void *)cuMemAlloc_v2 && status == 0);
	OK(get("cuMemcpyHtoDAsync", &entry, 12040, 2, &status)); /* per-thread stream */
	CHECK(entry == (void *)cuMemcpyHtoDAsync_v2);
	OK(get("cuDeviceGetUuid", &entry, 10000, 0, NULL));
	CHECK(entry == (void *)cuDeviceGetUuid);
	OK(get("cuDeviceGetUuid", &entry, 12000, 0, NULL));
	CHECK(entry == (void *)cuDeviceGetUuid_v2);
	OK(get("cuMemAlloc", &entry, 2000, 0, &status));
	CHECK(!entry && status == 2);
	OK(get("cuMemAdvise", &entry, 12040, 0, &status));
	CHECK(!entry && status == 1);
	CHECK(cuGetProcAddress("cuMemAdvise", &entry, 12040, 0) == CUDA_ERROR_NOT_FOUND);
	CHECK(cuMemAdvise(0, 0, 0, 0) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuGetExportTable(&(const void *){NULL}, "16 bytes of UUID") ==
	      CUDA_ERROR_NOT_SUPPORTED);
	OK(cuGetErrorName(CUDA_ERROR_NOT_READY, &text));
	CHECK(strcmp(text, "CUDA_ERROR_NOT_READY") == 0);
	OK(cuGetErrorString(CUDA_ERROR_NOT_SUPPORTED, &text));
	CHECK(text && strlen(text) > 10);
	OK(cuGetErrorName(700, &text)); /* which this library does not return */
	CHECK(strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS") == 0);
	CHECK(cuGetErrorName(12345, &text) == CUDA_ERROR_INVALID_VALUE && !text);
	return true;
}

static void *in_thread(void *arg)
{
	CUcontext context;
	int i, e = cuDevicePrimaryCtxRetain(&context, 0);

	if (e == CUDA_SUCCESS)
		e = cuCtxSetCurrent(context);
	for (i = 0; i < 10 && e == CUDA_SUCCESS; i++)
		e = add_vectors(arg, 500, NULL);
	if (e == CUDA_SUCCESS)
		e = cuDevicePrimaryCtxRelease_v2(0);
	return (void *)(intptr_t)e;
}

static bool threads(void)
{
	pthread_t thread[3];
	CUfunction add;
	CUmodule module;
	void *result;
	int i;

	CHECK(sample_begin() && load(&module, &add, "vector_add"));
	for (i = 0; i < 3; i++)
		CHECK(pthread_create(&thread[i], NULL, in_thread, add) == 0);
	for (i = 0; i < 3; i++)
		CHECK(pthread_join(thread[i], &result) == 0 && !result);
	return sample_end();
}

/* A child has no VF; its parent's works on. */
static bool child(void)
{
	CUfunction add;
	CUmodule module;
	int status, n;
	pid_t pid;

	CHECK(sample_begin() && load(&module, &add, "vector_add"));
	pid = fork();
	if (pid == 0)
		_exit(cuCtxSynchronize() != CUDA_ERROR_NOT_INITIALIZED ||
		      cuDeviceGetCount(&n) != CUDA_ERROR_NOT_INITIALIZED ||
		      cuInit(0) != CUDA_ERROR_NOT_INITIALIZED);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(add_vectors(add, 200, NULL) == 0);
	return sample_end();
}

static const struct sample_check checks[] = {
	{"device", device},
	{"contexts", contexts},
	{"memory", memory},
	{"copies", copies},
	{"a large copy", large_copy},
	{"vector add", vector_add},
	{"copies behind work", copies_behind_work},
	{"reduction", reduction},
	{"many launches", many_launches},
	{"names of 65 lengths, and the longest", long_names},
	{"the GPU that a module is for", targets},
	{"errors", errors},
	{"modules", modules},
	{"events", events},
	{"many events", many_events},
	{"queries", queries},
	{"the table of entries", table},
	{"threads", threads},
	{"a child", child},
	{NULL, NULL},
};

static const struct sample_check *const tables[] = {checks,
						    arguments_checks,
						    calls_checks,
						    captured_events_checks,
						    contexts_checks,
						    programs_checks,
						    prints_checks,
						    graphs_checks,
						    graph_edges_checks,
						    graph_nodes_checks,
						    graph_instances_checks,
						    images_checks,
						    linker_checks,
						    mapped_checks,
						    pinned_checks,
						    refused_checks,
						    registered_checks,
						    user_objects_checks,
						    virtual_checks,
						    NULL};

int sample_run(void)
{
	const int slack = 70000; /* ns: not the default */
	const struct sample_check *c;
	int bad = 0, t;

	prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
	for (t = 0; tables[t]; t++)
		for (c = tables[t]; c->name; c++)
			if (!c->run()) {
				printf("%s: FAILED\n", c->name);
				bad++;
			}
	if (prctl(PR_GET_TIMERSLACK) != slack) {
		puts("timers are as punctual as the program wants: FAILED");
		bad++;
	}
	return bad;
}

int sample_loop(void)
{
	CUfunction add;
	CUmodule module;
	int e = 0;

	if (!sample_begin() || !load(&module, &add, "vector_add"))
		return CUDA_ERROR_UNKNOWN;
	while (e == CUDA_SUCCESS)
		e = add_vectors(add, 1 + sample_draw(5000), NULL);
	return e;
}

int sample_pauses(void)
{
	const struct timespec work = {.tv_nsec = 10000000};
	struct timespec pause = {0};
	volatile uint32_t *flag;
	CUfunction wait_for;
	CUdeviceptr at;
	CUmodule module;
	uint32_t i;
	int e;

	if (!sample_begin() || !load(&module, &wait_for, "wait_for"))
		return -1;
	e = cuMemHostAlloc((void **)&flag, 4, 2);
	if (e == CUDA_SUCCESS)
		e = cuMemHostGetDevicePointer_v2(&at, (void *)flag, 0);
	for (i = 0; i < 100 && e == CUDA_SUCCESS; i++) {
		pause.tv_nsec = 100000 + 1500 * i;
		nanosleep(&pause, NULL);
		*flag = 0;
		e = cuLaunchKernel(wait_for, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&at}, NULL);
		nanosleep(&work, NULL);
		*flag = 1;
		if (e == CUDA_SUCCESS)
			e = cuCtxSynchronize();
	}
	return e;
}

/* FAR: its counter is where no memory is. */
static int run_forever(bool far)
{
	CUfunction forever;
	CUmodule module;
	CUdeviceptr x = 8;
	int e = CUDA_SUCCESS;

	if (!sample_begin() || !load(&module, &forever, "forever"))
		return -1;
	if (!far)
		e = cuMemAlloc_v2(&x, 8);
	if (e == CUDA_SUCCESS)
		e = cuLaunchKernel(forever, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&x}, NULL);
	return e == CUDA_SUCCESS ? cuCtxSynchronize() : e;
}

int sample_forever(void)
{
	return run_forever(false);
}

int sample_far(void)
{
	return run_forever(true);
}

/* Allocates all memory; or if PART is set, half of what is left of it, which must be a quarter of
 * all memory at least. 0, or a call's error. */
static int take(CUdeviceptr *p, size_t *bytes, bool part)
{
	size_t left;
	CUcontext context;
	int e = cuDevicePrimaryCtxRetain(&context, 0);

	if (e == CUDA_SUCCESS)
		e = cuCtxSetCurrent(context);
	if (e == CUDA_SUCCESS)
		e = cuMemGetInfo_v2(&left, bytes);
	if (e == CUDA_SUCCESS && part) {
		e = left / 2 < *bytes / 4 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
		*bytes = left / 2;
	}
	return e == CUDA_SUCCESS ? cuMemAlloc_v2(p, *bytes) : e;
}

int sample_mark(void)
{
	CUdeviceptr p;
	size_t bytes;
	int e = take(&p, &bytes, false);

	if (e == CUDA_SUCCESS)
		e = cuMemsetD8_v2(p, 0x5a, bytes);
	return e == CUDA_SUCCESS ? cuCtxSynchronize() : e;
}

static int look(bool part)
{
	CUdeviceptr p;
	size_t bytes, i;
	uint8_t *seen;
	int e = take(&p, &bytes, part);

	if (e != CUDA_SUCCESS)
		return e;
	seen = malloc(bytes);
	if (!seen)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e = cuMemcpyDtoH_v2(seen, p, bytes);
	for (i = 0; i < bytes && e == CUDA_SUCCESS; i++)
		if (seen[i])
			e = -1;
	free(seen);
	return e;
}

int sample_clean(void)
{
	return look(false);
}

int sample_rest(void)
{
	return look(true);
}
