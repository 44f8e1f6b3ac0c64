/* SPDX-License-Identifier: MIT */
/*
 * The vfio-user client. Writes are posted (No_reply); vfio_write_read sends a write together with
 * the read that follows, so that a command and its status cost one trip. The client does not trust
 * the server: it checks sizes before it reads into its memory, and after a reply that does not
 * match its request, or comes too late, every call fails with -ENODEV.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "transports.h"
#include "vfio/user_proto.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

#define TIMEOUT_S 5

struct mapping {
	void *address;
	size_t size;
};

struct client {
	struct vfio_device device;
	int fd;
	uint16_t id;
	bool dead;
	uint32_t max_data;
	struct mapping maps[VFIO_USER_NUM_REGIONS];
};

static struct client *of(struct vfio_device *d)
{
	return (struct client *)d; /* the first member */
}

static int die(struct client *c, int r)
{
	c->dead = true;
	return r;
}

/* Sends the parts as one message; descriptors, if any, go with the first byte. */
static int send_parts(struct client *c, struct iovec *iov, size_t parts, const int *fds,
		      uint32_t n_fds)
{
	ssize_t n;

	while (parts > 0) {
		n = vgpu_socket_send(c->fd, iov, parts, fds, n_fds, 0);
		if (n < 0)
			return die(c, -ENODEV);
		n_fds = 0;
		while (parts > 0 && (size_t)n >= iov->iov_len) {
			n -= (ssize_t)iov->iov_len;
			iov++;
			parts--;
		}
		if (parts > 0) {
			iov->iov_base = (char *)iov->iov_base + n;
			iov->iov_len -= (size_t)n;
		}
	}
	return 0;
}

/* Receives exactly SIZE bytes. *FD becomes the first descriptor; others are closed. */
static int receive(struct client *c, void *data, size_t size, int *fd)
{
	struct vgpu_received got;
	size_t have = 0;
	ssize_t n;

	while (have < size) {
		n = vgpu_socket_receive(c->fd, (char *)data + have, size - have, 0, &got);
		if (n == -EAGAIN)
			return die(c, -ETIMEDOUT);
		if (n == -EMSGSIZE)
			return die(c, -EPROTO);
		if (n <= 0)
			return die(c, -ENODEV);
		if (got.n_fds > 0 && fd && *fd < 0)
			*fd = vgpu_take(&got.fds[0]);
		vgpu_received_drop(&got);
		have += (size_t)n;
	}
	return 0;
}

/* Receives the reply to message ID: between LEAST and SIZE bytes of payload. */
static int receive_reply(struct client *c, uint16_t id, uint16_t command, void *payload,
			 size_t least, size_t size, int *fd)
{
	struct vfio_user_header header;
	size_t got;
	int r = receive(c, &header, sizeof(header), fd);

	if (r < 0)
		return r;
	if ((header.flags & VFIO_USER_TYPE_MASK) != VFIO_USER_REPLY || header.command != command ||
	    header.size < sizeof(header))
		return die(c, -EPROTO);
	got = header.size - sizeof(header);
	if (header.flags & VFIO_USER_ERROR)
		return got == 0 && header.error > 0 && header.error < 4096 ? -(int)header.error
									   : die(c, -EPROTO);
	if (header.id != id || got < least || got > size)
		return die(c, -EPROTO);
	if (got < size)
		memset((char *)payload + got, 0, size - got);
	return receive(c, payload, got, NULL);
}

static struct vfio_user_header request(struct client *c, uint16_t command, size_t size,
				       uint32_t flags)
{
	return (struct vfio_user_header){
		.id = ++c->id,
		.command = command,
		.size = (uint32_t)(sizeof(struct vfio_user_header) + size),
		.flags = flags,
	};
}

/* Sends a message and receives its reply. */
static int call(struct client *c, uint16_t command, const void *payload, size_t size,
		const int *fds, uint32_t n_fds, void *answer, size_t least, size_t answer_size,
		int *fd)
{
	struct vfio_user_header header = request(c, command, size, 0);
	struct iovec iov[2] = {{&header, sizeof(header)}, {(void *)payload, size}};
	int r;

	if (c->dead)
		return -ENODEV;
	r = send_parts(c, iov, size ? 2 : 1, fds, n_fds);
	/* A server that refuses the client may have sent the reason before it closed the
	 * connection. */
	if (r < 0) {
		c->dead = false;
		r = receive_reply(c, header.id, command, answer, least, answer_size, fd);
		return die(c, r < 0 ? r : -ENODEV);
	}
	return receive_reply(c, header.id, command, answer, least, answer_size, fd);
}

