/* SPDX-License-Identifier: MIT */
/*
 * The claim in the metadata that OpenStack Nova writes into its domains. docs/fleet.md describes
 * it. Any thread.
 */
#ifndef DOMAIN_NOVA_H
#define DOMAIN_NOVA_H

#include <libxml/tree.h>

#include "vgpu/types.h"

#define NOVA_URI "http://openstack.org/xmlns/libvirt/nova/1.1"

/*
 * Makes the <vgpu> element to which the flavor in INSTANCE, a <nova:instance>, amounts, and stores
 * it in OUT; NULL: the flavor claims no VF. The element belongs to INSTANCE's document but is not
 * linked into it: the caller frees it with xmlFreeNode. Each of its elements has the line of the
 * extra spec that it comes from. Returns 0; -EINVAL with line and reason in ERR: an extra spec that
 * is meant for vgpud is wrong.
 */
int nova_claim(xmlNode *instance, xmlNode **out, struct vgpu_error *err);

#endif
