/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * softgpu as a PCI device of QEMU, for Debian 12's (7.2) and Debian 13's (10.0): the device
 * library behind a second bus. LD_PRELOAD loads it into an unmodified qemu-system-x86_64, which
 * exports the device API to its own modules:
 *
 *     -device pcie-root-port,id=rp0,pref64-reserve=4G -device softgpu,bus=rp0,vfs=4,vram-mb=256
 *
 * With scheduler=firmware,layout=soft it schedules itself. With guise=xe it has the numbers of an
 * Intel GPU, for the lab's driver xe (xe/), and a reset of a VF by its client clears the VF's
 * memory.
 *
 * QEMU's PCI core has the standard part of the configuration space (BARs, MSI-X, SR-IOV, FLR, ARI),
 * at the same places as the library; GPU-IOV's capability and all BARs are the library's. A change
 * of the SR-IOV registers is told to both. DMA carries each function's own requester id, through
 * whatever IOMMU the machine has.
 *
 * Calls into the library come with QEMU's lock held, its callbacks without any: what they want of
 * QEMU is done by the main loop. An access of a VF waits for the VF's process, which the library
 * has started and which never waits for QEMU's lock; its DMA comes back on a thread of its own.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/thread.h"
#include "qapi/error.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci.h"
#include "hw/pci/pci_bus.h"
#include "hw/pci/pcie.h"
#include "hw/pci/pcie_aer.h"
#include "hw/pci/pcie_sriov.h"
#include "hw/qdev-properties.h"

#include "qemu-versions.h"
#include "softgpu.h"
#include "vfio/device.h"

#define TYPE_SOFTGPU "softgpu"
#define TYPE_SOFTGPU_VF "softgpu-vf"
#define TYPE_FUNCTION "softgpu-function"
OBJECT_DECLARE_SIMPLE_TYPE(Function, FUNCTION)

/* Offsets of the library's capabilities: tools/softgpu/vf/pci.c, and of the PF alone
 * device/pci_pf.c beside it */
enum {
	CAP_EXPRESS = 0x48,
	CAP_MSIX = 0x84,
	CAP_DECOY = 0x100,
	CAP_ARI = 0x150,
	CAP_ERRORS = 0x200, /* not in the library: QEMU's bus reports errors */
	CAP_SRIOV = 0x330,
	CAP_GPUIOV = 0x400,
	CONFIG_END = 0x1000,
};

static const int bars[] = {0, 2, 4, 5};
#define MSIX_BAR 4

/* guise=xe: an Arc Pro B60, whose VFs have the same number */
#define XE_VENDOR 0x8086
#define XE_DEVICE 0xe211

struct bar {
	Function *f;
	int number;
	MemoryRegion region;
};

struct Function {
	PCIDevice pci;
	struct bar bar[6];
	/* of the PF */
	uint16_t vfs;
	uint32_t vram_mb;
	char *layout, *latency, *fault, *scheduler, *guise;
	struct softgpu *gpu;
	QEMUBH *irq;
	uint32_t pending[1 + SOFTGPU_MAX_VFS];
};

static Function *pf_of(Function *f)
{
	return pci_is_vf(&f->pci) ? FUNCTION(pcie_sriov_get_pf(&f->pci)) : f;
}

static int number(Function *f)
{
	return pci_is_vf(&f->pci) ? pcie_sriov_vf_number(&f->pci) : SOFTGPU_PF;
}

static PCIDevice *function(Function *pf, int fn)
{
	return fn == SOFTGPU_PF ? &pf->pci : pcie_sriov_get_vf_at_index(&pf->pci, fn);
}

/* Calls from QEMU into the library. */

static void lib_write(Function *f, uint32_t region, uint64_t offset, uint64_t value, unsigned size)
{
	struct softgpu *gpu = pf_of(f)->gpu;
	int fn = number(f);

	softgpu_write(gpu, fn, region, offset, &value, size);
}

static uint64_t lib_read(Function *f, uint32_t region, uint64_t offset, unsigned size)
{
	struct softgpu *gpu = pf_of(f)->gpu;
	int fn = number(f);
	uint64_t value = 0;

	softgpu_read(gpu, fn, region, offset, &value, size);
	return value;
}

static uint64_t bar_read(void *opaque, hwaddr offset, unsigned size)
{
	struct bar *b = opaque;

	return lib_read(b->f, b->number, offset, size);
}

