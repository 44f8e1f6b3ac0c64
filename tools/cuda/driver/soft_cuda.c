/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver's interface in software: the calls that cuda.c makes, carried out on this CPU;
 * GPU kernels run by ptx.h. It tests that cuda.c makes the right calls, with the right sizes, in an
 * order that the interface allows. It does not show what a GPU does with them, or when.
 *
 * As NVIDIA documents it: addresses are reserved, then mapped, then made accessible; a stream
 * executes in order, concurrently with its caller; nearly every call needs a current context.
 *
 * Environment variables make it behave like other drivers. SOFT_CUDA_VERSION: the version that it
 * reports, without newer entries; if negative, the error that it returns instead. SOFT_CUDA_LACKS:
 * the name of an entry that it lacks; NAME=ERROR: with the error that it then returns.
 * SOFT_CUDA_GPUS: the UUIDs of several GPUs, which are equal otherwise; a program chooses one of
 * them by CUDA_VISIBLE_DEVICES.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "soft_cuda.h"
#include "soft_gpu.h"
#include "soft_print.h"
#include "vgpu/words.h"

#define GRAIN (UINT64_C(2) << 20)
#define MEMORY (UINT64_C(1) << 30)
#define LOCAL_GRAIN (UINT64_C(32) << 10)

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
static struct kept *all_kept;
static bool is_up;
static int context;
static size_t limits[] = {1024, 1 << 20, 8 << 20}; /* CU_LIMIT_* */
static CUresult failed;	     /* the error that calls about the stream return from then on */
static sigjmp_buf given_up;  /* of a GPU kernel, with the error */
static char assertion[1024]; /* that has failed, until it is printed */
static __thread bool executes;
static struct sigaction before[2]; /* the program's own handling of SIGSEGV and SIGBUS */
__thread CUcontext soft_cuda_context;

static void *keep(size_t size)
{
	struct kept *k = aligned_alloc(64, (sizeof(*k) + size + 63) / 64 * 64);

	k->next = all_kept;
	all_kept = k;
	return memset(k->bytes, 0xa5, size);
}

/* the stream */

static void copy(uint8_t *to, const uint8_t *from, size_t n)
{
	if (to + n <= from || from + n <= to)
		vgpu_copy_words(to, from, n);
	else
		memmove(to, from, n);
}

/* A wrong address of a GPU kernel ends the kernel. Any other wrong address ends the process, as it
 * does without this driver. */
static void on_address(int signal)
{
	if (executes)
		siglongjmp(given_up, CUDA_ERROR_ILLEGAL_ADDRESS);
	sigaction(signal, &before[signal == SIGBUS], NULL);
}

static void catch_addresses(void)
{
	const struct sigaction catch = {.sa_handler = on_address};
	static bool catches;

	if (catches)
		return;
	catches = true;
	sigaction(SIGSEGV, &catch, &before[0]);
	sigaction(SIGBUS, &catch, &before[1]);
}

/* The stream's thread calls these. A text may lie at a wrong address: no lock is held. */
int soft_cuda_prints(void *, const char *format, const void *arguments)
{
	return soft_print_put(limits[CU_LIMIT_PRINTF_FIFO_SIZE], format, arguments);
}

void soft_cuda_asserts(void *, const char *text)
{
	snprintf(assertion, sizeof(assertion), "%s", text);
	siglongjmp(given_up, CUDA_ERROR_ASSERT);
}

static void execute(struct work *w)
{
	switch (w->kind) {
	case WORK_COPY:
		copy(w->dst, w->src, w->n);
		break;
	case WORK_SET:
		memset(w->dst, w->value, w->n);
		break;
	case WORK_LAUNCH:
		soft_gpu_take();
		ptx_run(w->function->code, &w->launch);
		soft_gpu_give();
		break;
	}
}

