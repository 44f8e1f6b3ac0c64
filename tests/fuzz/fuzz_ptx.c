/* SPDX-License-Identifier: MIT */
/*
 * The gate that is inserted into a guest's PTX. The output is the input with insertions, each of
 * which is the gate's own text; the same input always gives the same output.
 */
#include <errno.h>
#include <stdbool.h>

#include "fuzz.h"
#include "gate.h"

/* Returns whether OUT contains all of TEXT, in its order. */
static bool is_within(const char *text, size_t n, const char *out)
{
	size_t i = 0;

	for (; *out && i < n; out++)
		i += *out == text[i];
	return i == n;
}

static size_t count(const char *text, const char *word)
{
	size_t n = 0;

	for (text = strstr(text, word); text; text = strstr(text + 1, word))
		n++;
	return n;
}

static size_t inserted(const char *text, const char *out, const char *word)
{
	return count(out, word) - count(text, word);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A module arrives with one zero byte after its text. */
	char *text = malloc(size + 1), *out, *again;
	struct vgpu_error err = {.text = ""};
	int r;

	HOLDS(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	gate_is_ptx((uint8_t *)text, size);
	r = gate_ptx(text, size, &out, &err);
	HOLDS(r == 0 || (r == -EINVAL && !out && err.text[0]));
	if (r == 0 && !memchr(text, 0, size)) {
		HOLDS(is_within(text, size, out));
		/* A body reads the gate only if its entry has the gate's parameter. */
		HOLDS(inserted(text, out, "ld.param.u64 %vg_d0, [__vgpu_gate];") <=
		      inserted(text, out, ".param .align 8 .b8 __vgpu_gate[128]"));
		HOLDS(gate_ptx(text, size, &again, &err) == 0 && strcmp(out, again) == 0);
		free(again);
		/* A guest may not submit a text that already has a gate. */
		HOLDS(gate_ptx(out, strlen(out), &again, &err) == -EINVAL);
	}
	free(out);
	free(text);
	return 0;
}
