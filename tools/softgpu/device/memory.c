/* SPDX-License-Identifier: MIT */
/*
 * GPU memory. Each VF's partition is a memory file of its own, sealed against shrinking; the PF's
 * part is another. An address belongs to exactly one file, so no client of a VF, whatever it maps,
 * holds anything but its own partition.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu.h"
#include "link.h"
#include "workers.h"

static int memory_file(uint64_t size)
{
	int fd = memfd_create("softgpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	return fd;
}

int memory_create(struct softgpu *gpu, struct vgpu_error *err)
{
	gpu->memfd = memory_file(gpu->config.vram);
	if (gpu->memfd < 0)
		return vgpu_error_set(err, gpu->memfd, "GPU memory: %s", strerror(-gpu->memfd));
	return 0;
}

/* Punching holes gives zeros, and the pages back. */
static bool punch(int fd, uint64_t at, uint64_t length)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
			 (off_t)length) == 0;
}

/* Whoever has kept the file has nothing: it holds no memory. */
static void give_back(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0)
		punch(fd, 0, (uint64_t)st.st_size);
	close(fd);
}

/* The VF has its file no more. Giving many pages back takes long; the filler does it, and nobody
 * waits for the lock meanwhile. */
static void release(struct softgpu *gpu, struct vf *vf)
{
	int fd = vf->memfd;

	if (gpu->workers)
		workers_end(gpu, (int)(vf - gpu->vfs));
	vf->memfd = -1;
	vf->memory_size = 0;
	swap_resize(vf, 0);
	if (fd < 0)
		return;
	if (gpu->n_discarded == sizeof(gpu->discarded) / sizeof(gpu->discarded[0])) {
		close(fd);
		return;
	}
	gpu->discarded[gpu->n_discarded++] = fd;
	pthread_cond_signal(&gpu->filler_cond);
}

void memory_destroy(struct softgpu *gpu)
{
	uint32_t i;

	for (i = 0; i < SOFTGPU_MAX_VFS; i++)
		release(gpu, &gpu->vfs[i]);
	while (gpu->n_discarded > 0)
		close(gpu->discarded[--gpu->n_discarded]);
	if (gpu->memfd >= 0)
		close(gpu->memfd);
}

bool memory_is_here(const struct softgpu *gpu, const struct vf *vf)
{
	return vf->fb_offset < gpu->config.vram;
}

/* Whether a range is the GPU's, or in the aperture. */
static bool is_memory(const struct softgpu *gpu, uint64_t offset, uint64_t size)
{
	uint64_t begin = offset < gpu->config.vram ? 0 : gpu->config.vram;
	uint64_t length = begin ? gpu->host_size : gpu->config.vram;

	return offset - begin <= length && size <= length - (offset - begin);
}

/* A saved VF changes its place. */
static void move(struct softgpu *gpu, struct vf *vf, uint64_t offset)
{
	bool was_here = memory_is_here(gpu, vf), comes = offset < gpu->config.vram;

	if (!comes) {
		swap_left(vf);
		return;
	}
	if (!was_here)
		swap_came(gpu, vf, offset);
	gpu->drop_offset = offset;
	gpu->drop_size = vf->fb_size;
	pthread_cond_signal(&gpu->filler_cond);
}

/*
 * The table gives a VF another partition: another file. The old one lives as long as a client has
 * it mapped, and is nobody else's. A VF that has a context keeps what it has; but a saved one may
 * be moved, with its file: what its owner has mapped is its partition, before and after. Where
 * workers compute, the file is the window, and its worker has the rest. False: not taken.
 */
bool memory_set_partition(struct softgpu *gpu, int index, uint64_t offset, uint64_t size)
{
	struct vf *vf = &gpu->vfs[index];
	bool moves = vf->state == CONTEXT_SAVED && size == vf->fb_size;
	uint64_t shown = gpu->workers && gpu->config.window < size ? gpu->config.window : size;
	int fd;

	if (gpu->running == index || (vf->state != CONTEXT_NONE && !moves))
		return false;
	/* Host memory may be larger; but a VF's BAR 0 is as large as the GPU's memory. */
	if (!is_memory(gpu, offset, size) || size > gpu->config.vram)
		return false;
	if (moves && vf->memfd >= 0)
		move(gpu, vf, offset);
	vf->fb_offset = offset;
	if (size == vf->fb_size && vf->memfd >= 0)
		return true;
	release(gpu, vf);
	vf->fb_size = size;
	fd = size > 0 ? memory_file(shown) : -1;
	if (fd >= 0 && !swap_resize(vf, shown)) {
		swap_resize(vf, 0);
		close(fd);
		fd = -1;
	}
	/* Without a file the VF has no memory: its reads give ones, its packets fail. */
	if (fd >= 0) {
		vf->memfd = fd;
		vf->memory_size = shown;
		if (gpu->workers)
			workers_begin(gpu, index);
	}
	link_memory(vf->link);
	return true;
}