static int user_read(struct vfio_device *d, uint32_t region, uint64_t offset, void *data,
		     uint32_t size)
{
	return vfio_write_read(d, region, 0, NULL, 0, offset, data, size);
}

static int user_write(struct vfio_device *d, uint32_t region, uint64_t offset, const void *data,
		      uint32_t size)
{
	struct client *c = of(d);
	struct vfio_user_access access = {offset, region, size};
	struct vfio_user_header header =
		request(c, VFIO_USER_REGION_WRITE, sizeof(access) + size, VFIO_USER_NO_REPLY);
	struct iovec iov[3] = {{&header, sizeof(header)},
			       {&access, sizeof(access)},
			       {(void *)data, size}};

	if (c->dead)
		return -ENODEV;
	if (size > c->max_data)
		return -EMSGSIZE;
	return send_parts(c, iov, 3, NULL, 0);
}

/* Returns whether header H is the successful reply to ASKED, of SIZE bytes. */
static bool is_answer(const struct vfio_user_header *h, const struct vfio_user_header *asked,
		      size_t size)
{
	return h->id == asked->id && h->command == asked->command && h->size == size &&
	       (h->flags & (VFIO_USER_TYPE_MASK | VFIO_USER_ERROR)) == VFIO_USER_REPLY;
}

/* Room for most replies, which have a few bytes. */
struct small_reply {
	struct vfio_user_header header;
	struct vfio_user_access access;
	uint8_t data[64];
};

