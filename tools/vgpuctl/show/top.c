/* SPDX-License-Identifier: MIT */
/*
 * top: the part of the engine that each VF had since the previous view, beside the part that the
 * policy promises it and the part that it received since vgpud started. Overhead is the time that
 * neither VFs nor idleness account for: world switches, exclusive windows and resets. The rows of a
 * GPU add up to 100 %.
 */
#include "top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "answer.h"
#include "screen.h"
#include "table.h"
#include "text.h"
#include "vgpu/clock.h"

#define MAX_ROWS (2 + VGPU_GPU_MAX_VFS)
#define HEADS_EVERY 20 /* intervals of dmon */
#define VM_LEAST 12u
#define VM_MOST 40u
#define BAR_LEAST 10u
#define BAR_MOST 60u

struct row {
	struct json_object *vf; /* NULL: the row of overhead or idleness */
	const char *name;
	double now, received; /* fractions of the time; below 0: there was no time */
	double turns;	      /* per second */
	double overrun_ms, wait_ms;
};

struct view {
	struct row rows[MAX_ROWS];
	unsigned n;
	double seconds; /* seconds since the previous view */
};

/* The orders of rows, by a value; the largest value comes first. */
static double by_vf(const struct row *r)
{
	return -(double)get_int(r->vf, "vf");
}
static double by_now(const struct row *r)
{
	return r->now;
}
static double by_received(const struct row *r)
{
	return r->received;
}
static double by_wait(const struct row *r)
{
	return r->wait_ms;
}
static double by_turns(const struct row *r)
{
	return r->turns;
}
static double by_overrun(const struct row *r)
{
	return r->overrun_ms;
}

static const struct order {
	char key;
	const char *name;
	double (*value)(const struct row *r); /* NULL: order by the name of the VM */
} orders[] = {
	{'v', "vf", by_vf},	      {'m', "vm", NULL},
	{'n', "now", by_now},	      {'r', "received", by_received},
	{'w', "wait", by_wait},	      {'t', "turns", by_turns},
	{'o', "overrun", by_overrun},
};

#define ORDERS (sizeof(orders) / sizeof(orders[0]))

static const struct order *order = orders;
static bool reversed;

/* Compares names of VMs. VFs without a VM come last. */
static int compare_names(const char *a, const char *b)
{
	return *a && *b ? strcmp(a, b) : !*a - !*b;
}

static int compare(const void *a, const void *b)
{
	const struct row *one = a, *other = b;
	double x = order->value ? order->value(one) : 0, y = order->value ? order->value(other) : 0;
	int r = order->value ? (x < y) - (x > y) : compare_names(one->name, other->name);

	if (r == 0)
		return (by_vf(one) < by_vf(other)) - (by_vf(one) > by_vf(other));
	return reversed ? -r : r;
}

enum kind {
	K_VF,
	K_VM,
	K_ADDRESS,
	K_STATE,
	K_MEMORY,
	K_PROMISED,
	K_NOW,
	K_BAR,
	K_RECEIVED,
	K_WAIT,
	K_TURNS,
	K_OVERRUN,
	KINDS
};

/* The columns; a terminal shows those whose FROM is at most its width. */
static const struct column {
	const char *head;
	unsigned width;
	bool right;
	unsigned from; /* least width of the terminal, in columns */
} columns[KINDS] = {
	[K_VF] = {"VF", 4, false, 0},
	[K_VM] = {"VM", 0, false, 0},
	[K_ADDRESS] = {"ADDRESS", 12, false, 120},
	[K_STATE] = {"STATE", 11, false, 0},
	[K_MEMORY] = {"MEMORY", 10, true, 130},
	[K_PROMISED] = {"PROMISED", 8, true, 0},
	[K_NOW] = {"NOW", 8, true, 0},
	[K_BAR] = {"", 0, false, 96},
	[K_RECEIVED] = {"RECEIVED", 8, true, 0},
	[K_WAIT] = {"MAX WAIT", 11, true, 110},
	[K_TURNS] = {"TURNS/s", 7, true, 0},
	[K_OVERRUN] = {"OVERRUN", 10, true, 0},
};

/* Sets the widths of the columns for a terminal of WIDTH columns; 0: not shown. The bar gets the
 * width that remains after the names of VMs. */
