/* SPDX-License-Identifier: MIT */
#include "nvidia_kernel.h"

#include <errno.h>

#define FOLDER PCI_DEVICES "/" PF "/virtfn%u/nvidia/"
#define NOTES "/run/libvirt/qemu/"

uint32_t nvidia_types[NVIDIA_VFS], nvidia_room;
void (*nvidia_before_type)(uint32_t vf);

static bool parse(const char *path, uint32_t *vf, char file[40])
{
	return sscanf(path, FOLDER "%39s", vf, file) == 2;
}

static bool is_ours(const char *path)
{
	uint32_t vf;
	char file[40];

	return parse(path, &vf, file) || strcmp(path, PCI_DEVICES "/" PF "/sriov_numvfs") == 0;
}

static bool has_room(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < NVIDIA_VFS; i++)
		n += nvidia_types[i] != 0;
	return n < nvidia_room;
}

static int show(const char *path, char *out, size_t size)
{
	char file[40];
	uint32_t vf;

	if (!parse(path, &vf, file))
		return snprintf(out, size, "%u\n", NVIDIA_VFS);
	if (strcmp(file, "current_vgpu_type") == 0)
		return snprintf(out, size, "%u\n", nvidia_types[vf]);
	return snprintf(out, size, "ID    : vGPU Name\n%s",
			nvidia_types[vf] == 0 && has_room()
				? "1145  : NVIDIA H200X-35C\n1428  : NVIDIA H200X-141C\n"
				: "");
}

static int store(const char *path, const char *text)
{
	char file[40];
	uint32_t vf, type;

	if (!parse(path, &vf, file) || strcmp(file, "current_vgpu_type") != 0 ||
	    sscanf(text, "%u", &type) != 1)
		return -EINVAL; /* NVIDIA's driver takes no sriov_numvfs */
	if (nvidia_before_type)
		nvidia_before_type(vf);
	if (type && (nvidia_types[vf] || !has_room()))
		return -EINVAL;
	nvidia_types[vf] = type;
	return 0;
}

void nvidia_vm(uint32_t pid, uint32_t n, const char *uuid)
{
	char path[64];

	nvidia_process(pid, n, 64055, "another", "qemu");
	put_file("", NOTES "vm%u.pid", pid);
	snprintf(path, sizeof(path), NOTES "vm%u.xml", pid);
	nvidia_note(path, pid, uuid);
}

void nvidia_note(const char *path, uint32_t pid, const char *uuid)
{
	char text[500];

	snprintf(text, sizeof(text),
		 "<!--\nWARNING\n-->\n<domstatus state='running' reason='booted' pid='%u'>\n"
		 "  <monitor path='/m' type='unix'/>\n  <domain type='kvm' id='1'>\n"
		 "    <name>&lt;uuid&gt;</name>\n    <uuid>%s</uuid>\n    <metadata>\n"
		 "      <x:uuid>other</x:uuid>\n      <domstatus xmlns='x' pid='4712'/>\n"
		 "      <uuid>0</uuid>\n    </metadata>\n"
		 "  </domain>\n</domstatus>\n",
		 pid, uuid);
	put_bytes(text, strlen(text), path);
}

void nvidia_process(uint32_t pid, uint32_t n, uint32_t uid, const char *uuid, const char *name)
{
	char target[32], path[64], text[128], words[128] = "qemu\0-name\0x\0-uuid\0";
	size_t used = sizeof("qemu\0-name\0x\0-uuid");

	snprintf(target, sizeof(target), "/dev/vfio/%u", 50 + n);
	snprintf(text, sizeof(text), "%s\n", name);
	put_file(text, "/proc/%u/comm", pid);
	snprintf(text, sizeof(text), "Name:\t%s\nUid:\t%u\t%u\t%u\t%u\n", name, uid, uid, uid, uid);
	put_file(text, "/proc/%u/status", pid);
	put_file("", "/proc/%u/fd/0", pid);
	snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, 9 + n);
	point(target, path);
	snprintf(words + used, sizeof(words) - used, "%s", uuid);
	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	put_bytes(words, used + strlen(uuid) + 1, path);
}

void nvidia_vm_ends(uint32_t pid, uint32_t n)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, 9 + n);
	take(path);
}

void make_nvidia_machine(void)
{
	static const struct reactive files = {is_ours, show, store};
	char path[100];
	uint32_t i;

	make_machine();
	put_file("0x10de\n", PCI_DEVICES "/%s/vendor", PF);
	put_file("0x2335\n", PCI_DEVICES "/%s/device", PF);
	put_file("", PCI_DEVICES "/%s/config", PF);
	point("../../drivers/nvidia", PCI_DEVICES "/" PF "/driver");
	CU_ASSERT_EQUAL(kernel_write_text(1000, "4", PCI_DEVICES "/%s/sriov_numvfs", PF), 0);
	put_file("4\n", PCI_DEVICES "/%s/sriov_numvfs", PF);
	for (i = 0; i < NVIDIA_VFS; i++) {
		put_file("", FOLDER "current_vgpu_type", i);
		put_file("", FOLDER "creatable_vgpu_types", i);
		snprintf(path, sizeof(path), PCI_DEVICES "/" PF "/virtfn%u/driver", i);
		point("../../drivers/nvidia", path);
		nvidia_types[i] = 0;
	}
	nvidia_room = NVIDIA_VFS;
	nvidia_before_type = NULL;
	react(&files);
}

void remove_nvidia_machine(void)
{
	remove_machine();
}
