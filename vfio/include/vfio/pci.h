/* SPDX-License-Identifier: MIT */
/*
 * PCI functions as the kernel lists them in sysfs, and the life cycle of virtual functions. Nothing
 * here opens or resets a device. Calls may block; they come from any thread, one at a time for each
 * GPU.
 */
#ifndef VFIO_PCI_H
#define VFIO_PCI_H

#include <stdbool.h>
#include <stdint.h>

#include "vgpu/types.h"

#define PCI_ADDRESS_SIZE 16
#define PCI_DEVICES "/sys/bus/pci/devices"
/* What helps where functions have no IOMMU group. */
#define PCI_IOMMU_CURE                                                                             \
	"switch VT-d or AMD-Vi on in the firmware, and boot with intel_iommu=on (AMD's is on by "  \
	"itself)"

struct pci_info {
	char address[PCI_ADDRESS_SIZE]; /* "0000:01:00.0" */
	uint16_t vendor, device;
	uint32_t class;			  /* 24 bits */
	char driver[32];		  /* "": none */
	int32_t group;			  /* of the IOMMU; -1: none */
	uint32_t group_size;		  /* functions in it, bridges left out */
	char neighbour[PCI_ADDRESS_SIZE]; /* one of the others */
	int32_t numa_node;		  /* -1: unknown */
	char resets[64];		  /* how it can be reset */
	uint32_t total_vfs, vfs;	  /* 0, 0: no SR-IOV */
	char pf[PCI_ADDRESS_SIZE];	  /* whose VF it is; "": it is none */
};

/* Whether TEXT is a full PCI address. */
bool pci_is_address(const char *text);

/* What the kernel says of a function. 0; -EINVAL for what is no address, -ENODEV if there is no
 * such function, -EIO if the answers are absurd, each with the reason. */
int pci_describe(const char *address, struct pci_info *out, struct vgpu_error *err);

/* The functions that are GPUs or accelerators by their class, VFs left out; how many there are, of
 * which the first MAX are described. Negative: -errno. */
int pci_list_gpus(struct pci_info *out, uint32_t max);

/* Address of VF number N of PF. 0 or -errno. */
int pci_vf_address(const char *pf, uint32_t n, char out[PCI_ADDRESS_SIZE]);

/* Who has a function open by VFIO: writes "qemu-system-x86 (pid 4711)" to OUT and returns true.
 * Looks through /proc, and touches no device. */
bool pci_user(const char *address, char *out, size_t size);

/* Gives a function to DRIVER and to no other, not even for an instant (driver_override). 0 or
 * -errno with the reason; it is then bound to what the error says. */
int pci_bind(const char *address, const char *driver, struct vgpu_error *err);

/* Takes the kernel's ways to reset a function from it, until pci_release: VFIO would use them when
 * a PF is opened and closed, and its VFs would lose what they are. (AMD's do not come back at all:
 * github.com/amd/MxGPU-Virtualization, issue 25.) 0 or -errno with the reason. */
int pci_suppress_resets(const char *address, struct vgpu_error *err);

/* Gives a PF that we have taken back: its VFs are taken away, autoprobe is on again, no driver is
 * named any more, and the kernel binds whichever it likes. -EBUSY while somebody holds it, or a VF
 * is in use.
 */
int pci_release(const char *address, struct vgpu_error *err);

/* The vfio driver for a function: the variant that modules.alias has for it, or vfio-pci. */
void pci_vfio_driver(const char *address, char *out, size_t size);

/*
 * Gives PF exactly N VFs, each bound to its vfio driver and at no instant to another. The same
 * number as there is only has their bindings verified. Takes none away that is in use: -EBUSY, and
 * by whom. All or nothing: after a failure there are none.
 */
int pci_set_vfs(const char *pf, uint32_t n, struct vgpu_error *err);

#endif
