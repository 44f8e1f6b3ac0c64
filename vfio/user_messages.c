/* SPDX-License-Identifier: MIT */
/*
 * Every client may be hostile. A message is handled only when it is complete and of a size that its
 * command allows. Malformed framing closes the connection; an invalid request gets an error.
 * Nothing blocks: a reply that a client does not read is kept, and until it is sent no further
 * message of that client is read.
 *
 * Client memory is accessed by pread and pwrite on the descriptors of its mappings, because a
 * mapping of ours would raise SIGBUS when the client truncates its file. Files of huge pages have
 * no pwrite: they are mapped, if they are sealed against truncation.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "user_connection.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

/* The largest number of replies with descriptors that a client may leave unread. */
#define MAX_LENT 8u

void connection_drop_fds(struct connection *c)
{
	while (c->n_fds > 0)
		vgpu_close(&c->fds[--c->n_fds]);
}

static void drop_map(struct dma_map *map)
{
	vgpu_close(&map->fd);
	if (map->memory)
		munmap(map->memory, map->size);
}

void endpoint_drop_maps(struct vfio_endpoint *e)
{
	while (e->n_maps > 0)
		drop_map(&e->maps[--e->n_maps]);
	free(e->maps);
	e->maps = NULL;
}

int connection_flush(struct connection *c)
{
	ssize_t n;

	while (c->reply_sent < c->reply_size) {
		struct iovec rest = {c->reply + c->reply_sent, c->reply_size - c->reply_sent};

		n = vgpu_socket_send(c->fd, &rest, 1, NULL, 0, MSG_DONTWAIT);
		if (n < 0)
			return n == -EAGAIN ? 1 : (int)n;
		c->reply_sent += (size_t)n;
	}
	free(c->reply);
	c->reply = NULL;
	return 0;
}

/* Returns whether another descriptor may be sent to the client. Unread descriptors count against
 * the limit of this process's user, over all its connections, whatever the client does later. */
static bool may_lend(struct connection *c)
{
	int unread = 0;

	if (ioctl(c->fd, SIOCOUTQ, &unread) == 0 && unread == 0)
		c->lent = 0;
	return c->lent++ < MAX_LENT;
}

/* Replies to the current message. FD, if not negative, is sent along and stays the caller's. */
static int reply(struct connection *c, const void *payload, size_t size, int fd)
{
	const struct vfio_user_header *request = (void *)c->message;
	struct vfio_user_header header = {
		.id = request->id,
		.command = request->command,
		.size = (uint32_t)(sizeof(header) + size),
		.flags = VFIO_USER_REPLY,
	};
	struct iovec iov[2] = {{&header, sizeof(header)}, {(void *)payload, size}};
	ssize_t n;
	size_t sent;

	if (request->flags & VFIO_USER_NO_REPLY)
		return 0;
	if (fd >= 0 && !may_lend(c))
		return -EAGAIN;
	n = vgpu_socket_send(c->fd, iov, size ? 2 : 1, &fd, fd >= 0, MSG_DONTWAIT);
	if (n < 0 && n != -EAGAIN)
		return (int)n;
	sent = n < 0 ? 0 : (size_t)n;
	if (sent == header.size)
		return 0;
	if (fd >= 0 && n < 0)
		return -EAGAIN; /* only a client that floods the server gets here */
	c->reply = malloc(header.size);
	if (!c->reply)
		return -ENOMEM;
	memcpy(c->reply, &header, sizeof(header));
	if (size)
		memcpy(c->reply + sizeof(header), payload, size);
	c->reply_size = header.size;
	c->reply_sent = sent;
	return 0;
}

static int reply_error(struct connection *c, int error)
{
	struct vfio_user_header *request = (void *)c->message;
	struct vfio_user_header header = {
		.id = request->id,
		.command = request->command,
		.size = sizeof(header),
		.flags = VFIO_USER_REPLY | VFIO_USER_ERROR,
		.error = (uint32_t)error,
	};
	ssize_t n;

	if (request->flags & VFIO_USER_NO_REPLY)
		return 0;
	n = send(c->fd, &header, sizeof(header), MSG_NOSIGNAL | MSG_DONTWAIT);
	/* If the socket has no room for 16 bytes, the client does not read. */
	return n == (ssize_t)sizeof(header) ? 0 : -EPIPE;
}

