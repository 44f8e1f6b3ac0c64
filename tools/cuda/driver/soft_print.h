/* SPDX-License-Identifier: MIT */
/* The buffer of printf() of the CUDA driver's interface in software. One thread at a time. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Puts a text into the buffer, which has ROOM bytes from the first text on. Returns as ptx_print();
 * -2 also if the text does not fit into the buffer. */
int soft_print_put(size_t room, const char *format, const void *arguments);
/* Writes all texts to TO, and empties the buffer. */
void soft_print_flush(FILE *to);
