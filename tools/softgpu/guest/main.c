/* SPDX-License-Identifier: MIT */
/*
 * vgpu-guest: a tenant that computes. It keeps its VF busy, or disturbs other VFs, checks every
 * result against a reference that the CPU has computed, and reports how fast its jobs were.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <json-c/json.h>

#include "guest.h"
#include "launch.h"
#include "workload.h"
#include "vgpu/clock.h"
#include "vgpu/options.h"
#include "vgpu/output.h"

#define MAX_DEPTH 16u
#define MAX_SAMPLES (1u << 20)
#define TIMEOUT (30 * VGPU_SEC)

struct options {
	const char *png, *socket, *device;
	char name[160]; /* of the VF */
	const struct workload *workload;
	struct workload_options w;
	double seconds;
	uint64_t jobs;
	uint32_t depth;
	double rate;
	bool json, leave;
};

struct result {
	uint64_t jobs, wrong, resets, errors;
	vgpu_nsec began;
	uint32_t *samples_us;
	uint32_t n_samples;
};

static volatile sig_atomic_t interrupted, asked;

static void on_signal(int number)
{
	if (number == SIGUSR1)
		asked = 1;
	else
		interrupted = 1;
}

#define ROW(name, value, kind, member, help, ...)                                                  \
	VGPU_OPTION(name, value, help, kind, offsetof(struct options, member), __VA_ARGS__)
static const struct vgpu_option rows[] = {
	ROW("socket", "PATH", TEXT, socket, "the VF's vfio-user socket"),
	ROW("device", "NAME", TEXT, device,
	    "the VF as vfio:ADDRESS, through the kernel's VFIO; add ,token=UUID or "
	    ",token-file=PATH if its PF is opened with a token"),
	ROW("seconds", "N", REAL, seconds, "run for N seconds (5)", .max = 1e6),
	ROW("jobs", "N", TIMES, jobs, "run at most N jobs (no limit)", .min = 1, .max = 1e12,
	    .scale = 1),
	ROW("depth", "N", WHOLE32, depth, "jobs in flight, 1 to 16 (2; interactive: 1)", .min = 1,
	    .max = MAX_DEPTH),
	ROW("rate", "HZ", REAL, rate, "jobs started a second (interactive: 60; others: no limit)",
	    .min = 0.001, .max = 1e5),
	ROW("us", "N", TIMES, w.us, "length of a spin, hog or interactive job, microseconds (1000)",
	    .min = 1, .max = 1e7, .scale = 1),
	ROW("size", "N", WHOLE32, w.size, "size of the problem, 1 to 8 (1)", .min = 1, .max = 8),
	ROW("device-memory", NULL, FLAG, w.device_memory,
	    "compute in the device memory behind the window"),
	ROW("png", "PREFIX", TEXT, png, "mandelbrot: write frames to PREFIX-N.png"),
	ROW("leave", NULL, FLAG, leave, "end without bringing the VF down, as a killed VM would"),
	ROW("json", NULL, FLAG, json, "print one JSON object"),
	{.name = NULL},
};

static void usage(FILE *to)
{
	size_t i;

	fputs("usage: vgpu-guest WORKLOAD --socket PATH|--device NAME [options]\n"
	      "       vgpu-guest launch FILE --function NAME ... (see vgpu-guest launch --help)\n"
	      "Runs work on a softgpu VF and checks its results.\n\nWorkloads:\n",
	      to);
	for (i = 0; workloads[i]; i++)
		fprintf(to, "  %-12s %s\n", workloads[i]->name, workloads[i]->help);
	fputs("\nOptions:\n", to);
	vgpu_options_list(rows, 20, to);
	fputs("SIGINT ends it; SIGUSR1 makes it report after its next job.\n"
	      "Exit status: 0 if all results were right, 1 if not or after an error, 2 for wrong\n"
	      "arguments, 3 if the host refuses the VF the engine.\n",
	      to);
}

