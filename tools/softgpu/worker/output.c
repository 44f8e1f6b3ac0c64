/* SPDX-License-Identifier: MIT */
#include "output.h"

#include <stdlib.h>
#include <string.h>

/* Keeps N bytes of text of ring I. The oldest make room for them. */
static void keep(struct output *o, uint32_t i, const char *text, uint32_t n)
{
	uint32_t *bytes = &o->of[i].bytes, over;

	if (!o->of[i].text)
		o->of[i].text = malloc(OUTPUT_MOST);
	if (!o->of[i].text)
		return;
	over = *bytes + n > OUTPUT_MOST ? *bytes + n - OUTPUT_MOST : 0;
	memmove(o->of[i].text, o->of[i].text + over, *bytes - over);
	memcpy(o->of[i].text + *bytes - over, text, n);
	*bytes += n - over;
}

/* Takes out what the device holds, which is the printer's. */
static void collect(struct output *o)
{
	char text[16384];
	uint32_t n;

	while (o->printer > 0 && (n = o->ops->output(o->device, text, sizeof(text))) > 0)
		keep(o, o->printer - 1, text, n);
	o->printer = 0;
}

bool output_must_settle(const struct output *o, uint32_t source)
{
	return o->printer > 0 && o->printer - 1 != source;
}

void output_begin(struct output *o, uint32_t source)
{
	if (output_must_settle(o, source))
		collect(o);
	o->printer = source + 1;
}

void output_answer(struct output *o, uint32_t source, bool prints, void *at)
{
	struct softgpu_output *out = at;
	uint32_t n;

	if (o->printer == source + 1)
		collect(o);
	n = o->of[source].bytes;
	out->prints = prints;
	if (__atomic_load_n(&out->bytes, __ATOMIC_ACQUIRE) == 0 && n > 0) {
		n = n < sizeof(out->text) ? n : sizeof(out->text);
		memcpy(out->text, o->of[source].text, n);
		o->of[source].bytes -= n;
		memmove(o->of[source].text, o->of[source].text + n, o->of[source].bytes);
		__atomic_store_n(&out->bytes, n, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&out->left, o->of[source].bytes, __ATOMIC_RELEASE);
}

void output_close(struct output *o, uint32_t source)
{
	if (o->printer == source + 1)
		collect(o);
	free(o->of[source].text);
	o->of[source].text = NULL;
	o->of[source].bytes = 0;
}

void output_destroy(struct output *o)
{
	uint32_t i;

	for (i = 0; i < DEVICE_SOURCES; i++)
		free(o->of[i].text);
}
