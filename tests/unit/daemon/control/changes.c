/* SPDX-License-Identifier: MIT */
/* Changes are made in their order, for the policy that is in force when their turn comes, and are
 * kept or saved. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "builtin.h"
#include "control/change.h"
#include "plugin.h"
#include "vms.h"

/* Makes VF 0 run, and not stop when it is asked to. */
static void keep_running(void)
{
	quick_stops(false);
	quick_busy(0, true);
	CU_ASSERT_FATAL(comes_to_say(&one, "{\"method\":\"gpu.show\"}\n", "phase", "running"));
}

/* Several changes arrive in one read, and the first has to wait for its world switch. Each is made
 * for the policy that it will meet, none undoes another, and requests that only read are answered
 * meanwhile. */
TEST(changes_in_their_order, "changes are made in their order")
{
	bench_begin("fair");
	keep_running();
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"strict\"}}\n"
		  "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"weight\":\"300\"}}}\n"
		  "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"slots\":\"3\"}}}\n"
		  "{\"method\":\"policy.set\",\"args\":{\"params\":{\"idle\":\"donate\"}}}\n"
		  "{\"method\":\"policy.set\",\"args\":{\"params\":{\"slice_us\":\"3000\"}}}\n"
		  "{\"method\":\"policy.set\",\"args\":{\"policy\":\"prio\"}}\n"
		  "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"class\":\"2\"}}}\n");
	CU_ASSERT(says(&one, "policy", "strict"));
	CU_ASSERT(refused(&one, "EINVAL", "policy strict: weight: no such parameter"));
	CU_ASSERT(says(&one, "slots", "3"));
	CU_ASSERT(says(&one, "policy", "strict"));
	CU_ASSERT(says(&one, "policy", "strict"));
	/* The policy strict waits for its world switch, and prio waits for strict. */
	say(&other, "{\"method\":\"policy.show\"}\n{\"method\":\"gpu.show\"}\n{\"method\":\"vf."
		    "show\",\"args\":{\"vf\":1}}\n");
	CU_ASSERT(says(&other, "policy", "fair"));
	CU_ASSERT(says(&other, "next_policy", "strict"));
	json_object_put(hear(&other));
	quick_stops(true);
	CU_ASSERT(says(&one, "policy", "prio"));
	CU_ASSERT(says(&one, "class", "2"));
	CU_ASSERT(comes_to_say(&other, "{\"method\":\"policy.show\"}\n", "policy", "prio"));
	bench_end();
}

/* A change that waits for another, which never takes effect, is refused after a time-out. The
 * change behind it is then carried out. */
TEST(waits_for_so_long, "a change that waits too long is refused")
{
	bench_begin("fair");
	keep_running();
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"strict\"}}\n"
		  "{\"method\":\"policy.set\",\"args\":{\"policy\":\"prio\"}}\n"
		  "{\"method\":\"vf.set\",\"args\":{\"vf\":1,\"params\":{\"slots\":\"3\"}}}\n");
	CU_ASSERT(says(&one, "policy", "strict"));
	CU_ASSERT(refused(&one, "EBUSY", "another change of policy is under way"));
	CU_ASSERT(says(&one, "slots", "3"));
	quick_stops(true);
	bench_end();
}

/* An evicted policy can be put back like any other. */
TEST(put_back, "an evicted policy can be put back")
{
	static const char *const ask =
		"{\"method\":\"policy.set\",\"args\":{\"policy\":\"hostile\"}}\n";
	struct vgpu_error err = {""};
	uint32_t i;

	CU_ASSERT_PTR_NOT_NULL_FATAL(plugin_load(HOSTILE, &err));
	bench_begin("fair");
	quick_busy(0, true);
	quick_busy(1, true);
	for (i = 1; i <= 3; i++) {
		char n[] = {(char)('0' + i), '\0'};

		say(&one, ask);
		CU_ASSERT(says(&one, "policy", "hostile"));
		CU_ASSERT(comes_to_say(&one, "{\"method\":\"stats\"}\n", "evictions", n));
		CU_ASSERT(comes_to_say(&one, "{\"method\":\"policy.show\"}\n", "policy", "equal"));
		say(&one, "{\"method\":\"gpu.show\"}\n");
		CU_ASSERT(says(&one, "evicted_policy", "hostile"));
	}
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"fair\"}}\n");
	CU_ASSERT(says(&one, "policy", "fair"));
	bench_end();
}

