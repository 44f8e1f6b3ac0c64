/* SPDX-License-Identifier: MIT */
/*
 * A VF that several processes of a machine have. Its window is divided:
 *
 *   0        the VF's ring and fence, by which the slots are made
 *   128 KiB  struct shared_page
 *   1 MiB    a part for each slot: its ring, and what guest_memory() gives
 *
 * Lock 0 protects beginning, ending and cleaning up slots; lock 1 + N belongs to slot N, and its
 * holder is alive. So a process may be killed at any instant: what it has left is found by its
 * slot's number, by the next process that begins or needs memory. The first process brings the VF
 * up and the last brings it down.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "guest_private.h"
#include "slot.h"
#include "vgpu/clock.h"

#define PAGE_AT (UINT64_C(128) << 10)
#define MAGIC 0x746f6c7355504756u
#define VERSION 1u
#define PIECE_LEAST (UINT64_C(2) << 20)
/* A slot's part of the window: what a program needs at least. */
#define PART_LEAST (UINT64_C(4) << 20)
#define LOCK_BEGIN 0u
#define LOCK_OF(slot) (1u + (slot))
#define LOOK_EVERY (100 * VGPU_MSEC)
#define NAP_NS 200000

struct shared_page {
	_Atomic uint64_t magic; /* written last */
	_Atomic uint64_t epoch;
	_Atomic uint32_t version, slots;
	_Atomic uint64_t part; /* bytes of the window that a slot has */
	_Atomic uint32_t n_pieces;
	_Atomic uint64_t piece;			  /* bytes */
	_Atomic uint32_t used[SOFTGPU_MAX_SLOTS]; /* something may be left of a process */
	_Atomic uint32_t n_events; /* 0 if a library without events has brought the VF up */
	_Atomic uint32_t n_common; /* likewise, of common memory */
	_Atomic uint32_t common_end;
	_Alignas(4096) struct softgpu_slot slot[SOFTGPU_MAX_SLOTS];
	_Alignas(4096) _Atomic uint32_t owners[PIECES_MOST];
	_Alignas(4096) struct shared_event events[EVENTS_MOST];
	_Alignas(4096) struct shared_common commons[COMMON_MOST];
};
_Static_assert(GUEST_WINDOW_OF_TWO == FREE_AT + 2 * PART_LEAST, "a part for each");
_Static_assert(PAGE_AT + sizeof(struct shared_page) <= FREE_AT, "it lies before the parts");

/* Takes or releases lock N. If no other process can have the VF, every lock is free. */
static int lock(struct guest *g, uint32_t n, bool on)
{
	return g->share.alone ? 0 : vfio_lock(g->device, n, on);
}

static void nap(void)
{
	const struct timespec pause = {0, NAP_NS};

	nanosleep(&pause, NULL);
}

/* Takes the lock N by DEADLINE. Returns 0; -EBUSY: another process has it; or another -errno. */
static int take_lock(struct guest *g, uint32_t n, vgpu_nsec deadline)
{
	int r = lock(g, n, true);

	while (r == -EAGAIN && vgpu_now() < deadline) {
		nap();
		r = lock(g, n, true);
	}
	return r == -EAGAIN ? -EBUSY : r;
}

/* Takes a slot that is free. *OTHERS: how many are not. Returns 0; -EBUSY: there is none; or
 * another -errno. */
static int take_slot(struct guest *g, uint32_t *others)
{
	uint32_t i, got = SOFTGPU_MAX_SLOTS;
	int r;

	*others = 0;
	for (i = 0; i < SOFTGPU_MAX_SLOTS; i++) {
		r = lock(g, LOCK_OF(i), true);
		if (r < 0 && r != -EAGAIN)
			return r;
		*others += r < 0;
		if (r == 0 && got < SOFTGPU_MAX_SLOTS)
			lock(g, LOCK_OF(i), false);
		else if (r == 0)
			got = i;
	}
	g->share.own = got;
	return got < SOFTGPU_MAX_SLOTS ? 0 : -EBUSY;
}

bool share_is_valid(const struct guest *g)
{
	return g->share.slots == 0 || atomic_load(&g->share.page->epoch) == g->share.epoch;
}

static struct softgpu_slot *slot_of(const struct guest *g, uint32_t slot)
{
	return &g->share.page->slot[slot];
}

enum softgpu_error share_error(const struct guest *g)
{
	return g->share.open ? (enum softgpu_error)__atomic_load_n(&slot_of(g, g->share.own)->error,
								   __ATOMIC_ACQUIRE)
			     : SOFTGPU_OK;
}

