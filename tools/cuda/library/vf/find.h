/* SPDX-License-Identifier: MIT */
/* Finds the VF that a program uses. */
#pragma once

#include "vfio/pci.h"
#include "vgpu/types.h"

/* The variable that names it: the path of a socket, a PCI address, or a name as in vfio/device.h.
 */
#define FIND_VARIABLE "VGPU_CUDA_VF"
#define FIND_NAME_SIZE 256
/* Where a container finds its lease, if that variable is not set: a directory that vgpud's hook
 * mounts there, and the socket in it. */
#define FIND_SLOT "/run/vgpud/gpu"
#define FIND_SOCKET "vf.sock"

/* Writes the VF's name, as vfio_device_open() takes it, to OUT: the one that the environment names,
 * else that of the container's lease, else the first one of this machine. Any thread. Returns 0; or
 * with the reason in ERR -ENODEV: there is none, or -EINVAL: the environment names no VF. */
int find_vf(char out[FIND_NAME_SIZE], struct vgpu_error *err);

/* A VF's place on this machine's PCI bus. A VF without one has a domain that no machine has. */
struct find_pci {
	uint32_t domain, bus, device, function;
};
#define FIND_NO_DOMAIN UINT32_MAX
void find_pci(const char *name, struct find_pci *out);
/* Returns whether TEXT is such a place: "0000:00:05.0". The domain or the function may be omitted;
 * any number of leading zeros is allowed. */
bool find_parse(const char *text, struct find_pci *out);

/* Writes a UUID of 16 bytes that is made from the VF's name: different for each VF of a machine. */
void find_uuid(const char *name, uint8_t uuid[16]);
/* The same as text, "GPU-" and a UUID. */
#define FIND_UUID_TEXT 41
void find_uuid_text(const char *name, char out[FIND_UUID_TEXT]);

/* NVIDIA's variable for the devices that a program sees: a list of numbers and UUIDs, which may be
 * shortened. The list ends at its first invalid entry; with an empty list the program sees none. */
#define FIND_VISIBLE "CUDA_VISIBLE_DEVICES"
/* Returns whether a program sees the VF called NAME with LIST in that variable; NULL: it is not
 * set. */
bool find_is_visible(const char *name, const char *list);

/* Writes a key that is the same for all programs of this machine with this VF: the VF's name, or
 * for a socket its file, whatever path leads there. */
void find_key(const char *name, char out[FIND_NAME_SIZE]);

/* Writes the addresses of up to MAX VFs of softgpu in this machine to OUT, in ascending order.
 * Returns how many there are, or -errno. */
int find_all(char out[][PCI_ADDRESS_SIZE], int max);
