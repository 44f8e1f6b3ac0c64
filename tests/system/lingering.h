/* SPDX-License-Identifier: MIT */
#ifndef LINGERING_H
#define LINGERING_H

/* A socket whose last close takes SECONDS: it has bytes that its peer, which stays open in this
 * process, does not read. The caller's, or -errno. */
int lingering(int seconds);

#endif
