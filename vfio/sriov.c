/* SPDX-License-Identifier: MIT */
/*
 * Binds drivers and makes virtual functions. The order leaves no instant in which a driver of the
 * host could bind a VF: switch autoprobe off, make the VFs, set the override of each, probe, and
 * check the result (drivers_probe succeeds even if no driver took the function).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "vfio/kernel.h"
#include "vfio/pci.h"

/* The kernel needs about a second for 31 VFs; it waits for ever for a VF that is in use. */
#define VFS_DEADLINE_MS 30000
#define BIND_DEADLINE_MS 10000
#define QUICK_MS 5000
#define RESET_MS 10000 /* Intel's driver clears a VF's memory for up to 5 s */
#define PROBES 20
#define PROBE_PAUSE_NS 50000000

static bool is_bound(const char *address, const char *driver)
{
	char now[32];

	return kernel_read_link(now, sizeof(now), PCI_DEVICES "/%s/driver", address) == 0 &&
	       strcmp(now, driver) == 0;
}

/* A driver has a directory while its module is loaded. */
static bool is_loaded(const char *driver)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/%s", driver);
	return kernel_has_entries(path);
}

static int check_unused(const char *pf, uint32_t n, struct vgpu_error *err)
{
	char vf[PCI_ADDRESS_SIZE], user[64];
	uint32_t i;

	for (i = 0; i < n; i++)
		if (pci_vf_address(pf, i, vf) == 0 && pci_user(vf, user, sizeof(user)))
			return vgpu_error_set(err, -EBUSY,
					      "%s: VF %" PRIu32
					      " (%s) is in use by %s; end that process first",
					      pf, i, vf, user);
	return 0;
}

static int write_number_of_vfs(const char *pf, uint32_t n, struct vgpu_error *err)
{
	char text[16];
	struct pci_info now;
	int r;

	snprintf(text, sizeof(text), "%" PRIu32, n);
	r = kernel_write_text(VFS_DEADLINE_MS, text, PCI_DEVICES "/%s/sriov_numvfs", pf);
	if (r == 0)
		r = pci_describe(pf, &now, NULL);
	if (r == 0 && now.vfs != n)
		r = -EIO;
	if (r == -ENOENT)
		return vgpu_error_set(err, r,
				      "%s: its driver cannot make VFs; for vfio-pci, write Y to "
				      "/sys/module/vfio_pci/parameters/enable_sriov",
				      pf);
	return r < 0 ? vgpu_error_set(err, r, "%s: cannot make %" PRIu32 " VFs: %s", pf, n,
				      strerror(-r))
		     : 0;
}

int pci_bind(const char *address, const char *driver, struct vgpu_error *err)
{
	struct timespec pause = {0, PROBE_PAUSE_NS};
	struct pci_info info;
	char user[64];
	int r = pci_describe(address, &info, err), i;

	if (r < 0 || strcmp(info.driver, driver) == 0)
		return r;
	if (!is_loaded(driver))
		return vgpu_error_set(err, -ENOENT, "%s: driver %s is not loaded; modprobe %s",
				      address, driver, driver);
	/* Drivers neither bind nor release a PF that has VFs. */
	if (info.driver[0] && info.vfs) {
		r = check_unused(address, info.vfs, err);
		if (r == 0)
			r = write_number_of_vfs(address, 0, err);
		if (r < 0)
			return r;
	}
	if (info.driver[0]) {
		if (pci_user(address, user, sizeof(user)))
			return vgpu_error_set(err, -EBUSY, "%s: in use by %s", address, user);
		r = kernel_write_text(BIND_DEADLINE_MS, address, PCI_DEVICES "/%s/driver/unbind",
				      address);
		if (r < 0)
			return vgpu_error_set(err, r, "%s: cannot unbind it from driver %s: %s",
					      address, info.driver, strerror(-r));
	}
	r = kernel_write_text(QUICK_MS, driver, PCI_DEVICES "/%s/driver_override", address);
	for (i = 0; i < PROBES && r == 0; i++) {
		r = kernel_write_text(BIND_DEADLINE_MS, address, "/sys/bus/pci/drivers_probe");
		if (r == 0 && is_bound(address, driver))
			return 0;
		nanosleep(&pause, NULL);
	}
	return vgpu_error_set(err, r ? r : -EIO, "%s: driver %s does not bind it%s%s", address,
			      driver, r ? ": " : "; see the kernel's log", r ? strerror(-r) : "");
}

int pci_unbind(const char *address)
{
	int r = kernel_write_text(BIND_DEADLINE_MS, address, PCI_DEVICES "/%s/driver/unbind",
				  address);
	int cleared = kernel_write_text(QUICK_MS, "\n", PCI_DEVICES "/%s/driver_override", address);

	return r == -ENOENT ? cleared : r < 0 ? r : cleared;
}

