/* SPDX-License-Identifier: MIT */
/* The rare records of a GPU, each with the name of who had its VF then. Control thread. */
#ifndef DAEMON_HEARD_H
#define DAEMON_HEARD_H

#include "state.h"

/* Keeps a record, and who has its VF now. */
void heard_add(struct gpu *gpu, const struct vgpu_record *record);
/* Who had the VF of record I of the GPU's events, which can be read; "": nobody. The GPU's, until
 * the next record. */
const char *heard_name(const struct gpu *gpu, uint64_t i);

#endif
