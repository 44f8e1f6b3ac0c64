/* SPDX-License-Identifier: MIT */
#include "uevents.h"

#include <errno.h>
#include <inttypes.h>
#include <libudev.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "control/log.h"
#include "vms/vm.h"
#include "vfio/pci.h"

struct uevents {
	struct control *control;
	struct udev *udev;
	struct udev_monitor *monitor;
	struct event *readable;
};

static bool is_pf(const struct gpu *gpu, const char *address)
{
	char pf[PCI_ADDRESS_SIZE];

	return gpu_pf_address(gpu, pf) && strcmp(pf, address) == 0;
}

static void on_pf(struct gpu *gpu, const char *action, const char *address)
{
	if (strcmp(action, "remove") == 0)
		log_about(about_gpu(gpu, LOG_PLAIN), LOG_NOTICE, "the kernel removed %s", address);
	if (strcmp(action, "add") != 0)
		return;
	log_about(about_gpu(gpu, LOG_PLAIN), LOG_NOTICE, "the kernel added %s", address);
	engine_retry(gpu->engine);
}

/* Logs that a VF's driver changed. Not for a lost GPU: while vgpud sets it up again, vgpud itself
 * binds its VFs. */
static void on_vf_driver(struct gpu *gpu, const struct pci_info *vf)
{
	char name[PCI_ADDRESS_SIZE];
	uint32_t i;

	for (i = 0; i < gpu->config->vfs; i++)
		if (pci_vf_address(vf->pf, i, name) == 0 && strcmp(name, vf->address) == 0)
			break;
	if (strstr(vf->driver, "vfio"))
		log_about(about_vf(gpu, i, LOG_PLAIN), LOG_NOTICE, "%s is bound to %s again",
			  vf->address, vf->driver);
	else
		log_about(about_vf(gpu, i, LOG_PLAIN), LOG_WARNING,
			  "%s was unbound from VFIO and has %s%s: no tenant can use it; restart "
			  "vgpud to bind it again",
			  vf->address, vf->driver[0] ? "driver " : "no driver", vf->driver);
}

static void on_change(struct control *control, const char *action, const char *address)
{
	bool driver = strcmp(action, "bind") == 0 || strcmp(action, "unbind") == 0;
	struct pci_info info;
	uint32_t i;

	if (driver && (pci_describe(address, &info, NULL) < 0 || !info.pf[0]))
		return;
	for (i = 0; i < control->n_gpus; i++) {
		struct gpu *gpu = &control->gpus[i];

		if (is_pf(gpu, address))
			on_pf(gpu, action, address);
		else if (driver && is_pf(gpu, info.pf) && !engine_trouble(gpu->engine))
			on_vf_driver(gpu, &info);
	}
}

static void on_readable(evutil_socket_t, short, void *data)
{
	struct uevents *u = data;
	struct udev_device *device;

	while ((device = udev_monitor_receive_device(u->monitor))) {
		on_change(u->control, udev_device_get_action(device),
			  udev_device_get_sysname(device));
		udev_device_unref(device);
	}
}

struct uevents *uevents_start(struct control *control, struct vgpu_error *err)
{
	struct uevents *u = calloc(1, sizeof(*u));

	if (!u) {
		vgpu_error_set(err, -ENOMEM,
			       "cannot watch for PCI functions that come and go: out of memory");
		return NULL;
	}
	u->control = control;
	u->udev = udev_new();
	/* "kernel", not "udev": a host may have no udevd, and vgpud needs none of its additions. */
	u->monitor = u->udev ? udev_monitor_new_from_netlink(u->udev, "kernel") : NULL;
	if (!u->monitor ||
	    udev_monitor_filter_add_match_subsystem_devtype(u->monitor, "pci", NULL) < 0 ||
	    udev_monitor_enable_receiving(u->monitor) < 0) {
		vgpu_error_set(err, -errno, "cannot watch for PCI functions that come and go: %s",
			       strerror(errno));
		uevents_stop(u);
		return NULL;
	}
	u->readable = event_new(control->base, udev_monitor_get_fd(u->monitor),
				EV_READ | EV_PERSIST, on_readable, u);
	event_add(u->readable, NULL);
	return u;
}

void uevents_stop(struct uevents *u)
{
	if (!u)
		return;
	if (u->readable)
		event_free(u->readable);
	udev_monitor_unref(u->monitor);
	udev_unref(u->udev);
	free(u);
}
