/* SPDX-License-Identifier: MIT */
/* The domain that a command line names, and the exit code if libvirt does not give it. */
#pragma once

#include <libvirt/libvirt.h>

/* Finds a domain by its name, or by its UUID in any case, as virsh does. The caller frees it. NULL:
 * there is none, or libvirt refuses; its last error in this thread says what. */
virDomainPtr domain_of(virConnectPtr libvirt, const char *name);

/* Returns the exit code for what libvirt has refused last in this thread: no such domain, no
 * permission, libvirt not reached, or failed. */
int refused_code(void);
