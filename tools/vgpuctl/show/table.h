/* SPDX-License-Identifier: MIT */
/* Tables, printed by libsmartcols. On a terminal they fit its width; elsewhere nothing is left out
 * or cut. One thread. */
#pragma once

#include <stdbool.h>

/*
 * Begins a table, which table_print() frees. HEADS ends at NULL; '>' before a head aligns the
 * column right; '?' (first) lets the column be left out if the terminal is too narrow, the last
 * such column first. On a terminal the last column is wrapped between words. Never returns NULL:
 * the program ends if out of memory.
 */
struct table *table_new(const char *const *heads);
/* Adds the next cell; a row is complete when every column has a cell. */
void cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds a fraction as a cell in percent; "-" if it is below 0. */
void cell_part(struct table *t, double part);
/* Prints the table to stdout and frees it. */
void table_print(struct table *t);

/* Whether tables are printed as comma-separated values (RFC 4180, but lines end with LF): a line of
 * heads before the first table, all columns, and nothing but tables. */
extern bool table_csv;
/* Gives comma-separated tables a first column HEAD with VALUE in all rows; both texts must stay
 * valid. NULL: none. */
void table_csv_first(const char *head, const char *value);
/* Prints a line beside a table, but not with comma-separated values. */
void table_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
