/* SPDX-License-Identifier: MIT */
/* Addresses at which metrics can be offered. */
#ifndef DAEMON_METRICS_ADDRESS_H
#define DAEMON_METRICS_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether WHERE is an address that can serve metrics: "127.0.0.1:PORT", "[::1]:PORT" or
 * "unix:PATH". */
bool metrics_is_address(const char *where);
/* Splits "HOST:PORT" of this machine: HOST without brackets goes to OUT. Returns PORT, or -1. */
int32_t metrics_address_split(const char *where, char out[16]);

#endif
