/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"
#include "peer.h"
#include "plugin.h"
#include "scenario_private.h"

struct reader {
	struct scenario *s;
	char *words[64];
	int n;
	uint32_t line;
	vgpu_nsec above; /* when the `at` above begins */
	struct vgpu_error err;
};

static int bad(struct reader *r, const char *what, const char *value)
{
	return vgpu_error_set(&r->err, -EINVAL, "%s: %s", value, what);
}

/* Whether settings are parameters of a policy or of a VF. */
enum of { OF_POLICY, OF_VF };

static bool has(const struct vgpu_policy_ops *policy, enum of of, const char *name)
{
	const struct vgpu_param *p = of == OF_VF ? policy->vf_params : policy->params;

	while (p->name && strcmp(p->name, name) != 0)
		p++;
	return p->name;
}

/* Returns whether any policy, model or loaded plug-in has the parameter. A scenario may run under
 * many policies, not all of which have it; a parameter that none has is a typo. */
static bool is_known(enum of of, const char *name)
{
	unsigned i;

	for (i = 0; vgpu_builtin_policies[i]; i++)
		if (has(vgpu_builtin_policies[i], of, name))
			return true;
	for (i = 0; peers[i]; i++)
		if (has(peers[i], of, name))
			return true;
	for (i = 0; plugin_loaded(i); i++)
		if (has(plugin_loaded(i), of, name))
			return true;
	return false;
}

/* Reads name=value words from FIRST on: keys of BASE, or settings of a policy or a VF. Returns 0 or
 * -EINVAL. */
static int read_settings(struct reader *r, int first, const struct key *keys, void *base,
			 enum of of, struct settings *settings)
{
	char *value;
	int i, e;

	for (i = first; i < r->n; i++) {
		value = strchr(r->words[i], '=');
		if (!value)
			return bad(r, "want name=value", r->words[i]);
		*value++ = '\0';
		e = keys ? scenario_key_set(keys, base, r->words[i], value) : -ENOENT;
		if (e == -EINVAL)
			return vgpu_error_set(&r->err, e, "%s=%s: invalid value", r->words[i],
					      value);
		if (e == -ENOENT && (!settings || !is_known(of, r->words[i])))
			return bad(r, "no such setting, and no policy has such a parameter",
				   r->words[i]);
		if (e == -ENOENT && !settings_set(settings, r->words[i], value))
			return bad(r, "too many settings, or too long", r->words[i]);
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
		if (vgpu_parse_choice(scenario_works, r->words[i] + 5, &work) < 0)
			return bad(
				r,
				"want always, bursts, never, sleeper, script, periodic or windows",
				r->words[i]);
		vf->work = (enum vhost_work)work;
		memmove(&r->words[i], &r->words[i + 1],
			(size_t)(r->n - i - 1) * sizeof(r->words[0]));
		r->n--;
		i--;
	}
	return read_settings(r, first, scenario_vf_keys, vf, OF_VF, &vf->params);
}

static int on_vfs(struct reader *r)
{
	int64_t n;

	if (r->n != 2 || vgpu_parse_int(r->words[1], &n) < 0 || n < 1 || n > 100000)
		return bad(r, "want a number of VFs from 1 to 100000", r->words[0]);
	if (r->s->vfs)
		return bad(r, "given twice", r->words[0]);
	r->s->n_vfs = (uint32_t)n;
	r->s->vfs = calloc((size_t)n, sizeof(*r->s->vfs));
	return 0;
}

static int on_gpus(struct reader *r)
{
	int64_t n, rule = 0;

	if (r->n < 2 || vgpu_parse_int(r->words[1], &n) < 0 || n < 1 || n > SCENARIO_MAX_GPUS)
		return bad(r, "want a number of GPUs from 1 to 64", r->words[0]);
	if (r->n > 2 && vgpu_parse_choice(scenario_placements, r->words[2], &rule) < 0)
		return bad(r, "want round-robin, first-fit or least-loaded", r->words[2]);
	r->s->n_gpus = (uint32_t)n;
	r->s->placement = (enum placement)rule;
	return 0;
}

