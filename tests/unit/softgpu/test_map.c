/* SPDX-License-Identifier: MIT */
/* The arena of a worker's ring: memory at a second address, whose it is, and packets about it that
 * are wrong. The device is the CPU's, whose memory is a file here, so that one page of it can have
 * two addresses as on a GPU. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fill_params.h"
#include "ring.h"
#include "suite.h"

#define MIB (UINT64_C(1) << 20)
#define WINDOW MIB
#define GRANULE UINT64_C(4096)
#define MEMORY (64 * GRANULE)
#define GRANULES 48u /* of a ring's range */
#define ALL (DEVICE_SOURCES * GRANULES)
#define PACKETS 64u

/* Offsets in the range of the arena that SOURCE has, and in the memory. */
#define IN(source, n) (SOFTGPU_ARENA_AT + ((source)*GRANULES + (n)) * GRANULE)
#define OF(n) (WINDOW + (n)*GRANULE)

/* In the window: rings, slots, what packets write. */
#define RING_AT(i) ((i)*PACKETS * 64u)
#define SLOTS_AT 65536u
#define FENCE_AT 81920u
#define REPORT_AT 81928u
#define LAUNCH_AT 90112u
#define OUT_AT 131072u

static struct {
	struct device_ops ops;
	struct device *device;
	struct worker_shared shared;
	struct ring *ring;
	uint8_t *window;
	int event_fd;
	struct worker_message ended;
	uint64_t asked;

	int memory_fd;
	uint8_t *memory, *places; /* PLACES: the arena's addresses */
	uint32_t mapped[ALL];
	struct device_arena arena;
	uint32_t busy;	/* slots of the queue in which something may run */
	uint32_t steps; /* calls of map() */
	uint32_t fails; /* the call of map() that fails; 0: none */
	int failure;
	uint32_t stops; /* the call of map() during which the run is stopped; 0: none */
} b;

static uint64_t address(struct device *d, uint64_t offset)
{
	return offset < WINDOW ? device_host.address(d, offset)
			       : (uintptr_t)b.memory + (offset - WINDOW);
}

static int launch(struct device *d, uint32_t slot, const struct piece *p)
{
	b.busy |= 1u << slot;
	return device_host.launch(d, slot, p);
}

static enum device_state poll_slot(struct device *d, uint32_t slot)
{
	enum device_state state = device_host.poll(d, slot);

	if (state == DEVICE_DONE)
		b.busy &= ~(1u << slot);
	return state;
}

static const struct device_arena *arena(struct device *)
{
	return &b.arena;
}

static void place(uint64_t at, int fd, uint64_t offset)
{
	int how = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *wanted = b.places + at * GRANULE;

	if (mmap(wanted, GRANULE, fd < 0 ? PROT_NONE : PROT_READ | PROT_WRITE, how | MAP_FIXED, fd,
		 (off_t)offset) != wanted)
		abort();
}

/* Returns whether N > 0 granules of the arena from AT on are all mapped, or all not. The ring's
 * thread must not end its test, so a wrong call is a lost device, too. */
static bool all_are(uint64_t at, uint64_t n, bool is_mapped)
{
	bool right = n > 0 && at < ALL && n <= ALL - at && b.busy == 0;
	uint64_t i;

	for (i = at; right && i < at + n; i++)
		right = (b.mapped[i] != 0) == is_mapped;
	CU_ASSERT(right);
	return right;
}

static int map(struct device *, uint64_t at, uint64_t from, uint64_t n)
{
	uint64_t i;

	CU_ASSERT(from + n <= MEMORY / GRANULE);
	if (!all_are(at, n, false) || from + n > MEMORY / GRANULE)
		return -EIO;
	if (++b.steps == b.fails)
		return b.failure;
	for (i = 0; i < n; i++) {
		b.mapped[at + i] = 1 + (uint32_t)(from + i);
		place(at + i, b.memory_fd, (from + i) * GRANULE);
	}
	if (b.steps == b.stops)
		ring_stop(b.ring);
	return 0;
}

static int unmap(struct device *, uint64_t at, uint64_t n)
{
	uint64_t i;

	if (!all_are(at, n, true))
		return -EIO;
	for (i = 0; i < n; i++) {
		b.mapped[at + i] = 0;
		place(at + i, -1, 0);
	}
	return 0;
}

