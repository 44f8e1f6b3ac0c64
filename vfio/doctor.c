/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hosts.h"
#include "transports.h"
#include "vfio/doctor.h"
#include "vfio/kernel.h"

#define MAX_GPUS 64u

struct doctor {
	doctor_report *report;
	void *data;
	unsigned needs;
};

/* Reports something that is missing: as bad if a GPU needs it, else as a note. */
static void missing(const struct doctor *d, enum doctor_needs need, const char *subject,
		    const char *what, const char *cure)
{
	char finding[160];

	if (d->needs & need) {
		d->report(d->data, DOCTOR_BAD, subject, what, cure);
		return;
	}
	snprintf(finding, sizeof(finding), "%s; no GPU that is configured needs it", what);
	d->report(d->data, DOCTOR_NOTE, subject, finding, "");
}

static void check_rights(const struct doctor *d)
{
	bool root = geteuid() == 0;

	d->report(d->data, root ? DOCTOR_OK : DOCTOR_NOTE, "rights",
		  root ? "root" : "not root: some checks cannot see everything",
		  root ? "" : "run this as root");
}

static void check_iommu(const struct doctor *d)
{
	bool on = kernel_has_entries("/sys/kernel/iommu_groups");

	if (on)
		d->report(d->data, DOCTOR_OK, "IOMMU", "on", "");
	else
		missing(d, DOCTOR_NEEDS_PCI, "IOMMU", "off: no groups", PCI_IOMMU_CURE);
}

static void check_modules(const struct doctor *d)
{
	static const struct {
		const char *name, *path, *what;
		enum doctor_needs need;
	} modules[] = {
		{"vfio-pci", "/sys/bus/pci/drivers/vfio-pci",
		 "not loaded: VFs are given to tenants through it", DOCTOR_NEEDS_PCI},
		{"vfio_iommu_type1", "/sys/module/vfio_iommu_type1",
		 "not loaded: the DMA of VFs goes through it", DOCTOR_NEEDS_PCI},
		{"pci-pf-stub", "/sys/bus/pci/drivers/pci-pf-stub",
		 "not loaded: it holds a PF for device = sysfs:ADDRESS", DOCTOR_NEEDS_STUB},
	};
	char cure[64];
	unsigned i;

	for (i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		snprintf(cure, sizeof(cure), "modprobe %s", modules[i].name);
		if (kernel_has_entries(modules[i].path))
			d->report(d->data, DOCTOR_OK, modules[i].name, "loaded", "");
		else
			missing(d, modules[i].need, modules[i].name, modules[i].what, cure);
	}
}

/* Reads the active mode from a line such as "[none] integrity confidentiality". */
static void check_lockdown(const struct doctor *d)
{
	char text[80];
	int r = kernel_read_text(text, sizeof(text), "/sys/kernel/security/lockdown");
	bool locked = r > 0 && !strstr(text, "[none]");

	d->report(d->data, locked ? DOCTOR_NOTE : DOCTOR_OK, "lockdown",
		  locked ? "on: a PF cannot be held through sysfs" : "off",
		  locked ? "use device = vfio:ADDRESS" : "");
}

static void check_interface(const struct doctor *d)
{
	int iommu = vfio_kernel->open("/dev/iommu", O_RDWR), container;

	if (iommu >= 0)
		close(iommu);
	container = vfio_kernel->open("/dev/vfio/vfio", O_RDWR);
	if (container >= 0)
		close(container);
	if (iommu < 0 && container < 0) {
		missing(d, DOCTOR_NEEDS_PCI, "VFIO", strerror(-container),
			container == -ENOENT ? "modprobe vfio vfio_iommu_type1"
					     : "run this as root");
		return;
	}
	d->report(d->data, DOCTOR_OK, "VFIO",
		  iommu >= 0 ? "iommufd, for functions that have device nodes"
			     : "containers and groups",
		  "");
}

