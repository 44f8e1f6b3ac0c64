/* SPDX-License-Identifier: MIT */
/*
 * Partitions that change, in virtual time: the real core and the real memory part of the engine,
 * against a GPU whose memory is a model with a cell for each granule. Addresses are physical here:
 * data that was not copied is lost, data that was not cleared is found. Guests come and go, write,
 * compute and are killed; partitions are resized, moved and compacted; pieces fail, with and
 * without an error; and the whole is killed and started again at random instants. With host memory,
 * the VFs together have more than the GPU, and are swapped.
 */
#include <errno.h>
#include <stdlib.h>

#include "builtin.h"
#include "engine/engine.h"
#include "engine/gpu_memory.h"
#include "suite.h"

#define N_VFS 6u
#define CELLS 40u /* of the GPU; the host's follow */
#define HOST_CELLS 80u
#define PF_CELLS 2u
#define GRANULE (UINT64_C(16) << 20)
#define SLOT (UINT64_C(256) << 10)
#define REQUESTS 3u
/* Data in a place that verification does not read. */
#define HIDDEN 0x80000000u

static struct model {
	uint32_t cells[CELLS + HOST_CELLS]; /* which guest wrote there last, by number; 0: none */
	uint32_t saved[N_VFS];		    /* the same for the save area */
	struct vgpu_extent table[N_VFS];
	enum vgpu_context contexts[N_VFS];
	uint32_t guests[N_VFS]; /* the number of the guest, 0: none */
	bool up[N_VFS];		/* its driver is up */
	bool busy[N_VFS];
	/* the engine that clears and copies */
	struct vgpu_extent where;
	uint64_t from;
	bool copies, at_work, fails, lies, early;
	vgpu_nsec ends;
	/* the one that computes */
	struct vgpu_event command;
	vgpu_nsec command_ends;
} gpu;

static struct gpu_memory memory;
static struct vgpu_memory_view seen; /* its view after the last step */
static struct vgpu_core *core;
static struct vgpu_core_config config;
static struct recorder *recorder;
static struct vgpu_output out;
static struct vgpu_event queue[512];
static uint32_t head, tail;
static vgpu_nsec now;
static uint64_t seed;
static uint32_t last_guest;
static uint32_t wrong;
static const char *first_wrong;
static bool faults;
static uint64_t host;		/* bytes of host memory */
static vgpu_nsec ran_at[N_VFS]; /* or stopped waiting */
static vgpu_nsec longest_wait;
static vgpu_nsec pace; /* time for a granule; 0: random */
/* For reset loops: the VF that waits, and the bytes that were cleared for others meanwhile. */
static uint32_t waits;
static uint64_t for_others;
/* counts of what happened, so that a test can check that everything did */
static uint32_t swaps[2], swaps_given_up;
static uint32_t answered, refused, moves_done, moves_given_up, kills, handed_over;

static struct engine_request requests[REQUESTS];
static bool under_way[REQUESTS];
static vgpu_nsec asked_at[REQUESTS];
static struct vgpu_extent asked_of[REQUESTS];

