/* SPDX-License-Identifier: MIT */
/* The table of all configuration keys, except the policies' parameters. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum section { DAEMON, GPU, VF, PROFILE, TENANT };
/* The action that puts a changed key into force: only a restart of vgpud, or also 'vgpuctl config
 * reload'. */
enum when { RESTART, LIVE };
enum type { TEXT, INT, BOOL, CHOICE };

struct config_key {
	enum section section;
	enum when when;
	const char *name;
	enum type type;
	size_t at;   /* offset in struct config, gpu_config (a VF's: of an array), profile or
			tenant_config */
	size_t size; /* bytes of a text, with its zero */
	int64_t min, max, def;
	const char *def_text;
	const char *const *choices;
	const char *help;
};

/* The names of the sections, as written in the file, by enum section. */
extern const char *const config_sections[];
/* Ends at a NULL name. */
extern const struct config_key config_keys[];
