/* SPDX-License-Identifier: MIT */
/* The driver for AMD GPUs under GIM, on a kernel that the test makes up (gim_kernel.h). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "builtin.h"
#include "engine/engine.h"
#include "gim_kernel.h"
#include "suite.h"
#include "vgpu/descriptor.h"

#define US VGPU_USEC
#define DEADLINE_MS 20000

static const struct vgpu_driver_ops *const ops = &vgpu_gim_driver;
static struct vgpu_driver *gpu;
static struct vgpu_driver_caps caps;
static struct vgpu_driver_found found;
static struct vgpu_error err;
static struct vgpu_event told[16];
static uint32_t n_told;

static void on_event(void *data, const struct vgpu_event *event)
{
	(void)data;
	CU_ASSERT_FATAL(n_told < 16);
	told[n_told++] = *event;
}

static struct vgpu_driver_config config_of(uint32_t n)
{
	return (struct vgpu_driver_config){.device = "gim:" PF, .n_vfs = n, .host_node = -1};
}

static int try_open(const struct vgpu_driver_config *config)
{
	n_told = 0;
	err.text[0] = '\0';
	return ops->device->open(&gpu, config, &caps, &found, on_event, NULL, &err);
}

static void open_gpu(void)
{
	struct vgpu_driver_config config = config_of(GIM_VFS);

	if (try_open(&config) < 0) {
		fprintf(stderr, "%s\n", err.text);
		CU_FAIL_FATAL("the GPU cannot be opened");
	}
}

static void close_gpu(void)
{
	ops->device->close(gpu, false);
}

static int await_and_dispatch(void)
{
	struct pollfd p = {.fd = ops->device->fd(gpu), .events = POLLIN};

	CU_ASSERT_EQUAL_FATAL(poll(&p, 1, DEADLINE_MS), 1);
	return ops->device->dispatch(gpu, 1);
}

static struct vgpu_program schedule(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	uint32_t us[GIM_VFS] = {a, b, c, d}, i;
	struct vgpu_program p = {.keep_turns = false};

	for (i = 0; i < GIM_VFS; i++)
		p.vfs[i].quantum = us[i] * US;
	return p;
}

/* Programs, waits, and returns the answer. */
static int program(struct vgpu_program p, struct vgpu_program *applied)
{
	int r;

	reactive_trace[0] = '\0';
	CU_ASSERT_EQUAL(ops->programmed->program(gpu, &p, 1), 0);
	do {
		CU_ASSERT(await_and_dispatch() <= 0);
		r = ops->programmed->programmed(gpu, applied);
	} while (r == 1);
	return r;
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
static void adopt(void)
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
static void changes(void)
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
static void unheard(void)
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
	take("/sys/kernel/debug/gim/" PF "/asymmetric_timeslice");
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, 2), 0);
	CU_ASSERT_EQUAL(await_and_dispatch(), -ENODEV);
	CU_ASSERT_EQUAL(program(schedule(9000, 5000, 5000, 6000), &applied), -ENODEV);
	CU_ASSERT_EQUAL(ops->device->dispatch(gpu, 2), -ENODEV);
	close_gpu();
	remove_gim_machine();
}

/* Whether turns of VFs without work pass unused is GIM's parameter, and is not vgpud's to choose.
 */
static void modes(void)
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

static void stop_and_reset(void)
{
	make_gim_machine();
	open_gpu();
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 2, VGPU_RESET_VF, 1), 0);
	while (n_told == 0)
		CU_ASSERT_EQUAL_FATAL(await_and_dispatch(), 0);
	CU_ASSERT(told[0].type == VGPU_EV_RESET_DONE && told[0].vf == 2 && told[0].value == 0);
	CU_ASSERT_EQUAL(gim_resets[2], 1);
	gim_reset_error = -ENOTTY;
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 0, VGPU_RESET_VF, 1), 0);
	while (n_told == 1)
		CU_ASSERT_EQUAL_FATAL(await_and_dispatch(), 0);
	CU_ASSERT_EQUAL(told[1].value, -ENOTTY);
	/* GIM cannot stop a VF: it needs a reset. */
	CU_ASSERT_EQUAL(ops->programmed->stop(gpu, 1, 1), 0);
	while (n_told == 2)
		CU_ASSERT_EQUAL_FATAL(await_and_dispatch(), 0);
	CU_ASSERT(told[2].type == VGPU_EV_HANG && told[2].vf == 1);
	close_gpu();
	remove_gim_machine();
}

