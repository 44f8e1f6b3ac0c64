/* SPDX-License-Identifier: MIT */
/* Discovery of GPUs and the life cycle of their VFs, on a machine that the test makes up. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "machine.h"
#include "suite.h"
#include "vfio/device.h"
#include "vfio/doctor.h"
#include "vfio/gpuiov.h"
#include "vfio/kernel.h"

static struct vgpu_error err;

TEST(discovery, "GPUs are discovered")
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

TEST(addresses, "only PCI addresses are accepted")
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

/* sysfs answers that are truncated or absurd. */
TEST(absurd, "absurd answers of sysfs are errors")
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
		put_file(cases[i].text, PCI_DEVICES "/%s/%s", PF, cases[i].file);
		CU_ASSERT_EQUAL(pci_describe(PF, &info, &err), -EIO);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, PF));
		remove_machine();
	}
	make_machine();
	put_file("many\n", PCI_DEVICES "/%s/%s", PF, "sriov_totalvfs");
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

TEST(life_cycle, "VFs are created, changed and removed")
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
	/* Before the PF gets another driver, its VFs are removed. */
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

/* Each refusal says what is wrong and what helps, and leaves no work half done. */
TEST(refusals, "each refusal says what helps")
{
	char address[PCI_ADDRESS_SIZE], path[200], group[200], user[64];
	struct pci_info info;

	make_machine();
	CU_ASSERT_EQUAL(pci_bind(PF, "xe-vfio-pci", &err), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "modprobe xe-vfio-pci"));
	nobody_probes = true;
	CU_ASSERT(pci_set_vfs(PF, 1, &err) < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "driver vfio-pci does not bind it"));
	CU_ASSERT_EQUAL(pci_describe(PF, &info, &err), 0);
	CU_ASSERT_EQUAL(info.vfs, 0);
	nobody_probes = false;

	/* vgpud releases only what it has taken. */
	CU_ASSERT_EQUAL(pci_release("0000:05:00.0", &err), -EINVAL);
	CU_ASSERT_EQUAL(pci_release(PF, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "driver amdgpu"));

	/* Two functions share an IOMMU group. */
	put_file("", "/sys/kernel/iommu_groups/%s/devices/%s", "50", "0000:05:00.0");
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 1, &err), -EPERM);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "shares IOMMU group 50 with 0000:05:00.0"));
	snprintf(path, sizeof(path), "/sys/kernel/iommu_groups/50/devices/0000:05:00.0");
	take(path);

	/* A process has a VF open. */
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 2, &err), 0);
	put_file("qemu\n", "/proc/%s/%s", "4711", "comm");
	put_file("", "/proc/%s/%s", "4711", "fd/0");
	point("/dev/vfio/51", "/proc/4711/fd/9");
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 1, &err), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "VF 1"));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "qemu (pid 4711)"));
	CU_ASSERT(all_bound(2));
	take("/proc/4711/fd/9");

	/* A process uses the VF through a device descriptor that it received; or is in another PID
	 * namespace. */
	CU_ASSERT_EQUAL(pci_vf_address(PF, 1, address), 0);
	point("anon_inode:[vfio-device]", "/proc/4711/fd/8");
	put_file("pos: 0\nvfio-device-syspath: /sys/devices/pci0000:00/0000:00:02.0/0000:99:00.0\n",
		 "/proc/%s/%s", "4711", "fdinfo/8");
	CU_ASSERT(!pci_user(address, user, sizeof(user)));
	put_file("pos: 0\nvfio-device-syspath: /sys/devices/pci0000:00/0000:00:02.0/0000:04:10.2\n",
		 "/proc/%s/%s", "4711", "fdinfo/8");
	CU_ASSERT(pci_user(address, user, sizeof(user)));
	CU_ASSERT_STRING_EQUAL(user, "qemu (pid 4711)");
	take("/proc/4711/fd/8");
	CU_ASSERT(!pci_user(address, user, sizeof(user)));
	put_file("1\n", PCI_DEVICES "/%s/%s", address, "enable");
	CU_ASSERT(pci_user(address, user, sizeof(user)));
	CU_ASSERT_PTR_NOT_NULL(strstr(user, "cannot be seen"));
	put_file("0\n", PCI_DEVICES "/%s/%s", address, "enable");
	CU_ASSERT(!pci_user(address, user, sizeof(user)));

	/* There is no IOMMU. */
	CU_ASSERT_EQUAL(pci_vf_address(PF, 0, address), 0);
	snprintf(group, sizeof(group), PCI_DEVICES "/%s/iommu_group", address);
	take(group);
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 2, &err), -ENODEV);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "intel_iommu=on"));

	/* Linux reports success, but the VFs stay. */
	vfs_stick = true;
	CU_ASSERT_EQUAL(pci_set_vfs(PF, 1, &err), -EIO);
	remove_machine();
}

