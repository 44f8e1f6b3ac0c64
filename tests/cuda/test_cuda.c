/* SPDX-License-Identifier: MIT */
/* The library with the checks of sample.h, over a real worker whose CUDA driver is the one in
 * software; and the loss of that worker. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "entries.h"
#include "guest_direct.h"
#include "record.h"
#include "sample.h"
#include "suite.h"
#include "vgpu/clock.h"

static void before_init(void)
{
	CUcontext c;
	int n;

	CU_ASSERT_EQUAL(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
	CU_ASSERT_EQUAL(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
	CU_ASSERT_EQUAL(cuDevicePrimaryCtxRetain(&c, 0), CUDA_ERROR_NOT_INITIALIZED);
	CU_ASSERT_EQUAL(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	unsetenv("VGPU_CUDA_VF");
	CU_ASSERT_EQUAL(cuInit(0), CUDA_ERROR_NO_DEVICE);
	setenv("VGPU_CUDA_VF", "/direct", 1);
	setenv("LD_LIBRARY_PATH", DRIVER, 1); /* for the worker */
	CU_ASSERT_EQUAL_FATAL(cuInit(0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuInit(0), CUDA_SUCCESS);
}

static void sample(void)
{
	CU_ASSERT_EQUAL(sample_run(), 0);
	CU_ASSERT_EQUAL(sample_run(), 0); /* nothing is left of the first time */
}

