// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The driver: takes softgpu's PF, and makes and removes VFs. In the order of Linux 7.3
 * (xe_pci_sriov.c): settings that nobody has made are made before the VFs, and go with them.
 */
#include <linux/delay.h>
#include <linux/module.h>

#include "lab_xe.h"

#include "softgpu/registers.h"
#include "vfio/gpuiov.h"

#define BLOCK_POINTER 0x2e /* of the layouts navi and soft */
#define BLOCK_CMD 0x04
#define BLOCK_STATUS 0x08
#define FEATURES 0x220
#define VF_RESET_REQ 0x44c /* BAR 5 */
#define FAIR_QUANTUM_MS 16
#define FAIR_TIMEOUT_US 16000
#define ANSWER_MS 1000 /* how long Linux waits for the firmware */

/* The one GPU. It lives as long as the module, because Linux 6.1 cannot take counters away from
 * programs that have them open. */
static struct lab_xe gpu;

static char *version = "7.2";
module_param(version, charp, 0444);
MODULE_PARM_DESC(version, "whose files and defaults: 6.19, 7.0, or 7.2");
static const char *const versions[] = {[LAB_6_19] = "6.19", [LAB_7_0] = "7.0", [LAB_7_2] = "7.2"};

u32 lab_config_read(struct lab_xe *x, int at)
{
	u32 value = ~0u;

	pci_read_config_dword(x->pdev, at, &value);
	return value;
}

void lab_config_write(struct lab_xe *x, int at, u32 value)
{
	pci_write_config_dword(x->pdev, at, value);
}

int lab_command(struct lab_xe *x, u32 command)
{
	unsigned long until = jiffies + msecs_to_jiffies(ANSWER_MS);
	u32 status;

	lab_config_write(x, x->block + BLOCK_CMD, command | GPUIOV_CMD_EXECUTE);
	for (;;) {
		status = lab_config_read(x, x->block + BLOCK_STATUS) & 0xff;
		if (status < GPUIOV_STATUS_IDLING)
			return status == GPUIOV_STATUS_DONE ? 0 : -EIO;
		if (time_after(jiffies, until))
			return -ETIME;
		usleep_range(500, 1000);
	}
}

int lab_stop(struct lab_xe *x, unsigned int function)
{
	unsigned long until = jiffies + msecs_to_jiffies(ANSWER_MS);
	u32 bit = 1u << (function - 1);

	iowrite32(bit, x->regs + VF_RESET_REQ);
	while (ioread32(x->regs + VF_RESET_REQ) & bit) {
		if (time_after(jiffies, until))
			return -ETIME;
		usleep_range(500, 1000);
	}
	return 0;
}

static int provision(struct lab_xe *x, unsigned int vfs)
{
	int r = 0, next;

	mutex_lock(&x->master);
	if (x->version >= LAB_7_2 && lab_is_default_locked(x, vfs)) {
		r = lab_set_locked(x, 0, vfs, LAB_QUANTUM, FAIR_QUANTUM_MS);
		next = lab_set_locked(x, 0, vfs, LAB_TIMEOUT, FAIR_TIMEOUT_US);
		r = r ? r : next;
	}
	next = lab_fair_vram_locked(x, vfs);
	mutex_unlock(&x->master);
	return r ? r : next;
}

static void unprovision(struct lab_xe *x, unsigned int vfs)
{
	unsigned int i;
	int gt, s;

	mutex_lock(&x->master);
	if (x->version >= LAB_7_2) {
		lab_set_priorities_locked(x, LAB_LOW);
		lab_set_locked(x, 0, 0, LAB_QUANTUM, 0);
		lab_set_locked(x, 0, 0, LAB_TIMEOUT, 0);
	}
	for (i = 1; i <= vfs; i++)
		for (s = 0; s < LAB_SETTINGS; s++)
			for (gt = 0; gt < LAB_GTS; gt++)
				x->functions[i].settings[s][gt] = 0;
	lab_set_vram_locked(x, 1, vfs, 0);
	lab_program_locked(x);
	mutex_unlock(&x->master);
}

