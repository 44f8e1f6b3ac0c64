/* SPDX-License-Identifier: MIT */
/* Reads the VF's registers. In a VM they are a file that several processes may map. Does not touch
 * the lock on it, which says which process has the VF. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "guest.h"
#include "library.h"
#include "vfio/device.h"
#include "softgpu/registers.h"
#include "softgpu/packets.h"
#include "vfio/kernel.h"
#include "vgpu/descriptor.h"

/* CUdevice_attribute */
enum { MAJOR = 75, MINOR = 76 };

struct vf {
	char name[FIND_NAME_SIZE], key[FIND_NAME_SIZE];
	char address[PCI_ADDRESS_SIZE]; /* "": it has none here */
	struct vfio_device *registers;	/* NULL: they cannot be seen here */
	bool shared;			/* named so that several programs can have it */
};

int vf_open(struct vf **out, struct vgpu_error *err)
{
	struct vf *vf = calloc(1, sizeof(*vf));
	char registers[FIND_NAME_SIZE + 10];
	const char *place;
	int r;

	if (!vf)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = find_vf(vf->name, err);
	if (r == 0) {
		find_key(vf->name, vf->key);
		place = strchr(vf->name, ':') + 1; /* each name has a prefix */
		if (pci_is_address(place))
			snprintf(vf->address, sizeof(vf->address), "%s", place);
		snprintf(registers, sizeof(registers), "registers:%s", place);
		vf->shared = strncmp(vf->name, "shared:", strlen("shared:")) == 0;
		if (vf->shared || strncmp(vf->name, "resource:", strlen("resource:")) == 0)
			r = vfio_device_open(&vf->registers, registers, err);
	}
	if (r < 0) {
		vf_close(vf);
		return r;
	}
	*out = vf;
	return 0;
}

void vf_close(struct vf *vf)
{
	if (!vf)
		return;
	vfio_device_close(vf->registers);
	free(vf);
}

const char *vf_key(const struct vf *vf)
{
	return vf->key;
}

void vf_uuid(const struct vf *vf, char out[VF_UUID_SIZE])
{
	find_uuid_text(vf->name, out);
}

static int read_register(const struct vf *vf, uint32_t at, void *out, uint32_t size)
{
	return vfio_read(vf->registers, VFIO_REGION_BAR5, at, out, size);
}

/* A counter that goes on meanwhile, in two halves. */
static int read_counter(const struct vf *vf, uint32_t at, uint64_t *out)
{
	uint32_t low = 0, high = 0, again = 0;
	int r;

	do {
		r = read_register(vf, at + 4, &high, sizeof(high));
		if (r == 0)
			r = read_register(vf, at, &low, sizeof(low));
		if (r == 0)
			r = read_register(vf, at + 4, &again, sizeof(again));
	} while (r == 0 && again != high);
	*out = (uint64_t)high << 32 | low;
	return r;
}

int vf_facts(const struct vf *vf, struct vf_facts *out)
{
	const struct {
		uint32_t at, size;
		void *to;
	} reads[] = {
		{SOFTGPU_ABOUT_AT + offsetof(struct softgpu_about, name), sizeof(out->name),
		 out->name},
		{SOFTGPU_ABOUT_AT + offsetof(struct softgpu_about, attributes[MAJOR]),
		 sizeof(out->major), &out->major},
		{SOFTGPU_ABOUT_AT + offsetof(struct softgpu_about, attributes[MINOR]),
		 sizeof(out->minor), &out->minor},
	};
	uint64_t window = 0, partition = 0, features = 0;
	size_t i;
	int r;

	if (!vf->registers)
		return -EOPNOTSUPP;
	r = read_register(vf, SOFTGPU_MEMORY_SIZE, &window, sizeof(window));
	if (r == 0)
		r = read_register(vf, SOFTGPU_PARTITION_SIZE, &partition, sizeof(partition));
	if (r == 0)
		r = read_register(vf, SOFTGPU_FEATURES, &features, sizeof(features));
	/* Ones or zeros: it has gone, or is switched off. */
	if (r < 0 || window == 0 || window == UINT64_MAX)
		return -EIO;
	out->total = partition > window ? partition - window : 0;
	out->shared = vf->shared && features & SOFTGPU_HAS_SLOTS && window >= GUEST_WINDOW_OF_TWO;
	r = read_counter(vf, SOFTGPU_RAN, &out->ran_ns);
	for (i = 0; r == 0 && i < sizeof(reads) / sizeof(reads[0]); i++)
		r = read_register(vf, reads[i].at, reads[i].to, reads[i].size);
	out->name[sizeof(out->name) - 1] = '\0';
	return r < 0 ? -EIO : 0;
}

/* A number that describes the function; 0: there is no such file. */
static uint32_t describe(const struct vf *vf, const char *what)
{
	int64_t value = 0;

	kernel_read_number(&value, PCI_DEVICES "/%s/%s", vf->address, what);
	return (uint32_t)value;
}

void vf_pci(const struct vf *vf, struct nvml_pci *out)
{
	struct find_pci p;

	find_pci(vf->name, &p);
	*out = (struct nvml_pci){.domain = p.domain,
				 .bus = p.bus,
				 .device = p.device,
				 .id = SOFTGPU_DEVICE_VF << 16 | SOFTGPU_VENDOR};
	if (vf->address[0])
		out->subsystem =
			describe(vf, "subsystem_device") << 16 | describe(vf, "subsystem_vendor");
	snprintf(out->legacy, sizeof(out->legacy), "%04x:%02x:%02x.%x", out->domain & 0xffff,
		 out->bus, out->device, p.function);
	snprintf(out->address, sizeof(out->address), "%08x:%02x:%02x.%x", out->domain, out->bus,
		 out->device, p.function);
}

bool vf_is_at(const struct vf *vf, const char *text)
{
	struct find_pci own, wanted;

	find_pci(vf->name, &own);
	/* NVML wants a domain */
	return strchr(text, ':') != strrchr(text, ':') && find_parse(text, &wanted) &&
	       memcmp(&own, &wanted, sizeof(own)) == 0;
}

void vf_holders(const struct vf *vf, void (*each)(void *data, pid_t pid), void *data)
{
	unsigned long inode;
	unsigned major_number, minor_number;
	VGPU_AUTO_CLOSE int fd = -1;
	char line[256], kind[16];
	struct stat st;
	FILE *locks;
	pid_t pid;

	if (!vf->registers)
		return;
	snprintf(line, sizeof(line), PCI_DEVICES "/%s/resource5", vf->address);
	fd = vfio_kernel->open(line, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	locks = fopen("/proc/locks", "re");
	while (locks && fgets(line, sizeof(line), locks))
		if (sscanf(line, "%*d: %15s %*s %*s %d %x:%x:%lu", kind, &pid, &major_number,
			   &minor_number, &inode) == 5 &&
		    strcmp(kind, "FLOCK") == 0 && inode == st.st_ino &&
		    makedev(major_number, minor_number) == st.st_dev)
			each(data, pid);
	if (locks)
		fclose(locks);
}
