/* SPDX-License-Identifier: MIT */
/* GPUs whose VFs a driver of the host has scheduled: the doctor says how they are set, and vgpud
 * leaves them as they are. */
#include <errno.h>
#include <unistd.h>

#include "suite.h"
#include "vfio/device.h"
#include "vfio/doctor.h"
#include "xe_kernel.h"

static char text[8192];
static unsigned bad;

static void finding(void *, enum doctor_verdict verdict, const char *subject, const char *found,
		    const char *cure)
{
	size_t n = strlen(text);

	if (strcmp(subject, PF) == 0)
		bad += verdict == DOCTOR_BAD;
	snprintf(text + n, sizeof(text) - n, "%s: %s; %s\n", subject, found, cure);
}

static bool doctor_says(const char *what)
{
	text[0] = '\0';
	bad = 0;
	vfio_doctor(finding, NULL, DOCTOR_NEEDS_ALL);
	return strstr(text, what) != NULL;
}

/* A PF with that vendor and driver. */
static void host(const char *vendor, const char *driver)
{
	char target[64];

	put_file(vendor, PCI_DEVICES "/%s/vendor", PF);
	snprintf(target, sizeof(target), "../../drivers/%s", driver);
	point(target, PCI_DEVICES "/" PF "/driver");
}

static void turns(uint32_t function, uint32_t ms, uint32_t us)
{
	struct xe_function *x = &xe_functions[function];

	x->quantum[0] = x->quantum[1] = ms;
	x->timeout[0] = x->timeout[1] = us;
}

TEST(intel_xe, "the doctor says how an Intel GPU is set, and where that is a trap")
{
	struct vgpu_error err;

	make_xe_machine();
	CU_ASSERT(doctor_says("driver xe, 0 of 8 VFs"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "device = xe:ADDRESS"));
	CU_ASSERT_PTR_NULL(strstr(text, "quantum"));
	CU_ASSERT_EQUAL_FATAL(pci_set_vfs(PF, 2, &err), 0);
	xe_trace[0] = '\0';
	CU_ASSERT(doctor_says("quantum: PF 16 ms, VFs 16 to 16 ms; preemption time-out: PF 16000"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "VFs without work are skipped"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "memory of VFs: 5460 to 5460 MiB"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "unsaved: these settings are lost"));
	CU_ASSERT_EQUAL(bad, 0);
	/* A time-out of 0 is as endless as a quantum of 0; VFs that do not exist do not count. */
	turns(2, 20, 0);
	turns(3, 0, 0);
	CU_ASSERT(doctor_says("endless: quantum or time-out is 0 for VF 1 and 0 more functions"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "sriov_admin/.bulk_profile/exec_quantum_ms"));
	CU_ASSERT_EQUAL(bad, 1);
	turns(0, 0, 0);
	turns(1, 0, 16000);
	turns(2, 0, 16000);
	CU_ASSERT(doctor_says("for the PF and 2 more functions"));
	CU_ASSERT_PTR_NULL(strstr(text, "unsaved"));
	turns(0, 16, 16000);
	turns(1, 16, 16000);
	turns(2, 16, 16000);
	xe_functions[0].priority = 1;
	CU_ASSERT(doctor_says("inverted: the PF keeps its turn"));
	xe_functions[1].priority = xe_functions[2].priority = 1;
	CU_ASSERT(doctor_says("turns of VFs without work pass unused"));
	xe_functions[2].quantum[1] = 17;
	CU_ASSERT(doctor_says("quantum and time-out cannot be read: parts of the GPU disagree"));
	/* The doctor changes nothing. */
	CU_ASSERT_STRING_EQUAL(xe_trace, "");
	take("/sys/bus/event_source/devices/xe_0000_03_00.0/format/function");
	CU_ASSERT(doctor_says("the kernel does not count what VFs use"));
	remove_tree(inside(PCI_DEVICES "/" PF "/sriov_admin"));
	CU_ASSERT(doctor_says("vgpud cannot schedule it; " PF ": this kernel's driver xe has no"));
	remove_xe_machine();
}

