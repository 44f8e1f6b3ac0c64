/* SPDX-License-Identifier: MIT */
/* Checks of single calls: libraries, functions, occupancy, host memory, pools, pointers, rows. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

static bool libraries(void)
{
	CUlibrary library, other;
	CUkernel kernel, again;
	CUfunction function;
	CUdeviceptr at, x;
	CUcontext context;
	CUmodule module;
	size_t bytes, offset, size;
	const char *name;
	uint32_t n = 256, i;
	void *entry;
	int value;

	CHECK(sample_begin());
	CHECK(cuLibraryLoadData(&library, programs_ptx, NULL, NULL, 0, (int[]){0}, NULL, 1) ==
	      CUDA_ERROR_NOT_SUPPORTED);
	OK(cuLibraryLoadData(&library, programs_ptx, NULL, NULL, 0, (int[]){1}, NULL, 1));
	CHECK(cuLibraryLoadFromFile(&other, "/nonexistent", NULL, NULL, 0, NULL, NULL, 0) ==
	      CUDA_ERROR_FILE_NOT_FOUND);
	CHECK(cuLibraryGetKernel(&kernel, library, "nonesuch") == CUDA_ERROR_NOT_FOUND);
	OK(cuLibraryGetKernel(&kernel, library, "scale"));
	OK(cuLibraryGetKernel(&again, library, "scale"));
	CHECK(kernel == again);
	OK(cuKernelGetFunction(&function, kernel));
	OK(cuKernelGetName(&name, kernel));
	CHECK(strcmp(name, "scale") == 0);
	OK(cuKernelGetParamInfo(kernel, 0, &offset, &size));
	CHECK(offset == 0 && size == 8);
	CHECK(cuKernelGetParamInfo(kernel, 1, &offset, &size) == CUDA_ERROR_INVALID_VALUE);
	OK(cuKernelGetAttribute(&value, 0, kernel, 0));
	CHECK(value >= 64);
	OK(cuLibraryGetGlobal(&at, &bytes, library, "factor"));
	CHECK(bytes == 4);
	CHECK(cuLibraryGetManaged(&at, NULL, library, "factor") == CUDA_ERROR_NOT_FOUND);
	CHECK(cuLibraryGetManaged(NULL, &bytes, library, "factor") == CUDA_ERROR_NOT_FOUND);
	CHECK(cuLibraryGetManaged(NULL, NULL, library, "factor") == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuLibraryGetManaged(&at, &bytes, library, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuLibraryGetManaged(&at, &bytes, kernel, "factor") == CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuLibraryGetUnifiedFunction(&entry, library, "scale") == CUDA_ERROR_NOT_FOUND);
	CHECK(cuLibraryGetUnifiedFunction(NULL, library, "scale") == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuLibraryGetUnifiedFunction(&entry, NULL, "scale") == CUDA_ERROR_INVALID_HANDLE);
	OK(cuKernelGetLibrary(&other, kernel));
	CHECK(other == library);
	CHECK(cuKernelGetLibrary(NULL, kernel) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuKernelGetLibrary(&other, library) == CUDA_ERROR_INVALID_HANDLE);
	OK(cuLibraryGetModule(&module, library));
	CHECK(cuModuleUnload(module) == CUDA_ERROR_INVALID_HANDLE); /* it is the library's */
	CHECK(cuLibraryUnload(function) == CUDA_ERROR_INVALID_HANDLE);
	/* a kernel is launched in any context, and lives longer than each */
	for (i = 0; i < 2; i++) {
		OK(cuCtxCreate_v2(&context, 0, 0));
		OK(cuMemAlloc_v2(&x, n * 4));
		OK(cuMemsetD32_v2(x, 0, n));
		OK(cuLaunchKernel(i ? kernel : function, 1, 1, 1, n / 4, 1, 1, 0, NULL,
				  (void *[]){&x}, NULL));
		OK(cuCtxSynchronize());
		OK(cuCtxDestroy_v2(context));
	}
	OK(cuLibraryUnload(library));
	CHECK(cuLibraryGetKernel(&kernel, library, "scale") == CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, NULL, (void *[]){&x}, NULL) ==
	      CUDA_ERROR_INVALID_HANDLE);
	return sample_end();
}

