/* SPDX-License-Identifier: MIT */
/*
 * VMs and their VFs: shared by the hook, reservations and reconcile.h. Control thread.
 */
#pragma once

#include "control/call.h"
#include "claim.h"
#include "vfio/pci.h"

/* Sets VALUES to a VF's parameters for a policy: the configuration's (or the policy's defaults),
 * overridden by the claim's profile, overridden by the claim. Returns 0, or -EINVAL with the reason
 * in ERR: a parameter that the policy refuses, or an unknown profile. */
int vm_read_params(const struct gpu *gpu, uint32_t vf, const struct vgpu_policy_ops *policy,
		   const struct claim_vf *claimed, int64_t *values, struct vgpu_error *err);
/* As vm_read_params, but omits the parameters that the policy refuses (claimed.h). */
int vm_read_known_params(const struct gpu *gpu, uint32_t vf, const struct vgpu_policy_ops *policy,
			 const struct claim_vf *claimed, int64_t *values, struct vgpu_error *err);
/* As vm_read_params, also checking the claimed policy; ERR names GPU and policy. */
int vm_read_claimed(const struct gpu *gpu, uint32_t vf, const struct vgpu_policy_ops *policy,
		    const struct claim_vf *claimed, int64_t *values, struct vgpu_error *err);
/* Gives the VF its parameters without a VM. */
void vm_set_usual(struct gpu *gpu, uint32_t vf);
/* Restores the live parameters that the VF had under this policy before it was reserved for a
 * VM. */
void vm_set_former(struct gpu *gpu, uint32_t vf, const struct vgpu_policy_ops *policy,
		   const int64_t params[VGPU_MAX_PARAMS]);

/* Returns the size of a VF's partition, bytes; 0: unknown. */
uint64_t vm_memory_of(const struct gpu *gpu, uint32_t vf, const struct engine_snapshot *snapshot);
/* Returns whether a VF's partition lies in host memory. */
bool vm_is_swapped(uint32_t vf, const struct engine_snapshot *snapshot);
/* Returns the smallest size that a claim accepts, from itself or its profile, bytes; 0: any
 * size. */
uint64_t vm_memory(const struct gpu *gpu, const struct claim_vf *claimed);

/* Gets the PF's PCI address from the GPU's device ("sysfs:ADDRESS", "vfio:ADDRESS,..."). Returns
 * false if it has none. */
bool gpu_pf_address(const struct gpu *gpu, char out[PCI_ADDRESS_SIZE]);
/* Gets the PCI address of a VF. Returns false if the GPU is not a PCI device. */
bool vm_vf_address(const struct gpu *gpu, uint32_t vf, char out[PCI_ADDRESS_SIZE]);
/* Gets the name of a VF in a domain's XML: its PCI address ("" while the GPU is lost), or the path
 * of its vfio-user socket. */
void vm_vf_name(const struct gpu *gpu, uint32_t vf, char *out, size_t size);
/* Returns the number of the VF with that name, or -1. */
int32_t vm_vf_at(const struct gpu *gpu, const char *name);
/* Returns whether a process uses the VF: its guest driver is up, or VFIO has it open. Searches
 * /proc. */
bool vm_uses(const struct gpu *gpu, uint32_t vf);
/* Parses a domain as claim_parse does, and finds the devices without an alias of the claim's that
 * are VFs of these GPUs: each is assigned to the first claimed VF that it suits and that has none.
 * Nova writes such devices. */
int vm_parse_claim(const struct control *control, struct claim *out, const char *xml,
		   struct vgpu_error *err);
/* Gives the devices of OUT to its claimed VFs, as vm_parse_claim does. */
void vm_find_devices(const struct control *control, struct claim *out);
/* Checks the device of a claimed VF, as claim_check_device does; for ALL, also that no other device
 * of the domain is a VF of these GPUs: the VM would have it without a lease. Returns 0, or -EINVAL
 * with the reason in ERR. */
int vm_check_devices(const struct control *control, const struct claim *claim,
		     const struct claim_vf *claimed, bool all, struct vgpu_error *err);

/* Returns whether a claim allows this GPU for the claimed VF, by the GPU's name and its pool. */
bool vm_may_be_of(const struct gpu *gpu, const struct claim_vf *claimed);
/* As vm_may_have, and by the domain's own device. */
bool vm_may_be_on(const struct gpu *gpu, const struct claim *claim, const struct claim_vf *claimed);

/* Leases the VF to a VM for one VF of its claim. */
void vm_take(struct gpu *gpu, uint32_t vf, const struct claim *claim,
	     const struct claim_vf *claimed, enum lease_state state);
/* Ends a lease: gives the VF its usual parameters, and has it reset and scrubbed. The caller saves
 * the leases. */
void vm_end_lease(struct gpu *gpu, uint32_t vf);
/* Ends all leases of the claim's VM. Returns whether there were any. */
bool vm_end_leases(struct control *control, const struct claim *claim);
/* Ends the leases for which OVER returns true (it may change them), logs each with WHY, and
 * saves. */
void vm_end_those(struct control *control, bool (*over)(struct gpu *gpu, uint32_t vf, void *data),
		  void *data, const char *why);
/* Records that a VF hung: vgpud-libvirt pauses or stops its VM, if the claim says so. */
void vm_hung(struct gpu *gpu, uint32_t vf);
/* The method "vm.hung". */
int vm_hung_begin(struct control *control, struct call *call, struct vgpu_error *err);
/* Every second: ends the reservations of VMs that did not start in time, and the wait for VMs that
 * did not resume. */
void vm_expire(struct control *control);
