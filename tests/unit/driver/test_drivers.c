/* SPDX-License-Identifier: MIT */
/* The registry of drivers; and the null driver in virtual time, under the real core. */
#include <stdlib.h>

#include "builtin.h"
#include "machine.h"
#include "suite.h"
#include "vgpu/driver.h"

#define VFS 4u
#define MAX_QUEUED 256u

static struct vgpu_error err;

/* Each driver has a face of time, and faces have all operations. */
TEST(tables, "each driver has what its kind requires")
{
	const struct vgpu_driver_ops *const *d;
	unsigned n = 0;

	for (d = vgpu_drivers; *d; d++, n++) {
		const struct vgpu_device_face *f = (*d)->device;

		CU_ASSERT_EQUAL((*d)->size, sizeof(struct vgpu_driver_ops));
		CU_ASSERT_PTR_NOT_NULL((*d)->name);
		CU_ASSERT(f && f->probe && f->open && f->close && f->fd && f->deadline &&
			  f->dispatch && f->reset);
		CU_ASSERT((*d)->switched || (*d)->programmed || (*d)->declared);
		CU_ASSERT(!(*d)->switched || ((*d)->switched->commands && (*d)->switched->gates &&
					      (*d)->switched->notice));
		CU_ASSERT(!(*d)->programmed ||
			  ((*d)->programmed->program && (*d)->programmed->programmed &&
			   (*d)->programmed->usage && (*d)->programmed->stop));
		CU_ASSERT(!(*d)->declared || ((*d)->declared->declare && (*d)->declared->observe));
		CU_ASSERT(!(*d)->memory ||
			  ((*d)->memory->place && (*d)->memory->clear && (*d)->memory->copy &&
			   (*d)->memory->busy && (*d)->memory->read));
		CU_ASSERT(!(*d)->seats || (*d)->seats->give);
	}
	CU_ASSERT_EQUAL(n, 7);
}

TEST(names, "a device's name selects its driver")
{
	static const struct {
		const char *device;
		const struct vgpu_driver_ops *driver;
		const char *why;
	} cases[] = {
		{"vfio-user:/run/softgpu/pf.sock", &vgpu_gpuiov_driver, ""},
		{"null:", &vgpu_null_driver, ""},
		{"null:max_vfs=8,command_us=20,busy=3,hang=1", &vgpu_null_driver, ""},
		{"null:max_vfs=99", NULL, "max_vfs = 99: want 1 to 64"},
		{"null:colour=red", NULL, "no such parameter"},
		{"null:busy", NULL, "busy: want NAME=VALUE"},
		{"null-firmware:", &vgpu_null_firmware_driver, ""},
		{"null-firmware:late_vf=3,late_us=2000,program_us=5000", &vgpu_null_firmware_driver,
		 ""},
		{"null-firmware:hang=1", NULL, "device null-firmware: hang: no such parameter"},
		{"null", NULL,
		 "want one of sysfs:ADDRESS, vfio:ADDRESS, vfio-user:PATH, xe:ADDRESS, "
		 "gim:ADDRESS, nvidia:ADDRESS, vulkan:DEVICE, null:OPTIONS"},
		{"vulkan:llvmpipe", &vgpu_gated_driver, ""},
		{"vulkan:", NULL, "want the UUID, the PCI address or the beginning of the name"},
		{"sysfs:03:00.0", NULL, "not a PCI address"},
		{"sysfs:0000:77:00.0", NULL, "no such PCI function"},
		/* A GPU that no driver of vgpud knows keeps its host driver. */
		{"sysfs:" PF, NULL, "it is left as it is"},
		{"vfio:" PF ",token-file=/x", NULL, "it is left as it is"},
		{"xe:" PF, NULL, "is not an Intel GPU, and stays as it is"},
		{"xe:03:00.0", NULL, "not a PCI address"},
		{"gim:" PF, NULL, "is not an AMD GPU, and stays as it is"},
		{"gim:03:00.0", NULL, "not a PCI address"},
		{"nvidia:" PF, NULL, "is not an NVIDIA GPU, and stays as it is"},
		{"nvidia:", NULL, "not a PCI address"},
	};
	const struct vgpu_driver_ops *d;
	char text[32];
	unsigned i;

	make_machine();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		err.text[0] = '\0';
		d = vgpu_driver_for(cases[i].device, &err);
		CU_ASSERT_PTR_EQUAL(d, cases[i].driver);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].why));
	}
	CU_ASSERT_EQUAL(kernel_read_link(text, sizeof(text), PCI_DEVICES "/" PF "/driver"), 0);
	CU_ASSERT_STRING_EQUAL(text, "amdgpu");
	remove_machine();
}

