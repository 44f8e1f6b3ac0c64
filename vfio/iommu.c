/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "iommu.h"
#include "iommufd_api.h"
#include "vfio/kernel.h"
#include "vgpu/descriptor.h"
#include "vgpu/number.h"

/* Sets ERR to the problem with a device node, and its remedy. Returns the error. */
static int explain(const struct pci_info *info, const char *path, int r, struct vgpu_error *err)
{
	char user[64];

	if (r == -EBUSY && pci_user(info->address, user, sizeof(user)))
		return vgpu_error_set(err, r, "%s: in use by %s", info->address, user);
	if (r == -EBUSY)
		return vgpu_error_set(err, r, "%s: another program holds this device",
				      info->address);
	if (r == -ENOENT && info->group < 0)
		return vgpu_error_set(err, -ENODEV, "%s: no IOMMU group; " PCI_IOMMU_CURE,
				      info->address);
	return vgpu_error_set(err, r, "%s: %s: %s%s", info->address, path, strerror(-r),
			      r == -EACCES || r == -EPERM
				      ? "; run as root, or change the owner of the node"
			      : r == -ENOENT ? "; modprobe vfio-pci vfio_iommu_type1"
					     : "");
}

static int refused(const struct pci_info *info, const char *token, int r, struct vgpu_error *err)
{
	if (r != -EACCES && r != -EINVAL)
		return explain(info, "VFIO", r, err);
	if (info->pf[0])
		return vgpu_error_set(err, r,
				      "%s: VFIO holds its PF %s, so that its VFs are opened with "
				      "the token of this host: %s",
				      info->address, info->pf,
				      token ? "the one given is wrong" : "none was given");
	return vgpu_error_set(
		err, r, "%s: refused, because VFs that are in use were opened with another token",
		info->address);
}

static int open_group(struct iommu *m, const struct pci_info *info, const char *token, int *device,
		      struct vgpu_error *err)
{
	struct vfio_group_status status = {.argsz = sizeof(status)};
	char path[32], name[80];
	int r;

	snprintf(path, sizeof(path), "/dev/vfio/%" PRId32, info->group);
	m->group = info->group < 0 ? -ENOENT : vfio_kernel->open(path, O_RDWR);
	if (m->group < 0)
		return explain(info, path, m->group, err);
	m->control = vfio_kernel->open("/dev/vfio/vfio", O_RDWR);
	if (m->control < 0)
		return explain(info, "/dev/vfio/vfio", m->control, err);
	if (vfio_kernel->ioctl(m->control, VFIO_GET_API_VERSION, NULL) != VFIO_API_VERSION ||
	    vfio_kernel->ioctl(m->control, VFIO_CHECK_EXTENSION,
			       (void *)(uintptr_t)VFIO_TYPE1v2_IOMMU) != 1)
		return vgpu_error_set(
			err, -ENOTSUP,
			"%s: the kernel has no type 1 IOMMU for VFIO; modprobe vfio_iommu_type1",
			info->address);
	r = vfio_kernel->ioctl(m->group, VFIO_GROUP_GET_STATUS, &status);
	if (r == 0 && !(status.flags & VFIO_GROUP_FLAGS_VIABLE))
		return vgpu_error_set(err, -EPERM,
				      "%s: shares IOMMU group %" PRId32
				      " with %s, which is bound to a driver of the host",
				      info->address, info->group, info->neighbour);
	if (r == 0)
		r = vfio_kernel->ioctl(m->group, VFIO_GROUP_SET_CONTAINER, &m->control);
	if (r == 0)
		r = vfio_kernel->ioctl(m->control, VFIO_SET_IOMMU,
				       (void *)(uintptr_t)VFIO_TYPE1v2_IOMMU);
	if (r < 0)
		return explain(info, path, r, err);
	snprintf(name, sizeof(name), "%s%s%s", info->address, token ? " vf_token=" : "",
		 token ? token : "");
	*device = vfio_kernel->ioctl(m->group, VFIO_GROUP_GET_DEVICE_FD, name);
	return *device < 0 ? refused(info, token, *device, err) : 0;
}

static void parse_token(const char *text, uint8_t out[16])
{
	unsigned i;

	for (i = 0; i < 16; i++, text += 2) {
		text += *text == '-';
		vgpu_parse_hex_byte(text, &out[i]);
	}
}

/* Sets the token that VFs of this PF must be opened with from now on. */
static int set_token(int device, const char *token)
{
	struct token_feature f = {.argsz = sizeof(f),
				  .flags = VFIO_DEVICE_FEATURE_SET |
					   VFIO_DEVICE_FEATURE_PCI_VF_TOKEN};

	parse_token(token, f.token);
	return vfio_kernel->ioctl(device, VFIO_DEVICE_FEATURE, &f);
}

