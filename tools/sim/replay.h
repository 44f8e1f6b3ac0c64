/* SPDX-License-Identifier: MIT */
/* Replay of what `vgpuctl record` has saved. */
#ifndef SIM_REPLAY_H
#define SIM_REPLAY_H

#include <stdbool.h>

/* Replays a file and prints the result on stdout. Returns 0: the same; 1: it differs; 2: it cannot
 * be replayed. TELL: also prints the recording's text, version and configuration. */
int replay_file(const char *path, bool tell);

#endif
