/* SPDX-License-Identifier: MIT */
/* QEMU's arguments, as vgpud-qemu must know them. */
#pragma once

#include <stdbool.h>

#include "vgpu/driver.h"

/* Checks QEMU's arguments ARGV (ends at NULL), and replaces those that must change by new ones,
 * which are from malloc() and the caller's. Sets *VENUS to whether the machine has a GPU with
 * Venus. Returns 0; or -EINVAL, naming an argument that vgpud-qemu does not know, or that would let
 * a guest compute past the gate. */
int qemu_arguments(char **argv, bool *venus, struct vgpu_error *err);

/* Returns the value of the first OPTION (given without dashes) in ARGV, which ends at NULL; "" if
 * it has none; NULL if the option is not there. The text is ARGV's. */
const char *qemu_argument(char *const *argv, const char *option);
