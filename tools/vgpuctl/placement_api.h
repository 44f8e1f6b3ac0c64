/* SPDX-License-Identifier: MIT */
/*
 * OpenStack's placement, by its HTTP API (docs.openstack.org/api-ref/placement), with the token as
 * http.h says. Paths are relative to BASE, its URL. An answer is the caller's to free. Members of
 * an answer stay the answer's; an answer may be anything, NULL included. Requests block for half a
 * minute at most. One thread.
 */
#ifndef VGPUCTL_PLACEMENT_API_H
#define VGPUCTL_PLACEMENT_API_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

/* Sends a request, with BODY or NULL. Returns the status, and the answer, or NULL. A negative
 * number: the reason is on stderr. */
int api_request(const char *base, const char *method, const char *path, struct json_object *body,
		struct json_object **answer);
/* Sends a request that must succeed; WHAT says what it is about: "to list providers". Returns an
 * exit code: EXIT_OK and the answer, or the reason is on stderr. */
int api_must(const char *base, const char *method, const char *path, struct json_object *body,
	     const char *what, struct json_object **answer);
/* The same for a request without a body, whose answer does not matter. */
int api_tell(const char *base, const char *method, const char *path, const char *what);

bool api_is_good(int status);
/* Says on stderr that placement has refused WHAT, and what it says; nothing for a negative STATUS.
 * Returns EXIT_FAILED. */
int api_refused(const char *what, int status, struct json_object *answer);
/* Says that an answer to WHAT makes no sense. Returns EXIT_FAILED. */
int api_not_understood(const char *what);

/* A member that is a list, or an object; NULL: there is none. */
struct json_object *api_list(struct json_object *answer, const char *key);
struct json_object *api_object(struct json_object *answer, const char *key);
/* A text; "": it is none. */
const char *api_text(struct json_object *o);
/* What placement says of a request that it has refused: "code" or "detail"; "": nothing. */
const char *api_fault(struct json_object *answer, const char *key);

/* Writes a name for a query (RFC 3986, unreserved characters). */
void api_escape(const char *name, char *out, size_t size);

#endif
