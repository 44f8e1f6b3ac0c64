/* SPDX-License-Identifier: MIT */
#include "config_keys.h"

#include "config.h"

const char *const config_sections[] = {"daemon", "gpu NAME", "vf NAME/N", "profile NAME"};
static const char *const completions[] = {"poll", "interrupt", NULL};
static const char *const partitions[] = {"equal", "demand", NULL};
static const char *const pins[] = {"auto", "yes", "no", NULL};
static const char *const placements[] = {"best-fit", "profile", NULL};

const struct config_key config_keys[] = {
#define AT(s, f) offsetof(struct s, f), sizeof(((struct s *)0)->f)
	{DAEMON, "socket", TEXT, AT(config, socket), 0, 0, 0, "/run/vgpud/control.sock", NULL,
	 "control socket"},
	{DAEMON, "group", TEXT, AT(config, group), 0, 0, 0, "vgpu", NULL,
	 "members of this group may look, root may change"},
	{DAEMON, "policy_dir", TEXT, AT(config, policy_dir), 0, 0, 0, "", NULL,
	 "where policies that are not built in are loaded from, NAME.so; empty: nowhere"},
	{DAEMON, "hook_socket", TEXT, AT(config, hook_socket), 0, 0, 0, "", NULL,
	 "where libvirt's hook is answered, for root alone; empty: hook.sock beside socket"},
	{DAEMON, "leases", TEXT, AT(config, leases), 0, 0, 0, "", NULL,
	 "which VM has which VF, over a restart of vgpud; empty: leases.json beside socket"},
	{DAEMON, "lease_s", INT, AT(config, lease_s), 1, 86400, 120, NULL, NULL,
	 "how long a VF is reserved for a VM that is being started, seconds"},
	{DAEMON, "metrics", TEXT, AT(config, metrics), 0, 0, 0, "", NULL,
	 "figures for Prometheus: 127.0.0.1:PORT, [::1]:PORT or unix:PATH; empty: off"},
	{GPU, "device", TEXT, AT(gpu_config, device), 0, 0, 0, "", NULL,
	 "the PF: sysfs:ADDRESS, vfio:ADDRESS or vfio-user:PATH; null:OPTIONS: no GPU at all, to "
	 "measure vgpud alone; required"},
	{GPU, "layout", TEXT, AT(gpu_config, layout), 0, 0, 0, "auto", NULL,
	 "GPU-IOV register layout: auto, navi or tonga"},
	{GPU, "vfs", INT, AT(gpu_config, vfs), 1, VGPU_GPU_MAX_VFS, 4, NULL, NULL,
	 "virtual functions to enable"},
	{GPU, "policy", TEXT, AT(gpu_config, policy), 0, 0, 0, "fair", NULL,
	 "who runs when: a policy that is built in, or NAME of policy_dir"},
	{GPU, "pool", TEXT, AT(gpu_config, pool), 0, 0, 0, "", NULL,
	 "a name that domains may give instead of the GPU's, shared by GPUs that are as good"},
	{GPU, "pf_reserve_mib", INT, AT(gpu_config, pf_reserve_mib), 0, 1 << 20, 16, NULL, NULL,
	 "memory kept for the PF, MiB"},
	{GPU, "partition", CHOICE, AT(gpu_config, on_demand), 0, 1, 0, NULL, partitions,
	 "memory of VFs without memory_mib: an equal part of the rest, or what a VM claims, on "
	 "demand"},
	{GPU, "placement", CHOICE, AT(gpu_config, placement), 0, 1, 0, NULL, placements,
	 "where partitions lie: best-fit, or as profile, 1/1, 1/2, 1/4 ... of all, on multiples of "
	 "their size"},
	{GPU, "host_memory_mib", INT, AT(gpu_config, host_memory_mib), 0, 1 << 20, 0, NULL, NULL,
	 "VFs have so much together, MiB, instead of what the GPU has; those that have no room "
	 "there are swapped to host memory, which is locked; 0: none are"},
	{GPU, "host_huge_pages", BOOL, AT(gpu_config, huge_pages), 0, 1, 0, NULL, NULL,
	 "whether host memory is of huge pages"},
	{GPU, "host_node", INT, AT(gpu_config, host_node), -1, 1023, -1, NULL, NULL,
	 "NUMA node of host memory; -1: the GPU's"},
	{GPU, "epoch_ms", INT, AT(gpu_config, epoch_ms), 10, 600000, 2000, NULL, NULL,
	 "how long a VF with work keeps its place on the GPU, at least, while others wait for one, "
	 "milliseconds"},
	{GPU, "completion", CHOICE, AT(gpu_config, interrupts), 0, 1, 1, NULL, completions,
	 "how the end of a command is noticed: interrupt or poll"},
	{GPU, "gpu_reset", BOOL, AT(gpu_config, gpu_reset), 0, 1, 0, NULL, NULL,
	 "whether the whole GPU may be reset if a VF's reset fails; all tenants lose their work"},
	{GPU, "realtime", BOOL, AT(gpu_config, realtime), 0, 1, 1, NULL, NULL,
	 "run the engine thread as SCHED_FIFO"},
	{GPU, "min_slice_us", INT, AT(gpu_config, min_slice_us), 100, 100000, 500, NULL, NULL,
	 "shortest slice, microseconds"},
	{GPU, "grace_ms", INT, AT(gpu_config, grace_ms), 1, 10000, 50, NULL, NULL,
	 "a VF that does not stop within this time is reset, milliseconds"},
	{GPU, "window_max_ms", INT, AT(gpu_config, window_max_ms), 10, 10000, 1000, NULL, NULL,
	 "longest exclusive window of a guest driver, milliseconds"},
	{GPU, "lone_slice_ms", INT, AT(gpu_config, lone_slice_ms), 1, 10000, 500, NULL, NULL,
	 "slice of a VF that nobody contends with, milliseconds"},
	{GPU, "debt_cap_ms", INT, AT(gpu_config, debt_cap_ms), 1, 10000, 100, NULL, NULL,
	 "most that one turn is charged beyond its slice, milliseconds"},
	{VF, "memory_mib", INT, AT(gpu_config, memory_mib), 0, 1 << 20, 0, NULL, NULL,
	 "partition, MiB; 0: as partition in [gpu NAME] says"},
	{VF, "pinned", CHOICE, AT(gpu_config, pinned), 0, 2, 0, NULL, pins,
	 "whether it is never swapped to host memory; auto: if its policy guarantees it time"},
	{PROFILE, "memory_mib", INT, AT(profile, memory_mib), 0, 1 << 20, 0, NULL, NULL,
	 "partition, MiB, at least; 0: any; all other keys are parameters of the GPU's policy"},
#undef AT
	{.name = NULL},
};
