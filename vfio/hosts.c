/* SPDX-License-Identifier: MIT */
#include "hosts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "vfio/gim_admin.h"
#include "vfio/kernel.h"
#include "vfio/nvidia_admin.h"
#include "vfio/xe_admin.h"

/* Reads the quantum (ms) or the preemption time-out (us) of a function, 0 being the PF. Returns 0
 * or -errno. */
typedef int read_setting(const char *where, uint32_t function, enum xe_setting setting,
			 uint32_t *value);

struct turns {
	uint32_t least[2], most[2]; /* least and greatest over all VFs: quantum, time-out */
	uint32_t pf[2];
	uint32_t endless; /* number of functions with an endless setting */
	char first[16];	  /* name of the first of them */
	int error;	  /* the first error */
};

static void read_turns(read_setting *read, const char *where, uint32_t n_vfs, struct turns *t)
{
	uint32_t i, k, value[2];
	int r = 0;

	*t = (struct turns){.least = {UINT32_MAX, UINT32_MAX}};
	for (i = 0; i <= n_vfs; i++) {
		for (k = 0; k < 2; k++) {
			value[k] = 0;
			r = read(where, i, k ? XE_TIMEOUT : XE_QUANTUM, &value[k]);
			t->error = t->error ? t->error : r;
			if (i == 0)
				t->pf[k] = value[k];
			if (i && value[k] < t->least[k])
				t->least[k] = value[k];
			if (i && value[k] > t->most[k])
				t->most[k] = value[k];
		}
		if (value[0] && value[1])
			continue;
		if (t->endless++ == 0 && i == 0)
			snprintf(t->first, sizeof(t->first), "the PF");
		else if (t->endless == 1)
			snprintf(t->first, sizeof(t->first), "VF %" PRIu32, i - 1);
	}
}

/* Reports the settings, which of them are endless, and that nothing saves them. */
static void report_turns(const struct pci_info *pf, read_setting *read, const char *where,
			 const char *files, doctor_report *report, void *data)
{
	char finding[256], cure[256];
	struct turns t;

	read_turns(read, where, pf->vfs, &t);
	if (t.error) {
		snprintf(finding, sizeof(finding), "quantum and time-out cannot be read: %s",
			 t.error == -EUCLEAN ? "parts of the GPU disagree" : strerror(-t.error));
		report(data, DOCTOR_NOTE, pf->address, finding,
		       t.error == -EUCLEAN ? "write them again" : "run this as root");
		return;
	}
	snprintf(finding, sizeof(finding),
		 "quantum: PF %" PRIu32 " ms, VFs %" PRIu32 " to %" PRIu32
		 " ms; preemption time-out: PF %" PRIu32 " us, VFs %" PRIu32 " to %" PRIu32 " us",
		 t.pf[0], t.least[0], t.most[0], t.pf[1], t.least[1], t.most[1]);
	report(data, DOCTOR_OK, pf->address, finding, "");
	if (t.endless) {
		snprintf(finding, sizeof(finding),
			 "endless: quantum or time-out is 0 for %s and %" PRIu32
			 " more functions, which may keep the GPU for ever",
			 t.first, t.endless - 1);
		snprintf(cure, sizeof(cure),
			 "before VMs start, set both for the PF and all VFs: %s", files);
		report(data, DOCTOR_BAD, pf->address, finding, cure);
	}
	if (t.endless <= pf->vfs)
		report(data, DOCTOR_NOTE, pf->address,
		       "unsaved: these settings are lost when VFs are removed, and when the host "
		       "restarts",
		       "have them set at each start");
}

static int read_xe(const char *where, uint32_t function, enum xe_setting setting, uint32_t *value)
{
	return xe_read(where, function, setting, value);
}

/* Checks for a known error of Intel's tool, which sets the PF's priority the wrong way round:
 * intel/xpumanager, linvf.cpp. */