static void write_file(const char *name, const char *text)
{
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", bench_dir, name);
	f = fopen(path, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs(text, f);
	fclose(f);
}

static void set_weight(const char *more)
{
	char text[200];

	snprintf(text, sizeof(text),
		 "{\"method\":\"vf.set\",\"args\":{\"vf\":2,\"params\":{\"weight\":\"70\"}%s}}\n",
		 more);
	say(&one, text);
}

/* A change of a VF that is not saved is in the file of live changes, until the VF is leased or the
 * change is saved. It is saved only if the configuration reads back with it. */
TEST(kept_or_saved, "changes are kept over a crash, or saved")
{
	static const char *const files[] = {"conf.d/zzz.conf", "conf.d/zz-saved.conf", "conf",
					    "conf.d"};
	char address[32], path[300];
	struct json_object *o;
	size_t i;

	bench_begin("fair");
	set_weight("");
	CU_ASSERT(says(&one, "weight", "70"));
	o = json_object_from_file(config.live);
	CU_ASSERT_EQUAL(json_object_array_length(o), 1);
	CU_ASSERT_STRING_EQUAL(text_at(json_object_array_get_idx(o, 0), "params", "weight"), "70");
	json_object_put(o);
	CU_ASSERT_EQUAL(
		sync_vm(CLAIM("<v:vf name='a'><v:device gpu='gpu0' vf='2'/></v:vf>") "</domain>",
			"missing", address),
		0);
	CU_ASSERT(access(config.live, F_OK) < 0);
	set_weight(",\"save\":true");
	CU_ASSERT(refused(&one, "EBUSY", "VF 2 of gpu0 belongs to VM vm1"));
	sync_vm(NULL, "missing", address);
	control_settle(&control);
	snprintf(config.file, sizeof(config.file), "%s/conf", bench_dir);
	write_file("conf", "[gpu gpu0]\ndevice = null:\n");
	set_weight(",\"save\":true,\"reason\":\"test\"");
	CU_ASSERT(says(&one, "weight", "70"));
	CU_ASSERT(access(config.live, F_OK) < 0);
	CU_ASSERT_EQUAL(control.gpus[0].config->vf_params[2][0], 70);
	write_file("conf.d/zzz.conf", "[vf gpu0/2]\nweight = 9\n");
	set_weight(",\"save\":true");
	CU_ASSERT(refused(&one, "EEXIST", "a drop-in that is read after zz-saved.conf"));
	write_file("conf", "[gpu gpu0]\n");
	set_weight(",\"save\":true");
	CU_ASSERT(refused(&one, "EINVAL", "the configuration would be wrong"));
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", bench_dir, files[i]);
		CU_ASSERT_EQUAL(remove(path), 0);
	}
	bench_end();
}

static uint32_t makes, wrong, results[2];

/* Makes a change; the first WRONG attempts are for a policy that is no longer in force. */
static int make_late(struct call *call, const struct policy_values *now, struct vgpu_error *)
{
	const struct vgpu_policy_ops *gone = vgpu_builtin_policy("best-effort");
	struct policy_values then = *now;

	then.policy = ++makes <= wrong ? gone : now->policy;
	memcpy(call->params, now->vf_params[call->vf], sizeof(call->params));
	change_set_vf(call, &then);
	return 0;
}

static void on_late(struct call *call)
{
	results[makes > 3] = (uint32_t)-call->request.result;
	if (call->request.result < 0)
		CU_ASSERT_PTR_NOT_NULL(strstr(call->request.why, "was replaced 4 times"));
	call_drop(call);
}

/* A change whose policy was replaced before it arrived is made again. After four attempts it is
 * refused. */
TEST(made_again, "a change for a replaced policy is made again")
{
	vgpu_nsec until = vgpu_now() + PATIENCE;
	struct call *call;
	uint32_t i;

	bench_begin("fair");
	for (i = 2; i <= 4; i += 2) {
		makes = 0;
		call = call_new(&control, &control.gpus[0]);
		call->vf = 1;
		wrong = i;
		call->then = on_late;
		change_begin(call, make_late);
		while (control.calls && vgpu_now() < until)
			turn();
		CU_ASSERT_EQUAL(makes, i == 2 ? 3 : 4);
	}
	CU_ASSERT_EQUAL(results[0], 0);
	CU_ASSERT_EQUAL(results[1], ESTALE);
	bench_end();
}
