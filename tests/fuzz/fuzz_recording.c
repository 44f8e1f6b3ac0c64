/* SPDX-License-Identifier: MIT */
/*
 * Recordings. The first byte chooses what the rest of the input does:
 * 0  it is events of a core and of a GPU's memory. They are recorded, written, read and replayed;
 *    the replay must give the same result;
 * 1  it damages a file, which must be refused;
 * 2  it damages a file whose checksum is then corrected. Reading the file must return. (Replaying
 *    it would be like running a forged program; vgpu-sim does that in a process of its own.)
 * 3  it is events of a governor, which are recorded and replayed likewise.
 */
#include <errno.h>
#include <sys/mman.h>

#include "builtin.h"
#include "fuzz.h"
#include "vgpu/record.h"

#define N_VFS 2u
#define N_GOVERNED 5u
#define MAX_EVENTS 300u
#define GRANULE (UINT64_C(1) << 20)

static struct recorder *recorder;
static struct vgpu_core *core;
static struct vgpu_output out;
static struct vgpu_memory_output memory_out;
static vgpu_nsec now;
static bool slot_used[RECORD_SLOTS];

/* The number of codes of an event; 0 if the event does not use its code. */
static const uint32_t codes[VGPU_EV_COUNT] = {
	[VGPU_EV_DONE] = VGPU_CMD_COUNT,
	[VGPU_EV_RESET_DONE] = VGPU_RESET_COUNT,
	[VGPU_EV_REQUEST] = VGPU_WINDOW_COUNT,
	[VGPU_EV_RELEASE] = VGPU_WINDOW_COUNT,
	[VGPU_EV_ADD] = VGPU_CTX_COUNT,
	[VGPU_EV_CONDEMN] = 3,
	[VGPU_EV_HOLD] = 2,
	[VGPU_EV_AWAY] = 2,
	[VGPU_EV_VIOLATION] = VGPU_VIOLATION_COUNT,
	[VGPU_EV_INCOMING] = 2,
};

static void params_of(struct input *in, const struct vgpu_param *table, int64_t *values)
{
	uint32_t i;

	vgpu_param_defaults(table, values);
	for (i = 0; table[i].name; i++)
		if (input_number(in, 1) & 1)
			values[i] = table[i].min +
				    (int64_t)(input_number(in, 4) %
					      ((uint64_t)(table[i].max - table[i].min) + 1));
}

static void core_event(struct input *in, enum vgpu_event_type type)
{
	static int64_t params[VGPU_MAX_PARAMS], rows[N_VFS][VGPU_MAX_PARAMS];
	struct vgpu_event e = {.now = now, .type = type};
	struct vgpu_core_view view;
	uint32_t i, slot = RECORD_SLOTS;
	int r;

	vgpu_core_view(core, &view);
	e.vf = (uint32_t)input_number(in, 1) % (N_VFS + 1);
	e.code = codes[type] ? (uint32_t)input_number(in, 1) % codes[type] : 0;
	e.value = (int64_t)(input_number(in, 1) & 1) * (type == VGPU_EV_ADD ? 1 : -EIO);
	e.policy = view.policy;
	e.params = params;
	if (type == VGPU_EV_POLICY) {
		for (i = 0; vgpu_builtin_policies[i]; i++)
			;
		e.policy = vgpu_builtin_policies[input_number(in, 1) % i];
		for (slot = 0; slot < RECORD_SLOTS && slot_used[slot]; slot++)
			;
		if (slot == RECORD_SLOTS)
			return; /* vgpud waits until a slot is retired */
		e.memory = recorder_slot_memory(recorder, slot);
		memset(e.memory, 0, RECORD_SLOT_SIZE);
		e.vf_params = rows[0];
		for (i = 0; i < N_VFS; i++)
			params_of(in, e.policy->vf_params, rows[i]);
	}
	if (type == VGPU_EV_POLICY || type == VGPU_EV_SET_POLICY)
		params_of(in, e.policy->params, params);
	else if (type == VGPU_EV_ADD || type == VGPU_EV_SET_VF)
		params_of(in, e.policy->vf_params, params);
	r = recorder_step(recorder, core, &e, &out);
	HOLDS(r <= 0);
	if (slot < RECORD_SLOTS)
		slot_used[slot] = r == 0;
	for (i = 0; i < out.n_actions; i++) {
		slot = out.actions[i].type == VGPU_AC_RETIRE
			       ? recorder_slot_of(recorder, out.actions[i].memory)
			       : RECORD_SLOTS;
		if (slot < RECORD_SLOTS)
			slot_used[slot] = false;
	}
}

