/* SPDX-License-Identifier: MIT */
/* The driver for NVIDIA GPUs with vGPUs, on a kernel that the test makes up (nvidia_kernel.h), with
 * a library in the place of NVIDIA's (fake_nvml.h). */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "asked.h"
#include "builtin.h"
#include "driven.h"
#include "fake_nvml.h"
#include "library.h"
#include "nvidia_kernel.h"
#include "suite.h"
#include "vfio/nvidia_admin.h"

#define MS VGPU_MSEC
#define UUID_A "11111111-2222-3333-4444-555555555555"
#define UUID_B "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"

const struct vgpu_driver_ops *const ops = &vgpu_nvidia_driver;
char *const trace = reactive_trace;

static struct fake_nvml *fake;
static const char *hidden[4]; /* names that the library does not have */

static void *symbol(void *handle, const char *name)
{
	unsigned i;

	for (i = 0; i < 4 && hidden[i]; i++)
		if (strcmp(hidden[i], name) == 0)
			return NULL;
	return dlsym(handle, name);
}

/* A GPU after a restart of the host: no types, and best effort. */
static void make_gpu(void)
{
	make_nvidia_machine();
	if (!fake) {
		fake = dlsym(dlopen(NVIDIA_LIBRARY, RTLD_NOW), "fake_nvml");
		CU_ASSERT_PTR_NOT_NULL_FATAL(fake);
		nvidia_symbol = symbol;
	}
	memset(hidden, 0, sizeof(hidden));
	memset((char *)fake + sizeof(fake->lock), 0, sizeof(*fake) - sizeof(fake->lock));
	strcpy(fake->gpu, PF);
	fake->caps = (struct nvml_caps){.policies = {NVML_BEST_EFFORT, NVML_EQUAL_SHARE,
						     NVML_FIXED_SHARE},
					.min_slice = 1000000,
					.max_slice = 30000000,
					.has_arr = 1,
					.min_frequency = 63,
					.max_frequency = 960,
					.min_average = 1,
					.max_average = 60};
	fake->policy = NVML_BEST_EFFORT;
	fake->slice = 2000000;
	fake->arr = NVML_ARR_ON;
	fake->vm_ids = NVML_VM_IS_UUID;
	fake->now = 1000000;
}

static void remove_gpu(void)
{
	CU_ASSERT_EQUAL(fake->inits, fake->shutdowns);
	remove_nvidia_machine();
}

static struct vgpu_driver_config config_of(const char *policy, vgpu_nsec slice)
{
	return (struct vgpu_driver_config){.device = "nvidia:" PF,
					   .n_vfs = NVIDIA_VFS,
					   .host_node = -1,
					   .vgpu_type = NVIDIA_TYPE,
					   .declaration = {policy, slice}};
}

static void open_gpu(const char *policy, vgpu_nsec slice)
{
	open_as(config_of(policy, slice));
}

/* Waits for the next observation. */
static const struct vgpu_observation *observe(void)
{
	static struct vgpu_observation seen;
	struct pollfd p = {.fd = ops->device->fd(gpu), .events = POLLIN};

	while (!ops->declared->observe(gpu, &seen)) {
		CU_ASSERT_EQUAL_FATAL(poll(&p, 1, DEADLINE_MS), 1);
		ops->device->dispatch(gpu, 1);
	}
	return &seen;
}

/* Waits for an observation of what began after this call. */
static const struct vgpu_observation *observe_anew(void)
{
	unsigned i;

	/* The first may have been made before, and the second begun. */
	for (i = 0; i < 2; i++)
		observe();
	return observe();
}

/* Changes what the library says, while nobody asks it. */
#define CHANGE(...)                                                                                \
	do {                                                                                       \
		pthread_mutex_lock(&fake->lock);                                                   \
		__VA_ARGS__;                                                                       \
		pthread_mutex_unlock(&fake->lock);                                                 \
	} while (0)

static void runs(uint32_t id, const char *vm)
{
	CHANGE({
		fake->vgpus[fake->n_vgpus].id = id;
		fake->vgpus[fake->n_vgpus].percent = 90;
		snprintf(fake->vgpus[fake->n_vgpus].vm, NVML_ID_SIZE, "%s", vm);
		fake->n_vgpus++;
	});
}

static bool has_types(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	return nvidia_types[0] == a && nvidia_types[1] == b && nvidia_types[2] == c &&
	       nvidia_types[3] == d;
}

static unsigned sets_before_types;

static void note_sets(uint32_t vf)
{
	if (vf == 0)
		sets_before_types = fake->sets;
}

