/* SPDX-License-Identifier: MIT */
#include "metrics_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "vms/vm.h"
#include "vgpu/policy.h"

/* The smallest and the largest bound of histograms, powers of two nanoseconds: 1 us and 4.3 s. */
#define LEAST_POWER 10u
#define GREATEST_POWER 32u

/* The inputs of a metric. */
struct place {
	const struct control *control;
	const struct gpu *gpu;
	const struct metrics_look *look;
	const struct engine_snapshot *s; /* of LOOK */
	const struct vgpu_vf_view *vf;	 /* NULL: a metric of the GPU */
};

static double up(const struct place *p)
{
	return !p->s->lost;
}

static double share(const struct place *p)
{
	return p->vf->share_denominator
		       ? (double)p->vf->share_numerator / (double)p->vf->share_denominator
		       : 0;
}

/* 0 if the policy promises no bound. */
static double lag_over_bound(const struct place *p)
{
	double lag = (double)(p->vf->lag_ns < 0 ? -p->vf->lag_ns : p->vf->lag_ns);

	return p->vf->bound.max_lag == VGPU_NEVER || p->vf->bound.max_lag == 0
		       ? 0
		       : lag / (double)p->vf->bound.max_lag;
}

static double memory(const struct place *p)
{
	return (double)vm_memory_of(p->gpu, (uint32_t)(p->vf - p->s->vfs), p->s);
}

static double swap_wait(const struct place *p)
{
	return (double)p->s->waited / 1e9;
}

static double swapped(const struct place *p)
{
	return vm_is_swapped((uint32_t)(p->vf - p->s->vfs), p->s);
}

static double spent_cpu(const struct place *p)
{
	return p->s->caps.counts ? (double)p->s->spent.cpu[p->vf - p->s->vfs] / 1e9 : NAN;
}

static double spent_jobs(const struct place *p)
{
	return p->s->caps.counts ? (double)p->s->spent.jobs[p->vf - p->s->vfs] : NAN;
}

static double by_driver(const struct place *p)
{
	return p->s->caps.watches ? (double)p->s->spent.driver[p->vf - p->s->vfs] / 1e9 : NAN;
}

static double beyond_turns(const struct place *p)
{
	return p->s->caps.watches ? (double)p->s->spent.beyond[p->vf - p->s->vfs] / 1e9 : NAN;
}

static double quantum(const struct place *p)
{
	return (double)p->s->governed_vfs[p->vf - p->s->vfs].quantum / 1e9;
}

/* 0 unless the VF always had work. */
static double share_error(const struct place *p)
{
	const struct engine_share *share = &p->s->shares[p->vf - p->s->vfs];

	return ((double)share->served_ppm - (double)share->promised_ppm) / 1e6;
}

static double free_memory(const struct place *p)
{
	return (double)p->s->found.partition.free;
}

static double largest_share(const struct place *p)
{
	return (double)p->look->largest_share / 1000;
}

static double largest_memory(const struct place *p)
{
	return (double)p->look->largest_memory;
}

/* All metrics: of vgpud, of a GPU (offset in struct engine_snapshot) or of each VF (in struct
 * vgpu_vf_view). SECONDS and HISTOGRAM are nanoseconds there. Of STATE there is a sample for each
 * state, 1 for the one in which the VF is; of GRANTED and REFUSED one for each kind of
 * request, and of REFUSED for each reason; of BOOKED for each result. */
