/* SPDX-License-Identifier: MIT */
#include "vfio/xe_admin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "vfio/kernel.h"
#include "vgpu/number.h"

#define ADMIN PCI_DEVICES "/%s/sriov_admin"
#define VENDOR_INTEL 0x8086u
#define NEEDED "needs Linux 6.19 or later, or a driver of Intel's that has it"

static const char *const files[XE_SETTINGS] = {
	[XE_QUANTUM] = "exec_quantum_ms",
	[XE_TIMEOUT] = "preempt_timeout_us",
	[XE_PRIORITY] = "sched_priority",
};
static const char *const priorities[] = {
	[XE_LOW] = "low", [XE_NORMAL] = "normal", [XE_HIGH] = "high"};

/* A function's directory: "pf", "vf1", "vf2" ... */
struct folder {
	char name[16];
};

static struct folder folder_of(uint32_t function)
{
	struct folder f = {"pf"};

	if (function != XE_PF)
		snprintf(f.name, sizeof(f.name), "vf%" PRIu32, function);
	return f;
}

static int check_driver(const struct pci_info *pf, struct vgpu_error *err)
{
	char cure[128];
	int r;

	snprintf(cure, sizeof(cure),
		 "if xe supports this GPU, boot with i915.force_probe=!%04x xe.force_probe=%04x",
		 pf->device, pf->device);
	r = pci_check_owner(pf, VENDOR_INTEL, "an Intel GPU", XE_DRIVER, cure, err);
	if (r < 0)
		return r;
	if (pf->total_vfs == 0)
		return vgpu_error_set(
			err, -ENODEV,
			"%s: driver xe offers no VFs: the board has no SR-IOV, or it is off in the "
			"firmware setup, in xe.max_vfs, or in this kernel for this GPU",
			pf->address);
	return 0;
}

int xe_recognise(const char *address, struct pci_info *out, struct vgpu_error *err)
{
	static const char *const functions[] = {"pf", "vf1"};
	uint32_t i, k;
	int r = pci_describe(address, out, err);

	if (r == 0)
		r = check_driver(out, err);
	if (r < 0)
		return r;
	if (!kernel_has("sriov_admin", PCI_DEVICES "/%s", address))
		return vgpu_error_set(err, -ENOENT,
				      "%s: this kernel's driver xe has no settings for VFs "
				      "(sriov_admin): vgpud " NEEDED,
				      address);
	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		for (k = 0; k < XE_SETTINGS; k++)
			if (!kernel_has(files[k], ADMIN "/%s/profile", address, functions[i]))
				return vgpu_error_set(err, -ENOENT,
						      "%s: this kernel's driver xe has no file "
						      "sriov_admin/%s/profile/%s: vgpud " NEEDED,
						      address, functions[i], files[k]);
	return 0;
}

/* Reads the word in brackets: "low [normal]". */
static int parse_priority(const char *text, uint32_t *value)
{
	const char *open = strchr(text, '[');
	uint32_t i;

	for (i = 0; open && i < sizeof(priorities) / sizeof(priorities[0]); i++) {
		size_t n = strlen(priorities[i]);

		if (strncmp(open + 1, priorities[i], n) == 0 && open[n + 1] == ']') {
			*value = i;
			return 0;
		}
	}
	return -EINVAL;
}

int xe_read(const char *pf, uint32_t function, enum xe_setting setting, uint32_t *value)
{
	struct folder f = folder_of(function);
	char text[64];
	uint64_t number;
	int r = kernel_read_text(text, sizeof(text), ADMIN "/%s/profile/%s", pf, f.name,
				 files[setting]);

	if (r < 0)
		return r;
	if (setting == XE_PRIORITY)
		return parse_priority(text, value);
	r = vgpu_parse_unsigned(text, UINT32_MAX, &number);
	if (r == 0)
		*value = (uint32_t)number;
	return r;
}

int xe_write(const char *pf, uint32_t function, enum xe_setting setting, uint32_t value)
{
	struct folder f = folder_of(function);
	char text[16];

	snprintf(text, sizeof(text), "%" PRIu32, value);
	return kernel_write_here(setting == XE_PRIORITY ? priorities[value] : text,
				 ADMIN "/%s/profile/%s", pf, f.name, files[setting]);
}

int xe_write_priorities(const char *pf, enum xe_priority priority)
{
	return kernel_write_here(priorities[priority], ADMIN "/.bulk_profile/%s", pf,
				 files[XE_PRIORITY]);
}

bool xe_has_priorities(const char *pf)
{
	return kernel_has(files[XE_PRIORITY], ADMIN "/.bulk_profile", pf);
}

/* If the kernel cannot divide the memory, it hides the file of all VFs together, but not those of
 * single VFs. */
bool xe_has_memory(const char *pf)
{
	return kernel_has("vram_quota", ADMIN "/.bulk_profile", pf) &&
	       kernel_has("vram_quota", ADMIN "/vf1/profile", pf);
}

int xe_read_memory(const char *pf, uint32_t function, uint64_t *bytes)
{
	struct folder f = folder_of(function);
	int64_t value;
	int r = kernel_read_number(&value, ADMIN "/%s/profile/vram_quota", pf, f.name);

	if (r == 0)
		*bytes = (uint64_t)value;
	return r;
}

int xe_write_memory(const char *pf, uint32_t function, uint64_t bytes)
{
	struct folder f = folder_of(function);
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, bytes);
	return kernel_write_here(text, ADMIN "/%s/profile/vram_quota", pf, f.name);
}

int xe_stop(const char *pf, uint32_t function)
{
	struct folder f = folder_of(function);

	return kernel_write_here("1", ADMIN "/%s/stop", pf, f.name);
}

void xe_unit(const char *pf, char out[XE_UNIT_SIZE])
{
	snprintf(out, XE_UNIT_SIZE, "xe_%s", pf);
	for (; *out; out++)
		*out = *out == ':' ? '_' : *out;
}

bool xe_counts_functions(const char *pf)
{
	char unit[XE_UNIT_SIZE];

	xe_unit(pf, unit);
	return kernel_has("function", XE_UNITS "/%s/format", unit);
}
