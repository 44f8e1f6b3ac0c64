/* SPDX-License-Identifier: MIT */
/*
 * vgpuctl verify, whole, against a vgpud that the test plays (played_vgpud.h): each judge meets
 * what just keeps its bound, and what just breaks it. Expected values follow from the bounds in
 * docs/verify.md. tests/system/verify.sh runs it with real GPUs in software.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer.h"
#include "played_vgpud.h"
#include "suite.h"
#include "verify.h"

static struct json_object *checks; /* of the last run */
static char folder[] = "/tmp/vgpud-unit.XXXXXX", path[64];

/* Verifies, and ends. Returns the exit code; CHECKS stand until the next run. */
static int run_to(const char *to, int64_t seconds, const char *busy, const char *change)
{
	struct options o = {.json = true, .seconds = seconds, .busy = busy, .change = change};
	struct session s = {.options = &o, .gpus = json_object_new_array()};
	int keep = dup(STDERR_FILENO), r;

	o.output = to;
	json_object_array_add(s.gpus, json_object_new_object());
	CU_ASSERT_PTR_NOT_NULL_FATAL(freopen("/dev/null", "w", stderr));
	r = verify(&s);
	fflush(stderr);
	dup2(keep, STDERR_FILENO);
	close(keep);
	json_object_put(s.gpus);
	json_object_put(checks);
	checks = json_object_get(printed);
	played_end();
	return r;
}

static int run(int64_t seconds, const char *busy, const char *change)
{
	return run_to(path, seconds, busy, change);
}

/* What a judge found of a VF, or of the GPU (-1). */
static struct json_object *found(const char *check, int of)
{
	struct json_object *o;
	size_t i;

	for (i = 0; i < count(checks); i++) {
		o = at(checks, i);
		if (strcmp(get_text(o, "check"), check) == 0 &&
		    (of < 0 ? !get(o, "vf") : get(o, "vf") && get_int(o, "vf") == of))
			return o;
	}
	return NULL;
}

static bool is(const char *check, int of, const char *verdict)
{
	bool yes = strcmp(get_text(found(check, of), "verdict"), verdict) == 0;

	if (!yes)
		printf("\n  %s of %d: %s\n", check, of,
		       json_object_to_json_string(found(check, of)));
	return yes;
}

static int64_t measured(const char *check, int of)
{
	return get_int(found(check, of), "measured_ns");
}

static bool all_are(const char *check, const char *verdict)
{
	return is(check, 0, verdict) && is(check, 1, verdict) && is(check, 2, verdict);
}

