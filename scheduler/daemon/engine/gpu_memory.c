/* SPDX-License-Identifier: MIT */
#include "gpu_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine_request.h"
#include "vgpu/record.h"

#define MIB(bytes) ((bytes) >> 20)
#define FIRST_LOOK (200 * VGPU_USEC)
#define NEXT_LOOK (500 * VGPU_USEC)
#define SAMPLE 256u
/* Checking all VFs takes some microseconds: not after every slice. */
#define TELL_EVERY VGPU_MSEC

void gpu_memory_open(struct gpu_memory *h, const struct vgpu_memory_face *ops,
		     struct vgpu_driver *driver, const struct vgpu_driver_caps *caps,
		     const struct vgpu_driver_found *found, const struct vgpu_driver_config *config)
{
	struct vgpu_memory_config c = {
		.n_vfs = config->n_vfs,
		.total = caps->memory,
		.host = caps->host,
		.granule = caps->granule ? caps->granule : 1, /* the GPU has no memory face */
		.placement = config->placement,
		.partition = found->partition,
		.pinned = config->pinned,
		.swappable = h->swappable,
		.epoch = h->epoch,
		.host_is_new = found->host_is_new,
	};
	uint32_t i;

	for (i = 0; i < c.n_vfs; i++)
		c.usual[i] = found->planned.vfs[i].size;
	h->ops = ops;
	h->driver = driver;
	h->n_vfs = config->n_vfs;
	h->granule = caps->granule;
	h->swaps = caps->host > 0;
	h->state = vgpu_memory_open(h->memory, &c);
	memset(h->known, 0, sizeof(h->known));
	memset(h->scrubs, 0, sizeof(h->scrubs));
	h->telling = 0;
	h->engine_works = true;
	h->late = true;
	h->tell_at = 0;
	h->piece = (struct gpu_memory_piece){.at_work = true};
	h->placed = false;
	h->lost = 0;
}

/* Sends an event about a VF to the core. */
static void tell_core(struct gpu_memory *h, enum vgpu_event_type type,
		      const struct vgpu_memory_action *a, uint32_t code, vgpu_nsec now)
{
	h->sink(h->data, &(struct vgpu_event){.now = now, .type = type, .vf = a->vf, .code = code});
	h->telling |= VGPU_VF_BIT(a->vf);
}

static void explain(const struct gpu_memory *h, struct engine_request *request,
		    const struct vgpu_memory_action *a)
{
	const struct vgpu_memory_change *want = &request->memory;
	char *to = request->why;
	size_t size = sizeof(request->why);

	switch ((enum vgpu_memory_reason)a->code) {
	case VGPU_MEMORY_DONE:
		*to = '\0';
		break;
	case VGPU_MEMORY_ANOTHER:
		snprintf(to, size, "another change of this GPU's memory is under way; try again");
		break;
	case VGPU_MEMORY_IN_USE:
		snprintf(to, size,
			 "VF %" PRIu32 " is %s: change its partition when its guest has ended, or "
			 "by force, which resets the VF",
			 want->vf, vgpu_vf_state_names[h->known[want->vf].state]);
		break;
	case VGPU_MEMORY_NO_ROOM:
		snprintf(to, size,
			 "%" PRIu64 " MiB for VF %" PRIu32 ": the GPU can free at most %" PRIu64
			 " MiB in one block (vgpuctl memory show)",
			 MIB(want->size), want->vf, MIB(a->plan.largest));
		break;
	case VGPU_MEMORY_UNMOVED:
		snprintf(to, size,
			 "a VF in the way could not be moved; all partitions keep their size");
		break;
	case VGPU_MEMORY_LATE:
		snprintf(to, size,
			 "the memory did not become free in time; all partitions keep their size");
		break;
	case VGPU_MEMORY_NOT_TAKEN:
		snprintf(to, size, "the GPU refused the partition of VF %" PRIu32, want->vf);
		break;
	case VGPU_MEMORY_INVALID:
		snprintf(to, size, "VF %" PRIu32 " cannot have %" PRIu64 " MiB", want->vf,
			 MIB(want->size));
		break;
	}
}

static void answer(struct gpu_memory *h, const struct vgpu_memory_action *a)
{
	/* The change that is being begun has the last number; any other number is that of the
	 * change in progress. */
	bool first = h->asked && a->id == h->last_id;
	struct engine_request *request = first ? h->asked : h->change;

	if (first)
		h->asked = NULL;
	else
		h->change = NULL;
	request->memory.size = a->plan.size;
	request->plan = a->plan;
	request->result = (int)a->value;
	explain(h, request, a);
	h->reply(h->data, request);
}