/* Handlers. Each gets a payload of at least the size in its table row, and returns 0, a positive
 * errno for an error reply, or a negative errno to end the connection. */

static int on_version(struct vfio_endpoint *e, const void *payload, size_t size)
{
	const struct vfio_user_version *request = payload;
	static const char json[] =
		"{\"capabilities\":{\"max_msg_fds\":8,\"max_data_xfer_size\":1048576}}";
	struct {
		uint16_t major, minor;
		char json[sizeof(json)];
	} answer = {0, 0, {0}};

	if (size > sizeof(*request) && request->json[size - sizeof(*request) - 1] != '\0')
		return EINVAL;
	if (request->major != 0)
		return ENOTSUP;
	memcpy(answer.json, json, sizeof(json));
	e->c.ready = true;
	return reply(&e->c, &answer, sizeof(answer), -1);
}

static int on_get_info(struct vfio_endpoint *e, const void *, size_t)
{
	struct vfio_user_info info = {
		.argsz = sizeof(info),
		.flags = VFIO_USER_DEVICE_PCI | VFIO_USER_DEVICE_RESETTABLE,
		.num_regions = VFIO_USER_NUM_REGIONS,
		.num_irqs = VFIO_USER_NUM_IRQS,
	};

	return reply(&e->c, &info, sizeof(info), -1);
}

static int on_region_info(struct vfio_endpoint *e, const void *payload, size_t size)
{
	const struct vfio_user_region_info *request = payload;
	struct vfio_server_region region = {.mmap_fd = -1};
	struct {
		struct vfio_user_region_info info;
		struct vfio_user_sparse_mmap sparse;
	} answer = {.info = {.index = request->index}};

	(void)size;
	if (request->index >= VFIO_USER_NUM_REGIONS || request->argsz < sizeof(answer.info))
		return EINVAL;
	e->ops->region(e->device, request->index, &region);
	answer.info.argsz = sizeof(answer.info);
	answer.info.size = region.size;
	if (region.size)
		answer.info.flags = VFIO_USER_REGION_CAN_READ |
				    (region.writable ? VFIO_USER_REGION_CAN_WRITE : 0);
	if (region.mmap_fd < 0 || region.mmap_size == 0)
		return reply(&e->c, &answer, sizeof(answer.info), -1);
	answer.info.flags |= VFIO_USER_REGION_CAN_MMAP | VFIO_USER_REGION_HAS_CAPS;
	answer.info.argsz = sizeof(answer);
	answer.info.cap_offset = sizeof(answer.info);
	answer.sparse = (struct vfio_user_sparse_mmap){
		.id = VFIO_USER_CAP_SPARSE_MMAP,
		.version = 1,
		.nr_areas = 1,
		.size = region.mmap_size,
	};
	/* If argsz is too small, the client learns the size from the reply and asks again. */
	if (request->argsz < sizeof(answer))
		return reply(&e->c, &answer, sizeof(answer.info), -1);
	return reply(&e->c, &answer, sizeof(answer), region.mmap_fd);
}

static int on_irq_info(struct vfio_endpoint *e, const void *payload, size_t)
{
	const struct vfio_user_irq_info *request = payload;
	struct vfio_user_irq_info info = {.argsz = sizeof(info),
					  .flags = VFIO_USER_IRQ_EVENTFD,
					  .index = request->index};

	if (request->index >= VFIO_USER_NUM_IRQS)
		return EINVAL;
	info.count = e->ops->irqs(e->device, request->index);
	if (request->index == VFIO_USER_IRQ_MSIX)
		info.flags |= VFIO_USER_IRQ_NORESIZE;
	return reply(&e->c, &info, sizeof(info), -1);
}

/* Only eventfds are accepted for vectors: writing to another file might block. */
static bool is_eventfd(int fd)
{
	char link[64], target[32] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return readlink(link, target, sizeof(target) - 1) > 0 &&
	       strcmp(target, "anon_inode:[eventfd]") == 0;
}

static bool make_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

/* Raises a vector. Polls first, because the client shares the file's flags and may have made a full
 * eventfd blocking. */
