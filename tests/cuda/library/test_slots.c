/* SPDX-License-Identifier: MIT */
/* Several programs on one VF, each of them a process with the library, over a real worker whose
 * CUDA driver is the one in software. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "entries.h"
#include "guest.h"
#include "played_vf.h"
#include "processes.h"
#include "sample.h"
#include "vgpu/clock.h"

#define MIB ((size_t)1 << 20)
#define SLOTS 7 /* of a window of 32 MiB */
#define SLICE_US 20000

extern const char sample_ptx[];

/* What the test and its programs have in common. */
static struct talk {
	_Atomic uint32_t rounds[16]; /* of each program */
	_Atomic uint32_t go, stop;
	struct cuda_ipc_memory shown;
	CUdeviceptr at;
} * talk;

#define LINES 200
static int printed[2]; /* what two programs print */

static pid_t start(program *run, uint32_t number)
{
	atomic_store(&talk->rounds[number], 0);
	return process_start(run, number);
}

static uint64_t draw_any(void)
{
	return draw(UINT64_C(1) << 44) << 20 ^ draw(UINT64_C(1) << 44);
}

/* What programs do. */

#define TRY(call)                                                                                  \
	do {                                                                                       \
		int e_ = (call);                                                                   \
		if (e_ != CUDA_SUCCESS) {                                                          \
			printf("%s: %d\n", #call, e_);                                             \
			return 10;                                                                 \
		}                                                                                  \
	} while (0)

static int begin(CUfunction *add)
{
	CUcontext context;
	CUmodule module;

	TRY(cuInit(0));
	TRY(cuDevicePrimaryCtxRetain(&context, 0));
	TRY(cuCtxSetCurrent(context));
	if (!add)
		return 0;
	TRY(cuModuleLoadData(&module, sample_ptx));
	TRY(cuModuleGetFunction(add, module, "vector_add"));
	return 0;
}

/* Beside others, a program may have to wait for memory. */
static int take(CUdeviceptr *p, size_t bytes)
{
	vgpu_nsec until = vgpu_now() + DEADLINE;
	int e;

	do
		e = cuMemAlloc_v2(p, bytes);
	while (e == CUDA_ERROR_OUT_OF_MEMORY && vgpu_now() < until);
	if (e != CUDA_SUCCESS)
		printf("%zu bytes: %d\n", bytes, e);
	return e;
}

/* Adds vectors of random numbers in new memory, with room between them, and compares. */
static int compute_once(CUfunction add)
{
	static float a[3000], b[3000], c[3000];
	CUdeviceptr x, y, z;
	uint32_t n = 1 + (uint32_t)draw(3000), i;
	size_t room = draw(3) * MIB / 2;
	void *args[] = {&z, &x, &y, &n};

	for (i = 0; i < n; i++) {
		a[i] = (float)draw(1000);
		b[i] = (float)draw(1000);
		c[i] = -1;
	}
	if (take(&x, n * 4 + room) || take(&y, n * 4 + room) || take(&z, n * 4))
		return 10;
	TRY(cuMemcpyHtoD_v2(x, a, n * 4));
	TRY(cuMemcpyHtoD_v2(y, b, n * 4));
	TRY(cuLaunchKernel(add, (n + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
	TRY(cuMemcpyDtoH_v2(c, z, n * 4));
	TRY(cuMemFree_v2(x));
	TRY(cuMemFree_v2(y));
	TRY(cuMemFree_v2(z));
	for (i = 0; i < n; i++)
		if (c[i] != a[i] + b[i]) {
			printf("%u of %u is %f, not %f\n", i, n, (double)c[i],
			       (double)(a[i] + b[i]));
			return 11;
		}
	return 0;
}

/* Computes until the test says that it is enough. */
static int compute(uint32_t number)
{
	CUfunction add;
	int r = begin(&add);

	while (r == 0 && !atomic_load(&talk->stop)) {
		r = compute_once(add);
		atomic_fetch_add(&talk->rounds[number], 1);
	}
	return r;
}

/* As compute(); at the end all memory is there again, but for what this process has of it. */
static int compute_and_look(uint32_t number)
{
	int r = compute(number);
	size_t left, all;

	TRY(cuMemGetInfo_v2(&left, &all));
	if (left != all)
		printf("%zu of %zu bytes are left\n", left, all);
	return r ? r : left != all ? 12 : 0;
}

static int only_begin(uint32_t number)
{
	atomic_store(&talk->rounds[number], 1);
	return cuInit(0);
}

/* Begins, and returns the compute mode. */
static int tell_mode(uint32_t)
{
	int mode;

	if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetAttribute(&mode, 20, 0) != CUDA_SUCCESS)
		return -1;
	return mode;
}

/* Takes and marks all memory that there is, and waits to be killed. */
static int mark(uint32_t number)
{
	vgpu_nsec until = vgpu_now() + DEADLINE;
	CUdeviceptr p;
	size_t left, all;
	int e;

	if (begin(NULL) != 0)
		return 10;
	do { /* others take and free some, not always at one end */
		TRY(cuMemGetInfo_v2(&left, &all));
		e = cuMemAlloc_v2(&p, left);
	} while (e == CUDA_ERROR_OUT_OF_MEMORY && vgpu_now() < until);
	TRY(e);
	TRY(cuMemsetD8_v2(p, 0x5a, left));
	TRY(cuCtxSynchronize());
	atomic_store(&talk->rounds[number], 1);
	pause();
	return 0;
}

/* Has the VF, and no memory, until the test says so. */
static int stay(uint32_t number)
{
	if (begin(NULL) != 0)
		return 10;
	atomic_store(&talk->rounds[number], 1);
	while (!atomic_load(&talk->go))
		sched_yield();
	return 0;
}

/* Takes all memory but 4 MiB and marks it; when the test says so, gives all but 4 MiB back. */
static int hold(uint32_t number)
{
	CUdeviceptr p, q;
	size_t left, all;

	if (begin(NULL) != 0)
		return 10;
	TRY(cuMemGetInfo_v2(&left, &all));
	TRY(cuMemAlloc_v2(&q, 4 * MIB));
	TRY(cuMemAlloc_v2(&p, left - 8 * MIB));
	TRY(cuMemsetD8_v2(p, 0x5a, left - 8 * MIB));
	atomic_store(&talk->rounds[number], 1);
	while (!atomic_load(&talk->go))
		sched_yield();
	TRY(cuMemFree_v2(p));
	atomic_store(&talk->rounds[number], 2);
	while (!atomic_load(&talk->stop))
		sched_yield();
	return 0;
}

/* Whether all memory that is left is clear. At least WANT bytes must be. */
static int look(size_t want)
{
	CUdeviceptr p;
	size_t left, all, i;
	uint8_t *seen;

	if (begin(NULL) != 0)
		return 10;
	TRY(cuMemGetInfo_v2(&left, &all));
	if (left < want) {
		printf("%zu of %zu bytes are left, not %zu\n", left, all, want);
		return 13;
	}
	if (take(&p, want))
		return 10;
	seen = malloc(want);
	TRY(cuMemcpyDtoH_v2(seen, p, want));
	for (i = 0; i < want; i++)
		if (seen[i]) {
			printf("byte %zu is %02x\n", i, seen[i]);
			return 14;
		}
	free(seen);
	return 0;
}

static int look_at_some(uint32_t)
{
	return look(6 * MIB);
}

static int look_at_most(uint32_t)
{
	return look(12 * MIB);
}

static int look_at_all(uint32_t)
{
	return look(16 * MIB);
}

/* Beside hold(): there is no more than 4 MiB. */
static int want_more(uint32_t number)
{
	CUdeviceptr p;
	size_t left, all;

	if (begin(NULL) != 0)
		return 10;
	TRY(cuMemGetInfo_v2(&left, &all));
	if (left != 4 * MIB || all != 16 * MIB)
		return 15;
	if (cuMemAlloc_v2(&p, left + 1) != CUDA_ERROR_OUT_OF_MEMORY)
		return 16;
	TRY(cuMemAlloc_v2(&p, left));
	atomic_store(&talk->rounds[number], 1);
	return 0;
}

#define SHOWN 700000u /* floats: more than a piece of memory */

/* Shows memory to others, and finds what they have computed in it. */
static int show(uint32_t number)
{
	static float y[SHOWN];
	CUdeviceptr other;
	uint32_t i;
	int shows;

	if (begin(NULL) != 0)
		return 10;
	TRY(cuMemAlloc_v2(&other, 3 * MIB));
	TRY(cuMemAlloc_v2(&talk->at, sizeof(y)));
	for (i = 0; i < SHOWN; i++)
		y[i] = (float)i;
	TRY(cuMemcpyHtoD_v2(talk->at, y, sizeof(y)));
	TRY(cuPointerGetAttribute(&shows, 10, talk->at));
	if (!(shows & 0xff) || cuIpcGetMemHandle(NULL, talk->at) != CUDA_ERROR_INVALID_VALUE ||
	    cuIpcGetMemHandle(&talk->shown, 4096) != CUDA_ERROR_INVALID_VALUE)
		return 20;
	TRY(cuIpcGetMemHandle(&talk->shown, talk->at + 1000));
	if (cuIpcOpenMemHandle_v2(&other, talk->shown, 1) != CUDA_ERROR_INVALID_CONTEXT)
		return 21;
	TRY(cuCtxSynchronize());
	atomic_store(&talk->rounds[number], 1);
	if (!reaches(&talk->go, 1))
		return 22;
	TRY(cuMemcpyDtoH_v2(y, talk->at, sizeof(y)));
	for (i = 0; i < SHOWN; i++)
		if (y[i] != (float)i * 2)
			return 23;
	return 0;
}

/* What opening TALK->SHOWN says after the number at BYTE was changed by DIFFERENCE. */
static int open_changed(uint32_t byte, uint64_t difference)
{
	struct cuda_ipc_memory m = talk->shown;
	CUdeviceptr p;
	uint64_t v;

	memcpy(&v, m.bytes + byte, sizeof(v));
	v += difference;
	memcpy(m.bytes + byte, &v, sizeof(v));
	return cuIpcOpenMemHandle_v2(&p, m, 1);
}

/* Computes in memory that show() shows, and lets go of it. */
static int use(uint32_t number)
{
	static float y[SHOWN];
	uint32_t n = SHOWN;
	CUdeviceptr p = 0, q = 0, begins;
	size_t bytes, left, before, all;
	CUcontext context = NULL, mine;
	void *args[] = {&p, &p, &p, &n};
	CUfunction add;
	uint32_t i;

	if (begin(&add) != 0)
		return 10;
	if (cuMemcpyDtoH_v2(y, talk->at, sizeof(y)) != CUDA_ERROR_INVALID_VALUE)
		return 20; /* it was not opened */
	/* no such words, memory that is not there, other processes */
	for (i = 0; i < 32; i += 8)
		if (open_changed(i, UINT64_C(1) << 63) == CUDA_SUCCESS ||
		    open_changed(i, UINT64_C(1) << 31) == CUDA_SUCCESS)
			return 21;
	if (open_changed(0, 1) == CUDA_SUCCESS || open_changed(24, 1) == CUDA_SUCCESS ||
	    open_changed(8, 2 * MIB) == CUDA_SUCCESS || open_changed(16, 2 * MIB) == CUDA_SUCCESS)
		return 21;
	if (cuIpcOpenMemHandle_v2(&p, talk->shown, 0) != CUDA_ERROR_INVALID_VALUE ||
	    cuIpcOpenMemHandle_v2(NULL, talk->shown, 1) != CUDA_ERROR_INVALID_VALUE)
		return 22;
	TRY(cuMemGetInfo_v2(&before, &all));
	TRY(cuIpcOpenMemHandle_v2(&p, talk->shown, 1));
	TRY(cuIpcOpenMemHandle(&q, talk->shown, 1));
	TRY(cuMemGetAddressRange_v2(&begins, &bytes, p + 5000));
	TRY(cuPointerGetAttribute(&context, 1, p + 5000));
	TRY(cuCtxGetCurrent(&mine));
	TRY(cuMemGetInfo_v2(&left, &all));
	if (p != talk->at || q != p || begins != p || bytes != sizeof(y) || context != mine ||
	    left != before)
		return 23;
	TRY(cuIpcCloseMemHandle(q));
	TRY(cuLaunchKernel(add, (n + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
	TRY(cuMemcpyDtoH_v2(y, p, sizeof(y)));
	for (i = 0; i < n; i++)
		if (y[i] != (float)i * 2)
			return 24;
	if (cuMemFree_v2(p) != CUDA_ERROR_INVALID_VALUE ||
	    cuIpcGetMemHandle(&talk->shown, p) != CUDA_ERROR_INVALID_VALUE ||
	    cuMemcpyDtoH_v2(y, p + 8, sizeof(y)) != CUDA_ERROR_INVALID_VALUE)
		return 25;
	TRY(cuIpcCloseMemHandle(p));
	if (cuIpcCloseMemHandle(p) != CUDA_ERROR_INVALID_VALUE ||
	    cuMemcpyDtoH_v2(y, p, 4) != CUDA_ERROR_INVALID_VALUE)
		return 26;
	/* What is open ends with its context. */
	TRY(cuCtxCreate_v2(&context, 0, 0));
	TRY(cuIpcOpenMemHandle_v2(&p, talk->shown, 1));
	TRY(cuCtxDestroy_v2(context));
	TRY(cuCtxSetCurrent(mine));
	if (cuIpcCloseMemHandle(p) != CUDA_ERROR_INVALID_VALUE)
		return 27;
	atomic_store(&talk->rounds[number], 1);
	return 0;
}

/* Opens what another process has shown that has ended meanwhile. */
static int use_too_late(uint32_t number)
{
	CUdeviceptr p;

	if (begin(NULL) != 0)
		return 10;
	atomic_store(&talk->rounds[number], 1);
	return reaches(&talk->go, 2) ? cuIpcOpenMemHandle_v2(&p, talk->shown, 1) : 20;
}

/* Brings the VF up without the library, and returns its guest. NULL: it cannot. */
static struct guest *join(struct softgpu_slot **own)
{
	struct vgpu_error err;
	struct guest *g;
	uint64_t bytes;

	if (guest_open(&g, "shared:played", &err) < 0 || guest_bring_up(g, DEADLINE, &err) < 0)
		return NULL;
	/* the slots lie behind a page of the header, 128 KiB from the window's beginning */
	*own = (struct softgpu_slot *)(played_vf_window(&bytes) + (132u << 10)) + guest_slot(g);
	return g;
}

static void wait_for(uint64_t *word, uint64_t value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
		sched_yield();
}

static int spins(uint32_t number)
{
	const struct softgpu_packet hour = {.opcode = SOFTGPU_SPIN, .arg = {3600000000}};
	struct softgpu_slot *own;
	struct guest *g = join(&own);

	if (!g)
		return 17;
	guest_put(g, &hour);
	guest_ring(g);
	atomic_store(&talk->rounds[number], 1);
	pause();
	return 0;
}

/* Closes its slot, and leaves as the host's answer what the host has not said. */
static int lies_about_answer(uint32_t number)
{
	struct softgpu_slot *own;

	if (!join(&own))
		return 17;
	own->asked = 0;
	played_vf_bell();
	wait_for(&own->answered, 0);
	own->answered = 7;
	atomic_store(&talk->rounds[number], 1);
	pause();
	return 0;
}

/* Takes all memory for a slot that there is not. */
static int lies_about_owner(uint32_t number)
{
	struct softgpu_slot *own;
	struct guest *g = join(&own);
	_Atomic uint32_t *owners;
	uint64_t bytes;
	uint32_t n, i;

	if (!g)
		return 17;
	owners = guest_pieces(g, &n, &bytes);
	for (i = 0; i < n; i++)
		atomic_store(&owners[i], 0x50);
	atomic_store(&talk->rounds[number], 1);
	pause();
	return 0;
}

/* Has 40 MiB of variables compiled in one slot while another launches with 39 MiB of local memory:
 * together more than the VF's 64 MiB. A third slot's packet makes the first wait with what was
 * compiled. */
static int take_twice(uint32_t)
{
	static const char big[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
				  ".global .align 8 .b8 big[41943040];\n"
				  ".visible .entry nothing()\n{\n\tret;\n}\n";
	static const char deep[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
				   ".visible .entry deep()\n"
				   "{\n\t.local .align 8 .b8 d[5000];\n\tret;\n}\n";
	const struct softgpu_launch launch = {.grid = {1, 1, 1},
					      .block = {1, 1, 1},
					      .function = "deep"};
	struct softgpu_packet *ring[3];
	uint64_t at, size, i, *report;
	struct softgpu_slot *s;
	struct guest *g = join(&s);
	uint8_t *part;
	int n;

	if (!g)
		return 17;
	part = guest_memory(g, &at, &size);
	memset(part, 0, 1 << 20);
	memcpy(part + 131072, big, sizeof(big));
	memcpy(part + 196608, deep, sizeof(deep));
	memcpy(part + 262144, &launch, sizeof(launch));
	report = (uint64_t *)(part + 327680);
	s++;
	for (i = 0; i < 3; i++) {
		ring[i] = (struct softgpu_packet *)(part + 65536 + 4096 * i);
		s[i] = (struct softgpu_slot){.ring = at + 65536 + 4096 * i,
					     .packets = 16,
					     .asked = 1};
	}
	played_vf_bell();
	for (i = 0; i < 3; i++)
		wait_for(&s[i].answered, 1);
	ring[2][0] = (struct softgpu_packet){SOFTGPU_MODULE_LOAD,
					     SOFTGPU_REPORT,
					     {0, at + 196608, sizeof(deep), 0, 0, 0, at + 327680}};
	ring[2][1] = (struct softgpu_packet){SOFTGPU_FENCE, 0, {1}};
	s[2].wptr = 2;
	played_vf_bell();
	wait_for(&s[2].fence, 1);
	ring[0][0] =
		(struct softgpu_packet){SOFTGPU_MODULE_LOAD,
					SOFTGPU_REPORT,
					{0, at + 131072, sizeof(big), 0, 0, 0, at + 327680 + 8}};
	ring[1][0] = (struct softgpu_packet){SOFTGPU_SPIN, 0, {150000}};
	ring[2][2] =
		(struct softgpu_packet){SOFTGPU_LAUNCH,
					SOFTGPU_REPORT,
					{0, at + 262144, sizeof(launch), 0, 0, 0, at + 327696}};
	ring[0][1] = ring[1][1] = ring[2][3] = (struct softgpu_packet){SOFTGPU_FENCE, 0, {2}};
	s[1].wptr = 2;
	s[2].wptr = 4;
	s[0].wptr = 2;
	played_vf_bell();
	for (i = 0; i < 3; i++)
		wait_for(&s[i].fence, 2);
	n = report[0] != SOFTGPU_OK ? 20 : (report[1] == SOFTGPU_OK) + (report[2] == SOFTGPU_OK);
	guest_close(g);
	return n;
}

/* A program that writes its slot by itself: first one wrong packet, then anything. */
static int scribble(uint32_t number)
{
	const struct softgpu_packet wrong = {.opcode = 99};
	struct softgpu_packet p;
	struct softgpu_slot *slot;
	uint64_t at, size, fence, bytes, i;
	uint8_t *part, *window = played_vf_window(&bytes);
	struct guest *g = join(&slot);

	if (!g)
		return 17;
	part = guest_memory(g, &at, &size);
	guest_put(g, &wrong);
	fence = guest_put_fence(g);
	guest_ring(g);
	if (guest_wait(g, fence, DEADLINE) != -EIO || guest_error(g) != SOFTGPU_BAD_OPCODE)
		return 18;
	atomic_store(&talk->rounds[number], 1);
	for (i = 0;; i++) {
		p = (struct softgpu_packet){.opcode = (uint32_t)draw(23),
					    .flags = (uint32_t)draw(4)};
		for (at = 0; at < 7; at++)
			p.arg[at] = draw(4) ? draw_any() : draw(16);
		/* its ring lies before its part; what it may do to others' memory is no news */
		if (p.opcode < SOFTGPU_FENCE || p.opcode == SOFTGPU_UPLOAD ||
		    p.opcode == SOFTGPU_DOWNLOAD || p.opcode == SOFTGPU_EVENT)
			p.arg[0] = draw_any();
		memcpy(part - 64 * (1 + draw(1024)), &p, sizeof(p));
		switch (draw(6)) {
		case 0:
			slot->wptr = draw(2) ? draw_any() : slot->wptr + 1;
			break;
		case 1: /* in its part or outside of the window: what lies in others' parts would be
			 * executed again */
			at = draw_any() >> draw(64);
			slot->ring = at < bytes ? (uint64_t)(part - window) + at % size : at;
			break;
		case 2:
			slot->packets = UINT64_C(1) << draw(64);
			break;
		case 3:
			slot->asked = draw(3);
			slot->answered = draw(3);
			slot->error = draw(12);
			break;
		case 4: /* as it should be, so that packets run */
			slot->ring = (uint64_t)(part - window) - 65536;
			slot->packets = 1024;
			slot->wptr = 0;
			slot->asked++;
			break;
		default:
			break;
		}
		if (i % 8 == 0)
			played_vf_bell();
	}
}

/* The tests. */

static void sleep_a_little(uint32_t most_us)
{
	const struct timespec t = {0, (long)draw(most_us) * 1000};

	nanosleep(&t, NULL);
}

static void play(void)
{
	memset(talk, 0, sizeof(*talk));
	played_vf_start();
}

TEST(at_the_same_time, "three programs compute at the same time")
{
	pid_t pid[3];
	uint32_t i, seen;

	play();
	for (i = 0; i < 3; i++)
		pid[i] = start(compute, i);
	/* Each goes on until all have computed. */
	for (i = 0; i < 3; i++)
		CU_ASSERT(reaches(&talk->rounds[i], 8));
	/* and while the VF has the engine for a short time at a time */
	played_vf_slices(SLICE_US);
	for (i = 0; i < 3; i++) {
		seen = atomic_load(&talk->rounds[i]);
		CU_ASSERT(reaches(&talk->rounds[i], seen + 8));
	}
	atomic_store(&talk->stop, 1);
	for (i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(end_of(pid[i]), 0);
	CU_ASSERT_EQUAL(played_vf_ups(), 1);
	CU_ASSERT_EQUAL(played_vf_downs(), 1);
	played_vf_end();
}

/* Prints lines with NUMBER to a file that the test reads. */
static int print_lines(uint32_t number)
{
	if (dup2(printed[number], STDOUT_FILENO) < 0 || cuInit(0) != CUDA_SUCCESS)
		return 10;
	return sample_prints(number, LINES);
}

/* GPU kernels of all programs print into one buffer of the VF's. */
TEST(printing, "a program gets what its own GPU kernels print")
{
	char wanted[20], *all, *at;
	uint32_t k, i;
	pid_t p[2];
	off_t n;

	play();
	played_vf_slices(SLICE_US);
	for (k = 0; k < 2; k++) {
		printed[k] = memfd_create("printed", 0);
		p[k] = start(print_lines, k);
	}
	for (k = 0; k < 2; k++) {
		CU_ASSERT_EQUAL(end_of(p[k]), 0);
		n = lseek(printed[k], 0, SEEK_END);
		all = at = calloc(1, (size_t)n + 1);
		CU_ASSERT_FATAL(all && pread(printed[k], all, (size_t)n, 0) == n);
		for (i = 0; i < LINES; i++) {
			snprintf(wanted, sizeof(wanted), "%u: %u\n", k, i);
			if (strncmp(at, wanted, strlen(wanted)) != 0)
				break;
			at += strlen(wanted);
		}
		CU_ASSERT(i == LINES && at == all + n);
		free(all);
		close(printed[k]);
	}
	played_vf_end();
}

TEST(killed, "programs that are killed cost the other nothing")
{
	uint32_t i, seen;
	pid_t other, victim;

	play();
	other = start(compute_and_look, 0);
	CU_ASSERT_FATAL(reaches(&talk->rounds[0], 1));
	played_vf_slices(SLICE_US);
	for (i = 0; i < 12; i++) {
		victim = start(compute, 1);
		/* at any instant of its beginning, or of its work */
		if (i % 2)
			CU_ASSERT_FATAL(reaches(&talk->rounds[1], 1 + i % 4));
		sleep_a_little(i % 2 ? 20000 : 150000);
		kill_it(victim);
		seen = atomic_load(&talk->rounds[0]);
		CU_ASSERT_FATAL(reaches(&talk->rounds[0], seen + 2));
	}
	atomic_store(&talk->stop, 1);
	CU_ASSERT_EQUAL(end_of(other), 0);
	CU_ASSERT_EQUAL(played_vf_ups(), 1);
	CU_ASSERT_EQUAL(played_vf_resets(), 0);
	played_vf_end();
}

TEST(one_quota, "all programs have the memory together")
{
	pid_t holder;

	play();
	holder = start(hold, 0);
	CU_ASSERT_FATAL(reaches(&talk->rounds[0], 1));
	CU_ASSERT_EQUAL(end_of(start(want_more, 1)), 0);
	CU_ASSERT_EQUAL(end_of(start(look_at_most, 1)), 13);
	atomic_store(&talk->go, 1);
	CU_ASSERT_FATAL(reaches(&talk->rounds[0], 2));
	/* what it has freed has its marks, and the next finds none */
	CU_ASSERT_EQUAL(end_of(start(look_at_most, 1)), 0);
	atomic_store(&talk->stop, 1);
	CU_ASSERT_EQUAL(end_of(holder), 0);
	played_vf_end();
}

TEST(shown, "memory is shown to other programs")
{
	pid_t owner, late;

	play();
	owner = start(show, 0);
	CU_ASSERT_FATAL(reaches(&talk->rounds[0], 1));
	late = start(use_too_late, 2);
	CU_ASSERT_EQUAL(end_of(start(use, 1)), 0);
	CU_ASSERT_FATAL(reaches(&talk->rounds[2], 1));
	atomic_store(&talk->go, 1);
	CU_ASSERT_EQUAL(end_of(owner), 0);
	atomic_store(&talk->go, 2);
	CU_ASSERT_EQUAL(end_of(late), CUDA_ERROR_MAP_FAILED);
	played_vf_end();
}

TEST(nothing_is_left, "a killed program leaves nothing")
{
	pid_t other, keeper, victim;

	play();
	keeper = start(stay, 2);
	CU_ASSERT_FATAL(reaches(&talk->rounds[2], 1));
	other = start(compute, 0);
	CU_ASSERT_FATAL(reaches(&talk->rounds[0], 1));
	victim = start(mark, 1);
	CU_ASSERT_FATAL(reaches(&talk->rounds[1], 1));
	kill_it(victim);
	atomic_store(&talk->stop, 1);
	end_of(other); /* it may not have got memory beside the victim */
	CU_ASSERT_EQUAL(end_of(start(look_at_most, 1)), 0);
	atomic_store(&talk->go, 1);
	CU_ASSERT_EQUAL(end_of(keeper), 0);
	/* when all are gone, or killed, the next brings the VF up anew */
	CU_ASSERT_EQUAL(played_vf_ups(), 1);
	victim = start(mark, 1);
	CU_ASSERT_FATAL(reaches(&talk->rounds[1], 1));
	kill_it(victim);
	CU_ASSERT_EQUAL(end_of(start(look_at_all, 1)), 0);
	CU_ASSERT_EQUAL(played_vf_ups(), 3);
	CU_ASSERT_EQUAL(played_vf_resets(), 1);
	played_vf_end();
}

TEST(all_slots, "one program for each slot")
{
	pid_t pid[SLOTS];
	uint32_t i;

	play();
	for (i = 0; i < SLOTS; i++) {
		pid[i] = start(compute, i);
		CU_ASSERT_FATAL(reaches(&talk->rounds[i], 1));
	}
	CU_ASSERT_EQUAL(end_of(start(only_begin, SLOTS)), CUDA_ERROR_DEVICE_UNAVAILABLE);
	kill_it(pid[3]);
	pid[3] = start(compute, SLOTS);
	CU_ASSERT(reaches(&talk->rounds[SLOTS], 1));
	atomic_store(&talk->stop, 1);
	for (i = 0; i < SLOTS; i++)
		CU_ASSERT_EQUAL(end_of(pid[i]), 0);
	played_vf_end();
}

/* One image is linked, without being looked at before. */
static int link_one(uint32_t)
{
	static const char wrong[] = ".version 6.0\nnonsense\n";
	CUlinkState link;
	size_t bytes;
	void *image;

	TRY(begin(NULL));
	TRY(cuLinkCreate_v2(0, NULL, NULL, &link));
	TRY(cuLinkAddData_v2(link, 1, (void *)(uintptr_t)wrong, sizeof(wrong), "x", 0, NULL, NULL));
	TRY(cuLinkComplete(link, &image, &bytes) != CUDA_ERROR_INVALID_PTX);
	TRY(cuLinkDestroy(link));
	TRY(cuLinkCreate_v2(0, NULL, NULL, &link));
	TRY(cuLinkAddData_v2(link, 1, (void *)(uintptr_t)sample_ptx, strlen(sample_ptx) + 1, "x", 0,
			     NULL, NULL));
	TRY(cuLinkAddData_v2(link, 1, (void *)(uintptr_t)sample_ptx, strlen(sample_ptx) + 1, "x", 0,
			     NULL, NULL) != CUDA_ERROR_NOT_SUPPORTED);
	TRY(cuLinkComplete(link, &image, &bytes));
	return 0;
}

TEST(older_host, "an older softgpu lets one program have the VF")
{
	pid_t first;

	play();
	CU_ASSERT_EQUAL(end_of(start(tell_mode, 0)), 0);
	played_vf_features(SOFTGPU_HAS_MODULES);
	CU_ASSERT_EQUAL(end_of(start(tell_mode, 0)), 3);
	CU_ASSERT_EQUAL(end_of(start(link_one, 0)), 0);
	first = start(compute, 0);
	CU_ASSERT_FATAL(reaches(&talk->rounds[0], 1));
	CU_ASSERT_EQUAL(end_of(start(only_begin, 1)), CUDA_ERROR_DEVICE_UNAVAILABLE);
	kill_it(first);
	CU_ASSERT_EQUAL(end_of(start(look_at_all, 1)), 0);
	CU_ASSERT_EQUAL(played_vf_resets(), 1);
	played_vf_end();
}

/* Whether the log says why: the host must be updated. */
static int begin_on_old_host(uint32_t number)
{
	char path[] = "/tmp/vgpu-log-XXXXXX", text[256] = "";
	int fd = mkstemp(path), e;

	atomic_store(&talk->rounds[number], 1);
	unlink(path);
	dup2(fd, 2);
	setenv("VGPU_CUDA_LOG", "1", 1);
	e = cuInit(0);
	if (pread(fd, text, sizeof(text) - 1, 0) < 0 || !strstr(text, "older than this library"))
		return 1;
	return e;
}

TEST(much_older_host, "a softgpu that is too old is named")
{
	play();
	played_vf_features(SOFTGPU_HAD_MODULES | SOFTGPU_HAS_SLOTS);
	CU_ASSERT_EQUAL(end_of(start(begin_on_old_host, 0)), CUDA_ERROR_NO_DEVICE);
	played_vf_end();
}

/* Waits until programs have found the VF away, and 15 s more. */
static void wait_away(void)
{
	vgpu_nsec until = vgpu_now() + DEADLINE;
	uint32_t seen = played_vf_looks();

	while (played_vf_looks() - seen < 10 && vgpu_now() < until)
		sleep_a_little(1000);
	played_vf_later(15);
	sleep_a_little(300000);
}

/* A VF whose process is being replaced reads as ones, on a busy machine for long: programs that
 * begin wait for it, and one that works begins anew; one that does not come back in 30 s is
 * gone. */
TEST(away, "a VF that is away comes back, or is gone")
{
	vgpu_nsec began;
	pid_t first;

	play();
	played_vf_away(true);
	first = start(compute, 0);
	wait_away();
	CU_ASSERT_EQUAL(atomic_load(&talk->rounds[0]), 0);
	played_vf_away(false);
	CU_ASSERT_FATAL(reaches(&talk->rounds[0], 3));
	played_vf_away(true);
	CU_ASSERT_NOT_EQUAL(end_of(first), 0);
	first = start(only_begin, 1);
	wait_away();
	played_vf_later(16);
	began = vgpu_now();
	CU_ASSERT_EQUAL(end_of(first), CUDA_ERROR_NO_DEVICE);
	CU_ASSERT(vgpu_now() - began < 60 * VGPU_SEC);
	played_vf_end();
}

/* What becomes of a VF that is away while a program asks for the engine, for less time than that.
 */
static int ask_away(uint32_t)
{
	struct vgpu_error err = {.text = ""};
	struct guest *g;
	int r = guest_open(&g, NULL, &err);

	if (r < 0)
		return 10;
	played_vf_away(true);
	r = guest_bring_up(g, 200 * VGPU_MSEC, &err);
	played_vf_away(false);
	guest_close(g);
	return r == -ENODEV && strstr(err.text, "the VF is gone") ? 0 : 11;
}

TEST(asked_away, "a VF that is away is not vgpud that does not run")
{
	play();
	CU_ASSERT_EQUAL(end_of(start(ask_away, 0)), 0);
	played_vf_end();
}

TEST(refused, "a program whose VF is refused asks again, and not for a minute")
{
	play();
	played_vf_refuse(3);
	CU_ASSERT_EQUAL(end_of(start(only_begin, 0)), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(played_vf_refused(), 3);
	played_vf_refuse(UINT32_MAX);
	CU_ASSERT_EQUAL(end_of(start(only_begin, 0)), CUDA_ERROR_DEVICE_UNAVAILABLE);
	CU_ASSERT(played_vf_refused() <= 3 + 25);
	played_vf_end();
}

TEST(hostile, "what a program writes to its slot stops that slot only")
{
	pid_t other, victim;
	uint32_t i, seen;

	play();
	other = start(compute, 0);
	CU_ASSERT_FATAL(reaches(&talk->rounds[0], 1));
	for (i = 0; i < 4; i++) {
		victim = start(scribble, 1);
		CU_ASSERT_FATAL(reaches(&talk->rounds[1], 1));
		seen = atomic_load(&talk->rounds[0]);
		CU_ASSERT(reaches(&talk->rounds[0], seen + 10));
		sleep_a_little(100000);
		kill_it(victim);
		/* its slot is the next one's */
		victim = start(compute, 1);
		CU_ASSERT_FATAL(reaches(&talk->rounds[1], 1));
		kill_it(victim);
	}
	atomic_store(&talk->stop, 1);
	CU_ASSERT_EQUAL(end_of(other), 0);
	CU_ASSERT_EQUAL(played_vf_ups(), 1);
	played_vf_end();
}

/* Of a program that was killed: what it left is not believed, and what it left running ends. */
TEST(liars, "what a killed program leaves is not believed")
{
	static program *const lies[] = {lies_about_answer, lies_about_owner, spins};
	pid_t other, victim;
	uint32_t i, seen;

	play();
	other = start(compute, 0);
	CU_ASSERT_FATAL(reaches(&talk->rounds[0], 1));
	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		victim = start(lies[i], 1);
		CU_ASSERT_FATAL(reaches(&talk->rounds[1], 1));
		kill_it(victim);
		seen = atomic_load(&talk->rounds[0]);
		CU_ASSERT(reaches(&talk->rounds[0], seen + 10));
		CU_ASSERT_EQUAL(end_of(start(look_at_some, 1)), 0);
	}
	atomic_store(&talk->stop, 1);
	CU_ASSERT_EQUAL(end_of(other), 0);
	CU_ASSERT_EQUAL(played_vf_ups(), 1);
	played_vf_end();
}

/* Programs together get no more for their modules than one alone. */
TEST(one_allowance, "modules of all programs have one allowance")
{
	play();
	CU_ASSERT_EQUAL(end_of(start(take_twice, 0)), 1);
	played_vf_end();
}

int main(int argc, char **argv)
{
	return processes_main("cuda_slots", &talk, sizeof(*talk), argc, argv);
}
