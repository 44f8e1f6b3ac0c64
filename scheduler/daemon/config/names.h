/* SPDX-License-Identifier: MIT */
/*
 * Finds the users and groups of sections [tenant NAME]. A name service may take as long as it likes
 * to answer, so each name is looked up in a process of its own, which ends by itself after 10 s.
 */
#ifndef DAEMON_NAMES_H
#define DAEMON_NAMES_H

#include "config.h"

/* How long a start waits for names, and a reload, with which nothing else waits. */
#define NAMES_START_MS 10000
#define NAMES_RELOAD_MS 2000

/* Begins to look up the names of CONFIG. Returns a descriptor, which is the caller's, for
 * names_read(); -ENODATA: there is no name; or another -errno. */
int names_ask(const struct config *config);
/* Takes what has come over into CONFIG, without waiting. Returns whether more may come. */
bool names_read(int fd, struct config *config);
/* Both, for at most MS milliseconds. What has no answer by then stays CONFIG_NOBODY and unanswered.
 */
void names_find(struct config *config, int ms);

/* What those processes run: main() calls it first, with its arguments. True: this was one of them,
 * and main() returns 0. */
bool names_main(int argc, char **argv);

#endif
