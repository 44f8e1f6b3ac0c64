/* SPDX-License-Identifier: MIT */
/* Claims are checked before they are written; what is offered is admitted; refusals are counted. */
#include <string.h>

#include "builtin.h"
#include "vms.h"

/* Asks whether vm1 may have a changed claim. */
static void check_claim(const char *xml, const char *vfs, bool next_start)
{
	char text[2000];

	snprintf(text, sizeof(text),
		 "{\"method\":\"vm.check\",\"args\":{\"xml\":\"%s\",\"claim\":\""
		 "<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'>%s</v:vgpu>\","
		 "\"next_start\":%s}}\n",
		 xml, vfs, next_start ? "true" : "false");
	say(&one, text);
}

/* A claim that would be refused is refused before it is written, and a check changes nothing:
 * values out of range, guarantees beyond the GPU, and, for a VM that runs, guarantees beyond what
 * the others leave. */
TEST(checked_first, "a changed claim is checked before it is written")
{
	static const char xml[] = CLAIM(A "</v:vf>") "</domain>";
	static const char broken[] = CLAIM(A "<v:weigth/></v:vf>") "</domain>";
	int64_t before[VGPU_MAX_PARAMS];
	char address[32];

	bench_begin("qos");
	CU_ASSERT_EQUAL(sync_vm(xml, "missing", address), 0);
	control_settle(&control);
	memcpy(before, engine_policy(control.gpus[0].engine)->to_come.vf_params[1], sizeof(before));
	check_claim(xml, WEIGHT("0"), false);
	CU_ASSERT(refused(&one, "EINVAL", "line 1: <weight>: '0' is not a whole number above 0"));
	check_claim(xml, A "<v:sched><v:param name='weight' value='0'/></v:sched></v:vf>", false);
	CU_ASSERT(refused(&one, "EINVAL", "vm1/a: gpu0: policy qos: weight = 0: want 1 to"));
	check_claim(xml, A "<v:sched><v:param name='weigth' value='3'/></v:sched></v:vf>", true);
	CU_ASSERT(refused(&one, "EINVAL", "weigth: no such parameter"));
	check_claim(xml, A "<v:sched policy='fair'/></v:vf>", true);
	CU_ASSERT(refused(&one, "EINVAL", "gpu0 has policy qos, but the claim wants fair"));
	check_claim(xml, "<v:vf name='a'><v:device gpu='gpu7'/></v:vf>", true);
	CU_ASSERT(refused(&one, "ENOENT", "vm1/a: there is no GPU for it"));
	check_claim(xml, SHARE("100"), true);
	CU_ASSERT(refused(&one, "EINVAL", "vm1/a: policy qos: "));
	check_claim(xml, SHARE("50"), true);
	CU_ASSERT(done(&one));
	say(&one,
	    "{\"method\":\"vf.set\",\"args\":{\"vf\":0,\"params\":{\"min_ppm\":\"600000\"}}}\n");
	CU_ASSERT(done(&one));
	check_claim(xml, SHARE("50"), true);
	CU_ASSERT(done(&one));
	check_claim(xml, SHARE("50"), false);
	CU_ASSERT(refused(&one, "EINVAL", "vm1/a: policy qos: "));
	check_claim(broken, WEIGHT("7"), false); /* a claim that cannot be read can be mended */
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(memcmp(&engine_policy(control.gpus[0].engine)->to_come.vf_params[1], before,
			       sizeof(before)),
			0);
	bench_end();
}

/* A figure of the shares of gpu.capacity. */
static int64_t share_of(const char *name)
{
	struct json_object *o;
	int64_t value;

	say(&one, "{\"method\":\"gpu.capacity\"}\n");
	o = hear(&one);
	value = json_object_get_int64(get(get(get(o, "result"), "shares"), name));
	json_object_put(o);
	return value;
}

/* Guarantees VF a share, per mille. Returns whether it is admitted. */
static bool guarantee(uint32_t vf, int64_t share)
{
	struct json_object *o;
	char text[120];
	bool is;

	snprintf(text, sizeof(text),
		 "{\"method\":\"vf.set\",\"args\":{\"vf\":%u,\"params\":{\"min_ppm\":\"%lld\"}}}\n",
		 vf, (long long)share * 1000);
	say(&one, text);
	o = hear(&one);
	is = get(o, "result") != NULL;
	json_object_put(o);
	return is;
}

