/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "carry.h"
#include "link.h"
#include "workers.h"

#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* How long a worker may take to copy a piece, and to take, clear or give back all of its memory. */
#define ANSWER_MOST (5 * VGPU_SEC)

void carry_begin(struct carry *c, struct softgpu *gpu, int vf)
{
	int fds[2] = {-1, -1};

	*c = (struct carry){.vf = vf, .memory = -1, .stage = -1};
	c->number = workers_memory(gpu, vf, fds);
	if (fds[0] < 0)
		return;
	c->memory = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
	c->stage = c->memory < 0 ? -1 : fcntl(fds[1], F_DUPFD_CLOEXEC, 0);
	if (c->stage < 0)
		c->host = -errno;
}

/* Receives the answer to M. 0, or why there is none. */
static int await_answer(const struct carry *c, const struct worker_memory *m)
{
	struct pollfd p = {c->memory, POLLIN, 0};
	vgpu_nsec until = vgpu_now() + ANSWER_MOST, now;
	struct worker_memory answer;
	ssize_t n;

	while ((now = vgpu_now()) < until) {
		if (poll(&p, 1, (int)((until - now) / VGPU_MSEC) + 1) <= 0)
			continue;
		n = recv(c->memory, &answer, sizeof(answer), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n != sizeof(answer) || answer.what != m->what || answer.at != m->at ||
		    answer.bytes != m->bytes)
			return -EPIPE;
		return answer.result < 0 ? answer.result : 0;
	}
	return -ETIMEDOUT;
}

/* Whether this host had too little to do something that failed with -errno ERROR. */
static bool is_shortage(int error)
{
	static const int errors[] = {ENOMEM, ENOBUFS, ENOSPC, EFBIG, EDQUOT, EMFILE, ENFILE};
	size_t i;

	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (error == -errors[i])
			return true;
	return false;
}

static bool ask(struct carry *c, struct worker_memory m)
{
	if (c->memory < 0 || c->host < 0)
		return false;
	c->what = m.what;
	if (send(c->memory, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(m))
		c->result = await_answer(c, &m);
	else if (is_shortage(-errno))
		c->host = -errno;
	else
		c->result = -EPIPE;
	return c->result == 0 && c->host == 0;
}

/* The stage is read and written as a file: a worker cannot damage this process by what it maps. */
bool carry_copy(struct carry *c, uint64_t at, void *buffer, uint64_t n, bool out)
{
	const struct worker_memory m = {.what = out ? WORKER_MEMORY_OUT : WORKER_MEMORY_IN,
					.at = at,
					.bytes = n};

	if (c->stage < 0)
		return false;
	if (!out)
		c->host = memory_write(c->stage, 0, buffer, n);
	if (!ask(c, m))
		return false;
	if (out)
		c->host = memory_read(c->stage, 0, buffer, n);
	return c->host == 0;
}

bool carry_leave(struct carry *c)
{
	return ask(c, (struct worker_memory){.what = WORKER_MEMORY_LEAVE});
}

/* Why a VF's memory stays where it is for now. */
enum why { WHY_NONE = 0, WHY_BUSY, WHY_GPU, WHY_HOST };
static const char *const reasons[] = {
	[WHY_BUSY] = "a GPU kernel of it does not end, so its memory stays on the GPU for now",
	[WHY_GPU] = "the GPU has too little memory free, so the VF stays in host memory for now",
	[WHY_HOST] = "this host has too little memory, or softgpu too few descriptors, so the "
		     "VF's memory stays where it is for now",
};

/* What a worker may refuse for a time; any other result is the end of it, and so is any when its VF
 * has left: its memory is another VF's already. */
static enum why refusal(const struct carry *c)
{
	if (c->what == WORKER_MEMORY_LEAVE)
		return WHY_NONE;
	return c->result == -EBUSY ? WHY_BUSY : c->result == -ENOMEM ? WHY_GPU : WHY_NONE;
}

static void say(struct softgpu *gpu, int index, enum why why)
{
	struct vf *vf = &gpu->vfs[index];

	if (why != WHY_NONE && vf->told != why)
		fprintf(stderr, "<4>softgpu: VF %d: %s\n", index, reasons[why]);
	if (why != WHY_NONE)
		vf->told = why;
}

void carry_tell(struct softgpu *gpu, int vf, int error)
{
	say(gpu, vf, is_shortage(error) ? WHY_HOST : WHY_NONE);
}

bool carry_end(struct carry *c, struct softgpu *gpu)
{
	bool has_worker = c->memory >= 0 && workers_is(gpu, c->vf, c->number);
	enum why why = refusal(c);

	vgpu_close(&c->memory);
	vgpu_close(&c->stage);
	carry_tell(gpu, c->vf, c->host);
	say(gpu, c->vf, why);
	if (c->result < 0 && why == WHY_NONE && has_worker && link_lost(gpu->vfs[c->vf].link))
		fprintf(stderr,
			"<4>softgpu: VF %d: its memory cannot be copied: its worker is killed, and "
			"the VF needs a reset\n",
			c->vf);
	return has_worker && c->result == 0 && c->host == 0;
}
