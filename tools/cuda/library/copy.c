/* SPDX-License-Identifier: MIT */
/* Copies of contiguous bytes. Data in plain memory goes through the window: when a copy to the
 * device returns, the program's memory has been read; when a copy from the device returns, it has
 * ended. CUDA permits both for memory that is not pinned. Pinned memory lies in the window: its
 * copy is one packet, and the call does not wait. */
#include "copy.h"

#include "vgpu/clock.h"
#include "vgpu/words.h"

/* Number of parts of the window that steps of a copy use in turn, so that the program can fill or
 * read some while the VF copies others: as many as the VF copies while this process sleeps once. */
#define PARTS 8u
/* The longest step, bytes: copying it takes long compared to a packet, and is short compared to a
 * large copy; all parts fit into a cache. */
#define STEP_MOST (UINT64_C(512) << 10)

/*
 * The host polls for 100 us (LINGER in worker/main.c) after its last copy. On an emulated CPU a
 * step of STEP_MOST takes longer: the host stops polling, and starting it again takes as long as a
 * step. So if a step takes more than STEP_TIME, later copies use shorter steps, down to STEP_LEAST
 * (about 25 us in QEMU's TCG), and more of them, so that as many bytes are in flight. The fastest
 * step of a copy decides, because other steps take up to a fifth longer, and two thirds longer
 * while two CPUs write the same memory.
 */
#define STEP_TIME (75 * VGPU_USEC)
#define STEP_LEAST (UINT64_C(64) << 10)
#define PARTS_MOST (PARTS * STEP_MOST / STEP_LEAST)
_Static_assert(PARTS_MOST <= LINK_BATCH, "a copy that does not wait has a packet for each");
/* Copies of fewer steps do not change the length, because another thread may have had the CPU
 * during them. */
#define STEPS_TO_LEARN 4u

static uint64_t step_now = STEP_MOST;

uint64_t copy_step(uint64_t bytes)
{
	uint64_t most = link_stage_size() / PARTS / 64 * 64;

	most = most < STEP_MOST ? most : STEP_MOST;
	return bytes < most ? bytes : most;
}

bool copy_find(CUdeviceptr at, uint64_t bytes, struct copy_place *p)
{
	*p = (struct copy_place){0};
	if (memory_find(at, bytes, &p->offset))
		return true;
	p->symbol = symbol_at(at, bytes);
	p->offset = p->symbol ? at - p->symbol->known.at : 0;
	return p->symbol;
}

CUresult copy_in(const struct copy_place *p, uint64_t offset, uint64_t from, uint64_t bytes)
{
	if (p->symbol)
		return symbol_put(p->symbol, p->offset + offset, from, bytes, false);
	return link_put(SOFTGPU_UPLOAD, 0, (uint64_t[7]){p->offset + offset, from, bytes});
}

CUresult copy_out(const struct copy_place *p, uint64_t offset, uint64_t to, uint64_t bytes)
{
	if (p->symbol)
		return symbol_put(p->symbol, p->offset + offset, to, bytes, true);
	return link_put(SOFTGPU_DOWNLOAD, 0, (uint64_t[7]){to, p->offset + offset, bytes});
}

/* A copy in steps: step I has LENGTH() bytes at I * STEP. */
struct steps {
	uint64_t bytes, step, n, parts, at;
	uint8_t *memory;
	uint64_t marks[PARTS_MOST];
	uint64_t n_timed;
	vgpu_nsec least; /* the shortest time that this process took for a whole step, ns */
};

/* Takes the part of the window that a copy of BYTES > 0 needs, and divides the copy into steps. */
static CUresult begin_steps(struct steps *s, uint64_t bytes)
{
	uint64_t all = PARTS * copy_step(UINT64_MAX), taken;

	s->bytes = bytes;
	s->step = copy_step(bytes < step_now ? bytes : step_now);
	s->parts = all / s->step < PARTS_MOST ? all / s->step : PARTS_MOST;
	s->n = (bytes - 1) / s->step + 1;
	s->n_timed = 0;
	s->least = VGPU_NEVER;
	taken = s->n < s->parts ? s->n * s->step : s->parts * s->step;
	return link_stage(&taken, &s->memory, &s->at);
}

static uint64_t length(const struct steps *s, uint64_t i)
{
	uint64_t left = s->bytes - i * s->step;

	return left < s->step ? left : s->step;
}

/* Returns the offset of step I behind the first part of the window. */
static uint64_t part(const struct steps *s, uint64_t i)
{
	return i % s->parts * s->step;
}

/* Copies step I between the program's memory and the window. */
static void move_step(struct steps *s, uint64_t i, void *to, const void *from)
{
	vgpu_nsec began, took;

	if (length(s, i) < s->step || s->step < STEP_LEAST) {
		vgpu_copy_words(to, from, length(s, i));
		return;
	}
	began = vgpu_now();
	vgpu_copy_words(to, from, s->step);
	took = vgpu_now() - began;
	s->least = took < s->least ? took : s->least;
	s->n_timed++;
}

/* Sets the length of steps of later copies: the longest that this CPU copies within STEP_TIME. */
static void end_steps(const struct steps *s)
{
	if (s->n_timed < STEPS_TO_LEARN)
		return;
	step_now = STEP_MOST;
	while (step_now > STEP_LEAST && s->least * step_now > STEP_TIME * s->step)
		step_now /= 2;
}

