/* SPDX-License-Identifier: MIT */
/* The method "memory.show": who has which part of a GPU's memory. Control thread. */
#ifndef DAEMON_MEMORY_H
#define DAEMON_MEMORY_H

#include "control.h"

/* From the call's snapshot. */
struct json_object *memory_json(struct call *call);

#endif
