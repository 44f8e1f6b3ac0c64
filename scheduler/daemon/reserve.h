/* SPDX-License-Identifier: MIT */
/*
 * Finding VFs for a VM: for each slice one that is free, large enough, and whose parameters its
 * policy admits. All slices or none. Control thread.
 */
#ifndef DAEMON_RESERVE_H
#define DAEMON_RESERVE_H

#include "control.h"
#include "claim.h"

/* How it is asked. */
enum reserve_mode {
	RESERVE_START,	 /* the VM is being started */
	RESERVE_RUNNING, /* it runs: only for slices that have none, and VFs that can be attached */
	RESERVE_ASK,	 /* nothing is reserved; the answer says what would be */
};

/* One under way: slice by slice, and for each GPU by GPU until one fits. */
struct reservation {
	struct claim claim;
	enum reserve_mode mode;
	uint32_t slice, gpu, vf;
	struct vgpu_error why;		  /* the last one's refusal */
	vgpu_nsec until;		  /* so long a VF is waited for that is being scrubbed */
	bool scrubbing;			  /* one that would fit is */
	uint32_t reserved;		  /* bitmap of slices that have got one */
	bool over;			  /* meanwhile the VM has been told to have ended */
	uint32_t picked[CONFIG_MAX_GPUS]; /* RESERVE_ASK: bitmaps of VFs */
	uint32_t tried;			  /* bitmap of VFs of this GPU that could not grow */
	struct json_object *answer;	  /* NULL; of RESERVE_ASK: "slices", to add to */
};

/* Begins it for call->reservation, whose claim and mode are set; the call is answered in the end,
 * with one sentence if it is refused. */
void reserve_begin(struct call *call);
/* NULL is allowed. */
void reserve_free(struct reservation *job);

#endif
