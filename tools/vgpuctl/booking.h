/* SPDX-License-Identifier: MIT */
/* Answers which GPU is booked for a VM. */
#ifndef VGPUCTL_BOOKING_H
#define VGPUCTL_BOOKING_H

#include "options.h"

/*
 * Reads a line from stdin, the UUID of a server, asks placement what it has booked of this host's
 * GPUs, and prints that as a line of JSON: {"gpus": {"NAME": {"VF": N, "SHARE": N, "MEMORY_MB":
 * N}}}, without GPUs if none of their own providers is booked. Returns an exit code: if it is not
 * EXIT_OK, the reason is on stderr, and nothing on stdout. Ends the process after 6 s.
 */
int booking(const struct options *o);

#endif
