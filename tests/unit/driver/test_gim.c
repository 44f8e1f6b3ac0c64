/* SPDX-License-Identifier: MIT */
/* The driver for AMD GPUs under GIM, on a kernel that the test makes up (gim_kernel.h). */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "asked.h"
#include "builtin.h"
#include "driven.h"
#include "gim_kernel.h"
#include "suite.h"

#define US VGPU_USEC
#define SLICES "/sys/kernel/debug/gim/" PF "/asymmetric_timeslice"

const struct vgpu_driver_ops *const ops = &vgpu_gim_driver;
char *const trace = reactive_trace;

static struct vgpu_driver_config config_of(uint32_t n)
{
	return (struct vgpu_driver_config){.device = "gim:" PF, .n_vfs = n, .host_node = -1};
}

static void open_gpu(void)
{
	open_as(config_of(GIM_VFS));
}

static struct vgpu_program schedule(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	uint32_t us[GIM_VFS] = {a, b, c, d}, i;
	struct vgpu_program p = {.keep_turns = false};

	for (i = 0; i < GIM_VFS; i++)
		p.vfs[i].quantum = us[i] * US;
	return p;
}

/* The driver of a VF; "": none. */
static const char *driver_of(uint32_t vf)
{
	static char text[32];

	if (kernel_read_link(text, sizeof(text), PCI_DEVICES "/" PF "/virtfn%u/driver", vf) < 0)
		text[0] = '\0';
	return text;
}

/* The GPU is taken as it is: only VFs without a driver get one. */
TEST(adopt, "a GPU is adopted as it is")
{
	struct vgpu_program applied;
	vgpu_nsec active[GIM_VFS] = {1, 1, 1, 1};
	char text[32];
	uint32_t i;
	int lock;

	make_gim_machine();
	gim_slices[2] = 2500;
	open_gpu();
	CU_ASSERT(found.adopted && !found.driver_up[GIM_VFS - 1]);
	CU_ASSERT(caps.no_usage && caps.kind == VGPU_DRIVER_PROGRAMMED && caps.timeout.max == 0);
	CU_ASSERT(caps.quantum.min == 100 * US && caps.quantum.max == VGPU_SEC &&
		  caps.quantum.step == 100 * US);
	for (i = 0; i < GIM_VFS; i++)
		CU_ASSERT_STRING_EQUAL(driver_of(i), "vfio-pci");
	CU_ASSERT_PTR_NULL(strstr(reactive_trace, "asymmetric_timeslice"));
	CU_ASSERT_PTR_NULL(strstr(reactive_trace, "sriov_numvfs"));
	/* The PF stays with its driver. */
	CU_ASSERT_PTR_NULL(strstr(reactive_trace, PF "/driver"));
	CU_ASSERT_EQUAL(kernel_read_link(text, sizeof(text), PCI_DEVICES "/" PF "/driver"), 0);
	CU_ASSERT_STRING_EQUAL(text, "gim");
	CU_ASSERT_EQUAL(ops->programmed->programmed(gpu, &applied), 0);
	CU_ASSERT(applied.vfs[2].quantum == 2500 * US && applied.vfs[3].quantum == 4000 * US);
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, 7), 0);
	CU_ASSERT_EQUAL(active[0] + active[1] + active[2] + active[3], 0);
	lock = open(inside(PCI_DEVICES "/" PF "/config"), O_RDONLY | O_CLOEXEC);
	CU_ASSERT_EQUAL(flock(lock, LOCK_EX | LOCK_NB), -1);
	close_gpu();
	CU_ASSERT_EQUAL(flock(lock, LOCK_EX | LOCK_NB), 0);
	close(lock);
	/* The schedule stands, and the next vgpud changes nothing. */
	reactive_trace[0] = '\0';
	open_gpu();
	CU_ASSERT_STRING_EQUAL(reactive_trace, "");
	close_gpu();
	remove_gim_machine();
}

/* GIM stops the GPU's scheduler for each write: only changes are written. */
TEST(changes, "only changes are written")
{
	struct vgpu_program applied;

	make_gim_machine();
	open_gpu();
	CU_ASSERT_EQUAL(program(schedule(8000, 4000, 4000, 100), &applied), 0);
	CU_ASSERT_STRING_EQUAL(reactive_trace, PF "/asymmetric_timeslice=0,8000\n" PF
						  "/asymmetric_timeslice=3,100\n");
	CU_ASSERT(applied.vfs[0].quantum == 8000 * US && applied.vfs[3].quantum == 100 * US);
	CU_ASSERT_EQUAL(program(schedule(8000, 4000, 4000, 100), &applied), 0);
	CU_ASSERT_STRING_EQUAL(reactive_trace, "");
	/* Somebody else has changed a slice: it is mended. */
	gim_slices[1] = 7000;
	CU_ASSERT_EQUAL(program(schedule(8000, 4000, 4000, 100), &applied), 0);
	CU_ASSERT_EQUAL(gim_slices[1], 4000);
	/* Beyond its range and between its steps. */
	CU_ASSERT_EQUAL(program(schedule(0, 1250, 4000, 4000000), &applied), 0);
	CU_ASSERT(gim_slices[0] == 100 && gim_slices[1] == 1200 && gim_slices[3] == 1000000);
	close_gpu();
	remove_gim_machine();
}

