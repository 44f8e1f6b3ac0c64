/* SPDX-License-Identifier: MIT */
#include "guest_private.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* How often registers and memory are read while no interrupt comes, so that a lost interrupt delays
 * the guest by no more than this. */
#define POLL_MS 100
/* How often the mailbox is read where there are no interrupts. */
#define MAILBOX_POLL_MS 1
/* How long a waiting guest looks at its fence before it sleeps: longer than a small packet takes.
 * Where there are no interrupts, as long as the host's run waits for the next packet (LINGER in
 * worker/main.c): a sleep may end too late for that. */
#define SPIN (20 * VGPU_USEC)
#define SPIN_POLLED (100 * VGPU_USEC)
/* Where there are no interrupts, it sleeps for a part of the time that it has waited, so that a
 * wait takes no more than that part longer. After a short wait it is back before the host ends its
 * run (LINGER in worker/main.c), and need not ring. */
#define NAP_PART 16
#define NAP_LEAST (20 * VGPU_USEC)
#define NAP_MOST VGPU_MSEC
/* When a request without an answer is repeated: a restarted vgpud does not know requests that an
 * earlier one received. Drivers of hardware VFs do the same. */
#define REPEAT_AFTER (2 * VGPU_SEC)
/* How long to wait until a message is read; a running vgpud reads it sooner. */
#define READ_WITHIN VGPU_SEC
/* How long a VF may read as ones before it is gone: where the process that served it was killed,
 * another one starts within 10 s, after a rest of 10 s if that took too much, on a machine that may
 * be busy. Less than callers wait for the engine: they find out that the VF is gone. */
#define AWAY_MOST (30 * VGPU_SEC)

static int read32(struct guest *g, uint32_t offset, uint32_t *value)
{
	return vfio_read(g->device, VFIO_REGION_BAR5, offset, value, sizeof(*value));
}

static int write32(struct guest *g, uint32_t offset, uint32_t value)
{
	return vfio_write(g->device, VFIO_REGION_BAR5, offset, &value, sizeof(value));
}

static int write64(struct guest *g, uint32_t offset, uint64_t value)
{
	return vfio_write(g->device, VFIO_REGION_BAR5, offset, &value, sizeof(value));
}

static void nap(void)
{
	const struct timespec pause = {0, 1000000};

	nanosleep(&pause, NULL);
}

/* The VF has read as ones. 0: it may come back; -ENODEV: it has done so for too long. */
static int away(struct guest *g)
{
	if (g->away_since == 0)
		g->away_since = vgpu_now();
	return vgpu_now() - g->away_since < AWAY_MOST ? 0 : -ENODEV;
}

/* Finds the layout of the VF: its interrupt enable register keeps what is written. */
static int try_layouts(struct guest *g, uint32_t *value)
{
	static const struct gpuiov_layout *const layouts[] = {&gpuiov_layout_navi,
							      &gpuiov_layout_tonga};
	uint32_t i;
	int r;

	for (i = 0; i < 2; i++) {
		const struct gpuiov_location *at = layouts[i]->at;

		g->mailbox =
			(struct mailbox){at[GPUIOV_MBOX_TRN].offset, at[GPUIOV_MBOX_RCV].offset,
					 at[GPUIOV_MBOX_CONTROL].offset,
					 at[GPUIOV_MBOX_INT].offset};
		r = write32(g, g->mailbox.enable, GPUIOV_MBOX_INT_VALID);
		if (r == 0)
			r = read32(g, g->mailbox.enable, value);
		if (r < 0 || *value == GPUIOV_MBOX_INT_VALID)
			return r;
	}
	return -ENODEV;
}

static int find_mailbox(struct guest *g)
{
	uint32_t value = 0;
	int r;

	while ((r = try_layouts(g, &value)) == -ENODEV && value == UINT32_MAX && away(g) == 0)
		nap();
	return r;
}

int guest_open(struct guest **out, const char *name, struct vgpu_error *err)
{
	struct guest *g = calloc(1, sizeof(*g));
	unsigned i;
	int r;

	if (!g)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	for (i = 0; i < SOFTGPU_VF_VECTORS; i++)
		g->vectors[i] = vgpu_eventfd();
	r = vfio_device_open(&g->device, name, err);
	if (r == 0) {
		r = find_mailbox(g);
		if (r == 0)
			r = vfio_irqs(g->device, g->vectors, SOFTGPU_VF_VECTORS);
		g->polled = r == -ENOTSUP;
		g->share.on = g->device->ops->lock_fd != NULL;
		g->share.alone = !g->share.on;
		if (g->polled)
			r = 0;
		if (r < 0)
			vgpu_error_set(err, r, "%s: not a softgpu VF: %s", name, strerror(-r));
	}
	if (r < 0) {
		guest_close(g);
		return r;
	}
	*out = g;
	return 0;
}

