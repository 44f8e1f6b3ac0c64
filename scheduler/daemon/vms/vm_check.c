/* SPDX-License-Identifier: MIT */
/*
 * A claim that no policy accepts leaves a domain that cannot start, which shows only at the start.
 * So programs check a claim before they change it. VFs that the VM has are tried together with the
 * present values of the other VFs. VFs that it would get at its start are tried together with the
 * others' configured values: another VM's guarantee may have ended by then, but a guarantee that
 * exceeds the GPU never fits.
 */
#include "vm_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/args.h"
#include "control/change.h"
#include "claim.h"
#include "engine/engine.h"
#include "lease.h"
#include "config/trial.h"
#include "vm.h"

static int refuse(const struct claim *claim, const struct claim_vf *claimed, int r,
		  struct vgpu_error *err)
{
	return vgpu_error_prefix(err, r, "%s/%s", claim->domain, claimed->name);
}

static int try(const struct gpu *gpu, const struct policy_values *values, struct vgpu_error *err)
{
	int32_t refused;

	return trial(gpu->config, engine_caps(gpu->engine), values, &refused, err);
}

/* The VM's VFs of this GPU; records in HAS which VFs of the claim they are for. */
static int check_leased(struct gpu *gpu, const struct claim *claim, vgpu_vf_set *has,
			struct vgpu_error *err)
{
	struct policy_values values = *change_policy_of(gpu);
	const struct claim_vf *last = NULL;
	struct gpu *at;
	uint32_t i, vf;
	int r;

	for (i = 0; i < claim->n_vfs; i++) {
		if (!lease_find(gpu->control, claim, claim->vfs[i].name, &at, &vf) || at != gpu)
			continue;
		*has |= VGPU_VF_BIT(i);
		last = &claim->vfs[i];
		r = vm_read_claimed(gpu, vf, values.policy, last, values.vf_params[vf], err);
		if (r < 0)
			return refuse(claim, last, r, err);
	}
	r = last ? try(gpu, &values, err) : 0;
	return r < 0 ? refuse(claim, last, r, err) : 0;
}

/* The values of a GPU's VFs at the VM's start: those in GIVEN have the VM's claim. */
struct start {
	struct policy_values values;
	vgpu_vf_set given;
};

static void begin_start(const struct gpu *gpu, struct start *s)
{
	uint32_t vf;

	s->values = *change_policy_of(gpu);
	s->given = 0;
	for (vf = 0; vf < gpu->config->vfs; vf++)
		config_vf_usual(gpu->config, vf, s->values.policy, s->values.vf_params[vf]);
}

/* Adds another VF that the VM would get of this GPU. On failure, S is unchanged. */
static int check_free(const struct gpu *gpu, struct start *s, const struct claim_vf *claimed,
		      struct vgpu_error *err)
{
	int64_t usual[VGPU_MAX_PARAMS], *params;
	uint32_t vf = 0, vfs = gpu->config->vfs;
	int r;

	if (claimed->vf >= 0 && (uint32_t)claimed->vf < vfs)
		vf = (uint32_t)claimed->vf;
	while (s->given >> vf & 1 && claimed->vf < 0 && vf + 1 < vfs)
		vf++;
	if (s->given >> vf & 1)
		return vgpu_error_set(
			err, -EBUSY,
			"%s has no further VF for the VM: claim fewer VFs, or configure more (vfs)",
			gpu->config->name);
	params = s->values.vf_params[vf];
	memcpy(usual, params, sizeof(usual));
	r = vm_read_claimed(gpu, vf, s->values.policy, claimed, params, err);
	if (r == 0)
		r = try(gpu, &s->values, err);
	if (r < 0)
		memcpy(params, usual, sizeof(usual));
	else
		s->given |= VGPU_VF_BIT(vf);
	return r;
}

/* Tries a VF that the VM would get: one GPU that accepts it is enough. */
static int check_any(struct control *control, struct start *starts, const struct claim *claim,
		     const struct claim_vf *claimed, struct vgpu_error *err)
{
	uint32_t g;
	int r = -ENOENT;

	vgpu_error_set(err, r, "there is no GPU for it (vgpuctl gpu list)");
	for (g = 0; g < control->n_gpus && r < 0; g++)
		if (vm_may_be_on(&control->gpus[g], claim, claimed))
			r = check_free(&control->gpus[g], &starts[g], claimed, err);
	return r < 0 ? refuse(claim, claimed, r, err) : 0;
}

/* Reads the domain, and the changed claim in place of its own. */
static int read_claim(const struct call *call, struct claim *out, struct vgpu_error *err)
{
	static struct claim domain; /* used by the control thread only */
	const char *xml = call_text(call, "xml"), *claim = call_text(call, "claim");
	int r = claim_parse(out, claim, strlen(claim), err);

	if (r < 0)
		return r;
	r = claim_parse(&domain, xml, strlen(xml), err);
	if (domain.uuid[0] == '\0')
		return r < 0 ? r : vgpu_error_set(err, -EINVAL, "the domain has no UUID");
	memcpy(out->uuid, domain.uuid, sizeof(out->uuid));
	memcpy(out->domain, domain.domain, sizeof(out->domain));
	memcpy(out->hostdevs, domain.hostdevs, sizeof(out->hostdevs));
	out->n_hostdevs = domain.n_hostdevs;
	vm_find_devices(call->control, out);
	return 0;
}

int vm_check_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	static struct claim claim; /* used by the control thread only */
	struct start *starts = calloc(control->n_gpus, sizeof(*starts));
	int r = starts ? read_claim(call, &claim, err)
		       : vgpu_error_set(err, -ENOMEM, "out of memory");
	vgpu_vf_set has = 0;
	uint32_t i;

	for (i = 0; i < control->n_gpus && r == 0 && !call_int(call, "next_start", 0); i++)
		r = check_leased(&control->gpus[i], &claim, &has, err);
	for (i = 0; i < control->n_gpus && r == 0; i++)
		begin_start(&control->gpus[i], &starts[i]);
	for (i = 0; i < claim.n_vfs && r == 0; i++) {
		if (vm_check_devices(control, &claim, &claim.vfs[i], false, err) < 0)
			r = refuse(&claim, &claim.vfs[i], -EINVAL, err);
		else if (!(has >> i & 1))
			r = check_any(control, starts, &claim, &claim.vfs[i], err);
	}
	free(starts);
	if (r == 0)
		call_answer(call, NULL);
	return r;
}