TEST(kept, "bounds that are kept")
{
	struct json_object *report;

	played_begin(true);
	CU_ASSERT_EQUAL(run(20, "all", NULL), EXIT_OK);
	CU_ASSERT(all_are("share", "kept") && all_are("wait", "kept"));
	CU_ASSERT(all_are("counter moves", "kept") && is("counters add up", -1, "kept"));
	CU_ASSERT(is("counters go forward", -1, "kept") && is("counters count all", -1, "kept"));
	CU_ASSERT(is("counters count too much", -1, "kept") && all_are("received", "measured"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(get_text(found("received", 0), "what"), "50.00 % of what VFs"));
	CU_ASSERT_EQUAL(measured("share", 0), 0);
	report = json_object_from_file(path);
	CU_ASSERT_STRING_EQUAL(get_text(report, "result"), "kept");
	CU_ASSERT(count(get(report, "samples")) >= 39 && count(get(report, "epochs")) >= 114);
	CU_ASSERT_PTR_NULL(strstr(json_object_to_json_string(report), "secret"));
	json_object_put(report);
	played_begin(false);
	CU_ASSERT_EQUAL(run(20, NULL, NULL), EXIT_OK);
	CU_ASSERT(all_are("share", "kept") && all_are("wait", "kept"));
	CU_ASSERT_PTR_NULL(found("counter moves", 0));
}

/* One gift of G moves two VFs apart by G over the share of each: what two bounds of G / 2 allow. */
TEST(shares, "shares")
{
	played_begin(true);
	gpu.gift_at[0] = 15 * SEC;
	gpu.gift = 2 * LAG * 95 / 100;
	CU_ASSERT_EQUAL(run(10, "all", NULL), EXIT_OK);
	CU_ASSERT(all_are("share", "kept"));
	CU_ASSERT(llabs(measured("share", 0) - 3 * gpu.gift) <= MS / 10);
	played_begin(true);
	gpu.gift_at[0] = 15 * SEC;
	gpu.gift = 2 * LAG * 105 / 100;
	CU_ASSERT_EQUAL(run(10, "all", NULL), EXIT_BROKEN);
	CU_ASSERT(is("share", 0, "BROKEN") && is("share", 1, "BROKEN") && is("share", 2, "kept"));
	/* The same in two parts, without and with another policy between. */
	played_begin(true);
	gpu.gift_at[0] = 15 * SEC;
	gpu.gift_at[1] = 25 * SEC;
	gpu.gift = 2 * LAG * 60 / 100;
	CU_ASSERT_EQUAL(run(20, "all", NULL), EXIT_BROKEN);
	played_begin(true);
	gpu.gift_at[0] = 15 * SEC;
	gpu.gift_at[1] = 25 * SEC;
	gpu.gift = 2 * LAG * 60 / 100;
	gpu.policy_at = 20 * SEC;
	CU_ASSERT_EQUAL(run(20, "all", NULL), EXIT_OK);
	CU_ASSERT(all_are("share", "kept"));
}

/* What cannot be judged is said to be so. */
TEST(not_judged, "what is not judged")
{
	int i;

	/* Even a VF that got nothing would be within such a bound. */
	played_begin(true);
	for (i = 0; i < VFS; i++)
		gpu.vfs[i].lag = 10 * SEC;
	CU_ASSERT_EQUAL(run(5, NULL, NULL), EXIT_NOT_JUDGED);
	CU_ASSERT(all_are("share", "not judged") && all_are("wait", "not judged"));
	CU_ASSERT(is("counters add up", -1, "kept")); /* which does not count as judged */
	/* Guarantees are no shares in proportion. */
	played_begin(true);
	gpu.vfs[1].budget = MS;
	CU_ASSERT_EQUAL(run(5, NULL, NULL), EXIT_OK);
	CU_ASSERT(is("share", 0, "kept") && is("share", 1, "not judged"));
	CU_ASSERT_PTR_NULL(found("received", 1));
	/* Nothing is promised. */
	played_begin(false);
	for (i = 0; i < VFS; i++)
		gpu.vfs[i].lag = gpu.vfs[i].wait = -1;
	CU_ASSERT_EQUAL(run(5, NULL, NULL), EXIT_NOT_JUDGED);
	CU_ASSERT(all_are("share", "not judged") && all_are("wait", "measured"));
	CU_ASSERT(measured("wait", 0) > 0);
}

TEST(counters, "counters")
{
	played_begin(true);
	gpu.stray = 3;
	CU_ASSERT_EQUAL(run(5, "all", NULL), EXIT_BROKEN);
	CU_ASSERT(is("counters add up", -1, "BROKEN") && measured("counters add up", -1) == 3);
	played_begin(true);
	gpu.back_at = 13 * SEC;
	CU_ASSERT_EQUAL(run(5, "all", NULL), EXIT_BROKEN);
	CU_ASSERT(is("counters go forward", -1, "BROKEN"));
	CU_ASSERT_EQUAL(measured("counters go forward", -1), 1);
	/* In 100 s, 2 s may be counted too much: 1 % and two epochs. */
	played_begin(true);
	gpu.counted = 1.015;
	CU_ASSERT_EQUAL(run(100, "all", NULL), EXIT_OK);
	played_begin(true);
	gpu.counted = 1.025;
	CU_ASSERT_EQUAL(run(100, "all", NULL), EXIT_BROKEN);
	CU_ASSERT(is("counters count too much", -1, "BROKEN"));
	/* And 75 % of 98 s must be. */
	played_begin(true);
	gpu.counted = 0.745;
	CU_ASSERT_EQUAL(run(100, "all", NULL), EXIT_OK);
	played_begin(true);
	gpu.counted = 0.725;
	CU_ASSERT_EQUAL(run(100, "all", NULL), EXIT_BROKEN);
	CU_ASSERT(is("counters count all", -1, "BROKEN"));
}

/* A counter may stand still for the wait, two epochs and a second. */
TEST(frozen, "counters that stand still")
{
	played_begin(true);
	gpu.frozen[0] = 15 * SEC;
	gpu.frozen[1] = 17 * SEC;
	gpu.vfs[0].wait = gpu.vfs[1].wait = gpu.vfs[2].wait = 2 * SEC;
	CU_ASSERT_EQUAL(run(10, "all", NULL), EXIT_BROKEN); /* its share is not */
	CU_ASSERT(all_are("counter moves", "kept") && all_are("wait", "kept"));
	CU_ASSERT_EQUAL(measured("wait", 1), 2 * SEC);
	CU_ASSERT(is("share", 1, "BROKEN"));
	played_begin(true);
	gpu.frozen[0] = 15 * SEC;
	gpu.frozen[1] = 17 * SEC;
	CU_ASSERT_EQUAL(run(10, "1", NULL), EXIT_BROKEN);
	CU_ASSERT(is("counter moves", 1, "kept") && is("wait", 1, "BROKEN"));
	CU_ASSERT(is("wait", 0, "not judged") && !found("counter moves", 0));
	played_begin(true);
	gpu.frozen[0] = 15 * SEC;
	gpu.frozen[1] = 17 * SEC + EPOCH;
	CU_ASSERT_EQUAL(run(10, "all", NULL), EXIT_BROKEN);
	CU_ASSERT(is("counter moves", 1, "BROKEN") && is("counter moves", 0, "kept"));
	/* Nobody says that it works. */
	played_begin(true);
	gpu.frozen[0] = 15 * SEC;
	gpu.frozen[1] = 30 * SEC;
	CU_ASSERT_EQUAL(run(10, NULL, NULL), EXIT_OK);
}

/* Turns of 20, 10 and 10 ms: VF 1 waits for 30 ms and three switches. */
TEST(waits, "waits")
{
	int64_t usual = 30 * MS + 3 * SWITCH;

	played_begin(false);
	gpu.vfs[1].wait = usual;
	CU_ASSERT_EQUAL(run(5, NULL, NULL), EXIT_OK);
	CU_ASSERT(measured("wait", 1) == usual && measured("wait", 0) == 20 * MS + 3 * SWITCH);
	played_begin(false);
	gpu.vfs[1].wait = usual - 1;
	CU_ASSERT_EQUAL(run(5, NULL, NULL), EXIT_BROKEN);
	CU_ASSERT(is("wait", 1, "BROKEN") && is("wait", 0, "kept"));
	/* What a turn takes beyond its grant is not vgpud's; what it is granted is. */
	played_begin(false);
	gpu.overrun_at = 12 * SEC;
	gpu.overrun = 40 * MS;
	gpu.vfs[1].wait = usual;
	run(5, NULL, NULL);
	CU_ASSERT(is("wait", 1, "kept") && measured("wait", 1) == usual);
	played_begin(false);
	gpu.grant_at = 12 * SEC;
	gpu.grant = 60 * MS;
	CU_ASSERT_EQUAL(run(5, NULL, NULL), EXIT_BROKEN);
	CU_ASSERT(is("wait", 1, "BROKEN") && measured("wait", 1) == usual + 40 * MS);
	/* Waits with a window in them do not count. */
	played_begin(false);
	gpu.window_at = 12 * SEC;
	gpu.vfs[1].wait = usual;
	CU_ASSERT_EQUAL(run(5, NULL, NULL), EXIT_OK);
	CU_ASSERT_EQUAL(measured("wait", 1), usual);
}

/* A weight is doubled. A plan may take two epochs, and must act in two more and the wait. */
TEST(changes, "a weight that changes")
{
	played_begin(true);
	CU_ASSERT_EQUAL(run(5, "all", "1"), EXIT_OK);
	CU_ASSERT(is("change to plan", 1, "kept") && measured("change to plan", 1) <= EPOCH);
	CU_ASSERT(is("change to effect", 1, "kept"));
	CU_ASSERT(measured("change to effect", 1) > measured("change to plan", 1));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(get_text(found("change to effect", 1), "what"), "25.0 % to 40.0 %"));
	CU_ASSERT_EQUAL(gpu.vfs[1].weight, 100);
	played_begin(true);
	gpu.plan_after = 2;
	CU_ASSERT_EQUAL(run(5, "all", "1"), EXIT_BROKEN);
	CU_ASSERT(is("change to plan", 1, "BROKEN") && measured("change to plan", 1) > 2 * EPOCH);
	CU_ASSERT(is("change to effect", 1, "kept"));
	played_begin(true);
	gpu.plan_after = 4;
	CU_ASSERT_EQUAL(run(5, "all", "1"), EXIT_BROKEN);
	CU_ASSERT(is("change to effect", 1, "BROKEN"));
	CU_ASSERT_EQUAL(measured("change to effect", 1), 6 * EPOCH);
	played_begin(true);
	gpu.plan_after = -1;
	CU_ASSERT_EQUAL(run(5, "all", "1"), EXIT_BROKEN);
	CU_ASSERT(is("change to plan", 1, "BROKEN") && is("change to effect", 1, "BROKEN"));
	CU_ASSERT_EQUAL(gpu.vfs[1].weight, 100);
	played_begin(true);
	gpu.no_effect = true;
	CU_ASSERT_EQUAL(run(5, "all", "1"), EXIT_BROKEN);
	CU_ASSERT(is("change to plan", 1, "kept") && is("change to effect", 1, "BROKEN"));
	/* ^C meanwhile. */
	played_begin(true);
	gpu.plan_after = -1;
	gpu.interrupt_at = 16 * SEC;
	CU_ASSERT_EQUAL(run(5, "all", "1"), EXIT_FAILED);
	CU_ASSERT(is("change to plan", 1, "not judged") && gpu.vfs[1].weight == 100);
	/* A switched GPU states no time for that. A weight that cannot be doubled is halved. */
	played_begin(false);
	gpu.vfs[1].weight = 8000;
	gpu.vfs[0].weight = gpu.vfs[2].weight = 8000;
	gpu.vfs[0].wait = gpu.vfs[1].wait = gpu.vfs[2].wait = 10 * SEC;
	run(5, "all", "1");
	CU_ASSERT(is("change to effect", 1, "measured") && !found("change to plan", 1));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(get_text(found("change to effect", 1), "what"), "33.3 % to 20.0 %"));
	CU_ASSERT_EQUAL(gpu.vfs[1].weight, 8000);
}

