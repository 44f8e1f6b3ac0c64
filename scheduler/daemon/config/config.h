/* SPDX-License-Identifier: MIT */
/*
 * The configuration file: sections and key = value lines, read with its drop-ins (FILE.d, *.conf,
 * by name; what comes later wins). The table in config_keys.c has the keys, their ranges and
 * meaning; the parameters of a policy come from the policy's own table.
 */
#pragma once

#include <stdio.h>

#include "engine/engine_request.h"
#include "claim.h"

/* Values of a VF's key "pinned", in the order of its choices. */
enum { PINNED_AUTO = 0, PINNED_YES, PINNED_NO };

#define CONFIG_MAX_GPUS 64u
#define CONFIG_MAX_PROFILES 32u
#define CONFIG_DEFAULT_GROUP "vgpu"
#define CONFIG_TENANT_GROUP "vgpu-run"
#define CONFIG_MAX_TENANTS 64u
#define CONFIG_NOBODY UINT32_MAX
#define CONFIG_DEFAULT_FILE "/etc/vgpud/vgpud.conf"

/* A place in the configuration: the file, by its number in config.files (0: the main file), and the
 * line (0: no single line). */
struct config_place {
	uint16_t file;
	uint16_t line;
};
#define CONFIG_MAX_FILES 256u
#define CONFIG_FILE_NAME 256u

/* Memory and parameters under a name that claims can refer to. */
struct profile {
	char name[32];
	int64_t memory_mib; /* 0: any */
	uint32_t n_params;
	struct claim_param params[CLAIM_MAX_PARAMS];
};

/* The limits of a user, of the members of a group, or of all others: [tenant WHO]. */
struct tenant_config {
	char name[40]; /* as written */
	enum { TENANT_OTHERS = 0, TENANT_USER, TENANT_GROUP } who;
	uint32_t number; /* uid or gid; CONFIG_NOBODY: this host has no such user or group */
	bool unanswered; /* the lookup of NAME has not ended (names.h): CONFIG_NOBODY until then */
	struct config_place at;
	int64_t leases, memory_mib, weight, share_percent, limit_percent;
	char gpus[160];
};

struct gpu_config {
	char name[32];
	char device[160];
	char layout[16];
	char policy[32];
	char pool[32];	/* name by which domains may claim a GPU of this pool; "": none */
	char door[108]; /* vulkan:DEVICE: path of its socket */
	char wall[16];	/* likewise: auto, off or a driver of the kernel */
	int64_t vfs, pf_reserve_mib, interrupts, gpu_reset, realtime, spin_us, watch;
	int64_t min_slice_us, switch_least_us, grace_ms, window_max_ms, lone_slice_ms, debt_cap_ms;
	int64_t memory_mib[VGPU_GPU_MAX_VFS];
	int64_t on_demand; /* VFs of memory_mib 0 have no memory until a VM claims some */
	int64_t vgpu_type; /* 0: none */
	int64_t placement; /* enum vgpu_placement */
	int64_t host_memory_mib, huge_pages, host_node, epoch_ms;
	int64_t pinned[VGPU_GPU_MAX_VFS]; /* PINNED_ */
	bool mistaken; /* a line of its sections is wrong, so dependent checks are skipped */
	/* The last lines about the policy or its parameters, and about each VF's; else the
	 * section's. */
	struct config_place policy_at, vf_at[VGPU_GPU_MAX_VFS];
	/* the policy, and values in the order of its tables of parameters */
	const struct vgpu_policy_ops *ops;
	int64_t params[VGPU_MAX_PARAMS];
	int64_t vf_params[VGPU_GPU_MAX_VFS][VGPU_MAX_PARAMS];
};

struct config {
	char file[256];					/* the main file's path */
	char files[CONFIG_MAX_FILES][CONFIG_FILE_NAME]; /* names in FILE.d, from number 1 on */
	char socket[108], hook_socket[108], tenant_socket[108];
	char leases[160]; /* path of the file of leases */
	char live[160];	  /* path of the file of live changes */
	int64_t lease_s, incoming_s, booking_ms, hold_s;
	char bookings[108];    /* socket of vgpud-openstack; "": none */
	char metrics[128];     /* address at which metrics are served; "": none */
	char group[32];	       /* group whose members may read */
	char tenant_group[32]; /* group whose members may run programs and containers */
	char policy_dir[160];  /* directory of plug-ins; "": plug-ins are off */
	uint32_t n_profiles;
	struct profile profiles[CONFIG_MAX_PROFILES];
	uint32_t n_tenants;
	struct tenant_config tenants[CONFIG_MAX_TENANTS];
	uint32_t n_gpus;
	struct gpu_config gpus[CONFIG_MAX_GPUS]; /* last: those beyond N_GPUS are never touched */
};

/* Returns whether a GPU's VFs are gates of its Vulkan driver, for programs and for VMs by
 * vgpud-qemu. */
bool config_is_gated(const struct gpu_config *g);

/* Returns whether programs and containers can get its VFs. */
bool config_takes_tenants(const struct gpu_config *g);
/* Sets OUT to the values of a section [tenant WHO] without keys. */
void config_tenant_default(struct tenant_config *out);

/* Returns the profile of that name, which is CONFIG's, or NULL. */
const struct profile *config_profile(const struct config *config, const char *name);

/*
 * Reads FILE and its drop-ins into OUT. Prints every mistake to ERRORS, one line each with file and
 * line number where it is in one line. Returns 0; -EINVAL if there were mistakes: OUT then has the
 * valid lines; -ENOMEM: OUT is undefined. Names of users and groups are not looked up: names.h.
 */
int config_read(struct config *out, const char *file, FILE *errors);

/* Writes "FILE: " or "FILE:LINE: " for a message. */
void config_print_place(const struct config *config, struct config_place place, FILE *to);

/* The last drop-in, which 'vgpuctl --save' writes: its name, and its path. */
#define CONFIG_SAVED "zz-saved.conf"
void config_saved_path(const char *file, char *out, size_t size);
/* As config_read, but reads the file that is staged at the path of CONFIG_SAVED (vgpu/file.h)
 * instead of that drop-in. */
int config_read_staged(struct config *out, const char *file, FILE *errors);

/* Sets OUT to the configured parameters of POLICY, or to its defaults if another policy is
 * configured. */
void config_usual(const struct gpu_config *gpu, const struct vgpu_policy_ops *policy, int64_t *out);
/* Sets OUT to the configured parameters of a VF, or to the defaults of POLICY if another policy is
 * configured. */
void config_vf_usual(const struct gpu_config *gpu, uint32_t vf,
		     const struct vgpu_policy_ops *policy, int64_t *out);

/* Calls SEE for each key of the configuration with its value as text, section by section. LIVE: the
 * key can change without a restart of vgpud. */
typedef void config_see(void *data, const char *section, const char *key, const char *value,
			bool live);
void config_walk(const struct config *config, config_see *see, void *data);

/* Prints the configuration with all defaults, as a file that config_read reads back unchanged. */
void config_dump(const struct config *config, FILE *to);

/* Fills in OUT for engine_start. OUT points to texts of GPU, which must live as long. */
void config_to_engine(const struct gpu_config *gpu, struct engine_config *out);

/* Prints all keys with their meaning, range and default, for --help-config. */
void config_help(FILE *to);
