/* SPDX-License-Identifier: MIT */
/*
 * A function held through the kernel's VFIO: accesses regions by its descriptor and by mappings,
 * raises MSI-X by eventfds, and maps DMA through the IOMMU. The first open and the last close of a
 * VF reset it. VFs depend on the state of their PF: so the PF's reset methods are removed from the
 * kernel's list (no function-level reset), and its descriptors outlive this process where there is
 * a store.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bar.h"
#include "iommu.h"
#include "kept.h"
#include "token.h"
#include "transports.h"
#include "vfio/kernel.h"
#include "vgpu/descriptor.h"
#include "vgpu/names.h"

#define REGIONS (VFIO_PCI_CONFIG_REGION_INDEX + 1)
#define MAX_DMA 64u
#define MAX_VECTORS 32u
#define RESET_TRIES 20

struct dma {
	void *memory;
	uint64_t iova, size;
};

struct pci_device {
	struct vfio_device device;
	struct vfio_device_ops ops; /* a copy with the name of the interface */
	struct pci_info info;
	struct iommu iommu;
	int fd;
	int wanted, faulted; /* eventfds: the kernel wants the device closed; PCI Express error */
	int news;	     /* epoll descriptor of both */
	int given_up;	     /* error that vfio_check() has returned, or 0 */
	struct {
		uint64_t size, offset, mmap_size;
		struct bar bar;
	} regions[REGIONS];
	struct dma dma[MAX_DMA];
};

static struct pci_device *of(struct vfio_device *d)
{
	return (struct pci_device *)d; /* the first member */
}

static int pci_region(struct vfio_device *d, uint32_t region, struct vfio_region *out)
{
	*out = (struct vfio_region){.size = 0};
	if (region < REGIONS)
		*out = (struct vfio_region){of(d)->regions[region].size,
					    of(d)->regions[region].mmap_size};
	return 0;
}

/* Returns the mapping of a region up to END; a new one is made at WANTED if that is free. NULL: use
 * the descriptor. */
static struct bar *mapped(struct pci_device *p, uint32_t region, uint64_t end, void *wanted)
{
	if (region >= REGIONS || p->regions[region].mmap_size == 0 ||
	    end > p->regions[region].mmap_size)
		return NULL;
	if (bar_map(&p->regions[region].bar, wanted, p->fd, p->regions[region].mmap_size,
		    p->regions[region].offset) < 0)
		return NULL;
	return &p->regions[region].bar;
}

static int transferred(ssize_t n, uint32_t size)
{
	return n < 0 ? (int)n : (uint32_t)n < size ? -EIO : 0;
}

static int check(const struct pci_device *p, uint32_t region, uint64_t offset, uint32_t size)
{
	return region >= REGIONS || offset > p->regions[region].size ||
			       size > p->regions[region].size - offset
		       ? -EINVAL
		       : 0;
}

static int pci_read(struct vfio_device *d, uint32_t region, uint64_t offset, void *data,
		    uint32_t size)
{
	struct pci_device *p = of(d);
	struct bar *b = mapped(p, region, offset + size, NULL);
	int r = check(p, region, offset, size);

	if (r < 0)
		return r;
	if (b)
		return bar_read(b, offset, data, size);
	return transferred(vfio_kernel->read(p->fd, data, size, p->regions[region].offset + offset),
			   size);
}

static int pci_write(struct vfio_device *d, uint32_t region, uint64_t offset, const void *data,
		     uint32_t size)
{
	struct pci_device *p = of(d);
	struct bar *b = mapped(p, region, offset + size, NULL);
	int r = check(p, region, offset, size);

	if (r < 0)
		return r;
	if (b)
		return bar_write(b, offset, data, size);
	return transferred(vfio_kernel->write(p->fd, data, size,
					      p->regions[region].offset + offset),
			   size);
}

static int pci_map(struct vfio_device *d, uint32_t region, void *wanted, void **out, size_t *size)
{
	struct bar *b = mapped(of(d), region, 0, wanted);

	if (!b)
		return -EINVAL;
	*out = (void *)(uintptr_t)b->at;
	*size = b->size;
	return 0;
}

static int set_irqs(struct pci_device *p, uint32_t index, const int *eventfds, uint32_t count)
{
	union {
		struct vfio_irq_set set;
		char space[sizeof(struct vfio_irq_set) + MAX_VECTORS * sizeof(int)];
	} u;

	u.set = (struct vfio_irq_set){
		.argsz = (uint32_t)(sizeof(u.set) + count * sizeof(int)),
		.flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
		.index = index,
		.count = count,
	};
	memcpy(u.set.data, eventfds, count * sizeof(int));
	return vfio_kernel->ioctl(p->fd, VFIO_DEVICE_SET_IRQS, &u.set);
}