/* The same partition, in a new file. */
void memory_renew(struct softgpu *gpu, int index)
{
	struct vf *vf = &gpu->vfs[index];
	uint64_t size = vf->fb_size;

	vf->renew = false;
	vf->fb_size = 0;
	release(gpu, vf);
	memory_set_partition(gpu, index, vf->fb_offset, size);
}

uint32_t memory_overlaps(const struct softgpu *gpu)
{
	uint32_t i, j, found = 0;

	for (i = 0; i < gpu->config.n_vfs; i++) {
		for (j = 0; j < i; j++) {
			const struct vf *a = &gpu->vfs[i], *b = &gpu->vfs[j];

			if (a->fb_size && b->fb_size && a->fb_offset < b->fb_offset + b->fb_size &&
			    b->fb_offset < a->fb_offset + a->fb_size)
				found |= 1u << i | 1u << j;
		}
	}
	return found;
}

/* Whose file an address lies in: its descriptor, the offset there, and how far it goes. */
static int resolve(const struct softgpu *gpu, uint64_t offset, uint64_t *at, uint64_t *length)
{
	uint64_t end = gpu->config.vram;
	uint32_t i;

	for (i = 0; i < gpu->config.n_vfs; i++) {
		const struct vf *vf = &gpu->vfs[i];

		if (vf->memfd < 0)
			continue;
		if (offset >= vf->fb_offset && offset - vf->fb_offset < vf->memory_size) {
			*at = offset - vf->fb_offset;
			*length = vf->memory_size - *at;
			return vf->memfd;
		}
		if (vf->fb_offset > offset && vf->fb_offset < end)
			end = vf->fb_offset;
	}
	*at = offset;
	*length = end - offset;
	return gpu->memfd;
}

void memory_transfer(int fd, uint64_t at, void *data, uint64_t size, bool write)
{
	ssize_t n = write ? pwrite(fd, data, size, (off_t)at) : pread(fd, data, size, (off_t)at);

	if (!write && n < (ssize_t)size)
		memset((char *)data + (n < 0 ? 0 : n), 0xff, size - (uint64_t)(n < 0 ? 0 : n));
}

/* The PF's view: all of the memory. */
void memory_access(struct softgpu *gpu, uint64_t offset, void *data, uint64_t size, bool write)
{
	uint64_t at, length;
	char *p = data;
	int fd;

	while (size > 0) {
		fd = resolve(gpu, offset, &at, &length);
		length = length < size ? length : size;
		memory_transfer(fd, at, p, length, write);
		offset += length;
		size -= length;
		p += length;
	}
}

void memory_violated(struct softgpu *gpu, int index, uint32_t n)
{
	gpu->violators |= 1u << index;
	gpu->violations += n;
}

#define STEP (1u << 20)

/* A part of a range that lies in one file, or in host memory. */
struct piece {
	bool host;
	int fd; /* of our own; -1: none */
	uint64_t at, length;
	int vf; /* whose memory it is, at in_vf; -1: no VF's */
	uint64_t in_vf;
};

static struct piece piece_of(const struct softgpu *gpu, uint64_t offset, uint64_t length)
{
	struct piece p = {.host = offset >= gpu->config.vram,
			  .fd = -1,
			  .at = gpu->host_base + (offset - gpu->config.vram),
			  .length = length,
			  .vf = -1};
	uint32_t i;

	if (!p.host)
		p.fd = dup(resolve(gpu, offset, &p.at, &p.length));
	for (i = 0; i < gpu->config.n_vfs; i++) {
		const struct vf *vf = &gpu->vfs[i];
		uint64_t to_end = vf->memory_size - (offset - vf->fb_offset);

		if (offset < vf->fb_offset || offset - vf->fb_offset >= vf->memory_size)
			continue;
		p.vf = (int)i;
		p.in_vf = offset - vf->fb_offset;
		p.length = p.length < to_end ? p.length : to_end;
	}
	if (p.length > length)
		p.length = length;
	return p;
}

static bool get(struct softgpu *gpu, const struct piece *from, void *buffer)
{
	if (from->host)
		return gpu->carrier->dma(gpu->opaque, SOFTGPU_PF, from->at, buffer, from->length,
					 false) == 0;
	return pread(from->fd, buffer, from->length, (off_t)from->at) == (ssize_t)from->length;
}

