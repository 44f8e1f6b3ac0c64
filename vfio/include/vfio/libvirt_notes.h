/* SPDX-License-Identifier: MIT */
/*
 * Finds a process's VM in the files that libvirt, which is root, writes about the VMs that it
 * starts. A QEMU can change its own arguments and its name, and can make reading its arguments
 * block. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Where libvirt's qemu driver keeps them (its stateDir): NAME.pid and NAME.xml. */
#define LIBVIRT_NOTES "/run/libvirt/qemu"

/* Writes the UUID of the VM whose process PID is. Returns false if no note names that process, or
 * two do. */
bool libvirt_vm_of(pid_t pid, char *uuid, size_t size);
/* As libvirt_vm_of(), if the VM is the domain NAME; reads only that domain's note. */
bool libvirt_vm_is(const char *name, pid_t pid, char *uuid, size_t size);
