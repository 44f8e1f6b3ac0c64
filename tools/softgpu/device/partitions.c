/* SPDX-License-Identifier: MIT */
/*
 * GPU memory. Each VF's partition is a memory file of its own, sealed against shrinking; the PF's
 * part is another. An address belongs to exactly one file, so no client of a VF, whatever it maps,
 * holds anything but its own partition.
 *
 * With workers, a VF's file is its window, and its worker has the rest of the partition in device
 * memory. What is copied from there to host memory, or back, also goes to the PF's file, so that
 * the PF can compare; it is punched with the range that the VF has left.
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

#include "carry.h"
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

/* Makes and maps a VF's file. NULL: out of memory or descriptors. */
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
	madvise(map, size, MADV_DONTDUMP);
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

/* Clears a range of the PF's file by punching a hole, which also frees its pages. Not for a VF's
 * file, whose lock a client may hold. */
static void punch(const struct softgpu *gpu, uint64_t at, uint64_t length)
{
	if (fallocate(gpu->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
		      (off_t)length) < 0)
		fprintf(stderr, "<4>softgpu: GPU memory cannot be freed: %s\n", strerror(errno));
}

static bool is_empty(const struct memory_file *file)
{
	struct stat st;

	return fstat(file->fd, &st) == 0 && st.st_blocks == 0;
}

/*
 * Empties a file by a process of its own, and closes it, so that a client which keeps the file
 * holds no memory. If a client holds the file's lock, only that process waits; the VF is not served
 * until the process has ended. Called without the lock.
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
			fprintf(stderr, "<4>softgpu: VF %d: its old memory cannot be freed: %s\n",
				file->vf, err.text);
		softgpu_lock(gpu);
		if (r == 0)
			leaving_add(gpu->leaving, pidfd, file->vf, VGPU_NEVER);
		softgpu_unlock(gpu);
	}
	file_destroy(file);
}

/* Takes the VF's file away. The filler empties it without the lock, because freeing many pages
 * takes long. */
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

/* Returns whether a range lies in GPU memory or in the aperture. */
static bool is_memory(const struct softgpu *gpu, uint64_t offset, uint64_t size)
{
	uint64_t begin = offset < gpu->config.vram ? 0 : gpu->config.vram;
	uint64_t length = begin ? gpu->host_size : gpu->config.vram;

	return offset - begin <= length && size <= length - (offset - begin);
}

void memory_runs(struct softgpu *gpu, struct vf *vf)
{
	vf->copied_out = vf->file ? vf->file->size : 0;
	if (!vf->compared)
		return;
	vf->compared = false;
	vf->drops = true;
	pthread_cond_signal(&gpu->filler_cond);
}

/* The worker must give its device memory back; copying it back will begin at its first byte. */
static void give_up(struct softgpu *gpu, struct vf *vf)
{
	vf->leaves = vf->file->size < vf->fb_size;
	vf->copied_in = vf->file->size;
	vf->coming = MEMORY_NOWHERE;
	pthread_cond_signal(&gpu->filler_cond);
}

/* Returns whether a saved VF's partition may be moved to OFFSET: its worker gives device memory
 * back, or runs with it again, only if all of it has been copied. */
static bool may_move(const struct softgpu *gpu, const struct vf *vf, uint64_t offset)
{
	bool here = memory_is_here(gpu, vf), comes = offset < gpu->config.vram;

	if (!vf->file || here == comes || vf->file->size == vf->fb_size)
		return true;
	return (comes ? vf->copied_in : vf->copied_out) == vf->fb_size;
}

/* Moves a saved VF's partition to OFFSET. */
static void move(struct softgpu *gpu, struct vf *vf, uint64_t offset)
{
	bool was_here = memory_is_here(gpu, vf), comes = offset < gpu->config.vram;

	vf->told = 0;
	if (!comes) {
		swap_left(vf);
		if (was_here)
			give_up(gpu, vf);
		return;
	}
	if (!was_here)
		swap_came(gpu, vf, offset);
	vf->coming = MEMORY_NOWHERE;
	memory_runs(gpu, vf);
	vf->drops = true;
	pthread_cond_signal(&gpu->filler_cond);
}

/* A VF without a context has gone to host memory, or come from there: it keeps nothing in device
 * memory, so its worker ends, or another one starts. */
static void follow(struct softgpu *gpu, int index)
{
	workers_end(gpu, index);
	workers_begin(gpu, index);
	link_memory(gpu->vfs[index].link);
}

