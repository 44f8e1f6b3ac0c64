/* SPDX-License-Identifier: MIT */
/* vgpu-guest launch: runs a GPU kernel of the user's on a VF. */
#ifndef GUEST_LAUNCH_H
#define GUEST_LAUNCH_H

/* ARGV: all arguments of vgpu-guest, with "launch" at index 1. Returns the exit status. */
int launch_main(int argc, char **argv);

#endif
