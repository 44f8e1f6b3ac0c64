/* SPDX-License-Identifier: MIT */
/* The driver for Intel GPUs, on a kernel that the test makes up (xe_kernel.h). */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/file.h>
#include <unistd.h>

#include "driven.h"
#include "suite.h"
#include "xe_abi.h"
#include "xe_kernel.h"

#define VFS 3u
#define MS VGPU_MSEC

const struct vgpu_driver_ops *const ops = &vgpu_xe_driver;
char *const trace = xe_trace;

static struct vgpu_driver_config config_of(uint32_t n)
{
	return (struct vgpu_driver_config){.device = "xe:" PF, .n_vfs = n, .host_node = -1};
}

static void open_gpu(void)
{
	open_as(config_of(VFS));
}

static struct vgpu_program schedule(bool keep_turns, uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t ms[VFS] = {a, b, c}, i;
	struct vgpu_program p = {.keep_turns = keep_turns};

	for (i = 0; i < VFS; i++) {
		p.vfs[i].quantum = ms[i] * MS;
		p.vfs[i].timeout = 8 * MS;
	}
	return p;
}

static unsigned lines_with(const char *text)
{
	const char *at;
	unsigned n = 0;

	for (at = xe_trace; (at = strstr(at, text)); at++)
		n++;
	return n;
}

/* Returns whether the first line with A comes before the first with B, and both are there. */
static bool before(const char *a, const char *b)
{
	const char *first = strstr(xe_trace, a), *second = strstr(xe_trace, b);

	return first && second && first < second;
}

static bool is_bound_to(uint32_t vf, const char *driver)
{
	char text[32];

	return kernel_read_link(text, sizeof(text), PCI_DEVICES "/" PF "/virtfn%u/driver", vf) ==
		       0 &&
	       strcmp(text, driver) == 0;
}

/* Turns are set before there are VFs, memory before turns; VFs are bound to the driver for them,
 * and never to another. */
TEST(set_up, "a GPU is set up in the kernel's order")
{
	struct vgpu_driver_config config = config_of(VFS);
	struct vgpu_program applied;
	uint32_t i;

	make_xe_machine();
	for (i = 0; i < VFS; i++)
		config.sizes[i] = (2048 + i) * XE_MIB + 1;
	CU_ASSERT_EQUAL_FATAL(try_open(config), 0);
	CU_ASSERT(!found.adopted && !found.driver_up[VFS - 1] && caps.max_vfs == XE_VFS);
	CU_ASSERT(before("vf3/profile/vram_quota", "pf/profile/exec_quantum_ms"));
	CU_ASSERT(before("vf3/profile/preempt_timeout_us", "sriov_numvfs"));
	CU_ASSERT(before("sriov_drivers_autoprobe=0", "sriov_numvfs"));
	CU_ASSERT(before("sriov_numvfs", "driver_override=xe-vfio-pci"));
	CU_ASSERT(before("driver_override", "drivers_probe"));
	CU_ASSERT(before("drivers_probe", "reset=1"));
	for (i = 0; i <= VFS; i++) {
		CU_ASSERT(xe_functions[i].quantum[1] == (i ? 16 : 1) &&
			  xe_functions[i].timeout[1] == 16000);
		CU_ASSERT(xe_functions[i].resets == (i ? 1 : 0));
	}
	for (i = 0; i < VFS; i++) {
		CU_ASSERT(is_bound_to(i, "xe-vfio-pci"));
		/* The kernel rounds up. */
		CU_ASSERT(xe_functions[i + 1].memory > config.sizes[i]);
	}
	CU_ASSERT_EQUAL(ops->programmed->programmed(gpu, &applied), 0);
	CU_ASSERT(applied.vfs[VFS - 1].quantum == 16 * MS && !applied.keep_turns);
	close_gpu();
	remove_xe_machine();
	/* Without a driver of their own, VFs get vfio-pci; without sizes, the kernel's shares,
	 * which it clears when they are reset. */
	make_xe_machine();
	remove_tree(inside("/lib"));
	open_gpu();
	CU_ASSERT(is_bound_to(0, "vfio-pci") && xe_functions[3].memory > 1024 * XE_MIB);
	CU_ASSERT_EQUAL(xe_functions[3].resets, 1);
	CU_ASSERT_EQUAL(lines_with("vram_quota"), 0);
	close_gpu();
	remove_xe_machine();
}

