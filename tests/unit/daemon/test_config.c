/* SPDX-License-Identifier: MIT */
/* The configuration file, and the arguments of control methods. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "builtin.h"
#include "config/config_check.h"
#include "control.h"
#include "methods/methods.h"
#include "suite.h"
#include "config/trial.h"

static char dir[64], file[96];
static struct config config;
static char said[8192];

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	fputs(text, f);
	fclose(f);
}

/* Reads TEXT as a configuration file; its error messages go to `said`. */
static int read_text(const char *text)
{
	FILE *errors;
	int r;

	strcpy(dir, "/tmp/vgpud-test.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/vgpud.conf", dir);
	put(file, text);
	memset(said, 0, sizeof(said));
	errors = fmemopen(said, sizeof(said) - 1, "w");
	r = config_read(&config, file, errors);
	fclose(errors);
	unlink(file);
	rmdir(dir);
	return r;
}

TEST(complete, "a complete file is read")
{
	CU_ASSERT_EQUAL(read_text("[daemon]\nsocket = /run/x.sock\n"
				  "[gpu a]\ndevice = vfio-user:/x\nvfs = 3\npolicy = strict\n"
				  "slice_us = 3000\nidle = donate\ncompletion = poll\n"
				  "partition = demand\nplacement = profile\n"
				  "[vf a/2]\nmemory_mib = 64\nslots = 4\n"
				  "[profile big]\nmemory_mib = 128\nslots = 2\n"),
			0);
	CU_ASSERT_STRING_EQUAL(config.socket, "/run/x.sock");
	CU_ASSERT_EQUAL(config.n_gpus, 1);
	CU_ASSERT_EQUAL(config.gpus[0].vfs, 3);
	CU_ASSERT_EQUAL(config.gpus[0].params[0], 3000);
	CU_ASSERT_EQUAL(config.gpus[0].params[1], 1);
	CU_ASSERT_EQUAL(config.gpus[0].interrupts, 0);
	CU_ASSERT_EQUAL(config.gpus[0].memory_mib[2], 64);
	CU_ASSERT_EQUAL(config.gpus[0].vf_params[2][0], 4);
	CU_ASSERT(config.gpus[0].on_demand && config.gpus[0].placement == VGPU_PLACE_PROFILE);
	CU_ASSERT_PTR_NULL(config_profile(&config, "small"));
	CU_ASSERT_PTR_NOT_NULL_FATAL(config_profile(&config, "big"));
	CU_ASSERT_EQUAL(config_profile(&config, "big")->memory_mib, 128);
	CU_ASSERT_STRING_EQUAL(config_profile(&config, "big")->params[0].name, "slots");
	CU_ASSERT_EQUAL(config.gpus[0].vf_params[1][0], 1);
}

#define GPU "[gpu a]\ndevice = vfio-user:/x\n"