static void bar_write(void *opaque, hwaddr offset, uint64_t value, unsigned size)
{
	struct bar *b = opaque;

	lib_write(b->f, b->number, offset, value, size);
}

static const MemoryRegionOps bar_ops = {
	.read = bar_read,
	.write = bar_write,
	.endianness = DEVICE_LITTLE_ENDIAN,
	.valid = {.min_access_size = 1, .max_access_size = 8},
	.impl = {.min_access_size = 1, .max_access_size = 8},
};

/* Calls from the library, on its threads. */

static void deliver(void *opaque)
{
	Function *pf = opaque;

	for (int fn = SOFTGPU_PF; fn < (int)pf->vfs; fn++) {
		uint32_t vectors = qatomic_xchg(&pf->pending[1 + fn], 0);
		PCIDevice *d = function(pf, fn);

		for (unsigned v = 0; d && vectors >> v; v++) {
			if (vectors >> v & 1 && msix_enabled(d)) {
				msix_notify(d, v);
			}
		}
	}
}

static void on_irq(void *opaque, int fn, uint32_t vector)
{
	Function *pf = opaque;

	qatomic_or(&pf->pending[1 + fn], 1u << vector);
	qemu_bh_schedule(pf->irq);
}

/*
 * The main loop does DMA, because the device's threads may not use QEMU's memory map. Such a
 * thread makes a request and waits, with a time-out, since a thread that holds QEMU's lock may be
 * waiting for it. The last user of the request frees it.
 */
#define DMA_PATIENCE_MS 1000

struct dma {
	Function *pf;
	int vf;
	uint64_t iova, size;
	bool to_client;
	QemuSemaphore done;
	int result;
	uint32_t users;
	uint8_t data[];
};

static void dma_put(struct dma *dma)
{
	if (qatomic_fetch_dec(&dma->users) == 1) {
		qemu_sem_destroy(&dma->done);
		g_free(dma);
	}
}

static void dma_run(void *opaque)
{
	struct dma *dma = opaque;
	PCIDevice *d = function(dma->pf, dma->vf);
	DMADirection direction =
		dma->to_client ? DMA_DIRECTION_FROM_DEVICE : DMA_DIRECTION_TO_DEVICE;

	if (d && pci_dma_rw(d, dma->iova, dma->data, dma->size, direction,
			    MEMTXATTRS_UNSPECIFIED) == MEMTX_OK)
		dma->result = 0;
	qemu_sem_post(&dma->done);
	dma_put(dma);
}

static int on_dma(void *opaque, int vf, uint64_t iova, void *buffer, uint64_t size, bool to_client)
{
	struct dma *dma = g_malloc0(sizeof(*dma) + size);
	int r = -EFAULT;

	*dma = (struct dma){.pf = opaque,
			    .vf = vf,
			    .iova = iova,
			    .size = size,
			    .to_client = to_client,
			    .result = -EFAULT,
			    .users = 2};
	qemu_sem_init(&dma->done, 0);
	if (to_client)
		memcpy(dma->data, buffer, size);
	aio_bh_schedule_oneshot(qemu_get_aio_context(), dma_run, dma);
	if (qemu_sem_timedwait(&dma->done, DMA_PATIENCE_MS) == 0) {
		r = dma->result;
		if (r == 0 && !to_client)
			memcpy(buffer, dma->data, size);
	}
	dma_put(dma);
	return r;
}

/* Nothing to do: QEMU creates and removes VFs itself when the register is written. */
static void on_vfs_changed(void *opaque, uint32_t n)
{
	(void)opaque;
	(void)n;
}

/* QEMU is the client of all VFs' processes, which the library starts: it has no sockets for them.
 */
static const struct softgpu_carrier carrier = {.irq = on_irq,
					       .dma = on_dma,
					       .vfs_changed = on_vfs_changed};

/* Configuration space. */

static bool is_gpuiov(PCIDevice *d, uint32_t address)
{
	return !pci_is_vf(d) && address >= CAP_GPUIOV;
}

static uint32_t config_read(PCIDevice *d, uint32_t address, int size)
{
	if (is_gpuiov(d, address)) {
		return lib_read(FUNCTION(d), VFIO_REGION_CONFIG, address, size);
	}
	return pci_default_read_config(d, address, size);
}

