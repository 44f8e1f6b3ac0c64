/* SPDX-License-Identifier: MIT */
/*
 * What a server can send to the vfio-user client: replies that do not fit their requests, wrong
 * sizes, descriptors that nobody asked for, files that are too short, the end at any byte. The
 * client writes only where it was told to, keeps no descriptor, and after a reply that breaks the
 * protocol every call fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../vfio/transports.h"
#include "fuzz.h"
#include "vfio/user_proto.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

#define MAX_OPS 16u
#define MAX_SAID 200000u
#define MAX_FDS 12u

/* What the server sends: bytes, cut into pieces, with descriptors before some of them. */
struct piece {
	size_t end;
	unsigned n_fds;
	int fds[MAX_FDS];
};
static struct {
	uint8_t said[MAX_SAID];
	size_t n;
	struct piece pieces[MAX_OPS + 1];
	unsigned n_pieces;
	int fds[(MAX_OPS + 1) * MAX_FDS]; /* of all pieces */
	unsigned n_fds;
} script;

/* What the client does, each call with its reply in the script. */
struct op {
	unsigned what;
	uint32_t region, size;
	uint64_t offset;
};

static int listener = -1;
static char path[64];
static sem_t over; /* the server is done with the client */

/* Says all of the script at once and no more, then reads what the client sends. */
static void *server(void *arg)
{
	static uint8_t heard[65536];
	struct pollfd p;
	size_t at;
	unsigned i;
	int fd;

	(void)arg;
	for (;;) {
		/* A thread that waits in accept() has a descriptor already. */
		p = (struct pollfd){.fd = listener, .events = POLLIN};
		poll(&p, 1, -1);
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		HOLDS(fd >= 0);
		for (i = 0, at = 0; i < script.n_pieces; i++) {
			struct piece *s = &script.pieces[i];

			while (at < s->end) {
				struct iovec part = {script.said + at, s->end - at};
				ssize_t n = vgpu_socket_send(fd, &part, 1, s->fds, s->n_fds,
							     MSG_DONTWAIT);

				if (n > 0) {
					at += (size_t)n;
					s->n_fds = 0;
					continue;
				}
				if (n != -EAGAIN)
					break;
				/* The client may be sending a long request. */
				p = (struct pollfd){.fd = fd, .events = POLLIN | POLLOUT};
				poll(&p, 1, -1);
				if (p.revents & (POLLIN | POLLHUP) &&
				    recv(fd, heard, sizeof(heard), MSG_DONTWAIT) == 0)
					break;
			}
		}
		shutdown(fd, SHUT_WR);
		while (read(fd, heard, sizeof(heard)) > 0)
			;
		close(fd);
		sem_post(&over);
	}
	return NULL;
}

static void start(void)
{
	struct vgpu_error err;
	pthread_t thread;

	snprintf(path, sizeof(path), "/tmp/fuzz-vfio-client.%d", (int)getpid());
	listener = vgpu_socket_listen(path, 0600, 4, &err);
	HOLDS(listener >= 0);
	fcntl(listener, F_SETFL, fcntl(listener, F_GETFL) & ~O_NONBLOCK);
	sem_init(&over, 0, 0);
	HOLDS(pthread_create(&thread, NULL, server, NULL) == 0);
}

static int make_fd(uint64_t kind)
{
	static const off_t sizes[] = {0, 1, 4095, 4096, 65536, 1 << 20};
	int ends[2], fd;

	if (kind % 8 == 6)
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	if (kind % 8 == 7) {
		HOLDS(pipe2(ends, O_CLOEXEC) == 0);
		close(ends[0]);
		return ends[1];
	}
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	HOLDS(fd >= 0 && ftruncate(fd, sizes[kind % 6]) == 0);
	return fd;
}

static void say(const void *bytes, size_t n)
{
	n = n < MAX_SAID - script.n ? n : MAX_SAID - script.n;
	memcpy(script.said + script.n, bytes, n);
	script.n += n;
}

/* Adds the reply to message ID to the script: right but for what the input changes. */
static void reply(struct input *in, uint16_t id, uint16_t command, const void *usual, size_t size)
{
	static uint8_t payload[70000];
	uint64_t shape = input_number(in, 1);
	struct piece *piece = &script.pieces[script.n_pieces++];
	struct vfio_user_header h = {.id = id,
				     .command = command,
				     .size = (uint32_t)(sizeof(h) + size),
				     .flags = VFIO_USER_REPLY};
	size_t n = size;
	unsigned i;

	if (n)
		memcpy(payload, usual, n);
	if (shape & 1)
		h.id = (uint16_t)input_number(in, 2);
	if (shape & 2)
		h.command = (uint16_t)input_number(in, 1);
	if (shape & 4)
		h.flags = (uint32_t)input_number(in, 1);
	if (shape & 4)
		h.error = (uint32_t)input_number(in, 2);
	if (shape & 8)
		h.size = (uint32_t)input_number(in, 4);
	if (shape & 16) {
		n = input_number(in, 2);
		memset(payload, 0, n);
		if (!(shape & 8))
			h.size = (uint32_t)(sizeof(h) + n);
	}
	if (shape & 32)
		input_bytes(in, payload, n < 128 ? n : 128);
	piece->n_fds = shape & 64 ? (unsigned)(input_number(in, 1) % (MAX_FDS + 1)) : 0;
	for (i = 0; i < piece->n_fds; i++)
		piece->fds[i] = script.fds[script.n_fds++] = make_fd(input_number(in, 1));
	say(&h, sizeof(h));
	say(payload, n);
	if (shape & 128 && script.n > 0)
		script.n -= input_number(in, 1) % script.n;
	piece->end = script.n;
}