TEST(others, "the doctor knows the other vendors' drivers")
{
	static const char *const card = "/sys/class/drm/card1/prelim_iov";
	struct vgpu_error err;

	make_machine();
	CU_ASSERT_EQUAL_FATAL(pci_set_vfs(PF, 1, &err), 0);
	host("0x8086\n", "i915");
	CU_ASSERT(doctor_says("vgpud has no driver for i915's VFs"));
	put_file("", PCI_DEVICES "/%s/drm/card1/dev", PF);
	put_file("20\n", "%s/pf/gt0/exec_quantum_ms", card);
	put_file("20000\n", "%s/pf/gt0/preempt_timeout_us", card);
	put_file("0\n", "%s/vf1/gt0/exec_quantum_ms", card);
	put_file("0\n", "%s/vf1/gt0/preempt_timeout_us", card);
	CU_ASSERT(doctor_says("quantum: PF 20 ms, VFs 0 to 0 ms"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "endless: quantum or time-out is 0 for VF 0"));
	host("0x10de\n", "nvidia");
	CU_ASSERT(doctor_says("the driver nvidia has no vGPUs here"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "vgpud needs NVIDIA vGPU software 17 or later"));
	put_file("1145\n", PCI_DEVICES "/%s/virtfn0/nvidia/current_vgpu_type", PF);
	CU_ASSERT(doctor_says("NVIDIA vGPU: 1 of 1 VFs have a vGPU type; unsaved: types and"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "device = nvidia:ADDRESS"));
	/* Where the host's driver wants its VFs is its own business. */
	point("../../drivers/nvidia", PCI_DEVICES "/" PF "/virtfn0/driver");
	CU_ASSERT(doctor_says("VF 0 of " PF ", driver nvidia"));
	CU_ASSERT_PTR_NULL(strstr(text, "vgpud binds it"));
	host("0x1002\n", "gim");
	CU_ASSERT(doctor_says("device = gim:ADDRESS"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "vgpud cannot schedule it; " PF ": there is no /sys"));
	put_file("VF0\t Active\t timeslice = 4000 us\n",
		 "/sys/kernel/debug/gim/%s/asymmetric_timeslice", PF);
	put_file("2\n", "/sys/module/gim/parameters/%s", "sch_policy");
	CU_ASSERT(doctor_says("slices: VFs 4000 to 4000 us; VFs without work are skipped"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "endless: GIM has no preemption time-out"));
	put_file("Asics not support asymmetric time slice setting!\n",
		 "/sys/kernel/debug/gim/%s/asymmetric_timeslice", PF);
	CU_ASSERT(doctor_says("vgpud cannot schedule it; " PF ": GIM cannot set the slices"));
	put_file("profile_index       profile_type\n1                   CPX \n",
		 PCI_DEVICES "/%s/accelerator_partition_profile", PF);
	put_file("memory_partition_mode: NPS4\nnuma_count: 4\n",
		 PCI_DEVICES "/%s/memory_partition_mode", PF);
	CU_ASSERT(doctor_says("partition profile CPX (1), memory mode NPS4"));
	host("0x1002\n", "amdgpu");
	CU_ASSERT(doctor_says("amdgpu makes no VFs; AMD's GIM does"));
	remove_machine();
}

/* No PF is taken from such a driver. */
TEST(left_alone, "no PF is taken from a driver that schedules")
{
	static const char *const names[] = {"sysfs:" PF, "vfio:" PF};
	static const struct {
		const char *vendor, *driver;
	} cases[] = {{"0x8086\n", "xe"},
		     {"0x8086\n", "i915"},
		     {"0x10de\n", "nvidia"},
		     {"0x1002\n", "gim"}};
	struct vfio_device *device;
	struct vgpu_error err;
	char driver[32];
	unsigned i, k;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make_machine();
		host(cases[i].vendor, cases[i].driver);
		for (k = 0; k < 2; k++) {
			CU_ASSERT_EQUAL(vfio_device_open(&device, names[k], &err), -EBUSY);
			CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "it is left as it is"));
			CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].driver));
			kernel_read_link(driver, sizeof(driver), PCI_DEVICES "/" PF "/driver");
			CU_ASSERT_STRING_EQUAL(driver, cases[i].driver);
		}
		CU_ASSERT_EQUAL(pci_release(PF, &err), -EINVAL);
		kernel_read_link(driver, sizeof(driver), PCI_DEVICES "/" PF "/driver");
		CU_ASSERT_STRING_EQUAL(driver, cases[i].driver);
		remove_machine();
	}
}

/* Models are named by udev's database, where this machine has it. */
TEST(models, "models have names")
{
	struct pci_info info = {.address = PF};
	char model[64] = "PCI function";

	make_machine();
	pci_model(&info, model, sizeof(model));
	CU_ASSERT_STRING_EQUAL(model, "PCI function");
	put_file("pci:v000010DEd00000020sv00000000sd00000000bc03sc00i00\n",
		 PCI_DEVICES "/%s/modalias", PF);
	pci_model(&info, model, sizeof(model));
	if (access("/usr/lib/udev/hwdb.bin", R_OK) == 0 || access("/etc/udev/hwdb.bin", R_OK) == 0)
		CU_ASSERT_PTR_NOT_NULL(strstr(model, "Riva TNT"));
	remove_machine();
}

SUITE_MAIN("GPUs that a driver of the host has")
