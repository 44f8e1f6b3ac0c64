/* SPDX-License-Identifier: MIT */
/*
 * A VM's claim on GPUs, in the <metadata> of its libvirt domain, and the other parts of that XML
 * that vgpud needs. docs/domain.md describes it; vgpu-domain-1.rng is the schema.
 *
 * Any thread. libxml2 reads without network, external entities and document type definitions.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "document.h"

#define CLAIM_URI "urn:vgpud:xmlns:domain:1"
#define CLAIM_MAX_BYTES DOCUMENT_MAX_BYTES
#define CLAIM_MAX_REQUEST (4u << 20) /* bytes of a request to vgpud that contains domains' XML */
#define CLAIM_MAX_VFS 8u
#define CLAIM_MAX_PARAMS 12u
#define CLAIM_MAX_HOSTDEVS 256u
/* vgpud-libvirt attaches the VF of a claim without an alias under this prefix and the claim's
 * name. */
#define CLAIM_OUR_ALIAS "ua-vgpud-"
#define CLAIM_HOST_SIZE 40

/* The unit in which a parameter was written, if it differs from the parameter's own: percent for
 * parts per million, ms for us. */
enum claim_unit { CLAIM_UNIT_OWN = 0, CLAIM_PERCENT, CLAIM_MS };

/* A policy's parameter as text; the policy's table interprets it. */
struct claim_param {
	char name[32], value[32]; /* in the parameter's own unit */
	enum claim_unit written_in;
	int line;
};

/* The action on the VM when its VF hung and was reset. */
enum claim_on_hang { CLAIM_GO_ON = 0, CLAIM_PAUSE, CLAIM_STOP, CLAIM_ON_HANG };
/* The words in the claim. */
extern const char *const claim_on_hang_names[CLAIM_ON_HANG];

/* The kind of claimant: a libvirt domain, or a process of this host, which is a program or the
 * first process of a container. */
enum claim_by { CLAIM_BY_VM = 0, CLAIM_BY_PROGRAM, CLAIM_BY_CONTAINER, CLAIM_BY };
extern const char *const claim_by_names[CLAIM_BY];
#define CLAIM_ID_SIZE 129

/* One VF of a claim. */
struct claim_vf {
	char name[64], alias[64];
	char gpu[32], pool[32]; /* "": any */
	int32_t vf;		/* -1: any */
	int32_t hostdev; /* index in claim.hostdevs of its device, if the device has no alias; -1 */
	char profile[32]; /* of the configuration; "": none */
	uint64_t memory;  /* least bytes; 0: the profile's, or any */
	char policy[32];  /* policy that must be in force on the GPU; "": any */
	enum claim_on_hang on_hang;
	uint32_t n_params;
	struct claim_param params[CLAIM_MAX_PARAMS];
	int line;
};

/* A device of the domain that may be a VF: a <hostdev>, or a vfio-pci or vfio-user device on QEMU's
 * command line. Other host devices are included if they have an alias, which a claim may name by
 * mistake. */
struct claim_hostdev {
	char address[128]; /* PCI address, or path of the socket; "": it is neither */
	char alias[80];
	char type[16];	/* "pci", "vfio-user", or libvirt's type of another device, "mdev" */
	char token[37]; /* libvirt binds it to VFIO when the VM starts, and unbinds it when the VM
			   ends */
	bool managed; /* libvirt binds it to VFIO at the VM's start, and away from it at its end */
};

struct claim {
	char uuid[37], domain[256]; /* "" if only the <vgpu> element was given */
	/* The libvirt that has the domain; "": unknown. Not in the XML: the caller sets it. */
	char host[CLAIM_HOST_SIZE];
	bool required;	/* the VM must not start without its VFs */
	uint32_t n_vfs; /* 0: no claim */
	struct claim_vf vfs[CLAIM_MAX_VFS];
	uint32_t n_hostdevs;
	struct claim_hostdev hostdevs[CLAIM_MAX_HOSTDEVS];
	/* For a program or a container: the uid to charge, and a container's id, unique for its
	 * owner. */
	enum claim_by by;
	uint32_t owner;
	char id[CLAIM_ID_SIZE];
	/* A VM's <emulator> is vgpud-qemu, a container has a worker: VFs of gated GPUs alone. */
	bool by_venus;
	bool stays; /* its QEMU refuses to migrate and to save it: see docs/domain.md */
};

/* Returns whether a domain's XML may have a claim: a quick check, negative for most domains. */
bool claim_is_possible(const char *xml);

/*
 * Parses TEXT, SIZE bytes: a whole domain, or the <vgpu> element alone, with its namespace or (as
 * virsh metadata prints it) without. A domain without a <vgpu> may have a claim in Nova's metadata
 * (nova.h). Returns 0, also for a domain without a claim; -EINVAL with line and reason in ERR if it
 * is not XML or violates the schema; -E2BIG if SIZE exceeds CLAIM_MAX_BYTES; -ENOMEM. After an
 * error OUT gives only the owner of the claim, where that was readable, and whether the VM needs a
 * VF, which is assumed if the claim was unreadable.
 */
int claim_parse(struct claim *out, const char *text, size_t size, struct vgpu_error *err);

/* Returns the domain's own device for a claimed VF: the one with its alias or, without one, with
 * that of vgpud-libvirt, or the one that CLAIMED->hostdev names; NULL: none. */
const struct claim_hostdev *claim_device_of(const struct claim *claim,
					    const struct claim_vf *claimed);
/* Checks that device, as far as the domain's XML allows. All readers of claims use this. Returns 0,
 * also if there is none and none is needed; -EINVAL with the reason in ERR. */
int claim_check_device(const struct claim *claim, const struct claim_vf *claimed,
		       struct vgpu_error *err);

/* Returns whether a domain's XML has a claim, readable or not. Every domain of Nova passes
 * claim_is_possible(), and few have a claim. */
bool claim_exists(const char *xml);
