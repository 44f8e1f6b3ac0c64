/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

static const char *const works[] = {"always", "bursts", "never", "sleeper", "script", NULL};
static const char *const kinds[] = {"arrive", "work", "think", "depart", "param",
				    "excl",   "hang", "mem",   NULL};
static const char *const placements[] = {"round-robin", "first-fit", "least-loaded", NULL};

void scenario_init(struct scenario *s, uint32_t n_vfs)
{
	*s = (struct scenario){
		.n_vfs = n_vfs,
		.n_gpus = 1,
		.policy = "fair",
		.seed = 1,
		.until = 10 * VGPU_SEC,
		.min_slice = 500 * VGPU_USEC,
		.vfs = calloc(n_vfs, sizeof(struct scenario_vf)),
	};
}

void scenario_free(struct scenario *s)
{
	uint32_t i;

	for (i = 0; s->vfs && i < s->n_vfs; i++)
		free(s->vfs[i].items);
	free(s->vfs);
	free(s->ops);
	s->vfs = NULL;
	s->ops = NULL;
}

static void *copy_of(const void *from, size_t n, size_t size)
{
	void *to = calloc(n ? n : 1, size);

	if (n)
		memcpy(to, from, n * size);
	return to;
}

void scenario_copy(struct scenario *to, const struct scenario *from)
{
	uint32_t i;

	*to = *from;
	to->vfs = copy_of(from->vfs, from->n_vfs, sizeof(*from->vfs));
	for (i = 0; i < from->n_vfs; i++) {
		to->vfs[i].items = copy_of(from->vfs[i].items, from->vfs[i].n_items,
					   sizeof(struct scenario_item));
		to->vfs[i].max_items = from->vfs[i].n_items;
	}
	to->ops = copy_of(from->ops, from->n_ops, sizeof(*from->ops));
	to->max_ops = from->n_ops;
}

static void *grow(void *array, size_t n, size_t *max, size_t size)
{
	if (n < *max)
		return array;
	*max = n ? 2 * n : 8;
	return realloc(array, *max * size);
}

struct scenario_item *scenario_add_item(struct scenario_vf *vf)
{
	vf->items = grow(vf->items, vf->n_items, &vf->max_items, sizeof(*vf->items));
	vf->items[vf->n_items] = (struct scenario_item){.t = 0};
	return &vf->items[vf->n_items++];
}

struct scenario_op *scenario_add_op(struct scenario *s)
{
	s->ops = grow(s->ops, s->n_ops, &s->max_ops, sizeof(*s->ops));
	s->ops[s->n_ops] = (struct scenario_op){.t = 0};
	return &s->ops[s->n_ops++];
}

bool settings_set(struct settings *s, const char *name, const char *value)
{
	uint32_t i;

	if (strlen(name) >= sizeof(s->list[0].name) || strlen(value) >= sizeof(s->list[0].value))
		return false;
	for (i = 0; i < s->n && strcmp(s->list[i].name, name) != 0; i++)
		;
	if (i == SCENARIO_MAX_SETTINGS)
		return false;
	if (i == s->n)
		s->n++;
	strcpy(s->list[i].name, name);
	strcpy(s->list[i].value, value);
	return true;
}

