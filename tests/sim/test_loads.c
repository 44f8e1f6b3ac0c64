/* SPDX-License-Identifier: MIT */
/* Periodic tenants and mixes of roles, and how compare measures them. */
#include <stdlib.h>

#include "builtin.h"
#include "cadence.h"
#include "compare.h"
#include "generate.h"
#include "peer.h"
#include "suite.h"

#define LENGTH (10 * VGPU_SEC)
#define PERIOD (10 * VGPU_MSEC)

/* N VFs under `fair`, VF 0 periodic with jobs of BURST, for ten seconds. */
static void run(struct vhost *h, uint32_t n, uint64_t seed, vgpu_nsec burst)
{
	vhost_init(h, n, seed);
	h->vfs[0].work = VHOST_PERIODIC;
	h->vfs[0].period = (struct vhost_range){PERIOD, PERIOD};
	h->vfs[0].burst = (struct vhost_range){burst, burst};
	vhost_keep_latencies(h, 0, 2000);
	vhost_start(h, vgpu_builtin_policy("fair"), NULL, NULL);
	vhost_run(h, LENGTH);
	CU_ASSERT_EQUAL(h->violations, 0);
}

/* Alone, each tick has its job, and the job takes its own length. */
TEST(alone, "periodic: alone")
{
	struct vhost h;
	size_t i;

	run(&h, 1, 1, 2 * VGPU_MSEC);
	CU_ASSERT_EQUAL(h.vfs[0].missed, 0);
	CU_ASSERT(h.vfs[0].n_latencies >= 999 && h.vfs[0].n_latencies <= 1000);
	for (i = 0; i < h.vfs[0].n_latencies; i++)
		CU_ASSERT_EQUAL(h.vfs[0].latencies[i], 2 * VGPU_MSEC + 1);
	vhost_finish(&h);
}

/* Jobs of one and a half periods: each second tick is missed, and the one after it is in time. */
TEST(too_long, "periodic: jobs longer than the period")
{
	struct vhost h;
	size_t i;

	run(&h, 1, 1, 15 * VGPU_MSEC);
	CU_ASSERT(h.vfs[0].missed >= 499 && h.vfs[0].missed <= 500);
	CU_ASSERT(h.vfs[0].n_latencies >= 499 && h.vfs[0].n_latencies <= 500);
	for (i = 0; i < h.vfs[0].n_latencies; i++)
		CU_ASSERT_EQUAL(h.vfs[0].latencies[i], 15 * VGPU_MSEC + 1);
	vhost_finish(&h);
}

/* Beside a VF that always works, latencies include the wait, and every tick is counted. */
TEST(beside_another, "periodic: beside one that always works")
{
	vgpu_nsec most = 0;
	struct vhost h;
	size_t i;

	run(&h, 2, 1, 4 * VGPU_MSEC);
	for (i = 0; i < h.vfs[0].n_latencies; i++)
		most = h.vfs[0].latencies[i] > most ? h.vfs[0].latencies[i] : most;
	CU_ASSERT(most > 5 * VGPU_MSEC);
	CU_ASSERT(h.vfs[0].n_latencies + h.vfs[0].missed >= 998);
	CU_ASSERT(h.vfs[0].n_latencies + h.vfs[0].missed <= 1000);
	vhost_finish(&h);
}

/* Another seed gives another phase, within a period of the start. */
TEST(phases, "periodic: phases by seed")
{
	vgpu_nsec first[20];
	struct vhost h;
	uint64_t seed;
	unsigned same = 0;

	for (seed = 0; seed < 20; seed++) {
		run(&h, 1, seed + 1, VGPU_MSEC);
		first[seed] = h.vfs[0].tick % PERIOD;
		same += seed > 0 && first[seed] == first[seed - 1];
		vhost_finish(&h);
	}
	CU_ASSERT_EQUAL(same, 0);
}

static void read_text(struct scenario *s, const char *text)
{
	struct vgpu_error err;
	FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

	CU_ASSERT_EQUAL_FATAL(scenario_read_from(s, f, "test", &err), 0);
	fclose(f);
}