/* What the host has lost is put back: the policy first, because it cannot be set later. */
TEST(set_up, "what a restart of the host lost is put back")
{
	make_gpu();
	nvidia_before_type = note_sets;
	sets_before_types = 0;
	open_gpu("strict", 2 * MS);
	CU_ASSERT_EQUAL(sets_before_types, 1);
	CU_ASSERT(fake->policy == NVML_FIXED_SHARE && fake->set2.frequency == 500 &&
		  fake->set2.average == 0 && fake->set2.engine == NVML_GRAPHICS);
	CU_ASSERT(has_types(NVIDIA_TYPE, NVIDIA_TYPE, NVIDIA_TYPE, NVIDIA_TYPE));
	CU_ASSERT(!found.adopted && caps.kind == VGPU_DRIVER_DECLARED &&
		  caps.max_vfs == NVIDIA_VFS);
	CU_ASSERT_PTR_NOT_NULL(strstr(caps.note, "while no vGPU exists"));
	CU_ASSERT_STRING_EQUAL(observe()->policy, "strict");
	/* VFs keep NVIDIA's driver. */
	CU_ASSERT_PTR_NULL(strstr(reactive_trace, "driver"));
	close_gpu();
	/* The next vgpud finds all as it should be. */
	reactive_trace[0] = '\0';
	open_gpu("strict", 2 * MS);
	CU_ASSERT(found.adopted && fake->sets == 1);
	CU_ASSERT_STRING_EQUAL(reactive_trace, "");
	CU_ASSERT(!observe()->waits);
	close_gpu();
	CU_ASSERT(has_types(NVIDIA_TYPE, NVIDIA_TYPE, NVIDIA_TYPE, NVIDIA_TYPE));
	remove_gpu();
}

/* Without a type, VFs stay as they are. */
TEST(untyped, "without a type, VFs stay as they are")
{
	struct vgpu_driver_config config = config_of("equal", 0);

	make_gpu();
	config.vgpu_type = 0;
	nvidia_types[1] = NVIDIA_OTHER_TYPE;
	CU_ASSERT_EQUAL_FATAL(try_open(config), 0);
	CU_ASSERT(has_types(0, NVIDIA_OTHER_TYPE, 0, 0));
	CU_ASSERT(fake->policy == NVML_EQUAL_SHARE && fake->set2.frequency == 0);
	close_gpu();
	remove_gpu();
}

/* While a vGPU exists the policy stands; then vgpud's is put into force. */
TEST(waits, "a policy waits until no vGPU exists")
{
	const struct vgpu_observation *seen;
	unsigned i;

	make_gpu();
	runs(7, UUID_A);
	open_gpu("equal", 4 * MS);
	seen = observe();
	CU_ASSERT(seen->waits && !seen->trouble && seen->running == 1);
	CU_ASSERT_STRING_EQUAL(seen->policy, "best-effort");
	CU_ASSERT_EQUAL(fake->sets, 0);
	CHANGE(fake->n_vgpus = 0);
	for (i = 0; i < 100 && observe()->waits; i++)
		;
	seen = observe_anew();
	CU_ASSERT(!seen->waits && seen->slice == 4 * MS);
	CU_ASSERT_STRING_EQUAL(seen->policy, "equal");
	CU_ASSERT_EQUAL(fake->sets, 1);
	close_gpu();
	remove_gpu();
}

static int declare(const char *policy, vgpu_nsec slice)
{
	struct vgpu_declaration want = {policy, slice};

	err.text[0] = '\0';
	return ops->declared->declare(gpu, &want, &err);
}

TEST(live, "policies change while no vGPU exists")
{
	const struct vgpu_observation *seen;

	make_gpu();
	fake->caps.policies[2] = 0; /* mixed sizes: no fixed share */
	open_gpu("equal", 0);
	CU_ASSERT_EQUAL(declare("strict", 0), -EOPNOTSUPP);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "choose another of"));
	CU_ASSERT_EQUAL(declare("equal", MS / 2), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "takes 1042 to 15873"));
	CU_ASSERT_EQUAL(declare("equal", 16 * MS), -EINVAL);
	CU_ASSERT_EQUAL(declare("best-effort", 16 * MS), 0);
	seen = observe_anew();
	CU_ASSERT(!seen->waits && strcmp(seen->policy, "best-effort") == 0);
	CU_ASSERT_EQUAL(fake->set2.frequency, 0);
	runs(9, UUID_A);
	observe_anew();
	CU_ASSERT_EQUAL(declare("equal", 0), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "only while no vGPU exists, and 1 do"));
	CU_ASSERT_EQUAL(fake->policy, NVML_BEST_EFFORT);
	/* It fails when it is tried: that is told, and not tried again and again. */
	CHANGE(fake->n_vgpus = 0);
	observe_anew();
	CHANGE(fake->set = NVML_RESET_REQUIRED);
	CU_ASSERT_EQUAL(declare("equal", 0), 0);
	seen = observe_anew();
	CU_ASSERT(seen->waits && seen->trouble && strstr(seen->trouble, "restart the host"));
	CHANGE(fake->set = 0);
	seen = observe_anew();
	CU_ASSERT(seen->waits && seen->trouble);
	CU_ASSERT_EQUAL(declare("equal", 0), 0);
	seen = observe_anew();
	CU_ASSERT(!seen->waits && !seen->trouble && strcmp(seen->policy, "equal") == 0);
	/* Somebody else changes it: it is set again. */
	CHANGE(fake->policy = NVML_FIXED_SHARE);
	CU_ASSERT_STRING_EQUAL(observe_anew()->policy, "equal");
	close_gpu();
	remove_gpu();
}