/* The next vgpud takes the GPU as it is. */
TEST(adopt, "a GPU that has its VFs is adopted as it is")
{
	struct vgpu_program applied;
	uint32_t i;

	make_xe_machine();
	open_gpu();
	CU_ASSERT_EQUAL(program(schedule(false, 20, 10, 5), &applied), 0);
	close_gpu();
	xe_use(1);
	xe_trace[0] = '\0';
	open_gpu();
	CU_ASSERT(found.adopted);
	CU_ASSERT_EQUAL(ops->programmed->programmed(gpu, &applied), 0);
	CU_ASSERT(applied.vfs[0].quantum == 20 * MS && applied.vfs[2].quantum == 5 * MS &&
		  applied.vfs[1].timeout == 8 * MS);
	CU_ASSERT_STRING_EQUAL(xe_trace, "");
	for (i = 0; i < VFS; i++)
		CU_ASSERT_EQUAL(xe_functions[i + 1].resets, 1);
	close_gpu();
	/* A VF that is in use keeps the VFIO driver that it has. */
	point("../../drivers/vfio-pci", PCI_DEVICES "/" PF "/virtfn1/driver");
	open_gpu();
	CU_ASSERT(is_bound_to(1, "vfio-pci"));
	close_gpu();
	remove_xe_machine();
}

/* Each write is a line in the kernel's log: only changes are written. */
TEST(changes, "only changes are written")
{
	struct vgpu_program applied, p = schedule(false, 20, 10, 5);

	make_xe_machine();
	open_gpu();
	CU_ASSERT(caps.keeps_turns && caps.quantum.min == MS && caps.timeout.max == 100 * VGPU_SEC);
	CU_ASSERT_EQUAL(program(p, &applied), 0);
	CU_ASSERT_EQUAL(lines_with("\n"), 6);
	CU_ASSERT(xe_functions[1].quantum[0] == 20 && xe_functions[3].quantum[1] == 5);
	p.vfs[1].quantum = 11 * MS;
	CU_ASSERT_EQUAL(program(p, &applied), 0);
	CU_ASSERT_STRING_EQUAL(xe_trace, "vf2/profile/exec_quantum_ms=11\n");
	CU_ASSERT_EQUAL(program(p, &applied), 0);
	CU_ASSERT_STRING_EQUAL(xe_trace, "");
	/* Somebody else has changed a setting: it is mended. */
	xe_functions[1].timeout[0] = xe_functions[1].timeout[1] = 7;
	CU_ASSERT_EQUAL(program(p, &applied), 0);
	CU_ASSERT_STRING_EQUAL(xe_trace, "vf1/profile/preempt_timeout_us=8000\n");
	close_gpu();
	remove_xe_machine();
}

/* 0 would be endless, and too much is clamped in silence. */
TEST(clamped, "settings are clamped, never endless, and read back")
{
	struct vgpu_program applied, p = schedule(false, 0, 1, 5);

	make_xe_machine();
	open_gpu();
	p.vfs[0].timeout = 0;
	p.vfs[1].quantum = VGPU_NEVER;
	p.vfs[1].timeout = VGPU_NEVER;
	p.vfs[2].quantum = 5 * MS + 999999;
	CU_ASSERT_EQUAL(program(p, &applied), 0);
	CU_ASSERT(applied.vfs[0].quantum == MS && applied.vfs[0].timeout == VGPU_USEC);
	CU_ASSERT_EQUAL(applied.vfs[1].quantum, caps.quantum.max);
	CU_ASSERT_EQUAL(applied.vfs[1].timeout, caps.timeout.max);
	CU_ASSERT_EQUAL(applied.vfs[2].quantum, 5 * MS);
	CU_ASSERT_EQUAL(xe_functions[1].quantum[0], 1);
	close_gpu();
	remove_xe_machine();
}

/* The firmware has one priority for all; the PF's can be set alone, and is set wrongly by some. */
TEST(turns_kept, "kept turns are one setting of all functions")
{
	struct vgpu_program applied;

	make_xe_machine();
	open_gpu();
	CU_ASSERT_EQUAL(program(schedule(true, 16, 16, 16), &applied), 0);
	CU_ASSERT(applied.keep_turns && xe_functions[0].priority == 1);
	CU_ASSERT_EQUAL(lines_with("sched_priority"), 1);
	CU_ASSERT_EQUAL(lines_with(".bulk_profile/sched_priority=normal"), 1);
	CU_ASSERT_EQUAL(program(schedule(false, 16, 16, 16), &applied), 0);
	CU_ASSERT(!applied.keep_turns && xe_functions[0].priority == 0 &&
		  xe_functions[3].priority == 0);
	xe_functions[0].priority = 2;
	CU_ASSERT_EQUAL(program(schedule(false, 16, 16, 16), &applied), 0);
	CU_ASSERT_STRING_EQUAL(xe_trace, "pf/profile/sched_priority=low\n");
	CU_ASSERT_EQUAL(xe_functions[0].priority, 0);
	close_gpu();
	remove_xe_machine();
}

