/* SPDX-License-Identifier: MIT */
#include "share.h"

#include <errno.h>

#include "vgpu/clock.h"

static void count(struct share *share)
{
	vgpu_nsec now = vgpu_now();

	share->credit += (int64_t)((now - share->counted) / SHARE_OF);
	if (share->credit > (int64_t)SHARE_BURST)
		share->credit = (int64_t)SHARE_BURST;
	share->counted = now;
}

vgpu_nsec share_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

void share_charge(struct share *share, vgpu_nsec begun)
{
	count(share);
	share->credit -= (int64_t)(share_clock() - begun);
}

vgpu_nsec share_wait(struct share *share)
{
	count(share);
	return share->credit > 0 ? 0 : (vgpu_nsec)(1 - share->credit) * SHARE_OF;
}

static void plan(struct share *share)
{
	vgpu_nsec wait = share_wait(share);
	struct timeval after = {(time_t)(wait / VGPU_SEC),
				(suseconds_t)(wait % VGPU_SEC / VGPU_USEC)};

	if (share->first)
		event_add(share->turn, &after);
}

static void on_turn(evutil_socket_t, short, void *data)
{
	struct share *share = data;
	struct piece *piece = share->first;
	vgpu_nsec begun = share_clock();

	if (piece && share_wait(share) == 0) {
		share_remove(share, piece);
		piece->run(piece);
		share_charge(share, begun);
	}
	plan(share);
}

int share_start(struct share *share, struct event_base *base)
{
	*share = (struct share){.counted = vgpu_now(), .credit = (int64_t)SHARE_BURST};
	share->last = &share->first;
	share->turn = evtimer_new(base, on_turn, share);
	return share->turn ? 0 : -ENOMEM;
}

void share_stop(struct share *share)
{
	if (share->turn)
		event_free(share->turn);
	share->turn = NULL;
	while (share->first)
		share_remove(share, share->first);
}

void share_add(struct share *share, struct piece *piece)
{
	if (piece->waits)
		return;
	piece->waits = true;
	piece->next = NULL;
	*share->last = piece;
	share->last = &piece->next;
	if (share->first == piece)
		plan(share);
}

void share_remove(struct share *share, struct piece *piece)
{
	struct piece **link = &share->first;

	if (!piece->waits)
		return;
	while (*link != piece)
		link = &(*link)->next;
	*link = piece->next;
	if (!*link)
		share->last = link;
	piece->waits = false;
}