/* Libraries before CUDA 13 have the first version of the calls only. */
TEST(first_version, "the first version of the library's calls will do")
{
	static const char *const second[] = {"nvmlDeviceGetVgpuSchedulerState_v2",
					     "nvmlDeviceSetVgpuSchedulerState_v2",
					     "nvmlDeviceGetVgpuSchedulerLog_v2"};
	const struct vgpu_observation *seen;

	make_gpu();
	memcpy(hidden, second, sizeof(second));
	fake->n_log = 1;
	fake->entries[0] = (struct nvml_entry2){5, 700, 700, 3, 2000, 50, 9};
	open_gpu("equal", 5 * MS);
	CU_ASSERT(fake->set1.arr == NVML_ARR_ON && fake->set1.want.arr.frequency == 200 &&
		  fake->set1.want.arr.average == 0 && fake->set1.policy == NVML_EQUAL_SHARE);
	seen = observe();
	CU_ASSERT(!seen->waits && seen->slice == 5 * MS && seen->n_runlists == 1);
	CU_ASSERT(seen->runlists[0].id == 3 && seen->runlists[0].run == 700 &&
		  seen->runlists[0].preemption == 50 && seen->runlists[0].weight == 0);
	close_gpu();
	remove_gpu();
	/* Without adaptive round robin, a slice is what it is. */
	make_gpu();
	memcpy(hidden, second, sizeof(second));
	fake->caps.has_arr = 0;
	open_gpu("strict", 25 * MS);
	CU_ASSERT(fake->set1.arr == NVML_ARR_OFF && fake->set1.want.plain.slice == 25000000);
	CU_ASSERT_EQUAL(observe()->slice, 25 * MS);
	CU_ASSERT_EQUAL(declare("strict", 31 * MS), -EINVAL);
	close_gpu();
	remove_gpu();
}

/* Names that the library lacks: some are needed, and of some one of two. */
TEST(names_missing, "names that the library lacks")
{
	static const struct {
		const char *names[2], *missing; /* NULL: it does without */
	} cases[] = {
		{{"nvmlInit_v2"}, "nvmlInit_v2"},
		{{"nvmlShutdown"}, "nvmlShutdown"},
		{{"nvmlDeviceGetHandleByPciBusId_v2"}, "nvmlDeviceGetHandleByPciBusId_v2"},
		{{"nvmlDeviceGetVgpuSchedulerCapabilities"},
		 "nvmlDeviceGetVgpuSchedulerCapabilities"},
		{{"nvmlDeviceGetActiveVgpus"}, "nvmlDeviceGetActiveVgpus"},
		{{"nvmlDeviceGetVgpuSchedulerState"}, NULL},
		{{"nvmlDeviceGetVgpuSchedulerState_v2"}, NULL},
		{{"nvmlDeviceGetVgpuSchedulerState", "nvmlDeviceGetVgpuSchedulerState_v2"},
		 "nvmlDeviceGetVgpuSchedulerState"},
		{{"nvmlDeviceSetVgpuSchedulerState"}, NULL},
		{{"nvmlDeviceSetVgpuSchedulerState_v2"}, NULL},
		{{"nvmlDeviceSetVgpuSchedulerState", "nvmlDeviceSetVgpuSchedulerState_v2"},
		 "nvmlDeviceSetVgpuSchedulerState"},
		{{"nvmlDeviceGetVgpuSchedulerLog"}, NULL},
		{{"nvmlDeviceGetVgpuSchedulerLog_v2"}, NULL},
		{{"nvmlDeviceGetVgpuSchedulerLog", "nvmlDeviceGetVgpuSchedulerLog_v2"}, NULL},
		{{"nvmlDeviceGetVgpuUtilization"}, NULL},
		{{"nvmlVgpuInstanceGetVmID"}, NULL},
	};
	struct vgpu_driver_config config = config_of("equal", 4 * MS);
	char says[128];
	unsigned i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make_gpu();
		memcpy(hidden, cases[i].names, sizeof(cases[i].names));
		CU_ASSERT_EQUAL(try_open(config), cases[i].missing ? -ENOSYS : 0);
		if (cases[i].missing) {
			snprintf(says, sizeof(says), "has no %s: vgpud needs NVIDIA vGPU",
				 cases[i].missing);
			CU_ASSERT_PTR_NOT_NULL(strstr(err.text, says));
			CU_ASSERT(has_types(0, 0, 0, 0) && fake->inits == 0);
		} else {
			CU_ASSERT(!observe()->waits && fake->policy == NVML_EQUAL_SHARE);
			close_gpu();
		}
		remove_gpu();
	}
}