/* Linux resets a VF: writes wait, and the engine thread goes on. */
TEST(blocked, "a write that waits keeps nobody waiting")
{
	struct vgpu_program applied, p = schedule(false, 20, 10, 5);
	vgpu_nsec active[VFS];

	make_xe_machine();
	open_gpu();
	xe_hold();
	CU_ASSERT_EQUAL(ops->programmed->program(gpu, &p, 1), 0);
	CU_ASSERT_FATAL(xe_is_waited_for());
	CU_ASSERT_EQUAL(ops->device->dispatch(gpu, 2), 0);
	CU_ASSERT_EQUAL(ops->programmed->programmed(gpu, &applied), 1);
	CU_ASSERT_EQUAL(ops->programmed->program(gpu, &p, 2), -EBUSY);
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, 2), 0);
	CU_ASSERT_EQUAL(ops->programmed->stop(gpu, 1, 2), 0);
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 1, VGPU_RESET_VF, 2), 0);
	CU_ASSERT_EQUAL(ops->device->deadline(gpu), VGPU_NEVER);
	CU_ASSERT_EQUAL(xe_functions[1].quantum[0], 16);
	xe_release();
	while (ops->programmed->programmed(gpu, &applied) == 1 || n_told == 0)
		CU_ASSERT_EQUAL_FATAL(await_and_dispatch(), 0);
	CU_ASSERT_EQUAL(applied.vfs[0].quantum, 20 * MS);
	CU_ASSERT(told[0].type == VGPU_EV_RESET_DONE && told[0].vf == 1 && told[0].value == 0);
	close_gpu();
	remove_xe_machine();
}

/* What fails is told; the rest is written. */
TEST(errors, "what fails is told, the rest is written")
{
	static const struct {
		struct xe_fault fault;
		vgpu_nsec second; /* quantum of VF 1, ms */
	} cases[] = {
		{{"vf1/profile/exec_quantum_ms", -EIO, 0, true, false}, 10},
		{{"exec_quantum_ms", -ECANCELED, 0, true, false}, 16},
		{{".bulk_profile/sched_priority", -EPERM, 0, true, false}, 10},
	};
	struct vgpu_program applied;
	unsigned i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make_xe_machine();
		open_gpu();
		xe_fault = cases[i].fault;
		CU_ASSERT_EQUAL(program(schedule(true, 20, 10, 5), &applied), -EIO);
		CU_ASSERT_EQUAL(xe_functions[1].timeout[0], 8000);
		CU_ASSERT_EQUAL(xe_functions[3].timeout[0], 8000);
		CU_ASSERT_EQUAL(applied.vfs[1].quantum, cases[i].second * MS);
		/* It is whole again when the fault is gone. */
		xe_fault.end = NULL;
		CU_ASSERT_EQUAL(program(schedule(true, 20, 10, 5), &applied), 0);
		CU_ASSERT(applied.vfs[0].quantum == 20 * MS && applied.keep_turns);
		CU_ASSERT_EQUAL(ops->device->dispatch(gpu, 1), 0);
		close_gpu();
		remove_xe_machine();
	}
}

/* A reset of the GPU is under way: the same is tried again, and nothing else meanwhile. */
TEST(busy, "a GPU that is being reset is programmed when that is over")
{
	struct vgpu_program applied;

	make_xe_machine();
	open_gpu();
	xe_fault = (struct xe_fault){"vf1/profile/exec_quantum_ms", -EBUSY, 2, true, 0};
	CU_ASSERT_EQUAL(program(schedule(false, 20, 10, 5), &applied), 0);
	CU_ASSERT_EQUAL(applied.vfs[1].quantum, 10 * MS);
	CU_ASSERT_EQUAL(strncmp(xe_trace, "vf1/profile/exec_quantum_ms=20\n", 31), 0);
	close_gpu();
	remove_xe_machine();
}

