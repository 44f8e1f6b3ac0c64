/* SPDX-License-Identifier: MIT */
/*
 * A machine of the test's own making behind vfio_kernel: files in a directory, with a little behind
 * them that does as the kernel would when sriov_numvfs, unbind or drivers_probe are written. Any
 * call can be made to fail.
 */
#ifndef TESTS_MACHINE_H
#define TESTS_MACHINE_H

#include "test.h"
#include "vfio/kernel.h"
#include "vfio/pci.h"

#define PF "0000:03:00.0"

/* Files opened, links and folders read so far. */
extern unsigned questions;
/* Calls of the kernel so far, and the one that fails, 0: none, with which error. */
extern unsigned calls, fail_at;
extern int fail_with;
/* VFs that do not go away; drivers_probe that does nothing. */
extern bool vfs_stick, nobody_probes;

/* A GPU with 8 VFs and its host's driver, a network card, and the drivers that are loaded. */
void make_machine(void);
void remove_machine(void);

/* Where a path of the machine really lies; good until the next call but one. */
const char *inside(const char *path);
/* A file with this text, in folders that are made as needed. */
void put_file(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_bytes(const void *data, size_t size, const char *path);
/* A link to TARGET, in place of what was there. */
void point(const char *target, const char *path);
void take(const char *path);
void remove_tree(const char *path);
/* A PCI function of the maker and the device that softgpu has. */
void function(const char *address, const char *class, const char *group);

#endif