static int parse(int argc, char **argv, struct options *o)
{
	int r = vgpu_options_read("vgpu-guest", rows, usage, argc, argv, o);

	if (r != 0)
		return r;
	if (optind + 1 != argc || (!o->socket && !o->device)) {
		fprintf(stderr,
			"vgpu-guest: give one WORKLOAD, and --socket or --device; see --help\n");
		return -EINVAL;
	}
	guest_name(o->name, sizeof(o->name), o->socket, o->device);
	o->workload = workload_find(argv[optind]);
	if (!o->workload) {
		fprintf(stderr, "vgpu-guest: %s: no such workload; see --help\n", argv[optind]);
		return -EINVAL;
	}
	if (o->depth == 0)
		o->depth = o->workload->depth;
	if (o->rate == 0)
		o->rate = o->workload->rate;
	return 0;
}

struct flight {
	uint64_t fence;
	vgpu_nsec submitted;
};

static int submit(struct guest *g, struct workload_state *state, uint32_t slot, struct flight *f)
{
	workload_emit(state, g, slot);
	f->fence = guest_put_fence(g);
	f->submitted = vgpu_now();
	return guest_ring(g);
}

static void sleep_until(vgpu_nsec t)
{
	struct timespec until = {(time_t)(t / VGPU_SEC), (long)(t % VGPU_SEC)};

	while (!interrupted &&
	       clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* Prints what has been done so far. */
static void report(const struct options *o, struct result *r);

/* Runs jobs until DEADLINE, or until enough have run. Checks each job when its fence is reached,
 * and uses its slot again. 0, or guest_wait()'s error. */
static int run_jobs(struct guest *g, struct workload_state *state, const struct options *o,
		    struct result *res, vgpu_nsec deadline)
{
	struct flight flights[MAX_DEPTH];
	vgpu_nsec next = vgpu_now(), period = o->rate > 0 ? (vgpu_nsec)(1e9 / o->rate) : 0;
	uint64_t head = 0, tail = 0, left = o->jobs ? o->jobs - res->jobs : UINT64_MAX;
	int r = 0;

	while (r == 0) {
		vgpu_nsec now = vgpu_now();
		bool more = now < deadline && tail < left && !interrupted;

		if (more && tail - head < o->depth && now >= next) {
			r = submit(g, state, tail % o->depth, &flights[tail % o->depth]);
			tail++;
			next = period ? next + period : now;
			continue;
		}
		if (head == tail) {
			if (!more)
				break;
			sleep_until(next < deadline ? next : deadline);
			continue;
		}
		r = guest_wait(g, flights[head % o->depth].fence,
			       o->workload->endless ? 100 * VGPU_MSEC : TIMEOUT);
		if (r == -ETIMEDOUT && o->workload->endless) {
			if (!more)
				return 0;
			r = 0;
			continue;
		}
		if (r < 0)
			break;
		now = vgpu_now();
		if (res->n_samples < MAX_SAMPLES)
			res->samples_us[res->n_samples++] =
				(uint32_t)((now - flights[head % o->depth].submitted) / VGPU_USEC);
		if (!o->workload->check(state, head % o->depth))
			res->wrong++;
		res->jobs++;
		head++;
		if (asked) {
			asked = 0;
			report(o, res);
		}
	}
	return r;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static uint32_t quantile(const struct result *r, unsigned per_mille)
{
	return r->n_samples ? r->samples_us[(uint64_t)(r->n_samples - 1) * per_mille / 1000] : 0;
}

static void report(const struct options *o, struct result *r)
{
	double seconds = (double)(vgpu_now() - r->began) / 1e9;
	struct json_object *out;

	qsort(r->samples_us, r->n_samples, sizeof(uint32_t), compare);
	if (!o->json) {
		printf("%s: %llu jobs in %.2f s (%.1f/s), %llu wrong, %llu resets; latency p50 "
		       "%.3f "
		       "p99 %.3f max %.3f ms\n",
		       o->workload->name, (unsigned long long)r->jobs, seconds,
		       (double)r->jobs / seconds, (unsigned long long)r->wrong,
		       (unsigned long long)r->resets, quantile(r, 500) / 1e3,
		       quantile(r, 990) / 1e3, quantile(r, 1000) / 1e3);
		fflush(stdout);
		return;
	}
	out = json_object_new_object();
	json_object_object_add(out, "workload", json_object_new_string(o->workload->name));
	json_object_object_add(out, "jobs", json_object_new_int64((int64_t)r->jobs));
	json_object_object_add(out, "wrong", json_object_new_int64((int64_t)r->wrong));
	json_object_object_add(out, "resets", json_object_new_int64((int64_t)r->resets));
	json_object_object_add(out, "errors", json_object_new_int64((int64_t)r->errors));
	json_object_object_add(out, "seconds", json_object_new_double(seconds));
	json_object_object_add(out, "p50_us", json_object_new_int64(quantile(r, 500)));
	json_object_object_add(out, "p99_us", json_object_new_int64(quantile(r, 990)));
	json_object_object_add(out, "max_us", json_object_new_int64(quantile(r, 1000)));
	puts(json_object_to_json_string_ext(out, JSON_C_TO_STRING_PLAIN));
	fflush(stdout);
	json_object_put(out);
}

/* Brings the VF up and runs jobs; after each reset, does so again. */
static int run_tenant(struct guest *g, const struct options *o, struct result *res,
		      struct vgpu_error *err)
{
	vgpu_nsec deadline = res->began + (vgpu_nsec)(o->seconds * 1e9);
	struct workload_state *state = NULL;
	int r;

	do {
		r = guest_bring_up(g, TIMEOUT, err);
		if (r < 0)
			break;
		if (!state)
			r = workload_prepare(&state, o->workload, g, &o->w, o->depth, err);
		else
			r = workload_restart(state, g, err);
		if (r < 0)
			break;
		r = run_jobs(g, state, o, res, deadline);
		if (r == -EIO) {
			res->errors++;
			vgpu_error_set(err, r, "the VF stopped with error %u", guest_error(g));
		} else if (r == -ECONNRESET) {
			res->resets++;
		} else if (r < 0) {
			vgpu_error_set(err, r, "waiting for the VF: %s", strerror(-r));
		}
	} while (r == -ECONNRESET && vgpu_now() < deadline && !interrupted);
	if (state && o->png && r == 0)
		workload_png(state, o->png);
	if (r == 0 && !o->leave && !o->workload->endless)
		guest_bring_down(g, TIMEOUT, NULL);
	workload_free(state);
	return r == -ECONNRESET ? 0 : r;
}

int main(int argc, char **argv)
{
	struct options o = {.seconds = 5, .w = {.us = 1000, .size = 1}};
	struct sigaction action = {.sa_handler = on_signal};
	struct vgpu_error err = {""};
	struct result result = {0};
	struct guest *g = NULL;
	int r;

	vgpu_output_check("vgpu-guest");
	if (argc > 1 && strcmp(argv[1], "launch") == 0)
		return launch_main(argc, argv);
	r = parse(argc, argv, &o);
	if (r != 0)
		return r < 0 ? 2 : 0;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	result.samples_us = calloc(MAX_SAMPLES, sizeof(uint32_t));
	result.began = vgpu_now();
	r = guest_open(&g, o.name, &err);
	if (r == 0)
		r = run_tenant(g, &o, &result, &err);
	guest_close(g);
	if (r < 0)
		fprintf(stderr, "vgpu-guest: %s\n", err.text);
	if (r == 0 || result.jobs > 0)
		report(&o, &result);
	free(result.samples_us);
	if (r == -EACCES)
		return 3;
	return r < 0 || result.wrong > 0 ? 1 : 0;
}
