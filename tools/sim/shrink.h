/* SPDX-License-Identifier: MIT */
/* The smallest scenario that still fails. */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "scenario.h"

/* Makes S smaller as long as FAILS says of the smaller one, too, that it fails. */
void shrink(struct scenario *s, bool (*fails)(const struct scenario *s, const void *context),
	    const void *context);

#endif
