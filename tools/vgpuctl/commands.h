/* SPDX-License-Identifier: MIT */
/* The table of vgpuctl's commands: help, completion and main.c are made from it. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

struct options;

enum scope {
	NO_GPU,	  /* the method concerns no GPU, or all of them in one answer */
	ONE_GPU,  /* the GPU that is named, or the only one */
	EACH_GPU, /* that, or one GPU after the other */
};

struct command {
	const char *noun, *verb; /* verb NULL: the noun alone is the command */
	const char *method; /* vgpud's method that answers it; NULL: main.c does it by itself */
	const char *words;  /* its arguments */
	const char *help;
	enum scope scope;
	unsigned takes; /* options, see options.h */
	void (*view)(struct json_object *answer);
	void (*svg)(struct json_object *answer, FILE *to);
	void (*html)(struct json_object *answer, FILE *to);
};

/* Ends at a NULL noun. */
extern const struct command commands[];

/* Finds the command that the words begin with, and how many words that are. NULL: there is none,
 * and the reason is on stderr. */
const struct command *command_find(char *const *words, int n, int *used);
/* Prints help: of the commands that the words begin with, of all if there are none. Returns false
 * if no command begins so; the reason is on stderr. */
bool command_help(FILE *to, char *const *words, int n);
