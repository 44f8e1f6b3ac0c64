/* SPDX-License-Identifier: MIT */
/*
 * A VF's ring and its packets, executed as a worker executes them, on a device of ring_device.c.
 * The input is the ring, packets, slots, bytes of the window, and what happens meanwhile: stops,
 * hard ones too, the guest's writes, doorbells, answers. It all happens in one thread, by a clock
 * that counts (ring_aside.c), so that an input always does the same.
 *
 * Whatever the input is, the ring writes only what a packet that it has checked allows, and what
 * fences, slots and reports are for; each run ends when it should, and the device rests then.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ring.h"
#include "ring_model.h"

/* What the ring may write: by a packet; or as a fence or an error, whose values are known. */
enum may { MAY_FENCE = 1, MAY_ERROR = 2, MAY_AWAKE = 4, MAY_ANYTHING = 15 };
#define MAY_ALL (UINT64_MAX / 255 * MAY_ANYTHING)
#define MOST_FENCES 64u
#define CHUNK 256u /* bytes that are compared at a time */

/* Moments after which a run is stopped, and stopped hard; and after so many stops what is left ends
 * at once, so that the input does, too. */
#define SLICE 100u
#define GRACE 40u
#define MOST_SLICES 3u
#define MOST_MOMENTS 5000u

static struct {
	struct ring *ring;
	struct worker_shared shared;
	struct worker_message run;
	int event_fd;
	int result_of_dma;
	uint32_t speed, pause; /* blocks of the device at a time, and moments between these times */
	bool slow;	       /* a module is compiled when the guest has written more */
	/* what happens */
	struct input script;
	uint32_t until; /* moments to the next event of the script */
	bool acts;	/* no moment: something is happening, or no run is being executed */
	uint32_t moments, slices, total;
	bool stopping, held, drains, drained;
	uint64_t reported; /* how far the run was when it was stopped hard */
	bool asks_for_dma, rang;
	struct worker_message dma;
	/* what must hold */
	uint8_t before[SIZE]; /* the partition, as the guest alone would have it */
	uint8_t may[SIZE];
	uint64_t fences[MOST_FENCES];
	uint32_t n_fences;
	uint64_t began, checked; /* the first packet's number; packets that have been checked */
	bool has_slots;
} w;

enum softgpu_error __real_packet_check(const struct packet_limits *l,
				       const struct softgpu_packet *p);
enum softgpu_error __wrap_packet_check(const struct packet_limits *l,
				       const struct softgpu_packet *p);

static void may(uint64_t at, uint64_t n, enum may what)
{
	HOLDS(at <= SIZE && n <= SIZE - at);
	for (; n > 0; n--, at++)
		w.may[at] |= (uint8_t)what;
}

void may_write(uint64_t offset, uint64_t n)
{
	uint64_t in;

	for (; offset >= SOFTGPU_ARENA_AT && n > 0; offset += in, n -= in) {
		in = GRANULE - offset % GRANULE < n ? GRANULE - offset % GRANULE : n;
		HOLDS(device_mapped(offset) < SIZE);
		may_write(device_mapped(offset), in);
	}
	if (n == 0)
		return;
	HOLDS(offset <= SIZE && n <= SIZE - offset);
	memset(w.may + offset, MAY_ANYTHING, n);
}

static void may_fence(uint64_t value)
{
	HOLDS(w.n_fences < MOST_FENCES);
	w.fences[w.n_fences++] = value;
}

/* Returns whether the first argument is where a packet writes, or maps. */
static bool writes_first(uint32_t opcode)
{
	return (opcode >= SOFTGPU_FILL && opcode <= SOFTGPU_MANDELBROT) ||
	       opcode == SOFTGPU_DMA_IN || opcode == SOFTGPU_UPLOAD || opcode == SOFTGPU_DOWNLOAD ||
	       opcode == SOFTGPU_MAP || opcode == SOFTGPU_UNMAP || opcode == SOFTGPU_COUNT;
}

