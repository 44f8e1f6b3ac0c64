/* SPDX-License-Identifier: MIT */
/*
 * Leases: which VF belongs to which VM, program or container, by a UUID. Each change saves all
 * leases with the parameters of their VFs, and which VFs must be reset before another VM gets them
 * (clearing.h), so that a restarted vgpud knows them. The file lies in /run: a reboot ends it
 * together with the VMs. Control thread.
 */
#pragma once

#include "control/state.h"

extern const char *const lease_state_names[LEASE_STATES];

/* Returns the parameters of a VF's lease, brought up to date; the object is the lease's. */
struct json_object *lease_params(struct gpu *gpu, uint32_t vf);
/* Frees what the lease holds and sets it to LEASE_NONE. */
void lease_clear(struct lease *l);

/* In leases of programs and containers, takes the place of a libvirt's name. */
#define LEASE_OF_TENANTS "tenants"

/* Returns whether the lease permits giving its VF to the claim: there is no lease, or it is held
 * for this container. */
bool lease_is_open(const struct lease *l, const struct claim *claim);

/* Returns whether a tenant has the VF: a program or a container does not while its start is in
 * progress. */
bool lease_is_given(const struct lease *l);

/* Returns whether the lease is of a VM with that UUID of the libvirt HOST; "": of any libvirt. A
 * lease without a libvirt, left by an older vgpud, also matches, until a libvirt reports its VM. */
bool lease_is_of(const struct lease *l, const char *host, const char *uuid);
/* Returns the lease of the claim's VM for its claimed VF VF_NAME (NULL: any claim), and its place
 * in *GPU and *VF; NULL: none. */
struct lease *lease_find(struct control *control, const struct claim *claim, const char *vf_name,
			 struct gpu **gpu, uint32_t *vf);

/* Write and read the file of leases. Failures are logged; leases that cannot be read, or whose GPU
 * or VF is no longer configured, are dropped and logged. */
void leases_save(struct control *control);
void leases_load(struct control *control);
