/* SPDX-License-Identifier: MIT */
/* Where a container's process is on the host: control groups, priorities, CPUs. */
#pragma once

#include <sys/types.h>

/*
 * Gives this process the place of the process CONTAINER on the host: its control groups, so that
 * the container's limits count for both processes, its score for the OOM killer, its niceness and
 * its CPUs; and limits the number of descriptors. What fails is logged and skipped; WHY gets the
 * last reason for which a control group was, if there is one. The calling process must have one
 * thread, and must not have dropped its rights yet.
 */
void place_beside(pid_t container, char *why, size_t size);
