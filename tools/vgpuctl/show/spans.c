/* SPDX-License-Identifier: MIT */
#include "spans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"

const char *const kind_names[KINDS] = {"running", "overrun", "exclusive window", "being reset",
				       "served"};

static void add_part(struct spans *s, int vf, int64_t from, int64_t to, enum kind kind, double part)
{
	struct span *more;

	if (to <= from || vf >= MAX_VFS)
		return;
	if ((s->n & (s->n - 1)) == 0) {
		more = realloc(s->list, (s->n ? 2 * s->n : 1) * sizeof(*more));
		if (!more)
			return;
		s->list = more;
	}
	s->list[s->n++] = (struct span){from, to, vf, kind, part};
}

static void add(struct spans *s, int vf, int64_t from, int64_t to, enum kind kind)
{
	add_part(s, vf, from, to, kind, 1);
}

/* Pairs the records of beginnings and ends. A span that began before the first record begins at the
 * answer's "since"; one that has not ended ends now. */
struct spans spans_collect(struct json_object *o)
{
	struct json_object *records = get(o, "records");
	int64_t since = get_int(o, "since_ns"), now = get_int(o, "now_ns");
	static const enum kind kinds[] = {RUN, WINDOW, RESET};
	int64_t begun[3][MAX_VFS] = {{0}}; /* by kind and VF */
	struct spans s = {NULL, 0};
	size_t i;
	int k, vf;

	for (i = 0; i < count(records); i++) {
		struct json_object *r = at(records, i);
		const char *type = get_text(r, "type");
		int64_t t = get_int(r, "t_ns"), from;

		vf = (int)get_int(r, "vf");
		if (vf < 0 || vf >= MAX_VFS)
			continue;
		if (strcmp(type, "run") == 0) {
			begun[0][vf] = t;
		} else if (strcmp(type, "stop") == 0 && get_int(r, "a") > 0) {
			from = begun[0][vf] ? begun[0][vf] : since;
			begun[0][vf] = 0;
			add(&s, vf, from, t - get_int(r, "b"), RUN);
			add(&s, vf, t - get_int(r, "b") > from ? t - get_int(r, "b") : from, t,
			    OVERRUN);
		} else if (strcmp(type, "window") == 0) {
			begun[1][vf] = t;
		} else if (strcmp(type, "window-end") == 0) {
			add(&s, vf, begun[1][vf] ? begun[1][vf] : since, t, WINDOW);
			begun[1][vf] = 0;
		} else if (strcmp(type, "reset") == 0) {
			begun[2][vf] = t;
		} else if (strcmp(type, "reset-done") == 0) {
			add(&s, vf, begun[2][vf] ? begun[2][vf] : since, t, RESET);
			begun[2][vf] = 0;
		} else if (strcmp(type, "served") == 0 && get_int(r, "b") > 0) {
			add_part(&s, vf, t - get_int(r, "b"), t, SERVED,
				 ratio((double)get_int(r, "a"), (double)get_int(r, "b")));
		}
	}
	for (k = 0; k < 3; k++)
		for (vf = 0; vf < MAX_VFS; vf++)
			if (begun[k][vf])
				add(&s, vf, begun[k][vf], now, kinds[k]);
	return s;
}

int64_t spans_plan(struct json_object *record)
{
	return strcmp(get_text(record, "type"), "plan") == 0 && get_int(record, "vf") == 0
		       ? get_int(record, "t_ns")
		       : 0;
}

bool spans_governed(struct json_object *answer)
{
	return strcmp(get_text(answer, "scheduler"), "firmware") == 0;
}

int spans_vfs(struct json_object *answer)
{
	int64_t n = get_int(answer, "vfs");

	return n < 0 ? 0 : n > MAX_VFS ? MAX_VFS : (int)n;
}

const char *spans_vm(struct json_object *answer, int vf)
{
	struct json_object *name = at(get(answer, "domains"), (size_t)vf);

	return name ? json_object_get_string(name) : "";
}

void spans_label(struct json_object *answer, int vf, char *out, size_t size)
{
	const char *vm = spans_vm(answer, vf);

	snprintf(out, size, "VF %d%s%s", vf, *vm ? " " : "", vm);
}

int64_t spans_step(int64_t span, unsigned most)
{
	static const int64_t parts[] = {1, 2, 5};
	int64_t power = 1;
	unsigned i;

	for (;; power *= 10)
		for (i = 0; i < 3; i++)
			if (span / (power * parts[i]) <= (int64_t)most || power > span)
				return power * parts[i];
}