void guest_close(struct guest *g)
{
	unsigned i;

	if (!g)
		return;
	vfio_device_close(g->device);
	for (i = 0; i < SOFTGPU_VF_VECTORS; i++)
		vgpu_close(&g->vectors[i]);
	free(g);
}

void guest_use_slot(struct guest *g)
{
	g->share.on = true;
}

/* Reads the mailbox's state; ones: the VF is away. Returns 0, or -errno as away(). */
static int read_control(struct guest *g, uint32_t *control)
{
	int r = read32(g, g->mailbox.control, control);

	if (r == 0 && *control == UINT32_MAX)
		return away(g);
	g->away_since = 0;
	return r;
}

static bool has_message(uint32_t control)
{
	return control & GPUIOV_MBOX_RCV_VALID && control != UINT32_MAX;
}

/* Waits for a message of the PF; *WORD is 0 if none comes by DEADLINE. Returns 0 or -errno. */
static int receive(struct guest *g, uint32_t *word, vgpu_nsec deadline)
{
	struct pollfd ready = {.fd = g->vectors[SOFTGPU_VECTOR_MAILBOX], .events = POLLIN};
	const int step = g->polled ? MAILBOX_POLL_MS : POLL_MS;
	uint32_t control;
	vgpu_nsec now;
	int r;

	for (;;) {
		vgpu_eventfd_drain(ready.fd);
		r = read_control(g, &control);
		if (r == 0)
			r = read32(g, g->mailbox.rcv, word);
		if (r < 0)
			return r;
		if (has_message(control))
			return write32(g, g->mailbox.control, GPUIOV_MBOX_RCV_ACK);
		/* The PF writes the end of a reset without marking it as a message, and the word
		 * stays: it is news while the request that the reset has dropped was not repeated.
		 */
		if (*word == GPUIOV_FLR_DONE && !(control & GPUIOV_MBOX_TRN_VALID))
			return 0;
		*word = 0;
		now = vgpu_now();
		if (now >= deadline)
			return 0;
		now = (deadline - now) / VGPU_MSEC + 1;
		poll(&ready, 1, now < (vgpu_nsec)step ? (int)now : step);
	}
}

/* Returns whether the PF still has to read our last message. */
static bool is_unread(uint32_t control)
{
	return (control & (GPUIOV_MBOX_TRN_VALID | GPUIOV_MBOX_TRN_ACK)) == GPUIOV_MBOX_TRN_VALID;
}

/* Sends a message, after the PF has read the one before or has failed to do so for long. */
static int send_request(struct guest *g, uint32_t word)
{
	vgpu_nsec until = vgpu_now() + READ_WITHIN;
	uint32_t control = 0;
	int r = read_control(g, &control);

	while (r == 0 && (is_unread(control) || control == UINT32_MAX) && vgpu_now() < until) {
		nap();
		r = read_control(g, &control);
	}
	if (r == 0)
		r = write32(g, g->mailbox.control, 0);
	if (r == 0)
		r = write32(g, g->mailbox.trn, word);
	if (r != 0)
		return r;
	return write32(g, g->mailbox.control, GPUIOV_MBOX_TRN_VALID);
}

/* Repeats a request, unless the PF has not read it yet, or has answered. */
static int repeat_request(struct guest *g, uint32_t request)
{
	uint32_t control;
	int r = read_control(g, &control);

	if (r < 0 || control == UINT32_MAX || has_message(control) || is_unread(control))
		return r;
	return send_request(g, request);
}

static int gone(struct vgpu_error *err)
{
	return vgpu_error_set(err, -ENODEV,
			      "the VF is gone: read softgpu's log on the host, which says why");
}

/* Reports that the host has not answered. While a VF reads as ones, vgpud receives no request of
 * it. */
static int timed_out(const struct guest *g, struct vgpu_error *err)
{
	if (g->away_since)
		return gone(err);
	return vgpu_error_set(err, -ETIMEDOUT,
			      "the host does not answer: check that vgpud is running there");
}

/* Sends a request for the engine, and waits until the host grants it. */
static int request_engine(struct guest *g, uint32_t request, vgpu_nsec timeout,
			  struct vgpu_error *err)
{
	vgpu_nsec deadline = vgpu_now() + timeout, again = vgpu_now() + REPEAT_AFTER;
	uint32_t word, control;
	int r;