/* A write reaches the first GT only: it is made again for both. */
TEST(parts_disagree, "parts that disagree are written again")
{
	struct vgpu_program applied;

	make_xe_machine();
	open_gpu();
	xe_functions[2].quantum[1] = 99;
	CU_ASSERT_EQUAL(program(schedule(false, 16, 16, 16), &applied), 0);
	CU_ASSERT_EQUAL(lines_with("vf2/profile/exec_quantum_ms=16"), 1);
	CU_ASSERT_EQUAL(xe_functions[2].quantum[1], 16);
	xe_fault = (struct xe_fault){"vf2/profile/exec_quantum_ms", -EIO, 1, true, 1};
	CU_ASSERT_EQUAL(program(schedule(false, 16, 12, 16), &applied), 0);
	CU_ASSERT_EQUAL(lines_with("vf2/profile/exec_quantum_ms=12"), 2);
	CU_ASSERT(applied.vfs[1].quantum == 12 * MS && xe_functions[2].quantum[1] == 12);
	/* It does not help: that is told. */
	xe_fault = (struct xe_fault){"vf2/profile/exec_quantum_ms", -EIO, 0, true, 1};
	CU_ASSERT_EQUAL(program(schedule(false, 16, 11, 15), &applied), -EIO);
	CU_ASSERT_EQUAL(applied.vfs[2].quantum, 15 * MS);
	xe_fault.end = NULL;
	close_gpu();
	/* A GPU that is found so is adopted, and mended by the first program. */
	xe_functions[1].quantum[0] = 5;
	open_gpu();
	CU_ASSERT_EQUAL(program(schedule(false, 16, 16, 16), &applied), 0);
	CU_ASSERT(xe_functions[1].quantum[0] == 16 && xe_functions[1].quantum[1] == 16);
	close_gpu();
	remove_xe_machine();
}

/* The PF loses its driver: the GPU is lost. */
TEST(lost, "a GPU without its driver is lost")
{
	struct vgpu_program applied;
	vgpu_nsec active[VFS];

	make_xe_machine();
	open_gpu();
	remove_tree(inside(PCI_DEVICES "/" PF "/sriov_admin"));
	CU_ASSERT_EQUAL(program(schedule(false, 20, 10, 5), &applied), -ENODEV);
	CU_ASSERT_EQUAL(ops->device->dispatch(gpu, 1), -ENODEV);
	xe_counters_gone = -ENODEV;
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, 1), -ENODEV);
	ops->device->close(gpu, true);
	remove_xe_machine();
}

TEST(usage, "usage comes from the kernel's counters")
{
	struct vgpu_program applied;
	vgpu_nsec active[VFS], now = 40 * 24 * 3600 * VGPU_SEC, was;

	make_xe_machine();
	open_gpu();
	/* What was before the first reading does not count. */
	xe_pass(7000);
	xe_serve(1, 0, 5000);
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, now), 0);
	CU_ASSERT_EQUAL(active[0] + active[1] + active[2], 0);
	/* A VF's service is that of its busiest engine, whatever its quantum is. */
	CU_ASSERT_EQUAL(program(schedule(false, 40, 10, 5), &applied), 0);
	xe_pass(1000);
	xe_serve(1, 0, 300);
	xe_serve(1, 2, 600);
	xe_serve(2, 1, 250);
	xe_serve(0, 0, 100); /* the host's */
	now += VGPU_SEC;
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, now), 0);
	CU_ASSERT(active[0] >= 599 * MS && active[0] <= 601 * MS);
	CU_ASSERT(active[1] >= 249 * MS && active[1] <= 251 * MS && active[2] == 0);
	/* Two readings at one instant; a year without one. */
	was = active[0];
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, now), 0);
	CU_ASSERT_EQUAL(active[0], was);
	xe_pass(365UL * 24 * 3600 * 1000);
	xe_serve(3, 0, 365UL * 24 * 3600 * 500);
	now += 365 * 24 * 3600 * VGPU_SEC;
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, now), 0);
	CU_ASSERT(active[2] / VGPU_SEC >= 365 * 12 * 3600 - 1 &&
		  active[2] / VGPU_SEC <= 365 * 12 * 3600 + 1);
	/* The counters stand still: after a reset of the GPU they may. */
	was = active[0];
	now += VGPU_SEC;
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, now), 0);
	CU_ASSERT_EQUAL(active[0], was);
	/* A counter goes back, or counts more than the time: all begin anew. */
	xe_functions[1].active[0] -= 1;
	xe_pass(1000);
	now += VGPU_SEC;
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, now), 0);
	CU_ASSERT_EQUAL(active[0] + active[1] + active[2], 0);
	xe_pass(1000);
	xe_serve(2, 0, 500);
	now += VGPU_SEC;
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, now), 0);
	CU_ASSERT(active[1] >= 499 * MS && active[1] <= 501 * MS && active[0] == 0);
	xe_pass(1000);
	xe_serve(2, 0, 5000);
	now += VGPU_SEC;
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, now), 0);
	CU_ASSERT_EQUAL(active[0] + active[1] + active[2], 0);
	close_gpu();
	remove_xe_machine();
}