static void memory_event(struct input *in, enum vgpu_memory_event_type type)
{
	struct vgpu_memory_event e;
	uint64_t flags;

	memset(&e, 0, sizeof(e));
	e.now = now;
	e.type = type;
	e.vf = (uint32_t)input_number(in, 1) % (N_VFS + 2);
	e.code = (uint32_t)input_number(in, 1) & 1;
	e.value = input_number(in, 1) % 4 == 0 ? -EIO : 0;
	if (type == VGPU_ME_VF) {
		flags = input_number(in, 1);
		e.is.state = (enum vgpu_vf_state)(input_number(in, 1) % VGPU_VF_STATE_COUNT);
		e.is.has_work = flags & 1;
		e.is.empty = flags & 2;
		e.is.kept = flags & 4;
		e.is.away = flags & 8;
		e.is.parked = flags & 16;
		e.is.guaranteed = flags & 32;
		e.is.run_ns = now / 2;
		e.is.share[0] = 1;
		e.is.share[1] = N_VFS;
	} else if (type == VGPU_ME_CHANGE) {
		flags = input_number(in, 1);
		e.change.what = (enum vgpu_memory_what)(flags % 3);
		e.change.vf = (uint32_t)input_number(in, 1) % (N_VFS + 1);
		e.change.size = flags & 4 ? VGPU_MEMORY_USUAL : input_number(in, 2) * (GRANULE / 4);
		e.change.force = flags & 8;
		e.change.usual = flags & 16;
	}
	recorder_memory_step(recorder, core, &e, &memory_out);
}

static void begin(struct input *in)
{
	struct vgpu_partition_request request = {
		.total = 64 * GRANULE,
		.granule = GRANULE,
		.pf_reserve = 4 * GRANULE,
		.save_area = 2 * GRANULE,
		.n_vfs = N_VFS,
		.host = input_number(in, 1) % 2 * 64 * GRANULE,
		.placement = (enum vgpu_placement)(input_number(in, 1) % 2),
	};
	struct vgpu_memory_config memory = {.n_vfs = N_VFS,
					    .total = request.total,
					    .host = request.host,
					    .granule = GRANULE,
					    .placement = request.placement,
					    .swappable = request.host ? 1 : 0,
					    .epoch = 20 * VGPU_MSEC,
					    .host_is_new = true};
	struct vgpu_core_config config;
	struct vgpu_error err;
	uint32_t i;

	request.sizes[0] = input_number(in, 1) % 70 * GRANULE;
	if (vgpu_partition_plan(&request, &memory.partition, &err) < 0) {
		request.sizes[0] = 0;
		HOLDS(vgpu_partition_plan(&request, &memory.partition, &err) == 0);
	}
	for (i = 0; i < N_VFS; i++)
		memory.usual[i] = memory.partition.vfs[i].size;
	recorder = recorder_new(N_VFS, &err);
	HOLDS(recorder);
	vgpu_memory_open(recorder_state_memory(recorder), &memory);
	vgpu_core_defaults(&config, N_VFS);
	now = 1;
	memset(slot_used, 0, sizeof(slot_used));
	core = vgpu_core_init(recorder_core_memory(recorder), &config, vgpu_fallback_policy,
			      recorder_fallback_memory(recorder), now);
}

/* Writes what was recorded as a file, which the caller frees. */
static char *save(size_t *size)
{
	struct recording r;
	struct vgpu_error err;
	char *file = NULL;
	FILE *to;

	HOLDS(recorder_copy(recorder, &r) == 0);
	recorder_free(recorder); /* frees the addresses that the replay needs */
	to = open_memstream(&file, size);
	HOLDS(to && recording_write(&r, to, &err) == 0);
	fclose(to);
	recording_free(&r);
	return file;
}

