/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "guest.h"
#include "cuda_vf.h"
#include "vgpu/clock.h"

#define UP_TIMEOUT (60 * VGPU_SEC)
/* vgpud lets a VF be brought up or down ten times a second: a VF that it refuses for longer is
 * quarantined, or could not be cleared. */
#define REFUSED_MOST (2 * VGPU_SEC)
#define REFUSED_PAUSE (100 * VGPU_MSEC)
#define DOWN_TIMEOUT (5 * VGPU_SEC)
#define WAIT_STEP VGPU_SEC
/* How often a polling program checks whether its VF still exists. */
#define LOOK_EVERY (100 * VGPU_MSEC)
/* PACKETS_MOST: number of packets, of the ring's 1024, after which the library waits for all.
 * LAUNCH_ROOM: bytes of the window for names and arguments of launches. */
#define PACKETS_MOST 900u
/* Number of packets for which link_stage() and link_launch() leave room in the ring, so that the
 * packets that use the given memory can be put before it is given out again. */
#define PACKETS_KEPT LINK_BATCH
#define LAUNCH_ROOM (256u * LINK_LAUNCH_BYTES)
#define ALIGN 4096u
#define STRUCTURE_BYTES 4096u
#define STAGE_LEAST (UINT64_C(1) << 20)
/* Number of packets that may wait for a doorbell. With more, the doorbell is rung at once, so that
 * the VF works while the program makes further packets. */
#define UNRUNG_MOST 64u

_Static_assert(sizeof(struct softgpu_function) <= STRUCTURE_BYTES &&
		       sizeof(struct softgpu_about) <= STRUCTURE_BYTES &&
		       sizeof(struct softgpu_launch) + SOFTGPU_MAX_LAUNCH_BYTES <=
			       LINK_LAUNCH_BYTES,
	       "the parts of the window");

struct link_parts link_parts;
struct softgpu_about link_about;
struct softgpu_arena link_arena;

static struct guest *guest;
static CUresult lost;
static uint64_t packets; /* number of packets put since the ring was last empty */
static uint64_t done;	 /* number of packets put before those; they have ended */
static bool held;	 /* link_ring() does nothing */
static bool prints;	 /* a module of this process may print */
static bool shared;	 /* other processes can use the VF, too */
static vgpu_nsec looked, cared;
static uint64_t unrung; /* number of packets put since the last doorbell */
static vgpu_nsec rung_at;
static uint8_t *launch_memory, *stage_memory;
static uint64_t launch_at, launch_used, stage_at, stage_all, stage_size, stage_used;

/* Divides the part of the window that the library may use. Returns whether that is large enough. */
static bool divide(void)
{
	struct link_parts *p = &link_parts;
	uint64_t at, size, used = 0;
	uint8_t *memory = guest_memory(guest, &at, &size);
	const uint64_t sizes[] = {ALIGN,
				  STRUCTURE_BYTES,
				  LINK_LOG,
				  LINK_TIMES * sizeof(*p->times),
				  sizeof(*p->output),
				  LAUNCH_ROOM};
	uint64_t begins[6];
	uint32_t i;

	for (i = 0; i < 6; i++) {
		begins[i] = used;
		used += sizes[i];
	}
	if (size < used + STAGE_LEAST)
		return false;
	p->launch_report = (uint64_t *)memory;
	p->load_report = p->launch_report + 1;
	p->launch_report_at = at;
	p->load_report_at = at + sizeof(uint64_t);
	p->structure = memory + begins[1];
	p->structure_at = at + begins[1];
	p->log = (char *)memory + begins[2];
	p->log_at = at + begins[2];
	p->times = (uint64_t *)(memory + begins[3]);
	p->times_at = at + begins[3];
	p->output = (struct softgpu_output *)(memory + begins[4]);
	p->output_at = at + begins[4];
	p->output->bytes = p->output->prints = 0;
	p->output->left = 0;
	launch_memory = memory + begins[5];
	launch_at = at + begins[5];
	stage_memory = memory + used;
	stage_at = at + used;
	stage_all = stage_size = (size - used) / ALIGN * ALIGN;
	memset(memory, 0, sizes[0]);
	shared = guest_slots(guest) > 1;
	guest_device_memory(guest, &p->memory_at, &p->memory_size);
	if (guest_slots(guest) > 0) {
		guest_pieces(guest, &i, &size);
		p->memory_size = i * size;
	}
	return true;
}

