/* SPDX-License-Identifier: MIT */
#include "metrics_format.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

const char *const metrics_media_types[METRICS_FORMATS] = {
	[METRICS_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
	[METRICS_OPEN] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/* A range of Accept, as it applies to a format; the most specific range counts. */
static const struct {
	const char *range;
	enum metrics_format format;
	int closeness;
} ranges[] = {
	{"*/*", METRICS_TEXT, 1},
	{"text/*", METRICS_TEXT, 2},
	{"text/plain", METRICS_TEXT, 3},
	{"application/openmetrics-text", METRICS_OPEN, 3},
};

static size_t trimmed(const char **text, const char *end)
{
	while (*text < end && strchr(" \t", **text))
		++*text;
	while (end > *text && strchr(" \t", end[-1]))
		end--;
	return (size_t)(end - *text);
}

/* Parses "0.75" as 750; -1: not a weight. */
static int weight(const char *text, size_t n)
{
	int w = 0, scale = 1000;
	size_t i;

	if (n == 0 || n > 5 || (text[0] != '0' && text[0] != '1') || (n > 1 && text[1] != '.'))
		return -1;
	for (i = 0; i < n; i++) {
		if (i == 1)
			continue;
		if (text[i] < '0' || text[i] > '9')
			return -1;
		w += (text[i] - '0') * scale;
		scale /= 10;
	}
	return w <= 1000 ? w : -1;
}

/* Parses the parameters of a range. Returns its weight, 0 to 1000; 0: a version that is not
 * offered, or an invalid weight. */
static int params_of(const char *at, const char *end, const char *version)
{
	const char *next, *value;
	size_t n, m;
	int q = 1000;

	for (; at < end; at = next + (next < end)) {
		next = memchr(at, ';', (size_t)(end - at));
		next = next ? next : end;
		value = memchr(at, '=', (size_t)(next - at));
		if (!value)
			continue;
		n = trimmed(&at, value++);
		m = trimmed(&value, next);
		if (n == 1 && strncasecmp(at, "q", 1) == 0) {
			q = weight(value, m);
			if (q < 0)
				return 0;
		} else if (n == 7 && strncasecmp(at, "version", 7) == 0 &&
			   (m != 5 || strncmp(value, version, m) != 0)) {
			return 0;
		}
	}
	return q;
}

enum metrics_format metrics_choose(const char *accept)
{
	int best[METRICS_FORMATS] = {0}, closeness[METRICS_FORMATS] = {0}, q;
	const char *at, *end, *name_end;
	size_t i, n;

	for (at = accept; at && *at; at = end + (*end == ',')) {
		end = at + strcspn(at, ",");
		name_end = memchr(at, ';', (size_t)(end - at));
		name_end = name_end ? name_end : end;
		n = trimmed(&at, name_end);
		for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
			enum metrics_format f = ranges[i].format;

			if (strlen(ranges[i].range) != n ||
			    strncasecmp(ranges[i].range, at, n) != 0 ||
			    ranges[i].closeness < closeness[f])
				continue;
			q = params_of(name_end + (name_end < end), end,
				      f == METRICS_OPEN ? "1.0.0" : "0.0.4");
			/* The best of equally specific ranges, such as versions. */
			if (ranges[i].closeness > closeness[f] || q > best[f])
				best[f] = q;
			closeness[f] = ranges[i].closeness;
		}
	}
	return best[METRICS_OPEN] > 0 && best[METRICS_OPEN] >= best[METRICS_TEXT] ? METRICS_OPEN
										  : METRICS_TEXT;
}
