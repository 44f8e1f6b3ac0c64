/* SPDX-License-Identifier: MIT */
/* What programs tell is found as a memory file among their descriptors. A program of another user
 * is another user's: what it writes is checked, and a file of its making is not opened before it is
 * known to be memory. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "library.h"
#include "vgpu/descriptor.h"

#define PATH 64
/* Programs that are told apart. */
#define MOST 128u

struct set {
	int64_t values[MOST];
	uint32_t n;
};

struct search {
	const struct vf *vf;
	dev_t memory; /* where memory files are */
	/* A child shares its parent's descriptors until it starts another program: each memory file
	 * counts once, for the process that is found first. */
	struct set files;
	struct set told;    /* processes that have a record */
	struct set unknown; /* processes that have none, and hold the VF */
	void (*each)(void *data, const struct program *p);
	void *data;
};

static bool has(const struct set *set, int64_t value)
{
	uint32_t i;

	for (i = 0; i < set->n; i++)
		if (set->values[i] == value)
			return true;
	return false;
}

/* Returns whether VALUE is new. One for which there is no room always is. */
static bool add(struct set *set, int64_t value)
{
	if (has(set, value))
		return false;
	if (set->n < MOST)
		set->values[set->n++] = value;
	return true;
}

/* Reads the record that is descriptor FD of PID. *INODE: of its file. Returns whether it is of this
 * VF. */
static bool read_record(const struct search *s, pid_t pid, const char *fd, struct record *out,
			ino_t *inode)
{
	VGPU_AUTO_CLOSE int place = -1, file = -1;
	char path[PATH], link[sizeof(RECORD_LINK) + 1];
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.12s", pid, fd);
	n = readlink(path, link, sizeof(link));
	if (n != sizeof(RECORD_LINK) - 1 || memcmp(link, RECORD_LINK, (size_t)n) != 0)
		return false;
	place = open(path, O_PATH | O_CLOEXEC);
	if (place < 0 || fstat(place, &st) < 0 || !S_ISREG(st.st_mode) || st.st_dev != s->memory)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", place);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || pread(file, out, sizeof(*out), 0) != sizeof(*out))
		return false;
	out->vf[sizeof(out->vf) - 1] = '\0';
	out->about.name[sizeof(out->about.name) - 1] = '\0';
	if (out->used > out->total)
		out->used = out->total;
	*inode = st.st_ino;
	return out->layout == RECORD_LAYOUT && strcmp(out->vf, vf_key(s->vf)) == 0;
}

/* Returns whether PID has a record. */
static bool look_at(struct search *s, pid_t pid)
{
	struct program p = {.pid = pid, .known = true};
	char path[PATH];
	struct dirent *d;
	bool told = false;
	ino_t inode;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	fds = opendir(path);
	while (fds && (d = readdir(fds))) {
		if (!isdigit((unsigned char)d->d_name[0]) ||
		    !read_record(s, pid, d->d_name, &p.record, &inode))
			continue;
		told = true;
		if (add(&s->files, (int64_t)inode) && p.record.total > 0)
			s->each(s->data, &p);
	}
	if (fds)
		closedir(fds);
	if (told)
		add(&s->told, pid);
	return told;
}

/* A process that has taken a lock on the VF: it may have begun since processes were looked at. No
 * more than MOST that are unknown are named, whatever the kernel's list has. */
static void look_at_holder(void *data, pid_t pid)
{
	struct search *s = data;

	if (has(&s->told, pid) || has(&s->unknown, pid) || s->unknown.n == MOST || look_at(s, pid))
		return;
	add(&s->unknown, pid);
	s->each(s->data, &(struct program){.pid = pid});
}

static bool find_memory(dev_t *out)
{
	VGPU_AUTO_CLOSE int fd = memfd_create("vgpu-nvml", MFD_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	*out = st.st_dev;
	return true;
}

void programs_each(const struct vf *vf, void (*each)(void *data, const struct program *p),
		   void *data)
{
	struct search s = {.vf = vf, .each = each, .data = data};
	DIR *processes = find_memory(&s.memory) ? opendir("/proc") : NULL;
	struct dirent *d;

	while (processes && (d = readdir(processes)))
		if (isdigit((unsigned char)d->d_name[0]))
			look_at(&s, (pid_t)strtol(d->d_name, NULL, 10));
	if (processes)
		closedir(processes);
	vf_holders(vf, look_at_holder, &s);
}

static void sum_up(void *data, const struct program *p)
{
	struct programs_sum *sum = data;

	if (!p->known) {
		sum->unknown = true;
		return;
	}
	sum->total = p->record.total;
	sum->used += p->record.used;
	sum->about = p->record.about;
}

void programs_sum(const struct vf *vf, struct programs_sum *out)
{
	*out = (struct programs_sum){0};
	programs_each(vf, sum_up, out);
}
