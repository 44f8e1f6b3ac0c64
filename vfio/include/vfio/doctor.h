/* SPDX-License-Identifier: MIT */
/*
 * Checks everything that a host needs so that vgpud can drive a GPU through the kernel. Changes
 * nothing: opens, binds and resets no device.
 */
#pragma once

/* Subject of the finding that this host has no GPU. */
#define DOCTOR_NO_GPU "GPUs"

enum doctor_verdict { DOCTOR_OK = 0, DOCTOR_NOTE, DOCTOR_BAD };

/* Receives a finding: what was checked ("IOMMU", "0000:03:00.0"), the result, and the remedy ("":
 * none needed). The texts are valid only during the call. */
typedef void doctor_report(void *data, enum doctor_verdict verdict, const char *subject,
			   const char *finding, const char *cure);

/* What this host's GPUs need. If other facilities are missing, the finding is a note. */
enum doctor_needs {
	DOCTOR_NEEDS_NOTHING = 0, /* no GPU is a PCI function */
	DOCTOR_NEEDS_PCI = 1,	  /* IOMMU and VFIO */
	DOCTOR_NEEDS_STUB = 2,	  /* pci-pf-stub, to hold a PF through sysfs */
	DOCTOR_NEEDS_ALL = 3
};

/* Calls REPORT for each finding. NEEDS: flags. Any thread; blocks for some milliseconds, and for
 * seconds while Linux resets a VF of an Intel GPU. */
void vfio_doctor(doctor_report *report, void *data, unsigned needs);
