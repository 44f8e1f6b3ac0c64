/* SPDX-License-Identifier: MIT */
/* Which VF a program uses. */
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
 * else that of its container's lease, or the first of this machine. Any thread. 0; -ENODEV: there
 * is none; -EINVAL: the environment names nothing that could be one; with the reason in ERR. */
int find_vf(char out[FIND_NAME_SIZE], struct vgpu_error *err);

/* A VF's place on this machine's PCI bus. A VF without one has a domain that no machine has. */
struct find_pci {
	uint32_t domain, bus, device, function;
};
#define FIND_NO_DOMAIN UINT32_MAX
void find_pci(const char *name, struct find_pci *out);
/* Returns whether TEXT is such a place: "0000:00:05.0", of which the domain or the function may be
 * missing, with any number of leading zeros. */
bool find_parse(const char *text, struct find_pci *out);

/* Writes 16 bytes to UUID, which tell VFs of one machine apart, by their names. */
void find_uuid(const char *name, uint8_t uuid[16]);
/* The same as text, "GPU-" and a UUID. */
#define FIND_UUID_TEXT 41
void find_uuid_text(const char *name, char out[FIND_UUID_TEXT]);

/* Which devices a program wants to see: NVIDIA's variable, a list of numbers and UUIDs, which may
 * be shortened. Those before the first one that is no device are seen; an empty list has none. */
#define FIND_VISIBLE "CUDA_VISIBLE_DEVICES"
/* Returns whether a program sees the VF called NAME with LIST in that variable; NULL: it is not
 * set. */
bool find_is_visible(const char *name, const char *list);

/* Writes what all programs of this machine find the same VF by: its name, and of a socket its file,
 * whatever path leads there. */
void find_key(const char *name, char out[FIND_NAME_SIZE]);

/* Writes the addresses of up to MAX VFs of softgpu in this machine to OUT, in ascending order.
 * Returns how many there are, or -errno. */
int find_all(char out[][PCI_ADDRESS_SIZE], int max);
