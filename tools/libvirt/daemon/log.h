/* SPDX-License-Identifier: MIT */
#pragma once

/* Writes a line to stderr for the journal, with a level of syslog: WHAT, then WHY unless NULL. */
void log_line(int level, const char *what, const char *why);
