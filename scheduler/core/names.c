/* SPDX-License-Identifier: MIT */
#include "vgpu/core.h"

const char *const vgpu_command_names[VGPU_CMD_COUNT] = {
	"idle", "save", "load", "init", "run", "shutdown",
};

const char *const vgpu_vf_state_names[VGPU_VF_STATE_COUNT] = {
	"absent", "scrubbing", "available",   "exclusive",
	"active", "back-off",  "quarantined", "failed",
};

const char *const vgpu_context_names[VGPU_CTX_COUNT] = {
	"none", "loaded", "running", "idled", "saved", "broken",
};

const char *const vgpu_end_names[VGPU_END_COUNT] = {
	"slice", "yield", "wake", "exclusive", "hang", "removed",
};

const char *const vgpu_record_names[VGPU_REC_COUNT] = {
	"run",	      "stop",	 "preempt",  "command",	   "park",    "wake",
	"sleep",      "state",	 "window",   "window-end", "hang",    "reset",
	"reset-done", "refused", "forgiven", "policy",	   "evicted", "violation",
	"served",     "plan",	 "claim",    "cpu",
};

const char *const vgpu_phase_names[VGPU_PHASE_COUNT] = {
	"parked", "loading", "ready",	 "starting", "running",
	"idling", "saving",  "dropping", "reset",
};

const char *const vgpu_reset_names[VGPU_RESET_COUNT] = {"engine", "vf", "gpu"};

const char *const vgpu_violation_names[VGPU_VIOLATION_COUNT] = {"access", "overlap", "gate",
								"hides"};

static const char *const fault_texts[] = {
	[VGPU_FAULT_NONE] = "no fault",
	[VGPU_FAULT_BAD_VF] = "it picked a VF that does not exist",
	[VGPU_FAULT_NO_WORK] = "it picked a VF that cannot run",
	[VGPU_FAULT_ZERO_SLICE] = "it granted a slice of length zero",
	[VGPU_FAULT_LATE_START] = "it planned a start beyond the longest slice",
	[VGPU_FAULT_STARVED] = "it parked the engine although a VF had work",
	[VGPU_FAULT_SLOW] = "it takes too long to decide",
	[VGPU_FAULT_PAST_PARK] = "it parked the engine until an instant that is not in the future",
};

const char *vgpu_fault_text(enum vgpu_fault fault)
{
	return fault_texts[fault];
}
