/* SPDX-License-Identifier: MIT */
/*
 * The register tests of softgpu over a real bus. The test opens PF and VFs by their names, as vgpud
 * and tenants do.
 *
 *     test-registers PF...        the device name of one PF of each layout
 */
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bus.h"
#include "suite.h"
#include "vfio/pci.h"

#define MAX_PFS 4

static char **names;
static const char *name; /* of the PF under test */
static struct vfio_device *pf, *vfs[VFS];
static int memory;
uint8_t *client_memory;

/* Names a VF: its socket is beside the PF's, or Linux lists its address. */
static void vf_name(uint32_t n, char out[200])
{
	char address[PCI_ADDRESS_SIZE];

	if (strncmp(name, "vfio-user:", 10) == 0) {
		snprintf(out, 200, "%.*svf%" PRIu32 ".sock", (int)(strlen(name) - 7), name, n);
		return;
	}
	snprintf(address, sizeof(address), "%.12s", strchr(name, ':') + 1);
	CU_ASSERT_EQUAL_FATAL(pci_vf_address(address, n, address), 0);
	snprintf(out, 200, "vfio:%s%s", address, strchrnul(name, ','));
}

static bool has_layout(void)
{
	uint8_t config[4096];
	uint16_t at = 0;
	uint32_t vsec;

	CU_ASSERT_EQUAL_FATAL(vfio_read(pf, VFIO_REGION_CONFIG, 0, config, sizeof(config)), 0);
	while (vfio_find_ext_cap(config, PCI_EXT_CAP_VENDOR, &at)) {
		memcpy(&vsec, config + at + 4, sizeof(vsec));
		if ((vsec & 0xffff) == GPUIOV_VSEC_ID && vsec >> 20 == layout->cap_length) {
			cap = at;
			return true;
		}
	}
	return false;
}

static bool is_new(void *)
{
	uint8_t control = 0;

	CU_ASSERT_EQUAL(vfio_read(pf, VFIO_REGION_CONFIG,
				  cap + layout->at[GPUIOV_RESET_CONTROL].offset, &control, 1),
			0);
	return !(control & GPUIOV_RESET_PF);
}

static void device_begin(const char *)
{
	uint8_t reset = GPUIOV_RESET_PF;
	struct vgpu_error err;
	int i;

	for (i = 0; names[i]; i++) {
		name = names[i];
		if (vfio_device_open(&pf, name, &err) < 0) {
			printf("%s\n", err.text);
			CU_FAIL_FATAL("a PF cannot be opened");
		}
		if (has_layout())
			break;
		vfio_device_close(pf);
	}
	CU_ASSERT_PTR_NOT_NULL_FATAL(names[i]);
	CU_ASSERT_EQUAL_FATAL(vfio_set_vfs(pf, 0, &err), 0);
	CU_ASSERT_EQUAL(vfio_write(pf, VFIO_REGION_CONFIG,
				   cap + layout->at[GPUIOV_RESET_CONTROL].offset, &reset, 1),
			0);
	CU_ASSERT_FATAL(await(is_new, NULL) && await(is_filled, NULL));
}

static void device_enable_vfs(void)
{
	struct vgpu_error err;
	char vf[200];
	uint32_t i;

	if (vfio_set_vfs(pf, VFS, &err) < 0) {
		printf("%s\n", err.text);
		CU_FAIL_FATAL("VFs cannot be enabled");
	}
	for (i = 0; i < VFS; i++) {
		vf_name(i, vf);
		if (vfio_device_open(&vfs[i], vf, &err) < 0) {
			printf("%s\n", err.text);
			CU_FAIL_FATAL("a VF cannot be opened");
		}
		CU_ASSERT_EQUAL(vfio_dma_map(vfs[i], memory, 0, CLIENT_IOVA, CLIENT_SIZE), 0);
		/* Opening a VF resets it, and so did its previous user. Both resets are
		 * acknowledged here. */
		set(GPUIOV_RESET_NOTIFICATION, 1u << i);
	}
}

static struct vfio_device *function(int fn)
{
	return fn == SOFTGPU_PF ? pf : vfs[fn];
}

static void device_read(int fn, uint32_t region, uint64_t offset, void *data, uint32_t size)
{
	CU_ASSERT_EQUAL(vfio_read(function(fn), region, offset, data, size), 0);
}

/* A read that follows ensures that the write has arrived before another function looks at its
 * effect. */
static void device_write(int fn, uint32_t region, uint64_t offset, const void *data, uint32_t size)
{
	uint32_t id;

	CU_ASSERT_EQUAL(vfio_write(function(fn), region, offset, data, size), 0);
	CU_ASSERT_EQUAL(vfio_read(function(fn), VFIO_REGION_CONFIG, 0, &id, sizeof(id)), 0);
}

static void device_end(void)
{
	struct vgpu_error err;
	uint32_t i;

	for (i = 0; i < VFS; i++)
		vfio_device_close(vfs[i]);
	CU_ASSERT_EQUAL(vfio_set_vfs(pf, 0, &err), 0);
	vfio_device_close(pf);
}

static const struct bus devices = {device_begin, device_enable_vfs, device_read, device_write,
				   device_end};
const struct bus *bus = &devices;

int main(int argc, char **argv)
{
	const struct test *const tables[] = {register_tests, NULL};

	if (argc < 2) {
		fputs("usage: test-registers PF...\n", stderr);
		return 2;
	}
	names = argv + 1;
	memory = memfd_create("client", MFD_CLOEXEC);
	if (memory < 0 || ftruncate(memory, CLIENT_SIZE) < 0)
		return 2;
	client_memory = mmap(NULL, CLIENT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	return client_memory == MAP_FAILED ? 2 : suite_main(names[0], tables, 1, argv);
}
