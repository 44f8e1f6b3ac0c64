/* SPDX-License-Identifier: MIT */
/* The engine thread, in real time, on the null driver. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "asked.h"
#include "builtin.h"
#include "config/config.h"
#include "suite.h"

#define DEADLINE_MS 20000

static struct config config;
static struct engine *engine;
static struct vgpu_error err;
static struct engine_snapshot shown;
static const struct vgpu_driver_ops *ops; /* instead of the driver of the device; NULL: that one */

static int start(const char *device, const char *policy)
{
	char folder[64] = "/tmp/vgpud-engine.XXXXXX", file[96];
	struct engine_config want;
	FILE *f;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
	snprintf(file, sizeof(file), "%s/vgpud.conf", folder);
	f = fopen(file, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fprintf(f,
		"[daemon]\nsocket = %s/s\n[gpu gpu0]\ndevice = %s\npolicy = %s\nvfs = 4\n"
		"realtime = no\ngrace_ms = 10\n",
		folder, device, policy);
	fclose(f);
	CU_ASSERT_EQUAL_FATAL(config_read(&config, file, stderr), 0);
	unlink(file);
	rmdir(folder);
	config_to_engine(&config.gpus[0], &want);
	want.ops = ops;
	return engine_start(&engine, &want, &err);
}

static int tell(struct vgpu_event event)
{
	struct engine_request request = {.ask = ENGINE_EVENT, .event = event};

	if (!event.policy) /* the policy that the parameters are for */
		request.event.policy = shown.core.policy;
	return ask_engine(engine, &request);
}

static void look(void)
{
	struct engine_request request = {.ask = ENGINE_SNAPSHOT, .snapshot = &shown};

	CU_ASSERT_EQUAL(ask_engine(engine, &request), 0);
}

/* Takes snapshots until a condition holds. */
static bool await(bool (*condition)(void))
{
	struct timespec pause = {0, 1000000};
	int tries;

	for (tries = 0; tries < DEADLINE_MS; tries++) {
		look();
		if (condition())
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static bool all_have_run(void)
{
	uint32_t i;

	for (i = 0; i < 4; i++)
		if (shown.vfs[i].ledger.dispatches < 3)
			return false;
	return true;
}

static bool vf2_is_quarantined(void)
{
	return shown.vfs[2].state == VGPU_VF_QUARANTINED;
}

static bool equal_is_in_force(void)
{
	return strcmp(shown.core.policy->name, "equal") == 0;
}

static bool vf1_is_back(void)
{
	return shown.vfs[1].ledger.resets == 1 && shown.vfs[1].state == VGPU_VF_ACTIVE &&
	       shown.vfs[1].ledger.windows == 1;
}

/* Each nanosecond of the engine is counted exactly once. */
static void check_sums(void)
{
	vgpu_nsec sum = shown.core.engine.switch_ns + shown.core.engine.idle_ns;
	uint32_t i;

	for (i = 0; i < 4; i++) {
		const struct vgpu_vf_ledger *l = &shown.vfs[i].ledger;

		sum += l->run_ns + l->donated_ns + l->switch_ns + l->exclusive_ns + l->reset_ns;
	}
	CU_ASSERT_EQUAL(sum, shown.core.engine.wall_ns);
}

TEST(runs, "every VF gets turns")
{
	CU_ASSERT_EQUAL_FATAL(start("null:command_us=20", "fair"), 0);
	CU_ASSERT(await(all_have_run));
	CU_ASSERT_FALSE(shown.lost);
	CU_ASSERT_EQUAL(shown.n_vfs, 4);
	CU_ASSERT_STRING_EQUAL(shown.caps.driver, "null");
	CU_ASSERT_STRING_EQUAL(shown.caps.transport, "null");
	CU_ASSERT(shown.switches.n > 0 && shown.preemption.n > 0 && shown.steps > 0);
	CU_ASSERT_PTR_NULL(engine_trouble(engine));
	check_sums();
	engine_stop(engine);
}

/* Each request is answered, and is carried out or refused with a reason. */
TEST(changes, "requests change a running engine")
{
	static int64_t params[VGPU_MAX_PARAMS], vf_params[4][VGPU_MAX_PARAMS];

	CU_ASSERT_EQUAL_FATAL(start("null:", "fair"), 0);
	CU_ASSERT(await(all_have_run));
	memcpy(params, shown.vfs[1].params, sizeof(params));
	params[0] = 300;
	CU_ASSERT_EQUAL(
		tell((struct vgpu_event){.type = VGPU_EV_SET_VF, .vf = 1, .params = params}), 0);
	look();
	CU_ASSERT_EQUAL(shown.vfs[1].params[0], 300);
	CU_ASSERT_EQUAL(
		tell((struct vgpu_event){.type = VGPU_EV_SET_VF, .vf = 4, .params = params}),
		-EINVAL);
	/* After an operator's reset, the guest's driver comes up again. */
	CU_ASSERT_EQUAL(tell((struct vgpu_event){.type = VGPU_EV_RESET_VF, .vf = 1}), 0);
	CU_ASSERT(await(vf1_is_back));
	vgpu_param_defaults(vgpu_builtin_policy("equal")->params, params);
	CU_ASSERT_EQUAL(tell((struct vgpu_event){.type = VGPU_EV_POLICY,
						 .policy = vgpu_builtin_policy("equal"),
						 .params = params,
						 .vf_params = vf_params[0]}),
			0);
	CU_ASSERT(await(equal_is_in_force));
	check_sums();
	engine_stop(engine);
}

TEST(one_hangs, "a VF that hangs is quarantined")
{
	CU_ASSERT_EQUAL_FATAL(start("null:hang=2", "fair"), 0);
	CU_ASSERT(await(vf2_is_quarantined));
	CU_ASSERT_EQUAL(shown.vfs[2].ledger.hangs, 3);
	CU_ASSERT(shown.vfs[0].ledger.dispatches > 0);
	check_sums();
	engine_stop(engine);
}

static _Atomic bool uncounted; /* the GPU's counters cannot be read */

static int usage(struct vgpu_driver *d, vgpu_nsec *active, vgpu_nsec now)
{
	return uncounted ? -EIO : vgpu_null_firmware_driver.programmed->usage(d, active, now);
}

static bool cannot_be_set_up(void)
{
	return shown.lost && strstr(engine_trouble(engine), "cannot be set up");
}

static bool is_governed(void)
{
	return !shown.lost && shown.governor.epochs > 0;
}

/* A GPU whose firmware schedules is back, and cannot be set up: whoever looks sees what it is to
 * have, until it can. */
TEST(governed_not_set_up, "a GPU whose counters cannot be read waits to be set up")
{
	struct vgpu_programmed_face face = *vgpu_null_firmware_driver.programmed;
	struct vgpu_driver_ops own = vgpu_null_firmware_driver;

	face.usage = usage;
	own.programmed = &face;
	ops = &own;
	CU_ASSERT_EQUAL_FATAL(start("null-firmware:", "fair"), 0);
	ops = NULL;
	CU_ASSERT(await(is_governed));
	uncounted = true;
	CU_ASSERT(await(cannot_be_set_up));
	CU_ASSERT(shown.governed && shown.core.current == VGPU_NO_VF);
	CU_ASSERT_STRING_EQUAL(shown.core.policy->name, "fair");
	CU_ASSERT_EQUAL(shown.vfs[3].params[0], 100);
	uncounted = false;
	CU_ASSERT(await(is_governed));
	CU_ASSERT_STRING_EQUAL(shown.core.policy->name, "fair");
	CU_ASSERT_EQUAL(shown.vfs[3].params[0], 100);
	engine_stop(engine);
}

/* Returns whether the engine begins with a GPU that is lost. */
static bool begins_lost(const char *device)
{
	int r = start(device, "fair");
	bool lost = r == 1 && engine_trouble(engine) && !engine_caps(engine) &&
		    strcmp(engine_policy(engine)->in_force.policy->name, "fair") == 0;

	if (r >= 0)
		engine_stop(engine);
	return lost;
}

/* A GPU that cannot be opened keeps nobody else's from being scheduled: it is lost from the start.
 */
TEST(refusals, "a GPU that cannot be opened is lost from the start")
{
	CU_ASSERT(begins_lost("null:colour=red"));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "colour"));
	CU_ASSERT(begins_lost("floppy:a"));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "not a device"));
	CU_ASSERT(begins_lost("null:max_vfs=2"));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "at most 2"));
}

SUITE_MAIN("the engine thread, on the null driver")
