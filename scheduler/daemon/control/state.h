/* SPDX-License-Identifier: MIT */
/* The control thread's state: GPUs, leases, and connected clients. Owned by the control thread. */
#pragma once

#include <event2/event.h>

#include "claim.h"
#include "config/config.h"
#include "engine/engine_request.h"
#include "log.h"
#include "refusal.h"
#include "share.h"
#include "engine/trail.h"
#include "vgpu/record.h"

/* RESERVED: for a VM that is starting; expires after lease_s. INCOMING: for a VM that is being
 * migrated or restored and has not resumed: the VF gets no turn (incoming.h). HELD: for a container
 * that has ended and may start again; until it expires, or the container takes it. */
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
	/* HOST: the libvirt of the VM (claim.h). VMs of two libvirts may have the same UUID. */
	char host[CLAIM_HOST_SIZE], uuid[37], domain[256], vf_name[64];
	vgpu_nsec expires;    /* CLOCK_MONOTONIC; RESERVED and HELD */
	vgpu_nsec resumes_by; /* INCOMING: how long it waits for its VM, CLOCK_MONOTONIC */
	vgpu_nsec owed;	      /* INCOMING: the VM's debt from the other host */
	vgpu_nsec since;      /* when the state began, CLOCK_MONOTONIC */
	uint32_t on_hang;     /* enum claim_on_hang */
	bool hung;	      /* on_hang is due, and vgpud-libvirt has not fetched it yet */
	/* For a program or a container (tenants/tenant.h): the user to charge, and the container.
	 * PROCESS is 0, and PIDFD none, while it is reserved or held. */
	enum claim_by by;
	uid_t owner;
	char id[CLAIM_ID_SIZE];
	/* The engine's names for it: image, pod and namespace; NULL: unknown. */
	struct json_object *engine_names;
	uint32_t process;
	uint64_t started; /* vgpu/process.h */
	/* Of a container's lease on a gated GPU: the process that computes for it; 0: none. */
	uint32_t worker;
	uint64_t worker_started;
	/* When the lease ends whose VF is being taken from processes that go on; 0: it is not. */
	vgpu_nsec loses_by;
	uint64_t memory;	 /* memory that it claims, bytes */
	int pidfd;		 /* -1: not opened yet */
	struct passage *passage; /* the lease's socket (tenants/passage.h); NULL: none */
	vgpu_nsec
		run_base; /* the VF's run time at the beginning of the lease; VGPU_NEVER: unknown */
	enum {
		SEAT_NONE = 0,
		SEAT_ASKED,
		SEAT_GIVEN
	} seat;		 /* whether the engine knows the lease's process */
	bool lacks_qemu; /* a VM's lease without a process; logged */
	bool linked;	 /* vgpud-qemu has a link (vms/vm_door.h) */
	/* A VM's XML, as last seen, has the VF as a PCI device; or a container got it while it
	 * ran. */
	bool attached;
	char said[160]; /* the refusal of a changed claim, as last logged */
	/* The claimed parameters (claimed.h), by name, NULL: unknown; the claimed policy, "": any;
	 * and the part of the claim that is not in force, as last logged. */
	struct json_object *claimed;
	char claimed_policy[32], not_in_force[160];
	int64_t set_ppm; /* the guarantee that a change in progress would give it
			    (tenants/limits.h); else 0 */
	/* The VF's parameters by name, including those of earlier policies, which a later policy
	 * may have again. NULL: not read yet. */
	struct json_object *params;
	/* PARAMS come from an earlier vgpud, and are not in force yet. */
	enum { RESTORE_NONE, RESTORE_FIRST, RESTORE_AGAIN } restoring;
};

#define EVENTS 1024u

/* The last answer of capacity_largest_free, and its inputs. */
struct largest_free {
	vgpu_nsec switch_ns;
	struct policy_values usual; /* configured values: the input of LEAST. No policy: unknown */
	int64_t least; /* smallest share that can be guaranteed, in per mille; 0: none */
	int32_t vf;    /* the VF of the question; -1: SHARE is unknown */
	struct policy_values values;
	int64_t share; /* in per mille */
};

/* Requests to a GPU's engine (call.h). */
struct gpu_calls {
	uint32_t under_way;   /* at the engine and in the outbox */
	uint32_t for_readers; /* of these, the readers' */
	struct call *outbox;  /* requests that wait until the engine has room */
};