/* After a wrong address or a failed assertion the context is lost: nothing more is executed. */
static void execute_or_fail(struct work *w)
{
	CUresult e;

	if (failed)
		return;
	e = sigsetjmp(given_up, 1);
	if (e == CUDA_SUCCESS) {
		executes = true;
		execute(w);
	} else {
		pthread_mutex_lock(&lock);
		failed = e;
		pthread_mutex_unlock(&lock);
		if (w->kind == WORK_LAUNCH)
			soft_gpu_give();
	}
	executes = false;
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
		execute_or_fail(w);
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

CUresult cuStreamCreate(CUstream *out, unsigned)
{
	pthread_t thread;

	if (!soft_cuda_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pthread_create(&thread, NULL, stream, NULL) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_detach(thread);
	catch_addresses();
	*out = &first;
	return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream)
{
	if (!soft_cuda_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	while (done < put)
		pthread_cond_wait(&cond, &lock);
	soft_print_flush(stdout);
	fputs(assertion, stderr);
	*assertion = 0;
	pthread_mutex_unlock(&lock);
	return failed;
}

CUresult cuEventCreate(CUevent *out, unsigned)
{
	if (soft_cuda_context)
		*out = keep(sizeof(uint64_t));
	return soft_cuda_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuEventRecord(CUevent event, CUstream)
{
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
	e = failed ? failed : done >= *(uint64_t *)event ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
	pthread_mutex_unlock(&lock);
	return e;
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream)
{
	return soft_cuda_enqueue((struct work){
		.kind = WORK_SET, .dst = (void *)(uintptr_t)dst, .value = value, .n = n});
}

/* SOFT_CUDA_COPIES: the thread that asks copies, as if by DMA, if nothing is before that. A thread
 * for it shares its CPU with the one that asks whether it is done: on two CPUs half of the time is
 * the scheduler's. */
static bool copies_now(void)
{
	bool idle;

	pthread_mutex_lock(&lock);
	idle = done == put;
	pthread_mutex_unlock(&lock);
	return idle && soft_cuda_context && getenv("SOFT_CUDA_COPIES");
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream)
{
	if (copies_now()) {
		copy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, n);
		return CUDA_SUCCESS;
	}
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
	is_up = soft_gpu_open();
	return is_up ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static int driver_version(void)
{
	const char *other = getenv("SOFT_CUDA_VERSION");

	return other ? atoi(other) : CUDA_WANTED;
}

CUresult cuDriverGetVersion(int *version)
{
	const int told = driver_version();

	if (told < 0)
		return -told;
	*version = told;
	return CUDA_SUCCESS;
}

/* Counts the GPUs that the program sees. UUID: that of number INDEX, if there is such a one. */
static int see_gpus(int index, char uuid[64])
{
	const char *all = getenv("SOFT_CUDA_GPUS"), *seen = getenv("CUDA_VISIBLE_DEVICES");
	int n = 0, used;
	char one[64];

	uuid[0] = 0;
	if (!all)
		return 1;
	for (; sscanf(all, "%63s%n", one, &used) == 1; all += used)
		if ((!seen || strcmp(one, seen) == 0) && n++ == index)
			strcpy(uuid, one);
	return n;
}

CUresult cuDeviceGetCount(int *n)
{
	*n = see_gpus(0, (char[64]){0});
	return is_up ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int index)
{
	*device = index;
	if (!is_up)
		return CUDA_ERROR_NOT_INITIALIZED;
	return index < 0 || index >= see_gpus(0, (char[64]){0}) ? CUDA_ERROR_INVALID_VALUE : 0;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
	char uuid[64];
	int n = see_gpus(device, uuid);

	if (*uuid)
		snprintf(name, (size_t)size, "software, %s%s", uuid,
			 n > 1 ? ", beside others" : "");
	else
		snprintf(name, (size_t)size, "no GPU, but its interface in software");
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int which, CUdevice)
{
	static const struct {
		int which, value;
	} attributes[] = {
		{1, 1024}, /* threads of a block, and its dimensions */
		{2, 1024},
		{3, 1024},
		{4, 64},
		{8, 49152},	 /* shared memory of a block that does not ask for more */
		{9, 65536},	 /* constant memory */
		{10, 32},	 /* threads of a warp */
		{11, INT32_MAX}, /* pitch of a copy */
		{12, 65536},	 /* registers of a block, and of a multiprocessor */
		{13, 1000000},	 /* clock of the processors, kHz, as %clock counts */
		{14, 512},	 /* alignment of textures, of their pitch, and of surfaces */
		{36, 877000},	 /* clock of the memory, kHz, and bits of its bus */
		{37, 4096},
		{38, 6 << 20}, /* L2 cache */
		{51, 32},
		{52, 512},
		{81, 98304}, /* shared memory of a multiprocessor */
		{82, 65536},
		{106, 32}, /* blocks of a multiprocessor */
		{CU_ATTRIBUTE_MAX_GRID_X, INT32_MAX},
		{CU_ATTRIBUTE_MAX_GRID_X + 1, 65535},
		{CU_ATTRIBUTE_MAX_GRID_X + 2, 65535},
		{CU_ATTRIBUTE_PROCESSORS, SOFT_CUDA_PROCESSORS},
		{CU_ATTRIBUTE_THREADS_PER_PROCESSOR, SOFT_CUDA_THREADS},
		{CU_ATTRIBUTE_KERNEL_TIMEOUT, 0},
		{CU_ATTRIBUTE_COMPUTE_MODE, 0},
		{CU_ATTRIBUTE_MAJOR, 7},
		{CU_ATTRIBUTE_MINOR, 0},
		{SOFT_CUDA_COOPERATIVE_LAUNCH, 1},
		{CU_ATTRIBUTE_MAX_SHARED_OPTIN, 98304},
		{CU_ATTRIBUTE_VIRTUAL_MEMORY, 1},
	};
	const char *other = getenv("SOFT_CUDA_ATTRIBUTE"); /* NUMBER=VALUE: of a refused GPU */
	int number;
	size_t i;

	if (other && sscanf(other, "%d=%d", &number, value) == 2 && number == which)
		return CUDA_SUCCESS;
	for (i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
		if (attributes[i].which == which) {
			*value = attributes[i].value;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice)
{
	*out = &context;
	return is_up ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice, unsigned)
{
	return is_up ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuCtxSetCurrent(CUcontext c)
{
	soft_cuda_context = c;
	return c == &context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* The driver gives at least what it needs, whatever it is asked for. */
CUresult cuCtxSetLimit(int limit, size_t value)
{
	static const size_t least[] = {0, 1 << 16, 1 << 18};

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

CUresult cuGetErrorName(CUresult, const char **name)
{
	*name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

/* memory */

CUresult cuMemGetAllocationGranularity(size_t *grain, const struct cu_allocation *what, int)
{
	*grain = GRAIN;
	return what->type == 1 && what->location.type == 1 ? CUDA_SUCCESS
							   : CUDA_ERROR_INVALID_VALUE;
}

/*
 * The GPU's memory is one file, in which it keeps its contents: who gets memory finds what its last
 * owner has left there. Each allocation has an open file of its own, and holds a lock on a byte for
 * each granule that it has, which ends with the process, too. SOFT_CUDA_POOL names the file, and
 * its size is the GPU's; without it each process has a GPU of its own. An allocation lives as long
 * as its handle, or a mapping of it. One thread at a time makes the calls that change these lists.
 *
 * What the driver takes for modules and for local memory are allocations, too, whose contents lie
 * elsewhere: only that they are taken counts. The context itself and cuMemAlloc() take nothing.
 */
struct memory {
	struct memory *next;
	int fd;
	bool released;
	uint32_t n, refs; /* granules; its handle, and mappings */
	/* A granule that small modules share: which parts of it they have; and what one has of it.
	 */
	bool *parts;
	struct memory *whole;
	uint32_t at, n_parts;
	uint32_t granules[];
};
#define PART 4096u
#define SMALL_MODULE (UINT64_C(1) << 20) /* larger ones have granules of their own */
struct mapping {
	struct mapping *next;
	struct memory *memory;
	CUdeviceptr at;
};
struct reservation {
	struct reservation *next;
	CUdeviceptr at;
	size_t size;
};
static struct memory *memories;
static struct mapping *mappings;
static struct reservation *reservations;

static int pool_open(void)
{
	static int own = -1;
	const char *path = getenv("SOFT_CUDA_POOL");
	char again[32];

	if (path)
		return open(path, O_RDWR | O_CLOEXEC);
	if (own < 0) {
		own = memfd_create("soft-cuda", MFD_CLOEXEC);
		if (own < 0 || ftruncate(own, (off_t)MEMORY) < 0)
			return -1;
	}
	snprintf(again, sizeof(again), "/proc/self/fd/%d", own);
	return open(again, O_RDWR | O_CLOEXEC);
}

static uint64_t pool_size(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_size;
}

static bool lock_granule(int fd, uint64_t granule, int how)
{
	struct flock lock_of = {.l_type = F_WRLCK, .l_start = (off_t)granule, .l_len = 1};

	return fcntl(fd, how, &lock_of) == 0 && (how != F_OFD_GETLK || lock_of.l_type == F_UNLCK);
}

CUresult cuMemGetInfo(size_t *left, size_t *all)
{
	int fd = pool_open();
	uint64_t i;

	*all = pool_size(fd);
	*left = 0;
	for (i = 0; i < *all / GRAIN; i++)
		*left += lock_granule(fd, i, F_OFD_GETLK) ? GRAIN : 0;
	close(fd);
	return soft_cuda_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static void forget_memory(struct memory *m)
{
	struct memory **link = &memories;

	if (--m->refs > 0)
		return;
	while (*link != m)
		link = &(*link)->next;
	*link = m->next;
	if (m->whole) {
		memset(m->whole->parts + m->at, 0, m->n_parts);
		forget_memory(m->whole);
	} else {
		close(m->fd);
	}
	free(m->parts);
	free(m);
}

static struct memory *find_memory(CUhandle handle)
{
	struct memory *m = memories;

	while (m && (m->released || (CUhandle)(uintptr_t)m != handle))
		m = m->next;
	return m;
}

/* Takes granules. Returns NULL if there are not enough. */
static struct memory *take(uint64_t bytes)
{
	const uint64_t wanted = (bytes + GRAIN - 1) / GRAIN;
	struct memory *m = calloc(1, sizeof(*m) + wanted * sizeof(m->granules[0]));
	uint64_t i;

	m->fd = pool_open();
	m->refs = 1;
	m->next = memories;
	memories = m;
	for (i = 0; i < pool_size(m->fd) / GRAIN && m->n < wanted; i++)
		if (lock_granule(m->fd, i, F_OFD_SETLK))
			m->granules[m->n++] = (uint32_t)i;
	if (m->n == wanted)
		return m;
	forget_memory(m);
	return NULL;
}

/* Returns whether N parts from AT on are free. */
static bool are_free(const struct memory *m, uint32_t at, uint32_t n)
{
	return at + n <= GRAIN / PART && !memchr(m->parts + at, true, n);
}

/* Takes N contiguous parts of the first granule that has them free. Returns NULL if there is none.
 */
static struct memory *take_parts(uint32_t n)
{
	struct memory *whole = memories, *m;
	uint32_t at = 0;

	for (; whole; whole = whole->next) {
		for (at = 0; whole->parts && at < GRAIN / PART && !are_free(whole, at, n);)
			at++;
		if (whole->parts && at < GRAIN / PART)
			break;
	}
	if (whole) {
		whole->refs++;
	} else {
		at = 0;
		whole = take(GRAIN);
		if (!whole)
			return NULL;
		whole->parts = calloc(GRAIN / PART, 1);
	}
	memset(whole->parts + at, true, n);
	m = calloc(1, sizeof(*m));
	*m = (struct memory){.next = memories, .refs = 1, .whole = whole, .at = at, .n_parts = n};
	memories = m;
	return m;
}

void soft_cuda_give(struct memory *m)
{
	forget_memory(m);
}

/* The heap and the output buffer of GPU kernels come with the first module. */
struct memory *soft_cuda_take_module(uint64_t bytes)
{
	static struct memory *heap, *output;

	if (!heap)
		heap = take(limits[CU_LIMIT_MALLOC_HEAP_SIZE]);
	if (!output)
		output = take(limits[CU_LIMIT_PRINTF_FIFO_SIZE]);
	if (!heap || !output)
		return NULL;
	return bytes > SMALL_MODULE ? take(bytes) : take_parts((uint32_t)((bytes + PART) / PART));
}

/* Each multiprocessor's part is rounded up as in Mesa's driver of these GPUs. What it grows by is
 * taken in addition; what is below the stack's limit is the context's. */
bool soft_cuda_take_local(uint32_t bytes)
{
	static uint64_t have;
	uint64_t each = (uint64_t)bytes * SOFT_CUDA_THREADS, wanted;

	each = (each + LOCAL_GRAIN - 1) / LOCAL_GRAIN * LOCAL_GRAIN;
	wanted = (each * SOFT_CUDA_PROCESSORS + GRAIN - 1) / GRAIN * GRAIN;
	if (bytes <= limits[CU_LIMIT_STACK_SIZE] || wanted <= have)
		return true;
	if (!take(wanted - have))
		return false;
	have = wanted;
	return true;
}

CUresult cuMemCreate(CUhandle *out, size_t size, const struct cu_allocation *what, uint64_t flags)
{
	struct memory *m;

	if (!soft_cuda_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (what->type != 1 || size == 0 || size % GRAIN || flags)
		return CUDA_ERROR_INVALID_VALUE;
	m = take(size);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (uintptr_t)m;
	return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUhandle handle)
{
	struct memory *m = find_memory(handle);

	if (!m)
		return CUDA_ERROR_INVALID_VALUE;
	m->released = true;
	forget_memory(m);
	return CUDA_SUCCESS;
}

static size_t size_of(const struct memory *m)
{
	return m->n * GRAIN;
}

/* AT is a hint: addresses that are in use are not replaced. */
CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t align, CUdeviceptr at,
			     uint64_t flags)
{
	struct reservation *r;
	uint64_t begin, got;
	void *p;

	if (size == 0 || size % GRAIN || align || flags)
		return CUDA_ERROR_INVALID_VALUE;
	p = mmap((void *)(uintptr_t)at, size + GRAIN, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	got = (uintptr_t)p;
	begin = (got + GRAIN - 1) / GRAIN * GRAIN;
	if (begin > got)
		munmap(p, begin - got);
	munmap((void *)(uintptr_t)(begin + size), got + GRAIN - begin);
	r = malloc(sizeof(*r));
	*r = (struct reservation){reservations, begin, size};
	reservations = r;
	*out = begin;
	return CUDA_SUCCESS;
}

static bool is_reserved(CUdeviceptr at, size_t size)
{
	const struct reservation *r = reservations;

	while (r && (at < r->at || at - r->at > r->size || size > r->size - (at - r->at)))
		r = r->next;
	return r;
}

/* Where the mapping that begins at AT is linked; NULL: none does. */
static struct mapping **find_mapping(CUdeviceptr at)
{
	struct mapping **link = &mappings;

	while (*link && (*link)->at != at)
		link = &(*link)->next;
	return *link ? link : NULL;
}

/* Returns whether SIZE at AT are whole mappings, from end to end. */
static bool is_mapped(CUdeviceptr at, size_t size)
{
	struct mapping **link;
	size_t n;

	while (size > 0) {
		link = find_mapping(at);
		n = link ? size_of((*link)->memory) : 0;
		if (n == 0 || n > size)
			return false;
		at += n;
		size -= n;
	}
	return true;
}

static bool overlaps(CUdeviceptr at, size_t size)
{
	const struct mapping *m = mappings;

	while (m && (m->at >= at + size || at >= m->at + size_of(m->memory)))
		m = m->next;
	return m;
}

/* SOFT_CUDA_MAPS: how often there is memory for the page tables of a mapping. */
static bool has_page_tables(void)
{
	const char *most = getenv("SOFT_CUDA_MAPS");
	static long maps;

	return !most || ++maps <= atol(most);
}

static bool map_file(CUdeviceptr at, size_t size, int protection, int flags, int fd, off_t offset)
{
	return mmap((void *)(uintptr_t)at, size, protection, flags | MAP_FIXED, fd, offset) !=
	       MAP_FAILED;
}

CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset, CUhandle handle, uint64_t flags)
{
	struct memory *memory = find_memory(handle);
	struct mapping *m;
	uint32_t i;

	if (offset || flags || at % GRAIN || !memory || size != size_of(memory) ||
	    !is_reserved(at, size) || overlaps(at, size))
		return CUDA_ERROR_INVALID_VALUE;
	if (!has_page_tables())
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (i = 0; i < memory->n; i++)
		if (!map_file(at + i * GRAIN, GRAIN, PROT_NONE, MAP_SHARED, memory->fd,
			      (off_t)(memory->granules[i] * GRAIN)))
			return CUDA_ERROR_OUT_OF_MEMORY;
	m = malloc(sizeof(*m));
	*m = (struct mapping){mappings, memory, at};
	mappings = m;
	memory->refs++;
	return CUDA_SUCCESS;
}

/* Only whole mappings, and only while nothing in the stream may use them. */
CUresult cuMemUnmap(CUdeviceptr at, size_t size)
{
	struct mapping **link, *m;
	bool busy;

	pthread_mutex_lock(&lock);
	busy = done < put;
	pthread_mutex_unlock(&lock);
	if (busy || size == 0 || !is_mapped(at, size))
		return CUDA_ERROR_INVALID_VALUE;
	if (!map_file(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (size > 0) {
		link = find_mapping(at);
		m = *link;
		at += size_of(m->memory);
		size -= size_of(m->memory);
		*link = m->next;
		forget_memory(m->memory);
		free(m);
	}
	return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t size, const struct cu_access *access, size_t n)
{
	if (n != 1 || access->location.type != 1 || access->flags != 3 || !is_mapped(at, size))
		return CUDA_ERROR_INVALID_VALUE;
	return mprotect((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE) == 0
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister(void *, size_t size, unsigned flags)
{
	return size > 0 && flags & CU_HOST_DEVICEMAP ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostAlloc(void **out, size_t size, unsigned)
{
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

/* Returns whether the driver lacks the entry NAME: then E becomes what cuGetProcAddress_v2()
 * returns. */
static bool is_lacking(const char *name, CUresult *e)
{
	const char *lacking = getenv("SOFT_CUDA_LACKS");
	const size_t n = strlen(name);

	if (!lacking || strncmp(lacking, name, n) != 0 || (lacking[n] && lacking[n] != '='))
		return false;
	*e = lacking[n] ? atoi(lacking + n + 1) : CUDA_SUCCESS;
	return true;
}

/* For an unknown name, and for one that is newer than VERSION, the CUDA driver returns success and
 * no entry. */
CUresult cuGetProcAddress_v2(const char *name, void **entry, int version, uint64_t, int *status)
{
	static const struct {
		const char *name;
		int since;
		void *entry;
	} entries[] = {
#define ROW(name, since, signature) {#name, since, (void *)(uintptr_t)name},
		CUDA_ENTRIES(ROW)};
	CUresult e = CUDA_SUCCESS;
	size_t i;

	*entry = NULL;
	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (strcmp(entries[i].name, name) == 0 && entries[i].since <= version &&
		    entries[i].since <= driver_version() && !is_lacking(name, &e))
			*entry = entries[i].entry;
	*status = *entry ? 0 : 1;
	return e;
}
