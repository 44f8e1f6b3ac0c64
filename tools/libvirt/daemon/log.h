/* SPDX-License-Identifier: MIT */
#ifndef LIBVIRT_LOG_H
#define LIBVIRT_LOG_H

/* A line for the journal, with syslog's level: WHAT, and WHY if there is a reason. */
void log_line(int level, const char *what, const char *why);

#endif