static bool put(struct softgpu *gpu, const struct piece *to, void *buffer)
{
	if (to->host)
		return gpu->carrier->dma(gpu->opaque, SOFTGPU_PF, to->at, buffer, to->length,
					 true) == 0;
	return pwrite(to->fd, buffer, to->length, (off_t)to->at) == (ssize_t)to->length;
}

static bool clear(struct softgpu *gpu, const struct piece *to)
{
	static uint8_t zeros[STEP];

	return to->host ? put(gpu, to, zeros) : punch(to->fd, to->at, to->length);
}

/* A piece has been copied between a VF's memory and the host's. */
static void note_copy(struct softgpu *gpu, const struct piece *from, const struct piece *to,
		      const uint64_t *hashes)
{
	struct vf *vf = from->vf < 0 ? NULL : &gpu->vfs[from->vf];

	/* It may have another partition meanwhile. */
	if (!vf || from->host == to->host || from->in_vf + from->length > vf->memory_size)
		return;
	if (to->host)
		swap_copied_out(vf, from->in_vf, hashes, from->length / SWAP_PAGE);
	else
		swap_copied_in(vf, from->in_vf, hashes, from->length / SWAP_PAGE);
}

/* One piece of what the PF has asked for, with the lock given up meanwhile. How much it was; 0: it
 * failed. */
static uint64_t fill_piece(struct softgpu *gpu, uint64_t offset, uint64_t from, uint64_t size,
			   uint8_t *buffer)
{
	uint64_t hashes[STEP / SWAP_PAGE], i;
	struct piece to = piece_of(gpu, offset, size), source = {.fd = -1, .vf = -1};
	bool copies = gpu->fill_copies, done;

	if (copies) {
		source = piece_of(gpu, from, to.length);
		to.length = source.length;
	} else if (to.host && to.vf >= 0) {
		/* What is out, is out; but its owner sees its window. */
		punch(gpu->vfs[to.vf].memfd, to.in_vf, to.length);
	}
	softgpu_unlock(gpu);
	done = copies ? get(gpu, &source, buffer) && put(gpu, &to, buffer) : clear(gpu, &to);
	for (i = 0; copies && i < source.length / SWAP_PAGE; i++)
		hashes[i] = swap_hash(buffer + i * SWAP_PAGE);
	if (to.fd >= 0)
		close(to.fd);
	if (source.fd >= 0)
		close(source.fd);
	softgpu_lock(gpu);
	if (copies && done)
		note_copy(gpu, &source, &to, hashes);
	return done ? to.length : 0;
}

/* Clears and copies memory for the PF, outside of the lock; little by little, for a file is locked
 * meanwhile, and contexts are saved in one. */
void *memory_filler(void *arg)
{
	struct softgpu *gpu = arg;
	uint64_t offset, size, from, done;
	uint8_t *buffer = malloc(STEP);
	bool failed;

	softgpu_lock(gpu);
	while (!gpu->quit) {
		if (gpu->n_discarded > 0) {
			int fd = gpu->discarded[--gpu->n_discarded];

			softgpu_unlock(gpu);
			give_back(fd);
			softgpu_lock(gpu);
			continue;
		}
		if (gpu->drop_size > 0) { /* nobody sees it, but it takes room */
			uint64_t at = gpu->drop_offset, length = gpu->drop_size;

			gpu->drop_size = 0;
			softgpu_unlock(gpu);
			punch(gpu->memfd, at, length);
			softgpu_lock(gpu);
			continue;
		}
		if (!(gpu->fill_status & SOFTGPU_FILL_BUSY)) {
			pthread_cond_wait(&gpu->filler_cond, &gpu->lock);
			continue;
		}
		offset = gpu->fill_offset;
		size = gpu->fill_size;
		from = gpu->copy_from;
		failed = !is_memory(gpu, offset, size) ||
			 (gpu->fill_copies && (!buffer || !is_memory(gpu, from, size)));
		if (!gpu->fill_copies && fault_strikes(gpu, SOFTGPU_FAULT_SKIP_CLEAR, -1, -1))
			size = 0;
		while (!failed && size > 0 && !gpu->quit) {
			done = fill_piece(gpu, offset, from, size > STEP ? STEP : size, buffer);
			failed = done == 0;
			offset += done;
			from += done;
			size -= done;
		}
		gpu->fill_status = failed ? SOFTGPU_FILL_FAILED : 0;
	}
	softgpu_unlock(gpu);
	free(buffer);
	return NULL;
}
