/* SPDX-License-Identifier: MIT */
/*
 * Events have times of CLOCK_MONOTONIC. They are shown as the time of day, as in the journal, using
 * the present difference of the two clocks. The time of day is taken to be the same on all hosts.
 */
#include "events.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "answer.h"
#include "screen.h"
#include "vgpu/clock.h"
#include "vgpu/number.h"
#include "vgpu/output.h"

/* By how much CLOCK_MONOTONIC of vgpud's host is ahead of this host's, ns. */
static int64_t ahead_there;

/* Returns CLOCK_MONOTONIC, ns, of the host where vgpud runs. */
static int64_t now_there(void)
{
	return (int64_t)vgpu_now() + ahead_there;
}

/* Returns by how many ns the time of day is ahead of CLOCK_MONOTONIC of vgpud's host. */
static int64_t day_ahead(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * (int64_t)VGPU_SEC + t.tv_nsec - now_there();
}

static void time_of_day(int64_t monotonic, char *out, size_t size)
{
	int64_t ns = monotonic + day_ahead();
	time_t seconds = (time_t)(ns / (int64_t)VGPU_SEC);
	struct tm tm;
	char text[32];

	localtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(out, size, "%s.%06" PRId64, text, ns % (int64_t)VGPU_SEC / 1000);
}

/* Parses "30s", "10m", "2h" or "1d" as a time before now, and writes the instant on
 * CLOCK_MONOTONIC. Returns false if TEXT has another form. */
static bool parse_ago(const char *text, int64_t *out)
{
	static const char units[] = "smhd";
	static const int64_t seconds[] = {1, 60, 3600, 86400};
	size_t n = strlen(text);
	char number[16];
	const char *unit = n ? strchr(units, text[n - 1]) : NULL;
	int64_t value;

	if (!unit || n >= sizeof(number))
		return false;
	snprintf(number, sizeof(number), "%.*s", (int)(n - 1), text);
	if (vgpu_parse_between(number, 0, 1000000, &value) < 0)
		return false;
	*out = now_there() - value * seconds[unit - units] * (int64_t)VGPU_SEC;
	return true;
}

/* Parses a local time of today, or with a date, and writes the instant on CLOCK_MONOTONIC. Returns
 * false if TEXT has another form. */
static bool parse_day(const char *text, int64_t *out)
{
	static const char *const forms[] = {"%H:%M", "%H:%M:%S", "%Y-%m-%d", "%Y-%m-%d %H:%M",
					    "%Y-%m-%d %H:%M:%S"};
	time_t now = time(NULL);
	const char *end;
	struct tm tm;
	size_t i;

	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		localtime_r(&now, &tm);
		tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
		tm.tm_isdst = -1;
		end = strptime(text, forms[i], &tm);
		if (end && (!*end || *end == '.')) { /* also as events prints it, with
						      * microseconds */
			*out = (int64_t)mktime(&tm) * (int64_t)VGPU_SEC - day_ahead();
			return true;
		}
	}
	return false;
}

/* Sets *SINCE to the instant of --since on CLOCK_MONOTONIC; 0: from the beginning. Returns false if
 * TEXT is invalid. */
static bool parse_since(const char *text, int64_t *since)
{
	*since = 0;
	if (text && !parse_ago(text, since) && !parse_day(text, since))
		return false;
	if (*since < 0)
		*since = 0;
	return true;
}

/* Writes the sentence of a record, without its time, to OUT. */
static void describe(struct json_object *r, char *out, size_t size)
{
	const char *type = get_text(r, "type"), *what = get(r, "what") ? get_text(r, "what") : "";
	char vf[32] = "", length[64] = "";
	size_t n;

	if (get(r, "vf"))
		snprintf(vf, sizeof(vf), "VF %" PRId64, get_int(r, "vf"));
	if (strcmp(type, "window-end") == 0 || strcmp(type, "hang") == 0 ||
	    strcmp(type, "reset-done") == 0)
		snprintf(length, sizeof(length), " after %.2f ms%s", get_ms(r, "a"),
			 get_int(r, "b") ? ", failed" : "");
	if (strcmp(type, "cpu") == 0 && get_int(r, "b") > 0)
		snprintf(length, sizeof(length), ": %.0f %% of a CPU",
			 100 * get_ms(r, "a") / get_ms(r, "b"));
	n = (size_t)snprintf(out, size, "%-5s  %-10s  %s%s", vf, type, what, length);
	if (get(r, "domain") && n < size)
		n += (size_t)snprintf(out + n, size - n, "  %s", get_text(r, "domain"));
	while (n < size && n > 0 && out[n - 1] == ' ')
		out[--n] = '\0';
}

static void add_time(struct json_object *r)
{
	char when[64];

	time_of_day(get_int(r, "t_ns"), when, sizeof(when));
	json_object_object_add(r, "time", json_object_new_string(when));
}

static void print_record(const struct session *s, struct json_object *r)
{
	char text[200];

	add_time(r);
	describe(r, text, sizeof(text));
	if (s->options->json)
		puts(json_object_to_json_string_ext(r, JSON_C_TO_STRING_PLAIN));
	else if (count(s->gpus) > 1)
		printf("%s  %-8s  %s\n", get_text(r, "time"), get_text(r, "gpu"), text);
	else
		printf("%s  %s\n", get_text(r, "time"), text);
}

/* The records of a GPU that were printed: all before T, and N of those at T. */
struct seen {
	int64_t t;
	size_t n;
};

