/* SPDX-License-Identifier: MIT */
/*
 * A VF's sentence, back-off or quarantine, ends by itself or by an operator: not by a request of
 * its guest, and not by what happens to other VFs. And events that name no VF.
 */
#include <errno.h>

#include "puppet.h"

/* The reset of VF in flight succeeds, and its memory is cleared. */
static void is_reset(uint32_t vf)
{
	tell(VGPU_EV_RESET_DONE, vf, VGPU_RESET_VF);
	tell(VGPU_EV_SCRUBBED, vf, 0);
}

/* VF, whose driver is up, does not stop, and is reset; it is being scrubbed. */
static void hang(uint32_t vf)
{
	tell(VGPU_EV_HANG, vf, 1);
	CU_ASSERT(did(VGPU_AC_RESET, vf, VGPU_RESET_VF));
	tell(VGPU_EV_RESET_DONE, vf, VGPU_RESET_VF);
	CU_ASSERT_EQUAL(view_of(vf).state, VGPU_VF_SCRUBBING);
}

/* Two hangs; a third one, which the test causes, leads to quarantine. */
static void two_strikes(uint32_t vf)
{
	uint32_t i;

	for (i = 0; i < 2; i++) {
		hang(vf);
		tell(VGPU_EV_SCRUBBED, vf, 0);
		CU_ASSERT_EQUAL(view_of(vf).state, VGPU_VF_BACKOFF);
		timer();
		driver_up(vf, 0);
	}
}

/* Each way in which a guest can have its VF reset. */
static const enum vgpu_event_type ways[] = {VGPU_EV_REQUEST, VGPU_EV_GUEST_RESET};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* The guest resets its VF in that way; what follows is completed at once. */
static void resets_itself(uint32_t vf, enum vgpu_event_type way)
{
	uint32_t scrubs = view_of(vf).state == VGPU_VF_SCRUBBING;

	tell(way, vf, VGPU_WINDOW_RESET);
	scrubs += did(VGPU_AC_SCRUB, vf, 0);
	if (did(VGPU_AC_RESET, vf, VGPU_RESET_VF)) {
		tell(VGPU_EV_RESET_DONE, vf, VGPU_RESET_VF);
		scrubs += did(VGPU_AC_SCRUB, vf, 0);
	}
	for (; scrubs > 0; scrubs--)
		tell(VGPU_EV_SCRUBBED, vf, 0);
}

/* A guest that resets its VF in back-off stays in back-off: its driver comes up when that ends. */
TEST(backoff_stays, "a guest's reset does not end a back-off")
{
	vgpu_nsec until;
	uint32_t i;

	for (i = 0; i < WAYS; i++) {
		begin_with(1);
		hang(0);
		tell(VGPU_EV_SCRUBBED, 0, 0);
		until = view_of(0).backoff_until;
		CU_ASSERT_EQUAL(until, now + VGPU_SEC);
		pass(VGPU_MSEC);
		resets_itself(0, ways[i]);
		CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_BACKOFF);
		CU_ASSERT_EQUAL(view_of(0).backoff_until, until);
		tell(VGPU_EV_REQUEST, 0, VGPU_WINDOW_INIT);
		CU_ASSERT(!at_work);
		CU_ASSERT_EQUAL(vgpu_core_deadline(core), until);
		timer();
		CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_INIT));
		end();
	}
}

/* The same in the scrub before a back-off, and before a quarantine. */
TEST(sentence_survives_scrub, "nor what comes after a scrub")
{
	uint32_t i;

	for (i = 0; i < WAYS; i++) {
		begin_with(1);
		hang(0);
		resets_itself(0, ways[i]);
		CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_BACKOFF);
		end();

		begin_with(1);
		two_strikes(0);
		hang(0);
		resets_itself(0, ways[i]);
		CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_QUARANTINED);
		end();
	}
}

/* VF does not stop, and only a reset of the whole GPU helps. */
static void gpu_is_reset_for(uint32_t vf)
{
	tell(VGPU_EV_BUSY, vf, 0);
	settle(0);
	CU_ASSERT_EQUAL(view().current, vf);
	timer();
	timer();
	CU_ASSERT(did(VGPU_AC_RESET, vf, VGPU_RESET_VF));
	at_work = false; /* the device will not answer */
	step((struct vgpu_event){
		.type = VGPU_EV_RESET_DONE, .vf = vf, .code = VGPU_RESET_VF, .value = -EIO});
	CU_ASSERT(did(VGPU_AC_RESET, vf, VGPU_RESET_GPU));
	tell(VGPU_EV_RESET_DONE, vf, VGPU_RESET_GPU);
}

/* A reset of the whole GPU for another VF's fault ends neither back-off nor the way to quarantine,
 * and does not cancel the sentence for a hang whose own reset it overtakes. */
TEST(gpu_reset_forgives_nobody, "a reset of the GPU ends no sentence")
{
	vgpu_core_defaults(&config, PUPPET_VFS);
	config.gpu_reset = true;
	config.reset_timeout[VGPU_RESET_VF] = 60 * VGPU_SEC;

	begin(); /* in back-off */
	driver_up(0, 0);
	driver_up(1, 0);
	hang(0);
	tell(VGPU_EV_SCRUBBED, 0, 0);
	gpu_is_reset_for(1);
	tell(VGPU_EV_SCRUBBED, 0, 0);
	CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_BACKOFF);
	tell(VGPU_EV_SCRUBBED, 1, 0);
	CU_ASSERT_EQUAL(view_of(1).state, VGPU_VF_BACKOFF);
	end();

	begin(); /* in the scrub before quarantine */
	driver_up(0, 0);
	driver_up(1, 0);
	two_strikes(0);
	hang(0);
	gpu_is_reset_for(1);
	tell(VGPU_EV_SCRUBBED, 0, 0);
	tell(VGPU_EV_SCRUBBED, 0, 0);
	CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_QUARANTINED);
	end();

	begin(); /* in the reset after a hang */
	driver_up(0, 0);
	driver_up(1, 0);
	tell(VGPU_EV_HANG, 0, 0);
	gpu_is_reset_for(1);
	tell(VGPU_EV_SCRUBBED, 0, 0);
	CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_BACKOFF);
	end();
}

