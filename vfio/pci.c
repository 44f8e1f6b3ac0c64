/* SPDX-License-Identifier: MIT */
/* Discovery: what sysfs says about a function, and which process uses it. */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "vfio/kernel.h"
#include "vfio/pci.h"
#include "vgpu/number.h"

#define CLASS_BRIDGE 0x06u
#define CLASS_DISPLAY 0x03u
#define CLASS_ACCELERATOR 0x12u
#define MAX_VFS 256

static int number(const char *address, const char *file, int64_t max, int64_t *out)
{
	int r = kernel_read_number(out, PCI_DEVICES "/%s/%s", address, file);

	return r < 0 ? r : *out < -1 || *out > max ? -EIO : 0;
}

/* Counts a member of the IOMMU group; bridges do not count, because no driver of a tenant uses
 * them. */
static int member(void *data, const char *name)
{
	struct pci_info *info = data;
	int64_t class = 0;

	if (number(name, "class", 0xffffff, &class) == 0 && class >> 16 == CLASS_BRIDGE)
		return 0;
	info->group_size++;
	if (strcmp(name, info->address) != 0)
		snprintf(info->neighbour, sizeof(info->neighbour), "%s", name);
	return 0;
}

static void describe_group(struct pci_info *info)
{
	char link[32], path[64];
	int64_t n;

	info->group = -1;
	if (kernel_read_link(link, sizeof(link), PCI_DEVICES "/%s/iommu_group", info->address) < 0)
		return;
	if (vgpu_parse_between(link, 0, INT32_MAX, &n) < 0)
		return;
	info->group = (int32_t)n;
	snprintf(path, sizeof(path), "/sys/kernel/iommu_groups/%" PRId64 "/devices", n);
	vfio_kernel->list(path, member, info);
}

int pci_describe(const char *address, struct pci_info *out, struct vgpu_error *err)
{
	int64_t vendor, device, class, value;
	char vf[PCI_ADDRESS_SIZE];
	int r;

	*out = (struct pci_info){.numa_node = -1};
	if (!pci_is_address(address))
		return vgpu_error_set(err, -EINVAL,
				      "%s: not a PCI address; want one like 0000:01:00.0", address);
	snprintf(out->address, sizeof(out->address), "%s", address);
	r = number(address, "vendor", 0xffff, &vendor);
	if (r == -ENOENT)
		return vgpu_error_set(err, -ENODEV, "%s: no such PCI function", address);
	if (r == 0)
		r = number(address, "device", 0xffff, &device);
	if (r == 0)
		r = number(address, "class", 0xffffff, &class);
	if (r < 0)
		return vgpu_error_set(err, -EIO, "%s: sysfs describes it with invalid values: %s",
				      address, strerror(-r));
	out->vendor = (uint16_t)vendor;
	out->device = (uint16_t)device;
	out->class = (uint32_t) class;
	if (number(address, "numa_node", 4095, &value) == 0)
		out->numa_node = (int32_t)value;
	if (number(address, "sriov_totalvfs", MAX_VFS, &value) == 0 && value > 0)
		out->total_vfs = (uint32_t)value;
	/* Count the links instead of reading sriov_numvfs, which blocks while a process writes
	 * it. */
	while (out->vfs < out->total_vfs && pci_vf_address(address, out->vfs, vf) == 0)
		out->vfs++;
	kernel_read_link(out->driver, sizeof(out->driver), PCI_DEVICES "/%s/driver", address);
	kernel_read_link(out->pf, sizeof(out->pf), PCI_DEVICES "/%s/physfn", address);
	kernel_read_text(out->resets, sizeof(out->resets), PCI_DEVICES "/%s/reset_method", address);
	describe_group(out);
	return 0;
}

struct gpus {
	struct pci_info *out;
	uint32_t max;
	int n;
};

static int gpu(void *data, const char *name)
{
	struct gpus *g = data;
	struct pci_info info;
	uint32_t base;

	if (pci_describe(name, &info, NULL) < 0 || info.pf[0])
		return 0;
	base = info.class >> 16;
	if (base != CLASS_DISPLAY && base != CLASS_ACCELERATOR)
		return 0;
	if ((uint32_t)g->n < g->max)
		g->out[g->n] = info;
	g->n++;
	return 0;
}

int pci_list_gpus(struct pci_info *out, uint32_t max)
{
	struct gpus g = {out, max, 0};
	int r = vfio_kernel->list(PCI_DEVICES, gpu, &g);

	return r < 0 ? r : g.n;
}

int pci_vf_address(const char *pf, uint32_t n, char out[PCI_ADDRESS_SIZE])
{
	int r = kernel_read_link(out, PCI_ADDRESS_SIZE, PCI_DEVICES "/%s/virtfn%" PRIu32, pf, n);

	return r < 0 ? r : pci_is_address(out) ? 0 : -EIO;
}

/* A search for a descriptor of the group's node, of the function's own node, or of a VFIO device,
 * whose function fdinfo names since Linux 6.18. */
