/* SPDX-License-Identifier: MIT */
#include "view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define COLUMNS 16
#define CELL 48

bool view_colour;

struct json_object *get(struct json_object *o, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(o, key, &value);
	return value;
}

int64_t get_int(struct json_object *o, const char *key)
{
	return json_object_get_int64(get(o, key));
}

const char *get_text(struct json_object *o, const char *key)
{
	struct json_object *value = get(o, key);

	return value ? json_object_get_string(value) : "-";
}

static double get_ms(struct json_object *o, const char *key)
{
	return (double)get_int(o, key) / 1e6;
}

/* A table whose columns are as wide as their widest cell. */
struct table {
	const char *const *heads; /* a leading '>' aligns the column right; ends at NULL */
	char cells[64][COLUMNS][CELL];
	int rows, column;
};

static void cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void cell(struct table *t, const char *format, ...)
{
	va_list args;

	if (t->rows >= 64 || t->column >= COLUMNS)
		return;
	va_start(args, format);
	vsnprintf(t->cells[t->rows][t->column++], CELL, format, args);
	va_end(args);
}

static void row(struct table *t)
{
	t->rows++;
	t->column = 0;
}

static void print_table(struct table *t)
{
	int widths[COLUMNS] = {0}, c, r, n;

	for (c = 0; t->heads[c]; c++) {
		widths[c] = (int)strlen(t->heads[c]) - (t->heads[c][0] == '>');
		for (r = 0; r < t->rows && r < 64; r++) {
			n = (int)strlen(t->cells[r][c]);
			widths[c] = n > widths[c] ? n : widths[c];
		}
	}
	if (view_colour)
		fputs("\033[1m", stdout);
	for (c = 0; t->heads[c]; c++) {
		bool right = t->heads[c][0] == '>';

		printf("%*s%s", right ? widths[c] : -widths[c], t->heads[c] + right,
		       t->heads[c + 1] ? "  " : "");
	}
	puts(view_colour ? "\033[0m" : "");
	for (r = 0; r < t->rows && r < 64; r++) {
		for (c = 0; t->heads[c]; c++)
			printf("%*s%s", t->heads[c][0] == '>' ? widths[c] : -widths[c],
			       t->cells[r][c], t->heads[c + 1] ? "  " : "");
		putchar('\n');
	}
}

static const char *mib(int64_t bytes, char *text)
{
	snprintf(text, 32, "%" PRId64 " MiB", bytes >> 20);
	return text;
}

void view_gpu_list(struct json_object *o)
{
	static const char *const heads[] = {"GPU", "DEVICE", ">VFS", "POLICY", NULL};
	static struct table t;
	struct json_object *list = get(o, "gpus");
	size_t i;

	t = (struct table){.heads = heads};
	for (i = 0; i < json_object_array_length(list); i++) {
		struct json_object *g = json_object_array_get_idx(list, i);

		cell(&t, "%s", get_text(g, "gpu"));
		cell(&t, "%s", get_text(g, "device"));
		cell(&t, "%" PRId64, get_int(g, "vfs"));
		cell(&t, "%s", get_text(g, "policy"));
		row(&t);
	}
	print_table(&t);
}

void view_vm_explain(struct json_object *o)
{
	struct json_object *list = get(o, "vfs");
	size_t i, n = json_object_array_length(list);

	if (n == 0)
		printf("%s claims no VF and has none\n", get_text(o, "domain"));
	for (i = 0; i < n; i++) {
		struct json_object *vf = json_object_array_get_idx(list, i);

		printf("%s/%s: %s: %s\n", get_text(o, "domain"), get_text(vf, "vf_name"),
		       get_text(vf, "state"), get_text(vf, "text"));
	}
}