static bool exists(const char *name)
{
	return access(name, F_OK) == 0;
}

static void write_text(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	CU_ASSERT_FATAL(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* A report that cannot be written is known before anything is asked; the one of an earlier time
 * stands until another is whole; nothing is left over. */
TEST(files, "the report's file")
{
	char staged[80], link_[80], text[8] = "";
	struct stat st;
	int ends[2];
	FILE *f;

	snprintf(staged, sizeof(staged), "%s.new", path);
	snprintf(link_, sizeof(link_), "%s/link", folder);
	played_begin(true);
	CU_ASSERT_EQUAL(run_to("/tmp/vgpud-unit-no-such-folder/report", 20, "all", NULL),
			EXIT_FAILED);
	CU_ASSERT_EQUAL(gpu.calls, 0);
	played_begin(true);
	CU_ASSERT_EQUAL(run_to("", 20, "all", NULL), EXIT_FAILED);
	CU_ASSERT_EQUAL(gpu.calls, 0);
	played_begin(true);
	CU_ASSERT_EQUAL(run_to(folder, 20, "all", NULL), EXIT_FAILED);
	CU_ASSERT_EQUAL(gpu.calls, 0);
	write_text(path, "old");
	played_begin(true);
	CU_ASSERT_EQUAL(run(20, "9", NULL), EXIT_USAGE);
	f = fopen(path, "r");
	CU_ASSERT(f && fgets(text, sizeof(text), f) && fclose(f) == 0);
	CU_ASSERT_STRING_EQUAL(text, "old");
	CU_ASSERT_FALSE(exists(staged));
	/* What a link leads to is replaced. */
	CU_ASSERT_EQUAL(symlink(path, link_), 0);
	umask(027);
	unlink(path);
	write_text(path, "old");
	played_begin(true);
	CU_ASSERT_EQUAL(run_to(link_, 5, "all", NULL), EXIT_OK);
	CU_ASSERT(lstat(link_, &st) == 0 && S_ISLNK(st.st_mode));
	CU_ASSERT(stat(path, &st) == 0 && st.st_size > 1000 && (st.st_mode & 0777) == 0640);
	CU_ASSERT_FALSE(exists(staged));
	unlink(link_);
	/* A pipe, which cannot be replaced. */
	CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_NONBLOCK), 0);
	snprintf(link_, sizeof(link_), "/proc/self/fd/%d", ends[1]);
	played_begin(true);
	CU_ASSERT_EQUAL(run_to(link_, 2, "all", NULL), EXIT_OK);
	CU_ASSERT(read(ends[0], text, 1) == 1 && text[0] == '{');
	close(ends[0]);
	close(ends[1]);
}

int main(int argc, char **argv)
{
	int r;

	if (!mkdtemp(folder))
		return 1;
	snprintf(path, sizeof(path), "%s/report", folder);
	r = suite_main("vgpuctl verify", NULL, argc, argv);
	json_object_put(checks);
	unlink(path);
	rmdir(folder);
	return r;
}
