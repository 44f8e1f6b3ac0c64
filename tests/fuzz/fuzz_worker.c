/* SPDX-License-Identifier: MIT */
/*
 * A worker, which computes on the CPU, and the VF process that tells it what to do. A hostile VF
 * process sends any messages: runs with any ring and fence while others go on, stops, answers that
 * nobody has asked for, parts of messages. An honest one runs a ring, stopped at any time; what the
 * memory is at the end is compared with what the engine of the VF process makes of the same
 * packets. The window is exactly as large as the worker believes, so that AddressSanitizer sees
 * each access outside of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "packet_input.h"
#include "protocol.h"
#include "vf.h"

#define WINDOW (UINT64_C(64) << 10)
#define CLIENT (UINT64_C(32) << 10)
#define MAX_PACKETS 16u
#define MAX_TILES 200u
#define RING 0u
#define FENCE 1024u
#define DATA 2048u

static int socket_fd = -1, wake_fd = -1;
static void must_not_end(int code);

#undef WORKER_SOCKET_FD
#undef WORKER_WAKE_FD
#define WORKER_SOCKET_FD socket_fd
#define WORKER_WAKE_FD wake_fd
#define main worker_main
int worker_main(int argc, char **argv);
#define _exit must_not_end
#include "../../tools/softgpu/worker/main.c"
#undef main
#undef _exit

static struct worker w;
static int vf_fd; /* the VF process's end of the socket */
static struct worker_shared shared;
static struct worker_turn turn = {.may_run = 1};
static uint8_t *window, client[CLIENT], *model, model_client[CLIENT];

static void must_not_end(int code)
{
	fprintf(stderr, "the worker ends with %d\n", code);
	abort();
}

/* DMA of the engine that the worker is compared with. */
int vf_dma(const struct vf *, uint64_t iova, void *buffer, uint32_t size, bool to_client)
{
	HOLDS(size <= VF_DMA_MOST);
	if (iova > CLIENT || size > CLIENT - iova)
		return -EFAULT;
	memcpy(to_client ? model_client + iova : buffer, to_client ? buffer : model_client + iova,
	       size);
	return 0;
}

/* Other tests show that long work can be stopped. */
static void shorten(struct softgpu_packet *p)
{
	if (p->opcode == SOFTGPU_NONPREEMPTIBLE || p->opcode == SOFTGPU_SPIN)
		p->arg[0] = p->arg[0] > 3600000000u ? p->arg[0] : p->arg[0] % 20;
	if (p->opcode == SOFTGPU_COUNT)
		p->arg[1] %= 8;
	if (p->opcode == SOFTGPU_MANDELBROT)
		p->arg[5] = p->arg[5] > 1000000 ? p->arg[5] : p->arg[5] % 50;
	if (p->opcode == SOFTGPU_ENDLESS)
		p->opcode = SOFTGPU_NOP;
}

/* Puts packets into the ring, and says how many. Ranges lie behind it, or are wrong. */
static uint32_t fill_ring(struct input *in)
{
	uint32_t count = (uint32_t)input_number(in, 1) % (MAX_PACKETS + 1), i;
	struct softgpu_packet p;

	for (i = 0; i < count; i++) {
		p = packet_of(in);
		shorten(&p);
		memcpy(window + RING + i * sizeof(p), &p, sizeof(p));
	}
	return count;
}

static void answer_dma(const struct worker_message *m)
{
	struct worker_message done = {.type = WORKER_DMA_DONE};
	uint64_t at = m->dma.at, iova = m->dma.iova, left = m->dma.bytes, n;

	HOLDS(at <= WINDOW && left <= WINDOW - at);
	for (; left > 0 && done.dma.result == 0; at += n, iova += n, left -= n) {
		n = left < VF_DMA_MOST ? left : VF_DMA_MOST;
		if (iova > CLIENT || n > CLIENT - iova)
			done.dma.result = -EFAULT;
		else if (m->dma.out)
			memcpy(client + iova, window + at, n);
		else
			memcpy(window + at, client + iova, n);
	}
	on_message(&w, &done);
}

/* What the worker has said. True: the run is over, as *ENDED says. */
static bool listen_to(struct worker_ended *ended, uint32_t serial)
{
	struct worker_message m;

	while (recv(vf_fd, &m, sizeof(m), MSG_DONTWAIT) == sizeof(m)) {
		HOLDS(m.type == WORKER_FENCE || m.type == WORKER_DMA || m.type == WORKER_ENDED);
		if (m.type == WORKER_DMA)
			answer_dma(&m);
		if (m.type != WORKER_ENDED)
			continue;
		HOLDS(m.serial == serial && m.ended.end != WORKER_LOST);
		*ended = m.ended;
		return true;
	}
	return false;
}

/* Waits a fifth of a millisecond at most until a run is over or, with LISTENS, the worker has said
 * something. */
