/* SPDX-License-Identifier: MIT */
/* Memory of the program's own that it has mapped: it keeps its address, and GPU kernels reach it at
 * another. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define PAGE 4096u
#define BYTES (3 * PAGE)
#define N (BYTES / 4)
#define LARGE ((size_t)512 << 10)
#define MAP 2u /* CU_MEMHOSTREGISTER_DEVICEMAP */

enum { MAPPED_HOST_MEMORY = 19, UNIFIED = 41, SAME_ADDRESS = 91, REGISTERED_MEMORY = 99 };
enum { POINTER_CONTEXT = 1, POINTER_TYPE, POINTER_DEVICE, POINTER_HOST, POINTER_ID = 7 };
enum { POINTER_START = 11, POINTER_SIZE, TYPE_HOST = 1 };

static bool can_map;

/* Begins a check, and finds whether memory can be mapped. */
static bool begin(void)
{
	int mapped, registered;

	CHECK(sample_begin());
	OK(cuDeviceGetAttribute(&mapped, MAPPED_HOST_MEMORY, 0));
	OK(cuDeviceGetAttribute(&registered, REGISTERED_MEMORY, 0));
	CHECK(mapped == registered);
	can_map = mapped == 1;
	return true;
}

static bool load(CUfunction *f, const char *name)
{
	CUmodule module;

	OK(cuModuleLoadData(&module, sample_ptx));
	OK(cuModuleGetFunction(f, module, name));
	return true;
}

static void draw_bytes(uint8_t *p, size_t n)
{
	while (n-- > 0)
		p[n] = (uint8_t)sample_draw(256);
}

/* Memory of malloc() that is whole pages, as NVIDIA's sample simpleZeroCopy makes it. */
struct memory {
	uint8_t *all, *at;
};

static bool make(struct memory *m, size_t bytes)
{
	m->all = malloc(bytes + PAGE);
	CHECK(m->all);
	m->at = m->all + (PAGE - (uintptr_t)m->all % PAGE) % PAGE;
	return true;
}

/* Memory with contents, which is mapped at *AT. */
static bool make_mapped(struct memory *m, CUdeviceptr *at)
{
	CHECK(make(m, BYTES));
	draw_bytes(m->at, BYTES);
	OK(cuMemHostRegister_v2(m->at, BYTES, MAP));
	OK(cuMemHostGetDevicePointer_v2(at, m->at, 0));
	return true;
}

/* What GPU kernels see there. The process has it at the same address. */
static uint8_t *as_seen(CUdeviceptr at)
{
	return (uint8_t *)(uintptr_t)at;
}

static bool by_kernels(void)
{
	struct memory m[3];
	CUdeviceptr at[3], inner;
	uint32_t i, k, n = N;
	float *x[3];
	CUfunction add;
	int same;

	CHECK(begin() && load(&add, "vector_add"));
	OK(cuDeviceGetAttribute(&same, SAME_ADDRESS, 0));
	CHECK(same == 0);
	for (i = 0; i < 3; i++) {
		CHECK(make(&m[i], BYTES));
		x[i] = (float *)m[i].at;
		for (k = 0; k < N; k++)
			x[i][k] = (float)sample_draw(1 << 20);
		if (can_map)
			OK(cuMemHostRegister_v2(x[i], BYTES, MAP));
		else
			CHECK(cuMemHostRegister_v2(x[i], BYTES, MAP) == CUDA_ERROR_NOT_SUPPORTED);
		for (k = 0; k < 100 && can_map; k++) {
			OK(cuMemHostGetDevicePointer_v2(&at[i], x[i], 0));
			OK(cuMemHostGetDevicePointer_v2(&inner, x[i] + k, 0));
			CHECK(at[i] != (uintptr_t)x[i] && inner == at[i] + 4 * k);
		}
	}
	for (i = 0; i < 2 && can_map; i++) {
		OK(cuLaunchKernel(add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL,
				  (void *[]){&at[2], &at[0], &at[1], &n}, NULL));
		OK(cuStreamSynchronize(NULL));
		for (k = 0; k < N; k++)
			CHECK(x[2][k] == x[0][k] + x[1][k]);
		for (k = 0; k < N; k++)
			x[0][k] = (float)sample_draw(1 << 20);
	}
	for (i = 0; i < 3; i++) {
		if (can_map)
			OK(cuMemHostUnregister(x[i]));
		free(m[i].all);
	}
	return sample_end();
}

static bool tells(CUdeviceptr at, CUdeviceptr host, CUdeviceptr device, CUdeviceptr start,
		  uint64_t *id)
{
	uint64_t seen[5], context;
	CUcontext current;
	int type = 0;

	OK(cuPointerGetAttribute(&type, POINTER_TYPE, at));
	OK(cuPointerGetAttribute(&seen[0], POINTER_HOST, at));
	OK(cuPointerGetAttribute(&seen[1], POINTER_DEVICE, at));
	OK(cuPointerGetAttribute(&seen[2], POINTER_START, at));
	OK(cuPointerGetAttribute(&seen[3], POINTER_SIZE, at));
	OK(cuPointerGetAttribute(id, POINTER_ID, at));
	OK(cuPointerGetAttribute(&context, POINTER_CONTEXT, at));
	OK(cuCtxGetCurrent(&current));
	CHECK(type == TYPE_HOST && seen[0] == host && seen[1] == device && seen[2] == start &&
	      seen[3] == BYTES && context == (uintptr_t)current);
	return true;
}

