/* SPDX-License-Identifier: MIT */
#pragma once

#include "vfio/doctor.h"

/* Reports what VMs with a VF of a gated GPU need on this host, and programs do not: a QEMU with
 * Venus, virglrenderer's render server, and a render node. Blocks until QEMU has printed its help.
 */
void venus_doctor(doctor_report *report, void *data);