static void plan(struct input *in, struct op *op, uint16_t *id)
{
	struct {
		struct vfio_user_region_info info;
		struct vfio_user_sparse_mmap sparse;
	} region = {{.argsz = sizeof(region),
		     .flags = VFIO_USER_REGION_CAN_MMAP | VFIO_USER_REGION_HAS_CAPS,
		     .cap_offset = sizeof(region.info),
		     .size = 65536},
		    {.id = VFIO_USER_CAP_SPARSE_MMAP, .nr_areas = 1, .size = 4096}};
	static uint8_t read[sizeof(struct vfio_user_access) + 70000];
	struct vfio_user_access access;

	*op = (struct op){.what = (unsigned)input_number(in, 1) % 9,
			  .region = (uint32_t)input_number(in, 1) % VFIO_USER_NUM_REGIONS,
			  .offset = input_number(in, 2),
			  .size = 4};
	if (op->what < 4)
		op->size = (uint32_t)input_number(in, 2);
	switch (op->what) {
	case 0: /* reads have two numbers: the first is of the write that goes before, if any */
	case 1:
	case 2:
		access = (struct vfio_user_access){op->offset, op->region, op->size};
		memcpy(read, &access, sizeof(access));
		*id += 2;
		reply(in, *id, VFIO_USER_REGION_READ, read, sizeof(access) + op->size);
		break;
	case 3:
		++*id; /* a write, which has no reply */
		break;
	case 4:
	case 5:
		reply(in, ++*id, VFIO_USER_GET_REGION_INFO, &region, sizeof(region));
		break;
	case 6:
		reply(in, ++*id, VFIO_USER_SET_IRQS, NULL, 0);
		break;
	case 7:
		reply(in, ++*id, VFIO_USER_DMA_UNMAP, NULL, 0);
		break;
	default:
		reply(in, ++*id, VFIO_USER_DEVICE_RESET, NULL, 0);
		break;
	}
}

/* Does what the client was planned to do. Returns its result. */
static int act(struct vfio_device *d, const struct op *op)
{
	uint8_t *data = calloc(1, (size_t)op->size + 1);
	struct vfio_region region;
	size_t size = 0;
	void *at = NULL;
	int r, fd;

	HOLDS(data);
	switch (op->what) {
	case 0:
	case 1:
		r = d->ops->read(d, op->region, op->offset, data, op->size);
		break;
	case 2:
		r = d->ops->write_read(d, op->region, op->offset, data, op->size, op->offset, data,
				       op->size);
		break;
	case 3:
		r = d->ops->write(d, op->region, op->offset, data, op->size);
		break;
	case 4:
		r = d->ops->region(d, op->region, &region);
		break;
	case 5:
		r = d->ops->map(d, op->region, &at, &size);
		HOLDS(r < 0 || (at && size > 0));
		if (r == 0) /* all of it is there */
			HOLDS(((volatile uint8_t *)at)[0] == 0 &&
			      ((volatile uint8_t *)at)[size - 1] == 0);
		break;
	case 6:
		fd = vgpu_eventfd();
		r = d->ops->irqs(d, &fd, 1);
		vgpu_close(&fd);
		break;
	case 7:
		r = d->ops->dma_unmap(d, op->offset, op->size);
		break;
	default:
		r = d->ops->reset(d);
		break;
	}
	free(data);
	HOLDS(r <= 0);
	return r;
}

static int next_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	HOLDS(fd >= 0);
	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char version[] =
		"\0\0\0\0{\"capabilities\":{\"max_msg_fds\":8,\"max_data_xfer_size\":65536}}";
	struct input in = {data, size};
	struct op ops[MAX_OPS];
	struct vfio_device *d = NULL;
	struct vgpu_error err = {""};
	unsigned n, i;
	uint16_t id = 1;
	bool broken = false;
	int before, r;

	if (listener < 0)
		start();
	before = next_fd();
	script.n = script.n_pieces = 0;
	reply(&in, id, VFIO_USER_VERSION, version, sizeof(version));
	for (n = 0; n < MAX_OPS && in.left > 0; n++)
		plan(&in, &ops[n], &id);
	r = vfio_user_open(&d, path, &err);
	HOLDS(r == 0 ? d != NULL : err.text[0] != '\0');
	for (i = 0; r == 0 && i < n; i++) {
		int got = act(d, &ops[i]);

		HOLDS(!broken || got == -ENODEV);
		/* A file that is too short to be mapped breaks nothing else. */
		broken |= got == -EPROTO && ops[i].what != 5;
	}
	if (d)
		d->ops->close(d);
	while (sem_wait(&over) < 0)
		;
	while (script.n_fds > 0)
		close(script.fds[--script.n_fds]);
	HOLDS(next_fd() == before);
	return 0;
}
