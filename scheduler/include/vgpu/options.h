/* SPDX-License-Identifier: MIT */
/*
 * Command-line options from a program's table: parsing, errors and the help text. To be used before
 * the program starts threads.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "vgpu/types.h"

/* The type of a value, and of the member that stores it. */
enum vgpu_option_kind {
	VGPU_OPTION_FLAG,    /* no value; bool */
	VGPU_OPTION_TEXT,    /* const char * */
	VGPU_OPTION_WHOLE,   /* an unsigned number; uint64_t */
	VGPU_OPTION_WHOLE32, /* an unsigned number; uint32_t */
	VGPU_OPTION_REAL,    /* double */
	VGPU_OPTION_TIMES,   /* a number that may have a fraction, times SCALE; uint64_t */
	VGPU_OPTION_SIZE,    /* bytes, with M or G behind it, up to 1024G; uint64_t */
	VGPU_OPTION_TAKE,    /* TAKE parses it */
};

struct vgpu_option {
	const char *name;  /* without "--"; NULL: the end of the table */
	const char *value; /* the value's name in the help; FLAG: NULL */
	const char *help;  /* NULL: not in the help */
	enum vgpu_option_kind kind;
	size_t at;	 /* offset of the member in the program's options */
	double min, max; /* range of a number; MAX 0: the member's range */
	double scale;
	/* Parses VALUE, which it may change and point into. Returns 0, or -errno with a whole
	 * sentence in ERR. */
	int (*take)(void *options, char *value, struct vgpu_error *err);
};

/* A row of the table. AT: offsetof() of the member; optional members follow as in a structure. */
#define VGPU_OPTION(name_, value_, help_, kind_, at_, ...)                                         \
	{                                                                                          \
		.name = name_, .value = value_, .help = help_, .kind = VGPU_OPTION_##kind_,        \
		.at = at_, __VA_ARGS__                                                             \
	}

/* Parses all options into OPTIONS. --help calls USAGE with stdout, --version prints PROGRAM's first
 * word and the version. Returns 0: the remaining words begin at argv[optind]; 1: help or version
 * was printed; -EINVAL: an option is wrong, reported on stderr. */
int vgpu_options_read(const char *program, const struct vgpu_option *table, void (*usage)(FILE *to),
		      int argc, char **argv, void *options);
/* Prints one line per option, with the help at COLUMN, at most 80 columns wide. */
void vgpu_options_list(const struct vgpu_option *table, unsigned column, FILE *to);
