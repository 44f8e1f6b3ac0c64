/* SPDX-License-Identifier: MIT */
/* Tables, printed by libsmartcols. On a terminal they fit its width; elsewhere nothing is left out
 * or cut. */
#ifndef VGPUCTL_TABLE_H
#define VGPUCTL_TABLE_H

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

#endif