/* The doctor's findings as text, and how many of them are bad. */
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

TEST(doctor, "the doctor reports, and changes nothing")
{
	struct findings f = {.bad = 0};

	make_machine();
	vfio_doctor(finding, &f, DOCTOR_NEEDS_ALL);
	CU_ASSERT_PTR_NOT_NULL(strstr(f.text, "IOMMU: on"));
	CU_ASSERT_PTR_NOT_NULL(strstr(f.text, "modprobe vfio_iommu_type1"));
	CU_ASSERT_PTR_NOT_NULL(strstr(f.text, "driver amdgpu, 0 of 8 VFs, IOMMU group 7"));
	CU_ASSERT_PTR_NOT_NULL(strstr(f.text, "its configuration space cannot be read"));
	CU_ASSERT_EQUAL(f.bad, 2); /* the missing module and the missing /dev/vfio/vfio */
	/* The doctor changes nothing. */
	CU_ASSERT_EQUAL(kernel_read_text(f.text, sizeof(f.text),
					 PCI_DEVICES "/" PF "/driver_override"),
			6);
	remove_tree(inside("/sys/kernel/iommu_groups"));
	f = (struct findings){.bad = 0};
	vfio_doctor(finding, &f, DOCTOR_NEEDS_ALL);
	CU_ASSERT_PTR_NOT_NULL(strstr(f.text, "IOMMU: off: no groups; switch VT-d"));
	CU_ASSERT_EQUAL(f.bad, 3);
	/* A host whose GPUs are softgpu's is right without all that. */
	f = (struct findings){.bad = 0};
	vfio_doctor(finding, &f, DOCTOR_NEEDS_NOTHING);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(f.text, "IOMMU: off: no groups; no GPU that is configured needs"));
	CU_ASSERT_EQUAL(f.bad, 0);
	remove_machine();
}

/* A write to sysfs may block in Linux. Here it blocks until a FIFO is opened for reading. */
static char fifo[100];
static _Atomic unsigned alarms;
static _Atomic int reader;

static void on_alarm(int)
{
	atomic_fetch_add(&alarms, 1);
}

static void *read_after_alarms(void *arg)
{
	struct timespec pause = {0, 1000000};
	unsigned tries;

	for (tries = 0; atomic_load(&alarms) < 5 && tries < 10000; tries++)
		nanosleep(&pause, NULL);
	atomic_store(&reader, open(fifo, O_RDONLY));
	return arg;
}

