/* SPDX-License-Identifier: MIT */
#include "text.h"

#include <string.h>
#include <wchar.h>

#define LONGEST 40u

/* Reads one character of TEXT: its width in columns, and its bytes in *SIZE. Returns false if it
 * cannot be printed. */
static bool next(const char *text, size_t *size, unsigned *columns)
{
	mbstate_t state = {0};
	wchar_t c;
	size_t n = mbrtowc(&c, text, strlen(text), &state);
	int width = n == (size_t)-1 || n == (size_t)-2 ? -1 : wcwidth(c);

	*size = width < 0 ? 1 : n;
	*columns = width < 0 ? 1 : (unsigned)width;
	return width >= 0;
}

unsigned text_width(const char *text)
{
	unsigned width = 0, columns;
	size_t size;

	for (; *text; text += size, width += columns)
		next(text, &size, &columns);
	return width;
}

unsigned text_put(FILE *to, const char *text, unsigned width)
{
	unsigned used = 0, columns;
	size_t size;
	bool printable;

	for (; *text; text += size, used += columns) {
		printable = next(text, &size, &columns);
		if (used + columns > width)
			break;
		if (printable)
			fwrite(text, 1, size, to);
		else
			fputc('?', to);
	}
	return used;
}

void text_put_cell(FILE *to, const char *text, unsigned width, bool right)
{
	unsigned all = text_width(text), fill = all < width ? width - all : 0;

	if (all > width) {
		fill = width - 1 - text_put(to, text, width - 1);
		fprintf(to, "%*s+", (int)fill, "");
		return;
	}
	if (right)
		fprintf(to, "%*s", (int)fill, "");
	text_put(to, text, width);
	if (!right)
		fprintf(to, "%*s", (int)fill, "");
}

void text_put_xml(FILE *to, const char *text)
{
	for (; *text; text++) {
		if (strchr("<>&\"'", *text))
			fprintf(to, "&#%d;", *text);
		else
			fputc((unsigned char)*text < ' ' ? '?' : *text, to);
	}
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned text_distance(const char *a, const char *b)
{
	unsigned rows[LONGEST + 1][LONGEST + 1], n = (unsigned)strlen(a), m = (unsigned)strlen(b);
	unsigned i, j;

	if (n > LONGEST || m > LONGEST)
		return 99;
	for (i = 0; i <= n; i++) {
		for (j = 0; j <= m; j++) {
			if (i == 0 || j == 0) {
				rows[i][j] = i + j;
				continue;
			}
			rows[i][j] = least(rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
					   1 + least(rows[i - 1][j], rows[i][j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				rows[i][j] = least(rows[i][j], rows[i - 2][j - 2] + 1);
		}
	}
	return rows[n][m];
}
