/* SPDX-License-Identifier: MIT */
/* Explains why vgpud cannot be reached, or does not answer. Any thread. */
#pragma once

#include <stdbool.h>

#include "vgpu/types.h"

/* A silent vgpud is asked for a sign of life after the first time, and given up after the second:
 * together less than the five seconds in which an operator gets an answer. */
#define SILENCE_ASK (3 * VGPU_SEC / 2)
#define SILENCE_END (5 * VGPU_SEC / 2)
/* How long a vgpud that is starting or being restarted has, in all. */
#define SILENCE_START (30 * VGPU_SEC)

/* What the process at the other end of a connection is doing, as far as its silence needs words. */
enum silence {
	SILENCE_UNKNOWN,  /* it runs, as far as can be seen, and should answer */
	SILENCE_OWN,	  /* it is this process: a pipe to another host, not vgpud itself */
	SILENCE_FROZEN,	  /* a signal or a debugger has stopped it */
	SILENCE_STARTING, /* it is starting, or has ended and is being restarted */
};

/* Finds out what the process that listens for the connection FD is doing. */
enum silence silence_of(int fd);

/* Writes to ERR why no process accepts connections at PATH, with the error R of connect(). Returns
 * R, or -EHOSTDOWN for -ETIMEDOUT: a process listens, but accepts none. */
int silence_at(const char *path, int r, struct vgpu_error *err);
/* Says in ERR why there was no answer on the connection FD. Returns -EHOSTDOWN. */
int silence_on(int fd, struct vgpu_error *err);
