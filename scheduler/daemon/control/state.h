/* SPDX-License-Identifier: MIT */
/* The control thread's state: GPUs, leases, and connected clients. Owned by the control thread. */
#ifndef DAEMON_STATE_H
#define DAEMON_STATE_H

#include <event2/event.h>

#include "claim.h"
#include "config/config.h"
#include "engine/engine_request.h"
#include "log.h"
#include "refusal.h"
#include "share.h"
#include "engine/trail.h"
#include "vgpu/record.h"

/* RESERVED: for a VM that is starting; it expires after lease_s. INCOMING: for a VM that comes from
 * another host or from a file, and has not resumed: the VF gets no turn (incoming.h). HELD: for a
 * container that has ended and may start again; until it expires, or is taken by that container. */
enum lease_state {
	LEASE_NONE = 0,
	LEASE_RESERVED,
	LEASE_RUNNING,
	LEASE_INCOMING,
	LEASE_HELD,
	LEASE_STATES
};

struct lease {
	enum lease_state state;
	/* HOST: whose libvirt has the VM (claim.h). Two libvirts may have VMs of the same UUID. */
	char host[CLAIM_HOST_SIZE], uuid[37], domain[256], vf_name[64];
	vgpu_nsec expires;    /* when a reservation ends, CLOCK_MONOTONIC */
	vgpu_nsec resumes_by; /* INCOMING: until when it waits for its VM, CLOCK_MONOTONIC */
	vgpu_nsec owed;	      /* INCOMING: what the VM owes for the time at the other host */
	vgpu_nsec since;      /* when the state began, CLOCK_MONOTONIC */
	uint32_t on_hang;     /* enum claim_on_hang */
	bool hung;	      /* on_hang is due, and vgpud-libvirt has not fetched it yet */
	/* Of a program or a container (tenants/tenant.h): who is charged, and which container it
	 * is. PROCESS is 0, and PIDFD none, while it is reserved or held. */
	enum claim_by by;
	uid_t owner;
	char id[CLAIM_ID_SIZE];
	/* What its engine says of it: image, pod and namespace; NULL: nothing is known. */
	struct json_object *engine_names;
	uint32_t process;
	uint64_t started;	 /* vgpu/process.h */
	uint64_t memory;	 /* that it claims, bytes */
	int pidfd;		 /* -1: not opened yet */
	struct passage *passage; /* its socket (tenants/passage.h); NULL: none */
	vgpu_nsec run_base;	 /* what the VF had run when it was leased; VGPU_NEVER: not known */
	enum { SEAT_NONE = 0, SEAT_ASKED, SEAT_GIVEN } seat; /* what the engine knows of it */
	bool lacks_qemu;				     /* a VM's, without a process: logged */
	bool linked; /* there is a link for vgpud-qemu (vms/vm_door.h) */
	/* A VM's XML, as last seen, has the VF as a PCI device; a container got it while it ran. */
	bool attached;
	char said[160]; /* why its changed claim was refused, as last logged */
	/* What it claims of the policy (claimed.h), by name, NULL: not known; which policy, "":
	 * any; and what of that is not in force, as last logged. */
	struct json_object *claimed;
	char claimed_policy[32], not_in_force[160];
	int64_t set_ppm; /* what a change under way would guarantee it (tenants/limits.h); else 0 */
	/* The VF's parameters by name, with those of earlier policies: a later policy may know them
	 * again. NULL: not read yet. */
	struct json_object *params;
	/* PARAMS come from a vgpud before this one, and are not in force yet. */
	enum { RESTORE_NONE, RESTORE_FIRST, RESTORE_AGAIN } restoring;
};

#define EVENTS 1024u

/* The last answer of capacity_largest_free, and what it was computed from. */
struct largest_free {
	vgpu_nsec switch_ns;
	struct policy_values usual; /* by configuration: of LEAST. No policy: nothing is known */
	int64_t least;		    /* share that can be guaranteed, in per mille; 0: none */
	int32_t vf;		    /* that asked; -1: SHARE is not known */
	struct policy_values values;
	int64_t share; /* in per mille */
};

/* Requests to a GPU's engine (call.h). */
struct gpu_calls {
	uint32_t under_way;   /* at the engine and in the outbox */
	uint32_t for_readers; /* of these, readers' */
	struct call *outbox;  /* that wait until the engine has room */
};

/* Changes of policy and parameters, in order (change.h). */
struct gpu_changes {
	struct call *first;
	bool sent;    /* the first of them is at the engine */
	bool running; /* change_run is: do not enter it again */
};

/* What an operator has set (live.h). */
struct gpu_live {
	bool policy;	 /* policy or parameters */
	vgpu_vf_set vfs; /* VFs whose parameters were set */
	/* Of those without a VM, by name, also under earlier policies; NULL: nothing. */
	struct json_object *set[VGPU_GPU_MAX_VFS];
};

