/* SPDX-License-Identifier: MIT */
#include "claimed.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "engine/engine.h"
#include "control/heard.h"
#include "control/log.h"
#include "control/put.h"
#include "vgpu/clock.h"
#include "vgpu/param.h"

static void add(struct json_object *o, const struct claim_param *params, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		put_text(o, params[i].name, params[i].value);
}

struct json_object *claimed_params(const struct config *config, const struct claim_vf *claimed)
{
	const struct profile *p = config_profile(config, claimed->profile);
	struct json_object *o = json_object_new_object();

	if (claimed->profile[0] && p)
		add(o, p->params, p->n_params);
	add(o, claimed->params, claimed->n_params);
	return o;
}

void claimed_note(struct gpu *gpu, uint32_t vf, const struct claim_vf *claimed)
{
	struct lease *l = &gpu->leases[vf];

	json_object_put(l->claimed);
	l->claimed = claimed_params(gpu->control->config, claimed);
	snprintf(l->claimed_policy, sizeof(l->claimed_policy), "%s", claimed->policy);
	claimed_look(gpu, vf);
}

bool claimed_is_same(const struct gpu *gpu, uint32_t vf, const struct claim_vf *claimed)
{
	const struct lease *l = &gpu->leases[vf];
	struct json_object *o = claimed_params(gpu->control->config, claimed);
	bool is = l->claimed && json_object_equal(l->claimed, o) &&
		  strcmp(l->claimed_policy, claimed->policy) == 0;

	json_object_put(o);
	return is;
}

bool claimed_lost(const struct lease *l, const struct vgpu_policy_ops *policy, char *text,
		  size_t size)
{
	int64_t values[VGPU_MAX_PARAMS];
	char param[80];
	size_t n = 0;

	text[0] = '\0';
	if (!l->claimed)
		return false;
	json_object_object_foreach(l->claimed, name, value)
	{
		if (n >= size || vgpu_param_set(policy->vf_params, name,
						json_object_get_string(value), values, NULL) == 0)
			continue;
		vgpu_param_as_claimed(name, json_object_get_string(value), param, sizeof(param));
		n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", param);
	}
	if (n < size && l->claimed_policy[0] && strcmp(l->claimed_policy, policy->name) != 0)
		n += (size_t)snprintf(text + n, size - n, "%spolicy %s", n ? ", " : "",
				      l->claimed_policy);
	return n > 0;
}

char *claimed_refusal(const struct gpu *gpu, const struct vgpu_policy_ops *policy)
{
	const struct vgpu_policy_ops *now = engine_policy(gpu->engine)->to_come.policy;
	char lost[sizeof(gpu->leases[0].not_in_force)], lacks[sizeof(lost)], *text = NULL;
	size_t size, n = 0;
	uint32_t vf;
	FILE *to;

	to = open_memstream(&text, &size);
	if (!to)
		return strdup("out of memory");
	fprintf(to, "policy %s would drop what VMs of %s claim:", policy->name, gpu->config->name);
	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
		const struct lease *l = &gpu->leases[vf];

		if (l->state == LEASE_NONE || !claimed_lost(l, policy, lost, sizeof(lost)))
			continue;
		/* A parameter that is lost already is no reason to keep the policy. */
		claimed_lost(l, now, lacks, sizeof(lacks));
		if (strcmp(lost, lacks) == 0)
			continue;
		fprintf(to, "%s %s/%s: %s", n++ ? ";" : "", l->domain, l->vf_name, lost);
	}
	fprintf(to, ". Nothing was changed; with --force the VMs lose this until a policy has it "
		    "again");
	fclose(to);
	if (n > 0)
		return text;
	free(text);
	return NULL;
}

void claimed_look(struct gpu *gpu, uint32_t vf)
{
	const struct vgpu_policy_ops *policy = engine_policy(gpu->engine)->in_force.policy;
	struct lease *l = &gpu->leases[vf];
	struct vgpu_record r = {.t = vgpu_now(), .type = VGPU_REC_CLAIM, .vf = vf};
	char lost[sizeof(l->not_in_force)];
	bool any = claimed_lost(l, policy, lost, sizeof(lost));

	if (strcmp(lost, l->not_in_force) == 0)
		return;
	snprintf(l->not_in_force, sizeof(l->not_in_force), "%s", lost);
	r.code = any;
	heard_add(gpu, &r);
	if (any)
		log_about(about_vf(gpu, vf, LOG_CLAIM_NOT_IN_FORCE), LOG_WARNING,
			  "%s/%s: not in force: %s: policy %s does not have it", l->domain,
			  l->vf_name, lost, policy->name);
	else
		log_about(about_vf(gpu, vf, LOG_CLAIM_IN_FORCE), LOG_NOTICE,
			  "%s/%s: all that it claims is in force again", l->domain, l->vf_name);
}

void claimed_look_at_all(struct gpu *gpu)
{
	uint32_t vf;

	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
		if (gpu->leases[vf].state != LEASE_NONE)
			claimed_look(gpu, vf);
}
