/* SPDX-License-Identifier: MIT */
/*
 * A vfio-user server: one thread that serves any number of devices, each on a socket of its own,
 * one client at a time. A client that sends rubbish, stops in the middle of a message, or never
 * reads its replies costs its own connection only.
 */
#ifndef VFIO_USER_SERVER_H
#define VFIO_USER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgpu/types.h"

struct vfio_server_region {
	uint64_t size; /* 0: there is no such region */
	bool writable;
	int mmap_fd;	    /* -1: not mappable; else the device's, duplicated for each client */
	uint64_t mmap_size; /* from offset 0 */
};

/* What a device does. Called on the server's thread, never for two messages at once. */
struct vfio_server_ops {
	void (*region)(void *device, uint32_t index, struct vfio_server_region *out);
	uint32_t (*irqs)(void *device, uint32_t index); /* how many vectors */
	void (*read)(void *device, uint32_t region, uint64_t offset, void *data, uint32_t count);
	void (*write)(void *device, uint32_t region, uint64_t offset, const void *data,
		      uint32_t count);
	void (*reset)(void *device);
	/* The client has gone; its memory and eventfds are closed already. */
	void (*disconnected)(void *device);
};

struct vfio_server;
struct vfio_endpoint;

/* Starts a server's thread, called NAME (15 bytes at most), with SCHED_FIFO priority FIFO where
 * that is allowed (0: normal). Returns 0 or -errno. */
int vfio_server_create(struct vfio_server **out, const char *name, int fifo,
		       struct vgpu_error *err);

/* Closes all endpoints and ends the thread. Not from a callback. */
void vfio_server_destroy(struct vfio_server *server);

/* Offers DEVICE at the socket PATH (replaced if a dead one lies there). Any thread. */
int vfio_server_add(struct vfio_server *server, const char *path, const struct vfio_server_ops *ops,
		    void *device, struct vfio_endpoint **out, struct vgpu_error *err);

/* The same at a LISTENER that somebody else has bound; it belongs to the endpoint from then on, but
 * its path is not removed with it. 0 or -ENOMEM. Any thread. */
int vfio_server_adopt(struct vfio_server *server, int listener, const struct vfio_server_ops *ops,
		      void *device, struct vfio_endpoint **out);

/* Binds a listening socket to PATH, where a dead one is replaced. Its descriptor, or -errno. */
int vfio_server_listen(const char *path, struct vgpu_error *err);

/* Takes the device away: closes its client and its socket, and waits until no callback of it runs.
 * Not from one of its own callbacks, nor from those of another endpoint of the same server. */
void vfio_server_remove(struct vfio_endpoint *endpoint);

/* Raises vector VECTOR of MSI-X, if a client listens. Any thread. */
void vfio_endpoint_irq(struct vfio_endpoint *endpoint, uint32_t vector);

/* Waits until no interrupt is being raised: a client can make that take for ever. Any thread. */
void vfio_endpoint_sync(struct vfio_endpoint *endpoint);

/*
 * Copies between BUFFER and the client's own memory at IOVA, only inside what it has mapped, with
 * the right that it gave. Returns 0 or -EFAULT. Any thread; does not block.
 */
int vfio_endpoint_dma(struct vfio_endpoint *endpoint, uint64_t iova, void *buffer, size_t size,
		      bool to_client);

#endif