TEST(writes_that_wait, "writes to sysfs end with a time-out")
{
	struct itimerval often = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = on_alarm};
	char folder[64] = "/tmp/vgpud-fifo.XXXXXX", byte;
	pthread_t thread;
	siginfo_t info;
	int lock, again;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
	lock = open(folder, O_RDONLY | O_CLOEXEC);
	again = open(folder, O_RDONLY | O_CLOEXEC);
	CU_ASSERT_EQUAL(flock(lock, LOCK_EX), 0);
	snprintf(fifo, sizeof(fifo), "%s/wait", folder);
	CU_ASSERT_EQUAL_FATAL(mkfifo(fifo, 0600), 0);
	/* A late write times out. Its child process is reaped once the write has ended. */
	CU_ASSERT_EQUAL(kernel_write_text(20, "1", "%s", fifo), -ETIMEDOUT);
	/* While it waits, it holds none of our locks. */
	close(lock);
	CU_ASSERT_EQUAL(flock(again, LOCK_EX | LOCK_NB), 0);
	close(again);
	reader = open(fifo, O_RDONLY);
	CU_ASSERT_EQUAL(read(reader, &byte, 1), 0); /* pwrite() to a FIFO fails, so it is empty */
	CU_ASSERT(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) < 0 && errno == ECHILD);
	close(reader);
	/* A signal does not count as a time-out. */
	sigaction(SIGALRM, &action, NULL);
	pthread_create(&thread, NULL, read_after_alarms, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	CU_ASSERT_EQUAL(kernel_write_text(20000, "1", "%s", fifo), -ESPIPE);
	setitimer(ITIMER_REAL, &never, NULL);
	pthread_join(thread, NULL);
	CU_ASSERT(atomic_load(&alarms) >= 5);
	close(reader);
	unlink(fifo);
	rmdir(folder);
}

/* The VFIO driver that modules.alias names for a function, for the kernel release at hand. */
TEST(variants, "modules.alias names a function's VFIO driver")
{
	struct utsname system;
	char path[200], driver[64], *lines = calloc(2000, 100), *end = lines;
	unsigned i;

	CU_ASSERT_PTR_NOT_NULL_FATAL(lines);
	uname(&system);
	snprintf(path, sizeof(path), "/lib/modules/%s/modules.alias", system.release);
	make_machine();
	put_file("pci:v00001234d00005347sv0000\n", PCI_DEVICES "/%s/%s", PF, "modalias");
	/* The file is so long that it takes many reads; its last line has no newline. */
	for (i = 0; i < 2000; i++)
		end += sprintf(end, "alias vfio_pci:v00008086d0000%04xsv* other_vfio_pci\n", i);
	sprintf(end, "alias vfio_pci:v*d*sv* vfio_pci\n"
		     "alias vfio_pci:v00001234d00005347sv* soft_vfio_pci");
	put_file(lines, "%s", path);
	pci_vfio_driver(PF, driver, sizeof(driver));
	CU_ASSERT_STRING_EQUAL(driver, "soft-vfio-pci");
	take(path);
	pci_vfio_driver(PF, driver, sizeof(driver));
	CU_ASSERT_STRING_EQUAL(driver, "vfio-pci");
	remove_machine();
	free(lines);
}

/* A configuration space: its vendor and device ID, and its capabilities. */
struct identity {
	uint16_t vendor, device;
	bool sriov, gpuiov;
	size_t size; /* bytes that can be read; 0: all */
};

static void put_identity(const struct identity *id)
{
	uint32_t config[1024] = {0};
	char text[16];

	config[0] = id->vendor | (uint32_t)id->device << 16;
	/* A vendor capability of another kind, SR-IOV, and GPU-IOV of the length that navi has. */
	config[0x100 / 4] = PCI_EXT_CAP_VENDOR | 1u << 16 | 0x140u << 20;
	config[0x104 / 4] = 0x7u | 0x10u << 20;
	config[0x140 / 4] = (id->sriov ? PCI_EXT_CAP_SRIOV : 0x1u) | 1u << 16 | 0x400u << 20;
	config[0x400 / 4] = (id->gpuiov ? PCI_EXT_CAP_VENDOR : 0x1u) | 1u << 16;
	config[0x404 / 4] = GPUIOV_VSEC_ID | 0x220u << 20;
	put_bytes(config, id->size ? id->size : sizeof(config), PCI_DEVICES "/" PF "/config");
	snprintf(text, sizeof(text), "0x%04x\n", id->vendor);
	put_file(text, PCI_DEVICES "/%s/%s", PF, "vendor");
	snprintf(text, sizeof(text), "0x%04x\n", id->device);
	put_file(text, PCI_DEVICES "/%s/%s", PF, "device");
}

