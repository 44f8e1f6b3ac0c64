/* SPDX-License-Identifier: MIT */
/* With one of syslog's levels: to the journal, where stderr is that, else to stderr, with the
 * priorities of sd-daemon(3). Words like gpu=gpu0 and vf=3 at a line's end are fields of the
 * journal's, too: VGPU_GPU, VGPU_VF. Not from an engine thread. */
#ifndef DAEMON_LOG_H
#define DAEMON_LOG_H

#include <syslog.h>

__attribute__((format(printf, 2, 3))) void log_line(int level, const char *format, ...);

#endif
