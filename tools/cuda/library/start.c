/* SPDX-License-Identifier: MIT */
/* The start and the end of the library, in a process and its children. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "cuda_calls.h"
#include "find.h"
#include "record.h"
#include "vgpu/clock.h"

/* Ends the library in the child of fork(), which has no VF, as with NVIDIA's driver, and no other
 * thread. */
static void in_child(void)
{
	lock_renew();
	flush_abandon();
	record_end();
	link_abandon();
	output_abandon();
	call_state = CALLS_FORKED;
}

/* Shuts the VF down when the process ends. Otherwise the host would reset the VF, and count the
 * reset. */
__attribute__((destructor)) static void stop(void)
{
	const struct timespec rest = {.tv_nsec = (long)VGPU_MSEC};
	vgpu_nsec until = vgpu_now() + VGPU_SEC;

	/* The thread of flush.c holds the lock only for an instant; a thread that waits for the VF
	 * keeps it. */
	while (!lock_try()) {
		if (vgpu_now() >= until)
			return;
		nanosleep(&rest, NULL);
	}
	if (call_state == CALLS_UP)
		link_leave();
	record_end();
	call_state = CALLS_ENDED;
	lock_give();
	flush_end();
}

CUresult start_library(void)
{
	static bool forks; /* the handler of fork() is registered, without which a child would keep
			    * locks of the VF */
	struct vgpu_error err = {""};
	char name[FIND_NAME_SIZE];
	CUresult e;

	if (call_state == CALLS_UP)
		return link_lost();
	if (call_state != CALLS_DOWN)
		return call_refusal();
	if (find_vf(name, &err) < 0) {
		log_line("%s", err.text);
		return CUDA_ERROR_NO_DEVICE;
	}
	/* Check this before the VF is opened, because few programs can use the VF at a time. */
	if (!find_is_visible(name, getenv(FIND_VISIBLE))) {
		log_line(FIND_VISIBLE "=%s: this program sees no device", getenv(FIND_VISIBLE));
		return CUDA_ERROR_NO_DEVICE;
	}
	record_begin(name);
	if (!forks)
		forks = pthread_atfork(NULL, NULL, in_child) == 0;
	e = link_up(name, &err);
	if (e != CUDA_SUCCESS) {
		record_end();
		log_line("%s: %s", name, err.text);
		return e;
	}
	heap_reset(link_parts.memory_size);
	arena_reset();
	physical_reset();
	launch_reset();
	memory_is_unified(); /* now, before the program has other memory at the device's
			      * addresses */
	record_show(link_parts.memory_size, &link_about);
	flush_start(link_flush);
	call_state = CALLS_UP;
	return CUDA_SUCCESS;
}