static int ring_slots(struct guest *g)
{
	const uint64_t any = 1;

	return vfio_write(g->device, VFIO_REGION_BAR2, SOFTGPU_SLOT_DOORBELL, &any, sizeof(any));
}

bool guest_show(struct guest *g)
{
	return g->share.slots > 0 && slot_show(slot_of(g, g->share.own), g->wptr);
}

int share_ring(struct guest *g)
{
	return guest_show(g) ? 0 : ring_slots(g);
}

/* Asks the host for ASKED, and waits until it has answered. Returns 0; -ETIMEDOUT; or as
 * guest_check(). */
static int ask_for_slot(struct guest *g, uint32_t slot, uint64_t asked, vgpu_nsec deadline)
{
	struct softgpu_slot *s = slot_of(g, slot);
	vgpu_nsec looked = vgpu_now(), now;
	int r;

	__atomic_store_n(&s->asked, asked, __ATOMIC_RELEASE);
	r = ring_slots(g);
	while (r == 0 && __atomic_load_n(&s->answered, __ATOMIC_ACQUIRE) != asked) {
		now = vgpu_now();
		if (now - looked >= LOOK_EVERY || now >= deadline) {
			looked = now;
			r = guest_check(g);
		}
		if (r == 0 && now >= deadline)
			return -ETIMEDOUT;
		nap();
	}
	return r;
}

/* A slot's words may have any value. */
uint64_t share_number(struct guest *g)
{
	vgpu_nsec now = vgpu_now();

	g->share.asked = now > g->share.asked ? now : g->share.asked + 1;
	return g->share.asked;
}

/* Closes the slot of a process that has ended, whatever its state: without packets, a slot is not
 * open, and a new number is always answered. */
static int close_slot(struct guest *g, uint32_t slot, vgpu_nsec deadline)
{
	int r;

	events_end_all(g, slot);
	__atomic_store_n(&slot_of(g, slot)->packets, 0, __ATOMIC_RELAXED);
	r = ask_for_slot(g, slot, share_number(g), deadline);
	if (r == 0)
		common_drop_all(g, slot);
	return r;
}

static uint64_t part_at(const struct guest *g, uint32_t slot)
{
	return FREE_AT + slot * g->share.part;
}

/* Opens this process's slot, after it has been closed for the process that had it before. */
static int open_slot(struct guest *g, vgpu_nsec deadline)
{
	struct softgpu_slot *s = slot_of(g, g->share.own);
	int r;

	atomic_store(&g->share.page->used[g->share.own], 1);
	r = close_slot(g, g->share.own, deadline);
	if (r < 0)
		return r;
	g->ring = g->memory + part_at(g, g->share.own);
	g->reached = &s->fence;
	g->wptr = g->fence = 0;
	/* What that process has left; nothing of it runs any more. */
	memset(g->ring, 0, g->share.part);
	__atomic_store_n(&s->ring, part_at(g, g->share.own), __ATOMIC_RELAXED);
	__atomic_store_n(&s->packets, RING_PACKETS, __ATOMIC_RELAXED);
	__atomic_store_n(&s->wptr, 0, __ATOMIC_RELAXED);
	g->share.opened = share_number(g);
	r = ask_for_slot(g, g->share.own, g->share.opened, deadline);
	g->share.open = r == 0;
	return r == 0 && share_error(g) != SOFTGPU_OK ? -EIO : r;
}

static void put_packet(struct guest *g, uint32_t opcode, uint64_t a, uint64_t b)
{
	const struct softgpu_packet p = {.opcode = opcode, .arg = {a, b}};

	guest_put(g, &p);
}

/* Makes the slots of a VF that this process has just brought up, and clears its memory unless a
 * reset has done so. */
static int make_slots(struct guest *g, vgpu_nsec deadline)
{
	struct shared_page *page = g->share.page;
	uint64_t behind = g->partition > g->size ? g->partition - g->size : 0;
	uint64_t most = (g->size - FREE_AT) / PART_LEAST, bytes = PIECE_LEAST, fence;
	vgpu_nsec now = vgpu_now();

	if (most == 0)
		return -ENOSPC;
	while (behind / bytes > PIECES_MOST)
		bytes *= 2;
	atomic_store(&page->magic, 0);
	memset(page, 0, sizeof(*page));
	if (most > SOFTGPU_MAX_SLOTS)
		most = SOFTGPU_MAX_SLOTS;
	if (g->share.alone)
		most = 1;
	atomic_store(&page->version, VERSION);
	atomic_store(&page->slots, (uint32_t)most);
	atomic_store(&page->part, (g->size - FREE_AT) / most / 4096 * 4096);
	atomic_store(&page->n_pieces, (uint32_t)(behind / bytes));
	atomic_store(&page->piece, bytes);
	atomic_store(&page->n_events, g->share.alone ? 0 : EVENTS_MOST);
	atomic_store(&page->n_common, g->share.alone ? 0 : COMMON_MOST);
	/* What earlier programs have left: opening the VF has not reset it. */
	if (!g->share.alone) {
		memset(g->memory + FREE_AT, 0, g->size - FREE_AT);
		put_packet(g, SOFTGPU_FILL, g->size, behind / 4 * 4);
	}
	put_packet(g, SOFTGPU_SLOTS, PAGE_AT + offsetof(struct shared_page, slot), most);
	fence = guest_put_fence(g);
	guest_ring(g);
	if (guest_wait(g, fence, deadline > now ? deadline - now : 0) < 0)
		return -ETIMEDOUT;
	atomic_store(&page->epoch, now);
	atomic_store(&page->magic, MAGIC);
	return 0;
}

