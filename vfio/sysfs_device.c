/* SPDX-License-Identifier: MIT */
/*
 * A function held through sysfs: configuration space through `config`, BARs through `resourceN`.
 * Opening and closing reset nothing. It has no interrupts, so that its driver polls. Kernel
 * lockdown forbids it. A PF is bound to pci-pf-stub first, and its VFs need no token. A VF inside a
 * VM is not bound to another driver: a process that may only open three files can use it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "bar.h"
#include "transports.h"
#include "softgpu/registers.h"
#include "vfio/kernel.h"
#include "vfio/pci.h"
#include "vgpu/descriptor.h"

#define STUB "pci-pf-stub"
#define CONFIG_SIZE 4096u
#define BARS 6u
#define RESOURCE_MEMORY 0x200u /* IORESOURCE_MEM */

struct sysfs_device {
	struct vfio_device device;
	struct pci_info info;
	int config;
	uint64_t sizes[BARS], addresses[BARS];
	int files[BARS]; /* descriptors of the BARs that were opened */
	struct bar bars[BARS];
};

static struct sysfs_device *of(struct vfio_device *d)
{
	return (struct sysfs_device *)d; /* the first member */
}

static int sysfs_region(struct vfio_device *d, uint32_t region, struct vfio_region *out)
{
	*out = (struct vfio_region){.size = 0};
	if (region == VFIO_REGION_CONFIG)
		out->size = CONFIG_SIZE;
	else if (region < BARS)
		*out = (struct vfio_region){of(d)->sizes[region], of(d)->sizes[region]};
	return 0;
}

static int use_bar(struct sysfs_device *s, uint32_t n, void *wanted)
{
	char path[96];

	if (n >= BARS || s->sizes[n] == 0)
		return -EINVAL;
	if (s->bars[n].at)
		return 0;
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/resource%" PRIu32, s->info.address, n);
	s->files[n] = vfio_kernel->open(path, O_RDWR);
	if (s->files[n] < 0)
		return s->files[n];
	return bar_map(&s->bars[n], wanted, s->files[n], s->sizes[n], 0);
}

static int config_access(ssize_t n, uint32_t size)
{
	return n < 0 ? (int)n : (uint32_t)n < size ? -EIO : 0;
}

static int sysfs_read(struct vfio_device *d, uint32_t region, uint64_t offset, void *data,
		      uint32_t size)
{
	struct sysfs_device *s = of(d);
	int r;

	if (region == VFIO_REGION_CONFIG)
		return config_access(vfio_kernel->read(s->config, data, size, offset), size);
	r = use_bar(s, region, NULL);
	if (r != 0)
		return r;
	return bar_read(&s->bars[region], offset, data, size);
}

static int sysfs_write(struct vfio_device *d, uint32_t region, uint64_t offset, const void *data,
		       uint32_t size)
{
	struct sysfs_device *s = of(d);
	int r;

	if (region == VFIO_REGION_CONFIG)
		return config_access(vfio_kernel->write(s->config, data, size, offset), size);
	r = use_bar(s, region, NULL);
	if (r != 0)
		return r;
	return bar_write(&s->bars[region], offset, data, size);
}

static int sysfs_map(struct vfio_device *d, uint32_t region, void *wanted, void **out, size_t *size)
{
	int r = use_bar(of(d), region, wanted);

	if (r < 0)
		return r;
	*out = (void *)(uintptr_t)of(d)->bars[region].at;
	*size = of(d)->bars[region].size;
	return 0;
}

static int sysfs_irqs(struct vfio_device *, const int *, uint32_t)
{
	return -ENOTSUP;
}

static int sysfs_dma_map(struct vfio_device *, int, uint64_t, uint64_t, uint64_t)
{
	return -ENOTSUP;
}

static int sysfs_dma_unmap(struct vfio_device *, uint64_t, uint64_t)
{
	return -ENOTSUP;
}

/* Returns the descriptor of the registers' file, which only users of the VF may open. */
static int sysfs_lock_fd(struct vfio_device *d)
{
	return of(d)->files[VFIO_REGION_BAR5];
}

static int sysfs_reset(struct vfio_device *d)
{
	return kernel_write_text(10000, "1", PCI_DEVICES "/%s/reset", of(d)->info.address);
}

static int sysfs_set_vfs(struct vfio_device *d, uint32_t n, struct vgpu_error *err)
{
	return transport_kernel_vfs(d, of(d)->info.address, n, err);
}

static int sysfs_fd(struct vfio_device *)
{
	return -1;
}