/* The message for each mistake names its line and says what would be correct. */
TEST(mistakes, "each mistake is reported with its line")
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"[gpu a]\nvfs = 2\n", "device is missing"},
		{GPU "vfs = 99\n", ":3: vfs = 99: want 1 to 64"},
		{GPU "vgpu_type = 7\n", "vgpu_type is only for device = nvidia:ADDRESS"},
		{GPU "vfs = 2x\n", ":3: vfs = 2x: want 1 to 64"},
		{GPU "policy = best\n",
		 "want one of: fair, qos, strict, equal, deadline, prio, wdrr, best-effort"},
		{GPU "slice_us = 3\n", ":3: policy fair: slice_us = 3: want 500 to 500000 us"},
		{GPU "policy = strict\nidle = yes\n", ":4: policy strict: idle = yes: want one of"},
		{GPU "colour = red\n", ":3: policy fair: colour: no such parameter"},
		{GPU "gpu_reset = maybe\n", ":3: gpu_reset = maybe: want yes or no"},
		{GPU "partition = half\n", ":3: partition = half: want one of: equal, demand"},
		{GPU "[profile a]\nslots = 2\n",
		 ":4: [profile a]: no GPU's policy takes this parameter: slots: no such parameter"},
		{GPU "[profile a]\nweight = 0\n",
		 ":4: [profile a]: no GPU's policy takes this parameter: weight"},
		{GPU "[tenant *]\nleases = 100\n", ":4: leases = 100: want 0 to 64"},
		{GPU "[tenant *]\nshare = 10\n", ":4: share: no such key in [tenant WHO]"},
		{GPU "[tenant 5]\ngpus = gpu9\n", ":4: [tenant 5]: gpus: there is no [gpu gpu9]"},
		{GPU "[profile a b]\nweight = 3\n", ":4: [profile a b]: want a name"},
		{GPU "completion = magic\n", "want one of: poll, interrupt"},
		{GPU "layout = vega\n", "want auto, navi, tonga or soft"},
		{GPU "vfs = 2\nvfs = 3\n", ":4: vfs: given twice in [gpu a]"},
		{GPU "[vf a/7]\nweight = 5\n", "the GPU has only 4 VFs"},
		{GPU "[vf b/0]\nweight = 5\n", ":4: [vf b/...]: no section [gpu b] precedes"},
		{GPU "[vf a/x]\nweight = 5\n", "want [vf NAME/N]"},
		{GPU "[vf a/0]\nweight = 0\n", ":4: policy fair: weight = 0: want 1 to 10000"},
		{"[daemon]\nport = 1\n" GPU, ":2: port: no such key in [daemon]"},
		{"[gpu a b]\ndevice = x\n", "want a name of 1 to 31"},
		{"[nonsense]\na = b\n", ":2: [nonsense]: want [daemon]"},
		{GPU "this is not a line\n", ":3: neither a [section] nor key = value"},
		{GPU "memory_mib = 3\n", "memory_mib: no such parameter"},
		{GPU "vfs = 99999999999999999999999\n", "want 1 to 64"},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_EQUAL(read_text(cases[i].text), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(said, cases[i].says));
		if (!strstr(said, cases[i].says))
			printf("\n  case %zu: '%s' does not have '%s'\n", i, said, cases[i].says);
	}
}

/* inih reads lines into a buffer: what does not fit is no line of its own. */
TEST(long_lines, "long lines")
{
	char text[4096], fill[400];
	size_t n;

	for (n = 180; n < 220; n++) {
		memset(fill, 'x', n);
		fill[n] = '\0';
		snprintf(text, sizeof(text), GPU "# %svfs = 2\n; %svfs = 3\nvfs = 99\n", fill,
			 fill);
		CU_ASSERT_EQUAL(read_text(text), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(said, ":5: vfs = 99: want 1 to 64"));
		CU_ASSERT_PTR_NULL(strstr(said, "given twice"));
		snprintf(text, sizeof(text), "#%s\n" GPU "#%s", fill, fill);
		CU_ASSERT_EQUAL(read_text(text), 0);
	}
	snprintf(text, sizeof(text), "[gpu a]\nlayout = %s\ndevice = null:\nvfs = 99\n", fill);
	CU_ASSERT_EQUAL(read_text(text), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":2: a line has at most 199 bytes"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":4: vfs = 99: want 1 to 64"));
}

TEST(all_mistakes_at_once, "all mistakes are reported at once")
{
	CU_ASSERT_EQUAL(read_text(GPU "vfs = 0\ngrace_ms = x\ncompletion = 3\n"), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":3:"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":4:"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":5:"));
}

/* One mistake does not hide another kind, nor make up more of them; and no message has line 0. */
TEST(mistakes_of_all_kinds, "mistakes of all kinds are reported at once")
{
	CU_ASSERT_EQUAL(read_text("[daemon]\nmetrics = x\n" GPU
				  "vfs = 99\n[vf a/7]\nmemory_mib = 5\n"
				  "[gpu b]\ndevice = sysfs:/x,y\npolicy = fair\nweigth = 3\n"
				  "[gpu c]\nvfs = 2\n[profile p]\nweigth = 2\n"),
			-EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":2: [daemon]: metrics = x"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":5: vfs = 99: want 1 to 64"));
	CU_ASSERT_PTR_NULL(strstr(said, "[vf a/7]"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(said, ":9: [gpu b]: device = sysfs:/x,y: [gpu a] has it already"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":11: policy fair: weigth: no such parameter"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":13: [gpu c]: device is missing"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":15: [profile p]: no GPU's policy takes this"));
	CU_ASSERT_PTR_NULL(strstr(said, ":0:"));
}

