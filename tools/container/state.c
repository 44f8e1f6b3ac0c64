/* SPDX-License-Identifier: MIT */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OURS "vgpud.dev/"
/* Limits, both above what vgpud's annotations need: their number, and the length of a value,
 * bytes. */
#define MOST_ANNOTATIONS 64
#define LONGEST_VALUE 256
#define DEPTH 64

static struct json_object *parse(const char *text, size_t size)
{
	struct json_tokener *reader = json_tokener_new_ex(DEPTH);
	struct json_object *o = NULL;

	if (reader)
		o = json_tokener_parse_ex(reader, text, (int)size);
	if (o && (json_tokener_get_error(reader) != json_tokener_success ||
		  !json_object_is_type(o, json_type_object))) {
		json_object_put(o);
		o = NULL;
	}
	if (reader)
		json_tokener_free(reader);
	return o;
}

/* Copies the text member NAME of O to OUT, "" if there is none. Returns false if it is not a text,
 * does not fit, or has a byte that a path or a line must not have. */
static bool copy_text(struct json_object *o, const char *name, char *out, size_t size)
{
	struct json_object *value;
	const char *text;
	size_t length, i;

	out[0] = '\0';
	if (!json_object_object_get_ex(o, name, &value))
		return true;
	if (!json_object_is_type(value, json_type_string))
		return false;
	text = json_object_get_string(value);
	length = (size_t)json_object_get_string_len(value);
	if (length >= size)
		return false;
	for (i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	memcpy(out, text, length + 1);
	return true;
}

static bool copy_pid(struct json_object *o, int *out)
{
	struct json_object *value;
	int64_t n;

	*out = 0;
	if (!json_object_object_get_ex(o, "pid", &value))
		return true;
	n = json_object_get_int64(value);
	if (!json_object_is_type(value, json_type_int) || n < 0 || n > INT32_MAX)
		return false;
	*out = (int)n;
	return true;
}

/* Copies vgpud's annotations from O to OUT. Returns false if one of them is invalid; other
 * annotations are ignored. */
static bool copy_annotations(struct json_object *o, struct json_object *out)
{
	struct json_object *all;

	if (!json_object_object_get_ex(o, "annotations", &all) || !all)
		return true;
	if (!json_object_is_type(all, json_type_object))
		return false;
	json_object_object_foreach(all, name, value)
	{
		if (strncmp(name, OURS, strlen(OURS)) != 0)
			continue;
		if (!json_object_is_type(value, json_type_string) ||
		    json_object_get_string_len(value) > LONGEST_VALUE ||
		    strlen(name) > LONGEST_VALUE ||
		    json_object_object_length(out) >= MOST_ANNOTATIONS)
			return false;
		json_object_object_add(out, name, json_object_get(value));
	}
	return true;
}

/* Annotations in which container engines name a container: CRI-O, containerd for Kubernetes,
 * nerdctl. podman and docker write none. */
static const struct {
	const char *annotation, *name;
} engine_names[] = {
	{"io.kubernetes.container.name", "name"},
	{"io.kubernetes.pod.name", "pod"},
	{"io.kubernetes.pod.namespace", "namespace"},
	{"io.kubernetes.cri-o.ImageName", "image"},
	{"io.kubernetes.cri.container-name", "name"},
	{"io.kubernetes.cri.sandbox-name", "pod"},
	{"io.kubernetes.cri.sandbox-namespace", "namespace"},
	{"io.kubernetes.cri.image-name", "image"},
	{"nerdctl/name", "name"},
};

static void copy_names(struct json_object *o, struct json_object *out)
{
	struct json_object *all = json_object_object_get(o, "annotations");
	char text[LONGEST_VALUE + 1];
	size_t i;

	for (i = 0; i < sizeof(engine_names) / sizeof(engine_names[0]); i++)
		if (copy_text(all, engine_names[i].annotation, text, sizeof(text)) && text[0])
			json_object_object_add(out, engine_names[i].name,
					       json_object_new_string(text));
}

int state_read(struct state *out, const char *text, size_t size, struct vgpu_error *err)
{
	struct json_object *o = size <= STATE_MAX ? parse(text, size) : NULL;
	const char *wrong = NULL;

	memset(out, 0, sizeof(*out));
	if (!o)
		return vgpu_error_set(err, -EINVAL,
				      "the runtime's state is no JSON object of up to %u bytes",
				      STATE_MAX);
	out->annotations = json_object_new_object();
	out->names = json_object_new_object();
	copy_names(o, out->names);
	if (!copy_text(o, "id", out->id, sizeof(out->id)) || !out->id[0])
		wrong = "id";
	else if (!copy_pid(o, &out->pid))
		wrong = "pid";
	else if (!copy_text(o, "root", out->root, sizeof(out->root)))
		wrong = "root";
	else if (!copy_text(o, "bundle", out->bundle, sizeof(out->bundle)))
		wrong = "bundle";
	else if (!out->annotations || !copy_annotations(o, out->annotations))
		wrong = "annotations";
	json_object_put(o);
	if (!wrong)
		return 0;
	state_drop(out);
	return vgpu_error_set(err, -EINVAL, "the runtime's state has no usable \"%s\"", wrong);
}

int state_read_config(struct state *s, const char *text, size_t size, struct vgpu_error *err)
{
	struct json_object *o = size <= STATE_MAX ? parse(text, size) : NULL, *root;
	char path[STATE_PATH_SIZE] = "";
	bool known = o && json_object_object_get_ex(o, "root", &root) &&
		     json_object_is_type(root, json_type_object) &&
		     copy_text(root, "path", path, sizeof(path)) && path[0];

	json_object_put(o);
	if (!known ||
	    (size_t)snprintf(s->root, sizeof(s->root), "%s%s%s", path[0] == '/' ? "" : s->bundle,
			     path[0] == '/' ? "" : "/", path) >= sizeof(s->root))
		return vgpu_error_set(err, -EINVAL,
				      "%s/config.json does not say where the container's root is",
				      s->bundle);
	return 0;
}

void state_drop(struct state *s)
{
	json_object_put(s->annotations);
	json_object_put(s->names);
	s->annotations = s->names = NULL;
}
