/* SPDX-License-Identifier: MIT */
#include "view.h"

#include <inttypes.h>
#include <string.h>

#include "answer.h"
#include "table.h"

static const char *mib(int64_t bytes, char *text)
{
	snprintf(text, 32, "%" PRId64 " MiB", bytes >> 20);
	return text;
}

void view_gpu_list(struct json_object *o)
{
	static const char *const heads[] = {"GPU", "DEVICE", ">VFS", "POLICY", NULL};
	struct json_object *list = get(o, "gpus");
	struct table *t = table_new(heads);
	size_t i;

	for (i = 0; i < count(list); i++) {
		struct json_object *g = at(list, i);

		cell(t, "%s", get_text(g, "gpu"));
		cell(t, "%s", get_text(g, "device"));
		cell(t, "%" PRId64, get_int(g, "vfs"));
		cell(t, "%s", get_text(g, "policy"));
	}
	table_print(t);
	for (i = 0; i < count(list); i++)
		if (strcmp(get_text(at(list, i), "state"), "lost") == 0)
			printf("%s is lost, and vgpud looks for it: %s\n",
			       get_text(at(list, i), "gpu"), get_text(at(list, i), "why"));
}

static void line(const char *name, const char *value)
{
	printf("%-18s %s\n", name, value);
}

/* Prints how the GPU stops work, and the measured time for that. */
static void preemption(struct json_object *o)
{
	static const struct {
		const char *level, *text;
	} texts[] = {
		{"tile", "cooperative, at the end of each short work item"},
		{"block", "between the thread blocks of a GPU kernel"},
		{"hard", "at any instruction; the work resumes there"},
		{"soft", "soft: stopped work continues with the shortest time slice"},
		{"submission",
		 "between submissions; a program whose submission does not end within "
		 "grace_ms is ended"},
		{"kill", "none: work that does not end in time is killed and its VF reset"},
	};
	const char *level = get_text(o, "preemption"), *says = level;
	int64_t leak = get_int(o, "preempt_leak_ppm");
	char text[240], share[64] = "";
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(level, texts[i].level) == 0)
			says = texts[i].text;
	if (leak > 0)
		snprintf(share, sizeof(share), ", and %.1f %% of the GPU beside another VF",
			 (double)leak / 1e4);
	if (get_int(o, "preempt_longest_ns") == 0)
		snprintf(text, sizeof(text), "%s", says);
	else
		snprintf(text, sizeof(text), "%s; measured: %.0f us, at most %.0f us%s", says,
			 (double)get_int(o, "preempt_typical_ns") / 1e3,
			 (double)get_int(o, "preempt_longest_ns") / 1e3, share);
	line("preemption", text);
}

/* Returns what the engine does in a phase, as the beginning of a sentence that ends with the VF, if
 * any. */
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

static void governor(struct json_object *o)
{
	char text[160];

	snprintf(text, sizeof(text), "the GPU's firmware, by vgpud's plan (%s)",
		 get_text(o, "governor"));
	line("scheduler", text);
	snprintf(text, sizeof(text),
		 "%" PRId64 " made, %" PRId64 " settings written, %" PRId64 " plans refused",
		 get_int(o, "plans"), get_int(o, "plan_writes"), get_int(o, "plans_failed"));
	line("plans", text);
}

/* Prints what the scheduler of the GPU's own driver does. */
static void declared(struct json_object *o)
{
	struct json_object *d = get(o, "declared"), *lists = get(d, "runlists"), *list;
	char text[256];
	size_t i;

	snprintf(text, sizeof(text), "the GPU's driver, policy %s%s",
		 get(d, "policy") ? get_text(d, "policy") : "unknown",
		 get(d, "trouble")	? "; vgpud's cannot be set"
		 : get_bool(d, "waits") ? "; vgpud's waits until no vGPU exists"
					: "");
	line("scheduler", text);
	if (get(d, "trouble"))
		line("why", get_text(d, "trouble"));
	if (get(d, "stale"))
		line("stale", get_text(d, "stale"));
	snprintf(text, sizeof(text), "%" PRId64 " exist, %" PRId64 " of them of no VF known here",
		 get_int(d, "vgpus"), get_int(d, "unassigned"));
	line("vGPUs", text);
	for (i = 0; i < count(lists); i++) {
		list = at(lists, i);
		snprintf(text, sizeof(text),
			 "%" PRId64 ": %" PRId64 " turns seen, ran %.3f s, stopping took %.3f s",
			 get_int(list, "id"), get_int(list, "turns"),
			 (double)get_int(list, "run_ns") / 1e9,
			 (double)get_int(list, "preempt_ns") / 1e9);
		line("runlist", text);
	}
}

static void world_switches(struct json_object *o)
{
	char text[160];

	snprintf(text, sizeof(text), "%s%s%s", phase_text(get_text(o, "phase")),
		 get(o, "current") ? " VF " : "", get(o, "current") ? get_text(o, "current") : "");
	line("now", text);
	snprintf(text, sizeof(text), "%" PRId64 ", about %.1f us each, %.2f %% of the time",
		 get_int(o, "switches"), (double)get_int(o, "switch_estimate_ns") / 1e3,
		 100 * ratio((double)get_int(o, "switch_ns"), (double)get_int(o, "wall_ns")));
	line("world switches", text);
}

void view_gpu_show(struct json_object *o)
{
	char a[32], b[32], c[32], text[160];

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
		 get_bool(o, "adopted") ? ", adopted as an earlier vgpud left them" : "");
	line("vfs", text);
	snprintf(text, sizeof(text), "%s, %s for the PF, %s free",
		 mib(get_int(o, "memory_bytes"), a), mib(get_int(o, "pf_memory_bytes"), b),
		 mib(get_int(o, "free_memory_bytes"), c));
	line("memory", text);
	line("policy", get_text(o, "policy"));
	json_object_object_foreach(members(get(o, "params")), key, value)
		printf("  %-16s %s\n", key, text_of(value));
	if (get(o, "evicted_policy")) {
		snprintf(text, sizeof(text), "%s: %s", get_text(o, "evicted_policy"),
			 get_text(o, "evicted_why"));
		line("evicted policy", text);
	}
	if (get(o, "governor"))
		governor(o);
	else if (get(o, "declared"))
		declared(o);
	else
		world_switches(o);
	preemption(o);
	line("engine thread", get_bool(o, "realtime") ? "SCHED_FIFO" : "normal priority");
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
	struct table *t = table_new(heads);
	size_t i, j;

	for (i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		struct json_object *h = get(o, times[i]);

		cell(t, "%s", times[i]);
		cell(t, "%" PRId64, get_int(h, "n"));
		for (j = 0; j < 4; j++)
			cell(t, "%.1f us", (double)get_int(h, parts[j]) / 1e3);
	}
	printf("%s\n", get_text(o, "gpu"));
	table_print(t);
	printf("\nwall %.3f s, switching %.3f s, idle %.3f s\n", get_ms(o, "wall_ns") / 1e3,
	       get_ms(o, "switch_ns") / 1e3, get_ms(o, "idle_ns") / 1e3);
	if (get_int(o, "spun_ns"))
		printf("busy-waited for slice ends %.3f s\n", get_ms(o, "spun_ns") / 1e3);
	for (i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		printf("%-16s %" PRId64 "\n", counters[i], get_int(o, counters[i]));
}
