/* SPDX-License-Identifier: MIT */
/*
 * Recordings of a governor, in virtual time: what happened to it is recorded until old segments are
 * gone, and replayed from the image that is left. A replay does the same, and notices each thing
 * that is not as it was.
 */
#include <errno.h>

#include "builtin.h"
#include "draw.h"
#include "suite.h"
#include "vgpu/record.h"

#define VFS 5u
#define MS VGPU_MSEC

static struct recorder *recorder;
static struct vgpu_governor *g;
static struct vgpu_governor_output out;
static struct vgpu_program in_force, asked;
static vgpu_nsec now, active[VFS];
static bool slot_used[RECORD_SLOTS];
static bool programming;
static uint32_t plans;

static uint32_t any(uint32_t below)
{
	return (uint32_t)draw(below);
}

static int step(struct vgpu_governor_event event)
{
	uint32_t slot;
	int r;

	event.now = now;
	r = recorder_governor_step(recorder, g, &event, &out);
	plans += out.program;
	if (out.program) {
		programming = true;
		asked = out.plan;
	}
	slot = recorder_slot_of(recorder, out.retired);
	if (slot < RECORD_SLOTS)
		slot_used[slot] = false;
	return r;
}

/* Returns the policy that is in force then: the new one may be refused. */
static const struct vgpu_policy_ops *set_policy(const char *name)
{
	const struct vgpu_policy_ops *policy = vgpu_builtin_policy(name);
	int64_t params[VGPU_MAX_PARAMS], rows[VFS * VGPU_MAX_PARAMS];
	uint32_t slot = slot_used[0] ? 1 : 0, i;
	void *memory = recorder_slot_memory(recorder, slot);
	struct vgpu_governor_view view;

	memset(memory, 0, RECORD_SLOT_SIZE);
	vgpu_param_defaults(policy->params, params);
	for (i = 0; i < VFS; i++)
		vgpu_param_defaults(policy->vf_params, rows + i * VGPU_MAX_PARAMS);
	slot_used[slot] = step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_POLICY,
							    .policy = policy,
							    .memory = memory,
							    .params = params,
							    .vf_params = rows}) == 0;
	vgpu_governor_view(g, &view);
	return view.policy;
}

static void set_weight(const struct vgpu_policy_ops *policy, uint32_t vf, int64_t weight)
{
	int64_t params[VGPU_MAX_PARAMS];

	if (!policy->vf_params[0].name || strcmp(policy->vf_params[0].name, "weight") != 0)
		return;
	vgpu_param_defaults(policy->vf_params, params);
	params[0] = weight;
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_SET_VF,
					  .vf = vf,
					  .params = params});
}

static void begin(void)
{
	struct vgpu_governor_config config;
	struct vgpu_error err;

	now = VGPU_SEC;
	plans = 0;
	programming = false;
	memset(active, 0, sizeof(active));
	memset(slot_used, 0, sizeof(slot_used));
	recorder = recorder_new(VFS, &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(recorder);
	vgpu_governor_defaults(&config, VFS, (struct vgpu_setting){MS, 100 * VGPU_SEC, MS},
			       (struct vgpu_setting){VGPU_USEC, VGPU_SEC, VGPU_USEC});
	g = vgpu_governor_init(recorder_governor_memory(recorder), &config, &in_force, now);
	CU_ASSERT_PTR_NOT_NULL_FATAL(g);
}

/* One epoch: the GPU takes a plan, refuses it or is too busy; VFs stop late at random; sometimes
 * the counters cannot be read. */
static void epoch(void)
{
	static const int answers[] = {0, 0, 0, 0, -EBUSY, -EIO};
	vgpu_nsec deadline, length;
	uint32_t i;
	int r;

	if (programming) {
		programming = false;
		r = answers[any(6)];
		in_force = r == 0 ? asked : in_force;
		now += any(3) * MS;
		step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_PROGRAMMED,
						  .error = r,
						  .applied = &in_force});
	}
	deadline = vgpu_governor_deadline(g);
	length = deadline > now ? deadline - now : 0;
	now += length + any(5) * MS;
	for (i = 0; i < VFS; i++)
		active[i] += length / VFS / 2 + any((uint32_t)(length / VFS / 4) + 1);
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_TIMER});
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_USAGE,
					  .error = any(40) == 0 ? -EIO : 0,
					  .active = active});
}

