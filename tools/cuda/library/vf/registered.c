/* SPDX-License-Identifier: MIT */
/*
 * Replaces pages of the program by pages of the window, and back, with their contents. The new
 * pages are first completed elsewhere, and then moved over the old ones. So a thread that reads
 * them meanwhile sees no difference, and an error changes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cuda_memory.h"
#include "vgpu/words.h"

#define PAGE 4096u

/* A line of /proc/self/maps. */
struct region {
	uint64_t begin, end, offset, inode;
	unsigned major, minor;
	char rights[5];
	const char *name; /* points into the line */
};
struct regions {
	FILE *file;
	char *line;
	size_t room;
};
static struct region window_is; /* the mapping of the window when registered_map() ran */

static struct regions open_regions(void)
{
	return (struct regions){fopen("/proc/self/maps", "re"), NULL, 0};
}

/* Reads the next region, in order of address. Returns false if there is none. */
static bool next(struct regions *all, struct region *r)
{
	int name = 0;

	if (!all->file || getline(&all->line, &all->room, all->file) < 0)
		return false;
	all->line[strcspn(all->line, "\n")] = 0;
	if (sscanf(all->line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &r->begin, &r->end, r->rights, &r->offset, &r->major, &r->minor, &r->inode,
		   &name) != 7)
		return false;
	r->name = all->line + name;
	return true;
}

static void close_regions(struct regions *all)
{
	if (all->file)
		fclose(all->file);
	free(all->line);
}

/* Returns whether a region is private, writable and of no file, like memory of malloc(). */
static bool is_private(const struct region *r)
{
	return strcmp(r->rights, "rw-p") == 0 && (!r->name[0] || strcmp(r->name, "[heap]") == 0 ||
						  strncmp(r->name, "[anon:", 6) == 0);
}

/* Returns whether a region is private and writable; it may be of a file. */
static bool is_own(const struct region *r)
{
	return strcmp(r->rights, "rw-p") == 0;
}

static bool are_all(uint64_t at, uint64_t end, bool (*is)(const struct region *r))
{
	struct regions all = open_regions();
	struct region r;

	while (at < end && next(&all, &r))
		if (r.end > at) {
			if (r.begin > at || !is(&r))
				break;
			at = r.end;
		}
	close_regions(&all);
	return at >= end;
}

bool registered_is_possible(const uint8_t *at, uint64_t bytes)
{
	const uint64_t begin = (uintptr_t)at, frame = (uintptr_t)__builtin_frame_address(0);
	const uint64_t first = (begin + PAGE - 1) / PAGE * PAGE;
	const uint64_t end = (begin + bytes) / PAGE * PAGE;

	if (first < end && (frame - first < end - first || !are_all(first, end, is_private))) {
		log_line("only private memory that the program can read and write, as malloc() "
			 "gives it, can be mapped: no file, no shared memory, no stack");
		return false;
	}
	if (!are_all(begin, begin + bytes, is_own)) {
		log_line("only private memory that the program can read and write can be mapped");
		return false;
	}
	return true;
}

/* Finds the region that contains AT. The caller closes ALL. */
static bool find(struct regions *all, struct region *r, uint64_t at)
{
	*all = open_regions();
	while (next(all, r))
		if (r->end > at)
			return r->begin <= at;
	return false;
}

/* Stores the mapping at WINDOW in window_is. */
static bool know_window(const uint8_t *window)
{
	struct regions all;
	bool ok = find(&all, &window_is, (uintptr_t)window);

	close_regions(&all);
	return ok;
}

/* Opens the file that is mapped at WINDOW. Returns its descriptor, or -1 if the file has no name in
 * a file system. */
