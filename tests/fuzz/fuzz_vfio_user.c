/* SPDX-License-Identifier: MIT */
/*
 * What a client can send to the vfio-user server: messages with descriptors, in pieces, without
 * reading the replies. Also what the device then does with the client's interrupts and DMA
 * mappings.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../vfio/user_connection.h"
#include "fuzz.h"
#include "vgpu/descriptor.h"

#define MAX_OPS 64u
#define MAX_PAYLOAD 70000u
#define MAX_SENT_FDS 20u

static uint8_t regions[VFIO_USER_NUM_REGIONS][8192];
static const uint64_t sizes[VFIO_USER_NUM_REGIONS] = {
	[0] = 8192, [2] = 8, [5] = 4096, [VFIO_USER_CONFIG] = 256};
static int shared_fd; /* what region 0 is mapped from */
static unsigned disconnects;

static void on_region(void *, uint32_t index, struct vfio_server_region *out)
{
	HOLDS(index < VFIO_USER_NUM_REGIONS);
	*out = (struct vfio_server_region){sizes[index], true, index == 0 ? shared_fd : -1,
					   index == 0 ? 4096 : 0};
}

static uint32_t on_irqs(void *, uint32_t index)
{
	HOLDS(index < VFIO_USER_NUM_IRQS);
	return index == VFIO_USER_IRQ_MSIX ? 3 : index == VFIO_USER_IRQ_ERR ? 1 : 0;
}

static void on_read(void *, uint32_t region, uint64_t offset, void *data, uint32_t count)
{
	HOLDS(offset <= sizes[region] && count <= sizes[region] - offset);
	memcpy(data, regions[region] + offset, count);
}

static void on_write(void *, uint32_t region, uint64_t offset, const void *data, uint32_t count)
{
	HOLDS(offset <= sizes[region] && count <= sizes[region] - offset);
	memcpy(regions[region] + offset, data, count);
}

static void on_reset(void *)
{
}

static void on_disconnected(void *)
{
	disconnects++;
}

static const struct vfio_server_ops ops = {
	.region = on_region,
	.irqs = on_irqs,
	.read = on_read,
	.write = on_write,
	.reset = on_reset,
	.disconnected = on_disconnected,
};

static int make_memory(bool sealed)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	HOLDS(fd >= 0 && ftruncate(fd, 65536) == 0);
	if (sealed)
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	return fd;
}

static int make_pipe(void)
{
	int ends[2];

	HOLDS(pipe2(ends, O_CLOEXEC) == 0);
	close(ends[0]);
	return ends[1];
}

static int make_fd(unsigned kind)
{
	switch (kind % 8) {
	case 0:
		return make_memory(false);
	case 1:
		return make_memory(true);
	case 2:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case 3:
		return make_pipe();
	case 4: /* full, and its writes may block */
		return eventfd(UINT32_MAX, EFD_CLOEXEC);
	default:
		return eventfd(0, EFD_CLOEXEC);
	}
}

static void send_with_fds(int fd, const void *data, size_t size, const int *fds, unsigned n_fds)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * MAX_SENT_FDS)];
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)data, size};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;
	unsigned i;

	if (n_fds > 0) {
		m.msg_control = control.space;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	/* Bytes that do not fit are lost. The rest is then out of step, as with a hostile
	 * client. */
	if (sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		HOLDS(errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
	for (i = 0; i < n_fds; i++)
		close(fds[i]);
}

/* Sends one message, or plain bytes if RAW. */
static void send_message(struct input *in, int fd, bool raw)
{
	static uint8_t bytes[sizeof(struct vfio_user_header) + MAX_PAYLOAD];
	struct vfio_user_header h = {.id = 1};
	uint64_t shape = input_number(in, 1);
	int fds[MAX_SENT_FDS];
	unsigned n_fds, i;
	size_t n, given;

	n_fds = shape & 1 ? (unsigned)(input_number(in, 1) % (MAX_SENT_FDS + 1)) : 0;
	for (i = 0; i < n_fds; i++)
		fds[i] = make_fd((unsigned)input_number(in, 1));
	h.command = (uint16_t)input_number(in, 1);
	if (shape & 2)
		h.flags = (uint32_t)input_number(in, 1);
	given = input_number(in, 1);
	n = shape & 4 ? input_number(in, 3) % MAX_PAYLOAD : given;
	given = given < n ? given : n;
	memset(bytes, 0, sizeof(h) + n);
	input_bytes(in, bytes + sizeof(h), given);
	h.size = (uint32_t)(sizeof(h) + n);
	if (shape & 8)
		h.size = (uint32_t)input_number(in, 4);
	memcpy(bytes, &h, sizeof(h));
	if (raw)
		send_with_fds(fd, bytes + sizeof(h), n ? n : 1, fds, n_fds);
	else if (shape & 16) { /* in two pieces, the descriptors with the second */
		send_with_fds(fd, bytes, 7, NULL, 0);
		send_with_fds(fd, bytes + 7, sizeof(h) + n - 7, fds, n_fds);
	} else {
		send_with_fds(fd, bytes, sizeof(h) + n, fds, n_fds);
	}
}

/* Serves as the server's thread does. Negative: the connection must end. */
static int serve(struct vfio_endpoint *e)
{
	struct connection *c = &e->c;
	int r = 0, i;

	if (c->reply)
		return connection_flush(c);
	for (i = 0; i < 16 && r >= 0 && !c->reply; i++) {
		r = connection_receive(c);
		if (r == 0)
			break;
		if (r > 0)
			r = connection_handle(e);
	}
	return r;
}

static void end(struct vfio_endpoint *e)
{
	unsigned i;

	for (i = 0; i < VFIO_USER_MAX_VECTORS; i++)
		vgpu_close(&e->vectors[i]);
	endpoint_drop_maps(e);
	connection_drop_fds(&e->c);
	free(e->c.message);
	free(e->c.reply);
	vgpu_close(&e->c.fd);
	pthread_mutex_destroy(&e->lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t buffer[65536];
	struct input in = {data, size};
	struct vfio_endpoint e = {.ops = &ops, .listener = -1};
	int before = next_fd(), pair[2], r = 0;
	unsigned i, n;
	uint64_t at;

	HOLDS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	shared_fd = make_memory(false);
	e.c.fd = pair[1];
	pthread_mutex_init(&e.lock, NULL);
	for (i = 0; i < VFIO_USER_MAX_VECTORS; i++)
		e.vectors[i] = -1;
	for (i = 0; i < MAX_OPS && in.left > 0 && r >= 0; i++) {
		switch (input_number(&in, 1) % 8) {
		case 0:
			HOLDS(read(pair[0], buffer, sizeof(buffer)) != 0);
			break;
		case 1:
			vfio_endpoint_irq(&e, (uint32_t)input_number(&in, 1));
			break;
		case 2:
			at = input_number(&in, 8);
			n = (unsigned)input_number(&in, 2);
			vfio_endpoint_dma(&e, at, buffer, n, input_number(&in, 1) & 1);
			break;
		case 3:
			send_message(&in, pair[0], true);
			break;
		default:
			send_message(&in, pair[0], false);
			break;
		}
		r = serve(&e);
	}
	end(&e);
	close(shared_fd);
	close(pair[0]);
	HOLDS(next_fd() == before);
	return 0;
}