/* A write that had no effect succeeds; what is read back tells. */
TEST(unheard, "what is read back counts")
{
	vgpu_nsec active[VGPU_GPU_MAX_VFS];
	struct vgpu_program applied;

	make_gim_machine();
	open_gpu();
	gim_deaf = 1u << 1;
	CU_ASSERT_EQUAL(program(schedule(5000, 5000, 5000, 5000), &applied), -EIO);
	CU_ASSERT(applied.vfs[1].quantum == 4000 * US && applied.vfs[2].quantum == 5000 * US);
	gim_deaf = 0;
	gim_write_error = -ENODEV + 1; /* any error: the VFs go on with what they have */
	CU_ASSERT_EQUAL(program(schedule(5000, 5000, 5000, 6000), &applied), -EIO);
	CU_ASSERT_EQUAL(applied.vfs[3].quantum, 5000 * US);
	gim_write_error = 0;
	CU_ASSERT_EQUAL(program(schedule(5000, 5000, 5000, 6000), &applied), 0);
	/* The text is not what vgpud knows: nothing is written. */
	gim_says = "VF0 Active timeslice = 4 ms\n";
	CU_ASSERT_EQUAL(program(schedule(9000, 5000, 5000, 6000), &applied), -EIO);
	CU_ASSERT_STRING_EQUAL(reactive_trace, "");
	gim_says = NULL;
	/* The file goes with the PF's driver, which is seen though nothing is to be written. */
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, 2), 0);
	CU_ASSERT_EQUAL(await_and_dispatch(), 0);
	take(SLICES);
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, 2), 0);
	CU_ASSERT_EQUAL(await_and_dispatch(), -ENODEV);
	CU_ASSERT_EQUAL(program(schedule(9000, 5000, 5000, 6000), &applied), -ENODEV);
	CU_ASSERT_EQUAL(ops->device->dispatch(gpu, 2), -ENODEV);
	close_gpu();
	remove_gim_machine();
}

/* Whether turns of VFs without work pass unused is GIM's parameter, and is not vgpud's to choose.
 */
TEST(modes, "kept turns are GIM's choice")
{
	static const struct {
		const char *text;
		bool keeps;
		const char *note;
	} cases[] = {
		{"1\n", true, "turns of VFs without work pass unused (sch_policy=1)"},
		{"2,2\n", false, "VFs without work are skipped (sch_policy=2)"},
		{"1,2\n", false, "load gim with sch_policy=1 (they do) or 2"},
		{"0,1\n", false, "load gim with sch_policy=1 (they do) or 2"},
		{"\n", false, "is not known"},
		{"x\n", false, "is not known"},
	};
	struct vgpu_program applied;
	unsigned i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make_gim_machine();
		put_file(cases[i].text, "/sys/module/gim/parameters/%s", "sch_policy");
		open_gpu();
		CU_ASSERT(caps.keeps_turns == cases[i].keeps &&
			  caps.always_keeps_turns == cases[i].keeps);
		CU_ASSERT_PTR_NOT_NULL(strstr(caps.note, cases[i].note));
		CU_ASSERT_EQUAL(ops->programmed->programmed(gpu, &applied), 0);
		CU_ASSERT_EQUAL(applied.keep_turns, cases[i].keeps);
		close_gpu();
		remove_gim_machine();
	}
}

TEST(stop_and_reset, "VFs are reset, and cannot be stopped")
{
	make_gim_machine();
	open_gpu();
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 2, VGPU_RESET_VF, 1), 0);
	await_told(1);
	CU_ASSERT(told[0].type == VGPU_EV_RESET_DONE && told[0].vf == 2 && told[0].value == 0);
	CU_ASSERT_EQUAL(gim_resets[2], 1);
	gim_reset_error = -ENOTTY;
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 0, VGPU_RESET_VF, 1), 0);
	await_told(2);
	CU_ASSERT_EQUAL(told[1].value, -ENOTTY);
	/* GIM cannot stop a VF: it needs a reset. */
	CU_ASSERT_EQUAL(ops->programmed->stop(gpu, 1, 1), 0);
	await_told(3);
	CU_ASSERT(told[2].type == VGPU_EV_HANG && told[2].vf == 1);
	close_gpu();
	remove_gim_machine();
}

