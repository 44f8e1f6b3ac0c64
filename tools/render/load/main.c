/* SPDX-License-Identifier: MIT */
/* vgpu-vulkan: a Vulkan program with work of a known size, for tests and demonstrations. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	"  --pause-us N  waits N us between submissions, instead of not at all\n"
	"  --memory MIB  also allocates device memory, in pieces of 16 MiB, and says how much it "
	"got\n"
	"  --help, --version\n"
	"\n"
	"exit codes: 0 all results were right; 1 not, or something failed; 2 wrong usage\n";

struct options {
	int64_t seconds, steps, deep, pause, memory;
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
	enum { SECONDS = 256, STEPS, DEEP, PAUSE, MEMORY, ENDLESS };
	static const struct option longs[] = {
		{"seconds", required_argument, NULL, SECONDS},
		{"steps", required_argument, NULL, STEPS},
		{"deep", required_argument, NULL, DEEP},
		{"pause-us", required_argument, NULL, PAUSE},
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
		} else if (c == PAUSE) {
			r = number(optarg, 0, 10000000, &o->pause);
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
};

static bool run(struct compute *c, const struct options *o, struct report *report)
{
	vgpu_nsec began = vgpu_now(), asked, waited;
	uint64_t n = 0, done = 0;
	uint32_t slot;

	for (slot = 0; slot < o->deep; slot++)
		if (!compute_record(c, slot, (uint32_t)(o->endless ? COMPUTE_STEPS : o->steps),
				    o->endless ? 65535 : 1))
			return false;
	while (!stop && vgpu_now() - began < (vgpu_nsec)o->seconds * VGPU_SEC) {
		slot = (uint32_t)(n % (uint64_t)o->deep);
		asked = vgpu_now();
		if (!compute_wait(c, slot) || !compute_submit(c, slot))
			return false;
		waited = vgpu_now() - asked;
		report->longest = waited > report->longest ? waited : report->longest;
		n++;
		if (o->pause) {
			struct timespec pause = {o->pause / 1000000, o->pause % 1000000 * 1000};

			nanosleep(&pause, NULL);
		}
	}
	for (slot = 0; slot < o->deep; slot++)
		if (!compute_wait(c, slot))
			return false;
	report->submissions = n;
	report->took = vgpu_now() - began;
	for (; done < n; done++)
		compute_expect(c, (uint32_t)o->steps);
	return true;
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
	printf("{\"device\": \"%s\", \"submissions\": %llu, \"seconds\": %.3f, \"longest_ms\": "
	       "%.3f, "
	       "\"memory_mib\": %lld, \"wrong\": %u}\n",
	       p.deviceName, (unsigned long long)report.submissions, (double)report.took / 1e9,
	       (double)report.longest / 1e6, (long long)got, wrong);
	return ok && wrong == 0 ? 0 : 1;
}
