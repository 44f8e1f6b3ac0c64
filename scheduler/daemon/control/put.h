/* SPDX-License-Identifier: MIT */
/* Adds members to JSON objects. Copies texts. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

static inline void put_int(struct json_object *o, const char *key, uint64_t value)
{
	json_object_object_add(o, key, json_object_new_int64((int64_t)value));
}

static inline void put_text(struct json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, json_object_new_string(value));
}

static inline void put_bool(struct json_object *o, const char *key, bool value)
{
	json_object_object_add(o, key, json_object_new_boolean(value));
}