/* Which argument of a packet is what it writes to, and how much that is. */
static void expect(const struct packet_limits *l, const struct softgpu_packet *p)
{
	const uint64_t *a = p->arg;
	uint64_t i, at;

	/* in the arena, a ring has a range of its own */
	if (a[0] >= SOFTGPU_ARENA_AT && writes_first(p->opcode))
		HOLDS(l->arena && a[0] >= l->arena_at &&
		      a[0] - l->arena_at <= l->granules * l->granule);
	switch (p->opcode) {
	case SOFTGPU_FILL:
		may_write(a[0], a[1]);
		break;
	case SOFTGPU_COPY:
	case SOFTGPU_UPLOAD:
	case SOFTGPU_DOWNLOAD:
	case SOFTGPU_DMA_IN:
		may_write(a[0], a[2]);
		break;
	case SOFTGPU_SAXPY:
		may_write(a[0], a[2] * 4);
		break;
	case SOFTGPU_GEMM:
		may_write(a[0], (a[3] >> 32) * (uint32_t)a[3] * 4);
		break;
	case SOFTGPU_MANDELBROT:
		may_write(a[0], (a[1] >> 32) * (uint32_t)a[1] * 4);
		break;
	case SOFTGPU_SHA256:
		may_write(a[0], 32);
		break;
	case SOFTGPU_EVENT:
	case SOFTGPU_COUNT:
		may_write(a[0], 8);
		break;
	case SOFTGPU_MODULE_LOAD:
		may_write(a[3], a[4]);
		break;
	case SOFTGPU_FUNCTION:
	case SOFTGPU_ABOUT:
	case SOFTGPU_SYMBOL:
	case SOFTGPU_OCCUPANCY:
	case SOFTGPU_ARENA:
	case SOFTGPU_OUTPUT:
		may_write(a[1], a[2]);
		break;
	case SOFTGPU_FENCE:
		may_fence(a[0]);
		break;
	case SOFTGPU_SLOTS:
		w.has_slots = true;
		for (i = 0, at = a[0]; i < a[1]; i++, at += sizeof(struct softgpu_slot)) {
			may_write(at + offsetof(struct softgpu_slot, answered), 8);
			may(at + offsetof(struct softgpu_slot, fence), 8, MAY_FENCE);
			may(at + offsetof(struct softgpu_slot, error), 8, MAY_ERROR);
			may(at + offsetof(struct softgpu_slot, awake), 8, MAY_AWAKE);
		}
		break;
	default:
		break;
	}
	if (p->flags & SOFTGPU_REPORT &&
	    (p->opcode == SOFTGPU_MODULE_LOAD || p->opcode == SOFTGPU_LAUNCH ||
	     p->opcode == SOFTGPU_SYMBOL_COPY || p->opcode == SOFTGPU_MAP))
		may(a[6], 8, MAY_ERROR);
}

/* The linker leads the ring's checks of packets here (--wrap). */
enum softgpu_error __wrap_packet_check(const struct packet_limits *l,
				       const struct softgpu_packet *p)
{
	enum softgpu_error e = __real_packet_check(l, p);

	w.checked++;
	if (e == SOFTGPU_OK && w.n_fences < MOST_FENCES)
		expect(l, p);
	return w.n_fences < MOST_FENCES ? e : SOFTGPU_BAD_OPCODE;
}

static uint64_t word_at(const uint8_t *bytes, uint64_t at)
{
	uint64_t v;

	memcpy(&v, bytes + at, sizeof(v));
	return v;
}

static bool is_fence(uint64_t v)
{
	uint32_t i;

	for (i = 0; i < w.n_fences && w.fences[i] != v; i++)
		;
	return i < w.n_fences || v == 0;
}

/* What is not what the guest had written at AT is what the ring may write there. Fences, errors and
 * whether a slot is awake have a word of their own. */