#define UNSUPPORTED "Status:\n\nAsics not support asymmetric time slice setting!\n"

static void spatial(struct vgpu_driver_config *)
{
	put_file("profile_index       profile_type        num_of_partitions\n"
		 "2                   CPX                 8                   [[0 ]]\n",
		 PCI_DEVICES "/%s/accelerator_partition_profile", PF);
	put_file("memory_partition_mode: NPS4\nnuma_count: 4\n",
		 PCI_DEVICES "/%s/memory_partition_mode", PF);
}

static void in_software(struct vgpu_driver_config *)
{
	put_file("3\n", "/sys/module/gim/parameters/%s", "sch_policy");
}

static void not_bound(struct vgpu_driver_config *)
{
	nobody_probes = true;
}

static const struct refusal refusals[] = {
	NO_VENDOR("is not an AMD GPU, and stays as it is", "0x10de\n"),
	NO_DRIVER("has driver amdgpu, not gim, and stays as it is", "amdgpu"),
	IS_A_VF,
	NO_HOST_MEMORY,
	NO_LAYOUT,
	{.why = "mount debugfs there", .code = -ENOENT, .gone = SLICES},
	{.why = "boot without kernel lockdown",
	 .code = -EPERM,
	 .number = &gim_read_error,
	 .value = -EPERM},
	{.why = "see the kernel's log",
	 .code = -EFAULT,
	 .number = &gim_read_error,
	 .value = -EFAULT},
	{.why = "divided in space (CPX, NPS4)",
	 .code = -EOPNOTSUPP,
	 .says = &gim_says,
	 .said = UNSUPPORTED,
	 .spoil = spatial},
	{.why = "cannot set the slices of this GPU's VFs",
	 .code = -EOPNOTSUPP,
	 .says = &gim_says,
	 .said = UNSUPPORTED},
	{.why = "does not know this version of GIM",
	 .code = -EINVAL,
	 .says = &gim_says,
	 .said = "VF0 4000\n"},
	{.why = "does not know this version of GIM",
	 .code = -EINVAL,
	 .says = &gim_says,
	 .said = "VF1 Active timeslice = 1 us\nVF0 Active timeslice = 1 us\n"
		 "VF2 Active timeslice = 1 us\nVF3 Active timeslice = 1 us\n"},
	{.why = "load gim with sch_policy=1 or sch_policy=2",
	 .code = -EOPNOTSUPP,
	 .spoil = in_software},
	{.why = "set vfs = 4, or load gim with vf_num=3", .code = -EINVAL, .vfs = 3},
	{.why = "vfs = 9: " PF " has at most 8", .code = -EINVAL, .vfs = 9},
	{.why = "remove memory_mib", .code = -EINVAL, .size = 64 << 20},
	{.why = "use partition = equal", .code = -EINVAL, .size = VGPU_SIZE_NONE},
	{.why = "has driver amdgpu, so that programs of this host",
	 .code = -EBUSY,
	 .link = "virtfn3/driver",
	 .to = "../../drivers/amdgpu"},
	{.why = "driver vfio-pci does not bind it", .code = -EIO, .spoil = not_bound},
};

static void as_it_was(void)
{
	uint32_t k;

	CU_ASSERT_PTR_NULL(strstr(reactive_trace, "timeslice"));
	for (k = 0; k < 3; k++)
		CU_ASSERT_STRING_EQUAL(driver_of(k), "");
}

/* A refusal says what, where and what to do, and leaves the GPU as it was. */
TEST(refused, "each refusal says what helps, and changes nothing")
{
	refuse_each(refusals, sizeof(refusals) / sizeof(refusals[0]), config_of(GIM_VFS),
		    make_gim_machine, as_it_was, remove_gim_machine);
	/* GIM has made one VF, or none. */
	make_machine();
	put_file("0x1002\n", PCI_DEVICES "/%s/vendor", PF);
	point("../../drivers/gim", PCI_DEVICES "/" PF "/driver");
	CU_ASSERT_EQUAL(try_open(config_of(1)), -ENODEV);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "load gim with vf_num=N"));
	CU_ASSERT_EQUAL(kernel_write_text(1000, "1", PCI_DEVICES "/%s/sriov_numvfs", PF), 0);
	put_file("1\n", PCI_DEVICES "/%s/sriov_numvfs", PF);
	put_file("VF0 Active timeslice = 500000 us\n",
		 "/sys/kernel/debug/gim/%s/asymmetric_timeslice", PF);
	CU_ASSERT_EQUAL(try_open(config_of(1)), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "needs at least two VFs"));
	remove_machine();
}

static int open_all(void)
{
	return try_open(config_of(GIM_VFS));
}

