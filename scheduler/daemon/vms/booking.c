/* SPDX-License-Identifier: MIT */
#include "booking.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/log.h"
#include "vgpu/clock.h"
#include "vgpu/local_socket.h"
#include "vgpu/untrusted.h"

struct booking {
	struct control *control;
	const struct claim *claim;
	bool incoming;
	booking_done *done;
	void *data;
	int fd;
	struct event *readable;
	vgpu_nsec until;
	size_t size; /* bytes of the answer received so far */
	char text[BOOKING_LONGEST + 1];
};

bool booking_matters(const struct control *control)
{
	return control->n_gpus > 1 && control->config->bookings[0];
}

static void count(struct control *control, const struct claim *claim, enum refusal_booking what,
		  const char *why)
{
	control->refusals.bookings[what]++;
	if (what == REFUSAL_BOOKING_LATE || what == REFUSAL_BOOKING_FAILED)
		log_about(about_vm(claim->domain, LOG_VM_BOOKING_UNKNOWN), LOG_WARNING,
			  "%s: vgpud does not know which GPU is booked, and chooses one: %s",
			  claim->domain, why);
}

/* Ends the question. */
static void over(struct booking *b, enum refusal_booking what, const char *why,
		 const int32_t on[CLAIM_MAX_VFS])
{
	count(b->control, b->claim, what, why);
	b->done(b->data, on);
}

static void failed(struct booking *b, enum refusal_booking what, const char *why)
{
	int32_t on[CLAIM_MAX_VFS];
	uint32_t i;

	for (i = 0; i < CLAIM_MAX_VFS; i++)
		on[i] = BOOKED_ANY;
	over(b, what, why, on);
}

/* A whole line has come. */
static void take(struct booking *b)
{
	int32_t on[CLAIM_MAX_VFS];
	struct vgpu_error why;
	int r = booked_read(b->control, b->claim, b->incoming, b->text, on, &why);

	if (r < 0)
		over(b, REFUSAL_BOOKING_FAILED, why.text, on);
	else
		over(b, r ? REFUSAL_BOOKING_GPU : REFUSAL_BOOKING_NONE, "", on);
}

/* Waits for more of the answer. A peer that sends it byte by byte gets no extra time. */
static int wait_for_more(struct booking *b)
{
	vgpu_nsec now = vgpu_now(), left = b->until > now ? b->until - now : 0;
	const struct timeval timeout = {(time_t)(left / VGPU_SEC),
					(suseconds_t)(left % VGPU_SEC / VGPU_USEC)};

	return event_add(b->readable, &timeout);
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
	struct booking *b = data;
	ssize_t n;

	if (what & EV_TIMEOUT) {
		failed(b, REFUSAL_BOOKING_LATE, "no answer within booking_ms");
		return;
	}
	n = vgpu_untrusted_receive(fd, b->text + b->size, BOOKING_LONGEST - b->size);
	if (n > 0) {
		b->size += (size_t)n;
		b->text[b->size] = '\0';
	}
	if (n > 0 && memchr(b->text, '\n', b->size))
		take(b);
	else if (b->size == BOOKING_LONGEST)
		failed(b, REFUSAL_BOOKING_FAILED, "the answer is too long");
	else if (n == 0 || (n < 0 && n != -EAGAIN))
		failed(b, REFUSAL_BOOKING_FAILED,
		       "no answer; its reason is in the log of vgpud-openstack (journalctl -u "
		       "vgpud-booking)");
	else if (wait_for_more(b) < 0)
		failed(b, REFUSAL_BOOKING_FAILED, "out of memory");
}

/* Connects, and sends the VM's UUID: a line that fits into a new socket's buffer. Returns 0 or
 * -errno. */
static int send_question(struct booking *b)
{
	char line[sizeof(b->claim->uuid) + 1];
	struct iovec part = {line, strlen(b->claim->uuid) + 1};
	ssize_t n;

	snprintf(line, sizeof(line), "%s\n", b->claim->uuid);
	b->fd = vgpu_socket_connect(b->control->config->bookings, SOCK_NONBLOCK);
	if (b->fd < 0)
		return b->fd;
	vgpu_untrusted_prepare(b->fd);
	n = vgpu_socket_send(b->fd, &part, 1, NULL, 0, MSG_DONTWAIT);
	if (n < 0)
		return (int)n;
	if ((size_t)n < part.iov_len)
		return -EAGAIN;
	b->readable = event_new(b->control->base, b->fd, EV_READ, on_readable, b);
	return b->readable && wait_for_more(b) == 0 ? 0 : -ENOMEM;
}

struct booking *booking_begin(struct control *control, const struct claim *claim, bool incoming,
			      booking_done *done, void *data)
{
	struct booking *b = calloc(1, sizeof(*b));
	char why[200];
	int r = -ENOMEM;

	if (b) {
		b->control = control;
		b->claim = claim;
		b->incoming = incoming;
		b->done = done;
		b->data = data;
		b->fd = -1;
		b->until = vgpu_now() + (vgpu_nsec)control->config->booking_ms * VGPU_MSEC;
		r = send_question(b);
	}
	if (r == 0)
		return b;
	snprintf(why, sizeof(why), "%s: %s", control->config->bookings, strerror(-r));
	count(control, claim, REFUSAL_BOOKING_FAILED, why);
	booking_end(b);
	return NULL;
}

void booking_end(struct booking *b)
{
	if (!b)
		return;
	if (b->readable)
		event_free(b->readable);
	vgpu_untrusted_close(&b->fd);
	free(b);
}