int settings_apply(const struct settings *s, const struct vgpu_param *table, bool strict,
		   int64_t *values, struct vgpu_error *err)
{
	uint32_t i, k;
	int r;

	for (i = 0; i < s->n; i++) {
		for (k = 0; table[k].name && strcmp(table[k].name, s->list[i].name) != 0; k++)
			;
		if (!table[k].name && !strict)
			continue;
		r = vgpu_param_set(table, s->list[i].name, s->list[i].value, values, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Durations: a number with its unit, ns without. */
static bool parse_time(const char *text, vgpu_nsec *out, const char **end)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	char *after;
	double v = strtod(text, &after);
	size_t i, n;

	if (after == text || !(v >= 0 && v < 1e18))
		return false;
	for (i = 0; i < 4; i++) {
		n = strlen(units[i].unit);
		if (strncmp(after, units[i].unit, n) == 0) {
			v *= units[i].ns;
			after += n;
			break;
		}
	}
	if (v >= 1e18)
		return false;
	*out = (vgpu_nsec)(v + 0.5);
	*end = after;
	return true;
}

/* A..B, or A alone. */
static bool parse_range(const char *text, struct vhost_range *out)
{
	const char *dots = strstr(text, ".."), *end;
	char first[32];

	if (!dots) {
		out->min = 0;
		if (!parse_time(text, &out->max, &end) || *end)
			return false;
		out->min = out->max;
		return true;
	}
	if ((size_t)(dots - text) >= sizeof(first))
		return false;
	memcpy(first, text, (size_t)(dots - text));
	first[dots - text] = '\0';
	return parse_time(first, &out->min, &end) && !*end &&
	       parse_time(dots + 2, &out->max, &end) && !*end && out->max >= out->min;
}

static void time_text(vgpu_nsec ns, char *text, size_t size)
{
	if (ns && ns % VGPU_SEC == 0)
		snprintf(text, size, "%llus", (unsigned long long)(ns / VGPU_SEC));
	else if (ns && ns % VGPU_MSEC == 0)
		snprintf(text, size, "%llums", (unsigned long long)(ns / VGPU_MSEC));
	else if (ns && ns % VGPU_USEC == 0)
		snprintf(text, size, "%lluus", (unsigned long long)(ns / VGPU_USEC));
	else
		snprintf(text, size, "%llu", (unsigned long long)ns);
}

/* Keys that scenarios and VFs have: a table for reading and for writing. */
enum key_type { KEY_RANGE, KEY_TIME, KEY_PPM, KEY_NUMBER, KEY_FLAG };

struct key {
	const char *name;
	enum key_type type;
	size_t offset;
};

static const struct key scenario_keys[] = {
	{"load", KEY_RANGE, offsetof(struct scenario, load)},
	{"run", KEY_RANGE, offsetof(struct scenario, run)},
	{"init", KEY_RANGE, offsetof(struct scenario, init)},
	{"window", KEY_RANGE, offsetof(struct scenario, window)},
	{"scrub", KEY_RANGE, offsetof(struct scenario, scrub)},
	{"reset", KEY_RANGE, offsetof(struct scenario, reset)},
	{"timer_late", KEY_RANGE, offsetof(struct scenario, timer_late)},
	{"min_slice", KEY_TIME, offsetof(struct scenario, min_slice)},
	{"command_fails", KEY_PPM, offsetof(struct scenario, command_fails_ppm)},
	{"reset_fails", KEY_PPM, offsetof(struct scenario, reset_fails_ppm)},
	{"memory", KEY_NUMBER, offsetof(struct scenario, memory)},
	{"gpu_reset", KEY_FLAG, offsetof(struct scenario, gpu_reset)},
	{"ask_at_end", KEY_FLAG, offsetof(struct scenario, ask_at_end)},
	{"windows_stick", KEY_FLAG, offsetof(struct scenario, windows_stick)},
	{NULL, 0, 0},
};

static const struct key vf_keys[] = {
	{"burst", KEY_RANGE, offsetof(struct scenario_vf, burst)},
	{"think", KEY_RANGE, offsetof(struct scenario_vf, think)},
	{"late", KEY_RANGE, offsetof(struct scenario_vf, late)},
	{"save", KEY_RANGE, offsetof(struct scenario_vf, save)},
	{"rare", KEY_RANGE, offsetof(struct scenario_vf, rare)},
	{"rare_ppm", KEY_PPM, offsetof(struct scenario_vf, rare_ppm)},
	{"hang_ppm", KEY_PPM, offsetof(struct scenario_vf, hang_ppm)},
	{"reset_ppm", KEY_PPM, offsetof(struct scenario_vf, reset_ppm)},
	{"window_ppm", KEY_PPM, offsetof(struct scenario_vf, window_ppm)},
	{NULL, 0, 0},
};

/* 0; -ENOENT: no such key; -EINVAL: not such a value. */
static int key_set(const struct key *keys, void *base, const char *name, const char *value)
{
	const struct key *k;
	const char *end;
	int64_t v;
	void *at;

	for (k = keys; k->name && strcmp(k->name, name) != 0; k++)
		;
	if (!k->name)
		return -ENOENT;
	at = (char *)base + k->offset;
	switch (k->type) {
	case KEY_RANGE:
		return parse_range(value, at) ? 0 : -EINVAL;
	case KEY_TIME:
		return parse_time(value, at, &end) && !*end ? 0 : -EINVAL;
	case KEY_PPM:
		if (vgpu_parse_int(value, &v) < 0 || v < 0 || v > 1000000)
			return -EINVAL;
		*(uint32_t *)at = (uint32_t)v;
		return 0;
	case KEY_NUMBER:
		if (vgpu_parse_int(value, &v) < 0 || v < 0)
			return -EINVAL;
		*(uint64_t *)at = (uint64_t)v;
		return 0;
	case KEY_FLAG:
		if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
			return -EINVAL;
		*(bool *)at = value[0] == 'y';
		return 0;
	}
	return -ENOENT;
}

static void keys_write(const struct key *keys, const void *base, FILE *to, const char *before)
{
	char a[32], b[32];
	const struct key *k;

	for (k = keys; k->name; k++) {
		const void *at = (const char *)base + k->offset;
		const struct vhost_range *range = at;

		if (k->type == KEY_RANGE && range->max > 0) {
			time_text(range->min, a, sizeof(a));
			time_text(range->max, b, sizeof(b));
			fprintf(to, "%s%s=%s", before, k->name, a);
			if (range->max != range->min)
				fprintf(to, "..%s", b);
		} else if (k->type == KEY_TIME) {
			time_text(*(const vgpu_nsec *)at, a, sizeof(a));
			fprintf(to, "%s%s=%s", before, k->name, a);
		} else if (k->type == KEY_PPM && *(const uint32_t *)at) {
			fprintf(to, "%s%s=%u", before, k->name, *(const uint32_t *)at);
		} else if (k->type == KEY_NUMBER && *(const uint64_t *)at) {
			fprintf(to, "%s%s=%llu", before, k->name,
				(unsigned long long)*(const uint64_t *)at);
		} else if (k->type == KEY_FLAG && *(const bool *)at) {
			fprintf(to, "%s%s=yes", before, k->name);
		}
	}
}

static void settings_write(const struct settings *s, FILE *to)
{
	uint32_t i;

	for (i = 0; i < s->n; i++)
		fprintf(to, " %s=%s", s->list[i].name, s->list[i].value);
}

void scenario_write(const struct scenario *s, FILE *to)
{
	char text[32];
	uint32_t i;
	size_t k;

	fprintf(to, "vfs %u\n", s->n_vfs);
	if (s->n_gpus > 1)
		fprintf(to, "gpus %u %s\n", s->n_gpus, placements[s->placement]);
	fprintf(to, "seed %llu\n", (unsigned long long)s->seed);
	time_text(s->until, text, sizeof(text));
	fprintf(to, "until %s\n", text);
	if (s->work_from) {
		time_text(s->work_from, text, sizeof(text));
		fprintf(to, "work_from %s\n", text);
	}
	fprintf(to, "gpu");
	keys_write(scenario_keys, s, to, " ");
	fprintf(to, "\npolicy %s", s->policy);
	settings_write(&s->params, to);
	fputc('\n', to);
	for (i = 0; i < s->n_vfs; i++) {
		fprintf(to, "vf %u work=%s", i, works[s->vfs[i].work]);
		keys_write(vf_keys, &s->vfs[i], to, " ");
		settings_write(&s->vfs[i].params, to);
		fputc('\n', to);
	}
	for (k = 0; k < s->n_ops; k++) {
		const struct scenario_op *op = &s->ops[k];

		time_text(op->t, text, sizeof(text));
		fprintf(to, "at %s ", text);
		if (op->type == OP_POLICY)
			fprintf(to, "policy %s", op->policy);
		else if (op->type == OP_SET_POLICY)
			fprintf(to, "params");
		else if (op->type == OP_RESTART)
			fprintf(to, "restart");
		else
			fprintf(to, "%s %u", op->type == OP_SET ? "vf" : "reset", op->vf);
		settings_write(&op->params, to);
		fputc('\n', to);
	}
	for (i = 0; i < s->n_vfs; i++) {
		for (k = 0; k < s->vfs[i].n_items; k++) {
			const struct scenario_item *it = &s->vfs[i].items[k];

			fprintf(to, "%llu %u %s", (unsigned long long)it->t, i, kinds[it->kind]);
			if (it->kind == VHOST_PARAM)
				settings_write(&it->params, to);
			else if (it->kind != VHOST_ARRIVE && it->kind != VHOST_DEPART &&
				 it->kind != VHOST_HANG)
				fprintf(to, " %llu", (unsigned long long)it->value);
			fputc('\n', to);
		}
	}
}

/* Reading. */

struct reader {
	struct scenario *s;
	char *words[64];
	int n;
	struct vgpu_error err;
};

static int bad(struct reader *r, const char *what, const char *value)
{
	return vgpu_error_set(&r->err, -EINVAL, "%s: %s", value, what);
}

/* name=value words from FIRST on: keys of BASE, or settings. */
static int read_settings(struct reader *r, int first, const struct key *keys, void *base,
			 struct settings *settings)
{
	char *value;
	int i, e;

	for (i = first; i < r->n; i++) {
		value = strchr(r->words[i], '=');
		if (!value)
			return bad(r, "want name=value", r->words[i]);
		*value++ = '\0';
		e = keys ? key_set(keys, base, r->words[i], value) : -ENOENT;
		if (e == -EINVAL)
			return vgpu_error_set(&r->err, e, "%s=%s: not such a value", r->words[i],
					      value);
		if (e == -ENOENT && (!settings || !settings_set(settings, r->words[i], value)))
			return bad(r, "no such setting, or too many", r->words[i]);
	}
	return 0;
}

static int read_vf_number(struct reader *r, const char *word, uint32_t *out)
{
	int64_t v;

	if (!r->s->vfs)
		return bad(r, "say how many VFs there are first: vfs N", word);
	if (vgpu_parse_int(word, &v) < 0 || v < 0 || v >= r->s->n_vfs)
		return bad(r, "no such VF", word);
	*out = (uint32_t)v;
	return 0;
}

static int read_vf(struct reader *r, struct scenario_vf *vf, int first)
{
	int64_t work;
	int i;

	for (i = first; i < r->n; i++) {
		if (strncmp(r->words[i], "work=", 5) != 0)
			continue;
		if (vgpu_parse_choice(works, r->words[i] + 5, &work) < 0)
			return bad(r, "want always, bursts, never, sleeper or script", r->words[i]);
		vf->work = (enum vhost_work)work;
		memmove(&r->words[i], &r->words[i + 1],
			(size_t)(r->n - i - 1) * sizeof(r->words[0]));
		r->n--;
		i--;
	}
	return read_settings(r, first, vf_keys, vf, &vf->params);
}

static int on_vfs(struct reader *r)
{
	int64_t n;

	if (r->n != 2 || vgpu_parse_int(r->words[1], &n) < 0 || n < 1 || n > 100000)
		return bad(r, "want a number of VFs from 1 to 100000", r->words[0]);
	if (r->s->vfs)
		return bad(r, "twice", r->words[0]);
	r->s->n_vfs = (uint32_t)n;
	r->s->vfs = calloc((size_t)n, sizeof(*r->s->vfs));
	return 0;
}

static int on_gpus(struct reader *r)
{
	int64_t n, rule = 0;

	if (r->n < 2 || vgpu_parse_int(r->words[1], &n) < 0 || n < 1 || n > SCENARIO_MAX_GPUS)
		return bad(r, "want a number of GPUs from 1 to 64", r->words[0]);
	if (r->n > 2 && vgpu_parse_choice(placements, r->words[2], &rule) < 0)
		return bad(r, "want round-robin, first-fit or least-loaded", r->words[2]);
	r->s->n_gpus = (uint32_t)n;
	r->s->placement = (enum placement)rule;
	return 0;
}

static int on_seed(struct reader *r)
{
	int64_t seed;

	if (r->n != 2 || vgpu_parse_int(r->words[1], &seed) < 0)
		return bad(r, "want a number", r->words[0]);
	r->s->seed = (uint64_t)seed;
	return 0;
}

static int read_time(struct reader *r, vgpu_nsec *out)
{
	const char *end;

	if (r->n < 2 || !parse_time(r->words[1], out, &end) || *end)
		return bad(r, "want a time, such as 10s or 2500us", r->words[0]);
	return 0;
}

static int on_until(struct reader *r)
{
	return read_time(r, &r->s->until);
}

static int on_work_from(struct reader *r)
{
	return read_time(r, &r->s->work_from);
}

static int on_gpu(struct reader *r)
{
	return read_settings(r, 1, scenario_keys, r->s, NULL);
}

static int read_policy(struct reader *r, int at, char *name, size_t size, struct settings *params)
{
	if (r->n <= at || strlen(r->words[at]) >= size)
		return bad(r, "want the name of a policy", r->words[0]);
	strcpy(name, r->words[at]);
	return read_settings(r, at + 1, NULL, NULL, params);
}

static int on_policy(struct reader *r)
{
	return read_policy(r, 1, r->s->policy, sizeof(r->s->policy), &r->s->params);
}

static int on_vf(struct reader *r)
{
	char *words[64];
	int n = r->n, e = 0;
	uint32_t i = 0;

	if (r->n < 2)
		return bad(r, "want a VF, or *", r->words[0]);
	if (strcmp(r->words[1], "*") != 0) {
		e = read_vf_number(r, r->words[1], &i);
		return e ? e : read_vf(r, &r->s->vfs[i], 2);
	}
	memcpy(words, r->words, sizeof(words));
	for (i = 0; i < r->s->n_vfs && e == 0; i++) {
		struct reader each = *r;
		char copies[64][64];
		int k;

		for (k = 0; k < n; k++) {
			snprintf(copies[k], sizeof(copies[k]), "%s", words[k]);
			each.words[k] = copies[k];
		}
		e = read_vf(&each, &r->s->vfs[i], 2);
		r->err = each.err;
	}
	return e;
}

static int on_at(struct reader *r)
{
	struct scenario_op op = {.t = 0};
	int e = read_time(r, &op.t);

	if (e < 0)
		return e;
	if (r->n < 3)
		return bad(r, "want policy, params, vf, reset or restart", r->words[0]);
	if (strcmp(r->words[2], "policy") == 0) {
		op.type = OP_POLICY;
		e = read_policy(r, 3, op.policy, sizeof(op.policy), &op.params);
	} else if (strcmp(r->words[2], "params") == 0) {
		op.type = OP_SET_POLICY;
		e = read_settings(r, 3, NULL, NULL, &op.params);
	} else if (r->n > 3 && strcmp(r->words[2], "vf") == 0) {
		op.type = OP_SET;
		e = read_vf_number(r, r->words[3], &op.vf);
		e = e ? e : read_settings(r, 4, NULL, NULL, &op.params);
	} else if (r->n == 4 && strcmp(r->words[2], "reset") == 0) {
		op.type = OP_RESET;
		e = read_vf_number(r, r->words[3], &op.vf);
	} else if (r->n == 3 && strcmp(r->words[2], "restart") == 0) {
		op.type = OP_RESTART;
	} else {
		return bad(r, "want policy NAME, params, vf N, reset N or restart", r->words[2]);
	}
	if (e < 0)
		return e;
	if (r->s->n_ops && r->s->ops[r->s->n_ops - 1].t > op.t)
		return bad(r, "before the one above", r->words[1]);
	*scenario_add_op(r->s) = op;
	return 0;
}

/* t_ns vf kind args */
static int read_item(struct reader *r)
{
	struct scenario_item it = {.t = 0};
	struct scenario_vf *vf;
	const char *end;
	int64_t kind;
	uint32_t i = 0;
	int e;

	if (r->n < 3 || !parse_time(r->words[0], &it.t, &end) || *end)
		return bad(r, "want: t_ns vf kind args", r->words[0]);
	e = read_vf_number(r, r->words[1], &i);
	if (e < 0)
		return e;
	if (vgpu_parse_choice(kinds, r->words[2], &kind) < 0)
		return bad(r, "want arrive, work, think, depart, param, excl, hang or mem",
			   r->words[2]);
	it.kind = (enum vhost_item_kind)kind;
	if (it.kind == VHOST_PARAM) {
		e = read_settings(r, 3, NULL, NULL, &it.params);
	} else if (it.kind == VHOST_ARRIVE || it.kind == VHOST_DEPART || it.kind == VHOST_HANG) {
		e = r->n == 3 ? 0 : bad(r, "takes nothing", r->words[2]);
	} else if (r->n != 4 || !parse_time(r->words[3], &it.value, &end) || *end) {
		e = bad(r, "wants one number", r->words[2]);
	}
	if (e < 0)
		return e;
	vf = &r->s->vfs[i];
	if (vf->n_items && vf->items[vf->n_items - 1].t > it.t)
		return bad(r, "before the one above of this VF", r->words[0]);
	vf->work = VHOST_SCRIPT;
	*scenario_add_item(vf) = it;
	return 0;
}

static const struct {
	const char *word;
	int (*read)(struct reader *r);
} directives[] = {
	{"vfs", on_vfs},
	{"gpus", on_gpus},
	{"seed", on_seed},
	{"until", on_until},
	{"work_from", on_work_from},
	{"gpu", on_gpu},
	{"policy", on_policy},
	{"vf", on_vf},
	{"at", on_at},
};

static int read_line(struct reader *r, char *line)
{
	char *save = NULL, *word;
	size_t i;

	line[strcspn(line, "#\n")] = '\0';
	r->n = 0;
	for (word = strtok_r(line, " \t\r", &save); word; word = strtok_r(NULL, " \t\r", &save)) {
		if (r->n == 64)
			return bad(r, "too many words", word);
		r->words[r->n++] = word;
	}
	if (r->n == 0)
		return 0;
	if (r->words[0][0] >= '0' && r->words[0][0] <= '9')
		return read_item(r);
	for (i = 0; i < sizeof(directives) / sizeof(directives[0]); i++)
		if (strcmp(directives[i].word, r->words[0]) == 0)
			return directives[i].read(r);
	return bad(r,
		   "want vfs, gpus, seed, until, work_from, gpu, policy, vf, at, or t_ns vf kind",
		   r->words[0]);
}

int scenario_read(struct scenario *s, const char *path, struct vgpu_error *err)
{
	struct reader r = {.s = s};
	FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
	unsigned long number = 0;
	char *line = NULL;
	size_t size = 0;
	int e = 0;

	if (!f)
		return vgpu_error_set(err, -errno, "%s: %s", path, strerror(errno));
	scenario_init(s, 0);
	free(s->vfs);
	s->vfs = NULL;
	while (e == 0 && getline(&line, &size, f) >= 0) {
		number++;
		e = read_line(&r, line);
	}
	free(line);
	if (f != stdin)
		fclose(f);
	if (e == 0 && !s->vfs)
		e = vgpu_error_set(&r.err, -EINVAL, "no VFs: say vfs N");
	if (e < 0) {
		scenario_free(s);
		return vgpu_error_set(err, e, "%s:%lu: %s", path, number, r.err.text);
	}
	return 0;
}
