/* SPDX-License-Identifier: MIT */
/* vgpu-vulkan: a Vulkan program with work of a known size, for tests and demonstrations. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compute.h"
#include "vgpu/about.h"
#include "vgpu/clock.h"
#include "vgpu/number.h"
#include "vgpu/output.h"

static const char usage[] =
	"usage: vgpu-vulkan [options]\n"
	"\n"
	"Submits a compute shader to a Vulkan device again and again, compares its results with "
	"the\n"
	"CPU's, and prints a report as JSON.\n"
	"\n"
	"  --seconds N   ends after N s, instead of 5\n"
	"  --steps N     length of the shader, 1 to 65535, instead of 2000\n"
	"  --endless     submits a shader that takes hours\n"
	"  --deep N      keeps N submissions under way, 1 to 8, instead of 2\n"
	"  --every-us N  submits one each N us, waits for it, and reports how long these take,\n"
	"                from when they are due to their end\n"
	"  --memory MIB  also allocates device memory, in pieces of 16 MiB, and says how much it "
	"got\n"
	"  --help, --version\n"
	"\n"
	"exit codes: 0 all results were right; 1 not, or something failed; 2 wrong usage\n";

struct options {
	int64_t seconds, steps, deep, every, memory;
	bool endless;
};

static volatile sig_atomic_t stop;

static void on_signal(int signal)
{
	(void)signal;
	stop = 1;
}

static int number(const char *text, int64_t min, int64_t max, int64_t *out)
{
	return vgpu_parse_between(text, min, max, out);
}

static bool read_options(int argc, char **argv, struct options *o)
{
	enum { SECONDS = 256, STEPS, DEEP, EVERY, MEMORY, ENDLESS };
	static const struct option longs[] = {
		{"seconds", required_argument, NULL, SECONDS},
		{"steps", required_argument, NULL, STEPS},
		{"deep", required_argument, NULL, DEEP},
		{"every-us", required_argument, NULL, EVERY},
		{"memory", required_argument, NULL, MEMORY},
		{"endless", no_argument, NULL, ENDLESS},
		{.name = NULL},
	};
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == SECONDS) {
			r = number(optarg, 1, 1000000, &o->seconds);
		} else if (c == STEPS) {
			r = number(optarg, 1, COMPUTE_STEPS, &o->steps);
		} else if (c == DEEP) {
			r = number(optarg, 1, COMPUTE_SLOTS, &o->deep);
		} else if (c == EVERY) {
			r = number(optarg, 100, 10000000, &o->every);
		} else if (c == MEMORY) {
			r = number(optarg, 16, 1 << 20, &o->memory);
		} else if (c == ENDLESS) {
			o->endless = true;
		} else {
			r = -EINVAL;
		}
	}
	if (r == 0 && optind == argc)
		return true;
	fprintf(stderr, "vgpu-vulkan: wrong usage; see vgpu-vulkan --help\n");
	return false;
}

/* Allocates until there is no more. Returns MiB. */
static int64_t allocate(struct compute *c, int64_t mib)
{
	VkMemoryAllocateInfo piece = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
				      .allocationSize = 16u << 20,
				      .memoryTypeIndex = c->memory_type};
	VkDeviceMemory memory;
	int64_t got = 0;

	while (got + 16 <= mib && vkAllocateMemory(c->device, &piece, NULL, &memory) == VK_SUCCESS)
		got += 16; /* the device's end frees it */
	return got;
}

struct report {
	uint64_t submissions;
	vgpu_nsec took, longest;
	vgpu_nsec *times; /* of submissions that were due at some instant */
};

static int compare(const void *a, const void *b)
{
	vgpu_nsec x = *(const vgpu_nsec *)a, y = *(const vgpu_nsec *)b;

	return (x > y) - (x < y);
}