TEST(stop_and_reset, "VFs are stopped and reset")
{
	make_xe_machine();
	open_gpu();
	CU_ASSERT_EQUAL(ops->programmed->stop(gpu, 1, 1), 0);
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 2, VGPU_RESET_VF, 1), 0);
	await_told(1);
	CU_ASSERT(told[0].type == VGPU_EV_RESET_DONE && told[0].vf == 2 &&
		  told[0].code == VGPU_RESET_VF && told[0].value == 0);
	CU_ASSERT(xe_functions[2].stops == 1 && xe_functions[3].resets == 2);
	/* A VF that cannot be stopped needs a reset; a reset that fails is told. */
	xe_fault = (struct xe_fault){"vf2/stop", -EIO, 1, true, 0};
	n_told = 0;
	CU_ASSERT_EQUAL(ops->programmed->stop(gpu, 1, 1), 0);
	await_told(1);
	CU_ASSERT(n_told == 1 && told[0].type == VGPU_EV_HANG && told[0].vf == 1);
	xe_fault = (struct xe_fault){"virtfn1/reset", -ENOTTY, 1, true, 0};
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 1, VGPU_RESET_VF, 1), 0);
	await_told(2);
	CU_ASSERT(told[1].type == VGPU_EV_RESET_DONE && told[1].value == -ENOTTY);
	/* There is no reset of the GPU that the other VFs survive. */
	CU_ASSERT_EQUAL(caps.reset_levels, 1u << VGPU_RESET_VF);
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 0, VGPU_RESET_GPU, 1), 0);
	await_told(3);
	CU_ASSERT(told[2].type == VGPU_EV_RESET_DONE && told[2].value == -EOPNOTSUPP);
	close_gpu();
	remove_xe_machine();
}

/* Opens with these sizes, MiB. */
static int open_sized(uint64_t a, uint64_t b, uint64_t c)
{
	struct vgpu_driver_config config = config_of(VFS);

	config.sizes[0] = a * XE_MIB;
	config.sizes[1] = b * XE_MIB;
	config.sizes[2] = c * XE_MIB;
	xe_trace[0] = '\0';
	return try_open(config);
}

static bool has_memory(uint64_t a, uint64_t b, uint64_t c)
{
	return xe_functions[1].memory == a * XE_MIB && xe_functions[2].memory == b * XE_MIB &&
	       xe_functions[3].memory == c * XE_MIB;
}