/* One mistake in a section does not hide another one in it, nor a line that means nothing the next
 * such line. */
TEST(mistakes_of_one_section, "mistakes of one section do not hide each other")
{
	CU_ASSERT_EQUAL(read_text(GPU "vfs = 99\nweigth = 3\nnonsense\nmore of it # = 4\n"
				      "grace_ms = 0\n[vf a/1]\nweigth = 5\n"),
			-EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":3: vfs = 99: want 1 to 64"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":4: policy fair: weigth: no such parameter"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":5: neither a [section] nor key = value"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":6: neither a [section] nor key = value"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":7: grace_ms = 0: want 1 to 10000"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":9: policy fair: weigth: no such parameter"));
}

/* A comment may stand behind a value; it begins with a space. */
TEST(comments, "comments behind values")
{
	CU_ASSERT_EQUAL(read_text("# first\n[gpu a] # a GPU\ndevice = sysfs:/x\t# its slot\n"
				  "vfs = 4 # four\npolicy = strict ; of old\nslice_us = 3000 #\n"),
			0);
	CU_ASSERT_STRING_EQUAL(config.gpus[0].device, "sysfs:/x");
	CU_ASSERT_EQUAL(config.gpus[0].vfs, 4);
	CU_ASSERT_EQUAL(config.gpus[0].params[0], 3000);
	CU_ASSERT_EQUAL(read_text(GPU "vfs = 4# four\n"), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ":3: vfs = 4# four: want 1 to 64"));
}

/* What is found wrong once all is read is reported where it stands, also in a drop-in. */
TEST(places_in_drop_ins, "a mistake is reported where it stands, also in a drop-in")
{
	char folder[300], path[320];

	CU_ASSERT_EQUAL(read_text(GPU), 0);
	CU_ASSERT_EQUAL(mkdir(dir, 0755), 0);
	put(file, GPU "[gpu b]\ndevice = null:\nlone_slice_ms = 1\n");
	snprintf(folder, sizeof(folder), "%s.d", file);
	CU_ASSERT_EQUAL(mkdir(folder, 0755), 0);
	snprintf(path, sizeof(path), "%s/x.conf", folder);
	put(path, "[gpu b]\n\nlayout = round\nmin_slice_us = 2000\n[gpu c]\ndevice = null:\n"
		  "policy = qos\n[vf c/0]\nmin_ppm = 600000\n[vf c/1]\nmin_ppm = 600000\n");
	memset(said, 0, sizeof(said));
	{
		FILE *errors = fmemopen(said, sizeof(said) - 1, "w");

		CU_ASSERT_EQUAL(config_read(&config, file, errors), -EINVAL);
		CU_ASSERT_EQUAL(config_check_gpus(&config, NULL, errors), 1);
		fclose(errors);
	}
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ".d/x.conf:3: [gpu b]: layout = round"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "vgpud.conf:5: [gpu b]: lone_slice_ms is shorter"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, ".d/x.conf:11: [vf c/1], with the VFs before it"));
	unlink(path);
	rmdir(folder);
	unlink(file);
	rmdir(dir);
}

/* What a file of the configuration must not be. */
TEST(not_a_file, "a directory is no configuration")
{
	FILE *errors = fmemopen(said, sizeof(said) - 1, "w");
	char path[300];

	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	CU_ASSERT_EQUAL(config_read(&config, "/", errors), -EINVAL);
	CU_ASSERT_EQUAL(config_read(&config, path, errors), -EINVAL);
	fclose(errors);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "/: it is a directory"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "the path is longer than 255 characters"));
}

/* Returns how many mistakes a check finds in TEXT, which has none for config_read; its messages go
 * to `said`. */