	/* This guest has not read the mailbox since its last request. An old message must not be
	 * taken for the answer. */
	g->away_since = 0;
	r = read_control(g, &control);
	if (r == 0 && has_message(control))
		r = write32(g, g->mailbox.control, GPUIOV_MBOX_RCV_ACK);
	if (r == 0)
		r = send_request(g, request);
	while (r == 0) {
		r = receive(g, &word, again < deadline ? again : deadline);
		if (r == 0 && word == GPUIOV_READY)
			return 0;
		if (r == 0 && word == GPUIOV_FAIL)
			return vgpu_error_set(err, -EACCES,
					      "the host refuses this VF the engine: the VF may be "
					      "quarantined, may have sent too many requests, or "
					      "could not be cleared");
		if (r == 0 && vgpu_now() >= deadline)
			return timed_out(g, err);
		/* The reset has dropped the request, or vgpud can serve it from now on. */
		if (r == 0 && word == GPUIOV_FLR_DONE) {
			struct timespec pause = {0, 2000000};

			nanosleep(&pause, NULL);
			r = repeat_request(g, request);
		} else if (r == 0 && vgpu_now() >= again) {
			again += REPEAT_AFTER;
			r = repeat_request(g, request);
		}
	}
	return r == -ENODEV ? gone(err) : vgpu_error_set(err, r, "mailbox: %s", strerror(-r));
}

int guest_look(struct guest *g)
{
	uint64_t partition = 0;
	void *memory;
	int r = vfio_map_at(g->device, VFIO_REGION_BAR0, (void *)SOFTGPU_WINDOW_HINT, &memory,
			    &g->size);

	if (r == 0)
		r = vfio_read(g->device, VFIO_REGION_BAR5, SOFTGPU_MEMORY_SIZE, &partition,
			      sizeof(partition));
	if (r == 0)
		r = vfio_read(g->device, VFIO_REGION_BAR5, SOFTGPU_PARTITION_SIZE, &g->partition,
			      sizeof(g->partition));
	if (r == 0)
		r = read32(g, SOFTGPU_FEATURES, &g->features);
	if (r == 0)
		r = read32(g, SOFTGPU_FAULTS, &g->faults);
	if (r == 0 && g->features == UINT32_MAX)
		r = -EAGAIN;
	if (r < 0)
		return r;
	/* BAR 0 may be larger than the part of the partition that it shows. */
	g->size = partition < g->size ? partition : g->size;
	g->memory = memory;
	return g->size < 2 * FREE_AT ? -ENOSPC : 0;
}

int guest_start(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err)
{
	vgpu_nsec deadline = vgpu_now() + timeout, now;
	int r;

	do {
		r = write32(g, g->mailbox.enable, GPUIOV_MBOX_INT_VALID);
		if (r < 0)
			return vgpu_error_set(err, r, "mailbox: %s", strerror(-r));
		now = vgpu_now();
		r = request_engine(g, GPUIOV_REQ_INIT, now < deadline ? deadline - now : 0, err);
		if (r < 0)
			return r;
		r = guest_look(g);
	} while (r == -EAGAIN); /* its process was killed since: another must be asked */
	if (r < 0)
		return vgpu_error_set(err, r, "the VF's memory: %s", strerror(-r));
	g->ring = g->memory + RING_AT;
	g->reached = (uint64_t *)(g->memory + FENCE_AT);
	g->wptr = 0;
	g->fence = 0;
	*g->reached = 0;
	r = write64(g, SOFTGPU_RING_BASE, RING_AT);
	if (r == 0)
		r = write64(g, SOFTGPU_RING_SIZE, RING_PACKETS);
	if (r == 0)
		r = write64(g, SOFTGPU_FENCE_ADDR, FENCE_AT);
	if (r == 0)
		r = send_request(g, GPUIOV_REL_INIT);
	if (r < 0)
		return vgpu_error_set(err, r, "ring: %s", strerror(-r));
	g->up = true;
	return 0;
}

int guest_bring_up(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err)
{
	return g->share.on ? share_bring_up(g, timeout, err) : guest_start(g, timeout, err);
}

int guest_stop(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err)
{
	uint32_t word, control = GPUIOV_MBOX_TRN_VALID;
	vgpu_nsec deadline = vgpu_now() + timeout;
	int r = request_engine(g, GPUIOV_REQ_FINI, timeout, err);

	g->up = false;
	if (r == 0)
		r = send_request(g, GPUIOV_REL_FINI);
	/* A guest that disconnects before the host has read REL_FINI is reset instead. */
	while (r == 0 && (!(control & GPUIOV_MBOX_TRN_ACK) || control == UINT32_MAX) &&
	       vgpu_now() < deadline) {
		r = receive(g, &word, vgpu_now() + VGPU_MSEC);
		if (r == 0)
			r = read_control(g, &control);
	}
	return r;
}