/* A guest gets three resets a minute. Requests during a reset are served by it. Each VF has its own
 * limit. */
TEST(resets_are_limited, "a guest's resets are limited")
{
	uint32_t i;

	begin_with(2);
	for (i = 0; i < 3; i++) {
		tell(VGPU_EV_REQUEST, 0, VGPU_WINDOW_RESET);
		CU_ASSERT(did(VGPU_AC_RESET, 0, VGPU_RESET_VF));
		tell(VGPU_EV_REQUEST, 0, VGPU_WINDOW_RESET);
		CU_ASSERT_EQUAL(out.n_actions, 0);
		is_reset(0);
		CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_AVAIL);
		driver_up(0, 0);
		pass(VGPU_SEC);
	}
	tell(VGPU_EV_REQUEST, 0, VGPU_WINDOW_RESET);
	CU_ASSERT(did(VGPU_AC_NOTICE, 0, VGPU_NOTICE_REFUSED));
	CU_ASSERT_EQUAL(out.n_actions, 1);
	CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_ACTIVE);
	CU_ASSERT_EQUAL(view_of(0).ledger.refused, 1);
	CU_ASSERT_EQUAL(view_of(0).ledger.resets, 3);
	tell(VGPU_EV_REQUEST, 1, VGPU_WINDOW_RESET);
	CU_ASSERT(did(VGPU_AC_RESET, 1, VGPU_RESET_VF));
	is_reset(1);

	run(58 * VGPU_SEC, 0);
	tell(VGPU_EV_REQUEST, 0, VGPU_WINDOW_RESET);
	CU_ASSERT(did(VGPU_AC_RESET, 0, VGPU_RESET_VF));
	is_reset(0);

	/* An operator's reset forgets those, too. */
	for (i = 0; i < 4; i++)
		resets_itself(0, VGPU_EV_REQUEST);
	CU_ASSERT(did(VGPU_AC_NOTICE, 0, VGPU_NOTICE_REFUSED));
	CU_ASSERT_EQUAL(tell(VGPU_EV_RESET_VF, 0, 0), 0);
	is_reset(0);
	tell(VGPU_EV_REQUEST, 0, VGPU_WINDOW_RESET);
	CU_ASSERT(did(VGPU_AC_RESET, 0, VGPU_RESET_VF));
	end();
}

/* A VF that is to be loaded next is reset by its guest: it does not begin on memory that is not
 * clear. */
TEST(reset_on_its_way, "a VF that is reset on its way does not come")
{
	begin_with(1);
	tell(VGPU_EV_BUSY, 0, 0);
	settle(0);
	tell(VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT);
	timer();
	CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_IDLE));
	answer(0);
	CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_SAVE));
	CU_ASSERT(view_of(1).comes);
	tell(VGPU_EV_GUEST_RESET, 1, 0);
	CU_ASSERT(!view_of(1).comes);
	answer(0);
	CU_ASSERT(!did(VGPU_AC_COMMAND, 1, VGPU_CMD_INIT));
	CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_LOAD));
	end();
}

/* An event that names a VF that is not configured is refused with that reason; only if it is an
 * answer of the device, it is counted as stale. */
TEST(nobody, "events that name no VF")
{
	static const enum vgpu_event_type requests[] = {VGPU_EV_BUSY,	   VGPU_EV_EMPTY,
							VGPU_EV_REQUEST,   VGPU_EV_RELEASE,
							VGPU_EV_HANG,	   VGPU_EV_SET_VF,
							VGPU_EV_HOLD,	   VGPU_EV_GUEST_RESET,
							VGPU_EV_AWAY,	   VGPU_EV_RESET_VF,
							VGPU_EV_VIOLATION, VGPU_EV_INCOMING};
	static const enum vgpu_event_type answers[] = {VGPU_EV_DONE, VGPU_EV_RESET_DONE,
						       VGPU_EV_SCRUBBED};
	static const uint32_t absent[] = {0, PUPPET_VFS}; /* not configured; beyond the last */
	uint64_t stale = 0;
	uint32_t i, k;

	begin_with(0);
	memset(core_memory, 0, vgpu_core_size(PUPPET_VFS));
	memset(fallback_memory, 0, vgpu_fallback_policy->memory(PUPPET_VFS));
	core = vgpu_core_init(core_memory, &config, vgpu_fallback_policy, fallback_memory, now);
	for (k = 0; k < sizeof(absent) / sizeof(absent[0]); k++) {
		for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
			CU_ASSERT_EQUAL(tell(requests[i], absent[k], 0), -EINVAL);
			CU_ASSERT_STRING_EQUAL(out.why, "no such VF");
			CU_ASSERT_EQUAL(view().engine.stale_answers, stale);
		}
		for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
			CU_ASSERT_EQUAL(tell(answers[i], absent[k], 0), -EINVAL);
			CU_ASSERT_EQUAL(view().engine.stale_answers, ++stale);
		}
	}
	end();

	begin_with(0);
	/* An unknown kind of window is refused before anything is done. */
	CU_ASSERT_EQUAL(tell(VGPU_EV_REQUEST, 0, VGPU_WINDOW_COUNT), -EINVAL);
	CU_ASSERT_EQUAL(out.n_actions, 0);
	end();
}

SUITE_MAIN("sentences")
