/* SPDX-License-Identifier: MIT */
/* Compares what placement has booked on this host with what vgpud gave: docs/fleet.md. */
#ifndef VGPUCTL_AUDIT_H
#define VGPUCTL_AUDIT_H

#include "session.h"

/* Prints where the allocations of --placement differ from vgpud's leases. Connects. Returns an exit
 * code: EXIT_FAILED if anything differs. */
int audit(struct session *s);

#endif
