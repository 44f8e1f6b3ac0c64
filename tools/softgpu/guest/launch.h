/* SPDX-License-Identifier: MIT */
/* vgpu-guest launch: runs a GPU kernel of the user's on a VF. */
#pragma once

#include <stddef.h>

/* ARGV: all arguments of vgpu-guest, with "launch" at index 1. Returns the exit status. */
/* Writes guest_open()'s name of the VF with this socket or, if SOCKET is NULL, with DEVICE. */
void guest_name(char *out, size_t size, const char *socket, const char *device);
int launch_main(int argc, char **argv);
