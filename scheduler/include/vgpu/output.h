/* SPDX-License-Identifier: MIT */
/*
 * Checks that a program's output was written. A full disk, or a reader that has closed the pipe,
 * shows only when a buffer is written: often after the last line was printed.
 */
#pragma once

#include <stdbool.h>

/*
 * To be called first in main(), with the program's name. If standard output could not be written
 * completely when the program ends by exit() or by a return from main(), reports that and makes the
 * exit status 1, unless it is an error already. Reports nothing if the reader has closed the pipe.
 * Further calls have no effect.
 */
void vgpu_output_check(const char *program);
/* Writes the buffered output, for programs that print for as long as they run. False: it cannot be
 * written, and the program should end. */
bool vgpu_output_flush(void);