int guest_bring_down(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err)
{
	return g->share.on ? share_bring_down(g, timeout, err) : guest_stop(g, timeout, err);
}

void *guest_memory(struct guest *g, uint64_t *offset, uint64_t *size)
{
	if (g->share.slots > 0)
		return share_memory(g, offset, size);
	*offset = FREE_AT;
	*size = g->size - FREE_AT;
	return g->memory + FREE_AT;
}

void guest_device_memory(struct guest *g, uint64_t *offset, uint64_t *size)
{
	*offset = g->size;
	*size = g->partition > g->size && guest_slots(g) == 0 ? g->partition - g->size : 0;
}

bool guest_is_fresh(struct guest *g)
{
	return !g->polled || g->share.slots > 0;
}

bool guest_has_modules(struct guest *g)
{
	return g->features & SOFTGPU_HAS_MODULES;
}

bool guest_has_old_modules(struct guest *g)
{
	return g->features & SOFTGPU_HAD_MODULES && !guest_has_modules(g);
}

bool guest_has_arena(struct guest *g)
{
	return g->features & SOFTGPU_HAS_ARENA;
}

bool guest_has_images(struct guest *g)
{
	return g->features & SOFTGPU_HAS_IMAGES;
}

bool guest_has_many_modules(struct guest *g)
{
	return g->features & SOFTGPU_HAS_MANY_MODULES;
}

bool guest_has_output(struct guest *g)
{
	return g->features & SOFTGPU_HAS_OUTPUT;
}

bool guest_has_events(struct guest *g)
{
	return g->features & SOFTGPU_HAS_AWAIT && g->share.n_events > 0;
}

int guest_map_dma(struct guest *g, int fd, uint64_t iova, uint64_t size)
{
	return vfio_dma_map(g->device, fd, 0, iova, size);
}

void guest_put(struct guest *g, const struct softgpu_packet *packet)
{
	memcpy(g->ring + (g->wptr % RING_PACKETS) * 64, packet, 64);
	g->wptr++;
}

static uint64_t put_fence(struct guest *g, uint32_t flags)
{
	struct softgpu_packet p = {.opcode = SOFTGPU_FENCE, .flags = flags, .arg = {++g->fence}};

	guest_put(g, &p);
	return g->fence;
}

uint64_t guest_put_fence(struct guest *g)
{
	return put_fence(g, SOFTGPU_FENCE_INTERRUPT);
}

uint64_t guest_put_mark(struct guest *g)
{
	return put_fence(g, 0);
}

int guest_ring(struct guest *g)
{
	if (g->share.slots > 0)
		return share_ring(g);
	return vfio_write(g->device, VFIO_REGION_BAR2, SOFTGPU_DOORBELL, &g->wptr, sizeof(g->wptr));
}

/* Memory behind a closed gate, or of a device that is gone, reads as all ones, which exceeds every
 * fence. So a value above the last fence does not count. */
bool guest_reached(struct guest *g, uint64_t fence)
{
	uint64_t at = __atomic_load_n(g->reached, __ATOMIC_ACQUIRE);

	return at >= fence && at <= g->fence;
}

enum softgpu_error guest_error(struct guest *g)
{
	uint32_t value = 0;

	if (read32(g, SOFTGPU_STATUS, &value) < 0)
		return SOFTGPU_OK;
	return value == SOFTGPU_OK && g->share.slots > 0 ? share_error(g)
							 : (enum softgpu_error)value;
}

enum softgpu_error guest_fault(struct guest *g)
{
	uint32_t n = 0, error = 0;

	if (read32(g, SOFTGPU_FAULTS, &n) < 0 || read32(g, SOFTGPU_FAULTS + 4, &error) < 0 ||
	    n == g->faults || n == UINT32_MAX)
		return SOFTGPU_OK;
	return error == SOFTGPU_BAD_ADDRESS || error == SOFTGPU_ASSERTED ? (enum softgpu_error)error
									 : SOFTGPU_FAULTED;
}

void guest_words(struct guest *g, char words[SOFTGPU_WORDS])
{
	uint32_t i, part;

	memset(words, 0, SOFTGPU_WORDS);
	for (i = 0; i < SOFTGPU_WORDS; i += sizeof(part)) {
		if (read32(g, SOFTGPU_WORDS_AT + i, &part) < 0)
			break;
		memcpy(words + i, &part, sizeof(part));
		if (memchr(&part, 0, sizeof(part)))
			break;
	}
	words[SOFTGPU_WORDS - 1] = 0;
}