static void signal_vector(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLOUT};

	if (fd >= 0 && poll(&ready, 1, 0) == 1)
		vgpu_eventfd_signal(fd);
}

static int on_set_irqs(struct vfio_endpoint *e, const void *payload, size_t size)
{
	const struct vfio_user_set_irqs *r = payload;
	struct connection *c = &e->c;
	uint32_t kind = r->flags & 7, i, count;

	if (r->index >= VFIO_USER_NUM_IRQS)
		return EINVAL;
	count = e->ops->irqs(e->device, r->index);
	if (r->start > count || r->count > count - r->start ||
	    !(r->flags & VFIO_USER_IRQ_ACTION_TRIGGER))
		return EINVAL;
	if (kind == VFIO_USER_IRQ_DATA_BOOL && size < sizeof(*r) + r->count)
		return EINVAL;
	if (kind == VFIO_USER_IRQ_DATA_EVENTFD && c->n_fds != 0 && c->n_fds != r->count)
		return EINVAL;
	if (r->index != VFIO_USER_IRQ_MSIX)
		return reply(c, NULL, 0, -1); /* accepted, but never raised */
	pthread_mutex_lock(&e->lock);
	for (i = 0; i < count; i++) {
		int *vector = &e->vectors[i];
		bool named = i >= r->start && i < r->start + r->count;

		if (kind == VFIO_USER_IRQ_DATA_EVENTFD && named) {
			vgpu_close(vector);
			if (c->n_fds > 0 && is_eventfd(c->fds[i - r->start]) &&
			    make_nonblocking(c->fds[i - r->start])) {
				*vector = c->fds[i - r->start];
				c->fds[i - r->start] = -1;
			}
		} else if (kind == VFIO_USER_IRQ_DATA_NONE && r->count == 0) {
			vgpu_close(vector); /* in VFIO this disables all vectors */
		} else if (named && *vector >= 0 &&
			   (kind == VFIO_USER_IRQ_DATA_NONE ||
			    (kind == VFIO_USER_IRQ_DATA_BOOL &&
			     ((const uint8_t *)(r + 1))[i - r->start]))) {
			signal_vector(*vector);
		}
	}
	pthread_mutex_unlock(&e->lock);
	return reply(c, NULL, 0, -1);
}

/* Returns whether FD is a memory file, which cannot block a reader. */
static bool is_memory(int fd)
{
	struct statfs fs;
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fstatfs(fd, &fs) == 0 &&
	       (fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC);
}

static bool has_huge_pages(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC;
}

/* Maps a file of huge pages; does nothing for other files. Returns 0 or a positive errno. */
static int map_huge(struct dma_map *map)
{
	int seals = fcntl(map->fd, F_GET_SEALS);
	struct stat st;
	void *p;

	if (!has_huge_pages(map->fd))
		return 0;
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(map->fd, &st) < 0 ||
	    (uint64_t)st.st_size < map->offset + map->size)
		return EINVAL;
	p = mmap(NULL, map->size, PROT_READ | PROT_WRITE, MAP_SHARED, map->fd, (off_t)map->offset);
	if (p == MAP_FAILED)
		return errno;
	map->memory = p;
	return 0;
}

static int on_dma_map(struct vfio_endpoint *e, const void *payload, size_t size)
{
	const struct vfio_user_dma_map *r = payload;
	struct connection *c = &e->c;
	struct dma_map map = {-1, r->flags, r->iova, r->size, r->offset, NULL};
	struct dma_map *maps;
	unsigned i;
	int result = 0;

	(void)size;
	if (r->size == 0 || r->iova + r->size < r->iova || r->offset + r->size < r->offset ||
	    r->offset + r->size > INT64_MAX || c->n_fds > 1)
		return EINVAL;
	if (c->n_fds == 1 && !is_memory(c->fds[0]))
		return EINVAL;
	pthread_mutex_lock(&e->lock);
	for (i = 0; i < e->n_maps; i++)
		if (r->iova < e->maps[i].iova + e->maps[i].size &&
		    e->maps[i].iova < r->iova + r->size)
			result = EEXIST;
	if (result == 0 && e->n_maps == VFIO_USER_MAX_DMA_MAPS)
		result = ENOSPC;
	maps = result ? NULL : realloc(e->maps, (e->n_maps + 1) * sizeof(*maps));
	if (maps) {
		e->maps = maps;
		if (c->n_fds == 1) {
			map.fd = c->fds[0];
			c->fds[0] = -1;
			result = map_huge(&map);
		}
		if (result)
			vgpu_close(&map.fd);
		else
			e->maps[e->n_maps++] = map;
	} else if (result == 0) {
		result = ENOMEM;
	}
	pthread_mutex_unlock(&e->lock);
	return result ? result : reply(c, NULL, 0, -1);
}

