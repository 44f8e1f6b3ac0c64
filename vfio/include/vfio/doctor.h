/* SPDX-License-Identifier: MIT */
/*
 * Checks everything that a host needs so that vgpud can drive a GPU through the kernel. Changes
 * nothing: opens, binds and resets no device.
 */
#pragma once

/* The subject of the finding that no PCI function is a GPU. */
#define DOCTOR_NO_GPU "GPUs"

enum doctor_verdict { DOCTOR_OK = 0, DOCTOR_NOTE, DOCTOR_BAD };

/* Receives a finding: what was checked ("IOMMU", "0000:03:00.0"), the result, and the remedy ("":
 * none needed). The texts are valid during the call. */
typedef void doctor_report(void *data, enum doctor_verdict verdict, const char *subject,
			   const char *finding, const char *cure);

/* The requirements of this host's GPUs. The lack of other facilities is only noted. */
enum doctor_needs {
	DOCTOR_NEEDS_NOTHING = 0, /* none is a PCI function */
	DOCTOR_NEEDS_PCI = 1,	  /* IOMMU and VFIO */
	DOCTOR_NEEDS_STUB = 2,	  /* pci-pf-stub: a PF is held through sysfs */
	DOCTOR_NEEDS_ALL = 3
};

/* Calls REPORT for each finding. NEEDS: flags. Any thread; blocks for some milliseconds, and for
 * seconds while Linux resets a VF of an Intel GPU. */
void vfio_doctor(doctor_report *report, void *data, unsigned needs);
