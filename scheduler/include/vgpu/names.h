/* SPDX-License-Identifier: MIT */
/*
 * Names of devices and VMs as the field's tools print them, and their normal form, in which all
 * programs here keep, compare and print them. Pure functions; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "0000:3b:00.0"; domains beyond 16 bits, such as those of VMD, have more digits: "10000:e1:00.0"
 */
#define PCI_ADDRESS_SIZE 20

struct pci_address {
	uint32_t domain, bus, device, function;
};

/*
 * Reads a PCI address, all of TEXT, in any form that the field's tools print: "0000:3b:00.0" and
 * "3b:00.0" (lspci, the kernel; without a domain it is 0), "00000000:3B:00.0" (nvidia-smi, DCGM)
 * and "pci_0000_3b_00_0" (libvirt's node devices), with digits in any case. Returns 0, or -EINVAL;
 * OUT is written on success only.
 */
int pci_address_read(const char *text, struct pci_address *out);

/* Writes the normal form, which is the kernel's name of the function in sysfs. */
void pci_address_write(const struct pci_address *address, char out[PCI_ADDRESS_SIZE]);

/* Turns an address in any of the forms into the normal one. OUT may be TEXT. Returns 0, or -EINVAL
 * with OUT unchanged. */
int pci_address_normal(const char *text, char out[PCI_ADDRESS_SIZE]);

/* Returns whether TEXT is a PCI address in the normal form. */
bool pci_is_address(const char *text);

/* Copies DEVICE, "TRANSPORT:PLACE[,OPTIONS]", to OUT of SIZE bytes; a PLACE that is a PCI address
 * gets the normal form. Returns 0, or -ENAMETOOLONG with OUT unchanged. OUT must not be DEVICE. */
int vgpu_device_normal(const char *device, char *out, size_t size);

#define VGPU_UUID_SIZE 37

/* Turns a UUID, with or without dashes and with digits in any case, into lower case with dashes, as
 * libvirt prints it. OUT may be TEXT. Returns 0, or -EINVAL with OUT unchanged. */
int vgpu_uuid_normal(const char *text, char out[VGPU_UUID_SIZE]);
