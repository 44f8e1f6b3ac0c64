/* SPDX-License-Identifier: MIT */
/* Text in columns of a terminal: a name may be UTF-8, and may contain any bytes. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Returns how many columns TEXT takes. A character that cannot be printed takes one, as '?'. */
unsigned text_width(const char *text);
/* Writes at most WIDTH columns of TEXT; returns the number written. */
unsigned text_put(FILE *to, const char *text, unsigned width);
/* Writes TEXT in exactly WIDTH columns; a text that is too long is cut and ends in '+'. */
void text_put_cell(FILE *to, const char *text, unsigned width, bool right);
/* Writes TEXT with the escapes of XML and HTML. */
void text_put_xml(FILE *to, const char *text);
/* Returns the number of typing errors (a character added, missing, replaced, or two exchanged) by
 * which A differs from B; at most 99. */
unsigned text_distance(const char *a, const char *b);