static int on_dma_unmap(struct vfio_endpoint *e, const void *payload, size_t size)
{
	struct vfio_user_dma_unmap r = *(const struct vfio_user_dma_unmap *)payload;
	bool all = r.flags & 2, found = all;
	unsigned i;

	(void)size;
	pthread_mutex_lock(&e->lock);
	if (all)
		endpoint_drop_maps(e);
	for (i = 0; i < e->n_maps; i++) {
		if (e->maps[i].iova != r.iova || e->maps[i].size != r.size)
			continue;
		drop_map(&e->maps[i]);
		e->maps[i] = e->maps[--e->n_maps];
		found = true;
		break;
	}
	pthread_mutex_unlock(&e->lock);
	return found ? reply(&e->c, &r, sizeof(r), -1) : ENOENT;
}

/* Returns whether an access lies within its region; regions that do not exist have size 0. */
static bool in_region(struct vfio_endpoint *e, const struct vfio_user_access *a)
{
	struct vfio_server_region region = {.mmap_fd = -1};

	if (a->region >= VFIO_USER_NUM_REGIONS || a->count > VFIO_USER_MAX_DATA)
		return false;
	e->ops->region(e->device, a->region, &region);
	return a->offset <= region.size && a->count <= region.size - a->offset;
}

static int on_region_read(struct vfio_endpoint *e, const void *payload, size_t)
{
	const struct vfio_user_access *r = payload;
	uint8_t small[sizeof(*r) + 256], *answer = small;
	size_t bytes = sizeof(*r) + r->count;
	int result;

	if (!in_region(e, r))
		return EINVAL;
	if (bytes > sizeof(small)) {
		answer = malloc(bytes);
		if (!answer)
			return ENOMEM;
	}
	memcpy(answer, r, sizeof(*r));
	e->ops->read(e->device, r->region, r->offset, answer + sizeof(*r), r->count);
	result = reply(&e->c, answer, bytes, -1);
	if (answer != small)
		free(answer);
	return result;
}

static int on_region_write(struct vfio_endpoint *e, const void *payload, size_t size)
{
	const struct vfio_user_access *r = payload;

	if (size != sizeof(*r) + r->count || !in_region(e, r))
		return EINVAL;
	e->ops->write(e->device, r->region, r->offset, r + 1, r->count);
	return reply(&e->c, r, sizeof(*r), -1);
}

static int on_reset(struct vfio_endpoint *e, const void *, size_t)
{
	e->ops->reset(e->device);
	return reply(&e->c, NULL, 0, -1);
}

static const struct {
	int (*handle)(struct vfio_endpoint *e, const void *payload, size_t size);
	size_t least;
} handlers[] = {
	[VFIO_USER_VERSION] = {on_version, sizeof(struct vfio_user_version)},
	[VFIO_USER_DMA_MAP] = {on_dma_map, sizeof(struct vfio_user_dma_map)},
	[VFIO_USER_DMA_UNMAP] = {on_dma_unmap, sizeof(struct vfio_user_dma_unmap)},
	[VFIO_USER_GET_INFO] = {on_get_info, sizeof(struct vfio_user_info)},
	[VFIO_USER_GET_REGION_INFO] = {on_region_info, sizeof(struct vfio_user_region_info)},
	[VFIO_USER_GET_IRQ_INFO] = {on_irq_info, sizeof(struct vfio_user_irq_info)},
	[VFIO_USER_SET_IRQS] = {on_set_irqs, sizeof(struct vfio_user_set_irqs)},
	[VFIO_USER_REGION_READ] = {on_region_read, sizeof(struct vfio_user_access)},
	[VFIO_USER_REGION_WRITE] = {on_region_write, sizeof(struct vfio_user_access)},
	[VFIO_USER_DEVICE_RESET] = {on_reset, 0},
};

