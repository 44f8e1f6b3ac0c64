/* SPDX-License-Identifier: MIT */
/* Loaded before the C library: this host's name service never says who "hangs" is, and knows
 * "somebody", 4711, while there is no file $HANGS_NOW. */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct passwd *getpwnam(const char *name)
{
	static struct passwd somebody = {.pw_name = (char *)"somebody", .pw_uid = 4711};

	while (strcmp(name, "hangs") == 0 || access(getenv("HANGS_NOW"), F_OK) == 0)
		pause();
	return strcmp(name, somebody.pw_name) == 0 ? &somebody : NULL;
}