/* The loop around core and driver, here in virtual time. */
static const struct vgpu_driver_ops *const ops = &vgpu_null_driver;
static struct vgpu_driver *driver;
static struct vgpu_core *core;
static vgpu_nsec now, stepped;
static struct vgpu_event queue[MAX_QUEUED];
static uint32_t n_queued, n_taken;

static void on_event(void *, const struct vgpu_event *event)
{
	CU_ASSERT_FATAL(n_queued < MAX_QUEUED);
	queue[n_queued++] = *event;
}

/* Issues the commands of a step when A is the first. */
static void issue(const struct vgpu_action *a, const struct vgpu_output *out)
{
	struct vgpu_order orders[VGPU_CHAIN];
	uint32_t n = 0;

	if (a > out->actions && a[-1].type == VGPU_AC_COMMAND)
		return;
	for (; a < &out->actions[out->n_actions] && a->type == VGPU_AC_COMMAND; a++)
		orders[n++] =
			(struct vgpu_order){a->vf, (enum vgpu_command)a->code, a->unless_busy};
	CU_ASSERT_EQUAL(ops->switched->commands(driver, orders, n, now), 0);
}

static void step(struct vgpu_event event)
{
	static struct vgpu_output out;
	uint32_t i;

	/* Only the answer to a command says when it happened. */
	if (event.type != VGPU_EV_DONE || event.now < stepped)
		event.now = now;
	stepped = event.now;
	CU_ASSERT_EQUAL(vgpu_core_step(core, &event, &out), 0);
	for (i = 0; i < out.n_actions; i++) {
		const struct vgpu_action *a = &out.actions[i];
		struct vgpu_event scrubbed = {.type = VGPU_EV_SCRUBBED, .vf = a->vf};

		if (a->type == VGPU_AC_COMMAND)
			issue(a, &out);
		else if (a->type == VGPU_AC_RESET)
			ops->device->reset(driver, a->vf, (enum vgpu_reset_level)a->code, now);
		else if (a->type == VGPU_AC_ACCESS)
			ops->switched->gates(driver, a->vf, a->code);
		else if (a->type == VGPU_AC_NOTICE)
			ops->switched->notice(driver, a->vf, (enum vgpu_notice)a->code);
		else if (a->type == VGPU_AC_SCRUB)
			on_event(NULL, &scrubbed);
	}
}

static void drain(void)
{
	while (n_taken < n_queued)
		step(queue[n_taken++]);
	n_taken = n_queued = 0;
}

static void run_until(vgpu_nsec end)
{
	vgpu_nsec due, other;

	for (;;) {
		due = vgpu_core_deadline(core);
		other = ops->device->deadline(driver);
		due = other < due ? other : due;
		if (due > end)
			break;
		now = due > now ? due : now;
		CU_ASSERT_EQUAL(ops->device->dispatch(driver, now), 0);
		drain();
		if (now >= vgpu_core_deadline(core))
			step((struct vgpu_event){.type = VGPU_EV_TIMER});
		drain();
	}
	now = end;
}

static void *zeroed(size_t size)
{
	void *p = calloc(1, size);

	CU_ASSERT_PTR_NOT_NULL_FATAL(p);
	return p;
}

