/* SPDX-License-Identifier: MIT */
/*
 * What was copied to host memory, and back. The mappings of a VF's owner stay valid while its
 * memory is out: its file goes on being its window. So what comes back must not undo what the owner
 * wrote meanwhile, and all else must be what comes back, right or wrong. A hash of each page, taken
 * when it was copied out, tells them apart: a page that comes back as it went changes nothing, what
 * the owner has written is newer; one that comes back otherwise, or not at all, counts.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

uint64_t swap_hash(const void *page)
{
	static const uint64_t prime = UINT64_C(0x9e3779b97f4a7c15);
	const uint64_t *p = page;
	uint64_t h[4] = {1, 2, 3, 4};
	unsigned i, k;

	for (i = 0; i < SWAP_PAGE / 8; i += 4) {
		for (k = 0; k < 4; k++) {
			h[k] = (h[k] ^ p[i + k]) * prime;
			h[k] ^= h[k] >> 29;
		}
	}
	/* 0 is for pages that have not been copied out. */
	return (h[0] ^ h[1] * 3 ^ h[2] * 5 ^ h[3] * 7) | 1;
}

bool swap_resize(struct vf *vf, uint64_t size)
{
	uint64_t n = size / SWAP_PAGE;

	free(vf->page_hashes);
	free(vf->pages_back);
	vf->page_hashes = n ? calloc(n, sizeof(*vf->page_hashes)) : NULL;
	vf->pages_back = n ? calloc(n, 1) : NULL;
	return n == 0 || (vf->page_hashes && vf->pages_back);
}

void swap_copied_out(struct vf *vf, uint64_t at, const uint64_t *hashes, uint64_t n)
{
	memcpy(vf->page_hashes + at / SWAP_PAGE, hashes, n * sizeof(*hashes));
}

void swap_copied_in(struct vf *vf, uint64_t at, const uint64_t *hashes, uint64_t n)
{
	uint64_t i, page = at / SWAP_PAGE;

	for (i = 0; i < n; i++)
		vf->pages_back[page + i] = vf->page_hashes[page + i] == hashes[i];
}

void swap_left(struct vf *vf)
{
	memset(vf->pages_back, 0, vf->file->size / SWAP_PAGE);
}

void swap_came(struct softgpu *gpu, struct vf *vf, uint64_t offset)
{
	uint8_t page[SWAP_PAGE];
	uint64_t i;

	for (i = 0; i < vf->file->size / SWAP_PAGE; i++) {
		if (vf->pages_back[i])
			continue;
		memory_access(gpu, offset + i * SWAP_PAGE, page, SWAP_PAGE, false);
		memory_transfer(vf->file, i * SWAP_PAGE, page, SWAP_PAGE, true);
	}
}