static int checked(int (*check)(const struct config *config, FILE *errors), const char *text)
{
	FILE *errors;
	int wrong;

	CU_ASSERT_EQUAL(read_text(text), 0);
	memset(said, 0, sizeof(said));
	errors = fmemopen(said, sizeof(said) - 1, "w");
	wrong = check(&config, errors);
	fclose(errors);
	return wrong;
}

static int policies(const struct config *read, FILE *errors)
{
	return config_check_gpus(read, NULL, errors);
}

/* Guarantees that add up to more than a GPU has are found before it is opened, for each GPU. */
TEST(guarantees_add_up, "guarantees beyond the GPU are mistakes")
{
	static const char *const halves = "policy = qos\n[vf a/0]\nmin_ppm = 400000\n"
					  "[vf a/2]\nmin = 40 %\n";
	char text[600];

	snprintf(text, sizeof(text), "%s%s", GPU, halves);
	CU_ASSERT_EQUAL(checked(policies, text), 0);
	snprintf(text, sizeof(text),
		 "%s%s[vf a/3]\nmin_ppm = 400000\n[gpu b]\ndevice = null:\npolicy = qos\n"
		 "[vf b/0]\nmin_ppm = 1000000\n",
		 GPU, halves);
	CU_ASSERT_EQUAL(checked(policies, text), 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "[vf a/3], with the VFs before it: policy qos: "));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "[vf b/0], with the VFs before it: policy qos: "));
}

static int qos_param(const char *name)
{
	const struct vgpu_param *p = vgpu_builtin_policy("qos")->vf_params;
	int i;

	for (i = 0; strcmp(p[i].name, name) != 0; i++)
		;
	return i;
}

/* Parts per million can be given in percent, as claims have them, also in a profile. */
TEST(percent_is_read, "percent is read as claims have it")
{
	static const char *const wrong[] = {"101", "12.345", "-1", "30 % x", "30 ppm", "1e1"};
	char text[400];
	size_t i;

	snprintf(text, sizeof(text),
		 "%spolicy = qos\n[vf a/0]\nmin = 12.5\nmax = 25%%\n[vf a/1]\nmin = 7 %%\n"
		 "[profile p]\nmin = 30\n",
		 GPU);
	CU_ASSERT_EQUAL(checked(policies, text), 0);
	CU_ASSERT_EQUAL(config.gpus[0].vf_params[0][qos_param("min_ppm")], 125000);
	CU_ASSERT_EQUAL(config.gpus[0].vf_params[0][qos_param("max_ppm")], 250000);
	CU_ASSERT_EQUAL(config.gpus[0].vf_params[1][qos_param("min_ppm")], 70000);
	CU_ASSERT_STRING_EQUAL(config.profiles[0].params[0].name, "min_ppm");
	CU_ASSERT_STRING_EQUAL(config.profiles[0].params[0].value, "300000");
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text), "%spolicy = qos\n[vf a/0]\nmin = %s\n", GPU, wrong[i]);
		CU_ASSERT_EQUAL(read_text(text), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(said, "want 0 to 100 percent, like 12.5"));
	}
}

static vgpu_nsec switch_ns;

static void attach_picky(void *state, const struct vgpu_facts *facts, const int64_t *params)
{
	switch_ns = facts->switch_ns;
	vgpu_builtin_policy("equal")->attach(state, facts, params);
}

/* Admits no VF where a world switch takes time. */
static bool admit_picky(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now,
			const char **why)
{
	*why = "a world switch takes time";
	return switch_ns == 0 && vgpu_builtin_policy("equal")->admit(state, vf, params, now, why);
}

/* Budgets hold among VFs that stop in time, and a GPU that preempts nothing stops one after
 * grace_ms at the latest. */
