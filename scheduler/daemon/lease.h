/* SPDX-License-Identifier: MIT */
/*
 * Leases: which VF belongs to which VM, by the VM's UUID. Each change is saved whole, so that a
 * vgpud that is started again knows them, with the parameters of their VFs; the file lies in /run,
 * and goes with the VMs at a reboot. Control thread.
 */
#ifndef DAEMON_LEASE_H
#define DAEMON_LEASE_H

#include "vgpu/types.h"

/* RESERVED is for a VM that is being started, and only for a time. */
enum lease_state { LEASE_NONE = 0, LEASE_RESERVED, LEASE_RUNNING, LEASE_STATES };
extern const char *const lease_state_names[LEASE_STATES];

struct lease {
	enum lease_state state;
	char uuid[37], domain[256], slice[64];
	vgpu_nsec expires; /* CLOCK_MONOTONIC; of a reservation */
	vgpu_nsec since;   /* it has had this state */
	uint32_t on_hang;  /* enum claim_on_hang */
	bool hung;	   /* that is due, and libvirt has not been told yet */
	char said[160];	   /* why its changed claim was refused, as last logged */
	/* What the VM's VF has, by name, also of policies that are in force no more, or do not know
	 * it: the next one may. NULL: not known yet. */
	struct json_object *params;
};

struct control;
struct gpu;

/* The parameters of a VF's lease, up to date; the lease's. */
struct json_object *lease_params(struct gpu *gpu, uint32_t vf);
/* Somebody else's from now on. */
void lease_clear(struct lease *l);

/* The lease of a VM's slice (NULL: of any slice), or NULL. *GPU and *VF: where. */
struct lease *lease_find(struct control *control, const char *uuid, const char *slice,
			 struct gpu **gpu, uint32_t *vf);

/* Writes the file, and reads it. What cannot be written is logged; what cannot be read, or names
 * GPUs that are no longer there, is dropped with a word in the log. */
void leases_save(struct control *control);
void leases_load(struct control *control);

#endif
