/* SPDX-License-Identifier: MIT */
/*
 * softgpu's own scheduler: gives VFs turns by a plan (turns.h), and grants guests' windows and
 * resets, without the PF's driver. The sequencer runs it. Call these functions with the device's
 * lock held.
 */
#pragma once

#include "turns.h"

struct softgpu;

/* What happens to the VF whose turn it is. */
enum firmware_phase {
	FIRMWARE_AWAY = 0, /* no VF has the turn */
	FIRMWARE_EMPTY,	   /* the turn of a VF that does not want it passes */
	FIRMWARE_ENTER,	   /* SHUTDOWN, INIT or LOAD, then RUN */
	FIRMWARE_ON,
	FIRMWARE_STOP,	/* IDLE */
	FIRMWARE_LEAVE, /* SAVE, then SHUTDOWN if the guest's driver has gone */
	FIRMWARE_RESET, /* a reset of the VF is in progress */
	FIRMWARE_GONE,	/* the VF was reset, or disabled */
};

#define FIRMWARE_RESETS 3u /* that a guest may ask for in a minute */

struct firmware {
	bool scheduler; /* the device has one */
	bool on;
	bool wake;
	struct turns turns;
	struct turns_plan prepared, taken; /* settings prepared by writes of the PF; settings taken
					      over by CONFIG_AUTO */
	uint32_t answer;		   /* CMD_STATUS of the PF's last command */
	bool interrupt;			   /* raise an interrupt with the answer */
	vgpu_nsec config_at;		   /* when TAKEN comes into force; VGPU_NEVER: it has */

	enum firmware_phase phase;
	bool issued;	 /* a command of the scheduler's has not been looked at since it ended */
	uint32_t window; /* the turn is this window: REQ_INIT, REQ_FINI; or 0 */
	bool released;
	vgpu_nsec began;   /* the turn */
	vgpu_nsec entered; /* the world switch */
	vgpu_nsec give_up; /* when the command or window in progress must have ended */
	vgpu_nsec frozen_at;
	vgpu_nsec shown[SOFTGPU_MAX_VFS]; /* the counters, as last taken */

	struct firmware_vf {
		uint32_t request; /* for a window: REQ_INIT, REQ_FINI, or 0 */
		bool up;	  /* the guest's driver */
		bool told;	  /* the guest knows of a reset that has not ended */
		bool broken;	  /* a reset has failed; tried again at RETRY_AT */
		vgpu_nsec retry_at;
		vgpu_nsec window_at; /* no window before that */
		vgpu_nsec reset_at[FIRMWARE_RESETS];
		uint32_t late, windows, windows_late;
	} vfs[SOFTGPU_MAX_VFS];
};

/* Initialises the scheduler, at power-on and after a reset of the GPU. */
void firmware_init(struct softgpu *gpu);
/* Handles a command that the PF has written. */
void firmware_command(struct softgpu *gpu, uint32_t dword);
/* Read and write registers of the plan and the counters; others read 0. */
uint32_t firmware_read(struct softgpu *gpu, uint32_t offset);
void firmware_write(struct softgpu *gpu, uint32_t offset, uint32_t value);

/* Makes the scheduler look at the state of the GPU again. */
void firmware_wake(struct softgpu *gpu);
/* Resets a VF, and tells its guest. A reset that fails comes back as firmware_reset_failed(). */
void firmware_reset(struct softgpu *gpu, int vf);
/* firmware_forgot: a VF has lost its context, by a reset or because it was disabled.
 * firmware_reset_failed: its reset had no effect. */
void firmware_forgot(struct softgpu *gpu, int vf);
void firmware_reset_failed(struct softgpu *gpu, int vf);

/* Does all that is due at NOW. */
void firmware_run(struct softgpu *gpu, vgpu_nsec now);
/* Returns when firmware_run() must be called next: 0: at once; VGPU_NEVER: when it is woken. */
vgpu_nsec firmware_deadline(const struct softgpu *gpu);