/* Asks for the newest LIMIT records of a GPU since SINCE. Returns an exit code. */
static int ask_records(struct session *s, size_t gpu, int64_t since, int64_t limit,
		       struct json_object **answer)
{
	struct json_object *args = json_object_new_object();

	json_object_object_add(args, "since_ns", json_object_new_int64(since));
	json_object_object_add(args, "limit", json_object_new_int64(limit));
	return session_call_gpu(s, gpu, "events", args, answer);
}

/* Compares CLOCK_MONOTONIC of this host and that of --host, because each counts from its host's
 * start. Returns an exit code. */
static int compare_clocks(struct session *s)
{
	struct json_object *answer;
	int r = EXIT_OK;

	if (!s->options->host || count(s->gpus) == 0)
		return r;
	r = ask_records(s, 0, 0, 1, &answer);
	if (r != EXIT_OK)
		return r;
	ahead_there = get_int(answer, "now_ns") - (int64_t)vgpu_now();
	json_object_put(answer);
	return r;
}

/* Prints vgpud's answers, GPU by GPU, with the time of day. */
static int print_answers(struct session *s, int64_t since, int64_t limit)
{
	struct json_object *answer;
	int r = EXIT_OK;
	size_t g, i;

	for (g = 0; g < count(s->gpus) && r == EXIT_OK; g++) {
		r = ask_records(s, g, since, limit, &answer);
		if (r != EXIT_OK)
			break;
		for (i = 0; i < count(get(answer, "records")); i++)
			add_time(at(get(answer, "records"), i));
		print_json(answer);
		json_object_put(answer);
	}
	return r;
}

/* Appends the list of the new records of a GPU to LISTS. Returns an exit code. */
static int fetch(struct session *s, size_t gpu, int64_t limit, struct seen *seen,
		 struct json_object *lists)
{
	struct json_object *list = json_object_new_array(), *answer, *records, *r;
	size_t i, known = seen->n;
	int64_t from = seen->t;
	int e;

	json_object_array_add(lists, list);
	e = ask_records(s, gpu, from, limit, &answer);
	if (e != EXIT_OK)
		return e;
	records = get(answer, "records");
	for (i = 0; i < count(records); i++) {
		r = at(records, i);
		if (get_int(r, "t_ns") == from && known > 0) {
			known--;
			continue;
		}
		if (get_int(r, "t_ns") != seen->t)
			*seen = (struct seen){get_int(r, "t_ns"), 0};
		seen->n++;
		json_object_object_add(r, "gpu", json_object_get(get(answer, "gpu")));
		json_object_array_add(list, json_object_get(r));
	}
	json_object_put(answer);
	return EXIT_OK;
}

/* Takes the earliest record that was not taken yet; NULL if there is none. */
static struct json_object *take(struct json_object *lists, size_t *taken)
{
	struct json_object *r, *earliest = NULL;
	size_t i, of = 0;

	for (i = 0; i < count(lists); i++) {
		r = at(at(lists, i), taken[i]);
		if (r && (!earliest || get_int(r, "t_ns") < get_int(earliest, "t_ns"))) {
			earliest = r;
			of = i;
		}
	}
	taken[of] += earliest != NULL;
	return earliest;
}

/* Prints the newest LIMIT of the new records of all GPUs. Returns an exit code. */
static int print_new(struct session *s, int64_t limit, struct seen *seen)
{
	struct json_object *lists = json_object_new_array(), *record;
	size_t *taken = calloc(count(s->gpus) + 1, sizeof(*taken)), i;
	int64_t n = 0;
	int r = taken ? EXIT_OK : EXIT_FAILED;

	for (i = 0; i < count(s->gpus) && r == EXIT_OK; i++) {
		r = fetch(s, i, limit, &seen[i], lists);
		n += (int64_t)count(at(lists, i));
	}
	for (; taken && (record = take(lists, taken)); n--)
		if (n <= limit)
			print_record(s, record);
	if (!vgpu_output_flush())
		r = EXIT_FAILED;
	free(taken);
	json_object_put(lists);
	return r;
}

int events(struct session *s)
{
	const struct options *o = s->options;
	struct seen *seen = calloc(count(s->gpus) + 1, sizeof(*seen));
	int64_t since, limit = o->since ? 1024 : 50, n = 1;
	size_t i;
	int r = EXIT_USAGE;

	if (o->limit && vgpu_parse_between(o->limit, 1, 1024, &limit) < 0)
		fprintf(stderr, "vgpuctl: --limit %s: want 1 to 1024; see vgpuctl --help\n",
			o->limit);
	else
		r = compare_clocks(s);
	if (r != EXIT_OK) {
		free(seen);
		return r;
	}
	if (!seen || !parse_since(o->since, &since)) {
		fprintf(stderr,
			"vgpuctl: --since %s: want 30s, 10m, 2h or 1d ago, 14:30, or "
			"\"2026-01-31 14:30:05\"\n",
			o->since);
		free(seen);
		return EXIT_USAGE;
	}
	for (i = 0; i < count(s->gpus); i++)
		seen[i].t = since;
	r = o->json && !o->follow ? print_answers(s, since, limit) : print_new(s, limit, seen);
	if (o->follow)
		screen_catch();
	while (r == EXIT_OK && o->follow && (o->count == 0 || n++ < o->count) &&
	       screen_wait(vgpu_now() + (vgpu_nsec)(o->interval * 1e9)) != KEY_END)
		r = print_new(s, 1024, seen);
	free(seen);
	return r;
}
