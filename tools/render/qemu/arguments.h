/* SPDX-License-Identifier: MIT */
/* QEMU's arguments, as vgpud-qemu must know them. */
#ifndef RENDER_QEMU_ARGUMENTS_H
#define RENDER_QEMU_ARGUMENTS_H

#include <stdbool.h>

#include "vgpu/driver.h"

/* Looks at QEMU's arguments, of which ARGV ends at NULL, and replaces those that must change by
 * others from malloc(), the caller's. *VENUS: whether the machine has a GPU with Venus. Returns 0;
 * or -EINVAL, with the argument that vgpud-qemu does not understand, or by which a guest would
 * compute past the gate. */
int qemu_arguments(char **argv, bool *venus, struct vgpu_error *err);

/* Returns what follows the first OPTION, written without dashes, in ARGV, which ends at NULL; "":
 * nothing does. NULL: the option is not there. */
const char *qemu_argument(char *const *argv, const char *option);

#endif
