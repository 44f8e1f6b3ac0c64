/* SPDX-License-Identifier: MIT */
/*
 * GPU memory. Each VF's partition is a memory file of its own, sealed against shrinking; the PF's
 * part is another. An address belongs to exactly one file, so no client of a VF, whatever it maps,
 * holds anything but its own partition.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu.h"
#include "leaving.h"
#include "link.h"
#include "program.h"
#include "workers.h"

#include "vgpu/descriptor.h"

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

/* A VF's, mapped; NULL if there is no room for it. */
static struct memory_file *file_create(int vf, uint64_t size)
{
	struct memory_file *file = calloc(1, sizeof(*file));
	void *map = MAP_FAILED;

	if (!file)
		return NULL;
	*file = (struct memory_file){.fd = memory_file(size), .vf = vf, .size = size};
	if (file->fd >= 0)
		map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file->fd,
			   0);
	if (map == MAP_FAILED) {
		vgpu_close(&file->fd);
		free(file);
		return NULL;
	}
	file->map = map;
	return file;
}

static void file_destroy(struct memory_file *file)
{
	munmap(file->map, file->size);
	vgpu_close(&file->fd);
	free(file);
}

int memory_create(struct softgpu *gpu, struct vgpu_error *err)
{
	gpu->memfd = memory_file(gpu->config.vram);
	if (gpu->memfd < 0)
		return vgpu_error_set(err, gpu->memfd, "GPU memory: %s", strerror(-gpu->memfd));
	return 0;
}

/* Punching holes gives zeros, and the pages back. Only of the PF's file, which nobody else has. */
static void punch(const struct softgpu *gpu, uint64_t at, uint64_t length)
{
	if (fallocate(gpu->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
		      (off_t)length) < 0)
		fprintf(stderr, "<4>softgpu: memory is not given back: %s\n", strerror(errno));
}

static bool is_empty(const struct memory_file *file)
{
	struct stat st;

	return fstat(file->fd, &st) == 0 && st.st_blocks == 0;
}

/*
 * Whoever has kept the file has nothing: it holds no memory. Whoever keeps the file locked keeps
 * the process that empties it, and with that the VF, which is not served until then. Without the
 * lock.
 */
static void give_back(struct softgpu *gpu, struct memory_file *file)
{
	const char *args[] = {"--give-back", NULL};
	struct vgpu_error err;
	int pidfd, r;
	pid_t pid;

	if (!is_empty(file)) {
		r = program_start("softgpu-vf", args, &file->fd, 1, &pid, &pidfd, &err);
		if (r < 0)
			fprintf(stderr, "<4>softgpu: VF %d: memory is not given back: %s\n",
				file->vf, err.text);
		softgpu_lock(gpu);
		if (r == 0)
			leaving_add(gpu->leaving, pidfd, file->vf, VGPU_NEVER);
		softgpu_unlock(gpu);
	}
	file_destroy(file);
}

/* The VF has its file no more. Giving many pages back takes long; nobody waits for the lock
 * meanwhile. */
static void release(struct softgpu *gpu, struct vf *vf)
{
	if (gpu->workers)
		workers_end(gpu, (int)(vf - gpu->vfs));
	swap_resize(vf, 0);
	if (!vf->file)
		return;
	vf->file->next = gpu->discarded;
	gpu->discarded = vf->file;
	vf->file = NULL;
	pthread_cond_signal(&gpu->filler_cond);
}

bool memory_holds(const struct softgpu *gpu, int vf)
{
	const struct memory_file *file;

	if (gpu->giving_back == vf || leaving_holds(gpu->leaving, vf))
		return true;
	for (file = gpu->discarded; file; file = file->next)
		if (file->vf == vf)
			return true;
	return false;
}