/* The largest share that is offered is admitted, and no larger one, also where little more is left
 * than the least that there is. */
TEST(offers, "what is offered is admitted")
{
	static struct gpu_config gpu = {.name = "gpu0",
					.device = "quick:",
					.vfs = QUICK_VFS,
					.min_slice_us = 500,
					.switch_least_us = 100,
					.grace_ms = 50,
					.window_max_ms = 500,
					.lone_slice_ms = 100,
					.debt_cap_ms = 100};
	int64_t least, most, had, now, offered = 0;
	struct engine_config engine_config;

	quick_reset();
	gpu.ops = vgpu_builtin_policy("qos");
	quick_config(&engine_config, gpu.ops);
	bench_begin_with(&gpu, &engine_config);
	/* VF 0 has no guest any more: it can be given to a VM. */
	say(&one, "{\"method\":\"vf.reset\",\"args\":{\"vf\":0}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT(comes_to_say(&one, "{\"method\":\"gpu.capacity\"}\n", "free_vfs", "1"));
	least = share_of("least");
	most = share_of("most");
	CU_ASSERT_FATAL(least > 1 && most > 300);
	for (had = most - 300; had <= most; had += least / 2 + 1) {
		CU_ASSERT_FATAL(guarantee(QUICK_VFS - 1, had));
		now = share_of("largest_free");
		offered += now >= least && now < 2 * least;
		if (now > 0)
			CU_ASSERT(guarantee(0, now));
		CU_ASSERT_FALSE(guarantee(0, now > 0 ? now + 1 : least));
		CU_ASSERT(guarantee(0, 0));
	}
	CU_ASSERT(offered > 0);
	bench_end();
}

/* What gpu.capacity says is promised is the sum of what vf.list says of the VFs of VMs. */
TEST(promises_add_up, "capacity: what is promised is what vf.list says")
{
	static struct gpu_config gpu = {.name = "gpu0",
					.device = "quick:",
					.vfs = QUICK_VFS,
					.min_slice_us = 500,
					.grace_ms = 50,
					.window_max_ms = 500,
					.lone_slice_ms = 100,
					.debt_cap_ms = 100};
	struct engine_config engine_config;
	struct json_object *o, *vf;
	double sum = 0, all;
	size_t i;

	quick_reset();
	gpu.ops = vgpu_builtin_policy("fair");
	quick_config(&engine_config, gpu.ops);
	bench_begin_with(&gpu, &engine_config);
	control.gpus[0].leases[0].state = LEASE_RUNNING;
	control.gpus[0].leases[QUICK_VFS - 1].state = LEASE_RUNNING;
	say(&one, "{\"method\":\"vf.list\"}\n");
	o = hear(&one);
	for (i = 0; i < QUICK_VFS; i += QUICK_VFS - 1) {
		vf = json_object_array_get_idx(get(get(o, "result"), "vfs"), i);
		CU_ASSERT_STRING_EQUAL(json_object_get_string(get(vf, "share_of")), "engine");
		sum += json_object_get_double(get(vf, "share_numerator")) /
		       json_object_get_double(get(vf, "share_denominator"));
	}
	json_object_put(o);
	say(&one, "{\"method\":\"gpu.capacity\"}\n");
	o = hear(&one);
	all = json_object_get_double(get(get(o, "result"), "promised_ppm")) / 1e6;
	json_object_put(o);
	CU_ASSERT(sum > 0.1 && sum <= 1);
	CU_ASSERT(all > sum - 1e-5 && all < sum + 1e-5);
	bench_end();
}

/* A VM's claim decides about its VF: vf.set is refused, and says what to use. */
TEST(claims_decide, "vf.set is refused for a VM's VF")
{
	struct lease *l;

	bench_begin("fair");
	l = &control.gpus[0].leases[1];
	snprintf(l->domain, sizeof(l->domain), "web");
	snprintf(l->vf_name, sizeof(l->vf_name), "a");
	l->state = LEASE_RESERVED;
	say(&one, "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":200}}}\n");
	CU_ASSERT(refused(&one, "EBUSY", "'vgpuctl vm set web a:weight=200'"));
	l->state = LEASE_NONE;
	say(&one, "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":200}}}\n");
	CU_ASSERT(says(&one, "weight", "200"));
	bench_end();
}