/* Copies what was recorded, and frees the addresses that a replay needs. */
static struct recording end(void)
{
	struct recording r;

	CU_ASSERT_EQUAL_FATAL(recorder_copy(recorder, &r), 0);
	recorder_free(recorder);
	return r;
}

static struct replay *replay(const struct recording *r)
{
	static struct replay result;
	struct vgpu_error err = {""};

	CU_ASSERT_EQUAL(recording_replay(r, vgpu_builtin_policy, NULL, &result, &err), 0);
	return &result;
}

/* From the first event on, and when the first image was overwritten. */
TEST(same, "a governor's recording is replayed, with the same outcome")
{
	static const char *const names[] = {"fair", "wdrr", "equal", "prio", "deadline"};
	const struct vgpu_policy_ops *policy;
	struct recording r;
	struct replay *done;
	uint32_t epochs[] = {20, 12000}, k, i;

	for (k = 0; k < 2; k++) {
		begin();
		policy = set_policy("fair");
		step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
		for (i = 0; i < epochs[k]; i++) {
			if (any(50) == 0)
				policy = set_policy(names[any(5)]);
			else if (any(50) == 0)
				set_weight(policy, any(VFS), 20 + any(200));
			else if (any(50) == 0)
				step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_BRING,
								  .vf = any(VFS),
								  .owed = any(900) * VGPU_MSEC});
			epoch();
		}
		step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_STOP});
		r = end();
		done = replay(&r);
		CU_ASSERT_FALSE(done->differs);
		CU_ASSERT_EQUAL(done->events, r.header.n_entries);
		CU_ASSERT(done->decisions > 0 && done->decisions <= plans);
		if (k == 1)
			CU_ASSERT(r.header.n_entries > 8000 && r.header.n_entries < 20000);
		recording_free(&r);
	}
}

/* What a recording's entry carries, of type TYPE and not before entry FROM. */
static uint64_t *words_of(const struct recording *r, enum vgpu_governor_event_type type,
			  uint64_t from, uint64_t *at)
{
	uint64_t i;

	for (i = from; i < r->header.n_entries; i++)
		if (r->entries[i].type == RECORD_OF_GOVERNOR + type && r->entries[i].payload) {
			*at = i;
			return (uint64_t *)(void *)(r->payload + r->entries[i].payload - 1);
		}
	CU_FAIL_FATAL("no such entry");
	return NULL;
}

/* What is changed in a recording makes the replay differ, not before event FROM nor after TO. */
static void differs(const struct recording *r, uint64_t *word, uint64_t value, uint64_t from,
		    uint64_t to)
{
	uint64_t was = *word;
	struct replay *done;

	CU_ASSERT(was != value);
	*word = value;
	done = replay(r);
	CU_ASSERT(done->differs && done->at >= from && done->at <= to);
	*word = was;
	CU_ASSERT_FALSE(replay(r)->differs);
}

