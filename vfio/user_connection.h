/* SPDX-License-Identifier: MIT */
/* Inside the vfio-user server: user_server.c accepts and serves, user_messages.c reads and answers.
 */
#ifndef VFIO_USER_CONNECTION_H
#define VFIO_USER_CONNECTION_H

#include <pthread.h>
#include <unistd.h>

#include "vfio/user_proto.h"
#include "vfio/user_server.h"

struct dma_map {
	int fd; /* -1: mapped without memory that we could reach */
	uint32_t flags;
	uint64_t iova, size, offset;
	void *memory; /* of huge pages, which cannot be written to but by a mapping; else NULL */
};

struct connection {
	int fd;
	bool ready;  /* the version is agreed */
	size_t have; /* bytes of the message at hand */
	uint8_t head[sizeof(struct vfio_user_header)];
	uint8_t *message; /* header and payload; NULL until the header is here */
	int fds[VFIO_USER_MAX_FDS];
	unsigned n_fds;
	uint8_t *reply; /* what could not be sent yet */
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
	struct connection c; /* c.fd < 0: nobody */

	/* Reached by other threads: */
	pthread_mutex_t lock;
	int vectors[VFIO_USER_MAX_VECTORS];
	struct dma_map *maps;
	unsigned n_maps;
};

/* Reads what is missing of the message at hand. 1: complete, 0: not yet, negative: the end. */
int connection_receive(struct connection *c);
/* Handles the complete message. Negative: end the connection. */
int connection_handle(struct vfio_endpoint *e);
/* Sends what is left of the reply; 0 done, 1 to be continued, negative errno. */
int connection_flush(struct connection *c);
void connection_drop_fds(struct connection *c);
void endpoint_drop_maps(struct vfio_endpoint *e);

#endif
