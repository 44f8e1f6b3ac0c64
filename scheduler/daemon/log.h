/* SPDX-License-Identifier: MIT */
/* Logs a line with a level of syslog: to the journal if stderr is the journal, else to stderr
 * with the prefixes of sd-daemon(3). Words like gpu=gpu0 and vf=3 at the end of the line also
 * become fields of the journal: VGPU_GPU, VGPU_VF. Keeps errno. It may block: any thread but an
 * engine's. */
#ifndef DAEMON_LOG_H
#define DAEMON_LOG_H

#include <syslog.h>

__attribute__((format(printf, 2, 3))) void log_line(int level, const char *format, ...);

#endif