/* One refusal of each kind that the quick GPU can make. */
static const struct {
	const char *operation; /* NULL: vm.extend */
	const char *xml, *code, *words;
	enum refusal_request request;
	enum refusal_reason reason;
} refusals[] = {
	{"prepare", CLAIM("<v:fv/>") "</domain>", "EINVAL", "<metadata> of the domain",
	 REFUSAL_START, REFUSAL_CLAIM},
	{"start", CLAIM("<v:fv/>") "</domain>", "EINVAL", "<metadata> of the domain", REFUSAL_START,
	 REFUSAL_CLAIM},
	{"migrate", CLAIM("<v:fv/>") "</domain>", "EINVAL", "<metadata> of the domain",
	 REFUSAL_INCOMING, REFUSAL_CLAIM},
	{"restore", CLAIM(HEAVY_A) COMMANDLINE(VFIO_USER), "EOPNOTSUPP", "without the state",
	 REFUSAL_INCOMING, REFUSAL_STATE},
	{"prepare", CLAIM("<v:vf name='a'><v:device pool='x'/></v:vf>") "</domain>", "EBUSY",
	 "there is no GPU in pool x", REFUSAL_START, REFUSAL_NO_GPU},
	{"prepare", CLAIM("<v:vf name='a'><v:device gpu='gpu0' vf='30'/></v:vf>") "</domain>",
	 "EBUSY", "no VF 30", REFUSAL_START, REFUSAL_NO_GPU},
	{"prepare", CLAIM("<v:vf name='a'><v:sched policy='fair'/></v:vf>") "</domain>", "EBUSY",
	 "the claim wants fair", REFUSAL_START, REFUSAL_POLICY},
	{"prepare", CLAIM("<v:vf name='a' alias='ua-x'/>") "</domain>", "EBUSY",
	 "has no <hostdev> with alias ua-x", REFUSAL_START, REFUSAL_DEVICE},
	{"prepare", CLAIM("<v:vf name='a'><v:memory unit='MiB'>200</v:memory></v:vf>") "</domain>",
	 "EBUSY", "200 MiB are claimed", REFUSAL_START, REFUSAL_MEMORY},
	{"prepare", CLAIM(SHARE("100")) "</domain>", "EBUSY", "policy qos: ", REFUSAL_START,
	 REFUSAL_TIME},
	{NULL, CLAIM(HEAVY_A) "</domain>", "EBUSY", "are not PCI devices", REFUSAL_ATTACH,
	 REFUSAL_DEVICE},
};

static uint64_t all_counted(void)
{
	const struct refusal_counts *c = &control.refusals;
	uint64_t sum = 0;
	uint32_t i, j;

	for (i = 0; i < REFUSAL_REQUESTS; i++) {
		sum += c->granted[i];
		for (j = 0; j < REFUSAL_REASONS; j++)
			sum += c->refused[i][j];
	}
	return sum;
}

static void ask(const char *method, const char *xml)
{
	char text[1400];

	snprintf(text, sizeof(text), "{\"method\":\"%s\",\"args\":{%s\"xml\":\"%s\"}}\n", method,
		 strcmp(method, "vm.extend") == 0 ? "\"host\":\"here\"," : "", xml);
	say(&one, text);
}

