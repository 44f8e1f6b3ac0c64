/* SPDX-License-Identifier: MIT */
/* Commands that attach, detach or change the VF of a running container. */
#pragma once

#include "commands.h"
#include "options.h"

/* Attaches, detaches or sets the VF of a container, as the command's method says. WORDS: the words
 * after the command, which end at NULL. Returns an exit code; the reason of a failure is on
 * stderr. */
int container(const struct options *o, const struct command *c, char **words);
