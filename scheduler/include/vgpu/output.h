/* SPDX-License-Identifier: MIT */
/*
 * The one place where a program checks what it has printed. A disk that is full, or a reader that
 * has gone, shows only when a buffer is written: often after the last line was printed.
 */
#ifndef VGPU_OUTPUT_H
#define VGPU_OUTPUT_H

#include <stdbool.h>

/*
 * To be called first in main(), with the program's name: when the program ends by exit() or a
 * return from main(), and not all that it has printed on standard output was written, it says so
 * and its exit status becomes 1, unless it is an error already. If the reader has closed the pipe,
 * it says nothing. Further calls have no effect.
 */
void vgpu_output_check(const char *program);
/* Writes out what was printed, for programs that print for as long as they run. False: it cannot be
 * written, and the program should end. */
bool vgpu_output_flush(void);

#endif
