/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "carry.h"
#include "doors.h"
#include "link.h"
#include "workers.h"

#include "vgpu/clock.h"
#include "vgpu/untrusted.h"

/* How long a worker may take for one answer: to copy a piece, and to take, clear or give back all
 * of its memory. All answers of a swap together may take as long, and BYTE_MOST ns for each byte:
 * others wait for the engine that copies. */
#define ANSWER_MOST (5 * VGPU_SEC)
#define BYTE_MOST 20u

void carry_begin(struct carry *c, struct softgpu *gpu, int index, bool anew)
{
	struct vf *vf = &gpu->vfs[index];
	vgpu_nsec most = ANSWER_MOST + (vf->fb_size - vf->file->size) * BYTE_MOST;
	int fds[2] = {-1, -1};

	if (anew)
		vf->waited = 0;
	*c = (struct carry){.vf = index, .memory = -1, .stage = MAP_FAILED};
	c->left = vf->waited < most ? most - vf->waited : 0;
	c->number = workers_memory(gpu, index, fds);
	if (fds[0] < 0)
		return;
	c->memory = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
	if (c->memory >= 0)
		c->stage = mmap(NULL, WORKER_STAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	if (c->stage == MAP_FAILED)
		c->host = -errno;
}

/* Receives the answer to M. 0, or why there is none. */
static int await_answer(const struct carry *c, const struct worker_memory *m)
{
	struct pollfd p = {c->memory, POLLIN, 0};
	vgpu_nsec now = vgpu_now(), until = now + (c->left < ANSWER_MOST ? c->left : ANSWER_MOST);
	struct worker_memory answer;
	ssize_t n;

	while ((now = vgpu_now()) < until) {
		if (poll(&p, 1, (int)((until - now) / VGPU_MSEC) + 1) <= 0)
			continue;
		n = vgpu_untrusted_receive(c->memory, &answer, sizeof(answer));
		if (n == -EAGAIN)
			continue;
		if (n != sizeof(answer) || answer.what != m->what || answer.at != m->at ||
		    answer.bytes != m->bytes)
			return -EPIPE;
		return answer.result < 0 ? answer.result : 0;
	}
	return -ETIMEDOUT;
}

/* Returns whether this host had too little to do something that failed with -errno ERROR. */
static bool is_shortage(int error)
{
	static const int errors[] = {ENOMEM, ENOBUFS, ENOSPC, EFBIG, EDQUOT, EMFILE, ENFILE};
	size_t i;

	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (error == -errors[i])
			return true;
	return false;
}

static bool ask_worker(struct carry *c, struct worker_memory m)
{
	vgpu_nsec began = vgpu_now();

	if (c->memory < 0 || c->host < 0)
		return false;
	c->what = m.what;
	if (send(c->memory, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(m))
		c->result = await_answer(c, &m);
	else if (is_shortage(-errno))
		c->host = -errno;
	else
		c->result = -EPIPE;
	c->waited = vgpu_now() - began;
	return c->result == 0 && c->host == 0;
}

/* Accesses the stage by a mapping: it needs no lock of the file, which a worker may hold, and the
 * file's seals keep it from shrinking. */
bool carry_copy(struct carry *c, uint64_t at, void *buffer, uint64_t n, bool out)
{
	const struct worker_memory m = {.what = out ? WORKER_MEMORY_OUT : WORKER_MEMORY_IN,
					.at = at,
					.bytes = n};

	if (c->stage == MAP_FAILED)
		return false;
	if (!out)
		memcpy(c->stage, buffer, n);
	if (!ask_worker(c, m))
		return false;
	if (out)
		memcpy(buffer, c->stage, n);
	return true;
}

bool carry_leave(struct carry *c)
{
	return ask_worker(c, (struct worker_memory){.what = WORKER_MEMORY_LEAVE});
}

/* Why a VF's memory stays where it is for now. */
enum why { WHY_NONE = 0, WHY_BUSY, WHY_GPU, WHY_HOST };
static const char *const reasons[] = {
	[WHY_BUSY] = "a GPU kernel of it does not end, so its memory stays on the GPU for now",
	[WHY_GPU] = "the GPU has too little memory free, so the VF stays in host memory for now",
	[WHY_HOST] = "this host has too little memory, or softgpu too few descriptors, so the "
		     "VF's memory stays where it is for now",
};

/* Returns the error with which a worker may refuse a request for a time. Any other error ends the
 * worker, and so does any error when its VF has left, because another VF already has its memory. */
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

	doors_discard_later(gpu->doors, &c->memory);
	if (c->stage != MAP_FAILED)
		munmap(c->stage, WORKER_STAGE);
	if (has_worker)
		gpu->vfs[c->vf].waited += c->waited;
	carry_tell(gpu, c->vf, c->host);
	say(gpu, c->vf, why);
	if (c->result < 0 && why == WHY_NONE && has_worker && link_lost(gpu->vfs[c->vf].link))
		fprintf(stderr,
			"<4>softgpu: VF %d: its memory cannot be copied: its worker is killed, and "
			"the VF needs a reset\n",
			c->vf);
	return has_worker && c->result == 0 && c->host == 0;
}
