/* SPDX-License-Identifier: MIT */
/* vgpu-guest launch: a kernel of the user's own on a VF. */
#ifndef GUEST_LAUNCH_H
#define GUEST_LAUNCH_H

/* The command's arguments, from "launch" on. The exit status. */
int launch_main(int argc, char **argv);

#endif
