/* SPDX-License-Identifier: MIT */
/*
 * The vfio-user client and a hostile server: replies with any bytes changed, cut off, with
 * descriptors that nobody has asked for, or none. What an honest reply says is what the caller
 * gets; what is mapped can be read; no descriptor leaks.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "vfio/device.h"
#include "vfio/user_proto.h"

#define MAX_CALLS 20u
#define MOST 600u
#define FILE_SIZE 8192u

static int server = -1; /* the other end of the connection */
static struct input *input;
static uint16_t id;	   /* of the client's next message that is to be answered */
static bool is_honest;	   /* all replies so far are as they should be */
static int file = -1;	   /* what a region is a part of */
static uint8_t sent[MOST]; /* the data of the last reply */

/* Sends a reply, which may have been changed; then it is the server's last. */
static void reply(uint16_t command, const void *payload, size_t size, bool has_file)
{
	struct vfio_user_header header = {.id = id, .command = command, .flags = VFIO_USER_REPLY};
	uint32_t changes = (uint32_t)input_number(input, 1), i, at, fds[2] = {0};
	uint8_t message[sizeof(header) + MOST + 64] = {0};
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(fds))];
	} control = {.space = {0}};
	struct iovec iov = {message, sizeof(header) + size};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	header.size = (uint32_t)iov.iov_len;
	memcpy(message, &header, sizeof(header));
	if (size)
		memcpy(message + sizeof(header), payload, size);
	for (i = 0; i < changes % 4; i++) {
		at = (uint32_t)input_number(input, 1) % iov.iov_len;
		input_bytes(input, message + at, 1 + at % 4);
	}
	if (changes & 0x10)
		iov.iov_len = input_number(input, 2) % iov.iov_len;
	if (changes & 0x20)
		has_file = !has_file;
	if (has_file) {
		m.msg_control = control.space;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * (changes & 0x40 ? 2 : 1));
		control.align = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
						 .cmsg_type = SCM_RIGHTS,
						 .cmsg_len = CMSG_LEN(sizeof(int) *
								      (changes & 0x40 ? 2 : 1))};
		fds[0] = fds[1] = (uint32_t)file;
		memcpy(CMSG_DATA(&control.align), fds, sizeof(fds));
	}
	if (iov.iov_len)
		sendmsg(server, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (changes) {
		is_honest = false;
		shutdown(server, SHUT_WR); /* nobody waits for the rest */
	}
	id++;
}

/* In place of the system's: the server is this harness, and its first reply is there already. */
int connect(int fd, const struct sockaddr *, socklen_t)
{
	static const char text[] = "\0\0\0\0{\"capabilities\":{\"max_data_xfer_size\":512}}";
	int pair[2];

	HOLDS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	HOLDS(dup3(pair[0], fd, O_CLOEXEC) == fd);
	close(pair[0]);
	server = pair[1];
	id = 1;
	is_honest = true;
	reply(VFIO_USER_VERSION, text, sizeof(text), false);
	return 0;
}

static void drain(void)
{
	uint8_t bytes[4096];

	while (recv(server, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static void reply_to_read(uint32_t size)
{
	uint8_t payload[sizeof(struct vfio_user_access) + MOST];

	input_bytes(input, sent, 16);
	memcpy(payload + sizeof(struct vfio_user_access), sent, size);
	memset(payload, 0, sizeof(struct vfio_user_access));
	id++; /* the write before it has a number, too */
	reply(VFIO_USER_REGION_READ, payload, sizeof(struct vfio_user_access) + size, false);
}

static void reply_to_region(void)
{
	struct {
		struct vfio_user_region_info info;
		struct vfio_user_sparse_mmap sparse;
	} r = {.info = {.argsz = sizeof(r), .cap_offset = sizeof(r.info), .size = FILE_SIZE},
	       .sparse = {.id = VFIO_USER_CAP_SPARSE_MMAP, .nr_areas = 1, .size = 4096}};

	r.info.flags = VFIO_USER_REGION_CAN_MMAP | VFIO_USER_REGION_HAS_CAPS;
	reply(VFIO_USER_GET_REGION_INFO, &r, sizeof(r), true);
}

static void map(struct vfio_device *d, uint32_t region)
{
	volatile uint8_t *p;
	size_t size = 0;
	void *at = NULL;
	int r;

	reply_to_region();
	r = vfio_map(d, region, &at, &size);
	HOLDS(!is_honest || (r == 0 && size == 4096));
	if (r != 0)
		return;
	HOLDS(size > 0 && size <= FILE_SIZE);
	p = at;
	HOLDS(p[0] == 0 && p[size - 1] == 0);
}

static void call(struct vfio_device *d, uint32_t op)
{
	uint8_t data[MOST] = {0};
	uint32_t region = op >> 4 & 7, size = 1 + (uint32_t)input_number(input, 2) % 512;
	struct vfio_region out;
	struct vgpu_error err;
	int r;

	switch (op % 10) {
	case 0:
		reply_to_region();
		r = vfio_region(d, region, &out);
		HOLDS(!is_honest || (r == 0 && out.size == FILE_SIZE && out.mmap_size == 4096));
		break;
	case 1:
		map(d, region);
		break;
	case 2:
		vfio_write(d, region, 0, data, size);
		id++;
		break;
	case 3:
		reply(VFIO_USER_SET_IRQS, NULL, 0, false);
		r = vfio_irqs(d, (const int[]){file, file}, 2);
		HOLDS(!is_honest || r == 0);
		break;
	case 4:
		reply(VFIO_USER_DMA_MAP, NULL, 0, false);
		r = vfio_dma_map(d, file, 0, 0, FILE_SIZE);
		HOLDS(!is_honest || r == 0);
		break;
	case 5:
		reply(VFIO_USER_DMA_UNMAP, data, sizeof(struct vfio_user_dma_unmap), false);
		r = vfio_dma_unmap(d, 0, FILE_SIZE);
		HOLDS(!is_honest || r == 0);
		break;
	case 6:
		reply(VFIO_USER_DEVICE_RESET, NULL, 0, false);
		r = vfio_reset(d);
		HOLDS(!is_honest || r == 0);
		break;
	case 7: /* its replies are longer than these */
		shutdown(server, SHUT_WR);
		is_honest = false;
		HOLDS(vfio_set_vfs(d, 1, &err) < 0);
		break;
	default:
		reply_to_read(size);
		r = vfio_write_read(d, region, 0, data, op & 0x80 ? 4 : 0, 0, data, size);
		HOLDS(!is_honest || (r == 0 && !memcmp(data, sent, size)));
		break;
	}
	HOLDS(!is_honest || vfio_check(d) == 0);
	drain();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct vfio_device *d = NULL;
	struct vgpu_error err;
	uint32_t i;
	int before, r;

	if (file < 0)
		file = memfd_create("region", MFD_CLOEXEC);
	HOLDS(file >= 0 && ftruncate(file, FILE_SIZE) == 0);
	before = next_fd();
	input = &in;
	memset(sent, 0, sizeof(sent));
	r = vfio_device_open(&d, "vfio-user:@harness", &err);
	HOLDS(!is_honest || r == 0);
	for (i = 0; r == 0 && i < MAX_CALLS && in.left > 0; i++)
		call(d, (uint32_t)input_number(&in, 1));
	vfio_device_close(d);
	close(server);
	HOLDS(next_fd() == before);
	return 0;
}