/* How many granules are mapped, of SOURCE's or of all. */
static uint32_t count(uint32_t source)
{
	uint32_t i, n = 0;

	for (i = 0; i < GRANULES; i++)
		n += b.mapped[source * GRANULES + i] != 0;
	return n;
}

static uint32_t count_all(void)
{
	uint32_t source, n = 0;

	for (source = 0; source < DEVICE_SOURCES; source++)
		n += count(source);
	return n;
}

static int load_nothing(struct device *, uint32_t, void *)
{
	return 0;
}

static int compile_nothing(struct device *, uint32_t, uint8_t *image, uint64_t, uint32_t,
			   void **compiled, char *, uint32_t)
{
	*compiled = NULL;
	free(image);
	return 0;
}

/* Finds fill(dst, words, value), whose parameters have 8 bytes each. */
static int find_fill(struct device *, uint32_t, const char *, struct piece *p,
		     struct device_params *params)
{
	p->kind = PIECE_KERNEL;
	p->kernel = KERNEL_FILL;
	fill_params(params);
	return 0;
}

static void hear(const struct worker_message *)
{
}

static void wake(void)
{
}

static void begin(bool has_arena)
{
	struct device_setup setup = {.window_size = WINDOW, .size = WINDOW + MEMORY};
	struct ring_setup ring = {.window_size = WINDOW, .size = WINDOW + MEMORY, .modules = true};
	struct vgpu_error err;

	memset(&b, 0, sizeof(b));
	b.window = setup.window = ring.window = aligned_alloc(4096, WINDOW);
	memset(b.window, 0, WINDOW);
	b.memory_fd = memfd_create("test-map", MFD_CLOEXEC);
	CU_ASSERT_FATAL(ftruncate(b.memory_fd, (off_t)MEMORY) == 0);
	b.memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, b.memory_fd, 0);
	b.places = mmap(NULL, ALL * GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CU_ASSERT_FATAL(b.memory != MAP_FAILED && b.places != MAP_FAILED);
	b.arena = (struct device_arena){(uintptr_t)b.places, GRANULE, GRANULES, b.mapped};
	b.ops = device_host;
	b.ops.address = address;
	b.ops.launch = launch;
	b.ops.poll = poll_slot;
	b.ops.load = load_nothing;
	b.ops.compile = compile_nothing;
	b.ops.function = find_fill;
	b.ops.arena = has_arena ? arena : NULL;
	b.ops.map = map;
	b.ops.unmap = unmap;
	b.event_fd = eventfd(0, EFD_CLOEXEC);
	CU_ASSERT_FATAL(b.ops.prepare(&b.device, &setup, &err) == 0);
	CU_ASSERT_FATAL(b.ops.open(b.device, &setup, &err) == 0);
	ring.device = b.device;
	ring.ops = &b.ops;
	ring.shared = &b.shared;
	ring.event_fd = b.event_fd;
	ring.send = hear;
	ring.wake = wake;
	b.ring = ring_create(&ring);
	CU_ASSERT_PTR_NOT_NULL_FATAL(b.ring);
}

static void end(void)
{
	ring_destroy(b.ring);
	CU_ASSERT_EQUAL(count_all(), 0);
	b.ops.close(b.device);
	munmap(b.memory, MEMORY);
	munmap(b.places, ALL * GRANULE);
	close(b.memory_fd);
	close(b.event_fd);
	free(b.window);
}

static struct softgpu_slot *slot_of(uint32_t source)
{
	return (struct softgpu_slot *)(b.window + SLOTS_AT) + (source - 1);
}

/* Source 0 is the VF's ring; the others are slots. */
static void put(uint32_t source, struct softgpu_packet p)
{
	uint64_t at = source ? slot_of(source)->wptr : atomic_load(&b.shared.wptr);

	memcpy(b.window + RING_AT(source) + at % PACKETS * sizeof(p), &p, sizeof(p));
	if (source)
		__atomic_store_n(&slot_of(source)->wptr, at + 1, __ATOMIC_RELEASE);
	else
		atomic_store(&b.shared.wptr, at + 1);
}

static void put_map(uint32_t source, uint64_t at, uint64_t from, uint64_t n)
{
	put(source, (struct softgpu_packet){SOFTGPU_MAP, 0, {at, from, n * GRANULE}});
}

