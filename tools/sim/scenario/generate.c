/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "generate.h"

struct rng {
	uint64_t state;
};

/* Draws from [0, 1), by splitmix64. */
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

/* A frame of 3 to 6 ms of work every 16.7 ms. */
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

/* Draws from an exponential distribution with mean MEAN. */
static double waiting(struct rng *r, double mean)
{
	return -mean * log(1 - draw(r));
}

static void settings(FILE *to, uint32_t vf, const char *role, const char *work)
{
	fprintf(to, "vf %" PRIu32 " role=%s work=%s", vf, role, work);
}

static void range(FILE *to, const char *key, double min_ms, double max_ms)
{
	fprintf(to, " %s=%" PRIu64 "..%" PRIu64, key, (uint64_t)(min_ms * 1e6),
		(uint64_t)(max_ms * 1e6));
}

/* Frames around a mean that is drawn for each VF: games differ more than the frames of one game. */
static void paced(FILE *to, uint32_t vf, double hz, double mean)
{
	settings(to, vf, "frames", "periodic");
	range(to, "burst", 0.8 * mean, 1.3 * mean);
	fprintf(to, " period=%" PRIu64 "\n", (uint64_t)(1e9 / hz));
}

static void frames60(FILE *to, uint32_t vf, vgpu_nsec, double size, struct rng *r)
{
	paced(to, vf, 60, size * between(r, 5, 8));
}

static void frames90(FILE *to, uint32_t vf, vgpu_nsec, double size, struct rng *r)
{
	paced(to, vf, 90, size * between(r, 4.5, 5.5));
}

/*
 * Writes one request at T seconds, and returns when it ends: a prefill by the length of the prompt,
 * then 20 to 150 tokens, each a job of its own. Between two tokens the guest samples, and launches
 * the next one.
 */
static double request(FILE *to, uint32_t vf, double t, double token, struct rng *r)
{
	double work = 12 * token * between(r, 0.3, 1.7);
	int tokens;

	line(to, t, vf, "prep", work);
	for (tokens = (int)exp(between(r, 3, 5)); tokens > 0; tokens--) {
		double ms = token * between(r, 0.8, 1.2);

		line(to, t, vf, "think", between(r, 0.2, 0.6));
		line(to, t, vf, "work", ms);
		work += ms;
	}
	return work;
}

/* People who read an answer before they ask again. */
static void chat(FILE *to, uint32_t vf, vgpu_nsec length, double size, struct rng *r)
{
	double token = size * between(r, 2, 4), work = 0;

	settings(to, vf, "inference", "script");
	fputc('\n', to);
	arrive(to, vf);
	while (work * 1e6 < (double)length) {
		double pause = waiting(r, 500);

		line(to, 0, vf, "think", pause);
		work += pause + request(to, vf, 0, token, r);
	}
}

/* Requests come at random, whether or not the last one is done. */
static void serve(FILE *to, uint32_t vf, vgpu_nsec length, double size, struct rng *r)
{
	double token = size * between(r, 2, 4), t = 0;

	settings(to, vf, "inference", "script");
	fputc('\n', to);
	arrive(to, vf);
	while ((t += waiting(r, 900)) * 1e6 < (double)length)
		request(to, vf, t, token, r);
}

/* Steps of 50 to 300 ms, around a mean that is drawn for each VF, with short pauses to load data.
 */
static void steps(FILE *to, uint32_t vf, vgpu_nsec, double size, struct rng *r)
{
	double mean = size * between(r, 55, 270);

	settings(to, vf, "training", "bursts");
	range(to, "burst", 0.9 * mean, 1.1 * mean);
	range(to, "think", 1, 5);
	fputc('\n', to);
}

/* A user scrolls or types, and the desktop draws up to a second of frames, each some time after the
 * last one is done; then nothing. */
static void session(FILE *to, uint32_t vf, vgpu_nsec length, double size, struct rng *r)
{
	double t = 0;
	int n;

	settings(to, vf, "desktop", "script");
	fputc('\n', to);
	arrive(to, vf);
	while ((t += waiting(r, 1500)) * 1e6 < (double)length) {
		for (n = (int)between(r, 5, 60); n > 0; n--) {
			line(to, t, vf, "work", size * between(r, 0.5, 4));
			line(to, t, vf, "think", 13);
			t += 16;
		}
	}
}

static void hog(FILE *to, uint32_t vf, vgpu_nsec, uint64_t)
{
	fprintf(to, "vf %" PRIu32 " work=always late=1ms..2ms\n", vf);
}

/* Hides its work just before its slices end. */
static void adversary(FILE *to, uint32_t vf, vgpu_nsec, uint64_t)
{
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

static const struct kind {
	const char *name;
	/* SIZE scales its work. */
	void (*write)(FILE *to, uint32_t vf, vgpu_nsec length, double size, struct rng *r);
} kinds[] = {
	{"frames60", frames60}, {"frames90", frames90}, {"chat", chat},
	{"serve", serve},	{"steps", steps},	{"session", session},
};

/* Mixes of workloads as operators combine them. Sizes: see the table in docs/simulator.md. */
const struct mix mixes[] = {
	{"mix4",
	 "a game of weight 200, inference, training and a desktop",
	 {{"frames60", 1, 1, 200},
	  {"chat", 1, 1, 100},
	  {"steps", 1, 1, 100},
	  {"session", 1, 1, 100}}},
	{"mix8",
	 "two games of weight 400, and two each of inference, training and desktops",
	 {{"frames60", 1, 0.7, 400},
	  {"frames90", 1, 0.7, 400},
	  {"chat", 1, 0.4, 100},
	  {"serve", 1, 0.4, 100},
	  {"steps", 2, 1, 100},
	  {"session", 2, 0.6, 100}}},
	{"mix16",
	 "overload: four games of weight 400, and four each of inference, training and desktops",
	 {{"frames60", 3, 0.75, 400},
	  {"frames90", 1, 0.75, 400},
	  {"chat", 2, 0.4, 100},
	  {"serve", 2, 0.4, 100},
	  {"steps", 4, 1, 100},
	  {"session", 4, 0.6, 100}}},
	{NULL, NULL, {{NULL, 0, 0, 0}}},
};

const struct mix *mix_find(const char *name)
{
	const struct mix *m;

	for (m = mixes; m->name; m++)
		if (strcmp(m->name, name) == 0)
			return m;
	return NULL;
}

static const struct kind *kind_of(const char *name)
{
	const struct kind *k = kinds;

	while (strcmp(k->name, name) != 0)
		k++;
	return k;
}

void generate_head(FILE *to, uint32_t n_vfs, vgpu_nsec length, uint64_t seed)
{
	fprintf(to,
		"vfs %" PRIu32 "\nseed %" PRIu64 "\nuntil %" PRIu64
		"\ngpu load=100us run=50us\npolicy fair\nvf * save=100us\n",
		n_vfs, seed, length);
}

void mix_write(const struct mix *mix, FILE *to, vgpu_nsec length, uint64_t seed)
{
	const struct mix_part *part;
	uint32_t n = 0, vf = 0, i;

	for (part = mix->parts; part->kind; part++)
		n += part->n;
	generate_head(to, n, length, seed);
	fprintf(to, "vf * save=150us\n");
	for (part = mix->parts; part->kind; part++) {
		for (i = 0; i < part->n; i++, vf++) {
			struct rng r = seeded(seed, vf);

			kind_of(part->kind)->write(to, vf, length, part->size, &r);
			fprintf(to, "vf %" PRIu32 " weight=%" PRIu32 "\n", vf, part->weight);
		}
	}
}
