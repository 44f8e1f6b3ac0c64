/* SPDX-License-Identifier: MIT */
#include "find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "softgpu/registers.h"
#include "vfio/kernel.h"

struct search {
	char (*out)[PCI_ADDRESS_SIZE];
	int max, n;
};

/* Adds the address NAME to the lowest ones, which are kept in order, if it is one of softgpu's
 * VFs. */
static int look(void *data, const char *name)
{
	struct search *s = data;
	int64_t vendor, device;
	int i;

	if (!pci_is_address(name) ||
	    kernel_read_number(&vendor, PCI_DEVICES "/%s/vendor", name) < 0 ||
	    kernel_read_number(&device, PCI_DEVICES "/%s/device", name) < 0 ||
	    vendor != SOFTGPU_VENDOR || device != SOFTGPU_DEVICE_VF)
		return 0;
	for (i = s->n < s->max ? s->n : s->max; i > 0 && strcmp(name, s->out[i - 1]) < 0; i--)
		if (i < s->max)
			memcpy(s->out[i], s->out[i - 1], PCI_ADDRESS_SIZE);
	if (i < s->max)
		snprintf(s->out[i], PCI_ADDRESS_SIZE, "%s", name);
	s->n++;
	return 0;
}

int find_all(char out[][PCI_ADDRESS_SIZE], int max)
{
	struct search s = {out, max, 0};
	int r = vfio_kernel->list(PCI_DEVICES, look, &s);

	return r < 0 ? r : s.n;
}

static int is_socket(void *, const char *name)
{
	return strcmp(name, FIND_SOCKET) == 0;
}

/* Writes to OUT the name of the container's VF, if vgpud's hook has mounted a lease; else of the
 * first VF of this machine.
 * Returns 0, or -errno with the reason in ERR. Only ENOENT and ENOTDIR mean that there is no lease.
 */
static int find_without(char out[FIND_NAME_SIZE], struct vgpu_error *err)
{
	int r = vfio_kernel->list(FIND_SLOT, is_socket, NULL);
	char first[1][PCI_ADDRESS_SIZE];

	if (r < 0 && r != -ENOENT && r != -ENOTDIR)
		return vgpu_error_set(err, r, FIND_SLOT ": %s", strerror(-r));
	if (r <= 0 && find_all(first, 1) < 1)
		return vgpu_error_set(
			err, -ENODEV,
			"this machine has no VF of softgpu, and no lease is in " FIND_SLOT
			": attach one to this VM or container, or set " FIND_VARIABLE
			" to the socket of one, DIR/vfN.sock");
	snprintf(out, FIND_NAME_SIZE, "%s", r > 0 ? "lease:" FIND_SLOT "/" FIND_SOCKET : first[0]);
	return 0;
}

int find_vf(char out[FIND_NAME_SIZE], struct vgpu_error *err)
{
	static const char *const prefixes[] = {"shared:", "resource:", "vfio:", "vfio-user:",
					       "lease:"};
	const char *wanted = getenv(FIND_VARIABLE), *prefix = "vfio-user:";
	char found[FIND_NAME_SIZE], address[PCI_ADDRESS_SIZE];
	size_t i;
	int r;

	if (!wanted || !*wanted) {
		r = find_without(found, err);
		if (r < 0)
			return r;
		wanted = found;
	}
	if (pci_address_normal(wanted, address) == 0) {
		wanted = address;
		prefix = "shared:";
	}
	for (i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(wanted, prefixes[i], strlen(prefixes[i])) == 0)
			prefix = "";
	if (snprintf(out, FIND_NAME_SIZE, "%s%s", prefix, wanted) >= FIND_NAME_SIZE)
		return vgpu_error_set(err, -EINVAL, FIND_VARIABLE " is longer than %d bytes",
				      FIND_NAME_SIZE - 1 - (int)strlen(prefix));
	return 0;
}

void find_pci(const char *name, struct find_pci *out)
{
	const char *place = strchr(name, ':') + 1; /* each name has a prefix */

	if (!find_parse(place, out))
		*out = (struct find_pci){.domain = FIND_NO_DOMAIN};
}

bool find_parse(const char *text, struct find_pci *out)
{
	const char *bus = strchr(text, ':');
	struct pci_address a;
	char function[PCI_ADDRESS_SIZE];

	/* CUDA and NVML also take an address without its function. */
	if (bus && strchr(bus + 1, ':') && !strchr(text, '.') &&
	    snprintf(function, sizeof(function), "%s.0", text) < (int)sizeof(function))
		text = function;
	if (pci_address_read(text, &a) < 0)
		return false;
	*out = (struct find_pci){a.domain, a.bus, a.device, a.function};
	return true;
}

/* FNV-1a, 64 bits, twice. */
void find_uuid(const char *name, uint8_t uuid[16])
{
	uint64_t h[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x5347505556465f30)};

	for (; *name; name++) {
		h[0] = (h[0] ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
		h[1] = (h[1] ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	}
	memcpy(uuid, h, sizeof(h));
}

void find_uuid_text(const char *name, char out[FIND_UUID_TEXT])
{
	uint8_t u[16];
	int i, n = snprintf(out, FIND_UUID_TEXT, "GPU-");

	find_uuid(name, u);
	for (i = 0; i < 16; i++)
		n += snprintf(out + n, FIND_UUID_TEXT - (size_t)n, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
}

bool find_is_visible(const char *name, const char *list)
{
	static const char kind[] = "GPU-", space[] = " \t";
	char uuid[FIND_UUID_TEXT];
	const char *digits;
	size_t length;

	if (!list)
		return true;
	/* This machine has one device. If the list begins with another device, its other entries do
	 * not count. */
	list += strspn(list, space);
	length = strcspn(list, ",");
	while (length > 0 && strchr(space, list[length - 1]))
		length--;
	digits = list + strspn(list, "0");
	if (length > 0 && digits == list + length)
		return true;
	find_uuid_text(name, uuid);
	return length > strlen(kind) && length < sizeof(uuid) &&
	       strncasecmp(list, uuid, length) == 0;
}

void find_key(const char *name, char out[FIND_NAME_SIZE])
{
	struct stat st;

	if (stat(strchr(name, ':') + 1, &st) == 0 && S_ISSOCK(st.st_mode))
		snprintf(out, FIND_NAME_SIZE, "socket:%ju:%ju", (uintmax_t)st.st_dev,
			 (uintmax_t)st.st_ino);
	else
		snprintf(out, FIND_NAME_SIZE, "%s", name);
}
