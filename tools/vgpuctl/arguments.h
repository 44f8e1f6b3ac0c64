/* SPDX-License-Identifier: MIT */
#pragma once

#include "commands.h"
#include "session.h"

/* Makes the arguments of the command's method, except its GPU, from the words after the command,
 * which end at NULL. Returns an exit code: EXIT_OK and the arguments in *OUT, which the caller
 * frees, or another one, with the error on stderr. */
int arguments(struct session *s, const struct command *c, char *const *words,
	      struct json_object **out);
