/* SPDX-License-Identifier: MIT */
/* Scenarios of vgpu-sim. A scenario that was read and written must read and write the same
 * again. */
#include <errno.h>

#include "fuzz.h"
#include "scenario.h"

static char *written(const struct scenario *s, size_t *n)
{
	char *text = NULL;
	FILE *to = open_memstream(&text, n);

	HOLDS(to);
	scenario_write(s, to);
	fclose(to);
	return text;
}

static int read_text(struct scenario *s, const void *text, size_t n)
{
	struct vgpu_error err = {.text = ""};
	FILE *from = fmemopen((void *)(uintptr_t)text, n, "r");
	int r;

	HOLDS(from);
	r = scenario_read_from(s, from, "input", &err);
	fclose(from);
	HOLDS(r == 0 || (r == -EINVAL && err.text[0]));
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct scenario s;
	char *first, *second;
	size_t first_size, second_size;

	if (size == 0 || read_text(&s, data, size) < 0)
		return 0;
	first = written(&s, &first_size);
	scenario_free(&s);
	HOLDS(read_text(&s, first, first_size) == 0);
	second = written(&s, &second_size);
	scenario_free(&s);
	HOLDS(first_size == second_size && memcmp(first, second, first_size) == 0);
	free(first);
	free(second);
	return 0;
}