/* Submits one each o->every, and waits for it. A late one does not put off those after it. */
static bool run_frames(struct compute *c, const struct options *o, struct report *report)
{
	vgpu_nsec every = (vgpu_nsec)o->every * VGPU_USEC, began = vgpu_now(), due = began;
	uint64_t n = (uint64_t)o->seconds * VGPU_SEC / every;

	report->times = calloc(n + 1, sizeof(*report->times));
	if (!report->times)
		return false;
	for (; !stop && report->submissions < n; due += every) {
		struct timespec at = {(time_t)(due / VGPU_SEC), (long)(due % VGPU_SEC)};

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		if (!compute_submit(c, 0) || !compute_wait(c, 0))
			return false;
		report->times[report->submissions++] = vgpu_now() - due;
	}
	n = report->submissions;
	qsort(report->times, n, sizeof(*report->times), compare);
	report->longest = n ? report->times[n - 1] : 0;
	report->took = vgpu_now() - began;
	return true;
}

static bool run_always(struct compute *c, const struct options *o, struct report *report)
{
	vgpu_nsec began = vgpu_now(), asked, waited;
	uint64_t n = 0;
	uint32_t slot;

	while (!stop && vgpu_now() - began < (vgpu_nsec)o->seconds * VGPU_SEC) {
		slot = (uint32_t)(n % (uint64_t)o->deep);
		asked = vgpu_now();
		if (!compute_wait(c, slot) || !compute_submit(c, slot))
			return false;
		waited = vgpu_now() - asked;
		report->longest = waited > report->longest ? waited : report->longest;
		n++;
	}
	for (slot = 0; slot < o->deep; slot++)
		if (!compute_wait(c, slot))
			return false;
	report->submissions = n;
	report->took = vgpu_now() - began;
	return true;
}

static bool run(struct compute *c, const struct options *o, struct report *report)
{
	uint64_t done;
	uint32_t slot;

	for (slot = 0; slot < o->deep; slot++)
		if (!compute_record(c, slot, (uint32_t)(o->endless ? COMPUTE_STEPS : o->steps),
				    o->endless ? 65535 : 1))
			return false;
	if (!(o->every ? run_frames : run_always)(c, o, report))
		return false;
	for (done = 0; done < report->submissions; done++)
		compute_expect(c, (uint32_t)o->steps);
	return true;
}

static void print_report(const struct options *o, const char *device, const struct report *r,
			 int64_t memory, uint32_t wrong)
{
	uint64_t n = r->submissions;

	printf("{\"device\": \"%s\", \"submissions\": %llu, \"seconds\": %.3f, \"longest_ms\": "
	       "%.3f, ",
	       device, (unsigned long long)n, (double)r->took / 1e9, (double)r->longest / 1e6);
	if (o->every && n)
		printf("\"p50_ms\": %.3f, \"p99_ms\": %.3f, ", (double)r->times[n / 2] / 1e6,
		       (double)r->times[n * 99 / 100] / 1e6);
	printf("\"memory_mib\": %lld, \"wrong\": %u}\n", (long long)memory, wrong);
}

int main(int argc, char **argv)
{
	struct options o = {.seconds = 5, .steps = 2000, .deep = 2};
	struct report report = {.submissions = 0};
	VkPhysicalDeviceProperties p;
	struct compute c;
	uint32_t wrong = 0;
	int64_t got = 0;
	bool ok;

	vgpu_output_check("vgpu-vulkan");
	if (vgpu_about(argc, argv, "vgpu-vulkan", usage))
		return 0;
	if (!read_options(argc, argv, &o))
		return 2;
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	if (!compute_open(&c)) {
		compute_close(&c);
		return 1;
	}
	vkGetPhysicalDeviceProperties(c.physical, &p);
	fprintf(stderr, "vgpu-vulkan: ready on %s\n", p.deviceName);
	if (o.memory)
		got = allocate(&c, o.memory);
	ok = run(&c, &o, &report);
	wrong = ok ? compute_wrong(&c) : 0;
	compute_close(&c);
	print_report(&o, p.deviceName, &report, got, wrong);
	free(report.times);
	return ok && wrong == 0 ? 0 : 1;
}