/* Each call of the library fails: all is as it was found, and the sentence says what helps. */
TEST(library_fails, "calls of the library that fail change nothing")
{
	static const struct {
		size_t at;
		int result, code;
		const char *why;
	} cases[] = {
		{offsetof(struct fake_nvml, init), NVML_NO_DRIVER, -ENODEV, "is not loaded"},
		{offsetof(struct fake_nvml, init), NVML_BLOCKED, -EPERM, "DeviceAllow="},
		{offsetof(struct fake_nvml, init), NVML_MISMATCH, -EINVAL, "restart the host"},
		{offsetof(struct fake_nvml, find), NVML_NOT_FOUND, -ENOENT, "does not find this"},
		{offsetof(struct fake_nvml, find), NVML_NO_PERMISSION, -EPERM, "as root"},
		{offsetof(struct fake_nvml, limits), NVML_NOT_SUPPORTED, -EOPNOTSUPP, "MIG is on"},
		{offsetof(struct fake_nvml, running), NVML_UNKNOWN, -EIO, "kernel's log"},
		{offsetof(struct fake_nvml, get), NVML_LOST, -ENODEV, "fallen off the bus"},
		{offsetof(struct fake_nvml, set), NVML_NOT_SUPPORTED, -EOPNOTSUPP, "a vGPU exists"},
		{offsetof(struct fake_nvml, set), NVML_RESET_REQUIRED, -EIO, "restart the host"},
		{offsetof(struct fake_nvml, set), NVML_IN_USE, -EBUSY, "end the VMs"},
		{offsetof(struct fake_nvml, set), NVML_INVALID, -EINVAL, "other arguments"},
		{offsetof(struct fake_nvml, set), 77, -EIO, "kernel's log"},
		{offsetof(struct fake_nvml, deaf), 1, -EIO, "cannot set its scheduler"},
	};
	struct vgpu_driver_config config = config_of("strict", 0);
	unsigned i;
	int r;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make_gpu();
		memcpy((char *)fake + cases[i].at, &cases[i].result, sizeof(int));
		r = try_open(config);
		if (r != cases[i].code || !strstr(err.text, cases[i].why) ||
		    !strstr(err.text, PF)) {
			fprintf(stderr, "case %u: %d: %s\n", i, r, err.text);
			CU_FAIL("another refusal");
		}
		CU_ASSERT(has_types(0, 0, 0, 0) && fake->policy == NVML_BEST_EFFORT);
		CU_ASSERT_STRING_EQUAL(reactive_trace, "");
		remove_gpu();
	}
}

/* Another owner takes VF 0 while vgpud is still giving types. */
static void taken_meanwhile(uint32_t vf)
{
	if (vf == 2)
		nvidia_vm(4711, 0, UUID_A);
	if (vf == 3)
		nvidia_types[1] = NVIDIA_OTHER_TYPE;
}

/* All VFs get their type, or none; and what is somebody else's by then stays. */
TEST(types, "types are given to all VFs or to none")
{
	struct vgpu_driver_config config = config_of("strict", 0);

	make_gpu();
	nvidia_room = 3;
	CU_ASSERT_EQUAL(try_open(config), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "cannot give VF 3 vGPU type 1428"));
	CU_ASSERT(has_types(0, 0, 0, 0) && fake->policy == NVML_BEST_EFFORT && fake->sets == 2);
	nvidia_before_type = taken_meanwhile;
	CU_ASSERT_EQUAL(try_open(config), -EINVAL);
	CU_ASSERT(has_types(NVIDIA_TYPE, NVIDIA_OTHER_TYPE, 0, 0));
	nvidia_before_type = NULL;
	/* A VF has another type already: nothing is changed. */
	reactive_trace[0] = '\0';
	CU_ASSERT_EQUAL(try_open(config), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(err.text, "VF 1 of " PF " has type 1145, which vgpud leaves"));
	CU_ASSERT_STRING_EQUAL(reactive_trace, "");
	CU_ASSERT(has_types(NVIDIA_TYPE, NVIDIA_OTHER_TYPE, 0, 0));
	/* No such type. */
	nvidia_types[0] = nvidia_types[1] = 0;
	config.vgpu_type = 5;
	CU_ASSERT_EQUAL(try_open(config), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(err.text, "can have: 1145 (NVIDIA H200X-35C), 1428 (NVIDIA H200X-141C)"));
	nvidia_room = 0;
	CU_ASSERT_EQUAL(try_open(config), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "can have: none"));
	CU_ASSERT(has_types(0, 0, 0, 0));
	remove_gpu();
}

