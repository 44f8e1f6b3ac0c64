/* SPDX-License-Identifier: MIT */
/*
 * Discovery and the life cycle of VFs, against a machine of the test's own making: files in a
 * directory, with a little behind them that does as the kernel would when sriov_numvfs, unbind or
 * drivers_probe are written. Any call can be made to fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite.h"
#include "vfio/doctor.h"
#include "vfio/kernel.h"
#include "vfio/pci.h"

#define PF "0000:03:00.0"

static char root[64], paths[64][200];
static struct vgpu_error err;
static unsigned calls, fail_at; /* the call that fails; 0: none */
static int fail_with;
static bool vfs_stick, nobody_probes;

static bool fails(void)
{
	return ++calls == fail_at;
}

static const char *inside(const char *path)
{
	static char full[2][400];
	static unsigned n;

	n++;
	snprintf(full[n % 2], sizeof(full[0]), "%s%s", root, path);
	return full[n % 2];
}

__attribute__((format(printf, 2, 3))) static void put(const char *text, const char *format, ...)
{
	char path[200], *slash, full[400];
	va_list args;
	FILE *f;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	snprintf(full, sizeof(full), "%s", inside(path));
	for (slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(full, 0755);
		*slash = '/';
	}
	f = fopen(full, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs(text, f);
	fclose(f);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void remove_tree(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void take(const char *path)
{
	unlink(inside(path));
}

static void point(const char *target, const char *path)
{
	take(path);
	CU_ASSERT_EQUAL_FATAL(symlink(target, inside(path)), 0);
}

static void function(const char *address, const char *class, const char *group)
{
	char path[200], target[100];

	put("0x1234\n", PCI_DEVICES "/%s/%s", address, "vendor");
	put("0x5347\n", PCI_DEVICES "/%s/%s", address, "device");
	put(class, PCI_DEVICES "/%s/%s", address, "class");
	put("-1\n", PCI_DEVICES "/%s/%s", address, "numa_node");
	put("flr bus\n", PCI_DEVICES "/%s/%s", address, "reset_method");
	put("(null)\n", PCI_DEVICES "/%s/%s", address, "driver_override");
	put("", "/sys/kernel/iommu_groups/%s/devices/%s", group, address);
	snprintf(target, sizeof(target), "../../../kernel/iommu_groups/%s", group);
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/iommu_group", address);
	point(target, path);
}

static void vf_address(uint32_t n, char out[PCI_ADDRESS_SIZE])
{
	/* Not simply the PF's plus n: offset 128, stride 2, as some have it. */
	snprintf(out, PCI_ADDRESS_SIZE, "0000:04:%02x.%u", 16 + 2 * n / 8, 2 * n % 8);
}

static void write_numvfs(const char *text)
{
	uint32_t n = (uint32_t)atoi(text), i;
	char address[PCI_ADDRESS_SIZE], path[200], target[64];

	for (i = 0; i < 8 && !(vfs_stick && !n); i++) {
		snprintf(path, sizeof(path), PCI_DEVICES "/" PF "/virtfn%u", i);
		take(path);
		vf_address(i, address);
		snprintf(path, sizeof(path), PCI_DEVICES "/%s", address);
		remove_tree(inside(path));
	}
	for (i = 0; i < n; i++) {
		char group[16];

		vf_address(i, address);
		snprintf(group, sizeof(group), "%u", 50 + i);
		function(address, "0x038000\n", group);
		snprintf(path, sizeof(path), PCI_DEVICES "/" PF "/virtfn%u", i);
		snprintf(target, sizeof(target), "../%s", address);
		point(target, path);
		snprintf(path, sizeof(path), PCI_DEVICES "/%s/physfn", address);
		point("../" PF, path);
	}
}

static void probe(const char *address)
{
	char driver[32] = "", path[200], target[64];

	if (nobody_probes)
		return;
	kernel_read_text(driver, sizeof(driver), PCI_DEVICES "/%s/driver_override", address);
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver", address);
	snprintf(target, sizeof(target), "../../drivers/%s",
		 driver[0] && driver[0] != '(' ? driver : "amdgpu");
	point(target, path);
}

static int fake_open(const char *path, int flags)
{
	int fd;

	if (fails())
		return fail_with;
	fd = open(inside(path), flags | O_CLOEXEC);
	if (fd >= 0 && fd < 64)
		snprintf(paths[fd], sizeof(paths[0]), "%s", path);
	return fd < 0 ? -errno : fd;
}

static ssize_t fake_read(int fd, void *data, size_t size, uint64_t offset)
{
	return fails() ? fail_with : vfio_real_kernel.read(fd, data, size, offset);
}

static bool ends(const char *path, const char *with)
{
	size_t n = strlen(path), m = strlen(with);

	return n >= m && strcmp(path + n - m, with) == 0;
}

static ssize_t fake_write(int fd, const void *data, size_t size, uint64_t offset)
{
	char text[64], path[200];

	(void)offset;
	if (fails())
		return fail_with;
	snprintf(text, sizeof(text), "%.*s", (int)size, (const char *)data);
	if (ends(paths[fd], "/sriov_numvfs")) {
		write_numvfs(text);
	} else if (ends(paths[fd], "/driver/unbind")) {
		snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver", text);
		take(path);
	} else if (ends(paths[fd], "/drivers_probe")) {
		probe(text);
	} else if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) < 0) {
		return -errno;
	}
	return (ssize_t)size;
}

static ssize_t fake_readlink(const char *path, char *out, size_t size)
{
	return fails() ? fail_with : vfio_real_kernel.readlink(inside(path), out, size);
}

static int fake_list(const char *path, int (*each)(void *data, const char *name), void *data)
{
	return fails() ? fail_with : vfio_real_kernel.list(inside(path), each, data);
}

static int fake_ioctl(int fd, unsigned long request, void *arg)
{
	(void)fd;
	(void)request;
	(void)arg;
	return -ENOTTY;
}

static void *fake_map(int fd, size_t size, uint64_t offset)
{
	(void)fd;
	(void)size;
	(void)offset;
	return NULL;
}

static const struct vfio_kernel fake = {
	.open = fake_open,
	.read = fake_read,
	.write = fake_write,
	.ioctl = fake_ioctl,
	.map = fake_map,
	.readlink = fake_readlink,
	.list = fake_list,
};

/* A GPU with 8 VFs and its host's driver, a network card, and the drivers that are loaded. */
static void make_machine(void)
{
	static const char *const drivers[] = {"amdgpu", "vfio-pci", "pci-pf-stub"};
	unsigned i;

	strcpy(root, "/tmp/vgpud-pci.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(root));
	function(PF, "0x038000\n", "7");
	put("8\n", PCI_DEVICES "/%s/%s", PF, "sriov_totalvfs");
	put("0\n", PCI_DEVICES "/%s/%s", PF, "sriov_numvfs");
	put("1\n", PCI_DEVICES "/%s/%s", PF, "sriov_drivers_autoprobe");
	function("0000:05:00.0", "0x020000\n", "8");
	for (i = 0; i < 3; i++) {
		put("", "/sys/bus/pci/drivers/%s/%s", drivers[i], "bind");
		put("", "/sys/bus/pci/drivers/%s/%s", drivers[i], "unbind");
	}
	put("", "/sys/bus/pci/drivers_probe");
	put("", "/proc/%s/%s", "1", "comm");
	probe(PF);
	calls = fail_at = 0;
	vfs_stick = nobody_probes = false;
	vfio_kernel = &fake;
}

static void remove_machine(void)
{
	vfio_kernel = &vfio_real_kernel;
	remove_tree(root);
}

static void discovery(void)
{
	struct pci_info all[4];

	make_machine();
	CU_ASSERT_EQUAL(pci_list_gpus(all, 4), 1);
	CU_ASSERT_STRING_EQUAL(all[0].address, PF);
	CU_ASSERT_STRING_EQUAL(all[0].driver, "amdgpu");
	CU_ASSERT_EQUAL(all[0].total_vfs, 8);
	CU_ASSERT_EQUAL(all[0].group, 7);
	CU_ASSERT_EQUAL(all[0].numa_node, -1);
	CU_ASSERT_STRING_EQUAL(all[0].resets, "flr bus");
	remove_machine();
}

static void addresses(void)
{
	static const char *const bad[] = {"",
					  "0000:03:00",
					  "0000:03:00.00",
					  "03:00.0",
					  "0000.03:00.0",
					  "0000:03:0g.0",
					  "../../etc/pas",
					  "0000:03:00.0/"};
	unsigned i;

	CU_ASSERT(pci_is_address("0000:03:1f.7"));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT(!pci_is_address(bad[i]));
}

/* sysfs answers that are cut short, or absurd. */
static void absurd(void)
{
	static const struct {
		const char *file, *text;
	} cases[] = {
		{"vendor", ""},	    {"vendor", "0x12345\n"},	 {"vendor", "cow\n"},
		{"device", "-5\n"}, {"class", "0x1038000000\n"}, {"class", "0x038000 x\n"},
	};
	struct pci_info info;
	unsigned i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make_machine();
		put(cases[i].text, PCI_DEVICES "/%s/%s", PF, cases[i].file);
		CU_ASSERT_EQUAL(pci_describe(PF, &info, &err), -EIO);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, PF));
		remove_machine();
	}
	make_machine();
	put("many\n", PCI_DEVICES "/%s/%s", PF, "sriov_totalvfs");
	CU_ASSERT_EQUAL(pci_describe(PF, &info, &err), 0);
	CU_ASSERT_EQUAL(info.total_vfs, 0);
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 1, &err), -EINVAL);
	remove_machine();
}

