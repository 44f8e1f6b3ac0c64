/* SPDX-License-Identifier: MIT */
/* Text in columns of a terminal: a name may be UTF-8, and may hold anything. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Returns how many columns TEXT takes. What cannot be printed takes one, as '?'. */
unsigned text_width(const char *text);
/* Writes at most WIDTH columns of TEXT; returns how many. */
unsigned text_put(FILE *to, const char *text, unsigned width);
/* Writes TEXT in exactly WIDTH columns; what is too long ends in '+'. */
void text_put_cell(FILE *to, const char *text, unsigned width, bool right);
/* Writes TEXT for XML and HTML. */
void text_put_xml(FILE *to, const char *text);
/* Returns by how many typing errors (a character more, less, another, or two exchanged) A differs
 * from B; at most 99. */
unsigned text_distance(const char *a, const char *b);