TEST(guarantees_need_stops_in_time, "guarantees need stops in time")
{
	static const struct vgpu_driver_caps gated = {.kind = VGPU_DRIVER_SWITCHED,
						      .preemption = "submission"},
					     switched = {.kind = VGPU_DRIVER_SWITCHED,
							 .preemption = "block"};
	static const struct {
		const char *settings;
		int result;
	} tries[] = {
		{"policy = fair\n", 0},
		{"policy = deadline\n", -EOPNOTSUPP},
		{"policy = qos\nlate_us = 49999\n", -EOPNOTSUPP},
		{"policy = qos\nlate_us = 50000\n", 0},
		{"policy = deadline\nlate_us = 7000\ngrace_ms = 7\n", 0},
	};
	struct policy_values values;
	struct vgpu_error err = {""};
	char text[200];
	uint32_t i;
	int32_t vf;

	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		const struct gpu_config *g = config.gpus;

		snprintf(text, sizeof(text), "%s%s", GPU, tries[i].settings);
		CU_ASSERT_EQUAL_FATAL(read_text(text), 0);
		values.policy = g->ops;
		memcpy(values.params, g->params, sizeof(values.params));
		memcpy(values.vf_params, g->vf_params, sizeof(values.vf_params));
		CU_ASSERT_EQUAL(trial(g, &gated, &values, &vf, &err), tries[i].result);
		CU_ASSERT_EQUAL(trial(g, &switched, &values, &vf, &err), 0);
	}
}

/* A GPU whose firmware schedules is tried with a governor, another with a core. Of one that was not
 * opened nobody knows which it is: refused is what neither of them takes. */
TEST(tried_as_its_kind, "a GPU is tried as what it is")
{
	static const struct vgpu_driver_caps switched = {.kind = VGPU_DRIVER_SWITCHED},
					     firmware = {.kind = VGPU_DRIVER_PROGRAMMED,
							 .quantum = {VGPU_MSEC, VGPU_SEC,
								     VGPU_MSEC},
							 .timeout = {VGPU_USEC, VGPU_SEC,
								     VGPU_USEC}},
					     driver = {.kind = VGPU_DRIVER_DECLARED};
	struct vgpu_policy_ops picky = *vgpu_builtin_policy("equal");
	struct policy_values values;
	struct vgpu_error err = {""};
	const struct gpu_config *g = config.gpus;
	int32_t vf;

	CU_ASSERT_EQUAL(read_text(GPU "policy = fair\n[vf a/1]\nlatency_slice_us = 2000\n"), 0);
	values.policy = g->ops;
	memcpy(values.params, g->params, sizeof(values.params));
	memcpy(values.vf_params, g->vf_params, sizeof(values.vf_params));
	CU_ASSERT_EQUAL(trial(g, &switched, &values, &vf, &err), 0);
	CU_ASSERT_EQUAL(trial(g, NULL, &values, &vf, &err), 0);
	CU_ASSERT_EQUAL(trial(g, &firmware, &values, &vf, &err), -EOPNOTSUPP);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "policy fair: latency_slice_us: firmware gives"));
	CU_ASSERT_EQUAL(read_text(GPU "policy = fair\nfavour = frames\n"), 0);
	memcpy(values.params, g->params, sizeof(values.params));
	memcpy(values.vf_params, g->vf_params, sizeof(values.vf_params));
	CU_ASSERT_EQUAL(trial(g, &firmware, &values, &vf, &err), -EOPNOTSUPP);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "policy fair: favour = frames: firmware gives"));
	CU_ASSERT_EQUAL(trial(g, &driver, &values, &vf, &err), -EOPNOTSUPP);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "policy fair: this GPU has policies of its own"));
	picky.attach = attach_picky;
	picky.admit = admit_picky;
	values.policy = &picky;
	vgpu_param_defaults(picky.params, values.params);
	CU_ASSERT_EQUAL(trial(g, &switched, &values, &vf, &err), -EINVAL);
	CU_ASSERT_EQUAL(vf, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "a world switch takes time"));
	CU_ASSERT_EQUAL(trial(g, &firmware, &values, &vf, &err), 0);
	CU_ASSERT_EQUAL(trial(g, NULL, &values, &vf, &err), 0);
	values.policy = vgpu_builtin_policy("equal");
	vgpu_param_defaults(values.policy->params, values.params);
	CU_ASSERT_EQUAL(trial(g, &driver, &values, &vf, &err), 0);
}

/* A trial tells what the policy would promise: a longer world switch lengthens waits, and a
 * firmware promises what its turns and time-outs give. What is refused is refused by name. */
