/* SPDX-License-Identifier: MIT */
#include "view.h"

#include <inttypes.h>
#include <string.h>

#include "answer.h"
#include "table.h"

static double served_by_all(struct json_object *list)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < count(list); i++)
		sum += served(at(list, i));
	return sum;
}

/* Prints the VFs of a GPU whose firmware schedules. */
static void governed_vfs(struct json_object *o)
{
	static const char *const heads[] = {
		"VF",	    "VM",	 ">PROMISED", ">RECEIVED",	"STATE",   "WORK",
		">QUANTUM", ">TIME-OUT", "?>RUN",     ">ERROR IN 10 S", "?>HANGS", NULL};
	struct json_object *list = get(o, "vfs"), *vf;
	double all = served_by_all(list);
	struct table *t = table_new(heads);
	size_t i;

	for (i = 0; i < count(list); i++) {
		vf = at(list, i);
		cell(t, "%" PRId64, get_int(vf, "vf"));
		cell(t, "%s", get_text(vf, "domain"));
		cell_part(t, promised(vf));
		cell_part(t, ratio(served(vf), all));
		cell(t, "%s", get_text(vf, "state"));
		cell(t, "%s", get_text(vf, "work"));
		cell(t, "%.1f ms", get_ms(vf, "quantum_ns"));
		cell(t, "%.1f ms", get_ms(vf, "timeout_ns"));
		cell(t, "%.1f ms", served(vf) / 1e6);
		if (get(vf, "error_ppm"))
			cell(t, "%+.2f points", (double)get_int(vf, "error_ppm") / 1e4);
		else
			cell(t, "-");
		cell(t, "%" PRId64, get_int(vf, "hangs"));
	}
	table_say("%s, policy %s, up %.1f s; RECEIVED of what all VFs had", get_text(o, "gpu"),
		  get_text(o, "policy"), get_ms(o, "wall_ns") / 1e3);
	table_print(t);
}

static void switched_vfs(struct json_object *o)
{
	static const char *const heads[] = {"VF",      "VM",	    "?ADDRESS",	 ">MEMORY",
					    "STATE",   ">PROMISED", ">RECEIVED", ">OF",
					    "?>HAD",   "?>OVERRUN", ">MAX WAIT", "?>TURNS",
					    "?>HANGS", NULL};
	struct json_object *list = get(o, "vfs"), *vf;
	struct table *t = table_new(heads);
	size_t i;

	for (i = 0; i < count(list); i++) {
		vf = at(list, i);
		cell(t, "%" PRId64 "%s", get_int(vf, "vf"), get_bool(vf, "on_engine") ? "*" : "");
		cell(t, "%s", get_text(vf, "domain"));
		cell(t, "%s", get_text(vf, "address"));
		cell(t, "%" PRId64 " MiB%s", get_int(vf, "memory_bytes") >> 20,
		     get_bool(vf, "swapped") ? " out" : "");
		cell(t, "%s", get_text(vf, "state"));
		cell_part(t, promised(vf));
		cell_part(t, wanted(vf) > 0 ? served(vf) / wanted(vf) : -1);
		cell(t, "%.1f s", wanted(vf) / 1e9);
		cell(t, "%.1f ms", served(vf) / 1e6);
		cell(t, "%.1f ms", get_ms(vf, "overrun_ns"));
		cell(t, "%.2f ms", get_ms(vf, "wait_max_ns"));
		cell(t, "%" PRId64, get_int(vf, "dispatches"));
		cell(t, "%" PRId64, get_int(vf, "hangs"));
	}
	table_say("%s, policy %s, up %.1f s; RECEIVED of the time OF in which the VF had work",
		  get_text(o, "gpu"), get_text(o, "policy"), get_ms(o, "wall_ns") / 1e3);
	table_print(t);
}

void view_vf_list(struct json_object *o)
{
	struct json_object *list = get(o, "vfs");

	if (count(list) > 0 && get(at(list, 0), "work"))
		governed_vfs(o);
	else
		switched_vfs(o);
}

/* Prints parameters, with millionths also in percent, as people write them. */
static void print_params(struct json_object *o, const char *before)
{
	json_object_object_foreach(members(o), key, value)
	{
		size_t n = strlen(key);

		printf("%s%-18s %s", before, key, text_of(value));
		if (n > 4 && strcmp(key + n - 4, "_ppm") == 0)
			printf(" (%g %%)", json_object_get_double(value) / 1e4);
		putchar('\n');
	}
}

void view_params(struct json_object *o)
{
	print_params(o, "");
}

void view_vf_show(struct json_object *o)
{
	json_object_object_foreach(members(o), key, value)
	{
		size_t n = strlen(key);

		if (json_object_is_type(value, json_type_object)) {
			printf("%s\n", key);
			print_params(value, "  ");
		} else if (n > 6 && strcmp(key + n - 6, "_bytes") == 0) {
			printf("%-22.*s %" PRId64 " MiB\n", (int)(n - 6), key,
			       json_object_get_int64(value) >> 20);
		} else if (n > 4 && strcmp(key + n - 4, "_ppm") == 0) {
			printf("%-22.*s %g %%\n", (int)(n - 4), key,
			       json_object_get_double(value) / 1e4);
		} else if (strcmp(key, "memory_offset") == 0) {
			printf("%-22s %" PRId64 " MiB\n", key, json_object_get_int64(value) >> 20);
		} else if (n > 3 && strcmp(key + n - 3, "_ns") == 0 && value) {
			printf("%-22.*s %.3f ms\n", (int)(n - 3), key,
			       (double)json_object_get_int64(value) / 1e6);
		} else {
			printf("%-22s %s\n", key, value ? json_object_get_string(value) : "none");
		}
	}
}
