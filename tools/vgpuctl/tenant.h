/* SPDX-License-Identifier: MIT */
/* The commands for programs and containers, which use the tenants' socket of vgpud. One thread. */
#pragma once

#include "commands.h"
#include "options.h"
#include "vgpu/local_socket.h"

/* Calls METHOD at the tenants' socket with ARGS, which it frees. Returns the connection, and the
 * answer in *ANSWER, both owned by the caller; or an exit code as a negative number, with the
 * reason on stderr. */
int tenant_call(const struct options *o, const char *method, struct json_object *args,
		struct json_object **answer);
/* Writes the directory that has the tenants' socket and the leases' directories to OUT. */
void tenant_directory(const struct options *o, char out[VGPU_SOCKET_PATH]);
/* Makes the arguments of tenant.start from the options and from the parameters NAME=VALUE with
 * which *WORDS begins; sets *WORDS to the first word after them. The caller frees the arguments.
 * Returns NULL, with the reason on stderr, if an option is invalid. */
struct json_object *tenant_claim(const struct options *o, char ***words);
/* Carries out a command whose method is one of the tenants' socket. Returns an exit code. */
int tenant(const struct options *o, const struct command *c, char **words);

/* Print the results of tenant.list and tenant.explain. */
void view_tenant_list(struct json_object *o);
void view_tenant_explain(struct json_object *o);