static bool all_bound(uint32_t n)
{
	char address[PCI_ADDRESS_SIZE];
	struct pci_info info;
	uint32_t i;

	for (i = 0; i < n; i++)
		if (pci_vf_address(PF, i, address) < 0 || pci_describe(address, &info, &err) < 0 ||
		    strcmp(info.driver, "vfio-pci") != 0)
			return false;
	return true;
}

static void life_cycle(void)
{
	char address[PCI_ADDRESS_SIZE], text[16];
	struct pci_info info;

	make_machine();
	CU_ASSERT_EQUAL(pci_bind(PF, "pci-pf-stub", &err), 0);
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 4, &err), 0);
	CU_ASSERT(all_bound(4));
	CU_ASSERT_EQUAL(pci_vf_address(PF, 3, address), 0);
	CU_ASSERT_STRING_EQUAL(address, "0000:04:10.6");
	CU_ASSERT(kernel_read_text(text, sizeof(text),
				   PCI_DEVICES "/" PF "/sriov_drivers_autoprobe") >= 0);
	CU_ASSERT_STRING_EQUAL(text, "0");
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 2, &err), 0);
	CU_ASSERT(all_bound(2) && !all_bound(3));
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 2, &err), 0);
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 9, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "at most 8"));
	CU_ASSERT_EQUAL(pci_vf_address(PF, 1, address), 0);
	CU_ASSERT_EQUAL(pci_set_vfs(address, 1, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "is a VF; give its PF, " PF));
	/* Another driver for the PF: VFs go first. */
	CU_ASSERT_EQUAL(pci_bind(PF, "vfio-pci", &err), 0);
	CU_ASSERT_EQUAL(pci_describe(PF, &info, &err), 0);
	CU_ASSERT_EQUAL(info.vfs, 0);
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 3, &err), 0);
	CU_ASSERT_EQUAL(pci_suppress_resets(PF, &err), 0);
	CU_ASSERT_EQUAL(kernel_read_text(text, sizeof(text), PCI_DEVICES "/" PF "/reset_method"),
			0);
	CU_ASSERT_EQUAL(pci_release(PF, &err), 0);
	CU_ASSERT(kernel_read_text(text, sizeof(text), PCI_DEVICES "/" PF "/reset_method") > 0);
	CU_ASSERT_STRING_EQUAL(text, "default");
	CU_ASSERT(kernel_read_text(text, sizeof(text),
				   PCI_DEVICES "/" PF "/sriov_drivers_autoprobe") >= 0);
	CU_ASSERT_STRING_EQUAL(text, "1");
	CU_ASSERT_EQUAL(pci_describe(PF, &info, &err), 0);
	CU_ASSERT_STRING_EQUAL(info.driver, "amdgpu");
	remove_machine();
}

