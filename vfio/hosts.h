/* SPDX-License-Identifier: MIT */
/* Drivers of the host for GPUs that have VFs. Any thread. */
#pragma once

#include "vfio/doctor.h"
#include "vfio/pci.h"

struct host_driver {
	uint16_t vendor;
	const char *name;
	/* What vgpud can do with such a GPU, whose VFs the driver makes and firmware schedules;
	 * vgpud never unbinds it from the driver. NULL: the driver makes no VFs. */
	const char *could;
	/* Reports the settings, and which of them are dangerous. Changes nothing. */
	void (*report)(const struct pci_info *pf, doctor_report *report, void *data);
};

/* Returns the driver that is bound to this PF, if it is one of these; else NULL. */
const struct host_driver *host_driver_of(const struct pci_info *pf);
