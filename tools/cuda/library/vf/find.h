/* SPDX-License-Identifier: MIT */
/* Finds the VF that a program uses. */
#pragma once

#include "vfio/pci.h"
#include "vgpu/types.h"

/* The environment variable that names the VF: the path of a socket, a PCI address, or a name as in
 * vfio/device.h. */
#define FIND_VARIABLE "VGPU_CUDA_VF"
#define FIND_NAME_SIZE 256
/* Where a container finds its lease, if that variable is not set: a directory that vgpud's hook
 * mounts there, and the socket in it. */
#define FIND_SLOT "/run/vgpud/gpu"
#define FIND_SOCKET "vf.sock"

/* Writes the VF's name, as vfio_device_open() takes it, to OUT: the one in the environment, else
 * that of the container's lease, else the first VF of this machine. Any thread. Returns 0; or
 * -ENODEV: there is none, or -EINVAL: the environment names no VF, with the reason in ERR. */
int find_vf(char out[FIND_NAME_SIZE], struct vgpu_error *err);

/* The place of a VF on this machine's PCI bus. A VF without a place has a domain that no machine
 * has. */
struct find_pci {
	uint32_t domain, bus, device, function;
};
#define FIND_NO_DOMAIN UINT32_MAX
void find_pci(const char *name, struct find_pci *out);
/* Reads a place such as "0000:00:05.0" from TEXT. The domain or the function may be omitted; any
 * number of leading zeros is allowed. Returns false if TEXT is not a place. */
bool find_parse(const char *text, struct find_pci *out);

/* Computes a UUID of 16 bytes from the VF's name, which is different for each VF of a machine. */
void find_uuid(const char *name, uint8_t uuid[16]);
/* As find_uuid(), as text: "GPU-" and the UUID. */
#define FIND_UUID_TEXT 41
void find_uuid_text(const char *name, char out[FIND_UUID_TEXT]);

/* NVIDIA's variable for the devices that a program sees: a list of numbers and UUIDs, which may be
 * shortened. The list ends at its first invalid entry; with an empty list the program sees none. */
#define FIND_VISIBLE "CUDA_VISIBLE_DEVICES"
/* Returns whether a program with LIST in that variable (NULL: not set) sees the VF called NAME. */
bool find_is_visible(const char *name, const char *list);

/* Writes a key that is the same for all programs of this machine with this VF: the VF's name, or
 * the file of a socket, whatever path leads to it. */
void find_key(const char *name, char out[FIND_NAME_SIZE]);

/* Writes the addresses of up to MAX VFs of softgpu in this machine to OUT, in ascending order.
 * Returns how many there are, or -errno. */
int find_all(char out[][PCI_ADDRESS_SIZE], int max);
