/* SPDX-License-Identifier: MIT */
/*
 * What a VM has of GPUs: what the hook, reservations and following libvirt share. Control thread.
 */
#ifndef DAEMON_VM_H
#define DAEMON_VM_H

#include "control.h"
#include "claim.h"

/* A slice without an alias is attached by vgpud-libvirt, with this before its name. */
#define VM_ALIAS "ua-vgpud-"

/* A VF's parameters for a policy: those that it has without a VM (the configuration's, or the
 * policy's defaults), then its profile's, then the slice's. 0; -EINVAL and which one the policy
 * does not know, or that there is no such profile. */
int vm_read_params(const struct gpu *gpu, uint32_t vf, const struct vgpu_policy_ops *policy,
		   const struct claim_vf *slice, int64_t *values, struct vgpu_error *err);
/* Gives the VF the parameters that it has without a VM. */
void vm_set_usual(struct gpu *gpu, uint32_t vf);

/* The bytes that a slice claims at least, by itself or by its profile; 0: any. */
uint64_t vm_memory(const struct gpu *gpu, const struct claim_vf *slice);

/* The PCI address of a VF; false: the GPU is on no bus. */
bool vm_vf_address(const struct gpu *gpu, uint32_t vf, char out[PCI_ADDRESS_SIZE]);
/* What a domain calls a VF: its PCI address, "" while the GPU is lost; or the path of its vfio-user
 * socket. */
void vm_vf_name(const struct gpu *gpu, uint32_t vf, char *out, size_t size);
/* The number of the VF that is called so, or -1. */
int32_t vm_vf_at(const struct gpu *gpu, const char *name);
/* The device that the domain has for a slice, by its alias; NULL: none. */
const struct claim_hostdev *vm_hostdev_of(const struct claim *claim, const struct claim_vf *slice);

/* The VF is the slice's. */
void vm_take(struct gpu *gpu, uint32_t vf, const struct claim *claim, const struct claim_vf *slice,
	     enum lease_state state);
/* The VM has no more to do with it: usual parameters, reset, scrubbed. */
void vm_end_lease(struct control *control, struct gpu *gpu, uint32_t vf);
/* All of a VM's; whether there were any. */
bool vm_end_leases(struct control *control, const char *uuid);
/* Those that are OVER, by a rule that may change them; tells WHY, and saves. */
void vm_end_those(struct control *control, bool (*over)(struct gpu *gpu, uint32_t vf, void *data),
		  void *data, const char *why);
/* The VF has hung: its VM is paused or stopped, if it claims that. */
void vm_hung(struct gpu *gpu, uint32_t vf);
/* The method "vm.hung". */
int vm_hung_begin(struct control *control, struct call *call, struct vgpu_error *err);
/* Every second: reservations that nobody has used are given up. */
void vm_expire(struct control *control);

#endif
