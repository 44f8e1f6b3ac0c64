/* SPDX-License-Identifier: MIT */
/*
 * Options of a command line from a program's table: how they are read, what is said of a wrong one,
 * and the help. Before there are threads.
 */
#ifndef VGPU_OPTIONS_H
#define VGPU_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

#include "vgpu/types.h"

/* What a value is, and the member that gets it. */
enum vgpu_option_kind {
	VGPU_OPTION_FLAG,    /* no value; bool */
	VGPU_OPTION_TEXT,    /* const char * */
	VGPU_OPTION_WHOLE,   /* a number without a sign; uint64_t */
	VGPU_OPTION_WHOLE32, /* the same; uint32_t */
	VGPU_OPTION_REAL,    /* double */
	VGPU_OPTION_TIMES,   /* a number that may have a fraction, times SCALE; uint64_t */
	VGPU_OPTION_SIZE,    /* bytes, with M or G behind it, up to 1024G; uint64_t */
	VGPU_OPTION_TAKE,    /* what TAKE makes of it */
};

struct vgpu_option {
	const char *name;  /* without "--"; NULL: the end of the table */
	const char *value; /* what the help calls its value; of FLAG: NULL */
	const char *help;  /* NULL: the help does not have it */
	enum vgpu_option_kind kind;
	size_t at;	 /* of the member in the program's options */
	double min, max; /* of numbers; MAX 0: no limit but the member's */
	double scale;
	/* Takes VALUE, of which it may keep pointers and which it may change. 0, or -errno with a
	 * whole sentence in ERR. */
	int (*take)(void *options, char *value, struct vgpu_error *err);
};

/* A row. AT: offsetof() of the member; then, as in a structure, what only some have. */
#define VGPU_OPTION(name_, value_, help_, kind_, at_, ...)                                         \
	{                                                                                          \
		.name = name_, .value = value_, .help = help_, .kind = VGPU_OPTION_##kind_,        \
		.at = at_, __VA_ARGS__                                                             \
	}

/* Reads all options into OPTIONS. --help calls USAGE with stdout, --version prints PROGRAM's first
 * word and the version. Returns 0: the words that are no options begin at argv[optind]; 1: help or
 * version was printed; -EINVAL: an option is wrong, which is said on stderr. */
int vgpu_options_read(const char *program, const struct vgpu_option *table, void (*usage)(FILE *to),
		      int argc, char **argv, void *options);
/* Prints a line for each option, with the help at COLUMN, at most 80 columns wide. */
void vgpu_options_list(const struct vgpu_option *table, unsigned column, FILE *to);

#endif
