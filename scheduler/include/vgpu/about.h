/* SPDX-License-Identifier: MIT */
/* What programs without other options say of themselves. */
#ifndef VGPU_ABOUT_H
#define VGPU_ABOUT_H

#include <stdbool.h>

/* If the only argument is --version or --help (or -h), prints NAME and the version, or HELP, on
 * stdout. Returns whether it did; the program then returns 0 from main(), and ends with 1 if not
 * all of it could be written. */
bool vgpu_about(int argc, char **argv, const char *name, const char *help);

#endif
