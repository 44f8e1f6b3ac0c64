/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver's interface in software: what cuda.c asks of it, done on this CPU, kernels by
 * ptx.h. What is tested with it is cuda.c: that it asks for the right things, of the right size, in
 * an order that the interface allows. What a GPU makes of them, and when, it does not show.
 *
 * As documented: addresses are reserved, then mapped, then made accessible; a stream executes in
 * order, beside its caller; nearly every call wants a current context.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda.h"
#include "ptx.h"

#define CUDA_ERROR_NOT_INITIALIZED 3
#define CUDA_ERROR_INVALID_IMAGE 200
#define CUDA_ERROR_INVALID_CONTEXT 201
#define CUDA_ERROR_INVALID_PTX 218
#define GRAIN (UINT64_C(2) << 20)
#define MEMORY (UINT64_C(1) << 30)

#define DECLARE(name, since, signature) CUresult name signature;
CUDA_ENTRIES(DECLARE)
CUresult cuDriverGetVersion(int *version);
CUresult cuGetProcAddress_v2(const char *name, void **entry, int version, uint64_t flags,
			     int *status);

struct function {
	char name[256];
	struct ptx *code;
	struct function *next;
};

struct module {
	char *text;
	struct function *functions;
	struct module *next;
};

/* What goes with the context, as the driver has it: when the process ends. */
struct kept {
	struct kept *next;
	_Alignas(64) uint8_t bytes[];
};

enum work_kind { WORK_COPY, WORK_SET, WORK_LAUNCH };

