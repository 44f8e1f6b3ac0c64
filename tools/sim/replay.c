/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "builtin.h"
#include "replay.h"
#include "vgpu/record.h"

static void tell_plan(const struct vgpu_governor_output *out, uint32_t n_vfs)
{
	uint32_t i;

	if (!out->program)
		puts("  now: no plan");
	for (i = 0; i < n_vfs && out->program; i++)
		printf("  now: plan, VF %u, quantum %.3f ms, time-out %.3f ms\n", i,
		       (double)out->plan.vfs[i].quantum / 1e6,
		       (double)out->plan.vfs[i].timeout / 1e6);
}

static void tell_difference(const struct replay *r, uint32_t n_vfs)
{
	static const char *const owners[] = {"", " of the memory reducer", " of the governor"};
	uint32_t owner = r->entry.type / RECORD_OF_MEMORY, i;

	printf("event %llu%s differs: type %u, VF %d, code %u, at %.6f s; recorded %08x, now "
	       "%08x\n",
	       (unsigned long long)r->at, owners[owner], r->entry.type % RECORD_OF_MEMORY,
	       (int)r->entry.vf, r->entry.code, (double)r->entry.now / 1e9, r->entry.hash, r->hash);
	if (r->entry.type >= RECORD_OF_GOVERNOR)
		tell_plan(&r->governor, n_vfs);
	for (i = 0; i < r->out.n_records; i++)
		printf("  now: %s, VF %d, %llu, %llu\n", vgpu_record_names[r->out.records[i].type],
		       (int)r->out.records[i].vf, (unsigned long long)r->out.records[i].a,
		       (unsigned long long)r->out.records[i].b);
}

int replay_file(const char *path, bool tell)
{
	FILE *f = fopen(path, "r");
	struct recording recording;
	static struct replay replay;
	struct vgpu_error err;
	uint32_t n_vfs = 0;
	int r;

	if (!f) {
		fprintf(stderr, "vgpu-sim: %s: %s\n", path, strerror(errno));
		return 2;
	}
	r = recording_read(&recording, f, &err);
	fclose(f);
	if (r == 0) {
		n_vfs = recording.header.max_vfs;
		if (tell)
			puts(recording.text);
		r = recording_replay(&recording, vgpu_builtin_policy, NULL, &replay, &err);
		recording_free(&recording);
	}
	if (r < 0) {
		fprintf(stderr, "vgpu-sim: %s: %s\n", path, err.text);
		return 2;
	}
	if (replay.differs) {
		tell_difference(&replay, n_vfs);
		return 1;
	}
	printf("%llu events, %llu decisions: the same, bit for bit\n",
	       (unsigned long long)replay.events, (unsigned long long)replay.decisions);
	return 0;
}