static void stranger(struct vgpu_driver_config *config)
{
	(void)config;
	put_file("0x10de\n", PCI_DEVICES "/%s/vendor", PF);
}

static void other_driver(struct vgpu_driver_config *config)
{
	(void)config;
	point("../../drivers/amdgpu", PCI_DEVICES "/" PF "/driver");
}

static void is_a_vf(struct vgpu_driver_config *config)
{
	(void)config;
	point("../0000:02:00.0", PCI_DEVICES "/" PF "/physfn");
}

static void no_debugfs(struct vgpu_driver_config *config)
{
	(void)config;
	take("/sys/kernel/debug/gim/" PF "/asymmetric_timeslice");
}

static void lockdown(struct vgpu_driver_config *config)
{
	(void)config;
	gim_read_error = -EPERM;
}

static void unreadable(struct vgpu_driver_config *config)
{
	(void)config;
	gim_read_error = -EFAULT;
}

static void spatial(struct vgpu_driver_config *config)
{
	(void)config;
	gim_says = "Status:\n\nAsics not support asymmetric time slice setting!\n";
	put_file("profile_index       profile_type        num_of_partitions\n"
		 "2                   CPX                 8                   [[0 ]]\n",
		 PCI_DEVICES "/%s/accelerator_partition_profile", PF);
	put_file("memory_partition_mode: NPS4\nnuma_count: 4\n",
		 PCI_DEVICES "/%s/memory_partition_mode", PF);
}

static void neither(struct vgpu_driver_config *config)
{
	(void)config;
	gim_says = "Asics not support asymmetric time slice setting!\n";
}

static void new_text(struct vgpu_driver_config *config)
{
	(void)config;
	gim_says = "VF0 4000\n";
}

static void out_of_order(struct vgpu_driver_config *config)
{
	(void)config;
	gim_says = "VF1 Active timeslice = 1 us\nVF0 Active timeslice = 1 us\n"
		   "VF2 Active timeslice = 1 us\nVF3 Active timeslice = 1 us\n";
}

static void in_software(struct vgpu_driver_config *config)
{
	(void)config;
	put_file("3\n", "/sys/module/gim/parameters/%s", "sch_policy");
}

static void other_number(struct vgpu_driver_config *config)
{
	config->n_vfs = 3;
}

static void too_many(struct vgpu_driver_config *config)
{
	config->n_vfs = 9;
}

static void sized(struct vgpu_driver_config *config)
{
	config->sizes[1] = 64 << 20;
}

static void on_demand(struct vgpu_driver_config *config)
{
	config->sizes[1] = VGPU_SIZE_NONE;
}

static void host_memory(struct vgpu_driver_config *config)
{
	config->host = 64 << 20;
}

static void a_layout(struct vgpu_driver_config *config)
{
	config->layout = "navi";
}

static void vf_of_the_host(struct vgpu_driver_config *config)
{
	(void)config;
	point("../../drivers/amdgpu", PCI_DEVICES "/" PF "/virtfn3/driver");
}

static void not_bound(struct vgpu_driver_config *config)
{
	(void)config;
	nobody_probes = true;
}

static const struct {
	const char *why;
	int code;
	void (*spoil)(struct vgpu_driver_config *config);
} refusals[] = {
	{"is not an AMD GPU, and stays as it is", -ENODEV, stranger},
	{"has driver amdgpu, not gim, and stays as it is", -ENODEV, other_driver},
	{"is a VF; give its PF, 0000:02:00.0", -EINVAL, is_a_vf},
	{"mount debugfs there", -ENOENT, no_debugfs},
	{"boot without kernel lockdown", -EPERM, lockdown},
	{"see the kernel's log", -EFAULT, unreadable},
	{"divided in space (CPX, NPS4)", -EOPNOTSUPP, spatial},
	{"cannot set the slices of this GPU's VFs", -EOPNOTSUPP, neither},
	{"does not know this version of GIM", -EINVAL, new_text},
	{"does not know this version of GIM", -EINVAL, out_of_order},
	{"load gim with sch_policy=1 or sch_policy=2", -EOPNOTSUPP, in_software},
	{"set vfs = 4, or load gim with vf_num=3", -EINVAL, other_number},
	{"vfs = 9: " PF " has at most 8", -EINVAL, too_many},
	{"remove memory_mib", -EINVAL, sized},
	{"use partition = equal", -EINVAL, on_demand},
	{"host_memory_mib", -EINVAL, host_memory},
	{"layout = navi", -EINVAL, a_layout},
	{"has driver amdgpu, so that programs of this host", -EBUSY, vf_of_the_host},
	{"driver vfio-pci does not bind it", -EIO, not_bound},
};

