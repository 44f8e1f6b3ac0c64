/* SPDX-License-Identifier: MIT */
#ifndef VGPUCTL_VM_H
#define VGPUCTL_VM_H

#include <json-c/json.h>
#include <stdbool.h>

#include "session.h"

/* Prints all figures of the VFs of the VM with that name or UUID. Returns an exit code. */
int vm_show(struct session *s, const char *name);

/* Whether an element of vm.list is a VM that runs without the VF that is its own. */
bool vm_lacks_device(struct json_object *vm);

#endif