static int open_window(const uint8_t *window)
{
	struct regions all;
	struct region r;
	struct stat st;
	int fd = -1;

	if (find(&all, &r, (uintptr_t)window))
		fd = open(r.name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	close_regions(&all);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == r.inode &&
	    st.st_dev == makedev(r.major, r.minor))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Maps BYTES at WINDOW a second time, at any address. Returns that address, or MAP_FAILED with
 * errno. */
static void *map_again(uint8_t *window, uint64_t bytes)
{
	const struct link_area w = link_stage_all();
	void *p = mremap(window, 0, bytes, MREMAP_MAYMOVE);
	int fd;

	if (p != MAP_FAILED || errno == ENOMEM)
		return p;
	/* mremap() cannot duplicate a mapping of a PCI device. But such a mapping is of a file with
	 * a name, which begins where the window does. */
	fd = open_window(window);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 (off_t)(w.at + (uint64_t)(window - w.memory)));
	if (fd >= 0)
		close(fd);
	return p;
}

/* Moves the mapping NEW, which has the contents of the memory at AT, to AT. */
static bool move(void *new, uint8_t *at, uint64_t bytes)
{
	return mremap(new, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at;
}

/* Replaces the memory at AT by private memory with the contents of NEW, where Linux cannot move
 * NEW. */
static bool copy_over(void *new, uint8_t *at, uint64_t bytes)
{
	const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	bool ok = mmap(at, bytes, PROT_READ | PROT_WRITE, how, -1, 0) == at;

	if (ok)
		vgpu_copy_words(at, new, bytes);
	munmap(new, bytes);
	return ok;
}

CUresult registered_map(uint8_t *at, uint64_t bytes, uint8_t *window)
{
	void *new;

	if (!know_window(window))
		return CUDA_ERROR_OUT_OF_MEMORY;
	new = map_again(window, bytes);
	if (new == MAP_FAILED && errno == ENOMEM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (new == MAP_FAILED) {
		log_line("the VF's window cannot be mapped a second time: it has no file, or this "
			 "user may not open it");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	vgpu_copy_words(new, at, bytes);
	if (move(new, at, bytes))
		return CUDA_SUCCESS;
	copy_over(new, at, bytes);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

uint8_t *registered_copy(const struct pinned *p)
{
	void *copy =
		mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return NULL;
	vgpu_copy_words(copy, p->window, p->bytes);
	return copy;
}

/* Returns whether region R still maps the pages of the window that P had when it was registered. */
static bool is_of(const struct region *r, const struct pinned *p)
{
	const uint64_t apart = (uintptr_t)p->window - (uintptr_t)p->at;

	return r->rights[3] == 's' && r->inode == window_is.inode && r->major == window_is.major &&
	       r->minor == window_is.minor &&
	       r->offset - r->begin == window_is.offset - window_is.begin + apart;
}

/* Moves NEW over BYTES of R at AT, with R's access rights. */
static bool replace(const struct region *r, uint8_t *new, uint8_t *at, uint64_t bytes)
{
	const int rights = (r->rights[0] == 'r' ? PROT_READ : 0) |
			   (r->rights[1] == 'w' ? PROT_WRITE : 0) |
			   (r->rights[2] == 'x' ? PROT_EXEC : 0);

	if (!move(new, at, bytes) && !copy_over(new, at, bytes))
		return false;
	return rights == (PROT_READ | PROT_WRITE) || mprotect(at, bytes, rights) == 0;
}

bool registered_unmap(const struct pinned *p, uint8_t *copy)
{
	const uint64_t begin = (uintptr_t)p->at, end = begin + p->bytes;
	uint64_t done = 0, from, to;
	struct regions all = open_regions();
	struct region r = {0};
	bool ok = all.file;

	while (next(&all, &r) && r.begin < end) {
		if (r.end <= begin || !is_of(&r, p))
			continue;
		from = r.begin > begin ? r.begin - begin : 0;
		to = (r.end < end ? r.end : end) - begin;
		if (from > done) /* the program has mapped something else there before FROM */
			munmap(copy + done, from - done);
		ok &= replace(&r, copy + from, p->at + from, to - from);
		done = to;
	}
	if (done < p->bytes)
		munmap(copy + done, p->bytes - done);
	ok = ok && (r.begin >= end || feof(all.file));
	close_regions(&all);
	return ok;
}