/* Waits until the run ends. Returns how it ended. */
static uint32_t run(void)
{
	struct worker_message m = {
		.run = {RING_AT(0), PACKETS, b.ended.ended.rptr, FENCE_AT, 0, 0}};
	uint64_t n;

	ring_run(b.ring, &m);
	do {
		CU_ASSERT_FATAL(read(b.event_fd, &n, sizeof(n)) == sizeof(n));
	} while (!ring_end(b.ring, &b.ended));
	return b.ended.ended.end;
}

/* Opens the slot, or begins it anew. */
static void open_slot(uint32_t source)
{
	struct softgpu_slot *s = slot_of(source);

	s->ring = RING_AT(source);
	s->packets = PACKETS;
	s->wptr = 0;
	__atomic_store_n(&s->asked, ++b.asked, __ATOMIC_RELEASE);
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	CU_ASSERT(s->answered == b.asked && s->error == SOFTGPU_OK);
}

static void open_slots(uint32_t n)
{
	uint32_t i;

	put(0, (struct softgpu_packet){SOFTGPU_SLOTS, 0, {SLOTS_AT, n}});
	for (i = 1; i <= n; i++)
		open_slot(i);
}

/* Runs a DOWNLOAD of a word at OFFSET. */
static uint32_t word_at(uint32_t source, uint64_t offset)
{
	uint32_t word;

	put(source, (struct softgpu_packet){SOFTGPU_DOWNLOAD, 0, {OUT_AT, offset, 4}});
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	memcpy(&word, b.window + OUT_AT, 4);
	return word;
}

/* Granules that are apart in the memory are one array in the arena, and one granule can be at two
 * addresses; what it holds stays when it is mapped elsewhere. */
TEST(aliases, "memory has two addresses, and is one array")
{
	const struct softgpu_launch l = {.function = "fill",
					 .grid = {1, 1, 1},
					 .block = {256, 1, 1},
					 .n_args = 3,
					 .args = {{SOFTGPU_ARG_BUFFER, 0, IN(0, 1) + 4092, 8},
						  {SOFTGPU_ARG_VALUE, 0, 2, 8},
						  {SOFTGPU_ARG_VALUE, 0, 77, 8}}};
	struct softgpu_arena about;

	begin(true);
	put(0, (struct softgpu_packet){SOFTGPU_ARENA, 0, {0, OUT_AT, sizeof(about)}});
	put_map(0, IN(0, 0), OF(9), 1);
	put_map(0, IN(0, 1), OF(3), 2); /* 3 and 4 */
	put_map(0, IN(0, 3), OF(9), 1);
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	memcpy(&about, b.window + OUT_AT, sizeof(about));
	CU_ASSERT(about.at == (uintptr_t)b.places && about.offset == IN(0, 0));
	CU_ASSERT(about.bytes == GRANULES * GRANULE && about.granule == GRANULE);
	/* over the seam, and seen at all addresses */
	put(0, (struct softgpu_packet){SOFTGPU_FILL, 0, {IN(0, 0), 3 * GRANULE, 5}});
	CU_ASSERT_EQUAL(word_at(0, OF(9)), 5);
	CU_ASSERT_EQUAL(word_at(0, OF(3)), 5);
	CU_ASSERT_EQUAL(word_at(0, OF(5) - 4), 5);
	CU_ASSERT_EQUAL(word_at(0, OF(5)), 0);
	CU_ASSERT_EQUAL(word_at(0, IN(0, 3)), 5);
	put(0, (struct softgpu_packet){SOFTGPU_FILL, 0, {IN(0, 3) + 8, 4, 6}});
	CU_ASSERT_EQUAL(word_at(0, IN(0, 0) + 8), 6);
	/* a copy, an upload and a GPU kernel */
	put(0, (struct softgpu_packet){SOFTGPU_COPY, 0, {IN(0, 1) - 4, IN(0, 3) + 8, 4}});
	CU_ASSERT_EQUAL(word_at(0, OF(10) - 4), 6);
	memcpy(b.window + OUT_AT, "12345678", 8);
	put(0, (struct softgpu_packet){SOFTGPU_UPLOAD, 0, {IN(0, 1) - 4, OUT_AT, 8}});
	CU_ASSERT_EQUAL(word_at(0, OF(3)), 0x38373635);
	memcpy(b.window + LAUNCH_AT, &l, sizeof(l));
	put(0, (struct softgpu_packet){SOFTGPU_MODULE_LOAD, 0, {3, OUT_AT, 8}});
	put(0, (struct softgpu_packet){SOFTGPU_LAUNCH, 0, {3, LAUNCH_AT, sizeof(l)}});
	while (run() == WORKER_IDLE && b.ended.ended.active)
		;
	CU_ASSERT_EQUAL(word_at(0, OF(4) - 4), 77);
	CU_ASSERT_EQUAL(word_at(0, OF(4)), 77);
	/* elsewhere */
	put(0, (struct softgpu_packet){SOFTGPU_UNMAP, 0, {IN(0, 1), 2 * GRANULE}});
	put_map(0, IN(0, 40), OF(4), 1);
	CU_ASSERT_EQUAL(word_at(0, IN(0, 40)), 77);
	CU_ASSERT_EQUAL(count(0), 3);
	/* a part of what was mapped as one */
	put(0, (struct softgpu_packet){SOFTGPU_UNMAP, 0, {IN(0, 0), GRANULE}});
	CU_ASSERT_EQUAL(word_at(0, IN(0, 3) + 8), 6);
	CU_ASSERT_EQUAL(count(0), 2);
	end();
}