static int on_seed(struct reader *r)
{
	char *end;

	/* All 64 bits: prove writes such seeds. */
	errno = 0;
	if (r->n == 2 && isdigit((unsigned char)r->words[1][0])) {
		r->s->seed = strtoull(r->words[1], &end, 10);
		if (*end == '\0' && errno == 0)
			return 0;
	}
	return bad(r, "want a number from 0 to 18446744073709551615", r->words[0]);
}

static int read_time(struct reader *r, vgpu_nsec *out)
{
	const char *end;

	if (r->n < 2 || !scenario_parse_time(r->words[1], out, &end) || *end)
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
	return read_settings(r, 1, scenario_keys, r->s, OF_POLICY, NULL);
}

static int on_governed(struct reader *r)
{
	r->s->governed.on = true;
	return read_settings(r, 1, scenario_governed_keys, &r->s->governed, OF_POLICY, NULL);
}

static int read_policy(struct reader *r, int at, char *name, size_t size, struct settings *params)
{
	if (r->n <= at || strlen(r->words[at]) >= size)
		return bad(r, "want the name of a policy", r->words[0]);
	strcpy(name, r->words[at]);
	return read_settings(r, at + 1, NULL, NULL, OF_POLICY, params);
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

#define MOST_REPEATS 1000u

/* When something is done: at FIRST, and N more times, STEP apart. */
struct instants {
	vgpu_nsec first, step;
	uint64_t n;
};

/* Reads `T` or `FIRST..LAST every STEP`, and removes what is behind the first word of it. */
static int read_instants(struct reader *r, struct instants *out)
{
	vgpu_nsec last = 0;
	const char *end;

	*out = (struct instants){.n = 0};
	if (r->n < 2 || !scenario_parse_time(r->words[1], &out->first, &end))
		return read_time(r, &out->first);
	if (!*end)
		return 0;
	if (strncmp(end, "..", 2) != 0 || !scenario_parse_time(end + 2, &last, &end) || *end ||
	    r->n < 4 || strcmp(r->words[2], "every") != 0 ||
	    !scenario_parse_time(r->words[3], &out->step, &end) || *end || out->step == 0 ||
	    last < out->first || (last - out->first) / out->step >= MOST_REPEATS)
		return bad(r, "want a time, or FIRST..LAST every STEP, at most 1000 times",
			   r->words[1]);
	out->n = (last - out->first) / out->step;
	r->n -= 2;
	memmove(&r->words[2], &r->words[4], (size_t)(r->n - 2) * sizeof(r->words[0]));
	return 0;
}

static int on_at(struct reader *r)
{
	struct scenario_op op = {.line = r->line};
	struct instants when;
	int e = read_instants(r, &when);
	const char *end;
	uint64_t i;

	if (e < 0)
		return e;
	if (r->n < 3)
		return bad(r, "want policy, params, vf, reset, restart, comes or resumes",
			   r->words[0]);
	if (strcmp(r->words[2], "policy") == 0) {
		op.type = OP_POLICY;
		e = read_policy(r, 3, op.policy, sizeof(op.policy), &op.params);
	} else if (strcmp(r->words[2], "params") == 0) {
		op.type = OP_SET_POLICY;
		e = read_settings(r, 3, NULL, NULL, OF_POLICY, &op.params);
	} else if (r->n > 3 && strcmp(r->words[2], "vf") == 0) {
		op.type = OP_SET;
		e = read_vf_number(r, r->words[3], &op.vf);
		if (e == 0)
			e = read_settings(r, 4, NULL, NULL, OF_VF, &op.params);
	} else if (r->n == 4 && strcmp(r->words[2], "reset") == 0) {
		op.type = OP_RESET;
		e = read_vf_number(r, r->words[3], &op.vf);
	} else if (r->n == 3 && strcmp(r->words[2], "restart") == 0) {
		op.type = OP_RESTART;
	} else if (r->n == 4 && strcmp(r->words[2], "comes") == 0) {
		op.type = OP_COMES;
		e = read_vf_number(r, r->words[3], &op.vf);
	} else if (r->n == 5 && strcmp(r->words[2], "resumes") == 0) {
		op.type = OP_RESUMES;
		e = read_vf_number(r, r->words[3], &op.vf);
		if (e == 0 && (!scenario_parse_time(r->words[4], &op.owed, &end) || *end))
			e = bad(r, "want what it owes, as in 20ms", r->words[4]);
	} else {
		return bad(r,
			   "want policy NAME, params, vf N, reset N, restart, comes N or "
			   "resumes N OWED",
			   r->words[2]);
	}
	if (e < 0)
		return e;
	if (r->above > when.first)
		return bad(r, "earlier than the line above", r->words[1]);
	r->above = when.first;
	for (i = 0; i <= when.n; i++) {
		op.t = when.first + i * when.step;
		*scenario_add_op(r->s) = op;
	}
	return 0;
}

static int by_time(const void *left, const void *right)
{
	const struct scenario_op *a = left, *b = right;

	if (a->t != b->t)
		return a->t < b->t ? -1 : 1;
	return a->line < b->line ? -1 : a->line > b->line;
}

/* Reads a line "t_ns vf kind args". Returns 0 or -EINVAL. */
static int read_item(struct reader *r)
{
	struct scenario_item it = {.t = 0};
	struct scenario_vf *vf;
	const char *end;
	int64_t kind;
	uint32_t i = 0;
	int e;

	if (r->n < 3 || !scenario_parse_time(r->words[0], &it.t, &end) || *end)
		return bad(r, "want: t_ns vf kind args", r->words[0]);
	e = read_vf_number(r, r->words[1], &i);
	if (e < 0)
		return e;
	if (vgpu_parse_choice(scenario_kinds, r->words[2], &kind) < 0)
		return bad(r, "want arrive, work, think, depart, param, excl, hang, mem or prep",
			   r->words[2]);
	it.kind = (enum vhost_item_kind)kind;
	if (it.kind == VHOST_PARAM) {
		e = read_settings(r, 3, NULL, NULL, OF_VF, &it.params);
	} else if (it.kind == VHOST_ARRIVE || it.kind == VHOST_DEPART || it.kind == VHOST_HANG) {
		e = r->n == 3 ? 0 : bad(r, "takes no arguments", r->words[2]);
	} else if (r->n != 4 || !scenario_parse_time(r->words[3], &it.value, &end) || *end) {
		e = bad(r, "takes one number", r->words[2]);
	}
	if (e < 0)
		return e;
	vf = &r->s->vfs[i];
	if (vf->n_items && vf->items[vf->n_items - 1].t > it.t)
		return bad(r, "earlier than the line above of this VF", r->words[0]);
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
	{"governed", on_governed},
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
		   "want vfs, gpus, seed, until, work_from, gpu, governed, policy, vf, at, or t_ns "
		   "vf kind",
		   r->words[0]);
}

