/* SPDX-License-Identifier: MIT */
#include "view.h"

#include <inttypes.h>
#include <string.h>

#include "answer.h"
#include "table.h"

/* Prints a bound in ms, or "-" if the policy promises none. */
static void bound_cell(struct table *t, struct json_object *vf, const char *key)
{
	if (get(vf, key))
		cell(t, "%.1f ms", get_ms(vf, key));
	else
		cell(t, "-");
}

/* Prints a share, and of what it is a share. */
static void share_cell(struct table *t, struct json_object *vf)
{
	if (strcmp(get_text(vf, "share_of"), "class") == 0)
		cell(t, "%.2f %% of class %" PRId64, 100 * share(vf),
		     get_int(get(vf, "params"), "class"));
	else
		cell_part(t, promised(vf));
}

/* Prints the guarantee in the units in which it was configured; for a policy that vgpuctl does not
 * know (a plug-in), the promised budget. */
static void guarantee_cell(struct table *t, struct json_object *vf)
{
	struct json_object *params = get(vf, "params");

	if (!get_int(vf, "period_ns"))
		cell(t, "-");
	else if (get_int(params, "fps"))
		cell(t, "%" PRId64 " us, %" PRId64 " times a second", get_int(params, "frame_us"),
		     get_int(params, "fps"));
	else if (get_int(params, "min_ppm") && get_int(params, "period_ms"))
		cell(t, "%g %% of each %" PRId64 " ms", (double)get_int(params, "min_ppm") / 1e4,
		     get_int(params, "period_ms"));
	else if (get_int(params, "budget_us") && get_int(params, "period_us"))
		cell(t, "%" PRId64 " us in each %" PRId64 " us", get_int(params, "budget_us"),
		     get_int(params, "period_us"));
	else
		cell(t, "%.2f ms in each %.1f ms", get_ms(vf, "budget_ns"),
		     get_ms(vf, "period_ns"));
}

static void limit_cell(struct table *t, struct json_object *vf)
{
	if (get_int(vf, "limit_ppm"))
		cell(t, "%g %% + %.1f ms", (double)get_int(vf, "limit_ppm") / 1e4,
		     get_ms(vf, "limit_burst_ns"));
	else
		cell(t, "-");
}

/* Prints millionths in percent, or "-" if the value is 0. */
static void ppm_cell(struct table *t, struct json_object *vf, const char *key)
{
	cell_part(t, get_int(vf, key) ? (double)get_int(vf, key) / 1e6 : -1);
}

static void explain_rows(struct json_object *list, bool governed)
{
	static const char *const heads[2][8] = {{"VF", "VM", ">SHARE", ">LAG AT MOST",
						 ">WAIT AT MOST", ">GUARANTEE", ">LIMIT"},
						{"VF", "VM", ">SHARE", ">LAG AT MOST",
						 ">WAIT AT MOST", ">AT LEAST", ">LEAK"}};
	struct table *t = table_new(heads[governed]);
	struct json_object *vf;
	size_t i;

	for (i = 0; i < count(list); i++) {
		vf = at(list, i);
		cell(t, "%" PRId64, get_int(vf, "vf"));
		cell(t, "%s", get_text(vf, "domain"));
		share_cell(t, vf);
		bound_cell(t, vf, "lag_bound_ns");
		bound_cell(t, vf, "wait_bound_ns");
		if (governed) {
			ppm_cell(t, vf, "least_ppm");
			ppm_cell(t, vf, "leak_ppm");
		} else {
			guarantee_cell(t, vf);
			limit_cell(t, vf);
		}
	}
	table_print(t);
}

static bool is_promised(struct json_object *o, const char *what)
{
	struct json_object *list = get(o, "promises");
	size_t i;

	for (i = 0; i < count(list); i++)
		if (strcmp(text_of(at(list, i)), what) == 0)
			return true;
	return false;
}

/* vgpud's longest turn, ns, after which it checks that the VF stops: admission counts a switch for
 * each. */
#define LONGEST_TURN 500e6

/* Returns the largest part of the engine's time that budgets take, with the world switches in and
 * back that they cause. With reclaim=grub, VFs with a budget may use all that admission leaves. */
static double most_of_budgets(struct json_object *o)
{
	struct json_object *list = get(o, "vfs"), *params = get(o, "params"), *vf;
	double sum = 0, cap = (double)get_int(params, "cap_pct") / 100, period, budget, switches;
	size_t i;

	for (i = 0; i < count(list); i++) {
		vf = at(list, i);
		period = (double)get_int(vf, "period_ns");
		budget = share(vf) * period;
		switches = (double)(2 + (int64_t)(budget / LONGEST_TURN)) *
			   (double)get_int(o, "switch_high_ns");
		sum += ratio(budget + switches, period);
	}
	if (sum > 0 && strcmp(get_text(params, "reclaim"), "grub") == 0 && cap > sum)
		sum = cap;
	return sum < 1 ? sum : 1;
}

/* Prints, for a policy with budgets and without shares, what VFs without a budget get. */
static void explain_rest(struct json_object *o)
{
	double most = most_of_budgets(o);

	if (most > 0)
		printf("Budgets and their world switches take at most %.2f %% of the engine's "
		       "time; VFs without\n"
		       "a budget take turns in the rest, of which nothing is promised.\n",
		       100 * most);
	else
		puts("No VF has a budget: all take turns, and nothing is promised.");
}

