/* SPDX-License-Identifier: MIT */
/*
 * A line of the control socket, up to the choice of its method: JSON, and arguments checked against
 * the method's table. Arguments that pass include every required one, and none that the table
 * lacks.
 */
#include <json-c/json.h>

#include "fuzz.h"
#include "methods/methods.h"

static const struct arg *arg_named(const struct method *method, const char *name)
{
	const struct arg *arg = method->args;

	while (arg->name && strcmp(arg->name, name) != 0)
		arg++;
	return arg->name ? arg : NULL;
}

static bool is_right(const struct arg *arg, struct json_object *value)
{
	switch (arg->type) {
	case ARG_STRING:
		return json_object_is_type(value, json_type_string) &&
		       json_object_get_string_len(value) >= arg->min;
	case ARG_INT:
		return json_object_is_type(value, json_type_int) &&
		       json_object_get_int64(value) >= arg->min &&
		       json_object_get_int64(value) <= arg->max;
	case ARG_OBJECT:
		return json_object_is_type(value, json_type_object);
	default:
		return json_object_is_type(value, json_type_boolean);
	}
}

/* Returns whether ARGS, an object or NULL, fit METHOD. */
static bool fit(const struct method *method, struct json_object *args)
{
	const struct arg *arg;

	if (args) {
		json_object_object_foreach(args, key, value)
		{
			arg = arg_named(method, key);
			if (!arg || !is_right(arg, value))
				return false;
		}
	}
	for (arg = method->args; arg->name; arg++)
		if (arg->required && !(args && json_object_object_get_ex(args, arg->name, NULL)))
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line = malloc(size + 1);
	struct json_object *root, *name = NULL, *args = NULL;
	struct vgpu_error err = {.text = ""};
	const struct method *method = NULL;
	int r;

	HOLDS(line);
	if (size)
		memcpy(line, data, size);
	line[size] = '\0';
	root = json_tokener_parse(line);
	if (json_object_is_type(root, json_type_object) &&
	    json_object_object_get_ex(root, "method", &name) &&
	    json_object_is_type(name, json_type_string))
		method = method_find(json_object_get_string(name));
	if (method) {
		json_object_object_get_ex(root, "args", &args);
		r = method_check(method, args, &err);
		HOLDS(r == 0 || err.text[0]);
		HOLDS((r == 0) == ((!args || json_object_is_type(args, json_type_object)) &&
				   fit(method, args)));
	}
	json_object_put(root);
	free(line);
	return 0;
}
