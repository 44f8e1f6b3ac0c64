/* SPDX-License-Identifier: MIT */
/* Where a container's process is on the host: control groups, priorities, CPUs. */
#ifndef CONTAINER_PLACE_H
#define CONTAINER_PLACE_H

#include <sys/types.h>

/*
 * Gives this process the place of the process CONTAINER: its control groups, so that the
 * container's limits count for both, its score for the OOM killer, its niceness and its CPUs; and
 * bounds the descriptors. What cannot be done is in the journal, and left. Of a process with one
 * thread, before it drops its rights.
 */
void place_beside(pid_t container);

#endif
