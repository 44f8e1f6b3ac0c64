/* SPDX-License-Identifier: MIT */
/* The commands for programs and containers, which speak to the tenants' socket of vgpud. */
#ifndef VGPUCTL_TENANT_H
#define VGPUCTL_TENANT_H

#include "commands.h"
#include "options.h"

/* Calls METHOD at the tenants' socket with ARGS, which it frees. Returns the connection, which the
 * caller closes, and the answer, which he frees; or an exit code as a negative number: the reason
 * is on stderr. */
int tenant_call(const struct options *o, const char *method, struct json_object *args,
		struct json_object **answer);
/* Does a command whose method is one of the tenants' socket. Returns an exit code. */
int tenant(const struct options *o, const struct command *c, char **words);

void view_tenant_list(struct json_object *o);
void view_tenant_explain(struct json_object *o);

#endif
