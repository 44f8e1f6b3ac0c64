/* SPDX-License-Identifier: MIT */
/* Logs a line with a level of syslog: to the journal if stderr is the journal, else to stderr
 * with the prefixes of sd-daemon(3). Words like gpu=gpu0 and vf=3 at the end of the line also
 * become fields of the journal: VGPU_GPU, VGPU_VF. Keeps errno. It may block: any thread but an
 * engine's. */
#ifndef DAEMON_LOG_H
#define DAEMON_LOG_H

#include <syslog.h>

__attribute__((format(printf, 2, 3))) void log_line(int level, const char *format, ...);

/* The same, with a MESSAGE_ID, by which monitoring finds the message: vgpud(8) lists them. */
__attribute__((format(printf, 3, 4))) void log_known(int level, const char *id, const char *format,
						     ...);

/* A running VM's claim cannot be read. */
#define LOG_CLAIM_UNREADABLE "6b1c5a0e3f5d4c7f9d0b8a2e47c1f936"
/* A running VM's changed claim was refused. */
#define LOG_CLAIM_REFUSED "d2a94be871c04e6fa3c55f0d9be61a28"

#endif
