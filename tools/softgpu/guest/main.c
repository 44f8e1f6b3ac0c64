/* SPDX-License-Identifier: MIT */
/*
 * vgpu-guest: a tenant that computes. It keeps its VF busy, or disturbs other VFs, checks every
 * result against a reference that the CPU has computed, and reports how fast its jobs were.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "guest.h"
#include "launch.h"
#include "workload.h"
#include "vgpu/clock.h"
#include "vgpu/number.h"
#include "vgpu/output.h"

#define MAX_DEPTH 16u
#define MAX_SAMPLES (1u << 20)
#define TIMEOUT (30 * VGPU_SEC)

struct options {
	const char *png;
	char device[160];
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

static void usage(FILE *to)
{
	size_t i;

	fputs("usage: vgpu-guest WORKLOAD --socket PATH|--device NAME [options]\n"
	      "       vgpu-guest launch FILE --function NAME ... (see vgpu-guest launch --help)\n"
	      "Runs work on a softgpu VF and checks its results.\n\nWorkloads:\n",
	      to);
	for (i = 0; workloads[i]; i++)
		fprintf(to, "  %-12s %s\n", workloads[i]->name, workloads[i]->help);
	fputs("\nOptions:\n"
	      "  --socket PATH     the VF's vfio-user socket\n"
	      "  --device NAME     the VF as vfio:ADDRESS, through the kernel's VFIO; add\n"
	      "                    ,token=UUID or ,token-file=PATH if its PF is opened with a "
	      "token\n"
	      "  --seconds N       run for N seconds (5)\n"
	      "  --jobs N          run at most N jobs (no limit)\n"
	      "  --depth N         jobs in flight, 1 to 16 (2; interactive: 1)\n"
	      "  --rate HZ         jobs started a second (interactive: 60; others: no limit)\n"
	      "  --us N            length of a spin, hog or interactive job, microseconds (1000)\n"
	      "  --size N          size of the problem, 1 to 8 (1)\n"
	      "  --device-memory   compute in the device memory behind the window\n"
	      "  --png PREFIX      mandelbrot: write frames to PREFIX-N.png\n"
	      "  --leave           end without bringing the VF down, as a killed VM would\n"
	      "  --json            print one JSON object\n"
	      "SIGINT ends it; SIGUSR1 makes it report after its next job.\n"
	      "Exit status: 0 if all results were right, 1 if not or after an error, 2 for wrong\n"
	      "arguments, 3 if the host refuses the VF the engine.\n",
	      to);
}

static bool number(const char *text, double min, double max, double *out)
{
	return vgpu_parse_real(text, min, max, out) == 0;
}

static int parse(int argc, char **argv, struct options *o)
{
	enum {
		SOCKET = 1,
		DEVICE,
		SECONDS,
		JOBS,
		DEPTH,
		RATE,
		US,
		SIZE,
		DEVICE_MEMORY,
		PNG,
		LEAVE,
		JSON,
		HELP,
		VERSION
	};
	static const struct option options[] = {
		{"socket", required_argument, NULL, SOCKET},
		{"device", required_argument, NULL, DEVICE},
		{"seconds", required_argument, NULL, SECONDS},
		{"jobs", required_argument, NULL, JOBS},
		{"depth", required_argument, NULL, DEPTH},
		{"rate", required_argument, NULL, RATE},
		{"us", required_argument, NULL, US},
		{"size", required_argument, NULL, SIZE},
		{"device-memory", no_argument, NULL, DEVICE_MEMORY},
		{"png", required_argument, NULL, PNG},
		{"leave", no_argument, NULL, LEAVE},
		{"json", no_argument, NULL, JSON},
		{"help", no_argument, NULL, HELP},
		{"version", no_argument, NULL, VERSION},
		{NULL, 0, NULL, 0},
	};
	double v = 0;
	bool ok = true;
	int option, index = 0;

	while (ok && (option = getopt_long(argc, argv, "", options, &index)) != -1) {
		switch (option) {
		case SOCKET:
			snprintf(o->device, sizeof(o->device), "vfio-user:%s", optarg);
			break;
		case DEVICE:
			snprintf(o->device, sizeof(o->device), "%s", optarg);
			break;
		case SECONDS:
			ok = number(optarg, 0, 1e6, &o->seconds);
			break;
		case JOBS:
			ok = number(optarg, 1, 1e12, &v);
			o->jobs = (uint64_t)v;
			break;
		case DEPTH:
			ok = number(optarg, 1, MAX_DEPTH, &v);
			o->depth = (uint32_t)v;
			break;
		case RATE:
			ok = number(optarg, 0.001, 1e5, &o->rate);
			break;
		case US:
			ok = number(optarg, 1, 1e7, &v);
			o->w.us = (uint64_t)v;
			break;
		case SIZE:
			ok = number(optarg, 1, 8, &v);
			o->w.size = (uint32_t)v;
			break;
		case DEVICE_MEMORY:
			o->w.device_memory = true;
			break;
		case PNG:
			o->png = optarg;
			break;
		case LEAVE:
			o->leave = true;
			break;
		case JSON:
			o->json = true;
			break;
		case HELP:
			usage(stdout);
			exit(0);
		case VERSION:
			puts("vgpu-guest " VGPU_VERSION);
			exit(0);
		default:
			return -EINVAL;
		}
	}
	if (!ok) {
		fprintf(stderr, "vgpu-guest: --%s %s: not a number, or out of range; see --help\n",
			options[index].name, optarg);
		return -EINVAL;
	}
	if (optind + 1 != argc || !o->device[0]) {
		fprintf(stderr,
			"vgpu-guest: give one WORKLOAD, and --socket or --device; see --help\n");
		return -EINVAL;
	}
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
	if (parse(argc, argv, &o) < 0)
		return 2;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	result.samples_us = calloc(MAX_SAMPLES, sizeof(uint32_t));
	result.began = vgpu_now();
	r = guest_open(&g, o.device, &err);
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