void view_vm_list(struct json_object *o)
{
	static const char *const heads[] = {"DOMAIN", "CLAIM", "GPU", ">VF", "STATE", "UUID", NULL};
	static struct table t;
	struct json_object *list = get(o, "vms");
	size_t i;

	t = (struct table){.heads = heads};
	for (i = 0; i < json_object_array_length(list); i++) {
		struct json_object *vm = json_object_array_get_idx(list, i);

		cell(&t, "%s", get_text(vm, "domain"));
		cell(&t, "%s", get_text(vm, "vf_name"));
		cell(&t, "%s", get_text(vm, "gpu"));
		cell(&t, "%" PRId64, get_int(vm, "vf"));
		cell(&t, "%s", get_text(vm, "state"));
		cell(&t, "%s", get_text(vm, "uuid"));
		row(&t);
	}
	print_table(&t);
	for (i = 0; i < json_object_array_length(list); i++) {
		struct json_object *vm = json_object_array_get_idx(list, i);

		if (get(vm, "refused"))
			printf("%s/%s: the changed claim was refused: %s\n", get_text(vm, "domain"),
			       get_text(vm, "vf_name"), get_text(vm, "refused"));
	}
	list = get(o, "unreadable");
	for (i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *vm = json_object_array_get_idx(list, i);

		printf("%s: the claim cannot be read: %s\n", get_text(vm, "domain"),
		       get_text(vm, "why"));
	}
}

/* Lists differences between what runs and what is configured. */
static void view_differences(struct json_object *o, const char *live, const char *restart)
{
	struct json_object *list = get(o, "differences"), *d;
	size_t i, n = json_object_array_length(list);

	if (n == 0)
		puts("vgpud runs as configured");
	for (i = 0; i < n; i++) {
		d = json_object_array_get_idx(list, i);
		printf("[%s] %s: runs with %s, configured %s (%s)\n", get_text(d, "section"),
		       get_text(d, "key"), get(d, "running") ? get_text(d, "running") : "none",
		       get(d, "configured") ? get_text(d, "configured") : "none",
		       json_object_get_boolean(get(d, "live")) ? live : restart);
	}
}

void view_config_diff(struct json_object *o)
{
	view_differences(o, "a reload changes it", "needs a restart");
}

void view_config_reload(struct json_object *o)
{
	view_differences(o, "changed now", "needs a restart");
}

static void line(const char *name, const char *value)
{
	printf("%-18s %s\n", name, value);
}

void view_params(struct json_object *o)
{
	json_object_object_foreach(o, key, value)
		printf("%-18s %s\n", key, json_object_get_string(value));
}

/* Prints how the GPU stops work, and how long that took when it was measured. */
static void preemption(struct json_object *o)
{
	static const struct {
		const char *level, *text;
	} texts[] = {
		{"tile", "cooperative, at the end of each short work item"},
		{"block", "between the thread blocks of a GPU kernel"},
		{"hard", "at any instruction; the work resumes there"},
		{"kill", "none: work that does not end in time is killed and its VF reset"},
	};
	const char *level = get_text(o, "preemption"), *says = level;
	char text[160];
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(level, texts[i].level) == 0)
			says = texts[i].text;
	if (get_int(o, "preempt_longest_ns") == 0)
		snprintf(text, sizeof(text), "%s", says);
	else
		snprintf(text, sizeof(text), "%s; measured: %.0f us, at most %.0f us", says,
			 (double)get_int(o, "preempt_typical_ns") / 1e3,
			 (double)get_int(o, "preempt_longest_ns") / 1e3);
	line("preemption", text);
}

/* What the engine does in a phase, for a sentence that ends in the VF, if there is one. */
static const char *phase_text(const char *phase)
{
	static const char *const texts[][2] = {
		{"parked", "no VF has work"},  {"ready", "loaded"},    {"idling", "stopping"},
		{"dropping", "shutting down"}, {"reset", "resetting"},
	};
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(texts[i][0], phase) == 0)
			return texts[i][1];
	return phase;
}

