/* SPDX-License-Identifier: MIT */
#include "view.h"

#include <inttypes.h>
#include <string.h>

#include "answer.h"
#include "table.h"

/* A bound in ms, or "-" if the policy promises none. */
static void bound_cell(struct table *t, struct json_object *vf, const char *key)
{
	if (get(vf, key))
		cell(t, "%.1f ms", get_ms(vf, key));
	else
		cell(t, "-");
}

void view_policy_explain(struct json_object *o)
{
	static const char *const heads[] = {
		"VF",	      "VM",	">SHARE", ">LAG AT MOST", ">WAIT AT MOST",
		">GUARANTEE", ">LIMIT", NULL};
	struct json_object *list = get(o, "vfs"), *vf;
	bool in_force = get_bool(o, "in_force");
	struct table *t = table_new(heads);
	int64_t late = 0;
	size_t i;

	for (i = 0; i < count(list); i++) {
		vf = at(list, i);
		late = get_int(vf, "max_overrun_ns") > late ? get_int(vf, "max_overrun_ns") : late;
		cell(t, "%" PRId64, get_int(vf, "vf"));
		cell(t, "%s", get_text(vf, "domain"));
		cell(t, "%.2f %%", 100 * promised(vf));
		bound_cell(t, vf, "lag_bound_ns");
		bound_cell(t, vf, "wait_bound_ns");
		if (get_int(vf, "budget_ns"))
			cell(t, "%.2f ms in each %.1f ms", get_ms(vf, "budget_ns"),
			     get_ms(vf, "period_ns"));
		else
			cell(t, "-");
		if (get_int(vf, "limit_ppm"))
			cell(t, "%.1f %% + %.1f ms", (double)get_int(vf, "limit_ppm") / 1e4,
			     get_ms(vf, "limit_burst_ns"));
		else
			cell(t, "-");
	}
	printf("%s, policy %s%s\n", get_text(o, "gpu"), get_text(o, "policy"),
	       in_force ? "" : ", if it were in force now");
	table_print(t);
	puts("SHARE: part of the engine time, while all these VFs have work.\n"
	     "LAG AT MOST: how far a VF's service may be ahead of or behind its exact share.\n"
	     "WAIT AT MOST: from having work to running, with the VFs of now; resets of other VFs\n"
	     "and one exclusive window, and another for each second of the wait, come on top.\n"
	     "GUARANTEE: one job of this length in each period is finished within the period.\n"
	     "LIMIT: part of the engine time that a VF cannot exceed, plus a burst.\n"
	     "-: not promised.");
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
				 c ? "|" : "", json_object_get_string(at(choices, c)));
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
		printf("%s%s", i ? ", " : "", json_object_get_string(at(promises, i)));
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
	json_object_object_foreach(get(o, "values"), key, value)
		printf("  %-18s %s\n", key, json_object_get_string(value));
}

void view_policy_set(struct json_object *o)
{
	printf("policy %s\n", get_text(o, "policy"));
	view_params(get(o, "params"));
}