static void start_piece(struct gpu_memory *h, const struct vgpu_memory_action *a, vgpu_nsec now)
{
	struct gpu_memory_piece *p = &h->piece;
	int r;

	*p = (struct gpu_memory_piece){
		.at_work = true,
		.ours = true,
		.copies = a->type == VGPU_MA_COPY,
		.where = a->where,
		.from = a->from,
		.began = now,
		.look_at = now + FIRST_LOOK,
	};
	r = p->copies ? h->ops->copy(h->driver, (struct vgpu_extent){p->from, p->where.size},
				     p->where.offset)
		      : h->ops->clear(h->driver, p->where);
	h->lost = r < 0 ? r : 0;
}

static void carry_out(struct gpu_memory *h, const struct vgpu_memory_action *a, vgpu_nsec now)
{
	static const enum vgpu_event_type keeps[] = {
		[VGPU_KEEP_HELD] = VGPU_EV_HOLD,
		[VGPU_KEEP_AWAY] = VGPU_EV_AWAY,
	};

	switch (a->type) {
	case VGPU_MA_CLEAR:
	case VGPU_MA_COPY:
		if (h->lost == 0)
			start_piece(h, a, now);
		break;
	case VGPU_MA_PLACE:
		if (h->lost)
			break;
		h->status = h->ops->place(h->driver, a->vf, a->where);
		h->placed = true;
		break;
	case VGPU_MA_HOLD:
	case VGPU_MA_RELEASE:
		tell_core(h, keeps[a->code], a, a->type == VGPU_MA_HOLD, now);
		break;
	case VGPU_MA_RESET:
		tell_core(h, VGPU_EV_RESET_VF, a, 0, now);
		break;
	case VGPU_MA_SCRUBBED:
		h->sink(h->data, &(struct vgpu_event){.now = now,
						      .type = VGPU_EV_SCRUBBED,
						      .vf = a->vf,
						      .value = a->value});
		break;
	case VGPU_MA_ANSWER:
		answer(h, a);
		break;
	}
}

/* Steps the memory reducer with one event and carries out its actions. */
static void step(struct gpu_memory *h, struct vgpu_memory_event event)
{
	uint32_t i;

	do {
		h->placed = false;
		if (h->recorder)
			recorder_memory_step(h->recorder, h->core, &event, &h->out);
		else
			vgpu_memory_step(h->state, &event, &h->out);
		for (i = 0; i < h->out.n; i++)
			carry_out(h, &h->out.actions[i], event.now);
		event = (struct vgpu_memory_event){.now = event.now,
						   .type = VGPU_ME_PLACED,
						   .value = h->status};
	} while (h->placed);
}

static bool is_same(const struct vgpu_memory_vf *a, const struct vgpu_memory_vf *b)
{
	return a->state == b->state && a->has_work == b->has_work && a->empty == b->empty &&
	       a->kept == b->kept && a->away == b->away && a->parked == b->parked &&
	       a->guaranteed == b->guaranteed && a->run_ns == b->run_ns &&
	       a->share[0] == b->share[0] && a->share[1] == b->share[1];
}

void gpu_memory_report(struct gpu_memory *h, vgpu_nsec now)
{
	struct vgpu_core_view view;
	struct vgpu_vf_view of;
	struct vgpu_memory_vf is;
	uint32_t i;
	vgpu_vf_set told = h->telling; /* STATE does not have the results of these events yet */
	bool works, new;

	h->telling = 0;
	h->late = false;
	h->tell_at = now + TELL_EVERY;
	vgpu_core_view(h->core, &view);
	works = view.phase != VGPU_PHASE_PARKED;
	new = works != h->engine_works;
	h->engine_works = works;
	for (i = 0; i < h->n_vfs; i++) {
		vgpu_core_vf_view(h->core, i, &of);
		is = vgpu_memory_vf_of(&of);
		if (!h->swaps)
			is.run_ns = 0; /* run times decide only which VFs are swapped */
		if (is_same(&is, &h->known[i]) && !(told >> i & 1))
			continue;
		new = true;
		h->known[i] = is;
		step(h, (struct vgpu_memory_event){.now = now,
						   .type = VGPU_ME_VF,
						   .vf = i,
						   .code = told >> i & 1,
						   .is = is});
	}
	if (new)
		step(h,
		     (struct vgpu_memory_event){.now = now, .type = VGPU_ME_ENGINE, .code = works});
}

void gpu_memory_scrub(struct gpu_memory *h, uint32_t vf)
{
	h->scrubs[vf]++;
}

void gpu_memory_stepped(struct gpu_memory *h)
{
	h->late = true;
}