static char *mix_text(const struct mix *mix, vgpu_nsec length, uint64_t seed)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	mix_write(mix, f, length, seed);
	fclose(f);
	return text;
}

/* Mixes are valid scenarios, depend only on their seed, and differ between seeds. */
TEST(mixes_are_scenarios, "mixes are scenarios")
{
	static const uint32_t sizes[] = {4, 8, 16};
	uint32_t i, k, trains;
	struct scenario s;
	char *a, *b, *c;

	for (k = 0; mixes[k].name; k++) {
		a = mix_text(&mixes[k], VGPU_SEC, 5);
		b = mix_text(&mixes[k], VGPU_SEC, 5);
		c = mix_text(&mixes[k], VGPU_SEC, 6);
		CU_ASSERT_STRING_EQUAL(a, b);
		CU_ASSERT(strcmp(a, c) != 0);
		read_text(&s, a);
		CU_ASSERT_EQUAL(s.n_vfs, sizes[k]);
		CU_ASSERT_EQUAL(s.load.max + s.run.max + s.vfs[0].save.max, 300 * VGPU_USEC);
		for (i = 0, trains = 0; i < s.n_vfs; i++) {
			CU_ASSERT(s.vfs[i].role != ROLE_NONE);
			trains += s.vfs[i].role == ROLE_TRAINING;
			if (s.vfs[i].role == ROLE_FRAMES)
				CU_ASSERT_EQUAL(s.vfs[i].work, VHOST_PERIODIC);
		}
		CU_ASSERT_EQUAL(trains, sizes[k] / 4);
		scenario_free(&s);
		free(a);
		free(b);
		free(c);
	}
	CU_ASSERT_EQUAL(k, 3);
}

/* Runs LINE on the scenario of TEXT. */
static struct compare_line compared(const char *line, const char *text)
{
	struct compare_line out;
	struct vgpu_error err;
	struct scenario s;

	read_text(&s, text);
	CU_ASSERT_EQUAL_FATAL(compare_parse(&out, line, &err), 0);
	CU_ASSERT_EQUAL_FATAL(compare_run(&out, &s, &err), 0);
	scenario_free(&s);
	return out;
}

TEST(line_mistakes, "compare: mistakes in a line")
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "no such policy"},
		{"unfair", "unfair: no such policy"},
		{"fair slice_us", "want name=value"},
		{"fair slice_us=soon", "slice_us = soon: want 500 to"},
		{"fair tea=1", "tea"},
		{"fair games.weight=5", "games: no such role"},
		{"fair frames.slice_us=5", "slice_us"},
	};
	struct compare_line line;
	struct vgpu_error err;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT(compare_parse(&line, cases[i].text, &err) < 0);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].says));
	}
}

/* Figures that are known beforehand. */
TEST(figures, "compare: figures told beforehand")
{
	struct compare_line line = compared(
		"fair", "vfs 1\nuntil 10s\nvf 0 role=frames work=periodic period=10ms burst=2ms\n");

	CU_ASSERT_DOUBLE_EQUAL(compare_mean(&line, COMPARE_FRAME_P50), 2, 1e-3);
	CU_ASSERT_DOUBLE_EQUAL(compare_mean(&line, COMPARE_FRAME_P99), 2, 1e-3);
	CU_ASSERT_DOUBLE_EQUAL(compare_mean(&line, COMPARE_MISSED), 0, 1e-9);
	CU_ASSERT_EQUAL(line.runs[COMPARE_TRAINING], 0);
	/* The engine waits 0.1 ms after each step, in case more work comes. */
	line = compared("fair",
			"vfs 1\nuntil 10s\nvf 0 role=training work=bursts burst=90ms think=10ms\n");
	CU_ASSERT_DOUBLE_EQUAL(compare_mean(&line, COMPARE_TRAINING), 90.1, 0.01);
	CU_ASSERT_EQUAL(line.runs[COMPARE_FRAME_P99], 0);
	/* The preparation of tokens is not counted as a token. */
	line = compared("fair", "vfs 1\nuntil 10s\nvf 0 role=inference work=script\n0 0 arrive\n"
				"0 0 prep 500ms\n0 0 think 1ms\n0 0 work 3ms\n");
	CU_ASSERT_DOUBLE_EQUAL(compare_mean(&line, COMPARE_TOKEN_P99), 3, 1e-3);
}