static void sysfs_close(struct vfio_device *d)
{
	struct sysfs_device *s = of(d);
	uint32_t i;

	for (i = 0; i < BARS; i++) {
		bar_unmap(&s->bars[i]);
		vgpu_close(&s->files[i]);
	}
	vgpu_close(&s->config);
	free(s);
}

#define OPS                                                                                        \
	.name = "sysfs", .region = sysfs_region, .read = sysfs_read, .write = sysfs_write,         \
	.write_read = transport_write_read, .map = sysfs_map, .irqs = sysfs_irqs,                  \
	.dma_map = sysfs_dma_map, .dma_unmap = sysfs_dma_unmap, .reset = sysfs_reset,              \
	.set_vfs = sysfs_set_vfs, .fd = sysfs_fd, .close = sysfs_close

static const struct vfio_device_ops sysfs_ops = {OPS};
/* for a VF that other processes may use, too */
static const struct vfio_device_ops shared_ops = {OPS, .lock_fd = sysfs_lock_fd};

/* Reads the sizes of the BARs from lines with first address, last address and flags. */
static int read_sizes(struct sysfs_device *s)
{
	uint64_t first, last, flags;
	char text[1024], *line = text;
	uint32_t i;
	int r = kernel_read_text(text, sizeof(text), PCI_DEVICES "/%s/resource", s->info.address);

	for (i = 0; i < BARS && r >= 0; i++) {
		if (sscanf(line, "%" SCNx64 " %" SCNx64 " %" SCNx64, &first, &last, &flags) != 3 ||
		    last < first)
			return -EIO;
		if (flags & RESOURCE_MEMORY && last > first)
			s->sizes[i] = last - first + 1;
		s->addresses[i] = first;
		line = strchr(line, '\n');
		if (!line)
			return i + 1 == BARS ? 0 : -EIO;
		line++;
	}
	return r < 0 ? r : 0;
}

/* Checks the addresses in a function's BARs, which a reset clears that the kernel does not know
 * about. */
static int check_addresses(struct sysfs_device *s, struct vgpu_error *err)
{
	uint32_t bars[BARS], i;
	int r = sysfs_read(&s->device, VFIO_REGION_CONFIG, PCI_BASE_ADDRESS_0, bars, sizeof(bars));

	if (r < 0)
		return vgpu_error_set(err, r, "cannot read %s: %s", s->info.address, strerror(-r));
	for (i = 0; i < BARS; i++)
		if (s->sizes[i] &&
		    (bars[i] & PCI_BASE_ADDRESS_MEM_MASK) != (uint32_t)s->addresses[i])
			return vgpu_error_set(err, -EIO,
					      "%s has lost its addresses in a reset (see the "
					      "kernel's log); switch its slot off and on",
					      s->info.address);
	return 0;
}

/* Switches memory decoding on: pci-pf-stub does not, and sysfs' `enable` fails for bound
 * functions. */
static int enable(struct sysfs_device *s)
{
	uint16_t command;
	int r = sysfs_read(&s->device, VFIO_REGION_CONFIG, PCI_COMMAND, &command, sizeof(command));

	command |= PCI_COMMAND_MEMORY;
	if (r != 0)
		return r;
	return sysfs_write(&s->device, VFIO_REGION_CONFIG, PCI_COMMAND, &command, sizeof(command));
}

static int acquire(struct sysfs_device *s, const char *address, struct vgpu_error *err)
{
	struct gpuiov_identity identity;
	char path[96];
	int r = pci_describe(address, &s->info, err);

	if (r == 0)
		r = transport_recognise(&s->info, &identity, err);
	if (r == 0)
		r = pci_bind(address, STUB, err);
	if (r < 0)
		return r;
	r = read_sizes(s);
	if (r == 0) {
		snprintf(path, sizeof(path), PCI_DEVICES "/%s/config", address);
		s->config = r = vfio_kernel->open(path, O_RDWR);
	}
	if (r >= 0 && flock(s->config, LOCK_EX | LOCK_NB) < 0)
		return vgpu_error_set(err, -EBUSY, "%s: another program holds this device",
				      address);
	if (r >= 0 && check_addresses(s, err) < 0)
		return -EIO;
	r = r < 0 ? r : enable(s);
	return r < 0 ? vgpu_error_set(err, r, "cannot open %s: %s%s", address, strerror(-r),
				      r == -EPERM || r == -EACCES
					      ? "; run as root, on a kernel without lockdown"
					      : "")
		     : 0;
}

