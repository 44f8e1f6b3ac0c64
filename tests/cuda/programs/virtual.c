/* SPDX-License-Identifier: MIT */
/* Programs that manage addresses and memory by themselves, as allocators of large programs do: they
 * reserve far more addresses than there is memory, and map memory there piece by piece. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define ARENA ((size_t)32 << 30)

static const struct cuda_allocation pinned = {.type = 1, .location = {1, 0}};
static const struct cuda_access both = {{1, 0}, 3}, none = {{1, 0}, 0};

/* Bytes of a granule; 0: there are none. */
static size_t granule(void)
{
	size_t bytes = 0;

	return cuMemGetAllocationGranularity(&bytes, &pinned, 1) == CUDA_SUCCESS ? bytes : 0;
}

/* Maps new memory at AT, for which there is no handle any more. */
static bool map_new(CUdeviceptr at, size_t bytes)
{
	CUmemHandle h;

	OK(cuMemCreate(&h, bytes, &pinned, 0));
	OK(cuMemMap(at, bytes, 0, h, 0));
	OK(cuMemSetAccess(at, bytes, &both, 1));
	OK(cuMemRelease(h));
	return true;
}

/* Whether N words from AT on are VALUE, in steps of STEP words. */
static bool are(CUdeviceptr at, size_t n, size_t step, uint32_t value)
{
	uint32_t seen;
	size_t i;

	for (i = 0; i < n; i += step) {
		OK(cuMemcpyDtoH_v2(&seen, at + i * 4, 4));
		CHECK(seen == value);
	}
	return true;
}

static bool left(size_t *bytes)
{
	size_t all;

	OK(cuMemGetInfo_v2(bytes, &all));
	return true;
}

/* A pool that grows: its addresses stay, and what it holds does, too. GPU kernels, copies and sets
 * go over the seams of its pieces. */
