/* SPDX-License-Identifier: MIT */
/*
 * The calls by which programs give work to the GPUs of the kernel's drivers, for the wall behind
 * the Vulkan layer (tools/render/wall). A driver looks at the low 8 bits of an ioctl's command
 * alone, whatever the rest of it says, so a call is known by these; the same ones are another call
 * of another driver.
 */
#ifndef VGPU_WALL_H
#define VGPU_WALL_H

#include <stdbool.h>
#include <stdint.h>

enum vgpu_wall_call {
	VGPU_WALL_NONE = 0,
	VGPU_WALL_SUBMITS, /* waits for the gate */
	VGPU_WALL_REFUSED, /* work that would come past such calls; what changes the GPU for all */
	VGPU_WALL_LOOKED,  /* made for the caller, with a copy of what it gives, if that may be */
};

#define VGPU_WALL_CALLS 8u
#define VGPU_WALL_RULES 2u
#define VGPU_WALL_COPY 64u /* the largest argument of a call that is looked at, bytes */

/* What a call that is looked at may have: if the word at WHEN (bytes) is IS, the word at THEN is
 * from LOW to HIGH, with its sign. WHEN and THEN may be the same. */
struct vgpu_wall_rule {
	uint32_t when, then;
	int32_t is, low, high;
};

struct vgpu_wall_row {
	uint8_t number; /* 0: the row is free */
	enum vgpu_wall_call kind;
	/* Of those that are looked at. */
	uint32_t command; /* the whole command */
	struct vgpu_wall_rule rules[VGPU_WALL_RULES];
	uint32_t n_rules;
};

struct vgpu_wall {
	const char *driver;
	struct vgpu_wall_row rows[VGPU_WALL_CALLS];
};

/* All of them; ends at one without a driver. */
extern const struct vgpu_wall vgpu_walls[];
/* The wall of a driver, by its name or that in /sys; NULL: there is none, or none is needed. */
const struct vgpu_wall *vgpu_wall_of(const char *driver);
/* The row of an ioctl's command; NULL: the wall lets it pass. */
const struct vgpu_wall_row *vgpu_wall_row_of(const struct vgpu_wall *wall, uint64_t command);
/* Whether a call with this argument (of the size that its command says) may be made. */
bool vgpu_wall_allows(const struct vgpu_wall_row *row, const void *argument);

#endif
