/* SPDX-License-Identifier: MIT */
#include "capacity.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "control/change.h"
#include "engine/engine.h"
#include "promised.h"
#include "control/put.h"
#include "config/trial.h"
#include "vms/vm.h"

#define SHARE "min_ppm"
/* Shares are offered in per mille: schedulers of VMs count whole units. */
#define PPM 1000
#define WHOLE 1000
/* Guarantees are tried with world switches as long as the measured ones, rounded up to this, so
 * that the answer does not change with each measurement. */
#define SWITCH_STEP (50 * VGPU_USEC)

/* A question to the policy: the VFs' parameters, and which VFs get the share being searched for. */
struct question {
	const struct gpu *gpu;
	struct policy_values values;
	vgpu_vf_set asked;
	vgpu_nsec switch_ns;
};

/* Returns whether the policy admits a share, in per mille, for each of these VFs. */
static bool admits(struct question *q, int64_t share)
{
	const struct vgpu_policy_ops *policy = q->values.policy;
	const struct gpu *gpu = q->gpu;
	char text[24];
	struct trial_promise promises[VGPU_GPU_MAX_VFS];
	uint32_t vf;

	snprintf(text, sizeof(text), "%" PRId64, share * PPM);
	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
		if (q->asked >> vf & 1 && vgpu_param_set(policy->vf_params, SHARE, text,
							 q->values.vf_params[vf], NULL) < 0)
			return false;
	return trial_promises(gpu->config, engine_caps(gpu->engine), &q->values, q->switch_ns,
			      promises, NULL) == 0;
}

/* Finds by bisection the share next to HIGH, towards LOW, on LOW's side: LOW is admitted and HIGH
 * is not, or the other way round. */
static int64_t edge(struct question *q, int64_t low, int64_t high, bool low_is_admitted)
{
	int64_t middle;

	while (high - low > 1) {
		middle = (low + high) / 2;
		if (admits(q, middle) == low_is_admitted)
			low = middle;
		else
			high = middle;
	}
	return low_is_admitted ? low : high;
}

/* Finds the smallest and the largest admitted share. A guarantee can be too small as well as too
 * large; all between the two are admitted. Returns false if none is. */
static bool find(struct question *q, int64_t *least, int64_t *most)
{
	int64_t inside = WHOLE;

	while (inside > 0 && !admits(q, inside))
		inside /= 2;
	if (inside == 0)
		return false;
	if (most)
		*most = inside == WHOLE ? WHOLE : edge(q, inside, 2 * inside, true);
	*least = edge(q, 0, inside, false);
	return true;
}

/* The world-switch time with which guarantees are tried. */
static vgpu_nsec switch_of(const struct engine_snapshot *s)
{
	vgpu_nsec high = s->core.facts.switch_high_ns;

	return (high + SWITCH_STEP - 1) / SWITCH_STEP * SWITCH_STEP;
}

/* The VFs' configured values under the policy in force. */
static void ask_usual(struct question *q)
{
	uint32_t vf;

	q->values = *change_policy_of(q->gpu);
	for (vf = 0; vf < (uint32_t)q->gpu->config->vfs; vf++)
		config_vf_usual(q->gpu->config, vf, q->values.policy, q->values.vf_params[vf]);
}

/* The sum of equal shares of as many VFs as can have the LEAST each; *N is their number. Fewer VFs
 * could have a larger sum, but that sum would not show that more VFs are too many. */
static int64_t total(struct question *q, int64_t least, uint32_t *n)
{
	for (*n = (uint32_t)q->gpu->config->vfs; *n > 0; --*n) {
		ask_usual(q);
		q->asked = vgpu_first_vfs(*n);
		if (admits(q, least))
			return edge(q, least, WHOLE + 1, true) * *n;
	}
	return 0;
}

/* The sum of the promises to the VFs of VMs, in ppm, as vf.list shows them. */
static uint64_t promised(const struct call *call)
{
	uint64_t sum = 0;
	uint32_t vf;

	for (vf = 0; vf < call->snapshot.n_vfs; vf++)
		if (call->gpu->leases[vf].state != LEASE_NONE)
			sum += promised_ppm(call->snapshot.core.policy, &call->snapshot.vfs[vf]);
	return sum;
}

/* The first VF that a VM could get, and the number of them; -1: there is none. */
static int32_t free_vf(const struct gpu *gpu, const struct engine_snapshot *s, uint32_t *n)
{
	int32_t first = -1;
	uint32_t vf;

	for (vf = *n = 0; vf < s->n_vfs; vf++) {
		if (gpu->leases[vf].state != LEASE_NONE || s->vfs[vf].state != VGPU_VF_AVAIL)
			continue;
		first = first < 0 ? (int32_t)vf : first;
		++*n;
	}
	return first;
}

