/* SPDX-License-Identifier: MIT */
/*
 * The configuration file: sections and key = value lines, read with its drop-ins (FILE.d, *.conf,
 * by name; what comes later wins). One table says which keys there are, what they may be and what
 * they mean; the parameters of the policies come from the policies' own tables.
 */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H

#include <stdio.h>

#include "engine.h"
#include "claim.h"

/* As the choices of a VF's key go. */
enum { PINNED_AUTO = 0, PINNED_YES, PINNED_NO };

#define CONFIG_MAX_GPUS 8u
#define CONFIG_MAX_PROFILES 32u
#define CONFIG_DEFAULT_FILE "/etc/vgpud/vgpud.conf"

/* What a claim can name instead of saying it all. */
struct profile {
	char name[32];
	int64_t memory_mib; /* 0: any */
	uint32_t n_params;
	struct claim_param params[CLAIM_MAX_PARAMS];
};

struct gpu_config {
	char name[32];
	char device[160];
	char layout[16];
	char policy[32];
	char pool[32]; /* domains may name it instead of the GPU; "": none */
	int64_t vfs, pf_reserve_mib, interrupts, gpu_reset, realtime;
	int64_t min_slice_us, grace_ms, window_max_ms, lone_slice_ms, debt_cap_ms;
	int64_t memory_mib[VGPU_GPU_MAX_VFS];
	int64_t on_demand; /* VFs of memory_mib 0 have none until a VM needs some */
	int64_t placement; /* enum vgpu_placement */
	int64_t host_memory_mib, huge_pages, host_node, epoch_ms;
	int64_t pinned[VGPU_GPU_MAX_VFS]; /* PINNED_ */
	/* by the policy's tables */
	const struct vgpu_policy_ops *ops;
	int64_t params[VGPU_MAX_PARAMS];
	int64_t vf_params[VGPU_GPU_MAX_VFS][VGPU_MAX_PARAMS];
};

struct config {
	char socket[108], hook_socket[108];
	char leases[160]; /* the file that they are saved in */
	int64_t lease_s;
	char metrics[128];    /* where they are offered; "": nowhere */
	char group[32];	      /* may read */
	char policy_dir[160]; /* of plug-ins; "": off */
	uint32_t n_gpus;
	struct gpu_config gpus[CONFIG_MAX_GPUS];
	uint32_t n_profiles;
	struct profile profiles[CONFIG_MAX_PROFILES];
};

/* The profile of that name, or NULL. */
const struct profile *config_profile(const struct config *config, const char *name);

/*
 * Reads FILE and its drop-ins. All that is wrong is printed to ERRORS, a line each with file and
 * line number; returns 0, or -EINVAL if there was any, with OUT undefined.
 */
int config_read(struct config *out, const char *file, FILE *errors);

/* The configuration as a file that config_read reads to the same. */
void config_dump(const struct config *config, FILE *to);

/* What the engine makes of a GPU's configuration. */
void config_to_engine(const struct gpu_config *gpu, struct engine_config *out);

/* Prints the keys, their defaults and meaning, for --help-config. */
void config_help(FILE *to);

#endif
