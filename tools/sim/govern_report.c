/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <json-c/json.h>

#include "govern_report.h"

#define LABEL 30 /* columns, at least */
#define STATIC ", static quanta"

static const struct govern_line lengths[] = {
	{.label = "static quanta", .fixed = true},
	{.label = "governed, as configured"},
	{.label = "governed, a plan each 100 ms", .epoch = 100 * VGPU_MSEC},
	{.label = "governed, a plan each 500 ms", .epoch = 500 * VGPU_MSEC},
	{.label = "governed, a plan each 1 s", .epoch = VGPU_SEC},
};

/* What is printed: a table, or a list as JSON. */
struct rows {
	FILE *to;
	struct json_object *list; /* NULL: a table */
	int width;		  /* width of the first column */
	int status;		  /* the program's exit status so far */
};

static void print_points(double part, FILE *to)
{
	if (part < 0)
		fprintf(to, " %9s", "-");
	else
		fprintf(to, " %9.2f", 100 * part);
}

static void print_line(const struct rows *rows, const struct govern_line *line,
		       const struct govern_result *r)
{
	FILE *to = rows->to;

	fprintf(to, "%-*s", rows->width, line->label);
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

static void put_real(struct json_object *o, const char *name, double v)
{
	char text[40];

	snprintf(text, sizeof(text), "%.6g", v);
	json_object_object_add(o, name, json_object_new_double_s(v, text));
}

static struct json_object *json_of(const struct govern_line *line, const struct govern_result *r)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "rule", json_object_new_string(line->label));
	put_real(o, "worst_1s_pct", 100 * r->worst_1s);
	put_real(o, "worst_10s_pct", 100 * r->worst_10s);
	put_real(o, "worst_10s_with_start_pct", 100 * r->with_start);
	put_real(o, "writes_per_s", r->writes_per_s);
	put_real(o, "plans_per_s", r->plans_per_s);
	put_real(o, "lag_of_bound", r->lag);
	put_real(o, "wait_of_bound", r->wait);
	json_object_object_add(o, "epochs", json_object_new_int64((int64_t)r->epochs));
	json_object_object_add(o, "still", json_object_new_boolean(r->still));
	json_object_object_add(o, "violation", json_object_new_string(r->violation));
	return o;
}

static void begin_rows(struct rows *rows, bool json, FILE *to, int width)
{
	*rows = (struct rows){.to = to,
			      .list = json ? json_object_new_array() : NULL,
			      .width = width > LABEL ? width : LABEL};
	if (!json)
		fprintf(to, "%-*s %9s %9s %9s %9s %9s %9s %9s\n", rows->width, "RULE", "WORST 1S",
			"10S", "AND START", "WRITES/S", "PLANS/S", "LAG", "WAIT");
}

static void add_refusal(const struct rows *rows, const char *label, const char *why)
{
	struct json_object *o;

	if (!rows->list) {
		fprintf(rows->to, "%-*s refused: %s\n", rows->width, label, why);
		return;
	}
	o = json_object_new_object();
	json_object_object_add(o, "rule", json_object_new_string(label));
	json_object_object_add(o, "refused", json_object_new_string(why));
	json_object_array_add(rows->list, o);
}

/* Runs S as LINE says. Returns 0, or govern_run's error. */
static int add_row(struct rows *rows, const struct scenario *s, const struct govern_line *line,
		   struct vgpu_error *err)
{
	struct govern_result result;
	int e = govern_run(s, line, &result, err);

	if (e < 0)
		return e;
	if (rows->list)
		json_object_array_add(rows->list, json_of(line, &result));
	else
		print_line(rows, line, &result);
	fflush(rows->to);
	if (!result.violation[0])
		return 0;
	fprintf(stderr, "vgpu-sim: %s: %s\n", line->label, result.violation);
	rows->status = 1;
	return 0;
}

/* Ends the output. E: the last row's error or 0. Returns the program's exit status. */
static int end_rows(struct rows *rows, int e, const struct vgpu_error *err)
{
	if (e < 0)
		fprintf(stderr, "vgpu-sim: %s\n", err->text);
	else if (rows->list)
		fprintf(rows->to, "%s\n",
			json_object_to_json_string_ext(rows->list, JSON_C_TO_STRING_PRETTY));
	json_object_put(rows->list);
	return e < 0 ? 2 : rows->status;
}

int govern_compare(const struct scenario *s, bool json, FILE *to)
{
	struct vgpu_error err;
	struct rows rows;
	unsigned i;
	int e = 0;

	begin_rows(&rows, json, to, 0);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && e == 0; i++)
		e = add_row(&rows, s, &lengths[i], &err);
	return end_rows(&rows, e, &err);
}

/* Adds the policy of LINE, and what static quanta alone give: those that the scenario sets by hand,
 * which are for its own policy, or the policy's nominal plan. Returns 0, or govern_run's error. */
static int add_policy(struct rows *rows, const struct scenario *from,
		      const struct compare_line *line, struct vgpu_error *err)
{
	struct govern_line governed = {.fixed = false}, fixed = {.fixed = true};
	struct scenario s;
	uint32_t i;
	int e;

	snprintf(governed.label, sizeof(governed.label), "%s", line->label);
	snprintf(fixed.label, sizeof(fixed.label), "%s" STATIC, line->label);
	compare_set_up(&s, from, line);
	for (i = 0; i < s.n_vfs && strcmp(s.policy, from->policy) != 0; i++)
		s.vfs[i].quantum = (struct vhost_range){0, 0};
	e = add_row(rows, &s, &governed, err);
	if (e == 0)
		e = add_row(rows, &s, &fixed, err);
	scenario_free(&s);
	if (e != -EOPNOTSUPP)
		return e;
	add_refusal(rows, line->label, err->text);
	return 0;
}

int govern_compare_policies(const struct scenario *s, const struct compare_line *lines, unsigned n,
			    bool json, FILE *to)
{
	struct vgpu_error err;
	struct rows rows;
	size_t width = 0;
	unsigned i;
	int e = 0;

	for (i = 0; i < n; i++)
		if (strlen(lines[i].label) > width)
			width = strlen(lines[i].label);
	begin_rows(&rows, json, to, (int)(width + strlen(STATIC)));
	for (i = 0; i < n && e == 0; i++)
		e = add_policy(&rows, s, &lines[i], &err);
	return end_rows(&rows, e, &err);
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
