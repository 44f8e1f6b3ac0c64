/* SPDX-License-Identifier: MIT */
#include "limits.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "control/change.h"
#include "vms/claimed.h"
#include "vms/lease.h"
#include "vms/vm.h"

#define MILLION 1000000

/* The parameters by which policies give guarantees. */
enum { MIN_PPM, FPS, FRAME_US, BUDGET_US, PERIOD_US, GUARANTEES };
static const char *const guarantees[GUARANTEES] = {"min_ppm", "fps", "frame_us", "budget_us",
						   "period_us"};

/* The total of an owner, present and pending. */
struct sum {
	int64_t leases, share_ppm;
	uint64_t memory;
};

static bool is_member(const struct caller *caller, int fd, gid_t gid)
{
	gid_t groups[256];
	socklen_t size = sizeof(groups), i;

	if (caller->gid == gid)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
		return false;
	for (i = 0; i < size / sizeof(groups[0]); i++)
		if (groups[i] == gid)
			return true;
	return false;
}

const struct tenant_config *limits_of(const struct control *control, const struct caller *caller,
				      int fd, uid_t owner)
{
	static struct tenant_config usual; /* only the control thread uses it */
	const struct config *c = control->config;
	const struct tenant_config *t, *of_group = NULL, *of_others = NULL;
	/* Root may ask on behalf of other users, and is in other groups than they. */
	bool own_groups = caller->owner == owner && owner != 0;

	for (t = c->tenants; t < c->tenants + c->n_tenants; t++) {
		if (t->who == TENANT_USER && t->number == owner)
			return t;
		if (t->who == TENANT_GROUP && own_groups && !of_group &&
		    is_member(caller, fd, t->number))
			of_group = t;
		if (t->who == TENANT_OTHERS)
			of_others = t;
	}
	if (owner == 0)
		return NULL;
	config_tenant_default(&usual);
	return of_group ? of_group : of_others ? of_others : &usual;
}

/* The place of a limit in the configuration. */
static void where(const struct control *control, const struct tenant_config *limits, char *text,
		  size_t size)
{
	FILE *to;

	if (!limits->name[0]) {
		snprintf(text, size, "unless a section [tenant WHO] of %s allows more",
			 control->config->file);
		return;
	}
	memset(text, 0, size);
	to = fmemopen(text, size - 1, "w");
	if (!to)
		return;
	config_print_place(control->config, limits->at, to);
	fprintf(to, "[tenant %s]", limits->name);
	fclose(to);
}

__attribute__((format(printf, 4, 5))) static int refuse(const struct control *control,
							const struct tenant_config *limits,
							struct vgpu_error *err, const char *format,
							...)
{
	char text[300], place[400];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	where(control, limits, place, sizeof(place));
	return vgpu_error_set(err, -EDQUOT, "%s (%s)", text, place);
}

/* The value of a claim's parameter, from itself or its profile. */
static int64_t value_of(const struct control *control, const struct claim_vf *claimed,
			const char *name, int64_t otherwise)
{
	const struct profile *p = config_profile(control->config, claimed->profile);
	uint32_t i;

	for (i = 0; i < claimed->n_params; i++)
		if (strcmp(claimed->params[i].name, name) == 0)
			return strtoll(claimed->params[i].value, NULL, 10);
	for (i = 0; p && i < p->n_params; i++)
		if (strcmp(p->params[i].name, name) == 0)
			return strtoll(p->params[i].value, NULL, 10);
	return otherwise;
}

/* The part of all time, ppm, that values guarantee, for every form of guarantee. If the length of
 * frames or of a period is unknown, 0, it is the whole. */
static int64_t guarantee(const int64_t v[GUARANTEES])
{
	__int128 most = v[MIN_PPM];
	__int128 frames = (__int128)v[FPS] * (v[FRAME_US] > 0 ? v[FRAME_US] : MILLION);
	__int128 budget = (__int128)v[BUDGET_US] * MILLION / (v[PERIOD_US] > 0 ? v[PERIOD_US] : 1);

	most = frames > most ? frames : most;
	most = budget > most ? budget : most;
	return most < 0 ? 0 : most > MILLION ? MILLION : (int64_t)most;
}

/* The VF's guarantee to the owner of CLAIMED (claimed_params), beyond what the policy gives to
 * every VF. Parameters that root has configured for the VF do not count. */
