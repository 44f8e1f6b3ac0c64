/* SPDX-License-Identifier: MIT */
/* vgpu-vulkan: a Vulkan program with work of a known size, for tests and demonstrations. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "compute.h"
#include "vgpu/clock.h"
#include "vgpu/options.h"
#include "vgpu/output.h"

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

#define ROW(name, value, kind, member, help, ...)                                                  \
	VGPU_OPTION(name, value, help, kind, offsetof(struct options, member), __VA_ARGS__)
static const struct vgpu_option rows[] = {
	ROW("seconds", "N", WHOLE, seconds, "ends after N s, instead of 5", .min = 1,
	    .max = 1000000),
	ROW("steps", "N", WHOLE, steps, "length of the shader, 1 to 65535, instead of 2000",
	    .min = 1, .max = COMPUTE_STEPS),
	ROW("endless", NULL, FLAG, endless, "submits a shader that takes hours"),
	ROW("deep", "N", WHOLE, deep, "keeps N submissions under way, 1 to 8, instead of 2",
	    .min = 1, .max = COMPUTE_SLOTS),
	ROW("every-us", "N", WHOLE, every,
	    "submits one each N us, waits for it, and reports how long these take, from when they "
	    "are due to their end",
	    .min = 100, .max = 10000000),
	ROW("memory", "MIB", WHOLE, memory,
	    "also allocates device memory, in pieces of 16 MiB, and says how much it got",
	    .min = 16, .max = 1 << 20),
	{.name = NULL},
};

static void usage(FILE *to)
{
	fputs("usage: vgpu-vulkan [options]\n\n"
	      "Submits a compute shader to a Vulkan device again and again, compares its results\n"
	      "with the CPU's, and prints a report as JSON.\n\n",
	      to);
	vgpu_options_list(rows, 16, to);
	fputs("\nexit codes: 0 all results were right; 1 not, or something failed; 2 wrong usage\n",
	      to);
}

/* Allocates MIB of device memory, or as much as there is. Returns how many MiB it got. */
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

/* Submits once in each period o->every, and waits for the result. A late submission does not delay
 * the times of later ones. */
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
	int r;

	vgpu_output_check("vgpu-vulkan");
	r = vgpu_options_read("vgpu-vulkan", rows, usage, argc, argv, &o);
	if (r == 0 && optind < argc) {
		fprintf(stderr, "vgpu-vulkan: unexpected argument \"%s\"; see --help\n",
			argv[optind]);
		r = -EINVAL;
	}
	if (r != 0)
		return r < 0 ? 2 : 0;
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
