/* SPDX-License-Identifier: MIT */
/*
 * A guest's path: bench-guest SOCKET N. Prints JSON; all times are of one run, taken in turn.
 *
 *   first_tile  from the doorbell until the first tile of the first packet is done
 *   wake_up     from then, when the fence is written, until the sleeping guest runs again
 *   job         from the doorbell until the sleeping guest runs again
 *   ping_pong   a futex ping-pong between two threads, which is two wake-ups
 *
 * and small jobs a second, many in a ring at a time, beside a bare loop in this program that does
 * the same work with the same code.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"
#include "sample.h"
#include "sha256.h"
#include "vgpu/clock.h"

#define WAIT (10 * VGPU_SEC)
#define PAUSE_US 200 /* so that everybody sleeps again */
#define CALIBRATIONS 500u
#define SPAN (VGPU_SEC / 4) /* of one measurement of throughput */
#define ROUNDS 4u
#define IN_RING 256u /* jobs for a doorbell */
#define BYTES 4096u  /* of a small job */

static struct guest *guest;
static uint8_t *memory; /* the guest's part of the window: source, then destination */
static uint64_t offset;

static _Atomic uint32_t turn;

static void fail(const char *what, int r)
{
	fprintf(stderr, "bench-guest: %s: %s\n", what, strerror(-r));
	exit(1);
}

static void futex_wait_while(uint32_t value)
{
	while (atomic_load(&turn) == value)
		syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, value, NULL);
}

static void futex_pass(uint32_t value)
{
	atomic_store(&turn, value);
	syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1);
}

static void *pong(void *n)
{
	unsigned i;

	for (i = 0; i < *(unsigned *)n; i++) {
		futex_wait_while(0);
		futex_pass(0);
	}
	return NULL;
}

static vgpu_nsec ping(void)
{
	vgpu_nsec began = vgpu_now();

	futex_pass(1);
	futex_wait_while(1);
	return vgpu_now() - began;
}

/* One small tile, and an instant right after it: the device's clock, at the end of the window's
 * first page. */
static uint64_t put_tile(void)
{
	guest_put(guest, &(struct softgpu_packet){.opcode = SOFTGPU_FILL, .arg = {offset, 4, 1}});
	guest_put(guest,
		  &(struct softgpu_packet){.opcode = SOFTGPU_EVENT, .arg = {offset + BYTES}});
	return guest_put_fence(guest);
}

static uint64_t done_at(void)
{
	return __atomic_load_n((uint64_t *)(memory + BYTES), __ATOMIC_ACQUIRE);
}

/* The device's clock runs as this one does, from another instant. That is the least difference
 * that a guest sees which does nothing but look for the event. */
static vgpu_nsec clock_difference(void)
{
	vgpu_nsec least = VGPU_NEVER, seen;
	uint64_t fence;
	unsigned i;
	int r;

	for (i = 0; i < CALIBRATIONS; i++) {
		memset(memory + BYTES, 0, sizeof(uint64_t));
		fence = put_tile();
		r = guest_ring(guest);
		if (r < 0)
			fail("doorbell", r);
		while (done_at() == 0)
			;
		seen = vgpu_now() - done_at();
		least = seen < least ? seen : least;
		r = guest_wait(guest, fence, WAIT);
		if (r < 0)
			fail("fence", r);
	}
	return least;
}

enum { FIRST_TILE, WAKE_UP, JOB, PING_PONG, KINDS };

static void measure_trips(unsigned n)
{
	static const char *const names[KINDS] = {"first_tile", "wake_up", "job", "ping_pong"};
	const struct timespec pause = {0, PAUSE_US * 1000L};
	vgpu_nsec *ns[KINDS], difference = clock_difference();
	unsigned i, k;
	int r;

	for (k = 0; k < KINDS; k++) {
		ns[k] = calloc(n, sizeof(*ns[k]));
		if (!ns[k])
			fail("memory", -ENOMEM);
	}
	for (i = 0; i < n; i++) {
		uint64_t fence = put_tile();
		vgpu_nsec began = vgpu_now(), ended, tile;

		r = guest_ring(guest);
		if (r == 0)
			r = guest_wait(guest, fence, WAIT);
		ended = vgpu_now();
		if (r < 0)
			fail("job", r);
		tile = done_at() + difference;
		ns[FIRST_TILE][i] = tile > began ? tile - began : 0;
		ns[WAKE_UP][i] = ended > tile ? ended - tile : 0;
		ns[JOB][i] = ended - began;
		nanosleep(&pause, NULL);
		ns[PING_PONG][i] = ping();
		nanosleep(&pause, NULL);
	}
	for (k = 0; k < KINDS; k++) {
		sample_print(names[k], ns[k], n, ",");
		free(ns[k]);
	}
}

