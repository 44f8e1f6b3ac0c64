/* SPDX-License-Identifier: MIT */
/*
 * The GPU-IOV driver on a PF in sysfs, which the test makes up, with softgpu's configuration space
 * and registers in files. Files only store what is written; the test itself does what a device
 * would do.
 */
#include "machine.h"
#include "softgpu.h"
#include "suite.h"
#include "vfio/device.h"
#include "vfio/gpuiov.h"
#include "vgpu/driver.h"

#define VFS 2u
#define CONFIG_SIZE 4096u
#define BAR5_SIZE 0x40000u

static const struct vgpu_driver_ops *const ops = &vgpu_gpuiov_driver;

static struct vgpu_error err;
static struct vgpu_event last;
static uint32_t n_events;

static void on_event(void *, const struct vgpu_event *event)
{
	last = *event;
	n_events++;
}

static void on_irq(void *, int, uint32_t)
{
}

static void on_vfs(void *, uint32_t)
{
}

/* Writes softgpu's PF configuration space and registers to files of the machine. */
static void put_registers(void)
{
	static const struct softgpu_carrier carrier = {.irq = on_irq, .vfs_changed = on_vfs};
	static uint8_t config[CONFIG_SIZE], bar[BAR5_SIZE];
	struct softgpu_config want = {.n_vfs = 8,
				      .vram = 64u << 20,
				      .layout = &gpuiov_layout_navi,
				      .seed = 1};
	struct softgpu *gpu;
	uint32_t i;

	CU_ASSERT_EQUAL_FATAL(softgpu_create(&gpu, &want, &carrier, NULL, &err), 0);
	softgpu_read(gpu, SOFTGPU_PF, VFIO_REGION_CONFIG, 0, config, sizeof(config));
	for (i = 0; i < BAR5_SIZE; i += 4)
		softgpu_read(gpu, SOFTGPU_PF, VFIO_REGION_BAR5, i, bar + i, 4);
	softgpu_destroy(gpu);
	put_bytes(config, sizeof(config), PCI_DEVICES "/" PF "/config");
	put_bytes(bar, sizeof(bar), PCI_DEVICES "/" PF "/resource5");
	/* There is only BAR 5, at 4 GiB; its lower half in the configuration space is 0. */
	put_file("0x0 0x0 0x0\n0x0 0x0 0x0\n0x0 0x0 0x0\n0x0 0x0 0x0\n0x0 0x0 0x0\n"
		 "0x100000000 0x10003ffff 0x200\n",
		 PCI_DEVICES "/%s/%s", PF, "resource");
}

/* Changes a register in the configuration space, as the device would. */
static void change(uint32_t at, uint16_t value)
{
	FILE *f = fopen(inside(PCI_DEVICES "/" PF "/config"), "r+");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(fseek(f, (long)at, SEEK_SET), 0);
	CU_ASSERT_EQUAL(fwrite(&value, sizeof(value), 1, f), 1);
	fclose(f);
}

static uint16_t value_of(uint32_t at)
{
	FILE *f = fopen(inside(PCI_DEVICES "/" PF "/config"), "r");
	uint16_t value = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(fseek(f, (long)at, SEEK_SET), 0);
	CU_ASSERT_EQUAL(fread(&value, sizeof(value), 1, f), 1);
	fclose(f);
	return value;
}

static void find(uint16_t id, uint16_t *at)
{
	static uint8_t config[CONFIG_SIZE];
	FILE *f = fopen(inside(PCI_DEVICES "/" PF "/config"), "r");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(fread(config, 1, sizeof(config), f), sizeof(config));
	fclose(f);
	CU_ASSERT_FATAL(vfio_find_ext_cap(config, id, at));
}

/*
 * After a reset of the whole GPU, dispatch() restores the registers, VFs included, without asking
 * Linux anything. Linux does not know of the reset, its answers may take seconds, and the engine
 * thread must stop a VF in time.
 */
TEST(gpu_reset, "after a reset of the GPU, the driver asks Linux nothing")
{
	struct vgpu_driver_config want = {.device = "sysfs:" PF,
					  .n_vfs = VFS,
					  .host_node = -1,
					  .interrupts = true};
	struct vgpu_driver_found found;
	struct vgpu_driver_caps caps;
	struct vgpu_driver *driver;
	uint16_t sriov = 0, cap = 0;
	unsigned before;

	make_machine();
	put_registers();
	if (ops->device->open(&driver, &want, &caps, &found, on_event, NULL, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		CU_FAIL_FATAL("the driver does not open");
	}
	CU_ASSERT_STRING_EQUAL(caps.transport, "sysfs");
	find(PCI_EXT_CAP_SRIOV, &sriov);
	find(PCI_EXT_CAP_VENDOR, &cap);
	find(PCI_EXT_CAP_VENDOR, &cap); /* the first one is another vendor capability */
	CU_ASSERT(value_of(sriov + SRIOV_CTRL) & SRIOV_CTRL_VF_ENABLE);
	CU_ASSERT_EQUAL(ops->device->dispatch(driver, VGPU_SEC), 0);
	CU_ASSERT_EQUAL(ops->device->reset(driver, 1, VGPU_RESET_GPU, VGPU_SEC), 0);
	CU_ASSERT_EQUAL(ops->device->dispatch(driver, VGPU_SEC + 2 * VGPU_MSEC), 0);
	CU_ASSERT_EQUAL(n_events, 0);

	change(sriov + SRIOV_CTRL, 0);
	change(sriov + SRIOV_NUM_VFS, 0);
	change(cap + gpuiov_layout_navi.at[GPUIOV_RESET_CONTROL].offset, 0);
	before = questions;
	CU_ASSERT_EQUAL(ops->device->dispatch(driver, VGPU_SEC + 4 * VGPU_MSEC), 0);
	CU_ASSERT_EQUAL(questions, before);
	CU_ASSERT_EQUAL(n_events, 1);
	CU_ASSERT(last.type == VGPU_EV_RESET_DONE && last.vf == 1 && last.value == 0);
	CU_ASSERT_EQUAL(last.code, VGPU_RESET_GPU);
	CU_ASSERT(value_of(sriov + SRIOV_CTRL) & SRIOV_CTRL_VF_ENABLE);
	CU_ASSERT_EQUAL(value_of(sriov + SRIOV_NUM_VFS), VFS);
	CU_ASSERT_EQUAL(ops->device->dispatch(driver, VGPU_SEC + 6 * VGPU_MSEC), 0);
	ops->device->close(driver, false);
	remove_machine();
}

SUITE_MAIN("the GPU-IOV driver on a kernel's PF")