/* Each refusal names what is wrong and what helps, and leaves nothing half done. */
static void refusals(void)
{
	char address[PCI_ADDRESS_SIZE], path[200], group[200], user[64];
	struct pci_info info;

	make_machine();
	CU_ASSERT_EQUAL(pci_bind(PF, "xe-vfio-pci", &err), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "modprobe xe-vfio-pci"));
	nobody_probes = true;
	CU_ASSERT(pci_set_vfs(PF, 1, &err) < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "vfio-pci does not take it"));
	CU_ASSERT_EQUAL(pci_describe(PF, &info, &err), 0);
	CU_ASSERT_EQUAL(info.vfs, 0);
	nobody_probes = false;

	/* What vgpud has not taken is not given back. */
	CU_ASSERT_EQUAL(pci_release("0000:05:00.0", &err), -EINVAL);
	CU_ASSERT_EQUAL(pci_release(PF, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "driver amdgpu"));

	/* Two functions in one group. */
	put("", "/sys/kernel/iommu_groups/%s/devices/%s", "50", "0000:05:00.0");
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 1, &err), -EPERM);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "shares IOMMU group 50 with 0000:05:00.0"));
	snprintf(path, sizeof(path), "/sys/kernel/iommu_groups/50/devices/0000:05:00.0");
	take(path);

	/* Somebody has one open. */
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 2, &err), 0);
	put("qemu\n", "/proc/%s/%s", "4711", "comm");
	put("", "/proc/%s/%s", "4711", "fd/0");
	point("/dev/vfio/51", "/proc/4711/fd/9");
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 1, &err), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "VF 1"));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "qemu (pid 4711)"));
	CU_ASSERT(all_bound(2));
	take("/proc/4711/fd/9");

	/* By a device that was handed to it; by somebody in another PID namespace. */
	CU_ASSERT_EQUAL(pci_vf_address(PF, 1, address), 0);
	point("anon_inode:[vfio-device]", "/proc/4711/fd/8");
	put("pos: 0\nvfio-device-syspath: /sys/devices/pci0000:00/0000:00:02.0/0000:99:00.0\n",
	    "/proc/%s/%s", "4711", "fdinfo/8");
	CU_ASSERT(!pci_user(address, user, sizeof(user)));
	put("pos: 0\nvfio-device-syspath: /sys/devices/pci0000:00/0000:00:02.0/0000:04:10.2\n",
	    "/proc/%s/%s", "4711", "fdinfo/8");
	CU_ASSERT(pci_user(address, user, sizeof(user)));
	CU_ASSERT_STRING_EQUAL(user, "qemu (pid 4711)");
	take("/proc/4711/fd/8");
	CU_ASSERT(!pci_user(address, user, sizeof(user)));
	put("1\n", PCI_DEVICES "/%s/%s", address, "enable");
	CU_ASSERT(pci_user(address, user, sizeof(user)));
	CU_ASSERT_PTR_NOT_NULL(strstr(user, "cannot be seen"));
	put("0\n", PCI_DEVICES "/%s/%s", address, "enable");
	CU_ASSERT(!pci_user(address, user, sizeof(user)));

	/* No IOMMU. */
	CU_ASSERT_EQUAL(pci_vf_address(PF, 0, address), 0);
	snprintf(group, sizeof(group), PCI_DEVICES "/%s/iommu_group", address);
	take(group);
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 2, &err), -ENODEV);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "intel_iommu=on"));

	/* The kernel says that it has, and has not. */
	vfs_stick = true;
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 1, &err), -EIO);
	remove_machine();
}