/* A VM gives its VF back: whoever has the VF by then keeps its vGPU. */
TEST(release, "a release takes nothing from a later owner")
{
	make_gpu();
	open_gpu("equal", 0);
	runs(7, UUID_A);
	nvidia_vm(4711, 2, UUID_A);
	while (observe()->up != 1u << 2)
		;
	reactive_trace[0] = '\0';
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 2, VGPU_RESET_VF, 1), 0);
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 1, VGPU_RESET_VF, 1), 0);
	while (n_told < 2) {
		observe();
		ops->device->dispatch(gpu, 1);
	}
	CU_ASSERT(told[0].vf == 1 && told[0].value == 0);
	CU_ASSERT(told[1].vf == 2 && told[1].value == -EBUSY);
	CU_ASSERT_EQUAL(n_told, 2);
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 0, VGPU_RESET_GPU, 1), 0);
	CU_ASSERT_EQUAL(ops->device->dispatch(gpu, 1), 0);
	CU_ASSERT(told[2].code == VGPU_RESET_GPU && told[2].value == -EOPNOTSUPP);
	/* The vGPU ends a little later than its VM. */
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 2, VGPU_RESET_VF, 1), 0);
	observe();
	CHANGE(fake->n_vgpus = 0);
	while (n_told < 4) {
		observe();
		ops->device->dispatch(gpu, 1);
	}
	CU_ASSERT(told[3].vf == 2 && told[3].value == 0);
	observe_anew();
	CU_ASSERT_STRING_EQUAL(reactive_trace, "");
	CU_ASSERT_EQUAL(nvidia_types[2], NVIDIA_TYPE);
	close_gpu();
	remove_gpu();
}

/* Waits until as many vGPUs run, of which so many have no VF. */
static const struct vgpu_observation *await(uint32_t running, uint32_t unassigned)
{
	const struct vgpu_observation *seen;
	unsigned i;

	for (i = 0; i < 200; i++) {
		seen = observe();
		if (seen->running == running && seen->unassigned == unassigned)
			return seen;
	}
	CU_FAIL_FATAL("the vGPUs are not seen");
	return seen;
}

/* Whose a VF is: as root says, and nobody else. */
TEST(whose, "a VF is whose root says")
{
	char uuid[NVML_ID_SIZE];

	make_gpu();
	CU_ASSERT(!nvidia_vm_of(PF, 0, uuid, sizeof(uuid)));
	/* A QEMU of libvirt's lies in its arguments. */
	nvidia_vm(4711, 0, UUID_A);
	CU_ASSERT(nvidia_vm_of(PF, 0, uuid, sizeof(uuid)));
	CU_ASSERT_STRING_EQUAL(uuid, UUID_A);
	/* What is not root's is not believed, and what is root's is. */
	nvidia_process(4712, 1, 64055, UUID_A, "qemu");
	CU_ASSERT(!nvidia_vm_of(PF, 1, uuid, sizeof(uuid)));
	nvidia_process(4712, 1, 0, UUID_B, "qemu");
	CU_ASSERT(nvidia_vm_of(PF, 1, uuid, sizeof(uuid)));
	CU_ASSERT_STRING_EQUAL(uuid, UUID_B);
	/* Its name says that it is another one. */
	nvidia_process(4713, 2, 64055, UUID_A, "x (pid 4711)");
	CU_ASSERT(!nvidia_vm_of(PF, 2, uuid, sizeof(uuid)));
	/* A VM has ended, and its number is another VM's now. */
	nvidia_note("/run/libvirt/qemu/old.xml", 4711, UUID_B);
	CU_ASSERT(!nvidia_vm_of(PF, 0, uuid, sizeof(uuid)));
	remove_gpu();
}

