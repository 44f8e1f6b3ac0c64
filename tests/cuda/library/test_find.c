/* SPDX-License-Identifier: MIT */
/* Which VF a program finds in its VM, and how it opens one by the files of its BARs, on a machine
 * that the test makes up. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "find.h"
#include "machine.h"
#include "suite.h"
#include "vfio/device.h"
#include "softgpu/registers.h"

#define VF "0000:00:05.0"
#define NAME "resource:" VF
#define SHARED "shared:" VF
#define PAGE 8192u

static struct vgpu_error err;

/* Adds a VF as Linux shows it in a VM: with memory decoding on, and BARs 0, 2, 4 and 5. */
static void add_vf(const char *address)
{
	static const uint8_t page[PAGE] = {[SOFTGPU_MEMORY_SIZE] = 1};
	uint8_t config[64] = {0x34, 0x12, 0x48, 0x53, 0x02};
	char path[200];
	int i;

	function(address, "0x038000\n", "9");
	put_file("0x5348\n", PCI_DEVICES "/%s/device", address);
	put_file("0x2000 0x3fff 0x14220c\n0x0 0x0 0x0\n0x4000 0x5fff 0x14220c\n0x0 0x0 0x0\n"
		 "0x6000 0x7fff 0x40200\n0x8000 0x9fff 0x40200\n0x0 0x0 0x0\n",
		 PCI_DEVICES "/%s/resource", address);
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/config", address);
	put_bytes(config, sizeof(config), path);
	for (i = 0; i < 6; i++) {
		snprintf(path, sizeof(path), PCI_DEVICES "/%s/resource%d", address, i);
		if (i != 1 && i != 3)
			put_bytes(page, sizeof(page), path);
	}
}

static void make(void)
{
	make_machine();
	add_vf(VF);
	unsetenv(FIND_VARIABLE);
}

static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

TEST(finds, "the VF that is named, or the first one")
{
	static const struct {
		const char *wanted, *found;
	} cases[] = {
		{"", SHARED},
		{"/run/vf0.sock", "vfio-user:/run/vf0.sock"},
		{"vf0.sock", "vfio-user:vf0.sock"},
		{"vfio-user:/run/vf0.sock", "vfio-user:/run/vf0.sock"},
		{"0000:00:07.0", "shared:0000:00:07.0"},
		{"00000000:0A:07.0", "shared:0000:0a:07.0"},
		{"shared:0000:00:07.0", "shared:0000:00:07.0"},
		{"resource:0000:00:07.0", "resource:0000:00:07.0"},
		{"vfio:0000:00:07.0", "vfio:0000:00:07.0"},
		{"lease:/run/x/vf.sock", "lease:/run/x/vf.sock"},
		{"0000:00:07", "vfio-user:0000:00:07"},
	};
	char name[FIND_NAME_SIZE], all[2][PCI_ADDRESS_SIZE], long_path[400];
	size_t i;

	make();
	CU_ASSERT_EQUAL(find_vf(name, &err), 0);
	CU_ASSERT_STRING_EQUAL(name, SHARED);
	/* the first, in whatever order the kernel lists them, and no PF */
	add_vf("0000:00:07.0");
	add_vf("0000:00:04.0");
	CU_ASSERT_EQUAL(find_all(all, 2), 3);
	CU_ASSERT_STRING_EQUAL(all[0], "0000:00:04.0");
	CU_ASSERT_STRING_EQUAL(all[1], VF);
	/* in a container the lease, whatever the host's /sys shows */
	put_file("", FIND_SLOT "/" FIND_SOCKET);
	CU_ASSERT_EQUAL(find_vf(name, &err), 0);
	CU_ASSERT_STRING_EQUAL(name, "lease:" FIND_SLOT "/" FIND_SOCKET);
	remove_machine();
	make();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv(FIND_VARIABLE, cases[i].wanted, 1);
		CU_ASSERT_EQUAL(find_vf(name, &err), 0);
		CU_ASSERT_STRING_EQUAL(name, cases[i].found);
	}
	memset(long_path, 'x', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = 0;
	setenv(FIND_VARIABLE, long_path, 1);
	CU_ASSERT_EQUAL(find_vf(name, &err), -EINVAL);
	remove_machine();
	make_machine();
	unsetenv(FIND_VARIABLE);
	CU_ASSERT_EQUAL(find_vf(name, &err), -ENODEV);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no VF of softgpu"));
	remove_machine();
}