/* Clears the memory that an earlier program of this machine has used in the VF. */
static CUresult clear(void)
{
	uint64_t at, size;
	CUresult e;

	guest_memory(guest, &at, &size);
	e = link_put(SOFTGPU_FILL, 0, (uint64_t[7]){at, size / 4 * 4});
	if (e == CUDA_SUCCESS)
		e = link_put(SOFTGPU_FILL, 0,
			     (uint64_t[7]){link_parts.memory_at, link_parts.memory_size / 4 * 4});
	return e == CUDA_SUCCESS ? link_wait() : e;
}

/* Asks the VF for the addresses at which this process can map memory. An arena that this library
 * cannot use counts as none. */
static CUresult ask_arena(void)
{
	const uint64_t arg[7] = {0, link_parts.structure_at, sizeof(link_arena)};
	struct softgpu_arena a;
	CUresult e;

	link_arena = (struct softgpu_arena){0};
	if (!guest_has_arena(guest))
		return CUDA_SUCCESS;
	e = link_put(SOFTGPU_ARENA, 0, arg);
	if (e == CUDA_SUCCESS)
		e = link_wait();
	if (e != CUDA_SUCCESS)
		return e;
	memcpy(&a, link_parts.structure, sizeof(a));
	if (a.granule >= ALIGN && (a.granule & (a.granule - 1)) == 0 &&
	    (a.at | a.offset | a.bytes) % a.granule == 0)
		link_arena = a;
	return CUDA_SUCCESS;
}

/* Unloads modules that an earlier program has left on this VF, and asks on which GPU the VF
 * computes. */
static CUresult bring_up(struct vgpu_error *err)
{
	const uint64_t arg[7] = {0, link_parts.structure_at, sizeof(link_about)};
	CUresult e = guest_is_fresh(guest) ? CUDA_SUCCESS : clear();
	const uint64_t n = guest_has_many_modules(guest) ? 1 : SOFTGPU_HAD_MAX_MODULES;
	uint64_t i;

	for (i = 0; i < n && e == CUDA_SUCCESS; i++)
		e = link_put(SOFTGPU_MODULE_UNLOAD, SOFTGPU_MODULE_ALL, (uint64_t[7]){i});
	if (e == CUDA_SUCCESS)
		e = link_put(SOFTGPU_ABOUT, 0, arg);
	if (e == CUDA_SUCCESS)
		e = link_wait();
	if (e == CUDA_SUCCESS)
		memcpy(&link_about, link_parts.structure, sizeof(link_about));
	if (e == CUDA_SUCCESS)
		e = ask_arena();
	if (e == CUDA_SUCCESS)
		e = pieces_begin(guest);
	if (e != CUDA_SUCCESS) {
		vgpu_error_set(err, -EIO, "the VF does not report its GPU");
		return e;
	}
	link_about.name[sizeof(link_about.name) - 1] = 0;
	if (link_about.memory_at % ALIGN || link_parts.memory_at % ALIGN) {
		vgpu_error_set(err, -EIO,
			       "the VF's device memory does not begin at a page: start softgpu "
			       "with another --window");
		return CUDA_ERROR_NO_DEVICE;
	}
	pieces_care(guest);
	return CUDA_SUCCESS;
}