TEST(memory, "memory changes for all VFs, or for none")
{
	make_xe_machine();
	CU_ASSERT_EQUAL_FATAL(open_sized(6000, 5000, 5000), 0);
	CU_ASSERT(has_memory(6000, 5000, 5000));
	close_gpu();
	/* All that shrink come first, or there is not enough for those that grow. */
	CU_ASSERT_EQUAL_FATAL(open_sized(8000, 3000, 5000), 0);
	CU_ASSERT(found.adopted && has_memory(8000, 3000, 5000));
	CU_ASSERT(before("vf2/profile/vram_quota", "vf1/profile/vram_quota"));
	/* Only VFs whose memory is new are reset, upon which Linux clears it. */
	CU_ASSERT(xe_functions[1].resets == 2 && xe_functions[2].resets == 2 &&
		  xe_functions[3].resets == 1);
	close_gpu();
	/* Nobody gets less for a change that fails: not enough, or the firmware refuses. */
	CU_ASSERT_EQUAL(open_sized(9000, 2000, 6000), -ENOSPC);
	CU_ASSERT(has_memory(8000, 3000, 5000));
	/* What they got back is cleared as well. */
	CU_ASSERT(xe_functions[1].resets == 3 && xe_functions[2].resets == 3 &&
		  xe_functions[3].resets == 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "all VFs keep their memory"));
	xe_running = 1;
	CU_ASSERT_EQUAL(open_sized(9000, 2000, 5000), -EIO);
	CU_ASSERT(has_memory(8000, 3000, 5000));
	xe_running = XE_VFS + 1;
	/* The write fails, and the VF is left with nothing. */
	xe_fault = (struct xe_fault){"vf1/profile/vram_quota", -EIO, 1, true, 0};
	CU_ASSERT_EQUAL(open_sized(7000, 3000, 5000), -EIO);
	xe_fault.end = NULL;
	CU_ASSERT(has_memory(8000, 3000, 5000));
	/* The GPU is being reset: that is no VF in use, with which the GPU would be adopted. */
	xe_fault = (struct xe_fault){"vf1/profile/vram_quota", -EBUSY, 1, true, 0};
	CU_ASSERT_EQUAL(open_sized(9000, 2000, 5000), -EAGAIN);
	CU_ASSERT(has_memory(8000, 3000, 5000));
	/* It fails later, when the VFs have their new memory. */
	xe_no_counters = -EACCES;
	CU_ASSERT_EQUAL(open_sized(9000, 2000, 5000), -EACCES);
	CU_ASSERT(has_memory(8000, 3000, 5000));
	xe_no_counters = 0;
	/* A VF that is in use keeps what it has, and so do all. */
	xe_use(1);
	CU_ASSERT_EQUAL_FATAL(open_sized(9000, 2000, 5000), 0);
	CU_ASSERT(found.adopted && has_memory(8000, 3000, 5000) && lines_with("vram") == 0);
	close_gpu();
	CU_ASSERT_EQUAL_FATAL(open_sized(8000, 3000, 5000), 0);
	CU_ASSERT_EQUAL(lines_with("vram"), 0);
	close_gpu();
	/* What cannot be given back is said. */
	xe_use_none();
	xe_fault = (struct xe_fault){"vf1/profile/vram_quota", -EIO, 0, true, 0};
	CU_ASSERT_EQUAL(open_sized(9000, 2000, 5000), -EIO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "VF 0 cannot be set back to its previous size"));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "sriov_admin/vf1/profile/vram_quota"));
	remove_xe_machine();
}

/* The functions before the driver saw the GPU. */
static struct xe_function was[XE_VFS + 1];

static void old_kernel(struct vgpu_driver_config *)
{
	remove_tree(inside(PCI_DEVICES "/" PF "/sriov_admin"));
}

static void some_memory(struct vgpu_driver_config *)
{
	was[2].memory = xe_functions[2].memory = 64 * XE_MIB;
}

static void wedged(struct vgpu_driver_config *)
{
	xe_fault = (struct xe_fault){"vf3/profile/preempt_timeout_us", -ECANCELED, 1, true, 0};
}

static void not_bound(struct vgpu_driver_config *)
{
	nobody_probes = true;
}

static const struct refusal refusals[] = {
	NO_VENDOR("is not an Intel GPU, and stays as it is", "0x10de\n"),
	NO_DRIVER("has driver i915, not xe, and stays as it is", "i915"),
	IS_A_VF,
	NO_HOST_MEMORY,
	NO_LAYOUT,
	{.why = "offers no VFs", .code = -ENODEV, .file = "sriov_totalvfs", .text = "0\n"},
	{.why = "needs Linux 6.19 or later", .code = -ENOENT, .spoil = old_kernel},
	{.why = "no file sriov_admin/vf1/profile/preempt_timeout_us",
	 .code = -ENOENT,
	 .gone = PCI_DEVICES "/" PF "/sriov_admin/vf1/profile/preempt_timeout_us"},
	{.why = "vfs = 9: " PF " has at most 8", .code = -EINVAL, .vfs = XE_VFS + 1},
	{.why = "use partition = equal", .code = -EINVAL, .size = VGPU_SIZE_NONE},
	{.why = "set it for all, or for none", .code = -EINVAL, .size = 64 * XE_MIB},
	{.why = "cannot divide the memory of " PF,
	 .code = -EINVAL,
	 .gone = PCI_DEVICES "/" PF "/sriov_admin/.bulk_profile/vram_quota",
	 .all = 64 * XE_MIB},
	{.why = "cannot change the memory of VF 2: No space left",
	 .code = -ENOSPC,
	 .all = 8192 * XE_MIB},
	{.why = "1 of 3 VFs have memory", .code = -EINVAL, .spoil = some_memory},
	{.why = "SystemCallFilter=perf_event_open",
	 .code = -EACCES,
	 .number = &xe_no_counters,
	 .value = -EACCES},
	{.why = "does not count what each VF uses",
	 .code = -ENODEV,
	 .gone = "/sys/bus/event_source/devices/xe_0000_03_00.0/format/function"},
	{.why = "the kernel has given the GPU up", .code = -ECANCELED, .spoil = wedged},
	{.why = "driver xe-vfio-pci does not bind it", .code = -EIO, .spoil = not_bound},
};