/* Two switches for each frame, one of which the waking VF is charged for: both are lost. */
TEST(switches, "compare: switches")
{
	struct compare_line line =
		compared("fair", "vfs 2\nuntil 10s\ngpu load=100us run=50us\nvf * save=150us\n"
				 "vf 0 role=frames work=periodic period=20ms burst=5ms "
				 "weight=1000\nvf 1 role=training\n");

	CU_ASSERT_DOUBLE_EQUAL(compare_mean(&line, COMPARE_SWITCHES), 100, 1);
	CU_ASSERT_DOUBLE_EQUAL(compare_mean(&line, COMPARE_LOST), 3, 0.03);
}

/* A job that is never done counts with its lateness at the end: starving a VF does not improve the
 * figures. */
TEST(never_done, "compare: a job that is never done")
{
	struct compare_line line =
		compared("fair",
			 "vfs 1\nuntil 10s\nvf 0 role=frames work=periodic period=1s burst=100s\n");

	CU_ASSERT(compare_mean(&line, COMPARE_FRAME_P99) >= 9000);
	CU_ASSERT(compare_mean(&line, COMPARE_MISSED) > 80);
}

/* The gap: a VF that got less by weight than another, though it asked for more. */
TEST(share_gap, "compare: the gap in shares")
{
	static const char text[] = "vfs 2\nuntil 10s\nvf 0 role=training weight=300\n"
				   "vf 1 role=training weight=100\n";
	struct compare_line fair = compared("fair", text), equal = compared("equal", text);
	struct compare_line set = compared("fair training.weight=100", text);

	CU_ASSERT(compare_mean(&fair, COMPARE_GAP) < 0.5);
	CU_ASSERT_DOUBLE_EQUAL(compare_mean(&equal, COMPARE_GAP), 66.7, 0.5);
	CU_ASSERT(compare_mean(&set, COMPARE_GAP) < 0.5);
}

/* What WRITE makes of LINE. */
static char *written(void (*write)(const struct compare_line *lines, unsigned n, FILE *to),
		     const struct compare_line *line)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	write(line, 1, f);
	fclose(f);
	return text;
}

/* Guarantees that cannot all be kept: the table and the JSON say how many VFs were refused, over
 * all runs at most, and the gap is that of the others. */
TEST(refused_vfs, "compare: VFs that a policy refuses")
{
	static const char text[] = "vfs 3\nuntil 10s\nvf * role=training\n";
	static const struct {
		const char *line, *table, *json;
	} cases[] = {
		{"qos", " 0.00 %\n", "\"refused\":0,"},
		{"qos training.fps=60 training.frame_us=5000", " 0.00 %  (refused 1 VF)\n",
		 "\"refused\":1,"},
		{"qos training.fps=60 training.frame_us=12000", " 0.00 %  (refused 2 VFs)\n",
		 "\"refused\":2,"},
	};
	struct compare_line line;
	struct vgpu_error err;
	char *table, *json;
	struct scenario s;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		line = compared(cases[i].line, text);
		read_text(&s, text);
		CU_ASSERT_EQUAL(compare_run(&line, &s, &err), 0);
		scenario_free(&s);
		CU_ASSERT_EQUAL(line.refused, i);
		CU_ASSERT(compare_mean(&line, COMPARE_GAP) < 0.5);
		table = written(compare_table, &line);
		json = written(compare_json, &line);
		CU_ASSERT_PTR_NOT_NULL(strstr(table, cases[i].table));
		CU_ASSERT_PTR_NOT_NULL(strstr(json, cases[i].json));
		free(table);
		free(json);
	}
}

