/* SPDX-License-Identifier: MIT */
/*
 * What a process uses: bench-usage PID MS looks at it for MS milliseconds. Prints JSON: CPU time,
 * context switches, page faults and cache misses of all its threads in that time, for a second; and
 * its memory at the end. cache_misses is null where the machine has no counters.
 */
#include <dirent.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vgpu/clock.h"

#define MOST_THREADS 256u

struct usage {
	uint64_t cpu_ns, switches, faults, misses;
};

static int counters[MOST_THREADS];
static unsigned n_counters;

/* Reads the number after LABEL in a file of /proc; 0 if it is not there. */
static uint64_t number(const char *path, const char *label)
{
	FILE *f = fopen(path, "re");
	uint64_t value = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, label, strlen(label)) == 0) {
			value = strtoull(line + strlen(label), NULL, 10);
			break;
		}
	if (f)
		fclose(f);
	return value;
}

/* Page faults that needed no disk: the tenth field of stat; the name before it may have spaces. */
static uint64_t faults(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[512] = "", *at;
	uint64_t value = 0;

	if (f && fgets(line, sizeof(line), f) && (at = strrchr(line, ')')))
		sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %" SCNu64, &value);
	if (f)
		fclose(f);
	return value;
}

static void add_thread(const char *pid, const char *tid, struct usage *u)
{
	char path[320];

	snprintf(path, sizeof(path), "/proc/%s/task/%s/schedstat", pid, tid);
	u->cpu_ns += number(path, ""); /* the first number of the line */
	snprintf(path, sizeof(path), "/proc/%s/task/%s/status", pid, tid);
	u->switches += number(path, "voluntary_ctxt_switches:");
	snprintf(path, sizeof(path), "/proc/%s/task/%s/stat", pid, tid);
	u->faults += faults(path);
}

static void count_misses(const char *tid)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_CACHE_MISSES,
	};
	int fd = n_counters < MOST_THREADS
			 ? (int)syscall(SYS_perf_event_open, &attr, atoi(tid), -1, -1, 0)
			 : -1;

	if (fd >= 0)
		counters[n_counters++] = fd;
}

/* Adds up what all threads have used so far. The first time, counters begin. -1: no such process.
 */
static int look(const char *pid, bool first, struct usage *u)
{
	struct dirent *entry;
	uint64_t misses;
	char path[64];
	unsigned i;
	DIR *tasks;

	*u = (struct usage){0};
	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	tasks = opendir(path);
	if (!tasks)
		return -1;
	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;
		add_thread(pid, entry->d_name, u);
		if (first)
			count_misses(entry->d_name);
	}
	closedir(tasks);
	for (i = 0; i < n_counters; i++)
		if (read(counters[i], &misses, sizeof(misses)) == (ssize_t)sizeof(misses))
			u->misses += misses;
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long ms = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
	struct usage from, to;
	char path[64], misses[32] = "null";
	vgpu_nsec began;
	double s;

	if (ms == 0) {
		fprintf(stderr, "usage: bench-usage PID MS\n");
		return 2;
	}
	if (look(argv[1], true, &from) < 0)
		return 1;
	began = vgpu_now();
	nanosleep(&pause, NULL);
	if (look(argv[1], false, &to) < 0)
		return 1;
	s = (double)(vgpu_now() - began) / 1e9;
	if (n_counters)
		snprintf(misses, sizeof(misses), "%.0f", (double)(to.misses - from.misses) / s);
	snprintf(path, sizeof(path), "/proc/%s/status", argv[1]);
	printf("{\"cpu_us\":%.1f,\"switches\":%.1f,\"faults\":%.1f,\"cache_misses\":%s,"
	       "\"rss_kib\":%" PRIu64 ",\"own_kib\":%" PRIu64 "}\n",
	       (double)(to.cpu_ns - from.cpu_ns) / 1e3 / s,
	       (double)(to.switches - from.switches) / s, (double)(to.faults - from.faults) / s,
	       misses, number(path, "VmRSS:"), number(path, "RssAnon:"));
	return 0;
}
