/* SPDX-License-Identifier: MIT */
/* Inside the vfio-user server: user_server.c accepts and serves, user_messages.c reads and answers.
 */
#pragma once

#include <pthread.h>
#include <unistd.h>

#include "vfio/user_proto.h"
#include "vfio/user_server.h"

struct dma_map {
	int fd; /* -1: mapped without memory that the server can access */
	uint32_t flags;
	uint64_t iova, size, offset;
	void *memory; /* mapping of huge pages, which have no pwrite; else NULL */
};

struct connection {
	int fd;
	bool ready;  /* the version has been negotiated */
	size_t have; /* bytes of the current message received so far */
	uint8_t head[sizeof(struct vfio_user_header)];
	uint8_t *message; /* header and payload; NULL until the header is complete */
	int fds[VFIO_USER_MAX_FDS];
	unsigned n_fds;
	unsigned lent;	/* number of replies with a descriptor since the client had read
			 * everything */
	uint8_t *reply; /* a reply that is not completely sent yet */
	size_t reply_size, reply_sent;
};

struct vfio_endpoint {
	struct vfio_server *server;
	struct vfio_endpoint *next;
	char path[108];
	const struct vfio_server_ops *ops;
	void *device;
	int listener;
	bool closing;
	struct connection c; /* c.fd < 0: no client */

	/* Shared with other threads, protected by LOCK: */
	pthread_mutex_t lock;
	int vectors[VFIO_USER_MAX_VECTORS];
	struct dma_map *maps;
	unsigned n_maps;
};

/* Reads more of the current message. Returns 1: it is complete; 0: not yet; negative errno: the
 * connection must be ended. Server's thread, as the functions below. */
int connection_receive(struct connection *c);
/* Handles the complete message. Returns 0, or a negative errno if the connection must be ended. */
int connection_handle(struct vfio_endpoint *e);
/* Sends the rest of the reply. Returns 0: done; 1: the socket is full; or a negative errno. */
int connection_flush(struct connection *c);
void connection_drop_fds(struct connection *c);
void endpoint_drop_maps(struct vfio_endpoint *e);
