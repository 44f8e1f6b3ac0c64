/* SPDX-License-Identifier: MIT */
/*
 * The claim in the metadata that OpenStack Nova writes into its domains. docs/fleet.md describes
 * it. Any thread.
 */
#pragma once

#include <libxml/tree.h>

#include "vgpu/types.h"

#define NOVA_URI "http://openstack.org/xmlns/libvirt/nova/1.1"

/*
 * Converts the flavor in INSTANCE, a <nova:instance>, to a <vgpu> element in OUT; NULL: the flavor
 * claims no VF. The element belongs to INSTANCE's document but is not linked into it: the caller
 * frees it with xmlFreeNode. Each of its elements has the line of its extra spec. Returns 0;
 * -EINVAL with line and reason in ERR: an extra spec for vgpud is wrong.
 */
int nova_claim(xmlNode *instance, xmlNode **out, struct vgpu_error *err);
