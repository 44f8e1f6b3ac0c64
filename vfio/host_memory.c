/* SPDX-License-Identifier: MIT */
#include "vfio/host_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vfio/kernel.h"
#include "vfio/pci.h"
#include "vfio/store.h"

#define MAX_NODE 1023

/* Returns the name of DEVICE's memory in the store: a hash (FNV-1a), because stores do not accept
 * the characters of device names. */
static const char *name_of(char out[32], const char *device)
{
	uint64_t h = UINT64_C(14695981039346656037);

	for (; *device; device++)
		h = (h ^ (uint8_t)*device) * UINT64_C(1099511628211);
	snprintf(out, 32, "host-%016" PRIx64, h);
	return out;
}

void vfio_host_memory_forget(const char *name)
{
	char kept[32];

	if (vfio_store)
		vfio_store->drop(name_of(kept, name));
}

/* Returns the NUMA node of a PCI device of the host; -1: another kind of device, or unknown. */
static int node_of(const char *name)
{
	const char *address = strchr(name, ':');
	int64_t node = -1;

	if (strncmp(name, "vfio-user:", 10) == 0 || !address ||
	    kernel_read_number(&node, PCI_DEVICES "/%.*s/numa_node", (int)strcspn(address + 1, ","),
			       address + 1) < 0)
		return -1;
	return node >= 0 && node <= INT32_MAX ? (int)node : -1;
}

/* Binds pages to a NUMA node; allocations fail if the node has no memory left. */
static int bind_to(void *memory, uint64_t size, int node)
{
	unsigned long mask[(MAX_NODE + 1) / (8 * sizeof(unsigned long))] = {0};
	unsigned bits = 8 * sizeof(mask[0]);

	if (node < 0)
		return 0;
	if (node > MAX_NODE)
		return -EINVAL;
	mask[(unsigned)node / bits] = 1ul << (unsigned)node % bits;
	return syscall(SYS_mbind, memory, size, MPOL_BIND, mask, MAX_NODE + 1, 0) < 0 ? -errno : 0;
}

static int new_file(const struct vfio_host_memory_config *config, struct vgpu_error *err)
{
	int fd = memfd_create("vgpud", MFD_CLOEXEC | MFD_ALLOW_SEALING |
					       (config->huge_pages ? MFD_HUGETLB : 0));

	if (fd >= 0 && ftruncate(fd, (off_t)config->size) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	vgpu_error_set(err, -errno, "cannot allocate %" PRIu64 " MiB of host memory: %s",
		       config->size >> 20, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -EIO;
}

static int map(struct vfio_host_memory *m, int fd, const char *name,
	       const struct vfio_host_memory_config *config, struct vgpu_error *err)
{
	int node = config->node < 0 ? node_of(name) : config->node, r;
	void *p = vfio_kernel->map(NULL, fd, m->size, 0);

	if (!p)
		return vgpu_error_set(err, -errno,
				      "cannot map %" PRIu64 " MiB of host memory%s: %s",
				      m->size >> 20,
				      config->huge_pages
					      ? " in huge pages (raise /proc/sys/vm/nr_hugepages)"
					      : "",
				      strerror(errno));
	m->memory = p;
	madvise(p, m->size, MADV_DONTDUMP); /* keeps tenants' data out of core dumps */
	r = bind_to(p, m->size, node);
	if (r < 0)
		return vgpu_error_set(err, r, "cannot place host memory on NUMA node %d: %s", node,
				      strerror(-r));
	/* Also allocates all pages. Not mlock, which AddressSanitizer replaces by a function that
	 * does nothing. */
	if (mlock2(p, m->size, 0) < 0)
		return vgpu_error_set(
			err, -errno,
			"cannot lock %" PRIu64
			" MiB of host memory: %s; raise LimitMEMLOCK, or lower host_memory_mib",
			m->size >> 20, strerror(errno));
	return 0;
}

static int let_reach(const struct vfio_host_memory *m, int fd, struct vfio_device *device,
		     struct vgpu_error *err)
{
	int r = vfio_dma_map(device, fd, 0, VFIO_HOST_MEMORY_IOVA, m->size);

	if (r == -ENOTSUP)
		return vgpu_error_set(err, r,
				      "host_memory_mib: a PF held through %s has no DMA; hold it "
				      "by VFIO (device = vfio:ADDRESS)",
				      device->ops->name);
	return r ? vgpu_error_set(err, r, "cannot map host memory for the GPU's DMA: %s",
				  strerror(-r))
		 : 0;
}

int vfio_host_memory_open(struct vfio_host_memory *m, struct vfio_device *device, const char *name,
			  const struct vfio_host_memory_config *config, struct vgpu_error *err)
{
	char kept[32];
	struct stat st;
	int fd = vfio_store ? vfio_store->take(name_of(kept, name)) : -ENOENT, r;

	*m = (struct vfio_host_memory){.size = config->size, .kept = fd >= 0};
	if (fd >= 0 && (fstat(fd, &st) < 0 || (uint64_t)st.st_size != config->size)) {
		close(fd);
		return vgpu_error_set(
			err, -EBUSY,
			"%" PRIu64
			" MiB of host memory are kept for this GPU and hold data of guests: "
			"configure host_memory_mib to that size until they have ended",
			(uint64_t)st.st_size >> 20);
	}
	if (fd < 0)
		fd = new_file(config, err);
	if (fd < 0)
		return fd;
	r = map(m, fd, name, config, err);
	if (r == 0)
		r = let_reach(m, fd, device, err);
	if (r == 0 && !m->kept && vfio_store)
		vfio_store->put(kept, fd);
	close(fd);
	if (r < 0)
		vfio_host_memory_close(m);
	return r;
}

void vfio_host_memory_close(struct vfio_host_memory *m)
{
	if (m->memory)
		munmap(m->memory, m->size);
	m->memory = NULL;
}
