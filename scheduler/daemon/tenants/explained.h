/* SPDX-License-Identifier: MIT */
/*
 * Why programs and containers got no VF: the latest reasons, for who cannot see what a hook prints.
 * Each owner has a few, and causes a bounded number of lines of the log. Control thread.
 */
#ifndef DAEMON_EXPLAINED_H
#define DAEMON_EXPLAINED_H

#include "control/state.h"

/* Reasons that are kept, of all owners together and of each. */
#define EXPLAINED 64u
#define EXPLAINED_OF_OWNER 8u
/* Owners whose lines are counted, and lines of each in a minute. */
#define EXPLAINED_OWNERS 32u
#define EXPLAINED_LINES 30u

/* Frees what is kept. */
void explained_end(struct control *control);
/* Keeps why the owner's container ID, or program, which is called NAME, got none. It takes the
 * place of an older reason of the same. Of WHY, "?" stands for what is not printable ASCII. */
void explained_note(struct control *control, uid_t owner, const char *id, const char *name,
		    const char *why);
/* Finds the owner's latest reason: of any, for "last", else of that id or name; of all owners, if
 * ALL. Returns NULL, or an object {id, name, owner, why, at_ns} that the caller frees. */
struct json_object *explained_find(const struct control *control, uid_t owner, bool all,
				   const char *id);
/* Whether a line of the log about this owner may be written; counts it. */
bool explained_may_log(struct control *control, uid_t owner);

#endif
