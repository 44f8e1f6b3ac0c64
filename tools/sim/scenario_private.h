/* SPDX-License-Identifier: MIT */
/* What reading and writing a scenario have in common. */
#ifndef SIM_SCENARIO_PRIVATE_H
#define SIM_SCENARIO_PRIVATE_H

#include "scenario.h"

/* Keys that scenarios and VFs have: a table for reading and for writing. */
enum key_type { KEY_RANGE, KEY_TIME, KEY_PPM, KEY_NUMBER, KEY_FLAG, KEY_CHOICE };

struct key {
	const char *name;
	enum key_type type;
	size_t offset;
	const char *const *choices; /* KEY_CHOICE */
};

extern const struct key scenario_keys[], scenario_vf_keys[];
extern const char *const scenario_works[], *const scenario_kinds[], *const scenario_placements[];

/* A number with its unit, ns without; *END is what follows. */
bool scenario_parse_time(const char *text, vgpu_nsec *out, const char **end);
void scenario_time_text(vgpu_nsec ns, char *text, size_t size);
/* 0; -ENOENT: no such key; -EINVAL: not such a value. */
int scenario_key_set(const struct key *keys, void *base, const char *name, const char *value);
/* Those that are not 0, each after BEFORE. */
void scenario_keys_write(const struct key *keys, const void *base, FILE *to, const char *before);

#endif