static size_t shared_of(int threads)
{
	CUdevice device;

	return cuCtxGetDevice(&device) == CUDA_SUCCESS ? (size_t)threads * 64 : SIZE_MAX;
}

static bool functions(void)
{
	int value, most, dynamic, blocks, less, grid, block, processors;
	CUfunction f;
	CUmodule module, of;
	size_t shared;

	CHECK(sample_begin());
	OK(cuModuleLoadData(&module, programs_ptx));
	OK(cuModuleGetFunction(&f, module, "multiply"));
	OK(cuFuncGetModule(&of, f));
	CHECK(of == module);
	CHECK(cuKernelGetLibrary(&of, f) == CUDA_ERROR_INVALID_HANDLE); /* it is no library's */
	OK(cuFuncGetAttribute(&value, 1, f));				/* static shared memory */
	CHECK(value >= 2048);
	OK(cuFuncGetAttribute(&value, 4, f)); /* registers */
	CHECK(value > 0);
	CHECK(cuFuncGetAttribute(&value, 16, f) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuFuncGetAttribute(&value, 0, module) == CUDA_ERROR_INVALID_HANDLE);
	OK(cuFuncGetAttribute(&value, 1, f));
	OK(cuDeviceGetAttribute(&most, 8, 0));
	OK(cuFuncGetAttribute(&dynamic, 8, f));
	CHECK(most > 0 && dynamic == most - value); /* until it is set */
	OK(cuFuncSetAttribute(f, 8, 4096));
	OK(cuFuncGetAttribute(&value, 8, f));
	CHECK(value == 4096);
	CHECK(cuFuncSetAttribute(f, 8, 1 << 30) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuFuncSetAttribute(f, 0, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuFuncSetAttribute(f, 10, 1) == CUDA_ERROR_NOT_SUPPORTED);
	OK(cuFuncSetCacheConfig(f, 3));
	CHECK(cuFuncSetCacheConfig(f, 4) == CUDA_ERROR_INVALID_VALUE);
	OK(cuFuncSetSharedMemConfig(f, 2));
	CHECK(cuFuncSetSharedMemConfig(f, 3) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuFuncSetSharedMemConfig(f, -1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuFuncSetSharedMemConfig(module, 0) == CUDA_ERROR_INVALID_HANDLE);
	OK(cuFuncIsLoaded(&value, f));
	CHECK(value == 1);
	/* more of a block is never more blocks */
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 64, 0));
	CHECK(blocks >= 1);
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&less, f, 1024, 0, 1));
	CHECK(less >= 1 && less <= blocks);
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&less, f, 64, 32768));
	CHECK(less >= 1 && less <= blocks);
	CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&less, f, 0, 0) ==
	      CUDA_ERROR_INVALID_VALUE);
	OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, NULL, 0, 0));
	OK(cuDeviceGetAttribute(&processors, 16, 0));
	CHECK(block >= 32 && block % 32 == 0 && grid >= processors && grid % processors == 0);
	OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, shared_of, 0, 100));
	CHECK(block >= 1 && block <= 100);
	OK(cuOccupancyAvailableDynamicSMemPerBlock(&shared, f, 1, 64));
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 64, shared));
	CHECK(blocks >= 1);
	return sample_end();
}

