/* SPDX-License-Identifier: MIT */
/* What an OCI runtime says about a container, and the bundle's config.json: what is taken of them
 * fits, is one line, and is what they say. */

#include "fuzz.h"
#include "state.h"

static bool is_line(const char *text, size_t size)
{
	size_t i;

	for (i = 0; text[i]; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return i < size;
}

static void check_annotations(struct json_object *all)
{
	json_object_object_foreach(all, name, value)
	{
		HOLDS(strncmp(name, "vgpud.dev/", 10) == 0);
		HOLDS(json_object_is_type(value, json_type_string));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vgpu_error err = {""};
	struct state s;
	char *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	if (state_read(&s, text, size, &err) == 0) {
		HOLDS(s.id[0] && is_line(s.id, sizeof(s.id)) && s.pid >= 0);
		HOLDS(is_line(s.root, sizeof(s.root)) && is_line(s.bundle, sizeof(s.bundle)));
		check_annotations(s.annotations);
		if (state_read_config(&s, text, size, &err) == 0)
			HOLDS(s.root[0] && is_line(s.root, sizeof(s.root)));
		state_drop(&s);
	} else {
		HOLDS(err.text[0]);
	}
	free(text);
	return 0;
}
