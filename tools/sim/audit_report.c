/* SPDX-License-Identifier: MIT */
/* Recordings from files, and what an audit of them has come to, for people and for tests. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "audit.h"
#include "builtin.h"

static void put_real(struct json_object *o, const char *name, double value)
{
	json_object_object_add(o, name, json_object_new_double(value));
}

static void put_int(struct json_object *o, const char *name, uint64_t value)
{
	json_object_object_add(o, name, json_object_new_int64((int64_t)value));
}

static void put_bool(struct json_object *o, const char *name, bool value)
{
	json_object_object_add(o, name, json_object_new_boolean(value));
}

static void print_json(const struct audit_result *r, FILE *out)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array(), *v;
	uint32_t i;

	put_int(o, "events", r->events);
	put_int(o, "begin_ns", r->begin);
	put_int(o, "turns", r->turns);
	put_int(o, "periods", r->periods);
	put_int(o, "gaps", r->gaps);
	put_int(o, "timed", r->timed);
	put_int(o, "late_ns", r->late_ns);
	put_int(o, "late_max_ns", r->late_max_ns);
	put_real(o, "late_part", r->late_part);
	put_real(o, "pairs_over_bound", r->pairs);
	put_real(o, "wait_over_bound", r->wait);
	for (i = 0; i < r->n_vfs; i++) {
		const struct audit_vf *vf = &r->vfs[i];

		v = json_object_new_object();
		put_int(v, "vf", i);
		put_bool(v, "active", vf->active);
		put_real(v, "share", vf->share);
		put_real(v, "had_ns", vf->had_ns);
		put_real(v, "allowed_ns", vf->allowed_ns);
		put_int(v, "turns", vf->turns);
		put_int(v, "planned_ns", vf->planned_ns);
		put_int(v, "waited_ns", vf->waited_ns);
		put_int(v, "asleep_ns", vf->asleep_ns);
		put_int(v, "naps", vf->naps);
		json_object_array_add(list, v);
	}
	json_object_object_add(o, "vfs", list);
	json_object_object_add(o, "broken", r->n_broken ? json_object_new_string(r->broken) : NULL);
	fprintf(out, "%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
}

static void print_text(const struct audit_result *r, FILE *out)
{
	uint32_t i;

	fprintf(out,
		"%llu events with %llu gaps, %llu turns, %llu times between changes; of what is "
		"allowed the VFs needed: shares %.3f, waits %.3f\n",
		(unsigned long long)r->events, (unsigned long long)r->gaps,
		(unsigned long long)r->turns, (unsigned long long)r->periods, r->pairs, r->wait);
	fprintf(out, "timers were late by %.3f ms in the median, %.3f ms at the most\n",
		(double)r->late_ns / 1e6, (double)r->late_max_ns / 1e6);
	for (i = 0; i < r->n_vfs; i++) {
		const struct audit_vf *vf = &r->vfs[i];

		if (!vf->active)
			continue;
		fprintf(out, "VF %u: share %.4f, ", i, vf->share);
		if (vf->had_ns > 0)
			fprintf(out, "had %.3f ms, give or take %.3f ms", vf->had_ns / 1e6,
				vf->allowed_ns / 1e6);
		else
			fputs("not compared: it had no work", out);
		fprintf(out, "; turns planned for %.3f ms\n", (double)vf->planned_ns / 1e6);
	}
	if (r->n_broken)
		fprintf(out, "%llu promises broken; the first: %s\n",
			(unsigned long long)r->n_broken, r->broken);
	else
		fputs("all promises kept\n", out);
}

static int add_file(struct audit *a, const char *path)
{
	FILE *f = fopen(path, "r");
	struct recording recording;
	struct vgpu_error err;
	int r;

	if (!f) {
		fprintf(stderr, "vgpu-sim: %s: %s\n", path, strerror(errno));
		return -errno;
	}
	r = recording_read(&recording, f, &err);
	fclose(f);
	if (r == 0) {
		r = audit_add(a, &recording, vgpu_builtin_policy, &err);
		recording_free(&recording);
	}
	if (r < 0)
		fprintf(stderr, "vgpu-sim: %s: %s\n", path, err.text);
	return r;
}

int audit_files(char *const *paths, int n, vgpu_nsec late, vgpu_nsec from, bool json, FILE *out)
{
	struct audit *a = audit_new(late, from);
	struct audit_result result;
	int i, r = a ? 0 : -ENOMEM;

	for (i = 0; i < n && r == 0; i++)
		r = add_file(a, paths[i]);
	if (r < 0) {
		audit_free(a);
		return 2;
	}
	audit_finish(a, &result);
	audit_free(a);
	if (json)
		print_json(&result, out);
	else
		print_text(&result, out);
	return result.n_broken ? 1 : 0;
}