/* Records the events of IN. Returns the recording as a file, which the caller frees. */
static char *record(struct input *in, size_t *size)
{
	uint32_t i, type;

	begin(in);
	for (i = 0; i < MAX_EVENTS && (i == 0 || in->left > 0); i++) {
		now += input_number(in, 2) * 10 * VGPU_USEC;
		type = (uint32_t)input_number(in, 1) % (VGPU_EV_COUNT + VGPU_ME_COUNT);
		if (type < VGPU_EV_COUNT)
			core_event(in, (enum vgpu_event_type)type);
		else
			memory_event(in, (enum vgpu_memory_event_type)(type - VGPU_EV_COUNT));
	}
	/* Without a free slot, a change of policy records no event: one event always follows. */
	core_event(in, VGPU_EV_TIMER);
	return save(size);
}

/* Begins a governor, of a GPU that may have no time-outs. False: no GPU is like that. */
static struct vgpu_governor *begin_governor(struct input *in)
{
	struct vgpu_setting quantum = {VGPU_MSEC, 100 * VGPU_SEC, VGPU_MSEC};
	struct vgpu_setting timeout = {VGPU_USEC, VGPU_SEC, VGPU_USEC};
	struct vgpu_program found = {.keep_turns = false};
	struct vgpu_governor_config config;
	struct vgpu_error err;
	uint64_t flags = input_number(in, 1);
	struct vgpu_governor *g;

	timeout.max = flags & 1 ? 0 : timeout.max;
	vgpu_governor_defaults(&config, N_GOVERNED, quantum, timeout);
	config.keeps_turns = flags & 2;
	config.switch_ns = flags & 4 ? 200 * VGPU_USEC : 0;
	config.stop = flags & 8 ? VGPU_MSEC : config.stop;
	now = 1;
	memset(slot_used, 0, sizeof(slot_used));
	recorder = recorder_new(N_GOVERNED, &err);
	HOLDS(recorder);
	g = vgpu_governor_init(recorder_governor_memory(recorder), &config, &found, now);
	HOLDS(g);
	return g;
}

/* One event of a governor, with what it needs: any counters, any outcome of a program. */
static void governor_event(struct input *in, struct vgpu_governor *g,
			   enum vgpu_governor_event_type type)
{
	static int64_t params[VGPU_MAX_PARAMS], rows[N_GOVERNED][VGPU_MAX_PARAMS];
	static vgpu_nsec active[N_GOVERNED];
	static struct vgpu_program applied;
	struct vgpu_governor_event e = {
		.now = now, .type = type, .active = active, .applied = &applied, .params = params};
	struct vgpu_governor_output governed;
	struct vgpu_governor_view view;
	uint32_t i, slot = RECORD_SLOTS, retired;
	int r;

	vgpu_governor_view(g, &view);
	e.vf = (uint32_t)input_number(in, 1) % N_GOVERNED;
	if (type == VGPU_GOVERNOR_USAGE || type == VGPU_GOVERNOR_PROGRAMMED)
		e.error = (int)(input_number(in, 1) % 8 == 0 ? -EIO : 0);
	for (i = 0; i < N_GOVERNED && type == VGPU_GOVERNOR_USAGE; i++)
		active[i] = now / N_GOVERNED + input_number(in, 1) * VGPU_MSEC;
	for (i = 0; i < N_GOVERNED && type == VGPU_GOVERNOR_PROGRAMMED; i++) {
		applied.vfs[i].quantum = (1 + input_number(in, 1)) * VGPU_MSEC;
		applied.vfs[i].timeout = input_number(in, 1) * VGPU_MSEC;
	}
	e.policy = view.policy;
	if (type == VGPU_GOVERNOR_POLICY) {
		for (i = 0; vgpu_builtin_policies[i]; i++)
			;
		e.policy = vgpu_builtin_policies[input_number(in, 1) % i];
		slot = slot_used[0] ? 1 : 0;
		e.memory = recorder_slot_memory(recorder, slot);
		memset(e.memory, 0, RECORD_SLOT_SIZE);
		e.vf_params = rows[0];
		for (i = 0; i < N_GOVERNED; i++)
			params_of(in, e.policy->vf_params, rows[i]);
	}
	if (e.policy)
		params_of(in, type == VGPU_GOVERNOR_SET_VF ? e.policy->vf_params : e.policy->params,
			  params);
	r = recorder_governor_step(recorder, g, &e, &governed);
	HOLDS(r == 0 || r == -EINVAL || r == -EOPNOTSUPP || r == -EBUSY);
	HOLDS(r == 0 || (!governed.read && !governed.program && !governed.retired));
	if (slot < RECORD_SLOTS)
		slot_used[slot] = r == 0;
	retired = recorder_slot_of(recorder, governed.retired);
	if (retired < RECORD_SLOTS)
		slot_used[retired] = false;
}