/* Memory is shown to other processes of the VF, which this one cannot have. */
static void alone(void)
{
	struct cuda_ipc_memory shown = {{0}};
	CUdeviceptr p;
	int shows = 1;

	CU_ASSERT(sample_begin());
	CU_ASSERT_EQUAL_FATAL(cuMemAlloc_v2(&p, 4096), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuPointerGetAttribute(&shows, 10, p), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(shows & 0xff, 0);
	CU_ASSERT_EQUAL(cuIpcGetMemHandle(&shown, p), CUDA_ERROR_NOT_SUPPORTED);
	CU_ASSERT_EQUAL(cuIpcOpenMemHandle_v2(&p, shown, 1), CUDA_ERROR_NOT_SUPPORTED);
	CU_ASSERT_EQUAL(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
	CU_ASSERT_EQUAL(cuMemFree_v2(p), CUDA_SUCCESS);
	CU_ASSERT(sample_end());
}

/* Each entry is found by its name and version, and by no older version. */
static void entries(void)
{
	static const struct {
		const char *name;
		int since;
		void *symbol;
	} rows[] = {
#define ROW(symbol, name, since, signature) {name, since, (void *)(uintptr_t)symbol},
		CUDA_ENTRIES(ROW)
#undef ROW
	};
	void *entry;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CU_ASSERT_EQUAL(cuGetProcAddress_v2(rows[i].name, &entry, rows[i].since, 0, NULL),
				CUDA_SUCCESS);
		CU_ASSERT_PTR_EQUAL(entry, rows[i].symbol);
		if (cuGetProcAddress_v2(rows[i].name, &entry, rows[i].since - 10, 0, NULL) == 0)
			CU_ASSERT_PTR_NOT_EQUAL(entry, rows[i].symbol);
	}
}

/* Reads what this process tells others. Whether there is something. */
static bool read_record(struct record *out)
{
	char path[40], link[sizeof(RECORD_LINK)];
	int i, fd;
	ssize_t n = -1;

	for (i = 0; i < 1024; i++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		if (readlink(path, link, sizeof(link)) != sizeof(RECORD_LINK) - 1 ||
		    memcmp(link, RECORD_LINK, sizeof(RECORD_LINK) - 1) != 0)
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = pread(fd, out, sizeof(*out), 0);
		close(fd);
	}
	return n == sizeof(*out);
}

/* Others find out what memory this program has, and nothing of a child that has no VF. */
static void record(void)
{
	struct record r = {0};
	size_t left, all;
	CUdeviceptr x, y;
	CUcontext c;
	int status;
	pid_t child;

	CU_ASSERT_EQUAL_FATAL(cuDevicePrimaryCtxRetain(&c, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuCtxSetCurrent(c), CUDA_SUCCESS);
	CU_ASSERT_FATAL(read_record(&r));
	CU_ASSERT_EQUAL(r.layout, RECORD_LAYOUT);
	CU_ASSERT_STRING_EQUAL(r.vf, "vfio-user:/direct");
	CU_ASSERT_EQUAL(cuMemGetInfo_v2(&left, &all), CUDA_SUCCESS);
	CU_ASSERT(r.total == all && r.used == all - left);
	CU_ASSERT(r.about.name[0] && r.about.attributes[75] > 0);
	CU_ASSERT_EQUAL(cuMemAlloc_v2(&x, 5 << 20), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemAllocAsync(&y, 3 << 20, NULL), CUDA_SUCCESS);
	CU_ASSERT(read_record(&r));
	CU_ASSERT_EQUAL(r.used, all - left + (8 << 20));
	CU_ASSERT_EQUAL(cuMemFree_v2(x), CUDA_SUCCESS);
	CU_ASSERT(read_record(&r));
	CU_ASSERT_EQUAL(r.used, all - left + (3 << 20));
	child = fork();
	if (child == 0)
		_exit(read_record(&r));
	waitpid(child, &status, 0);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL(cuMemFreeAsync(y, NULL), CUDA_SUCCESS);
	CU_ASSERT(read_record(&r));
	CU_ASSERT_EQUAL(r.used, all - left);
	CU_ASSERT_EQUAL(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
}

/* Calls that do not wait may leave the doorbell to the library, which rings it by itself. */
static void rung(void)
{
	vgpu_nsec until;
	CUdeviceptr x;
	CUcontext c;
	int i, k;

	CU_ASSERT_EQUAL_FATAL(cuDevicePrimaryCtxRetain(&c, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuCtxSetCurrent(c), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemAlloc_v2(&x, 64), CUDA_SUCCESS);
	for (k = 0; k < 20; k++) {
		for (i = 0; i < 5; i++)
			CU_ASSERT_EQUAL(cuMemsetD8Async(x, 1, 64, NULL), CUDA_SUCCESS);
		until = vgpu_now() + 20 * VGPU_SEC;
		while (!guest_direct_all_rung() && vgpu_now() < until)
			sched_yield();
		CU_ASSERT_FATAL(guest_direct_all_rung());
	}
	CU_ASSERT_EQUAL(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
}

/* A worker that dies takes its program's contexts with it: each call says so, and none waits. */
static void loss(void)
{
	CUdeviceptr x;
	CUcontext c;
	CUevent event;
	CUresult e;
	uint32_t seen;

	CU_ASSERT_EQUAL_FATAL(cuDevicePrimaryCtxRetain(&c, 0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuCtxSetCurrent(c), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuMemAlloc_v2(&x, 4), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuEventCreate(&event, 0), CUDA_SUCCESS);
	guest_direct_kill();
	/* Either the worker is still alive, or not. */
	e = cuEventRecord(event, NULL);
	while (e == CUDA_SUCCESS || e == CUDA_ERROR_NOT_READY)
		e = cuEventQuery(event) == CUDA_SUCCESS ? cuEventRecord(event, NULL)
							: cuEventQuery(event);
	CU_ASSERT_EQUAL(e, CUDA_ERROR_LAUNCH_FAILED);
	CU_ASSERT_EQUAL(cuMemcpyDtoH_v2(&seen, x, 4), CUDA_ERROR_LAUNCH_FAILED);
	CU_ASSERT_EQUAL(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
	CU_ASSERT_EQUAL(cuMemAlloc_v2(&x, 4), CUDA_ERROR_LAUNCH_FAILED);
	CU_ASSERT_EQUAL(cuInit(0), CUDA_ERROR_LAUNCH_FAILED);
	CU_ASSERT_EQUAL(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	CU_ASSERT_EQUAL(cuDevicePrimaryCtxRetain(&c, 0), CUDA_ERROR_LAUNCH_FAILED);
}

static const struct test tests[] = {
	{"nothing works before cuInit, and cuInit needs a VF", before_init},
	{"the sample's checks pass", sample},
	{"memory is not shown where there is nobody", alone},
	{"the table of entries is whole", entries},
	{"others may know what memory the program has", record},
	{"a doorbell is rung for each call", rung},
	{"the loss of the worker is the program's error", loss},
	{NULL, NULL},
};

SUITE_MAIN("cuda", tests)
