/* SPDX-License-Identifier: MIT */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64], paths[64][200];
_Atomic unsigned calls, fail_at, questions;
int fail_with;
bool vfs_stick, nobody_probes;

static bool fails(void)
{
	return ++calls == fail_at;
}

const char *inside(const char *path)
{
	static _Thread_local char full[2][400];
	static _Thread_local unsigned n;

	n++;
	snprintf(full[n % 2], sizeof(full[0]), "%s%s", root, path);
	return full[n % 2];
}

void put_file(const char *text, const char *format, ...)
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

void put_bytes(const void *data, size_t size, const char *path)
{
	FILE *f;

	put_file("", "%s", path);
	f = fopen(inside(path), "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(fwrite(data, 1, size, f), size);
	fclose(f);
}

static int remove_one(const char *path, const struct stat *, int, struct FTW *)
{
	return remove(path);
}

void remove_tree(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void take(const char *path)
{
	unlink(inside(path));
}

void point(const char *target, const char *path)
{
	take(path);
	CU_ASSERT_EQUAL_FATAL(symlink(target, inside(path)), 0);
}

void function(const char *address, const char *class, const char *group)
{
	char path[200], target[100];

	put_file("0x1234\n", PCI_DEVICES "/%s/%s", address, "vendor");
	put_file("0x5347\n", PCI_DEVICES "/%s/%s", address, "device");
	put_file(class, PCI_DEVICES "/%s/%s", address, "class");
	put_file("-1\n", PCI_DEVICES "/%s/%s", address, "numa_node");
	put_file("flr bus\n", PCI_DEVICES "/%s/%s", address, "reset_method");
	put_file("(null)\n", PCI_DEVICES "/%s/%s", address, "driver_override");
	put_file("", "/sys/kernel/iommu_groups/%s/devices/%s", group, address);
	snprintf(target, sizeof(target), "../../../kernel/iommu_groups/%s", group);
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/iommu_group", address);
	point(target, path);
}

static void vf_address(uint32_t n, char out[PCI_ADDRESS_SIZE])
{
	/* The address is not simply the PF's plus n: offset 128, stride 2, as on some real GPUs. */
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

	questions++;
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
	} else if (ends(paths[fd], "/config")) {
		return vfio_real_kernel.write(fd, data, size, offset);
	} else if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) < 0) {
		return -errno;
	}
	return (ssize_t)size;
}

static ssize_t fake_readlink(const char *path, char *out, size_t size)
{
	questions++;
	return fails() ? fail_with : vfio_real_kernel.readlink(inside(path), out, size);
}

static int fake_list(const char *path, int (*each)(void *data, const char *name), void *data)
{
	questions++;
	return fails() ? fail_with : vfio_real_kernel.list(inside(path), each, data);
}

static int fake_ioctl(int, unsigned long, void *)
{
	return -ENOTTY;
}

/* Maps a BAR, which is a file here. */
static void *fake_map(void *wanted, int fd, size_t size, uint64_t offset)
{
	return vfio_real_kernel.map(wanted, fd, size, offset);
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

void make_machine(void)
{
	static const char *const drivers[] = {"amdgpu", "vfio-pci", "pci-pf-stub"};
	unsigned i;

	/* On disk, the many small files take twenty times as long. */
	snprintf(root, sizeof(root), "%s/vgpud-pci.XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(root));
	function(PF, "0x038000\n", "7");
	put_file("8\n", PCI_DEVICES "/%s/%s", PF, "sriov_totalvfs");
	put_file("0\n", PCI_DEVICES "/%s/%s", PF, "sriov_numvfs");
	put_file("1\n", PCI_DEVICES "/%s/%s", PF, "sriov_drivers_autoprobe");
	function("0000:05:00.0", "0x020000\n", "8");
	for (i = 0; i < 3; i++) {
		put_file("", "/sys/bus/pci/drivers/%s/%s", drivers[i], "bind");
		put_file("", "/sys/bus/pci/drivers/%s/%s", drivers[i], "unbind");
	}
	put_file("", "/sys/bus/pci/drivers_probe");
	put_file("", "/proc/%s/%s", "1", "comm");
	probe(PF);
	calls = fail_at = 0;
	vfs_stick = nobody_probes = false;
	vfio_kernel = &fake;
}

unsigned fail_each_call(const struct each_call *e)
{
	unsigned n, total = 0;
	int r;

	for (n = 0; n <= total; n++) {
		e->begin();
		*e->calls = 0;
		*e->fail_at = n;
		r = e->act();
		total = n == 0 ? *e->calls : total;
		*e->fail_at = 0;
		e->end(r);
	}
	printf("[%u calls] ", total);
	return total;
}

void remove_machine(void)
{
	vfio_kernel = &vfio_real_kernel;
	remove_tree(root);
}
