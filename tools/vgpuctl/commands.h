/* SPDX-License-Identifier: MIT */
/* The table of vgpuctl's commands, for help, completion and main.c. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

struct options;

enum scope {
	NO_GPU,	  /* the method concerns no GPU, or all of them in one answer */
	ONE_GPU,  /* the GPU that is named, or the only one */
	EACH_GPU, /* the same GPU, or all GPUs, one after the other */
};

struct command {
	const char *noun, *verb; /* verb NULL: the noun alone is the command */
	const char *method;	 /* vgpud's method that answers it; NULL: vgpuctl does it itself */
	const char *words;	 /* its arguments */
	const char *help;
	enum scope scope;
	unsigned takes; /* accepted options, see options.h */
	void (*view)(struct json_object *answer);
	void (*svg)(struct json_object *answer, FILE *to);
	void (*html)(struct json_object *answer, FILE *to);
};

/* The last row has a NULL noun. */
extern const struct command commands[];

/* Finds the command with which the words begin; *USED: number of those words. Returns NULL if there
 * is none, with the reason on stderr. */
const struct command *command_find(char *const *words, int n, int *used);
/* Prints the help of the commands that begin with the words, or of all commands if there are no
 * words. Returns false if no command begins so, with the reason on stderr. */
bool command_help(FILE *to, char *const *words, int n);