struct search {
	const char *address;
	char group[32], node[64];
	char path[300];
	char pid[16];
	bool found;
};

static int descriptor(void *data, const char *name)
{
	struct search *s = data;
	char path[340], target[128], info[512];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", s->path, name);
	n = vfio_kernel->readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return 0;
	target[n] = '\0';
	s->found = strcmp(target, s->group) == 0 || (s->node[0] && strcmp(target, s->node) == 0);
	if (strcmp(target, "anon_inode:[vfio-device]") == 0 &&
	    kernel_read_text(info, sizeof(info), "%sinfo/%s", s->path, name) > 0)
		s->found = strstr(info, "vfio-device-syspath:") && strstr(info, s->address);
	return s->found;
}

static int process(void *data, const char *name)
{
	struct search *s = data;

	if (!isdigit((unsigned char)name[0]))
		return 0;
	snprintf(s->path, sizeof(s->path), "/proc/%s/fd", name);
	vfio_kernel->list(s->path, descriptor, s);
	if (s->found)
		snprintf(s->pid, sizeof(s->pid), "%s", name);
	return s->found;
}

static int node(void *data, const char *name)
{
	struct search *s = data;

	snprintf(s->node, sizeof(s->node), "/dev/vfio/devices/%.40s", name);
	return 1;
}

/* Searches /proc for a process that has the function open. Returns false if the function has no
 * group. */
static bool search(struct search *s)
{
	char group[16], path[96];

	if (kernel_read_link(group, sizeof(group), PCI_DEVICES "/%s/iommu_group", s->address) < 0)
		return false;
	snprintf(s->group, sizeof(s->group), "/dev/vfio/%s", group);
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/vfio-dev", s->address);
	vfio_kernel->list(path, node, s);
	vfio_kernel->list("/proc", process, s);
	return true;
}

pid_t pci_user_pid(const char *address)
{
	struct search s = {.address = address};

	return search(&s) && s.found ? (pid_t)atoi(s.pid) : 0;
}

bool pci_user(const char *address, char *out, size_t size)
{
	struct search s = {.address = address};
	int64_t enabled = 0;
	char name[32] = "?";

	if (!search(&s))
		return false;
	if (!s.found) {
		/* VFIO keeps a function enabled while it is open. */
		kernel_read_link(name, sizeof(name), PCI_DEVICES "/%s/driver", address);
		kernel_read_number(&enabled, PCI_DEVICES "/%s/enable", address);
		snprintf(out, size, "a process that cannot be seen from here");
		return strstr(name, "vfio") && enabled > 0;
	}
	kernel_read_text(name, sizeof(name), "/proc/%s/comm", s.pid);
	snprintf(out, size, "%s (pid %s)", name, s.pid);
	return true;
}

/* Counts the wildcards of PATTERN. The pattern with the fewest is the closest match, as in libvirt.
 */
static uint32_t wildcards(const char *pattern)
{
	uint32_t n = 0;

	for (; *pattern; pattern++)
		n += *pattern == '*';
	return n;
}

/* A search for the closest pattern. */
struct aliases {
	char own[160]; /* the function's modalias, with VFIO's prefix */
	char module[64];
	uint32_t least; /* wildcards of the best match so far */
};

static void alias(void *data, const char *line)
{
	struct aliases *a = data;
	char pattern[200], module[64];

	if (sscanf(line, "alias %199s %63s", pattern, module) != 2 ||
	    strncmp(pattern, "vfio_pci:", 9) != 0 || fnmatch(pattern, a->own, 0) != 0 ||
	    wildcards(pattern) >= a->least)
		return;
	a->least = wildcards(pattern);
	snprintf(a->module, sizeof(a->module), "%s", module);
}

void pci_vfio_driver(const char *address, char *out, size_t size)
{
	struct aliases a = {.own = "vfio_", .module = "vfio-pci", .least = UINT32_MAX};
	struct utsname system;
	char path[160];

	if (kernel_read_text(a.own + 5, sizeof(a.own) - 5, PCI_DEVICES "/%s/modalias", address) >=
		    0 &&
	    uname(&system) == 0) {
		snprintf(path, sizeof(path), "/lib/modules/%s/modules.alias", system.release);
		kernel_each_line(path, alias, &a); /* without the file, *OUT becomes vfio-pci */
	}
	snprintf(out, size, "%s", a.module);
	/* Names of modules have underscores where names of drivers have dashes. */
	for (; *out; out++)
		*out = *out == '_' ? '-' : *out;
}

int pci_check_group(const struct pci_info *info, struct vgpu_error *err)
{
	if (info->group_size <= 1)
		return 0;
	return vgpu_error_set(
		err, -EPERM,
		"%s: shares IOMMU group %" PRId32
		" with %s; the slot lacks access control services (ACS): move the GPU "
		"to another",
		info->address, info->group, info->neighbour);
}
