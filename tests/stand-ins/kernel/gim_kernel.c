/* SPDX-License-Identifier: MIT */
#include "gim_kernel.h"

#include <errno.h>

#define SLICES "/sys/kernel/debug/gim/" PF "/asymmetric_timeslice"

uint32_t gim_slices[GIM_VFS], gim_deaf;
const char *gim_says;
int gim_read_error, gim_write_error, gim_reset_error;
unsigned gim_resets[GIM_VFS];

static bool ends(const char *path, const char *with)
{
	size_t n = strlen(path), m = strlen(with);

	return n >= m && strcmp(path + n - m, with) == 0;
}

static bool is_ours(const char *path)
{
	return strcmp(path, SLICES) == 0 || ends(path, "/reset") || ends(path, "/sriov_numvfs");
}

static int show(const char *path, char *out, size_t size)
{
	uint32_t i;
	int n;

	if (ends(path, "/sriov_numvfs"))
		return snprintf(out, size, "%u\n", GIM_VFS);
	if (gim_read_error)
		return gim_read_error;
	if (gim_says)
		return snprintf(out, size, "%s", gim_says);
	/* GIM's own spelling. */
	n = snprintf(out, size, "Currnet Available VF Number:\t%u\t[value is vf_num]\n\nStatus:\n",
		     GIM_VFS);
	for (i = 0; i < GIM_VFS; i++)
		n += snprintf(out + n, size - (size_t)n, "VF%u\t %s\t timeslice = %u us\n", i,
			      i % 2 ? "Inactive" : "Active", gim_slices[i]);
	return n;
}

static int store(const char *path, const char *text)
{
	char after;
	unsigned vf, us;

	if (ends(path, "/sriov_numvfs"))
		return -ENOENT; /* the driver has no sriov_configure */
	if (ends(path, "/reset")) {
		CU_ASSERT_EQUAL(sscanf(path, PCI_DEVICES "/" PF "/virtfn%u/reset", &vf), 1);
		gim_resets[vf] += gim_reset_error == 0;
		return gim_reset_error;
	}
	if (gim_write_error)
		return gim_write_error;
	/* Linux's sscanf would read on behind a text without an end. */
	if (sscanf(text, "%u,%u%c", &vf, &us, &after) != 3 || after != '\n' || us < 100 ||
	    us > 1000000 || us % 100 || vf >= GIM_VFS)
		return -EINVAL;
	if (!(gim_deaf >> vf & 1))
		gim_slices[vf] = us;
	return 0;
}

void make_gim_machine(void)
{
	static const struct reactive files = {is_ours, show, store};
	uint32_t i;

	make_machine();
	put_file("0x1002\n", PCI_DEVICES "/%s/vendor", PF);
	put_file("0x7460\n", PCI_DEVICES "/%s/device", PF);
	put_file("", PCI_DEVICES "/%s/config", PF);
	point("../../drivers/gim", PCI_DEVICES "/" PF "/driver");
	CU_ASSERT_EQUAL(kernel_write_text(1000, "4", PCI_DEVICES "/%s/sriov_numvfs", PF), 0);
	put_file("4\n", PCI_DEVICES "/%s/sriov_numvfs", PF);
	for (i = 0; i < GIM_VFS; i++)
		put_file("", PCI_DEVICES "/%s/virtfn%u/reset", PF, i);
	put_file("", "%s", SLICES);
	put_file("1,1\n", "/sys/module/gim/parameters/%s", "sch_policy");
	for (i = 0; i < GIM_VFS; i++) {
		gim_slices[i] = 4000;
		gim_resets[i] = 0;
	}
	gim_deaf = 0;
	gim_says = NULL;
	gim_read_error = gim_write_error = gim_reset_error = 0;
	react(&files);
}

void remove_gim_machine(void)
{
	remove_machine();
}