/* Ends a copy of more packets than link_stage() leaves room for, or one that failed with E. Waits,
 * because its part of the window must not be given to another copy while packets use it. */
static CUresult wait_after(CUresult e)
{
	CUresult last = link_wait();

	return e != CUDA_SUCCESS ? e : last;
}

/* Puts one packet for a copy between P and pinned memory at AT in the partition. Both ends may be
 * memory that GPU kernels access: like device memory, it may be copied to itself, but not to a part
 * of itself. */
static CUresult copy_pinned(const struct copy_place *p, uint64_t at, uint64_t bytes, bool out)
{
	CUresult e;

	if (!p->symbol && p->offset == at)
		return CUDA_SUCCESS;
	if (!p->symbol && p->offset < at + bytes && at < p->offset + bytes)
		return CUDA_ERROR_INVALID_VALUE;
	e = out ? copy_out(p, 0, at, bytes) : copy_in(p, 0, at, bytes);
	return e == CUDA_SUCCESS ? link_ring() : e;
}

CUresult copy_to_device(CUdeviceptr dst, const void *src, uint64_t bytes)
{
	struct copy_place to;
	struct steps s;
	uint64_t i, at;
	CUresult e;

	if (bytes == 0)
		return CUDA_SUCCESS;
	if (!src || !copy_find(dst, bytes, &to))
		return CUDA_ERROR_INVALID_VALUE;
	if (pinned_at(src, bytes, &at))
		return copy_pinned(&to, at, bytes, false);
	/* If only a part of SRC is pinned, earlier work may still write there. */
	e = pinned_touches(src, bytes) ? link_wait() : CUDA_SUCCESS;
	if (e != CUDA_SUCCESS)
		return e;
	e = begin_steps(&s, bytes);
	for (i = 0; i < s.n && e == CUDA_SUCCESS; i++) {
		if (i >= s.parts)
			e = link_wait_for_mark(s.marks[i % s.parts]);
		if (e != CUDA_SUCCESS)
			break;
		move_step(&s, i, s.memory + part(&s, i), (const uint8_t *)src + i * s.step);
		e = copy_in(&to, i * s.step, s.at + part(&s, i), length(&s, i));
		if (e == CUDA_SUCCESS)
			e = i + s.parts < s.n ? link_mark(&s.marks[i % s.parts]) : link_ring();
	}
	end_steps(&s);
	return s.n > s.parts || to.symbol || e != CUDA_SUCCESS ? wait_after(e) : e;
}

/* Reads a step from the window when the packets of the steps in all other parts are in the ring. */
CUresult copy_to_host(void *dst, CUdeviceptr src, uint64_t bytes)
{
	struct copy_place from;
	struct steps s;
	uint64_t put = 0, i, at;
	CUresult e;

	if (bytes == 0)
		return CUDA_SUCCESS;
	if (!dst || !copy_find(src, bytes, &from))
		return CUDA_ERROR_INVALID_VALUE;
	if (pinned_at(dst, bytes, &at))
		return copy_pinned(&from, at, bytes, true);
	e = begin_steps(&s, bytes);
	for (i = 0; i < s.n && e == CUDA_SUCCESS; i++) {
		for (; put < s.n && put < i + s.parts && e == CUDA_SUCCESS; put++) {
			e = copy_out(&from, put * s.step, s.at + part(&s, put), length(&s, put));
			if (e == CUDA_SUCCESS && put + 1 < s.n)
				e = link_mark(&s.marks[put % s.parts]);
		}
		if (e == CUDA_SUCCESS)
			e = i + 1 < s.n ? link_wait_for_mark(s.marks[i % s.parts]) : link_wait();
		if (e == CUDA_SUCCESS)
			move_step(&s, i, (uint8_t *)dst + i * s.step, s.memory + part(&s, i));
	}
	end_steps(&s);
	return e == CUDA_SUCCESS ? e : wait_after(e);
}

/* Copies between two variables, through the window. */
static CUresult through_window(const struct copy_place *to, const struct copy_place *from,
			       uint64_t bytes)
{
	uint64_t done, n, at;
	CUresult e = CUDA_SUCCESS;
	uint8_t *memory;

	for (done = 0; done < bytes && e == CUDA_SUCCESS; done += n) {
		n = copy_step(bytes - done);
		e = link_stage(&n, &memory, &at);
		if (e == CUDA_SUCCESS)
			e = copy_out(from, done, at, n);
		if (e == CUDA_SUCCESS)
			e = copy_in(to, done, at, n);
	}
	return e;
}

CUresult copy_on_device(CUdeviceptr dst, CUdeviceptr src, uint64_t bytes)
{
	struct copy_place to, from;
	CUresult e;

	if (bytes == 0 || dst == src)
		return CUDA_SUCCESS;
	if (!copy_find(dst, bytes, &to) || !copy_find(src, bytes, &from) ||
	    (dst < src + bytes && src < dst + bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (to.symbol && from.symbol)
		e = through_window(&to, &from, bytes);
	else if (to.symbol)
		e = symbol_put(to.symbol, to.offset, from.offset, bytes, false);
	else if (from.symbol)
		e = symbol_put(from.symbol, from.offset, to.offset, bytes, true);
	else
		e = link_put(SOFTGPU_COPY, 0, (uint64_t[7]){to.offset, from.offset, bytes});
	return e == CUDA_SUCCESS ? link_ring() : e;
}