static int pci_irqs(struct vfio_device *d, const int *eventfds, uint32_t count)
{
	return count > MAX_VECTORS ? -EINVAL
				   : set_irqs(of(d), VFIO_PCI_MSIX_IRQ_INDEX, eventfds, count);
}

/* Returns whether this process has mapped a part of the range. */
static bool has_mapped(const struct pci_device *p, uint64_t iova, uint64_t size)
{
	uint32_t i;

	for (i = 0; i < MAX_DMA; i++)
		if (p->dma[i].memory && iova < p->dma[i].iova + p->dma[i].size &&
		    p->dma[i].iova < iova + size)
			return true;
	return false;
}

static int pci_dma_map(struct vfio_device *d, int fd, uint64_t offset, uint64_t iova, uint64_t size)
{
	struct pci_device *p = of(d);
	struct dma *dma = p->dma;
	int r;

	while (dma < p->dma + MAX_DMA && dma->memory)
		dma++;
	if (dma == p->dma + MAX_DMA)
		return -ENOSPC;
	dma->size = 0;
	dma->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (dma->memory == MAP_FAILED) {
		dma->memory = NULL;
		return -errno;
	}
	r = iommu_map(&p->iommu, dma->memory, iova, size);
	/* An earlier process, whose address space still exists, has mapped the range. */
	if (r == -EEXIST && !has_mapped(p, iova, size) && iommu_unmap(&p->iommu, iova, size) == 0)
		r = iommu_map(&p->iommu, dma->memory, iova, size);
	if (r < 0) {
		munmap(dma->memory, size);
		dma->memory = NULL;
		return r;
	}
	dma->iova = iova;
	dma->size = size;
	return 0;
}

static int pci_dma_unmap(struct vfio_device *d, uint64_t iova, uint64_t size)
{
	struct pci_device *p = of(d);
	uint32_t i;
	int r;

	for (i = 0; i < MAX_DMA; i++) {
		struct dma *dma = &p->dma[i];

		if (!dma->memory || dma->iova != iova || dma->size != size)
			continue;
		r = iommu_unmap(&p->iommu, iova, size);
		munmap(dma->memory, dma->size);
		dma->memory = NULL;
		return r;
	}
	return -ENOENT;
}

/* Returns -EAGAIN if another thread of the kernel holds the lock that a reset needs. */
static int pci_reset(struct vfio_device *d)
{
	struct timespec pause = {0, 5000000};
	int r = -EAGAIN, i;

	for (i = 0; i < RESET_TRIES && r == -EAGAIN; i++) {
		r = vfio_kernel->ioctl(of(d)->fd, VFIO_DEVICE_RESET, NULL);
		if (r == -EAGAIN)
			nanosleep(&pause, NULL);
	}
	return r;
}

static int pci_vfs(struct vfio_device *d, uint32_t n, struct vgpu_error *err)
{
	return transport_kernel_vfs(d, of(d)->info.address, n, err);
}

static int pci_fd(struct vfio_device *d)
{
	return of(d)->news;
}

static int pci_check(struct vfio_device *d)
{
	if (vgpu_eventfd_drain(of(d)->wanted))
		return -ESTALE;
	return vgpu_eventfd_drain(of(d)->faulted) ? -EREMOTEIO : 0;
}

static void pci_forget(struct vfio_device *d)
{
	if (of(d)->info.total_vfs)
		kept_drop(of(d)->info.address);
}

static void pci_close(struct vfio_device *d)
{
	struct pci_device *p = of(d);
	uint32_t i;

	for (i = 0; i < REGIONS; i++)
		bar_unmap(&p->regions[i].bar);
	vgpu_close(&p->fd);
	vgpu_close(&p->wanted);
	vgpu_close(&p->faulted);
	vgpu_close(&p->news);
	iommu_close(&p->iommu);
	for (i = 0; i < MAX_DMA; i++)
		if (p->dma[i].memory)
			munmap(p->dma[i].memory, p->dma[i].size);
	free(p);
}

