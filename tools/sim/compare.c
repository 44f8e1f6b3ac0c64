/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "builtin.h"
#include "compare.h"
#include "peer.h"
#include "report.h"

#define LATENCIES_MAX 200000u

/* A VF that misses more of its ticks than this gets less than it asks for. */
#define MISSED_MUCH 0.02

static const struct {
	const char *name, *heading, *unit;
	int digits;
} figures[COMPARE_FIGURES] = {
	[COMPARE_FRAME_P50] = {"frame_p50_ms", "FRAME P50", "ms", 2},
	[COMPARE_FRAME_P99] = {"frame_p99_ms", "P99", "ms", 2},
	[COMPARE_MISSED] = {"frames_missed_pct", "MISSED", "%", 2},
	[COMPARE_TOKEN_P50] = {"token_p50_ms", "TOKEN P50", "ms", 2},
	[COMPARE_TOKEN_P99] = {"token_p99_ms", "P99", "ms", 2},
	[COMPARE_DESKTOP_P99] = {"desktop_p99_ms", "DESKTOP P99", "ms", 2},
	[COMPARE_TRAINING] = {"training_pct", "TRAINING", "%", 2},
	[COMPARE_GAP] = {"share_gap_pct", "GAP", "%", 1},
	[COMPARE_SWITCHES] = {"switches_per_s", "SWITCHES", "/s", 0},
	[COMPARE_LOST] = {"switching_pct", "LOST", "%", 2},
};

/* Variants that get a line beside the defaults. BVT needs its warps to mean anything. */
static const char *const variants[] = {
	"fair slice_us=1000",
	"fair frames.latency_slice_us=1000 inference.latency_slice_us=1000",
	"bvt frames.warp_us=20000 inference.warp_us=10000 desktop.warp_us=20000",
};

/* Parses name=value, or role.name=value. Returns 0, or -EINVAL with the reason. */
static int parse_setting(struct compare_line *line, char *word, struct vgpu_error *err)
{
	char *value = strchr(word, '='), *name = strchr(word, '.');
	int64_t values[VGPU_MAX_PARAMS], role = ROLE_NONE;
	const struct vgpu_param *table = line->policy->params;
	struct settings *to = &line->params, one = {.n = 0};

	if (!value)
		return vgpu_error_set(err, -EINVAL, "%s: want name=value or role.name=value", word);
	*value++ = '\0';
	if (name) {
		*name++ = '\0';
		if (vgpu_parse_choice(scenario_roles, word, &role) < 0 || role == ROLE_NONE)
			return vgpu_error_set(err, -EINVAL,
					      "%s: no such role: want frames, inference, training "
					      "or desktop",
					      word);
		table = line->policy->vf_params;
		to = &line->roles[role];
	}
	name = name ? name : word;
	vgpu_param_defaults(table, values);
	if (!settings_set(&one, name, value) || !settings_set(to, name, value))
		return vgpu_error_set(err, -EINVAL, "%s=%s: too long, or too many", name, value);
	return settings_apply(&one, table, true, values, err);
}

int compare_parse(struct compare_line *line, const char *text, struct vgpu_error *err)
{
	char *copy = strdup(text), *save = NULL, *word = strtok_r(copy, " \t", &save);
	int e = 0;

	*line = (struct compare_line){.policy = word ? peer_or_policy(word) : NULL};
	snprintf(line->label, sizeof(line->label), "%s", text);
	if (!line->policy)
		e = vgpu_error_set(err, -EINVAL, "%s: no such policy; see vgpu-sim policies",
				   word ? word : "\"\"");
	while (e == 0 && (word = strtok_r(NULL, " \t", &save)))
		e = parse_setting(line, word, err);
	free(copy);
	return e;
}

unsigned compare_builtin(struct compare_line *lines, unsigned max)
{
	struct vgpu_error err;
	unsigned i;

	for (i = 0; vgpu_builtin_policies[i] && i < max; i++)
		compare_parse(&lines[i], vgpu_builtin_policies[i]->name, &err);
	return i;
}

unsigned compare_all(struct compare_line *lines, unsigned max)
{
	unsigned n = compare_builtin(lines, max), i;
	struct vgpu_error err;

	for (i = 0; peers[i] && n < max; i++)
		compare_parse(&lines[n++], peers[i]->name, &err);
	for (i = 0; i < sizeof(variants) / sizeof(variants[0]) && n < max; i++)
		compare_parse(&lines[n++], variants[i], &err);
	return n;
}

