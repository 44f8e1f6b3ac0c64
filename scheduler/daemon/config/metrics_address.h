/* SPDX-License-Identifier: MIT */
/* Addresses at which metrics can be served. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#define METRICS_ADDRESS_WANT                                                                       \
	"an address with a port, such as 127.0.0.1:9475 or [::1]:9475, or unix:PATH"

/* Returns whether WHERE is an address that can serve metrics: "unix:PATH", or one that
 * metrics_address_parse accepts. */
bool metrics_is_address(const char *where);
/* Reads "ADDRESS:PORT", "[IPV6-ADDRESS]:PORT" or "localhost:PORT". Returns the size of OUT's
 * address, or 0 for anything else. */
socklen_t metrics_address_parse(const char *where, struct sockaddr_storage *out);
/* Returns whether an address from metrics_address_parse is reachable only from this machine. */
bool metrics_address_is_local(const struct sockaddr_storage *address);
