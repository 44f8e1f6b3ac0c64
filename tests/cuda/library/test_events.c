/* SPDX-License-Identifier: MIT */
/* Events that programs of one VF have together: each is a process with the library, over a real
 * worker whose CUDA driver is the one in software. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"
#include "cuda_calls.h"
#include "played_vf.h"
#include "processes.h"
#include "program.h"

#define MIB ((size_t)1 << 20)
#define SLICE_US 20000
#define EVENTS 1024u /* of a VF */
#define SHARED_EVENT 6u

/* What the test and its programs have in common. */
static struct talk {
	_Atomic uint32_t ready[3], go, stop; /* READY: how far each program is */
	struct cuda_ipc_memory memory;
	struct cuda_ipc_event events[3];
} * talk;

static pid_t start(program *run, uint32_t number)
{
	atomic_store(&talk->ready[number], 0);
	return process_start(run, number);
}

/* Says that this program is ready, and waits until the other one is. */
static bool meet(uint32_t number, uint32_t other, uint32_t value)
{
	atomic_store(&talk->ready[number], value);
	return reaches(&talk->ready[other], value);
}

/* Two programs write to the same memory in turns, and keep what they find there. Neither waits for
 * the VF before the end: only the events order what is in their rings. */

#define TURNS 60u
#define WORDS 64u

/* Shows memory and an event, and opens the other's. E: of number 0, of 1. */
static int exchange(uint32_t number, CUevent *e, CUdeviceptr *at)
{
	OK(cuEventCreate(&e[number], SHARED_EVENT));
	if (number == 0) {
		OK(cuMemAlloc_v2(at, WORDS * 4));
		OK(cuMemsetD8_v2(*at, 0, WORDS * 4));
		OK(cuIpcGetMemHandle(&talk->memory, *at));
	}
	OK(cuIpcGetEventHandle(&talk->events[number], e[number]));
	TRY(meet(number, !number, 1));
	OK(cuIpcOpenEventHandle(&e[!number], talk->events[!number]));
	if (number == 1)
		OK(cuIpcOpenMemHandle_v2(at, talk->memory, 1));
	return 0;
}

/* Waits for the other's event, copies what is at AT to KEPT and sets it to VALUE. */
static int take_turn(CUdeviceptr at, CUdeviceptr kept, uint32_t value, CUevent wait, CUevent done)
{
	OK(cuStreamWaitEvent(NULL, wait, 0));
	OK(cuMemcpyDtoDAsync_v2(kept, at, WORDS * 4, NULL));
	OK(cuMemsetD32Async(at, value, WORDS, NULL));
	OK(cuEventRecord(done, NULL));
	return 0;
}

/* What a turn of number 0 finds is what the last one of number 1 has left, and the other way. */
static int look_at_turns(uint32_t number, CUdeviceptr kept)
{
	static uint32_t seen[TURNS][WORDS];
	uint32_t i, k;

	OK(cuMemcpyDtoH_v2(seen, kept, sizeof(seen)));
	for (i = 0; i < TURNS; i++)
		for (k = 0; k < WORDS; k++)
			TRY(seen[i][k] == (number == 0 ? i : 1000 + i));
	return 0;
}

/* A program puts its turn into its ring when the other has put the one before, which may be long
 * before that is executed. Number 0 has more work. */
static int play_turns(uint32_t number)
{
	_Atomic uint32_t *mine = &talk->ready[number], *others = &talk->ready[!number];
	CUdeviceptr at, kept, work;
	CUevent e[2];
	uint32_t i;
	int r = begin();

	if (r == 0)
		r = exchange(number, e, &at);
	if (r != 0)
		return r;
	OK(cuMemAlloc_v2(&kept, TURNS * WORDS * 4));
	OK(cuMemAlloc_v2(&work, MIB));
	OK(cuCtxSynchronize());
	for (i = 0; i < TURNS && r == 0; i++) {
		TRY(reaches(others, 1 + i + number));
		if (number == 0)
			OK(cuMemsetD8Async(work, 1, MIB, NULL));
		r = take_turn(at, kept + i * WORDS * 4, number == 0 ? 1000 + i : 1 + i, e[!number],
			      e[number]);
		atomic_store(mine, 2 + i);
	}
	TRY(reaches(others, 1 + TURNS));
	OK(cuEventSynchronize(e[1]));
	OK(cuEventQuery(e[0])); /* it came before that */
	return r ? r : look_at_turns(number, kept);
}

