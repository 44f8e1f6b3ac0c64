/* SPDX-License-Identifier: MIT */
/* Every key of the configuration but the policies' parameters, as a table. */
#ifndef DAEMON_CONFIG_KEYS_H
#define DAEMON_CONFIG_KEYS_H

#include <stddef.h>
#include <stdint.h>

enum section { DAEMON, GPU, VF, PROFILE };
enum type { TEXT, INT, BOOL, CHOICE };

struct config_key {
	enum section section;
	const char *name;
	enum type type;
	size_t at;   /* in struct config or struct gpu_config; of a VF, an array there */
	size_t size; /* of a text */
	int64_t min, max, def;
	const char *def_text;
	const char *const *choices;
	const char *help;
};

/* As people write them, by enum section. */
extern const char *const config_sections[];
/* Ends at a NULL name. */
extern const struct config_key config_keys[];

#endif
