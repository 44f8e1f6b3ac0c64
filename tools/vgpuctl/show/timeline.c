/* SPDX-License-Identifier: MIT */
/* Shows in the terminal which VF ran when, and prints it for trace viewers. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "screen.h"
#include "spans.h"
#include "text.h"
#include "view.h"

#define NAME_MOST 20u
#define COUNTER_STEPS 40u  /* the most values of a trace's counter */
#define TRACE_THREADS 100u /* more than a GPU has VFs */

/* For how long, in ns, a VF did each kind of thing in a column. */
struct column {
	double time[KINDS];
};

/* Adds a span to the columns that it touches; a column covers LENGTH ns. */
static void spread(struct column *row, unsigned width, const struct span *s, int64_t since,
		   double length)
{
	double from = (double)(s->from - since), to = (double)(s->to - since), a, b;
	unsigned c = from > 0 ? (unsigned)(from / length) : 0;

	for (; c < width && c * length < to; c++) {
		a = from > c * length ? from : c * length;
		b = to < (c + 1) * length ? to : (c + 1) * length;
		row[c].time[s->kind] += b > a ? (b - a) * s->part : 0;
	}
}

/* Returns the mark of what the VF did for most of the column's time; or, where firmware gave it
 * turns, how many eighths of the time it had. */
static char mark_of(const struct column *c, double length)
{
	static const char marks[SERVED] = {'#', '!', 'x', 'R'};
	double most = length / 2;
	/* The shares of two, four and eight equal VFs are whole eighths. */
	int eighths = (int)(8 * c->time[SERVED] / length + 0.5);
	char mark = eighths > 7 ? '#' : eighths > 0 ? (char)('0' + eighths) : '.';
	int k;

	for (k = 0; k < SERVED; k++) {
		if (c->time[k] > most) {
			most = c->time[k];
			mark = marks[k];
		}
	}
	return mark;
}

/* Prints the axis: marks at round numbers of ms before now. */
static void axis(int64_t span, unsigned width, unsigned label)
{
	int64_t step = spans_step(span, width / 12 ? width / 12 : 1), t;
	char marks[4100], names[4100], text[32];
	unsigned c, n;

	memset(marks, '-', width);
	memset(names, ' ', width + 32);
	for (t = 0; t <= span; t += step) {
		c = (unsigned)((double)(span - t) / (double)span * (width - 1) + 0.5);
		marks[c] = '|';
		n = (unsigned)snprintf(text, sizeof(text), t ? "-%g ms" : "now", (double)t / 1e6);
		if (c + n > width)
			c = width > n ? width - n : 0;
		memcpy(names + c, text, n);
	}
	marks[width] = names[width] = '\0';
	while (width > 0 && names[width - 1] == ' ')
		names[--width] = '\0';
	printf("%*s%s\n%*s%s\n", (int)label, "", marks, (int)label, "", names);
}

/* Marks the columns in which plans came into force. */
static void show_plans(struct json_object *o, unsigned width, unsigned label, double length)
{
	struct json_object *records = get(o, "records");
	int64_t since = get_int(o, "since_ns"), t;
	char marks[4100];
	unsigned c;
	size_t i;

	memset(marks, '.', width);
	marks[width] = '\0';
	for (i = 0; i < count(records); i++) {
		t = spans_plan(at(records, i));
		c = t > since ? (unsigned)((double)(t - since) / length) : width;
		if (c < width)
			marks[c] = '|';
	}
	printf("%-*s%s\n", (int)label, "plans", marks);
}

static unsigned longest_name(struct json_object *o)
{
	unsigned most = 0, width;
	int vf;

	for (vf = 0; vf < spans_vfs(o); vf++) {
		width = text_width(spans_vm(o, vf));
		most = width > most ? width : most;
	}
	return most > NAME_MOST ? NAME_MOST : most;
}

void view_timeline(struct json_object *o)
{
	struct spans s = spans_collect(o);
	int64_t since = get_int(o, "since_ns"), span = get_int(o, "now_ns") - since;
	unsigned name = longest_name(o), label = name ? 7 + name : 6, width, c;
	double length;
	struct column *row;
	int vf;
	size_t i;

	width = screen_picture_width();
	width = width > label + 20 ? width - label : 20;
	length = (double)(span > 0 ? span : 1) / width;
	row = calloc(width, sizeof(*row));
	printf("%s, the last %.1f ms; one column is %.0f us\n", get_text(o, "gpu"),
	       (double)span / 1e6, length / 1e3);
	for (vf = 0; row && vf < spans_vfs(o); vf++) {
		memset(row, 0, width * sizeof(*row));
		for (i = 0; i < s.n; i++)
			if (s.list[i].vf == vf)
				spread(row, width, &s.list[i], since, length);
		printf("VF %-2d ", vf);
		if (name) {
			text_put_cell(stdout, spans_vm(o, vf), name, false);
			putchar(' ');
		}
		for (c = 0; c < width; c++)
			putchar(mark_of(&row[c], length));
		putchar('\n');
	}
	if (spans_governed(o))
		show_plans(o, width, label, length);
	if (span > 0)
		axis(span, width, label);
	if (spans_governed(o))
		puts("1 to 7: eighths of the time on the engine  #: all of it  |: a plan came into "
		     "force");
	else
		puts("#: running  !: overrun  x: exclusive window  R: being reset  .: not on the "
		     "engine");
	free(row);
	free(s.list);
}

