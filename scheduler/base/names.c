/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "vgpu/names.h"

#define PARTS 4u

/* The parts of an address, in order: the number of digits that each may have, and its largest
 * value. */
static const struct {
	unsigned digits;
	uint32_t max;
} parts[PARTS] = {{8, UINT32_MAX}, {2, 0xff}, {2, 0x1f}, {1, 7}};

static uint32_t digit(char c)
{
	return isdigit((unsigned char)c) ? (uint32_t)(c - '0')
					 : (uint32_t)(tolower((unsigned char)c) - 'a') + 10;
}

/* Reads the parts from FIRST on, with the separators between them. */
static int read_parts(const char *text, unsigned first, const char *separators, uint32_t out[PARTS])
{
	unsigned i, n;

	for (i = first; i < PARTS; i++) {
		out[i] = 0;
		for (n = 0; isxdigit((unsigned char)*text) && n < parts[i].digits; n++)
			out[i] = out[i] << 4 | digit(*text++);
		if (n == 0 || out[i] > parts[i].max || *text != separators[i])
			return -EINVAL;
		text++;
	}
	return 0;
}

int pci_address_read(const char *text, struct pci_address *out)
{
	static const char of_libvirt[] = "pci_";
	uint32_t found[PARTS] = {0};
	size_t prefix = strlen(of_libvirt);
	int r = read_parts(text, 0, "::.", found);

	if (r < 0) {
		found[0] = 0;
		r = read_parts(text, 1, "::.", found);
	}
	if (r < 0 && strncmp(text, of_libvirt, prefix) == 0)
		r = read_parts(text + prefix, 0, "___", found);
	if (r == 0)
		*out = (struct pci_address){found[0], found[1], found[2], found[3]};
	return r;
}

void pci_address_write(const struct pci_address *a, char out[PCI_ADDRESS_SIZE])
{
	snprintf(out, PCI_ADDRESS_SIZE, "%04" PRIx32 ":%02x:%02x.%x", a->domain, (uint8_t)a->bus,
		 (uint8_t)(a->device & 0x1f), (uint8_t)(a->function & 7));
}

int pci_address_normal(const char *text, char out[PCI_ADDRESS_SIZE])
{
	struct pci_address address;
	int r = pci_address_read(text, &address);

	if (r == 0)
		pci_address_write(&address, out);
	return r;
}

bool pci_is_address(const char *text)
{
	char normal[PCI_ADDRESS_SIZE];

	return pci_address_normal(text, normal) == 0 && strcmp(text, normal) == 0;
}

int vgpu_device_normal(const char *device, char *out, size_t size)
{
	const char *colon = strchr(device, ':'), *place = colon ? colon + 1 : device;
	size_t length = strcspn(place, ",");
	char text[32], address[PCI_ADDRESS_SIZE];

	if (length < sizeof(text)) {
		snprintf(text, sizeof(text), "%.*s", (int)length, place);
		if (pci_address_normal(text, address) == 0) {
			size_t needed = (size_t)(place - device) + strlen(address) +
					strlen(place + length) + 1;

			if (needed > size)
				return -ENAMETOOLONG;
			snprintf(out, size, "%.*s%s%s", (int)(place - device), device, address,
				 place + length);
			return 0;
		}
	}
	if (strlen(device) >= size)
		return -ENAMETOOLONG;
	memcpy(out, device, strlen(device) + 1);
	return 0;
}

int vgpu_uuid_normal(const char *text, char out[VGPU_UUID_SIZE])
{
	static const char form[VGPU_UUID_SIZE] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	bool dashes = strlen(text) == VGPU_UUID_SIZE - 1;
	char normal[VGPU_UUID_SIZE];
	size_t i;

	for (i = 0; form[i]; i++) {
		if (form[i] == '-' && (!dashes || *text == '-'))
			normal[i] = '-';
		else if (form[i] == 'x' && isxdigit((unsigned char)*text))
			normal[i] = (char)tolower((unsigned char)*text);
		else
			return -EINVAL;
		text += form[i] == 'x' || dashes;
	}
	if (*text)
		return -EINVAL;
	normal[i] = '\0';
	memcpy(out, normal, sizeof(normal));
	return 0;
}