/* A VF is opened as it is, and by one at a time. */
TEST(opens, "a VF is opened as it is, by one at a time")
{
	struct vfio_device *one, *two;
	uint32_t value = 7, seen = 0;
	int fd = -1;
	size_t size;
	void *map;

	make();
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&one, NAME, &err), 0);
	CU_ASSERT_EQUAL(vfio_device_open(&two, NAME, &err), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "another program holds this VF"));
	CU_ASSERT_EQUAL(vfio_write(one, VFIO_REGION_BAR5, 8, &value, 4), 0);
	CU_ASSERT_EQUAL(vfio_read(one, VFIO_REGION_BAR5, 8, &seen, 4), 0);
	CU_ASSERT_EQUAL(seen, 7);
	CU_ASSERT_EQUAL(vfio_read(one, VFIO_REGION_BAR5, PAGE - 2, &seen, 4), -EINVAL);
	CU_ASSERT_EQUAL(vfio_map(one, VFIO_REGION_BAR0, &map, &size), 0);
	CU_ASSERT_EQUAL(size, PAGE);
	CU_ASSERT_EQUAL(vfio_irqs(one, &fd, 1), -ENOTSUP);
	CU_ASSERT_EQUAL(vfio_dma_map(one, fd, 0, 0, PAGE), -ENOTSUP);
	vfio_device_close(one);
	CU_ASSERT_EQUAL(vfio_device_open(&two, NAME, &err), 0);
	CU_ASSERT_EQUAL(vfio_read(two, VFIO_REGION_BAR5, 8, &seen, 4), 0);
	CU_ASSERT_EQUAL(seen, 7);
	vfio_device_close(two);
	remove_machine();
}

/* Several may share a VF, beside none who wants it alone; its locks are each one's. */
TEST(shares, "several share a VF")
{
	struct vfio_device *one, *two, *alone;
	uint32_t value = 7, seen = 0;

	make();
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&one, SHARED, &err), 0);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&two, SHARED, &err), 0);
	CU_ASSERT_EQUAL(vfio_device_open(&alone, NAME, &err), -EBUSY);
	CU_ASSERT_EQUAL(vfio_write(one, VFIO_REGION_BAR5, 8, &value, 4), 0);
	CU_ASSERT_EQUAL(vfio_read(two, VFIO_REGION_BAR5, 8, &seen, 4), 0);
	CU_ASSERT_EQUAL(seen, 7);
	CU_ASSERT_EQUAL(vfio_lock(one, 3, true), 0);
	CU_ASSERT_EQUAL(vfio_lock(one, 3, true), 0);
	CU_ASSERT_EQUAL(vfio_lock(two, 3, true), -EAGAIN);
	CU_ASSERT_EQUAL(vfio_lock(two, 4, true), 0);
	CU_ASSERT_EQUAL(vfio_lock(one, 4, true), -EAGAIN);
	CU_ASSERT_EQUAL(vfio_lock(one, 3, false), 0);
	CU_ASSERT_EQUAL(vfio_lock(two, 3, true), 0);
	/* its end lets go of all of them, and of the VF */
	vfio_device_close(two);
	CU_ASSERT_EQUAL(vfio_lock(one, 3, true), 0);
	CU_ASSERT_EQUAL(vfio_lock(one, 4, true), 0);
	vfio_device_close(one);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&alone, NAME, &err), 0);
	CU_ASSERT_EQUAL(vfio_lock(alone, 3, true), -ENOTSUP);
	CU_ASSERT_EQUAL(vfio_device_open(&one, SHARED, &err), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "another program holds this VF"));
	vfio_device_close(alone);
	remove_machine();
}