/* Each refusal is counted once, under the reason that its sentence says, and nothing else is. */
TEST(reasons_counted, "refusals are counted by their reasons")
{
	const struct refusal_counts *c = &control.refusals;
	uint64_t before, all;
	uint32_t i;

	begin_free_with("qos");
	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		before = c->refused[refusals[i].request][refusals[i].reason];
		all = all_counted();
		if (refusals[i].operation)
			hook(&one, refusals[i].operation, refusals[i].xml);
		else
			ask("vm.extend", refusals[i].xml);
		CU_ASSERT(refused(&one, refusals[i].code, refusals[i].words));
		CU_ASSERT_EQUAL(c->refused[refusals[i].request][refusals[i].reason], before + 1);
		CU_ASSERT_EQUAL(all_counted(), all + 1);
	}
	/* vgpud-libvirt asks again and again for a VM that runs. Questions, ends and VMs without a
	 * claim are not counted. */
	all = all_counted();
	ask("vm.extend", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(refused(&one, "EBUSY", "are not PCI devices"));
	ask("vm.explain", CLAIM(SHARE("100")) "</domain>");
	CU_ASSERT(done(&one));
	hook(&one, "release", CLAIM("<v:fv/>") "</domain>");
	CU_ASSERT(refused(&one, "EINVAL", "<metadata> of the domain"));
	hook(&one, "prepare", UNCLAIMED "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(all_counted(), all);
	/* A VM gets its VF; the next one does not get the same. One that does not need it is
	 * refused it, too. */
	hook(&one, "prepare", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(c->granted[REFUSAL_START], 1);
	hook(&one, "start", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(all_counted(), all + 1);
	hook(&one, "prepare",
	     "<domain type='kvm'><name>vm2</name><uuid>" NO_VM
	     "</uuid><metadata><v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1' "
	     "required='no'>" HEAVY_A "</v:vgpu></metadata></domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(c->refused[REFUSAL_START][REFUSAL_NO_VF], 1);
	CU_ASSERT_EQUAL(all_counted(), all + 2);
	/* A lost GPU. */
	hook(&one, "release", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(done(&one));
	quick_present(false);
	while (!control.gpus[0].heard.trouble)
		turn();
	hook(&one, "prepare", CLAIM(HEAVY_A) "</domain>");
	CU_ASSERT(refused(&one, "EBUSY", "gpu0 is lost"));
	CU_ASSERT_EQUAL(c->refused[REFUSAL_START][REFUSAL_GPU_LOST], 1);
	CU_ASSERT_EQUAL(all_counted(), all + 3);
	quick_present(true);
	bench_end();
}

/* Of what each policy promises a share, if of anything; best-effort states one and promises none.
 */
TEST(shares_of, "of what a share is one")
{
	static const struct {
		const char *policy, *of;
	} cases[] = {{"fair", "engine"},    {"wdrr", "engine"}, {"strict", "engine"},
		     {"equal", "engine"},   {"qos", "engine"},	{"prio", "class"},
		     {"best-effort", NULL}, {"deadline", NULL}};
	struct json_object *o, *vfs;
	char text[100];
	uint32_t i, vf;

	bench_begin("fair");
	control.gpus[0].config->min_slice_us = 500; /* the trial begins with the configuration's */
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text),
			 "{\"method\":\"policy.explain\",\"args\":{\"policy\":\"%s\"}}\n",
			 cases[i].policy);
		say(&one, text);
		o = hear(&one);
		vfs = get(get(o, "result"), "vfs");
		CU_ASSERT_EQUAL_FATAL(json_object_array_length(vfs), QUICK_VFS);
		for (vf = 0; vf < QUICK_VFS; vf++) {
			struct json_object *of =
				get(json_object_array_get_idx(vfs, vf), "share_of");

			CU_ASSERT_EQUAL(of == NULL, cases[i].of == NULL);
			if (of && cases[i].of)
				CU_ASSERT_STRING_EQUAL(json_object_get_string(of), cases[i].of);
		}
		json_object_put(o);
	}
	/* Of a VF with a budget, that is its share. */
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"deadline\"}}\n");
	CU_ASSERT(says(&one, "policy", "deadline"));
	CU_ASSERT(comes_to_say(&one, "{\"method\":\"gpu.show\"}\n", "policy", "deadline"));
	say(&one, "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"budget_us\":\"5000\","
		  "\"period_us\":\"50000\"}}}\n");
	CU_ASSERT(says(&one, "budget_us", "5000"));
	CU_ASSERT(comes_to_say(&one, "{\"method\":\"vf.show\",\"args\":{\"vf\":1}}\n", "share_of",
			       "period"));
	say(&one, "{\"method\":\"vf.show\",\"args\":{\"vf\":0}}\n");
	CU_ASSERT(says(&one, "share_of", ""));
	control.gpus[0].config->min_slice_us = 0;
	bench_end();
}
