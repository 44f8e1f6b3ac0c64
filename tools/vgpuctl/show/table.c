/* SPDX-License-Identifier: MIT */
#include "table.h"

#include <libsmartcols.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "screen.h"
#include "text.h"

#define COLUMNS 20u
#define SEPARATOR 2u
/* The least width to which the last column is wrapped. */
#define NARROWEST 20u

struct table {
	const char *const *heads;
	unsigned columns;
	char **cells; /* row by row */
	size_t n;
};

static void *must(void *memory)
{
	if (!memory) {
		fputs("vgpuctl: out of memory\n", stderr);
		exit(1);
	}
	return memory;
}

static const char *head(const char *text)
{
	return text + strspn(text, "?>");
}

static bool is_right(const char *text)
{
	return text[text[0] == '?'] == '>';
}

struct table *table_new(const char *const *heads)
{
	struct table *t = must(calloc(1, sizeof(*t)));

	t->heads = heads;
	while (t->columns < COLUMNS && heads[t->columns])
		t->columns++;
	return t;
}

void cell(struct table *t, const char *format, ...)
{
	va_list args;

	if ((t->n & (t->n - 1)) == 0)
		t->cells = must(realloc(t->cells, (t->n ? 2 * t->n : 1) * sizeof(*t->cells)));
	va_start(args, format);
	if (vasprintf(&t->cells[t->n], format, args) < 0)
		must(NULL);
	va_end(args);
	t->n++;
}

void cell_part(struct table *t, double part)
{
	if (part < 0)
		cell(t, "-");
	else
		cell(t, "%.2f %%", 100 * part);
}

/* Returns the width of column C on the terminal. */
static unsigned needs(const struct table *t, unsigned c)
{
	unsigned most = text_width(head(t->heads[c])), width;
	size_t i;

	for (i = c; i < t->n; i += t->columns) {
		width = text_width(t->cells[i]);
		most = width > most ? width : most;
	}
	return most;
}

/* Inserts line breaks between words so that no line has more than WIDTH columns, unless a word is
 * longer. */
static void wrap(char *text, unsigned width)
{
	char *line = text, *space = NULL, *c;

	for (c = text; *c; c++) {
		if (*c == ' ') {
			if (space && (size_t)(c - line) > width) {
				*space = '\n';
				line = space + 1;
			}
			space = c;
		}
	}
	if (space && (size_t)(c - line) > width)
		*space = '\n';
}

/* Chooses the columns for which the terminal has room, and wraps the last one. */
static void fit(struct table *t, bool *shown)
{
	unsigned all = 0, width[COLUMNS], most = screen_width(), c, last = t->columns - 1;
	size_t i;

	for (c = 0; c < t->columns; c++) {
		shown[c] = true;
		width[c] = needs(t, c);
		all += width[c] + (c ? SEPARATOR : 0);
	}
	for (c = t->columns; c-- > 0 && all > most;) {
		if (t->heads[c][0] == '?') {
			shown[c] = false;
			all -= width[c] + SEPARATOR;
		}
	}
	if (all <= most || is_right(t->heads[last]))
		return;
	all -= width[last];
	for (i = last; i < t->n; i += t->columns)
		wrap(t->cells[i], most > all + NARROWEST ? most - all : NARROWEST);
}

bool table_csv;
static const char *first_head, *first_value;

void table_csv_first(const char *name, const char *value)
{
	first_head = name;
	first_value = value;
}

void table_say(const char *format, ...)
{
	va_list args;

	if (table_csv)
		return;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

static void put_csv(const char *text, bool more)
{
	const char *c;

	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, stdout);
	} else {
		putchar('"');
		for (c = text; *c; c++)
			fputs(*c == '"' ? "\"\"" : (char[]){*c, '\0'}, stdout);
		putchar('"');
	}
	putchar(more ? ',' : '\n');
}

/* The heads are printed once, before the first of the tables that have them. */
static void print_csv(struct table *t)
{
	static const char *const *printed;
	size_t i;

	if (printed != t->heads && first_head)
		put_csv(first_head, true);
	for (i = 0; printed != t->heads && i < t->columns; i++)
		put_csv(head(t->heads[i]), i + 1 < t->columns);
	printed = t->heads;
	for (i = 0; i < t->n; i++) {
		if (i % t->columns == 0 && first_head)
			put_csv(first_value, true);
		put_csv(t->cells[i], (i + 1) % t->columns != 0);
		free(t->cells[i]);
	}
	free(t->cells);
	free(t);
}

void table_print(struct table *t)
{
	struct libscols_table *out;
	struct libscols_column *column[COLUMNS] = {NULL};
	struct libscols_line *line = NULL;
	bool shown[COLUMNS] = {false};
	unsigned c, at = 0;
	size_t i;

	if (table_csv) {
		print_csv(t);
		return;
	}
	out = must(scols_new_table());
	fit(t, shown);
	scols_table_set_stream(out, stdout);
	scols_table_set_column_separator(out, "  ");
	scols_table_set_termforce(out, SCOLS_TERMFORCE_NEVER);
	scols_table_enable_colors(out, view_colour);
	for (c = 0; c < t->columns; c++) {
		if (!shown[c])
			continue;
		column[c] = must(scols_table_new_column(out, head(t->heads[c]), 0,
							is_right(t->heads[c]) ? SCOLS_FL_RIGHT
									      : SCOLS_FL_WRAP));
		scols_cell_set_color(scols_column_get_header(column[c]), "\033[1m");
		scols_column_set_wrapfunc(column[c], scols_wrapnl_chunksize, scols_wrapnl_nextchunk,
					  NULL);
		scols_column_set_safechars(column[c], "\n");
	}
	for (i = 0; i < t->n; i++) {
		c = (unsigned)(i % t->columns);
		if (c == 0) {
			line = must(scols_table_new_line(out, NULL));
			at = 0;
		}
		if (shown[c] && scols_line_set_data(line, at++, t->cells[i]) < 0)
			must(NULL);
		free(t->cells[i]);
	}
	scols_print_table(out);
	scols_unref_table(out);
	free(t->cells);
	free(t);
}
