/* SPDX-License-Identifier: MIT */
#pragma once

#include "commands.h"
#include "session.h"

/* Makes the arguments of the command's method, but its GPU, from the words after the command,
 * which end at NULL. Returns an exit code: EXIT_OK and the arguments, which the caller frees, or
 * what is wrong is on stderr. */
int arguments(struct session *s, const struct command *c, char *const *words,
	      struct json_object **out);