static bool launches(void)
{
	struct cuda_attribute a[2] = {{.id = 8}, {.id = 4, .of.cluster = {1, 1, 1}}};
	struct cuda_launch_config c = {.grid = {1, 1, 1}, .block = {64, 1, 1}, .attributes = a};
	int n, blocks, processors;
	CUdeviceptr x;
	CUmodule module;
	CUfunction f;
	void *params[] = {&x};

	CHECK(sample_begin());
	OK(cuModuleLoadData(&module, programs_ptx));
	OK(cuModuleGetFunction(&f, module, "scale"));
	OK(cuMemAlloc_v2(&x, 1024));
	OK(cuLaunchKernelEx(&c, f, params, NULL));
	c.n_attributes = 2;
	OK(cuLaunchKernelEx(&c, f, params, NULL));
	a[1].of.cluster[0] = 2;
	CHECK(cuLaunchKernelEx(&c, f, params, NULL) == CUDA_ERROR_NOT_SUPPORTED);
	a[1] = (struct cuda_attribute){.id = 12};
	CHECK(cuLaunchKernelEx(&c, f, params, NULL) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuLaunchKernelEx(NULL, f, params, NULL) == CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxSynchronize());
	/* As many clusters of a block are active as blocks, and none of more blocks. */
	a[1] = (struct cuda_attribute){.id = 4, .of.cluster = {1, 1, 1}};
	OK(cuDeviceGetAttribute(&processors, 16, 0));
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 64, 0));
	OK(cuOccupancyMaxActiveClusters(&n, f, &c));
	CHECK(n == blocks * processors && n > 0);
	OK(cuOccupancyMaxPotentialClusterSize(&n, f, &c));
	CHECK(n == 1);
	a[1].of.cluster[2] = 2;
	OK(cuOccupancyMaxActiveClusters(&n, f, &c));
	CHECK(n == 0);
	a[1].of.cluster[1] = 0;
	CHECK(cuOccupancyMaxActiveClusters(&n, f, &c) == CUDA_ERROR_INVALID_VALUE);
	c.n_attributes = 0;
	OK(cuOccupancyMaxActiveClusters(&n, f, &c));
	CHECK(n == blocks * processors);
	CHECK(cuOccupancyMaxActiveClusters(NULL, f, &c) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuOccupancyMaxActiveClusters(&n, f, NULL) == CUDA_ERROR_INVALID_VALUE);
	c.block[0] = 1 << 20;
	CHECK(cuOccupancyMaxActiveClusters(&n, f, &c) == CUDA_ERROR_INVALID_VALUE);
	c.block[1] = 0;
	CHECK(cuOccupancyMaxPotentialClusterSize(&n, f, &c) == CUDA_ERROR_INVALID_VALUE);
	return sample_end();
}