static void make_and_note(void)
{
	make_xe_machine();
	memcpy(was, xe_functions, sizeof(was));
}

static void as_it_was(void)
{
	char text[32];
	unsigned k;

	CU_ASSERT(kernel_read_text(text, sizeof(text),
				   PCI_DEVICES "/" PF "/sriov_drivers_autoprobe") > 0);
	CU_ASSERT_STRING_EQUAL(text, "1");
	CU_ASSERT(kernel_read_link(text, sizeof(text), PCI_DEVICES "/" PF "/virtfn0") < 0);
	for (k = 0; k <= XE_VFS; k++)
		CU_ASSERT(was[k].quantum[0] == xe_functions[k].quantum[0] &&
			  was[k].timeout[1] == xe_functions[k].timeout[1] &&
			  was[k].memory == xe_functions[k].memory &&
			  was[k].priority == xe_functions[k].priority);
}

/* A refusal says what, where and what to do, and leaves the GPU as it was. */
TEST(refused, "each refusal says what helps, and changes nothing")
{
	refuse_each(refusals, sizeof(refusals) / sizeof(refusals[0]), config_of(VFS), make_and_note,
		    as_it_was, remove_xe_machine);
}

/* VFs that somebody uses are not taken away; another number of VFs is made otherwise. */
TEST(other_number, "VFs in use are not taken away")
{
	struct vgpu_driver_config config = config_of(2);
	int lock;

	make_xe_machine();
	open_gpu();
	CU_ASSERT_EQUAL(try_open(config), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "another program holds this device"));
	close_gpu();
	xe_use(1);
	xe_functions[1].quantum[0] = xe_functions[1].quantum[1] = 21;
	CU_ASSERT_EQUAL(try_open(config), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "qemu (pid 4711)"));
	CU_ASSERT(is_bound_to(2, "xe-vfio-pci") && xe_functions[1].quantum[0] == 21);
	xe_use_none();
	/* A program of the host may use a VF without VFIO. */
	point("../../drivers/xe", PCI_DEVICES "/" PF "/virtfn2/driver");
	CU_ASSERT_EQUAL(try_open(config), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "has driver xe, so that programs of this host"));
	CU_ASSERT(is_bound_to(2, "xe") && xe_functions[1].quantum[0] == 21);
	point("../../drivers/xe-vfio-pci", PCI_DEVICES "/" PF "/virtfn2/driver");
	/* If it fails, the VFs that there were come back, with their settings. */
	xe_no_counters = -EMFILE;
	CU_ASSERT_EQUAL(try_open(config), -EMFILE);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "LimitNOFILE"));
	CU_ASSERT(is_bound_to(2, "xe-vfio-pci") && xe_functions[1].quantum[0] == 21);
	xe_no_counters = 0;
	CU_ASSERT_EQUAL(try_open(config), 0);
	CU_ASSERT(!found.adopted && is_bound_to(1, "xe-vfio-pci") && !is_bound_to(2, ""));
	close_gpu();
	lock = open(inside(PCI_DEVICES "/" PF "/config"), O_RDONLY | O_CLOEXEC);
	CU_ASSERT_EQUAL(flock(lock, LOCK_EX | LOCK_NB), 0);
	close(lock);
	remove_xe_machine();
}

static bool machine_is_made;

/* A machine on which opening has failed is as new. */
static void make_machine_again(void)
{
	if (!machine_is_made)
		make_xe_machine();
	machine_is_made = true;
	xe_trace[0] = '\0';
}

static int open_two(void)
{
	struct vgpu_driver_config config = config_of(2);

	config.sizes[0] = config.sizes[1] = 1024 * XE_MIB;
	return try_open(config);
}