/* A mark is there while a descriptor of it is, and no other descriptor shows it. */
TEST(marks, "marks last as long as their descriptors")
{
	struct vfio_device *one, *two, *alone;
	int fd, more, copy;
	uint32_t n = 0;

	make();
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&one, SHARED, &err), 0);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&two, SHARED, &err), 0);
	CU_ASSERT_FALSE(vfio_is_marked(one, 3));
	fd = vfio_mark(one, 3);
	more = vfio_mark(two, 3);
	CU_ASSERT_FATAL(fd >= 0 && more >= 0);
	CU_ASSERT(vfio_is_marked(one, 3) && vfio_is_marked(two, 3));
	CU_ASSERT(!vfio_is_marked(one, 2) && !vfio_is_marked(one, 4));
	CU_ASSERT_EQUAL(vfio_mark_of(two, fd, &n), 0);
	CU_ASSERT_EQUAL(n, 3);
	CU_ASSERT_EQUAL(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	CU_ASSERT_EQUAL(fcntl(fd, F_GETFD), FD_CLOEXEC);
	/* it is none of the locks, and the device has none */
	CU_ASSERT_EQUAL(vfio_lock(one, 3, true), 0);
	CU_ASSERT_EQUAL(vfio_lock(one, 3, false), 0);
	CU_ASSERT_EQUAL(vfio_mark_of(two, STDIN_FILENO, &n), -EINVAL);
	CU_ASSERT_EQUAL(vfio_mark_of(two, -1, &n), -EINVAL);
	/* until the last copy of the last one is closed, whatever becomes of the device */
	copy = dup(fd);
	close(fd);
	close(more);
	vfio_device_close(one);
	CU_ASSERT_TRUE(vfio_is_marked(two, 3));
	CU_ASSERT_EQUAL(vfio_mark_of(two, copy, &n), 0);
	close(copy);
	CU_ASSERT_FALSE(vfio_is_marked(two, 3));
	copy = vfio_mark(two, UINT32_MAX);
	CU_ASSERT_EQUAL(vfio_mark_of(two, copy, &n), 0);
	CU_ASSERT_EQUAL(n, UINT32_MAX);
	close(copy);
	vfio_device_close(two);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&alone, NAME, &err), 0);
	CU_ASSERT_EQUAL(vfio_mark(alone, 3), -ENOTSUP);
	CU_ASSERT_EQUAL(vfio_mark_of(alone, STDIN_FILENO, &n), -ENOTSUP);
	vfio_device_close(alone);
	remove_machine();
}

/* Each reason says what to do. */
TEST(refuses, "what is wrong is said, with the cure")
{
	static const struct {
		const char *file, *text; /* what is different */
		int r;
		const char *why;
	} cases[] = {
		{"device", "0x5347\n", -ENODEV, "is not a VF of softgpu"},
		{"vendor", "0x10de\n", -ENODEV, "is not a VF of softgpu"},
		{"vendor", "", -EIO, "invalid values"},
		{"config", "", -EIO, "cannot open"},
		{"resource", "0x1000 0x1fff\n", -EIO, "cannot open"},
		{"resource", "0x1000 0xfff 0x200\n", -EIO, "cannot open"},
	};
	struct vfio_device *d;
	int before = descriptors();
	static uint8_t ones[PAGE];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make();
		put_file(cases[i].text, PCI_DEVICES "/%s/%s", VF, cases[i].file);
		CU_ASSERT_EQUAL(vfio_device_open(&d, NAME, &err), cases[i].r);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].why));
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, VF));
		remove_machine();
	}
	/* Switched off: its registers read as ones. After a reset by the host, only the command
	 * says so. */
	make();
	put_file("\x34\x12\x48\x53\x01\x01", PCI_DEVICES "/%s/config", VF);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, NAME, &err), 0);
	vfio_device_close(d);
	memset(ones, 0xff, sizeof(ones));
	put_bytes(ones, sizeof(ones), PCI_DEVICES "/" VF "/resource5");
	CU_ASSERT_EQUAL(vfio_device_open(&d, NAME, &err), -EIO);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(err.text, "as root, write 1 to " PCI_DEVICES "/" VF "/enable"));
	remove_machine();
	make();
	point("../../drivers/vfio-pci", PCI_DEVICES "/" VF "/driver");
	CU_ASSERT_EQUAL(vfio_device_open(&d, NAME, &err), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "driver vfio-pci has it"));
	CU_ASSERT_EQUAL(vfio_device_open(&d, "resource:00:05", &err), -EINVAL);
	CU_ASSERT_EQUAL(vfio_device_open(&d, "resource:0000:00:06.0", &err), -ENODEV);
	remove_machine();
	CU_ASSERT_EQUAL(descriptors(), before);
}

