/* SPDX-License-Identifier: MIT */
/* What the library says of a VF on a machine that the test makes up, with programs that are real
 * processes: they tell of themselves as libcuda does. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "calls.h"
#include "guest.h"
#include "machine.h"
#include "record.h"
#include "suite.h"
#include "softgpu/registers.h"
#include "softgpu/packets.h"
#include "vgpu/clock.h"

#define VF "0000:00:05.0"
#define NAME "shared:" VF
#define PAGE 8192u
#define MIB (UINT64_C(1) << 20)
#define TOTAL (48 * MIB)

/* Some that the library does not carry: a VF has no true answer. */
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, uint32_t *out);
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, uint32_t *out);
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, struct nvml_memory *out);
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, int *current, int *pending);

static uint8_t *registers; /* of the VF */
static nvmlDevice_t device;

static void set(uint32_t at, const void *value, size_t size)
{
	memcpy(registers + at, value, size);
}

static void set_long(uint32_t at, uint64_t value)
{
	set(at, &value, sizeof(value));
}

static void make(void)
{
	static const struct softgpu_about about = {.name = "a GPU",
						   .attributes = {[75] = 9, [76] = 1}};
	static const uint8_t page[PAGE], config[64] = {0x34, 0x12, 0x48, 0x53, 0x02};
	int fd;

	make_machine();
	function(VF, "0x038000\n", "9");
	put_file("0x5348\n", PCI_DEVICES "/%s/device", VF);
	put_file("0x1234\n", PCI_DEVICES "/%s/subsystem_vendor", VF);
	put_file("0x0007\n", PCI_DEVICES "/%s/subsystem_device", VF);
	put_file("0x2000 0x3fff 0x14220c\n0x0 0x0 0x0\n0x4000 0x5fff 0x14220c\n0x0 0x0 0x0\n"
		 "0x6000 0x7fff 0x40200\n0x8000 0x9fff 0x40200\n0x0 0x0 0x0\n",
		 PCI_DEVICES "/%s/resource", VF);
	put_bytes(config, sizeof(config), PCI_DEVICES "/" VF "/config");
	put_bytes(page, sizeof(page), PCI_DEVICES "/" VF "/resource5");
	fd = open(inside(PCI_DEVICES "/" VF "/resource5"), O_RDWR);
	registers = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	set_long(SOFTGPU_MEMORY_SIZE, 16 * MIB);
	set_long(SOFTGPU_PARTITION_SIZE, 16 * MIB + TOTAL);
	set(SOFTGPU_ABOUT_AT, &about, sizeof(about));
	unsetenv(FIND_VARIABLE);
}

