/* SPDX-License-Identifier: MIT */
/* Reads vgpud's answers. Texts and objects that the functions return are owned by the answer.
 * Another host may answer anything, so a member of a wrong type counts as missing. Main thread. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

/* Return members of an object; 0, "-", false and NULL if the member is missing or null. */
static inline struct json_object *get(struct json_object *o, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(o, key, &value);
	return value;
}

static inline int64_t get_int(struct json_object *o, const char *key)
{
	return json_object_get_int64(get(o, key));
}

static inline bool get_bool(struct json_object *o, const char *key)
{
	return json_object_get_boolean(get(o, key));
}

/* Returns VALUE as text; "-" if it is null. */
static inline const char *text_of(struct json_object *value)
{
	return value ? json_object_get_string(value) : "-";
}

static inline const char *get_text(struct json_object *o, const char *key)
{
	return text_of(get(o, key));
}

/* Returns O, for a loop over its members; an object without members if O is not an object. */
static inline struct json_object *members(struct json_object *o)
{
	static struct json_object *none;

	if (!none)
		none = json_object_new_object();
	return json_object_is_type(o, json_type_object) ? o : none;
}

static inline double get_ms(struct json_object *o, const char *key)
{
	return (double)get_int(o, key) / 1e6;
}

/* count() returns the number of elements of LIST, which may be NULL or not a list; at() returns
 * element I, or NULL. */
static inline size_t count(struct json_object *list)
{
	return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

static inline struct json_object *at(struct json_object *list, size_t i)
{
	return i < count(list) ? json_object_array_get_idx(list, i) : NULL;
}

/* Returns PART / WHOLE; 0 if WHOLE is 0. */
static inline double ratio(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

/* Returns the VF's share, as a fraction of what "share_of" says. */
static inline double share(struct json_object *vf)
{
	return ratio((double)get_int(vf, "share_numerator"),
		     (double)get_int(vf, "share_denominator"));
}

/* Returns the fraction of the engine's time that the policy promises the VF while all VFs have
 * work; below 0 if it promises none, or a share of something else. */
static inline double promised(struct json_object *vf)
{
	const char *of = get_text(vf, "share_of");

	return strcmp(of, "engine") == 0 || strcmp(of, "period") == 0 ? share(vf) : -1;
}

/* Returns the engine time that a VF has received, charged and donated, ns. */
static inline double served(struct json_object *vf)
{
	return (double)(get_int(vf, "run_ns") + get_int(vf, "donated_ns"));
}

/* Returns for how long the VF had work or the engine, ns: the time of which it received a part. It
 * is short for a VF that came late or was idle, whose part is not smaller for that. */
static inline double wanted(struct json_object *vf)
{
	return served(vf) + (double)get_int(vf, "wait_ns");
}
