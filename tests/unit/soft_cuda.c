/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver's interface in software: the calls that cuda.c makes, carried out on this CPU;
 * GPU kernels run by ptx.h. It tests cuda.c: that it asks for the right things, of the right size,
 * in an order that the interface allows. It does not show what a GPU does with them, or when.
 *
 * As NVIDIA documents it: addresses are reserved, then mapped, then made accessible; a stream
 * executes in order, concurrently with its caller; nearly every call needs a current context.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "soft_cuda.h"

#define GRAIN (UINT64_C(2) << 20)
#define MEMORY (UINT64_C(1) << 30)

CUresult cuDriverGetVersion(int *version);
CUresult cuGetProcAddress_v2(const char *name, void **entry, int version, uint64_t flags,
			     int *status);

/* Memory that lives as long as the context. The CUDA driver frees it when the process ends. */
struct kept {
	struct kept *next;
	_Alignas(64) uint8_t bytes[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static struct work *first, **last = &first;
static uint64_t put, done; /* works queued, and works done */
static uint64_t taken;	   /* bytes of memory in use */
static struct kept *all_kept;
static bool is_up;
static int context;
__thread CUcontext soft_cuda_context;

static void *keep(size_t size)
{
	struct kept *k = aligned_alloc(64, (sizeof(*k) + size + 63) / 64 * 64);

	k->next = all_kept;
	all_kept = k;
	return memset(k->bytes, 0xa5, size);
}

/* the stream */

static void execute(struct work *w)
{
	switch (w->kind) {
	case WORK_COPY:
		memmove(w->dst, w->src, w->n);
		break;
	case WORK_SET:
		memset(w->dst, w->value, w->n);
		break;
	case WORK_LAUNCH:
		ptx_run(w->function->code, &w->launch);
		break;
	}
}

static void *stream(void *arg)
{
	struct work *w;

	for (;;) {
		pthread_mutex_lock(&lock);
		while (!first)
			pthread_cond_wait(&cond, &lock);
		w = first;
		first = w->next;
		if (!first)
			last = &first;
		pthread_mutex_unlock(&lock);
		execute(w);
		free(w->params);
		free(w);
		pthread_mutex_lock(&lock);
		done++;
		pthread_cond_broadcast(&cond);
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

CUresult soft_cuda_enqueue(struct work work)
{
	struct work *w;

	if (!soft_cuda_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	w = malloc(sizeof(*w));
	*w = work;
	pthread_mutex_lock(&lock);
	*last = w;
	last = &w->next;
	put++;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
	pthread_t thread;

	(void)flags;
	if (!soft_cuda_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pthread_create(&thread, NULL, stream, NULL) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_detach(thread);
	*out = &first;
	return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream s)
{
	(void)s;
	if (!soft_cuda_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	while (done < put)
		pthread_cond_wait(&cond, &lock);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *out, unsigned flags)
{
	(void)flags;
	if (soft_cuda_context)
		*out = keep(sizeof(uint64_t));
	return soft_cuda_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuEventRecord(CUevent event, CUstream s)
{
	(void)s;
	if (!soft_cuda_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	*(uint64_t *)event = put;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
	CUresult e;

	pthread_mutex_lock(&lock);
	e = done >= *(uint64_t *)event ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
	pthread_mutex_unlock(&lock);
	return e;
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream s)
{
	(void)s;
	return soft_cuda_enqueue((struct work){
		.kind = WORK_SET, .dst = (void *)(uintptr_t)dst, .value = value, .n = n});
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s)
{
	(void)s;
	return soft_cuda_enqueue((struct work){.kind = WORK_COPY,
					       .dst = (void *)(uintptr_t)dst,
					       .src = (const void *)(uintptr_t)src,
					       .n = n});
}

/* device and context */

CUresult cuInit(unsigned flags)
{
	const char *error = getenv("SOFT_CUDA_INIT"); /* of a driver that does not start */

	if (error || flags)
		return error ? atoi(error) : CUDA_ERROR_INVALID_VALUE;
	is_up = true;
	return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
	*version = CUDA_WANTED;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *n)
{
	*n = 1;
	return is_up ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int index)
{
	*device = 0;
	return !is_up ? CUDA_ERROR_NOT_INITIALIZED : index ? CUDA_ERROR_INVALID_VALUE : 0;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
	(void)device;
	snprintf(name, (size_t)size, "no GPU, but its interface in software");
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int which, CUdevice device)
{
	static const struct {
		int which, value;
	} attributes[] = {
		{1, 1024}, /* threads of a block, and its dimensions */
		{2, 1024},
		{3, 1024},
		{4, 64},
		{10, 32}, /* threads of a warp */
		{CU_ATTRIBUTE_MAX_GRID_X, INT32_MAX},
		{CU_ATTRIBUTE_MAX_GRID_X + 1, 65535},
		{CU_ATTRIBUTE_MAX_GRID_X + 2, 65535},
		{CU_ATTRIBUTE_PROCESSORS, 4},
		{CU_ATTRIBUTE_THREADS_PER_PROCESSOR, 2048},
		{CU_ATTRIBUTE_KERNEL_TIMEOUT, 0},
		{CU_ATTRIBUTE_COMPUTE_MODE, 0},
		{CU_ATTRIBUTE_MAJOR, 7},
		{CU_ATTRIBUTE_MINOR, 0},
		{CU_ATTRIBUTE_MAX_SHARED_OPTIN, 98304},
		{CU_ATTRIBUTE_VIRTUAL_MEMORY, 1},
	};
	const char *other = getenv("SOFT_CUDA_ATTRIBUTE"); /* NUMBER=VALUE: of a refused GPU */
	int number;
	size_t i;

	(void)device;
	if (other && sscanf(other, "%d=%d", &number, value) == 2 && number == which)
		return CUDA_SUCCESS;
	for (i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
		if (attributes[i].which == which) {
			*value = attributes[i].value;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
	(void)device;
	*out = &context;
	return is_up ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
	(void)device;
	(void)flags;
	return is_up ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuCtxSetCurrent(CUcontext c)
{
	soft_cuda_context = c;
	return c == &context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* The driver gives at least what it needs, whatever it is asked for. */
static size_t limits[] = {1024, 1 << 20, 8 << 20};

CUresult cuCtxSetLimit(int limit, size_t value)
{
	static const size_t least[] = {0, 1 << 16, 1 << 20};

	if (limit < 0 || limit > CU_LIMIT_MALLOC_HEAP_SIZE)
		return CUDA_ERROR_INVALID_VALUE;
	limits[limit] = value < least[limit] ? least[limit] : value;
	return soft_cuda_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxGetLimit(size_t *value, int limit)
{
	if (limit < 0 || limit > CU_LIMIT_MALLOC_HEAP_SIZE)
		return CUDA_ERROR_INVALID_VALUE;
	*value = limits[limit];
	return soft_cuda_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuGetErrorName(CUresult e, const char **name)
{
	(void)e;
	*name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

/* memory */

CUresult cuMemGetInfo(size_t *left, size_t *all)
{
	*left = MEMORY - taken;
	*all = MEMORY;
	return soft_cuda_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemGetAllocationGranularity(size_t *grain, const struct cu_allocation *what, int option)
{
	(void)option;
	*grain = GRAIN;
	return what->type == 1 && what->location.type == 1 ? CUDA_SUCCESS
							   : CUDA_ERROR_INVALID_VALUE;
}

/* A handle is the descriptor of a memory file plus one. */
CUresult cuMemCreate(CUhandle *out, size_t size, const struct cu_allocation *what, uint64_t flags)
{
	int fd;

	if (what->type != 1 || size == 0 || size % GRAIN || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > MEMORY - taken)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fd = memfd_create("soft-cuda", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	taken += size;
	*out = (CUhandle)fd + 1;
	return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUhandle handle)
{
	return close((int)handle - 1) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult mapped(void *p)
{
	return p == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t align, CUdeviceptr at,
			     uint64_t flags)
{
	void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*out = (uintptr_t)p;
	return size % GRAIN || align || at || flags ? CUDA_ERROR_INVALID_VALUE : mapped(p);
}

CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset, CUhandle handle, uint64_t flags)
{
	if (offset || flags || size % GRAIN)
		return CUDA_ERROR_INVALID_VALUE;
	return mapped(mmap((void *)(uintptr_t)at, size, PROT_NONE, MAP_SHARED | MAP_FIXED,
			   (int)handle - 1, 0));
}

CUresult cuMemUnmap(CUdeviceptr at, size_t size)
{
	return mapped(mmap((void *)(uintptr_t)at, size, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t size, const struct cu_access *access, size_t n)
{
	if (n != 1 || access->location.type != 1 || access->flags != 3)
		return CUDA_ERROR_INVALID_VALUE;
	return mprotect((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE) == 0
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister(void *p, size_t size, unsigned flags)
{
	(void)p;
	return size > 0 && flags & CU_HOST_DEVICEMAP ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostAlloc(void **out, size_t size, unsigned flags)
{
	(void)flags;
	if (soft_cuda_context)
		*out = keep(size);
	return soft_cuda_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *out, void *p, unsigned flags)
{
	*out = (uintptr_t)p;
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *out, size_t size)
{
	if (soft_cuda_context)
		*out = (uintptr_t)keep(size);
	return soft_cuda_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* For an unknown name the CUDA driver returns success and no entry. */
CUresult cuGetProcAddress_v2(const char *name, void **entry, int version, uint64_t flags,
			     int *status)
{
	static const struct {
		const char *name;
		void *entry;
	} entries[] = {
#define ROW(name, since, signature) {#name, (void *)(uintptr_t)name},
		CUDA_ENTRIES(ROW)};
	size_t i;

	(void)version;
	(void)flags;
	*entry = NULL;
	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (strcmp(entries[i].name, name) == 0)
			*entry = entries[i].entry;
	*status = *entry ? 0 : 1;
	return CUDA_SUCCESS;
}