/* Reads the header once, and checks it: any process of the VF can write there. Returns whether it
 * is valid; *SLOTS is the number of slots then. */
static bool read_page(struct guest *g, uint32_t *slots)
{
	struct shared_page *page = g->share.page;
	struct share *s = &g->share;

	if (atomic_load(&page->magic) != MAGIC || atomic_load(&page->version) != VERSION)
		return false;
	*slots = atomic_load(&page->slots);
	s->epoch = atomic_load(&page->epoch);
	s->part = atomic_load(&page->part);
	s->n_pieces = atomic_load(&page->n_pieces);
	s->piece = atomic_load(&page->piece);
	s->n_events = atomic_load(&page->n_events);
	s->events = page->events;
	s->n_common = atomic_load(&page->n_common);
	s->commons = page->commons;
	s->common_end = &page->common_end;
	return *slots > 0 && *slots <= SOFTGPU_MAX_SLOTS && s->part >= PART_LEAST &&
	       s->part % 4096 == 0 && s->part <= (g->size - FREE_AT) / *slots &&
	       s->n_pieces <= PIECES_MOST && s->n_events <= EVENTS_MOST &&
	       s->n_common <= COMMON_MOST && s->piece >= PIECE_LEAST &&
	       s->n_pieces <= (g->partition - g->size) / s->piece;
}

/* Brings the VF up, alone, or together with processes that have lost it. */
static int bring_up(struct guest *g, vgpu_nsec deadline, struct vgpu_error *err)
{
	vgpu_nsec now = vgpu_now();
	int r = guest_start(g, deadline > now ? deadline - now : 0, err);

	if (r < 0 || !(g->features & SOFTGPU_HAS_SLOTS))
		return r;
	g->share.page = (struct shared_page *)(g->memory + PAGE_AT);
	r = make_slots(g, deadline);
	return r < 0 ? vgpu_error_set(err, r, "the VF's slots cannot be made: %s", strerror(-r))
		     : 0;
}

static int join(struct guest *g, uint32_t others, vgpu_nsec deadline, struct vgpu_error *err)
{
	int r = others > 0 ? guest_look(g) : 0;
	bool away = r == -EAGAIN; /* the others have lost it */
	uint32_t slots = 0;

	if (r < 0 && !away)
		return vgpu_error_set(err, r, "the VF's memory: %s", strerror(-r));
	if (others > 0 && !away && !(g->features & SOFTGPU_HAS_SLOTS))
		return vgpu_error_set(err, -EBUSY,
				      "another program holds this VF, whose softgpu lets one "
				      "program have it at a time");
	g->share.page = (struct shared_page *)(g->memory + PAGE_AT);
	if (others == 0 || away || !read_page(g, &slots) || guest_check(g) < 0)
		r = bring_up(g, deadline, err);
	if (r < 0 || !(g->features & SOFTGPU_HAS_SLOTS))
		return r;
	if (!read_page(g, &slots))
		return vgpu_error_set(err, -EIO, "another program has damaged the VF's window");
	if (g->share.own >= slots)
		return vgpu_error_set(err, -EBUSY, "%u programs hold this VF, and no more may",
				      others);
	g->share.slots = slots;
	r = open_slot(g, deadline);
	return r < 0 ? vgpu_error_set(err, r, "a slot of the VF cannot be opened: %s", strerror(-r))
		     : 0;
}

int share_bring_up(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err)
{
	vgpu_nsec deadline = vgpu_now() + timeout;
	uint32_t others;
	int r = take_lock(g, LOCK_BEGIN, deadline);

	if (r < 0)
		return vgpu_error_set(err, r,
				      "another program begins or ends, and does not finish");
	r = take_slot(g, &others);
	if (r < 0)
		vgpu_error_set(err, r, "%u programs hold this VF, and no more may", others);
	else
		r = join(g, others, deadline, err);
	if (r < 0 && g->share.own < SOFTGPU_MAX_SLOTS)
		lock(g, LOCK_OF(g->share.own), false);
	lock(g, LOCK_BEGIN, false);
	g->up = r == 0;
	return r;
}

