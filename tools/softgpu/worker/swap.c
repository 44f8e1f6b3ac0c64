/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "swap.h"

static bool is_range(const struct swap *s, const struct worker_memory *m)
{
	return m->bytes > 0 && m->bytes <= WORKER_STAGE && m->at <= s->bytes &&
	       m->bytes <= s->bytes - m->at;
}

static int out(struct swap *s, const struct worker_memory *m)
{
	if (s->away || !is_range(s, m))
		return -EINVAL;
	return s->ops->copy(s->device, m->at, m->bytes, true);
}

/* Takes a piece of a copy that comes back: one that begins anew or repeats a part, but none after a
 * gap. Returns 0 or -errno. */
static int in(struct swap *s, const struct worker_memory *m)
{
	int r;

	if (!s->away || !is_range(s, m) || m->at > s->upto)
		return -EINVAL;
	r = s->entered ? 0 : s->ops->enter(s->device);
	if (r < 0)
		return r;
	s->entered = true;
	r = s->ops->copy(s->device, m->at, m->bytes, false);
	if (r < 0)
		return r;
	if (m->at + m->bytes > s->upto)
		s->upto = m->at + m->bytes;
	s->away = s->upto < s->bytes;
	return 0;
}

static int leave(struct swap *s)
{
	if (s->bytes == 0)
		return 0;
	s->away = true;
	s->entered = false;
	s->upto = 0;
	return s->ops->leave(s->device);
}

int swap_serve(struct swap *s, struct worker_memory *m)
{
	switch (m->what) {
	case WORKER_MEMORY_OUT:
		m->result = out(s, m);
		break;
	case WORKER_MEMORY_IN:
		m->result = in(s, m);
		break;
	case WORKER_MEMORY_LEAVE:
		m->result = leave(s);
		break;
	default:
		m->result = -EINVAL;
		break;
	}
	return m->result == -EIO ? -EIO : 0;
}