/* Returns the number of a VF's thread in a trace. Perfetto finds the name of a thread by this
 * number alone, so it differs from that of every other VF of every GPU, from that of a process
 * (which would be its main thread), and from 0. */
static size_t thread_of(size_t pid, int64_t vf)
{
	return TRACE_THREADS * pid + (size_t)vf;
}

static void put_name(const char *key, const char *name)
{
	struct json_object *o = json_object_new_string(name);

	printf("\"%s\":%s", key, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
}

/* Prints the counters of a VF: in which part of each step it had the engine, overran, had a window
 * or was reset; or which part it was served. Steps are counted from the first instant of the
 * answer. */
static void trace_counters(struct json_object *o, const struct spans *s, int vf, size_t pid)
{
	int64_t since = get_int(o, "since_ns"), span = get_int(o, "now_ns") - since;
	int64_t step = spans_step(span > 0 ? span : 1, COUNTER_STEPS);
	unsigned n = span > 0 ? (unsigned)(span / step) : 0, c;
	struct column *row = calloc(n + 1, sizeof(*row));
	char label[400], name[440];
	size_t i;
	int first = spans_governed(o) ? SERVED : 0, end = spans_governed(o) ? KINDS : SERVED, k;

	for (i = 0; row && i < s->n; i++)
		if (s->list[i].vf == vf)
			spread(row, n, &s->list[i], since, (double)step);
	spans_label(o, vf, label, sizeof(label));
	snprintf(name, sizeof(name), "%s, %% of %g ms", label, (double)step / 1e6);
	for (c = 0; row && c < n; c++) {
		printf(",\n{\"ph\":\"C\",\"pid\":%zu,", pid);
		put_name("name", name);
		printf(",\"ts\":%.3f,\"args\":{", ((double)since + (double)c * (double)step) / 1e3);
		for (k = first; k < end; k++)
			printf("%s\"%s\":%.2f", k > first ? "," : "", kind_names[k],
			       100 * row[c].time[k] / (double)step);
		fputs("}}", stdout);
	}
	free(row);
}

/* Prints the VF's quantum in a plan, as an instant. */
static void trace_plan(struct json_object *record, size_t pid)
{
	if (strcmp(get_text(record, "type"), "plan") != 0)
		return;
	printf(",\n{\"ph\":\"i\",\"s\":\"t\",\"pid\":%zu,\"tid\":%zu,"
	       "\"name\":\"quantum %.3f ms\",\"ts\":%.3f}",
	       pid, thread_of(pid, get_int(record, "vf")), get_ms(record, "a"),
	       (double)get_int(record, "t_ns") / 1e3);
}

/* Prints the events of one GPU, as process PID. */
static void trace_gpu(struct json_object *o, size_t pid)
{
	struct spans s = spans_collect(o);
	char name[400];
	size_t i;
	int vf;

	printf("%s{\"ph\":\"M\",\"pid\":%zu,\"name\":\"process_name\",\"args\":{",
	       pid > 1 ? ",\n" : "", pid);
	put_name("name", get_text(o, "gpu"));
	fputs("}}", stdout);
	for (vf = 0; vf < spans_vfs(o); vf++) {
		printf(",\n{\"ph\":\"M\",\"pid\":%zu,\"tid\":%zu,\"name\":\"thread_name\","
		       "\"args\":{",
		       pid, thread_of(pid, vf));
		spans_label(o, vf, name, sizeof(name));
		put_name("name", name);
		fputs("}}", stdout);
	}
	for (i = 0; i < count(get(o, "records")); i++)
		trace_plan(at(get(o, "records"), i), pid);
	for (i = 0; i < s.n; i++)
		if (s.list[i].kind != SERVED) /* for an epoch a counter says more */
			printf(",\n{\"ph\":\"X\",\"pid\":%zu,\"tid\":%zu,\"name\":\"%s\","
			       "\"ts\":%.3f,\"dur\":%.3f}",
			       pid, thread_of(pid, s.list[i].vf), kind_names[s.list[i].kind],
			       (double)s.list[i].from / 1e3,
			       (double)(s.list[i].to - s.list[i].from) / 1e3);
	for (vf = 0; vf < spans_vfs(o); vf++)
		trace_counters(o, &s, vf, pid);
	free(s.list);
}

int timeline_trace(struct session *s, struct json_object *args)
{
	struct json_object *answers = json_object_new_array(), *answer, *copy;
	int r = EXIT_OK;
	size_t i;

	for (i = 0; i < count(s->gpus) && r == EXIT_OK; i++) {
		copy = NULL;
		json_object_deep_copy(args, &copy, NULL);
		r = session_call_gpu(s, i, "timeline", copy, &answer);
		if (r == EXIT_OK)
			json_object_array_add(answers, answer);
	}
	if (r == EXIT_OK) {
		/* No displayTimeUnit, because some versions of Perfetto took it for the unit of the
		 * times, which is always microseconds. */
		puts("{\"traceEvents\":[");
		for (i = 0; i < count(answers); i++)
			trace_gpu(at(answers, i), i + 1);
		puts("\n]}");
	}
	json_object_put(answers);
	return r;
}
