/* SPDX-License-Identifier: MIT */
/*
 * A machine that the test makes up, behind vfio_kernel: files in a directory, and code that reacts
 * as Linux does when sriov_numvfs, unbind or drivers_probe are written. Any call can be made to
 * fail.
 */
#pragma once

#include "test.h"
#include "vfio/kernel.h"
#include "vfio/pci.h"

#define PF "0000:03:00.0"

/* Number of files opened, links read and folders listed so far. */
extern _Atomic unsigned questions;
/* Number of kernel calls so far; the number of the call that fails (0: none), and its error. */
extern _Atomic unsigned calls, fail_at;
extern int fail_with;
/* Something that calls the kernel, of which any call may fail. */
struct each_call {
	_Atomic unsigned *calls, *fail_at; /* which kernel's */
	void (*begin)(void);		   /* makes the machine */
	int (*act)(void);
	void (*end)(int r); /* looks at what ACT has left, when calls work again */
};
/* Carries ACT out once with no fault, and once for each call that it has made, which fails then.
 * Returns how many calls these are. */
unsigned fail_each_call(const struct each_call *e);
/* If set: writing 0 to sriov_numvfs removes no VFs; writing drivers_probe binds no driver. */
extern bool vfs_stick, nobody_probes;

/* Makes a machine with a GPU of up to 8 VFs bound to its host driver, a network card, and loaded
 * drivers. */
void make_machine(void);
void remove_machine(void);

/* The real place of a path of the machine. Valid until the thread's next call but one. */
const char *inside(const char *path);
/* Writes a file with this text; makes its folders as needed. */
void put_file(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_bytes(const void *data, size_t size, const char *path);
/* Makes a link to TARGET, replacing what is there. */
void point(const char *target, const char *path);
void take(const char *path);
void remove_tree(const char *path);
/* Adds a PCI function with softgpu's vendor and device ID. */
void function(const char *address, const char *class, const char *group);
