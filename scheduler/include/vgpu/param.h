/* SPDX-License-Identifier: MIT */
/*
 * Parses and prints parameters, the same way in every program. Any thread.
 */
#pragma once

#include "vgpu/number.h"
#include "vgpu/policy.h"

/* The largest number of parameters of a policy, and of a VF under a policy. */
#define VGPU_MAX_PARAMS 16u

/* Parses a word of a NULL-terminated list as its index; 0 or -EINVAL. */
int vgpu_parse_choice(const char *const *choices, const char *text, int64_t *out);
/* Writes a list as "a, b, c". */
void vgpu_join_choices(const char *const *choices, char *text, size_t size);

/* Parses VALUE for the parameter NAME of TABLE into VALUES; 0 or -EINVAL with the reason. A
 * parameter in parts per million, as "min_ppm", is also read in percent: "min" = "30", "30%" or "30
 * %". */
int vgpu_param_set(const struct vgpu_param *table, const char *name, const char *value,
		   int64_t *values, struct vgpu_error *err);
/* Finds the parameter of TABLE whose name in percent is NAME, and parses VALUE as parts per
 * million. Returns NULL if there is none. An unreadable or too large VALUE leaves *PPM at -1. */
const struct vgpu_param *vgpu_param_in_percent(const struct vgpu_param *table, const char *name,
					       const char *value, int64_t *ppm);
/* Writes NAME and VALUE in the form of a claim: "min 30 %" for "min_ppm" and "300000". */
void vgpu_param_as_claimed(const char *name, const char *value, char *text, size_t size);
/* Writes a value as text that vgpu_param_set parses. */
void vgpu_param_text(const struct vgpu_param *param, int64_t value, char *text, size_t size);
/* Writes the default of each parameter to VALUES, which has VGPU_MAX_PARAMS entries, and 0 to the
 * rest. */
void vgpu_param_defaults(const struct vgpu_param *table, int64_t *values);
