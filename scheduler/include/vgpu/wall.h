/* SPDX-License-Identifier: MIT */
/*
 * The ioctls by which programs submit work to the kernel's GPU drivers, for the wall behind the
 * Vulkan layer (tools/render/wall). A driver distinguishes calls by the low 8 bits of the command
 * alone, so the tables here do, too; another driver may use the same number for another call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum vgpu_wall_call {
	VGPU_WALL_NONE = 0,
	VGPU_WALL_SUBMITS, /* waits for the gate */
	VGPU_WALL_REFUSED, /* work that would bypass the waiting calls, or a change of the GPU for
			      all its users */
	VGPU_WALL_LOOKED,  /* made on the caller's behalf, with a checked copy of its argument */
};

#define VGPU_WALL_CALLS 8u
#define VGPU_WALL_RULES 2u
#define VGPU_WALL_COPY 64u /* the largest argument of a checked call, bytes */

/* A rule for the argument of a checked call: if the word at WHEN (bytes) is IS, the word at THEN
 * must be from LOW to HIGH, signed. WHEN and THEN may be the same. */
struct vgpu_wall_rule {
	uint32_t when, then;
	int32_t is, low, high;
};

struct vgpu_wall_row {
	uint8_t number; /* 0: unused row */
	enum vgpu_wall_call kind;
	/* Only for checked calls. */
	uint32_t command; /* the whole command */
	struct vgpu_wall_rule rules[VGPU_WALL_RULES];
	uint32_t n_rules;
};

struct vgpu_wall {
	const char *driver;
	struct vgpu_wall_row rows[VGPU_WALL_CALLS];
};

/* The walls of all drivers; the last has no driver. */
extern const struct vgpu_wall vgpu_walls[];
/* Returns the wall of a driver, by its name or that in /sys; NULL: there is none, or none is
 * needed. */
const struct vgpu_wall *vgpu_wall_of(const char *driver);
/* Returns the row of an ioctl command; NULL: the wall lets it pass. */
const struct vgpu_wall_row *vgpu_wall_row_of(const struct vgpu_wall *wall, uint64_t command);
/* Returns whether a call with this argument, whose size the command gives, is allowed. */
bool vgpu_wall_allows(const struct vgpu_wall_row *row, const void *argument);
