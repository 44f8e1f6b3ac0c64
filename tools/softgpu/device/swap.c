/* SPDX-License-Identifier: MIT */
/*
 * Keeps track of pages that the PF copies to host memory and back. A VF's owner can write to its
 * memory while it is in host memory: the owner's mappings show the VF's file all the time. When the
 * memory is back, the file must have what the owner wrote meanwhile, and otherwise what the PF has
 * copied back, right or wrong. A hash of each page, taken when it is copied out, tells the two
 * cases apart: if the PF copies a page back unchanged, the file keeps its page, which may be newer.
 * If a page comes back changed, or not at all, the file gets what lies in GPU memory.
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
	/* 0 means that a page has not been copied out. */
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
