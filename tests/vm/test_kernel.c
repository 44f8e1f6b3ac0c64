/* SPDX-License-Identifier: MIT */
/*
 * The access layer on a real Linux: discovery, the life cycle of VFs, a PF held by sysfs and by
 * VFIO, VFs by VFIO, tokens, interrupts, DMA. It runs as root in a machine of the lab and needs
 * that machine's softgpu for itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "suite.h"
#include "vfio/device.h"
#include "softgpu/registers.h"
#include "vfio/gpuiov.h"
#include "vfio/kernel.h"
#include "vfio/pci.h"

#define TOKEN "0b9ad3ae-6dc5-4e49-b0cb-d46a5a4b4b7e"
#define OTHER_TOKEN "99999999-6dc5-4e49-b0cb-d46a5a4b4b7e"

static struct pci_info gpu;
static struct vgpu_error err;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static const char *name_of(const char *prefix, const char *address, const char *rest)
{
	static char names[4][128];
	static unsigned next;
	char *name = names[next++ % 4];

	snprintf(name, sizeof(names[0]), "%s%s%s", prefix, address, rest);
	return name;
}

static const char *vf(uint32_t n)
{
	static char address[PCI_ADDRESS_SIZE];

	CU_ASSERT_EQUAL_FATAL(pci_vf_address(gpu.address, n, address), 0);
	return address;
}

TEST(discover, "discovery")
{
	struct pci_info all[8];
	int n = pci_list_gpus(all, 8);

	CU_ASSERT_EQUAL_FATAL(n, 1);
	gpu = all[0];
	CU_ASSERT_EQUAL(gpu.vendor, 0x1234);
	CU_ASSERT_EQUAL(gpu.class >> 8, 0x0380);
	CU_ASSERT_EQUAL(gpu.total_vfs, 31);
	CU_ASSERT_EQUAL(gpu.vfs, 0);
	CU_ASSERT_STRING_EQUAL(gpu.driver, "");
	CU_ASSERT(gpu.group >= 0);
	CU_ASSERT_EQUAL(gpu.group_size, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(gpu.resets, "flr"));
}

/* Errors say what is wrong, and nothing changes. */
TEST(mistakes, "mistakes are named")
{
	static const struct {
		const char *name, *says;
	} cases[] = {
		{"sysfs:01:00", "not a PCI address"},
		{"sysfs:0000:77:00.0", "no such PCI function"},
		{"sysfs:0000:00:00.0", "has no SR-IOV"},
		{"vfio:0000:77:00.0", "no such PCI function"},
		{"vfio:0000:00:1f.2", "not VFIO's"},
		{"vfio:0000:01:00.0,colour=red", "want ADDRESS, and ,token=UUID"},
		{"vfio:0000:01:00.0,token=1234", "want ADDRESS, and ,token=UUID"},
		{"ftp:0000:01:00.0", "not a device"},
	};
	struct vfio_device *d;
	struct pci_info info;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT(vfio_device_open(&d, cases[i].name, &err) < 0);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].says));
		if (!strstr(err.text, cases[i].says))
			printf("\n  '%s' does not say '%s'\n", err.text, cases[i].says);
	}
	CU_ASSERT_EQUAL(pci_describe(gpu.address, &info, &err), 0);
	CU_ASSERT_STRING_EQUAL(info.driver, "");
	CU_ASSERT_EQUAL(pci_set_vfs(gpu.address, 32, &err), -EINVAL);
	CU_ASSERT_EQUAL(pci_bind(gpu.address, "no-such-driver", &err), -ENOENT);
}

