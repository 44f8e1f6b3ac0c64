/* SPDX-License-Identifier: MIT */
/* Requests to an OpenStack service, which curl sends. */
#ifndef VGPUCTL_HTTP_H
#define VGPUCTL_HTTP_H

#include <stddef.h>

#include "vgpu/types.h"

#define HTTP_LONGEST (16u << 20) /* bytes of an answer */

/*
 * Sends a request to placement with the token in $OS_TOKEN, or in the file that $OS_TOKEN_FILE
 * names, if there is one, and BODY, JSON, or NULL. Returns the HTTP status, of whatever kind, and
 * the answer's body in *TEXT, which the caller frees; or -errno, and the reason is on stderr.
 * Blocks for half a minute at most. One thread.
 */
int http_request(const char *method, const char *url, const char *body, char **text, size_t *size);

/* Requests may take until INSTANT (CLOCK_MONOTONIC) together, and half a minute each. */
void http_until(vgpu_nsec instant);

/* What an operator can do about a status, as the end of a sentence; "": nothing is known. */
const char *http_hint(int status);

#endif
