/* SPDX-License-Identifier: MIT */
#include "explained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/put.h"
#include "vgpu/clock.h"

#define LINES_TIME (60 * VGPU_SEC)

struct explained {
	struct reason {
		vgpu_nsec at; /* CLOCK_MONOTONIC; 0: none */
		uid_t owner;
		char id[CLAIM_ID_SIZE], name[101], why[400];
	} reasons[EXPLAINED];
	struct owner {
		uid_t owner;
		vgpu_nsec since; /* when its minute began, CLOCK_MONOTONIC */
		uint32_t lines;
	} owners[EXPLAINED_OWNERS];
};

static struct explained *kept(struct control *control)
{
	if (!control->explained)
		control->explained = calloc(1, sizeof(*control->explained));
	return control->explained;
}

void explained_end(struct control *control)
{
	free(control->explained);
	control->explained = NULL;
}

/* Reasons quote other users' texts, and root may read them at a terminal. */
static void copy_plain(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
	for (; *to; to++)
		if (*to < ' ' || *to > '~')
			*to = '?';
}

/* The slot for a new reason: that of the same container or program, else the owner's oldest if the
 * owner has enough, else the oldest of all. */
static struct reason *place_of(struct explained *e, uid_t owner, const char *id, const char *name)
{
	struct reason *oldest = &e->reasons[0], *own = NULL, *r;
	uint32_t n = 0;

	for (r = e->reasons; r < e->reasons + EXPLAINED; r++) {
		if (r->at < oldest->at)
			oldest = r;
		if (!r->at || r->owner != owner)
			continue;
		if (strcmp(r->id, id) == 0 && strcmp(r->name, name) == 0)
			return r;
		n++;
		if (!own || r->at < own->at)
			own = r;
	}
	return n >= EXPLAINED_OF_OWNER ? own : oldest;
}

void explained_note(struct control *control, uid_t owner, const char *id, const char *name,
		    const char *why)
{
	struct explained *e = kept(control);
	struct reason *r = e ? place_of(e, owner, id, name) : NULL;

	if (!r)
		return;
	*r = (struct reason){.at = vgpu_now(), .owner = owner};
	snprintf(r->id, sizeof(r->id), "%s", id);
	snprintf(r->name, sizeof(r->name), "%.100s", name);
	copy_plain(r->why, sizeof(r->why), why);
}

/* Users may give the first characters of an id. */
static bool is_called(const struct reason *r, const char *id)
{
	size_t n = strlen(id);

	return strcmp(id, "last") == 0 || strcmp(r->name, id) == 0 ||
	       (n >= 6 && strncmp(r->id, id, n) == 0) || (r->id[0] && strcmp(r->id, id) == 0);
}

struct json_object *explained_find(const struct control *control, uid_t owner, bool all,
				   const char *id)
{
	const struct explained *e = control->explained;
	const struct reason *r, *found = NULL;
	struct json_object *o;

	for (r = e ? e->reasons : NULL; r && r < e->reasons + EXPLAINED; r++)
		if (r->at && (all || r->owner == owner) && is_called(r, id) &&
		    (!found || r->at > found->at))
			found = r;
	if (!found)
		return NULL;
	o = json_object_new_object();
	put_text(o, "id", found->id);
	put_text(o, "name", found->name);
	put_int(o, "owner", found->owner);
	put_text(o, "why", found->why);
	put_int(o, "at_ns", found->at);
	return o;
}

bool explained_may_log(struct control *control, uid_t owner)
{
	struct explained *e = kept(control);
	struct owner *o, *oldest;
	vgpu_nsec now = vgpu_now();

	if (!e)
		return true;
	oldest = &e->owners[0];
	for (o = e->owners; o < e->owners + EXPLAINED_OWNERS; o++) {
		if (o->since && o->owner == owner)
			break;
		if (o->since < oldest->since)
			oldest = o;
	}
	if (o == e->owners + EXPLAINED_OWNERS || now - o->since > LINES_TIME) {
		o = o == e->owners + EXPLAINED_OWNERS ? oldest : o;
		*o = (struct owner){.owner = owner, .since = now};
	}
	return o->lines++ < EXPLAINED_LINES;
}
