/* SPDX-License-Identifier: MIT */
#include "xe_abi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ERROR(e)                                                                                   \
	{                                                                                          \
#e, e                                                                              \
	}
static const struct {
	const char *name;
	int value;
} errors[] = {ERROR(EACCES), ERROR(EBUSY),  ERROR(ECANCELED), ERROR(EINVAL), ERROR(EIO),
	      ERROR(ENOENT), ERROR(ENOSPC), ERROR(EPERM),     ERROR(ERANGE), ERROR(EUCLEAN)};

/* What a line expects, or what there is instead. */
struct result {
	char text[128];
};

static struct result result_of(int r)
{
	struct result out;
	size_t i;

	snprintf(out.text, sizeof(out.text), r < 0 ? "errno %d" : "ok", -r);
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (r == -errors[i].value)
			snprintf(out.text, sizeof(out.text), "%s", errors[i].name);
	return out;
}

/* As it is written in the file: \n for a new line. */
static struct result escaped(const char *text, size_t size)
{
	struct result out;
	size_t i, n = 0;

	for (i = 0; i < size && n + 3 < sizeof(out.text); i++) {
		if (text[i] == '\n') {
			out.text[n++] = '\\';
			out.text[n++] = 'n';
		} else {
			out.text[n++] = text[i];
		}
	}
	out.text[n] = '\0';
	return out;
}

static size_t unescape(char *text)
{
	char *to = text, *from = text;

	while (*from) {
		if (from[0] == '\\' && from[1] == 'n') {
			*to++ = '\n';
			from += 2;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
	return (size_t)(to - text);
}

static struct result mode_of(const struct xe_abi *abi, const char *path)
{
	struct result out;
	int r = abi->mode(abi->data, path);

	if (r == -ENOENT)
		return (struct result){"none"};
	if (r < 0)
		return result_of(r);
	snprintf(out.text, sizeof(out.text), "%04o", r);
	return out;
}

static struct result text_of(const struct xe_abi *abi, const char *path)
{
	char text[128];
	int r = abi->read(abi->data, path, text, sizeof(text));

	return r < 0 ? result_of(r) : escaped(text, (size_t)r);
}

/* Returns the next word, and puts *REST behind it; NULL: there is none. */
static char *word(char **rest)
{
	char *begin = *rest + strspn(*rest, " "), *end = begin + strcspn(begin, " ");

	if (!*begin)
		return NULL;
	*rest = *end ? end + 1 : end;
	*end = '\0';
	return begin;
}

/* Returns 0, 1 if the result is another one, or -EINVAL. */
static int do_line(char *line, const struct xe_abi *abi, struct result *got, const char **expected)
{
	char *rest = line, *verb = word(&rest), *path = word(&rest), *text;
	size_t size;

	if (!verb || !path)
		return -EINVAL;
	if (strcmp(verb, "mode") == 0) {
		*expected = word(&rest);
		*got = abi->mode ? mode_of(abi, path) : (struct result){""};
		return !*expected ? -EINVAL : abi->mode && strcmp(*expected, got->text) != 0;
	}
	if (strcmp(verb, "read") == 0) {
		*expected = rest;
		*got = text_of(abi, path);
		return strcmp(*expected, got->text) != 0;
	}
	text = word(&rest);
	if (!text)
		return -EINVAL;
	if (strcmp(verb, "write") == 0) {
		*expected = word(&rest);
		size = unescape(text);
		*got = result_of(abi->write(abi->data, path, text, size));
		return !*expected ? -EINVAL : strcmp(*expected, got->text) != 0;
	}
	if (strcmp(verb, "fault") == 0)
		return abi->fault(abi->data, path, (unsigned)atoi(text)) < 0 ? -EINVAL : 0;
	return -EINVAL;
}

int xe_abi_compare(const char *file, const struct xe_abi *abi)
{
	const char *expected = "";
	struct result got = {""};
	int different = 0, lines = 0, n = 0, r = 0;
	char line[256], copy[256];
	FILE *f = fopen(file, "r");

	if (!f)
		return -errno;
	while (r >= 0 && fgets(line, sizeof(line), f)) {
		n++;
		line[strcspn(line, "\n")] = '\0';
		if (!line[0] || line[0] == '#')
			continue;
		lines++;
		memcpy(copy, line, sizeof(copy));
		r = do_line(line, abi, &got, &expected);
		if (r > 0)
			printf("# %s, line %d: %s: it is %s\n", file, n, copy, got.text);
		if (r < 0)
			printf("# %s, line %d means nothing: %s\n", file, n, copy);
		different += r > 0;
	}
	fclose(f);
	return r < 0 ? r : lines ? different : -EINVAL;
}