int connection_handle(struct vfio_endpoint *e)
{
	struct connection *c = &e->c;
	const struct vfio_user_header *header = (void *)c->message;
	size_t size = header->size - sizeof(*header);
	int result = ENOSYS;

	if ((header->flags & VFIO_USER_TYPE_MASK) != 0)
		return -EPROTO; /* the server sends no requests, so it expects no replies */
	if (header->command < sizeof(handlers) / sizeof(handlers[0]) &&
	    handlers[header->command].handle) {
		if (size < handlers[header->command].least)
			result = EINVAL;
		else if (!c->ready && header->command != VFIO_USER_VERSION)
			result = EPROTO;
		else
			result = handlers[header->command].handle(e, header + 1, size);
	}
	if (result > 0)
		result = reply_error(c, result);
	connection_drop_fds(c);
	free(c->message);
	c->message = NULL;
	c->have = 0;
	return result;
}

/* Takes the descriptors of a message; closes those after the first VFIO_USER_MAX_FDS. */
static void take_fds(struct connection *c, struct vgpu_received *got)
{
	uint32_t i;

	for (i = 0; i < got->n_fds && c->n_fds < VFIO_USER_MAX_FDS; i++)
		c->fds[c->n_fds++] = vgpu_take(&got->fds[i]);
	vgpu_received_drop(got);
}

int connection_receive(struct connection *c)
{
	struct vfio_user_header header;
	struct vgpu_received got;
	uint8_t *to = c->head;
	size_t whole = sizeof(c->head);
	ssize_t n;

	if (c->message) {
		memcpy(&header, c->message, sizeof(header));
		to = c->message;
		whole = header.size;
	}
	n = vgpu_socket_receive(c->fd, to + c->have, whole - c->have, MSG_DONTWAIT, &got);
	if (n < 0)
		return n == -EAGAIN ? 0 : (int)n;
	take_fds(c, &got);
	if (n == 0)
		return -ECONNRESET;
	c->have += (size_t)n;
	if (!c->message) {
		if (c->have < sizeof(c->head))
			return 0;
		memcpy(&header, c->head, sizeof(header));
		if (header.size < sizeof(header) || header.size > VFIO_USER_MAX_SIZE)
			return -EMSGSIZE;
		c->message = malloc(header.size);
		if (!c->message)
			return -ENOMEM;
		memcpy(c->message, c->head, sizeof(header));
		return header.size == sizeof(header) ? 1 : connection_receive(c);
	}
	return c->have == header.size;
}

void vfio_endpoint_irq(struct vfio_endpoint *e, uint32_t vector)
{
	if (vector >= VFIO_USER_MAX_VECTORS)
		return;
	pthread_mutex_lock(&e->lock);
	signal_vector(e->vectors[vector]);
	pthread_mutex_unlock(&e->lock);
}

void vfio_endpoint_sync(struct vfio_endpoint *e)
{
	pthread_mutex_lock(&e->lock);
	pthread_mutex_unlock(&e->lock);
}

int vfio_endpoint_dma(struct vfio_endpoint *e, uint64_t iova, void *buffer, size_t size,
		      bool to_client)
{
	uint32_t right = to_client ? VFIO_USER_DMA_WRITE : VFIO_USER_DMA_READ;
	int r = -EFAULT;
	unsigned i;
	ssize_t n;
	off_t at;

	pthread_mutex_lock(&e->lock);
	for (i = 0; i < e->n_maps; i++) {
		const struct dma_map *m = &e->maps[i];

		if (iova < m->iova || iova - m->iova > m->size || size > m->size - (iova - m->iova))
			continue;
		if (m->fd < 0 || !(m->flags & right))
			break;
		if (m->memory) {
			char *p = (char *)m->memory + (iova - m->iova);

			memcpy(to_client ? p : buffer, to_client ? buffer : p, size);
			r = 0;
			break;
		}
		at = (off_t)(m->offset + (iova - m->iova));
		n = to_client ? pwrite(m->fd, buffer, size, at) : pread(m->fd, buffer, size, at);
		r = n == (ssize_t)size ? 0 : -EFAULT;
		break;
	}
	pthread_mutex_unlock(&e->lock);
	return r;
}
