/* SPDX-License-Identifier: MIT */
#include "clean.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Returns the number of bytes of the control character at the beginning of the N bytes TEXT; 0 if
 * there is none. */
static size_t control_at(const char *text, size_t n)
{
	const unsigned char c = (unsigned char)text[0], next = n > 1 ? (unsigned char)text[1] : 0;

	if (c == '\n' || c == '\t')
		return 0;
	if (iscntrl(c))
		return 1;
	return c == 0xc2 && next >= 0x80 && next < 0xa0 ? 2 : 0;
}

/* Replaces control characters by question marks. Returns whether there were any. */
static bool clean_bytes(char *text, size_t n)
{
	bool any = false;
	size_t i, length;

	for (i = 0; i < n; i++) {
		length = control_at(text + i, n - i);
		memset(text + i, '?', length);
		any |= length > 0;
	}
	return any;
}

void clean_text(char *text)
{
	clean_bytes(text, strlen(text));
}

static void clean_string(struct json_object *string)
{
	/* the bytes after a NUL are included */
	size_t n = (size_t)json_object_get_string_len(string);
	char *text = n ? malloc(n) : NULL;

	if (!text)
		return;
	memcpy(text, json_object_get_string(string), n);
	if (clean_bytes(text, n))
		json_object_set_string_len(string, text, (int)n);
	free(text);
}

static bool find_control(const char *text)
{
	while (*text && !control_at(text, text[1] ? 2 : 1))
		text++;
	return *text;
}

/* Removes one member whose name has control characters. Returns false if there is none. */
static bool leave_out(struct json_object *object)
{
	char *name = NULL;

	json_object_object_foreach(object, key, value)
	{
		(void)value;
		if (!name && find_control(key))
			name = strdup(key);
	}
	if (name)
		json_object_object_del(object, name);
	free(name);
	return name != NULL;
}

void clean_answer(struct json_object *answer)
{
	size_t i;

	switch (json_object_get_type(answer)) {
	case json_type_string:
		clean_string(answer);
		break;
	case json_type_array:
		for (i = 0; i < json_object_array_length(answer); i++)
			clean_answer(json_object_array_get_idx(answer, i));
		break;
	case json_type_object:
		while (leave_out(answer))
			;
		json_object_object_foreach(answer, key, value)
		{
			(void)key;
			clean_answer(value);
		}
		break;
	default:
		break;
	}
}
