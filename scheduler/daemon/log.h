/* SPDX-License-Identifier: MIT */
/* To stderr, with the priorities that journald reads. Not from an engine thread. */
#ifndef DAEMON_LOG_H
#define DAEMON_LOG_H

enum log_level { LOG_ERROR = 3, LOG_WARNING = 4, LOG_NOTICE = 5, LOG_INFO = 6 };

__attribute__((format(printf, 2, 3))) void log_line(enum log_level level, const char *format, ...);

#endif