TEST(changed, "a replay notices what was changed")
{
	struct recording r;
	uint64_t *words = NULL, at = 0;
	uint32_t i;

	begin();
	set_policy("fair");
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
	for (i = 0; i < 60; i++)
		epoch();
	set_weight(vgpu_builtin_policy("fair"), 2, 300);
	for (i = 0; i < 60; i++)
		epoch();
	r = end();
	/* A counter, if only by a nanosecond, at once, though no plan follows; a quantum that the
	 * GPU has in force; a weight. */
	for (at = 40;
	     at == 40 || r.entries[at + 1].type == RECORD_OF_GOVERNOR + VGPU_GOVERNOR_PROGRAMMED;)
		words = words_of(&r, VGPU_GOVERNOR_USAGE, at + 1, &at);
	differs(&r, &words[3], words[3] + 1, at, at);
	words = words_of(&r, VGPU_GOVERNOR_PROGRAMMED, 30, &at);
	differs(&r, &words[1 + 2 * 4], words[1 + 2 * 4] + MS, at, UINT64_MAX);
	words = words_of(&r, VGPU_GOVERNOR_SET_VF, 0, &at);
	differs(&r, &words[0], 301, at, UINT64_MAX);
	/* Another outcome. */
	i = 100;
	r.entries[i].result ^= 1;
	CU_ASSERT(replay(&r)->differs && replay(&r)->at == i);
	r.entries[i].result ^= 1;
	r.entries[i].hash ^= 1;
	CU_ASSERT(replay(&r)->differs && replay(&r)->at == i);
	recording_free(&r);
}

/* Entries that refer to what the file lacks are refused. */
TEST(damaged, "entries of a governor that are damaged are refused")
{
	struct record_entry was;
	struct vgpu_error err;
	struct recording r;
	struct replay done;
	uint64_t at = 0;

	begin();
	set_policy("fair");
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
	epoch();
	epoch();
	r = end();
	words_of(&r, VGPU_GOVERNOR_USAGE, 0, &at);
	was = r.entries[at];
	r.entries[at].payload = (uint32_t)r.header.payload_size;
	CU_ASSERT_EQUAL(recording_replay(&r, vgpu_builtin_policy, NULL, &done, &err), -EINVAL);
	r.entries[at] = was;
	r.entries[at].payload = 0;
	CU_ASSERT_EQUAL(recording_replay(&r, vgpu_builtin_policy, NULL, &done, &err), -EINVAL);
	r.entries[at] = was;
	r.entries[at].type = RECORD_OF_GOVERNOR + VGPU_GOVERNOR_EVENT_COUNT;
	CU_ASSERT_EQUAL(recording_replay(&r, vgpu_builtin_policy, NULL, &done, &err), -EINVAL);
	r.entries[at] = was;
	r.entries[at].vf = VFS;
	CU_ASSERT_EQUAL(recording_replay(&r, vgpu_builtin_policy, NULL, &done, &err), -EINVAL);
	r.entries[at] = was;
	/* An event of a core has no place beside a governor. */
	r.entries[at].type = VGPU_EV_TIMER;
	CU_ASSERT_EQUAL(recording_replay(&r, vgpu_builtin_policy, NULL, &done, &err), -EINVAL);
	recording_free(&r);
}

/* The memory may have looked at its clock before the other was told when something has ended. */
TEST(clocks_of_their_own, "each reducer has a clock of its own")
{
	static const struct vgpu_memory_config of = {.n_vfs = VFS,
						     .total = 8 << 20,
						     .granule = 1 << 20,
						     .pinned = (1 << VFS) - 1,
						     .partition = {.pf = {0, 1 << 20}}};
	struct vgpu_memory_event event = {.type = VGPU_ME_TIMER};
	struct vgpu_memory_output memory;
	struct vgpu_error err;
	struct recording r;
	struct replay done;

	begin();
	CU_ASSERT_PTR_NOT_NULL_FATAL(vgpu_memory_open(recorder_state_memory(recorder), &of));
	set_policy("fair");
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
	epoch();
	event.now = now + 1000;
	recorder_memory_step(recorder, NULL, &event, &memory);
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_TIMER});
	event.now = now + 2000;
	recorder_memory_step(recorder, NULL, &event, &memory);
	r = end();
	CU_ASSERT_FALSE(replay(&r)->differs);
	CU_ASSERT_EQUAL(replay(&r)->events, r.header.n_entries);
	/* But each goes forward. */
	r.entries[r.header.n_entries - 1].now -= 1001;
	CU_ASSERT_EQUAL(recording_replay(&r, vgpu_builtin_policy, NULL, &done, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "comes 1 ns before"));
	recording_free(&r);
}

SUITE_MAIN("recording")