static void check_word(const uint8_t *part, uint64_t at, uint64_t base)
{
	uint64_t v = word_at(part, at), is = base + at, i;
	uint8_t may_be = w.may[is];

	if (v == word_at(w.before, is) || word_at(w.may, is) == MAY_ALL)
		return;
	for (i = 0; i < 8; i++) {
		HOLDS(part[at + i] == w.before[is + i] || w.may[is + i] != 0);
		may_be |= w.may[is + i];
	}
	HOLDS(may_be == MAY_ANYTHING || (may_be & MAY_FENCE && is_fence(v)) ||
	      (may_be & MAY_ERROR && v <= SOFTGPU_BAD_ADDRESS) || (may_be & MAY_AWAKE && v <= 1));
}

static void check_part(const uint8_t *part, uint64_t base, uint64_t size)
{
	uint64_t at, i;

	for (at = 0; at < size; at += CHUNK)
		if (memcmp(part + at, w.before + base + at, CHUNK) != 0)
			for (i = at; i < at + CHUNK; i += 8)
				check_word(part, i, base);
}

void guest_writes(uint64_t at, const void *bytes, uint64_t n)
{
	HOLDS(at <= WINDOW && n <= WINDOW - at);
	memcpy(model_window + at, bytes, n);
	memcpy(w.before + at, bytes, n);
}

static void guest_writes_word(uint64_t at, uint64_t v)
{
	guest_writes(at, &v, sizeof(v));
}

/* softgpu's side of the worker's messages. */
static void on_send(const struct worker_message *m)
{
	HOLDS(m->type == WORKER_FENCE || m->type == WORKER_DMA);
	if (m->type != WORKER_DMA)
		return;
	HOLDS(m->dma.at <= WINDOW && m->dma.bytes <= WINDOW - m->dma.at && !w.asks_for_dma);
	w.asks_for_dma = true;
	w.dma = *m;
	on_moment(false);
}

static void on_wake(void)
{
}

static void answer_dma(int result)
{
	if (w.asks_for_dma && !w.dma.dma.out && result == 0)
		memset(model_window + w.dma.dma.at, 0x5a, w.dma.dma.bytes);
	w.asks_for_dma = false;
	ring_dma_done(w.ring, result);
}

/* The worker's control thread: main.c does the same. */

static void stop(void)
{
	if (!w.stopping)
		ring_stop(w.ring);
	w.stopping = true;
}

static void stop_hard(void)
{
	struct worker_message m;

	if (!w.stopping || w.held)
		return;
	w.held = true;
	device_hold(true);
	if (ring_freeze(w.ring, SOFTGPU_PREEMPT_HARD, &m))
		HOLDS(m.ended.end == WORKER_STOPPED && m.ended.active);
	w.reported = m.ended.rptr;
}

/* The device memory is about to be swapped: the pieces in flight of a run that was stopped hard
 * end. */
static void drain(void)
{
	device_hold(false);
	w.held = w.drains = false;
	w.drained = true;
	w.moments = SLICE;
	ring_drain(w.ring);
}

/* A RUN may have another place for the fence. */
static void expect_fence(void)
{
	if (w.run.run.fence_at % 8 == 0 && w.run.run.fence_at <= WINDOW - 8)
		may(w.run.run.fence_at, 8, MAY_FENCE);
}

static void go_on(void)
{
	device_hold(false);
	w.held = w.stopping = w.drained = false;
	w.moments = 0;
	if (++w.slices >= MOST_SLICES) {
		device_hurry();
		w.speed = 64;
		w.pause = 0;
	}
	expect_fence();
	ring_run(w.ring, &w.run);
}