static int bind_vf(const char *pf, uint32_t n, struct vgpu_error *err)
{
	char vf[PCI_ADDRESS_SIZE], driver[64], user[64];
	struct pci_info info;
	int r = pci_vf_address(pf, n, vf);

	if (r < 0)
		return vgpu_error_set(err, r, "%s: VF %" PRIu32 " did not appear: %s", pf, n,
				      strerror(-r));
	r = pci_describe(vf, &info, err);
	if (r < 0)
		return r;
	if (info.group < 0)
		return vgpu_error_set(err, -ENODEV, "%s: no IOMMU group; " PCI_IOMMU_CURE, vf);
	r = pci_check_group(&info, err);
	if (r < 0)
		return r;
	/* If a process uses the VF, leave it with the VFIO driver that it has. */
	if (strstr(info.driver, "vfio") && pci_user(vf, user, sizeof(user)))
		return 0;
	pci_vfio_driver(vf, driver, sizeof(driver));
	return pci_bind(vf, driver, err);
}

int pci_set_vfs(const char *pf, uint32_t n, struct vgpu_error *err)
{
	struct pci_info info;
	uint32_t i;
	int r = pci_describe(pf, &info, err);

	if (r < 0)
		return r;
	if (info.pf[0])
		return vgpu_error_set(err, -EINVAL, "%s is a VF; give its PF, %s", pf, info.pf);
	if (n > info.total_vfs)
		return vgpu_error_set(err, -EINVAL, "%s: has at most %" PRIu32 " VFs, not %" PRIu32,
				      pf, info.total_vfs, n);
	if (info.vfs != n) {
		r = check_unused(pf, info.vfs, err);
		if (r == 0 && info.vfs)
			r = write_number_of_vfs(pf, 0, err);
		if (r < 0 || n == 0)
			return r;
		r = kernel_write_text(QUICK_MS, "0", PCI_DEVICES "/%s/sriov_drivers_autoprobe", pf);
		if (r < 0)
			return vgpu_error_set(err, r,
					      "%s: cannot switch off sriov_drivers_autoprobe: %s",
					      pf, strerror(-r));
		r = write_number_of_vfs(pf, n, err);
		if (r < 0)
			return r;
	}
	for (i = 0; i < n && r == 0; i++)
		r = bind_vf(pf, i, err);
	if (r < 0 && info.vfs != n)
		write_number_of_vfs(pf, 0, NULL);
	return r;
}

/* A separate process writes, because this write may wait for a lock that another program's unbind
 * of the VF holds for ever. */
int pci_reset_vf(const char *pf, uint32_t n)
{
	return kernel_write_text(RESET_MS, "1", PCI_DEVICES "/%s/virtfn%" PRIu32 "/reset", pf, n);
}

/* Linux before 5.15 has no such list; then there is nothing to do. */
static int set_resets(const char *address, const char *methods)
{
	int r = kernel_write_text(QUICK_MS, methods, PCI_DEVICES "/%s/reset_method", address);

	return r == -ENOENT ? 0 : r;
}

int pci_suppress_resets(const char *address, struct vgpu_error *err)
{
	int r = set_resets(address, "\n");

	return r < 0 ? vgpu_error_set(err, r, "%s: cannot switch its resets off: %s", address,
				      strerror(-r))
		     : 0;
}

int pci_release(const char *address, struct vgpu_error *err)
{
	struct pci_info info;
	int r = pci_describe(address, &info, err), lock;
	char path[96], user[64];

	if (r < 0)
		return r;
	/* A mistyped address must not unbind a disk. */
	if (info.total_vfs == 0 ||
	    (info.driver[0] && strcmp(info.driver, "pci-pf-stub") && !strstr(info.driver, "vfio")))
		return vgpu_error_set(err, -EINVAL, "%s: driver %s: not a PF that vgpud holds",
				      address, info.driver[0] ? info.driver : "none");
	if (pci_user(address, user, sizeof(user)))
		return vgpu_error_set(err, -EBUSY, "%s: in use by %s", address, user);
	/* A process that holds a PF through sysfs locks its configuration space. */
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/config", address);
	lock = vfio_kernel->open(path, O_RDONLY);
	if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) < 0)
		r = vgpu_error_set(err, -EBUSY, "%s: another program holds this device", address);
	if (lock >= 0)
		close(lock);
	if (r == 0 && info.vfs)
		r = pci_set_vfs(address, 0, err);
	if (r < 0)
		return r;
	r = kernel_write_text(QUICK_MS, "1", PCI_DEVICES "/%s/sriov_drivers_autoprobe", address);
	if (r == 0)
		r = set_resets(address, "default");
	if (r == 0 && info.driver[0])
		r = kernel_write_text(BIND_DEADLINE_MS, address, PCI_DEVICES "/%s/driver/unbind",
				      address);
	if (r == 0)
		r = kernel_write_text(QUICK_MS, "\n", PCI_DEVICES "/%s/driver_override", address);
	if (r == 0)
		r = kernel_write_text(BIND_DEADLINE_MS, address, "/sys/bus/pci/drivers_probe");
	return r < 0 ? vgpu_error_set(err, r, "%s: cannot return it to its host driver: %s",
				      address, strerror(-r))
		     : 0;
}
