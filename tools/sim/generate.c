/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>

#include "generate.h"

struct rng {
	uint64_t state;
};

/* splitmix64, in [0, 1) */
static double draw(struct rng *r)
{
	uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static double between(struct rng *r, double min, double max)
{
	return min + draw(r) * (max - min);
}

static struct rng seeded(uint64_t seed, uint32_t vf)
{
	return (struct rng){.state = seed * 1000003 + vf};
}

static void line(FILE *to, double t_ms, uint32_t vf, const char *kind, double ms)
{
	fprintf(to, "%" PRIu64 " %" PRIu32 " %s %" PRIu64 "\n", (uint64_t)(t_ms * 1e6), vf, kind,
		(uint64_t)(ms * 1e6));
}

static void arrive(FILE *to, uint32_t vf)
{
	fprintf(to, "0 %" PRIu32 " arrive\n", vf);
}

/* A frame each 16.7 ms, of 3 to 6 ms of work. */
static void frames(FILE *to, uint32_t vf, vgpu_nsec length, uint64_t seed)
{
	struct rng r = seeded(seed, vf);
	double t, phase = between(&r, 0, 16.7);

	arrive(to, vf);
	for (t = phase; t * 1e6 < (double)length; t += 1000.0 / 60)
		line(to, t, vf, "work", between(&r, 3, 6));
}

/* Requests arrive at random, two a second: a prefill by the length of the prompt, then tokens. */
static void inference(FILE *to, uint32_t vf, vgpu_nsec length, uint64_t seed)
{
	struct rng r = seeded(seed, vf);
	double t = 0;
	int tokens;

	arrive(to, vf);
	while ((t += -500 * log(1 - draw(&r))) * 1e6 < (double)length) {
		line(to, t, vf, "work", 0.01 * exp(between(&r, 5, 8)));
		for (tokens = (int)exp(between(&r, 2, 4)); tokens > 0; tokens--)
			line(to, t, vf, "work", between(&r, 1.5, 2.5));
	}
}

/* Steps of 80 ms, one after the other, with a pause to load data. */
static void training(FILE *to, uint32_t vf, vgpu_nsec length, uint64_t seed)
{
	struct rng r = seeded(seed, vf);
	double t;

	arrive(to, vf);
	for (t = 0; t * 1e6 < (double)length; t += 80) {
		line(to, 0, vf, "work", between(&r, 75, 85));
		line(to, 0, vf, "think", between(&r, 1, 5));
	}
}

/* Nothing for seconds, then a short burst. */
static void desktop(FILE *to, uint32_t vf, vgpu_nsec length, uint64_t seed)
{
	struct rng r = seeded(seed, vf);
	double t = 0;

	arrive(to, vf);
	while ((t += -2000 * log(1 - draw(&r))) * 1e6 < (double)length)
		line(to, t, vf, "work", between(&r, 0.5, 12));
}

static void hog(FILE *to, uint32_t vf, vgpu_nsec length, uint64_t seed)
{
	(void)length;
	(void)seed;
	fprintf(to, "vf %" PRIu32 " work=always late=1ms..2ms\n", vf);
}

/* It hides that it has work just before its slices end. */
static void adversary(FILE *to, uint32_t vf, vgpu_nsec length, uint64_t seed)
{
	(void)length;
	(void)seed;
	fprintf(to, "vf %" PRIu32 " work=sleeper\n", vf);
}

const struct generator generators[] = {
	{"frames", "a frame loop at 60 Hz", frames},
	{"inference", "prefill and decode of requests that come at random", inference},
	{"training", "long steps with short pauses", training},
	{"desktop", "idle, with rare short bursts", desktop},
	{"hog", "always works, and stops late", hog},
	{"adversary", "sleeps whenever it is about to be charged", adversary},
	{NULL, NULL, NULL},
};
