/* SPDX-License-Identifier: MIT */
/* File descriptors, and eventfds. -1 stands for none. Any thread. */
#ifndef VGPU_DESCRIPTOR_H
#define VGPU_DESCRIPTOR_H

#include <stdbool.h>

/* Closes *FD, if it is one, and makes it -1. errno is kept. */
void vgpu_close(int *fd);
/* Of a local variable, which must have a value from its start: closed when it goes out of scope. */
#define VGPU_AUTO_CLOSE __attribute__((cleanup(vgpu_close)))
/* Hands the descriptor of such a variable on: returns *FD, and makes it -1. */
int vgpu_take(int *fd);

/* An eventfd without a count, which does not block, and is closed by exec; or -errno. */
int vgpu_eventfd(void);
/* Makes an eventfd readable. One that is full is readable already. */
void vgpu_eventfd_signal(int fd);
/* Makes it unreadable. Whether it was readable. Not for eventfds that block. */
bool vgpu_eventfd_drain(int fd);

#endif