enum kind { SECONDS, COUNT, GAUGE, HISTOGRAM, INFO, TENANT, STATE, GRANTED, REFUSED, BOOKED };
enum of { OF_VGPUD, OF_GPU, OF_VF };
static const struct family {
	const char *name, *help;
	enum of of;
	enum kind kind;
	size_t at; /* of a counter or a histogram */
	/* of a gauge, or of a counter that is not in the table; NAN: there is no sample */
	double (*value)(const struct place *p);
	bool governed; /* only GPUs whose firmware schedules have it */
} families[] = {
#define GPU_AT(f) offsetof(struct engine_snapshot, core.engine.f), NULL, false
#define MEMORY_AT(f) offsetof(struct engine_snapshot, memory.f), NULL, false
#define HISTOGRAM_AT(f) offsetof(struct engine_snapshot, f), NULL, false
#define GOVERNOR_AT(f) offsetof(struct engine_snapshot, governor.f), NULL, true
#define VF_AT(f) offsetof(struct vgpu_vf_view, ledger.f), NULL, false
	{"vgpud_build", "the version of vgpud that runs", OF_VGPUD, INFO, 0, NULL, false},
	{"vgpud_grants", "requests for VFs that were granted", OF_VGPUD, GRANTED, 0, NULL, false},
	{"vgpud_refusals", "requests for VFs that were refused, by reason", OF_VGPUD, REFUSED, 0,
	 NULL, false},
	{"vgpud_bookings", "lookups of the GPU that is booked for a VM, by outcome", OF_VGPUD,
	 BOOKED, 0, NULL, false},
	{"vgpud_gpu", "the GPU's device and pool, and the policy in force", OF_GPU, INFO, 0, NULL,
	 false},
	{"vgpud_gpu_up", "1 if the GPU answers", OF_GPU, GAUGE, 0, up, false},
	{"vgpud_gpu_wall_seconds", "time since vgpud took the GPU", OF_GPU, SECONDS,
	 GPU_AT(wall_ns)},
	{"vgpud_gpu_idle_seconds", "time in which no VF had the engine, world switches excluded",
	 OF_GPU, SECONDS, GPU_AT(idle_ns)},
	{"vgpud_gpu_switch_seconds", "time spent in world switches", OF_GPU, SECONDS,
	 GPU_AT(switch_ns)},
	{"vgpud_gpu_switches", "number of world switches", OF_GPU, COUNT, GPU_AT(switches)},
	{"vgpud_gpu_evictions", "policies that were evicted because they broke their contract",
	 OF_GPU, COUNT, GPU_AT(evictions)},
	{"vgpud_gpu_free_memory_bytes", "memory that belongs to no partition", OF_GPU, GAUGE, 0,
	 free_memory, false},
	{"vgpud_gpu_largest_free_memory_bytes",
	 "largest partition for which the GPU's memory has room once partitions are moved", OF_GPU,
	 GAUGE, 0, largest_memory, false},
	{"vgpud_gpu_largest_free_share_ratio",
	 "largest share that one more VM would be guaranteed; 0 without a free VF, or if the "
	 "policy guarantees none",
	 OF_GPU, GAUGE, 0, largest_share, false},
	{"vgpud_gpu_memory_cleared_bytes", "memory that was cleared and verified", OF_GPU, COUNT,
	 MEMORY_AT(cleared)},
	{"vgpud_gpu_memory_moved_bytes", "memory of partitions that were moved to make room",
	 OF_GPU, COUNT, MEMORY_AT(moved)},
	{"vgpud_gpu_memory_swapped_out_bytes", "memory of VFs that was swapped out to host memory",
	 OF_GPU, COUNT, MEMORY_AT(swapped[0])},
	{"vgpud_gpu_memory_swapped_in_bytes", "memory of VFs that was swapped in from host memory",
	 OF_GPU, COUNT, MEMORY_AT(swapped[1])},
	{"vgpud_gpu_memory_swap_wait_max_seconds",
	 "longest time that a VF with work was swapped out", OF_GPU, GAUGE, 0, swap_wait, false},
	{"vgpud_gpu_memory_failed_pieces",
	 "pieces of memory that were not clear, or not equal to their original, when verified",
	 OF_GPU, COUNT, MEMORY_AT(failed_pieces)},
	{"vgpud_gpu_memory_wait_seconds", "time that changes of partitions waited for memory",
	 OF_GPU, SECONDS, MEMORY_AT(waited)},
	{"vgpud_gpu_boundary_lateness_seconds",
	 "lateness of the ends of slices: from the planned instant to the command", OF_GPU,
	 HISTOGRAM, HISTOGRAM_AT(lateness)},
	{"vgpud_gpu_preemption_seconds", "time in which a VF left the engine, from the command",
	 OF_GPU, HISTOGRAM, HISTOGRAM_AT(preemption)},
	{"vgpud_gpu_world_switch_seconds",
	 "control part of a world switch: from one VF off the engine to the next one on it", OF_GPU,
	 HISTOGRAM, HISTOGRAM_AT(switches)},
	{"vgpud_gpu_decision_seconds", "time of one event in core and policy", OF_GPU, HISTOGRAM,
	 HISTOGRAM_AT(decisions)},
	{"vgpud_gpu_plan_writes", "settings of VFs' turns that vgpud has changed in the firmware",
	 OF_GPU, COUNT, GOVERNOR_AT(writes)},
	{"vgpud_gpu_plans_failed", "plans of turns that the GPU has refused", OF_GPU, COUNT,
	 GOVERNOR_AT(failed)},
	{"vgpud_vf_quantum_seconds", "length of the VF's turns, as programmed", OF_VF, GAUGE, 0,
	 quantum, true},
	{"vgpud_vf_share_error_ratio",
	 "what the VF was served in the last 10 s less its share, among VFs that always had work",
	 OF_VF, GAUGE, 0, share_error, true},
	{"vgpud_vf_tenant",
	 "what has the VF: a vm, program or container; of a container, its image and pod", OF_VF,
	 TENANT, 0, NULL, false},
	{"vgpud_vf_state", "1 for the state in which the VF is", OF_VF, STATE, 0, NULL, false},
	{"vgpud_vf_run_seconds", "time that the VF ran on the engine", OF_VF, SECONDS,
	 VF_AT(run_ns)},
	{"vgpud_vf_overrun_seconds", "overrun: engine time used past the ends of grants", OF_VF,
	 SECONDS, VF_AT(overrun_ns)},
	{"vgpud_vf_charged_seconds", "time charged to the VF's share", OF_VF, SECONDS,
	 VF_AT(charged_ns)},
	{"vgpud_vf_forgiven_seconds", "overrun that was not charged", OF_VF, SECONDS,
	 VF_AT(forgiven_ns)},
	{"vgpud_vf_switch_seconds", "world switch time that was charged to the VF", OF_VF, SECONDS,
	 VF_AT(switch_ns)},
	{"vgpud_vf_exclusive_seconds", "time in exclusive windows of the guest driver", OF_VF,
	 SECONDS, VF_AT(exclusive_ns)},
	{"vgpud_vf_wait_seconds", "time between having work and running", OF_VF, SECONDS,
	 VF_AT(wait_ns)},
	{"vgpud_vf_dispatches", "number of slices begun", OF_VF, COUNT, VF_AT(dispatches)},
	{"vgpud_vf_hangs",
	 "number of hangs and faults: the VF did not stop or answer in time, or the GPU reported a "
	 "fault of it",
	 OF_VF, COUNT, VF_AT(hangs)},
	{"vgpud_vf_resets", "number of resets by vgpud", OF_VF, COUNT, VF_AT(resets)},
	{"vgpud_vf_guest_resets", "number of resets by the guest", OF_VF, COUNT,
	 VF_AT(guest_resets)},
	{"vgpud_vf_violations",
	 "number of violations: accesses outside the VF's partition, computing past its gate",
	 OF_VF, COUNT, VF_AT(violations)},
	{"vgpud_vf_cpu_seconds",
	 "host CPU time that the VF's processes have used; only on GPUs that count it", OF_VF,
	 SECONDS, 0, spent_cpu, false},
	{"vgpud_vf_jobs",
	 "work that the VF's processes report as completed; only on GPUs that count it", OF_VF,
	 COUNT, 0, spent_jobs, false},
	{"vgpud_vf_driver_seconds",
	 "engine time of the VF's processes, as the kernel's driver counts it (fdinfo)", OF_VF,
	 SECONDS, 0, by_driver, false},
	{"vgpud_vf_driver_beyond_seconds",
	 "of vgpud_vf_driver_seconds, what was computed beyond the VF's turns", OF_VF, SECONDS, 0,
	 beyond_turns, false},
	{"vgpud_vf_share_ratio", "promised share of the GPU, 0 to 1", OF_VF, GAUGE, 0, share,
	 false},
	{"vgpud_vf_lag_over_bound_ratio",
	 "lag relative to the bound that the policy promises; 0 without a bound", OF_VF, GAUGE, 0,
	 lag_over_bound, false},
	{"vgpud_vf_memory_bytes", "size of the VF's partition", OF_VF, GAUGE, 0, memory, false},
	{"vgpud_vf_swapped", "1 if the VF's memory is swapped out to host memory", OF_VF, GAUGE, 0,
	 swapped, false},
#undef GPU_AT
#undef MEMORY_AT
#undef HISTOGRAM_AT
#undef GOVERNOR_AT
#undef VF_AT
};

