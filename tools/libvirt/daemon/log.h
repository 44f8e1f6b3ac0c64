/* SPDX-License-Identifier: MIT */
#ifndef LIBVIRT_LOG_H
#define LIBVIRT_LOG_H

/* Writes a line to stderr for the journal, with a level of syslog: WHAT, then WHY unless NULL. */
void log_line(int level, const char *what, const char *why);

#endif
