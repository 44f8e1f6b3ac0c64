/* SPDX-License-Identifier: MIT */
#include "vfio/nvidia_admin.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vfio/kernel.h"
#include "vfio/libvirt_notes.h"

#define VENDOR_NVIDIA 0x10deu
#define FOLDER PCI_DEVICES "/%s/virtfn%" PRIu32 "/nvidia"
#define WRITE_MS 30000 /* the driver allocates a vGPU's memory */

int nvidia_recognise(const char *address, struct pci_info *out, struct vgpu_error *err)
{
	uint32_t type;
	int r = pci_describe(address, out, err);

	if (r == 0)
		r = pci_check_owner(out, VENDOR_NVIDIA, "an NVIDIA GPU", NVIDIA_DRIVER,
				    "NVIDIA vGPU needs NVIDIA's licensed host driver", err);
	if (r < 0)
		return r;
	if (out->vfs == 0)
		return vgpu_error_set(err, -ENODEV,
				      "%s: it has no VFs: run /usr/lib/nvidia/sriov-manage -e %s, "
				      "of NVIDIA's licensed host driver, when nvidia-vgpu-mgr runs",
				      address, address);
	r = nvidia_read_type(address, 0, &type);
	if (r == -ENOENT)
		return vgpu_error_set(err, r,
				      "%s: its VFs have no nvidia/current_vgpu_type: vgpud needs "
				      "NVIDIA vGPU software 17 or later, on a kernel on which its "
				      "vGPUs are not mediated devices",
				      address);
	return r < 0 ? vgpu_error_set(err, r,
				      "%s: cannot read nvidia/current_vgpu_type of VF 0: %s",
				      address, strerror(-r))
		     : 0;
}

int nvidia_read_type(const char *pf, uint32_t vf, uint32_t *type)
{
	int64_t value;
	int r = kernel_read_number(&value, FOLDER "/current_vgpu_type", pf, vf);

	if (r == 0 && (value < 0 || value > UINT32_MAX))
		r = -EINVAL;
	if (r == 0)
		*type = (uint32_t)value;
	return r;
}

int nvidia_write_type(const char *pf, uint32_t vf, uint32_t type)
{
	char text[16];
	uint32_t now;
	int r;

	snprintf(text, sizeof(text), "%" PRIu32, type);
	r = kernel_write_text(WRITE_MS, text, FOLDER "/current_vgpu_type", pf, vf);
	if (r == 0)
		r = nvidia_read_type(pf, vf, &now);
	return r < 0 ? r : now == type ? 0 : -EIO;
}

struct search {
	uint32_t type;
	bool found;
	char *out;
	size_t size;
};

/* Reads "1428 : NVIDIA H200X-141C", after a line of titles. */
static void look_at_type(void *data, const char *line)
{
	struct search *s = data;
	size_t n = strlen(s->out);
	char name[64];
	uint32_t type;

	if (sscanf(line, "%" SCNu32 " : %63[^\n]", &type, name) != 2)
		return;
	s->found |= type == s->type;
	snprintf(s->out + n, s->size - n, "%s%" PRIu32 " (%s)", n ? ", " : "", type, name);
}

bool nvidia_can_have(const char *pf, uint32_t vf, uint32_t type, char *out, size_t size)
{
	struct search s = {.type = type, .out = out, .size = size};
	char path[128];

	out[0] = '\0';
	snprintf(path, sizeof(path), FOLDER "/creatable_vgpu_types", pf, vf);
	kernel_each_line(path, look_at_type, &s);
	if (!out[0])
		snprintf(out, size, "none");
	return s.found;
}

/* Finds the word after "-uuid" among words that each end in NUL. */
static bool find_uuid(const char *words, size_t n, char *uuid, size_t size)
{
	const char *at = words, *end = words + n;
	bool is_next = false;

	while (at < end) {
		if (is_next) {
			snprintf(uuid, size, "%s", at);
			return true;
		}
		is_next = strcmp(at, "-uuid") == 0;
		at += strlen(at) + 1;
	}
	return false;
}

/* Reads the UUID from the process's arguments, which the process can change. */
static bool read_arguments(pid_t pid, char *uuid, size_t size)
{
	char path[64], words[8192];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd = vfio_kernel->open(path, O_RDONLY);
	if (fd < 0)
		return false;
	n = vfio_kernel->read(fd, words, sizeof(words) - 1, 0);
	close(fd);
	if (n <= 0)
		return false;
	words[n] = '\0';
	return find_uuid(words, (size_t)n, uuid, size);
}

static void look_for_user(void *data, const char *line)
{
	unsigned real, effective;

	if (sscanf(line, "Uid: %u %u", &real, &effective) == 2)
		*(bool *)data = real == 0 && effective == 0;
}

bool nvidia_vm_of(const char *pf, uint32_t vf, char *uuid, size_t size)
{
	char address[PCI_ADDRESS_SIZE], path[64];
	bool is_root = false;
	pid_t pid;

	pid = pci_vf_address(pf, vf, address) == 0 ? pci_user_pid(address) : 0;
	if (pid == 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	kernel_each_line(path, look_for_user, &is_root);
	return libvirt_vm_of(pid, uuid, size) || (is_root && read_arguments(pid, uuid, size));
}