static void config_write(PCIDevice *d, uint32_t address, uint32_t value, int size)
{
	if (is_gpuiov(d, address)) {
		lib_write(FUNCTION(d), VFIO_REGION_CONFIG, address, value, size);
		return;
	}
	if (d->exp.sriov_cap) {
		uint32_t at = address - d->exp.sriov_cap;

		/* The library first: every VF that the machine sees must exist in it. */
		if (at >= SRIOV_CTRL && at < SRIOV_NUM_VFS + 2) {
			lib_write(FUNCTION(d), VFIO_REGION_CONFIG, address, value, size);
		}
	}
	write_config(d, address, value, size);
	pcie_cap_flr_write_config(d, address, value, size);
	pcie_aer_write_config(d, address, value, size);
}

static bool has_guise(const Function *pf)
{
	return pf->guise && strcmp(pf->guise, "xe") == 0;
}

/* A function-level reset. On the PF it has no effect on the GPU. QEMU also resets VFs that the
 * machine does not see. */
static void reset(DeviceState *dev)
{
	Function *f = FUNCTION(dev), *pf = pf_of(f);
	int fn = number(f);

	if (!pf->gpu || fn == SOFTGPU_PF || !function(pf, fn)) {
		return;
	}
	if (has_guise(pf)) {
		softgpu_function_closed(pf->gpu, fn);
	} else {
		softgpu_function_reset(pf->gpu, fn);
	}
}

static bool create(Function *f, Error **errp)
{
	struct softgpu_config config = {
		.n_vfs = f->vfs,
		.vram = (uint64_t)f->vram_mb << 20,
		.layout = gpuiov_layout_by_name(f->layout ? f->layout : "navi"),
		.seed = 1,
		.schedules = f->scheduler && strcmp(f->scheduler, "firmware") == 0,
	};
	struct vgpu_error err = {"no such layout"};

	if (!config.layout ||
	    (f->latency && softgpu_parse_latency(&config, f->latency, &err) < 0) ||
	    (f->fault && softgpu_parse_fault(&config, f->fault, &err) < 0) ||
	    softgpu_create(&f->gpu, &config, &carrier, f, &err) < 0) {
		error_setg(errp, "softgpu: %s", err.text);
		return false;
	}
	f->irq = qemu_bh_new(deliver, f);
	return true;
}

static uint8_t bar_type(int number)
{
	return number < 4 ? PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH : 0;
}

static uint64_t bar_size(Function *f, int number)
{
	struct softgpu_region r;

	softgpu_region(pf_of(f)->gpu, SOFTGPU_PF, number, &r);
	return r.size;
}

static void realize_bars(Function *f)
{
	PCIDevice *d = &f->pci;

	for (unsigned i = 0; i < ARRAY_SIZE(bars); i++) {
		int n = bars[i];
		struct bar *b = &f->bar[n];

		*b = (struct bar){.f = f, .number = n};
		if (n == MSIX_BAR) {
			memory_region_init(&b->region, OBJECT(d), "softgpu-msix", bar_size(f, n));
		} else {
			memory_region_init_io(&b->region, OBJECT(d), &bar_ops, b, "softgpu",
					      bar_size(f, n));
		}
		if (pci_is_vf(d)) {
			register_vf_bar(d, n, bar_type(n), &b->region);
		} else {
			pci_register_bar(d, n, bar_type(n), &b->region);
		}
	}
}

