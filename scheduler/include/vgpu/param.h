/* SPDX-License-Identifier: MIT */
/*
 * Reads and writes parameters as text, the same way in every program. Any thread.
 */
#ifndef VGPU_PARAM_H
#define VGPU_PARAM_H

#include "vgpu/number.h"
#include "vgpu/policy.h"

/* The most parameters that a policy may have, of its own and for each VF. */
#define VGPU_MAX_PARAMS 16u

/* Reads a word of a NULL-terminated list as its index; 0 or -EINVAL. */
int vgpu_parse_choice(const char *const *choices, const char *text, int64_t *out);
/* Writes a list as "a, b, c". */
void vgpu_join_choices(const char *const *choices, char *text, size_t size);

/* Reads VALUE for the parameter NAME of TABLE into VALUES; 0 or -EINVAL with the reason. */
int vgpu_param_set(const struct vgpu_param *table, const char *name, const char *value,
		   int64_t *values, struct vgpu_error *err);
/* Writes a value as text that vgpu_param_set reads. */
void vgpu_param_text(const struct vgpu_param *param, int64_t value, char *text, size_t size);
/* Writes the default of each parameter to VALUES, which has VGPU_MAX_PARAMS entries; 0 to the rest.
 */
void vgpu_param_defaults(const struct vgpu_param *table, int64_t *values);

#endif
