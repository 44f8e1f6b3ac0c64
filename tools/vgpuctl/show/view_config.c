/* SPDX-License-Identifier: MIT */
#include "view.h"

#include "answer.h"

/* Lists differences between the running and the written configuration. */
static void view_differences(struct json_object *o, const char *live, const char *restart)
{
	struct json_object *list = get(o, "differences"), *d;
	size_t i;

	if (count(list) == 0)
		puts("vgpud runs as configured");
	for (i = 0; i < count(list); i++) {
		d = at(list, i);
		printf("[%s] %s: runs with %s, configured %s (%s)\n", get_text(d, "section"),
		       get_text(d, "key"), get(d, "running") ? get_text(d, "running") : "none",
		       get(d, "configured") ? get_text(d, "configured") : "none",
		       get_bool(d, "live") ? live : restart);
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
