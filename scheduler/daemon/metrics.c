/* SPDX-License-Identifier: MIT */
#include "metrics.h"

#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "call.h"
#include "http.h"
#include "metrics_address.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

#define MAX_SCRAPES 4u
#define BACKLOG 16

struct metrics {
	struct control *control;
	struct http *http;
	char path[VGPU_SOCKET_PATH]; /* of the unix socket; "": none */
	uint32_t n_scrapes;
	struct scrape *scrapes;
};

/* A request for metrics: takes a snapshot of each GPU, one after the other. */
struct scrape {
	struct scrape *next;
	struct metrics *metrics;
	struct http_peer *peer; /* NULL: it has disconnected */
	uint32_t n;
	struct engine_snapshot *looks[CONFIG_MAX_GPUS]; /* NULL: out of memory */
};

/* What a metric is computed from. */
struct place {
	const struct gpu *gpu;
	const struct engine_snapshot *s;
	const struct vgpu_vf_view *vf; /* NULL: a metric of the GPU */
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
	return (double)p->s->found.partition.vfs[p->vf - p->s->vfs].size;
}

static double swap_wait(const struct place *p)
{
	return (double)p->s->waited / 1e9;
}

static double swapped(const struct place *p)
{
	return p->s->found.partition.vfs[p->vf - p->s->vfs].offset >= p->s->caps.memory;
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

static double lateness(const struct place *p)
{
	return (double)histogram_quantile(&p->s->lateness, 990) / 1e9;
}

static double world_switch(const struct place *p)
{
	return (double)histogram_quantile(&p->s->switches, 500) / 1e9;
}

/* All metrics: of a GPU (offset in struct engine_snapshot) or of each VF (in struct vgpu_vf_view).
 * SECONDS are nanoseconds there. */
enum kind { SECONDS, COUNT, GAUGE };
static const struct family {
	const char *name, *help;
	bool of_vf;
	enum kind kind;
	size_t at;				/* of a counter */
	double (*value)(const struct place *p); /* of a gauge */
	bool governed;				/* only GPUs whose firmware schedules have it */
} families[] = {
#define GPU_AT(f) offsetof(struct engine_snapshot, core.engine.f), NULL, false
#define MEMORY_AT(f) offsetof(struct engine_snapshot, memory.f), NULL, false
#define GOVERNOR_AT(f) offsetof(struct engine_snapshot, governor.f), NULL, true
#define VF_AT(f) offsetof(struct vgpu_vf_view, ledger.f), NULL, false
	{"vgpud_gpu_up", "1 if the GPU answers", false, GAUGE, 0, up, false},
	{"vgpud_gpu_wall_seconds", "time since vgpud took the GPU", false, SECONDS,
	 GPU_AT(wall_ns)},
	{"vgpud_gpu_idle_seconds", "time in which no VF had the engine, world switches excluded",
	 false, SECONDS, GPU_AT(idle_ns)},
	{"vgpud_gpu_switch_seconds", "time spent in world switches", false, SECONDS,
	 GPU_AT(switch_ns)},
	{"vgpud_gpu_switches", "number of world switches", false, COUNT, GPU_AT(switches)},
	{"vgpud_gpu_evictions", "policies that were evicted because they broke their contract",
	 false, COUNT, GPU_AT(evictions)},
	{"vgpud_gpu_free_memory_bytes", "memory that belongs to no partition", false, GAUGE, 0,
	 free_memory, false},
	{"vgpud_gpu_memory_cleared_bytes", "memory that was cleared and verified", false, COUNT,
	 MEMORY_AT(cleared)},
	{"vgpud_gpu_memory_moved_bytes", "memory of partitions that were moved to make room", false,
	 COUNT, MEMORY_AT(moved)},
	{"vgpud_gpu_memory_swapped_out_bytes", "memory of VFs that was swapped out to host memory",
	 false, COUNT, MEMORY_AT(swapped[0])},
	{"vgpud_gpu_memory_swapped_in_bytes", "memory of VFs that was swapped in from host memory",
	 false, COUNT, MEMORY_AT(swapped[1])},
	{"vgpud_gpu_memory_swap_wait_max_seconds",
	 "longest time that a VF with work was swapped out", false, GAUGE, 0, swap_wait, false},
	{"vgpud_gpu_memory_failed_pieces",
	 "pieces of memory that were not clear, or not equal to their original, when verified",
	 false, COUNT, MEMORY_AT(failed_pieces)},
	{"vgpud_gpu_memory_wait_seconds", "time that changes of partitions waited for memory",
	 false, SECONDS, MEMORY_AT(waited)},
	{"vgpud_gpu_boundary_lateness_p99_seconds",
	 "lateness of the ends of slices, 99th percentile", false, GAUGE, 0, lateness, false},
	{"vgpud_gpu_world_switch_p50_seconds", "control part of a world switch, median", false,
	 GAUGE, 0, world_switch, false},
	{"vgpud_gpu_plan_writes", "settings of VFs' turns that vgpud has changed in the firmware",
	 false, COUNT, GOVERNOR_AT(writes)},
	{"vgpud_gpu_plans_failed", "plans of turns that the GPU has refused", false, COUNT,
	 GOVERNOR_AT(failed)},
	{"vgpud_vf_quantum_seconds", "length of the VF's turns, as programmed", true, GAUGE, 0,
	 quantum, true},
	{"vgpud_vf_share_error_ratio",
	 "what the VF was served in the last 10 s less its share, among VFs that always had work",
	 true, GAUGE, 0, share_error, true},
	{"vgpud_vf_run_seconds", "time that the VF ran on the engine", true, SECONDS,
	 VF_AT(run_ns)},
	{"vgpud_vf_overrun_seconds", "overrun: engine time used past the ends of grants", true,
	 SECONDS, VF_AT(overrun_ns)},
	{"vgpud_vf_charged_seconds", "time charged to the VF's share", true, SECONDS,
	 VF_AT(charged_ns)},
	{"vgpud_vf_forgiven_seconds", "overrun that was not charged", true, SECONDS,
	 VF_AT(forgiven_ns)},
	{"vgpud_vf_switch_seconds", "world switch time that was charged to the VF", true, SECONDS,
	 VF_AT(switch_ns)},
	{"vgpud_vf_exclusive_seconds", "time in exclusive windows of the guest driver", true,
	 SECONDS, VF_AT(exclusive_ns)},
	{"vgpud_vf_wait_seconds", "time between having work and running", true, SECONDS,
	 VF_AT(wait_ns)},
	{"vgpud_vf_dispatches", "number of slices begun", true, COUNT, VF_AT(dispatches)},
	{"vgpud_vf_hangs", "number of hangs: the VF did not stop or answer in time", true, COUNT,
	 VF_AT(hangs)},
	{"vgpud_vf_resets", "number of resets by vgpud", true, COUNT, VF_AT(resets)},
	{"vgpud_vf_guest_resets", "number of resets by the guest", true, COUNT,
	 VF_AT(guest_resets)},
	{"vgpud_vf_violations",
	 "number of accesses outside the VF's partition, which the GPU stopped", true, COUNT,
	 VF_AT(violations)},
	{"vgpud_vf_share_ratio", "promised share of the GPU, 0 to 1", true, GAUGE, 0, share, false},
	{"vgpud_vf_lag_over_bound_ratio",
	 "lag relative to the bound that the policy promises; 0 without a bound", true, GAUGE, 0,
	 lag_over_bound, false},
	{"vgpud_vf_memory_bytes", "size of the VF's partition", true, GAUGE, 0, memory, false},
	{"vgpud_vf_swapped", "1 if the VF's memory is swapped out to host memory", true, GAUGE, 0,
	 swapped, false},
#undef GPU_AT
#undef MEMORY_AT
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

static void put_sample(struct evbuffer *out, const struct family *f, const struct place *p)
{
	const void *base = f->of_vf ? (const void *)p->vf : p->s;
	uint32_t vf = f->of_vf ? (uint32_t)(p->vf - p->s->vfs) : 0;
	char number[16];
	uint64_t n = 0;

	evbuffer_add_printf(out, "%s%s{", f->name, f->kind == GAUGE ? "" : "_total");
	put_label(out, "gpu", p->gpu->config->name);
	if (f->of_vf) {
		snprintf(number, sizeof(number), "%" PRIu32, vf);
		evbuffer_add(out, ",", 1);
		put_label(out, "vf", number);
		evbuffer_add(out, ",", 1);
		put_label(out, "domain",
			  p->gpu->leases[vf].state != LEASE_NONE ? p->gpu->leases[vf].domain : "");
	}
	if (f->kind != GAUGE)
		memcpy(&n, (const char *)base + f->at, sizeof(n));
	if (f->kind == GAUGE)
		evbuffer_add_printf(out, "} %.9g\n", f->value(p));
	else if (f->kind == COUNT)
		evbuffer_add_printf(out, "} %" PRIu64 "\n", n);
	else
		evbuffer_add_printf(out, "} %" PRIu64 ".%09" PRIu64 "\n", n / VGPU_SEC,
				    n % VGPU_SEC);
}

static bool ends(const char *text, const char *with)
{
	size_t n = strlen(text), m = strlen(with);

	return n > m && strcmp(text + n - m, with) == 0;
}

static void put_family(struct evbuffer *out, const struct family *f, const struct scrape *s)
{
	static const char *const units[] = {"seconds", "bytes", "ratio"};
	struct place p;
	bool somebody = !f->governed;
	uint32_t g, i;

	for (g = 0; g < s->n; g++)
		somebody |= s->looks[g] && s->looks[g]->governed;
	if (!somebody)
		return;
	evbuffer_add_printf(out, "# TYPE %s %s\n", f->name, f->kind == GAUGE ? "gauge" : "counter");
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (ends(f->name, units[i]))
			evbuffer_add_printf(out, "# UNIT %s %s\n", f->name, units[i]);
	evbuffer_add_printf(out, "# HELP %s %s\n", f->name, f->help);
	for (g = 0; g < s->n; g++) {
		p = (struct place){.gpu = &s->metrics->control->gpus[g], .s = s->looks[g]};
		if (p.s && f->governed && !p.s->governed)
			continue;
		if (p.s && !f->of_vf)
			put_sample(out, f, &p);
		for (i = 0; p.s && f->of_vf && i < p.s->n_vfs; i++) {
			p.vf = &p.s->vfs[i];
			put_sample(out, f, &p);
		}
	}
}

static void free_scrape(struct scrape *s)
{
	struct scrape **link = &s->metrics->scrapes;
	uint32_t i;

	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	s->metrics->n_scrapes--;
	for (i = 0; i < s->n; i++)
		free(s->looks[i]);
	free(s);
}

/* The client has disconnected. */
static void on_gone(struct http_peer *peer, void *data)
{
	struct scrape *s;

	for (s = ((struct metrics *)data)->scrapes; s; s = s->next)
		if (s->peer == peer)
			s->peer = NULL;
}

static void finish(struct scrape *s)
{
	struct evbuffer *out = evbuffer_new();
	size_t i;

	for (i = 0; out && s->peer && i < sizeof(families) / sizeof(families[0]); i++)
		put_family(out, &families[i], s);
	if (out && s->peer) {
		evbuffer_add_printf(out, "# EOF\n");
		http_answer(s->peer, "200 OK",
			    "application/openmetrics-text; version=1.0.0; charset=utf-8", out);
	} else if (s->peer) {
		http_answer(s->peer, "503 Service Unavailable", "text/plain", NULL);
	}
	if (out)
		evbuffer_free(out);
	free_scrape(s);
}

static void look_at_next(struct scrape *s);

static void on_snapshot(struct call *call)
{
	struct scrape *s = call->scrape;

	if (call->request.result == 0)
		s->looks[s->n] = malloc(sizeof(call->snapshot));
	if (s->looks[s->n])
		*s->looks[s->n] = call->snapshot;
	s->n++;
	call_drop(call);
	look_at_next(s);
}

static void look_at_next(struct scrape *s)
{
	struct control *control = s->metrics->control;
	struct call *call;

	for (; s->n < control->n_gpus; s->n++) {
		call = call_new(control, &control->gpus[s->n]);
		if (!call)
			continue;
		call->scrape = s;
		call->of_reader = true;
		call->then = on_snapshot;
		call->request = (struct engine_request){.ask = ENGINE_SNAPSHOT,
							.snapshot = &call->snapshot};
		call_queue(call);
		return;
	}
	finish(s);
}

static bool on_get(struct http_peer *peer, const char *path, void *data)
{
	struct metrics *m = data;
	struct scrape *s;

	if (strcmp(path, "/metrics") != 0)
		return false;
	s = m->n_scrapes < MAX_SCRAPES ? calloc(1, sizeof(*s)) : NULL;
	if (!s) {
		http_answer(peer, "503 Service Unavailable", "text/plain", NULL);
		return true;
	}
	m->n_scrapes++;
	*s = (struct scrape){.next = m->scrapes, .metrics = m, .peer = peer};
	m->scrapes = s;
	look_at_next(s);
	return true;
}

static const struct http_ops http_ops = {on_get, on_gone};

/* Returns a listening socket, which the caller closes, or -errno with the reason in ERR. */
static int listen_unix(struct metrics *m, const char *path, struct vgpu_error *err)
{
	int fd = vgpu_socket_listen(path, 0660, BACKLOG, err);

	if (fd < 0)
		return vgpu_error_prefix(err, fd, "metrics");
	snprintf(m->path, sizeof(m->path), "%s", path); /* metrics_stop unlinks it */
	return fd;
}

static int listen_tcp(const char *where, struct vgpu_error *err)
{
	char host[16] = "";
	int32_t port = metrics_address_split(where, host);
	struct sockaddr_in v4 = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
				  .sin6_port = htons((uint16_t)port),
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	bool is_v6 = strchr(host, ':') != NULL;
	struct sockaddr *address = is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
	socklen_t size = is_v6 ? sizeof(v6) : sizeof(v4);
	VGPU_AUTO_CLOSE int fd = -1;
	int yes = 1;

	fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
	    bind(fd, address, size) < 0 || listen(fd, BACKLOG) < 0)
		return vgpu_error_set(err, -errno, "metrics = %s: %s", where, strerror(errno));
	return vgpu_take(&fd);
}

int metrics_start(struct metrics **out, struct control *control, const char *where,
		  struct vgpu_error *err)
{
	struct metrics *m = where[0] ? calloc(1, sizeof(*m)) : NULL;
	int fd, r;

	*out = NULL;
	if (!where[0])
		return 0;
	if (!m)
		return vgpu_error_set(err, -ENOMEM, "metrics: out of memory");
	m->control = control;
	fd = strncmp(where, "unix:", 5) == 0 ? listen_unix(m, where + 5, err)
					     : listen_tcp(where, err);
	r = fd < 0 ? fd : http_start(&m->http, control->base, fd, &control->share, &http_ops, m);
	if (fd >= 0 && r < 0)
		vgpu_error_set(err, r, "metrics: out of memory");
	if (r < 0) {
		metrics_stop(m);
		return r;
	}
	*out = m;
	return 0;
}

void metrics_stop(struct metrics *m)
{
	struct call *call;

	if (!m)
		return;
	http_stop(m->http);
	/* The engines' answers to scrapes under way find no scrape. */
	for (call = m->control->calls; call; call = call->next)
		if (call->scrape) {
			free_scrape(call->scrape);
			call->scrape = NULL;
		}
	if (m->path[0])
		unlink(m->path);
	free(m);
}