static int64_t guaranteed(const struct gpu *gpu, uint32_t vf, struct json_object *claimed)
{
	const struct vgpu_policy_ops *policy = change_policy_of(gpu)->policy;
	int64_t values[VGPU_MAX_PARAMS], v[GUARANTEES] = {0};
	const struct vgpu_param *p;
	struct json_object *value;
	bool any = false;
	uint32_t i;

	config_vf_usual(gpu->config, vf, policy, values);
	for (i = 0; i < GUARANTEES; i++) {
		for (p = policy->vf_params; p->name; p++)
			if (strcmp(p->name, guarantees[i]) == 0)
				v[i] = values[p - policy->vf_params];
		if (json_object_object_get_ex(claimed, guarantees[i], &value)) {
			v[i] = strtoll(json_object_get_string(value), NULL, 10);
			any = true;
		}
	}
	return any ? guarantee(v) : 0;
}

/* The smallest guarantee that the claim would get on any GPU; 0: none. */
static int64_t least_guaranteed(const struct control *control, const struct claim_vf *claimed)
{
	struct json_object *params = claimed_params(control->config, claimed);
	int64_t least = -1, one;
	uint32_t g;

	for (g = 0; g < control->n_gpus; g++) {
		const struct gpu *gpu = &control->gpus[g];

		if (!vm_may_be_of(gpu, claimed) || !config_takes_tenants(gpu->config))
			continue;
		one = guaranteed(gpu, claimed->vf > 0 ? (uint32_t)claimed->vf : 0, params);
		least = least < 0 || one < least ? one : least;
	}
	json_object_put(params);
	return least < 0 ? 0 : least;
}

/* Adds up an owner's leases, without EXCEPT and without leases held for the container ID. */
static struct sum add_up(const struct control *control, uid_t owner, const struct lease *except,
			 const char *id)
{
	struct sum sum = {0};
	const struct lease *l;
	int64_t share;
	uint32_t g, vf;

	for (g = 0; g < control->n_gpus; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			l = &control->gpus[g].leases[vf];
			if (!lease_is_given(l) || l->by == CLAIM_BY_VM || l->owner != owner ||
			    l == except || (l->state == LEASE_HELD && id && strcmp(l->id, id) == 0))
				continue;
			sum.leases++;
			sum.memory += l->memory;
			share = guaranteed(&control->gpus[g], vf, l->claimed);
			sum.share_ppm += l->set_ppm > share ? l->set_ppm : share;
		}
	return sum;
}

/* Adds the owner's reservations in progress, without JOB. */
static void add_begun(const struct control *control, uid_t owner, const struct reservation *job,
		      struct sum *sum)
{
	const struct call *call;

	for (call = control->calls; call; call = call->next) {
		const struct reservation *r = reservation_of(call);

		if (!r || r == job || r->over || r->claim.by == CLAIM_BY_VM ||
		    r->claim.owner != owner)
			continue;
		sum->leases++;
		sum->memory += r->claim.vfs[0].memory;
		sum->share_ppm += least_guaranteed(control, &r->claim.vfs[0]);
	}
}

/* Weight and limit of one VF. */
static int check_params(const struct control *control, const struct tenant_config *t,
			const struct claim_vf *claimed, struct vgpu_error *err)
{
	int64_t weight = value_of(control, claimed, "weight", 0);
	int64_t most = value_of(control, claimed, "max_ppm", 0);

	if (t->weight && weight > t->weight)
		return refuse(control, t, err,
			      "weight %" PRId64 " is asked for, %" PRId64 " is allowed", weight,
			      t->weight);
	/* Policies give a weight of 100 to a VF without a claimed one. */
	if (t->weight && t->weight < 100 && !weight)
		return refuse(control, t, err,
			      "no weight is asked for, and at most %" PRId64 " is allowed",
			      t->weight);
	if (t->limit_percent < 100 && !most)
		return refuse(control, t, err,
			      "no limit is asked for, and at most %" PRId64 " %% are allowed",
			      t->limit_percent);
	if (most > t->limit_percent * 10000)
		return refuse(control, t, err,
			      "a limit of %" PRId64 ".%" PRId64 " %% is asked for, %" PRId64
			      " %% are allowed",
			      most / 10000, most / 1000 % 10, t->limit_percent);
	return 0;
}

static int check_share(const struct control *control, const struct tenant_config *t,
		       const struct sum *sum, int64_t more, struct vgpu_error *err)
{
	if (more <= 0 || sum->share_ppm + more <= t->share_percent * 10000)
		return 0;
	return refuse(control, t, err,
		      "a share of %" PRId64 ".%" PRId64 " %% is asked for beside %" PRId64
		      ".%" PRId64 " %% that this user has; %" PRId64 " %% are allowed",
		      more / 10000, more / 1000 % 10, sum->share_ppm / 10000,
		      sum->share_ppm / 1000 % 10, t->share_percent);
}