/* Each VF has vfio-pci from the beginning: Linux' log would name any other driver. */
TEST(virtual_functions, "1, 4 and 31 VFs, and one in use")
{
	static const uint32_t numbers[] = {1, 4, 31};
	struct vfio_device *pf, *d;
	struct pci_info info;
	uint32_t i, k;
	double t;

	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&pf, name_of("sysfs:", gpu.address, ""), &err), 0);
	for (k = 0; k < 3; k++) {
		t = now();
		CU_ASSERT_EQUAL_FATAL(vfio_set_vfs(pf, numbers[k], &err), 0);
		printf("[%u VFs in %.2f s] ", numbers[k], now() - t);
		for (i = 0; i < numbers[k]; i++) {
			CU_ASSERT_EQUAL(pci_describe(vf(i), &info, &err), 0);
			CU_ASSERT_STRING_EQUAL(info.driver, "vfio-pci");
			CU_ASSERT_STRING_EQUAL(info.pf, gpu.address);
			CU_ASSERT_EQUAL(info.group_size, 1);
		}
	}
	/* A VF that is given as a PF is refused, and the error names its PF. */
	CU_ASSERT(vfio_device_open(&d, name_of("sysfs:", vf(2), ""), &err) < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, gpu.address));
	/* A VF in use is not removed, and the error names its user. */
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name_of("vfio:", vf(2), ""), &err), 0);
	t = now();
	CU_ASSERT_EQUAL(vfio_set_vfs(pf, 4, &err), -EBUSY);
	CU_ASSERT(now() - t < 10);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "VF 2"));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "test-kernel"));
	CU_ASSERT_EQUAL(pci_describe(gpu.address, &info, &err), 0);
	CU_ASSERT_EQUAL(info.vfs, 31);
	vfio_device_close(d);
	CU_ASSERT_EQUAL(vfio_set_vfs(pf, 0, &err), 0);
	vfio_device_close(pf);
}

/* Returns the offset of the GPU-IOV capability. */
static uint16_t find_gpuiov(const uint8_t *config)
{
	uint16_t at = 0;
	uint32_t vsec;

	while (vfio_find_ext_cap(config, PCI_EXT_CAP_VENDOR, &at)) {
		memcpy(&vsec, config + at + 4, sizeof(vsec));
		if ((vsec & 0xffff) == GPUIOV_VSEC_ID)
			return at;
	}
	CU_FAIL_FATAL("no GPU-IOV capability");
	return 0;
}

/* Every way to hold a PF shows the same capabilities and registers. */
static void look_at_pf(struct vfio_device *pf)
{
	uint8_t config[4096];
	uint16_t sriov = 0;
	uint32_t id = 0;
	struct vfio_region r;

	CU_ASSERT_EQUAL(vfio_read(pf, VFIO_REGION_CONFIG, 0, config, sizeof(config)), 0);
	CU_ASSERT(vfio_find_ext_cap(config, PCI_EXT_CAP_SRIOV, &sriov));
	CU_ASSERT(find_gpuiov(config) > 0);
	CU_ASSERT_EQUAL(vfio_region(pf, VFIO_REGION_BAR5, &r), 0);
	CU_ASSERT_EQUAL(r.size, 0x40000);
	CU_ASSERT_EQUAL(vfio_read(pf, VFIO_REGION_BAR5, SOFTGPU_ID, &id, sizeof(id)), 0);
	CU_ASSERT_EQUAL(id, SOFTGPU_ID_VALUE);
	CU_ASSERT_EQUAL(vfio_read(pf, VFIO_REGION_BAR5, 0x40000, &id, sizeof(id)), -EINVAL);
}

TEST(pf_by_sysfs, "a PF by sysfs")
{
	struct vfio_device *pf, *second;
	int fds[2] = {-1, -1};

	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&pf, name_of("sysfs:", gpu.address, ""), &err), 0);
	look_at_pf(pf);
	CU_ASSERT_EQUAL(vfio_irqs(pf, fds, 2), -ENOTSUP);
	/* A PF has one owner. */
	CU_ASSERT_EQUAL(vfio_device_open(&second, name_of("sysfs:", gpu.address, ""), &err),
			-EBUSY);
	vfio_device_close(pf);
}

/* A command that cannot succeed ends at once and raises the engine's vector. */
static void pf_interrupt(struct vfio_device *pf)
{
	const struct gpuiov_location *at = gpuiov_layout_navi.at;
	struct pollfd p = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .events = POLLIN};
	int fds[2] = {p.fd, -1};
	uint8_t config[4096];
	uint32_t word, block;
	uint16_t cap;

	CU_ASSERT_EQUAL(vfio_read(pf, VFIO_REGION_CONFIG, 0, config, sizeof(config)), 0);
	cap = find_gpuiov(config);
	block = cap + ((uint32_t)config[cap + gpuiov_layout_navi.block_pointer] << 4);
	CU_ASSERT_EQUAL(vfio_irqs(pf, fds, 2), 0);
	word = GPUIOV_CMD_SAVE | GPUIOV_CMD_EXECUTE | GPUIOV_CMD_EXECUTE_INTR |
	       GPUIOV_FCN_VF(0) << 8;
	CU_ASSERT_EQUAL(vfio_write(pf, VFIO_REGION_CONFIG,
				   (at[GPUIOV_CMD].space == GPUIOV_BLOCK ? block : cap) +
					   at[GPUIOV_CMD].offset,
				   &word, sizeof(word)),
			0);
	CU_ASSERT_EQUAL(poll(&p, 1, 10000), 1);
	close(p.fd);
}

