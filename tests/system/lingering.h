/* SPDX-License-Identifier: MIT */
#pragma once

/* A socket whose last close takes SECONDS: it has bytes that its peer, which a process of its own
 * keeps open for so long, does not read. The caller's, or -errno. */
int lingering(int seconds);
