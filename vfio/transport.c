/* SPDX-License-Identifier: MIT */
/* What transports share: enabling VFs, and recognising a PF. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hosts.h"
#include "transports.h"
#include "vfio/gpuiov.h"
#include "vfio/kernel.h"

#define CONFIG_SIZE 0x1000u /* with extended capabilities */

int transport_write_read(struct vfio_device *d, uint32_t region, uint64_t write_offset,
			 const void *data, uint32_t size, uint64_t read_offset, void *out,
			 uint32_t out_size)
{
	int r = d->ops->write(d, region, write_offset, data, size);

	if (r != 0)
		return r;
	return d->ops->read(d, region, read_offset, out, out_size);
}

static int find_sriov(struct vfio_device *d, uint16_t *at, uint16_t *control, uint16_t *vfs)
{
	uint8_t config[CONFIG_SIZE];
	int r = vfio_read(d, VFIO_REGION_CONFIG, 0, config, sizeof(config));

	*at = 0;
	if (r == 0 &&
	    (!vfio_find_ext_cap(config, PCI_EXT_CAP_SRIOV, at) || *at > CONFIG_SIZE - SRIOV_SIZE))
		r = -ENODEV;
	if (r == 0) {
		memcpy(control, config + *at + SRIOV_CTRL, sizeof(*control));
		memcpy(vfs, config + *at + SRIOV_NUM_VFS, sizeof(*vfs));
	}
	return r;
}

static int write16(struct vfio_device *d, uint32_t at, uint16_t value)
{
	return vfio_write(d, VFIO_REGION_CONFIG, at, &value, sizeof(value));
}

int vfio_enable_vfs(struct vfio_device *d, uint32_t n, struct vgpu_error *err)
{
	uint16_t at, control, now;
	int r = find_sriov(d, &at, &control, &now);

	if (r == 0 && n && now == n && control & SRIOV_CTRL_VF_ENABLE)
		return 0;
	if (r == 0)
		r = write16(d, at + SRIOV_CTRL, 0);
	if (r == 0 && n) {
		r = write16(d, at + SRIOV_NUM_VFS, (uint16_t)n);
		if (r == 0)
			r = write16(d, at + SRIOV_CTRL, SRIOV_CTRL_VF_ENABLE | SRIOV_CTRL_MSE);
		if (r == 0)
			r = find_sriov(d, &at, &control, &now);
		if (r == 0 && !(control & SRIOV_CTRL_VF_ENABLE))
			r = -EIO;
	}
	return r ? vgpu_error_set(err, r, "cannot enable the VFs: %s", strerror(-r)) : 0;
}

int transport_kernel_vfs(struct vfio_device *d, const char *address, uint32_t n,
			 struct vgpu_error *err)
{
	int r = pci_set_vfs(address, n, err);

	return r < 0 || n == 0 ? r : vfio_enable_vfs(d, n, err);
}

int transport_recognise(const struct pci_info *info, struct gpuiov_identity *out,
			struct vgpu_error *err)
{
	uint8_t config[GPUIOV_CONFIG_SIZE] = {0};
	struct vgpu_error why = {""};
	const struct host_driver *host = host_driver_of(info);
	char path[96];
	ssize_t size = 0;
	int fd, r;

	if (info->pf[0])
		return vgpu_error_set(err, -EINVAL, "%s is a VF; give its PF, %s", info->address,
				      info->pf);
	if (info->total_vfs == 0)
		return vgpu_error_set(
			err, -ENODEV,
			"%s has no SR-IOV, or SR-IOV is switched off in the firmware setup",
			info->address);
	if (host && host->could)
		return vgpu_error_set(
			err, -EBUSY,
			"%s (%04x:%04x): driver %s has it, and it is left as it is; %s",
			info->address, info->vendor, info->device, info->driver, host->could);
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/config", info->address);
	fd = vfio_kernel->open(path, O_RDONLY);
	if (fd >= 0) {
		size = vfio_kernel->read(fd, config, sizeof(config), 0);
		close(fd);
	}
	r = gpuiov_recognise(config, size < 0 ? 0 : (size_t)size, out, &why);
	return r ? vgpu_error_set(err, r,
				  "%s (%04x:%04x, class %06x, driver %s): %s; it is left as it is",
				  info->address, info->vendor, info->device, info->class,
				  info->driver[0] ? info->driver : "none", why.text)
		 : 0;
}

int vfio_recognise_pf(const char *name, struct gpuiov_identity *out, struct vgpu_error *err)
{
	char address[PCI_ADDRESS_SIZE];
	struct pci_info info;
	int r;

	snprintf(address, sizeof(address), "%.*s", (int)strcspn(name, ","), name);
	r = pci_describe(address, &info, err);
	if (r != 0)
		return r;
	return transport_recognise(&info, out, err);
}