static void report_priorities(const struct pci_info *pf, doctor_report *report, void *data)
{
	uint32_t own, vf;

	if (xe_read(pf->address, XE_PF, XE_PRIORITY, &own) < 0 ||
	    xe_read(pf->address, 1, XE_PRIORITY, &vf) < 0)
		return;
	if (own == XE_NORMAL && vf == XE_LOW)
		report(data, DOCTOR_NOTE, pf->address,
		       "inverted: the PF keeps its turn while the host has no work, and VFs do not",
		       "write low to sriov_admin/pf/profile/sched_priority");
	else
		report(data, DOCTOR_OK, pf->address,
		       vf == XE_NORMAL ? "turns of VFs without work pass unused"
				       : "VFs without work are skipped",
		       "");
}

static void report_memory(const struct pci_info *pf, doctor_report *report, void *data)
{
	uint64_t least = UINT64_MAX, most = 0, bytes;
	char finding[96];
	uint32_t i;

	for (i = 1; i <= pf->vfs && xe_read_memory(pf->address, i, &bytes) == 0; i++) {
		least = bytes < least ? bytes : least;
		most = bytes > most ? bytes : most;
	}
	if (least == UINT64_MAX)
		return; /* no VF has memory of which the kernel tells */
	snprintf(finding, sizeof(finding), "memory of VFs: %" PRIu64 " to %" PRIu64 " MiB",
		 least >> 20, most >> 20);
	report(data, DOCTOR_OK, pf->address, finding, "");
}

static void report_xe(const struct pci_info *pf, doctor_report *report, void *data)
{
	struct pci_info found;
	struct vgpu_error why = {""};

	if (xe_recognise(pf->address, &found, &why) < 0) {
		report(data, DOCTOR_NOTE, pf->address, "vgpud cannot schedule it", why.text);
		return;
	}
	if (!xe_counts_functions(pf->address))
		report(data, DOCTOR_NOTE, pf->address, "the kernel does not count what VFs use",
		       "use Linux 6.19 or later, with CONFIG_PERF_EVENTS");
	if (pf->vfs == 0)
		return; /* the kernel configures VFs when it makes them */
	report_turns(pf, read_xe, pf->address,
		     "sriov_admin/.bulk_profile/exec_quantum_ms and preempt_timeout_us", report,
		     data);
	report_priorities(pf, report, data);
	report_memory(pf, report, data);
}

/* WHERE: the directory of a card's SR-IOV settings. */
static int read_i915(const char *where, uint32_t function, enum xe_setting setting, uint32_t *value)
{
	const char *file = setting == XE_QUANTUM ? "exec_quantum_ms" : "preempt_timeout_us";
	char folder[16] = "pf";
	int64_t number = 0;
	int r;

	if (function)
		snprintf(folder, sizeof(folder), "vf%" PRIu32, function);
	r = kernel_read_number(&number, "%s/%s/gt0/%s", where, folder, file);
	if (r == -ENOENT) /* GPUs with one GT have no such directory */
		r = kernel_read_number(&number, "%s/%s/gt/%s", where, folder, file);
	*value = (uint32_t)number;
	return r;
}

static int card(void *out, const char *name)
{
	if (strncmp(name, "card", 4) != 0)
		return 0;
	snprintf(out, 32, "%s", name);
	return 1;
}

/* Intel's own kernels have such settings under i915, in files of two names. */
static void report_i915(const struct pci_info *pf, doctor_report *report, void *data)
{
	static const char *const folders[] = {"prelim_iov", "iov"};
	char path[96], name[32] = "";
	uint32_t i;

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/drm", pf->address);
	vfio_kernel->list(path, card, name);
	for (i = 0; i < 2 && name[0] && pf->vfs; i++) {
		if (!kernel_has(folders[i], "/sys/class/drm/%s", name))
			continue;
		snprintf(path, sizeof(path), "/sys/class/drm/%s/%s", name, folders[i]);
		report_turns(pf, read_i915, path, path, report, data);
	}
}

