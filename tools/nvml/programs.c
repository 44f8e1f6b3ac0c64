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
/* Programs that are told apart. A child shares its parent's descriptors until it starts another
 * program: each memory file counts once, for the process with the lowest number. */
#define FILES_MOST 128u

struct search {
	const struct vf *vf;
	dev_t memory; /* where memory files are */
	ino_t seen[FILES_MOST];
	uint32_t n;
	pid_t holder; /* of the VF's lock; 0: it has told of itself, or there is none */
	void (*each)(void *data, const struct program *p);
	void *data;
};

static bool is_new(struct search *s, ino_t inode)
{
	uint32_t i;

	for (i = 0; i < s->n; i++)
		if (s->seen[i] == inode)
			return false;
	if (s->n < FILES_MOST)
		s->seen[s->n++] = inode;
	return true;
}

/* Reads the record that is descriptor FD of PID. Whether it is a new one, and of this VF. */
static bool read_record(struct search *s, pid_t pid, const char *fd, struct record *out)
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
	return out->layout == RECORD_LAYOUT && strcmp(out->vf, vf_key(s->vf)) == 0 &&
	       is_new(s, st.st_ino);
}

static void look_at(struct search *s, pid_t pid)
{
	struct program p = {.pid = pid, .known = true};
	char path[PATH];
	struct dirent *d;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	fds = opendir(path);
	while (fds && (d = readdir(fds))) {
		if (!isdigit((unsigned char)d->d_name[0]) ||
		    !read_record(s, pid, d->d_name, &p.record))
			continue;
		if (s->holder == pid)
			s->holder = 0;
		if (p.record.total > 0)
			s->each(s->data, &p);
	}
	if (fds)
		closedir(fds);
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
	struct search s = {.vf = vf, .each = each, .data = data, .holder = vf_holder(vf)};
	DIR *processes = find_memory(&s.memory) ? opendir("/proc") : NULL;
	struct dirent *d;

	while (processes && (d = readdir(processes)))
		if (isdigit((unsigned char)d->d_name[0]))
			look_at(&s, (pid_t)strtol(d->d_name, NULL, 10));
	if (processes)
		closedir(processes);
	if (s.holder)
		each(data, &(struct program){.pid = s.holder});
}

static void add(void *data, const struct program *p)
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
	programs_each(vf, add, out);
}