void view_gpu_show(struct json_object *o)
{
	char a[32], b[32], c[32], text[160];
	double wall = (double)get_int(o, "wall_ns");

	line("gpu", get_text(o, "gpu"));
	line("device", get_text(o, "device"));
	line("state", get_text(o, "state"));
	if (get(o, "why"))
		line("why", get_text(o, "why"));
	snprintf(text, sizeof(text), "%s, driver %s, layout %s, over %s", get_text(o, "model"),
		 get_text(o, "driver"), get_text(o, "layout"), get_text(o, "transport"));
	line("model", text);
	snprintf(text, sizeof(text), "%" PRId64 " of at most %" PRId64 "%s", get_int(o, "vfs"),
		 get_int(o, "max_vfs"),
		 json_object_get_boolean(get(o, "adopted"))
			 ? ", adopted as an earlier vgpud left them"
			 : "");
	line("vfs", text);
	snprintf(text, sizeof(text), "%s, %s for the PF, %s free",
		 mib(get_int(o, "memory_bytes"), a), mib(get_int(o, "pf_memory_bytes"), b),
		 mib(get_int(o, "free_memory_bytes"), c));
	line("memory", text);
	line("policy", get_text(o, "policy"));
	json_object_object_foreach(get(o, "params"), key, value)
		printf("  %-16s %s\n", key, json_object_get_string(value));
	if (get(o, "evicted_policy")) {
		snprintf(text, sizeof(text), "%s: %s", get_text(o, "evicted_policy"),
			 get_text(o, "evicted_why"));
		line("evicted policy", text);
	}
	snprintf(text, sizeof(text), "%s%s%s", phase_text(get_text(o, "phase")),
		 get(o, "current") ? " VF " : "", get(o, "current") ? get_text(o, "current") : "");
	line("now", text);
	snprintf(text, sizeof(text), "%" PRId64 ", about %.1f us each, %.2f %% of the time",
		 get_int(o, "switches"), (double)get_int(o, "switch_estimate_ns") / 1e3,
		 wall > 0 ? 100 * (double)get_int(o, "switch_ns") / wall : 0);
	line("world switches", text);
	preemption(o);
	line("engine thread",
	     json_object_get_boolean(get(o, "realtime")) ? "SCHED_FIFO" : "normal priority");
}

static double promised(struct json_object *vf)
{
	double d = (double)get_int(vf, "share_denominator");

	return d > 0 ? (double)get_int(vf, "share_numerator") / d : 0;
}

/* The engine time that a VF received: charged time and donated time. */
static double served(struct json_object *vf)
{
	return (double)(get_int(vf, "run_ns") + get_int(vf, "donated_ns"));
}

static double served_by_all(struct json_object *list)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < json_object_array_length(list); i++)
		sum += served(json_object_array_get_idx(list, i));
	return sum;
}

void view_vf_list(struct json_object *o)
{
	static const char *const heads[] = {"VF",	 "STATE",  ">MEMORY",  ">PROMISED",
					    ">RECEIVED", ">RUN",   ">OVERRUN", ">MAX WAIT",
					    ">TURNS",	 ">HANGS", NULL};
	static struct table t;
	struct json_object *list = get(o, "vfs");
	double all = served_by_all(list);
	char text[32];
	size_t i;

	t = (struct table){.heads = heads};
	for (i = 0; i < json_object_array_length(list); i++) {
		struct json_object *vf = json_object_array_get_idx(list, i);

		cell(&t, "%" PRId64 "%s", get_int(vf, "vf"),
		     json_object_get_boolean(get(vf, "on_engine")) ? "*" : "");
		cell(&t, "%s", get_text(vf, "state"));
		cell(&t, "%s%s", mib(get_int(vf, "memory_bytes"), text),
		     json_object_get_boolean(get(vf, "swapped")) ? " out" : "");
		cell(&t, "%.2f %%", 100 * promised(vf));
		cell(&t, "%.2f %%", all > 0 ? 100 * served(vf) / all : 0);
		cell(&t, "%.1f ms", served(vf) / 1e6);
		cell(&t, "%.1f ms", get_ms(vf, "overrun_ns"));
		cell(&t, "%.2f ms", get_ms(vf, "wait_max_ns"));
		cell(&t, "%" PRId64, get_int(vf, "dispatches"));
		cell(&t, "%" PRId64, get_int(vf, "hangs"));
		row(&t);
	}
	printf("%s, policy %s, %.1f s\n", get_text(o, "gpu"), get_text(o, "policy"),
	       get_ms(o, "wall_ns") / 1e3);
	print_table(&t);
}

/* A bound in ms, or "-" if the policy promises none. */
static void bound_cell(struct table *t, struct json_object *vf, const char *key)
{
	if (get(vf, key))
		cell(t, "%.1f ms", get_ms(vf, key));
	else
		cell(t, "-");
}

