/* SPDX-License-Identifier: MIT */
/*
 * Finds the users and groups of sections [tenant NAME]. A name service may take any time to answer,
 * so each name is looked up in a process of its own, which ends by itself after 10 s.
 */
#pragma once

#include "config.h"

/* How long a start waits for names, and a reload, during which vgpud continues to serve. */
#define NAMES_START_MS 10000
#define NAMES_RELOAD_MS 2000

/* Begins to look up the names of CONFIG. Returns a descriptor, owned by the caller, for
 * names_read(); -ENODATA: there is no name; or another -errno. */
int names_ask(const struct config *config);
/* Stores the answers that have arrived in CONFIG, without waiting. Returns whether more may
 * come. */
bool names_read(int fd, struct config *config);
/* Looks up the names, for at most MS milliseconds. A name without an answer by then stays
 * CONFIG_NOBODY and unanswered. */
void names_find(struct config *config, int ms);

/* The body of those processes: main() calls it first, with its arguments. Returns true
 * if this was one of them; main() then returns 0. */
bool names_main(int argc, char **argv);