static void begin(void)
{
	make();
	CU_ASSERT_EQUAL_FATAL(nvmlInit_v2(), NVML_SUCCESS);
	CU_ASSERT_EQUAL_FATAL(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
}

static void end(void)
{
	CU_ASSERT_EQUAL(nvmlShutdown(), NVML_SUCCESS);
	munmap(registers, PAGE);
	remove_machine();
}

/* Programs: each is a process that has done ACT, and waits to be killed. */

static pid_t start(void (*act)(void))
{
	int ready[2];
	char c = 0;
	pid_t pid;

	CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
	pid = fork();
	CU_ASSERT_FATAL(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		act();
		if (write(ready[1], &c, 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	close(ready[1]);
	CU_ASSERT_EQUAL_FATAL(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void use(uint64_t total, uint64_t bytes)
{
	static const struct softgpu_about about = {.name = "told by a program",
						   .attributes = {[75] = 8}};

	record_begin(NAME);
	if (total > 0)
		record_show(total, &about);
	record_used((int64_t)bytes);
}

static void use_five(void)
{
	use(TOTAL, 5 * MIB);
}

static void use_seven(void)
{
	use(TOTAL, 7 * MIB);
}

static void use_too_much(void)
{
	use(TOTAL, UINT64_MAX);
}

static void use_another(void)
{
	record_begin("shared:0000:00:06.0");
	record_show(TOTAL, &(struct softgpu_about){.name = "?"});
	record_used(3 * MIB);
}

static void hold(void)
{
	int fd = open(inside(PCI_DEVICES "/" VF "/resource5"), O_RDWR);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		_exit(1);
}

/* As a program does that brings its VF up. */
static void hold_and_begin(void)
{
	hold();
	use(0, 0);
}

static void hold_and_use(void)
{
	hold();
	use_five();
}

static void share(void)
{
	int fd = open(inside(PCI_DEVICES "/" VF "/resource5"), O_RDWR);

	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0)
		_exit(1);
}

static void share_twice(void)
{
	share();
	share();
}

static void share_and_use_five(void)
{
	share();
	use_five();
}

static void share_and_use_seven(void)
{
	share();
	use_seven();
}

#define CROWD 200u /* more than the library tells apart */

static int crowd[2]; /* a pipe that ends with the last of them */

static pid_t start_crowd(void (*act)(void))
{
	pid_t pid;

	CU_ASSERT_EQUAL_FATAL(pipe(crowd), 0);
	pid = start(act);
	close(crowd[1]);
	return pid;
}

static void stop_crowd(pid_t pid)
{
	char c;

	stop(pid);
	CU_ASSERT_EQUAL(read(crowd[0], &c, 1), 0);
	close(crowd[0]);
}

/* Has N children that ACT; each ends with this process. */
static void have_children(uint32_t n, void (*act)(void))
{
	int ready[2];
	uint32_t i;
	char c = 0;

	if (pipe(ready) < 0)
		_exit(1);
	for (i = 0; i < n; i++) {
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			act();
			if (write(ready[1], &c, 1) == 1)
				for (;;)
					pause();
			_exit(1);
		}
	}
	for (i = 0; i < n; i++)
		if (read(ready[0], &c, 1) != 1)
			_exit(1);
}

static void nothing(void)
{
}

/* A child that has not started another program yet has its parent's descriptors. */
static void use_with_child(void)
{
	use_five();
	have_children(1, nothing);
}

/* Children that have locks of their own. */
static void share_in_a_crowd(void)
{
	share();
	have_children(CROWD, share);
}

static void share_in_a_crowd_and_use(void)
{
	use_five();
	share_in_a_crowd();
}

static void tell(const void *data, size_t bytes)
{
	int fd = memfd_create(RECORD_NAME, MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
		_exit(1);
}

/* What a program can put where a record is looked for. */
static void tell_nonsense(void)
{
	struct record r = {.layout = RECORD_LAYOUT, .vf = NAME, .total = TOTAL, .used = MIB};

	tell("", 0);
	tell(&r, sizeof(r) - 1);
	r.layout++;
	tell(&r, sizeof(r));
	r.layout--;
	memset(r.vf, 'x', sizeof(r.vf)); /* no end */
	tell(&r, sizeof(r));
}

static nvmlReturn_t used(uint64_t *out)
{
	struct nvml_memory m = {1, 2, 3};
	nvmlReturn_t e = nvmlDeviceGetMemoryInfo(device, &m);

	*out = m.used;
	if (e == NVML_SUCCESS) {
		CU_ASSERT_EQUAL(m.total, TOTAL);
		CU_ASSERT_EQUAL(m.left, TOTAL - m.used);
	} else {
		CU_ASSERT(m.total == 1 && m.left == 2 && m.used == 3);
	}
	return e;
}

static void expect_used(uint64_t bytes)
{
	uint64_t seen;

	CU_ASSERT_EQUAL(used(&seen), NVML_SUCCESS);
	CU_ASSERT_EQUAL(seen, bytes);
}

TEST(counts, "init and shutdown are counted")
{
	uint32_t n = 7;

	make();
	CU_ASSERT_EQUAL(nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
	CU_ASSERT_EQUAL(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
	CU_ASSERT_EQUAL(nvmlInitWithFlags(4), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlInit(), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlInitWithFlags(3), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlShutdown(), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlDeviceGetCount(&n), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 1);
	CU_ASSERT_EQUAL(nvmlShutdown(), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlDeviceGetCount(&n), NVML_ERROR_UNINITIALIZED);
	CU_ASSERT_EQUAL(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
	munmap(registers, PAGE);
	remove_machine();
}

TEST(without_vf, "without a VF there is no device")
{
	struct nvml_memory m;
	nvmlDevice_t d;
	uint32_t n = 7;

	begin();
	end();
	make_machine();
	CU_ASSERT_EQUAL(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
	CU_ASSERT_EQUAL(nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
	CU_ASSERT_EQUAL(nvmlInitWithFlags(NVML_INIT_NO_GPUS), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 0);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByIndex_v2(0, &d), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByPciBusId_v2(VF, &d), NVML_ERROR_NOT_FOUND);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByUUID("GPU-", &d), NVML_ERROR_NOT_FOUND);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByUUID("", &d), NVML_ERROR_NOT_FOUND);
	/* a handle from before */
	CU_ASSERT_EQUAL(nvmlDeviceGetMemoryInfo(device, &m), NVML_ERROR_GPU_IS_LOST);
	CU_ASSERT_EQUAL(nvmlShutdown(), NVML_SUCCESS);
	remove_machine();
	make();
	fail_at = calls + 1;
	fail_with = -EACCES;
	CU_ASSERT_NOT_EQUAL(nvmlInit_v2(), NVML_SUCCESS);
	munmap(registers, PAGE);
	remove_machine();
}

static nvmlReturn_t init_result;

static int init_and_shutdown(void)
{
	init_result = nvmlInit_v2();
	return init_result == NVML_SUCCESS && nvmlShutdown() != NVML_SUCCESS ? -EIO : 0;
}

static int descriptors_before, denied;

static void before_each(void)
{
	make();
	fail_with = -EACCES;
	descriptors_before = dup(0);
	close(descriptors_before);
}

static void after_each(int r)
{
	int now = dup(0);

	close(now);
	CU_ASSERT_EQUAL(r, 0);
	CU_ASSERT_EQUAL(now, descriptors_before);
	denied += init_result == NVML_ERROR_NO_PERMISSION;
	munmap(registers, PAGE);
	remove_machine();
}

/* Whichever call of the kernel fails, init says so and leaves nothing open. */
TEST(any_call_fails, "any call fails")
{
	const struct each_call each = {&calls, &fail_at, before_each, init_and_shutdown,
				       after_each};

	CU_ASSERT(fail_each_call(&each) > 5);
	CU_ASSERT(denied > 0);
}

TEST(identity, "the device is the VF")
{
	struct nvml_pci p;
	char text[96], want[48] = "GPU-", longer[96];
	uint8_t u[16];
	nvmlDevice_t d;
	uint32_t n = 7, i;
	int major, minor;

	begin();
	CU_ASSERT_EQUAL(nvmlDeviceGetName(device, text, sizeof(text)), NVML_SUCCESS);
	CU_ASSERT_STRING_EQUAL(text, "a GPU");
	CU_ASSERT_EQUAL(nvmlDeviceGetCudaComputeCapability(device, &major, &minor), NVML_SUCCESS);
	CU_ASSERT(major == 9 && minor == 1);
	CU_ASSERT_EQUAL(nvmlDeviceGetIndex(device, &n), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 0);
	find_uuid(NAME, u);
	for (i = 0; i < 16; i++)
		sprintf(want + strlen(want), "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
	CU_ASSERT_EQUAL(nvmlDeviceGetUUID(device, text, sizeof(text)), NVML_SUCCESS);
	CU_ASSERT_STRING_EQUAL(text, want);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByUUID(text, &d), NVML_SUCCESS);
	CU_ASSERT_PTR_EQUAL(d, device);
	snprintf(longer, sizeof(longer), "%s0", want);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByUUID(longer, &d), NVML_ERROR_NOT_FOUND);
	/* each version of the structure is filled to its own end */
	memset(&p, 0xee, sizeof(p));
	CU_ASSERT_EQUAL(nvmlDeviceGetPciInfo(device, &p), NVML_SUCCESS);
	CU_ASSERT_STRING_EQUAL(p.legacy, VF);
	CU_ASSERT(p.domain == 0 && p.bus == 0 && p.device == 5 && p.id == 0x53481234);
	CU_ASSERT_EQUAL(p.subsystem, 0xeeeeeeee);
	CU_ASSERT_EQUAL(nvmlDeviceGetPciInfo_v2(device, &p), NVML_SUCCESS);
	CU_ASSERT_EQUAL(p.subsystem, 0x00071234);
	CU_ASSERT_EQUAL((uint8_t)p.address[0], 0xee);
	CU_ASSERT_EQUAL(nvmlDeviceGetPciInfo_v3(device, &p), NVML_SUCCESS);
	CU_ASSERT_STRING_EQUAL(p.address, "0000" VF);
	end();
}

TEST(places, "the device is found by its place")
{
	static const struct {
		const char *text;
		nvmlReturn_t e;
	} cases[] = {
		{VF, NVML_SUCCESS},
		{"0000" VF, NVML_SUCCESS},
		{"0:0:5.0", NVML_SUCCESS},
		{"0000:00:05", NVML_SUCCESS},
		{"0000:00:06.0", NVML_ERROR_NOT_FOUND},
		{"0000:00:05.1", NVML_ERROR_NOT_FOUND},
		{"0001:00:05.0", NVML_ERROR_NOT_FOUND},
		{"0000:00:05.0x", NVML_ERROR_NOT_FOUND},
		{"0000:00:05.", NVML_ERROR_NOT_FOUND},
		{"00:05.0", NVML_ERROR_NOT_FOUND},
		{"", NVML_ERROR_NOT_FOUND},
		{"GPU", NVML_ERROR_NOT_FOUND},
	};
	struct nvml_pci p;
	nvmlDevice_t d;
	size_t i;

	begin();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_EQUAL(nvmlDeviceGetHandleByPciBusId_v2(cases[i].text, &d), cases[i].e);
		CU_ASSERT_EQUAL(nvmlDeviceGetHandleByPciBusId(cases[i].text, &d), cases[i].e);
	}
	end();
	/* A socket has no place among PCI functions. */
	make();
	setenv(FIND_VARIABLE, "/nowhere/vf0.sock", 1);
	CU_ASSERT_EQUAL_FATAL(nvmlInit_v2(), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlDeviceGetPciInfo_v3(device, &p), NVML_SUCCESS);
	CU_ASSERT_EQUAL(p.domain, NVML_NO_DOMAIN);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByPciBusId_v2(p.address, &d), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByPciBusId_v2("0000:00:00.0", &d), NVML_ERROR_NOT_FOUND);
	end();
}

/* NULL, handles of nonsense, and buffers without room are errors of each call, and change nothing.
 */
TEST(bad_arguments, "bad arguments are errors")
{
	char text[96] = "before";
	struct nvml_memory_v2 m2 = {.version = NVML_MEMORY_V2};
	struct nvml_process_v1 old;
	struct nvml_utilization u;
	struct nvml_process p;
	struct nvml_memory m;
	struct nvml_pci pci;
	nvmlDevice_t d, none[] = {NULL, (nvmlDevice_t)1, (nvmlDevice_t)text};
	uint32_t n = 1, one = 1, i;
	int a, b;

	begin();
	for (i = 0; i < 3; i++) {
		d = none[i];
		CU_ASSERT_EQUAL(nvmlDeviceGetIndex(d, &n), NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetName(d, text, 96), NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetUUID(d, text, 96), NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetPciInfo(d, &pci), NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetPciInfo_v2(d, &pci), NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetPciInfo_v3(d, &pci), NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetCudaComputeCapability(d, &a, &b),
				NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetMemoryInfo(d, &m), NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetMemoryInfo_v2(d, &m2), NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetUtilizationRates(d, &u), NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses(d, &one, &old),
				NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v2(d, &one, &p),
				NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(d, &one, &p),
				NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetGraphicsRunningProcesses_v3(d, &one, &p),
				NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceIsMigDeviceHandle(d, &n), NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetComputeMode(d, &a), NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetVirtualizationMode(d, &a),
				NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetPersistenceMode(d, &a), NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetMigMode(d, &n, &n), NVML_ERROR_INVALID_ARGUMENT);
		CU_ASSERT_EQUAL(nvmlDeviceGetSupportedEventTypes(d, &m.total),
				NVML_ERROR_INVALID_ARGUMENT);
	}
	d = device;
	CU_ASSERT_EQUAL(nvmlDeviceGetCount_v2(NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByIndex_v2(0, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByIndex_v2(1, &d), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByUUID(NULL, &d), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByUUID("x", NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByPciBusId_v2(NULL, &d), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetHandleByPciBusId_v2(VF, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetIndex(d, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetPciInfo_v3(d, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetCudaComputeCapability(d, NULL, &b),
			NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetCudaComputeCapability(d, &a, NULL),
			NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetMemoryInfo(d, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetMemoryInfo_v2(d, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetUtilizationRates(d, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeMode(d, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetVirtualizationMode(d, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetPersistenceMode(d, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetMigMode(d, NULL, &n), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetMigMode(d, &n, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(d, NULL, &p),
			NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(d, &one, NULL),
			NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses(d, &one, NULL),
			NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetName(d, NULL, 96), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetName(d, text, 5), NVML_ERROR_INSUFFICIENT_SIZE);
	CU_ASSERT_EQUAL(nvmlDeviceGetUUID(d, NULL, 96), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlDeviceGetUUID(d, text, 40), NVML_ERROR_INSUFFICIENT_SIZE);
	CU_ASSERT_EQUAL(nvmlSystemGetDriverVersion(NULL, 96), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlSystemGetDriverVersion(text, 0), NVML_ERROR_INSUFFICIENT_SIZE);
	CU_ASSERT_EQUAL(nvmlSystemGetNVMLVersion(NULL, 96), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlSystemGetNVMLVersion(text, 1), NVML_ERROR_INSUFFICIENT_SIZE);
	CU_ASSERT_EQUAL(nvmlSystemGetCudaDriverVersion(NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlSystemGetProcessName(1, NULL, 9), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlSystemGetProcessName(1, text, 0), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlSystemGetProcessName(UINT32_MAX, text, 9), NVML_ERROR_NOT_FOUND);
	CU_ASSERT_STRING_EQUAL(text, "before");
	/* exactly enough */
	CU_ASSERT_EQUAL(nvmlDeviceGetName(d, text, 6), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlDeviceGetUUID(d, text, 41), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlSystemGetProcessName((uint32_t)getpid(), text, 4), NVML_SUCCESS);
	CU_ASSERT_EQUAL(strlen(text), 3);
	/* versions of the structure */
	for (n = 0; n < 32; n++) {
		m2.version = NVML_MEMORY_V2 ^ 1u << n;
		m2.total = 1;
		CU_ASSERT_EQUAL(nvmlDeviceGetMemoryInfo_v2(d, &m2),
				NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
		CU_ASSERT_EQUAL(m2.total, 1);
	}
	end();
}

TEST(versions, "the versions are the library's")
{
	char text[80];
	int version = 0;

	begin();
	CU_ASSERT_EQUAL(nvmlSystemGetCudaDriverVersion_v2(&version), NVML_SUCCESS);
	CU_ASSERT_EQUAL(version, 12040);
	CU_ASSERT_EQUAL(nvmlSystemGetDriverVersion(text, sizeof(text)), NVML_SUCCESS);
	/* programs compare it with 418, 525, ... */
	CU_ASSERT_EQUAL((int)strtod(text, NULL), 550);
	CU_ASSERT_EQUAL(nvmlSystemGetNVMLVersion(text, sizeof(text)), NVML_SUCCESS);
	CU_ASSERT_STRING_EQUAL(text, "12." VGPU_VERSION);
	CU_ASSERT_STRING_EQUAL(nvmlErrorString(NVML_SUCCESS), "no error");
	CU_ASSERT_PTR_NOT_NULL(nvmlErrorString(-1));
	CU_ASSERT_PTR_NOT_NULL(nvmlErrorString(8));
	end();
}

TEST(memory, "memory is what programs have")
{
	struct nvml_memory_v2 m2 = {.version = NVML_MEMORY_V2, .reserved = 1};
	pid_t a, b;

	begin();
	expect_used(0);
	a = start(use_five);
	expect_used(5 * MIB);
	b = start(use_seven);
	expect_used(12 * MIB);
	CU_ASSERT_EQUAL(nvmlDeviceGetMemoryInfo_v2(device, &m2), NVML_SUCCESS);
	CU_ASSERT(m2.total == TOTAL && m2.used == 12 * MIB && m2.left == TOTAL - 12 * MIB &&
		  m2.reserved == 0);
	stop(a); /* a program that is killed has nothing any more */
	expect_used(7 * MIB);
	stop(b);
	expect_used(0);
	a = start(use_another);
	expect_used(0);
	stop(a);
	a = start_crowd(use_with_child);
	expect_used(5 * MIB);
	stop_crowd(a);
	a = start(tell_nonsense);
	expect_used(0);
	stop(a);
	a = start(use_too_much);
	expect_used(TOTAL);
	stop(a);
	end();
}

TEST(processes, "processes are those that have the VF")
{
	struct nvml_process_v1 old[3];
	struct nvml_process p[3];
	uint32_t n = 0;
	pid_t a, b;

	begin();
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, NULL), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 0);
	a = start(use_five);
	b = start(use_seven);
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, NULL),
			NVML_ERROR_INSUFFICIENT_SIZE);
	CU_ASSERT_EQUAL(n, 2);
	memset(p, 0xee, sizeof(p));
	n = 1;
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v2(device, &n, p),
			NVML_ERROR_INSUFFICIENT_SIZE);
	CU_ASSERT_EQUAL(n, 2);
	CU_ASSERT_EQUAL(p[1].pid, 0xeeeeeeee);
	n = 3;
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, p), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 2);
	CU_ASSERT((pid_t)p[0].pid == (a < b ? a : b) && (pid_t)p[1].pid == (a < b ? b : a));
	CU_ASSERT_EQUAL(p[0].used, a < b ? 5 * MIB : 7 * MIB);
	CU_ASSERT(p[0].gpu_instance == NVML_NO_INSTANCE &&
		  p[0].compute_instance == NVML_NO_INSTANCE);
	memset(old, 0xee, sizeof(old));
	n = 1;
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses(device, &n, old),
			NVML_ERROR_INSUFFICIENT_SIZE);
	CU_ASSERT_EQUAL(old[1].pid, 0xeeeeeeee);
	n = 3;
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses(device, &n, old), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 2);
	CU_ASSERT(old[0].pid == p[0].pid && old[1].used == p[1].used);
	CU_ASSERT_EQUAL(old[2].pid, 0xeeeeeeee);
	n = 3;
	CU_ASSERT_EQUAL(nvmlDeviceGetGraphicsRunningProcesses_v3(device, &n, p), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 0);
	n = 3;
	CU_ASSERT_EQUAL(nvmlDeviceGetMPSComputeRunningProcesses_v2(device, &n, p), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 0);
	CU_ASSERT_EQUAL(nvmlDeviceIsMigDeviceHandle(device, &n), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 0);
	stop(a);
	stop(b);
	end();
}

#define FUNCTIONS 216
typedef nvmlReturn_t (*by_index)(uint32_t index, nvmlDevice_t *out, uint64_t, uint64_t);
typedef nvmlReturn_t (*list)(nvmlDevice_t device, uint32_t *n, struct nvml_named_process *out);

/* Calls a function by its number, as nvidia-smi does. */
static nvmlReturn_t list_by(const void *table, uint32_t number, uint32_t *n,
			    struct nvml_named_process *out)
{
	return ((const list *)table)[number](device, n, out);
}

TEST(smi, "nvidia-smi finds its functions by their numbers")
{
	static const uint8_t id[16] = "\xc4\xfe\x3e\x6c\xc9\x8f\x6c\x4e"
				      "\xa3\x27\xee\x69\x6e\x12\xf7\xc4";
	static struct nvml_named_process p[3];
	const struct nvml_table *table = NULL;
	uint8_t other[16];
	char text[96];
	nvmlDevice_t d = NULL;
	uint32_t n = 7, i;
	pid_t a;

	CU_ASSERT_EQUAL(nvmlInternalGetExportTable(&table, id), NVML_SUCCESS);
	begin();
	for (i = 0; i < 128; i++) {
		memcpy(other, id, sizeof(other));
		other[i / 8] ^= (uint8_t)(1u << i % 8);
		CU_ASSERT_EQUAL(nvmlInternalGetExportTable(&table, other), NVML_ERROR_NOT_FOUND);
	}
	CU_ASSERT_EQUAL(nvmlInternalGetExportTable(NULL, id), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlInternalGetExportTable(&table, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL_FATAL(*(const uint64_t *)table, FUNCTIONS * 8);
	for (i = 1; i < FUNCTIONS; i++)
		if (i != 26 && i != 81 && i < 213) {
			n = 7;
			CU_ASSERT_EQUAL(list_by(table, i, &n, p), NVML_ERROR_NOT_SUPPORTED);
			CU_ASSERT_EQUAL(n, 7);
		}
	CU_ASSERT_EQUAL(((const by_index *)table)[81](0, &d, 0x22, 0), NVML_SUCCESS);
	CU_ASSERT_PTR_EQUAL(d, device);
	CU_ASSERT_EQUAL(((const by_index *)table)[81](1, &d, 0x22, 0), NVML_ERROR_INVALID_ARGUMENT);
	a = start(use_five);
	memset(p, 0xee, sizeof(p));
	n = 3;
	CU_ASSERT_EQUAL(list_by(table, 213, &n, p), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 1);
	CU_ASSERT((pid_t)p[0].pid == a && p[0].used == 5 * MIB && p[0].used_protected == 0);
	CU_ASSERT(p[0].gpu_instance == NVML_NO_INSTANCE &&
		  p[0].compute_instance == NVML_NO_INSTANCE);
	CU_ASSERT_EQUAL(nvmlSystemGetProcessName((uint32_t)a, text, sizeof(text)), NVML_SUCCESS);
	CU_ASSERT(text[0] && !strncmp(p[0].name, text, sizeof(text) - 1));
	CU_ASSERT_EQUAL(p[1].pid, 0xeeeeeeee);
	n = 0;
	CU_ASSERT_EQUAL(list_by(table, 213, &n, p + 1), NVML_ERROR_INSUFFICIENT_SIZE);
	CU_ASSERT_EQUAL(n, 1);
	CU_ASSERT_EQUAL(p[1].pid, 0xeeeeeeee);
	for (i = 214; i < FUNCTIONS; i++) {
		n = 3;
		CU_ASSERT_EQUAL(list_by(table, i, &n, p), NVML_SUCCESS);
		CU_ASSERT_EQUAL(n, 0);
	}
	stop(a);
	end();
}

static void *wait_long(void *set)
{
	char data[32];

	CU_ASSERT_EQUAL(nvmlEventSetWait_v2(set, data, 2000), NVML_ERROR_TIMEOUT);
	return NULL;
}

TEST(events, "no event comes")
{
	pthread_t waiter;
	uint32_t n;
	nvmlEventSet_t set, other;
	uint64_t types = 9;
	vgpu_nsec began;
	char data[32];

	CU_ASSERT_EQUAL(nvmlEventSetCreate(&set), NVML_ERROR_UNINITIALIZED);
	begin();
	CU_ASSERT_EQUAL(nvmlEventSetCreate(NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL_FATAL(nvmlEventSetCreate(&set), NVML_SUCCESS);
	CU_ASSERT_EQUAL_FATAL(nvmlEventSetCreate(&other), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlDeviceGetSupportedEventTypes(device, &types), NVML_SUCCESS);
	CU_ASSERT_EQUAL(types, 0);
	CU_ASSERT_EQUAL(nvmlDeviceRegisterEvents(device, 0, set), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlDeviceRegisterEvents(device, 1, set), NVML_ERROR_NOT_SUPPORTED);
	CU_ASSERT_EQUAL(nvmlDeviceRegisterEvents(device, 0, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlEventSetWait(NULL, data, 0), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlEventSetWait(set, NULL, 0), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlEventSetWait(set, data, 0), NVML_ERROR_TIMEOUT);
	began = vgpu_now();
	CU_ASSERT_EQUAL(nvmlEventSetWait_v2(other, data, 30), NVML_ERROR_TIMEOUT);
	CU_ASSERT(vgpu_now() - began >= 30 * VGPU_MSEC);
	/* who waits keeps nobody from other calls */
	CU_ASSERT_EQUAL_FATAL(pthread_create(&waiter, NULL, wait_long, set), 0);
	for (began = vgpu_now(); vgpu_now() - began < 100 * VGPU_MSEC;)
		CU_ASSERT_EQUAL(nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	CU_ASSERT_EQUAL(pthread_tryjoin_np(waiter, NULL), EBUSY);
	pthread_join(waiter, NULL);
	CU_ASSERT_EQUAL(nvmlEventSetFree(set), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlEventSetFree(other), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlEventSetFree(NULL), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlEventSetFree((nvmlEventSet_t)data), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(nvmlEventSetWait((nvmlEventSet_t)data, data, 0),
			NVML_ERROR_INVALID_ARGUMENT);
	end();
}

/* A program that another user has started tells nothing; the kernel tells that it has the VF. */
TEST(others, "another user's program is known by its lock")
{
	struct nvml_process p[2] = {{0}};
	uint32_t n = 2;
	uint64_t seen;
	pid_t a;

	begin();
	a = start(hold);
	CU_ASSERT_EQUAL(used(&seen), NVML_ERROR_NO_PERMISSION);
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, p), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 1);
	CU_ASSERT((pid_t)p[0].pid == a && p[0].used == NVML_NOT_AVAILABLE);
	stop(a);
	a = start(hold_and_begin);
	expect_used(0);
	n = 2;
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, p), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 0);
	stop(a);
	a = start(hold_and_use);
	expect_used(5 * MIB);
	n = 2;
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, p), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 1);
	stop(a);
	expect_used(0);
	end();
}

/* Programs that share the VF, started in this order: how much memory each is said to have, and
 * together. */
struct sharing {
	void (*act[2])(void);
	uint64_t used[2]; /* NVML_NOT_AVAILABLE: not known; then that of both is not, either */
};

static const struct sharing sharings[] = {
	{{share_and_use_five, share}, {5 * MIB, NVML_NOT_AVAILABLE}},
	{{share, share_and_use_five}, {NVML_NOT_AVAILABLE, 5 * MIB}},
	{{share, share}, {NVML_NOT_AVAILABLE, NVML_NOT_AVAILABLE}},
	{{share_twice, share_twice}, {NVML_NOT_AVAILABLE, NVML_NOT_AVAILABLE}},
	{{share_and_use_five, share_and_use_seven}, {5 * MIB, 7 * MIB}},
};

static void expect_sharing(const struct sharing *s)
{
	bool known = s->used[0] != NVML_NOT_AVAILABLE && s->used[1] != NVML_NOT_AVAILABLE;
	struct nvml_process p[5] = {{0}};
	uint32_t n = 5, i, j, found;
	uint64_t seen;
	pid_t pid[2];

	begin();
	for (i = 0; i < 2; i++)
		pid[i] = start(s->act[i]);
	CU_ASSERT_EQUAL(used(&seen), known ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION);
	CU_ASSERT(!known || seen == s->used[0] + s->used[1]);
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, p), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 2);
	for (i = 0; i < 2; i++) {
		for (j = found = 0; j < 5; j++)
			found += (pid_t)p[j].pid == pid[i] && p[j].used == s->used[i];
		CU_ASSERT_EQUAL(found, 1);
	}
	stop(pid[0]);
	stop(pid[1]);
	expect_used(0);
	end();
}

TEST(shared, "programs that share the VF are all seen")
{
	size_t i;

	for (i = 0; i < sizeof(sharings) / sizeof(sharings[0]); i++)
		expect_sharing(&sharings[i]);
}

/* Nobody hides in a crowd, and the list has an end. */
TEST(crowds, "a crowd hides nobody")
{
	static struct nvml_process p[CROWD];
	uint32_t n = CROWD;
	uint64_t seen;
	pid_t a, b;

	begin();
	a = start_crowd(share_in_a_crowd_and_use);
	expect_used(5 * MIB);
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, p), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 1);
	b = start(share);
	CU_ASSERT_EQUAL(used(&seen), NVML_ERROR_NO_PERMISSION);
	n = CROWD;
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, p), NVML_SUCCESS);
	CU_ASSERT_EQUAL(n, 2);
	CU_ASSERT((pid_t)p[1].pid == b && p[1].used == NVML_NOT_AVAILABLE);
	stop(b);
	stop_crowd(a);
	end();
	begin();
	a = start_crowd(share_in_a_crowd);
	CU_ASSERT_EQUAL(used(&seen), NVML_ERROR_NO_PERMISSION);
	n = CROWD;
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, p), NVML_SUCCESS);
	CU_ASSERT(n > 8 && n < CROWD);
	stop_crowd(a);
	end();
}

/* Looking takes no lock and writes no register: a program can take the VF at any time. */
TEST(disturbs_nothing, "looking disturbs nothing")
{
	uint8_t before[PAGE];
	struct nvml_utilization u;
	pid_t a;

	begin();
	memcpy(before, registers, PAGE);
	expect_used(0);
	CU_ASSERT_EQUAL(nvmlDeviceGetUtilizationRates(device, &u), NVML_SUCCESS);
	a = start(hold_and_use);
	expect_used(5 * MIB);
	stop(a);
	CU_ASSERT_EQUAL(memcmp(before, registers, PAGE), 0);
	end();
}

/* With a socket, and with a softgpu that does not tell, only programs know. */
TEST(told_by_programs, "what the VF does not tell, programs do")
{
	static const uint8_t nothing[sizeof(struct softgpu_about)];
	struct nvml_utilization u;
	struct nvml_memory m;
	char text[96];
	int major, minor;
	pid_t a;

	begin();
	set(SOFTGPU_ABOUT_AT, nothing, sizeof(nothing));
	CU_ASSERT_EQUAL(nvmlDeviceGetName(device, text, sizeof(text)), NVML_SUCCESS);
	CU_ASSERT_STRING_EQUAL(text, "VF of softgpu");
	CU_ASSERT_EQUAL(nvmlDeviceGetCudaComputeCapability(device, &major, &minor),
			NVML_ERROR_NOT_SUPPORTED);
	a = start(use_five);
	CU_ASSERT_EQUAL(nvmlDeviceGetName(device, text, sizeof(text)), NVML_SUCCESS);
	CU_ASSERT_STRING_EQUAL(text, "told by a program");
	CU_ASSERT_EQUAL(nvmlDeviceGetCudaComputeCapability(device, &major, &minor), NVML_SUCCESS);
	CU_ASSERT(major == 8 && minor == 0);
	stop(a);
	end();
	make();
	setenv(FIND_VARIABLE, "/nowhere/vf0.sock", 1);
	CU_ASSERT_EQUAL_FATAL(nvmlInit_v2(), NVML_SUCCESS);
	CU_ASSERT_EQUAL(nvmlDeviceGetMemoryInfo(device, &m), NVML_ERROR_NOT_SUPPORTED);
	CU_ASSERT_EQUAL(nvmlDeviceGetUtilizationRates(device, &u), NVML_ERROR_NOT_SUPPORTED);
	end();
}

/* What of a VF says whether several programs can have it at a time. */
static const struct {
	const char *name;
	uint64_t features, window;
	int mode;
} computes[] = {
	{VF, SOFTGPU_HAS_SLOTS, GUEST_WINDOW_OF_TWO, NVML_COMPUTEMODE_DEFAULT},
	{NAME, UINT64_MAX, 16 * MIB, NVML_COMPUTEMODE_DEFAULT},
	{VF, ~(uint64_t)SOFTGPU_HAS_SLOTS, 16 * MIB, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS},
	{VF, UINT64_MAX, GUEST_WINDOW_OF_TWO - 1, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS},
	{"resource:" VF, UINT64_MAX, 16 * MIB, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS},
	{"vfio:" VF, UINT64_MAX, 16 * MIB, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS},
	{"/nowhere/vf0.sock", UINT64_MAX, 16 * MIB, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS},
};

TEST(compute_mode, "the compute mode says whether programs share the VF")
{
	size_t i;
	int mode;

	CU_ASSERT_EQUAL(nvmlDeviceGetComputeMode(device, &mode), NVML_ERROR_UNINITIALIZED);
	for (i = 0; i < sizeof(computes) / sizeof(computes[0]); i++) {
		make();
		set_long(SOFTGPU_FEATURES, computes[i].features);
		set_long(SOFTGPU_MEMORY_SIZE, computes[i].window);
		setenv(FIND_VARIABLE, computes[i].name, 1);
		CU_ASSERT_EQUAL_FATAL(nvmlInit_v2(), NVML_SUCCESS);
		mode = 9;
		CU_ASSERT_EQUAL(nvmlDeviceGetComputeMode(device, &mode), NVML_SUCCESS);
		CU_ASSERT_EQUAL(mode, computes[i].mode);
		end();
	}
}

/* A function is in a VM; who has a socket need not be in one. */
TEST(virtualization_mode, "the virtualization mode is that of a VM")
{
	static const struct {
		const char *name;
		nvmlReturn_t e;
		int mode;
	} cases[] = {
		{VF, NVML_SUCCESS, NVML_GPU_VIRTUALIZATION_MODE_VGPU},
		{"resource:" VF, NVML_SUCCESS, NVML_GPU_VIRTUALIZATION_MODE_VGPU},
		{"vfio:" VF, NVML_SUCCESS, NVML_GPU_VIRTUALIZATION_MODE_VGPU},
		{"/nowhere/vf0.sock", NVML_ERROR_NOT_SUPPORTED, 9},
	};
	size_t i;
	int mode;

	CU_ASSERT_EQUAL(nvmlDeviceGetVirtualizationMode(device, &mode), NVML_ERROR_UNINITIALIZED);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make();
		setenv(FIND_VARIABLE, cases[i].name, 1);
		CU_ASSERT_EQUAL_FATAL(nvmlInit_v2(), NVML_SUCCESS);
		mode = 9;
		CU_ASSERT_EQUAL(nvmlDeviceGetVirtualizationMode(device, &mode), cases[i].e);
		CU_ASSERT_EQUAL(mode, cases[i].mode);
		end();
	}
}

TEST(other_modes, "other modes are off")
{
	uint32_t current = 9, pending = 9;
	int mode = 9;

	CU_ASSERT_EQUAL(nvmlDeviceGetPersistenceMode(device, &mode), NVML_ERROR_UNINITIALIZED);
	CU_ASSERT_EQUAL(nvmlDeviceGetMigMode(device, &current, &pending), NVML_ERROR_UNINITIALIZED);
	CU_ASSERT(mode == 9 && current == 9 && pending == 9);
	begin();
	CU_ASSERT_EQUAL(nvmlDeviceGetPersistenceMode(device, &mode), NVML_SUCCESS);
	CU_ASSERT_EQUAL(mode, NVML_FEATURE_DISABLED);
	CU_ASSERT_EQUAL(nvmlDeviceGetMigMode(device, &current, &pending), NVML_SUCCESS);
	CU_ASSERT_EQUAL(current, NVML_DEVICE_MIG_DISABLE);
	CU_ASSERT_EQUAL(pending, NVML_DEVICE_MIG_DISABLE);
	end();
}

TEST(lost, "a VF that has gone is lost")
{
	static uint8_t ones[PAGE];
	struct nvml_utilization u;
	char text[96];
	uint64_t seen;
	int mode = 9;

	begin();
	memset(ones, 0xff, sizeof(ones));
	set(0, ones, PAGE);
	CU_ASSERT_EQUAL(used(&seen), NVML_ERROR_GPU_IS_LOST);
	CU_ASSERT_EQUAL(nvmlDeviceGetName(device, text, sizeof(text)), NVML_ERROR_GPU_IS_LOST);
	CU_ASSERT_EQUAL(nvmlDeviceGetUtilizationRates(device, &u), NVML_ERROR_GPU_IS_LOST);
	CU_ASSERT_EQUAL(nvmlDeviceGetComputeMode(device, &mode), NVML_ERROR_GPU_IS_LOST);
	CU_ASSERT_EQUAL(mode, 9);
	CU_ASSERT_EQUAL(nvmlDeviceGetUUID(device, text, sizeof(text)), NVML_SUCCESS);
	end();
}

/* The percentage once it is measured again: an answer is repeated for 100 ms. */
static uint32_t measured(uint32_t unlike)
{
	vgpu_nsec until = vgpu_now() + 20 * VGPU_SEC;
	struct nvml_utilization u = {unlike, 0};

	while (u.gpu == unlike && vgpu_now() < until)
		CU_ASSERT_EQUAL_FATAL(nvmlDeviceGetUtilizationRates(device, &u), NVML_SUCCESS);
	return u.gpu;
}

TEST(utilization, "utilization is that of the time in between")
{
	struct nvml_utilization u;
	vgpu_nsec since[4], until; /* before and after the looks */

	begin();
	set_long(SOFTGPU_RAN, 0);
	CU_ASSERT_EQUAL(nvmlDeviceGetUtilizationRates(device, &u), NVML_SUCCESS);
	CU_ASSERT_EQUAL(u.gpu, 0);
	/* more than can be */
	set_long(SOFTGPU_RAN, 1000 * VGPU_SEC);
	CU_ASSERT_EQUAL(measured(0), 100);
	since[0] = vgpu_now();
	CU_ASSERT_EQUAL(measured(100), 0);
	since[1] = vgpu_now();
	/* 60 ms of a time that this test measures, too */
	set_long(SOFTGPU_RAN, 1000 * VGPU_SEC + 60 * VGPU_MSEC);
	until = vgpu_now() + 5 * VGPU_SEC; /* in which 60 ms are 1 % and more */
	do {
		since[2] = vgpu_now();
		CU_ASSERT_EQUAL_FATAL(nvmlDeviceGetUtilizationRates(device, &u), NVML_SUCCESS);
		since[3] = vgpu_now();
	} while (u.gpu == 0 && since[3] < until);
	CU_ASSERT(u.gpu <= 6000 * VGPU_MSEC / (since[2] - since[1]));
	CU_ASSERT(u.gpu >= 6000 * VGPU_MSEC / (since[3] - since[0]));
	CU_ASSERT_EQUAL(u.memory, 0);
	/* the host has started another process for the VF */
	set_long(SOFTGPU_RAN, 5);
	CU_ASSERT_EQUAL(nvmlDeviceGetUtilizationRates(device, &u), NVML_SUCCESS);
	CU_ASSERT_EQUAL(u.gpu, 0);
	end();
}

/* Standard error of ACT. */
static void said(void (*act)(void), char *out, size_t size)
{
	char path[] = "/tmp/vgpu-nvml.XXXXXX";
	int fd = mkstemp(path), keep = dup(2);
	ssize_t n;

	unlink(path);
	fflush(stderr);
	dup2(fd, 2);
	act();
	dup2(keep, 2);
	close(keep);
	n = pread(fd, out, size - 1, 0);
	out[n > 0 ? n : 0] = '\0';
	close(fd);
}

static void ask(void)
{
	struct nvml_memory m = {1, 2, 3};
	uint32_t t = 9;
	int a = 9, b = 9;

	CU_ASSERT_EQUAL(nvmlDeviceGetTemperature(device, 0, &t), NVML_ERROR_NOT_SUPPORTED);
	CU_ASSERT_EQUAL(nvmlDeviceGetMinorNumber(device, &t), NVML_ERROR_NOT_SUPPORTED);
	CU_ASSERT_EQUAL(nvmlDeviceGetBAR1MemoryInfo(device, &m), NVML_ERROR_NOT_SUPPORTED);
	CU_ASSERT_EQUAL(nvmlDeviceGetEccMode(device, &a, &b), NVML_ERROR_NOT_SUPPORTED);
	CU_ASSERT(m.total == 1 && m.left == 2 && m.used == 3 && a == 9 && b == 9);
	CU_ASSERT_EQUAL(nvmlDeviceGetIndex(NULL, &t), NVML_ERROR_INVALID_ARGUMENT);
	CU_ASSERT_EQUAL(t, 9);
}

TEST(absent, "calls that are not supported say so")
{
	char text[512];

	begin();
	setenv("VGPU_CUDA_LOG", "1", 1);
	said(ask, text, sizeof(text));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "nvmlDeviceGetTemperature is not supported"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "nvmlDeviceGetIndex: invalid argument"));
	setenv("VGPU_CUDA_LOG", "0", 1);
	said(ask, text, sizeof(text));
	CU_ASSERT_STRING_EQUAL(text, "");
	unsetenv("VGPU_CUDA_LOG");
	end();
}

