/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

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

int replay_file(const char *path, bool tell)
{
	FILE *f = fopen(path, "r");
	struct recording recording;
	static struct replay replay;
	struct vgpu_error err;
	int r;

	if (!f) {
		fprintf(stderr, "vgpu-sim: %s: %s\n", path, strerror(errno));
		return 2;
	}
	r = recording_read(&recording, f, &err);
	fclose(f);
	if (r == 0) {
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
		tell_difference(&replay);
		return 1;
	}
	printf("%llu events, %llu decisions: the same, bit for bit\n",
	       (unsigned long long)replay.events, (unsigned long long)replay.decisions);
	return 0;
}