struct work {
	enum work_kind kind;
	void *dst;
	const void *src;
	size_t n;
	int value;
	struct function *function;
	struct ptx_launch launch;
	void *params;
	struct work *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static struct work *first, **last = &first;
static uint64_t put, done; /* works */
static uint64_t taken;	   /* bytes of memory */
static struct module *modules;
static struct kept *all_kept;
static bool is_up;
static int context;
static __thread CUcontext current;

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

static CUresult enqueue(struct work work)
{
	struct work *w;

	if (!current)
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
	if (!current)
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
	if (!current)
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
	if (current)
		*out = keep(sizeof(uint64_t));
	return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuEventRecord(CUevent event, CUstream s)
{
	(void)s;
	if (!current)
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
	return enqueue((struct work){
		.kind = WORK_SET, .dst = (void *)(uintptr_t)dst, .value = value, .n = n});
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s)
{
	(void)s;
	return enqueue((struct work){.kind = WORK_COPY,
				     .dst = (void *)(uintptr_t)dst,
				     .src = (const void *)(uintptr_t)src,
				     .n = n});
}

/* device and context */

CUresult cuInit(unsigned flags)
{
	(void)flags;
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
		{CU_ATTRIBUTE_MAX_GRID_X, INT32_MAX},
		{CU_ATTRIBUTE_MAX_GRID_X + 1, 65535},
		{CU_ATTRIBUTE_MAX_GRID_X + 2, 65535},
		{CU_ATTRIBUTE_COMPUTE_MODE, 0},
		{CU_ATTRIBUTE_MAJOR, 7},
		{CU_ATTRIBUTE_MINOR, 0},
		{CU_ATTRIBUTE_MAX_SHARED_OPTIN, 98304},
		{CU_ATTRIBUTE_VIRTUAL_MEMORY, 1},
	};
	size_t i;

	(void)device;
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
	current = c;
	return c == &context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxSetLimit(int limit, size_t value)
{
	(void)limit;
	(void)value;
	return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
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
	return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemGetAllocationGranularity(size_t *grain, const struct cu_allocation *what, int option)
{
	(void)option;
	*grain = GRAIN;
	return what->type == 1 && what->location.type == 1 ? CUDA_SUCCESS
							   : CUDA_ERROR_INVALID_VALUE;
}

/* A handle is the descriptor of a memory file, and one. */
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
	if (current)
		*out = keep(size);
	return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *out, void *p, unsigned flags)
{
	*out = (uintptr_t)p;
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *out, size_t size)
{
	if (current)
		*out = (uintptr_t)keep(size);
	return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* modules */

struct link {
	char *log, *text;
	size_t log_size;
};

CUresult cuLinkCreate(unsigned n, int *options, void **values, CUlink *out)
{
	struct link *l = calloc(1, sizeof(*l));
	unsigned i;

	for (i = 0; i < n; i++) {
		if (options[i] == CU_JIT_ERROR_LOG)
			l->log = values[i];
		else if (options[i] == CU_JIT_ERROR_LOG_SIZE)
			l->log_size = (uintptr_t)values[i];
	}
	*out = l;
	return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static bool is_ptx(const char *text)
{
	struct ptx *all = ptx_read(text, NULL);
	bool is = all;

	if (all)
		ptx_free(all);
	return is;
}

CUresult cuLinkAddData(CUlink link, int type, void *data, size_t n, const char *name,
		       unsigned options, int *option, void **values)
{
	struct link *l = link;

	(void)name;
	(void)option;
	(void)values;
	if (type != CU_JIT_INPUT_PTX || options || ((char *)data)[n - 1])
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_ptx(data)) {
		snprintf(l->log, l->log_size, "this is no PTX");
		return CUDA_ERROR_INVALID_PTX;
	}
	l->text = strdup(data);
	return CUDA_SUCCESS;
}

/* A binary, of this kind, is text. */
CUresult cuLinkComplete(CUlink link, void **out, size_t *n)
{
	struct link *l = link;

	if (!l->text)
		return CUDA_ERROR_INVALID_IMAGE;
	*out = l->text;
	*n = strlen(l->text) + 1;
	return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlink link)
{
	struct link *l = link;

	if (l->text)
		memset(l->text, '?', strlen(l->text));
	free(l->text);
	free(l);
	return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, int *options,
			    void **values)
{
	struct module *m;

	(void)options;
	(void)values;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (n)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_ptx(image))
		return CUDA_ERROR_INVALID_IMAGE;
	m = calloc(1, sizeof(*m));
	m->text = strdup(image);
	m->next = modules;
	modules = m;
	*out = m;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
	struct module *m = module;
	struct function *f;
	struct ptx *code;

	for (f = m->functions; f && strcmp(f->name, name) != 0;)
		f = f->next;
	if (!f) {
		code = ptx_read(m->text, name);
		if (!code)
			return CUDA_ERROR_NOT_FOUND;
		f = calloc(1, sizeof(*f));
		*f = (struct function){.code = code, .next = m->functions};
		snprintf(f->name, sizeof(f->name), "%s", name);
		m->functions = f;
	}
	*out = f;
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
	struct module *m = module, **at = &modules;
	struct function *f;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	while ((f = m->functions)) {
		m->functions = f->next;
		ptx_free(f->code);
		free(f);
	}
	free(m->text);
	free(m);
	return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *out, int which, CUfunction function)
{
	struct function *f = function;

	*out = which == CU_FUNC_SHARED_SIZE_BYTES ? (int)ptx_shared(f->code) : 1024;
	return which == CU_FUNC_SHARED_SIZE_BYTES || which == CU_FUNC_MAX_THREADS_PER_BLOCK
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetAttribute(CUfunction f, int which, int value)
{
	(void)f;
	return which == CU_FUNC_MAX_DYNAMIC_SHARED && value >= 0 ? CUDA_SUCCESS
								 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t i, size_t *at, size_t *size)
{
	struct function *f = function;
	uint32_t offset, n;

	if (!ptx_param(f->code, (uint32_t)i, &offset, &n))
		return CUDA_ERROR_INVALID_VALUE;
	*at = offset;
	*size = n;
	return CUDA_SUCCESS;
}

/* EXTRA: a buffer, and its size. */
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			unsigned by, unsigned bz, unsigned shared, CUstream s, void **params,
			void **extra)
{
	struct work w = {.kind = WORK_LAUNCH,
			 .function = function,
			 .launch = {.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared}};
	uint32_t at, size, wanted = 0, i;
	size_t n = 0;

	(void)s;
	for (i = 0; ptx_param(w.function->code, i, &at, &size); i++)
		wanted = at + size;
	if (params || !gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	if (extra) {
		if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4])
			return CUDA_ERROR_INVALID_VALUE;
		n = *(size_t *)extra[3];
		w.params = malloc(n);
		memcpy(w.params, extra[1], n);
	}
	w.launch.params = w.params;
	return n < wanted ? CUDA_ERROR_INVALID_VALUE : enqueue(w);
}

/* Not found is a success with nothing in it. */
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
