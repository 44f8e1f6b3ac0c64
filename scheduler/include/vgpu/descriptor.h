/* SPDX-License-Identifier: MIT */
/* File descriptors, and eventfds. -1 stands for none. Any thread. */
#pragma once

#include <stdbool.h>

/* Closes *FD if it is a descriptor, and sets it to -1. Preserves errno. */
void vgpu_close(int *fd);
/* Attribute for a local variable: the descriptor is closed when the variable goes out of scope. The
 * variable must be initialised. */
#define VGPU_AUTO_CLOSE __attribute__((cleanup(vgpu_close)))
/* Releases such a variable: returns *FD and sets it to -1. */
int vgpu_take(int *fd);

/* Returns a new eventfd with count 0, non-blocking and close-on-exec, or -errno. */
int vgpu_eventfd(void);
/* Makes an eventfd readable. A full one is readable already. */
void vgpu_eventfd_signal(int fd);
/* Makes an eventfd unreadable; returns whether it was readable. Not for eventfds that block. */
bool vgpu_eventfd_drain(int fd);