static bool has_pieces(const struct guest *g, uint32_t slot)
{
	uint32_t i;

	for (i = 0; i < g->share.n_pieces; i++)
		if ((atomic_load(&g->share.page->owners[i]) & ~GUEST_PIECE_FREE) == 1 + slot)
			return true;
	return false;
}

int share_bring_down(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err)
{
	vgpu_nsec deadline = vgpu_now() + timeout, now;
	uint32_t i, others = 0;
	int r = take_lock(g, LOCK_BEGIN, deadline);

	g->up = false;
	if (r < 0)
		return vgpu_error_set(err, r,
				      "another program begins or ends, and does not finish");
	for (i = 0; i < SOFTGPU_MAX_SLOTS && others == 0; i++) {
		if (i == g->share.own)
			continue;
		if (lock(g, LOCK_OF(i), true) < 0)
			others++;
		else
			lock(g, LOCK_OF(i), false);
	}
	now = vgpu_now();
	if (others > 0) {
		events_end_all(g, g->share.own);
		r = ask_for_slot(g, g->share.own, 0, deadline);
		if (r == 0)
			common_drop_all(g, g->share.own);
		if (r == 0 && !has_pieces(g, g->share.own))
			atomic_store(&g->share.page->used[g->share.own], 0);
	} else {
		if (g->share.slots > 0)
			atomic_store(&g->share.page->magic, 0);
		r = guest_stop(g, deadline > now ? deadline - now : 0, err);
	}
	lock(g, LOCK_OF(g->share.own), false);
	lock(g, LOCK_BEGIN, false);
	return r;
}

void *share_memory(struct guest *g, uint64_t *offset, uint64_t *size)
{
	*offset = part_at(g, g->share.own) + RING_PACKETS * sizeof(struct softgpu_packet);
	*size = g->share.part - RING_PACKETS * sizeof(struct softgpu_packet);
	return g->memory + *offset;
}

uint32_t guest_slots(struct guest *g)
{
	return g->share.alone ? 0 : g->share.slots;
}

uint32_t guest_slot(struct guest *g)
{
	return g->share.own;
}

_Atomic uint32_t *guest_pieces(struct guest *g, uint32_t *n, uint64_t *bytes)
{
	*n = g->share.n_pieces;
	*bytes = g->share.piece;
	return share_owners(g);
}

/* Memory of a device that is gone reads as all ones: guest_check() says so. */
bool guest_fence_reached(struct guest *g, const struct guest_fence *fence)
{
	const struct softgpu_slot *s = slot_of(g, fence->slot);
	uint64_t answered = __atomic_load_n(&s->answered, __ATOMIC_ACQUIRE);
	uint64_t at = __atomic_load_n(&s->fence, __ATOMIC_ACQUIRE);

	if (answered == UINT64_MAX || at == UINT64_MAX)
		return false;
	return answered != fence->asked || at >= fence->value ||
	       __atomic_load_n(&s->error, __ATOMIC_ACQUIRE) != SOFTGPU_OK;
}

static bool reached(struct guest *g, const void *fence)
{
	return guest_fence_reached(g, fence);
}

int guest_fence_wait(struct guest *g, const struct guest_fence *fence, vgpu_nsec timeout)
{
	return wait_by_naps(g, reached, fence, vgpu_now() + timeout);
}

_Atomic uint32_t *share_owners(const struct guest *g)
{
	return g->share.page->owners;
}

int share_take_begin(struct guest *g, vgpu_nsec deadline)
{
	return take_lock(g, LOCK_BEGIN, deadline);
}

bool guest_begin_care(struct guest *g)
{
	return lock(g, LOCK_BEGIN, true) == 0;
}

void guest_end_care(struct guest *g)
{
	lock(g, LOCK_BEGIN, false);
}

bool guest_take_over(struct guest *g, uint32_t slot, vgpu_nsec timeout)
{
	if (lock(g, LOCK_OF(slot), true) < 0)
		return false;
	if ((atomic_load(&g->share.page->used[slot]) || has_pieces(g, slot)) &&
	    close_slot(g, slot, vgpu_now() + timeout) == 0)
		return true;
	lock(g, LOCK_OF(slot), false);
	return false;
}

void guest_let_go(struct guest *g, uint32_t slot, bool clean)
{
	if (clean)
		atomic_store(&g->share.page->used[slot], 0);
	lock(g, LOCK_OF(slot), false);
}