/* Checks what can be checked only when all lines are read. Returns 0 or -EINVAL. */
static int read_whole(struct reader *r)
{
	uint32_t i;

	if (!r->s->vfs)
		return vgpu_error_set(&r->err, -EINVAL,
				      "the number of VFs is missing: add a line vfs N");
	for (i = 0; i < r->s->n_vfs; i++)
		if (r->s->vfs[i].work == VHOST_PERIODIC && r->s->vfs[i].period.min == 0)
			return vgpu_error_set(&r->err, -EINVAL,
					      "VF %u: work=periodic needs a period above 0", i);
	if (r->s->n_ops > 0)
		qsort(r->s->ops, r->s->n_ops, sizeof(*r->s->ops), by_time);
	return 0;
}

int scenario_read_from(struct scenario *s, FILE *f, const char *name, struct vgpu_error *err)
{
	struct reader r = {.s = s};
	char *line = NULL;
	size_t size = 0;
	int e = 0;

	scenario_init(s, 0);
	free(s->vfs);
	s->vfs = NULL;
	while (e == 0 && getline(&line, &size, f) >= 0) {
		r.line++;
		e = read_line(&r, line);
	}
	free(line);
	if (e == 0)
		e = read_whole(&r);
	if (e < 0) {
		scenario_free(s);
		return vgpu_error_set(err, e, "%s:%u: %s", name, r.line, r.err.text);
	}
	return 0;
}

int scenario_read(struct scenario *s, const char *path, struct vgpu_error *err)
{
	FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
	int e;

	if (!f)
		return vgpu_error_set(err, -errno, "%s: %s", path, strerror(errno));
	e = scenario_read_from(s, f, path, err);
	if (f != stdin)
		fclose(f);
	return e;
}