/* Records a governor's events of IN. Returns the recording as a file, which the caller frees. */
static char *record_governor(struct input *in, size_t *size)
{
	struct vgpu_governor *g = begin_governor(in);
	vgpu_nsec deadline;
	uint32_t i;

	for (i = 0; i < MAX_EVENTS && (i == 0 || in->left > 0); i++) {
		deadline = vgpu_governor_deadline(g);
		if (input_number(in, 1) & 1 && deadline != VGPU_NEVER && deadline > now)
			now = deadline;
		now += input_number(in, 1) * VGPU_MSEC;
		governor_event(in, g,
			       (enum vgpu_governor_event_type)(input_number(in, 1) %
							       VGPU_GOVERNOR_EVENT_COUNT));
	}
	return save(size);
}

static int read_file(struct recording *r, const char *file, size_t size, struct vgpu_error *err)
{
	FILE *from = fmemopen((void *)(uintptr_t)file, size, "r");
	int result;

	HOLDS(from);
	err->text[0] = '\0';
	result = recording_read(r, from, err);
	fclose(from);
	HOLDS(result == 0 || (result == -EINVAL && err->text[0]));
	return result;
}

static void replay(struct input *in, char *(*make)(struct input *in, size_t *size))
{
	static struct replay replay;
	struct vgpu_error err;
	struct recording r;
	size_t size;
	char *file = make(in, &size);

	HOLDS(read_file(&r, file, size, &err) == 0);
	HOLDS(recording_replay(&r, vgpu_builtin_policy, NULL, &replay, &err) == 0);
	HOLDS(!replay.differs && replay.events == r.header.n_entries);
	recording_free(&r);
	free(file);
}

/* The checksum as the documentation and vgpu/record.h define it, computed without optimisation. */
static uint64_t sum_of(const char *file, size_t size)
{
	uint64_t hash = 0xcbf29ce484222325u, word;
	size_t i, n;

	for (i = 0; i < size; i += 8) {
		n = size - i < 8 ? size - i : 8;
		word = 0;
		if (i != offsetof(struct record_header, sum))
			memcpy(&word, file + i, n);
		hash = (hash ^ word) * 0x100000001b3u;
		hash ^= hash >> 32;
	}
	return hash;
}

static void damage(struct input *in, bool repair)
{
	static const uint8_t events[] = {0, 1, 8, 1, 0, VGPU_EV_START, 0, 0, 1, 0, VGPU_EV_ADD};
	static char *file, *copy;
	static size_t size;
	struct vgpu_error err;
	struct recording r;
	size_t n, at;
	uint64_t sum;
	int result;

	if (!file) {
		struct input fixed = {events, sizeof(events)};

		file = record(&fixed, &size);
		copy = malloc(size);
	}
	memcpy(copy, file, size);
	n = input_number(in, 1) & 1 ? input_number(in, 3) % size + 1 : size;
	while (in->left > 0) {
		/* Most of the values that the reader checks lie in the header. */
		at = input_number(in, 1);
		at = at < sizeof(struct record_header) ? at : input_number(in, 3) % size;
		copy[at] = (char)(copy[at] ^ (char)input_number(in, 1));
	}
	if (repair && n > sizeof(struct record_header)) {
		sum = sum_of(copy, n);
		memcpy(copy + offsetof(struct record_header, sum), &sum, sizeof(sum));
	}
	result = read_file(&r, copy, n, &err);
	if (!repair)
		HOLDS((result == 0) == (n == size && memcmp(file, copy, size) == 0));
	if (result == 0)
		recording_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	switch (input_number(&in, 1) % 4) {
	case 0:
		replay(&in, record);
		break;
	case 3:
		replay(&in, record_governor);
		break;
	case 1:
		damage(&in, false);
		break;
	default:
		damage(&in, true);
		break;
	}
	return 0;
}