/* What a vGPU did is its VF's: both belong to the same VM. */
TEST(observed, "what vGPUs did is in the books of their VFs")
{
	const struct vgpu_observation *seen;
	unsigned i;

	make_gpu();
	open_gpu("equal", 0);
	nvidia_vm(4711, 2, UUID_A);
	runs(70, UUID_A);
	runs(71, UUID_B); /* a VM that has none of the configured VFs open */
	seen = await(2, 1);
	CU_ASSERT_EQUAL(seen->up, 1u << 2);
	/* The first sample is of no use: nobody knows since when it is. */
	CU_ASSERT_EQUAL(observe_anew()->active[2], 0);
	CHANGE({
		fake->vgpus[0].percent = 25;
		fake->vgpus[1].percent = 60;
		fake->now += 2000000;
	});
	seen = observe_anew();
	CU_ASSERT(seen->active[2] == VGPU_SEC / 2 && seen->active[0] + seen->active[1] == 0);
	/* Nothing new is known: nothing is added. A percentage cannot be more than all. */
	CU_ASSERT_EQUAL(observe_anew()->active[2], VGPU_SEC / 2);
	CHANGE({
		fake->vgpus[0].percent = 4000000000u;
		fake->now += 500000;
	});
	CU_ASSERT_EQUAL(observe_anew()->active[2], VGPU_SEC);
	/* Which VF is whose is not known when a VM has two of them. */
	nvidia_vm(4712, 0, UUID_B);
	nvidia_vm(4712, 1, UUID_B);
	for (i = 0; i < 20; i++) /* VFs are searched for a vGPU once in a second */
		CU_ASSERT_EQUAL(observe()->unassigned, 1);
	nvidia_vm_ends(4712, 0);
	seen = await(2, 0);
	CU_ASSERT_EQUAL(seen->up, 1u << 1 | 1u << 2);
	/* More than are ever listed: those that are known stay known. */
	CHANGE(fake->more = 100);
	seen = await(102, 100);
	CU_ASSERT_EQUAL(seen->up, 1u << 1 | 1u << 2);
	CHANGE(fake->more = 0);
	await(2, 0);
	/* A VM ends, and what it had had stays in the books. */
	CHANGE(fake->n_vgpus = 1);
	seen = await(1, 0);
	CU_ASSERT(seen->up == 1u << 2 && seen->active[2] == VGPU_SEC && seen->wall > 0);
	/* The library fails: what was seen stays, and is called old. */
	CU_ASSERT_PTR_NULL(seen->stale);
	CHANGE({
		fake->running = NVML_UNKNOWN;
		fake->n_vgpus = 0;
	});
	seen = observe_anew();
	CU_ASSERT_PTR_NOT_NULL_FATAL(seen->stale);
	CU_ASSERT_PTR_NOT_NULL(strstr(seen->stale, "kernel's log"));
	CU_ASSERT_EQUAL(seen->running, 1);
	CHANGE({
		fake->running = NVML_OK;
		fake->n_vgpus = 1;
	});
	CU_ASSERT_PTR_NULL(observe_anew()->stale);
	/* The library's VMs have names that are no UUIDs. */
	CHANGE(fake->vm_ids = 0);
	runs(72, UUID_B);
	await(2, 1);
	close_gpu();
	remove_gpu();
}

/* Each turn counts once, though the log still has it when it is read again. */
TEST(logged, "each turn of the log counts once")
{
	const struct vgpu_observation *seen;

	make_gpu();
	fake->n_log = 3;
	fake->entries[0] = (struct nvml_entry2){100, 2000, 2000, 4, 2000, 10, 1};
	fake->entries[1] = (struct nvml_entry2){200, 1500, 1500, 6, 2000, 20, 2};
	fake->entries[2] = (struct nvml_entry2){300, 4100, 2100, 4, 2000, 30, 1};
	open_gpu("equal", 0);
	seen = observe_anew();
	CU_ASSERT_EQUAL(seen->n_runlists, 2);
	CU_ASSERT(seen->runlists[0].id == 4 && seen->runlists[0].turns == 2 &&
		  seen->runlists[0].run == 4100 && seen->runlists[0].preemption == 30);
	CU_ASSERT(seen->runlists[1].turns == 1 && seen->runlists[1].weight == 2);
	CHANGE({
		fake->entries[0] = (struct nvml_entry2){400, 3600, 2100, 6, 2000, 40, 2};
		fake->n_log = 1000; /* it cannot be more than there is room for */
	});
	seen = observe_anew();
	CU_ASSERT(seen->runlists[1].turns == 2 && seen->runlists[1].run == 3600);
	CU_ASSERT(seen->n_runlists <= VGPU_RUNLISTS);
	close_gpu();
	remove_gpu();
}

TEST(lost, "a GPU without its driver is lost")
{
	unsigned way, i;
	int r;

	for (way = 0; way < 2; way++) {
		make_gpu();
		open_gpu("equal", 0);
		if (way == 0)
			CHANGE(fake->running = NVML_LOST);
		else
			take(PCI_DEVICES "/" PF "/driver");
		for (i = 0, r = 0; i < 200 && r == 0; i++) {
			observe();
			r = ops->device->dispatch(gpu, 1);
		}
		CU_ASSERT_EQUAL(r, -ENODEV);
		ops->device->close(gpu, true);
		remove_gpu();
	}
}

static void not_offered(struct vgpu_driver_config *)
{
	fake->caps.policies[1] = NVML_BEST_EFFORT;
}

static void too_short(struct vgpu_driver_config *config)
{
	config->declaration.slice = 500 * VGPU_USEC;
}

