/* SPDX-License-Identifier: MIT */
/*
 * Reserves VFs for a VM, a program or a container: for each VF of its claim one that is free, large
 * enough, and whose parameters the GPU's policy admits. All of them or none. Control thread.
 */
#pragma once

#include "booking.h"
#include "control/call.h"
#include "claim.h"
#include "control/refusal.h"
#include "travel.h"

/* The purpose of a reservation. */
enum reserve_mode {
	RESERVE_START,	  /* the VM is starting */
	RESERVE_INCOMING, /* the VM is incoming, with the state of its VFs: incoming.h */
	RESERVE_RUNNING,  /* the VM runs: only VFs that it lacks, and that can be attached */
	RESERVE_ASK,	  /* reserve nothing; answer with the VFs that would be reserved */
};

/* A reservation in progress: tries each VF of the claim on each GPU until one fits. */
struct reservation {
	struct claim claim;
	struct travel travel; /* RESERVE_INCOMING: what came with the VM */
	enum reserve_mode mode;
	int next;		/* reserve.c: its next state */
	uint32_t at, gpu, vf;	/* being tried: AT counts the VFs of the claim */
	struct refusal refusal; /* why the present GPU was refused; "": it was not */
	/* For the earlier GPUs: the refusal of the one that came closest, and each one's reason. */
	struct refusal nearest;
	uint32_t n_refused;
	char reasons[1200];
	vgpu_nsec until;      /* how long to wait for VFs that are being scrubbed */
	bool scrubbing;	      /* a VF that would fit is being scrubbed */
	vgpu_vf_set reserved; /* VFs of the claim that have got one */
	/* by VFs of the claim: the VF's former live parameters, and their policy, else NULL */
	const struct vgpu_policy_ops *former_policy[CLAIM_MAX_VFS];
	int64_t former[CLAIM_MAX_VFS][VGPU_MAX_PARAMS];
	bool over; /* the VM has ended meanwhile */
	void (*done)(
		struct call *call); /* called when all is reserved; NULL: the call is answered */
	/* For a program or a container: its process, and its owner's limits (tenants/limits.h): the
	 * most memory of a VF, bytes, and why; 0: any. REFUSED, if not NULL, is called with the
	 * reason of a refusal. */
	uint32_t process;
	uint64_t started;
	int pidfd;	 /* -1: none */
	uint32_t worker; /* of a container, on a gated GPU; 0: none */
	uint64_t worker_started;
	uint64_t most_memory;
	uint64_t not_on; /* GPUs that it may not use, by their number */
	char most_why[160];
	void (*refused)(struct call *call, const char *why);
	bool quiet;		   /* the owner has used up its lines of the log */
	bool was_held;		   /* the VF being tried was held for this container */
	struct booking *booking;   /* the question that waits for its answer; else NULL */
	int32_t on[CLAIM_MAX_VFS]; /* by VFs of the claim: the booked GPU, or BOOKED_ANY */
	vgpu_vf_set picked[CONFIG_MAX_GPUS]; /* RESERVE_ASK */
	struct policy_values
		*dry;	   /* RESERVE_ASK: the values that each GPU's VFs would have; else NULL */
	vgpu_vf_set tried; /* VFs of this GPU that could not grow */
	struct json_object *answer; /* RESERVE_ASK: its "vfs" are added to; else NULL */
};

/* Begins the call's reservation, whose claim and mode are set. Answers the call when it ends, with
 * one sentence if it is refused. */
void reserve_begin(struct call *call);
/* Gives up the other reservations in progress for the VM of CALL: the VM has ended, or starts
 * again. The caller ends the VM's leases, including those of these reservations. */
void reserve_give_up(struct control *control, const struct call *call);
/* Creates the call's reservation, empty; the call frees it. NULL: out of memory. */
struct reservation *reserve_new(struct call *call);
/* Returns the call's reservation; NULL: the call has none. */
struct reservation *reservation_of(const struct call *call);
