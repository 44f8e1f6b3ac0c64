/* SPDX-License-Identifier: MIT */
/* Programs as they are written for the Driver API: their results are the CPU's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static bool load(CUmodule *module, CUfunction *function, const char *name)
{
	OK(cuModuleLoadData(module, programs_ptx));
	OK(cuModuleGetFunction(function, *module, name));
	return true;
}

/* In tiles. The numbers are small integers, so that each order of the sums gives the same. */
static bool multiply(void)
{
	uint32_t n = 64, i, k, m;
	float *a = malloc(n * n * 4), *b = malloc(n * n * 4), *c = malloc(n * n * 4), sum;
	CUdeviceptr on[3];
	CUfunction f;
	CUmodule module;

	CHECK(a && b && c && sample_begin() && load(&module, &f, "multiply"));
	for (i = 0; i < n * n; i++) {
		a[i] = (float)sample_draw(64) - 32;
		b[i] = (float)sample_draw(64) - 32;
	}
	for (i = 0; i < 3; i++)
		OK(cuMemAlloc_v2(&on[i], n * n * 4));
	OK(cuMemcpyHtoD_v2(on[1], a, n * n * 4));
	OK(cuMemcpyHtoD_v2(on[2], b, n * n * 4));
	OK(cuLaunchKernel(f, n / 16, n / 16, 1, 16, 16, 1, 0, NULL,
			  (void *[]){&on[0], &on[1], &on[2], &n}, NULL));
	OK(cuMemcpyDtoH_v2(c, on[0], n * n * 4));
	for (i = 0; i < n; i++)
		for (k = 0; k < n; k++) {
			for (sum = 0, m = 0; m < n; m++)
				sum += a[i * n + m] * b[m * n + k];
			CHECK(c[i * n + k] == sum);
		}
	free(a);
	free(b);
	free(c);
	return sample_end();
}

