/* SPDX-License-Identifier: MIT */
/*
 * A VF's command ring and its packets, executed on the CPU as a worker executes them. The window
 * and the memory behind it are exactly as large as the ring believes, so that AddressSanitizer sees
 * each access outside of them. The input is the ring, packets, slots, and bytes of the window.
 */
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fuzz.h"
#include "gate.h"
#include "piece.h"
#include "ring.h"

#define WINDOW (UINT64_C(64) << 10)
#define SIZE (UINT64_C(128) << 10)
#define MAX_PACKETS 16u

static struct worker_shared shared;
static struct ring *ring;
static int event_fd, result_of_dma;

/* Stands in for the compiler: only the gate is tested here. */
static int compile(struct device *d, uint32_t module, uint8_t *image, uint64_t bytes, bool gated,
		   void **compiled, char *log, uint32_t log_size)
{
	struct vgpu_error err = {.text = ""};
	char *out = NULL;
	int r = 0;

	(void)d;
	(void)module;
	HOLDS(image[bytes] == 0);
	if (image[0] == '?')
		r = -EINVAL;
	else if (gate_is_ptx(image, bytes) && gated)
		r = gate_ptx((char *)image, bytes, &out, &err);
	snprintf(log, log_size, "%s", err.text);
	free(out);
	free(image);
	*compiled = NULL;
	return r;
}

static int load(struct device *d, uint32_t module, void *compiled)
{
	(void)d;
	(void)compiled;
	HOLDS(module < DEVICE_MODULES);
	return 0;
}

/* Finds fill(dst, words, value) under any name, so that each launch is a packet like FILL. */
static int function(struct device *d, uint32_t module, const char *name, struct piece *p,
		    struct device_params *params)
{
	uint32_t i;

	(void)d;
	(void)p;
	HOLDS(module < DEVICE_MODULES && memchr(name, 0, 256));
	if (name[0] == '?')
		return -EINVAL;
	if (p->grid[0] < 256)
		p->kind = PIECE_KERNEL;
	p->kernel = KERNEL_FILL;
	p->gated = true;
	params->n = 3;
	params->bytes = 24;
	for (i = 0; i < 3; i++) {
		params->offset[i] = i * 8;
		params->size[i] = 8;
	}
	return 0;
}

/* A variable under any name but some: its bytes are exactly as many as are told. */
#define VARIABLE 5000u
static uint8_t *variable;

static int symbol(struct device *d, uint32_t module, const char *name, uint64_t *at,
		  uint64_t *bytes)
{
	(void)d;
	HOLDS(module < DEVICE_MODULES && memchr(name, 0, 256));
	if (name[0] == '?')
		return -EINVAL;
	*at = (uintptr_t)variable;
	*bytes = VARIABLE;
	return 0;
}

static int attributes(struct device *d, uint32_t module, const char *name, int32_t *out)
{
	(void)d;
	HOLDS(module < DEVICE_MODULES && memchr(name, 0, 256));
	memset(out, 1, SOFTGPU_FUNCTION_ATTRIBUTES * sizeof(*out));
	return name[0] == '!' ? -EINVAL : 0;
}

static int occupancy(struct device *d, uint32_t module, const char *name, uint32_t threads,
		     uint32_t bytes, uint32_t *blocks)
{
	(void)d;
	HOLDS(module < DEVICE_MODULES && memchr(name, 0, 256));
	*blocks = threads ^ bytes;
	return name[0] == '?' ? -EINVAL : 0;
}

/* Refuses a large grid only when it is launched. */
static int launch(struct device *d, uint32_t slot, const struct piece *p)
{
	return p->kind == PIECE_FUNCTION ? -EINVAL : device_host.launch(d, slot, p);
}

static void on_send(const struct worker_message *m)
{
	if (m->type != WORKER_DMA)
		return;
	HOLDS(m->dma.at <= WINDOW && m->dma.bytes <= WINDOW - m->dma.at);
	ring_dma_done(ring, result_of_dma);
}

static void on_wake(void)
{
}

/* Runs the ring until the run ends; a run that takes more than 2 ms is stopped. */
static struct worker_ended run(const struct worker_message *m)
{
	struct pollfd over = {.fd = event_fd, .events = POLLIN};
	struct worker_message ended;
	uint64_t n;

	ring_run(ring, m);
	if (poll(&over, 1, 2) != 1)
		ring_stop(ring);
	do /* libFuzzer's timer interrupts the read */
		HOLDS(read(event_fd, &n, sizeof(n)) == sizeof(n) || errno == EINTR);
	while (!ring_end(ring, &ended));
	return ended.ended;
}

/* Shortens work that would take minutes. Other tests show that long work can be stopped. */
static void shorten(struct softgpu_packet *p)
{
	if (p->opcode == SOFTGPU_NONPREEMPTIBLE || p->opcode == SOFTGPU_SPIN)
		p->arg[0] = p->arg[0] > 3600000000u ? p->arg[0] : p->arg[0] % 100;
	if (p->opcode == SOFTGPU_COUNT && p->arg[1] < UINT64_MAX - 100)
		p->arg[1] %= 100;
	if (p->opcode == SOFTGPU_MANDELBROT)
		p->arg[5] = p->arg[5] > 1000000 ? p->arg[5] : p->arg[5] % 50;
	if (p->opcode == SOFTGPU_GEMM && p->arg[4] < 1u << 20)
		p->arg[4] %= 2048;
}

/* Makes a packet that asks something of a module one that is taken: about a structure among the
 * bytes of the input. */