void gpu_memory_begin(struct gpu_memory *h, struct engine_request *request, vgpu_nsec now)
{
	gpu_memory_report(h, now);
	h->asked = request;
	h->last_id++;
	step(h, (struct vgpu_memory_event){.now = now,
					   .type = VGPU_ME_CHANGE,
					   .code = h->last_id,
					   .change = request->memory});
	/* An answered request belongs to its sender again: do not touch it. */
	if (h->asked)
		h->change = h->asked;
	h->asked = NULL;
}

void gpu_memory_close(struct gpu_memory *h)
{
	struct engine_request *request = h->change;

	h->driver = NULL;
	h->change = NULL;
	if (!request)
		return;
	request->result = -ENODEV;
	snprintf(request->why, sizeof(request->why), "the GPU was lost during the change");
	h->reply(h->data, request);
}

/* Returns 1 if a sample is right (clear, or equal to its original), 0 if not, or a negative errno.
 */
static int verify_at(struct gpu_memory *h, uint64_t offset)
{
	static const uint8_t zeros[SAMPLE];
	const struct gpu_memory_piece *p = &h->piece;
	uint8_t here[SAMPLE], there[SAMPLE];
	int r = h->ops->read(h->driver, p->where.offset + offset, here, SAMPLE);

	if (r < 0)
		return r;
	if (!p->copies)
		return memcmp(here, zeros, SAMPLE) == 0;
	r = h->ops->read(h->driver, p->from + offset, there, SAMPLE);
	return r < 0 ? r : memcmp(here, there, SAMPLE) == 0;
}

/* Verifies the beginning, the end, and a random place in each granule. */
static int verify(struct gpu_memory *h)
{
	uint64_t size = h->piece.where.size, at;
	uint64_t random = h->piece.where.offset ^ h->piece.began;
	int r = verify_at(h, 0);

	if (r == 1)
		r = verify_at(h, size - SAMPLE);
	for (at = 0; at + h->granule <= size && r == 1; at += h->granule) {
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		r = verify_at(h, at + (random >> 16) % (h->granule - SAMPLE) / 64 * 64);
	}
	return r;
}

/* Reports the clear or copy under way if it is over. Negative: the GPU is lost. */
static int finish_piece(struct gpu_memory *h, vgpu_nsec now)
{
	struct gpu_memory_piece *p = &h->piece;
	bool failed = false;
	/* A GPU without that face has no memory managed by vgpud, so nothing is ever cleared or
	 * copied. */
	int r = h->ops ? h->ops->busy(h->driver, &failed) : 0;

	if (r > 0)
		p->look_at = now + NEXT_LOOK;
	if (r != 0)
		return r < 0 ? r : 0;
	r = failed ? 0 : 1;
	if (p->ours && !failed)
		r = verify(h);
	if (r < 0)
		return r;
	p->at_work = false;
	step(h, (struct vgpu_memory_event){.now = now,
					   .type = VGPU_ME_DONE,
					   .value = r == 1 ? 0 : -EIO});
	return 0;
}

int gpu_memory_run(struct gpu_memory *h, vgpu_nsec now)
{
	enum vgpu_memory_attention attention = vgpu_memory_attention(h->state);
	bool piece_is_due = h->piece.at_work && now >= h->piece.look_at;
	uint32_t i;
	int r = 0;

	if (h->late && attention != VGPU_MEMORY_ASLEEP &&
	    (attention == VGPU_MEMORY_WAITS || now >= gpu_memory_deadline(h)))
		gpu_memory_report(h, now);
	for (i = 0; i < h->n_vfs && h->lost == 0; i++)
		for (; h->scrubs[i]; h->scrubs[i]--)
			step(h, (struct vgpu_memory_event){.now = now,
							   .type = VGPU_ME_SCRUB,
							   .vf = i});
	if (piece_is_due && h->lost == 0)
		r = finish_piece(h, now);
	if (r == 0 && h->lost == 0 && now >= vgpu_memory_deadline(h->state))
		step(h, (struct vgpu_memory_event){.now = now, .type = VGPU_ME_TIMER});
	if (r != 0)
		return r;
	return h->lost;
}

vgpu_nsec gpu_memory_deadline(const struct gpu_memory *h)
{
	enum vgpu_memory_attention attention = vgpu_memory_attention(h->state);
	vgpu_nsec t = vgpu_memory_deadline(h->state);
	uint32_t i;

	for (i = 0; i < h->n_vfs; i++)
		if (h->scrubs[i])
			return 0;
	if (h->piece.at_work && h->piece.look_at < t)
		t = h->piece.look_at;
	if (!h->late || attention == VGPU_MEMORY_ASLEEP)
		return t;
	if (attention == VGPU_MEMORY_WAITS)
		return 0;
	return h->tell_at < t ? h->tell_at : t;
}