/* Changes of policy and parameters, in order (change.h). */
struct gpu_changes {
	struct call *first;
	bool sent;    /* the first one is at the engine */
	bool running; /* change_run is running: do not enter it again */
};

/* The operator's live changes (live.h). */
struct gpu_live {
	bool policy;	 /* policy or parameters */
	vgpu_vf_set vfs; /* VFs whose parameters were set */
	/* Parameters of VFs without a VM, by name, including earlier policies'; NULL: none. */
	struct json_object *set[VGPU_GPU_MAX_VFS];
};

/* The engine's records, and their log (events.h). */
struct gpu_heard {
	vgpu_nsec policy_since; /* when the policy in force took over, CLOCK_MONOTONIC */
	uint64_t taken;		/* number of the engine's records that events_take has processed */
	uint64_t lost;		/* records that were overwritten before that */
	struct trail events;	/* the rare ones, for 'vgpuctl events' */
	char names[EVENTS][64]; /* for each of them, the VF's tenant at that time (heard.h) */
	vgpu_vf_set in_use;	/* VFs whose guest driver is up or initialising */
	const char *trouble;	/* engine_trouble, as last logged */
	const char *said;	/* engine_says, as last logged */
	uint32_t n_said;
	vgpu_nsec said_at;
	uint64_t logged; /* messages in this second, for the rate limit */
	uint64_t log_dropped;
};

/* VFs whose tenant is gone, and that have not been reset since (clearing.h). */
struct gpu_clearing {
	vgpu_vf_set vfs, asked; /* ASKED: the request is at the engine */
	/* When the engine learned of it, VGPU_NEVER: not yet; when the VF became clean.
	 * CLOCK_MONOTONIC. */
	vgpu_nsec since[VGPU_GPU_MAX_VFS], clean_since[VGPU_GPU_MAX_VFS];
};

/* VFs that must still get their usual memory (memory_methods.h). */
struct gpu_sizing {
	vgpu_vf_set wanted, asked; /* ASKED: the request is at the engine */
};

/* The control thread's state of a GPU. */
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

/* The subject of a log line: a GPU, a VF and its VM, or a VM. */
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

/* A running VM whose claim is unreadable: its VFs stay unchanged. */
struct unreadable {
	char host[CLAIM_HOST_SIZE], uuid[37], domain[256], why[200];
};
#define UNREADABLE 16u /* further ones are only logged */

/* A libvirt that reports: libvirts.h. */
struct libvirt {
	char host[CLAIM_HOST_SIZE];
	vgpu_nsec heard; /* last report, CLOCK_MONOTONIC; 0: none */
};
#define LIBVIRTS 16u

/* Warnings about running VMs. */
enum control_warning {
	CONTROL_UNADMITTED = 0, /* vgpud did not admit their claims */
	CONTROL_WRONG_DEVICE,	/* their devices do not match their claims */
	CONTROL_MAY_LOSE_STATE, /* QEMU would save or migrate them without the state of their VFs */
	CONTROL_WARNINGS
};

/* Their names in answers of vm.list. */
extern const char *const control_warning_names[CONTROL_WARNINGS];

struct client;

/* The sockets that clients connect to (door.h). */
struct control_doors {
	struct door *control, *hook, *tenants;
	unsigned group, tenant_group; /* gids; (gid_t)-1: it does not exist */
};

/* The last reports of libvirts, by vm.sync (libvirts.h, reconcile.h). */
struct control_reported {
	struct json_object *warned[CONTROL_WARNINGS]; /* for each warning, the running VMs: by
							 libvirt, by UUID, names */
	uint32_t n_unreadable;
	struct unreadable unreadable[UNREADABLE];
	struct libvirt libvirts[LIBVIRTS];
};

/* The config.reload that has all GPUs to itself (change.h). */
struct control_reloading {
	bool names;	   /* a reload waits for names, and has no GPU to itself */
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
	struct call *calls; /* calls in progress, including those of disconnected clients */
	struct explained *explained; /* the reasons why tenants got no VF (tenants/explained.h) */
	struct control_reported reported;
	struct control_reloading reloading;
	char refused[320];		/* the reason why a running VM got no VF, as last logged */
	struct refusal_counts refusals; /* of VFs, for the metrics */
	uint32_t n_gpus;
	struct gpu gpus[CONFIG_MAX_GPUS]; /* last: those beyond N_GPUS are never touched */
};
