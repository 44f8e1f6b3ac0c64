/* SPDX-License-Identifier: MIT */
#include "placement_api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "http.h"
#include "session.h"

bool api_is_good(int status)
{
	return status >= 200 && status < 300;
}

int api_request(const char *base, const char *method, const char *path, struct json_object *body,
		struct json_object **answer)
{
	size_t size, length = strlen(base);
	char url[1200], *text;
	int status;

	*answer = NULL;
	while (length > 0 && base[length - 1] == '/')
		length--;
	if ((size_t)snprintf(url, sizeof(url), "%.*s/%s", (int)length, base, path) >= sizeof(url)) {
		fprintf(stderr, "vgpuctl: %.40s...: the URL is too long\n", base);
		return -E2BIG;
	}
	status = http_request(method, url,
			      body ? json_object_to_json_string_ext(body, JSON_C_TO_STRING_PLAIN)
				   : NULL,
			      &text, &size);
	if (text && text[0])
		*answer = json_tokener_parse(text);
	free(text);
	return status;
}

struct json_object *api_list(struct json_object *answer, const char *key)
{
	struct json_object *o =
		json_object_is_type(answer, json_type_object) ? get(answer, key) : NULL;

	return json_object_is_type(o, json_type_array) ? o : NULL;
}

struct json_object *api_object(struct json_object *answer, const char *key)
{
	struct json_object *o =
		json_object_is_type(answer, json_type_object) ? get(answer, key) : NULL;

	return json_object_is_type(o, json_type_object) ? o : NULL;
}

const char *api_text(struct json_object *o)
{
	const char *text =
		json_object_is_type(o, json_type_string) ? json_object_get_string(o) : NULL;

	return text ? text : "";
}

const char *api_fault(struct json_object *answer, const char *key)
{
	struct json_object *first = at(api_list(answer, "errors"), 0);

	return json_object_is_type(first, json_type_object) ? api_text(get(first, key)) : "";
}

int api_refused(const char *what, int status, struct json_object *answer)
{
	const char *detail = api_fault(answer, "detail");

	if (status > 0)
		fprintf(stderr, "vgpuctl: placement refuses %s: HTTP %d%s%.*s\n", what, status,
			detail[0] ? ": " : http_hint(status), (int)strcspn(detail, "\n"), detail);
	return EXIT_FAILED;
}

int api_not_understood(const char *what)
{
	fprintf(stderr, "vgpuctl: %s: not what placement answers\n", what);
	return EXIT_FAILED;
}

int api_must(const char *base, const char *method, const char *path, struct json_object *body,
	     const char *what, struct json_object **answer)
{
	int status = api_request(base, method, path, body, answer);

	if (api_is_good(status))
		return EXIT_OK;
	api_refused(what, status, *answer);
	json_object_put(*answer);
	*answer = NULL;
	return EXIT_FAILED;
}

int api_tell(const char *base, const char *method, const char *path, const char *what)
{
	struct json_object *answer;
	int code = api_must(base, method, path, NULL, what, &answer);

	json_object_put(answer);
	return code;
}

void api_escape(const char *name, char *out, size_t size)
{
	size_t n = 0;

	for (; *name && n + 4 < size; name++)
		n += (size_t)snprintf(out + n, size - n,
				      (*name >= '0' && *name <= '9') ||
						      (*name >= 'a' && *name <= 'z') ||
						      (*name >= 'A' && *name <= 'Z') ||
						      strchr("-._~", *name)
					      ? "%c"
					      : "%%%02X",
				      (unsigned char)*name);
	out[n] = '\0';
}