static void wait_a_little(bool listens)
{
	struct pollfd p[] = {{w.event_fd, POLLIN, 0}, {listens ? vf_fd : -1, POLLIN, 0}};
	const struct timespec t = {0, 200000};
	uint64_t count;

	if (ppoll(p, 2, &t, NULL) > 0 && p[0].revents &&
	    read(w.event_fd, &count, sizeof(count)) > 0)
		on_run_end(&w);
}

/* Runs as an honest VF process does: one run at a time, stopped after some rounds of waiting. */
static struct worker_ended run_once(uint32_t serial, uint64_t rptr, uint32_t rounds, uint32_t stops)
{
	struct worker_message m = {.type = WORKER_RUN, .serial = serial};
	struct worker_ended ended;

	m.run.ring_base = RING;
	m.run.ring_size = MAX_PACKETS;
	m.run.fence_at = FENCE;
	m.run.rptr = rptr;
	m.run.stops = stops;
	on_message(&w, &m);
	m = (struct worker_message){.type = WORKER_STOP, .serial = serial};
	for (;;) {
		if (rounds-- == 0)
			on_message(&w, &m);
		if (w.hard_at <= vgpu_now())
			stop_hard(&w);
		if (listen_to(&ended, serial))
			return ended;
		wait_a_little(true);
	}
}

/* Returns whether a result in the model has a NaN: which of several NaNs an operation gives, and
 * with which bits, is the compiler's choice. */
static bool has_nan(const struct softgpu_packet *p)
{
	uint64_t n = p->opcode == SOFTGPU_SAXPY	 ? p->arg[2]
		     : p->opcode == SOFTGPU_GEMM ? (uint32_t)p->arg[3] * (p->arg[3] >> 32)
						 : 0;
	uint64_t i;
	float f;

	for (i = 0; i < n; i++) {
		memcpy(&f, model + p->arg[0] + 4 * i, sizeof(f));
		if (f != f)
			return true;
	}
	return false;
}

/* The same packets, by the engine of the VF process. *RPTR: how many have begun. UINT64_MAX:
 * it takes long, or the result is not determined. */
static uint64_t execute_model(uint64_t count, uint64_t *rptr)
{
	const struct packet_limits limits = {.window = WINDOW, .size = WINDOW};
	struct vf_page page = {.run = VF_RUN};
	struct vf vf = {.page = &page, .memory = model, .window = WINDOW, .size = WINDOW};
	uint64_t error = SOFTGPU_OK, tiles = 0;
	struct job job;

	for (*rptr = 0; *rptr < count && error == SOFTGPU_OK;) {
		memset(&job, 0, sizeof(job));
		memcpy(&job.packet, model + RING + *rptr * sizeof(job.packet), sizeof(job.packet));
		++*rptr;
		error = packet_check(&limits, &job.packet);
		while (error == SOFTGPU_OK && kernel_tile(&vf, &job, &error) == TILE_MORE)
			if (++tiles > MAX_TILES)
				return UINT64_MAX;
		if (error == SOFTGPU_OK && has_nan(&job.packet))
			return UINT64_MAX;
		if (error == SOFTGPU_OK && job.packet.opcode == SOFTGPU_FENCE)
			memcpy(model + FENCE, &job.packet.arg[0], 8);
	}
	return error;
}

static bool overlap(uint64_t a, uint64_t a_words, uint64_t b, uint64_t b_words)
{
	return a < b + 4 * b_words && b < a + 4 * a_words;
}

/* Returns whether the result is the engine's own: the time, or what is written while it is read. */
static bool is_undefined(const struct softgpu_packet *p)
{
	const uint64_t *a = p->arg;
	uint64_t m = (uint32_t)a[3], n = a[3] >> 32, k = a[4];

	switch (p->opcode) {
	case SOFTGPU_EVENT:
		return true;
	case SOFTGPU_SAXPY:
		return a[0] != a[1] && overlap(a[0], a[2], a[1], a[2]);
	case SOFTGPU_GEMM:
		return overlap(a[0], m * n, a[1], m * k) || overlap(a[0], m * n, a[2], k * n);
	default:
		return false;
	}
}