static void bare_sha256(void)
{
	uint32_t state[8];
	unsigned i;

	sha256_begin(state);
	for (i = 0; i < BYTES; i += 64)
		sha256_block(state, memory + i);
	sha256_end(state, memory, BYTES, memory + BYTES);
}

/* As the device fills; the compiler must not leave a fill out because another follows. */
static void bare_fill(void)
{
	uint32_t *words = (uint32_t *)(void *)(memory + BYTES);
	unsigned i;

	for (i = 0; i < BYTES / 4; i++)
		words[i] = 1;
	__asm__ volatile("" ::: "memory");
}

struct small {
	const char *name;
	void (*bare)(void);
	uint32_t opcode;
	uint64_t second, third; /* arguments of the packet, after the destination */
};

/* Return jobs a second. */
static double with_softgpu(const struct small *s)
{
	struct softgpu_packet p = {
		.opcode = s->opcode,
		.arg = {offset + BYTES, s->second, s->third},
	};
	vgpu_nsec began = vgpu_now(), now = began;
	uint64_t n = 0, fence;
	unsigned i;
	int r;

	for (; now - began < SPAN; now = vgpu_now()) {
		for (i = 0; i < IN_RING; i++)
			guest_put(guest, &p);
		fence = guest_put_fence(guest);
		r = guest_ring(guest);
		if (r == 0)
			r = guest_wait(guest, fence, WAIT);
		if (r < 0)
			fail(s->name, r);
		n += IN_RING;
	}
	return (double)n * 1e9 / (double)(now - began);
}

static double bare(const struct small *s)
{
	vgpu_nsec began = vgpu_now(), now = began;
	uint64_t n = 0;
	unsigned i;

	for (; now - began < SPAN; now = vgpu_now()) {
		for (i = 0; i < IN_RING; i++)
			s->bare();
		n += IN_RING;
	}
	return (double)n * 1e9 / (double)(now - began);
}

/* Prints the best of ROUNDS measurements of each, which were taken in turn. */
static void measure_jobs(const struct small *s, const char *end)
{
	double most = 0, most_bare = 0, rate;
	unsigned i;

	for (i = 0; i < ROUNDS; i++) {
		rate = with_softgpu(s);
		most = rate > most ? rate : most;
		rate = bare(s);
		most_bare = rate > most_bare ? rate : most_bare;
	}
	printf("\"%s\":{\"jobs_per_s\":%.0f,\"bare_per_s\":%.0f}%s", s->name, most, most_bare, end);
}

int main(int argc, char **argv)
{
	unsigned n = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	struct vgpu_error err = {""};
	pthread_t thread;
	uint64_t size;
	char name[256];

	if (n == 0) {
		fprintf(stderr, "usage: bench-guest SOCKET N\n");
		return 2;
	}
	snprintf(name, sizeof(name), "vfio-user:%s", argv[1]);
	if (guest_open(&guest, name, &err) < 0 || guest_bring_up(guest, WAIT, &err) < 0) {
		fprintf(stderr, "bench-guest: %s\n", err.text);
		return 1;
	}
	memory = guest_memory(guest, &offset, &size);
	if (size < 2 * (uint64_t)BYTES || pthread_create(&thread, NULL, pong, &n) != 0)
		return 1;
	printf("{");
	measure_trips(n);
	measure_jobs(&(struct small){"sha256", bare_sha256, SOFTGPU_SHA256, offset, BYTES}, ",");
	measure_jobs(&(struct small){"fill", bare_fill, SOFTGPU_FILL, BYTES, 1}, "}\n");
	if (guest_bring_down(guest, WAIT, &err) < 0)
		fprintf(stderr, "bench-guest: %s\n", err.text);
	guest_close(guest);
	pthread_join(thread, NULL);
	return 0;
}