/* What is wrong stops its slot, and changes nothing. */
TEST(wrong_packets, "what is wrong stops its slot and maps nothing")
{
	static const struct {
		struct softgpu_packet packet;
		uint32_t error;
	} cases[] = {
		/* MAP: not whole granules */
		{{SOFTGPU_MAP, 0, {IN(1, 8) + 8, OF(1), GRANULE}}, SOFTGPU_BAD_ARGUMENT},
		{{SOFTGPU_MAP, 0, {IN(1, 8), OF(1) + 2048, GRANULE}}, SOFTGPU_BAD_ARGUMENT},
		{{SOFTGPU_MAP, 0, {IN(1, 8), OF(1), GRANULE + 1}}, SOFTGPU_BAD_ARGUMENT},
		{{SOFTGPU_MAP, 0, {IN(1, 8), OF(1), 0}}, SOFTGPU_BAD_ARGUMENT},
		/* at addresses of others, of nobody, and not of the arena */
		{{SOFTGPU_MAP, 0, {IN(0, 8), OF(1), GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_MAP, 0, {IN(2, 0), OF(1), GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_MAP, 0, {IN(1, GRANULES - 1), OF(1), 2 * GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_MAP, 0, {IN(1, 8), OF(1), UINT64_MAX / GRANULE * GRANULE}},
		 SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_MAP, 0, {OF(1), OF(1), GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_MAP, 0, {0, OF(1), GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_MAP, 0, {UINT64_MAX / GRANULE * GRANULE, OF(1), GRANULE}},
		 SOFTGPU_OUT_OF_RANGE},
		/* memory that is not the VF's, the window, and the arena itself */
		{{SOFTGPU_MAP, 0, {IN(1, 8), WINDOW + MEMORY, GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_MAP, 0, {IN(1, 8), WINDOW + MEMORY - GRANULE, 2 * GRANULE}},
		 SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_MAP, 0, {IN(1, 8), 0, GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_MAP, 0, {IN(1, 8), IN(1, 0), GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_MAP, 0, {IN(1, 8), WINDOW - GRANULE, 2 * GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		/* what is mapped already, all or the end of it */
		{{SOFTGPU_MAP, 0, {IN(1, 0), OF(1), GRANULE}}, SOFTGPU_BAD_ARGUMENT},
		{{SOFTGPU_MAP, 0, {IN(1, 4), OF(1), 3 * GRANULE}}, SOFTGPU_BAD_ARGUMENT},
		/* a report that has no place */
		{{SOFTGPU_MAP, SOFTGPU_REPORT, {IN(1, 8), OF(1), GRANULE, 0, 0, 0, WINDOW}},
		 SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_MAP, SOFTGPU_REPORT, {IN(1, 8), OF(1), GRANULE, 0, 0, 0, 4}},
		 SOFTGPU_BAD_ARGUMENT},
		/* UNMAP: of what is not mapped, or not all of it; not whole; of others */
		{{SOFTGPU_UNMAP, 0, {IN(1, 8), GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_UNMAP, 0, {IN(1, 0), 4 * GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_UNMAP, 0, {IN(1, 2), 5 * GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_UNMAP, 0, {IN(1, 0), 0}}, SOFTGPU_BAD_ARGUMENT},
		{{SOFTGPU_UNMAP, 0, {IN(1, 0) + 4, GRANULE}}, SOFTGPU_BAD_ARGUMENT},
		{{SOFTGPU_UNMAP, 0, {IN(1, 0), 100}}, SOFTGPU_BAD_ARGUMENT},
		{{SOFTGPU_UNMAP, 0, {IN(2, 0), GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_UNMAP, 0, {OF(0), GRANULE}}, SOFTGPU_OUT_OF_RANGE},
		/* others' packets: of what is not mapped, is not the ring's, or is no window */
		{{SOFTGPU_FILL, 0, {IN(1, 3), 4, 1}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_FILL, 0, {IN(1, 3) - 4, 8, 1}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_FILL, 0, {IN(1, 2), 5 * GRANULE, 1}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_FILL, 0, {IN(2, 0), 4, 1}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_FILL, 0, {IN(1, 0), UINT64_MAX - 3, 1}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_FILL, 0, {IN(1, 0) + 2, 4, 1}}, SOFTGPU_BAD_ARGUMENT},
		{{SOFTGPU_COPY, 0, {OF(0), IN(1, 3), 4}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_COPY, 0, {IN(1, 2), OF(0), GRANULE + 1}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_UPLOAD, 0, {OF(0), IN(1, 0), 4}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_DOWNLOAD, 0, {IN(1, 0), OF(0), 4}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_COUNT, 0, {IN(1, 7), 1}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_EVENT, 0, {IN(1, 0)}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_SHA256, 0, {IN(1, 3) - 31, OF(0), 4}}, SOFTGPU_OUT_OF_RANGE},
		/* ARENA: another structure, or none in the window */
		{{SOFTGPU_ARENA, 0, {0, OUT_AT, 8}}, SOFTGPU_BAD_ARGUMENT},
		{{SOFTGPU_ARENA, 0, {0, OF(0), sizeof(struct softgpu_arena)}},
		 SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_ARENA, 0, {0, IN(1, 0), sizeof(struct softgpu_arena)}},
		 SOFTGPU_OUT_OF_RANGE},
	};
	size_t i;

	begin(true);
	open_slots(2);
	put_map(2, IN(2, 0), OF(20), 1);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_slot(1);
		put_map(1, IN(1, 0), OF(0), 3);
		put_map(1, IN(1, 6), OF(6), 1);
		put(1, cases[i].packet);
		CU_ASSERT_EQUAL(run(), WORKER_IDLE);
		if (slot_of(1)->error != cases[i].error)
			printf("case %zu: %u\n", i, (unsigned)slot_of(1)->error);
		CU_ASSERT_EQUAL(slot_of(1)->error, cases[i].error);
		CU_ASSERT_EQUAL(count(1), 4);
		CU_ASSERT_EQUAL(count_all(), 5);
		CU_ASSERT_EQUAL(slot_of(2)->error, SOFTGPU_OK);
	}
	CU_ASSERT_EQUAL(word_at(2, IN(2, 0)), 0);
	end();
	/* a device that has none */
	begin(false);
	open_slots(1);
	put(1,
	    (struct softgpu_packet){SOFTGPU_ARENA, 0, {0, OUT_AT, sizeof(struct softgpu_arena)}});
	memset(b.window + OUT_AT, 1, sizeof(struct softgpu_arena));
	put_map(1, IN(1, 0), OF(0), 1);
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	CU_ASSERT_EQUAL(slot_of(1)->error, SOFTGPU_BAD_OPCODE);
	CU_ASSERT_EQUAL(((struct softgpu_arena *)(b.window + OUT_AT))->bytes, 0);
	open_slot(1);
	put(1, (struct softgpu_packet){SOFTGPU_UNMAP, 0, {IN(1, 0), GRANULE}});
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	CU_ASSERT_EQUAL(slot_of(1)->error, SOFTGPU_BAD_OPCODE);
	end();
}

/* What a ring has mapped goes with it, and with nothing else. */
TEST(whose, "mappings go with their ring, and with nothing else")
{
	begin(true);
	open_slots(2);
	put_map(0, IN(0, 0), OF(0), 40);
	put_map(1, IN(1, 7), OF(0), 2); /* the same memory: there are no walls between slots */
	put_map(2, IN(2, 7), OF(1), 2);
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	CU_ASSERT(count(0) == 40 && count(1) == 2 && count(2) == 2);
	/* closed, with work that it had left */
	put_map(1, IN(1, 20), OF(0), 20);
	__atomic_store_n(&slot_of(1)->asked, 0, __ATOMIC_RELEASE);
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	CU_ASSERT_EQUAL(slot_of(1)->answered, 0);
	CU_ASSERT(count(0) == 40 && count(1) == 0 && count(2) == 2);
	/* begun anew */
	open_slot(1);
	put_map(1, IN(1, 7), OF(0), 1);
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	CU_ASSERT_EQUAL(slot_of(1)->error, SOFTGPU_OK);
	open_slot(2);
	CU_ASSERT(count(0) == 40 && count(1) == 1 && count(2) == 0);
	/* other slots */
	slot_of(1)->wptr = slot_of(2)->wptr = 0;
	put(0, (struct softgpu_packet){SOFTGPU_SLOTS, 0, {SLOTS_AT, 2}});
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	CU_ASSERT(count(0) == 40 && count(1) == 0);
	open_slots(1);
	put_map(1, IN(1, 7), OF(0), 1);
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	CU_ASSERT_EQUAL(count_all(), 41);
	/* a new context of the VF */
	b.ended.ended.rptr = 0;
	atomic_store(&b.shared.wptr, 0);
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	CU_ASSERT_EQUAL(count_all(), 0);
	end();
}

/* A device that cannot map leaves nothing mapped. */
TEST(no_room, "a device that cannot map leaves nothing mapped")
{
	uint64_t *report = NULL;

	begin(true);
	open_slots(1);
	report = (uint64_t *)(b.window + REPORT_AT);
	b.fails = 3;
	b.failure = -ENOMEM;
	put_map(1, IN(1, 0), OF(9), 1);
	put(1, (struct softgpu_packet){SOFTGPU_MAP,
				       SOFTGPU_REPORT,
				       {IN(1, 4), OF(0), 40 * GRANULE, 0, 0, 0, REPORT_AT}});
	put(1, (struct softgpu_packet){SOFTGPU_FENCE, 0, {1}});
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	CU_ASSERT(*report == SOFTGPU_BAD_MAP && b.steps == 3 && count(1) == 1);
	CU_ASSERT(slot_of(1)->error == SOFTGPU_OK && slot_of(1)->fence == 1);
	/* without a report it stops the slot */
	b.fails = b.steps + 2;
	put_map(1, IN(1, 4), OF(0), 40);
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	CU_ASSERT(slot_of(1)->error == SOFTGPU_BAD_MAP && count(1) == 1);
	/* a device that is lost stops the VF */
	open_slot(1);
	b.fails = b.steps + 1;
	b.failure = -EIO;
	put_map(1, IN(1, 4), OF(0), 40);
	CU_ASSERT_EQUAL(run(), WORKER_FAILED);
	CU_ASSERT_EQUAL(b.ended.ended.error, SOFTGPU_FAULTED);
	end();
}

/* A long MAP can be stopped, and goes on. Work before it has ended; work behind it waits. */
TEST(stopped, "a long MAP can be stopped, and goes on")
{
	begin(true);
	put_map(0, IN(0, 41), OF(50), 1);
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	put(0, (struct softgpu_packet){SOFTGPU_NONPREEMPTIBLE, 0, {20000}});
	put(0, (struct softgpu_packet){SOFTGPU_FILL, 0, {IN(0, 41), GRANULE, 3}});
	b.stops = b.steps + 1;
	put_map(0, IN(0, 0), OF(0), 40);
	put(0, (struct softgpu_packet){SOFTGPU_FILL, 0, {IN(0, 0), 40 * GRANULE, 9}});
	put(0, (struct softgpu_packet){SOFTGPU_UNMAP, 0, {IN(0, 0), 20 * GRANULE}});
	CU_ASSERT_EQUAL(run(), WORKER_STOPPED);
	CU_ASSERT(b.ended.ended.active && count(0) > 1 && count(0) < 41);
	CU_ASSERT_EQUAL(run(), WORKER_IDLE);
	CU_ASSERT_EQUAL(count(0), 21);
	CU_ASSERT_EQUAL(word_at(0, OF(0)), 9);
	CU_ASSERT_EQUAL(word_at(0, IN(0, 39)), 9);
	CU_ASSERT_EQUAL(word_at(0, OF(50)), 3);
	end();
}

SUITE_MAIN("map")