/*
 * An entry of the memory table was written: gives the VF another partition, in a new file. The old
 * file exists as long as a client maps it, and no other VF gets it. The partition of a VF that has
 * a context does not change, except that a saved VF may be moved, with its file, so that the
 * owner's mappings stay valid. With workers, the file is the window, and the worker has the rest.
 * Returns false if the entry is not accepted.
 */
bool memory_set_partition(struct softgpu *gpu, int index, uint64_t offset, uint64_t size)
{
	struct vf *vf = &gpu->vfs[index];
	bool moves = vf->state == CONTEXT_SAVED && size == vf->fb_size;
	bool was_here = memory_is_here(gpu, vf);
	uint64_t shown = gpu->workers && gpu->config.window < size ? gpu->config.window : size;
	struct memory_file *file;

	if (gpu->running == index || (vf->state != CONTEXT_NONE && !moves) ||
	    (moves && !may_move(gpu, vf, offset)))
		return false;
	/* Host memory may be larger than GPU memory, but a VF's BAR 0 is not. */
	if (!is_memory(gpu, offset, size) || size > gpu->config.vram)
		return false;
	if (moves && vf->file)
		move(gpu, vf, offset);
	vf->fb_offset = offset;
	if (size == vf->fb_size && vf->file) {
		if (gpu->workers && !moves && memory_is_here(gpu, vf) != was_here)
			follow(gpu, index);
		return true;
	}
	release(gpu, vf);
	vf->fb_size = size;
	file = size > 0 ? file_create(index, shown) : NULL;
	if (file && !swap_resize(vf, shown)) {
		swap_resize(vf, 0);
		file_destroy(file);
		file = NULL;
	}
	/* Without a file the VF has no memory: reads give ones, and packets fail. */
	vf->file = file;
	if (file && gpu->workers)
		workers_begin(gpu, index);
	link_memory(vf->link);
	return true;
}

/* Gives the VF the same partition in a new file. */
void memory_renew(struct softgpu *gpu, int index)
{
	struct vf *vf = &gpu->vfs[index];
	uint64_t size = vf->fb_size;

	vf->renew = false;
	release(gpu, vf);
	vf->fb_size = 0;
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

/* Returns the file that an address lies in, NULL for the PF's file; the offset there, and how many
 * bytes from OFFSET lie in the same file. */
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

/* Reads from a memory file; what cannot be read gives ones. This takes no lock of the file, and a
 * hole gets no page. */
static void read_file(int fd, uint64_t at, void *data, uint64_t size)
{
	ssize_t n = pread(fd, data, size, (off_t)at);

	if (n < (ssize_t)size)
		memset((char *)data + (n < 0 ? 0 : n), 0xff, size - (uint64_t)(n < 0 ? 0 : n));
}

/* Read and write SIZE bytes of a file at AT. Returns 0 or -errno; less than SIZE is an error. */
static int read_all(int fd, uint64_t at, void *data, uint64_t size)
{
	ssize_t n = pread(fd, data, size, (off_t)at);

	return n < 0 ? -errno : (uint64_t)n < size ? -EIO : 0;
}

/* Writes all of DATA, or returns -errno: the kernel writes only a part if memory runs out. */
static int write_all(int fd, uint64_t at, const void *data, uint64_t size)
{
	ssize_t n = pwrite(fd, data, size, (off_t)at);

	return n < 0 ? -errno : (uint64_t)n < size ? -ENOSPC : 0;
}

void memory_transfer(const struct memory_file *file, uint64_t at, void *data, uint64_t size,
		     bool write)
{
	if (write)
		memcpy(file->map + at, data, size);
	else
		read_file(file->fd, at, data, size);
}

/* Accesses memory as the PF sees it, whichever files it lies in. */
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
	int vf; /* the VF that it belongs to, at offset IN_VF of its partition; -1: none */
	struct memory_file *file;
	uint64_t in_vf;
	bool behind; /* the VF's window: in its device memory */
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

		if (!vf->file || offset < vf->fb_offset || offset - vf->fb_offset >= vf->fb_size)
			continue;
		p.vf = (int)i;
		p.in_vf = offset - vf->fb_offset;
		p.behind = p.in_vf >= vf->file->size;
		if (!p.behind)
			p.file = vf->file;
		to_end = (p.behind ? vf->fb_size : vf->file->size) - p.in_vf;
		p.length = p.length < to_end ? p.length : to_end;
	}
	if (p.length > length)
		p.length = length;
	return p;
}