/* Opens the VF and brings it up once. Sets *REFUSED to whether the host refused its window. */
static CUresult try_up(const char *name, bool *refused, struct vgpu_error *err)
{
	int r = guest_open(&guest, name, err);

	*refused = false;
	if (r < 0)
		return r == -EBUSY ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_ERROR_NO_DEVICE;
	guest_use_slot(guest);
	lost = CUDA_SUCCESS;
	packets = launch_used = stage_used = done = unrung = 0;
	rung_at = 0;
	prints = false;
	r = guest_bring_up(guest, UP_TIMEOUT, err);
	if (r == 0)
		return CUDA_SUCCESS;
	*refused = r == -EACCES;
	link_abandon();
	return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

/* Brings the VF up. While the host refuses, as it does after many programs in a row, tries again
 * for up to REFUSED_MOST. */
static CUresult wait_up(const char *name, struct vgpu_error *err)
{
	const struct timespec pause = {.tv_nsec = (long)REFUSED_PAUSE};
	vgpu_nsec until = VGPU_NEVER;
	bool refused;
	CUresult e;

	while ((e = try_up(name, &refused, err)) != CUDA_SUCCESS && refused && vgpu_now() < until) {
		if (until == VGPU_NEVER)
			until = vgpu_now() + REFUSED_MOST;
		nanosleep(&pause, NULL);
	}
	return e;
}

CUresult link_up(const char *name, struct vgpu_error *err)
{
	CUresult e = wait_up(name, err);

	if (e != CUDA_SUCCESS)
		return e;
	e = CUDA_ERROR_NO_DEVICE;
	if (guest_has_old_modules(guest))
		vgpu_error_set(err, -EOPNOTSUPP,
			       "the softgpu of this VF is older than this library: update it");
	else if (!guest_has_modules(guest))
		vgpu_error_set(err, -EOPNOTSUPP,
			       "this VF runs no GPU kernels: start softgpu with --engine cuda");
	else if (!divide())
		vgpu_error_set(err, -ENOSPC,
			       "the VF's window is too small: start softgpu with a larger "
			       "--window");
	else if (link_parts.memory_size == 0)
		vgpu_error_set(err, -ENOSPC,
			       "the VF has no memory behind its window: give it more, or start "
			       "softgpu with a smaller --window");
	else
		e = bring_up(err);
	if (e != CUDA_SUCCESS)
		link_down();
	return e;
}

/* Waits until all packets have ended, but at most TIMEOUT, ns. Returns 0 or -errno. */
static int wait_most(vgpu_nsec timeout)
{
	uint64_t fence = guest_put_fence(guest);
	int r = guest_ring(guest);

	return r == 0 ? guest_wait(guest, fence, timeout) : r;
}

/* Frees what this process uses on the VF. After DOWN_TIMEOUT it leaves the rest to the next
 * process. */
static void give_back(void)
{
	if (guest_slots(guest) > 0 && wait_most(DOWN_TIMEOUT) == 0)
		pieces_end(guest);
}

void link_down(void)
{
	struct vgpu_error err;

	if (guest && lost == CUDA_SUCCESS) {
		give_back();
		guest_bring_down(guest, DOWN_TIMEOUT, &err);
	}
	link_abandon();
}

void link_leave(void)
{
	struct vgpu_error err;

	if (lost == CUDA_SUCCESS) {
		give_back();
		mmap(stage_memory, stage_all, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		guest_bring_down(guest, DOWN_TIMEOUT, &err);
	}
	lost = CUDA_ERROR_NOT_INITIALIZED;
}

bool link_care(void)
{
	return lost == CUDA_SUCCESS && pieces_care(guest);
}

void link_settle(void)
{
	if (lost == CUDA_SUCCESS && pieces_are_idle())
		link_drain();
}

void link_abandon(void)
{
	if (guest)
		guest_close(guest);
	guest = NULL;
	unrung = 0;
	lost = CUDA_ERROR_NOT_INITIALIZED; /* another thread may be in a function of the program */
}

CUresult link_lost(void)
{
	return lost;
}

static CUresult error_of_fault(enum softgpu_error fault)
{
	switch (fault) {
	case SOFTGPU_BAD_ADDRESS:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case SOFTGPU_ASSERTED:
		return CUDA_ERROR_ASSERT;
	default:
		return CUDA_ERROR_LAUNCH_FAILED;
	}
}

/* Notes that the VF is lost: sets the error that all calls return from now on, and returns it. R:
 * the error of guest.h. */
static CUresult lose(int r)
{
	if (r == -EIO)
		lost = CUDA_ERROR_UNKNOWN;
	else
		lost = error_of_fault(guest_fault(guest));
	if (lost == CUDA_ERROR_ASSERT)
		output_words(guest);
	edges_end(); /* the window's contents are no longer the program's data */
	return lost;
}

/* Returns the error of a launch that the host has refused, once; CUDA_SUCCESS: none was refused. */
static CUresult take_report(void)
{
	uint64_t error = __atomic_exchange_n(link_parts.launch_report, 0, __ATOMIC_ACQ_REL);

	if (error == SOFTGPU_OK)
		return CUDA_SUCCESS;
	log_line("the host has refused a launch, which needs more local memory than is left of "
		 "softgpu's --module-memory, or more registers or shared memory than there are");
	return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

/* Must be called when all packets before a fence have ended. Returns the error of a refused
 * launch. */
static CUresult reach(void)
{
	edges_done(false);
	return take_report();
}

CUresult link_put(uint32_t opcode, uint32_t flags, const uint64_t arg[7])
{
	struct softgpu_packet p = {.opcode = opcode, .flags = flags};
	CUresult e = lost;

	if (e == CUDA_SUCCESS && packets >= PACKETS_MOST)
		e = link_drain();
	if (e != CUDA_SUCCESS)
		return e;
	edges_put();
	memcpy(p.arg, arg, sizeof(p.arg));
	guest_put(guest, &p);
	packets++;
	unrung++;
	return CUDA_SUCCESS;
}

/* Publishes the packets in the ring if the host polls for them. Returns whether it polls. */
static bool shown(void)
{
	if (!guest_show(guest))
		return false;
	unrung = 0;
	return true;
}

/* Rings the doorbell, for a host that does not poll. */
static CUresult ring(void)
{
	int r = guest_ring(guest);

	unrung = 0;
	rung_at = vgpu_now();
	return r < 0 ? lose(r) : CUDA_SUCCESS;
}

CUresult link_ring(void)
{
	if (lost != CUDA_SUCCESS || held)
		return lost;
	if (shown() ||
	    (unrung < UNRUNG_MOST && vgpu_now() - rung_at < LINK_RING_EVERY && flush_later()))
		return CUDA_SUCCESS;
	return ring();
}

void link_flush(void)
{
	if (unrung > 0 && lost == CUDA_SUCCESS && !shown())
		ring();
}

bool link_hold(bool hold)
{
	bool was = held;

	held = hold;
	return was;
}

static CUresult put_fence(uint64_t *fence, uint64_t (*put)(struct guest *g))
{
	CUresult e = lost;

	if (e == CUDA_SUCCESS && packets >= PACKETS_MOST)
		e = link_drain();
	if (e != CUDA_SUCCESS)
		return e;
	*fence = put(guest);
	packets++;
	unrung++;
	return link_ring();
}

bool link_has_output(void)
{
	return guest_has_output(guest);
}

void link_may_print(void)
{
	prints = link_has_output();
}

/* If a module may print, puts a packet that asks for what GPU kernels have printed so far. The next
 * fence comes after the answer. */
static void ask_output(void)
{
	struct softgpu_packet p = {
		.opcode = SOFTGPU_OUTPUT,
		.arg = {0, link_parts.output_at, sizeof(*link_parts.output)},
	};

	if (!prints)
		return;
	guest_put(guest, &p);
	packets++;
	unrung++;
}

/* Takes the answer to ask_output(), which output_write() writes. Returns whether the host has more
 * text. */
static bool take_output(void)
{
	bool more = prints && output_take(link_parts.output);

	prints = prints && (more || link_parts.output->prints);
	return more;
}

CUresult link_fence(uint64_t *fence)
{
	if (lost == CUDA_SUCCESS)
		ask_output();
	return put_fence(fence, guest_put_fence);
}

CUresult link_mark(uint64_t *mark)
{
	return put_fence(mark, guest_put_mark);
}

/* Waits for FENCE without a limit, because GPU kernels may run for any time; meanwhile ends the
 * work of killed processes. Returns 0 or -errno. */
static int wait_long(uint64_t fence, int (*wait)(struct guest *g, uint64_t fence, vgpu_nsec))
{
	int r;

	while ((r = wait(guest, fence, WAIT_STEP)) == -ETIMEDOUT)
		pieces_stop_dead(guest);
	return r;
}

CUresult link_wait_for_mark(uint64_t mark)
{
	int r;

	link_flush();
	if (lost != CUDA_SUCCESS)
		return lost;
	r = wait_long(mark, guest_wait_mark);
	return r < 0 ? lose(r) : reach();
}

static CUresult drain(void)
{
	uint64_t fence;
	int r;

	if (lost != CUDA_SUCCESS)
		return lost;
	ask_output();
	fence = guest_put_fence(guest);
	if (!shown() && ring() != CUDA_SUCCESS)
		return lost;
	r = wait_long(fence, guest_wait);
	if (r < 0)
		return lose(r);
	done += packets;
	packets = launch_used = stage_used = 0;
	edges_done(true);
	pieces_give_back();
	return CUDA_SUCCESS;
}

CUresult link_drain(void)
{
	CUresult e = drain();

	while (e == CUDA_SUCCESS && take_output())
		e = drain();
	return e;
}

/* Must be called after waiting for a fence, with the result R of guest.h: takes what was printed
 * before the fence. Of several answers before the fence the first is in the window; the host has
 * the rest. */
static CUresult waited(int r)
{
	CUresult e = r < 0 ? lose(r) : CUDA_SUCCESS;

	if (e == CUDA_SUCCESS && take_output())
		e = link_drain();
	return e == CUDA_SUCCESS ? reach() : e;
}

CUresult link_wait_for(uint64_t fence)
{
	link_flush();
	return lost == CUDA_SUCCESS ? waited(wait_long(fence, guest_wait)) : lost;
}

CUresult link_show_printed(void)
{
	return prints ? link_drain() : lost;
}

CUresult link_wait(void)
{
	CUresult e = link_drain();

	return e == CUDA_SUCCESS ? take_report() : e;
}

/* Called while a program polls: checks every LOOK_EVERY whether the VF still exists, and every
 * WAIT_STEP ends the work of killed processes. */
static CUresult look(void)
{
	vgpu_nsec now = vgpu_now();
	int r;

	if (now - looked < LOOK_EVERY)
		return CUDA_SUCCESS;
	looked = now;
	r = guest_check(guest);
	if (r < 0)
		return lose(r);
	if (now - cared >= WAIT_STEP) {
		pieces_stop_dead(guest);
		cared = vgpu_now();
	}
	return CUDA_SUCCESS;
}

CUresult link_reached(uint64_t fence, bool *reached)
{
	link_flush();
	if (lost != CUDA_SUCCESS)
		return lost;
	*reached = guest_reached(guest, fence);
	return *reached ? reach() : look();
}

struct guest *link_guest(void)
{
	return guest;
}

/* A fence of this process needs no packet, because all packets that are put from now on come after
 * it. */
CUresult link_await(const struct guest_fence *fence)
{
	const uint64_t arg[7] = {fence->slot, fence->asked, fence->value};
	CUresult e;

	if (fence->slot == guest_slot(guest))
		return lost;
	e = link_put(SOFTGPU_AWAIT, 0, arg);
	return e == CUDA_SUCCESS ? link_ring() : e;
}

CUresult link_any_reached(const struct guest_fence *fence, bool *reached)
{
	link_flush();
	if (lost != CUDA_SUCCESS)
		return lost;
	*reached = guest_fence_reached(guest, fence);
	return *reached ? reach() : look();
}

CUresult link_wait_for_any(const struct guest_fence *fence)
{
	int r;

	link_flush();
	if (lost != CUDA_SUCCESS)
		return lost;
	while ((r = guest_fence_wait(guest, fence, WAIT_STEP)) == -ETIMEDOUT)
		pieces_stop_dead(guest);
	return waited(r);
}

uint64_t link_count(void)
{
	return done + packets;
}

uint64_t link_done(void)
{
	return done;
}

CUresult link_stage(uint64_t *bytes, uint8_t **memory, uint64_t *at)
{
	CUresult e;

	if (*bytes > stage_size)
		*bytes = stage_size;
	if (*bytes > stage_size - stage_used || packets >= PACKETS_MOST - PACKETS_KEPT ||
	    launch_used > LAUNCH_ROOM - PACKETS_KEPT * LINK_LAUNCH_BYTES) {
		e = link_drain();
		if (e != CUDA_SUCCESS)
			return e;
	}
	*memory = stage_memory + stage_used;
	*at = stage_at + stage_used;
	stage_used += (*bytes + 63) / 64 * 64;
	return lost;
}

uint64_t link_stage_size(void)
{
	return stage_size;
}

struct link_area link_stage_all(void)
{
	return (struct link_area){stage_memory, stage_at, stage_all};
}

bool link_is_shared(void)
{
	return shared;
}

bool link_window_is_unified(void)
{
	return link_about.window_at == (uintptr_t)stage_memory - stage_at;
}

CUresult link_stage_limit(uint64_t bytes)
{
	CUresult e = stage_used > bytes ? link_drain() : CUDA_SUCCESS;

	if (e == CUDA_SUCCESS)
		stage_size = bytes;
	return e;
}

CUresult link_launch(uint64_t bytes, uint8_t **memory, uint64_t *at)
{
	CUresult e = lost;

	if (e == CUDA_SUCCESS &&
	    (launch_used > LAUNCH_ROOM - LINK_LAUNCH_BYTES || packets >= PACKETS_MOST - 1))
		e = link_drain();
	if (e != CUDA_SUCCESS)
		return e;
	*memory = launch_memory + launch_used;
	*at = launch_at + launch_used;
	launch_used += (bytes + 63) / 64 * 64;
	return CUDA_SUCCESS;
}
