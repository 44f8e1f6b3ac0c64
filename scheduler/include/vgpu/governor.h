/* SPDX-License-Identifier: MIT */
/*
 * The governor: the time of a GPU whose firmware schedules, as one function from events to actions.
 *
 * Firmware gives VFs turns, each for its quantum. It neither measures nor charges: a VF that stops
 * late keeps what it took. Each epoch the governor reads what each VF was served, and lets a policy
 * (vgpu/policy.h), unchanged, schedule the same service in virtual time: as it would have divided
 * it. The difference is a VF's carry. Later turns in virtual time are charged their length and an
 * instalment of the carry, so the policy's own rules decide who pays for what. What the policy
 * gave, and what it still owes, is what VFs are due in the time to come, and becomes quanta.
 *
 *   TIMER -> read the counters -> USAGE -> the policy divides the epoch -> a program, if a share
 *   would otherwise be off by more than `tolerance_ppm` -> PROGRAMMED
 *
 * Pure, as the core: time is an argument; no system call, clock, allocation or floating point. Not
 * thread-safe: one thread steps one governor.
 */
#ifndef VGPU_GOVERNOR_H
#define VGPU_GOVERNOR_H

#include "vgpu/driver.h"
#include "vgpu/param.h"

struct vgpu_governor_config {
	uint32_t max_vfs;		      /* at most VGPU_GPU_MAX_VFS */
	struct vgpu_setting quantum, timeout; /* what the GPU can do; timeout.max 0: it has none */
	bool keeps_turns, always_keeps_turns; /* as in struct vgpu_driver_caps */
	vgpu_nsec epoch;     /* counters are read, and a plan is made, this often */
	vgpu_nsec rotation;  /* the longest sum of all quanta */
	vgpu_nsec turn;	     /* the mean quantum, where no other length makes shares more exact */
	vgpu_nsec stop;	     /* the preemption time-out to program: how late a VF may stop */
	vgpu_nsec switch_ns; /* the firmware's world switch; 0: not known */
	vgpu_nsec slack;  /* so much that a VF is owed, or owes, is not corrected. `turn` or more:
			   * readings may cut turns, on a real clock */
	vgpu_nsec settle; /* what a VF is owed is paid in this time */
	uint32_t tolerance_ppm; /* a program is written if a share would be off by more */
	uint32_t still_epochs;	/* counters that stand still for so long are not relied upon */
};

enum vgpu_governor_event_type {
	VGPU_GOVERNOR_TIMER = 0,  /* the deadline has come */
	VGPU_GOVERNOR_USAGE,	  /* `active`: the counters of all VFs at `now`; or `error` */
	VGPU_GOVERNOR_PROGRAMMED, /* the last program is in force as `applied`; or `error` */
	VGPU_GOVERNOR_POLICY,	  /* change to `policy`, with memory, params and vf_params */
	VGPU_GOVERNOR_SET_POLICY, /* new parameters of the policy in force */
	VGPU_GOVERNOR_SET_VF,	  /* new parameters of `vf` */
	VGPU_GOVERNOR_START,	  /* write the nominal plan, and begin the first epoch */
	VGPU_GOVERNOR_STOP,	  /* write the nominal plan, which then stands */
	VGPU_GOVERNOR_BRING, /* the VM of `vf` comes from another host, and `owed` is what it was
			      * served there beyond its share: it is charged here, up to an epoch */
	VGPU_GOVERNOR_EVENT_COUNT,
};

struct vgpu_governor_event {
	vgpu_nsec now; /* not earlier than in the last step */
	enum vgpu_governor_event_type type;
	uint32_t vf;
	int error; /* 0, or negative; of PROGRAMMED, -EBUSY: try again later */
	vgpu_nsec owed;
	const vgpu_nsec *active;
	const struct vgpu_program *applied;
	const struct vgpu_policy_ops *policy;
	void *memory; /* zeroed, policy->memory(max_vfs) bytes; the governor's until `retired` */
	const int64_t *params;
	const int64_t *vf_params; /* max_vfs rows of VGPU_MAX_PARAMS */
};

struct vgpu_governor_output {
	bool read;    /* read the counters of all VFs, and step USAGE */
	bool program; /* program `plan`, and step PROGRAMMED when it is in force */
	bool closed;  /* an epoch has ended, and its counters count */
	struct vgpu_program plan;
	void *retired;	  /* memory of a policy, the caller's again; or NULL */
	const char *says; /* a sentence for the log; or NULL */
	const char *why;  /* if the event was refused: the reason. Valid until the next step */
};

/* How the schedule comes about. */
enum vgpu_governor_mode {
	VGPU_GOVERNOR_NONE = 0, /* no policy yet */
	VGPU_GOVERNOR_STATIC,	/* the policy's shares are programmed once */
	VGPU_GOVERNOR_GOVERNED, /* the loop corrects them */
	VGPU_GOVERNOR_STILL,	/* no counter moves: the static plan holds until one does */
	VGPU_GOVERNOR_FAULTY,	/* the policy broke its contract: the static plan holds */
	VGPU_GOVERNOR_STOPPED,
};