static void compare(struct input *in)
{
	uint32_t rounds = (uint32_t)input_number(in, 1), stops = 1 | rounds >> 6, serial = 0, i;
	uint32_t count = fill_ring(in);
	struct worker_ended ended = {0};
	struct softgpu_packet p;
	uint64_t rptr, error;

	input_bytes(in, window + DATA, in->left);
	for (i = 0; i < count; i++) {
		memcpy(&p, window + RING + i * sizeof(p), sizeof(p));
		if (is_undefined(&p))
			memset(window + RING + i * sizeof(p), 0, sizeof(p));
	}
	memcpy(model, window, WINDOW);
	memcpy(model_client, client, CLIENT);
	error = execute_model(count, &rptr);
	/* The worker takes packets in while those before them are executed. */
	if (error == UINT64_MAX || memcmp(model + RING, window + RING, FENCE))
		return;
	atomic_store(&shared.wptr, count);
	do
		ended = run_once(++serial, ended.rptr, rounds % 8 == 7 ? UINT32_MAX : rounds % 8,
				 stops);
	while (ended.end == WORKER_STOPPED && (ended.active || ended.rptr != count) &&
	       (serial < 40 || (rounds = 7)));
	HOLDS(ended.end == (error ? WORKER_FAILED : WORKER_IDLE) ||
	      (!error && ended.end == WORKER_STOPPED));
	HOLDS(ended.rptr == rptr && (!error || ended.error == error));
	HOLDS(!memcmp(window, model, WINDOW) && !memcmp(client, model_client, CLIENT));
}

/* Any messages, as the main loop takes them, until the socket is closed. */
static void be_hostile(struct input *in)
{
	uint32_t n = (uint32_t)input_number(in, 1) % 24, i, op;
	struct worker_message m, answer;
	int pair[2];

	for (i = 0; i < n; i++) {
		op = (uint32_t)input_number(in, 1);
		m = (struct worker_message){.type = op % 8, .serial = op >> 3};
		if (m.type == WORKER_RUN) {
			m.run.ring_base = op & 8 ? input_number(in, 3) : RING;
			m.run.ring_size = op & 16 ? input_number(in, 3) : MAX_PACKETS;
			m.run.fence_at = op & 32 ? input_number(in, 4) : FENCE;
			m.run.rptr = op & 64 ? input_number(in, 1) : 0;
			m.run.stops = op & 128 ? (uint32_t)input_number(in, 1) : 1;
		} else if (m.type == WORKER_DMA_DONE) {
			m.dma.result = (int32_t)input_number(in, 4);
		}
		if (op == 0xff)
			atomic_store(&shared.wptr, input_number(in, 1));
		if (op & 64)
			on_message(&w, &m);
		else
			send(vf_fd, &m, op == 0x3f ? 8 : sizeof(m), MSG_DONTWAIT);
		if (op & 64 && op & 8)
			wait_a_little(false);
	}
	shutdown(vf_fd, SHUT_WR);
	serve(&w);
	while (recv(vf_fd, &answer, sizeof(answer), MSG_DONTWAIT) == sizeof(answer))
		HOLDS(answer.type == WORKER_FENCE || answer.type == WORKER_DMA ||
		      answer.type == WORKER_ENDED);
	/* Its number stays: the worker's threads have it. */
	HOLDS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	HOLDS(dup3(pair[0], socket_fd, O_CLOEXEC) == socket_fd);
	HOLDS(dup3(pair[1], vf_fd, O_CLOEXEC) == vf_fd);
	close(pair[0]);
	close(pair[1]);
}

static void begin(void)
{
	struct device_setup setup = {.window_size = WINDOW, .size = WINDOW};
	struct ring_setup ring = {.shared = &shared, .window_size = WINDOW, .size = WINDOW};
	struct vgpu_error err;
	int pair[2];

	memset(&shared, 0, sizeof(shared));
	window = setup.window = ring.window = aligned_alloc(4096, WINDOW);
	model = aligned_alloc(4096, WINDOW);
	HOLDS(window && model && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	memset(window, 0, WINDOW);
	memset(client, 0x5a, CLIENT);
	socket_fd = pair[0];
	vf_fd = pair[1];
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w = (struct worker){.ops = &device_host,
			    .shared = &shared,
			    .turn = &turn,
			    .hard_at = VGPU_NEVER};
	w.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	HOLDS(w.event_fd >= 0 && wake_fd >= 0);
	HOLDS(w.ops->prepare(&w.device, &setup, &err) == 0);
	HOLDS(w.ops->open(w.device, &setup, &err) == 0);
	ring.ops = w.ops;
	ring.device = w.device;
	ring.event_fd = w.event_fd;
	ring.send = send_message;
	ring.wake = wake_softgpu;
	w.ring = ring_create(&ring);
	HOLDS(w.ring);
}

static void end(void)
{
	if (w.held)
		HOLDS(w.ops->resume(w.device) == 0);
	ring_destroy(w.ring);
	w.ops->close(w.device);
	close(w.event_fd);
	close(wake_fd);
	close(socket_fd);
	close(vf_fd);
	free(window);
	free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	int before = next_fd();
	uint32_t rounds;

	begin();
	if (input_number(&in, 1) & 1) {
		compare(&in);
	} else {
		for (rounds = 0; rounds < 2 && in.left > 0; rounds++) {
			atomic_store(&shared.wptr, fill_ring(&in));
			be_hostile(&in);
		}
	}
	end();
	HOLDS(next_fd() == before);
	return 0;
}