static int open_vf(const char *token)
{
	struct vfio_device *d;
	int r = vfio_device_open(&d, name_of("vfio:", vf(0), token), &err);

	if (r == 0)
		vfio_device_close(d);
	return r;
}

static void refuse_tokens(void)
{
	CU_ASSERT(open_vf("") < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "token of this host: none was given"));
	CU_ASSERT(open_vf(",token=" OTHER_TOKEN) < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "the one given is wrong"));
}

TEST(pf_by_vfio, "a PF by VFIO, and its token")
{
	struct vfio_device *pf, *d;

	/* A change of the way to hold the PF removes its VFs; it is refused if one is in use. */
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&pf, name_of("sysfs:", gpu.address, ""), &err), 0);
	CU_ASSERT_EQUAL_FATAL(vfio_set_vfs(pf, 2, &err), 0);
	vfio_device_close(pf);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name_of("vfio:", vf(1), ""), &err), 0);
	CU_ASSERT_EQUAL(vfio_device_open(&pf, name_of("vfio:", gpu.address, ",token=" TOKEN), &err),
			-EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "VF 1"));
	vfio_device_close(d);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&pf, name_of("vfio:", gpu.address, ",token=" TOKEN),
					       &err),
			      0);
	printf("[%s] ", pf->ops->name);
	look_at_pf(pf);
	CU_ASSERT_EQUAL_FATAL(vfio_set_vfs(pf, 2, &err), 0);
	pf_interrupt(pf);
	CU_ASSERT_EQUAL(open_vf(",token=" TOKEN), 0);
	/* Without the token, and with a wrong one, the VF is refused with the reason. Before 6.17
	 * Linux does not check tokens of users that open a function's own node. */
	if (strcmp(pf->ops->name, "vfio-cdev") == 0 && open_vf("") == 0)
		printf("[no token is asked for by this kernel's nodes] ");
	else
		refuse_tokens();
	CU_ASSERT_EQUAL(vfio_set_vfs(pf, 0, &err), 0);
	vfio_device_close(pf);
	CU_ASSERT_EQUAL(pci_release(gpu.address, &err), 0);
}

/* A VF's regions, registers behind closed gates, memory for its DMA, reset, and its one owner. */
TEST(vf_by_vfio, "a VF by VFIO")
{
	struct vfio_device *pf, *d, *second;
	struct vfio_region r;
	int fd = memfd_create("dma", MFD_CLOEXEC), fds[2] = {-1, -1};
	uint32_t word = 0;

	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&pf, name_of("sysfs:", gpu.address, ""), &err), 0);
	CU_ASSERT_EQUAL_FATAL(vfio_set_vfs(pf, 1, &err), 0);
	CU_ASSERT_EQUAL_FATAL(vfio_device_open(&d, name_of("vfio:", vf(0), ""), &err), 0);
	CU_ASSERT_EQUAL(vfio_region(d, VFIO_REGION_BAR2, &r), 0);
	CU_ASSERT_EQUAL(r.mmap_size, 4096);
	CU_ASSERT_EQUAL(vfio_read(d, VFIO_REGION_BAR5, SOFTGPU_STATUS, &word, sizeof(word)), 0);
	CU_ASSERT(ftruncate(fd, 1 << 20) == 0);
	CU_ASSERT_EQUAL(vfio_dma_map(d, fd, 0, 0x100000, 1 << 20), 0);
	CU_ASSERT(vfio_dma_map(d, fd, 0, 0x100000, 1 << 20) < 0);
	CU_ASSERT_EQUAL(vfio_dma_unmap(d, 0x100000, 1 << 20), 0);
	CU_ASSERT_EQUAL(vfio_dma_unmap(d, 0x100000, 1 << 20), -ENOENT);
	CU_ASSERT_EQUAL(vfio_irqs(d, fds, 2), 0);
	CU_ASSERT_EQUAL(vfio_reset(d), 0);
	CU_ASSERT_EQUAL(vfio_device_open(&second, name_of("vfio:", vf(0), ""), &err), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "in use by test-kernel"));
	vfio_device_close(d);
	close(fd);
	CU_ASSERT_EQUAL(vfio_set_vfs(pf, 0, &err), 0);
	vfio_device_close(pf);
}

SUITE_MAIN("the kernel's PCI and VFIO")
