/* SPDX-License-Identifier: MIT */
#ifndef VGPUCTL_DOCTOR_H
#define VGPUCTL_DOCTOR_H

#include <stdbool.h>

/* Prints what keeps vgpud from driving GPUs on this host, and the remedy for each finding, as text
 * or JSON. Reads the kernel's files only: it needs no vgpud and changes nothing. Returns false if
 * any finding is "bad". */
bool doctor(bool as_json, bool colour);

#endif
