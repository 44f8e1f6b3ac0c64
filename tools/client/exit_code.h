/* SPDX-License-Identifier: MIT */
/* The exit codes of vgpuctl and of vgpud-libvirt, which vgpuctl runs. Scripts rely on them, and
 * vgpuctl(8) lists them. */
#pragma once

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NO_DAEMON = 3, /* vgpud, or libvirt where a command needs it, cannot be reached */
	EXIT_DENIED = 4,
	EXIT_NOT_FOUND = 5,
	EXIT_BROKEN = 6,     /* verify: a bound was broken */
	EXIT_NOT_JUDGED = 7, /* verify: nothing could be judged */
};

/* Returns the exit code for a negative errno of client_connect() or client_call(). */
int exit_code_of(int r);
