/* SPDX-License-Identifier: MIT */
/*
 * PCI functions as sysfs describes them, and the life cycle of virtual functions. Nothing here
 * opens or resets a device. Calls may block. Any thread, one at a time for each GPU.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "vgpu/names.h"
#include "vgpu/types.h"

#define PCI_DEVICES "/sys/bus/pci/devices"
/* The remedy for functions without an IOMMU group. */
#define PCI_IOMMU_CURE                                                                             \
	"switch VT-d or AMD-Vi on in the firmware setup; with an Intel CPU, boot with "            \
	"intel_iommu=on"

struct pci_info {
	char address[PCI_ADDRESS_SIZE]; /* "0000:01:00.0" */
	uint16_t vendor, device;
	uint32_t class;			  /* 24 bits */
	char driver[32];		  /* "": none */
	int32_t group;			  /* IOMMU group; -1: none */
	uint32_t group_size;		  /* functions in the group, without bridges */
	char neighbour[PCI_ADDRESS_SIZE]; /* another function of the group */
	int32_t numa_node;		  /* -1: unknown */
	char resets[64];		  /* the kernel's methods to reset it */
	uint32_t total_vfs, vfs;	  /* 0, 0: no SR-IOV */
	char pf[PCI_ADDRESS_SIZE];	  /* a VF's PF; "": it is not a VF */
};

/* Describes a function from sysfs. ADDRESS, as everywhere here, has the normal form of
 * vgpu/names.h. Returns 0; -EINVAL: not an address; -ENODEV: no such function;
 * -EIO: invalid values; with the reason in ERR. */
int pci_describe(const char *address, struct pci_info *out, struct vgpu_error *err);

/* Checks that VFIO can give a function to one VM alone. Returns 0; or -EPERM with the reason in ERR
 * if it shares its IOMMU group with another function. */
int pci_check_group(const struct pci_info *info, struct vgpu_error *err);

/* Writes the model of a function, from udev's database of hardware (hwdb), to OUT, which is
 * unchanged if the database does not have it. */
void pci_model(const struct pci_info *info, char *out, size_t size);

/* Lists the functions whose class is GPU or accelerator, without VFs. Returns their number, of
 * which the first MAX are described, or -errno. */
int pci_list_gpus(struct pci_info *out, uint32_t max);

/* Gets the address of VF number N of PF. Returns 0 or -errno. */
int pci_vf_address(const char *pf, uint32_t n, char out[PCI_ADDRESS_SIZE]);

/* Finds the process that has a function open through VFIO: writes "qemu-system-x86 (pid 4711)" to
 * OUT and returns true. Searches /proc; touches no device. */
bool pci_user(const char *address, char *out, size_t size);
/* Returns the number of the process that pci_user() names; 0 if there is none, or if it is not
 * visible. The name in pci_user()'s text is chosen by that process. */
pid_t pci_user_pid(const char *address);

/* Binds a function to DRIVER, without any other driver in between (driver_override). Returns 0, or
 * -errno with the reason in ERR; the function may then have no driver. */
int pci_bind(const char *address, const char *driver, struct vgpu_error *err);

/* Unbinds a function from its driver, and clears the override. Returns 0 or -errno. */
int pci_unbind(const char *address);

/* Refuses a PF that a driver of vgpud cannot use: one of another vendor (NAME is the text for
 * VENDOR: "an Intel GPU"), a VF, or one without DRIVER (CURE is the remedy). Returns 0, or -errno
 * with the reason in ERR. */
int pci_check_owner(const struct pci_info *pf, uint16_t vendor, const char *name,
		    const char *driver, const char *cure, struct vgpu_error *err);

/* Resets VF number N of PF. May block for 10 s. Returns 0 or -errno. */
int pci_reset_vf(const char *pf, uint32_t n);

/*
 * Empties the kernel's list of methods to reset a function, until pci_release(): otherwise VFIO
 * would reset a PF when it is opened and closed, and its VFs would lose their state. (AMD's GPUs do
 * not recover from that at all: github.com/amd/MxGPU-Virtualization, issue 25.) Returns 0, or
 * -errno with the reason in ERR.
 */
int pci_suppress_resets(const char *address, struct vgpu_error *err);

/* Returns a PF that vgpud held to the host: removes its VFs, switches autoprobe on, clears the
 * override, and lets the kernel bind a driver. Returns 0, or -errno with the reason in ERR; -EBUSY
 * while a process holds the PF, or uses a VF. */
int pci_release(const char *address, struct vgpu_error *err);

/* Gets the VFIO driver for a function: the variant that modules.alias lists for it (xe-vfio-pci for
 * VFs of Intel's GPUs), or vfio-pci. */
void pci_vfio_driver(const char *address, char *out, size_t size);

/* Returns whether the VFIO driver with the name DRIVER can move the state of its functions to
 * another host. */
bool pci_can_migrate(const char *driver);

#define PCI_KIND_SIZE 24
/* Gets the properties that another function must share to take over the state of this one's VFs:
 * vendor, device and revision, "8086:e212:00". xe compares the same. Returns 0 or -errno. */
int pci_migration_kind(const char *address, char out[PCI_KIND_SIZE]);

/*
 * Makes exactly N VFs of PF, each bound to its VFIO driver, without any other driver in between. If
 * there are N already, only binds those that need it, and none that a process has open. Returns 0,
 * or -errno with the reason in ERR; -EBUSY: a VF that must be removed is in use by the process
 * named in ERR. If making VFs fails, there are none.
 */
int pci_set_vfs(const char *pf, uint32_t n, struct vgpu_error *err);