/* What the doctor says of it, by subject. */
struct findings {
	char text[2000];
	unsigned bad;
};

static void finding(void *data, enum doctor_verdict verdict, const char *subject, const char *text,
		    const char *cure)
{
	struct findings *f = data;
	size_t n = strlen(f->text);

	f->bad += verdict == DOCTOR_BAD;
	snprintf(f->text + n, sizeof(f->text) - n, "%s: %s; %s\n", subject, text, cure);
}

static void doctor(void)
{
	struct findings f = {.bad = 0};

	make_machine();
	vfio_doctor(finding, &f);
	CU_ASSERT_PTR_NOT_NULL(strstr(f.text, "IOMMU: on"));
	CU_ASSERT_PTR_NOT_NULL(strstr(f.text, "modprobe vfio_iommu_type1"));
	CU_ASSERT_PTR_NOT_NULL(strstr(f.text, "driver amdgpu, 0 of 8 VFs, IOMMU group 7"));
	CU_ASSERT_PTR_NOT_NULL(strstr(f.text, "has no GPU-IOV capability"));
	CU_ASSERT_EQUAL(f.bad, 2); /* the module, and no /dev/vfio/vfio */
	/* Nothing was touched. */
	CU_ASSERT_EQUAL(kernel_read_text(f.text, sizeof(f.text),
					 PCI_DEVICES "/" PF "/driver_override"),
			6);
	remove_tree(inside("/sys/kernel/iommu_groups"));
	f = (struct findings){.bad = 0};
	vfio_doctor(finding, &f);
	CU_ASSERT_PTR_NOT_NULL(strstr(f.text, "IOMMU: off: no groups; switch VT-d"));
	CU_ASSERT_EQUAL(f.bad, 3);
	remove_machine();
}

