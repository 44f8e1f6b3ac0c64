/* SPDX-License-Identifier: MIT */
#include "events.h"

#include <inttypes.h>
#include <stdio.h>

#include "builtin.h"
#include "vms/claimed.h"
#include "vms/clearing.h"
#include "engine/engine.h"
#include "vms/lease.h"
#include "vms/hold.h"
#include "control/heard.h"
#include "control/log.h"
#include "control/offers.h"
#include "vms/memory_methods.h"
#include "vgpu/clock.h"
#include "vms/vm.h"

#define LOG_PER_SECOND 20u
/* An engine may repeat a message in each epoch. */
#define SAY_AGAIN (60 * VGPU_SEC)

static const struct {
	const char *text;
	int priority;
} violations[VGPU_VIOLATION_COUNT] = {
	[VGPU_VIOLATION_ACCESS] = {"accessed memory outside its partition; the GPU stopped it",
				   LOG_WARNING},
	[VGPU_VIOLATION_OVERLAP] = {"has a partition that overlaps another one, as the GPU says: "
				    "this is a fault of vgpud, please report it",
				    LOG_ERR},
	[VGPU_VIOLATION_GATE] = {"computed while its gate was shut, as the kernel's driver "
				 "counts (fdinfo)",
				 LOG_WARNING},
	[VGPU_VIOLATION_HIDES] = {"has a process whose use of the GPU cannot be watched: too many "
				  "descriptors or clients, or fdinfo that cannot be read",
				  LOG_WARNING},
};

/* Returns whether a record is rare enough for 'vgpuctl events'. */
static bool is_event(const struct vgpu_record *r)
{
	switch ((enum vgpu_record_type)r->type) {
	case VGPU_REC_STATE:
	case VGPU_REC_WINDOW:
	case VGPU_REC_WINDOW_END:
	case VGPU_REC_HANG:
	case VGPU_REC_RESET:
	case VGPU_REC_RESET_DONE:
	case VGPU_REC_REFUSED:
	case VGPU_REC_POLICY:
	case VGPU_REC_EVICTED:
	case VGPU_REC_VIOLATION:
	case VGPU_REC_CPU:
		return true;
	default:
		return false;
	}
}

/* The driver of a GPU with policies of its own resets VFs itself. */
static void describe_failed_reset(const struct vgpu_record *r, enum vgpu_driver_kind kind,
				  char *text, size_t size)
{
	const char *level = vgpu_reset_names[r->code];

	if (kind == VGPU_DRIVER_DECLARED)
		snprintf(text, size,
			 "VF %u was not reset: its vGPU still exists; no VM gets the VF until the "
			 "host's driver has ended the vGPU",
			 r->vf);
	else
		snprintf(text, size,
			 "%s reset of VF %u failed; vgpud will try again, and no VM gets the VF "
			 "until a reset has succeeded",
			 level, r->vf);
}

/* Writes the log line for a record that an operator must know of, with its message, and returns its
 * level. 0: the record is not logged. */
static int describe(const struct vgpu_record *r, enum vgpu_driver_kind kind, char *text,
		    size_t size, enum log_message *message)
{
	switch ((enum vgpu_record_type)r->type) {
	case VGPU_REC_HANG:
		*message = LOG_HANG;
		if (r->a == 0)
			snprintf(text, size, "VF %u faulted and is being reset", r->vf);
		else
			snprintf(text, size,
				 "VF %u did not answer in phase %s for %.1f ms and is being reset",
				 r->vf, vgpu_phase_names[r->code], (double)r->a / 1e6);
		return LOG_WARNING;
	case VGPU_REC_RESET_DONE:
		*message = LOG_RESET_FAILED;
		describe_failed_reset(r, kind, text, size);
		return r->b ? LOG_ERR : 0;
	case VGPU_REC_STATE:
		*message = LOG_OUT_OF_SERVICE;
		snprintf(
			text, size,
			"VF %u is %s and gets no engine time; 'vgpuctl vf reset %u' brings it back",
			r->vf, vgpu_vf_state_names[r->code], r->vf);
		return r->code == VGPU_VF_QUARANTINED || r->code == VGPU_VF_FAILED ? LOG_ERR : 0;
	case VGPU_REC_EVICTED:
		*message = LOG_EVICTED;
		snprintf(text, size, "the policy was evicted and replaced by %s: %s",
			 vgpu_fallback_policy->name, vgpu_fault_text((enum vgpu_fault)r->code));
		return LOG_ERR;
	case VGPU_REC_VIOLATION:
		*message = LOG_VIOLATION;
		snprintf(text, size, "VF %u %s", r->vf, violations[r->code].text);
		return violations[r->code].priority;
	default:
		return 0;
	}
}

