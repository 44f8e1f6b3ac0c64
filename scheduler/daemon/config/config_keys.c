/* SPDX-License-Identifier: MIT */
#include "config_keys.h"

#include "config.h"

const char *const config_sections[] = {"daemon", "gpu NAME", "vf NAME/N", "profile NAME",
				       "tenant WHO"};
static const char *const completions[] = {"poll", "interrupt", NULL};
static const char *const partitions[] = {"equal", "demand", NULL};
static const char *const pins[] = {"auto", "yes", "no", NULL};
static const char *const watches[] = {"off", "count", "end", NULL};
static const char *const placements[] = {"best-fit", "profile", NULL};

const struct config_key config_keys[] = {
#define AT(s, f) offsetof(struct s, f), sizeof(((struct s *)0)->f)
	{DAEMON, RESTART, "socket", TEXT, AT(config, socket), 0, 0, 0, "/run/vgpud/control.sock",
	 NULL, "path of the control socket, which vgpuctl uses"},
	{DAEMON, RESTART, "group", TEXT, AT(config, group), 0, 0, 0, CONFIG_DEFAULT_GROUP, NULL,
	 "group whose members may read everything; only root may change anything"},
	{DAEMON, LIVE, "policy_dir", TEXT, AT(config, policy_dir), 0, 0, 0, "", NULL,
	 "directory of policies that are not built in, NAME.so; empty: none"},
	{DAEMON, RESTART, "hook_socket", TEXT, AT(config, hook_socket), 0, 0, 0, "", NULL,
	 "path of the socket for libvirt's hook, root only; empty: hook.sock beside socket"},
	{DAEMON, RESTART, "leases", TEXT, AT(config, leases), 0, 0, 0, "", NULL,
	 "file that records which VM holds which VF across restarts; empty: leases.json beside "
	 "socket"},
	{DAEMON, RESTART, "live", TEXT, AT(config, live), 0, 0, 0, "", NULL,
	 "file that records changes made without --save, for the next vgpud after a crash; empty: "
	 "live.json beside socket"},
	{DAEMON, LIVE, "lease_s", INT, AT(config, lease_s), 1, 86400, 120, NULL, NULL,
	 "how long a VF stays reserved for a VM that is starting, seconds"},
	{DAEMON, LIVE, "incoming_s", INT, AT(config, incoming_s), 1, 86400, 600, NULL, NULL,
	 "how long the VF of a migrated or restored VM waits for the VM to resume, seconds; then "
	 "it is scheduled anyway"},
	{DAEMON, LIVE, "bookings", TEXT, AT(config, bookings), 0, 0, 0, "", NULL,
	 "path of the socket that says which GPU OpenStack's placement has booked for a VM "
	 "(vgpud-openstack): hosts with several GPUs; empty: vgpud chooses the GPU"},
	{DAEMON, LIVE, "booking_ms", INT, AT(config, booking_ms), 10, 5000, 2000, NULL, NULL,
	 "how long the start of a VM waits for that answer, milliseconds; then vgpud chooses the "
	 "GPU"},
	{DAEMON, RESTART, "tenant_socket", TEXT, AT(config, tenant_socket), 0, 0, 0, "", NULL,
	 "path of the socket for programs and containers; empty: /run/vgpud-tenant/tenant.sock, or "
	 "tenant.sock beside a socket that is elsewhere"},
	{DAEMON, RESTART, "tenant_group", TEXT, AT(config, tenant_group), 0, 0, 0,
	 CONFIG_TENANT_GROUP, NULL,
	 "group whose members may run programs and containers with a VF, within the limits of "
	 "[tenant WHO]"},
	{DAEMON, LIVE, "hold_s", INT, AT(config, hold_s), 0, 600, 5, NULL, NULL,
	 "how long the VF of a container that has ended is kept for its restart, seconds"},
	{DAEMON, RESTART, "metrics", TEXT, AT(config, metrics), 0, 0, 0, "", NULL,
	 "address that serves metrics to Prometheus: ADDRESS:PORT, [IPV6-ADDRESS]:PORT or "
	 "unix:PATH; an address other than 127.0.0.1 and [::1] is open to everyone who can "
	 "connect, without TLS; empty: none"},
	{GPU, RESTART, "device", TEXT, AT(gpu_config, device), 0, 0, 0, "", NULL,
	 "GPU to schedule, or its PF; required: "}, /* config_help() adds the forms */
	{GPU, RESTART, "layout", TEXT, AT(gpu_config, layout), 0, 0, 0, "auto", NULL,
	 "GPU-IOV register layout: auto, navi, tonga or soft"},
	{GPU, RESTART, "vfs", INT, AT(gpu_config, vfs), 1, VGPU_GPU_MAX_VFS, 4, NULL, NULL,
	 "number of virtual functions to enable; 31 at most of a GPU that vgpud switches, because "
	 "GPU-IOV's registers have 32 bits, one for the PF and one for each VF"},
	{GPU, RESTART, "vgpu_type", INT, AT(gpu_config, vgpu_type), 0, 1 << 20, 0, NULL, NULL,
	 "nvidia:ADDRESS only: number of the vGPU type, from the VF's nvidia/creatable_vgpu_types, "
	 "that VFs without one get at the start; 0: VFs stay as they are"},
	{GPU, LIVE, "policy", TEXT, AT(gpu_config, policy), 0, 0, 0, "fair", NULL,
	 "policy that decides which VF runs when: a built-in one, or NAME of policy_dir"},
	{GPU, LIVE, "pool", TEXT, AT(gpu_config, pool), 0, 0, 0, "", NULL,
	 "name of a pool of similar GPUs, which domains may claim instead of one GPU; empty: no "
	 "pool"},
	{GPU, RESTART, "door", TEXT, AT(gpu_config, door), 0, 0, 0, "", NULL,
	 "vulkan:DEVICE only: path of the socket at which programs started by \"vgpuctl run\" "
	 "connect to vgpud; empty: NAME.door beside socket"},
	{GPU, RESTART, "wall", TEXT, AT(gpu_config, wall), 0, 0, 0, "auto", NULL,
	 "vulkan:DEVICE only: the kernel's driver whose submit calls wait in the kernel while the "
	 "gate is shut: auto (that of the GPU, if vgpud knows its calls), off, or a driver"},
	{GPU, RESTART, "watch", CHOICE, AT(gpu_config, watch), 0, 2, 0, NULL, watches,
	 "vulkan:ADDRESS only: whether vgpud reads what the kernel's driver counts for programs: "
	 "off, count (report VFs that compute while their gate is shut) or end (also end the "
	 "programs of such a VF)"},
	{GPU, RESTART, "pf_reserve_mib", INT, AT(gpu_config, pf_reserve_mib), 0, 1 << 20, 16, NULL,
	 NULL, "memory reserved for the PF, MiB"},
	{GPU, RESTART, "partition", CHOICE, AT(gpu_config, on_demand), 0, 1, 0, NULL, partitions,
	 "memory of VFs without memory_mib: equal (an equal part of the rest) or demand (what a VM "
	 "claims, when it starts)"},
	{GPU, RESTART, "placement", CHOICE, AT(gpu_config, placement), 0, 1, 0, NULL, placements,
	 "where partitions lie: best-fit, or profile (1/1, 1/2, 1/4 ... of the memory, at "
	 "multiples of their size)"},
	{GPU, RESTART, "host_memory_mib", INT, AT(gpu_config, host_memory_mib), 0, 1 << 20, 0, NULL,
	 NULL,
	 "total memory offered to VFs, MiB; what does not fit on the GPU is swapped to locked host "
	 "memory; 0: no swapping"},
	{GPU, RESTART, "host_huge_pages", BOOL, AT(gpu_config, huge_pages), 0, 1, 0, NULL, NULL,
	 "allocate host memory in huge pages"},
	{GPU, RESTART, "host_node", INT, AT(gpu_config, host_node), -1, 1023, -1, NULL, NULL,
	 "NUMA node of host memory; -1: the GPU's node"},
	{GPU, RESTART, "epoch_ms", INT, AT(gpu_config, epoch_ms), 10, 600000, 2000, NULL, NULL,
	 "shortest time that a VF with work stays on the GPU while others wait to be swapped in, "
	 "milliseconds"},
	{GPU, RESTART, "completion", CHOICE, AT(gpu_config, interrupts), 0, 1, 1, NULL, completions,
	 "how vgpud learns that a command has ended: interrupt or poll"},
	{GPU, RESTART, "gpu_reset", BOOL, AT(gpu_config, gpu_reset), 0, 1, 0, NULL, NULL,
	 "reset the whole GPU if the reset of a VF fails; all tenants lose their work; only for "
	 "GPUs that vgpud switches"},
	{GPU, RESTART, "realtime", BOOL, AT(gpu_config, realtime), 0, 1, 1, NULL, NULL,
	 "run the engine thread with real-time priority (SCHED_FIFO)"},
	{GPU, RESTART, "spin_us", INT, AT(gpu_config, spin_us), 0, 200, 0, NULL, NULL,
	 "how long the engine thread busy-waits before each slice end, microseconds; slices end "
	 "more exactly, at a cost of CPU time for each switch"},
	{GPU, RESTART, "min_slice_us", INT, AT(gpu_config, min_slice_us), 100, 100000, 500, NULL,
	 NULL, "shortest slice, microseconds"},
	{GPU, RESTART, "switch_least_us", INT, AT(gpu_config, switch_least_us), 0, 100000, 100,
	 NULL, NULL,
	 "world-switch time that guarantees and the inventory assume, unless a longer one is "
	 "measured, microseconds"},
	{GPU, RESTART, "grace_ms", INT, AT(gpu_config, grace_ms), 1, 10000, 50, NULL, NULL,
	 "time in which a VF must stop before vgpud resets it, milliseconds"},
	{GPU, RESTART, "window_max_ms", INT, AT(gpu_config, window_max_ms), 10, 10000, 1000, NULL,
	 NULL, "longest exclusive window of a guest driver, milliseconds"},
	{GPU, RESTART, "lone_slice_ms", INT, AT(gpu_config, lone_slice_ms), 0, 10000, 0, NULL, NULL,
	 "how often a VF is stopped while no other VF has work, to see that it responds, "
	 "milliseconds; 0: each 500, or not at all on a GPU whose long work can only be killed"},
	{GPU, RESTART, "debt_cap_ms", INT, AT(gpu_config, debt_cap_ms), 1, 10000, 100, NULL, NULL,
	 "most that is charged for one slice beyond its length (overrun, fine, world switches and "
	 "instalment together), milliseconds; the rest is not charged"},
	{VF, RESTART, "memory_mib", INT, AT(gpu_config, memory_mib), 0, 1 << 20, 0, NULL, NULL,
	 "size of the partition, MiB; 0: as the key partition of [gpu NAME] says"},
	{VF, RESTART, "pinned", CHOICE, AT(gpu_config, pinned), 0, 2, 0, NULL, pins,
	 "never swap the VF to host memory; auto: yes if its policy guarantees it time"},
	{PROFILE, LIVE, "memory_mib", INT, AT(profile, memory_mib), 0, 1 << 20, 0, NULL, NULL,
	 "least size of the partition, MiB; 0: any; all other keys are the policy's parameters of "
	 "a VF"},
	{TENANT, LIVE, "leases", INT, AT(tenant_config, leases), 0, VGPU_GPU_MAX_VFS, 4, NULL, NULL,
	 "how many programs and containers may have a VF at a time; WHO is a user, @GROUP or * "
	 "for all others; a user's own section counts, else that of the first of his groups"},
	{TENANT, LIVE, "memory_mib", INT, AT(tenant_config, memory_mib), 0, 1 << 24, 0, NULL, NULL,
	 "memory of all these VFs together, MiB; 0: any"},
	{TENANT, LIVE, "weight", INT, AT(tenant_config, weight), 0, 10000, 0, NULL, NULL,
	 "largest weight of each of them; 0: any"},
	{TENANT, LIVE, "share_percent", INT, AT(tenant_config, share_percent), 0, 100, 100, NULL,
	 NULL, "guaranteed parts of all of them together, percent of one GPU"},
	{TENANT, LIVE, "limit_percent", INT, AT(tenant_config, limit_percent), 1, 100, 100, NULL,
	 NULL,
	 "limit of each of them, percent; below 100, only GPUs whose policy has limits are used"},
	{TENANT, LIVE, "gpus", TEXT, AT(tenant_config, gpus), 0, 0, 0, "", NULL,
	 "GPUs that may be used, with spaces between; empty: all"},
#undef AT
	{.name = NULL},
};