static const struct vfio_device_ops pci_ops = {
	.region = pci_region,
	.read = pci_read,
	.write = pci_write,
	.write_read = transport_write_read,
	.map = pci_map,
	.irqs = pci_irqs,
	.dma_map = pci_dma_map,
	.dma_unmap = pci_dma_unmap,
	.reset = pci_reset,
	.set_vfs = pci_vfs,
	.fd = pci_fd,
	.check = pci_check,
	.forget = pci_forget,
	.close = pci_close,
};

/* Returns the size of the mappable part from offset 0: the whole region, or the first area that the
 * kernel lists. */
static uint64_t mappable(const struct vfio_region_info *info, size_t room)
{
	const char *base = (const char *)info;
	const struct vfio_region_info_cap_sparse_mmap *sparse;
	const struct vfio_info_cap_header *header;
	uint32_t at = info->cap_offset, left;

	if (!(info->flags & VFIO_REGION_INFO_FLAG_MMAP))
		return 0;
	if (!(info->flags & VFIO_REGION_INFO_FLAG_CAPS))
		return info->size;
	for (left = 16; left > 0 && at >= sizeof(*info) && at <= room - sizeof(*header); left--) {
		header = (const struct vfio_info_cap_header *)(base + at);
		sparse = (const struct vfio_region_info_cap_sparse_mmap *)header;
		if (header->id == VFIO_REGION_INFO_CAP_SPARSE_MMAP)
			return at <= room - sizeof(*sparse) - sizeof(sparse->areas[0]) &&
					       sparse->nr_areas && sparse->areas[0].offset == 0
				       ? sparse->areas[0].size
				       : 0;
		at = header->next;
	}
	return info->size;
}

static int read_regions(struct pci_device *p)
{
	union {
		struct vfio_region_info info;
		char space[1024];
	} u;
	uint32_t i;
	int r;

	for (i = 0; i < REGIONS; i++) {
		memset(&u, 0, sizeof(u));
		u.info.argsz = sizeof(u);
		u.info.index = i;
		r = vfio_kernel->ioctl(p->fd, VFIO_DEVICE_GET_REGION_INFO, &u.info);
		if (r < 0)
			return r;
		p->regions[i].size = u.info.size;
		p->regions[i].offset = u.info.offset;
		if (i < VFIO_PCI_ROM_REGION_INDEX)
			p->regions[i].mmap_size = mappable(&u.info, sizeof(u));
	}
	return 0;
}

static int enable(struct pci_device *p)
{
	uint16_t command;
	int r = pci_read(&p->device, VFIO_REGION_CONFIG, PCI_COMMAND, &command, sizeof(command));

	command |= PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
	if (r != 0)
		return r;
	return pci_write(&p->device, VFIO_REGION_CONFIG, PCI_COMMAND, &command, sizeof(command));
}

/* Splits NAME into the address and ",token=" or ",token-file=". */
static int split(const char *name, char address[PCI_ADDRESS_SIZE], char token[TOKEN_SIZE],
		 const char **file, struct vgpu_error *err)
{
	const char *comma = strchrnul(name, ',');

	token[0] = '\0';
	*file = TOKEN_FILE;
	snprintf(address, PCI_ADDRESS_SIZE, "%.*s", (int)(comma - name), name);
	if (strncmp(comma, ",token=", 7) == 0 && vgpu_uuid_normal(comma + 7, token) == 0)
		return 0;
	if (strncmp(comma, ",token-file=", 12) == 0 && comma[12])
		*file = comma + 12;
	else if (*comma)
		return vgpu_error_set(err, -EINVAL,
				      "vfio:%s: want ADDRESS, and ,token=UUID or ,token-file=PATH",
				      name);
	return 0;
}

/* Finds the token for a function: PFs get this host's token, and VFs of PFs that VFIO holds are
 * opened with it. "": the function needs none. */
static int find_token(const struct pci_info *info, const char *file, char token[TOKEN_SIZE],
		      struct vgpu_error *err)
{
	struct pci_info pf;

	if (info->total_vfs)
		return token[0] ? 0 : token_load(file, true, token, err);
	if (!info->pf[0] || pci_describe(info->pf, &pf, NULL) < 0 ||
	    strstr(pf.driver, "vfio") == NULL) {
		token[0] = '\0';
		return 0;
	}
	if (!token[0] && token_load(file, false, token, NULL) < 0)
		token[0] = '\0';
	return 0;
}