static uint32_t any(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

static void check(bool good, const char *what)
{
	if (good)
		return;
	wrong++;
	first_wrong = first_wrong ? first_wrong : what;
}

static void sink(void *, const struct vgpu_event *event)
{
	if (tail - head < 512)
		queue[tail++ % 512] = *event;
	else
		check(false, "too many events at once");
}

/* The driver: the model's registers. */
static int place(struct vgpu_driver *, uint32_t vf, struct vgpu_extent where)
{
	const struct vgpu_extent *old = &gpu.table[vf];
	enum vgpu_context context = gpu.contexts[vf];
	uint32_t i;

	check(context == VGPU_CTX_NONE || (context == VGPU_CTX_SAVED && where.size == old->size),
	      "the memory of a VF is changed while it has a context");
	for (i = 0; i < N_VFS; i++)
		check(i == vf || where.size == 0 || gpu.table[i].size == 0 ||
			      where.offset >= gpu.table[i].offset + gpu.table[i].size ||
			      gpu.table[i].offset >= where.offset + where.size,
		      "partitions overlap");
	check(where.size == 0 || (where.offset >= PF_CELLS * GRANULE &&
				  where.offset + where.size <= CELLS * GRANULE + host),
	      "a partition lies outside");
	check(where.offset >= CELLS * GRANULE || where.offset + where.size <= CELLS * GRANULE,
	      "a partition lies in the GPU's memory and in the host's");
	if (faults && any(50) == 0)
		return -EIO;
	gpu.table[vf] = where;
	return 0;
}

/* Carries out a piece. If that is done early, data that is written meanwhile stays. */
static void take_effect(void)
{
	uint64_t i, cell = gpu.where.offset / GRANULE;

	if (gpu.lies)
		return;
	if (gpu.where.size == SLOT) {
		cell = (gpu.where.offset - (PF_CELLS * GRANULE - N_VFS * SLOT)) / SLOT;
		gpu.saved[cell] = gpu.fails ? gpu.saved[cell] : 0;
		return;
	}
	/* A piece that fails has done half of its work. */
	for (i = 0; i < gpu.where.size / GRANULE >> gpu.fails; i++)
		gpu.cells[cell + i] = gpu.copies ? gpu.cells[gpu.from / GRANULE + i] : 0;
}

static int begin(struct vgpu_extent where, bool copies, uint64_t from)
{
	check(!gpu.at_work, "two things at once for the engine that clears");
	gpu.where = where;
	gpu.copies = copies;
	gpu.from = from;
	gpu.at_work = true;
	gpu.fails = faults && any(100) == 0;
	gpu.lies = faults && any(100) == 0;
	gpu.early = any(2);
	if (gpu.early)
		take_effect();
	gpu.ends = now + (pace ? where.size * pace / GRANULE : any(3 * VGPU_MSEC));
	return 0;
}

static int clear(struct vgpu_driver *, struct vgpu_extent where)
{
	return begin(where, false, 0);
}

static int copy(struct vgpu_driver *, struct vgpu_extent from, uint64_t to)
{
	return begin((struct vgpu_extent){to, from.size}, true, from.offset);
}

/* Returns whether OFFSET is in VF's partition, or in its slot of the save area. */
static bool is_of(uint64_t offset, uint32_t vf)
{
	return offset - gpu.table[vf].offset < gpu.table[vf].size ||
	       offset - (PF_CELLS * GRANULE - (N_VFS - vf) * SLOT) < SLOT;
}

static void work(void)
{
	if (!gpu.at_work || now < gpu.ends)
		return;
	gpu.at_work = false;
	for_others += is_of(gpu.where.offset, waits) ? 0 : gpu.where.size;
	if (!gpu.early)
		take_effect();
}

static int is_busy(struct vgpu_driver *, bool *failed)
{
	work();
	*failed = gpu.fails;
	return gpu.at_work;
}

static int peek(struct vgpu_driver *, uint64_t offset, void *data, uint32_t size)
{
	uint64_t save = PF_CELLS * GRANULE - N_VFS * SLOT;
	uint32_t value = offset >= save && offset < PF_CELLS * GRANULE
				 ? gpu.saved[(offset - save) / SLOT]
				 : gpu.cells[offset / GRANULE];

	if (value & HIDDEN)
		value = 0;
	memset(data, (int)(value % 255 + (value != 0)), size);
	return 0;
}

static const struct vgpu_memory_face ops = {
	.place = place, .clear = clear, .copy = copy, .busy = is_busy, .read = peek};

/* Returns whether GUEST was the last to write each cell of VF's partition. */
static bool holds(uint32_t vf, uint32_t guest)
{
	uint64_t i;

	for (i = 0; i < gpu.table[vf].size / GRANULE; i++)
		if (gpu.cells[gpu.table[vf].offset / GRANULE + i] != guest)
			return false;
	return true;
}

static void fill(uint32_t vf, uint32_t guest)
{
	uint64_t i;

	for (i = 0; i < gpu.table[vf].size / GRANULE; i++)
		gpu.cells[gpu.table[vf].offset / GRANULE + i] = guest;
}

/* A command has taken effect. */
static void finish_command(void)
{
	uint32_t vf = gpu.command.vf;
	enum vgpu_command what = (enum vgpu_command)gpu.command.code;
	static const enum vgpu_context after[VGPU_CMD_COUNT] = {
		[VGPU_CMD_IDLE] = VGPU_CTX_IDLED,  [VGPU_CMD_SAVE] = VGPU_CTX_SAVED,
		[VGPU_CMD_LOAD] = VGPU_CTX_LOADED, [VGPU_CMD_INIT] = VGPU_CTX_LOADED,
		[VGPU_CMD_RUN] = VGPU_CTX_RUNNING, [VGPU_CMD_SHUTDOWN] = VGPU_CTX_NONE,
	};

	if (what == VGPU_CMD_INIT) {
		handed_over += gpu.table[vf].size > 0;
		check(holds(vf, 0), "a guest finds what another has left");
		check(gpu.saved[vf] == 0, "a guest finds another's context");
	}
	if (what == VGPU_CMD_RUN) {
		if (gpu.up[vf] && gpu.busy[vf] && now - ran_at[vf] > longest_wait)
			longest_wait = now - ran_at[vf];
		ran_at[vf] = now;
	}
	if (what == VGPU_CMD_RUN && gpu.up[vf])
		check(holds(vf, gpu.guests[vf]), "a guest has lost what it wrote");
	/* The guest has computed: all of its memory has changed. */
	if (what == VGPU_CMD_IDLE && gpu.up[vf]) {
		gpu.guests[vf] = ++last_guest;
		fill(vf, gpu.guests[vf]);
	}
	if (what == VGPU_CMD_SAVE)
		gpu.saved[vf] = gpu.guests[vf];
	gpu.contexts[vf] = after[what];
	gpu.command_ends = VGPU_NEVER;
	sink(NULL, &gpu.command);
}

static bool is_out(uint32_t vf)
{
	return gpu.table[vf].offset >= CELLS * GRANULE;
}

static void command(uint32_t vf, enum vgpu_command what)
{
	check(!is_out(vf) || what == VGPU_CMD_SHUTDOWN,
	      "a VF that is swapped out comes to the engine");
	check(gpu.command_ends == VGPU_NEVER, "two commands at once");
	gpu.command = (struct vgpu_event){.type = VGPU_EV_DONE, .vf = vf, .code = what};
	gpu.command_ends = now + any(2) * any(2 * VGPU_MSEC);
}

static void reset(uint32_t vf, uint32_t level)
{
	uint32_t i;
	bool forced = false;

	for (i = 0; i < REQUESTS; i++)
		forced |= under_way[i] && requests[i].memory.vf == vf && requests[i].memory.force;
	check(!gpu.up[vf] || forced, "a guest is reset without need");
	if (gpu.command_ends != VGPU_NEVER && gpu.command.vf == vf)
		gpu.command_ends = VGPU_NEVER;
	gpu.contexts[vf] = VGPU_CTX_NONE;
	gpu.up[vf] = false;
	gpu.busy[vf] = false;
	sink(NULL, &(struct vgpu_event){.type = VGPU_EV_RESET_DONE, .vf = vf, .code = level});
}

/* The guest has the engine alone: its driver starts, or stops. */
static void window(uint32_t vf)
{
	bool comes = !gpu.up[vf];

	gpu.up[vf] = comes;
	ran_at[vf] = now;
	if (comes) {
		fill(vf, gpu.guests[vf]);
		gpu.busy[vf] = true;
	}
	sink(NULL, &(struct vgpu_event){.type = VGPU_EV_RELEASE,
					.vf = vf,
					.code = comes ? VGPU_WINDOW_INIT : VGPU_WINDOW_FINI});
	if (comes)
		sink(NULL, &(struct vgpu_event){.type = VGPU_EV_BUSY, .vf = vf});
}

static int step(struct vgpu_event event)
{
	uint32_t i;
	int r;

	event.now = now;
	r = recorder_step(recorder, core, &event, &out);
	gpu_memory_stepped(&memory);
	for (i = 0; i < out.n_actions; i++) {
		const struct vgpu_action *a = &out.actions[i];

		if (a->type == VGPU_AC_COMMAND)
			command(a->vf, (enum vgpu_command)a->code);
		else if (a->type == VGPU_AC_RESET)
			reset(a->vf, a->code);
		else if (a->type == VGPU_AC_SCRUB)
			gpu_memory_scrub(&memory, a->vf);
		else if (a->type == VGPU_AC_NOTICE && a->code == VGPU_NOTICE_READY)
			window(a->vf);
	}
	return r;
}

static void drain(void)
{
	while (head != tail)
		step(queue[head++ % 512]);
}

static void on_reply(void *, struct engine_request *request)
{
	size_t i = (size_t)(request - requests);
	const struct vgpu_memory_change *want = &request->memory;
	const struct vgpu_extent *is = &gpu.table[want->vf];

	check(i < REQUESTS && under_way[i], "an answer that was not requested");
	under_way[i] = false;
	check(now - asked_at[i] <= 61 * VGPU_SEC, "an answer that comes too late");
	answered += request->result == 0;
	refused += request->result < 0;
	if (want->what == VGPU_MEMORY_SET && request->result == 0)
		check(is->size >= want->size && is->size < want->size + GRANULE,
		      "the partition has not the size that was set");
	if (want->what == VGPU_MEMORY_SET && request->result < 0 &&
	    want->what != VGPU_MEMORY_COMPACT)
		check(is->size == asked_of[i].size, "a refusal has changed the size");
	/* The request is ours again: overwrite it, so that a later use shows. */
	memset(&request->memory, 0xa5, sizeof(request->memory));
}

/* Starts everything, or starts it again: all that is known is what the GPU has. */
static void start(void)
{
	static const struct vgpu_driver_config driver_config = {.n_vfs = N_VFS, .pinned = 1};
	const struct vgpu_driver_caps caps = {.memory = CELLS * GRANULE,
					      .host = host,
					      .granule = GRANULE};
	struct vgpu_driver_found found = {
		.adopted = true,
		.partition = {.pf = {0, PF_CELLS * GRANULE},
			      .save_area = {PF_CELLS * GRANULE - N_VFS * SLOT, N_VFS * SLOT}}};
	const struct vgpu_policy_ops *policy = vgpu_builtin_policy("fair");
	static int64_t params[VGPU_MAX_PARAMS], vf_params[N_VFS][VGPU_MAX_PARAMS];
	struct vgpu_event event;
	uint32_t i;

	if (gpu.command_ends != VGPU_NEVER)
		finish_command(); /* the driver waits for it */
	memcpy(found.partition.vfs, gpu.table, sizeof(gpu.table));
	found.planned = found.partition;
	head = tail = 0;
	memset(under_way, 0, sizeof(under_way));
	memory.change = NULL; /* the requester is gone, too */
	memory.epoch = 20 * VGPU_MSEC;
	memory.sink = sink;
	memory.reply = on_reply;
	gpu_memory_open(&memory, &ops, NULL, &caps, &found, &driver_config);
	memset(recorder_core_memory(recorder), 0, vgpu_core_size(N_VFS));
	memset(recorder_fallback_memory(recorder), 0, vgpu_fallback_policy->memory(N_VFS));
	memset(recorder_slot_memory(recorder, 0), 0, policy->memory(N_VFS));
	recorder_restart(recorder);
	core = vgpu_core_init(recorder_core_memory(recorder), &config, vgpu_fallback_policy,
			      recorder_fallback_memory(recorder), now);
	memory.core = core;
	for (i = 0; policy->params[i].name; i++)
		params[i] = policy->params[i].def;
	params[0] = 4000; /* slice_us: swaps come with turns */
	for (i = 0; policy->vf_params[i].name; i++)
		vf_params[0][i] = policy->vf_params[i].def;
	for (i = 1; i < N_VFS; i++)
		memcpy(vf_params[i], vf_params[0], sizeof(vf_params[0]));
	event = (struct vgpu_event){.type = VGPU_EV_POLICY,
				    .policy = policy,
				    .memory = recorder_slot_memory(recorder, 0),
				    .params = params,
				    .vf_params = vf_params[0]};
	step(event);
	for (i = 0; i < N_VFS; i++)
		step((struct vgpu_event){.type = VGPU_EV_ADD,
					 .vf = i,
					 .code = gpu.contexts[i],
					 .value = gpu.up[i],
					 .policy = policy,
					 .params = vf_params[i]});
	for (i = 0; i < N_VFS; i++)
		if (is_out(i))
			step((struct vgpu_event){.type = VGPU_EV_AWAY, .vf = i, .code = 1});
	step((struct vgpu_event){.type = VGPU_EV_START});
	for (i = 0; i < N_VFS; i++)
		if (gpu.busy[i])
			step((struct vgpu_event){.type = VGPU_EV_BUSY, .vf = i});
	drain();
}

static void ask(void)
{
	uint32_t i = any(REQUESTS), vf = any(N_VFS);

	if (under_way[i])
		return;
	requests[i] = (struct engine_request){
		.memory = {
			.what = any(8) == 0   ? VGPU_MEMORY_COMPACT
				: any(5) == 0 ? VGPU_MEMORY_PLAN
					      : VGPU_MEMORY_SET,
			.vf = vf,
			.size = any(5) == 0 ? 0
				: host	    ? (any(6) + 7) * GRANULE - any(2) * SLOT
					    : (any(12) + 1) * GRANULE - any(2) * SLOT,
			.force = any(6) == 0,
		}};
	under_way[i] = true;
	asked_at[i] = now;
	gpu_memory_report(&memory, now); /* a change that is under way may end with that */
	asked_of[i] = gpu.table[vf];
	gpu_memory_begin(&memory, &requests[i], now);
}

/* Draws an action of a guest or an operator. */
static void act(void)
{
	struct vgpu_vf_view view;
	uint32_t vf = any(N_VFS);

	switch (any(10)) {
	case 0:
	case 1:
		if (gpu.up[vf] || gpu.contexts[vf] != VGPU_CTX_NONE)
			break;
		gpu.guests[vf] = ++last_guest;
		step((struct vgpu_event){.type = VGPU_EV_REQUEST,
					 .vf = vf,
					 .code = VGPU_WINDOW_INIT});
		break;
	case 2:
		if (gpu.up[vf])
			step((struct vgpu_event){.type = VGPU_EV_REQUEST,
						 .vf = vf,
						 .code = VGPU_WINDOW_FINI});
		break;
	case 3:
		if (any(4) || !gpu.up[vf])
			break;
		/* the guest is killed: its side resets the function */
		gpu.up[vf] = gpu.busy[vf] = false;
		if (gpu.contexts[vf] == VGPU_CTX_SAVED)
			gpu.contexts[vf] = VGPU_CTX_NONE;
		step((struct vgpu_event){.type = VGPU_EV_GUEST_RESET, .vf = vf});
		break;
	case 4:
		if (!gpu.up[vf])
			break;
		gpu.busy[vf] = !gpu.busy[vf];
		ran_at[vf] = now;
		step((struct vgpu_event){.type = gpu.busy[vf] ? VGPU_EV_BUSY : VGPU_EV_EMPTY,
					 .vf = vf});
		break;
	case 5:
		/* a guest that has the memory mapped writes while it is being cleared, and goes */
		vgpu_core_vf_view(core, vf, &view);
		if (view.state != VGPU_VF_SCRUBBING || view.context != VGPU_CTX_NONE)
			break;
		fill(vf, ++last_guest | (!faults && any(2) ? HIDDEN : 0));
		step((struct vgpu_event){.type = VGPU_EV_GUEST_RESET, .vf = vf});
		break;
	default:
		if (!host || any(8) == 0)
			ask();
	}
}

/* The table as of the last view. */
static struct vgpu_memory table_of(void)
{
	return (struct vgpu_memory){
		.extents = seen.extents,
		.n = seen.n_extents,
		.capacity = VGPU_MEMORY_EXTENTS,
		.total = CELLS * GRANULE + host,
		.local = CELLS * GRANULE,
		.granule = GRANULE,
	};
}

/* What must hold after every step. */
static void look(void)
{
	struct vgpu_memory table;
	struct vgpu_vf_view view;
	uint32_t i;
	uint64_t c;

	vgpu_memory_view(memory.state, &seen);
	table = table_of();
	check(vgpu_memory_check(&table) == NULL, "the table is damaged");
	for (i = 0; i < seen.n_extents; i++) {
		const struct vgpu_memory_extent *e = &seen.extents[i];

		for (c = 0; c < e->size / GRANULE && e->state == VGPU_EXTENT_FREE; c++)
			check(gpu.cells[e->offset / GRANULE + c] == 0, "free memory is not clear");
		if (e->state == VGPU_EXTENT_OWNED && e->owner != VGPU_MEMORY_PF)
			check(gpu.table[e->owner].offset == e->offset &&
				      gpu.table[e->owner].size == e->size,
			      "the GPU's table is not ours");
	}
	for (i = 0; i < N_VFS; i++) {
		vgpu_core_vf_view(core, i, &view);
		if (seen.moving == i)
			continue;
		check(!view.held, "a VF is held back for nothing");
		check(view.away || !is_out(i), "a VF that is swapped out is not away");
		check(!view.away || is_out(i) || memory.piece.at_work || memory.telling ||
			      gpu_memory_deadline(&memory) <= now + VGPU_MSEC ||
			      (memory.change && memory.change->memory.vf == i),
		      "a VF is kept away for nothing");
	}
}

static void kill_and_restart(void)
{
	moves_done += (uint32_t)seen.counters.moves;
	moves_given_up += (uint32_t)seen.counters.aborted_moves;
	swaps[0] += (uint32_t)seen.counters.swaps[0];
	swaps[1] += (uint32_t)seen.counters.swaps[1];
	swaps_given_up += (uint32_t)seen.counters.aborted_swaps;
	memset(memory.memory, 0, vgpu_memory_state_size());
	kills++;
	start();
}

/* The next instant at which anything is due. */
static vgpu_nsec next_instant(void)
{
	vgpu_nsec t = vgpu_core_deadline(core);

	if (gpu_memory_deadline(&memory) < t)
		t = gpu_memory_deadline(&memory);
	if (gpu.command_ends < t)
		t = gpu.command_ends;
	return t < now ? now : t;
}

/* What is due by now, in the order of the engine thread. */
static void do_what_is_due(void)
{
	drain();
	if (now >= gpu.command_ends)
		finish_command();
	drain();
	if (now >= vgpu_core_deadline(core))
		step((struct vgpu_event){.type = VGPU_EV_TIMER});
	drain();
	gpu_memory_run(&memory, now);
	drain();
	look();
}

static void set_up(bool with_faults)
{
	struct vgpu_error err;
	uint32_t i;

	memset(&gpu, 0, sizeof(gpu));
	gpu.command_ends = VGPU_NEVER;
	memset(&memory, 0, sizeof(memory));
	recorder = recorder_new(N_VFS, &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(recorder);
	memory.recorder = recorder;
	memory.memory = recorder_state_memory(recorder);
	for (i = 0; i < CELLS + HOST_CELLS; i++)
		gpu.cells[i] = i >= PF_CELLS ? 999 : 0; /* unknown data */
	/* With host memory, three VFs fit on the GPU and three do not. */
	for (i = 0; i < N_VFS; i++) {
		uint64_t size = host ? 12 : 4, at = PF_CELLS + size * i;

		at = at + size > CELLS ? CELLS + size * i : at;
		gpu.table[i] = (struct vgpu_extent){at * GRANULE, size * GRANULE};
		ran_at[i] = now;
	}
	longest_wait = 0;
	wrong = 0;
	first_wrong = NULL;
	faults = with_faults;
	vgpu_core_defaults(&config, N_VFS);
	start();
}

/* The replay of the recording makes the same decisions. */
static void tear_down(void)
{
	struct recording recording;
	static struct replay replay;
	struct vgpu_error err = {.text = ""};

	CU_ASSERT_EQUAL_FATAL(recorder_copy(recorder, &recording), 0);
	recorder_free(recorder); /* the replay needs its address */
	CU_ASSERT_EQUAL(recording_replay(&recording, vgpu_builtin_policy, NULL, &replay, &err), 0);
	CU_ASSERT(!replay.differs && replay.events > 0);
	if (replay.differs || err.text[0])
		printf("event %llu: %s\n", (unsigned long long)replay.at, err.text);
	recording_free(&recording);
}

static void run(uint32_t steps, bool with_faults, uint32_t kill_every)
{
	uint32_t i;
	vgpu_nsec t;

	set_up(with_faults);
	for (i = 0; i < steps && wrong == 0; i++) {
		t = next_instant();
		/* A guest gets no more windows for a minute: where nothing is due, time passes. */
		now = t == VGPU_NEVER ? now + any(VGPU_SEC) : t + any(2) * any(200 * VGPU_USEC);
		if (any(6) == 0)
			act();
		do_what_is_due();
		if (kill_every && any(kill_every) == 0)
			kill_and_restart();
	}
	kill_and_restart();
	CU_ASSERT_EQUAL(wrong, 0);
	if (wrong)
		printf("step %u: %s\n", i, first_wrong);
	tear_down();
}

static void count_and_run(uint32_t steps, bool with_faults, uint32_t kill_every)
{
	swaps[0] = swaps[1] = swaps_given_up = 0;
	answered = refused = moves_done = moves_given_up = kills = handed_over = 0;
	run(steps, with_faults, kill_every);
	printf("answered %u, refused %u, moves %u (%u given up), handed over %u, killed %u\n",
	       answered, refused, moves_done, moves_given_up, handed_over, kills);
	if (host)
		printf("swapped out %u, in %u (%u given up), longest wait %llu ms\n", swaps[0],
		       swaps[1], swaps_given_up, (unsigned long long)(longest_wait / VGPU_MSEC));
}

TEST(calm, "partitions change, calmly")
{
	seed = 7;
	count_and_run(500000, false, 0);
	CU_ASSERT(answered > 1000 && refused > 1000 && moves_done > 100 && handed_over > 100);
}

TEST(faulty, "pieces fail, loudly and silently")
{
	seed = 7;
	count_and_run(400000, true, 0);
	CU_ASSERT(answered > 1000 && moves_done > 100 && moves_given_up > 10 && handed_over > 100);
}

TEST(killed, "killed at any step")
{
	seed = 7;
	count_and_run(400000, true, 60);
	CU_ASSERT(kills > 3000 && moves_done > 30 && handed_over > 30);
}

TEST(oversubscribed, "oversubscribed: calm, with pieces that fail, killed at any step")
{
	seed = 7;
	host = HOST_CELLS * GRANULE;
	count_and_run(500000, false, 0);
	CU_ASSERT(answered > 500 && handed_over > 100 && swaps[0] > 500 && swaps[1] > 500);
	/* Every VF gets its turn: epochs are 20 ms long, or four swaps. */
	CU_ASSERT(longest_wait < 5 * VGPU_SEC);
	count_and_run(400000, true, 0);
	CU_ASSERT(answered > 500 && handed_over > 100 && swaps[1] > 300 && swaps_given_up > 10);
	count_and_run(400000, true, 300);
	CU_ASSERT(kills > 500 && handed_over > 30 && swaps[1] > 100);
	host = 0;
}

/* Many short runs; prints the first seed that fails. */
TEST(many, "many seeds")
{
	uint64_t i;

	for (i = 1; i <= 40; i++) {
		seed = i * 7919;
		host = i % 2 ? HOST_CELLS * GRANULE : 0;
		run(40000, i % 3 > 0, i % 5 ? 0 : 200);
		if (wrong)
			printf("seed %llu\n", (unsigned long long)(i * 7919));
		if (wrong)
			break;
	}
	host = 0;
}

static enum vgpu_vf_state state_of(uint32_t vf)
{
	struct vgpu_vf_view view;

	vgpu_core_vf_view(core, vf, &view);
	return view.state;
}

static void reset_function(uint32_t vf, bool writes)
{
	if (writes)
		fill(vf, ++last_guest);
	step((struct vgpu_event){.type = VGPU_EV_GUEST_RESET, .vf = vf});
}

/* Runs for LENGTH, or until UNTIL, in which only the guest of LOOPER, if there is one, acts: it
 * resets its VF every EVERY, and writes to its memory before. */
static void pass(vgpu_nsec length, uint32_t looper, vgpu_nsec every, bool (*until)(void))
{
	static vgpu_nsec next_reset;
	vgpu_nsec end = now + length, t;

	while (wrong == 0 && now < end && !(until && until())) {
		next_reset = next_reset < now ? now : next_reset;
		t = next_instant();
		t = t < end ? t : end;
		if (looper < N_VFS && next_reset <= t) {
			now = next_reset;
			next_reset += every;
			reset_function(looper, true);
		} else {
			now = t;
		}
		do_what_is_due();
	}
}

static bool is_settled(void)
{
	struct vgpu_memory table;
	uint32_t i;

	for (i = 0; i < N_VFS; i++)
		if (state_of(i) != VGPU_VF_AVAIL)
			return false;
	table = table_of();
	return vgpu_memory_in(&table, VGPU_EXTENT_SCRUBBING) == 0 && !gpu.at_work;
}

static bool neighbour_is_clear(void)
{
	return state_of(waits) == VGPU_VF_AVAIL;
}

static bool change_is_answered(void)
{
	return !under_way[0];
}

/* A guest resets its VF every EVERY, faster than its partition is cleared. */
static void one_loop(uint32_t looper, uint32_t neighbour, vgpu_nsec every, vgpu_nsec phase)
{
	uint64_t bytes;

	waits = neighbour;
	pass(VGPU_SEC * 60, N_VFS, 0, NULL); /* earlier resets are forgotten */
	pass(2 * every + phase, looper, every, NULL);
	for_others = 0;
	reset_function(neighbour, false);
	bytes = gpu.table[neighbour].size + SLOT;
	pass(5 * VGPU_SEC, looper, every, neighbour_is_clear);
	CU_ASSERT(neighbour_is_clear());
	CU_ASSERT(for_others <= bytes + GRANULE);
	/* A VF that has used up its budget of resets is cleared when nothing else waits. */
	if (phase / every > 9)
		CU_ASSERT(for_others <= GRANULE);
}

TEST(reset_loop, "a guest in a reset loop delays no other VF")
{
	static const uint32_t pairs[][2] = {{0, 1}, {1, 0}, {4, 2}};
	uint32_t i, k;

	pace = VGPU_MSEC;
	set_up(false);
	pass(60 * VGPU_SEC, N_VFS, 0, is_settled);
	CU_ASSERT_FATAL(is_settled());
	for (i = 0; i < 3; i++)
		for (k = 1; k < 40; k++)
			one_loop(pairs[i][0], pairs[i][1], 300 * VGPU_USEC * (1 + k % 13),
				 k * 1100 * VGPU_USEC);
	/* A fast GPU, which would clear more than a granule in one piece. */
	pace = 60 * VGPU_USEC;
	for (i = 0; i < 3; i++)
		for (k = 0; k < 42; k++)
			one_loop(pairs[i][0], pairs[i][1],
				 300 * VGPU_USEC + k % 7 * 100 * VGPU_USEC,
				 (300 + k % 7 * 100) * (k % 6) * VGPU_USEC + 200 * VGPU_USEC);
	pace = VGPU_MSEC;
	/* A change that first needs another VF's former memory cleared. */
	for (i = 0; i < 2 && !under_way[0]; i++) {
		requests[0] = (struct engine_request){
			.memory = {.what = VGPU_MEMORY_SET,
				   .vf = 2 + i,
				   .size = i ? gpu.table[3].size + 14 * GRANULE : 0,
				   .usual = true}};
		under_way[0] = true;
		asked_at[0] = now;
		asked_of[0] = gpu.table[2 + i];
		gpu_memory_begin(&memory, &requests[0], now);
		pass(2 * VGPU_SEC, 0, VGPU_MSEC, change_is_answered);
		CU_ASSERT(change_is_answered() && requests[0].result == 0);
	}
	/* When the guest stops, its memory is cleared. */
	pass(VGPU_SEC, N_VFS, 0, is_settled);
	CU_ASSERT(is_settled());
	CU_ASSERT_EQUAL(wrong, 0);
	if (wrong)
		printf("%s\n", first_wrong);
	tear_down();
	pace = 0;
}

/* A VF that was let go is not moved again before the core has heard of it: by then it may run. The
 * reducer alone, with a core that answers late. */
static struct vgpu_memory_state *alone;
static struct vgpu_memory_vf mover;
static uint32_t releases, answers;

static void tell_reducer(struct vgpu_memory_event event);

static void do_as_told(const struct vgpu_memory_action *a)
{
	now += VGPU_MSEC;
	switch (a->type) {
	case VGPU_MA_CLEAR:
	case VGPU_MA_COPY:
		tell_reducer((struct vgpu_memory_event){.type = VGPU_ME_DONE});
		break;
	case VGPU_MA_PLACE:
		tell_reducer((struct vgpu_memory_event){.type = VGPU_ME_PLACED, .vf = a->vf});
		break;
	case VGPU_MA_HOLD:
		CU_ASSERT_EQUAL(releases, 0); /* the last one has not been heard of */
		mover.kept = mover.parked = true;
		tell_reducer((struct vgpu_memory_event){
			.type = VGPU_ME_VF, .vf = a->vf, .code = 1, .is = mover});
		break;
	case VGPU_MA_RELEASE:
		releases++; /* answered when the test says so */
		break;
	case VGPU_MA_ANSWER:
		CU_ASSERT_EQUAL(a->value, 0);
		answers++;
		break;
	case VGPU_MA_RESET:
	case VGPU_MA_SCRUBBED:
		CU_FAIL("nobody asked for that");
		break;
	}
}

static void tell_reducer(struct vgpu_memory_event event)
{
	struct vgpu_memory_output said;
	uint32_t i;

	event.now = now;
	vgpu_memory_step(alone, &event, &said);
	for (i = 0; i < said.n; i++)
		do_as_told(&said.actions[i]);
}

/* Until there is nothing left to be done. */
static void let_it_work(void)
{
	uint32_t i;

	for (i = 0; i < 50; i++) {
		now += VGPU_MSEC;
		tell_reducer((struct vgpu_memory_event){.type = VGPU_ME_ENGINE});
	}
}

static void want(uint32_t vf, uint64_t granules)
{
	tell_reducer((struct vgpu_memory_event){
		.type = VGPU_ME_CHANGE,
		.change = {.what = VGPU_MEMORY_SET, .vf = vf, .size = granules * GRANULE}});
	let_it_work();
}

TEST(told_before_it_moves, "the core is told before a VF is moved again")
{
	/* Four granules, of which VF 0 has the second; the PF; three granules. */
	static const struct vgpu_memory_config of = {
		.n_vfs = 3,
		.total = 8 * GRANULE,
		.granule = GRANULE,
		.pinned = 7,
		.partition = {.pf = {4 * GRANULE, GRANULE}, .vfs = {{1 * GRANULE, GRANULE}}},
	};
	struct vgpu_memory_vf unused = {.state = VGPU_VF_AVAIL, .empty = true};
	uint32_t vf;

	alone = vgpu_memory_open(calloc(1, vgpu_memory_state_size()), &of);
	now = VGPU_SEC;
	releases = answers = 0;
	mover = (struct vgpu_memory_vf){.state = VGPU_VF_ACTIVE, .has_work = true};
	tell_reducer((struct vgpu_memory_event){.type = VGPU_ME_DONE});
	tell_reducer((struct vgpu_memory_event){.type = VGPU_ME_VF, .vf = 0, .is = mover});
	for (vf = 1; vf < 3; vf++)
		tell_reducer(
			(struct vgpu_memory_event){.type = VGPU_ME_VF, .vf = vf, .is = unused});
	let_it_work();
	want(1, 4);
	CU_ASSERT_EQUAL(answers, 1);
	CU_ASSERT_EQUAL(releases, 1); /* VF 0 was in the way, and is behind the PF now */
	want(1, 0);
	want(1, 3);
	want(2, 3); /* is for the place behind the PF: VF 0 moves once more, as soon as it may */
	CU_ASSERT_EQUAL(answers, 3);
	CU_ASSERT_EQUAL(releases, 1);
	releases = 0;
	mover.kept = mover.parked = false;
	tell_reducer(
		(struct vgpu_memory_event){.type = VGPU_ME_VF, .vf = 0, .code = 1, .is = mover});
	let_it_work();
	CU_ASSERT_EQUAL(answers, 4);
	CU_ASSERT_EQUAL(releases, 1);
	free(alone);
}

SUITE_MAIN("memory")
