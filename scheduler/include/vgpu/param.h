/* SPDX-License-Identifier: MIT */
/*
 * Parameters as people write them: one reading and one spelling for every program. Any thread.
 */
#ifndef VGPU_PARAM_H
#define VGPU_PARAM_H

#include "vgpu/number.h"
#include "vgpu/policy.h"

/* Most parameters that a policy may have, of either kind. */
#define VGPU_MAX_PARAMS 16u

/* Reads one of a NULL-terminated list, as its place there; 0 or -EINVAL. */
int vgpu_parse_choice(const char *const *choices, const char *text, int64_t *out);
/* Writes a list as "a, b, c". */
void vgpu_join_choices(const char *const *choices, char *text, size_t size);

/* Reads VALUE for the parameter NAME of TABLE into VALUES; 0 or -EINVAL with the reason. */
int vgpu_param_set(const struct vgpu_param *table, const char *name, const char *value,
		   int64_t *values, struct vgpu_error *err);
/* Writes a value as vgpu_param_set reads it. */
void vgpu_param_text(const struct vgpu_param *param, int64_t value, char *text, size_t size);
/* The default of each parameter in VALUES, VGPU_MAX_PARAMS long; 0 for those that there are not. */
void vgpu_param_defaults(const struct vgpu_param *table, int64_t *values);

#endif