void vfio_vf_token(const char *name, char out[VFIO_TOKEN_SIZE])
{
	char address[PCI_ADDRESS_SIZE];
	const char *file;

	out[0] = '\0';
	if (strncmp(name, "vfio:", 5) != 0 || split(name + 5, address, out, &file, NULL) < 0)
		return;
	if (!out[0] && token_load(file, false, out, NULL) < 0)
		out[0] = '\0';
}

/* vfio-pci makes VFs only if its parameter enable_sriov is set. */
static int allow_vfs(struct vgpu_error *err)
{
	int r = kernel_write_text(5000, "Y", "/sys/module/vfio_pci/parameters/enable_sriov");

	return r < 0 ? vgpu_error_set(err, r,
				      "cannot set enable_sriov of vfio-pci (%s); modprobe vfio-pci "
				      "enable_sriov=1",
				      strerror(-r))
		     : 0;
}

static int take_pf(const struct pci_info *info, struct vgpu_error *err)
{
	struct gpuiov_identity identity;
	char driver[64];
	int r = transport_recognise(info, &identity, err);

	pci_vfio_driver(info->address, driver, sizeof(driver));
	if (r == 0)
		r = allow_vfs(err);
	if (r == 0)
		r = pci_bind(info->address, driver, err);
	if (r != 0)
		return r;
	return pci_suppress_resets(info->address, err);
}

/* Only PFs are unbound from their driver, so that a mistyped address does not unbind a disk. */
static int check_driver(const struct pci_info *info, struct vgpu_error *err)
{
	return strstr(info->driver, "vfio")
		       ? 0
		       : vgpu_error_set(err, -ENODEV,
					"%s: has driver %s, not VFIO's; vgpud binds only the VFs "
					"of its GPUs: bind this function yourself",
					info->address, info->driver[0] ? info->driver : "none");
}

/* Asks the kernel for both eventfds. EINVAL: the function cannot report PCI Express errors. */
static int subscribe(struct pci_device *p)
{
	struct epoll_event want = {.events = EPOLLIN};
	int r;

	p->wanted = vgpu_eventfd();
	if (p->wanted < 0)
		return p->wanted;
	p->faulted = vgpu_eventfd();
	if (p->faulted < 0)
		return p->faulted;
	p->news = epoll_create1(EPOLL_CLOEXEC);
	if (p->news < 0 || epoll_ctl(p->news, EPOLL_CTL_ADD, p->wanted, &want) < 0 ||
	    epoll_ctl(p->news, EPOLL_CTL_ADD, p->faulted, &want) < 0)
		return -errno;
	r = set_irqs(p, VFIO_PCI_ERR_IRQ_INDEX, &p->faulted, 1);
	if (r < 0 && r != -EINVAL)
		return r;
	return set_irqs(p, VFIO_PCI_REQ_IRQ_INDEX, &p->wanted, 1);
}

static int acquire(struct pci_device *p, const char *name, struct vgpu_error *err)
{
	char address[PCI_ADDRESS_SIZE], token[TOKEN_SIZE];
	const char *file;
	int r = split(name, address, token, &file, err);

	if (r == 0)
		r = pci_describe(address, &p->info, err);
	if (r == 0)
		r = p->info.total_vfs ? take_pf(&p->info, err) : check_driver(&p->info, err);
	if (r == 0)
		r = find_token(&p->info, file, token, err);
	if (r == 0)
		r = pci_describe(address, &p->info, err);
	if (r == 0 && p->info.total_vfs && kept_take(address, &p->iommu, &p->fd))
		r = iommu_resume(&p->iommu, &p->info, token, p->fd, err);
	else if (r == 0)
		r = iommu_open(&p->iommu, &p->info, token[0] ? token : NULL, &p->fd, err);
	if (r < 0)
		return r;
	p->ops.name = iommu_name(&p->iommu);
	r = read_regions(p);
	if (r == 0)
		r = enable(p);
	if (r == 0)
		r = subscribe(p);
	if (r < 0)
		return vgpu_error_set(err, r, "%s: %s", address, strerror(-r));
	if (p->info.total_vfs)
		kept_put(address, &p->iommu, p->fd);
	return 0;
}

int vfio_pci_open(struct vfio_device **out, const char *name, struct vgpu_error *err)
{
	struct pci_device *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	p->ops = pci_ops;
	p->device.ops = &p->ops;
	p->fd = p->wanted = p->faulted = p->news = -1;
	p->iommu = (struct iommu){.control = -1, .group = -1};
	r = acquire(p, name, err);
	if (r < 0) {
		pci_close(&p->device);
		return r;
	}
	*out = &p->device;
	return 0;
}
