/* SPDX-License-Identifier: MIT */
/* Copies of bytes in a row. Data of the program goes through the window: it was copied out of the
 * program's memory when a copy to the device returns, and a copy from the device has ended when it
 * returns. CUDA permits both for memory that is not pinned. */
#include "copy.h"

#include <string.h>

/* Parts of the window that one step of a copy uses, so that the next can be filled meanwhile. */
#define STEPS 4u

uint64_t copy_step(uint64_t bytes)
{
	uint64_t most = link_stage_size() / STEPS;

	return bytes < most ? bytes : most;
}

bool copy_find(CUdeviceptr at, uint64_t bytes, struct copy_place *p)
{
	*p = (struct copy_place){0};
	if (memory_find(at, bytes, &p->offset))
		return true;
	p->symbol = symbol_at(at, bytes);
	p->offset = p->symbol ? at - p->symbol->known.at : 0;
	return p->symbol;
}

CUresult copy_in(const struct copy_place *p, uint64_t offset, uint64_t from, uint64_t bytes)
{
	if (p->symbol)
		return symbol_put(p->symbol, p->offset + offset, from, bytes, false);
	return link_put(SOFTGPU_UPLOAD, 0, (uint64_t[7]){p->offset + offset, from, bytes});
}

CUresult copy_out(const struct copy_place *p, uint64_t offset, uint64_t to, uint64_t bytes)
{
	if (p->symbol)
		return symbol_put(p->symbol, p->offset + offset, to, bytes, true);
	return link_put(SOFTGPU_DOWNLOAD, 0, (uint64_t[7]){to, p->offset + offset, bytes});
}

CUresult copy_to_device(CUdeviceptr dst, const void *src, uint64_t bytes)
{
	uint64_t done, n, at;
	CUresult e = CUDA_SUCCESS;
	struct copy_place to;
	uint8_t *memory;

	if (bytes == 0)
		return CUDA_SUCCESS;
	if (!src || !copy_find(dst, bytes, &to))
		return CUDA_ERROR_INVALID_VALUE;
	for (done = 0; done < bytes && e == CUDA_SUCCESS; done += n) {
		n = copy_step(bytes - done);
		e = link_stage(&n, &memory, &at);
		if (e != CUDA_SUCCESS)
			break;
		memcpy(memory, (const uint8_t *)src + done, n);
		e = copy_in(&to, done, at, n);
		if (e == CUDA_SUCCESS)
			e = link_ring();
	}
	return e;
}

CUresult copy_to_host(void *dst, CUdeviceptr src, uint64_t bytes)
{
	uint64_t done, n, at;
	CUresult e = CUDA_SUCCESS;
	struct copy_place from;
	uint8_t *memory;

	if (bytes == 0)
		return CUDA_SUCCESS;
	if (!dst || !copy_find(src, bytes, &from))
		return CUDA_ERROR_INVALID_VALUE;
	for (done = 0; done < bytes && e == CUDA_SUCCESS; done += n) {
		n = copy_step(bytes - done);
		e = link_stage(&n, &memory, &at);
		if (e == CUDA_SUCCESS)
			e = copy_out(&from, done, at, n);
		if (e == CUDA_SUCCESS)
			e = link_wait();
		if (e == CUDA_SUCCESS)
			memcpy((uint8_t *)dst + done, memory, n);
	}
	return e;
}

/* Between two variables: through the window. */
static CUresult through_window(const struct copy_place *to, const struct copy_place *from,
			       uint64_t bytes)
{
	uint64_t done, n, at;
	CUresult e = CUDA_SUCCESS;
	uint8_t *memory;

	for (done = 0; done < bytes && e == CUDA_SUCCESS; done += n) {
		n = copy_step(bytes - done);
		e = link_stage(&n, &memory, &at);
		if (e == CUDA_SUCCESS)
			e = copy_out(from, done, at, n);
		if (e == CUDA_SUCCESS)
			e = copy_in(to, done, at, n);
	}
	return e;
}

CUresult copy_on_device(CUdeviceptr dst, CUdeviceptr src, uint64_t bytes)
{
	struct copy_place to, from;
	CUresult e;

	if (bytes == 0 || dst == src)
		return CUDA_SUCCESS;
	if (!copy_find(dst, bytes, &to) || !copy_find(src, bytes, &from) ||
	    (dst < src + bytes && src < dst + bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (to.symbol && from.symbol)
		e = through_window(&to, &from, bytes);
	else if (to.symbol)
		e = symbol_put(to.symbol, to.offset, from.offset, bytes, false);
	else if (from.symbol)
		e = symbol_put(from.symbol, from.offset, to.offset, bytes, true);
	else
		e = link_put(SOFTGPU_COPY, 0, (uint64_t[7]){to.offset, from.offset, bytes});
	return e == CUDA_SUCCESS ? link_ring() : e;
}