/* Prints a label, its value escaped (OpenMetrics 1.0, escaped-string). */
static void put_label(struct evbuffer *out, const char *name, const char *value)
{
	evbuffer_add_printf(out, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '\n')
			evbuffer_add(out, "\\n", 2);
		else if (*value == '"' || *value == '\\')
			evbuffer_add_printf(out, "\\%c", *value);
		else
			evbuffer_add(out, value, 1);
	}
	evbuffer_add(out, "\"", 1);
}

/* Prints "NAME{labels", of a sample of a family. */
static void put_name(struct evbuffer *out, const struct family *f, const char *suffix,
		     const struct place *p)
{
	uint32_t vf = f->of == OF_VF ? (uint32_t)(p->vf - p->s->vfs) : 0;
	char number[16];

	evbuffer_add_printf(out, "%s%s{", f->name, suffix);
	if (f->of == OF_VGPUD)
		return;
	put_label(out, "gpu", p->gpu->config->name);
	if (f->of != OF_VF)
		return;
	snprintf(number, sizeof(number), "%" PRIu32, vf);
	evbuffer_add(out, ",", 1);
	put_label(out, "vf", number);
	evbuffer_add(out, ",", 1);
	put_label(out, "domain",
		  p->gpu->leases[vf].state != LEASE_NONE ? p->gpu->leases[vf].domain : "");
}