static const struct refusal refusals[] = {
	NO_VENDOR("is not an NVIDIA GPU, and stays as it is", "0x8086\n"),
	NO_DRIVER("has driver nouveau, not nvidia, and stays as it is", "nouveau"),
	IS_A_VF,
	NO_HOST_MEMORY,
	NO_LAYOUT,
	{.why = "vGPUs are not mediated devices",
	 .code = -ENOENT,
	 .gone = PCI_DEVICES "/" PF "/virtfn0/nvidia/current_vgpu_type"},
	{.why = "vfs = 5: " PF " has 4 VFs", .code = -EINVAL, .vfs = NVIDIA_VFS + 1},
	{.why = "set vgpu_type instead", .code = -EINVAL, .size = 64 << 20},
	{.why = PF ": policy = equal: the driver of this GPU does not offer it",
	 .code = -EOPNOTSUPP,
	 .spoil = not_offered},
	{.why = PF ": policy = equal: slice_us = 500: this GPU takes",
	 .code = -EINVAL,
	 .spoil = too_short},
};

static void as_it_was(void)
{
	CU_ASSERT_STRING_EQUAL(reactive_trace, "");
	CU_ASSERT(fake->sets == 0 && has_types(0, 0, 0, 0));
}

/* A refusal says what, where and what to do, and leaves the GPU as it was. */
TEST(refused, "each refusal says what helps, and changes nothing")
{
	refuse_each(refusals, sizeof(refusals) / sizeof(refusals[0]), config_of("equal", 0),
		    make_gpu, as_it_was, remove_gpu);
	make_machine();
	put_file("0x10de\n", PCI_DEVICES "/%s/vendor", PF);
	point("../../drivers/nvidia", PCI_DEVICES "/" PF "/driver");
	CU_ASSERT_EQUAL(try_open(config_of("equal", 0)), -ENODEV);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "sriov-manage -e " PF));
	remove_machine();
}

static int open_equal(void)
{
	return try_open(config_of("equal", 0));
}

static void set_up_or_as_found(int r)
{
	CU_ASSERT_EQUAL(err.text[0] == '\0', r == 0);
	if (r == 0) {
		close_gpu();
		CU_ASSERT(has_types(NVIDIA_TYPE, NVIDIA_TYPE, NVIDIA_TYPE, NVIDIA_TYPE));
		CU_ASSERT_EQUAL(fake->policy, NVML_EQUAL_SHARE);
	} else {
		CU_ASSERT(has_types(0, 0, 0, 0));
		CU_ASSERT_EQUAL(fake->policy, NVML_BEST_EFFORT);
	}
	remove_gpu();
}

TEST(any_call_fails, "any kernel call may fail")
{
	CU_ASSERT(fail_each_call(&(struct each_call){&reactive_calls, &reactive_fail_at, make_gpu,
						     open_equal, set_up_or_as_found}) > 40);
}

/* From here on: vgpud's engine over this driver, in real time. */
static struct engine *engine;

/* Policies and parameters that NVIDIA's scheduler does not have are refused before the GPU is
 * touched. */
TEST(engine_refuses, "an engine refuses what NVIDIA's scheduler has not")
{
	static const struct {
		const char *policy, *param, *value, *why;
	} cases[] = {
		{"fair", NULL, NULL, "choose strict (fixed share), equal or best-effort"},
		{"deadline", NULL, NULL, "choose strict"},
		{"prio", NULL, NULL, "choose strict"},
		{"qos", NULL, NULL, "choose strict"},
		{"wdrr", NULL, NULL, "choose strict"},
		{"strict", "idle", "compress", "use idle = hold"},
		{"equal", "overhead_pct", "7", "no parameters but slice_us"},
		{"best-effort", "revisit", "0", "no parameters but slice_us"},
		{"equal", "slice_us", "900", "this GPU takes 1042 to 15873"},
	};
	unsigned i;

	make_gpu();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_EQUAL_FATAL(begin_engine(&engine, config_of(NULL, 0), cases[i].policy,
						   cases[i].param, cases[i].value, &err),
				      1);
		engine_stop(engine);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].why));
		CU_ASSERT(fake->sets == 0 && has_types(0, 0, 0, 0));
	}
	remove_gpu();
}