/* HELD: a driver of the host has the PF, and may bind its VFs to another driver. */
static void check_vfs(const struct doctor *d, const struct pci_info *pf, bool held)
{
	char vf[PCI_ADDRESS_SIZE], finding[160], user[64], driver[64];
	struct vgpu_error why;
	struct pci_info info;
	uint32_t i;
	bool right;

	for (i = 0; i < pf->vfs; i++) {
		if (pci_vf_address(pf->address, i, vf) < 0 || pci_describe(vf, &info, NULL) < 0) {
			d->report(d->data, DOCTOR_BAD, pf->address, "one of its VFs cannot be read",
				  "see the kernel's log");
			continue;
		}
		pci_vfio_driver(vf, driver, sizeof(driver));
		snprintf(finding, sizeof(finding), "VF %" PRIu32 " of %s, driver %s, %s", i,
			 pf->address, info.driver[0] ? info.driver : "none",
			 pci_user(vf, user, sizeof(user)) ? user : "not in use");
		right = held || strcmp(info.driver, driver) == 0;
		d->report(d->data, right ? DOCTOR_OK : DOCTOR_NOTE, vf, finding,
			  right ? "" : "vgpud binds it to VFIO");
		if (pci_check_group(&info, &why) < 0)
			d->report(d->data, DOCTOR_BAD, vf, why.text, "no VM gets this VF");
	}
	if (pf->vfs > VGPU_GPU_MAX_VFS) {
		snprintf(finding, sizeof(finding),
			 "it has %" PRIu32 " VFs; vgpud takes VFs 0 to %u of a GPU", pf->vfs,
			 VGPU_GPU_MAX_VFS - 1);
		d->report(d->data, DOCTOR_NOTE, pf->address, finding,
			  "give VMs none of the others");
	}
}

static void check_gpu(const struct doctor *d, const struct pci_info *gpu)
{
	const struct host_driver *host = gpu->total_vfs ? host_driver_of(gpu) : NULL;
	struct gpuiov_identity identity = {.model = NULL};
	struct vgpu_error why = {""};
	char finding[256], model[64] = "PCI function";
	bool ours = gpu->total_vfs && transport_recognise(gpu, &identity, &why) == 0;

	if (ours)
		snprintf(model, sizeof(model), "%s", identity.model);
	else
		pci_model(gpu, model, sizeof(model));
	snprintf(finding, sizeof(finding),
		 "%s (%04x:%04x), driver %s, %" PRIu32 " of %" PRIu32 " VFs, IOMMU group %" PRId32
		 ", NUMA node %" PRId32 ", resets: %s",
		 model, gpu->vendor, gpu->device, gpu->driver[0] ? gpu->driver : "none", gpu->vfs,
		 gpu->total_vfs, gpu->group, gpu->numa_node, gpu->resets[0] ? gpu->resets : "none");
	if (gpu->total_vfs == 0) {
		d->report(
			d->data, DOCTOR_NOTE, gpu->address, finding,
			"no SR-IOV: the GPU has none, or it is switched off in the firmware setup");
		return;
	}
	d->report(d->data, ours ? DOCTOR_OK : DOCTOR_NOTE, gpu->address, finding, why.text);
	if (host)
		host->report(gpu, d->report, d->data);
	if (ours && gpu->group_size > 1) {
		snprintf(finding, sizeof(finding), "shares its IOMMU group with %s",
			 gpu->neighbour);
		d->report(d->data, DOCTOR_BAD, gpu->address, finding,
			  "move it to a slot with access control services (ACS)");
	}
	check_vfs(d, gpu, host && host->could);
}

void vfio_doctor(doctor_report *report, void *data, unsigned needs)
{
	static struct pci_info gpus[MAX_GPUS];
	const struct doctor d = {report, data, needs};
	int n, i;

	check_rights(&d);
	check_iommu(&d);
	check_modules(&d);
	check_lockdown(&d);
	check_interface(&d);
	n = pci_list_gpus(gpus, MAX_GPUS);
	if (n <= 0)
		report(data, DOCTOR_NOTE, DOCTOR_NO_GPU, "no PCI function is a GPU",
		       "softgpu, the software GPU, needs none");
	for (i = 0; i < n && i < (int)MAX_GPUS; i++)
		check_gpu(&d, &gpus[i]);
}
