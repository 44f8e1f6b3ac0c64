/* SPDX-License-Identifier: MIT */
/*
 * Measures how much device memory a small module takes at most. A driver may give each module its
 * own pages, or put several modules into a page. So at the worker's start PROBES modules are
 * loaded, and the free memory before and after is compared. Other processes may allocate and free
 * memory meanwhile, so two rounds must agree.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda_private.h"

#define PROBES 64u
#define ROUNDS 8u
#define GRAIN 4096u

static const char probe[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
			    ".visible .global .u32 g;\n.visible .const .u32 c = 1;\n"
			    ".visible .entry probe()\n{\n\t.reg .u32 %r;\n"
			    "\tld.const.u32 %r, [c];\n\tst.global.u32 [g], %r;\n\tret;\n}\n";

/* Loads PROBES modules, and unloads them. Returns whether all could be loaded; *TOOK: bytes that
 * they took together. */
static bool take_round(struct device *d, const uint8_t *image, uint64_t *took)
{
	size_t before = 0, after = 0, all;
	CUmodule modules[PROBES];
	uint32_t n = 0;
	bool loaded;

	d->api.cuMemGetInfo(&before, &all);
	while (n < PROBES && d->api.cuModuleLoadDataEx(&modules[n], image, 0, NULL, NULL) == 0)
		n++;
	d->api.cuMemGetInfo(&after, &all);
	loaded = n == PROBES;
	while (n > 0)
		d->api.cuModuleUnload(modules[--n]);
	*took = before > after ? before - after : 0;
	return loaded;
}

void cuda_measure_packing(struct device *d)
{
	char *text = strdup(probe), log[256];
	uint64_t took = 0, last = 0, least;
	uint8_t *image = NULL;
	size_t size;
	uint32_t i;

	d->extra.least = CUDA_PAGE;
	if (!text || cuda_assemble(d, text, &image, &size, log, sizeof(log)) != CUDA_SUCCESS) {
		free(text);
		return;
	}
	for (i = 0; i < ROUNDS && take_round(d, image, &took); i++, last = took)
		if (i > 0 && took == last) {
			least = (took > CUDA_PAGE ? took : CUDA_PAGE) / PROBES;
			least = (least + GRAIN - 1) / GRAIN * GRAIN;
			d->extra.least = least < CUDA_PAGE ? least : CUDA_PAGE;
			break;
		}
	free(image);
	free(text);
}

uint64_t cuda_module_takes(const struct device *d, uint64_t bytes)
{
	uint64_t least = (SMALL_COUNTS * bytes + GRAIN - 1) / GRAIN * GRAIN;

	if (bytes > SMALL_MODULE || d->extra.least == CUDA_PAGE)
		return cuda_pages(bytes);
	return least > d->extra.least ? least : d->extra.least;
}
