/* SPDX-License-Identifier: MIT */
/* Commands that attach, detach or change the VF of a running container. */
#pragma once

#include "commands.h"
#include "options.h"

/* Attaches, detaches or sets, as the command's method says. WORDS: what follows the command, which
 * ends at NULL. Returns an exit code; what failed is on stderr. */
int container(const struct options *o, const struct command *c, char **words);
