/* SPDX-License-Identifier: MIT */
#include "shape.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct scan {
	const char *at, *end;
	uint32_t line, namespaces;
};

static bool begins_with(const struct scan *s, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(s->end - s->at) >= n && memcmp(s->at, word, n) == 0;
}

static void step(struct scan *s)
{
	s->line += *s->at == '\n';
	s->at++;
}

/* Skips to the end of the first WORD behind BEGIN, which is at the present position, or to the end
 * of the text: the '>' of "<!-->" ends no comment. */
static void skip_past(struct scan *s, const char *begin, const char *word)
{
	s->at += strlen(begin);
	while (s->at < s->end && !begins_with(s, word))
		step(s);
	s->at += s->at < s->end ? strlen(word) : 0;
}

/* Scans a tag, from '<' to '>': a quoted value may contain '>', and contains no attributes. */
static int tag(struct scan *s, struct vgpu_error *err)
{
	uint32_t line = s->line, attributes = 0;
	char quote = '\0';

	for (; s->at < s->end && (quote || *s->at != '>'); step(s)) {
		if (quote)
			quote = *s->at == quote ? '\0' : quote;
		else if (*s->at == '"' || *s->at == '\'')
			quote = *s->at;
		else if (*s->at == '=')
			attributes++;
		else if (begins_with(s, "xmlns"))
			s->namespaces++;
	}
	if (attributes > SHAPE_MAX_ATTRIBUTES)
		return vgpu_error_set(err, -EINVAL,
				      "line %u: an element has %u attributes; at most %u are read",
				      line, attributes, SHAPE_MAX_ATTRIBUTES);
	if (s->namespaces > SHAPE_MAX_NAMESPACES)
		return vgpu_error_set(err, -EINVAL,
				      "line %u: more than %u namespaces are declared; no more are "
				      "read",
				      line, SHAPE_MAX_NAMESPACES);
	return 0;
}

static int count_markup(const char *text, size_t size, struct vgpu_error *err)
{
	const char *at, *end = text + size;
	uint32_t n = 0;

	for (at = text; (at = memchr(at, '<', (size_t)(end - at))); at++)
		n++;
	return n <= SHAPE_MAX_MARKUP
		       ? 0
		       : vgpu_error_set(err, -EINVAL, "the XML has %u '<'; at most %u are read", n,
					SHAPE_MAX_MARKUP);
}

/* Sections without elements, by their beginning and end. */
static const char *const apart[][2] = {{"<!--", "-->"}, {"<![CDATA[", "]]>"}, {"<?", "?>"}};
#define APART (sizeof(apart) / sizeof(apart[0]))

/* Skips to the next '<' that begins a tag or a declaration. False: there is none. */
static bool find_tag(struct scan *s)
{
	size_t i;

	while (s->at < s->end) {
		for (i = 0; *s->at == '<' && i < APART && !begins_with(s, apart[i][0]); i++)
			;
		if (*s->at != '<')
			step(s);
		else if (i < APART)
			skip_past(s, apart[i][0], apart[i][1]);
		else
			return true;
	}
	return false;
}

int shape_check(const char *text, size_t size, struct vgpu_error *err)
{
	struct scan s = {.at = text, .end = text + size, .line = 1};
	int r = count_markup(text, size, err);

	while (r == 0 && find_tag(&s)) {
		if (begins_with(&s, "<!"))
			r = vgpu_error_set(err, -EINVAL,
					   "line %u: document type definitions are not allowed",
					   s.line);
		else
			r = tag(&s, err);
	}
	return r;
}

const char *shape_element(const char *text, size_t size, uint32_t n, size_t *length)
{
	struct scan s = {.at = text, .end = text + size, .line = 1};
	const char *begin;

	while (find_tag(&s)) {
		begin = s.at;
		if (tag(&s, NULL) < 0 || s.at == s.end)
			return NULL;
		if (begin[1] == '/' || n-- > 0)
			continue;
		*length = (size_t)(s.at + 1 - begin);
		return begin;
	}
	return NULL;
}
