/* SPDX-License-Identifier: MIT */
/* The words and numbers of a text, and error messages. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ptx_private.h"

static __thread char said[400];

const char *ptx_error(void)
{
	return said;
}

/* Returns the number of AT's line in the text. */
static uint32_t line_of(const struct ptx *p, const char *at)
{
	uint32_t line = 1;
	const char *c;

	for (c = p->text; c < at; c++)
		line += *c == '\n';
	return line;
}

void ptx_stop(struct ptx *p, const char *what)
{
	const char *begin = p->begin ? p->begin : p->at;
	size_t n = strcspn(begin, "\n;");

	n = n < 120 ? n : 120;
	if (p->reads) {
		snprintf(said, sizeof(said), "line %u: %s: %.*s", line_of(p, begin), what, (int)n,
			 begin);
		longjmp(p->given_up, 1);
	}
	fprintf(stderr, "PTX: line %u: %s: %.*s\n", line_of(p, begin), what, (int)n, begin);
	abort();
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || strchr("_$%.", c);
}

/* Returns whether a word goes on at AT. Two colons are in words such as L1::evict_last; one ends a
 * label.
 */
static size_t goes_on(const char *at)
{
	if (*at && is_word(*at))
		return 1;
	return at[0] == ':' && at[1] == ':' ? 2 : 0;
}

bool ptx_more(struct ptx *p)
{
	for (;;) {
		p->at += strspn(p->at, " \t\r\n\f\v");
		if (strncmp(p->at, "//", 2) == 0)
			p->at += strcspn(p->at, "\n");
		else if (strncmp(p->at, "/*", 2) == 0 && strstr(p->at, "*/"))
			p->at = strstr(p->at, "*/") + 2;
		else
			return *p->at;
	}
}

const char *ptx_next(struct ptx *p)
{
	size_t n = 0, k;

	if (!ptx_more(p))
		ptx_stop(p, "it ends");
	do {
		for (k = n > 0 ? goes_on(p->at) : 1; k > 0; k--)
			p->token[n++] = *p->at++;
	} while (is_word(p->token[0]) && goes_on(p->at) && n < sizeof(p->token) - 3 &&
		 !(p->token[0] == '.' && *p->at == '.')); /* .reg.b32 is two words */
	p->token[n] = 0;
	return p->token;
}

bool ptx_is(const struct ptx *p, const char *text)
{
	return strcmp(p->token, text) == 0;
}

void ptx_want(struct ptx *p, const char *text)
{
	char what[40];

	if (strcmp(ptx_next(p), text) == 0)
		return;
	snprintf(what, sizeof(what), "no %s", text);
	ptx_stop(p, what);
}

/* A decimal float: its sign in an exponent is a token of its own. */
static uint64_t decimal(struct ptx *p)
{
	char text[80];
	double d;
	uint64_t v;
	char *end;
	size_t n = strlen(p->token);

	snprintf(text, sizeof(text), "%s", p->token);
	if (n > 0 && n < 60 && strchr("eE", text[n - 1]) && (*p->at == '-' || *p->at == '+')) {
		text[n++] = *p->at;
		text[n] = 0;
		ptx_next(p);
		ptx_next(p);
		snprintf(text + n, sizeof(text) - n, "%.15s", p->token);
	}
	d = strtod(text, &end);
	if (*end)
		ptx_stop(p, "no number");
	memcpy(&v, &d, sizeof(v));
	return v;
}

uint64_t ptx_number(struct ptx *p, enum literal *literal)
{
	const char *t = p->token;
	const bool negative = ptx_is(p, "-");
	int base = 0;
	char *end;
	uint64_t v;

	if (negative || ptx_is(p, "+"))
		t = ptx_next(p);
	*literal = INTEGER;
	if (t[0] == '0' && t[1] && strchr("fFdD", t[1])) {
		*literal = t[1] == 'f' || t[1] == 'F' ? SINGLE : DOUBLE;
		base = 16;
	} else if (t[0] == '0' && (t[1] == 'b' || t[1] == 'B')) {
		base = 2;
	} else if (isdigit((unsigned char)t[0]) && strncasecmp(t, "0x", 2) != 0 &&
		   strpbrk(t, ".eE")) {
		*literal = DOUBLE;
		v = decimal(p);
		return negative ? v ^ UINT64_C(1) << 63 : v;
	}
	v = strtoull(base ? t + 2 : t, &end, base);
	if (end == t || (*end && (strcmp(end, "U") != 0 || *literal != INTEGER)))
		ptx_stop(p, "no number");
	if (*literal == SINGLE)
		return negative ? v ^ UINT64_C(1) << 31 : v;
	if (*literal == DOUBLE)
		return negative ? v ^ UINT64_C(1) << 63 : v;
	return negative ? -v : v;
}
