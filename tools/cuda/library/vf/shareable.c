/* SPDX-License-Identifier: MIT */
/* Memory of physical.c that processes of the VF share by a descriptor. From its first export on it
 * is common memory: guest_common_*(). Memory that is never exported is treated like any other, at
 * no extra cost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "cuda_memory.h"
#include "record.h"

#define TYPE_DESCRIPTOR 1

static CUresult error_of(int r)
{
	log_line("memory cannot be shared between programs: %s", strerror(-r));
	if (r == -EINVAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (r == -ENOSPC || r == -ENOMEM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return r == -ECONNRESET ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_OPERATING_SYSTEM;
}

/* Makes P common memory. First waits for the packets that use its pieces. */
static CUresult make_common(struct physical *p)
{
	CUresult e = link_drain();
	uint32_t i, number;
	int r;

	if (e != CUDA_SUCCESS)
		return e;
	r = pieces_share(p->parts, p->n, &number);
	if (r < 0)
		return error_of(r);
	p->common = 1 + number;
	p->made = true;
	record_used((int64_t)p->bytes);
	for (i = 0; i < p->n; i++)
		heap_give(p->parts[i].offset);
	return CUDA_SUCCESS;
}

static CUresult show(int *out, CUmemHandle handle, int type, uint64_t flags)
{
	struct physical *p = physical_find(handle);
	CUresult e = CUDA_SUCCESS;
	int fd;

	if (!out || !p || flags || type != TYPE_DESCRIPTOR || p->handles != type)
		return CUDA_ERROR_INVALID_VALUE;
	if (!p->common)
		e = make_common(p);
	if (e != CUDA_SUCCESS)
		return e;
	fd = guest_common_show(link_guest(), p->common - 1);
	if (fd < 0)
		return error_of(fd);
	*out = fd;
	return CUDA_SUCCESS;
}

static CUresult begin_shareable(const char *name)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	if (e == CUDA_SUCCESS)
		e = link_lost();
	return e == CUDA_SUCCESS && !physical_is_shareable() ? log_absent(name) : e;
}

CUresult cuMemExportToShareableHandle(void *out, CUmemHandle handle, int type, uint64_t flags)
{
	CUresult e = begin_shareable(__func__);

	return CALL_END(e == CUDA_SUCCESS ? show(out, handle, type, flags) : e);
}

/* Returns this process's allocation of the common memory NUMBER, or NULL. */
static struct physical *find(uint32_t number)
{
	struct physical *p;
	uint32_t at = 0;

	do
		p = handle_next(HANDLE_PHYSICAL, &at);
	while (p && p->common != 1 + number);
	return p;
}

/* Opens the common memory of the descriptor FD, or finds it if this process has it already. Sets *P
 * to it, with one more hold of its handle. */
static CUresult open_shown(int fd, struct physical **p)
{
	uint32_t number, n, all;
	uint32_t *pieces;
	uint64_t bytes;
	int r;

	guest_pieces(link_guest(), &all, &bytes);
	pieces = calloc(all + 1u, sizeof(*pieces));
	if (!pieces)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = guest_common_open(link_guest(), fd, &number, pieces, &n);
	if (r == 0) {
		pieces_keep(number);
		*p = find(number);
		if (*p)
			(*p)->held++;
		else
			r = physical_open(number, pieces, n, p);
	}
	free(pieces);
	return r < 0 ? error_of(r) : CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemHandle *out, void *shown, int type)
{
	CUresult e = begin_shareable(__func__);
	struct physical *p;

	if (e == CUDA_SUCCESS && (!out || type != TYPE_DESCRIPTOR))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		e = open_shown((int)(intptr_t)shown, &p);
	if (e == CUDA_SUCCESS)
		*out = (uintptr_t)p->handle;
	return CALL_END(e);
}
