/* SPDX-License-Identifier: MIT */
/* A client of the control socket or the hook socket. Owned by the control thread. */
#ifndef DAEMON_CLIENT_H
#define DAEMON_CLIENT_H

#include <event2/bufferevent.h>

#include "state.h"

struct client {
	struct client *next;
	struct control *control;
	struct bufferevent *stream;
	uint32_t n_calls;
	bool may_change, is_hook;
};

#endif
