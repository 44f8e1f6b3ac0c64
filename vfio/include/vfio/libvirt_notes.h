/* SPDX-License-Identifier: MIT */
/*
 * Finds the VM of a process in the files that libvirt, which runs as root, writes about the VMs
 * that it starts. QEMU's own arguments and name are not used, because QEMU can change them, and can
 * make reading its arguments block. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The directory of libvirt's qemu driver (its stateDir) with the files NAME.pid and NAME.xml. */
#define LIBVIRT_NOTES "/run/libvirt/qemu"

/* Writes the UUID of the VM whose process is PID. Returns false if no file names that process, or
 * two do. */
bool libvirt_vm_of(pid_t pid, char *uuid, size_t size);
/* As libvirt_vm_of(), for the domain NAME only: reads only that domain's file. */
bool libvirt_vm_is(const char *name, pid_t pid, char *uuid, size_t size);