/* No VF has a driver of the host. */
static void set_up_or_as_it_was(int r)
{
	char text[32];
	uint32_t i;

	for (i = 0; i < 2; i++)
		CU_ASSERT(!is_bound_to(i, "xe") && !is_bound_to(i, "amdgpu"));
	CU_ASSERT_EQUAL(is_bound_to(1, "vfio-pci") || is_bound_to(1, "xe-vfio-pci"), r == 0);
	for (i = 0; i <= 2; i++)
		CU_ASSERT_EQUAL(xe_functions[i].quantum[0] != 0, r == 0);
	CU_ASSERT(xe_functions[1].memory == (r == 0 ? 1024 * XE_MIB : 0));
	CU_ASSERT_EQUAL(err.text[0] == '\0', r == 0);
	if (r == 0) {
		close_gpu();
		remove_xe_machine();
		machine_is_made = false;
		return;
	}
	CU_ASSERT(kernel_read_text(text, sizeof(text),
				   PCI_DEVICES "/" PF "/sriov_drivers_autoprobe") > 0);
	CU_ASSERT_STRING_EQUAL(text, "1");
}

TEST(any_call_fails, "any kernel call may fail")
{
	CU_ASSERT(fail_each_call(&(struct each_call){&xe_calls, &xe_fail_at, make_machine_again,
						     open_two, set_up_or_as_it_was}) > 100);
	if (machine_is_made)
		remove_xe_machine();
	machine_is_made = false;
}

/* Counters of the real kernel. One whose unit has gone reads as an empty file. */
TEST(real_counters, "counters of the real kernel")
{
	int fd = vfio_real_kernel.perf_open(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 0);
	uint64_t first = 0, second = 0;

	if (fd < 0) { /* the right to count is not every machine's */
		CU_ASSERT(fd == -EACCES || fd == -EPERM || fd == -ENOSYS);
	} else {
		CU_ASSERT_EQUAL(vfio_real_kernel.perf_read(fd, &first), 0);
		CU_ASSERT_EQUAL(vfio_real_kernel.perf_read(fd, &second), 0);
		CU_ASSERT(first > 0 && second > first);
		close(fd);
	}
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CU_ASSERT_EQUAL(vfio_real_kernel.perf_read(fd, &first), -ENODEV);
	close(fd);
	CU_ASSERT(vfio_real_kernel.perf_open(UINT32_MAX, 0, 0) < 0);
}

static int admin_open(const char *path, int flags)
{
	char full[200];

	snprintf(full, sizeof(full), PCI_DEVICES "/" PF "/sriov_admin/%s", path);
	return vfio_kernel->open(full, flags);
}

static int admin_read(void *, const char *path, char *out, size_t size)
{
	int fd = admin_open(path, O_RDONLY), r;

	if (fd < 0)
		return fd;
	r = (int)vfio_kernel->read(fd, out, size, 0);
	close(fd);
	return r;
}

static int admin_write(void *, const char *path, const char *text, size_t size)
{
	int fd = admin_open(path, O_WRONLY), r;

	if (fd < 0)
		return fd;
	r = (int)vfio_kernel->write(fd, text, size, 0);
	close(fd);
	return r < 0 ? r : 0;
}

static int admin_fault(void *, const char *kind, unsigned times)
{
	static const struct {
		const char *kind;
		struct xe_fault fault;
	} faults[] = {
		{"busy", {"", -EBUSY, 0, true, 0}},
		{"eio", {"", -EIO, 0, true, 2}}, /* GT 0 refuses */
		{"partial", {"", -EIO, 0, true, 1}},
	};
	size_t i;

	if (strcmp(kind, "wedged") == 0) {
		xe_fault = (struct xe_fault){times ? "" : NULL, -ECANCELED, 0, true, 0};
		return 0;
	}
	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		if (strcmp(kind, faults[i].kind) != 0)
			continue;
		xe_fault = faults[i].fault;
		xe_fault.times = times;
		return 0;
	}
	return -EINVAL;
}

/* What the made-up kernel offers is held against the same file as Linux's source. */
TEST(made_up_kernel, "the made-up kernel offers what Linux does")
{
	struct xe_abi abi = {.read = admin_read, .write = admin_write, .fault = admin_fault};

	make_xe_machine();
	CU_ASSERT_EQUAL(xe_abi_compare(XE_ADMIN, &abi), 0);
	remove_xe_machine();
}

SUITE_MAIN("Intel GPUs under the driver xe")