TEST(engine_runs, "an engine chooses a policy, and observes")
{
	const struct vgpu_policy_ops *strict = vgpu_builtin_policy("strict");
	const struct vgpu_policy_ops *equal = vgpu_builtin_policy("equal");
	const struct vgpu_policy_ops *best = vgpu_builtin_policy("best-effort");
	int64_t params[VGPU_MAX_PARAMS];
	struct engine_request request = {.ask = ENGINE_EVENT};
	const struct engine_snapshot *s;
	uint32_t n;

	make_gpu();
	CU_ASSERT_EQUAL_FATAL(begin_engine(&engine, config_of(NULL, 0), "strict", "slice_us",
					   "4000", &err),
			      0);
	CU_ASSERT(fake->policy == NVML_FIXED_SHARE && fake->set2.frequency == 250);
	CU_ASSERT_PTR_NOT_NULL(strstr(engine_says(engine, &n), "vgpud chooses its policy"));
	/* Turns are of one length. */
	vgpu_param_defaults(strict->vf_params, params);
	CU_ASSERT_EQUAL(vgpu_param_set(strict->vf_params, "slots", "2", params, &err), 0);
	request.event = (struct vgpu_event){.type = VGPU_EV_SET_VF,
					    .vf = 1,
					    .policy = strict,
					    .params = params};
	CU_ASSERT_EQUAL(ask_engine(engine, &request), -EOPNOTSUPP);
	CU_ASSERT_PTR_NOT_NULL(strstr(request.why, "give all VFs the same"));
	/* Another policy, live. */
	CU_ASSERT_EQUAL(ask_policy(engine, equal), 0);
	CU_ASSERT(AWAIT(strcmp(look_at(engine)->observed.policy, "equal") == 0));
	CU_ASSERT_EQUAL(fake->policy, NVML_EQUAL_SHARE);
	CU_ASSERT_PTR_EQUAL(engine_policy(engine)->in_force.policy, equal);
	/* One that the library refuses, when its turn comes, is tried again when it is set again.
	 */
	CHANGE(fake->set = NVML_RESET_REQUIRED);
	CU_ASSERT_EQUAL(ask_policy(engine, best), 0);
	CU_ASSERT(AWAIT(look_at(engine)->observed.trouble));
	CU_ASSERT_EQUAL(fake->policy, NVML_EQUAL_SHARE);
	CHANGE(fake->set = 0);
	CU_ASSERT_EQUAL(ask_policy(engine, best), 0);
	CU_ASSERT(AWAIT(!look_at(engine)->observed.trouble));
	CU_ASSERT_EQUAL(fake->policy, NVML_BEST_EFFORT);
	CU_ASSERT_EQUAL(ask_policy(engine, equal), 0);
	CU_ASSERT(AWAIT(strcmp(look_at(engine)->observed.policy, "equal") == 0));
	/* A VM comes, and is in the books. */
	runs(5, UUID_A);
	nvidia_vm(4711, 3, UUID_A);
	CU_ASSERT(AWAIT((s = look_at(engine))->observed.up >> 3 & 1));
	CU_ASSERT(s->declared && !s->governed && s->vfs[3].state == VGPU_VF_ACTIVE);
	CU_ASSERT(s->vfs[3].share_numerator == 1 && s->vfs[3].share_denominator == 1);
	CU_ASSERT(s->vfs[3].bound.max_lag == VGPU_NEVER && s->vfs[2].state == VGPU_VF_AVAIL);
	CHANGE(fake->vgpus[0].percent = 50);
	for (n = 0; n < DEADLINE_MS / 10 && s->vfs[3].ledger.run_ns == 0; n++) {
		CHANGE(fake->now += 10000);
		nanosleep(&(struct timespec){0, 10000000}, NULL);
		s = look_at(engine);
	}
	CU_ASSERT(s->vfs[3].ledger.run_ns > 0 && s->core.engine.wall_ns > 0);
	/* While it runs, the policy stands. */
	CU_ASSERT_EQUAL(ask_policy(engine, strict), -EBUSY);
	CU_ASSERT_PTR_EQUAL(look_at(engine)->core.policy, equal);
	request.event = (struct vgpu_event){.type = VGPU_EV_RESET_VF, .vf = 3};
	CU_ASSERT_EQUAL(ask_engine(engine, &request), 0);
	request = (struct engine_request){.ask = ENGINE_MEMORY};
	CU_ASSERT_EQUAL(ask_engine(engine, &request), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(nvidia_types[3], NVIDIA_TYPE);
	engine_stop(engine);
	CU_ASSERT(fake->policy == NVML_EQUAL_SHARE && nvidia_types[3] == NVIDIA_TYPE);
	remove_gpu();
}

/* A restart of vgpud beside a VM: the configured policy waits, and that is said. */
TEST(engine_waits, "an engine's policy waits for VMs that run")
{
	uint32_t n;

	make_gpu();
	runs(5, UUID_A);
	CU_ASSERT_EQUAL_FATAL(begin_engine(&engine, config_of(NULL, 0), "equal", NULL, NULL, &err),
			      0);
	CU_ASSERT_PTR_NOT_NULL(strstr(engine_says(engine, &n), "the configured policy"));
	CU_ASSERT(look_at(engine)->observed.waits && fake->sets == 0);
	CHANGE(fake->n_vgpus = 0);
	CU_ASSERT(AWAIT(!look_at(engine)->observed.waits));
	CU_ASSERT_EQUAL(fake->policy, NVML_EQUAL_SHARE);
	engine_stop(engine);
	remove_gpu();
}

SUITE_MAIN("NVIDIA GPUs with vGPUs")