TEST(promises_of_a_trial, "a trial tells what a policy would promise")
{
	static const struct vgpu_driver_caps switched = {.kind = VGPU_DRIVER_SWITCHED},
					     firmware = {.kind = VGPU_DRIVER_PROGRAMMED,
							 .quantum = {VGPU_MSEC, VGPU_SEC,
								     VGPU_MSEC},
							 .timeout = {VGPU_USEC, VGPU_SEC,
								     VGPU_USEC}};
	struct trial_promise quick[VGPU_GPU_MAX_VFS], slow[VGPU_GPU_MAX_VFS];
	struct vgpu_policy_ops picky = *vgpu_builtin_policy("equal");
	const struct gpu_config *g = config.gpus;
	struct policy_values values;
	struct vgpu_error err = {""};

	CU_ASSERT_EQUAL(read_text(GPU "policy = fair\n[vf a/1]\nweight = 300\n"), 0);
	values.policy = g->ops;
	memcpy(values.params, g->params, sizeof(values.params));
	memcpy(values.vf_params, g->vf_params, sizeof(values.vf_params));
	CU_ASSERT_EQUAL(trial_promises(g, &switched, &values, VGPU_USEC, quick, &err), 0);
	CU_ASSERT_EQUAL(trial_promises(g, &switched, &values, 5 * VGPU_MSEC, slow, &err), 0);
	CU_ASSERT_EQUAL(quick[1].numerator * quick[0].denominator,
			3 * quick[0].numerator * quick[1].denominator);
	CU_ASSERT(quick[0].bound.max_wait < slow[0].bound.max_wait);
	CU_ASSERT(slow[0].bound.max_wait < VGPU_NEVER);
	CU_ASSERT_EQUAL(quick[0].least_ppm, 0);
	CU_ASSERT_EQUAL(trial_promises(g, &firmware, &values, 0, slow, &err), 0);
	CU_ASSERT(slow[0].least_ppm > 0);
	CU_ASSERT(slow[1].least_ppm > slow[0].least_ppm);
	CU_ASSERT(slow[0].bound.max_lag < VGPU_NEVER);
	picky.attach = attach_picky;
	picky.admit = admit_picky;
	values.policy = &picky;
	vgpu_param_defaults(picky.params, values.params);
	CU_ASSERT_EQUAL(trial_promises(g, &switched, &values, VGPU_USEC, quick, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "VF 0: policy equal: a world switch takes time"));
}

static int host(const struct config *read, FILE *errors)
{
	static struct config_known known;

	return config_check_host(read, &known, errors, errors) +
	       config_check_gpus(read, &known, errors);
}

/* Memory that the GPU does not have: found before a start, and by the vgpud that has the GPU. */
TEST(too_much_memory, "memory and VFs that the GPU does not have are mistakes")
{
	CU_ASSERT_EQUAL(checked(host, "[gpu a]\ndevice = null:memory_mib=1024\nvfs = 2\n"
				      "[vf a/1]\nmemory_mib = 900\n"),
			0);
	CU_ASSERT_EQUAL(checked(host, "[gpu a]\ndevice = null:memory_mib=1024\nvfs = 2\n"
				      "[vf a/1]\nmemory_mib = 5000\n"),
			1);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(said, "vgpud.conf:5: [gpu a]: VF 1 is to have 5000 MiB, but the GPU has"));
	CU_ASSERT_EQUAL(checked(host, "[gpu a]\ndevice = null:max_vfs=2\nvfs = 3\n"), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "vfs = 3: this GPU has at most 2"));
}

/* Devices and groups that this host does not have. */
TEST(not_here, "devices and groups that do not exist are mistakes")
{
	CU_ASSERT_EQUAL(checked(host, "[gpu a]\ndevice = null:\n"), 0);
	CU_ASSERT_EQUAL(checked(host, "[daemon]\ngroup = no-such-group\n"
				      "[gpu a]\ndevice = sysfs:fffe:1f:00.0\n"
				      "[gpu b]\ndevice = vfio-user:/nonexistent/pf.sock\n"
				      "[gpu c]\ndevice = nonsense:3\n[gpu d]\ndevice = null:\n"),
			4);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "group = no-such-group: this host has no such group"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "/sys/bus/pci/devices/fffe:1f:00.0: No such file"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "/nonexistent/pf.sock: No such file or directory"));
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "[gpu c]: device = nonsense:3: nonsense:3: not a"));
}

