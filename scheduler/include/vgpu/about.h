/* SPDX-License-Identifier: MIT */
/* The answers to --version and --help of programs without other options. */
#pragma once

#include <stdbool.h>

/* If the only argument is --version or --help (or -h), prints NAME and the version, or HELP, on
 * stdout and returns true; main() then returns 0. Exits with status 1 if the output could not be
 * written. */
bool vgpu_about(int argc, char **argv, const char *name, const char *help);
