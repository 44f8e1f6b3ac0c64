/* SPDX-License-Identifier: MIT */
#include "validate.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "domain.h"
#include "wish.h"

/* A file; where there is none of that name, the domain. */
static char *slurp(const char *file, size_t *size)
{
	if (strcmp(file, "-") != 0 && access(file, F_OK) < 0)
		return domain_xml(file, size);
	FILE *f = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
	char *text = f ? malloc(WISH_MAX_BYTES + 2) : NULL;

	if (text)
		*size = fread(text, 1, WISH_MAX_BYTES + 1, f);
	if (!text || ferror(f)) {
		fprintf(stderr, "vgpuctl: %s: %s\n", file, strerror(errno));
		free(text);
		text = NULL;
	}
	if (f && f != stdin)
		fclose(f);
	return text;
}

static struct json_object *slice_json(const struct wish_slice *s)
{
	struct json_object *o = json_object_new_object(), *params = json_object_new_object();
	uint32_t i;

	json_object_object_add(o, "slice", json_object_new_string(s->name));
	if (s->alias[0])
		json_object_object_add(o, "alias", json_object_new_string(s->alias));
	if (s->gpu[0])
		json_object_object_add(o, "gpu", json_object_new_string(s->gpu));
	if (s->pool[0])
		json_object_object_add(o, "pool", json_object_new_string(s->pool));
	if (s->vf >= 0)
		json_object_object_add(o, "vf", json_object_new_int(s->vf));
	if (s->profile[0])
		json_object_object_add(o, "profile", json_object_new_string(s->profile));
	if (s->memory)
		json_object_object_add(o, "memory_bytes",
				       json_object_new_int64((int64_t)s->memory));
	if (s->policy[0])
		json_object_object_add(o, "policy", json_object_new_string(s->policy));
	json_object_object_add(o, "on_hang",
			       json_object_new_string(wish_on_hang_names[s->on_hang]));
	for (i = 0; i < s->n_params; i++)
		json_object_object_add(params, s->params[i].name,
				       json_object_new_string(s->params[i].value));
	json_object_object_add(o, "params", params);
	return o;
}

static void print(const struct wish *wish)
{
	const struct wish_slice *s;
	uint32_t i, p;

	if (wish->n_slices == 0)
		puts("no wish: vgpud has nothing to do with it");
	for (i = 0; i < wish->n_slices; i++) {
		s = &wish->slices[i];
		printf("slice %s: ", s->name);
		if (s->vf >= 0)
			printf("VF %" PRId32 " of ", s->vf);
		printf("%s%s", s->gpu[0] ? s->gpu : s->pool[0] ? "pool " : "any GPU", s->pool);
		if (s->profile[0])
			printf(", profile %s", s->profile);
		if (s->memory)
			printf(", at least %" PRIu64 " bytes", s->memory);
		if (s->policy[0])
			printf(", policy %s", s->policy);
		for (p = 0; p < s->n_params; p++)
			printf(", %s %s", s->params[p].name, s->params[p].value);
		if (s->on_hang != WISH_GO_ON)
			printf(", %s on a hang", wish_on_hang_names[s->on_hang]);
		puts(wish->required ? "" : " (the VM may start without)");
	}
}

bool validate(const char *file, bool as_json)
{
	struct json_object *o, *list;
	struct vgpu_error err;
	struct wish wish;
	size_t size = 0;
	char *text = slurp(file, &size);
	uint32_t i;
	int r;

	if (!text)
		return false;
	r = wish_parse(&wish, text, size, &err);
	free(text);
	if (r < 0) {
		fprintf(stderr, "vgpuctl: %s: %s\n", file, err.text);
		return false;
	}
	if (!as_json) {
		print(&wish);
		return true;
	}
	o = json_object_new_object();
	list = json_object_new_array();
	json_object_object_add(o, "required", json_object_new_boolean(wish.required));
	for (i = 0; i < wish.n_slices; i++)
		json_object_array_add(list, slice_json(&wish.slices[i]));
	json_object_object_add(o, "slices", list);
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY));
	json_object_put(o);
	return true;
}