/* What the script has next. */
static void act(void)
{
	uint64_t kind = input_number(&w.script, 1), at;

	switch (kind % 8) {
	case 0:
		stop();
		break;
	case 1:
		stop();
		stop_hard();
		w.drains = kind & 8;
		break;
	case 2:
		at = input_number(&w.script, 2) % (WINDOW / 8) * 8;
		guest_writes_word(at, input_number(&w.script, kind & 8 ? 8 : 1));
		break;
	case 3:
		w.rang = true;
		atomic_fetch_add(&w.shared.wptr, kind >> 3);
		break;
	case 4:
		at = SLOTS + (kind >> 3 & 7) * sizeof(struct softgpu_slot);
		at += kind & 64 ? offsetof(struct softgpu_slot, wptr)
				: offsetof(struct softgpu_slot, asked);
		guest_writes_word(at, input_number(&w.script, 1));
		break;
	case 5:
		device_advance((uint32_t)kind >> 3);
		break;
	case 6:
		if (!aside_compile() && w.asks_for_dma)
			answer_dma(kind & 8 ? -EFAULT : 0);
		break;
	default:
		aside_later(kind << 14);
		if (kind & 8)
			w.run.run.fence_at = input_number(&w.script, 2);
		break;
	}
	w.until = (uint32_t)input_number(&w.script, 1);
}

/* What happens while the ring's thread sleeps, whatever the script has. */
static void go_on_by_default(void)
{
	aside_later(20 * VGPU_USEC);
	if (w.held && w.drains)
		drain();
	else if (w.held)
		go_on();
	else if (w.asks_for_dma)
		answer_dma(w.result_of_dma);
	else if (!w.slow)
		aside_compile();
}

void on_moment(bool sleeps)
{
	if (w.acts)
		return;
	w.acts = true;
	HOLDS(++w.total < MOST_MOMENTS); /* a run that is stopped ends */
	w.moments++;
	if (w.script.left > 0 && w.until-- == 0)
		act();
	if (w.moments > SLICE)
		stop();
	if (w.moments > SLICE + GRACE)
		stop_hard();
	if (sleeps)
		go_on_by_default();
	if (w.total % (w.pause + 1) == 0)
		device_advance(w.speed);
	w.acts = false;
}

static void execute(void)
{
	w.acts = false;
	ring_execute(w.ring);
	w.acts = true;
}

/* Executes a run to its end. */
static struct worker_ended run(void)
{
	const uint64_t from = w.run.run.rptr, n = w.run.run.ring_size;
	struct worker_message m;
	uint64_t wptr, count;

	w.moments = w.slices = w.total = 0;
	w.stopping = w.held = w.drains = w.drained = w.rang = false;
	expect_fence();
	device_rest(false);
	ring_run(w.ring, &w.run);
	do {
		if (w.held)
			go_on();
		else
			execute();
	} while (!ring_end(w.ring, &m));
	device_rest(true);
	HOLDS(read(w.event_fd, &count, sizeof(count)) == sizeof(count));
	HOLDS(m.ended.end != WORKER_LOST || device_has_faulted());
	if (m.ended.end == WORKER_LOST)
		HOLDS(m.ended.error == SOFTGPU_FAULTED || m.ended.error == SOFTGPU_BAD_ADDRESS);
	else
		HOLDS((m.ended.end == WORKER_FAILED) == (m.ended.error != SOFTGPU_OK) &&
		      m.ended.error <= SOFTGPU_BAD_ADDRESS);
	wptr = atomic_load(&w.shared.wptr);
	/* A DMA that fails is known when packets behind it have been read, maybe in another run. */
	HOLDS(m.ended.rptr - from <= wptr - from || m.ended.rptr - from <= n ||
	      m.ended.error == SOFTGPU_BAD_RING || m.ended.error == SOFTGPU_DMA_FAULT);
	/* each packet is taken once */
	HOLDS(w.has_slots || m.ended.end == WORKER_FAILED || m.ended.rptr - w.began == w.checked);
	HOLDS(m.ended.end != WORKER_IDLE || m.ended.active || m.ended.rptr == wptr || w.rang);
	/* softgpu has heard of a run that was drained when it was stopped */
	if (w.drained)
		m.ended.rptr = w.reported;
	return m.ended;
}