static void lay_out(unsigned width, unsigned longest, unsigned *out)
{
	unsigned used = 0, k, most = longest > VM_MOST ? VM_MOST : longest;

	if (width == SCREEN_ANY)
		most = longest;
	for (k = 0; k < KINDS; k++) {
		out[k] = columns[k].from <= width ? columns[k].width : 0;
		used += out[k] ? out[k] + 1 : 0;
	}
	out[K_VM] = most < VM_LEAST ? VM_LEAST : most;
	if (width == SCREEN_ANY) {
		out[K_BAR] = 30;
		return;
	}
	if (used + out[K_VM] > width)
		out[K_VM] = width > used + VM_LEAST ? width - used : VM_LEAST;
	used += out[K_VM];
	if (columns[K_BAR].from <= width && used + 1 + BAR_LEAST <= width)
		out[K_BAR] = width - used - 1 < BAR_MOST ? width - used - 1 : BAR_MOST;
}

static void percent(char *out, size_t size, double part)
{
	if (part < 0)
		snprintf(out, size, "-");
	else
		snprintf(out, size, "%.2f %%", 100 * part);
}

static void bar(char *out, unsigned width, double share)
{
	unsigned full = share > 0 ? (unsigned)(share * width + 0.5) : 0, i;

	for (i = 0; i < width; i++)
		out[i] = i < full ? '#' : '.';
	out[width] = '\0';
}

static void fill(enum kind k, const struct row *r, unsigned width, char *out, size_t size)
{
	out[0] = '\0';
	switch (k) {
	case K_VM:
		snprintf(out, size, "%s", r->name);
		break;
	case K_NOW:
		percent(out, size, r->now);
		break;
	case K_RECEIVED:
		percent(out, size, r->received);
		break;
	case K_BAR:
		if (width < size)
			bar(out, width, r->now);
		break;
	default:
		break;
	}
	if (!r->vf)
		return;
	switch (k) {
	case K_VF:
		snprintf(out, size, "%" PRId64 "%s", get_int(r->vf, "vf"),
			 get_bool(r->vf, "on_engine") ? "*" : "");
		break;
	case K_ADDRESS:
		/* for a socket, only the file's name, because all sockets of a GPU are in one
		 * directory */
		snprintf(out, size, "%s",
			 strrchr(get_text(r->vf, "address"), '/')
				 ? strrchr(get_text(r->vf, "address"), '/') + 1
				 : get_text(r->vf, "address"));
		break;
	case K_STATE:
		snprintf(out, size, "%s", get_text(r->vf, "state"));
		break;
	case K_MEMORY:
		snprintf(out, size, "%" PRId64 " MiB", get_int(r->vf, "memory_bytes") >> 20);
		break;
	case K_PROMISED:
		percent(out, size, promised(r->vf));
		break;
	case K_WAIT:
		snprintf(out, size, "%.2f ms", r->wait_ms);
		break;
	case K_TURNS:
		snprintf(out, size, "%.0f", r->turns);
		break;
	case K_OVERRUN:
		snprintf(out, size, "%.2f ms", r->overrun_ms);
		break;
	default:
		break;
	}
}

static void print_row(const struct row *r, const unsigned *widths)
{
	char text[400];
	bool first = true;
	unsigned k;

	for (k = 0; k < KINDS; k++) {
		if (!widths[k])
			continue;
		if (!first)
			putchar(' ');
		first = false;
		if (r)
			fill(k, r, widths[k], text, sizeof(text));
		text_put_cell(stdout, r ? text : columns[k].head, widths[k], columns[k].right);
	}
	putchar('\n');
}

/* Returns by how much a counter has grown. It begins anew when vgpud restarts. */
static double grown(struct json_object *now, struct json_object *before, const char *key)
{
	double d = (double)(get_int(now, key) - get_int(before, key));

	return before && d > 0 ? d : 0;
}

static struct json_object *find_vf(struct json_object *list, int64_t vf)
{
	size_t i;

	for (i = 0; i < count(list); i++)
		if (get_int(at(list, i), "vf") == vf)
			return at(list, i);
	return NULL;
}

static double part(double a, double b)
{
	return b > 0 ? a / b : -1;
}