/*
 * Where a VF's service went, nanoseconds. When a step has ended,
 * served + brought = charged + carry + lapsed.
 */
struct vgpu_governed_ledger {
	vgpu_nsec served;  /* read from its counter */
	vgpu_nsec brought; /* served on another host, and to be charged here */
	vgpu_nsec charged; /* by the policy */
	int64_t carry;	   /* served beyond what the policy gave, and not charged yet */
	int64_t lapsed; /* not charged for good. Below 0: not used for want of work, and not owed */
};

enum vgpu_governed_state {
	VGPU_GOVERNED_ASLEEP = 0, /* was not served in the last epoch */
	VGPU_GOVERNED_PARTIAL,	  /* left turns unused: it had work for a part of the epoch */
	VGPU_GOVERNED_BUSY,
};

/* What firmware and governor promise to a VF as of now; in addition to struct vgpu_bound. */
struct vgpu_governed_bound {
	/* The most by which the VF's service differs, whenever counters are read, from its policy's
	 * ideal; VGPU_NEVER: no promise. Grows with the largest carry so far, with what was written
	 * off, and with what VFs in doubt were not given, and with nothing else. */
	vgpu_nsec max_lag;
	vgpu_nsec max_wait; /* by the firmware alone, for any plan; VGPU_NEVER: no time-outs */
	/* The firmware alone gives the VF this part of the time, if it always has work. */
	uint32_t least_ppm;
	/* Of a policy that serves VFs in an order: VFs that should wait get this part anyway,
	 * because the firmware cannot skip a VF that has work. */
	uint32_t leak_ppm;
};

struct vgpu_governed_vf_view {
	enum vgpu_governed_state state;
	vgpu_nsec quantum, timeout; /* in force */
	vgpu_nsec late;		    /* estimate: served beyond the quantum, each turn */
	int64_t owed;		    /* by the policy, as of the last epoch's end */
	struct vgpu_governed_ledger ledger;
	struct vgpu_governed_bound bound;
};

/* What an epoch came to, for one VF. */
struct vgpu_governed_epoch {
	enum vgpu_governed_state state;
	vgpu_nsec served, late; /* in the epoch; estimate, each turn */
	int64_t owed;		/* by the policy, as of the epoch's end */
	struct vgpu_governed_ledger ledger;
};

struct vgpu_governor_view {
	enum vgpu_governor_mode mode;
	const struct vgpu_policy_ops *policy;
	/* wall = sum of served + idle + unread */
	vgpu_nsec wall, idle, unread;
	vgpu_nsec length; /* of the last epoch */
	uint64_t epochs, plans;
	uint64_t writes;	  /* settings of VFs that a plan changed */
	uint64_t clamped, failed; /* settings that the GPU changed; programs that it refused */
	bool keep_turns;
};

struct vgpu_governor;

/* Writes defaults for a GPU that can do QUANTUM and TIMEOUT. */
void vgpu_governor_defaults(struct vgpu_governor_config *config, uint32_t max_vfs,
			    struct vgpu_setting quantum, struct vgpu_setting timeout);

/* Bytes of memory that vgpu_governor_init needs. */
size_t vgpu_governor_size(void);

/*
 * Makes a governor in MEMORY (the caller's, zeroed, aligned as by malloc) at instant NOW, without a
 * policy. APPLIED is what the GPU has in force, as read back. NULL: the smallest quantum does not
 * fit in for all VFs, or a range is empty.
 */
struct vgpu_governor *vgpu_governor_init(void *memory, const struct vgpu_governor_config *config,
					 const struct vgpu_program *applied, vgpu_nsec now);

/*
 * Applies one event. 0; or, with out->why, and nothing changed: -EINVAL: the policy refuses the
 * parameters; -EOPNOTSUPP: no firmware can do what is asked for; -EBUSY: out of place. Never
 * blocks.
 */
int vgpu_governor_step(struct vgpu_governor *g, const struct vgpu_governor_event *event,
		       struct vgpu_governor_output *out);

/* Returns when TIMER is due; VGPU_NEVER: never. */
vgpu_nsec vgpu_governor_deadline(const struct vgpu_governor *g);

/* Write the state as of the last step; VF < max_vfs. */
void vgpu_governor_view(const struct vgpu_governor *g, struct vgpu_governor_view *out);
void vgpu_governor_vf_view(const struct vgpu_governor *g, uint32_t vf,
			   struct vgpu_governed_vf_view *out);

/* Writes what the last epoch came to; VF < max_vfs. Unlike the views it asks the policy nothing. */
void vgpu_governor_epoch(const struct vgpu_governor *g, uint32_t vf,
			 struct vgpu_governed_epoch *out);

/* Gives a governor whose memory was copied to where it had been the functions of its policy (NULL:
 * it has none), whose memory was copied likewise. */
void vgpu_governor_rebind(struct vgpu_governor *g, const struct vgpu_policy_ops *policy);

/* Returns a warning to the operator, or NULL: goals of the policy that conflict, or a VF that could
 * stop so late that no plan makes up for it. Valid until the next step. */
const char *vgpu_governor_warning(const struct vgpu_governor *g);

#endif