static const struct softgpu_slot *slots(void)
{
	uint64_t bytes;

	return (const struct softgpu_slot *)(played_vf_window(&bytes) + (132u << 10));
}

/* Has this program's ring wait for what the other one will never do, in slots 0 and 1. */
static int wait_for_ever(void)
{
	struct guest_fence never = {.value = UINT64_MAX};
	CUresult e;

	lock_take();
	never.slot = !guest_slot(link_guest());
	never.asked = slots()[never.slot].answered;
	e = link_await(&never);
	lock_give();
	OK(e);
	return 0;
}

/* Shows an event that comes after a wait without an end, and waits to be killed. */
static int stay(uint32_t number)
{
	CUevent e;

	TRY(begin() == 0 && meet(number, 1, 1) && wait_for_ever() == 0);
	OK(cuEventCreate(&e, SHARED_EVENT));
	OK(cuEventRecord(e, NULL)); /* before it is shown: that counts, too */
	OK(cuIpcGetEventHandle(&talk->events[number], e));
	IS(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	atomic_store(&talk->ready[number], 2);
	pause();
	return 0;
}

enum { BY_SYNCHRONIZE, BY_QUERY, BY_STREAM, BY_STREAM_QUERY, BY_GRAPH, WAYS };

/* Waits for E in one way. READY becomes 2 when the wait has begun. */
static int wait_for(uint32_t way, CUevent e, _Atomic uint32_t *ready)
{
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;
	CUresult r;

	if (way == BY_STREAM || way == BY_STREAM_QUERY)
		OK(cuStreamWaitEvent(NULL, e, 0));
	if (way == BY_GRAPH) {
		OK(cuGraphCreate(&graph, 0));
		OK(cuGraphAddEventWaitNode(&node, graph, NULL, 0, e));
		OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
		OK(cuGraphLaunch(exec, NULL));
	}
	if (way != BY_SYNCHRONIZE && way != BY_QUERY)
		IS(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	IS(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	atomic_store(ready, 2);
	do {
		if (way == BY_SYNCHRONIZE)
			r = cuEventSynchronize(e);
		else if (way == BY_QUERY)
			r = cuEventQuery(e);
		else if (way == BY_STREAM_QUERY)
			r = cuStreamQuery(NULL);
		else
			r = cuStreamSynchronize(NULL);
	} while (r == CUDA_ERROR_NOT_READY);
	OK(r);
	OK(cuEventQuery(e));
	return 0;
}

static int wait_for_the_dead(uint32_t number)
{
	CUevent e;

	TRY(begin() == 0 && meet(number, 0, 1) && reaches(&talk->ready[0], 2));
	OK(cuIpcOpenEventHandle(&e, talk->events[0]));
	return wait_for(atomic_load(&talk->go), e, &talk->ready[number]);
}

/* An owner and a user of an event, step by step. */

static int own(uint32_t number)
{
	struct cuda_ipc_event again;
	CUevent e, plain, quiet;
	float ms;
	int has;

	TRY(number == 0 && begin() == 0);
	OK(cuDeviceGetAttribute(&has, 125, 0));
	TRY(has == 1);
	IS(cuEventCreate(&e, 4), CUDA_ERROR_INVALID_VALUE); /* with timing */
	IS(cuEventCreate(&e, 8), CUDA_ERROR_INVALID_VALUE);
	OK(cuEventCreate(&e, SHARED_EVENT));
	OK(cuEventCreate(&plain, 0));
	OK(cuEventCreate(&quiet, 2));
	IS(cuIpcGetEventHandle(&talk->events[0], plain), CUDA_ERROR_INVALID_HANDLE);
	IS(cuIpcGetEventHandle(&talk->events[0], quiet), CUDA_ERROR_INVALID_HANDLE);
	IS(cuIpcGetEventHandle(&talk->events[0], NULL), CUDA_ERROR_INVALID_HANDLE);
	IS(cuIpcGetEventHandle(NULL, e), CUDA_ERROR_INVALID_VALUE);
	OK(cuIpcGetEventHandle(&talk->events[0], e));
	OK(cuIpcGetEventHandle(&again, e));
	TRY(memcmp(&again, &talk->events[0], sizeof(again)) == 0);
	IS(cuIpcOpenEventHandle(&plain, again), CUDA_ERROR_INVALID_CONTEXT);
	IS(cuEventElapsedTime(&ms, e, e), CUDA_ERROR_INVALID_HANDLE);
	OK(cuEventQuery(e)); /* it was not recorded */
	OK(cuEventSynchronize(e));
	OK(cuStreamWaitEvent(NULL, e, 0));
	OK(cuEventRecord(e, NULL));
	OK(cuStreamWaitEvent(NULL, e, 0)); /* for what is its own */
	OK(cuEventSynchronize(e));
	TRY(meet(0, 1, 1));
	TRY(meet(0, 1, 2)); /* the user has recorded it, behind a wait without an end */
	IS(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	TRY(meet(0, 1, 3)); /* and another one, without */
	OK(cuEventSynchronize(e));
	OK(cuEventQuery(e));
	TRY(meet(0, 1, 4)); /* the user has ended its handle */
	OK(cuEventRecord(e, NULL));
	OK(cuEventSynchronize(e));
	TRY(meet(0, 1, 5)); /* and has another one */
	OK(cuEventDestroy_v2(e));
	TRY(meet(0, 1, 6));
	TRY(reaches(&talk->ready[1], 7));
	return 0;
}

/* What opening the event says with the number at BYTE changed by DIFFERENCE. */
static CUresult open_changed(uint32_t byte, uint64_t difference)
{
	struct cuda_ipc_event shown = talk->events[0];
	uint64_t v;
	CUevent e;

	memcpy(&v, shown.bytes + byte, sizeof(v));
	v += difference;
	memcpy(shown.bytes + byte, &v, sizeof(v));
	return cuIpcOpenEventHandle(&e, shown);
}

static int use(uint32_t number)
{
	CUevent e, again;
	uint32_t i;

	TRY(begin() == 0 && meet(number, 0, 1));
	for (i = 0; i < 24; i += 8) {
		IS(open_changed(i, 1), CUDA_ERROR_INVALID_HANDLE);
		IS(open_changed(i, UINT64_C(1) << 63), CUDA_ERROR_INVALID_HANDLE);
		IS(open_changed(i, EVENTS), CUDA_ERROR_INVALID_HANDLE);
	}
	IS(cuIpcOpenEventHandle(NULL, talk->events[0]), CUDA_ERROR_INVALID_VALUE);
	OK(cuIpcOpenEventHandle(&e, talk->events[0]));
	OK(cuIpcOpenEventHandle(&again, talk->events[0]));
	IS(cuIpcGetEventHandle(&talk->events[1], e), CUDA_ERROR_INVALID_HANDLE);
	OK(cuEventQuery(e));
	TRY(wait_for_ever() == 0);
	OK(cuEventRecord(e, NULL));
	IS(cuEventQuery(again), CUDA_ERROR_NOT_READY);
	TRY(meet(number, 0, 2));
	/* The owner has looked. What this program had recorded is lost with it; so another goes on.
	 */
	TRY(reaches(&talk->ready[0], 3));
	atomic_store(&talk->ready[2], 1);
	pause();
	return 0;
}

/* Takes over from use(), which was killed. */
static int use_more(uint32_t)
{
	CUevent e;

	TRY(begin() == 0);
	OK(cuIpcOpenEventHandle(&e, talk->events[0]));
	OK(cuEventRecord(e, NULL));
	TRY(meet(1, 0, 3));
	OK(cuEventDestroy_v2(e));
	TRY(meet(1, 0, 4));
	OK(cuIpcOpenEventHandle(&e, talk->events[0]));
	TRY(meet(1, 0, 5));
	TRY(reaches(&talk->ready[0], 6));
	/* it has ended for all */
	OK(cuEventQuery(e));
	OK(cuEventSynchronize(e));
	OK(cuStreamWaitEvent(NULL, e, 0));
	OK(cuEventRecord(e, NULL));
	OK(cuStreamSynchronize(NULL));
	OK(cuEventDestroy_v2(e));
	IS(cuIpcOpenEventHandle(&e, talk->events[0]), CUDA_ERROR_INVALID_HANDLE);
	atomic_store(&talk->ready[1], 6);
	atomic_store(&talk->ready[1], 7);
	return 0;
}

/* Shows all events that a VF can have, but KEEP; and one more. */
static int show_all(uint32_t keep)
{
	static CUevent e[EVENTS + 1];
	struct cuda_ipc_event shown;
	uint32_t i;

	TRY(begin() == 0);
	for (i = 0; i < EVENTS + 1 - keep; i++)
		OK(cuEventCreate(&e[i], SHARED_EVENT));
	for (i = 0; i < EVENTS - keep; i++)
		OK(cuIpcGetEventHandle(&shown, e[i]));
	IS(cuIpcGetEventHandle(&shown, e[i]), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuEventQuery(e[i])); /* it is as any other */
	OK(cuEventDestroy_v2(e[7]));
	OK(cuIpcGetEventHandle(&shown, e[i]));
	return 0;
}

static int show_all_and_end(uint32_t)
{
	return show_all(0);
}

/* Shows them beside a program that has one, and waits to be killed. */
static int show_others(uint32_t number)
{
	int r = show_all(1);

	if (r != 0)
		return r;
	atomic_store(&talk->ready[number], 1);
	pause();
	return 0;
}

/* Has one event until the test says that it is enough. */
static int show_one(uint32_t number)
{
	CUevent e;

	TRY(begin() == 0);
	OK(cuEventCreate(&e, SHARED_EVENT));
	OK(cuIpcGetEventHandle(&talk->events[number], e));
	OK(cuEventRecord(e, NULL));
	atomic_store(&talk->ready[number], 1);
	TRY(reaches(&talk->stop, 2));
	/* whatever others have done with it */
	OK(cuEventSynchronize(e));
	return 0;
}

/* Writes anything, or what looks right, to what programs know of an event. It has them wait for
 * nobody but itself: they would have a reason to do so while that one lives. */
static int scribble(uint32_t number)
{
	const uint64_t at = (128u << 10) + 8192 + (sizeof(uint32_t) << 17); /* see share.c */
	uint64_t bytes, *words = (uint64_t *)(played_vf_window(&bytes) + at), i;

	TRY(begin() == 0);
	for (i = 2; i < 18; i += 2)
		words[i] = slots()[number].asked;
	atomic_store(&talk->ready[number], 1);
	for (i = 0;; i++) {
		uint64_t *w = &words[1 + draw(17)]; /* of the first event, but whose it is */

		if (draw(2))
			*w = draw(10);
		else if (draw(2))
			*w = slots()[number].asked;
		else
			*w = draw(UINT64_C(1) << 44) << 20 ^ draw(UINT64_C(1) << 44);
		if (i % 64 == 0)
			sched_yield();
	}
}

/* Uses an event that another one scribbles on, which may make it wait, but for a time. */
static int use_what_is_damaged(uint32_t number)
{
	CUevent e;
	uint32_t i;
	CUresult r;

	TRY(begin() == 0);
	OK(cuIpcOpenEventHandle(&e, talk->events[0]));
	for (i = 0; !atomic_load(&talk->stop); i++) {
		r = cuEventQuery(e);
		TRY(r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY);
		OK(cuStreamWaitEvent(NULL, e, 0));
		if (i % 8 == 0)
			OK(cuEventRecord(e, NULL));
		if (i == 200)
			atomic_store(&talk->ready[number], 1);
		if (i % 64 == 0)
			sched_yield();
	}
	OK(cuStreamSynchronize(NULL));
	OK(cuEventRecord(e, NULL));
	OK(cuEventSynchronize(e));
	return 0;
}

static int no_events(uint32_t)
{
	struct cuda_ipc_event shown;
	CUevent e;
	int has;

	TRY(begin() == 0);
	OK(cuDeviceGetAttribute(&has, 125, 0));
	TRY(has == 0);
	OK(cuEventCreate(&e, SHARED_EVENT));
	IS(cuIpcGetEventHandle(&shown, e), CUDA_ERROR_NOT_SUPPORTED);
	IS(cuIpcOpenEventHandle(&e, talk->events[0]), CUDA_ERROR_NOT_SUPPORTED);
	return 0;
}

/* The tests. */

static void play(void)
{
	memset(talk, 0, sizeof(*talk));
	played_vf_start();
}

TEST(turns, "programs take turns by events alone")
{
	pid_t pid[2];
	uint32_t i;

	for (i = 0; i < 2; i++) {
		play();
		if (i > 0)
			played_vf_slices(SLICE_US);
		pid[0] = start(play_turns, 0);
		pid[1] = start(play_turns, 1);
		CU_ASSERT_EQUAL(end_of(pid[0]), 0);
		CU_ASSERT_EQUAL(end_of(pid[1]), 0);
		CU_ASSERT_EQUAL(played_vf_resets(), 0);
		played_vf_end();
	}
}

TEST(waits_for_the_dead, "nobody waits for the event of a killed program")
{
	pid_t victim, other;
	uint32_t way;

	for (way = 0; way < WAYS; way++) {
		play();
		atomic_store(&talk->go, way);
		victim = start(stay, 0);
		other = start(wait_for_the_dead, 1);
		CU_ASSERT_FATAL(reaches(&talk->ready[1], 2));
		CU_ASSERT_EQUAL(waitpid(other, NULL, WNOHANG), 0);
		kill_it(victim);
		CU_ASSERT_EQUAL(end_of(other), 0);
		CU_ASSERT_EQUAL(played_vf_resets(), 0);
		played_vf_end();
	}
}

TEST(step_by_step, "an event is shown, opened, recorded by both, and ends")
{
	pid_t owner, user;

	play();
	owner = start(own, 0);
	user = start(use, 1);
	CU_ASSERT_FATAL(reaches(&talk->ready[2], 1));
	kill_it(user);
	user = start(use_more, 2);
	CU_ASSERT_EQUAL(end_of(owner), 0);
	CU_ASSERT_EQUAL(end_of(user), 0);
	played_vf_end();
}

TEST(all_events, "a VF has so many events, and those of who is gone are free")
{
	pid_t one, victim;

	play();
	one = start(show_one, 0);
	CU_ASSERT_FATAL(reaches(&talk->ready[0], 1));
	victim = start(show_others, 1);
	CU_ASSERT_FATAL(reaches(&talk->ready[1], 1));
	kill_it(victim);
	/* those of a program that was killed are free again, and those of one that has ended */
	victim = start(show_others, 1);
	CU_ASSERT_FATAL(reaches(&talk->ready[1], 1));
	kill_it(victim);
	atomic_store(&talk->stop, 2);
	CU_ASSERT_EQUAL(end_of(one), 0);
	CU_ASSERT_EQUAL(end_of(start(show_all_and_end, 1)), 0);
	played_vf_end();
}

TEST(damaged, "a damaged event stops nobody for ever")
{
	pid_t one, victim, other;

	play();
	one = start(show_one, 0);
	CU_ASSERT_FATAL(reaches(&talk->ready[0], 1));
	victim = start(scribble, 1);
	CU_ASSERT_FATAL(reaches(&talk->ready[1], 1));
	other = start(use_what_is_damaged, 2);
	CU_ASSERT_FATAL(reaches(&talk->ready[2], 1));
	kill_it(victim);
	atomic_store(&talk->stop, 1);
	CU_ASSERT_EQUAL(end_of(other), 0);
	atomic_store(&talk->stop, 2);
	CU_ASSERT_EQUAL(end_of(one), 0);
	CU_ASSERT_EQUAL(played_vf_resets(), 0);
	played_vf_end();
}

TEST(older_host, "an older softgpu has no events for other processes")
{
	play();
	played_vf_features(SOFTGPU_HAS_MODULES | SOFTGPU_HAS_SLOTS | SOFTGPU_HAS_ARENA);
	CU_ASSERT_EQUAL(end_of(start(no_events, 0)), 0);
	played_vf_end();
}

int main(int argc, char **argv)
{
	return processes_main("cuda_events", &talk, sizeof(*talk), argc, argv);
}
