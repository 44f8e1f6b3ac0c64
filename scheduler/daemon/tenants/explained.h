/* SPDX-License-Identifier: MIT */
/*
 * The latest reasons why programs and containers got no VF, for users who cannot see a hook's
 * output. The number of reasons of each owner, and of the log lines that an owner causes, is
 * bounded. Control thread.
 */
#pragma once

#include "control/state.h"

/* Number of stored reasons, of all owners together and of each. */
#define EXPLAINED 64u
#define EXPLAINED_OF_OWNER 8u
/* Number of owners whose log lines are counted, and of lines of each in a minute. */
#define EXPLAINED_OWNERS 32u
#define EXPLAINED_LINES 30u

/* Frees what is kept. */
void explained_end(struct control *control);
/* Stores why the owner's container ID, or program, with the name NAME, got no VF. Replaces an older
 * reason of the same one. "?" replaces characters of WHY that are not printable ASCII. */
void explained_note(struct control *control, uid_t owner, const char *id, const char *name,
		    const char *why);
/* Finds the owner's latest reason: any for "last", else of that id or name; of all owners, if ALL.
 * Returns NULL, or an object {id, name, owner, why, at_ns} that the caller frees. */
struct json_object *explained_find(const struct control *control, uid_t owner, bool all,
				   const char *id);
/* Returns whether a log line about this owner may be written; counts it. */
bool explained_may_log(struct control *control, uid_t owner);