/* A dumped configuration reads back to the same. */
TEST(dump_round_trip, "a dumped configuration reads back to the same")
{
	static char first[16384], second[16384];
	FILE *f;

	CU_ASSERT_EQUAL(read_text(GPU "vfs = 2\npolicy = fair\nslice_us = 1500\n[vf a/1]\n"
				      "weight = 250\nmemory_mib = 32\n[gpu b]\n"
				      "device = vfio-user:/y\npolicy = strict\nidle = compress\n"),
			0);
	f = fmemopen(first, sizeof(first), "w");
	config_dump(&config, f);
	fclose(f);
	CU_ASSERT_EQUAL(read_text(first), 0);
	f = fmemopen(second, sizeof(second), "w");
	config_dump(&config, f);
	fclose(f);
	CU_ASSERT_STRING_EQUAL(first, second);
	CU_ASSERT_PTR_NOT_NULL(strstr(first, "weight = 250"));
}

/* Guarantees are tried with the room for switches that the configuration wants. */
TEST(room_for_switches, "switches have the room that is configured")
{
	struct engine_config engine;

	CU_ASSERT_EQUAL_FATAL(read_text(GPU "vfs = 2\n"), 0);
	config_to_engine(&config.gpus[0], &engine);
	CU_ASSERT_EQUAL(engine.core.switch_nominal, 100 * VGPU_USEC);
	CU_ASSERT_EQUAL_FATAL(read_text(GPU "vfs = 2\nswitch_least_us = 2000\n"), 0);
	config_to_engine(&config.gpus[0], &engine);
	CU_ASSERT_EQUAL(engine.core.switch_nominal, 2 * VGPU_MSEC);
}

TEST(drop_ins, "drop-ins are read in the order of their names")
{
	char sub[128], path[200];
	int r;

	strcpy(dir, "/tmp/vgpud-test.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/c", dir);
	snprintf(sub, sizeof(sub), "%s/c.d", dir);
	put(file, GPU "vfs = 2\n");
	mkdir(sub, 0700);
	snprintf(path, sizeof(path), "%s/20-b.conf", sub);
	put(path, "[gpu a]\nvfs = 6\n");
	snprintf(path, sizeof(path), "%s/10-a.conf", sub);
	put(path, "[gpu a]\nvfs = 5\ngrace_ms = 70\n");
	snprintf(path, sizeof(path), "%s/30-c.conf.off", sub);
	put(path, "rubbish");
	r = config_read(&config, file, stderr);
	CU_ASSERT_EQUAL(r, 0);
	CU_ASSERT_EQUAL(config.gpus[0].vfs, 6);
	CU_ASSERT_EQUAL(config.gpus[0].grace_ms, 70);
	snprintf(path, sizeof(path), "rm -r %s", dir);
	CU_ASSERT_EQUAL(system(path), 0);
	CU_ASSERT_EQUAL(config_read(&config, "/nonexistent/file", fopen("/dev/null", "w")),
			-EINVAL);
}

/* Random bytes, and a valid file with bytes changed: config_read returns, and never crashes. */
TEST(rubbish, "malformed files are refused")
{
	static const char good[] =
		GPU "vfs = 2\npolicy = strict\nslice_us = 2000\n[vf a/1]\nslots = 2\n";
	char text[400];
	int round, i;

	srand(3);
	for (round = 0; round < 300; round++) {
		for (i = 0; i < 399; i++)
			text[i] = (char)(rand() % 255 + 1);
		text[399] = '\0';
		read_text(text);
		memcpy(text, good, sizeof(good));
		for (i = 0; i < 3; i++)
			text[rand() % (int)(sizeof(good) - 1)] = (char)(rand() % 255 + 1);
		read_text(text);
	}
	CU_ASSERT_EQUAL(read_text(good), 0);
}

