/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "builtin.h"
#include "replay.h"
#include "vgpu/record.h"

static void tell_difference(const struct replay *r)
{
	bool of_memory = r->entry.type >= RECORD_OF_MEMORY;
	uint32_t i;

	printf("event %llu%s differs: type %u, VF %d, code %u, at %.6f s; recorded %08x, now "
	       "%08x\n",
	       (unsigned long long)r->at, of_memory ? " of the memory reducer" : "",
	       of_memory ? r->entry.type - RECORD_OF_MEMORY : r->entry.type, (int)r->entry.vf,
	       r->entry.code, (double)r->entry.now / 1e9, r->entry.hash, r->hash);
	for (i = 0; i < r->out.n_records; i++)
		printf("  now: %s, VF %d, %llu, %llu\n", vgpu_record_names[r->out.records[i].type],
		       (int)r->out.records[i].vf, (unsigned long long)r->out.records[i].a,
		       (unsigned long long)r->out.records[i].b);
}

/* The exit code. */
static int replay(const struct recording *recording, const char *path)
{
	static struct replay replay;
	struct vgpu_error err;

	if (recording_replay(recording, vgpu_builtin_policy, &replay, &err) < 0) {
		fprintf(stderr, "vgpu-sim: %s: %s\n", path, err.text);
		return 2;
	}
	if (replay.differs) {
		tell_difference(&replay);
		return 1;
	}
	printf("%llu events, %llu decisions: the same, bit for bit\n",
	       (unsigned long long)replay.events, (unsigned long long)replay.decisions);
	return 0;
}

/* A recording has the memory of a core in it, with pointers: one that was forged fails in a process
 * of its own. */
static int replay_apart(const struct recording *recording, const char *path)
{
	const struct rlimit none = {0, 0};
	int status = 0, r;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &none);
		r = replay(recording, path);
		fflush(stdout);
		_exit(r);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		fprintf(stderr, "vgpu-sim: %s: cannot start a process: %s\n", path,
			strerror(errno));
		return 2;
	}
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	fprintf(stderr,
		"vgpu-sim: %s: replaying it ends with signal %d (%s): the recorded state was "
		"forged, or the core is defective\n",
		path, WTERMSIG(status), strsignal(WTERMSIG(status)));
	return 2;
}

int replay_file(const char *path, bool tell)
{
	FILE *f = fopen(path, "r");
	struct recording recording;
	struct vgpu_error err;
	int r;

	if (!f) {
		fprintf(stderr, "vgpu-sim: %s: %s\n", path, strerror(errno));
		return 2;
	}
	r = recording_read(&recording, f, &err);
	fclose(f);
	if (r < 0) {
		fprintf(stderr, "vgpu-sim: %s: %s\n", path, err.text);
		return 2;
	}
	if (tell)
		puts(recording.text);
	r = replay_apart(&recording, path);
	recording_free(&recording);
	return r;
}