/* Guests can cause these at will: vgpud logs LOG_PER_SECOND in a second, and counts the rest. */
static void log_record(struct gpu *gpu, const struct vgpu_record *r)
{
	enum vgpu_driver_kind kind = engine_policy(gpu->engine)->caps.kind;
	char text[160];
	enum log_message message;
	int level = describe(r, kind, text, sizeof(text), &message);

	if (level == 0)
		return;
	if (gpu->heard.logged++ < LOG_PER_SECOND)
		log_about(r->vf < VGPU_GPU_MAX_VFS ? about_vf(gpu, r->vf, message)
						   : about_gpu(gpu, message),
			  level, "%s", text);
	else
		gpu->heard.log_dropped++;
}

static void note_use(struct gpu *gpu, const struct vgpu_record *r)
{
	static const uint32_t idle =
		1u << VGPU_VF_ABSENT | 1u << VGPU_VF_SCRUBBING | 1u << VGPU_VF_AVAIL;

	if (r->type != VGPU_REC_STATE || r->vf >= VGPU_GPU_MAX_VFS)
		return;
	gpu->heard.in_use &= ~VGPU_VF_BIT(r->vf);
	if (!(idle >> r->code & 1))
		gpu->heard.in_use |= VGPU_VF_BIT(r->vf);
}

/* Another policy is in force: saves the leases, which hold the parameters of their VFs. */
static void note_policy(struct gpu *gpu, const struct vgpu_record *r)
{
	uint32_t vf;

	gpu->heard.policy_since = r->t;
	claimed_look_at_all(gpu);
	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
		if (gpu->leases[vf].state != LEASE_NONE) {
			leases_save(gpu->control);
			return;
		}
}

void events_take(struct gpu *gpu)
{
	const struct trail *records = engine_records(gpu->engine);
	uint64_t begin = trail_begin(records), end = trail_end(records);
	struct vgpu_record record;

	if (gpu->heard.taken < begin) {
		gpu->heard.lost += begin - gpu->heard.taken;
		gpu->heard.taken = begin;
	}
	while (gpu->heard.taken < end) {
		if (!trail_read(records, gpu->heard.taken++, &record)) {
			gpu->heard.lost++;
			continue;
		}
		if (!is_event(&record))
			continue;
		heard_add(gpu, &record);
		log_record(gpu, &record);
		note_use(gpu, &record);
		clearing_note(gpu, &record);
		if (record.type == VGPU_REC_HANG)
			vm_hung(gpu, record.vf);
		if (record.type == VGPU_REC_POLICY || record.type == VGPU_REC_EVICTED)
			note_policy(gpu, &record);
		if (record.type == VGPU_REC_STATE && record.code == VGPU_VF_AVAIL)
			memory_give_usual(gpu, record.vf);
	}
}

void events_trouble(struct gpu *gpu)
{
	const char *trouble = engine_trouble(gpu->engine);
	uint32_t vf;

	if (trouble == gpu->heard.trouble)
		return;
	gpu->heard.trouble = trouble;
	/* A GPU that returns has a new core, which holds nothing back yet. */
	for (vf = 0; vf < VGPU_GPU_MAX_VFS && !trouble; vf++)
		if (gpu->leases[vf].state == LEASE_INCOMING)
			hold_begin(gpu, vf);
	if (!trouble)
		clearing_forgotten(gpu);
	if (trouble)
		log_about(about_gpu(gpu, LOG_GPU_LOST), LOG_ERR,
			  "GPU lost: %s; vgpud keeps looking for it", trouble);
	else
		log_about(about_gpu(gpu, LOG_GPU_FOUND), LOG_NOTICE, "GPU found again");
	offers_changed(gpu->control);
}

void events_begin_lost(struct gpu *gpu, const char *why)
{
	gpu->heard.trouble = engine_trouble(gpu->engine);
	log_about(about_gpu(gpu, LOG_GPU_LOST), LOG_ERR,
		  "GPU lost: it cannot be opened: %s; vgpud keeps looking for it", why);
}

void events_said(struct gpu *gpu)
{
	uint32_t n;
	const char *text = engine_says(gpu->engine, &n);
	vgpu_nsec now = vgpu_now();

	if (n == gpu->heard.n_said)
		return;
	gpu->heard.n_said = n;
	if (text == gpu->heard.said && now - gpu->heard.said_at < SAY_AGAIN)
		return;
	gpu->heard.said = text;
	gpu->heard.said_at = now;
	log_about(about_gpu(gpu, LOG_PLAIN), LOG_WARNING, "%s", text);
}

void events_second(struct gpu *gpu)
{
	if (gpu->heard.log_dropped)
		log_about(about_gpu(gpu, LOG_PLAIN), LOG_WARNING,
			  "%" PRIu64 " more messages in one second were not logged",
			  gpu->heard.log_dropped);
	clearing_second(gpu);
	gpu->heard.logged = 0;
	gpu->heard.log_dropped = 0;
}