void memory_destroy(struct softgpu *gpu)
{
	struct memory_file *file;
	uint32_t i;

	for (i = 0; i < SOFTGPU_MAX_VFS; i++)
		release(gpu, &gpu->vfs[i]);
	while ((file = gpu->discarded)) {
		gpu->discarded = file->next;
		file_destroy(file);
	}
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
	struct memory_file *file;

	if (gpu->running == index || (vf->state != CONTEXT_NONE && !moves))
		return false;
	/* Host memory may be larger; but a VF's BAR 0 is as large as the GPU's memory. */
	if (!is_memory(gpu, offset, size) || size > gpu->config.vram)
		return false;
	if (moves && vf->file)
		move(gpu, vf, offset);
	vf->fb_offset = offset;
	if (size == vf->fb_size && vf->file)
		return true;
	release(gpu, vf);
	vf->fb_size = size;
	file = size > 0 ? file_create(index, shown) : NULL;
	if (file && !swap_resize(vf, shown)) {
		swap_resize(vf, 0);
		file_destroy(file);
		file = NULL;
	}
	/* Without a file the VF has no memory: its reads give ones, its packets fail. */
	vf->file = file;
	if (file && gpu->workers)
		workers_begin(gpu, index);
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

/* Whose file an address lies in, NULL for the PF's: the offset there, and how far it goes. */
static struct memory_file *resolve(const struct softgpu *gpu, uint64_t offset, uint64_t *at,
				   uint64_t *length)
{
	uint64_t end = gpu->config.vram;
	uint32_t i;

	for (i = 0; i < gpu->config.n_vfs; i++) {
		const struct vf *vf = &gpu->vfs[i];

		if (!vf->file)
			continue;
		if (offset >= vf->fb_offset && offset - vf->fb_offset < vf->file->size) {
			*at = offset - vf->fb_offset;
			*length = vf->file->size - *at;
			return vf->file;
		}
		if (vf->fb_offset > offset && vf->fb_offset < end)
			end = vf->fb_offset;
	}
	*at = offset;
	*length = end - offset;
	return NULL;
}

/* What cannot be read reads as ones. Reading a memory file takes no lock of it, and no page for a
 * hole. */
static void read_file(int fd, uint64_t at, void *data, uint64_t size)
{
	ssize_t n = pread(fd, data, size, (off_t)at);

	if (n < (ssize_t)size)
		memset((char *)data + (n < 0 ? 0 : n), 0xff, size - (uint64_t)(n < 0 ? 0 : n));
}

void memory_transfer(const struct memory_file *file, uint64_t at, void *data, uint64_t size,
		     bool write)
{
	if (write)
		memcpy(file->map + at, data, size);
	else
		read_file(file->fd, at, data, size);
}

/* The PF's view: all of the memory. */
void memory_access(struct softgpu *gpu, uint64_t offset, void *data, uint64_t size, bool write)
{
	struct memory_file *file;
	uint64_t at, length;
	char *p = data;

	while (size > 0) {
		file = resolve(gpu, offset, &at, &length);
		length = length < size ? length : size;
		if (file)
			memory_transfer(file, at, p, length, write);
		else if (!write)
			read_file(gpu->memfd, at, p, length);
		else if (pwrite(gpu->memfd, p, length, (off_t)at) < 0)
			fprintf(stderr, "<4>softgpu: GPU memory: %s\n", strerror(errno));
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
#define PAGE 4096u

/* A part of a range that lies in one file, or in host memory. */
struct piece {
	bool host;
	uint64_t at, length;
	int vf; /* whose memory it is, at in_vf; -1: no VF's */
	struct memory_file *file;
	uint64_t in_vf;
};

static struct piece piece_of(const struct softgpu *gpu, uint64_t offset, uint64_t length)
{
	struct piece p = {.host = offset >= gpu->config.vram,
			  .at = gpu->host_base + (offset - gpu->config.vram),
			  .length = length,
			  .vf = -1};
	uint32_t i;

	if (!p.host)
		p.file = resolve(gpu, offset, &p.at, &p.length);
	for (i = 0; i < gpu->config.n_vfs; i++) {
		const struct vf *vf = &gpu->vfs[i];
		uint64_t to_end;

		if (!vf->file || offset < vf->fb_offset || offset - vf->fb_offset >= vf->file->size)
			continue;
		p.vf = (int)i;
		p.file = vf->file;
		p.in_vf = offset - vf->fb_offset;
		to_end = vf->file->size - p.in_vf;
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
	return pread(from->file ? from->file->fd : gpu->memfd, buffer, from->length,
		     (off_t)from->at) == (ssize_t)from->length;
}

static bool put(struct softgpu *gpu, const struct piece *to, void *buffer)
{
	if (to->host)
		return gpu->carrier->dma(gpu->opaque, SOFTGPU_PF, to->at, buffer, to->length,
					 true) == 0;
	if (!to->file)
		return pwrite(gpu->memfd, buffer, to->length, (off_t)to->at) == (ssize_t)to->length;
	memory_transfer(to->file, to->at, buffer, to->length, true);
	return true;
}

/* Clears up to STEP bytes of a VF's file; pages that hold nothing stay as they are, holes above
 * all.
 */
static void clear_file(const struct memory_file *file, uint64_t at, uint64_t length,
		       uint8_t *buffer)
{
	static const uint8_t zeros[PAGE];
	uint64_t i, n;

	if (is_empty(file))
		return;
	read_file(file->fd, at, buffer, length);
	for (i = 0; i < length; i += n) {
		n = length - i < PAGE ? length - i : PAGE;
		if (memcmp(buffer + i, zeros, n) != 0)
			memset(file->map + at + i, 0, n);
	}
}

static bool clear(struct softgpu *gpu, const struct piece *to, uint8_t *buffer)
{
	static uint8_t zeros[STEP];

	/* What is out, is out; but its owner sees its window. */
	if (to->file)
		clear_file(to->file, to->in_vf, to->length, buffer);
	else if (!to->host)
		punch(gpu, to->at, to->length);
	return !to->host || put(gpu, to, zeros);
}

/* A piece has been copied between a VF's memory and the host's. */
static void note_copy(struct softgpu *gpu, const struct piece *from, const struct piece *to,
		      const uint64_t *hashes)
{
	struct vf *vf = from->vf < 0 ? NULL : &gpu->vfs[from->vf];

	/* It may have another partition meanwhile. */
	if (!vf || from->host == to->host || !vf->file ||
	    from->in_vf + from->length > vf->file->size)
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
	struct piece to = piece_of(gpu, offset, size), source = {.vf = -1};
	bool copies = gpu->fill_copies, done;

	if (copies) {
		source = piece_of(gpu, from, to.length);
		to.length = source.length;
	}
	softgpu_unlock(gpu);
	done = copies ? get(gpu, &source, buffer) && put(gpu, &to, buffer)
		      : clear(gpu, &to, buffer);
	for (i = 0; copies && i < source.length / SWAP_PAGE; i++)
		hashes[i] = swap_hash(buffer + i * SWAP_PAGE);
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
		if (gpu->discarded) {
			struct memory_file *file = gpu->discarded;

			gpu->discarded = file->next;
			gpu->giving_back = file->vf;
			softgpu_unlock(gpu);
			give_back(gpu, file);
			softgpu_lock(gpu);
			link_wake(gpu->vfs[gpu->giving_back].link);
			gpu->giving_back = -1;
			continue;
		}
		if (gpu->drop_size > 0) { /* nobody sees it, but it takes room */
			uint64_t at = gpu->drop_offset, length = gpu->drop_size;

			gpu->drop_size = 0;
			softgpu_unlock(gpu);
			punch(gpu, at, length);
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
		failed = !buffer || !is_memory(gpu, offset, size) ||
			 (gpu->fill_copies && !is_memory(gpu, from, size));
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