static bool pool_grows(void)
{
	const size_t g = granule(), bytes = 3 * g;
	size_t before, now, i, n = bytes / 4;
	CUdeviceptr base, at, x;
	float *in, *out;
	uint32_t count = 4096, value = 0;
	CUmodule module;
	CUfunction add;
	int is = 0;

	CHECK(sample_begin());
	OK(cuDeviceGetAttribute(&is, 102, 0));
	CHECK(is == 1 && g >= 4096 && (g & (g - 1)) == 0 && left(&before));
	OK(cuMemAddressReserve(&base, ARENA, 0, 0, 0));
	CHECK(left(&now) && now == before);
	CHECK(cuMemcpyHtoD_v2(base, &value, 4) == CUDA_ERROR_INVALID_VALUE);
	CHECK(map_new(base, g) && left(&now) && now == before - g);
	OK(cuMemsetD32_v2(base, 41, g / 4));
	CHECK(cuMemsetD32_v2(base, 7, g / 4 + 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(map_new(base + g, 2 * g) && left(&now) && now == before - bytes);
	CHECK(are(base, g / 4, g / 16, 41));
	OK(cuMemsetD32_v2(base + 4, 42, n - 1));
	CHECK(are(base, 1, 1, 41) && are(base + 4, n - 1, g / 16, 42));
	/* over both ends of a seam */
	in = malloc(bytes);
	out = malloc(bytes);
	CHECK(in && out);
	for (i = 0; i < n; i++)
		in[i] = (float)sample_draw(1000);
	OK(cuMemcpyHtoD_v2(base, in, bytes));
	OK(cuMemcpyDtoH_v2(out, base, bytes));
	CHECK(memcmp(in, out, bytes) == 0);
	OK(cuModuleLoadData(&module, sample_ptx));
	OK(cuModuleGetFunction(&add, module, "vector_add"));
	OK(cuMemAlloc_v2(&x, count * 4));
	OK(cuMemcpyHtoD_v2(x, in, count * 4));
	at = base + g - count * 2;
	OK(cuLaunchKernel(add, count / 128, 1, 1, 128, 1, 1, 0, NULL,
			  (void *[]){&at, &at, &x, &count}, NULL));
	OK(cuMemcpyDtoH_v2(out, at, count * 4));
	for (i = 0; i < count; i++)
		CHECK(out[i] == in[g / 4 - count / 2 + i] + in[i]);
	OK(cuMemcpyDtoD_v2(x, at, count * 4));
	OK(cuMemcpy(base, x, count * 4)); /* with the direction in the addresses */
	OK(cuMemcpyDtoH_v2(out + count, base, count * 4));
	CHECK(memcmp(out, out + count, count * 4) == 0);
	free(in);
	free(out);
	OK(cuMemFree_v2(x));
	OK(cuModuleUnload(module));
	OK(cuMemUnmap(base, bytes));
	CHECK(left(&now) && now == before);
	CHECK(cuMemcpyHtoD_v2(base, &value, 4) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAddressFree(base, ARENA));
	return sample_end();
}

/* One piece at two addresses; then at another one, with what it holds. */
static bool aliases(void)
{
	const size_t g = granule();
	size_t before, now, bytes;
	CUdeviceptr base, at, range;
	CUmemHandle h, again, other;
	struct cuda_allocation what;
	uint64_t flags;
	int type = 0;

	CHECK(g > 0 && sample_begin() && left(&before));
	OK(cuMemAddressReserve(&base, 8 * g, 4 * g, 0, 0));
	CHECK(base % (4 * g) == 0);
	OK(cuMemCreate(&h, 2 * g, &pinned, 0));
	OK(cuMemCreate(&other, g, &pinned, 0));
	OK(cuMemMap(base, 2 * g, 0, h, 0));
	OK(cuMemMap(base + 2 * g, g, 0, other, 0));
	OK(cuMemMap(base + 3 * g, 2 * g, 0, h, 0));
	OK(cuMemGetAccess(&flags, &none.location, base));
	CHECK(flags == 0 && cuMemsetD32_v2(base, 1, 1) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemSetAccess(base, 5 * g, &both, 1));
	OK(cuMemGetAccess(&flags, &none.location, base + 5 * g - 1));
	CHECK(flags == 3);
	OK(cuMemsetD32_v2(base + 5 * g - 1024, 5, 256));
	OK(cuMemsetD32_v2(base + 2 * g - 4, 6, 2)); /* its last word, and the other's first */
	CHECK(are(base + 5 * g - 4, 1, 1, 6) && are(base + 5 * g - 8, 1, 1, 5));
	OK(cuMemsetD32_v2(base + 3 * g, 7, 1));
	CHECK(are(base, 1, 1, 7) && are(base + 2 * g, 1, 1, 6));
	/* what is known of it */
	OK(cuMemGetAllocationPropertiesFromHandle(&what, h));
	CHECK(memcmp(&what, &pinned, sizeof(what)) == 0);
	OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + 4 * g + 1)));
	CHECK(again == h);
	OK(cuMemGetAddressRange_v2(&range, &bytes, base + 4 * g));
	CHECK(range == base + 3 * g && bytes == 2 * g);
	OK(cuPointerGetAttribute(&type, 2, base + g));
	CHECK(type == 2);
	CHECK(cuPointerGetAttribute(&type, 2, base + 5 * g) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFree_v2(base) == CUDA_ERROR_INVALID_VALUE);
	/* elsewhere, when its first addresses are another's */
	OK(cuMemUnmap(base, 3 * g));
	OK(cuMemMap(base, g, 0, other, 0));
	OK(cuMemMap(base + g, 2 * g, 0, h, 0));
	OK(cuMemSetAccess(base, 3 * g, &both, 1));
	CHECK(are(base, 1, 1, 6) && are(base + g, 1, 1, 7) && are(base + 3 * g - 4, 1, 1, 6));
	/* without access it is there, and keeps what it holds */
	OK(cuMemSetAccess(base + g, 2 * g, &none, 1));
	CHECK(cuMemsetD32_v2(base + g, 1, 1) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemSetAccess(base, 5 * g, &both, 1));
	CHECK(are(base + g, 1, 1, 7));
	/* it is free when nothing holds it: two handles, two mappings */
	OK(cuMemRelease(other));
	OK(cuMemRelease(h));
	OK(cuMemUnmap(base, 3 * g));
	CHECK(left(&now) && now == before - 2 * g);
	OK(cuMemRelease(again));
	CHECK(cuMemRelease(again) == CUDA_ERROR_INVALID_VALUE);
	CHECK(left(&now) && now == before - 2 * g && are(base + 3 * g, 1, 1, 7));
	OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + 3 * g)));
	OK(cuMemUnmap(base + 3 * g, 2 * g));
	CHECK(left(&now) && now == before - 2 * g);
	OK(cuMemRelease(again));
	CHECK(left(&now) && now == before);
	OK(cuMemAddressFree(base, 8 * g));
	at = base;
	OK(cuMemAddressReserve(&base, g, 0, at + g, 0));
	CHECK(base == at + g); /* as it was wanted */
	OK(cuMemAddressFree(base, g));
	return sample_end();
}