static void put_seconds(struct evbuffer *out, uint64_t ns)
{
	evbuffer_add_printf(out, "%" PRIu64 ".%09" PRIu64, ns / VGPU_SEC, ns % VGPU_SEC);
}

static void put_bucket(struct evbuffer *out, const struct family *f, const struct place *p,
		       const char *le, uint64_t n)
{
	put_name(out, f, "_bucket", p);
	evbuffer_add(out, ",", 1);
	put_label(out, "le", le);
	evbuffer_add_printf(out, "} %" PRIu64 "\n", n);
}

/* A bound is a power of two: times below it are counted, and one that equals it, by the nanosecond,
 * is not. */
static void put_histogram(struct evbuffer *out, const struct family *f, const struct place *p)
{
	const struct histogram *h =
		(const struct histogram *)(const void *)((const char *)p->s + f->at);
	char le[32];
	uint32_t power;

	for (power = LEAST_POWER; power <= GREATEST_POWER; power += 2) {
		snprintf(le, sizeof(le), "%.9g", (double)((uint64_t)1 << power) / 1e9);
		put_bucket(out, f, p, le, histogram_below(h, power));
	}
	put_bucket(out, f, p, "+Inf", h->n);
	put_name(out, f, "_count", p);
	evbuffer_add_printf(out, "} %" PRIu64 "\n", h->n);
	put_name(out, f, "_sum", p);
	evbuffer_add_printf(out, "} ");
	put_seconds(out, h->sum);
	evbuffer_add(out, "\n", 1);
}