/* Makes the rows of a GPU from two answers of vf.list, of which BEFORE may be NULL. */
static void make(struct view *v, struct json_object *now, struct json_object *before, bool by_vm)
{
	struct json_object *list = get(now, "vfs"), *vf, *was;
	double wall = grown(now, before, "wall_ns"), idle = grown(now, before, "idle_ns");
	double all = (double)get_int(now, "wall_ns"), all_idle = (double)get_int(now, "idle_ns");
	double sum = 0, all_sum = 0, had;
	size_t i;

	*v = (struct view){.n = 2, .seconds = wall / 1e9};
	for (i = 0; i < count(list) && v->n < MAX_ROWS; i++) {
		vf = at(list, i);
		was = find_vf(get(before, "vfs"), get_int(vf, "vf"));
		had = served(vf) - (was ? served(was) : 0);
		had = was && had > 0 ? had : 0;
		sum += had;
		all_sum += served(vf);
		if (by_vm && !get(vf, "domain"))
			continue;
		v->rows[v->n++] = (struct row){
			vf,
			get(vf, "domain") ? get_text(vf, "domain") : "",
			part(had, wall),
			part(served(vf), wanted(vf)),
			wall > 0 ? grown(vf, was, "dispatches") / (wall / 1e9) : 0,
			grown(vf, was, "overrun_ns") / 1e6,
			get_ms(vf, "wait_max_ns"),
		};
	}
	sum += idle;
	all_sum += all_idle;
	v->rows[0] = (struct row){NULL,
				  "(overhead)",
				  part(wall > sum ? wall - sum : 0, wall),
				  part(all > all_sum ? all - all_sum : 0, all),
				  0,
				  0,
				  0};
	v->rows[1] = (struct row){NULL, "(idle)", part(idle, wall), part(all_idle, all), 0, 0, 0};
	qsort(v->rows + 2, v->n - 2, sizeof(v->rows[0]), compare);
}

static void print_view(struct json_object *now, struct json_object *before, size_t n, bool by_vm)
{
	struct view *v = calloc(n ? n : 1, sizeof(*v));
	unsigned widths[KINDS], longest = VM_LEAST, i, g;

	for (g = 0; v && g < n; g++) {
		make(&v[g], at(now, g), at(before, g), by_vm);
		for (i = 0; i < v[g].n; i++) {
			unsigned width = text_width(v[g].rows[i].name);

			longest = width > longest ? width : longest;
		}
	}
	lay_out(screen_width(), longest, widths);
	if (screen_is_drawn()) {
		printf("q: end  up, down: scroll  order by %s:", order->name);
		for (i = 0; i < ORDERS; i++)
			printf(" %c", orders[i].key);
		puts("; again: the other way round");
	}
	print_row(NULL, widths);
	for (g = 0; v && g < n; g++) {
		printf("%s, policy %s, up %.0f s; NOW: the last %.1f s; RECEIVED: while it had "
		       "work\n",
		       get_text(at(now, g), "gpu"), get_text(at(now, g), "policy"),
		       get_ms(at(now, g), "wall_ns") / 1e3, v[g].seconds);
		for (i = 0; i < v[g].n; i++)
			print_row(&v[g].rows[i], widths);
	}
	free(v);
}

/* Asks vgpud about all GPUs; the caller frees *OUT. Returns an exit code. */
static int look(struct session *s, struct json_object **out)
{
	struct json_object *list = json_object_new_array(), *answer;
	size_t i;
	int r = EXIT_OK;

	for (i = 0; i < count(s->gpus) && r == EXIT_OK; i++) {
		r = session_call_gpu(s, i, "vf.list", NULL, &answer);
		if (r == EXIT_OK)
			json_object_array_add(list, answer);
	}
	*out = list;
	return r;
}

static void draw(struct session *s, struct json_object *now, struct json_object *before, bool by_vm)
{
	size_t i;

	screen_open();
	for (i = 0; s->options->json && i < count(now); i++)
		print_json(at(now, i));
	if (!s->options->json)
		print_view(now, before, count(now), by_vm);
	screen_draw(2);
}

/* The columns of dmon with their units, and their widths as text. */
static const char *const log_heads[] = {"TIME",	       "GPU",	      ">VF",	  "VM",
					">NOW %",      ">RECEIVED %", ">WAIT ms", ">TURNS /s",
					">OVERRUN ms", ">MEMORY MiB", "STATE",	  NULL};
static const unsigned log_widths[] = {19, 8, 3, 16, 7, 10, 9, 8, 10, 10, 12};
#define LOG_COLUMNS (sizeof(log_widths) / sizeof(log_widths[0]))

/* Puts one cell of a line into table T or, if T is NULL, to stdout. */
static void put_log(struct table *t, size_t column, const char *text)
{
	bool right = log_heads[column][0] == '>';

	if (t) {
		cell(t, "%s", text);
		return;
	}
	text_put_cell(stdout, text, log_widths[column], right);
	putchar(column + 1 < LOG_COLUMNS ? ' ' : '\n');
}

