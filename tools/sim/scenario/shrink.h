/* SPDX-License-Identifier: MIT */
/* Finds the smallest scenario that still fails. */
#pragma once

#include "scenario.h"

/* Makes S smaller as long as FAILS, which gets CONTEXT, returns true for the smaller scenario. */
void shrink(struct scenario *s, bool (*fails)(const struct scenario *s, const void *context),
	    const void *context);