/* A refusal says what, where and what to do, and leaves the GPU as it was. */
static void refused(void)
{
	struct vgpu_driver_config config;
	unsigned i, k;
	int r;

	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		make_gim_machine();
		config = config_of(GIM_VFS);
		refusals[i].spoil(&config);
		r = try_open(&config);
		if (r != refusals[i].code || !strstr(err.text, refusals[i].why)) {
			fprintf(stderr, "case %u: %d: %s\n", i, r, err.text);
			CU_FAIL("another refusal");
		}
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "0000:0"));
		CU_ASSERT_PTR_NULL(strstr(reactive_trace, "timeslice"));
		for (k = 0; k < 3; k++)
			CU_ASSERT_STRING_EQUAL(driver_of(k), "");
		remove_gim_machine();
	}
	/* GIM has made one VF, or none. */
	make_machine();
	put_file("0x1002\n", PCI_DEVICES "/%s/vendor", PF);
	point("../../drivers/gim", PCI_DEVICES "/" PF "/driver");
	config = config_of(1);
	CU_ASSERT_EQUAL(try_open(&config), -ENODEV);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "load gim with vf_num=N"));
	CU_ASSERT_EQUAL(kernel_write_text(1000, "1", PCI_DEVICES "/%s/sriov_numvfs", PF), 0);
	put_file("1\n", PCI_DEVICES "/%s/sriov_numvfs", PF);
	put_file("VF0 Active timeslice = 500000 us\n",
		 "/sys/kernel/debug/gim/%s/asymmetric_timeslice", PF);
	CU_ASSERT_EQUAL(try_open(&config), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "needs at least two VFs"));
	remove_machine();
}