/* A GPU that no driver of vgpud knows keeps its host driver, and the doctor says what it is. */
TEST(strangers, "a GPU that no driver knows keeps its host driver")
{
	static const struct {
		struct identity id;
		const char *why;
	} cases[] = {
		{{0x1002, 0x73a1, true, true, 0}, "not a GPU that vgpud has a driver for"},
		{{0x1234, 0x1111, true, true, 0}, "not a GPU that vgpud has a driver for"},
		{{0x1234, 0x5347, true, false, 0}, "no GPU-IOV capability"},
		{{0x1234, 0x5347, false, true, 0}, "no SR-IOV capability"},
		{{0x1234, 0x5347, true, true, 64}, "only root can read"},
		{{0x1234, 0x5347, true, true, 2}, "cannot be read"},
	};
	static const char *const names[] = {"sysfs:" PF, "vfio:" PF};
	struct vfio_device *device;
	struct findings f;
	char text[32];
	unsigned i, k;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make_machine();
		put_identity(&cases[i].id);
		for (k = 0; k < 2; k++) {
			CU_ASSERT(vfio_device_open(&device, names[k], &err) < 0);
			CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].why));
			CU_ASSERT_EQUAL(kernel_read_link(text, sizeof(text),
							 PCI_DEVICES "/" PF "/driver"),
					0);
			CU_ASSERT_STRING_EQUAL(text, "amdgpu");
			CU_ASSERT(kernel_read_text(text, sizeof(text),
						   PCI_DEVICES "/" PF "/driver_override") > 0);
			CU_ASSERT_STRING_EQUAL(text, "(null)");
		}
		f = (struct findings){.bad = 0};
		vfio_doctor(finding, &f, DOCTOR_NEEDS_ALL);
		CU_ASSERT_PTR_NOT_NULL(strstr(f.text, cases[i].why));
		remove_machine();
	}
	/* A known GPU is reported as usable, and is taken. */
	make_machine();
	put_identity(&(struct identity){0x1234, 0x5347, true, true, 0});
	f = (struct findings){.bad = 0};
	vfio_doctor(finding, &f, DOCTOR_NEEDS_ALL);
	CU_ASSERT_PTR_NOT_NULL(strstr(f.text, PF ": softgpu (1234:5347), driver amdgpu"));
	CU_ASSERT_PTR_NULL(strstr(f.text, "has a driver for"));
	vfio_device_open(&device, "sysfs:" PF, &err); /* fails later: it has no BARs */
	CU_ASSERT_EQUAL(kernel_read_link(text, sizeof(text), PCI_DEVICES "/" PF "/driver"), 0);
	CU_ASSERT_STRING_EQUAL(text, "pci-pf-stub");
	remove_machine();
}

static int bind_and_make_vfs(void)
{
	int r = pci_bind(PF, "pci-pf-stub", &err);

	return r ? r : pci_set_vfs(PF, 2, &err);
}

/* The result is an error or success: no VF is left with another driver. */
static void bound_or_error(int r)
{
	char address[PCI_ADDRESS_SIZE], driver[32];
	uint32_t i;

	CU_ASSERT(r == 0 ? all_bound(2) : err.text[0] != '\0');
	for (i = 0; i < 2; i++)
		if (pci_vf_address(PF, i, address) == 0 &&
		    kernel_read_link(driver, sizeof(driver), PCI_DEVICES "/%s/driver", address) ==
			    0)
			CU_ASSERT_STRING_EQUAL(driver, "vfio-pci");
	remove_machine();
}

TEST(any_call_fails, "any kernel call may fail")
{
	static const int errors[] = {-EACCES, -EIO, -ENODEV};
	unsigned k;

	for (k = 0; k < sizeof(errors) / sizeof(errors[0]); k++) {
		fail_with = errors[k];
		fail_each_call(&(struct each_call){&calls, &fail_at, make_machine,
						   bind_and_make_vfs, bound_or_error});
	}
}

SUITE_MAIN("PCI functions in sysfs")