void view_policy_explain(struct json_object *o)
{
	static const char *const heads[] = {
		"VF", ">SHARE", ">LAG AT MOST", ">WAIT AT MOST", ">GUARANTEE", ">LIMIT", NULL};
	static struct table t;
	struct json_object *list = get(o, "vfs");
	size_t i;

	t = (struct table){.heads = heads};
	for (i = 0; i < json_object_array_length(list); i++) {
		struct json_object *vf = json_object_array_get_idx(list, i);

		cell(&t, "%" PRId64, get_int(vf, "vf"));
		cell(&t, "%.2f %%", 100 * promised(vf));
		bound_cell(&t, vf, "lag_bound_ns");
		bound_cell(&t, vf, "wait_bound_ns");
		if (get_int(vf, "budget_ns"))
			cell(&t, "%.2f ms in each %.1f ms", get_ms(vf, "budget_ns"),
			     get_ms(vf, "period_ns"));
		else
			cell(&t, "-");
		if (get_int(vf, "limit_ppm"))
			cell(&t, "%.1f %% + %.1f ms", (double)get_int(vf, "limit_ppm") / 1e4,
			     get_ms(vf, "limit_burst_ns"));
		else
			cell(&t, "-");
		row(&t);
	}
	printf("%s, policy %s\n", get_text(o, "gpu"), get_text(o, "policy"));
	print_table(&t);
	puts("SHARE: part of the engine time, while all these VFs have work.\n"
	     "LAG AT MOST: how far a VF's service may be ahead of or behind its exact share.\n"
	     "WAIT AT MOST: from having work to running, with the VFs of now; resets of other VFs\n"
	     "and one exclusive window, and another for each second of the wait, come on top.\n"
	     "GUARANTEE: one job of this length in each period is finished within the period.\n"
	     "LIMIT: part of the engine time that a VF cannot exceed, plus a burst.\n"
	     "-: not promised.");
}

void view_vf_show(struct json_object *o)
{
	json_object_object_foreach(o, key, value)
	{
		size_t n = strlen(key);

		if (json_object_is_type(value, json_type_object)) {
			printf("%s\n", key);
			json_object_object_foreach(value, name, inner)
				printf("  %-20s %s\n", name, json_object_get_string(inner));
		} else if (n > 3 && strcmp(key + n - 3, "_ns") == 0 && value) {
			printf("%-22.*s %.3f ms\n", (int)(n - 3), key,
			       (double)json_object_get_int64(value) / 1e6);
		} else {
			printf("%-22s %s\n", key, value ? json_object_get_string(value) : "none");
		}
	}
}

static void param_rows(struct json_object *list, const char *of)
{
	static const char *const heads[] = {"  PARAMETER", "OF",      "RANGE",
					    "DEFAULT",	   "MEANING", NULL};
	static struct table t;
	size_t i, c;

	t = (struct table){.heads = heads};
	for (i = 0; i < json_object_array_length(list); i++) {
		struct json_object *p = json_object_array_get_idx(list, i);
		struct json_object *choices = get(p, "choices");
		char range[CELL] = "";

		for (c = 0; choices && c < json_object_array_length(choices); c++)
			snprintf(range + strlen(range), sizeof(range) - strlen(range), "%s%s",
				 c ? "|" : "",
				 json_object_get_string(json_object_array_get_idx(choices, c)));
		if (!choices)
			snprintf(range, sizeof(range), "%" PRId64 "..%" PRId64 " %s",
				 get_int(p, "min"), get_int(p, "max"), get_text(p, "unit"));
		cell(&t, "  %s", get_text(p, "name"));
		cell(&t, "%s", of);
		cell(&t, "%s", range);
		cell(&t, "%s", get_text(p, "default"));
		cell(&t, "%s", get_text(p, "help"));
		row(&t);
	}
	if (t.rows)
		print_table(&t);
}

static void one_policy(struct json_object *p)
{
	struct json_object *promises = get(p, "promises");
	size_t i;

	printf("%s: %s\n", get_text(p, "policy"), get_text(p, "help"));
	printf("  promises: ");
	for (i = 0; i < json_object_array_length(promises); i++)
		printf("%s%s", i ? ", " : "",
		       json_object_get_string(json_object_array_get_idx(promises, i)));
	puts(i ? "" : "nothing");
	param_rows(get(p, "params"), "gpu");
	param_rows(get(p, "vf_params"), "vf");
}

void view_policy_list(struct json_object *o)
{
	struct json_object *list = get(o, "policies");
	size_t i;

	for (i = 0; i < json_object_array_length(list); i++) {
		if (i)
			putchar('\n');
		one_policy(json_object_array_get_idx(list, i));
	}
}

void view_policy_show(struct json_object *o)
{
	one_policy(o);
	if (get(o, "warning"))
		printf("warning: %s\n", get_text(o, "warning"));
	puts("values in force");
	json_object_object_foreach(get(o, "values"), key, value)
		printf("  %-18s %s\n", key, json_object_get_string(value));
}