static int open_all(void)
{
	struct vgpu_driver_config config = config_of(GIM_VFS);

	return try_open(&config);
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

static void any_call_fails(void)
{
	CU_ASSERT(fail_each_call(&(struct each_call){&reactive_calls, &reactive_fail_at,
						     make_gim_machine, open_all,
						     open_or_as_found}) > 60);
}

/* From here on: vgpud's engine over this driver, in real time. */
static struct engine *engine;

static int start_engine(const char *policy)
{
	struct engine_config config = {
		.driver = config_of(GIM_VFS),
		.begin = {.policy = vgpu_builtin_policy(policy)},
	};
	uint32_t i;

	vgpu_core_defaults(&config.core, GIM_VFS);
	vgpu_param_defaults(config.begin.policy->params, config.begin.params);
	for (i = 0; i < GIM_VFS; i++)
		vgpu_param_defaults(config.begin.policy->vf_params, config.begin.vf_params[i]);
	return engine_start(&engine, &config, &err);
}

/* Sends a request, and waits for its answer. */
static int ask(struct engine_request *request)
{
	struct pollfd p = {engine_fd(engine), POLLIN, 0};
	struct engine_request *answered;

	CU_ASSERT_FATAL(engine_send(engine, request));
	for (;;) {
		vgpu_eventfd_drain(p.fd);
		answered = engine_receive(engine);
		if (answered)
			break;
		CU_ASSERT_FATAL(poll(&p, 1, DEADLINE_MS) == 1);
	}
	CU_ASSERT_PTR_EQUAL(answered, request);
	return request->result;
}

static const struct engine_snapshot *look(void)
{
	static struct engine_snapshot s;
	struct engine_request request = {.ask = ENGINE_SNAPSHOT, .snapshot = &s};

	CU_ASSERT_EQUAL(ask(&request), 0);
	return &s;
}

/* Waits until slices are in this proportion to the first VF's: all others ONE, the first N. */
static bool await_slices(uint32_t n)
{
	struct timespec pause = {0, 10000000};
	bool is = false;
	unsigned i;

	for (i = 0; i < DEADLINE_MS / 10 && !is; i++) {
		reactive_lock();
		is = gim_slices[1] == gim_slices[2] && gim_slices[1] == gim_slices[3] &&
		     gim_slices[0] == n * gim_slices[1];
		reactive_unlock();
		if (!is)
			nanosleep(&pause, NULL);
	}
	return is;
}

/* Shares become slices, and stay what they are: nothing tells what VFs use. */
static void engine_runs(void)
{
	const struct vgpu_policy_ops *fair = vgpu_builtin_policy("fair");
	const struct vgpu_policy_ops *equal = vgpu_builtin_policy("equal");
	struct engine_request request = {.ask = ENGINE_EVENT};
	const struct engine_snapshot *s;
	int64_t params[VGPU_MAX_PARAMS], rows[VGPU_GPU_MAX_VFS * VGPU_MAX_PARAMS], i;
	uint64_t plans;
	uint32_t n;

	make_gim_machine();
	CU_ASSERT_EQUAL_FATAL(start_engine("fair"), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(engine_says(engine, &n), "does not tell what VFs use"));
	CU_ASSERT(await_slices(1));
	vgpu_param_defaults(fair->vf_params, params);
	CU_ASSERT_EQUAL(vgpu_param_set(fair->vf_params, "weight", "300", params, &err), 0);
	request.event =
		(struct vgpu_event){.type = VGPU_EV_SET_VF, .policy = fair, .params = params};
	CU_ASSERT_EQUAL(ask(&request), 0);
	CU_ASSERT(await_slices(3));
	s = look();
	CU_ASSERT(s->governed && s->governor.mode == VGPU_GOVERNOR_STATIC &&
		  s->governor.keep_turns);
	CU_ASSERT(s->vfs[1].has_work && s->vfs[1].bound.max_lag == VGPU_NEVER &&
		  s->vfs[1].bound.max_wait == VGPU_NEVER);
	/* Epochs pass, and nothing more is written nor said. */
	plans = s->governor.plans;
	for (n = 0; n < DEADLINE_MS / 10 && s->governor.epochs < 6; n++) {
		nanosleep(&(struct timespec){0, 10000000}, NULL);
		s = look();
	}
	CU_ASSERT(s->governor.epochs >= 6 && s->governor.plans == plans);
	CU_ASSERT_PTR_NOT_NULL(strstr(engine_says(engine, &n), "does not tell what VFs use"));
	CU_ASSERT_EQUAL(n, 1);
	/* While no counter moves, another policy is written all the same. */
	vgpu_param_defaults(equal->params, params);
	for (i = 0; i < VGPU_GPU_MAX_VFS; i++)
		vgpu_param_defaults(equal->vf_params, rows + i * VGPU_MAX_PARAMS);
	request.event = (struct vgpu_event){.type = VGPU_EV_POLICY,
					    .policy = equal,
					    .params = params,
					    .vf_params = rows};
	CU_ASSERT_EQUAL(ask(&request), 0);
	CU_ASSERT(await_slices(1));
	/* GIM goes, and nothing is to be written: it is noticed. */
	take("/sys/kernel/debug/gim/" PF "/asymmetric_timeslice");
	for (n = 0; n < DEADLINE_MS / 10 && !engine_trouble(engine); n++)
		nanosleep(&(struct timespec){0, 10000000}, NULL);
	CU_ASSERT_PTR_NOT_NULL(engine_trouble(engine));
	engine_stop(engine);
	remove_gim_machine();
}

/* What such a GPU cannot promise is refused. */
static void engine_refuses(void)
{
	make_gim_machine();
	CU_ASSERT_EQUAL_FATAL(start_engine("deadline"), 1); /* lost from the start */
	engine_stop(engine);
	CU_ASSERT_EQUAL_FATAL(start_engine("strict"), 0); /* idle = hold, and it keeps turns */
	engine_stop(engine);
	put_file("2\n", "/sys/module/gim/parameters/%s", "sch_policy");
	CU_ASSERT_EQUAL_FATAL(start_engine("strict"), 1);
	engine_stop(engine);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "use idle = compress"));
	remove_gim_machine();
}

static const struct test tests[] = {
	{"a GPU is adopted as it is", adopt},
	{"only changes are written", changes},
	{"what is read back counts", unheard},
	{"kept turns are GIM's choice", modes},
	{"VFs are reset, and cannot be stopped", stop_and_reset},
	{"each refusal says what helps, and changes nothing", refused},
	{"any kernel call may fail", any_call_fails},
	{"an engine sets shares, and corrects nothing", engine_runs},
	{"an engine refuses what such a GPU cannot do", engine_refuses},
	{NULL, NULL},
};

SUITE_MAIN("AMD GPUs under GIM", tests)