static int check_args(const char *method, const char *args, struct vgpu_error *err)
{
	const struct method *m = method_find(method);
	struct json_object *o = json_tokener_parse(args);
	int r = method_check(m, o, err);

	json_object_put(o);
	return r;
}

TEST(method_arguments, "arguments of methods are checked")
{
	struct vgpu_error err;

	CU_ASSERT_PTR_NULL(method_find("vf.explode"));
	CU_ASSERT_EQUAL(check_args("vf.set", "{\"vf\":1,\"params\":{}}", &err), 0);
	CU_ASSERT_EQUAL(check_args("vf.set", "{\"params\":{}}", &err), -EINVAL);
	CU_ASSERT_STRING_EQUAL(err.text, "vf is missing");
	CU_ASSERT_EQUAL(check_args("vf.set", "{\"vf\":\"1\",\"params\":{}}", &err), -EINVAL);
	CU_ASSERT_STRING_EQUAL(err.text, "vf: want int");
	CU_ASSERT_EQUAL(check_args("vf.set", "{\"vf\":-1,\"params\":{}}", &err), -EINVAL);
	CU_ASSERT_STRING_EQUAL(err.text, "vf = -1: want 0 to 2147483647");
	CU_ASSERT_EQUAL(check_args("vf.set", "{\"vf\":-1,\"params\":{}}", &err), -EINVAL);
	CU_ASSERT_EQUAL(check_args("gpu.list", "{\"colour\":1}", &err), -EINVAL);
	CU_ASSERT_EQUAL(check_args("gpu.list", "[1]", &err), -EINVAL);
	CU_ASSERT_EQUAL(check_args("timeline", "{\"ms\":60001}", &err), -EINVAL);
	CU_ASSERT_EQUAL(check_args("timeline", "{\"ms\":100}", &err), 0);
}

/* Every method that changes something requires the right to change; every method has a help
 * text. */
TEST(method_table, "each method that changes something says so")
{
	static const char *const changing[] = {"vf.set",      "vf.reset",	"policy.set",
					       "memory.set",  "memory.compact", "hook",
					       "vm.sync",     "vm.extend",	"vm.hung",
					       "vm.check",    "config.diff",	"config.reload",
					       "gpu.capacity"};
	const unsigned n_changing = sizeof(changing) / sizeof(changing[0]);
	unsigned i, j, n = 0;

	for (i = 0; methods[i].name; i++) {
		CU_ASSERT(strlen(methods[i].help) > 5);
		for (j = 0; j < n_changing; j++)
			if (strcmp(methods[i].name, changing[j]) == 0)
				CU_ASSERT_EQUAL(methods[i].access, ACCESS_CHANGE);
		n += methods[i].access == ACCESS_CHANGE;
	}
	CU_ASSERT_EQUAL(n, n_changing);
}

/* As many GPUs as there may be, each with parameters of its policy and of all its VFs; and one
 * more.
 */
TEST(many_gpus, "many GPUs with many parameters")
{
	char *text = NULL;
	size_t size = 0;
	uint32_t i, vf;
	FILE *f = open_memstream(&text, &size);

	for (i = 0; i <= CONFIG_MAX_GPUS; i++) {
		fprintf(f, "[gpu g%u]\ndevice = null:\nvfs = 31\npolicy = fair\nslice_us = %u\n", i,
			1000 + i);
		for (vf = 0; vf < 31; vf++)
			fprintf(f, "[vf g%u/%u]\nweight = %u\n", i, vf, 1 + vf);
		fflush(f);
		if (i + 1 < CONFIG_MAX_GPUS)
			continue;
		CU_ASSERT_EQUAL(read_text(text), i < CONFIG_MAX_GPUS ? 0 : -EINVAL);
		if (i == CONFIG_MAX_GPUS)
			break;
		CU_ASSERT_EQUAL(config.n_gpus, CONFIG_MAX_GPUS);
		CU_ASSERT_EQUAL(config.gpus[i].params[0], 1000 + i);
		CU_ASSERT_EQUAL(config.gpus[i].vf_params[30][0], 31);
	}
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "more than 64 GPUs"));
	fclose(f);
	free(text);
}

SUITE_MAIN("configuration")
