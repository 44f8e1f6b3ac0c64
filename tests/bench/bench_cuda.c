/* SPDX-License-Identifier: MIT */
/*
 * What a CUDA program's calls cost: bench-cuda SAMPLE.PTX ROUNDS. The VF is the one of
 * VGPU_CUDA_VF. Prints JSON; what belongs together was measured in turn, in one run.
 *
 *   launch      an asynchronous launch, of BATCH in a row, each with its share of the whole
 *   round_trip  a synchronous call: cuCtxSynchronize(), for which the VF has to reach a fence
 *   ping_pong   two threads that wake each other by eventfd, there and back
 *   to_device, to_host, memcpy: GB a second; pinned_to_device, pinned_to_host: of memory that the
 * library has given, as NVIDIA's bandwidth samples measure
 *   words       GB a second by loads and stores of 16 bytes, as the library copies
 *   relay       GB a second of two threads that copy the same through shared memory, in the
 * library's steps, one into it and one out of it, each with a CPU: what the machine has room for
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entries.h"
#include "sample.h"
#include "vgpu/clock.h"
#include "vgpu/words.h"

#define BATCH 100u
#define TURN 50u /* round trips, and then as many by eventfd */
#define COPY_BYTES ((size_t)32 << 20)
#define COPIES 15u
#define PART_BYTES ((size_t)512 << 10)
#define PARTS 8u

static void fail(const char *what, int e)
{
	const char *name = NULL;

	cuGetErrorName(e, &name);
	fprintf(stderr, "bench-cuda: %s: %s\n", what, name ? name : strerror(errno));
	exit(1);
}

#define OK(call)                                                                                   \
	do {                                                                                       \
		CUresult result = (call);                                                          \
		if (result != CUDA_SUCCESS)                                                        \
			fail(#call, result);                                                       \
	} while (0)

static char *read_file(const char *path)
{
	int fd = open(path, O_RDONLY);
	struct stat st;
	char *text;

	if (fd < 0 || fstat(fd, &st) < 0)
		fail(path, -1);
	text = calloc(1, (size_t)st.st_size + 1);
	if (!text || read(fd, text, (size_t)st.st_size) != st.st_size)
		fail(path, -1);
	close(fd);
	return text;
}

static vgpu_nsec *times(unsigned n)
{
	vgpu_nsec *ns = calloc(n, sizeof(*ns));

	if (!ns)
		fail("memory", -1);
	return ns;
}

static void measure_launches(CUfunction add, unsigned rounds)
{
	vgpu_nsec *ns = times(rounds), began;
	uint32_t n = 1, i;
	CUdeviceptr x;
	unsigned k;

	OK(cuMemAlloc_v2(&x, 4));
	OK(cuMemsetD32_v2(x, 0, 1));
	for (k = 0; k < rounds; k++) {
		OK(cuCtxSynchronize());
		began = vgpu_now();
		for (i = 0; i < BATCH; i++)
			OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL,
					  (void *[]){&x, &x, &x, &n}, NULL));
		ns[k] = (vgpu_now() - began) / BATCH;
	}
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(x));
	sample_print("launch", ns, rounds, ",");
	free(ns);
}

static int ends[2];

static void pass(int fd)
{
	if (eventfd_write(fd, 1) < 0)
		fail("eventfd", -1);
}

static void take(int fd)
{
	eventfd_t n;

	if (eventfd_read(fd, &n) < 0)
		fail("eventfd", -1);
}

static void *pong(void *rounds)
{
	unsigned i;

	for (i = 0; i < *(unsigned *)rounds; i++) {
		take(ends[0]);
		pass(ends[1]);
	}
	return NULL;
}

static void measure_trips(unsigned rounds)
{
	vgpu_nsec *trip = times(rounds), *ping = times(rounds), began;
	unsigned i, k, n;
	pthread_t thread;

	ends[0] = eventfd(0, EFD_CLOEXEC);
	ends[1] = eventfd(0, EFD_CLOEXEC);
	if (ends[0] < 0 || ends[1] < 0 || pthread_create(&thread, NULL, pong, &rounds) != 0)
		fail("thread", -1);
	for (i = 0; i < rounds; i += n) {
		n = rounds - i < TURN ? rounds - i : TURN;
		for (k = i; k < i + n; k++) {
			began = vgpu_now();
			OK(cuCtxSynchronize());
			trip[k] = vgpu_now() - began;
		}
		for (k = i; k < i + n; k++) {
			began = vgpu_now();
			pass(ends[0]);
			take(ends[1]);
			ping[k] = vgpu_now() - began;
		}
	}
	pthread_join(thread, NULL);
	sample_print("round_trip", trip, rounds, ",");
	sample_print("ping_pong", ping, rounds, ",");
	free(trip);
	free(ping);
}

static double median_rate(vgpu_nsec *ns)
{
	qsort(ns, COPIES, sizeof(*ns), sample_compare);
	return (double)COPY_BYTES / (double)ns[COPIES / 2];
}