/* Runs POLICY for ten seconds on a null device. */
static void run(const char *device, const char *policy, struct vgpu_vf_view *views)
{
	const struct vgpu_policy_ops *p = vgpu_builtin_policy(policy);
	struct vgpu_driver_config want = {.device = device, .n_vfs = VFS, .host_node = -1};
	static int64_t params[VGPU_MAX_PARAMS], vf_params[VFS][VGPU_MAX_PARAMS];
	void *memory[] = {zeroed(vgpu_core_size(VFS)), zeroed(vgpu_fallback_policy->memory(VFS)),
			  zeroed(p->memory(VFS))};
	struct vgpu_core_config config;
	struct vgpu_driver_found found;
	struct vgpu_driver_caps caps;
	uint32_t i;

	now = VGPU_SEC;
	n_queued = n_taken = 0;
	CU_ASSERT_EQUAL_FATAL(ops->device->open(&driver, &want, &caps, &found, on_event, NULL,
						&err),
			      0);
	vgpu_core_defaults(&config, VFS);
	config.reset_levels = caps.reset_levels;
	core = vgpu_core_init(memory[0], &config, vgpu_fallback_policy, memory[1], now);
	vgpu_param_defaults(p->params, params);
	for (i = 0; i < VFS; i++)
		vgpu_param_defaults(p->vf_params, vf_params[i]);
	step((struct vgpu_event){.type = VGPU_EV_POLICY,
				 .policy = p,
				 .memory = memory[2],
				 .params = params,
				 .vf_params = vf_params[0]});
	for (i = 0; i < VFS; i++)
		step((struct vgpu_event){.type = VGPU_EV_ADD,
					 .vf = i,
					 .code = found.contexts[i],
					 .value = found.driver_up[i],
					 .policy = p,
					 .params = vf_params[i]});
	step((struct vgpu_event){.type = VGPU_EV_START});
	run_until(11 * VGPU_SEC);
	for (i = 0; i < VFS; i++)
		vgpu_core_vf_view(core, i, &views[i]);
	ops->device->close(driver, false);
	for (i = 0; i < 3; i++)
		free(memory[i]);
}

TEST(virtual_time, "null: VFs share the engine in virtual time")
{
	struct vgpu_vf_view views[VFS], again[VFS];
	uint32_t i;

	run("null:command_us=25", "equal", views);
	for (i = 0; i < VFS; i++) {
		/* Each VF gets a quarter of ten seconds, less the switches, within one slice. */
		CU_ASSERT(views[i].ledger.run_ns > 2400 * VGPU_MSEC &&
			  views[i].ledger.run_ns < 2500 * VGPU_MSEC);
		CU_ASSERT_EQUAL(views[i].ledger.hangs, 0);
	}
	/* A second run gives the same result, to the nanosecond. */
	run("null:command_us=25", "equal", again);
	for (i = 0; i < VFS; i++)
		CU_ASSERT_EQUAL(views[i].ledger.run_ns, again[i].ledger.run_ns);
}

TEST(some_are_idle, "null: VFs without work get no time")
{
	struct vgpu_vf_view views[VFS];

	run("null:busy=1", "fair", views);
	CU_ASSERT(views[0].ledger.run_ns > 9900 * VGPU_MSEC);
	CU_ASSERT_EQUAL(views[1].ledger.run_ns, 0);
}

/* A VF that never stops is reset, returns, and is quarantined in the end; the other VFs share its
 * time. */
TEST(one_hangs, "null: a VF that hangs is quarantined")
{
	struct vgpu_vf_view views[VFS];

	run("null:hang=2", "fair", views);
	CU_ASSERT_EQUAL(views[2].ledger.hangs, 3);
	CU_ASSERT_EQUAL(views[2].state, VGPU_VF_QUARANTINED);
	CU_ASSERT_EQUAL(views[2].ledger.windows, 2);
	CU_ASSERT(views[0].ledger.run_ns > 3000 * VGPU_MSEC);
	CU_ASSERT_EQUAL(views[0].state, VGPU_VF_ACTIVE);
}

SUITE_MAIN("drivers")
