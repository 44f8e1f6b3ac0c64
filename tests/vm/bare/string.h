/* SPDX-License-Identifier: MIT */
/* What of it the bare tenant's sources name; there is no C library beneath it. */
int strcmp(const char *a, const char *b);