static void put_info(struct evbuffer *out, const struct family *f, const struct place *p)
{
	put_name(out, f, "_info", p);
	if (f->of == OF_VGPUD) {
		put_label(out, "version", VGPU_VERSION);
	} else {
		evbuffer_add(out, ",", 1);
		put_label(out, "device", p->gpu->config->device);
		evbuffer_add(out, ",", 1);
		put_label(out, "pool", p->gpu->config->pool);
		evbuffer_add(out, ",", 1);
		put_label(out, "policy", p->s->core.policy ? p->s->core.policy->name : "");
	}
	evbuffer_add_printf(out, "} 1\n");
}

static void put_tenant(struct evbuffer *out, const struct family *f, const struct place *p)
{
	static const char *const names[] = {"image", "pod", "namespace"};
	const struct lease *l = &p->gpu->leases[p->vf - p->s->vfs];
	const char *text;
	size_t i;

	put_name(out, f, "_info", p);
	evbuffer_add(out, ",", 1);
	put_label(out, "kind", l->state == LEASE_NONE ? "" : claim_by_names[l->by]);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		text = json_object_get_string(json_object_object_get(l->engine_names, names[i]));
		evbuffer_add(out, ",", 1);
		put_label(out, names[i], text ? text : "");
	}
	evbuffer_add_printf(out, "} 1\n");
}

static void put_states(struct evbuffer *out, const struct family *f, const struct place *p)
{
	uint32_t i;

	for (i = 0; i < VGPU_VF_STATE_COUNT; i++) {
		put_name(out, f, "", p);
		evbuffer_add(out, ",", 1);
		put_label(out, "state", vgpu_vf_state_names[i]);
		evbuffer_add_printf(out, "} %d\n", p->vf->state == i);
	}
}

static void put_granted(struct evbuffer *out, const struct family *f, const struct place *p)
{
	uint32_t i;

	for (i = 0; i < REFUSAL_REQUESTS; i++) {
		put_name(out, f, "_total", p);
		put_label(out, "request", refusal_requests[i]);
		evbuffer_add_printf(out, "} %" PRIu64 "\n", p->control->refusals.granted[i]);
	}
}

static void put_refused(struct evbuffer *out, const struct family *f, const struct place *p)
{
	uint32_t i, j;

	for (i = 0; i < REFUSAL_REQUESTS; i++)
		for (j = 0; j < REFUSAL_REASONS; j++) {
			put_name(out, f, "_total", p);
			put_label(out, "request", refusal_requests[i]);
			evbuffer_add(out, ",", 1);
			put_label(out, "reason", refusal_reasons[j]);
			evbuffer_add_printf(out, "} %" PRIu64 "\n",
					    p->control->refusals.refused[i][j]);
		}
}

static void put_booked(struct evbuffer *out, const struct family *f, const struct place *p)
{
	uint32_t i;

	for (i = 0; i < REFUSAL_BOOKINGS; i++) {
		put_name(out, f, "_total", p);
		put_label(out, "result", refusal_bookings[i]);
		evbuffer_add_printf(out, "} %" PRIu64 "\n", p->control->refusals.bookings[i]);
	}
}

static void put_number(struct evbuffer *out, const struct family *f, const struct place *p)
{
	const void *base = f->of == OF_VF ? (const void *)p->vf : p->s;
	double value = f->value ? f->value(p) : 0;
	uint64_t n = 0;

	if (isnan(value))
		return;
	put_name(out, f, f->kind == GAUGE ? "" : "_total", p);
	evbuffer_add_printf(out, "} ");
	if (!f->value)
		memcpy(&n, (const char *)base + f->at, sizeof(n));
	if (f->value)
		evbuffer_add_printf(out, "%.*g", f->kind == GAUGE ? 9 : 15, value);
	else if (f->kind == COUNT)
		evbuffer_add_printf(out, "%" PRIu64, n);
	else
		put_seconds(out, n);
	evbuffer_add(out, "\n", 1);
}