bool compare_has_roles(const struct scenario *s)
{
	uint32_t i;

	for (i = 0; i < s->n_vfs; i++)
		if (s->vfs[i].role != ROLE_NONE)
			return true;
	return false;
}

/* --- Results of a run --- */

static void add(struct compare_line *line, enum compare_figure figure, double v)
{
	line->sum[figure] += v;
	line->worst[figure] = line->runs[figure] ? fmax(line->worst[figure], v) : v;
	line->runs[figure]++;
}

static int in_order(const void *a, const void *b)
{
	vgpu_nsec x = *(const vgpu_nsec *)a, y = *(const vgpu_nsec *)b;

	return (x > y) - (x < y);
}

/* Adds the latencies of the jobs of all VFs of ROLE. A job that still waits counts with its wait so
 * far: a policy must not look better by never serving it. */
static void latencies(struct compare_line *line, const struct running *r, enum role role,
		      int figure50, enum compare_figure figure99)
{
	const struct vhost *h = &r->host;
	vgpu_nsec *all, waits;
	size_t n = 0;
	uint32_t i;

	for (i = 0; i < h->n_vfs; i++)
		n += h->vfs[i].n_latencies + 1;
	all = calloc(n, sizeof(*all));
	for (i = 0, n = 0; i < h->n_vfs; i++) {
		if (r->scenario->vfs[r->vfs[i]].role != role)
			continue;
		memcpy(all + n, h->vfs[i].latencies, h->vfs[i].n_latencies * sizeof(*all));
		n += h->vfs[i].n_latencies;
		waits = vhost_pending(h, i);
		if (waits > 0)
			all[n++] = waits;
	}
	qsort(all, n, sizeof(*all), in_order);
	if (n > 0 && figure50 >= 0)
		add(line, (enum compare_figure)figure50, (double)all[(n - 1) / 2] / 1e6);
	if (n > 0)
		add(line, figure99, (double)all[(n - 1) * 99 / 100] / 1e6);
	free(all);
}

static double missed(const struct vhost_vf *vf)
{
	double all = (double)(vf->missed + vf->n_latencies);

	return all > 0 ? (double)vf->missed / all : 0;
}

static void frames_missed(struct compare_line *line, const struct running *r)
{
	const struct vhost *h = &r->host;
	double ticks = 0, lost = 0;
	uint32_t i;

	for (i = 0; i < h->n_vfs; i++) {
		if (h->vfs[i].work != VHOST_PERIODIC)
			continue;
		ticks += (double)(h->vfs[i].missed + h->vfs[i].n_latencies);
		lost += (double)h->vfs[i].missed;
	}
	if (ticks > 0)
		add(line, COMPARE_MISSED, 100 * lost / ticks);
}

static double weight_of(const struct scenario_vf *vf)
{
	uint32_t i;

	for (i = 0; i < vf->params.n; i++)
		if (strcmp(vf->params.list[i].name, "weight") == 0)
			return strtod(vf->params.list[i].value, NULL);
	return 100;
}

/*
 * Adds the gap: how far the worst-off VF of those that got less than they asked for (training VFs,
 * and VFs that miss ticks) is behind the VF that got most, in service by weight. 0 is max-min fair.
 */
static void gap(struct compare_line *line, const struct running *r)
{
	const struct vhost *h = &r->host;
	double most = 0, least = INFINITY;
	uint32_t i;

	for (i = 0; i < h->n_vfs; i++) {
		const struct scenario_vf *vf = &r->scenario->vfs[r->vfs[i]];
		double had = (double)vhost_service(h, i) / weight_of(vf);

		if (h->vfs[i].refused)
			continue;
		most = fmax(most, had);
		if (vf->role == ROLE_TRAINING || missed(&h->vfs[i]) > MISSED_MUCH)
			least = fmin(least, had);
	}
	if (least <= most && most > 0)
		add(line, COMPARE_GAP, 100 * (1 - least / most));
}

static void judge(struct compare_line *line, const struct running *r)
{
	const struct vhost *h = &r->host;
	double wall = (double)h->now, training = 0;
	uint32_t refused = running_refused(r), i;
	struct vgpu_core_view core;
	bool trains = false;

	vgpu_core_view(h->core, &core);
	latencies(line, r, ROLE_FRAMES, COMPARE_FRAME_P50, COMPARE_FRAME_P99);
	latencies(line, r, ROLE_INFERENCE, COMPARE_TOKEN_P50, COMPARE_TOKEN_P99);
	latencies(line, r, ROLE_DESKTOP, -1, COMPARE_DESKTOP_P99);
	frames_missed(line, r);
	gap(line, r);
	for (i = 0; i < h->n_vfs; i++) {
		if (r->scenario->vfs[r->vfs[i]].role != ROLE_TRAINING)
			continue;
		trains = true;
		training += (double)vhost_service(h, i);
	}
	if (trains)
		add(line, COMPARE_TRAINING, 100 * training / wall);
	add(line, COMPARE_SWITCHES, 1e9 * (double)h->switches / wall);
	add(line, COMPARE_LOST, 100 * (double)running_switched(r) / wall);
	line->evictions += core.engine.evictions;
	line->refused = refused > line->refused ? refused : line->refused;
}