int guest_check(struct guest *g)
{
	uint32_t word = 0, control = 0;
	enum softgpu_error error;
	int r = read32(g, g->mailbox.control, &control);

	if (r == 0)
		r = read32(g, g->mailbox.rcv, &word);
	if (r < 0)
		return r;
	error = guest_error(g);
	/* It is away: another process will serve the VF, and begins with a reset. */
	if (control == UINT32_MAX || word == UINT32_MAX || (uint32_t)error == UINT32_MAX)
		word = GPUIOV_FLR;
	if (word == GPUIOV_FLR || word == GPUIOV_FLR_DONE || !share_is_valid(g)) {
		g->up = false;
		return -ECONNRESET;
	}
	/* After a fault the PF resets the VF and reports that by a message. */
	if (error != SOFTGPU_OK && error != SOFTGPU_FAULTED)
		return -EIO;
	return 0;
}

/* Looks at the fence for a short time. Returns whether it was reached. */
static bool spin(struct guest *g, uint64_t fence)
{
	vgpu_nsec until = vgpu_now() + (g->polled ? SPIN_POLLED : SPIN);

	do
		if (guest_reached(g, fence))
			return true;
	while (vgpu_now() < until);
	return false;
}

static bool reached_own(struct guest *g, const void *fence)
{
	return guest_reached(g, *(const uint64_t *)fence);
}

/* Sleeps until REACHED returns true or the deadline passes; checks the VF as often as with
 * interrupts, and at the end. */
static int nap_until(struct guest *g, bool (*reached)(struct guest *g, const void *fence),
		     const void *fence, vgpu_nsec deadline)
{
	vgpu_nsec began = vgpu_now(), now = began, looked = began, nap;
	struct timespec pause = {0, 0};
	int r;

	for (; !reached(g, fence); now = vgpu_now()) {
		if (now - looked >= POLL_MS * VGPU_MSEC || now >= deadline) {
			looked = now;
			r = guest_check(g);
			if (r < 0)
				return r;
		}
		if (now >= deadline)
			return -ETIMEDOUT;
		nap = (now - began) / NAP_PART;
		nap = nap < NAP_LEAST ? NAP_LEAST : nap > NAP_MOST ? NAP_MOST : nap;
		pause.tv_nsec = (long)nap;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* A thread's timers may be late by its slack, by default by more than two naps
 * (PR_SET_TIMERSLACK(2const)). The thread is the program's, and has its own slack again afterwards;
 * 0: its scheduling policy has none. */
int wait_by_naps(struct guest *g, bool (*reached)(struct guest *g, const void *fence),
		 const void *fence, vgpu_nsec deadline)
{
	long slack;
	int r;

	if (reached(g, fence))
		return 0;
	slack = syscall(SYS_prctl, PR_GET_TIMERSLACK); /* prctl() returns an int */
	if (slack > 0)
		prctl(PR_SET_TIMERSLACK, 1UL);
	r = nap_until(g, reached, fence, deadline);
	if (slack > 0)
		prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
	return r;
}

int guest_wait_mark(struct guest *g, uint64_t mark, vgpu_nsec timeout)
{
	vgpu_nsec deadline = vgpu_now() + timeout;

	return spin(g, mark) ? 0 : wait_by_naps(g, reached_own, &mark, deadline);
}

int guest_wait(struct guest *g, uint64_t fence, vgpu_nsec timeout)
{
	struct pollfd ready[2] = {
		{.fd = g->vectors[SOFTGPU_VECTOR_FENCE], .events = POLLIN},
		{.fd = g->vectors[SOFTGPU_VECTOR_MAILBOX], .events = POLLIN},
	};
	vgpu_nsec deadline = vgpu_now() + timeout, now;
	int r, n;

	if (g->polled)
		return guest_wait_mark(g, fence, timeout);
	if (spin(g, fence))
		return 0;
	while (!guest_reached(g, fence)) {
		now = vgpu_now();
		if (now >= deadline)
			return -ETIMEDOUT;
		now = (deadline - now) / VGPU_MSEC + 1;
		n = poll(ready, 2, now < POLL_MS ? (int)now : POLL_MS);
		vgpu_eventfd_drain(ready[0].fd);
		if (guest_reached(g, fence))
			break;
		if (n == 0 || ready[1].revents || ready[0].revents) {
			vgpu_eventfd_drain(ready[1].fd);
			r = guest_check(g);
			if (r < 0)
				return r;
		}
	}
	return 0;
}
