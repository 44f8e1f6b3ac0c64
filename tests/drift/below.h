/* SPDX-License-Identifier: MIT */
#pragma once

#include "shim.h"

extern struct xe_device drift_gpu;
/* How often what fails, as tests/abi/xe-admin names it. */
extern struct drift_faults {
	unsigned eio, partial, busy;
	bool wedged;
} drift_faults;

/* Returns the kobject with that name and parent, or NULL. */
struct kobject *drift_find(const struct kobject *parent, const char *name);
