/* SPDX-License-Identifier: MIT */
#include "spent.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "confine.h"
#include "gpu.h"
#include "link.h"
#include "workers.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* What a VF's process, and its worker, may use beside the engine's time: above what the process
 * lets its client cause (SERVER_PERCENT in vf/main.c). */
#define BESIDE_PERCENT 35
/* What can be saved up of that, and is there at first: a start takes some. */
#define SAVED ((int64_t)(300 * VGPU_MSEC))
/* The threads of a worker that has used more than this of what it had saved are checked one by
 * one. */
#define SUSPECT (SAVED / 2)
/* Most threads to look at: one that has more is no worker of ours. */
#define MOST_THREADS 64u

static const struct {
	const char *name;
	unsigned cpus; /* number of CPUs that it may use while the VF has the engine */
} kinds[SPENT_KINDS] = {[SPENT_PROCESS] = {"process", 1}, [SPENT_WORKER] = {"worker", 2}};

vgpu_nsec spent_cpu(pid_t pid)
{
	struct timespec t = {0, 0};
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) == 0)
		clock_gettime(clock, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

void spent_begin(struct softgpu *gpu)
{
	uint32_t i, k;

	for (i = 0; i < SOFTGPU_MAX_VFS; i++) {
		gpu->spent[i] = (struct spent){.has_since = VGPU_NEVER};
		for (k = 0; k < SPENT_KINDS; k++)
			gpu->spent[i].of[k].left = SAVED;
	}
}

static vgpu_nsec had(const struct spent *s)
{
	return s->had + (s->has_since == VGPU_NEVER ? 0 : vgpu_now() - s->has_since);
}

void spent_turn(struct softgpu *gpu, int vf)
{
	struct spent *s;

	if (gpu->running >= 0) {
		s = &gpu->spent[gpu->running];
		s->had = had(s);
		s->has_since = VGPU_NEVER;
	}
	if (vf >= 0)
		gpu->spent[vf].has_since = vgpu_now();
}

/* Counts a living process. It may report wrong numbers of fences, but the number never
 * decreases. */
static void count(struct spent *s, int kind, pid_t pid, uint64_t fences)
{
	vgpu_nsec cpu = pid > 0 ? spent_cpu(pid) : 0;
	struct spent_of *of = &s->of[kind];

	if (cpu > of->last_cpu) {
		of->cpu += cpu - of->last_cpu;
		of->last_cpu = cpu;
	}
	if (fences > of->last_fences) {
		s->fences += fences - of->last_fences;
		of->last_fences = fences;
	}
}

/* Returns the VF's process or worker, and its fences; 0: there is none. */
static pid_t find(const struct softgpu *gpu, int vf, int kind, uint64_t *fences)
{
	const struct link *link = gpu->vfs[vf].link; /* NULL when the device ends */

	*fences = 0;
	if (kind == SPENT_PROCESS)
		return link ? link_process(link, fences) : 0;
	return gpu->workers ? workers_process(gpu, vf, fences) : 0;
}

void spent_count(struct softgpu *gpu, int vf)
{
	uint64_t fences;
	pid_t pid;
	int kind;

	for (kind = 0; kind < SPENT_KINDS; kind++) {
		pid = find(gpu, vf, kind, &fences);
		count(&gpu->spent[vf], kind, pid, fences);
	}
}

void spent_ends(struct softgpu *gpu, int vf, int kind)
{
	struct spent_of *of = &gpu->spent[vf].of[kind];

	spent_count(gpu, vf);
	of->last_cpu = of->last_fences = 0;
	memset(of->nice, 0, sizeof(of->nice));
}

/* Reads the CPU time of a thread that has stepped back. Returns false if it has not. */
static bool read_nice(pid_t pid, const char *tid, vgpu_nsec *cpu)
{
	unsigned long long user = 0, system = 0;
	char path[64], text[512], *at;
	VGPU_AUTO_CLOSE int fd = -1;
	long nice = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = 0;
	at = strrchr(text, ')'); /* the name before it may hold any character */
	/* proc_pid_stat(5): utime and stime are the fields 14 and 15, nice is the 19th */
	if (!at ||
	    sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %ld",
		   &user, &system, &nice) != 3)
		return false;
	*cpu = (user + system) * (VGPU_SEC / (vgpu_nsec)sysconf(_SC_CLK_TCK));
	return nice >= CONFINE_NICE;
}