/* Returns 0 or -errno, and so does each of the following. */
static int read_piece(struct softgpu *gpu, const struct piece *from, void *buffer)
{
	if (from->host)
		return gpu->carrier->dma(gpu->opaque, SOFTGPU_PF, from->at, buffer, from->length,
					 false);
	return read_all(from->file ? from->file->fd : gpu->memfd, from->at, buffer, from->length);
}

static int write_piece(struct softgpu *gpu, const struct piece *to, void *buffer)
{
	if (to->host)
		return gpu->carrier->dma(gpu->opaque, SOFTGPU_PF, to->at, buffer, to->length, true);
	if (!to->file)
		return write_all(gpu->memfd, to->at, buffer, to->length);
	memory_transfer(to->file, to->at, buffer, to->length, true);
	return 0;
}

static int copy_piece(struct softgpu *gpu, const struct piece *from, const struct piece *to,
		      void *buffer)
{
	int r = read_piece(gpu, from, buffer);

	return r < 0 ? r : write_piece(gpu, to, buffer);
}

/* Clears up to STEP bytes of a VF's file. Pages that are clear already are not written, so that
 * holes stay holes. */
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

static int clear(struct softgpu *gpu, const struct piece *to, uint8_t *buffer)
{
	static uint8_t zeros[STEP];

	/* If the VF's memory is in host memory, its owner's window must be cleared as well. */
	if (to->file)
		clear_file(to->file, to->in_vf, to->length, buffer);
	else if (!to->host)
		punch(gpu, to->at, to->length);
	return to->host ? write_piece(gpu, to, zeros) : 0;
}

/* Notes which pages of a VF have been copied to host memory or back. */
static void note_copy(struct softgpu *gpu, const struct piece *from, const struct piece *to,
		      const uint64_t *hashes)
{
	struct vf *vf = from->vf < 0 || from->behind ? NULL : &gpu->vfs[from->vf];

	/* The VF may have got another partition meanwhile. */
	if (!vf || from->host == to->host || !vf->file ||
	    from->in_vf + from->length > vf->file->size)
		return;
	if (to->host)
		swap_copied_out(vf, from->in_vf, hashes, from->length / SWAP_PAGE);
	else
		swap_copied_in(vf, from->in_vf, hashes, from->length / SWAP_PAGE);
}

/* The worker's part in a copy. */
enum carried { CARRIED_NOT = 0, CARRIED_OUT, CARRIED_IN };

static enum carried carried(const struct softgpu *gpu, const struct piece *from,
			    const struct piece *to)
{
	/* Without a context there is nothing in device memory that the VF could find again. */
	if (!from->behind || from->host == to->host || gpu->vfs[from->vf].state != CONTEXT_SAVED)
		return CARRIED_NOT;
	return from->host ? CARRIED_IN : CARRIED_OUT;
}

/* Lets the worker copy a piece of device memory. carry_end() reports what the worker has not done.
 * Called without the lock. */
static int carry_piece(struct softgpu *gpu, struct carry *c, const struct piece *from,
		       const struct piece *to, void *buffer)
{
	uint64_t at = from->in_vf - gpu->config.window;
	int r;

	if (from->host) {
		r = copy_piece(gpu, from, to, buffer);
		if (r == 0)
			carry_copy(c, at, buffer, from->length, false);
		return r;
	}
	if (!carry_copy(c, at, buffer, from->length, true))
		return 0;
	r = write_piece(gpu, from, buffer);
	return r < 0 ? r : write_piece(gpu, to, buffer);
}

/* Notes how far the worker has copied. OFFSET: where the piece is in GPU memory now. */
static void note_carried(struct softgpu *gpu, const struct piece *from, uint64_t offset)
{
	struct vf *vf = &gpu->vfs[from->vf];
	uint64_t *upto = from->host ? &vf->copied_in : &vf->copied_out;

	if (from->in_vf <= *upto && from->in_vf + from->length > *upto)
		*upto = from->in_vf + from->length;
	if (from->host)
		vf->coming = offset - from->in_vf;
}

/* The PF clears a range: a VF that was being copied back to it no longer is, and its worker gives
 * back the device memory that it has taken for that. */
static void forget_coming(struct softgpu *gpu, uint64_t offset, uint64_t size)
{
	uint32_t i;

	for (i = 0; i < gpu->config.n_vfs; i++) {
		struct vf *vf = &gpu->vfs[i];

		if (vf->file && vf->coming != MEMORY_NOWHERE && offset < vf->coming + vf->fb_size &&
		    vf->coming < offset + size)
			give_up(gpu, vf);
	}
}