void view_stats(struct json_object *o)
{
	static const char *const heads[] = {"TIME", ">N", ">P50", ">P99", ">P99.9", ">MAX", NULL};
	static const char *const times[] = {"boundary_lateness", "world_switch", "preemption",
					    "decision"};
	static const char *const counters[] = {"switches",	"steps",	  "records_lost",
					       "stale_answers", "clamped_slices", "evictions",
					       "limited_wakes"};
	static const char *const parts[] = {"p50_ns", "p99_ns", "p999_ns", "max_ns"};
	static struct table t;
	size_t i, j;

	t = (struct table){.heads = heads};
	for (i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		struct json_object *h = get(o, times[i]);

		cell(&t, "%s", times[i]);
		cell(&t, "%" PRId64, get_int(h, "n"));
		for (j = 0; j < 4; j++)
			cell(&t, "%.1f us", (double)get_int(h, parts[j]) / 1e3);
		row(&t);
	}
	print_table(&t);
	printf("\nwall %.3f s, switching %.3f s, idle %.3f s\n", get_ms(o, "wall_ns") / 1e3,
	       get_ms(o, "switch_ns") / 1e3, get_ms(o, "idle_ns") / 1e3);
	if (get_int(o, "spun_ns"))
		printf("waited on the CPU for ends of slices %.3f s\n", get_ms(o, "spun_ns") / 1e3);
	for (i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		printf("%-16s %" PRId64 "\n", counters[i], get_int(o, counters[i]));
}

void view_events(struct json_object *o)
{
	struct json_object *list = get(o, "records");
	int64_t now = get_int(o, "now_ns");
	size_t i;

	for (i = 0; i < json_object_array_length(list); i++) {
		struct json_object *r = json_object_array_get_idx(list, i);
		const char *type = get_text(r, "type");

		printf("%10.3f s ago  ", (double)(now - get_int(r, "t_ns")) / 1e9);
		if (get(r, "vf"))
			printf("VF %-3" PRId64 " ", get_int(r, "vf"));
		else
			printf("       ");
		printf("%-10s %s", type, get(r, "what") ? get_text(r, "what") : "");
		if (strcmp(type, "window-end") == 0 || strcmp(type, "hang") == 0 ||
		    strcmp(type, "reset-done") == 0)
			printf(" after %.2f ms%s", get_ms(r, "a"),
			       get_int(r, "b") ? ", failed" : "");
		putchar('\n');
	}
}

static void bar(double share)
{
	int full = (int)(share * 30 + 0.5), i;

	if (view_colour)
		fputs("\033[36m", stdout);
	for (i = 0; i < 30; i++)
		fputs(i < full ? "#" : ".", stdout);
	if (view_colour)
		fputs("\033[0m", stdout);
}

void view_top(struct json_object *now, struct json_object *before)
{
	struct json_object *list = get(now, "vfs"), *old = before ? get(before, "vfs") : NULL;
	double wall = (double)(get_int(now, "wall_ns") - (before ? get_int(before, "wall_ns") : 0));
	size_t i;

	printf("%s  policy %s  up %.0f s\n\n", get_text(now, "gpu"), get_text(now, "policy"),
	       get_ms(now, "wall_ns") / 1e3);
	printf("VF   STATE        PROMISED    ENGINE  %-30s  TURNS/s  OVERRUN\n", "");
	for (i = 0; i < json_object_array_length(list); i++) {
		struct json_object *vf = json_object_array_get_idx(list, i);
		struct json_object *was = old ? json_object_array_get_idx(old, i) : NULL;
		double share = (served(vf) - (was ? served(was) : 0)) / (wall > 0 ? wall : 1);
		double turns = (double)(get_int(vf, "dispatches") -
					(was ? get_int(was, "dispatches") : 0));
		double overrun = get_ms(vf, "overrun_ns") - (was ? get_ms(was, "overrun_ns") : 0);

		printf("%-3" PRId64 "%c %-12s %6.2f %%  %6.2f %%  ", get_int(vf, "vf"),
		       json_object_get_boolean(get(vf, "on_engine")) ? '*' : ' ',
		       get_text(vf, "state"), 100 * promised(vf), 100 * share);
		bar(share);
		printf("  %7.0f  %.2f ms\n", turns / (wall / 1e9), overrun);
	}
}