void compare_set_up(struct scenario *to, const struct scenario *from,
		    const struct compare_line *line)
{
	const struct settings *by_role;
	uint32_t i, k;

	scenario_copy(to, from);
	snprintf(to->policy, sizeof(to->policy), "%s", line->policy->name);
	to->params = line->params;
	for (i = 0; i < to->n_vfs; i++) {
		by_role = &line->roles[to->vfs[i].role];
		for (k = 0; k < by_role->n; k++)
			settings_set(&to->vfs[i].params, by_role->list[k].name,
				     by_role->list[k].value);
	}
}

int compare_run(struct compare_line *line, const struct scenario *s, struct vgpu_error *err)
{
	struct scenario own;
	struct running r;
	uint32_t i;
	int e;

	compare_set_up(&own, s, line);
	e = running_start(&r, &own, 0, line->policy, false, VHOST_MEMORY_NONE, peer_or_policy, err);
	if (e == 0) {
		for (i = 0; i < r.host.n_vfs; i++)
			vhost_keep_latencies(&r.host, i, LATENCIES_MAX);
		running_run(&r, own.until);
		judge(line, &r);
		running_finish(&r);
	}
	scenario_free(&own);
	return e;
}

/* --- For people, and for programs --- */

double compare_mean(const struct compare_line *line, enum compare_figure figure)
{
	return line->runs[figure] ? line->sum[figure] / line->runs[figure] : NAN;
}

void compare_table(const struct compare_line *lines, unsigned n, FILE *to)
{
	size_t width = strlen("RULE");
	char cell[32];
	unsigned i, f;

	for (i = 0; i < n; i++)
		width = strlen(lines[i].label) > width ? strlen(lines[i].label) : width;
	fprintf(to, "%-*s", (int)width, "RULE");
	for (f = 0; f < COMPARE_FIGURES; f++)
		fprintf(to, " %12s", figures[f].heading);
	fputc('\n', to);
	for (i = 0; i < n; i++) {
		fprintf(to, "%-*s", (int)width, lines[i].label);
		for (f = 0; f < COMPARE_FIGURES; f++) {
			if (lines[i].runs[f])
				snprintf(cell, sizeof(cell), "%.*f %s", figures[f].digits,
					 compare_mean(&lines[i], f), figures[f].unit);
			else
				strcpy(cell, "-");
			fprintf(to, " %12s", cell);
		}
		report_refused(lines[i].refused, to);
		fprintf(to, "%s\n", lines[i].evictions ? "  (was evicted)" : "");
	}
}

static void put_real(struct json_object *o, const char *name, double v)
{
	char text[40];

	snprintf(text, sizeof(text), "%.6g", v);
	json_object_object_add(o, name, json_object_new_double_s(v, text));
}

void compare_json(const struct compare_line *lines, unsigned n, FILE *to)
{
	struct json_object *list = json_object_new_array(), *o, *worst;
	unsigned i, f;

	for (i = 0; i < n; i++) {
		o = json_object_new_object();
		worst = json_object_new_object();
		json_object_object_add(o, "rule", json_object_new_string(lines[i].label));
		json_object_object_add(o, "policy", json_object_new_string(lines[i].policy->name));
		json_object_object_add(o, "runs",
				       json_object_new_int((int)lines[i].runs[COMPARE_LOST]));
		json_object_object_add(o, "evictions",
				       json_object_new_int64((int64_t)lines[i].evictions));
		json_object_object_add(o, "refused", json_object_new_int64(lines[i].refused));
		for (f = 0; f < COMPARE_FIGURES; f++) {
			if (!lines[i].runs[f])
				continue;
			put_real(o, figures[f].name, compare_mean(&lines[i], f));
			put_real(worst, figures[f].name, lines[i].worst[f]);
		}
		json_object_object_add(o, "worst_seed", worst);
		json_object_array_add(list, o);
	}
	fputs(json_object_to_json_string_ext(list, JSON_C_TO_STRING_PRETTY), to);
	fputc('\n', to);
	json_object_put(list);
}
