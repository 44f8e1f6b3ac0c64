/* SPDX-License-Identifier: MIT */
/* Does what tests/abi/xe-admin says with a sriov_admin, and compares. */
#pragma once

#include <stddef.h>

/* A sriov_admin. PATH is relative to it. */
struct xe_abi {
	void *data;
	/* Returns a file's or folder's mode, without its type; -ENOENT if there is none. NULL:
	 * modes cannot be asked for, and such lines are passed over. */
	int (*mode)(void *data, const char *path);
	/* Returns the length or -errno. */
	int (*read)(void *data, const char *path, char *out, size_t size);
	/* Returns 0 or -errno. */
	int (*write)(void *data, const char *path, const char *text, size_t size);
	/* Returns 0, or -errno if there is no such fault. */
	int (*fault)(void *data, const char *kind, unsigned times);
};

/* Does the lines of FILE in order, and prints each that has another result. Returns how many those
 * are, or -errno if the file cannot be read, has a line without meaning, or no line at all. */
int xe_abi_compare(const char *file, const struct xe_abi *abi);