static void open_or_as_found(int r)
{
	uint32_t i;

	CU_ASSERT_PTR_NULL(strstr(reactive_trace, "timeslice"));
	for (i = 0; i < GIM_VFS; i++)
		CU_ASSERT_STRING_EQUAL(driver_of(i), r == 0 ? "vfio-pci" : "");
	CU_ASSERT_EQUAL(err.text[0] == '\0', r == 0);
	if (r == 0)
		close_gpu();
	remove_gim_machine();
}

TEST(any_call_fails, "any kernel call may fail")
{
	CU_ASSERT(fail_each_call(&(struct each_call){&reactive_calls, &reactive_fail_at,
						     make_gim_machine, open_all,
						     open_or_as_found}) > 60);
}

/* From here on: vgpud's engine over this driver, in real time. */
static struct engine *engine;

/* Returns whether slices are in this proportion to the first VF's: all others ONE, the first N. */
static bool has_slices(uint32_t n)
{
	bool is;

	reactive_lock();
	is = gim_slices[1] == gim_slices[2] && gim_slices[1] == gim_slices[3] &&
	     gim_slices[0] == n * gim_slices[1];
	reactive_unlock();
	return is;
}

/* Shares become slices, and stay what they are: nothing tells what VFs use. */
TEST(engine_runs, "an engine sets shares, and corrects nothing")
{
	const struct vgpu_policy_ops *fair = vgpu_builtin_policy("fair");
	struct engine_request request = {.ask = ENGINE_EVENT};
	const struct engine_snapshot *s;
	int64_t params[VGPU_MAX_PARAMS];
	uint64_t plans;
	uint32_t n;

	make_gim_machine();
	CU_ASSERT_EQUAL_FATAL(begin_engine(&engine, config_of(GIM_VFS), "fair", NULL, NULL, &err),
			      0);
	CU_ASSERT_PTR_NOT_NULL(strstr(engine_says(engine, &n), "does not tell what VFs use"));
	CU_ASSERT(AWAIT(has_slices(1)));
	vgpu_param_defaults(fair->vf_params, params);
	CU_ASSERT_EQUAL(vgpu_param_set(fair->vf_params, "weight", "300", params, &err), 0);
	request.event =
		(struct vgpu_event){.type = VGPU_EV_SET_VF, .policy = fair, .params = params};
	CU_ASSERT_EQUAL(ask_engine(engine, &request), 0);
	CU_ASSERT(AWAIT(has_slices(3)));
	s = look_at(engine);
	CU_ASSERT(s->governed && s->governor.mode == VGPU_GOVERNOR_STATIC &&
		  s->governor.keep_turns);
	CU_ASSERT(s->vfs[1].has_work && s->vfs[1].bound.max_lag == VGPU_NEVER &&
		  s->vfs[1].bound.max_wait == VGPU_NEVER);
	/* Epochs pass, and nothing more is written nor said. */
	plans = s->governor.plans;
	CU_ASSERT(AWAIT((s = look_at(engine))->governor.epochs >= 6));
	CU_ASSERT_EQUAL(s->governor.plans, plans);
	CU_ASSERT_PTR_NOT_NULL(strstr(engine_says(engine, &n), "does not tell what VFs use"));
	CU_ASSERT_EQUAL(n, 1);
	/* While no counter moves, another policy is written all the same. */
	CU_ASSERT_EQUAL(ask_policy(engine, vgpu_builtin_policy("equal")), 0);
	CU_ASSERT(AWAIT(has_slices(1)));
	/* GIM goes, and nothing is to be written: it is noticed. */
	take(SLICES);
	CU_ASSERT(AWAIT(engine_trouble(engine)));
	engine_stop(engine);
	remove_gim_machine();
}

/* What such a GPU cannot promise is refused. */
TEST(engine_refuses, "an engine refuses what such a GPU cannot do")
{
	make_gim_machine();
	CU_ASSERT_EQUAL_FATAL(begin_engine(&engine, config_of(GIM_VFS), "deadline", NULL, NULL,
					   &err),
			      1); /* lost from the start */
	engine_stop(engine);
	CU_ASSERT_EQUAL_FATAL(begin_engine(&engine, config_of(GIM_VFS), "strict", NULL, NULL, &err),
			      0); /* idle = hold, and it keeps turns */
	engine_stop(engine);
	put_file("2\n", "/sys/module/gim/parameters/%s", "sch_policy");
	CU_ASSERT_EQUAL_FATAL(begin_engine(&engine, config_of(GIM_VFS), "strict", NULL, NULL, &err),
			      1);
	engine_stop(engine);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "use idle = compress"));
	remove_gim_machine();
}

SUITE_MAIN("AMD GPUs under GIM")
