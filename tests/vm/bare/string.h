/* SPDX-License-Identifier: MIT */
/* The functions of string.h that the bare tenant's sources use; it has no C library. */
int strcmp(const char *a, const char *b);
