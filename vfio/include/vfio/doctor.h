/* SPDX-License-Identifier: MIT */
/*
 * Looks at everything that a host needs for vgpud to drive a GPU through its kernel, and changes
 * nothing: no device is opened, bound or reset.
 */
#ifndef VFIO_DOCTOR_H
#define VFIO_DOCTOR_H

enum doctor_verdict { DOCTOR_OK = 0, DOCTOR_NOTE, DOCTOR_BAD };

/* What was looked at ("iommu", "0000:03:00.0"), what was found, and what helps ("" if nothing has
 * to be done). */
typedef void doctor_report(void *data, enum doctor_verdict verdict, const char *subject,
			   const char *finding, const char *cure);

/* Any thread; blocks for some milliseconds. */
void vfio_doctor(doctor_report *report, void *data);

#endif