static void aim(struct softgpu_packet *p)
{
	static const uint64_t sizes[] = {sizeof(struct softgpu_function),
					 sizeof(struct softgpu_about),
					 sizeof(struct softgpu_symbol),
					 sizeof(struct softgpu_occupancy),
					 sizeof(struct softgpu_symbol_copy)};

	p->opcode = SOFTGPU_FUNCTION + p->opcode % 5;
	p->arg[0] %= SOFTGPU_MAX_MODULES;
	p->arg[1] = WINDOW / 2 + p->arg[1] % (WINDOW / 4) / 8 * 8;
	p->arg[2] = sizes[p->opcode - SOFTGPU_FUNCTION];
}

#define SLOTS_AT (WINDOW - 4096)

/* Writes what a guest writes to its slots, whose rings may lie over one another, and over the VF's.
 */
static void fill_slots(struct input *in, uint8_t *window, uint64_t base)
{
	struct softgpu_slot *slot = (struct softgpu_slot *)(window + SLOTS_AT);
	uint64_t count = input_number(in, 1) % (SOFTGPU_MAX_SLOTS + 1), how;

	for (; count > 0; count--, slot++) {
		how = input_number(in, 1);
		slot->asked = how & 3;
		slot->ring = how & 4 ? base : input_number(in, 2);
		slot->packets = UINT64_C(1) << (how & 8 ? 4 : input_number(in, 1) % 64);
		slot->wptr = how & 16 ? input_number(in, 1) % 16 : input_number(in, 8);
	}
}

static void fill_ring(struct input *in, uint8_t *window, uint64_t base, uint64_t n, uint64_t from)
{
	uint64_t count = input_number(in, 1) % (MAX_PACKETS + 1), i, at, a;
	struct softgpu_packet p;

	for (i = 0; i < count; i++) {
		memset(&p, 0, sizeof(p));
		p.opcode = (uint32_t)input_number(in, 1);
		p.flags = (uint32_t)input_number(in, 1);
		/* Offsets and sizes have 3 bytes; a mark in them makes one of 8 bytes. */
		for (a = 0; a < 7; a++) {
			p.arg[a] = input_number(in, 3);
			if (p.arg[a] >> 20 == 0xf)
				p.arg[a] = input_number(in, 8);
		}
		if (p.opcode == SOFTGPU_MANDELBROT || p.opcode == SOFTGPU_GEMM)
			p.arg[p.opcode == SOFTGPU_GEMM ? 3 : 1] |= (input_number(in, 2)) << 32;
		if (p.opcode == SOFTGPU_SLOTS && p.flags & 0x40)
			p.arg[0] = SLOTS_AT;
		else if (p.flags & 0x80)
			aim(&p);
		shorten(&p);
		at = base + ((from + i) & (n - 1)) * sizeof(p);
		if (n && at <= WINDOW - sizeof(p))
			memcpy(window + at, &p, sizeof(p));
	}
	atomic_store(&shared.wptr, from + count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct device_setup setup = {.window_size = WINDOW, .size = SIZE};
	struct ring_setup rs = {.window_size = WINDOW, .size = SIZE};
	struct device_ops ops = device_host;
	struct worker_message m = {.type = WORKER_RUN};
	struct worker_ended ended;
	struct vgpu_error err;
	uint32_t rounds;

	memset(&shared, 0, sizeof(shared));
	setup.window = rs.window = aligned_alloc(4096, WINDOW);
	HOLDS(rs.window);
	memset(rs.window, 0, WINDOW);
	ops.compile = compile;
	ops.load = load;
	ops.function = function;
	ops.symbol = symbol;
	ops.attributes = attributes;
	ops.occupancy = occupancy;
	variable = malloc(VARIABLE);
	HOLDS(variable);
	ops.launch = launch;
	HOLDS(ops.prepare(&rs.device, &setup, &err) == 0);
	HOLDS(ops.open(rs.device, &setup, &err) == 0);
	event_fd = eventfd(0, EFD_CLOEXEC);
	rs.ops = &ops;
	rs.shared = &shared;
	rs.modules = input_number(&in, 1) & 1;
	rs.event_fd = event_fd;
	rs.send = on_send;
	rs.wake = on_wake;
	ring = ring_create(&rs);
	HOLDS(ring && event_fd >= 0);
	m.run.ring_base = input_number(&in, 3);
	m.run.ring_size = UINT64_C(1) << input_number(&in, 1) % 64;
	m.run.fence_at = input_number(&in, 3);
	m.run.rptr = input_number(&in, 1) & 1 ? UINT64_MAX - 1 : input_number(&in, 1);
	result_of_dma = input_number(&in, 1) & 1 ? -EFAULT : 0;
	for (rounds = 0; rounds < 3; rounds++) {
		fill_ring(&in, rs.window, m.run.ring_base, m.run.ring_size, m.run.rptr);
		input_bytes(&in, rs.window + WINDOW / 2, input_number(&in, 2) % (WINDOW / 2));
		fill_slots(&in, rs.window, m.run.ring_base);
		do
			ended = run(&m);
		while (ended.end == WORKER_IDLE && ended.active);
		HOLDS(ended.end != WORKER_LOST);
		if (ended.end == WORKER_FAILED)
			break;
		m.run.rptr = ended.rptr;
	}
	ring_destroy(ring);
	ops.close(rs.device);
	close(event_fd);
	free(rs.window);
	free(variable);
	return 0;
}
