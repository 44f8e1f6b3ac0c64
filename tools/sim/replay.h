/* SPDX-License-Identifier: MIT */
/* Replay of what `vgpuctl record` has saved. */
#pragma once

#include <stdbool.h>

/* Replays a file and prints the result on stdout, with TELL also the recording's text, version and
 * configuration. Returns 0: the result is the same; 1: it differs; 2: the file cannot be replayed,
 * with the reason on stderr. */
int replay_file(const char *path, bool tell);