static int enable_vfs(struct lab_xe *x, unsigned int vfs)
{
	int r = lab_wait_ready(x);

	if (r == 0)
		r = provision(x, vfs);
	if (r == 0)
		r = pci_enable_sriov(x->pdev, vfs);
	if (r < 0) {
		dev_notice(&x->pdev->dev, "cannot enable %u VFs (%d)\n", vfs, r);
		unprovision(x, vfs);
		return r;
	}
	x->vfs = vfs;
	lab_admin_link(x, vfs);
	lab_counters_begin(x);
	return vfs;
}

static int disable_vfs(struct lab_xe *x)
{
	unsigned int vfs = x->vfs;

	if (!vfs)
		return 0;
	lab_admin_unlink(x, vfs);
	pci_disable_sriov(x->pdev);
	x->vfs = 0;
	unprovision(x, vfs);
	return 0;
}

static int configure(struct pci_dev *pdev, int vfs)
{
	struct lab_xe *x = pci_get_drvdata(pdev);

	if (vfs < 0)
		return -EINVAL;
	if (vfs > x->total_vfs)
		return -ERANGE;
	if (vfs && pci_num_vf(pdev))
		return -EBUSY;
	return vfs ? enable_vfs(x, vfs) : disable_vfs(x);
}

static int find_gpu(struct lab_xe *x)
{
	struct pci_dev *pdev = x->pdev;
	u8 pointer = 0;

	lab_counters_on(x, pcim_iomap(pdev, 5, 0));
	x->cap = pci_find_vsec_capability(pdev, pdev->vendor, GPUIOV_VSEC_ID);
	if (!x->regs || !x->cap || ioread32(x->regs + SOFTGPU_ID) != SOFTGPU_ID_VALUE)
		return -ENODEV;
	pci_read_config_byte(pdev, x->cap + BLOCK_POINTER, &pointer);
	x->block = x->cap + (pointer << 4);
	if (!(lab_config_read(x, x->cap + FEATURES) & SOFTGPU_SCHEDULES)) {
		dev_err(&pdev->dev,
			"softgpu does not schedule: start it with scheduler=firmware\n");
		return -ENODEV;
	}
	x->total_vfs = pci_sriov_get_totalvfs(pdev);
	return x->total_vfs < LAB_FUNCTIONS ? 0 : -ENODEV;
}

static int probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	int i = match_string(versions, ARRAY_SIZE(versions), version), r;
	struct lab_xe *x = &gpu;

	if (i < 0 || !pdev->is_physfn || gpu.pdev)
		return -ENODEV;
	memset(x->functions, 0, sizeof(x->functions));
	memset(&x->faults, 0, sizeof(x->faults));
	x->version = i;
	pci_set_drvdata(pdev, x);
	x->pdev = pdev;
	r = pcim_enable_device(pdev);
	if (r == 0)
		r = find_gpu(x);
	if (r == 0) {
		lab_memory_init(x);
		r = lab_command(x, GPUIOV_CMD_ENABLE_AUTO);
	}
	if (r == 0)
		r = lab_program_locked(x);
	if (r == 0)
		r = lab_counters_init(x);
	if (r == 0)
		r = lab_admin_init(x);
	if (r) {
		lab_counters_end(x);
		x->pdev = NULL;
		return r;
	}
	lab_faults_init(x);
	return 0;
}

static void gone(struct pci_dev *pdev)
{
	struct lab_xe *x = pci_get_drvdata(pdev);

	lab_faults_exit(x);
	disable_vfs(x);
	lab_counters_end(x);
	lab_admin_exit(x);
	x->pdev = NULL;
}

/* A board that Linux knows as an Arc Pro B60; QEMU's softgpu takes the number with guise=xe. */
static const struct pci_device_id ids[] = {{PCI_DEVICE(0x8086, 0xe211)}, {}};
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver lab_xe = {.name = "xe",
				   .id_table = ids,
				   .probe = probe,
				   .remove = gone,
				   .sriov_configure = configure};

static int __init begin(void)
{
	mutex_init(&gpu.master);
	spin_lock_init(&gpu.counting);
	return pci_register_driver(&lab_xe);
}
module_init(begin);

/* Open events keep the module. */
static void __exit end(void)
{
	pci_unregister_driver(&lab_xe);
	lab_counters_exit(&gpu);
}
module_exit(end);

MODULE_DESCRIPTION("what Linux's driver xe offers to those who manage VFs, over softgpu");
MODULE_LICENSE("GPL");