/* Sets ERR to the problem with a VF's files. Returns R. */
static int explain(const struct sysfs_device *s, int r, struct vgpu_error *err)
{
	if (r == -EACCES)
		return vgpu_error_set(
			err, r,
			"%s: this user may not use it: add the user to the group of " PCI_DEVICES
			"/%s/resource5, and log in again",
			s->info.address, s->info.address);
	if (r == -ENOMEM || r == -EPERM)
		return vgpu_error_set(err, r,
				      "%s cannot be mapped: kernel lockdown forbids it; switch "
				      "Secure Boot off in this VM",
				      s->info.address);
	return vgpu_error_set(err, r, "cannot open %s: %s", s->info.address, strerror(-r));
}

/* Opens the first N BARs of a VF that a program uses. HOW: the lock to take on the registers' file,
 * which only users of the VF may open: LOCK_EX, LOCK_SH to share the VF, or 0 to read registers
 * only. */
static int open_vf(struct sysfs_device *s, const char *address, uint32_t n, int how,
		   struct vgpu_error *err)
{
	static const uint32_t used[] = {VFIO_REGION_BAR5, VFIO_REGION_BAR2, VFIO_REGION_BAR0};
	static void *const wanted[] = {NULL, NULL, (void *)SOFTGPU_WINDOW_HINT};
	uint16_t command = 0;
	char path[96];
	uint64_t size = 0;
	uint32_t i;
	int r = pci_describe(address, &s->info, err);

	if (r < 0)
		return r;
	if (s->info.vendor != SOFTGPU_VENDOR || s->info.device != SOFTGPU_DEVICE_VF)
		return vgpu_error_set(err, -ENODEV, "%s (%04x:%04x) is not a VF of softgpu",
				      address, s->info.vendor, s->info.device);
	if (s->info.driver[0])
		return vgpu_error_set(err, -EBUSY,
				      "%s: driver %s has it; unbind it from that driver", address,
				      s->info.driver);
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/config", address);
	s->config = r = vfio_kernel->open(path, O_RDONLY);
	if (r >= 0)
		r = sysfs_read(&s->device, VFIO_REGION_CONFIG, PCI_COMMAND, &command,
			       sizeof(command));
	if (r == 0)
		r = read_sizes(s);
	for (i = 0; r == 0 && i < n; i++) {
		r = use_bar(s, used[i], wanted[i]);
		if (r == 0 && how && i == 0 && flock(s->files[used[0]], how | LOCK_NB) < 0)
			return vgpu_error_set(err, -EBUSY, "%s: another program holds this VF",
					      address);
	}
	if (r == 0)
		r = bar_read(&s->bars[used[0]], SOFTGPU_MEMORY_SIZE, &size, sizeof(size));
	/* A reset by the host clears the VF's command register, but QEMU keeps its mapping; a VF
	 * that is switched off reads as ones or zeros. */
	if (r == 0 && !(command & PCI_COMMAND_MEMORY) && (size == 0 || size == UINT64_MAX))
		return vgpu_error_set(err, -EIO,
				      "%s is switched off: as root, write 1 to " PCI_DEVICES
				      "/%s/enable",
				      address, address);
	return r < 0 ? explain(s, r, err) : 0;
}

static int acquire_vf(struct sysfs_device *s, const char *address, struct vgpu_error *err)
{
	return open_vf(s, address, 3, LOCK_EX, err);
}

static int share_vf(struct sysfs_device *s, const char *address, struct vgpu_error *err)
{
	s->device.ops = &shared_ops;
	return open_vf(s, address, 3, LOCK_SH, err);
}

static int look_at_vf(struct sysfs_device *s, const char *address, struct vgpu_error *err)
{
	return open_vf(s, address, 1, 0, err);
}

static int open_by(int (*get)(struct sysfs_device *s, const char *address, struct vgpu_error *err),
		   struct vfio_device **out, const char *name, struct vgpu_error *err)
{
	struct sysfs_device *s = calloc(1, sizeof(*s));
	uint32_t i;
	int r;

	if (!s)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	s->device.ops = &sysfs_ops;
	s->config = -1;
	for (i = 0; i < BARS; i++)
		s->files[i] = -1;
	r = get(s, name, err);
	if (r < 0) {
		sysfs_close(&s->device);
		return r;
	}
	*out = &s->device;
	return 0;
}

int sysfs_device_open(struct vfio_device **out, const char *name, struct vgpu_error *err)
{
	return open_by(acquire, out, name, err);
}

int sysfs_vf_open(struct vfio_device **out, const char *name, struct vgpu_error *err)
{
	return open_by(acquire_vf, out, name, err);
}

int sysfs_vf_look(struct vfio_device **out, const char *name, struct vgpu_error *err)
{
	return open_by(look_at_vf, out, name, err);
}

int sysfs_vf_share(struct vfio_device **out, const char *name, struct vgpu_error *err)
{
	return open_by(share_vf, out, name, err);
}