/* Standard headers and capabilities, as the library's own configuration space has them. */
static void realize(PCIDevice *d, Error **errp)
{
	Function *f = FUNCTION(d);
	uint8_t own[CONFIG_END];
	bool vf = pci_is_vf(d);
	uint16_t vf_device;
	unsigned vectors;

	if (!vf && !create(f, errp)) {
		return;
	}
	softgpu_read(pf_of(f)->gpu, SOFTGPU_PF, VFIO_REGION_CONFIG, 0, own, sizeof(own));
	realize_bars(f);
	pcie_endpoint_cap_init(d, CAP_EXPRESS);
	pcie_cap_deverr_init(d);
	pcie_cap_flr_init(d);
	vectors = vf ? SOFTGPU_VF_VECTORS : GPUIOV_PF_VECTORS;
	if (msix_init(d, vectors, &f->bar[MSIX_BAR].region, MSIX_BAR, 0, &f->bar[MSIX_BAR].region,
		      MSIX_BAR, 0x800, CAP_MSIX, errp)) {
		return;
	}
	for (unsigned v = 0; v < vectors; v++) {
		msix_vector_use(d, v);
	}
	pcie_add_capability(d, PCI_EXT_CAP_ID_VNDR, 1, CAP_DECOY, 0x18);
	memcpy(d->config + CAP_DECOY + 4, own + CAP_DECOY + 4, 0x14);
	init_ari(d, CAP_ARI);
	pcie_aer_init(d, PCI_ERR_VER, CAP_ERRORS, PCI_ERR_SIZEOF, errp);
	if (vf) {
		return;
	}
	vf_device = lduw_le_p(own + CAP_SRIOV + 0x1a);
	if (has_guise(f)) {
		pci_config_set_vendor_id(d->config, XE_VENDOR);
		pci_config_set_device_id(d->config, XE_DEVICE);
		vf_device = XE_DEVICE;
	}
	if (!init_sriov(d, CAP_SRIOV, TYPE_SOFTGPU_VF, vf_device, f->vfs, errp)) {
		return;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(bars); i++) {
		pcie_sriov_pf_init_vf_bar(d, bars[i], bar_type(bars[i]), bar_size(f, bars[i]));
	}
	pcie_add_capability(d, PCI_EXT_CAP_ID_VNDR, 1, CAP_GPUIOV, CONFIG_END - CAP_GPUIOV);
}

static void unrealize(PCIDevice *d)
{
	Function *f = FUNCTION(d);
	struct softgpu *gpu = f->gpu;

	if (d->exp.sriov_cap) {
		pcie_sriov_pf_exit(d);
	}
	msix_unuse_all_vectors(d);
	msix_uninit(d, &f->bar[MSIX_BAR].region, &f->bar[MSIX_BAR].region);
	pcie_aer_exit(d);
	pcie_cap_exit(d);
	if (gpu) {
		f->gpu = NULL;
		softgpu_destroy(gpu);
		qemu_bh_delete(f->irq);
	}
}

static PROPERTY properties[] = {DEFINE_PROP_UINT16("vfs", Function, vfs, 4),
				DEFINE_PROP_UINT32("vram-mb", Function, vram_mb, 256),
				DEFINE_PROP_STRING("layout", Function, layout),
				DEFINE_PROP_STRING("latency", Function, latency),
				DEFINE_PROP_STRING("fault", Function, fault),
				DEFINE_PROP_STRING("scheduler", Function, scheduler),
				DEFINE_PROP_STRING("guise", Function, guise),
				PROPERTIES_END};

static void function_class(ObjectClass *class, void *data)
{
	PCIDeviceClass *k = PCI_DEVICE_CLASS(class);

	k->realize = realize;
	k->exit = unrealize;
	k->config_read = config_read;
	k->config_write = config_write;
	k->vendor_id = 0x1234; /* SOFTGPU_VENDOR; the other numbers as in tools/softgpu/vf/pci.c */
	k->device_id = 0x5347;
	k->subsystem_vendor_id = 0x1234;
	k->subsystem_id = 1;
	k->revision = 1;
	k->class_id = PCI_CLASS_DISPLAY_OTHER;
	set_reset(DEVICE_CLASS(class), reset);
	set_bit(DEVICE_CATEGORY_DISPLAY, DEVICE_CLASS(class)->categories);
}

static void pf_class(ObjectClass *class, void *data)
{
	device_class_set_props(DEVICE_CLASS(class), properties);
}

static void vf_class(ObjectClass *class, void *data)
{
	PCI_DEVICE_CLASS(class)->device_id = 0x5348;
	DEVICE_CLASS(class)->user_creatable = false;
}

static const TypeInfo types[] = {
	{
		.name = TYPE_FUNCTION,
		.parent = TYPE_PCI_DEVICE,
		.instance_size = sizeof(Function),
		.abstract = true,
		.class_init = function_class,
		.interfaces = (InterfaceInfo[]){{INTERFACE_PCIE_DEVICE}, {}},
	},
	{.name = TYPE_SOFTGPU, .parent = TYPE_FUNCTION, .class_init = pf_class},
	{.name = TYPE_SOFTGPU_VF, .parent = TYPE_FUNCTION, .class_init = vf_class},
};
DEFINE_TYPES(types)