/* Receives a reply of SIZE bytes; or a shorter one, which is an error, if its header says so. */
static int receive_small(struct client *c, struct small_reply *reply, size_t size)
{
	size_t have = 0;
	ssize_t n;

	while (have < size) {
		n = recv(c->fd, (char *)reply + have, size - have, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return die(c, n < 0 && errno == EAGAIN ? -ETIMEDOUT : -ENODEV);
		have += (size_t)n;
		if (have >= sizeof(reply->header) && reply->header.size < size)
			size = reply->header.size;
	}
	return 0;
}

static int user_write_read(struct vfio_device *d, uint32_t region, uint64_t write_offset,
			   const void *data, uint32_t size, uint64_t read_offset, void *out,
			   uint32_t out_size)
{
	struct client *c = of(d);
	struct vfio_user_access write = {write_offset, region, size},
				read = {read_offset, region, out_size}, answer;
	struct vfio_user_header write_header = request(c, VFIO_USER_REGION_WRITE,
						       sizeof(write) + size, VFIO_USER_NO_REPLY),
				read_header = request(c, VFIO_USER_REGION_READ, sizeof(read), 0),
				header;
	struct iovec iov[5] = {{&write_header, sizeof(write_header)},
			       {&write, sizeof(write)},
			       {(void *)data, size},
			       {&read_header, sizeof(read_header)},
			       {&read, sizeof(read)}};
	struct small_reply small;
	size_t size_of_reply = sizeof(header) + sizeof(read) + out_size;
	int r;

	if (c->dead)
		return -ENODEV;
	if (size > c->max_data || out_size > c->max_data)
		return -EMSGSIZE;
	r = size ? send_parts(c, iov, 5, NULL, 0) : send_parts(c, iov + 3, 2, NULL, 0);
	if (r < 0)
		return r;
	if (out_size <= sizeof(small.data)) {
		r = receive_small(c, &small, size_of_reply);
		if (r < 0)
			return r;
		if (is_answer(&small.header, &read_header, size_of_reply)) {
			memcpy(out, small.data, out_size);
			return 0;
		}
		return small.header.flags & VFIO_USER_ERROR &&
				       small.header.size == sizeof(header) &&
				       small.header.error > 0 && small.header.error < 4096
			       ? -(int)small.header.error
			       : die(c, -EPROTO);
	}
	r = receive(c, &header, sizeof(header), NULL);
	if (r == 0 && !is_answer(&header, &read_header, size_of_reply))
		r = die(c, -EPROTO);
	if (r == 0)
		r = receive(c, &answer, sizeof(answer), NULL);
	if (r != 0)
		return r;
	return receive(c, out, out_size, NULL);
}

/* Gets the server's description of a region, and the region's descriptor. */
static int region_info(struct client *c, uint32_t index, struct vfio_region *out, int *fd)
{
	struct {
		struct vfio_user_region_info info;
		uint8_t caps[1024];
	} answer;
	struct vfio_user_region_info ask = {.argsz = sizeof(answer), .index = index};
	struct vfio_user_sparse_mmap sparse;
	int r = call(c, VFIO_USER_GET_REGION_INFO, &ask, sizeof(ask), NULL, 0, &answer,
		     sizeof(answer.info), sizeof(answer), fd);
	uint32_t at;

	if (r < 0)
		return r;
	*out = (struct vfio_region){.size = answer.info.size};
	if (!(answer.info.flags & VFIO_USER_REGION_CAN_MMAP))
		return 0;
	out->mmap_size = answer.info.size;
	at = answer.info.flags & VFIO_USER_REGION_HAS_CAPS ? answer.info.cap_offset : 0;
	if (at >= sizeof(answer.info) && at <= sizeof(answer) - sizeof(sparse)) {
		memcpy(&sparse, (char *)&answer + at, sizeof(sparse));
		if (sparse.id == VFIO_USER_CAP_SPARSE_MMAP && sparse.nr_areas > 0)
			out->mmap_size = sparse.offset == 0 ? sparse.size : 0;
	}
	return 0;
}

static int user_region(struct vfio_device *d, uint32_t index, struct vfio_region *out)
{
	VGPU_AUTO_CLOSE int fd = -1;

	return region_info(of(d), index, out, &fd);
}

static int user_map(struct vfio_device *d, uint32_t index, void *wanted, void **out, size_t *size)
{
	struct client *c = of(d);
	struct vfio_region region = {0};
	VGPU_AUTO_CLOSE int fd = -1;
	struct stat st;
	int r = region_info(c, index, &region, &fd);
	void *p;

	if (r < 0)
		return r;
	if (fd < 0 || region.mmap_size == 0)
		return -ENOTSUP;
	/* Accesses beyond the end of a shorter file would raise SIGBUS. */
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < region.mmap_size)
		return -EPROTO;
	/* First unmap, so that the address is free again. */
	if (c->maps[index].address)
		munmap(c->maps[index].address, c->maps[index].size);
	c->maps[index] = (struct mapping){NULL, 0};
	p = mmap(wanted, region.mmap_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	c->maps[index] = (struct mapping){p, region.mmap_size};
	*out = p;
	*size = region.mmap_size;
	return 0;
}

static int user_irqs(struct vfio_device *d, const int *eventfds, uint32_t count)
{
	struct vfio_user_set_irqs r = {
		.argsz = sizeof(r),
		.flags = VFIO_USER_IRQ_DATA_EVENTFD | VFIO_USER_IRQ_ACTION_TRIGGER,
		.index = VFIO_USER_IRQ_MSIX,
		.count = count,
	};

	if (count > VFIO_USER_MAX_FDS)
		return -EINVAL;
	return call(of(d), VFIO_USER_SET_IRQS, &r, sizeof(r), eventfds, count, &r, 0, 0, NULL);
}

static int user_dma_map(struct vfio_device *d, int fd, uint64_t offset, uint64_t iova,
			uint64_t size)
{
	struct vfio_user_dma_map r = {
		.argsz = sizeof(r),
		.flags = VFIO_USER_DMA_READ | VFIO_USER_DMA_WRITE,
		.offset = offset,
		.iova = iova,
		.size = size,
	};

	return call(of(d), VFIO_USER_DMA_MAP, &r, sizeof(r), &fd, 1, &r, 0, 0, NULL);
}

static int user_dma_unmap(struct vfio_device *d, uint64_t iova, uint64_t size)
{
	struct vfio_user_dma_unmap r = {.argsz = sizeof(r), .iova = iova, .size = size};

	return call(of(d), VFIO_USER_DMA_UNMAP, &r, sizeof(r), NULL, 0, &r, 0, sizeof(r), NULL);
}

static int user_reset(struct vfio_device *d)
{
	return call(of(d), VFIO_USER_DEVICE_RESET, NULL, 0, NULL, 0, NULL, 0, 0, NULL);
}

static int user_fd(struct vfio_device *d)
{
	return of(d)->fd;
}

/* The server sends nothing between calls, so the connection is readable only when it has ended. */
static int user_check(struct vfio_device *d)
{
	char byte;

	return recv(of(d)->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 ? -ENODEV : 0;
}

static void user_close(struct vfio_device *d)
{
	struct client *c = of(d);
	unsigned i;

	for (i = 0; i < VFIO_USER_NUM_REGIONS; i++)
		if (c->maps[i].address)
			munmap(c->maps[i].address, c->maps[i].size);
	vgpu_close(&c->fd);
	free(c);
}

static const struct vfio_device_ops user_ops = {
	.name = "vfio-user",
	.region = user_region,
	.read = user_read,
	.write = user_write,
	.write_read = user_write_read,
	.map = user_map,
	.irqs = user_irqs,
	.dma_map = user_dma_map,
	.dma_unmap = user_dma_unmap,
	.reset = user_reset,
	.set_vfs = vfio_enable_vfs,
	.fd = user_fd,
	.check = user_check,
	.close = user_close,
};

/* Returns the number that the peer's JSON has for the capability NAME, in quotes; 0 if it has none.
 * Nothing else of the JSON is parsed, so that the libraries of guests need no library except
 * libc. */
static uint64_t stated(const char *json, const char *name)
{
	const char *at = strstr(json, name);
	uint64_t n = 0;

	if (!at)
		return 0;
	at += strlen(name);
	at += strspn(at, " \t\r\n");
	if (*at++ != ':')
		return 0;
	for (at += strspn(at, " \t\r\n"); *at >= '0' && *at <= '9' && n <= VFIO_USER_MAX_DATA; at++)
		n = n * 10 + (uint64_t)(*at - '0');
	return n;
}

static int negotiate(struct client *c)
{
	static const char json[] =
		"{\"capabilities\":{\"max_msg_fds\":8,\"max_data_xfer_size\":1048576}}";
	struct {
		uint16_t major, minor;
		char json[sizeof(json)];
	} ask = {0, 0, {0}};
	struct {
		uint16_t major, minor;
		char json[1020];
	} answer;
	uint64_t most;
	int r;

	memcpy(ask.json, json, sizeof(json));
	r = call(c, VFIO_USER_VERSION, &ask, sizeof(ask), NULL, 0, &answer, 4, sizeof(answer),
		 NULL);
	if (r < 0)
		return r;
	if (answer.major != 0)
		return -EPROTO;
	answer.json[sizeof(answer.json) - 1] = '\0';
	most = stated(answer.json, "\"max_data_xfer_size\"");
	c->max_data = VFIO_USER_MAX_DATA;
	if (most > 0 && most < c->max_data)
		c->max_data = (uint32_t)most;
	return 0;
}

/* Makes a device at PATH from the connection FD, which it takes over. */
static int make_client(struct vfio_device **out, int fd, const char *path, struct vgpu_error *err)
{
	struct timeval timeout = {TIMEOUT_S, 0};
	struct client *c;
	int r;

	c = calloc(1, sizeof(*c));
	if (!c) {
		close(fd);
		return vgpu_error_set(err, -ENOMEM, "%s: out of memory", path);
	}
	c->device.ops = &user_ops;
	c->fd = fd;
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	r = negotiate(c);
	if (r == -EBUSY || r == -ENODEV)
		vgpu_error_set(err, r, "%s: %s", path,
			       r == -EBUSY ? "another program holds this device"
					   : "the device closed the connection");
	else if (r == -EPROTO || r == -ETIMEDOUT)
		vgpu_error_set(err, r, "%s: the peer does not speak vfio-user", path);
	else if (r < 0)
		vgpu_error_set(err, r, "%s: %s", path, strerror(-r));
	if (r < 0) {
		user_close(&c->device);
		return r;
	}
	*out = &c->device;
	return 0;
}

int vfio_user_open(struct vfio_device **out, const char *path, struct vgpu_error *err)
{
	int fd = vgpu_socket_connect(path, 0);

	if (fd < 0)
		return vgpu_error_set(err, fd, "cannot connect to %s: %s; is the device running?",
				      path, strerror(-fd));
	return make_client(out, fd, path, err);
}

/* A VF has one client at a time, also through a lease's socket. */
#define IS_USED                                                                                    \
	"another process uses the VF of this lease, which serves one at a time: start them one "   \
	"after the other, or request a VF for each"

/* Receives vgpud's answer: one byte and the descriptor of a connection, or the reason why there is
 * none. */
int vfio_lease_open(struct vfio_device **out, const char *path, struct vgpu_error *err)
{
	VGPU_AUTO_CLOSE int fd = vgpu_socket_connect_within(path, TIMEOUT_S * VGPU_SEC);
	struct timeval timeout = {TIMEOUT_S, 0};
	struct vgpu_received with = {0};
	char text[200];
	ssize_t n;
	int r;

	if (fd < 0)
		return vgpu_error_set(err, fd, "cannot connect to %s: %s; does vgpud run?", path,
				      strerror(-fd));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	n = vgpu_socket_receive(fd, text, sizeof(text) - 1, 0, &with);
	if (n > 0 && with.n_fds == 1) {
		r = make_client(out, with.fds[0], path, err);
		return r == -EBUSY ? vgpu_error_set(err, r, "%s: " IS_USED, path) : r;
	}
	vgpu_received_drop(&with);
	if (n <= 0)
		return vgpu_error_set(err, -ENODEV, "%s: %s", path,
				      n < 0 ? strerror((int)-n) : "the lease has ended");
	text[n] = '\0';
	return vgpu_error_set(err, -ENODEV, "%s: %s", path, text);
}