/* Launches in several calls: a function keeps what it was told, until it is told otherwise. */
static bool launches_in_parts(void)
{
	float a[128], b[128], c[128];
	uint32_t n = 100, i;
	CUdeviceptr x[3];
	CUmodule module;
	CUfunction f;
	int round;

	CHECK(sample_begin());
	OK(cuModuleLoadData(&module, sample_ptx));
	OK(cuModuleGetFunction(&f, module, "vector_add"));
	for (i = 0; i < 3; i++)
		OK(cuMemAlloc_v2(&x[i], sizeof(a)));
	for (i = 0; i < 128; i++) {
		a[i] = (float)i;
		b[i] = 1000.0f;
	}
	OK(cuMemcpyHtoD_v2(x[1], a, sizeof(a)));
	OK(cuMemcpyHtoD_v2(x[2], b, sizeof(b)));
	CHECK(cuLaunchGrid(f, 1, 1) == CUDA_ERROR_INVALID_VALUE); /* no shape yet */
	OK(cuFuncSetBlockShape(f, 32, 1, 1));
	OK(cuFuncSetSharedSize(f, 64));
	OK(cuParamSetv(f, 0, x, 24));
	OK(cuParamSeti(f, 24, n));
	OK(cuParamSetSize(f, 28));
	for (round = 0; round < 3; round++) {
		OK(cuMemsetD8_v2(x[0], 0, sizeof(c)));
		if (round == 0)
			OK(cuLaunchGrid(f, 4, 1));
		else if (round == 1)
			OK(cuLaunchGridAsync(f, 2, 1, NULL));
		else
			OK(cuLaunch(f));
		OK(cuMemcpyDtoH_v2(c, x[0], sizeof(c)));
		n = round == 0 ? 100 : round == 1 ? 64 : 32;
		for (i = 0; i < 128; i++)
			CHECK(c[i] == (i < n ? a[i] + b[i] : 0));
	}
	CHECK(cuFuncSetBlockShape(f, 0, 1, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuParamSetv(f, 4090, x, 24) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuParamSetv(f, -1, x, 8) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuParamSetv(f, 0, NULL, 8) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuParamSetSize(f, 4097) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuParamSetf((CUfunction)module, 0, 1) == CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuLaunchGrid(f, 0, 1) == CUDA_ERROR_INVALID_VALUE);
	OK(cuLaunch(f));
	OK(cuParamSetSize(f, 16)); /* fewer than the function has */
	CHECK(cuLaunch(f) == CUDA_ERROR_INVALID_VALUE);
	return sample_end();
}

/* Launches GRID blocks of THREADS threads that wait for each other, as an attribute says or a call,
 * and compares their sums. */
#define MEET_BLOCKS 256u

static bool meet(CUfunction f, CUdeviceptr x, uint32_t grid, uint32_t threads, bool attribute)
{
	struct cuda_attribute a = {.id = 2, .of.value = 1};
	struct cuda_launch_config c = {.grid = {grid, 1, 1},
				       .block = {threads, 1, 1},
				       .attributes = &a,
				       .n_attributes = 1};
	uint32_t rounds = 1 + sample_draw(5), sums[MEET_BLOCKS], i;
	void *params[] = {&x, &rounds};

	OK(cuMemsetD8_v2(x, 0, 64 + 2 * MEET_BLOCKS * 4));
	if (attribute)
		OK(cuLaunchKernelEx(&c, f, params, NULL));
	else
		OK(cuLaunchCooperativeKernel(f, grid, 1, 1, threads, 1, 1, 0, NULL, params));
	OK(cuMemcpyDtoH_v2(sums, x + 64 + MEET_BLOCKS * 4, grid * 4));
	for (i = 0; i < grid; i++)
		CHECK(sums[i] == rounds * (rounds + 1) / 2);
	return true;
}

static bool cooperative(void)
{
	struct cuda_kernel_node node = {.grid = {3, 1, 1}, .block = {64, 1, 1}};
	uint32_t rounds = 2, threads = 1024, sums[2], i;
	int can, blocks, processors;
	CUgraphNode first;
	CUgraphExec exec;
	CUmodule module;
	CUfunction f;
	CUdeviceptr x;
	CUgraph graph;
	CUstream s;
	size_t n = 1;
	void *params[] = {&x, &rounds};

	CHECK(sample_begin());
	OK(cuDeviceGetAttribute(&can, 95, 0));
	CHECK(can == 1);
	OK(cuModuleLoadData(&module, meet_ptx));
	OK(cuModuleGetFunction(&f, module, "meet"));
	OK(cuMemAlloc_v2(&x, 64 + 2 * MEET_BLOCKS * 4));
	for (i = 0; i < 6; i++)
		CHECK(meet(f, x, 1 + sample_draw(8), 1 + sample_draw(256), i % 2));
	/* as many as the GPU runs at a time, but not more */
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, (int)threads, 0));
	OK(cuDeviceGetAttribute(&processors, 16, 0));
	blocks *= processors;
	if (blocks <= (int)MEET_BLOCKS)
		CHECK(meet(f, x, (uint32_t)blocks, threads, false));
	CHECK(cuLaunchCooperativeKernel(f, (unsigned)blocks + 1, 1, 1, threads, 1, 1, 0, NULL,
					params) == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	CHECK(cuLaunchCooperativeKernel(f, 65535, 65535, 65535, threads, 1, 1, 0, NULL, params) ==
	      CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	CHECK(cuLaunchCooperativeKernel(f, 0, 1, 1, threads, 1, 1, 0, NULL, params) ==
	      CUDA_ERROR_INVALID_VALUE);
	/* in a graph, also with other parameters */
	OK(cuMemsetD8_v2(x, 0, 64 + 2 * MEET_BLOCKS * 4));
	OK(cuStreamCreate(&s, 0));
	OK(cuStreamBeginCapture_v2(s, 0));
	OK(cuLaunchCooperativeKernel(f, 2, 1, 1, 32, 1, 1, 0, s, params));
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphGetNodes(graph, &first, &n));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	node.function = f;
	node.params = params;
	OK(cuGraphExecKernelNodeSetParams(exec, first, &node));
	OK(cuGraphLaunch(exec, s));
	OK(cuStreamSynchronize(s));
	OK(cuMemcpyDtoH_v2(sums, x + 64 + MEET_BLOCKS * 4, sizeof(sums)));
	CHECK(sums[0] == 3 && sums[1] == 3);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

static bool host_memory(void)
{
	uint8_t *p, *q, own[8192];
	CUdeviceptr x;
	unsigned flags, i;

	CHECK(sample_begin());
	CHECK(cuMemHostAlloc((void **)&p, 0, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemHostAlloc((void **)&p, 64, 8) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemHostAlloc((void **)&p, 10000, 1));
	OK(cuMemAllocHost_v2((void **)&q, 10000));
	OK(cuMemHostGetFlags(&flags, p + 5));
	CHECK(flags == 1);
	OK(cuMemAlloc_v2(&x, 10000));
	for (i = 0; i < 10000; i++)
		p[i] = (uint8_t)sample_draw(256);
	OK(cuMemcpyHtoDAsync_v2(x, p, 10000, NULL));
	OK(cuMemcpyDtoHAsync_v2(q, x, 10000, NULL));
	OK(cuCtxSynchronize());
	CHECK(memcmp(p, q, 10000) == 0);
	CHECK(cuMemFreeHost(p + 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemHostUnregister(p) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeHost(p));
	CHECK(cuMemFreeHost(p) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemHostRegister_v2(own, 4096, 0));
	CHECK(cuMemHostRegister_v2(own + 4095, 4096, 0) ==
	      CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	CHECK(cuMemFreeHost(own) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemHostUnregister(own));
	CHECK(cuMemHostUnregister(own) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	return sample_end(); /* which frees q */
}

static bool pools(void)
{
	struct cuda_pool_props props = {.type = 1, .location = {1, 0}};
	CUmemoryPool pool, all, seen;
	CUdeviceptr a, b, c;
	uint64_t value = 0;
	size_t left, now, total;
	CUstream s;
	int can;

	CHECK(sample_begin());
	OK(cuDeviceGetAttribute(&can, 115, 0));
	CHECK(can == 1);
	OK(cuMemGetInfo_v2(&left, &total));
	OK(cuStreamCreate(&s, 0));
	OK(cuDeviceGetDefaultMemPool(&all, 0));
	OK(cuDeviceGetMemPool(&seen, 0));
	CHECK(seen == all);
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocAsync(&a, 5000, s));
	OK(cuMemAllocFromPoolAsync(&b, 7000, pool, s));
	OK(cuMemPoolGetAttribute(pool, 7, &value));
	CHECK(value == 7000);
	OK(cuDeviceSetMemPool(0, pool));
	OK(cuMemAllocAsync(&c, 100, s));
	OK(cuMemPoolGetAttribute(pool, 7, &value));
	CHECK(value == 7100);
	OK(cuMemFreeAsync(b, s));
	OK(cuMemPoolGetAttribute(pool, 7, &value));
	CHECK(value == 100);
	OK(cuMemPoolGetAttribute(pool, 8, &value));
	CHECK(value == 7100);
	value = 1 << 20;
	OK(cuMemPoolSetAttribute(pool, 4, &value));
	OK(cuMemPoolTrimTo(pool, 0));
	CHECK(cuMemFreeAsync(b, s) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolDestroy(pool)); /* c lives on */
	CHECK(cuMemPoolDestroy(pool) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemPoolDestroy(all) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemsetD8Async(c, 1, 100, s));
	OK(cuMemFree_v2(c));
	OK(cuMemFreeAsync(a, s));
	CHECK(cuMemAllocAsync(&a, total + 1, s) == CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemGetInfo_v2(&now, &total));
	CHECK(now == left);
	return sample_end();
}

static bool pointers(void)
{
	int which[] = {2, 9, 11, 12, 8}, type = 7, ordinal = 7, here = 0, unified;
	uint64_t begin = 7, bytes = 7;
	bool managed = true;
	void *data[] = {&type, &ordinal, &begin, &bytes, &managed};
	CUcontext context, seen;
	CUdeviceptr x, y;
	void *host;

	CHECK(sample_begin());
	OK(cuCtxGetCurrent(&context));
	OK(cuMemAlloc_v2(&x, 1000));
	OK(cuPointerGetAttribute(&type, 2, x + 999));
	CHECK(type == 2);
	CHECK(cuPointerGetAttribute(&type, 2, x + 1000) == CUDA_ERROR_INVALID_VALUE);
	OK(cuPointerGetAttribute(&seen, 1, x));
	CHECK(seen == context);
	OK(cuMemAllocAsync(&y, 16, NULL));
	OK(cuPointerGetAttribute(&seen, 1, y)); /* a pool's is no context's */
	CHECK(!seen);
	OK(cuMemFree_v2(y));
	OK(cuPointerGetAttributes(5, which, data, x + 10));
	CHECK(type == 2 && ordinal == 0 && begin == x && bytes == 1000 && !managed);
	OK(cuMemHostAlloc(&host, 4096, 0));
	OK(cuPointerGetAttribute(&type, 2, (uintptr_t)host));
	CHECK(type == 1);
	/* of memory that nobody has announced */
	CHECK(cuPointerGetAttribute(&type, 2, (uintptr_t)&here) == CUDA_ERROR_INVALID_VALUE);
	OK(cuPointerGetAttributes(5, which, data, (uintptr_t)&here));
	CHECK(type == 0 && ordinal == -2 && begin == 0);
	/* one address space, if there is one */
	OK(cuDeviceGetAttribute(&unified, 41, 0));
	here = 12345;
	if (unified) {
		int there = 0;

		OK(cuMemcpy(x, (uintptr_t)&here, 4));
		OK(cuMemcpyAsync(x + 8, x, 4, NULL));
		OK(cuMemcpy((uintptr_t)&there, x + 8, 4));
		CHECK(there == 12345);
	} else {
		CHECK(cuMemcpy(x, (uintptr_t)&here, 4) == CUDA_ERROR_NOT_SUPPORTED);
	}
	return sample_end();
}

/* A number tells memory from other memory that had its address. */
static bool buffer_ids(void)
{
	uint64_t id[4];
	CUdeviceptr x, again;
	void *host;
	int i, k;

	CHECK(sample_begin());
	OK(cuMemAlloc_v2(&x, 4096));
	OK(cuPointerGetAttribute(&id[0], 7, x));
	OK(cuPointerGetAttribute(&id[1], 7, x + 100));
	CHECK(id[0] == id[1]);
	OK(cuMemFree_v2(x));
	OK(cuMemAlloc_v2(&again, 4096));
	CHECK(again == x); /* or this tries nothing */
	OK(cuPointerGetAttribute(&id[1], 7, again));
	OK(cuMemAlloc_v2(&x, 4096));
	OK(cuPointerGetAttribute(&id[2], 7, x));
	OK(cuMemHostAlloc(&host, 4096, 0));
	OK(cuPointerGetAttribute(&id[3], 7, (uintptr_t)host));
	for (i = 0; i < 4; i++)
		for (k = 0; k < i; k++)
			CHECK(id[i] != id[k]);
	return sample_end();
}

/* Random boxes between two memories and the host, and the same on the CPU. */
#define PITCH 96u
#define ROWS 20u
#define LAYERS 3u
#define BOX (PITCH * ROWS * LAYERS)

static void copy_box(uint8_t *to, const uint8_t *from, const struct cuda_copy_3d *c)
{
	size_t z, y;

	for (z = 0; z < c->layers; z++)
		for (y = 0; y < c->rows; y++)
			memmove(to + ((c->to.z + z) * ROWS + c->to.y + y) * PITCH + c->to.x,
				from + ((c->from.z + z) * ROWS + c->from.y + y) * PITCH + c->from.x,
				c->width);
}

static struct cuda_copy_side_3d draw_side(const struct cuda_copy_3d *c)
{
	return (struct cuda_copy_side_3d){
		.x = sample_draw(PITCH - (uint32_t)c->width + 1),
		.y = sample_draw(ROWS - (uint32_t)c->rows + 1),
		.z = sample_draw(LAYERS - (uint32_t)c->layers + 1),
		.pitch = PITCH,
		.height = ROWS,
	};
}

/* Sides 0 and 1 are the device's, 2 is the host's. */
static void set_side(struct cuda_copy_side_3d *s, uint32_t which, const CUdeviceptr *on,
		     uint8_t *host)
{
	s->type = which == 2 ? 1 : 2;
	s->device = which == 2 ? 0 : on[which];
	s->host = which == 2 ? host : NULL;
}

static bool boxes(void)
{
	static uint8_t model[3][BOX], host[BOX], seen[BOX];
	struct cuda_copy_3d c;
	struct cuda_copy_2d flat;
	CUdeviceptr on[2];
	uint32_t i, k, to, from;

	CHECK(sample_begin());
	for (i = 0; i < BOX; i++)
		for (k = 0; k < 3; k++)
			model[k][i] = (uint8_t)sample_draw(256);
	memcpy(host, model[2], BOX);
	for (k = 0; k < 2; k++) {
		OK(cuMemAlloc_v2(&on[k], BOX));
		OK(cuMemcpyHtoD_v2(on[k], model[k], BOX));
	}
	for (i = 0; i < 120; i++) {
		c = (struct cuda_copy_3d){.width = 1 + sample_draw(PITCH),
					  .rows = 1 + sample_draw(ROWS),
					  .layers = 1 + sample_draw(i % 2 ? LAYERS : 1)};
		c.from = draw_side(&c);
		c.to = draw_side(&c);
		from = sample_draw(3);
		to = (from + 1 + sample_draw(2)) % 3;
		set_side(&c.from, from, on, host);
		set_side(&c.to, to, on, host);
		if (i % 3) {
			OK(cuMemcpy3DAsync_v2(&c, NULL));
		} else {
			c.layers = 1;
			c.from.z = c.to.z = 0;
			flat = (struct cuda_copy_2d){{c.from.x, c.from.y, c.from.type, c.from.host,
						      c.from.device, NULL, PITCH},
						     {c.to.x, c.to.y, c.to.type, c.to.host,
						      c.to.device, NULL, PITCH},
						     c.width,
						     c.rows};
			OK(i % 2 ? cuMemcpy2D_v2(&flat) : cuMemcpy2DAsync_v2(&flat, NULL));
		}
		copy_box(model[to], model[from], &c);
	}
	for (k = 0; k < 2; k++) {
		OK(cuMemcpyDtoH_v2(seen, on[k], BOX));
		CHECK(memcmp(seen, model[k], BOX) == 0);
	}
	CHECK(memcmp(host, model[2], BOX) == 0);
	/* wrong ones */
	set_side(&c.to, 0, on, host);
	set_side(&c.from, 1, on, host);
	c.to.x = c.from.x = 1;
	c.width = PITCH;
	CHECK(cuMemcpy3D_v2(&c) == CUDA_ERROR_INVALID_VALUE);
	c.width = SIZE_MAX;
	CHECK(cuMemcpy3D_v2(&c) == CUDA_ERROR_INVALID_VALUE);
	c.width = 1;
	c.layers = SIZE_MAX;
	CHECK(cuMemcpy3D_v2(&c) == CUDA_ERROR_INVALID_VALUE);
	c.layers = 1;
	c.to.type = 3; /* an array */
	CHECK(cuMemcpy3D_v2(&c) == CUDA_ERROR_NOT_SUPPORTED);
	c.to.type = 9;
	CHECK(cuMemcpy3D_v2(&c) == CUDA_ERROR_INVALID_VALUE);
	return sample_end();
}

static bool pitched(void)
{
	uint32_t i, k, seen[10][7];
	CUdeviceptr x;
	size_t pitch;

	CHECK(sample_begin());
	CHECK(cuMemAllocPitch_v2(&x, &pitch, 28, 10, 3) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAllocPitch_v2(&x, &pitch, SIZE_MAX, 2, 4) == CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAllocPitch_v2(&x, &pitch, 28, 10, 4));
	CHECK(pitch >= 28 && pitch % 4 == 0);
	OK(cuMemsetD8_v2(x, 0x11, pitch * 9 + 28));
	OK(cuMemsetD2D32_v2(x + 4, pitch, 5, 5, 10));
	OK(cuMemsetD2D8Async(x + pitch, pitch, 6, 3, 2, NULL));
	OK(cuMemsetD2D16_v2(x + 2 * pitch, pitch, 7, 14, 1));
	CHECK(cuMemsetD2D32_v2(x, pitch, 5, 7, 11) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemsetD2D32_v2(x, pitch, 5, pitch / 4 + 1, 2) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemcpy2D_v2(&(struct cuda_copy_2d){{.type = 2, .device = x, .pitch = pitch},
						{.type = 1, .host = seen, .pitch = 28},
						28,
						10}));
	for (i = 0; i < 10; i++)
		for (k = 0; k < 7; k++)
			if (i == 2)
				CHECK(seen[i][k] == 0x00070007);
			else if (i == 1 && k == 0)
				CHECK(seen[i][k] == 0x11060606);
			else
				CHECK(seen[i][k] == (k >= 1 && k <= 5 ? 5 : 0x11111111));
	OK(cuStreamWriteValue32_v2(NULL, x, 0xabcdef01, 0));
	OK(cuStreamWriteValue64_v2(NULL, x + 8, UINT64_C(0x1234567887654321), 0));
	CHECK(cuStreamWriteValue64_v2(NULL, x + 4, 1, 0) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemcpyDtoH_v2(seen, x, 16));
	CHECK(seen[0][0] == 0xabcdef01 && seen[0][2] == 0x87654321 && seen[0][3] == 0x12345678);
	return sample_end();
}

struct heard {
	CUdeviceptr x;
	uint32_t seen, calls;
	CUstream stream;
	int error;
};

static void hear(void *data)
{
	struct heard *h = data;

	h->calls++;
}

static void call_back(CUstream s, CUresult e, void *data)
{
	struct heard *h = data;

	h->calls++;
	h->stream = s;
	h->error = e;
}

static bool host_functions(void)
{
	struct heard h = {.error = -1};
	CUcontext context, seen;
	uint64_t id = 0, other = 0;
	unsigned flags = 9;
	CUstream s;
	int priority = 9;

	CHECK(sample_begin());
	OK(cuCtxGetCurrent(&context));
	OK(cuStreamCreateWithPriority(&s, 1, -1));
	OK(cuStreamGetFlags(s, &flags));
	CHECK(flags == 1);
	OK(cuStreamGetPriority(s, &priority));
	CHECK(priority == 0);
	OK(cuStreamGetCtx(s, &seen));
	CHECK(seen == context);
	OK(cuStreamGetId(s, &id));
	OK(cuStreamGetId(NULL, &other));
	CHECK(id != other);
	OK(cuCtxGetId(NULL, &id));
	CHECK(id > 0);
	OK(cuMemAlloc_v2(&h.x, 4096));
	OK(cuMemsetD32Async(h.x, 1, 1024, s));
	OK(cuLaunchHostFunc(s, hear, &h));
	OK(cuStreamAddCallback(s, call_back, &h, 0));
	CHECK(cuLaunchHostFunc(s, NULL, &h) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuStreamAddCallback(s, call_back, &h, 1) == CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamSynchronize(s));
	CHECK(h.calls == 2 && h.stream == s && h.error == 0);
	return sample_end();
}

/* Each stream has its own, which another one may copy. */
static bool stream_attributes(void)
{
	union cuda_value window = {.all = {1, 2, 3}}, seen = {.value = 9};
	CUstream s, other;

	CHECK(sample_begin());
	OK(cuStreamCreate(&s, 1));
	OK(cuStreamCreate(&other, 1));
	OK(cuStreamGetAttribute(s, 3, &seen));
	CHECK(seen.value == 1);
	OK(cuStreamSetAttribute(s, 3, &(union cuda_value){.value = 4}));
	OK(cuStreamSetAttribute(s, 1, &window));
	OK(cuStreamGetAttribute(other, 3, &seen));
	CHECK(seen.value == 1);
	OK(cuStreamCopyAttributes(other, s));
	OK(cuStreamGetAttribute(other, 3, &seen));
	CHECK(seen.value == 4);
	OK(cuStreamGetAttribute(other, 1, &seen));
	CHECK(memcmp(&seen, &window, sizeof(seen)) == 0);
	OK(cuStreamGetAttribute(s, 8, &seen));
	CHECK(seen.value == 0);
	OK(cuStreamSetAttribute(s, 8, &seen));
	CHECK(cuStreamSetAttribute(s, 8, &(union cuda_value){.value = -1}) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(cuStreamSetAttribute(s, 3, &(union cuda_value){.value = 5}) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(cuStreamSetAttribute(s, 2, &window) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuStreamGetAttribute(s, 0, &seen) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuStreamGetAttribute(s, 3, NULL) == CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamGetAttribute(s, 3, &seen));
	CHECK(seen.value == 4);
	OK(cuStreamDestroy_v2(other));
	CHECK(cuStreamCopyAttributes(s, other) == CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuStreamCopyAttributes(other, s) == CUDA_ERROR_INVALID_HANDLE);
	return sample_end();
}

const struct sample_check calls_checks[] = {
	{"libraries", libraries},
	{"functions", functions},
	{"launches with attributes", launches},
	{"launches in several calls", launches_in_parts},
	{"launches whose blocks wait for each other", cooperative},
	{"host memory", host_memory},
	{"pools", pools},
	{"pointers", pointers},
	{"numbers of memory", buffer_ids},
	{"boxes", boxes},
	{"pitched memory", pitched},
	{"functions of the host", host_functions},
	{"attributes of streams", stream_attributes},
	{NULL, NULL},
};