#define THREADS 6
#define ROUNDS 60

static void *come_and_go(void *arg)
{
	struct nvml_process p[4];
	struct nvml_memory m;
	char text[96];
	nvmlDevice_t d;
	uint32_t i, n;

	for (i = 0; i < ROUNDS; i++) {
		CU_ASSERT_EQUAL(nvmlInit_v2(), NVML_SUCCESS);
		CU_ASSERT_EQUAL(nvmlDeviceGetHandleByIndex_v2(0, &d), NVML_SUCCESS);
		CU_ASSERT_EQUAL(nvmlDeviceGetName(d, text, sizeof(text)), NVML_SUCCESS);
		if (i % 20 == 0) {
			n = 4;
			CU_ASSERT_EQUAL(nvmlDeviceGetMemoryInfo(d, &m), NVML_SUCCESS);
			CU_ASSERT_EQUAL(m.used, 5 * MIB);
			CU_ASSERT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, p),
					NVML_SUCCESS);
			CU_ASSERT_EQUAL(n, 1);
		}
		CU_ASSERT_EQUAL(nvmlShutdown(), NVML_SUCCESS);
	}
	return arg;
}

TEST(threads, "threads come and go")
{
	pthread_t t[THREADS];
	uint32_t i, n;
	pid_t a;

	make();
	a = start(use_five);
	for (i = 0; i < THREADS; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, come_and_go, NULL), 0);
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	CU_ASSERT_EQUAL(nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
	stop(a);
	munmap(registers, PAGE);
	remove_machine();
}

SUITE_MAIN("nvml")
