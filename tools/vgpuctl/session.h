/* SPDX-License-Identifier: MIT */
/* The connection to vgpud, and the GPUs that a command is about. One thread. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "exit_code.h"
#include "options.h"

struct session {
	const struct options *options;
	const char *named;	  /* GPU that an argument names; NULL: that of --gpu */
	int fd;			  /* -1: not connected yet */
	pid_t ssh;		  /* process of a connection to another host; 0: none */
	struct json_object *gpus; /* the command's GPUs, from gpu.list */
};

/* Returns the path of vgpud's control socket, owned by the options. */
const char *session_path(const struct options *o);

/* Connects to vgpud, unless that was done before, and finds the GPUs: the one that an argument or
 * --gpu names, by its name or its PCI address, or all. Returns an exit code; the reason of a
 * failure is on stderr. */
int session_open(struct session *s);
void session_close(struct session *s);

/* In an open session: calls METHOD with ARGS, which it frees. Returns an exit code: EXIT_OK and the
 * result, which the caller frees; or another one, with the reason on stderr, after restoring the
 * screen. */
int session_call(struct session *s, const char *method, struct json_object *args,
		 struct json_object **result);
/* As session_call(), for GPU I; the result has the GPU's name as "gpu". */
int session_call_gpu(struct session *s, size_t i, const char *method, struct json_object *args,
		     struct json_object **result);
/* Finds the VF of WORD: its number, PCI address or path. Adds "vf" to ARGS, and the VF's GPU unless
 * WORD is a number. Connects if necessary. Returns an exit code, as session_call(). */
int session_find_vf(struct session *s, const char *word, struct json_object *args);

/* Prints an answer as JSON. */
void print_json(struct json_object *o);
