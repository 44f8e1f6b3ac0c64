/* SPDX-License-Identifier: MIT */
#include "clean.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* How many bytes the control character at TEXT has; 0: there is none. */
static size_t control_at(const char *text)
{
	const unsigned char c = (unsigned char)text[0], next = c ? (unsigned char)text[1] : 0;

	if (c == '\n' || c == '\t')
		return 0;
	if (iscntrl(c) && c)
		return 1;
	return c == 0xc2 && next >= 0x80 && next < 0xa0 ? 2 : 0;
}

static const char *find_control(const char *text)
{
	while (*text && !control_at(text))
		text++;
	return *text ? text : NULL;
}

void clean_text(char *text)
{
	for (; *text; text++)
		memset(text, '?', control_at(text));
}

static void clean_string(struct json_object *string)
{
	char *text = find_control(json_object_get_string(string))
			     ? strdup(json_object_get_string(string))
			     : NULL;

	if (!text)
		return;
	clean_text(text);
	json_object_set_string(string, text);
	free(text);
}

/* Leaves out one member whose name has control characters. */
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
