/* SPDX-License-Identifier: MIT */
/*
 * The governor: schedules a GPU whose firmware switches between VFs, as one function from events to
 * actions.
 *
 * Firmware gives each VF a turn of one quantum. It neither measures nor charges: a VF that stops
 * late keeps the time that it took. In each epoch the governor reads each VF's service, and lets an
 * unchanged policy (vgpu/policy.h) schedule the same amount of service in virtual time. The
 * difference between the two is a VF's carry. Later turns in virtual time are charged their length
 * and an instalment of the carry, so that the policy's own rules decide which VF pays. The service
 * that the policy gave and still owes determines the next quanta.
 *
 *   TIMER -> read the counters -> USAGE -> the policy divides the epoch -> a program, if a share
 *   would otherwise be off by more than `tolerance_ppm` -> PROGRAMMED
 *
 * Pure, as the core: time is an argument; no system call, clock, allocation or floating point. Not
 * thread-safe: one thread steps one governor.
 */
#pragma once

#include "vgpu/driver.h"
#include "vgpu/param.h"

struct vgpu_governor_config {
	uint32_t max_vfs; /* at most VGPU_GPU_MAX_VFS */
	struct vgpu_setting quantum,
		timeout; /* ranges that the GPU supports; timeout.max 0: no time-out */
	bool keeps_turns, always_keeps_turns; /* as in struct vgpu_driver_caps */
	vgpu_nsec epoch;     /* interval at which counters are read and a plan is made */
	vgpu_nsec rotation;  /* the longest sum of all quanta */
	vgpu_nsec turn;	     /* the mean quantum, where no other length makes shares more exact */
	vgpu_nsec stop;	     /* the preemption time-out to program: how late a VF may stop */
	vgpu_nsec switch_ns; /* the firmware's world switch; 0: not known */
	vgpu_nsec slack;     /* largest service owed by or to a VF that is not corrected. `turn` or
				more: readings may cut turns, on a real clock */
	vgpu_nsec settle;    /* time in which service owed to a VF is paid */
	uint32_t tolerance_ppm; /* a program is written if a share would differ by more than this */
	uint32_t still_epochs;	/* counters that stand still for this many epochs are considered
				   unreliable */
};

enum vgpu_governor_event_type {
	VGPU_GOVERNOR_TIMER = 0,  /* the deadline has come */
	VGPU_GOVERNOR_USAGE,	  /* `active`: the counters of all VFs at `now`; or `error` */
	VGPU_GOVERNOR_PROGRAMMED, /* the last program is in force as `applied`; or `error` */
	VGPU_GOVERNOR_POLICY, /* replace the policy by `policy`, with memory, params and vf_params
			       */
	VGPU_GOVERNOR_SET_POLICY, /* new parameters of the policy in force */
	VGPU_GOVERNOR_SET_VF,	  /* new parameters of `vf` */
	VGPU_GOVERNOR_START,	  /* write the nominal plan, and begin the first epoch */
	VGPU_GOVERNOR_STOP,	  /* write the nominal plan, which then remains in force */
	VGPU_GOVERNOR_BRING, /* the VM of `vf` comes from another host, and `owed` is the service
				beyond its share that it got there; charged here, up to an epoch */
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
	void *memory; /* zeroed, policy->memory(max_vfs) bytes; owned by the governor until
			 `retired` */
	const int64_t *params;
	const int64_t *vf_params; /* max_vfs rows of VGPU_MAX_PARAMS */
};

struct vgpu_governor_output {
	bool read;    /* read the counters of all VFs, and step USAGE */
	bool program; /* program `plan`, and step PROGRAMMED when it is in force */
	bool closed;  /* an epoch has ended, and its counters are valid */
	struct vgpu_program plan;
	void *retired;	  /* memory of a policy, which the caller owns again; or NULL */
	const char *says; /* a sentence for the log; or NULL */
	const char *why;  /* if the event was refused: the reason. Valid until the next step */
};

/* The origin of the present schedule. */
enum vgpu_governor_mode {
	VGPU_GOVERNOR_NONE = 0, /* no policy yet */
	VGPU_GOVERNOR_STATIC,	/* the policy's shares are programmed once */
	VGPU_GOVERNOR_GOVERNED, /* the governor corrects the policy's shares in each epoch */
	VGPU_GOVERNOR_STILL,	/* no counter moves: the static plan holds until one does */
	VGPU_GOVERNOR_FAULTY,	/* the policy broke its contract: the static plan holds */
	VGPU_GOVERNOR_STOPPED,
};

/*
 * The accounts of a VF's service, nanoseconds. When a step has ended, served + brought = charged +
 * carry + lapsed.
 */
struct vgpu_governed_ledger {
	vgpu_nsec served;  /* service read from its counter */
	vgpu_nsec brought; /* service got on another host, to be charged here */
	vgpu_nsec charged; /* service that the policy charged */
	int64_t carry;	   /* service beyond what the policy gave, and not charged yet */
	int64_t lapsed; /* service never charged. Below 0: service that the VF had no work to use,
			   and that is not owed */
};