/* Returns what a thread that has stepped back has used since it was seen last; 0 if more threads
 * have stepped back than a worker has. */
static vgpu_nsec used_since(struct spent_of *of, pid_t tid, vgpu_nsec cpu)
{
	struct spent_thread *t = of->nice, *end = of->nice + SPENT_NICE;
	vgpu_nsec used;

	while (t < end && t->tid && t->tid != tid)
		t++;
	if (t == end)
		return 0;
	used = cpu > t->cpu ? cpu - t->cpu : 0;
	*t = (struct spent_thread){tid, cpu};
	return used;
}

/* Returns what the worker has used for compiling since the last look, at most all of one CPU in
 * PASSED. */
static vgpu_nsec compiled(struct spent_of *of, pid_t pid, vgpu_nsec passed)
{
	vgpu_nsec cpu, sum = 0;
	const struct dirent *d;
	uint32_t n = 0;
	char path[32];
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	threads = opendir(path);
	/* This host does not let softgpu read these times, or softgpu's own niceness is so high
	 * that compilers do not differ from other threads. */
	if (!threads || getpriority(PRIO_PROCESS, 0) >= CONFINE_NICE) {
		if (threads)
			closedir(threads);
		return passed;
	}
	while ((d = readdir(threads)) && n++ < MOST_THREADS)
		if (d->d_name[0] != '.' && read_nice(pid, d->d_name, &cpu))
			sum += used_since(of, (pid_t)atoi(d->d_name), cpu);
	closedir(threads);
	return sum < passed ? sum : passed;
}

/* Returns whether VF's process or worker (KIND) has used too much. A worker may use much CPU time
 * while it starts, before anything of its guest reaches it. */
static bool too_much(struct softgpu *gpu, int vf, int kind)
{
	struct spent_of *of = &gpu->spent[vf].of[kind];
	vgpu_nsec now = vgpu_now(), passed = now - of->left_at, engine = had(&gpu->spent[vf]);
	uint64_t fences;
	pid_t pid = find(gpu, vf, kind, &fences);

	of->left += (int64_t)((engine - of->left_had) * kinds[kind].cpus) +
		    (int64_t)(passed * BESIDE_PERCENT / 100) - (int64_t)(of->cpu - of->left_cpu);
	of->left_had = engine;
	of->left_at = now;
	of->left_cpu = of->cpu;
	if (kind == SPENT_WORKER && pid > 0 && workers_is_starting(gpu, vf))
		of->left = SAVED;
	if (kind == SPENT_WORKER && pid > 0 && of->left < SUSPECT)
		of->left += (int64_t)compiled(of, pid, passed);
	of->left = of->left < SAVED ? of->left : SAVED;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	/* Do not limit CPU time in sanitizer builds: they run many times slower. */
	of->left = SAVED;
#endif
	if (of->left >= 0)
		return false;
	of->left = SAVED;
	return true;
}

const char *spent_too_much(struct softgpu *gpu, int vf)
{
	const char *what = NULL;
	int kind;

	spent_count(gpu, vf);
	for (kind = 0; kind < SPENT_KINDS; kind++)
		if (too_much(gpu, vf, kind))
			what = kinds[kind].name;
	return what;
}

vgpu_nsec spent_owed(const struct softgpu *gpu, int vf)
{
	return (vgpu_nsec)(SAVED - gpu->spent[vf].of[SPENT_PROCESS].left) * 100 / BESIDE_PERCENT;
}

uint32_t spent_read(struct softgpu *gpu, uint32_t offset)
{
	uint32_t at = (offset - SOFTGPU_SPENT) / 4, i, n = SOFTGPU_SPENT_WORDS;

	if (offset < SOFTGPU_SPENT || at >= n * gpu->config.n_vfs)
		return 0;
	for (i = 0; i < gpu->config.n_vfs && at == 0; i++) {
		spent_count(gpu, (int)i);
		gpu->shown_spent[i][0] =
			gpu->spent[i].of[SPENT_PROCESS].cpu + gpu->spent[i].of[SPENT_WORKER].cpu;
		gpu->shown_spent[i][1] = gpu->spent[i].fences;
	}
	return (uint32_t)(gpu->shown_spent[at / n][at % n / 2] >> (at % 2 ? 32 : 0));
}
