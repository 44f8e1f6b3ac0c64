/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include <json-c/json.h>

#include "govern_report.h"

static const struct govern_line lines[] = {
	{.label = "static quanta", .fixed = true},
	{.label = "governed, as configured"},
	{.label = "governed, a plan each 100 ms", .epoch = 100 * VGPU_MSEC},
	{.label = "governed, a plan each 500 ms", .epoch = 500 * VGPU_MSEC},
	{.label = "governed, a plan each 1 s", .epoch = VGPU_SEC},
};

static void print_points(double part, FILE *to)
{
	if (part < 0)
		fprintf(to, " %9s", "-");
	else
		fprintf(to, " %9.2f", 100 * part);
}

static void print_line(const struct govern_line *line, const struct govern_result *r, FILE *to)
{
	fprintf(to, "%-30s", line->label);
	print_points(r->worst_1s, to);
	print_points(r->worst_10s, to);
	print_points(r->with_start, to);
	fprintf(to, " %9.2f %9.2f", r->writes_per_s, r->plans_per_s);
	if (line->fixed)
		fprintf(to, " %9s %9s", "-", "-");
	else
		fprintf(to, " %9.3f %9.3f", r->lag, r->wait);
	fprintf(to, "%s%s\n", r->still ? "  (static: no counter moves)" : "",
		r->violation[0] ? "  BROKEN" : "");
}

static void put(struct json_object *o, const char *name, double v)
{
	char text[40];

	snprintf(text, sizeof(text), "%.6g", v);
	json_object_object_add(o, name, json_object_new_double_s(v, text));
}

static struct json_object *json_of(const struct govern_line *line, const struct govern_result *r)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "rule", json_object_new_string(line->label));
	put(o, "worst_1s_pct", 100 * r->worst_1s);
	put(o, "worst_10s_pct", 100 * r->worst_10s);
	put(o, "worst_10s_with_start_pct", 100 * r->with_start);
	put(o, "writes_per_s", r->writes_per_s);
	put(o, "plans_per_s", r->plans_per_s);
	put(o, "lag_of_bound", r->lag);
	put(o, "wait_of_bound", r->wait);
	json_object_object_add(o, "epochs", json_object_new_int64((int64_t)r->epochs));
	json_object_object_add(o, "still", json_object_new_boolean(r->still));
	json_object_object_add(o, "violation", json_object_new_string(r->violation));
	return o;
}

int govern_compare(const struct scenario *s, bool json, FILE *to)
{
	struct json_object *list = json ? json_object_new_array() : NULL;
	struct govern_result result;
	struct vgpu_error err;
	unsigned i;
	int status = 0;

	if (!json)
		fprintf(to, "%-30s %9s %9s %9s %9s %9s %9s %9s\n", "RULE", "WORST 1S", "10S",
			"AND START", "WRITES/S", "PLANS/S", "LAG", "WAIT");
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]) && status != 2; i++) {
		if (govern_run(s, &lines[i], &result, &err) < 0) {
			fprintf(stderr, "vgpu-sim: %s\n", err.text);
			status = 2;
			break;
		}
		if (json)
			json_object_array_add(list, json_of(&lines[i], &result));
		else
			print_line(&lines[i], &result, to);
		if (result.violation[0]) {
			fprintf(stderr, "vgpu-sim: %s: %s\n", lines[i].label, result.violation);
			status = 1;
		}
	}
	if (json && status != 2)
		fprintf(to, "%s\n", json_object_to_json_string_ext(list, JSON_C_TO_STRING_PRETTY));
	json_object_put(list);
	return status;
}

static void save(const struct scenario *s, const char *why, const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		return;
	fprintf(f, "# %s\n", why);
	scenario_write(s, f);
	fclose(f);
}

int govern_prove(const char *policy, uint64_t epochs, uint64_t seed, const char *path, FILE *to)
{
	static const struct govern_line line = {.label = "governed"};
	double lag = 0, wait = 0;
	uint64_t done = 0, n = 0;
	struct govern_result r;
	struct vgpu_error err;
	struct scenario s;
	int e;

	for (; done < epochs; n++) {
		govern_random(&s, policy, seed, n);
		e = govern_run(&s, &line, &r, &err);
		if (e < 0) {
			fprintf(stderr, "vgpu-sim: %s\n", err.text);
			scenario_free(&s);
			return 2;
		}
		if (r.violation[0]) {
			save(&s, r.violation, path);
			scenario_free(&s);
			fprintf(to,
				"%s: broken in scenario %" PRIu64 " of seed %" PRIu64
				": %s\nthe scenario is in %s; repeat with: vgpu-sim govern %s\n",
				policy, n, seed, r.violation, path, path);
			return 1;
		}
		done += r.epochs;
		lag = r.lag > lag ? r.lag : lag;
		wait = r.wait > wait ? r.wait : wait;
		scenario_free(&s);
	}
	fprintf(to,
		"%-12s %" PRIu64 " epochs in %" PRIu64
		" scenarios, no violation; lag/bound %.3f, wait %.3f\n",
		policy, done, n, lag, wait);
	return 0;
}
