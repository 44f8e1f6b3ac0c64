/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "report.h"

static int compare(const void *a, const void *b)
{
	vgpu_nsec x = *(const vgpu_nsec *)a, y = *(const vgpu_nsec *)b;

	return (x > y) - (x < y);
}

static void latencies(struct vhost_vf *vf, struct report_vf *out)
{
	out->jobs = vf->n_latencies;
	if (vf->n_latencies == 0)
		return;
	qsort(vf->latencies, vf->n_latencies, sizeof(vgpu_nsec), compare);
	out->p50_ms = (double)vf->latencies[(vf->n_latencies - 1) / 2] / 1e6;
	out->p99_ms = (double)vf->latencies[(vf->n_latencies - 1) * 99 / 100] / 1e6;
}

void report_add(struct report *report, const struct running *r)
{
	const struct vhost *h = &r->host;
	struct vgpu_core_view core;
	double all = 0, promised = 0, before = (double)report->decisions;
	struct vgpu_vf_view v;
	struct report_vf *out;
	uint32_t i;

	vgpu_core_view(h->core, &core);
	snprintf(report->policy, sizeof(report->policy), "%s", core.policy->name);
	report->vfs = realloc(report->vfs, (report->n_vfs + h->n_vfs) * sizeof(*report->vfs));
	for (i = 0; i < h->n_vfs; i++) {
		vgpu_core_vf_view(h->core, i, &v);
		out = &report->vfs[report->n_vfs + i];
		*out = (struct report_vf){
			.vf = r->vfs[i],
			.gpu = r->scenario->vfs[r->vfs[i]].gpu,
			.backlogged = h->vfs[i].work == VHOST_ALWAYS,
			.promised = (double)v.share_numerator /
				    (double)(v.share_denominator + !v.share_denominator),
			.share = (double)v.ledger.run_ns,
			.run_ms = (double)v.ledger.run_ns / 1e6,
			.overrun_ms = (double)v.ledger.overrun_ns / 1e6,
			.max_wait_ms = (double)v.ledger.wait_max_ns / 1e6,
			.turns = v.ledger.dispatches,
			.missed = h->vfs[i].missed,
		};
		latencies(&h->vfs[i], out);
		report->max_wait_ms = fmax(report->max_wait_ms, out->max_wait_ms);
		if (!out->backlogged) {
			report->fg_p99_ms = fmax(report->fg_p99_ms, out->p99_ms);
			continue;
		}
		all += out->share;
		promised += out->promised;
	}
	for (i = 0; i < h->n_vfs; i++) {
		out = &report->vfs[report->n_vfs + i];
		out->share = out->share / (all > 0 ? all : 1);
		if (!out->backlogged || out->promised == 0)
			continue;
		out->promised /= promised;
		out->error = fabs(out->share - out->promised) / out->promised;
		report->worst_error = fmax(report->worst_error, 100 * out->error);
	}
	report->n_vfs += h->n_vfs;
	report->decisions += h->switches;
	report->seconds = fmax(report->seconds, (double)h->now / 1e9);
	/* Means over GPUs, weighted by their decisions. */
	if (report->decisions) {
		double w = (double)h->switches / (double)report->decisions;
		double wall = (double)core.engine.wall_ns / 100 + 1;

		report->switch_pct = report->switch_pct * before / (double)report->decisions +
				     w * (double)running_switched(r) / wall;
		report->idle_pct = report->idle_pct * before / (double)report->decisions +
				   w * (double)core.engine.idle_ns / wall;
	}
	report->evictions += core.engine.evictions;
	report->refused += running_refused(r);
	report->violations += h->violations;
	report->hash = report->hash * UINT64_C(1099511628211) ^ h->hash;
	if (h->monitor) {
		struct monitor_result m;

		monitor_finish(h->monitor, &m);
		monitor_result_add(&report->monitor, &m);
	}
}

void report_free(struct report *report)
{
	free(report->vfs);
	report->vfs = NULL;
}

void report_table(const struct report *report, FILE *to)
{
	uint32_t i;

	fprintf(to, "policy %s, %.3f s, %llu decisions, %.2f %% switching, %.2f %% idle\n",
		report->policy, report->seconds, (unsigned long long)report->decisions,
		report->switch_pct, report->idle_pct);
	fprintf(to, "%-5s %-4s %9s %9s %12s %11s %11s %8s %8s %9s %9s\n", "VF", "GPU", "PROMISED",
		"RECEIVED", "RUN", "OVERRUN", "MAX WAIT", "TURNS", "JOBS", "P50", "P99");
	for (i = 0; i < report->n_vfs; i++) {
		const struct report_vf *v = &report->vfs[i];

		fprintf(to, "%-5u %-4u ", v->vf, v->gpu);
		if (v->backlogged)
			fprintf(to, "%7.3f %% %7.3f %% ", 100 * v->promised, 100 * v->share);
		else
			fprintf(to, "%9s %9s ", "-", "-");
		fprintf(to, "%9.1f ms %8.1f ms %8.2f ms %8llu ", v->run_ms, v->overrun_ms,
			v->max_wait_ms, (unsigned long long)v->turns);
		if (v->jobs)
			fprintf(to, "%8llu %6.2f ms %6.2f ms\n", (unsigned long long)v->jobs,
				v->p50_ms, v->p99_ms);
		else
			fprintf(to, "%8s %9s %9s\n", "-", "-", "-");
	}
}

static void put_real(struct json_object *o, const char *name, double v)
{
	char text[40];

	snprintf(text, sizeof(text), "%.6g", v);
	json_object_object_add(o, name, json_object_new_double_s(v, text));
}

