/* SPDX-License-Identifier: MIT */
/* The options of the command line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Options that only some commands take, as bits. */
enum {
	TAKES_GPU = 1 << 0,
	TAKES_FORMAT = 1 << 1,
	TAKES_WATCH = 1 << 2, /* --watch */
	TAKES_TIMES = 1 << 3, /* --interval, --count */
	TAKES_MS = 1 << 4,
	TAKES_SVG = 1 << 5,
	TAKES_HTML = 1 << 6,
	TAKES_LIMIT = 1 << 7,
	TAKES_SINCE = 1 << 8,
	TAKES_FOLLOW = 1 << 9,
	TAKES_OUTPUT = 1 << 10,
	TAKES_FORCE = 1 << 11,
	TAKES_SORT = 1 << 12,
	TAKES_SAVE = 1 << 13,	   /* --save, --reason */
	TAKES_INVENTORY = 1 << 14, /* --format, --check, --provider */
	TAKES_PODMAN = 1 << 15,	   /* --podman */
	TAKES_VERIFY = 1 << 16,	   /* --seconds, --busy, --change */
	TAKES_HOST = 1 << 17,
	TAKES_SOCKET = 1 << 18,
	TAKES_CSV = 1 << 20,   /* -o csv */
	TAKES_CLAIM = 1 << 21, /* --weight, --memory, --profile */
};

struct options {
	const char *socket, *gpu, *svg, *html, *output, *since, *sort, *reason, *format, *provider,
		*busy, *change, *host, *weight, *memory, *profile, *limit;
	bool json, csv, force, save, check, watch, follow, podman, help, version;
	int64_t ms, count, seconds;
	double interval;
	unsigned given; /* the given options, as bits */
	char **words;	/* arguments that are not options, in order */
	int n_words;
};

/* Reads the command line: options may be anywhere, as --name VALUE or --name=VALUE. Reorders ARGV,
 * which keeps its words. Returns 0, or -EINVAL with the reason on stderr. */
int options_read(int argc, char **argv, struct options *o);
/* Prints the options that a command takes, and those that every command takes. */
void options_help(FILE *to, unsigned takes);
/* Returns the name of the first option of GIVEN that is not in TAKES; NULL if there is none. */
const char *options_refused(unsigned given, unsigned takes);
/* Prints the names of the options that a command takes, one on a line. */
void options_names(FILE *to, unsigned takes);
/* Returns the word for the value of option WORD in the help (FILE, NAME...); NULL if WORD is not an
 * option, or has no value. */
const char *options_value(const char *word);