/* Whichever call fails: an error or success, never a VF with another driver, never a crash. */
static void any_call_fails(void)
{
	static const int errors[] = {-EACCES, -EIO, -ENODEV};
	char address[PCI_ADDRESS_SIZE], driver[32];
	unsigned n, total = 0, k;
	uint32_t i;
	int r;

	/* The first run counts them. */
	for (n = 0; n <= total; n++) {
		for (k = 0; k < 3; k++) {
			make_machine();
			fail_at = n;
			fail_with = errors[k];
			r = pci_bind(PF, "pci-pf-stub", &err);
			r = r ? r : pci_set_vfs(PF, 2, &err);
			total = n == 0 ? calls : total;
			fail_at = 0;
			CU_ASSERT(r == 0 ? all_bound(2) : err.text[0] != '\0');
			for (i = 0; i < 2; i++)
				if (pci_vf_address(PF, i, address) == 0 &&
				    kernel_read_link(driver, sizeof(driver),
						     PCI_DEVICES "/%s/driver", address) == 0)
					CU_ASSERT_STRING_EQUAL(driver, "vfio-pci");
			remove_machine();
		}
	}
	printf("[%u calls] ", total);
}

static const struct test tests[] = {
	{"discovery", discovery},
	{"addresses", addresses},
	{"answers that make no sense", absurd},
	{"VFs come, change and go", life_cycle},
	{"refusals", refusals},
	{"the doctor", doctor},
	{"any call fails", any_call_fails},
	{NULL, NULL},
};

SUITE_MAIN("PCI functions in sysfs", tests)