/* Frees the pages of the PF's file at the partition of a VF, which hides them: the copy for
 * the PF to compare, and the data copied back, are obsolete. Returns false if there are none. */
static bool drop(struct softgpu *gpu)
{
	uint64_t at, length;
	uint32_t i;

	for (i = 0; i < gpu->config.n_vfs && !gpu->vfs[i].drops; i++)
		;
	if (i == gpu->config.n_vfs)
		return false;
	gpu->vfs[i].drops = false;
	at = gpu->vfs[i].fb_offset;
	length = memory_is_here(gpu, &gpu->vfs[i]) ? gpu->vfs[i].fb_size : 0;
	softgpu_unlock(gpu);
	if (length > 0)
		punch(gpu, at, length);
	softgpu_lock(gpu);
	return true;
}

/* Lets the worker of a VF that has left give its device memory back. Returns false if no VF has
 * left, or if its worker cannot be asked now; the filler tries again when it wakes next, and before
 * the next fill or copy that the PF orders. */
static bool let_leave(struct softgpu *gpu)
{
	struct carry carry;
	uint32_t i;

	for (i = 0; i < gpu->config.n_vfs && !gpu->vfs[i].leaves; i++)
		;
	if (i == gpu->config.n_vfs)
		return false;
	carry_begin(&carry, gpu, (int)i, true);
	softgpu_unlock(gpu);
	carry_leave(&carry);
	softgpu_lock(gpu);
	gpu->vfs[i].leaves = gpu->vfs[i].leaves && carry.host < 0;
	carry_end(&carry, gpu);
	return carry.host == 0;
}

/* Returns whether the device memory of a VF can be copied back from IN_VF on: the worker has given
 * back what it had, and there is no gap. */
static bool may_come(const struct vf *vf, uint64_t in_vf)
{
	return !vf->leaves && in_vf <= vf->copied_in;
}

/* Clears or copies the next piece for the PF, releasing the lock meanwhile. Returns its bytes; 0:
 * it failed. */
static uint64_t fill_piece(struct softgpu *gpu, uint64_t offset, uint64_t from, uint64_t size,
			   uint8_t *buffer)
{
	uint64_t hashes[STEP / SWAP_PAGE], i;
	struct piece to = piece_of(gpu, offset, size), source = {.vf = -1};
	bool copies = gpu->fill_copies, done = true;
	enum carried how = CARRIED_NOT;
	struct carry carry;
	int r;

	if (copies) {
		source = piece_of(gpu, from, to.length);
		to.length = source.length;
		how = carried(gpu, &source, &to);
	} else {
		forget_coming(gpu, offset, to.length);
	}
	if (how == CARRIED_IN && !may_come(&gpu->vfs[source.vf], source.in_vf))
		return 0;
	if (how) {
		carry_begin(&carry, gpu, source.vf, source.in_vf == gpu->config.window);
		gpu->vfs[source.vf].compared |= how == CARRIED_OUT;
	}
	softgpu_unlock(gpu);
	if (how)
		r = carry_piece(gpu, &carry, &source, &to, buffer);
	else if (copies)
		r = copy_piece(gpu, &source, &to, buffer);
	else
		r = clear(gpu, &to, buffer);
	for (i = 0; copies && i < source.length / SWAP_PAGE; i++)
		hashes[i] = swap_hash(buffer + i * SWAP_PAGE);
	softgpu_lock(gpu);
	if (r < 0 && source.vf >= 0)
		carry_tell(gpu, source.vf, r);
	if (how)
		done = carry_end(&carry, gpu);
	done = done && r == 0;
	if (how && done)
		note_carried(gpu, &source, source.host ? offset : from);
	if (copies && done)
		note_copy(gpu, &source, &to, hashes);
	return done ? to.length : 0;
}

/* Clears and copies memory for the PF, without the lock. It works in small pieces, because each
 * piece locks a file that commands also use to save contexts. */
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
		if (drop(gpu) || let_leave(gpu))
			continue;
		if (!(gpu->fill_status & SOFTGPU_FILL_BUSY)) {
			pthread_cond_wait(&gpu->filler_cond, &gpu->lock);
			continue;
		}
		offset = gpu->fill_offset;
		size = gpu->fill_size;
		from = gpu->copy_from;
		failed = !buffer || !is_memory(gpu, offset, size) ||
			 (gpu->fill_copies && !is_memory(gpu, from, size));
		if (!gpu->fill_copies && fault_happens(gpu, SOFTGPU_FAULT_SKIP_CLEAR, -1, -1))
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