struct relay {
	const uint8_t *from;
	uint8_t *to, window[PARTS][PART_BYTES];
	_Atomic size_t in, out; /* bytes that are in the window, or were; and out of it */
	int cpu;		/* of the thread that copies into it */
};

static void *copy_out(void *relay)
{
	struct relay *r = relay;
	cpu_set_t others;
	size_t at;

	/* in vain where there are none */
	sched_getaffinity(0, sizeof(others), &others);
	CPU_CLR(r->cpu, &others);
	sched_setaffinity(0, sizeof(others), &others);
	for (at = 0; at < COPY_BYTES; at += PART_BYTES) {
		while (atomic_load(&r->in) == at)
			;
		vgpu_copy_words(r->to + at, r->window[at / PART_BYTES % PARTS], PART_BYTES);
		atomic_store(&r->out, at + PART_BYTES);
	}
	return NULL;
}

/* How long both threads take; the second one waits for the first part when that begins. */
static vgpu_nsec relay(struct relay *r)
{
	vgpu_nsec began, took;
	cpu_set_t all, own;
	pthread_t thread;
	size_t at;

	atomic_store(&r->in, 0);
	atomic_store(&r->out, 0);
	r->cpu = sched_getcpu();
	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&own);
	CPU_SET(r->cpu, &own);
	if (pthread_create(&thread, NULL, copy_out, r) != 0)
		fail("thread", -1);
	sched_setaffinity(0, sizeof(own), &own);
	began = vgpu_now();
	for (at = 0; at < COPY_BYTES; at += PART_BYTES) {
		while (at - atomic_load(&r->out) == sizeof(r->window))
			;
		vgpu_copy_words(r->window[at / PART_BYTES % PARTS], r->from + at, PART_BYTES);
		atomic_store(&r->in, at + PART_BYTES);
	}
	pthread_join(thread, NULL);
	took = vgpu_now() - began;
	sched_setaffinity(0, sizeof(all), &all);
	return took;
}

static void measure_copies(void)
{
	void *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
	struct relay *r =
		mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	vgpu_nsec ns[7][COPIES], began;
	void *pinned;
	CUdeviceptr x;
	unsigned i;

	if (!from || !to || r == MAP_FAILED)
		fail("memory", -1);
	r->from = from;
	r->to = to;
	memset(r->window, 1, sizeof(r->window));
	memset(from, 1, COPY_BYTES);
	memset(to, 2, COPY_BYTES);
	OK(cuMemAlloc_v2(&x, COPY_BYTES));
	OK(cuMemsetD8_v2(x, 0, COPY_BYTES));
	OK(cuMemHostAlloc(&pinned, COPY_BYTES, 0));
	for (i = 0; i < COPIES; i++) {
		OK(cuCtxSynchronize());
		began = vgpu_now();
		OK(cuMemcpyHtoD_v2(x, from, COPY_BYTES));
		OK(cuCtxSynchronize());
		ns[0][i] = vgpu_now() - began;
		began = vgpu_now();
		OK(cuMemcpyDtoH_v2(to, x, COPY_BYTES));
		ns[1][i] = vgpu_now() - began;
		began = vgpu_now();
		memcpy(to, from, COPY_BYTES);
		__asm__ volatile("" ::"r"(to) : "memory");
		ns[2][i] = vgpu_now() - began;
		ns[3][i] = relay(r);
		began = vgpu_now();
		OK(cuMemcpyHtoD_v2(x, pinned, COPY_BYTES));
		ns[4][i] = vgpu_now() - began;
		began = vgpu_now();
		OK(cuMemcpyDtoH_v2(pinned, x, COPY_BYTES));
		ns[5][i] = vgpu_now() - began;
		began = vgpu_now();
		vgpu_copy_words(to, from, COPY_BYTES);
		__asm__ volatile("" ::"r"(to) : "memory");
		ns[6][i] = vgpu_now() - began;
	}
	printf("\"to_device\":%.3f,\"to_host\":%.3f,\"memcpy\":%.3f,\"relay\":%.3f,"
	       "\"pinned_to_device\":%.3f,\"pinned_to_host\":%.3f,\"words\":%.3f",
	       median_rate(ns[0]), median_rate(ns[1]), median_rate(ns[2]), median_rate(ns[3]),
	       median_rate(ns[4]), median_rate(ns[5]), median_rate(ns[6]));
	OK(cuMemFreeHost(pinned));
	OK(cuMemFree_v2(x));
	free(from);
	free(to);
	munmap(r, sizeof(*r));
}

int main(int argc, char **argv)
{
	unsigned rounds = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	CUcontext context;
	CUfunction add;
	CUmodule module;

	if (rounds == 0) {
		fputs("usage: bench-cuda SAMPLE.PTX ROUNDS\n", stderr);
		return 2;
	}
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&context, 0, 0));
	OK(cuModuleLoadData(&module, read_file(argv[1])));
	OK(cuModuleGetFunction(&add, module, "vector_add"));
	printf("{");
	measure_launches(add, rounds);
	measure_trips(rounds);
	measure_copies();
	printf("}\n");
	OK(cuCtxDestroy_v2(context));
	return 0;
}