static bool by_addresses(void)
{
	CUdeviceptr at, base, host;
	struct memory m = {0};
	uint64_t id[2];
	size_t bytes;
	unsigned flags;

	CHECK(begin());
	if (!can_map)
		return sample_end();
	CHECK(make_mapped(&m, &at));
	host = (uintptr_t)m.at;
	CHECK(tells(host + 40, host + 40, at + 40, host, &id[0]));
	CHECK(tells(at + 50, host + 50, at + 50, at, &id[1]));
	CHECK(id[0] == id[1]);
	OK(cuMemGetAddressRange_v2(&base, &bytes, at + 60));
	CHECK(base == at && bytes == BYTES);
	CHECK(cuMemGetAddressRange_v2(&base, &bytes, host) == CUDA_ERROR_NOT_FOUND);
	CHECK(cuMemHostGetDevicePointer_v2(&base, as_seen(at), 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemHostGetDevicePointer_v2(&base, m.at + BYTES, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemHostGetFlags(&flags, m.at) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFreeHost(m.at) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFreeHost(as_seen(at)) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFree_v2(at) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemHostUnregister(as_seen(at)) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	CHECK(cuMemHostUnregister(m.at + PAGE) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemHostUnregister(m.at));
	CHECK(cuMemHostUnregister(m.at) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	CHECK(cuMemHostGetDevicePointer_v2(&base, m.at, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemsetD8_v2(at, 0, 4) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuPointerGetAttribute(&base, POINTER_HOST, at) == CUDA_ERROR_INVALID_VALUE);
	free(m.all);
	return sample_end();
}

/* Copies and sets of each address that it has. */
static bool by_copies(void)
{
	uint8_t model[BYTES], seen[BYTES];
	CUdeviceptr at, x, host;
	struct memory m = {0};
	int unified;

	CHECK(begin());
	if (!can_map)
		return sample_end();
	CHECK(make_mapped(&m, &at));
	host = (uintptr_t)m.at;
	memcpy(model, m.at, BYTES);
	OK(cuMemAlloc_v2(&x, BYTES));
	OK(cuMemcpyHtoD_v2(x, m.at + 1, BYTES - 1));
	OK(cuMemcpyDtoH_v2(seen, x, BYTES - 1));
	CHECK(memcmp(seen, model + 1, BYTES - 1) == 0);
	OK(cuMemcpyDtoH_v2(seen, at + 7, BYTES - 7));
	CHECK(memcmp(seen, model + 7, BYTES - 7) == 0);
	draw_bytes(model, BYTES);
	OK(cuMemcpyHtoD_v2(at, model, BYTES));
	CHECK(memcmp(m.at, model, BYTES) == 0);
	OK(cuMemcpyDtoD_v2(x, at, BYTES));
	memset(m.at, 0, BYTES);
	OK(cuMemcpyDtoH_v2(m.at + 3, x + 3, BYTES - 3));
	CHECK(m.at[2] == 0 && memcmp(m.at + 3, model + 3, BYTES - 3) == 0);
	OK(cuMemsetD8_v2(at + 5, 17, BYTES - 5));
	memset(model + 5, 17, BYTES - 5);
	CHECK(memcmp(m.at + 5, model + 5, BYTES - 5) == 0);
	OK(cuMemcpyHtoD_v2(at, m.at, BYTES)); /* to itself */
	CHECK(cuMemcpyHtoD_v2(at + 1, m.at, BYTES - 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemsetD8_v2(at, 0, BYTES + 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemsetD8_v2(host, 0, 4) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyDtoH_v2(seen, host, 4) == CUDA_ERROR_INVALID_VALUE);
	OK(cuDeviceGetAttribute(&unified, UNIFIED, 0));
	if (unified) {
		OK(cuMemcpy(x, host, BYTES));
		OK(cuMemcpy((uintptr_t)seen, x, BYTES));
		CHECK(memcmp(seen, m.at, BYTES) == 0);
		draw_bytes(seen, BYTES);
		OK(cuMemcpy(x, (uintptr_t)seen, BYTES));
		OK(cuMemcpy(at, x, BYTES));
		CHECK(memcmp(seen, m.at, BYTES) == 0);
	}
	OK(cuMemHostUnregister(m.at));
	free(m.all);
	return sample_end();
}

/* Copies of other memory, which go through the window, leave it alone. */
static bool beside_copies(void)
{
	const size_t each = LARGE / 2;
	uint8_t *other = calloc(1, each);
	struct memory m = {0};
	CUdeviceptr x;
	uint32_t i;

	CHECK(begin() && other && make(&m, LARGE));
	if (can_map) {
		memset(m.at, 1, LARGE);
		OK(cuMemHostRegister_v2(m.at, LARGE, MAP));
		OK(cuMemAlloc_v2(&x, each));
		for (i = 0; i < 200; i++)
			OK(cuMemcpyHtoDAsync_v2(x, other, each, NULL));
		CHECK(m.at[0] == 1 && memcmp(m.at, m.at + 1, LARGE - 1) == 0);
		OK(cuMemHostUnregister(m.at));
	}
	free(m.all);
	free(other);
	return sample_end();
}

/* Work that ends when the program says so. */
static _Atomic uint32_t *flag;

static bool shut(CUfunction wait_for)
{
	OK(cuMemHostAlloc((void **)&flag, sizeof(*flag), MAP));
	OK(cuLaunchKernel(wait_for, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&flag}, NULL));
	return true;
}

/* Copies that name a stream take and leave their data when their turn comes. */
static bool later(void)
{
	struct memory to, from;
	CUdeviceptr at[2], x, y;
	CUfunction wait_for;
	uint8_t model[BYTES], old[BYTES], seen[BYTES];
	bool is_old;
	CUresult e;

	CHECK(begin());
	if (!can_map)
		return sample_end();
	CHECK(make_mapped(&to, &at[0]) && make_mapped(&from, &at[1]));
	CHECK(load(&wait_for, "wait_for"));
	memcpy(old, to.at, BYTES);
	OK(cuMemAlloc_v2(&x, BYTES));
	OK(cuMemAlloc_v2(&y, BYTES));
	draw_bytes(model, BYTES);
	OK(cuMemcpyHtoD_v2(x, model, BYTES));
	CHECK(shut(wait_for));
	OK(cuMemcpyDtoHAsync_v2(to.at, x, BYTES, NULL));
	OK(cuMemcpyHtoDAsync_v2(y, from.at, BYTES, NULL));
	e = cuStreamQuery(NULL);
	is_old = memcmp(to.at, old, BYTES) == 0;
	memcpy(from.at, model, BYTES);
	atomic_store(flag, 1);
	OK(cuStreamSynchronize(NULL));
	CHECK(e == CUDA_ERROR_NOT_READY && is_old && memcmp(to.at, model, BYTES) == 0);
	OK(cuMemcpyDtoH_v2(seen, y, BYTES));
	CHECK(memcmp(seen, model, BYTES) == 0);
	OK(cuMemHostUnregister(to.at));
	OK(cuMemHostUnregister(from.at));
	free(to.all);
	free(from.all);
	return sample_end();
}

static void *open_later(void *arg)
{
	usleep(20000); /* a call that does not wait has returned, or this tries nothing */
	atomic_store(flag, 1);
	return arg;
}

/* Copies of memory of which a part is mapped, and of rows of it, take what earlier work leaves. */
static bool in_part(void)
{
	struct cuda_copy_3d rows = {.width = PAGE, .rows = 3, .layers = 1};
	uint8_t seen[3 * PAGE];
	struct memory m = {0};
	CUfunction wait_for;
	pthread_t thread;
	CUdeviceptr at, x;
	uint32_t i, k;
	CUresult e;

	CHECK(begin());
	if (!can_map)
		return sample_end();
	CHECK(make(&m, 3 * PAGE) && load(&wait_for, "wait_for"));
	OK(cuMemAlloc_v2(&x, 6 * PAGE));
	rows.from.type = 1;
	rows.from.host = m.at;
	rows.from.pitch = PAGE;
	rows.to.type = 2;
	rows.to.device = x;
	rows.to.pitch = 2 * PAGE;
	for (i = 0; i < 2; i++) {
		memset(m.at, 5, 3 * PAGE);
		OK(cuMemHostRegister_v2(m.at + PAGE, PAGE, MAP));
		OK(cuMemHostGetDevicePointer_v2(&at, m.at + PAGE, 0));
		CHECK(shut(wait_for));
		OK(cuMemsetD8Async(at, 6, PAGE, NULL));
		CHECK(pthread_create(&thread, NULL, open_later, NULL) == 0);
		e = i ? cuMemcpy3D_v2(&rows) : cuMemcpyHtoD_v2(x, m.at, 3 * PAGE);
		CHECK(pthread_join(thread, NULL) == 0 && e == CUDA_SUCCESS);
		for (k = 0; k < 3; k++)
			OK(cuMemcpyDtoH_v2(seen + k * PAGE, x + (1 + i) * k * PAGE, PAGE));
		CHECK(seen[0] == 5 && seen[PAGE] == 6 && seen[2 * PAGE - 1] == 6);
		CHECK(seen[2 * PAGE] == 5);
		OK(cuMemHostUnregister(m.at + PAGE));
		OK(cuMemFreeHost((void *)flag));
	}
	free(m.all);
	return sample_end();
}

/* Its contents stay, with what earlier work writes to it; and what comes later is not seen on the
 * other side. */
static bool until_it_ends(void)
{
	uint8_t model[BYTES];
	struct memory m = {0};
	CUdeviceptr at;
	CUfunction wait_for;
	pthread_t thread;
	uint32_t i;

	CHECK(begin());
	if (!can_map)
		return sample_end();
	CHECK(make(&m, BYTES) && load(&wait_for, "wait_for"));
	draw_bytes(m.at, BYTES);
	for (i = 0; i < 20; i++) {
		memcpy(model, m.at, BYTES);
		OK(cuMemHostRegister_v2(m.at, BYTES, MAP));
		OK(cuMemHostGetDevicePointer_v2(&at, m.at, 0));
		CHECK(memcmp(as_seen(at), model, BYTES) == 0);
		m.at[PAGE]++;
		CHECK(as_seen(at)[PAGE] == m.at[PAGE]);
		CHECK(shut(wait_for) && pthread_create(&thread, NULL, open_later, NULL) == 0);
		memset(model, (int)i, BYTES);
		OK(cuMemsetD8Async(at, (uint8_t)i, BYTES, NULL));
		OK(cuMemHostUnregister(m.at));
		CHECK(pthread_join(thread, NULL) == 0);
		CHECK(memcmp(m.at, model, BYTES) == 0);
		draw_bytes(m.at, BYTES);
		CHECK(memcmp(as_seen(at), model, BYTES) == 0);
		OK(cuMemFreeHost((void *)flag));
	}
	free(m.all);
	return sample_end();
}

/* How many allocations of LARGE bytes the window has room for. */
static bool count_room(uint32_t *n)
{
	uint8_t *p[64];
	uint32_t i;
	CUresult e;

	*n = 0;
	do {
		e = cuMemHostAlloc((void **)&p[*n], LARGE, MAP);
		*n += e == CUDA_SUCCESS;
	} while (e == CUDA_SUCCESS && *n < 64);
	for (i = 0; i < *n; i++)
		OK(cuMemFreeHost(p[i]));
	return true;
}

static bool is_refused(uint8_t *at, size_t bytes, CUresult error)
{
	CUdeviceptr x;

	CHECK(cuMemHostRegister_v2(at, bytes, MAP) == error);
	CHECK(cuMemHostGetDevicePointer_v2(&x, at, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemHostUnregister(at) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	return true;
}

static uint8_t *map_pages(int rights, int how, int fd)
{
	return mmap(NULL, 5 * PAGE, rights, how, fd, 0);
}

/* Whatever cannot be mapped stays what it is. */
static bool refused(void)
{
	const int own = MAP_PRIVATE | MAP_ANONYMOUS, both = PROT_READ | PROT_WRITE;
	uint8_t *p, *q, model[5 * PAGE];
	int fd = memfd_create("refused", 0);
	uint32_t n[2];
	CUdeviceptr at;

	CHECK(begin() && fd >= 0 && ftruncate(fd, 5 * PAGE) == 0);
	if (!can_map) {
		close(fd);
		return sample_end();
	}
	CHECK(count_room(&n[0]));
	p = map_pages(both, own, -1);
	draw_bytes(model, sizeof(model));
	memcpy(p, model, sizeof(model));
	CHECK(is_refused(p + PAGE, SIZE_MAX / PAGE * PAGE, CUDA_ERROR_INVALID_VALUE));
	CHECK(mprotect(p + PAGE, PAGE, PROT_READ) == 0);
	CHECK(is_refused(p, 5 * PAGE, CUDA_ERROR_NOT_SUPPORTED));
	CHECK(mprotect(p + PAGE, PAGE, PROT_NONE) == 0);
	CHECK(is_refused(p, 5 * PAGE, CUDA_ERROR_NOT_SUPPORTED));
	CHECK(mprotect(p + PAGE, PAGE, both) == 0 && munmap(p + 3 * PAGE, PAGE) == 0);
	CHECK(is_refused(p, 5 * PAGE, CUDA_ERROR_NOT_SUPPORTED));
	CHECK(is_refused(p + 3 * PAGE, PAGE, CUDA_ERROR_NOT_SUPPORTED));
	/* beside all of that there are pages that can be */
	OK(cuMemHostRegister_v2(p + PAGE, 2 * PAGE, MAP));
	CHECK(cuMemHostRegister_v2(p + 2 * PAGE, PAGE, MAP) ==
	      CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	CHECK(cuMemHostRegister_v2(p, 2 * PAGE, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	OK(cuMemHostGetDevicePointer_v2(&at, p + PAGE, 0));
	CHECK(cuMemHostRegister_v2(as_seen(at), PAGE, MAP) ==
	      CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	OK(cuMemHostUnregister(p + PAGE));
	CHECK(is_refused(as_seen(at), PAGE, CUDA_ERROR_NOT_SUPPORTED)); /* the window itself */
	CHECK(memcmp(p, model, 3 * PAGE) == 0);
	CHECK(memcmp(p + 4 * PAGE, model + 4 * PAGE, PAGE) == 0);
	munmap(p, 5 * PAGE);

	p = map_pages(both, MAP_SHARED, fd);
	q = map_pages(both, MAP_PRIVATE, fd);
	CHECK(is_refused(p, PAGE, CUDA_ERROR_NOT_SUPPORTED));
	CHECK(is_refused(q, PAGE, CUDA_ERROR_NOT_SUPPORTED));
	munmap(p, 5 * PAGE);
	munmap(q, 5 * PAGE);
	p = map_pages(both, MAP_SHARED | MAP_ANONYMOUS, -1);
	CHECK(is_refused(p, PAGE, CUDA_ERROR_NOT_SUPPORTED));
	munmap(p, 5 * PAGE);
	p = model - (uintptr_t)model % PAGE; /* the stack, also below this function's */
	CHECK(is_refused(p - 16 * PAGE, 17 * PAGE, CUDA_ERROR_NOT_SUPPORTED));
	p = mmap(NULL, (size_t)1 << 30, both, own | MAP_NORESERVE, -1, 0);
	CHECK(p != MAP_FAILED);
	CHECK(is_refused(p, (size_t)1 << 30, CUDA_ERROR_OUT_OF_MEMORY));
	munmap(p, (size_t)1 << 30);
	close(fd);
	CHECK(count_room(&n[1]) && n[0] == n[1] && n[0] > 0);
	return sample_end();
}

static void *run_refused(void *out)
{
	CUcontext c;
	bool *ok = out;

	*ok = cuDevicePrimaryCtxRetain(&c, 0) == CUDA_SUCCESS && refused() &&
	      cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS;
	return NULL;
}

/* The same where the stack is memory as malloc() has it. */
static bool refused_in_thread(void)
{
	pthread_t thread;
	bool ok = false;

	CHECK(pthread_create(&thread, NULL, run_refused, &ok) == 0);
	CHECK(pthread_join(thread, NULL) == 0 && ok);
	return true;
}

/* A context's end is that of what was registered in it. */
static bool with_context(void)
{
	uint8_t model[BYTES];
	CUcontext context;
	CUdeviceptr at;
	uint32_t i, n[2];
	struct memory m = {0};

	CHECK(begin());
	if (!can_map)
		return sample_end();
	CHECK(count_room(&n[0]) && make(&m, BYTES));
	for (i = 0; i < 3; i++) {
		draw_bytes(m.at, BYTES);
		memcpy(model, m.at, BYTES);
		OK(cuCtxCreate_v2(&context, 0, 0));
		OK(cuMemHostRegister_v2(m.at, BYTES, MAP));
		OK(cuMemHostGetDevicePointer_v2(&at, m.at, 0));
		OK(cuMemsetD8Async(at + PAGE, 3, PAGE, NULL));
		memset(model + PAGE, 3, PAGE);
		OK(cuCtxDestroy_v2(context));
		CHECK(memcmp(m.at, model, BYTES) == 0);
		memset(m.at, 4, BYTES);
		CHECK(memcmp(as_seen(at), model, BYTES) == 0);
		CHECK(cuMemHostUnregister(m.at) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	}
	free(m.all);
	CHECK(count_room(&n[1]) && n[0] == n[1]);
	return sample_end();
}

/* A child has a copy of its own. */
static bool in_child(void)
{
	uint8_t model[BYTES];
	struct memory m = {0};
	CUdeviceptr at;
	int status;
	pid_t pid;

	CHECK(begin());
	if (!can_map)
		return sample_end();
	CHECK(make_mapped(&m, &at));
	memcpy(model, m.at, BYTES);
	pid = fork();
	if (pid == 0) {
		status = memcmp(m.at, model, BYTES) != 0 ||
			 cuMemHostUnregister(m.at) != CUDA_ERROR_NOT_INITIALIZED;
		memset(m.at, 1, BYTES);
		free(m.all);
		_exit(status);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(memcmp(m.at, model, BYTES) == 0);
	OK(cuMemsetD8_v2(at, 7, BYTES));
	CHECK(m.at[0] == 7 && m.at[BYTES - 1] == 7);
	OK(cuMemHostUnregister(m.at));
	free(m.all);
	return sample_end();
}

/* A child's handlers wait for this, before those of the library, if it has a pipe. */
static int go[2] = {-1, -1};

static void wait_for_go(void)
{
	char c;

	if (go[0] >= 0 && read(go[0], &c, 1) != 1)
		_exit(2);
}

__attribute__((constructor)) static void begin_handlers(void)
{
	pthread_atfork(NULL, NULL, wait_for_go);
}

/* It has what was there at the fork, whatever its parent and the VF do before it runs. */
static bool as_of_the_fork(void)
{
	uint8_t model[BYTES];
	struct memory m = {0};
	CUdeviceptr at;
	int status;
	pid_t pid;

	CHECK(begin());
	if (!can_map)
		return sample_end();
	CHECK(make_mapped(&m, &at) && pipe(go) == 0);
	memcpy(model, m.at, BYTES);
	pid = fork();
	if (pid == 0)
		_exit(memcmp(m.at, model, BYTES) != 0);
	memset(m.at, 1, BYTES);
	OK(cuMemHostUnregister(m.at));
	memset(as_seen(at), 2, BYTES);
	CHECK(write(go[1], "", 1) == 1);
	close(go[0]);
	close(go[1]);
	go[0] = -1;
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	free(m.all);
	return sample_end();
}

/* What a program makes of registered memory, which CUDA forbids. */
enum { GONE, CLOSED, READ_ONLY, OTHER, FROM_FILE, STILL, KINDS };
#define EACH 40u /* pages of each kind, in turn */
#define MANY ((size_t)EACH * KINDS * PAGE)

static bool spoil(uint8_t *p, int fd)
{
	const int both = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	uint32_t i;

	for (i = 0; i < EACH; i++, p += KINDS * PAGE) {
		CHECK(munmap(p + GONE * PAGE, PAGE) == 0);
		CHECK(mprotect(p + CLOSED * PAGE, PAGE, PROT_NONE) == 0);
		CHECK(mprotect(p + READ_ONLY * PAGE, PAGE, PROT_READ) == 0);
		CHECK(mmap(p + OTHER * PAGE, PAGE, both, own, -1, 0) == p + OTHER * PAGE);
		CHECK(mmap(p + FROM_FILE * PAGE, PAGE, both, MAP_SHARED | MAP_FIXED, fd,
			   i * PAGE) == p + FROM_FILE * PAGE);
		memset(p + OTHER * PAGE, 7, PAGE);
		memset(p + FROM_FILE * PAGE, 8, PAGE);
	}
	return true;
}

static bool is_filled(const uint8_t *p, uint8_t value)
{
	return p[0] == value && memcmp(p, p + 1, PAGE - 1) == 0;
}

/* Whether it has that still, and the VF's window AT nowhere in what is left. */
static bool is_spoilt(uint8_t *p, int fd, uint8_t *window)
{
	uint8_t seen, *q;
	uint32_t i;
	int ends[2];

	CHECK(pipe(ends) == 0);
	if (window)
		memset(window, 3, MANY);
	for (i = 0; i < EACH; i++) {
		q = p + i * KINDS * PAGE;
		CHECK(msync(q + GONE * PAGE, PAGE, MS_ASYNC) == -1 && errno == ENOMEM);
		CHECK(write(ends[1], q + CLOSED * PAGE, 1) == -1 && errno == EFAULT);
		CHECK(write(ends[1], "", 1) == 1);
		CHECK(read(ends[0], q + READ_ONLY * PAGE, 1) == -1 && errno == EFAULT);
		CHECK(read(ends[0], &seen, 1) == 1);
		CHECK(mprotect(q + CLOSED * PAGE, PAGE, PROT_READ) == 0);
		CHECK(is_filled(q + CLOSED * PAGE, 5) && is_filled(q + READ_ONLY * PAGE, 5));
		CHECK(is_filled(q + OTHER * PAGE, 7) && is_filled(q + FROM_FILE * PAGE, 8));
		CHECK(is_filled(q + STILL * PAGE, 5));
		q[FROM_FILE * PAGE] = 9;
		CHECK(pread(fd, &seen, 1, i * PAGE) == 1 && seen == 9);
		q[FROM_FILE * PAGE] = 8;
		memset(q + STILL * PAGE, 6, PAGE);
	}
	for (i = 0; window && i < MANY; i++)
		CHECK(window[i] == 3);
	close(ends[0]);
	close(ends[1]);
	return true;
}

enum { BY_CALL, BY_CONTEXT, BY_FORK, ENDS };

static bool ends_spoilt(uint8_t *p, int fd, uint8_t *window, int how, CUcontext context)
{
	int status;
	pid_t pid;

	if (how == BY_FORK) {
		pid = fork();
		if (pid == 0)
			_exit(!is_spoilt(p, fd, NULL));
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	}
	if (how != BY_CONTEXT)
		OK(cuMemHostUnregister(p));
	CHECK(how == BY_CONTEXT || is_spoilt(p, fd, window));
	OK(cuCtxDestroy_v2(context));
	return how != BY_CONTEXT || is_spoilt(p, fd, window);
}

/* Pages that the program has unmapped, protected or replaced without a word stay so. */
static bool spoilt(void)
{
	int fd = memfd_create("spoilt", 0), how;
	CUcontext context;
	CUdeviceptr at;
	uint8_t *p;

	CHECK(begin() && fd >= 0 && ftruncate(fd, EACH * PAGE) == 0);
	for (how = 0; how < ENDS && can_map; how++) {
		p = mmap(NULL, MANY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(p != MAP_FAILED);
		memset(p, 5, MANY);
		OK(cuCtxCreate_v2(&context, 0, 0));
		OK(cuMemHostRegister_v2(p, MANY, MAP));
		OK(cuMemHostGetDevicePointer_v2(&at, p, 0));
		CHECK(spoil(p, fd) && ends_spoilt(p, fd, as_seen(at), how, context));
		munmap(p, MANY);
	}
	close(fd);
	return sample_end();
}

static struct memory watched;
static _Atomic bool ended;

static void *watch(void *arg)
{
	const volatile uint64_t *p = (const volatile uint64_t *)watched.at;
	bool *ok = arg;
	uint32_t i;

	while (!atomic_load(&ended))
		for (i = 0; i < BYTES / 8; i += 8)
			*ok &= p[i] == UINT64_C(0x0101010101010101);
	return NULL;
}

/* Threads may read it all the time; and children begin at any time. */
static bool while_read(void)
{
	pthread_t thread;
	bool ok = true;
	int status;
	pid_t pid;
	uint32_t i;

	CHECK(begin());
	if (!can_map)
		return sample_end();
	CHECK(make(&watched, BYTES));
	memset(watched.at, 1, BYTES);
	atomic_store(&ended, false);
	CHECK(pthread_create(&thread, NULL, watch, &ok) == 0);
	for (i = 0; i < 500; i++) {
		OK(cuMemHostRegister_v2(watched.at, BYTES, MAP));
		OK(cuMemHostUnregister(watched.at));
	}
	atomic_store(&ended, true);
	CHECK(pthread_join(thread, NULL) == 0 && ok);
	for (i = 0; i < 20; i++) {
		OK(cuMemHostRegister_v2(watched.at, BYTES, MAP));
		pid = fork();
		if (pid == 0)
			_exit(watched.at[0] != 1 || watched.at[BYTES - 1] != 1);
		OK(cuMemHostUnregister(watched.at));
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	}
	free(watched.all);
	return sample_end();
}

/* What is in ROOM: memory that is registered, at AT in it. */
struct part {
	size_t at, bytes;
	uint8_t *host;
	CUdeviceptr device;
};
#define ROOM (6 * PAGE)

static bool register_part(uint8_t *room, struct part *p)
{
	p->host = room + p->at;
	OK(cuMemHostRegister_v2(p->host, p->bytes, MAP));
	OK(cuMemHostGetDevicePointer_v2(&p->device, p->host, 0));
	return true;
}

/* Both sides write to P, and see what the other has written; what is beside it stays as in MODEL.
 */
static bool is_shared(uint8_t *room, uint8_t *model, const struct part *p, CUdeviceptr memory)
{
	size_t i;

	draw_bytes(p->host, p->bytes);
	memcpy(model + p->at, p->host, p->bytes);
	OK(cuMemcpyDtoD_v2(memory, p->device, p->bytes));
	OK(cuMemsetD8_v2(p->device, 0, p->bytes));
	for (i = 0; i < p->bytes; i++)
		CHECK(p->host[i] == 0);
	OK(cuMemcpyDtoDAsync_v2(p->device, memory, p->bytes, NULL));
	OK(cuStreamSynchronize(NULL));
	CHECK(memcmp(room, model, ROOM) == 0);
	OK(cuMemcpyHtoD_v2(memory, p->host, p->bytes));
	memset(p->host, 1, p->bytes);
	OK(cuMemcpyDtoH_v2(p->host, memory, p->bytes));
	OK(cuStreamSynchronize(NULL));
	CHECK(memcmp(room, model, ROOM) == 0);
	return true;
}

/* Parts of pages, as malloc() gives them: alone, and two in a page, which end in each order. */
static bool parts(void)
{
	static const size_t alone[][2] = {{64, PAGE},	   {0, PAGE + 64},     {16, 4},
					  {PAGE - 50, 99}, {13, 3 * PAGE + 7}, {2 * PAGE - 3, 2},
					  {PAGE + 1, 1}};
	struct part p[2];
	uint8_t *room, *model = malloc(ROOM);
	CUdeviceptr memory;
	uint32_t i;

	CHECK(begin() && model && posix_memalign((void **)&room, PAGE, ROOM) == 0);
	OK(cuMemAlloc_v2(&memory, ROOM));
	draw_bytes(model, ROOM);
	memcpy(room, model, ROOM);
	for (i = 0; i < sizeof(alone) / sizeof(alone[0]) && can_map; i++) {
		p[0] = (struct part){.at = alone[i][0], .bytes = alone[i][1]};
		CHECK(register_part(room, &p[0]) && is_shared(room, model, &p[0], memory));
		CHECK(p[0].bytes == 1 ||
		      cuMemHostUnregister(p[0].host + 1) == CUDA_ERROR_INVALID_VALUE);
		OK(cuMemHostUnregister(p[0].host));
		CHECK(memcmp(room, model, ROOM) == 0);
	}
	for (i = 0; i < 2 && can_map; i++) {
		p[0] = (struct part){.at = 100, .bytes = PAGE + 900};
		p[1] = (struct part){.at = PAGE + 1000, .bytes = 3 * PAGE};
		CHECK(register_part(room, &p[0]) && register_part(room, &p[1]));
		CHECK(is_shared(room, model, &p[0], memory));
		CHECK(is_shared(room, model, &p[1], memory));
		CHECK(cuMemHostRegister_v2(room + PAGE + 999, 2, MAP) ==
		      CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
		OK(cuMemHostUnregister(p[i].host));
		CHECK(is_shared(room, model, &p[1 - i], memory));
		OK(cuMemHostUnregister(p[1 - i].host));
		CHECK(memcmp(room, model, ROOM) == 0);
	}
	free(room);
	free(model);
	return sample_end();
}

static volatile uint32_t *sign[2]; /* the GPU kernel's, and the program's */

static void *answer(void *wrong)
{
	while (*sign[0] == 0)
		sched_yield();
	*(bool *)wrong = *sign[0] != 258;
	*sign[1] = 1027;
	return NULL;
}

/* A GPU kernel and a thread of the program wait for each other, by parts of pages, and a variable
 * of the stack. */
static bool flags(void)
{
	static const char text[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
				   ".visible .entry meet(.param .u64 mine, .param .u64 yours)\n{\n"
				   "\t.reg .u64 %d<2>;\n\t.reg .u32 %r;\n\t.reg .pred %p;\n"
				   "\tld.param.u64 %d0, [mine];\n\tld.param.u64 %d1, [yours];\n"
				   "\tmov.u32 %r, 258;\n\tst.volatile.global.u32 [%d0], %r;\n"
				   "again:\n\tld.volatile.global.u32 %r, [%d1];\n"
				   "\tsetp.ne.u32 %p, %r, 1027;\n\t@%p bra again;\n\tret;\n}\n";
	volatile uint32_t mine = 0, *yours = calloc(1, sizeof(*yours));
	CUdeviceptr at[2];
	pthread_t thread;
	CUmodule module;
	CUfunction f;
	bool wrong;

	CHECK(begin() && yours);
	sign[0] = &mine;
	sign[1] = yours;
	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&f, module, "meet"));
	if (can_map) {
		OK(cuMemHostRegister_v2((void *)&mine, sizeof(mine), MAP));
		OK(cuMemHostRegister_v2((void *)yours, sizeof(*yours), MAP));
		OK(cuMemHostGetDevicePointer_v2(&at[0], (void *)&mine, 0));
		OK(cuMemHostGetDevicePointer_v2(&at[1], (void *)yours, 0));
		CHECK(pthread_create(&thread, NULL, answer, &wrong) == 0);
		OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&at[0], &at[1]}, NULL));
		OK(cuStreamSynchronize(NULL));
		CHECK(pthread_join(thread, NULL) == 0 && !wrong);
		OK(cuMemHostUnregister((void *)&mine));
		OK(cuMemHostUnregister((void *)yours));
	}
	free((void *)yours);
	return sample_end();
}

/* Words beside registered ones, which a thread writes all the time. */
static _Atomic uint32_t *beside[2];

static void *write_beside(void *arg)
{
	bool *ok = arg;
	uint32_t i, k;

	for (i = 1; !atomic_load(&ended); i++)
		for (k = 0; k < 2; k++) {
			*ok &= atomic_load(beside[k]) == i - 1;
			atomic_store(beside[k], i);
		}
	return NULL;
}

/* What is beside registered memory, in its pages, is the program's all the time. */
static bool while_written_beside(void)
{
	const size_t bytes = PAGE + 2048;
	pthread_t thread;
	bool ok = true;
	CUdeviceptr at;
	uint8_t *room;
	uint32_t i;

	CHECK(begin() && posix_memalign((void **)&room, PAGE, ROOM) == 0);
	memset(room, 0, ROOM);
	beside[0] = (_Atomic uint32_t *)(room + 1020);
	beside[1] = (_Atomic uint32_t *)(room + 1024 + bytes);
	atomic_store(&ended, false);
	CHECK(pthread_create(&thread, NULL, write_beside, &ok) == 0);
	for (i = 0; i < 200 && can_map; i++) {
		OK(cuMemHostRegister_v2(room + 1024, bytes, MAP));
		OK(cuMemHostGetDevicePointer_v2(&at, room + 1024, 0));
		OK(cuMemsetD8_v2(at, (uint8_t)i, bytes));
		OK(cuMemHostUnregister(room + 1024));
		CHECK(room[1024] == (uint8_t)i && room[1023 + bytes] == (uint8_t)i);
	}
	atomic_store(&ended, true);
	CHECK(pthread_join(thread, NULL) == 0 && ok);
	free(room);
	return sample_end();
}

const struct sample_check registered_checks[] = {
	{"registered memory, and GPU kernels", by_kernels},
	{"registered memory has two addresses", by_addresses},
	{"registered memory, and copies", by_copies},
	{"registered memory, and copies of other memory", beside_copies},
	{"registered memory, later", later},
	{"copies of memory that is registered in part", in_part},
	{"registered memory until it ends", until_it_ends},
	{"memory that cannot be mapped", refused},
	{"memory that cannot be mapped, in a thread", refused_in_thread},
	{"registered memory ends with its context", with_context},
	{"registered memory in a child", in_child},
	{"registered memory in a child, as of the fork", as_of_the_fork},
	{"registered memory that is something else by now", spoilt},
	{"registered memory while it is read", while_read},
	{"registered parts of pages", parts},
	{"registered parts of pages, and waiting", flags},
	{"registered parts of pages, and what is beside them", while_written_beside},
	{NULL, NULL},
};
