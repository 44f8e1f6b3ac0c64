/* SPDX-License-Identifier: MIT */
#ifndef AGENT_SAY_H
#define AGENT_SAY_H

/* A line for the journal, with syslog's level: WHAT, and WHY if there is a reason. */
void say(int level, const char *what, const char *why);

#endif
