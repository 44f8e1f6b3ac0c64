/* SPDX-License-Identifier: MIT */
/* Tables, printed by libsmartcols. On a terminal they fit its width; elsewhere nothing is left out
 * or cut. */
#pragma once

#include <stdbool.h>

/* Begins a table, which table_print frees. HEADS ends at NULL; '>' before a head aligns the column
 * right, '?' (first) lets it be left out of a terminal that is too narrow, the last such column
 * first. On a terminal the last column is wrapped between words. Never NULL: the program ends if
 * there is no memory. */
struct table *table_new(const char *const *heads);
/* Adds the next cell; a row is complete when every column has one. */
void cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds a part of a whole, in percent; "-" if it is below 0. */
void cell_part(struct table *t, double part);
/* Prints the table to stdout and frees it. */
void table_print(struct table *t);

/* Whether tables are printed as comma-separated values (RFC 4180, lines end with LF): a line of
 * heads before the first, all columns, and nothing but tables. */
extern bool table_csv;
/* Gives tables a first column HEAD with VALUE in all rows, as comma-separated values; both must
 * stay. NULL: none. */
void table_csv_first(const char *head, const char *value);
/* Prints a line beside a table, but for programs. */
void table_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
