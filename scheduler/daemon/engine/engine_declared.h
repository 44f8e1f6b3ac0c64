/* SPDX-License-Identifier: MIT */
/* GPUs with policies of their own: maps vgpud's policies to theirs. */
#pragma once

#include "engine_request.h"

/* Makes a declaration of VALUES, for N VFs. Returns NULL; or why no such GPU supports them, a
 * constant text. Any thread. */
const char *declaration_of(const struct policy_values *values, uint32_t n,
			   struct vgpu_declaration *out);