/* Returns whether the shares add up to more than the whole: each share is what the VF has when it
 * is up, beside those that are up now. */
static bool counts_twice(struct json_object *list)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < count(list); i++)
		sum += share(at(list, i));
	return sum > 1.001;
}

static bool has_classes(struct json_object *vfs)
{
	size_t i;

	for (i = 0; i < count(vfs); i++)
		if (strcmp(get_text(at(vfs, i), "share_of"), "class") == 0)
			return true;
	return false;
}

static void explain_words(struct json_object *o, bool governed)
{
	bool shares = is_promised(o, "proportional"), budgets = is_promised(o, "guarantee");

	if (shares)
		puts("SHARE: part of the engine time, while all these VFs have work.");
	else if (budgets)
		explain_rest(o);
	else if (has_classes(get(o, "vfs")))
		puts("SHARE: part of what its class gets; a class gets what those before it "
		     "leave.");
	else
		printf("%s promises nothing: VFs with work take turns.\n", get_text(o, "policy"));
	if (shares && counts_twice(get(o, "vfs")))
		puts("Only VFs that are up share the engine; the line of another one says what it "
		     "has once\nit is up.");
	if (shares && budgets)
		puts("A VF has this share at least: others that have reached their limit leave "
		     "more.");
	puts("LAG AT MOST: how far a VF's service may be ahead of or behind its exact share.\n"
	     "WAIT AT MOST: from having work to running, with the VFs of now; resets of other VFs\n"
	     "and one exclusive window, and another for each second of the wait, come on top.");
	if (governed)
		puts("AT LEAST: part of the time that firmware alone gives a VF that always has "
		     "work.\n"
		     "LEAK: part that VFs get although they should wait, for firmware leaves none "
		     "out.");
	else
		puts("GUARANTEE: one job of this length in each period is finished within the "
		     "period.\n"
		     "LIMIT: part of the engine time that a VF cannot exceed, plus a burst.");
	puts("-: not promised.");
}

void view_policy_explain(struct json_object *o)
{
	struct json_object *list = get(o, "vfs");
	bool in_force = get_bool(o, "in_force"), governed = get(at(list, 0), "least_ppm");
	int64_t late = 0, longest;
	size_t i;

	printf("%s, policy %s%s\n", get_text(o, "gpu"), get_text(o, "policy"),
	       in_force ? "" : ", if it were in force now");
	explain_rows(list, governed);
	explain_words(o, governed);
	for (i = 0; i < count(list); i++) {
		longest = get_int(at(list, i), "max_overrun_ns");
		late = longest > late ? longest : late;
	}
	if (strcmp(get_text(o, "preemption"), "submission") == 0)
		printf("A submission cannot be interrupted: a VF may stop late by its longest "
		       "submission, and pays for that\nin its next turns. After grace_ms vgpud "
		       "ends its programs. Waits of other VFs may exceed their bounds\nby that "
		       "lateness.\n");
	if (!in_force)
		printf("These are the bounds when the policy begins. They grow with how late VFs "
		       "stop: at most\n%.1f ms so far.\n",
		       (double)late / 1e6);
}

static void param_rows(struct json_object *list, const char *of)
{
	static const char *const heads[] = {"  PARAMETER", "OF",      "RANGE",
					    "DEFAULT",	   "MEANING", NULL};
	struct table *t = count(list) ? table_new(heads) : NULL;
	size_t i, c;

	for (i = 0; i < count(list); i++) {
		struct json_object *p = at(list, i);
		struct json_object *choices = get(p, "choices");
		char range[160] = "";

		for (c = 0; c < count(choices); c++)
			snprintf(range + strlen(range), sizeof(range) - strlen(range), "%s%s",
				 c ? "|" : "", text_of(at(choices, c)));
		if (!choices)
			snprintf(range, sizeof(range), "%" PRId64 "..%" PRId64 " %s",
				 get_int(p, "min"), get_int(p, "max"), get_text(p, "unit"));
		cell(t, "  %s", get_text(p, "name"));
		cell(t, "%s", of);
		cell(t, "%s", range);
		cell(t, "%s", get_text(p, "default"));
		cell(t, "%s", get_text(p, "help"));
	}
	if (t)
		table_print(t);
}

static void one_policy(struct json_object *p)
{
	struct json_object *promises = get(p, "promises");
	size_t i;

	printf("%s: %s\n", get_text(p, "policy"), get_text(p, "help"));
	printf("  promises: ");
	for (i = 0; i < count(promises); i++)
		printf("%s%s", i ? ", " : "", text_of(at(promises, i)));
	puts(i ? "" : "nothing");
	param_rows(get(p, "params"), "gpu");
	param_rows(get(p, "vf_params"), "vf");
}

void view_policy_list(struct json_object *o)
{
	struct json_object *list = get(o, "policies");
	size_t i;

	for (i = 0; i < count(list); i++) {
		if (i)
			putchar('\n');
		one_policy(at(list, i));
	}
}

void view_policy_show(struct json_object *o)
{
	one_policy(o);
	if (get(o, "warning"))
		printf("warning: %s\n", get_text(o, "warning"));
	puts("values in force");
	json_object_object_foreach(members(get(o, "values")), key, value)
		printf("  %-18s %s\n", key, text_of(value));
}

void view_policy_set(struct json_object *o)
{
	printf("policy %s\n", get_text(o, "policy"));
	view_params(get(o, "params"));
}