/* The type of each kind in both formats; the suffix of its samples, which the older format has in
 * the family's name; and what prints it. */
static const struct {
	const char *types[METRICS_FORMATS], *suffix;
	void (*put)(struct evbuffer *out, const struct family *f, const struct place *p);
} kinds[] = {
	[SECONDS] = {{"counter", "counter"}, "_total", put_number},
	[COUNT] = {{"counter", "counter"}, "_total", put_number},
	[GAUGE] = {{"gauge", "gauge"}, "", put_number},
	[HISTOGRAM] = {{"histogram", "histogram"}, "", put_histogram},
	[INFO] = {{"gauge", "info"}, "_info", put_info},
	[TENANT] = {{"gauge", "info"}, "_info", put_tenant},
	[STATE] = {{"gauge", "gauge"}, "", put_states},
	[GRANTED] = {{"counter", "counter"}, "_total", put_granted},
	[REFUSED] = {{"counter", "counter"}, "_total", put_refused},
	[BOOKED] = {{"counter", "counter"}, "_total", put_booked},
};

static bool ends(const char *text, const char *with)
{
	size_t n = strlen(text), m = strlen(with);

	return n > m && strcmp(text + n - m, with) == 0;
}

static void put_head(struct evbuffer *out, enum metrics_format format, const struct family *f)
{
	static const char *const units[] = {"seconds", "bytes", "ratio"};
	const char *suffix = format == METRICS_OPEN ? "" : kinds[f->kind].suffix;
	size_t i;

	evbuffer_add_printf(out, "# TYPE %s%s %s\n", f->name, suffix, kinds[f->kind].types[format]);
	for (i = 0; format == METRICS_OPEN && i < sizeof(units) / sizeof(units[0]); i++)
		if (ends(f->name, units[i]))
			evbuffer_add_printf(out, "# UNIT %s %s\n", f->name, units[i]);
	evbuffer_add_printf(out, "# HELP %s%s %s\n", f->name, suffix, f->help);
}

static void put_family(struct evbuffer *out, const struct family *f, const struct control *control,
		       struct metrics_look *const *looks)
{
	struct place p = {.control = control};
	uint32_t g, i;

	if (f->of == OF_VGPUD)
		kinds[f->kind].put(out, f, &p);
	for (g = 0; f->of != OF_VGPUD && g < control->n_gpus; g++) {
		p = (struct place){.control = control,
				   .gpu = &control->gpus[g],
				   .look = looks[g],
				   .s = looks[g] ? &looks[g]->snapshot : NULL};
		if (p.s && f->governed && !p.s->governed)
			continue;
		if (p.s && f->of == OF_GPU)
			kinds[f->kind].put(out, f, &p);
		for (i = 0; p.s && f->of == OF_VF && i < p.s->n_vfs; i++) {
			p.vf = &p.s->vfs[i];
			kinds[f->kind].put(out, f, &p);
		}
	}
}

static bool some_governed(const struct control *control, struct metrics_look *const *looks)
{
	uint32_t g;

	for (g = 0; g < control->n_gpus; g++)
		if (looks[g] && looks[g]->snapshot.governed)
			return true;
	return false;
}

void metrics_write(struct evbuffer *out, enum metrics_format format, const struct control *control,
		   struct metrics_look *const *looks)
{
	size_t i;

	for (i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		if (families[i].governed && !some_governed(control, looks))
			continue;
		put_head(out, format, &families[i]);
		put_family(out, &families[i], control, looks);
	}
	if (format == METRICS_OPEN)
		evbuffer_add_printf(out, "# EOF\n");
}