/* What the engine has told, and what was logged of it (events.h). */
struct gpu_heard {
	vgpu_nsec policy_since; /* when the policy in force took over, CLOCK_MONOTONIC */
	uint64_t taken;		/* records of the engine that events_take has looked at */
	uint64_t lost;		/* those that were overwritten before */
	struct trail events;	/* the rare ones, for 'vgpuctl events' */
	char names[EVENTS][64]; /* of each of them, who had its VF then (heard.h) */
	vgpu_vf_set in_use;	/* VFs whose guest driver is up or initialising */
	const char *trouble;	/* engine_trouble, as last logged */
	const char *said;	/* engine_says, as last logged */
	uint32_t n_said;
	vgpu_nsec said_at;
	uint64_t logged; /* messages in this second, for the rate limit */
	uint64_t log_dropped;
};

/* VFs whose tenant is gone, and that were not reset since (clearing.h). */
struct gpu_clearing {
	vgpu_vf_set vfs, asked; /* ASKED: the engine is being asked to do it */
	/* Since when the engine knows that, VGPU_NEVER: it does not; since when the VF is clean.
	 * CLOCK_MONOTONIC. */
	vgpu_nsec since[VGPU_GPU_MAX_VFS], clean_since[VGPU_GPU_MAX_VFS];
};

/* VFs that must still get their usual memory (memory_methods.h). */
struct gpu_sizing {
	vgpu_vf_set wanted, asked; /* ASKED: the engine is being asked to give it */
};

/* What the control thread knows of a GPU. */
struct gpu {
	struct gpu_config *config;
	struct engine *engine;
	struct control *control;
	struct event *readable;
	struct gpu_calls calls;
	struct gpu_changes changes;
	struct gpu_live live;
	struct gpu_heard heard;
	struct gpu_clearing clearing;
	struct gpu_sizing sizing;
	struct largest_free largest_free;
	struct lease leases[VGPU_GPU_MAX_VFS];
};

/* What a line of the log is about: a GPU, a VF and the VM that has it, or a VM. */
static inline struct log_about about_gpu(const struct gpu *gpu, enum log_message message)
{
	return (struct log_about){.message = message, .gpu = gpu->config->name, .vf = -1};
}

static inline struct log_about about_vf(const struct gpu *gpu, uint32_t vf,
					enum log_message message)
{
	const struct lease *l = &gpu->leases[vf];

	return (struct log_about){.message = message,
				  .gpu = gpu->config->name,
				  .vf = (int)vf,
				  .vm = l->state != LEASE_NONE ? l->domain : NULL};
}

static inline struct log_about about_vm(const char *domain, enum log_message message)
{
	return (struct log_about){.message = message, .vm = domain, .vf = -1};
}

/* A running VM whose claim cannot be read: its VFs keep what they have. */
struct unreadable {
	char host[CLAIM_HOST_SIZE], uuid[37], domain[256], why[200];
};
#define UNREADABLE 16u /* others are only logged */

/* A libvirt that reports: libvirts.h. */
struct libvirt {
	char host[CLAIM_HOST_SIZE];
	vgpu_nsec heard; /* CLOCK_MONOTONIC; 0: none */
};
#define LIBVIRTS 16u

/* What vgpud warns of, about VMs that run. */
enum control_warning {
	CONTROL_UNADMITTED = 0, /* vgpud did not admit their claims */
	CONTROL_WRONG_DEVICE,	/* their devices do not go together with their claims */
	CONTROL_MAY_LOSE_STATE, /* QEMU would save or migrate them without the state of their VFs */
	CONTROL_WARNINGS
};

/* Their names in answers of vm.list. */
extern const char *const control_warning_names[CONTROL_WARNINGS];

struct client;

/* Where clients connect (door.h). */
struct control_doors {
	struct door *control, *hook, *tenants;
	unsigned group, tenant_group; /* their gids; (gid_t)-1: it does not exist */
};

/* What libvirts have reported last, by vm.sync (libvirts.h, reconcile.h). */
struct control_reported {
	struct json_object
		*warned[CONTROL_WARNINGS]; /* of which running VMs: by libvirt, by UUID, names */
	uint32_t n_unreadable;
	struct unreadable unreadable[UNREADABLE];
	struct libvirt libvirts[LIBVIRTS];
};

/* config.reload while it has all GPUs to itself (change.h). */
struct control_reloading {
	bool names;	   /* one waits for names, with nothing to itself */
	struct call *call; /* NULL: there is none */
	vgpu_nsec until;
};

struct control {
	struct config *config;
	struct event_base *base;
	struct control_doors doors;
	struct share share;
	struct event *tick, *second;
	struct client *clients;
	struct call *calls;	     /* under way, of all clients, also of disconnected ones */
	struct explained *explained; /* why tenants got no VF (tenants/explained.h) */
	struct control_reported reported;
	struct control_reloading reloading;
	char refused[320];		/* why a running VM got no VF, as last logged */
	struct refusal_counts refusals; /* of VFs, for the metrics */
	uint32_t n_gpus;
	struct gpu gpus[CONFIG_MAX_GPUS]; /* last: those beyond N_GPUS are never touched */
};

#endif
