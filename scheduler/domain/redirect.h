/* SPDX-License-Identifier: MIT */
/*
 * Changes the VFs of a domain that comes from another host: replaces source addresses of its
 * <hostdev>s and leaves all other bytes of the XML unchanged. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vgpu/names.h"
#include "vgpu/types.h"

#define REDIRECT_MAX 8u

/* The <hostdev mode='subsystem' type='pci'> whose source is FROM gets the source TO; both are PCI
 * addresses, "0000:01:00.0". */
struct redirect {
	char from[PCI_ADDRESS_SIZE], to[PCI_ADDRESS_SIZE];
};

/*
 * Redirects N devices, at most REDIRECT_MAX, of the domain TEXT, SIZE bytes and
 * a zero. Writes the new XML to
 * *OUT, which the caller frees. Returns 0; -EINVAL with the reason in ERR: not XML, a device is
 * missing or there twice, its address is not written as libvirt writes it, or the result would not
 * be the same document but for these addresses, which libxml2 judges; -E2BIG: TEXT is too long;
 * -ENOMEM.
 */
int redirect_devices(const char *text, size_t size, const struct redirect *list, uint32_t n,
		     char **out, struct vgpu_error *err);
