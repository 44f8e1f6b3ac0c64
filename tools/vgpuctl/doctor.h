/* SPDX-License-Identifier: MIT */
#ifndef VGPUCTL_DOCTOR_H
#define VGPUCTL_DOCTOR_H

#include <stdbool.h>

/* Prints what stands between this host and GPUs driven through its kernel, and what helps, for
 * people or as JSON. vgpud is not asked, and nothing is changed. True if nothing does. */
bool doctor(bool as_json, bool colour);

#endif