/* Returns whether LIST has the word NAME. */
static bool lists(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (; *list; list += strcspn(list, " ")) {
		list += strspn(list, " ");
		if (strncmp(list, name, n) == 0 && (list[n] == ' ' || !list[n]))
			return true;
	}
	return false;
}

static int check_gpus(const struct control *control, const struct tenant_config *t,
		      struct reservation *job, struct vgpu_error *err)
{
	const char *gpu = job->claim.vfs[0].gpu;
	uint32_t g;

	if (!t->gpus[0])
		return 0;
	if (gpu[0] && !lists(t->gpus, gpu))
		return refuse(control, t, err, "%s is asked for; allowed: %s", gpu, t->gpus);
	for (g = 0; g < control->n_gpus; g++)
		if (!lists(t->gpus, control->gpus[g].config->name))
			job->not_on |= UINT64_C(1) << g;
	return 0;
}

static int check_memory(const struct control *control, const struct tenant_config *t,
			const struct sum *sum, struct reservation *job, struct vgpu_error *err)
{
	const struct claim_vf *claimed = &job->claim.vfs[0];
	const struct profile *p = config_profile(control->config, claimed->profile);
	uint64_t most = (uint64_t)t->memory_mib << 20;
	uint64_t more = claimed->memory ? claimed->memory : p ? (uint64_t)p->memory_mib << 20 : 0;

	if (!most)
		return 0;
	if (sum->memory >= most || more > most - sum->memory)
		return refuse(control, t, err,
			      "%" PRIu64 " MiB are asked for beside %" PRIu64
			      " MiB that this user has; %" PRId64 " MiB are allowed",
			      more >> 20, sum->memory >> 20, t->memory_mib);
	job->most_memory = most - sum->memory;
	snprintf(job->most_why, sizeof(job->most_why),
		 "%" PRIu64 " MiB are left of the %" PRId64 " MiB that [tenant %s] allows",
		 job->most_memory >> 20, t->memory_mib, t->name);
	return 0;
}

int limits_check(const struct control *control, const struct tenant_config *t,
		 struct reservation *job, struct vgpu_error *err)
{
	struct claim_vf *claimed = &job->claim.vfs[0];
	struct sum sum;
	int r;

	if (!t)
		return 0;
	sum = add_up(control, job->claim.owner, NULL, job->claim.id[0] ? job->claim.id : NULL);
	add_begun(control, job->claim.owner, job, &sum);
	if (sum.leases >= t->leases)
		return refuse(control, t, err,
			      "this user has %" PRId64 " leases; %" PRId64 " are allowed at a time",
			      sum.leases, t->leases);
	r = check_gpus(control, t, job, err);
	if (r == 0)
		r = check_params(control, t, claimed, err);
	if (r == 0)
		r = check_share(control, t, &sum, least_guaranteed(control, claimed), err);
	return r < 0 ? r : check_memory(control, t, &sum, job, err);
}

int limits_check_change(const struct tenant_config *t, struct gpu *gpu, uint32_t vf,
			const struct claim_vf *claimed, struct vgpu_error *err)
{
	const struct control *control = gpu->control;
	struct lease *l = &gpu->leases[vf];
	struct json_object *params;
	struct sum sum;
	int64_t share;
	int r = t ? check_params(control, t, claimed, err) : 0;

	if (r < 0)
		return r;
	params = claimed_params(control->config, claimed);
	share = guaranteed(gpu, vf, params);
	json_object_put(params);
	sum = add_up(control, l->owner, l, NULL);
	add_begun(control, l->owner, NULL, &sum);
	r = t ? check_share(control, t, &sum, share, err) : 0;
	if (r == 0)
		l->set_ppm = share;
	return r;
}

int limits_check_given(const struct tenant_config *t, const struct gpu *gpu, uint32_t vf,
		       struct vgpu_error *err)
{
	const struct control *control = gpu->control;
	const struct lease *l = &gpu->leases[vf];
	struct sum sum = add_up(control, l->owner, l, NULL);

	if (!t)
		return 0;
	if (t->memory_mib && !l->memory)
		return refuse(control, t, err,
			      "no memory is asked for, and at most %" PRId64 " MiB are allowed",
			      t->memory_mib);
	if (t->memory_mib && sum.memory + l->memory > (uint64_t)t->memory_mib << 20)
		return refuse(control, t, err,
			      "this user would have %" PRIu64 " MiB; %" PRId64 " MiB are allowed",
			      (sum.memory + l->memory) >> 20, t->memory_mib);
	return check_share(control, t, &sum, guaranteed(gpu, vf, l->claimed), err);
}