/* Where the ring and the fence are, and how the worker is set up. */
static void begin(struct input *in)
{
	struct ring_setup rs = {.window_size = WINDOW, .size = SIZE, .no_thread = true};
	uint64_t how = input_number(in, 1), speed = input_number(in, 1), maps = input_number(in, 1);
	int event_fd = w.event_fd;

	memset(&w, 0, sizeof(w));
	w.acts = true;
	w.event_fd = event_fd ? event_fd : eventfd(0, EFD_CLOEXEC);
	w.run = (struct worker_message){.type = WORKER_RUN, .run = {RING, PACKETS, 0, FENCE, 7, 0}};
	w.speed = speed > 127 ? 1 : speed > 0 ? (uint32_t)speed - 1 : 64;
	w.pause = speed > 127 ? (uint32_t)speed - 127 : 0;
	w.slow = maps & 2;
	w.result_of_dma = how & 1 ? -EFAULT : 0;
	if (how & 2)
		w.run.run.ring_base = input_number(in, 3);
	if (how & 4)
		w.run.run.ring_size = UINT64_C(1) << input_number(in, 1) % 64;
	if (how & 8)
		w.run.run.fence_at = input_number(in, 3);
	if (how & 16)
		w.run.run.rptr = how & 32 ? UINT64_MAX - 1 : input_number(in, 1);
	w.began = w.run.run.rptr;
	atomic_store(&w.shared.wptr, w.began);
	w.script.left = input_number(in, 1);
	w.script.left = w.script.left < in->left ? w.script.left : in->left;
	w.script.at = in->at;
	in->at += w.script.left;
	in->left -= w.script.left;
	w.until = (uint32_t)input_number(&w.script, 1);
	device_begin(maps & 1 ? maps >> 2 : UINT64_MAX);
	aside_begin();
	rs.window = model_window;
	rs.device = model_device;
	rs.ops = &model_ops;
	rs.shared = &w.shared;
	rs.modules = !(how & 64);
	rs.event_fd = w.event_fd;
	rs.send = on_send;
	rs.wake = on_wake;
	w.ring = ring_create(&rs);
	HOLDS(w.ring && w.event_fd >= 0);
}

static void end(const struct worker_ended *last)
{
	ring_destroy(w.ring);
	check_part(model_window, 0, WINDOW);
	check_part(model_memory, WINDOW, SIZE - WINDOW);
	aside_end();
	device_end(last->end == WORKER_IDLE);
}

#define MOST_RUNS 24u

static void execute_input(struct input in)
{
	struct worker_ended ended = {0};
	uint32_t rounds, runs = 0;
	uint64_t wptr;

	begin(&in);
	for (rounds = 0; rounds < 3 && in.left > 0 && ended.end < WORKER_FAILED; rounds++) {
		fill_images(&in);
		fill_structures(&in);
		wptr = fill_ring(&in, w.run.run.ring_base, w.run.run.ring_size, w.run.run.rptr,
				 PACKETS);
		fill_slots(&in);
		atomic_store(&w.shared.wptr, wptr);
		do {
			ended = run();
			w.run.run.rptr = ended.rptr;
			if (!w.slow)
				aside_compile();
		} while (++runs < MOST_RUNS &&
			 (ended.end == WORKER_STOPPED ||
			  (ended.end == WORKER_IDLE && ended.active && !w.slow)));
		w.slow &= rounds == 0;
	}
	end(&ended);
}

/* Some inputs are executed twice: what they do depends on nothing else. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t window[WINDOW], memory[SIZE - WINDOW];

	execute_input((struct input){data, size});
	if (size == 0 || !(data[0] & 128))
		return 0;
	memcpy(window, model_window, sizeof(window));
	memcpy(memory, model_memory, sizeof(memory));
	execute_input((struct input){data, size});
	HOLDS(memcmp(window, model_window, sizeof(window)) == 0);
	HOLDS(memcmp(memory, model_memory, sizeof(memory)) == 0);
	return 0;
}