static bool histogram(void)
{
	uint32_t n = 5000, wanted[64] = {0}, seen[64], i;
	uint8_t *data = malloc(n);
	CUdeviceptr bins, on;
	CUfunction f;
	CUmodule module;

	CHECK(data && sample_begin() && load(&module, &f, "histogram"));
	for (i = 0; i < n; i++) {
		data[i] = (uint8_t)sample_draw(256);
		wanted[data[i] % 64]++;
	}
	OK(cuMemAlloc_v2(&bins, sizeof(seen)));
	OK(cuMemAlloc_v2(&on, n));
	OK(cuMemsetD32_v2(bins, 0, 64));
	OK(cuMemcpyHtoD_v2(on, data, n));
	OK(cuLaunchKernel(f, (n + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, (void *[]){&bins, &on, &n},
			  NULL));
	OK(cuMemcpyDtoH_v2(seen, bins, sizeof(seen)));
	CHECK(memcmp(seen, wanted, sizeof(seen)) == 0);
	free(data);
	return sample_end();
}

/* Through the lanes of warps. */
static bool reduction(void)
{
	uint32_t n = 7000, sum = 0, most = 0, seen[2], i;
	uint32_t *data = malloc(n * 4);
	CUdeviceptr on, out, out_most;
	CUfunction f;
	CUmodule module;

	CHECK(data && sample_begin() && load(&module, &f, "sum_and_most"));
	for (i = 0; i < n; i++) {
		data[i] = sample_draw(UINT32_MAX);
		sum += data[i];
		most = data[i] > most ? data[i] : most;
	}
	OK(cuMemAlloc_v2(&on, n * 4));
	OK(cuMemAlloc_v2(&out, 8));
	out_most = out + 4;
	OK(cuMemsetD32_v2(out, 0, 2));
	OK(cuMemcpyHtoD_v2(on, data, n * 4));
	OK(cuLaunchKernel(f, (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL,
			  (void *[]){&out, &out_most, &on, &n}, NULL));
	OK(cuMemcpyDtoH_v2(seen, out, sizeof(seen)));
	CHECK(seen[0] == sum && seen[1] == most);
	free(data);
	return sample_end();
}

/* Variables of a module: the program finds, writes and reads them, and its GPU kernels use them. */
static bool variables(void)
{
	uint32_t n = 512, i, table[4] = {1, 2, 3, 4}, again[4];
	float x[512], was[512], factor = 0;
	uint64_t counter[2] = {0, 0};
	CUdeviceptr on, at_factor, at_table, at_counter, other, base;
	CUmodule module;
	CUfunction f;
	size_t bytes;

	CHECK(sample_begin() && load(&module, &f, "scale"));
	CHECK(cuModuleGetGlobal_v2(&other, &bytes, module, "nonesuch") == CUDA_ERROR_NOT_FOUND);
	CHECK(cuModuleGetGlobal_v2(NULL, NULL, module, "factor") == CUDA_ERROR_INVALID_VALUE);
	OK(cuModuleGetGlobal_v2(&at_factor, &bytes, module, "factor"));
	CHECK(bytes == 4);
	OK(cuModuleGetGlobal_v2(&at_table, &bytes, module, "table"));
	CHECK(bytes == 16);
	OK(cuModuleGetGlobal_v2(&at_counter, &bytes, module, "counter"));
	CHECK(bytes == 16);
	OK(cuMemGetAddressRange_v2(&base, &bytes, at_table + 15));
	CHECK(base == at_table && bytes == 16);
	OK(cuMemcpyDtoH_v2(&factor, at_factor, 4));
	CHECK(factor == 2);
	OK(cuMemcpyDtoH_v2(again, at_table, 16));
	CHECK(again[0] == 10 && again[3] == 40);
	CHECK(cuMemcpy((CUdeviceptr)(uintptr_t)&factor, at_factor, 4) == CUDA_ERROR_NOT_SUPPORTED);
	/* copies stay inside of a variable */
	CHECK(cuMemcpyDtoH_v2(again, at_table + 4, 16) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyHtoD_v2(at_factor - 1, table, 2) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAlloc_v2(&on, sizeof(x)));
	for (i = 0; i < n; i++)
		x[i] = was[i] = (float)sample_draw(1000);
	OK(cuMemcpyHtoD_v2(on, x, sizeof(x)));
	factor = 3;
	OK(cuMemcpyHtoDAsync_v2(at_factor, &factor, 4, NULL));
	OK(cuMemAlloc_v2(&other, 16));
	OK(cuMemcpyHtoD_v2(other, table, 16));
	OK(cuMemcpyDtoD_v2(at_table, other, 16)); /* memory to a variable */
	OK(cuMemsetD32_v2(at_counter, 7, 2));
	OK(cuMemcpyDtoD_v2(at_counter + 8, at_table, 8)); /* a variable to another one */
	OK(cuLaunchKernel(f, n / 4 / 64, 1, 1, 64, 1, 1, 0, NULL, (void *[]){&on}, NULL));
	OK(cuMemcpyDtoH_v2(x, on, sizeof(x)));
	for (i = 0; i < n; i++)
		CHECK(x[i] == fmaf(was[i], 3, (float)table[i % 4]));
	OK(cuMemcpyDtoD_v2(other, at_counter, 16)); /* a variable to memory */
	OK(cuMemcpyDtoH_v2(counter, other, 16));
	CHECK(counter[0] == UINT64_C(0x0000000700000007));
	CHECK(counter[1] == UINT64_C(0x0000000200000001) + n / 4);
	OK(cuModuleUnload(module));
	CHECK(cuMemcpyHtoD_v2(at_factor, &factor, 4) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemGetAddressRange_v2(&base, &bytes, at_table) == CUDA_ERROR_NOT_FOUND);
	return sample_end();
}

const struct sample_check programs_checks[] = {
	{"tiled matrix product", multiply},
	{"histogram", histogram},
	{"reduction through warps", reduction},
	{"variables of modules", variables},
	{NULL, NULL},
};