static void log_vf(struct table *t, const char *when, const char *gpu, const struct row *r)
{
	char text[LOG_COLUMNS][32];
	size_t i;

	snprintf(text[2], sizeof(text[2]), "%" PRId64, get_int(r->vf, "vf"));
	snprintf(text[4], sizeof(text[4]), r->now < 0 ? "-" : "%.2f", 100 * r->now);
	snprintf(text[5], sizeof(text[5]), r->received < 0 ? "-" : "%.2f", 100 * r->received);
	snprintf(text[6], sizeof(text[6]), "%.2f", r->wait_ms);
	snprintf(text[7], sizeof(text[7]), "%.0f", r->turns);
	snprintf(text[8], sizeof(text[8]), "%.2f", r->overrun_ms);
	snprintf(text[9], sizeof(text[9]), "%" PRId64, get_int(r->vf, "memory_bytes") >> 20);
	for (i = 0; i < LOG_COLUMNS; i++)
		put_log(t, i,
			i == 0	  ? when
			: i == 1  ? gpu
			: i == 3  ? (r->name[0] ? r->name : "-")
			: i == 10 ? get_text(r->vf, "state")
				  : text[i]);
}

/* Prints a line for each VF: what it had since the answer BEFORE. */
static void print_log(struct json_object *now, struct json_object *before, bool heads)
{
	struct table *t = table_csv ? table_new(log_heads) : NULL;
	struct view *v = calloc(1, sizeof(*v));
	time_t clock = time(NULL);
	char when[40] = "";
	struct tm tm;
	size_t g, i;

	if (localtime_r(&clock, &tm))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	for (i = 0; heads && !t && i < LOG_COLUMNS; i++)
		put_log(NULL, i, log_heads[i] + strspn(log_heads[i], ">"));
	for (g = 0; v && g < count(now); g++) {
		make(v, at(now, g), at(before, g), false);
		for (i = 2; i < v->n; i++) /* behind the rows of overhead and idleness */
			log_vf(t, when, get_text(at(now, g), "gpu"), &v->rows[i]);
	}
	free(v);
	if (t)
		table_print(t);
}

int dmon(struct session *s)
{
	const struct options *o = s->options;
	struct json_object *now = NULL, *before = NULL;
	vgpu_nsec due = vgpu_now();
	size_t i;
	int64_t n;
	int r = look(s, &now), key;

	screen_catch();
	for (n = 0; r == EXIT_OK && (o->count == 0 || n < o->count) && !ferror(stdout); n++) {
		due += (vgpu_nsec)(o->interval * 1e9);
		do
			key = screen_wait(due);
		while (key != KEY_END && key != KEY_NONE);
		if (key == KEY_END)
			break;
		json_object_put(before);
		before = now;
		r = look(s, &now);
		for (i = 0; r == EXIT_OK && o->json && i < count(now); i++)
			puts(json_object_to_json_string_ext(at(now, i), JSON_C_TO_STRING_PLAIN));
		if (r == EXIT_OK && !o->json)
			print_log(now, before, n % HEADS_EVERY == 0);
		fflush(stdout);
	}
	json_object_put(before);
	json_object_put(now);
	return r;
}

static void set_order(int key)
{
	size_t i;

	for (i = 0; i < ORDERS; i++)
		if (orders[i].key == key) {
			reversed = order == &orders[i] && !reversed;
			order = &orders[i];
		}
}

static bool choose_order(const char *name)
{
	size_t i;

	for (i = 0; name && i < ORDERS; i++)
		if (strcmp(orders[i].name, name) == 0) {
			order = &orders[i];
			return true;
		}
	return !name;
}

int top(struct session *s, bool by_vm)
{
	const struct options *o = s->options;
	struct json_object *now = NULL, *before = NULL;
	vgpu_nsec due = 0;
	int64_t n;
	int r, key = KEY_NONE;

	if (!choose_order(o->sort)) {
		fprintf(stderr,
			"vgpuctl: --sort %s: want vf, vm, now, received, wait, turns or "
			"overrun\n",
			o->sort);
		return EXIT_USAGE;
	}
	screen_begin();
	r = look(s, &now);
	/* A view shows changes since the previous answer, so the first one has none. */
	if (r == EXIT_OK && screen_is_drawn())
		draw(s, now, NULL, by_vm);
	for (n = 0; r == EXIT_OK && key != KEY_END && !ferror(stdout) &&
		    (o->count == 0 || n < o->count);) {
		if (key == KEY_NONE)
			due = vgpu_now() + (vgpu_nsec)(o->interval * 1e9);
		key = screen_wait(due);
		if (key == KEY_NONE) {
			json_object_put(before);
			before = now;
			r = look(s, &now);
			n++;
		} else {
			set_order(key);
		}
		if (r == EXIT_OK && key != KEY_END)
			draw(s, now, before, by_vm);
	}
	screen_end();
	json_object_put(before);
	json_object_put(now);
	return r;
}