/* Six wakes at one interval, give or take 2 %, and each tick that is missed counts. */
TEST(cadence, "fair: who keeps time")
{
	struct cadence c = {.woke = 0};
	vgpu_nsec t = VGPU_SEC;
	unsigned i;

	for (i = 0; i < 6; i++) {
		CU_ASSERT(!cadence_is_kept(&c));
		cadence_wake(&c, t);
		t += 16 * VGPU_MSEC + (i % 2 ? 100 : 300) * VGPU_USEC;
	}
	CU_ASSERT(cadence_is_kept(&c));
	cadence_wake(&c, t);
	cadence_wake(&c, t += 32 * VGPU_MSEC + 500 * VGPU_USEC); /* one was missed */
	CU_ASSERT(cadence_is_kept(&c));
	cadence_wake(&c, t += 32 * VGPU_MSEC + 500 * VGPU_USEC);
	CU_ASSERT(!cadence_is_kept(&c));
	for (i = 0; i < 6; i++)
		cadence_wake(&c, t += 16 * VGPU_MSEC + 300 * VGPU_USEC);
	CU_ASSERT(cadence_is_kept(&c));
	cadence_wake(&c, t += 17 * VGPU_MSEC);
	CU_ASSERT(!cadence_is_kept(&c));
	/* Too often, and too seldom. */
	for (i = 0; i < 9; i++)
		cadence_wake(&c, t += 3 * VGPU_MSEC);
	CU_ASSERT(!cadence_is_kept(&c));
	for (i = 0; i < 9; i++)
		cadence_wake(&c, t += 61 * VGPU_MSEC);
	CU_ASSERT(!cadence_is_kept(&c));
}

/* Sums of a figure of a mix under three ways to favour frames. */
static void favoured(const char *mix, enum compare_figure figure, double *sums)
{
	static const char *const lines[] = {"fair favour=throughput", "fair", "fair favour=frames"};
	struct compare_line line;
	uint64_t seed;
	unsigned i;
	char *text;

	for (i = 0; i < 3; i++) {
		for (sums[i] = 0, seed = 6; seed <= 10; seed++) {
			text = mix_text(mix_find(mix), LENGTH, seed);
			line = compared(lines[i], text);
			sums[i] += compare_mean(&line, figure);
			free(text);
		}
	}
}

/* VFs with frames are served sooner, and no more than their share: in overload it changes little.
 */
TEST(frames_are_favoured, "fair: frames are favoured")
{
	double missed[3], training[3];

	favoured("mix4", COMPARE_MISSED, missed);
	CU_ASSERT(missed[1] < 0.6 * missed[0]);
	CU_ASSERT(missed[2] < 0.6 * missed[1]);
	favoured("mix8", COMPARE_MISSED, missed);
	CU_ASSERT(missed[1] < 0.8 * missed[0]);
	CU_ASSERT(missed[2] < 0.6 * missed[1]);
	favoured("mix16", COMPARE_MISSED, missed);
	favoured("mix16", COMPARE_TRAINING, training);
	CU_ASSERT_DOUBLE_EQUAL(missed[1], missed[0], 5);
	CU_ASSERT_DOUBLE_EQUAL(missed[2], missed[0], 5);
	CU_ASSERT_DOUBLE_EQUAL(training[2], training[0], 5);
}

/* Frames that come at no regular interval, on a GPU where a switch is cheap, beside work that stops
 * as late as its submissions of 8 ms end: none is missed. */
TEST(irregular_frames, "fair: irregular frames where a switch is cheap")
{
	const char *text = "vfs 3\nuntil 20s\ngpu run=30us min_slice=500us\n"
			   "vf 0 role=frames work=periodic period=15ms..18.3ms burst=2ms\n"
			   "vf 1 role=training late=0..8ms\nvf 2 role=training late=0..2ms\n";
	struct compare_line line = compared("fair", text);

	CU_ASSERT_DOUBLE_EQUAL(compare_mean(&line, COMPARE_MISSED), 0, 0.1);
	line = compared("fair favour=throughput", text);
	CU_ASSERT(compare_mean(&line, COMPARE_MISSED) > 10);
}