static bool is_same(const struct policy_values *a, const struct policy_values *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* The answer depends on the parameters of the policy and of the VFs, on the asking VF, and on the
 * world-switch time, and is reused while they stay the same. The least share depends on the
 * configured values, which change less often. */
int64_t capacity_largest_free(struct gpu *gpu, const struct engine_snapshot *s)
{
	const struct policy_values *values = change_policy_of(gpu);
	struct largest_free *last = &gpu->largest_free;
	struct question q = {.gpu = gpu, .asked = 1, .switch_ns = switch_of(s)};
	uint32_t n;
	int32_t vf = s->lost ? -1 : free_vf(gpu, s, &n);

	if (vf < 0)
		return 0;
	ask_usual(&q);
	if (last->switch_ns != q.switch_ns || !is_same(&last->usual, &q.values)) {
		*last = (struct largest_free){.vf = -1,
					      .switch_ns = q.switch_ns,
					      .usual = q.values};
		if (!find(&q, &last->least, NULL))
			last->least = 0;
	}
	if (last->vf == vf && is_same(&last->values, values))
		return last->share;
	last->vf = vf;
	last->values = *values;
	q.values = *values;
	q.asked = VGPU_VF_BIT(vf);
	last->share =
		last->least && admits(&q, last->least) ? edge(&q, last->least, WHOLE + 1, true) : 0;
	return last->share;
}

/* The figures of the shares; NULL: VFs cannot be guaranteed a share. */
static struct json_object *shares(const struct call *call)
{
	struct question q = {.gpu = call->gpu, .asked = 1, .switch_ns = switch_of(&call->snapshot)};
	int64_t least = 0, one = 0, all;
	struct json_object *o;
	uint32_t n = 0;

	ask_usual(&q);
	if (!find(&q, &least, &one))
		return NULL;
	all = total(&q, least, &n);
	o = json_object_new_object();
	put_int(o, "least", (uint64_t)least);
	put_int(o, "most", (uint64_t)(one < all ? one : all));
	put_int(o, "total", (uint64_t)all);
	put_int(o, "total_vfs", n);
	put_int(o, "largest_free", (uint64_t)capacity_largest_free(call->gpu, &call->snapshot));
	put_int(o, "switch_ns", q.switch_ns);
	return o;
}

/* The unit for booking memory, so that sums show what fits: the granule, or with placement =
 * profile the smallest of the profiles of SPAN. */
static uint64_t unit_of(const struct call *call, uint64_t span)
{
	uint64_t granule = call->snapshot.caps.granule;

	return call->gpu->config->placement == VGPU_PLACE_PROFILE
		       ? vgpu_memory_profile_of(span, granule, 1)
		       : granule;
}

/* The memory that VFs can have, and the most for one VF. No partition is larger than the GPU's
 * memory. VFs with a guaranteed share (SHARES: there may be some) must fit on the GPU together,
 * because only VFs with pinned = no are swapped. */
static struct json_object *memory(const struct call *call, bool shares)
{
	const struct engine_snapshot *s = &call->snapshot;
	const struct gpu_config *config = call->gpu->config;
	uint64_t span = s->caps.memory - s->found.partition.pf.size, unit = unit_of(call, span);
	uint64_t most = 0, fixed = 0, all, size;
	struct json_object *o = json_object_new_object();
	bool stay = false;
	uint32_t vf;

	for (vf = 0; vf < s->n_vfs; vf++) {
		fixed += (uint64_t)config->memory_mib[vf] << 20;
		size = config->on_demand ? (uint64_t)config->memory_mib[vf] << 20
					 : vm_memory_of(call->gpu, vf, s);
		most = size > most ? size : most;
		stay |= shares && config->pinned[vf] != PINNED_NO;
	}
	if (s->caps.memory == 0) {
		/* The kernel partitions it: only the VFs' present sizes are known. */
		span = fixed;
		unit = s->caps.granule;
	}
	all = s->caps.host && !(stay && s->caps.host > span) ? s->caps.host : span;
	if (config->on_demand && fixed < all && most < all - fixed)
		most = all - fixed;
	most = most < span ? most : span;
	put_int(o, "unit_bytes", unit);
	put_int(o, "total_bytes", all / unit * unit);
	put_int(o, "most_bytes", most / unit * unit);
	return o;
}

/* The names of the configuration's profiles, of all GPUs. */
static struct json_object *profiles(const struct config *config)
{
	struct json_object *list = json_object_new_array();
	uint32_t i;

	for (i = 0; i < config->n_profiles; i++)
		json_object_array_add(list, json_object_new_string(config->profiles[i].name));
	return list;
}

struct json_object *capacity_json(struct call *call)
{
	const struct gpu_config *config = call->gpu->config;
	const struct engine_snapshot *s = &call->snapshot;
	struct json_object *o = json_object_new_object(), *guarantees = shares(call);
	char address[PCI_ADDRESS_SIZE], host[256];
	uint32_t n;

	if (gethostname(host, sizeof(host)) < 0 || !memchr(host, '\0', sizeof(host)))
		strcpy(host, "localhost");
	free_vf(call->gpu, s, &n);
	put_text(o, "host", host);
	put_text(o, "metrics", call->control->config->metrics);
	put_text(o, "gpu", config->name);
	put_text(o, "pool", config->pool);
	if (gpu_pf_address(call->gpu, address))
		put_text(o, "pf_address", address);
	put_text(o, "model", s->caps.model);
	put_text(o, "state", s->lost ? "lost" : "running");
	put_text(o, "policy", change_policy_of(call->gpu)->policy->name);
	put_int(o, "vfs", s->n_vfs);
	put_int(o, "free_vfs", n);
	put_bool(o, "for_programs", config_is_gated(config));
	put_bool(o, "on_demand", config->on_demand != 0);
	put_int(o, "promised_ppm", promised(call));
	json_object_object_add(o, "profiles", profiles(call->control->config));
	json_object_object_add(o, "shares", guarantees);
	json_object_object_add(o, "memory", s->caps.granule ? memory(call, guarantees) : NULL);
	return o;
}
