/* SPDX-License-Identifier: MIT */
/*
 * A vfio-user server: one thread that serves any number of devices, each on a socket of its own,
 * one client at a time. A client that sends malformed input, stops in the middle of a message, or
 * never reads its replies affects only its own connection.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgpu/types.h"

struct vfio_server_region {
	uint64_t size; /* bytes; 0: there is no such region */
	bool writable;
	int mmap_fd;	    /* owned by the device, clients get copies; -1: not mappable */
	uint64_t mmap_size; /* from offset 0 */
};

/* The callbacks of a device. The server's thread calls them, for one message at a time. */
struct vfio_server_ops {
	void (*region)(void *device, uint32_t index, struct vfio_server_region *out);
	uint32_t (*irqs)(void *device, uint32_t index); /* returns the number of vectors */
	void (*read)(void *device, uint32_t region, uint64_t offset, void *data, uint32_t count);
	void (*write)(void *device, uint32_t region, uint64_t offset, const void *data,
		      uint32_t count);
	void (*reset)(void *device);
	/* The client has disconnected; its memory and eventfds are already closed. */
	void (*disconnected)(void *device);
};

struct vfio_server;
struct vfio_endpoint;

/* Starts a server with a thread called NAME (at most 15 bytes), with SCHED_FIFO priority FIFO if
 * permitted (0: normal). Returns 0, or -errno with the reason in ERR. */
int vfio_server_create(struct vfio_server **out, const char *name, int fifo,
		       struct vgpu_error *err);

/* Limits the CPU time of the server's thread to PERCENT of one CPU (1 to 100) in the long run, and
 * to unused time of at most MOST ns that it has saved. When the time is used up the thread sleeps,
 * and its clients wait. Must be called before the server has clients. */
void vfio_server_limit(struct vfio_server *server, uint32_t percent, vgpu_nsec most);

/* Closes all endpoints, ends the thread and frees SERVER. Not from a callback. */
void vfio_server_destroy(struct vfio_server *server);

/* Offers DEVICE at the socket PATH, to this process's user only; replaces a socket at which no
 * process listens. Returns 0, or -errno with the reason in ERR. Any thread. */
int vfio_server_add(struct vfio_server *server, const char *path, const struct vfio_server_ops *ops,
		    void *device, struct vfio_endpoint **out, struct vgpu_error *err);

/* Offers DEVICE to one client. CONNECTION, which is non-blocking, is owned by the endpoint from
 * then on. Returns 0 or -ENOMEM. Any thread. */
int vfio_server_adopt(struct vfio_server *server, int connection, const struct vfio_server_ops *ops,
		      void *device, struct vfio_endpoint **out);

/* Tells the client at connection FD that the device is in use. The caller keeps FD. Any thread. */
void vfio_server_refuse(int fd);

/* Lets the server's thread call ANSWER between two messages; as long as a client blocks the thread,
 * ANSWER is not called. Called by one thread only, always with the same ANSWER and DATA. */
void vfio_server_ask(struct vfio_server *server, void (*answer)(void *data), void *data);

/* Removes a device: disconnects its client, closes its socket, and waits until none of its
 * callbacks runs. Not from a callback of the same server. */
void vfio_server_remove(struct vfio_endpoint *endpoint);

/* Raises vector VECTOR of MSI-X, if a client listens. Any thread. */
void vfio_endpoint_irq(struct vfio_endpoint *endpoint, uint32_t vector);

/* Waits until no interrupt is being raised; a client can delay that for ever. Any thread. */
void vfio_endpoint_sync(struct vfio_endpoint *endpoint);

/*
 * Copies SIZE bytes between BUFFER and the client's memory at IOVA, within one mapping of the
 * client and as the mapping permits. Returns 0 or -EFAULT. Any thread; does not block.
 */
int vfio_endpoint_dma(struct vfio_endpoint *endpoint, uint64_t iova, void *buffer, size_t size,
		      bool to_client);