static int bind_iommufd(const struct iommu *m, int device, const char *token, bool is_pf)
{
	struct vfio_device_bind_iommufd bind = {.argsz = sizeof(bind), .iommufd = m->control};
	int r;

	if (token) {
		uint8_t uuid[16];
		struct bind_with_token with_token = {.argsz = sizeof(with_token),
						     .flags = VFIO_DEVICE_BIND_FLAG_TOKEN,
						     .iommufd = m->control,
						     .token_uuid_ptr = (uintptr_t)uuid};

		parse_token(token, uuid);
		r = vfio_kernel->ioctl(device, VFIO_DEVICE_BIND_IOMMUFD, &with_token);
		if (r != -EINVAL)
			return r;
		/* Before Linux 6.17 this call neither takes nor needs a token; opening a VF by its
		 * group does. */
	}
	r = vfio_kernel->ioctl(device, VFIO_DEVICE_BIND_IOMMUFD, &bind);
	return r == 0 && token && is_pf ? set_token(device, token) : r;
}

static int first_name(void *data, const char *name)
{
	snprintf(data, 32, "%.31s", name);
	return 1;
}

/* Finds the device node of the function. Returns false if the kernel has no device nodes for
 * functions, or no iommufd. */
static bool has_node(const struct pci_info *info, char *path, size_t size)
{
	char directory[96], name[32];
	int iommu;

	snprintf(directory, sizeof(directory), PCI_DEVICES "/%s/vfio-dev", info->address);
	if (vfio_kernel->list(directory, first_name, name) != 1)
		return false;
	iommu = vfio_kernel->open("/dev/iommu", O_RDWR);
	if (iommu < 0)
		return false;
	close(iommu);
	snprintf(path, size, "/dev/vfio/devices/%s", name);
	return true;
}

/* Attaches a new address space for the function's DMA, and replaces an earlier one. */
static int attach_space(struct iommu *m, int device)
{
	struct iommu_ioas_alloc ioas = {.size = sizeof(ioas)};
	struct vfio_device_attach_iommufd_pt attach = {.argsz = sizeof(attach)};
	int r = vfio_kernel->ioctl(m->control, IOMMU_IOAS_ALLOC, &ioas);

	m->ioas = attach.pt_id = ioas.out_ioas_id;
	if (r != 0)
		return r;
	return vfio_kernel->ioctl(device, VFIO_DEVICE_ATTACH_IOMMUFD_PT, &attach);
}

static int open_node(struct iommu *m, const struct pci_info *info, const char *path,
		     const char *token, int *device, struct vgpu_error *err)
{
	char user[64];
	int r;

	/* The kernel lets several processes open the node; a second bind only fails with EINVAL. */
	if (pci_user(info->address, user, sizeof(user)))
		return explain(info, path, -EBUSY, err);
	*device = vfio_kernel->open(path, O_RDWR);
	if (*device < 0)
		return explain(info, path, *device, err);
	m->control = vfio_kernel->open("/dev/iommu", O_RDWR);
	if (m->control < 0)
		return explain(info, "/dev/iommu", m->control, err);
	r = bind_iommufd(m, *device, token, info->total_vfs > 0);
	if (r < 0)
		return refused(info, token, r, err);
	r = attach_space(m, *device);
	return r < 0 ? explain(info, path, r, err) : 0;
}

int iommu_open(struct iommu *m, const struct pci_info *info, const char *token, int *device,
	       struct vgpu_error *err)
{
	char path[64];

	*m = (struct iommu){.control = -1, .group = -1};
	*device = -1;
	return has_node(info, path, sizeof(path)) ? open_node(m, info, path, token, device, err)
						  : open_group(m, info, token, device, err);
}

int iommu_resume(struct iommu *m, const struct pci_info *info, const char *token, int device,
		 struct vgpu_error *err)
{
	int r = token ? set_token(device, token) : 0;

	if (r == 0 && m->group < 0)
		r = attach_space(m, device);
	return r < 0 ? explain(info, "VFIO", r, err) : 0;
}

void iommu_close(struct iommu *m)
{
	vgpu_close(&m->group);
	vgpu_close(&m->control);
}

const char *iommu_name(const struct iommu *m)
{
	return m->group >= 0 ? "vfio-group" : "vfio-cdev";
}

int iommu_map(const struct iommu *m, void *memory, uint64_t iova, uint64_t size)
{
	struct vfio_iommu_type1_dma_map group = {
		.argsz = sizeof(group),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uintptr_t)memory,
		.iova = iova,
		.size = size,
	};
	struct iommu_ioas_map node = {
		.size = sizeof(node),
		.flags = IOMMU_IOAS_MAP_FIXED_IOVA | IOMMU_IOAS_MAP_READABLE |
			 IOMMU_IOAS_MAP_WRITEABLE,
		.ioas_id = m->ioas,
		.user_va = (uintptr_t)memory,
		.length = size,
		.iova = iova,
	};

	return m->group >= 0 ? vfio_kernel->ioctl(m->control, VFIO_IOMMU_MAP_DMA, &group)
			     : vfio_kernel->ioctl(m->control, IOMMU_IOAS_MAP, &node);
}

int iommu_unmap(const struct iommu *m, uint64_t iova, uint64_t size)
{
	struct vfio_iommu_type1_dma_unmap group = {.argsz = sizeof(group),
						   .iova = iova,
						   .size = size};
	struct iommu_ioas_unmap node = {.size = sizeof(node),
					.ioas_id = m->ioas,
					.iova = iova,
					.length = size};

	return m->group >= 0 ? vfio_kernel->ioctl(m->control, VFIO_IOMMU_UNMAP_DMA, &group)
			     : vfio_kernel->ioctl(m->control, IOMMU_IOAS_UNMAP, &node);
}