enum vgpu_governed_state {
	VGPU_GOVERNED_ASLEEP = 0, /* it had no service in the last epoch */
	VGPU_GOVERNED_PARTIAL,	  /* it left turns unused: it had work for a part of the epoch */
	VGPU_GOVERNED_BUSY,
};

/* The present promises of firmware and governor to a VF, in addition to struct vgpu_bound. */
struct vgpu_governed_bound {
	/* The most by which the VF's service differs, whenever counters are read, from its policy's
	 * ideal; VGPU_NEVER: no promise. Grows only with the largest carry so far, with write-offs,
	 * and with service withheld from VFs whose need was in doubt. */
	vgpu_nsec max_lag;
	vgpu_nsec max_wait; /* the wait that the firmware alone guarantees, for any plan;
			       VGPU_NEVER: it has no time-outs */
	/* The firmware alone gives the VF this part of the time, if it always has work. */
	uint32_t least_ppm;
	/* For a policy that serves VFs in an order: the part of the time that VFs get which should
	 * wait, because the firmware cannot skip a VF that has work. */
	uint32_t leak_ppm;
};

struct vgpu_governed_vf_view {
	enum vgpu_governed_state state;
	vgpu_nsec quantum, timeout; /* values in force */
	vgpu_nsec late;		    /* estimate: service beyond the quantum, per turn */
	int64_t owed; /* service that the policy owes, as of the end of the last epoch */
	struct vgpu_governed_ledger ledger;
	struct vgpu_governed_bound bound;
};

/* The result of one epoch for one VF. */
struct vgpu_governed_epoch {
	enum vgpu_governed_state state;
	vgpu_nsec served, late; /* service in the epoch; estimate of the lateness per turn */
	int64_t owed;		/* service that the policy owes, as of the end of the epoch */
	struct vgpu_governed_ledger ledger;
};

struct vgpu_governor_view {
	enum vgpu_governor_mode mode;
	const struct vgpu_policy_ops *policy;
	/* wall = sum of served + idle + unread */
	vgpu_nsec wall, idle, unread;
	vgpu_nsec length; /* length of the last epoch */
	uint64_t epochs, plans;
	uint64_t writes;	  /* settings of VFs that a plan changed */
	uint64_t clamped, failed; /* settings that the GPU changed; programs that it refused */
	bool keep_turns;
};

struct vgpu_governor;

/* Writes defaults for a GPU that supports QUANTUM and TIMEOUT. */
void vgpu_governor_defaults(struct vgpu_governor_config *config, uint32_t max_vfs,
			    struct vgpu_setting quantum, struct vgpu_setting timeout);

/* Bytes of memory that vgpu_governor_init needs. */
size_t vgpu_governor_size(void);

/*
 * Makes a governor in MEMORY (the caller's, zeroed, aligned as by malloc) at instant NOW, without a
 * policy. APPLIED is the schedule in force, as read from the GPU. Returns NULL if the smallest
 * quanta of all VFs exceed the rotation, or a range is empty.
 */
struct vgpu_governor *vgpu_governor_init(void *memory, const struct vgpu_governor_config *config,
					 const struct vgpu_program *applied, vgpu_nsec now);

/*
 * Applies one event. Returns 0; or, with out->why and nothing changed: -EINVAL: the policy refuses
 * the parameters; -EOPNOTSUPP: no firmware supports the request; -EBUSY: the event does not fit the
 * present state. Never blocks.
 */
int vgpu_governor_step(struct vgpu_governor *g, const struct vgpu_governor_event *event,
		       struct vgpu_governor_output *out);

/* Returns when TIMER is due; VGPU_NEVER: never. */
vgpu_nsec vgpu_governor_deadline(const struct vgpu_governor *g);

/* Write the state as of the last step; VF < max_vfs. */
void vgpu_governor_view(const struct vgpu_governor *g, struct vgpu_governor_view *out);
void vgpu_governor_vf_view(const struct vgpu_governor *g, uint32_t vf,
			   struct vgpu_governed_vf_view *out);

/* Writes the result of the last epoch; VF < max_vfs. Unlike the views it does not call the
 * policy. */
void vgpu_governor_epoch(const struct vgpu_governor *g, uint32_t vf,
			 struct vgpu_governed_epoch *out);

/* Restores the function pointers of a governor whose memory, and its policy's, was copied back to
 * its original address. POLICY may be NULL if there is none. */
void vgpu_governor_rebind(struct vgpu_governor *g, const struct vgpu_policy_ops *policy);

/* Returns a warning to the operator, or NULL: the policy's goals conflict, or a VF may stop so late
 * that no plan compensates for it. Valid until the next step. */
const char *vgpu_governor_warning(const struct vgpu_governor *g);