/* All memory, to the last granule and no further, also if what is free is scattered. */
static bool to_the_last_granule(void)
{
	const size_t g = granule();
	CUmemHandle *handles, h;
	size_t before, now, n, i, all, odd;
	CUdeviceptr base, p;
	uint8_t *words;

	CHECK(g > 0 && sample_begin() && left(&before));
	n = before / g;
	CHECK(n >= 3);
	handles = calloc(n, sizeof(*handles));
	CHECK(handles);
	CHECK(cuMemCreate(&h, (n + 1) * g, &pinned, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	for (i = 0; i < n; i++)
		OK(cuMemCreate(&handles[i], g, &pinned, 0));
	CHECK(left(&now) && now == before - n * g);
	CHECK(cuMemCreate(&h, g, &pinned, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAlloc_v2(&p, g) == CUDA_ERROR_OUT_OF_MEMORY);
	for (i = 1; i < n; i += 2)
		OK(cuMemRelease(handles[i]));
	odd = n / 2;
	CHECK(cuMemCreate(&h, (odd + 1) * g, &pinned, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(left(&now) && now == before - (n - odd) * g);
	OK(cuMemCreate(&h, odd * g, &pinned, 0));
	OK(cuMemAddressReserve(&base, ARENA, 0, 0, 0));
	all = n * g;
	words = malloc(g);
	CHECK(words);
	/* the odd ones in a row, and the even ones behind them */
	OK(cuMemMap(base, odd * g, 0, h, 0));
	for (i = 0; i < n; i += 2)
		OK(cuMemMap(base + (odd + i / 2) * g, g, 0, handles[i], 0));
	OK(cuMemSetAccess(base, all, &both, 1));
	for (i = 0; i < n; i++) {
		memset(words, (int)(100 + i), g);
		OK(cuMemcpyHtoD_v2(base + i * g, words, g));
	}
	for (i = 0; i < n; i++)
		CHECK(are(base + i * g, g / 4, g / 8, (uint32_t)(100 + i) % 256 * 0x01010101u));
	for (i = 0; i < n; i += 2)
		OK(cuMemRelease(handles[i]));
	OK(cuMemRelease(h));
	OK(cuMemUnmap(base, all));
	OK(cuMemAddressFree(base, ARENA));
	CHECK(left(&now) && now == before);
	free(handles);
	free(words);
	return sample_end();
}

/* Whether a descriptor shows memory for WHAT to the program that has it already. */
static bool shows(const struct cuda_allocation *what)
{
	CUmemHandle h, shown;
	size_t bytes;
	int fd;

	OK(cuMemGetAllocationGranularity(&bytes, what, 0));
	OK(cuMemCreate(&h, bytes, what, 0));
	OK(cuMemExportToShareableHandle(&fd, h, 1, 0));
	OK(cuMemImportFromShareableHandle(&shown, (void *)(intptr_t)fd, 1));
	CHECK(shown == h);
	close(fd);
	OK(cuMemRelease(h));
	OK(cuMemRelease(shown));
	return true;
}

/* What is wrong changes nothing. */
static bool errors(void)
{
	const size_t g = granule();
	const struct cuda_access elsewhere = {{1, 1}, 3}, on_host = {{2, 0}, 3}, read = {{1, 0}, 1};
	struct cuda_allocation what = pinned;
	CUdeviceptr base, other;
	CUmemHandle h, shown;
	int has_descriptors;
	uint64_t flags;
	size_t bytes;

	CHECK(g > 0 && sample_begin());
	/* addresses */
	CHECK(cuMemAddressReserve(NULL, g, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAddressReserve(&base, 0, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAddressReserve(&base, g + 1, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAddressReserve(&base, g, 3 * g, 0, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAddressReserve(&base, g, 0, 0, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAddressReserve(&base, (size_t)1 << 62, 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAddressReserve(&base, g, (size_t)1 << 63, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAddressReserve(&base, 4 * g, 0, 0, 0));
	OK(cuMemAddressReserve(&other, 2 * g, 0, base, 0)); /* what was wanted is taken */
	CHECK(other + 2 * g <= base || other >= base + 4 * g);
	CHECK(cuMemAddressFree(base, g) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAddressFree(base + g, 3 * g) == CUDA_ERROR_INVALID_VALUE);
	/* memory */
	CHECK(cuMemCreate(NULL, g, &pinned, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemCreate(&h, 0, &pinned, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemCreate(&h, g + 512, &pinned, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemCreate(&h, g, NULL, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemCreate(&h, g, &pinned, 1) == CUDA_ERROR_INVALID_VALUE);
	what.location.id = 1;
	CHECK(cuMemCreate(&h, g, &what, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemGetAllocationGranularity(&bytes, &what, 0) == CUDA_ERROR_INVALID_VALUE);
	what = pinned;
	what.handles = 1; /* a descriptor, if several programs may have the VF */
	OK(cuDeviceGetAttribute(&has_descriptors, 103, 0));
	if (has_descriptors)
		CHECK(shows(&what));
	else
		CHECK(cuMemCreate(&h, g, &what, 0) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuMemGetAllocationGranularity(&bytes, &pinned, 2) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemCreate(&h, 2 * g, &pinned, 0));
	CHECK(cuMemRelease(h + 1) == CUDA_ERROR_INVALID_VALUE);
	/* mappings */
	CHECK(cuMemMap(base, 2 * g, g, h, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemMap(base, 2 * g, 0, h, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemMap(base, 3 * g, 0, h, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemMap(base + 512, 2 * g, 0, h, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemMap(base + 3 * g, 2 * g, 0, h, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemMap(base, 2 * g, 0, h + 1, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemMap(0, 2 * g, 0, h, 0) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemMap(base + g, 2 * g, 0, h, 0));
	CHECK(cuMemMap(base, 2 * g, 0, h, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemMap(base + 2 * g, 2 * g, 0, h, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAddressFree(base, 4 * g) == CUDA_ERROR_INVALID_VALUE);
	/* access: of whole mappings, in a row */
	CHECK(cuMemSetAccess(base, 3 * g, &both, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemSetAccess(base + g, g, &both, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemSetAccess(base + g, 3 * g, &both, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemSetAccess(base + g, 2 * g, &elsewhere, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemSetAccess(base + g, 2 * g, &on_host, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemSetAccess(base + g, 2 * g, &read, 1) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuMemSetAccess(base + g, 2 * g, &both, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemSetAccess(base + g, 2 * g, NULL, 1) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemSetAccess(base + g, 2 * g, &both, 1));
	OK(cuMemSetAccess(base + g, 2 * g, &both, 1)); /* again */
	CHECK(cuMemGetAccess(&flags, &both.location, base) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemGetAccess(&flags, &elsewhere.location, base + g) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemRetainAllocationHandle(&shown, (void *)(uintptr_t)base) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemUnmap(base + g, g) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemUnmap(base, 3 * g) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemUnmap(base + g, 0) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemsetD32_v2(base + 2 * g - 64, 1, 32)); /* it is still there */
	OK(cuMemUnmap(base + g, 2 * g));
	CHECK(cuMemUnmap(base + g, 2 * g) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRelease(h));
	OK(cuMemAddressFree(base, 4 * g));
	OK(cuMemAddressFree(other, 2 * g));
	CHECK(cuMemAddressFree(other, 2 * g) == CUDA_ERROR_INVALID_VALUE);
	return sample_end();
}

const struct sample_check virtual_checks[] = {
	{"a pool that grows", pool_grows},
	{"memory at two addresses", aliases},
	{"to the last granule", to_the_last_granule},
	{"wrong addresses and mappings", errors},
	{NULL, NULL},
};