static void put_int(struct json_object *o, const char *name, uint64_t v)
{
	json_object_object_add(o, name, json_object_new_int64((int64_t)v));
}

void report_json(const struct report *report, FILE *to)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array(), *v;
	char hash[20];
	uint32_t i;

	json_object_object_add(o, "policy", json_object_new_string(report->policy));
	put_real(o, "seconds", report->seconds);
	put_int(o, "decisions", report->decisions);
	put_real(o, "share_error_pct", report->worst_error);
	put_real(o, "switching_pct", report->switch_pct);
	put_real(o, "idle_pct", report->idle_pct);
	put_real(o, "max_wait_ms", report->max_wait_ms);
	put_real(o, "lag_over_bound", report->monitor.lag);
	put_real(o, "wait_over_bound", report->monitor.wait);
	put_int(o, "deadlines", report->monitor.deadlines);
	put_int(o, "missed", report->monitor.missed);
	put_real(o, "worst_miss_ms", (double)report->monitor.worst_miss / 1e6);
	put_int(o, "evictions", report->evictions);
	put_int(o, "refused", report->refused);
	put_int(o, "violations", report->violations);
	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)report->hash);
	json_object_object_add(o, "hash", json_object_new_string(hash));
	for (i = 0; i < report->n_vfs; i++) {
		const struct report_vf *r = &report->vfs[i];

		v = json_object_new_object();
		put_int(v, "vf", r->vf);
		put_int(v, "gpu", r->gpu);
		json_object_object_add(v, "backlogged", json_object_new_boolean(r->backlogged));
		put_real(v, "promised", r->promised);
		put_real(v, "share", r->share);
		put_real(v, "error_pct", 100 * r->error);
		put_real(v, "run_ms", r->run_ms);
		put_real(v, "overrun_ms", r->overrun_ms);
		put_real(v, "max_wait_ms", r->max_wait_ms);
		put_int(v, "turns", r->turns);
		put_int(v, "jobs", r->jobs);
		put_int(v, "missed", r->missed);
		put_real(v, "p50_ms", r->p50_ms);
		put_real(v, "p99_ms", r->p99_ms);
		json_object_array_add(list, v);
	}
	json_object_object_add(o, "vfs", list);
	fputs(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY), to);
	fputc('\n', to);
	json_object_put(o);
}

void report_refused(uint32_t n, FILE *to)
{
	if (n > 0)
		fprintf(to, "  (refused %u VF%s)", n, n == 1 ? "" : "s");
}

void report_compare_head(FILE *to)
{
	fprintf(to, "%-12s %12s %10s %10s %12s %10s %10s %8s\n", "RULE", "SHARE ERROR", "LAG/BOUND",
		"MAX WAIT", "OTHERS' P99", "SWITCHING", "IDLE", "TURNS");
}

void report_compare_line(const struct report *report, FILE *to)
{
	char lag[16] = "-", p99[20] = "-";

	if (report->monitor.lag > 0)
		snprintf(lag, sizeof(lag), "%.3f", report->monitor.lag);
	if (report->fg_p99_ms > 0)
		snprintf(p99, sizeof(p99), "%.2f ms", report->fg_p99_ms);
	fprintf(to, "%-12s %10.3f %% %10s %7.2f ms %12s %8.2f %% %8.2f %% %8llu", report->policy,
		report->worst_error, lag, report->max_wait_ms, p99, report->switch_pct,
		report->idle_pct, (unsigned long long)report->decisions);
	report_refused(report->refused, to);
	fputc('\n', to);
}

void report_log(const struct vhost *h, FILE *to)
{
	size_t i;

	for (i = 0; i < h->log_n; i++) {
		const struct vhost_dispatch *d = &h->log[i];

		fprintf(to, "t=%.3fms  vf %u runs", (double)d->start / 1e6, d->vf);
		if (d->end != VGPU_NEVER)
			fprintf(to, " %.3fms", (double)(d->end - d->start) / 1e6);
		fprintf(to, " of %.3fms\n", (double)d->granted / 1e6);
	}
}

int report_svg(const struct vhost *h, const char *path, vgpu_nsec from, vgpu_nsec until,
	       struct vgpu_error *err)
{
	static const char *const colours[] = {"#4c78a8", "#f58518", "#54a24b", "#e45756",
					      "#72b7b2", "#b279a2", "#ff9da6", "#9d755d"};
	double width = 1200, span = (double)(until - from);
	FILE *f = fopen(path, "w");
	uint32_t i;
	size_t k;

	if (!f)
		return vgpu_error_set(err, -errno, "%s: %s", path, strerror(errno));
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%u\" "
		"font-family=\"sans-serif\" font-size=\"11\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
		width + 80, 40 + 24 * h->n_vfs);
	for (i = 0; i < h->n_vfs; i++)
		fprintf(f, "<text x=\"4\" y=\"%u\">VF %u</text>\n", 34 + 24 * i, i);
	fprintf(f, "<text x=\"50\" y=\"14\">%.3f to %.3f ms</text>\n", (double)from / 1e6,
		(double)until / 1e6);
	for (k = 0; k < h->log_n; k++) {
		const struct vhost_dispatch *d = &h->log[k];
		vgpu_nsec end = d->end < until ? d->end : until;

		if (end <= from || d->start >= until)
			continue;
		fprintf(f, "<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"18\" fill=\"%s\"/>\n",
			50 + width * ((double)d->start - (double)from) / span, 20 + 24 * d->vf,
			width * (double)(end - d->start) / span, colours[d->vf % 8]);
	}
	fprintf(f, "</svg>\n");
	return fclose(f) == 0 ? 0 : vgpu_error_set(err, -errno, "%s: %s", path, strerror(errno));
}