/* One that wakes at a regular interval, and has work for longer, gets its share. */
TEST(feigned_frames, "fair: feigned frames gain nothing")
{
	const char *text = "vfs 3\nuntil 20s\ngpu load=100us run=50us\nvf * save=100us\n"
			   "vf 0 role=frames work=periodic period=16ms burst=15ms\n"
			   "vf 1 role=training\nvf 2 role=training\n";
	struct compare_line line = compared("fair favour=frames", text);

	CU_ASSERT(compare_mean(&line, COMPARE_TRAINING) >
		  (100 - compare_mean(&line, COMPARE_LOST)) * 2 / 3 - 0.5);
}

/* No model pays for a switch of a VF with itself. */
TEST(models_go_on, "models go on with the same VF")
{
	unsigned i;

	for (i = 0; peers[i]; i++) {
		struct compare_line line =
			compared(peers[i]->name, "vfs 1\nuntil 10s\ngpu load=100us run=50us\n"
						 "vf 0 role=training save=100us\n");

		CU_ASSERT(compare_mean(&line, COMPARE_SWITCHES) < 5);
		if (compare_mean(&line, COMPARE_SWITCHES) >= 5)
			printf("[%s: %.0f/s] ", peers[i]->name,
			       compare_mean(&line, COMPARE_SWITCHES));
	}
}

/* Beside a VF that always works: credit2 and bvt with a warp let a waker in within their shortest
 * runs; without its warp bvt does so only while the waker is behind. */
TEST(wakers_preempt, "models: wakers preempt")
{
	static const char text[] = "vfs 2\nuntil 10s\nvf 0 role=frames work=periodic period=50ms "
				   "burst=2ms\nvf 1 role=training\n";
	struct compare_line credit2 = compared("credit2", text);
	struct compare_line warped = compared("bvt frames.warp_us=20000", text);

	CU_ASSERT(compare_mean(&credit2, COMPARE_FRAME_P50) < 4.1);
	CU_ASSERT(compare_mean(&warped, COMPARE_FRAME_P99) < 2.6);
	CU_ASSERT(compare_mean(&warped, COMPARE_TRAINING) > 95);
}

/* Frames that ask for more than their half warp for a while, and get their half in the long run. */
TEST(warps_are_loans, "bvt: warps are loans")
{
	static const char text[] = "vfs 2\nuntil 20s\nvf 0 role=frames work=periodic period=10ms "
				   "burst=8ms\nvf 1 role=training\n";
	struct compare_line warped = compared("bvt frames.warp_us=50000", text);

	CU_ASSERT_DOUBLE_EQUAL(compare_mean(&warped, COMPARE_TRAINING), 50, 1);
}

/* Frames within their half run at once while they warp; without a warp each turn of the other
 * is between theirs, and so it is if they may not warp for a second after each 2 ms of it. */
TEST(warps_have_limits, "bvt: warps have limits")
{
	static const char text[] = "vfs 2\nuntil 20s\nvf 0 role=frames work=periodic period=20ms "
				   "burst=8ms\nvf 1 role=training\n";
	struct compare_line plain = compared("bvt", text);
	struct compare_line warped = compared("bvt frames.warp_us=50000", text);
	struct compare_line limited = compared(
		"bvt frames.warp_us=50000 frames.warp_limit_us=2000 frames.unwarp_us=1000000",
		text);

	CU_ASSERT(compare_mean(&warped, COMPARE_FRAME_P50) < 8.6);
	CU_ASSERT(compare_mean(&plain, COMPARE_FRAME_P50) > 15);
	CU_ASSERT(compare_mean(&limited, COMPARE_FRAME_P50) > 15);
}

SUITE_MAIN("loads")
