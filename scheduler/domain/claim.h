/* SPDX-License-Identifier: MIT */
/*
 * What a VM claims of GPUs, as its libvirt domain XML says it in <metadata>, and what of that XML
 * vgpud has to know beside it. docs/domain.md is the long form; vgpu-domain-1.rng the schema.
 *
 * Any thread. libxml2 reads without network, external entities or documents type definitions.
 */
#ifndef DOMAIN_CLAIM_H
#define DOMAIN_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "vgpu/types.h"

#define CLAIM_URI "urn:vgpud:xmlns:domain:1"
#define CLAIM_MAX_BYTES (1u << 20)
#define CLAIM_MAX_VFS 8u
#define CLAIM_MAX_PARAMS 12u
#define CLAIM_MAX_HOSTDEVS 32u

/* A parameter of a policy, as its tables know it. */
struct claim_param {
	char name[32], value[32];
	int line;
};

/* What becomes of the VM when its VF has hung, and has been reset. */
enum claim_on_hang { CLAIM_GO_ON = 0, CLAIM_PAUSE, CLAIM_STOP, CLAIM_ON_HANG };
/* As the claim says it. */
extern const char *const claim_on_hang_names[CLAIM_ON_HANG];

/* One VF. */
struct claim_vf {
	char name[64], alias[64];
	char gpu[32], pool[32]; /* "": any */
	int32_t vf;		/* -1: any */
	char profile[32];	/* of vgpud's configuration; "": none */
	uint64_t memory;	/* bytes, at least; 0: the profile's, or any */
	char policy[32];	/* that the GPU must have; "": any */
	enum claim_on_hang on_hang;
	uint32_t n_params;
	struct claim_param params[CLAIM_MAX_PARAMS];
	int line;
};

/* A device of the domain's that may be a VF: a <hostdev>, or a vfio-user device of QEMU's. */
struct claim_hostdev {
	char address[128]; /* PCI address, or path of the socket */
	char alias[80];
	char token[37]; /* that a qemu:override gives it; "": none */
};

struct claim {
	char uuid[37], domain[256]; /* "" where only our own element was given */
	bool required;		    /* the VM shall not start without */
	uint32_t n_vfs;		    /* 0: it has no claim */
	struct claim_vf vfs[CLAIM_MAX_VFS];
	uint32_t n_hostdevs;
	struct claim_hostdev hostdevs[CLAIM_MAX_HOSTDEVS];
};

/*
 * Reads TEXT: a whole domain, or our element alone, with its namespace or, as virsh metadata shows
 * it, without. 0; -EINVAL with line and reason for what is not XML, or not as the schema has it;
 * -E2BIG if it is longer than CLAIM_MAX_BYTES. A domain without our element is no error. After an
 * error OUT says only whether the VM needs a VF, which it does where that could not be read.
 */
int claim_parse(struct claim *out, const char *text, size_t size, struct vgpu_error *err);

#endif
