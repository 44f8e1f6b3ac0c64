/* SPDX-License-Identifier: MIT */
/* What reading and writing a scenario share. */
#pragma once

#include "scenario.h"

/* Keys of scenarios and VFs: tables for reading and writing. */
enum key_type { KEY_RANGE, KEY_TIME, KEY_PPM, KEY_NUMBER, KEY_FLAG, KEY_CHOICE };

struct key {
	const char *name;
	enum key_type type;
	size_t offset;
	const char *const *choices; /* KEY_CHOICE */
};

extern const struct key scenario_keys[], scenario_governed_keys[], scenario_vf_keys[];
extern const char *const scenario_works[], *const scenario_kinds[], *const scenario_placements[];

/* Reads a number with a unit (default ns). *END: what follows it. Returns false if there is no
 * valid number. */
bool scenario_parse_time(const char *text, vgpu_nsec *out, const char **end);
void scenario_time_text(vgpu_nsec ns, char *text, size_t size);
/* Sets the key NAME of BASE. Returns 0; -ENOENT: no such key; -EINVAL: invalid value. */
int scenario_key_set(const struct key *keys, void *base, const char *name, const char *value);
/* Writes the keys whose values are not 0, each after BEFORE. */
void scenario_keys_write(const struct key *keys, const void *base, FILE *to, const char *before);