/* Whichever call of the kernel fails, there is an error or an open VF, and nothing is left open. */
TEST(any_call_fails, "any call fails")
{
	int before = descriptors(), opened = 0, denied = 0;
	struct vfio_device *d;
	unsigned n;

	for (n = 1; n < 60; n++) {
		make();
		fail_at = calls + n;
		fail_with = -EACCES;
		if (vfio_device_open(&d, NAME, &err) == 0) {
			opened++;
			vfio_device_close(d);
		} else if (strstr(err.text, "add the user to the group")) {
			denied++;
		}
		remove_machine();
	}
	CU_ASSERT(opened > 0);
	CU_ASSERT(denied > 0);
	CU_ASSERT_EQUAL(descriptors(), before);
}

/* CUDA_VISIBLE_DEVICES, as NVIDIA's Programming Guide has it, where VF 0 is the only device. */
TEST(visible, "the devices that a program wants to see")
{
	char uuid[FIND_UUID_TEXT], of_uuid[60];
	const struct {
		const char *list;
		bool seen;
	} cases[] = {
		{NULL, true},
		{"0", true},
		{"00", true},
		{" 0 ", true},
		{"0,1", true},
		{"0,-1", true},
		{"0,junk", true},
		{"", false},
		{" ", false},
		{"-1", false},
		{"1", false},
		{"5", false},
		{"-1,0", false},
		{"1,0", false},
		{",0", false},
		{"0x0", false},
		{"+0", false},
		{"NoDevice", false},
		{"GPU", false},
		{"GPU-", false},
		{"GPU-nonsense", false},
		{"MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0", false},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (find_is_visible(SHARED, cases[i].list) != cases[i].seen) {
			puts(cases[i].list ? cases[i].list : "unset");
			CU_FAIL("the list shows another device than it says");
		}
	find_uuid_text(SHARED, uuid);
	CU_ASSERT(find_is_visible(SHARED, uuid));
	CU_ASSERT(!find_is_visible("shared:0000:00:06.0", uuid));
	snprintf(of_uuid, sizeof(of_uuid), "%.9s", uuid); /* shortened */
	CU_ASSERT(find_is_visible(SHARED, of_uuid));
	snprintf(of_uuid, sizeof(of_uuid), "%s,1", uuid);
	CU_ASSERT(find_is_visible(SHARED, of_uuid));
	snprintf(of_uuid, sizeof(of_uuid), "1,%s", uuid);
	CU_ASSERT(!find_is_visible(SHARED, of_uuid));
	snprintf(of_uuid, sizeof(of_uuid), "%s0", uuid);
	CU_ASSERT(!find_is_visible(SHARED, of_uuid));
}

/* Where a VF is, by its name; and what may be the text of such a place. */
TEST(places, "places on the PCI bus")
{
	static const struct {
		const char *text;
		struct find_pci place; /* all 0: it is none */
	} texts[] = {
		{"0000:00:05.0", {0, 0, 5, 0}},
		{"00000001:0a:1f.7", {1, 10, 31, 7}},
		{"0001:0A:1f", {1, 10, 31, 0}},
		{"0a:1f.3", {0, 10, 31, 3}},
		{"ffffffff:00:05.0", {UINT32_MAX, 0, 5, 0}},
		{"", {0}},
		{"0000:00:05.0x", {0}},
		{"-1:00:05.0", {0}},
		{"0x1:00:05.0", {0}},
		{"00:05", {0}},
		{"0000:00:05.0.1", {0}},
		{"0000:00:05.", {0}},
	};
	struct find_pci p;
	size_t i;

	find_pci(SHARED, &p);
	CU_ASSERT(p.domain == 0 && p.bus == 0 && p.device == 5 && p.function == 0);
	find_pci("vfio:0002:81:10.4", &p);
	CU_ASSERT(p.domain == 2 && p.bus == 0x81 && p.device == 16 && p.function == 4);
	find_pci("vfio-user:/run/vf0.sock", &p);
	CU_ASSERT(p.domain == FIND_NO_DOMAIN && p.bus == 0 && p.device == 0 && p.function == 0);
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		p = (struct find_pci){0};
		if (find_parse(texts[i].text, &p) != (texts[i].place.device > 0) ||
		    (texts[i].place.device > 0 && memcmp(&p, &texts[i].place, sizeof(p)) != 0)) {
			puts(texts[i].text);
			CU_FAIL("a place is not what its text says");
		}
	}
}

SUITE_MAIN("cuda_find")
