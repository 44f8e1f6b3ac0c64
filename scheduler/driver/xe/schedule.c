/* SPDX-License-Identifier: MIT */
/* The settings of all functions: what the GPU has, and how it gets others. */
#include <errno.h>
#include <time.h>

#include "xe.h"

/* How long a reset of the GPU may take. */
#define BUSY_TRIES 50
#define BUSY_PAUSE_NS 100000000

int xe_read_schedule(const char *pf, struct xe_schedule *out)
{
	int first = 0, r;
	uint32_t i, k;

	for (i = 0; i < out->n; i++) {
		for (k = 0; k < XE_SETTINGS; k++) {
			r = xe_read(pf, i, (enum xe_setting)k, &out->at[i][k]);
			if (r < 0)
				out->at[i][k] = XE_UNKNOWN;
			first = first ? first : r;
		}
	}
	return first;
}

/*
 * Priorities: the firmware has one setting for all functions, which sets the PF's own, too; after
 * it, the PF's can be set alone.
 */
static int write_priorities(const char *pf, const struct xe_schedule *want,
			    const struct xe_schedule *have)
{
	uint32_t all = want->at[want->n - 1][XE_PRIORITY], own = want->at[XE_PF][XE_PRIORITY];
	uint32_t has = have->at[XE_PF][XE_PRIORITY], i;
	int r = 0;

	for (i = 1; i < want->n && all != XE_UNKNOWN; i++) {
		if (have->at[i][XE_PRIORITY] == all)
			continue;
		r = xe_write_priorities(pf, (enum xe_priority)all);
		has = all;
		break;
	}
	if (r == 0 && has != own && own != XE_UNKNOWN)
		r = xe_write(pf, XE_PF, XE_PRIORITY, own);
	return r;
}

static int write_differences(const char *pf, const struct xe_schedule *want,
			     const struct xe_schedule *have)
{
	int first = 0, r;
	uint32_t i, k;

	for (i = 0; i < want->n; i++) {
		for (k = XE_QUANTUM; k <= XE_TIMEOUT; k++) {
			if (have->at[i][k] == want->at[i][k] || want->at[i][k] == XE_UNKNOWN)
				continue;
			r = xe_write(pf, i, (enum xe_setting)k, want->at[i][k]);
			if (r == -EBUSY)
				return r; /* so is all the rest */
			first = first ? first : r;
		}
	}
	r = write_priorities(pf, want, have);
	return first ? first : r;
}

static int write_once(const char *pf, const struct xe_schedule *want, struct xe_schedule *have)
{
	int r, read;

	have->n = want->n;
	xe_read_schedule(pf, have);
	r = write_differences(pf, want, have);
	read = xe_read_schedule(pf, have);
	if (read == -EUCLEAN && r != -EBUSY) {
		/* A write has reached some of the GPU's parts only. */
		r = write_differences(pf, want, have);
		read = xe_read_schedule(pf, have);
	}
	return r ? r : read;
}

int xe_write_schedule(const char *pf, const struct xe_schedule *want, struct xe_schedule *have,
		      const _Atomic bool *end)
{
	struct timespec pause = {0, BUSY_PAUSE_NS};
	int r = write_once(pf, want, have), i;

	for (i = 0; i < BUSY_TRIES && r == -EBUSY && !(end && atomic_load(end)); i++) {
		nanosleep(&pause, NULL);
		r = write_once(pf, want, have);
	}
	return r;
}

/* The nearest whole number of UNITs from 1 to MAX: 0 means endless. */
static uint32_t whole(vgpu_nsec value, vgpu_nsec unit, uint32_t max)
{
	vgpu_nsec n = value / unit;

	return n < 1 ? 1 : n > max ? max : (uint32_t)n;
}

void xe_schedule_of(const struct vgpu_program *program, uint32_t n_vfs, struct xe_schedule *out)
{
	uint32_t priority = program->keep_turns ? XE_NORMAL : XE_LOW, i;

	*out = (struct xe_schedule){.n = n_vfs + 1};
	out->at[XE_PF][XE_QUANTUM] = XE_PF_QUANTUM_MS;
	out->at[XE_PF][XE_TIMEOUT] = XE_PF_TIMEOUT_US;
	for (i = 0; i < n_vfs; i++) {
		uint32_t *to = out->at[xe_function_of(i)];

		to[XE_QUANTUM] = whole(program->vfs[i].quantum, VGPU_MSEC, XE_QUANTUM_MAX_MS);
		to[XE_TIMEOUT] = whole(program->vfs[i].timeout, VGPU_USEC, XE_TIMEOUT_MAX_US);
	}
	for (i = 0; i <= n_vfs; i++)
		out->at[i][XE_PRIORITY] = priority;
}

static vgpu_nsec length(uint32_t value, vgpu_nsec unit)
{
	return value == XE_UNKNOWN ? 0 : value * unit;
}

void xe_program_of(const struct xe_schedule *schedule, struct vgpu_program *out)
{
	uint32_t i;

	*out = (struct vgpu_program){.keep_turns = true};
	for (i = 1; i < schedule->n; i++) {
		out->vfs[i - 1].quantum = length(schedule->at[i][XE_QUANTUM], VGPU_MSEC);
		out->vfs[i - 1].timeout = length(schedule->at[i][XE_TIMEOUT], VGPU_USEC);
		out->keep_turns &= schedule->at[i][XE_PRIORITY] == XE_NORMAL;
	}
}
