/* SPDX-License-Identifier: MIT */
/*
 * A vgpud that a test plays for vgpuctl, in virtual time: it stands in the place of the session,
 * the screen and the clock. Its GPU is switched, or governed, and does what is planted.
 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "test.h"
#include "vgpu/types.h"

#define VFS 3
#define MS ((int64_t)VGPU_MSEC)
#define SEC ((int64_t)VGPU_SEC)
#define EPOCH (500 * MS)
#define SWITCH (MS / 10)
#define LAG (20 * MS)
#define BEGAN (1000 * SEC) /* when the GPU began, by the clock */

/* The vgpud, and what is planted. Instants are since BEGAN. */
extern struct played_vgpud {
	bool governed;
	int64_t now, at; /* at: so far time has passed for the GPU */
	int64_t calls;
	struct {
		int64_t weight, in_force, run;
		int64_t lag, wait; /* bounds; -1: none */
		int64_t budget;
	} vfs[VFS];
	/* Switched: whose turn it is, or is next after the switch; since and until when. */
	int turn;
	bool runs, has_window;
	int64_t since, until;
	struct json_object *records;
	int64_t policy_since;

	int64_t gift_at[2], gift; /* VF 1's service is VF 0's, in the epochs that end then */
	int64_t frozen[2];	  /* VF 1's counter stands still meanwhile */
	double counted;		  /* of what VFs were served */
	int64_t stray;		  /* time in no counter */
	int64_t back_at;	  /* VF 2's counter goes back */
	int64_t policy_at;	  /* another policy with the same shares comes into force */
	int64_t grant_at, grant;  /* the turn of VF 0 then is so long */
	int64_t overrun_at, overrun;
	int64_t window_at;
	int64_t interrupt_at; /* the user presses ^C */
	int64_t plan_after;   /* epochs from a change of a weight to its plan; below 0: none */
	bool no_effect;	      /* plans do not act */
} gpu;

/* What print_json was given last, which is owned here. */
extern struct json_object *printed;

/* Begins anew with three VFs that always work, of weights 200, 100 and 100, and lets 10 s pass. */
void played_begin(bool governed);
void played_end(void);