static void report_nvidia(const struct pci_info *pf, doctor_report *report, void *data)
{
	struct vgpu_error why = {""};
	struct pci_info found;
	char finding[128];
	uint32_t i, typed = 0, type;

	if (nvidia_recognise(pf->address, &found, &why) < 0) {
		report(data, DOCTOR_NOTE, pf->address, "the driver nvidia has no vGPUs here",
		       why.text);
		return;
	}
	for (i = 0; i < pf->vfs; i++)
		typed += nvidia_read_type(pf->address, i, &type) == 0 && type != 0;
	snprintf(finding, sizeof(finding),
		 "NVIDIA vGPU: %" PRIu32 " of %" PRIu32 " VFs have a vGPU type", typed, pf->vfs);
	report(data, DOCTOR_NOTE, pf->address, finding,
	       "unsaved: types and policy are lost when the host restarts; vgpud puts them back "
	       "(vgpu_type, policy)");
}

static void report_slices(const struct pci_info *pf, doctor_report *report, void *data)
{
	static const char *const modes[] = {
		[GIM_MODE_UNKNOWN] = "whether VFs without work keep their turns is not known",
		[GIM_MODE_SOLID] = "turns of VFs without work pass unused",
		[GIM_MODE_LIQUID] = "VFs without work are skipped",
		[GIM_MODE_SOFTWARE] = "one slice for all VFs",
	};
	uint32_t slices[VGPU_GPU_MAX_VFS] = {0}, least = UINT32_MAX, most = 0, i;
	uint32_t n = pf->vfs < VGPU_GPU_MAX_VFS ? pf->vfs : VGPU_GPU_MAX_VFS;
	char finding[192];

	if (gim_read_slices(pf->address, n, slices) < 0)
		return;
	for (i = 0; i < n; i++) {
		least = slices[i] < least ? slices[i] : least;
		most = slices[i] > most ? slices[i] : most;
	}
	snprintf(finding, sizeof(finding), "slices: VFs %" PRIu32 " to %" PRIu32 " us; %s", least,
		 most, modes[gim_mode()]);
	report(data, DOCTOR_OK, pf->address, finding, "");
	report(data, DOCTOR_NOTE, pf->address,
	       "endless: GIM has no preemption time-out, so that a VF may stop late by any time",
	       "");
}

static void report_gim(const struct pci_info *pf, doctor_report *report, void *data)
{
	struct gim_partitions parts;
	struct vgpu_error why = {""};
	struct pci_info found;
	char finding[128];
	int r = gim_recognise(pf->address, &found, &why);

	if (r == 0) {
		report_slices(pf, report, data);
		return;
	}
	if (r != -EOPNOTSUPP || !gim_read_partitions(pf->address, &parts)) {
		report(data, DOCTOR_NOTE, pf->address, "vgpud cannot schedule it", why.text);
		return;
	}
	snprintf(finding, sizeof(finding),
		 "divided in space, not in time: partition profile %s (%" PRIu32
		 "), memory mode %s",
		 parts.profile, parts.index, parts.memory);
	report(data, DOCTOR_NOTE, pf->address, finding,
	       "each VF has its own part, and there is nothing to slice; profiles are set through "
	       "accelerator_partition_profile, and must be read back, since GIM accepts any");
}

static void report_amdgpu(const struct pci_info *pf, doctor_report *report, void *data)
{
	report(data, DOCTOR_NOTE, pf->address, "amdgpu makes no VFs",
	       "AMD's GIM does, for some boards; vgpud's driver for it is device = gim:ADDRESS");
}

static const struct host_driver drivers[] = {
	{0x8086, XE_DRIVER, "the driver of vgpud for it is device = xe:ADDRESS", report_xe},
	{0x8086, "i915",
	 "vgpud has no driver for i915's VFs; where Linux 6.19 or later supports the GPU with xe, "
	 "boot with i915.force_probe=!ID xe.force_probe=ID",
	 report_i915},
	{0x10de, NVIDIA_DRIVER,
	 "the driver of vgpud for its vGPUs is device = nvidia:ADDRESS; without VFs, softgpu "
	 "shares the GPU by its engine cuda",
	 report_nvidia},
	{0x1002, GIM_DRIVER, "the driver of vgpud for it is device = gim:ADDRESS", report_gim},
	{0x1002, "amdgpu", NULL, report_amdgpu},
};

const struct host_driver *host_driver_of(const struct pci_info *pf)
{
	size_t i;

	for (i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		if (drivers[i].vendor == pf->vendor && strcmp(drivers[i].name, pf->driver) == 0)
			return &drivers[i];
	return NULL;
}
