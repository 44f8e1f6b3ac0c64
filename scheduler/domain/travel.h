/* SPDX-License-Identifier: MIT */
/*
 * The data that migrates with a VM: for each of its VFs the GPU type that fits the VF's state, and
 * the VF's debt. The source's vgpud writes it, vgpud-libvirt puts it into the running domain's
 * <metadata>, libvirt carries it in the domain's XML, and the destination's vgpud parses it as
 * untrusted XML.
 *
 *     <travel xmlns="urn:vgpud:xmlns:travel:1">
 *       <vf name="gpu0" gpu="8086:e212:00" driver="xe-vfio-pci" memory="4294967296" vfs="4"
 *           owed-us="0"/>
 *     </travel>
 *
 * Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vgpu/types.h"

#define TRAVEL_URI "urn:vgpud:xmlns:travel:1"
#define TRAVEL_MAX_VFS 8u
#define TRAVEL_TEXT_MAX 4096u
/* Larger debts are invalid: the core's own limit is 2 s. */
#define TRAVEL_MAX_OWED (10 * VGPU_SEC)

struct travel_vf {
	char name[64];	 /* of the claim's <vf> */
	char gpu[24];	 /* vendor, device and revision of the PF */
	char driver[32]; /* of the VF */
	uint64_t memory; /* bytes of its partition; 0: not known */
	int64_t vfs;	 /* number of VFs of its GPU */
	vgpu_nsec owed;	 /* engine time that the VF has used and not paid for; whole microseconds */
};

struct travel {
	uint32_t n_vfs; /* 0: the XML has no <travel> */
	struct travel_vf vfs[TRAVEL_MAX_VFS];
};

/* Reads the <travel> of a domain. Returns 0, also if there is none; -EINVAL with line and reason in
 * ERR: not XML, more than one, an attribute that is missing or has no usable value, or more than
 * TRAVEL_MAX_OWED; -E2BIG: too long; -ENOMEM. After an error OUT has no VF. */
int travel_read(struct travel *out, const char *text, size_t size, struct vgpu_error *err);

/* Writes the element to TEXT, TRAVEL_TEXT_MAX bytes; names are those of a claim, which need no
 * escape. */
void travel_write(const struct travel *travel, char *text);

/* Returns the entry for the claim's VF NAME; NULL: none. */
const struct travel_vf *travel_of(const struct travel *travel, const char *name);
