/* SPDX-License-Identifier: MIT */
/*
 * The wall behind the Vulkan layer: calls that give work to the GPU wait in the kernel for the
 * VF's gate, whatever has become of the layer in the process that makes them. A program takes it up
 * before it becomes what it starts, and neither that nor its descendants can take it down.
 *
 * The wall is a seccomp filter that hands such calls to the wall's keeper, a process beside the
 * program: a child of it that wait() does not see. The keeper ends with the last process behind
 * the wall; if it ends before, all those calls fail.
 *
 *   launch.c   takes the wall up
 *   keeper.c   the keeper: what comes to it, and what it does with it
 *   look.c     calls that it makes for others, with a copy of what they give
 *   filter.c   the filter
 */
#ifndef RENDER_WALL_H
#define RENDER_WALL_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/types.h>

#include "vgpu/gate.h"
#include "vgpu/types.h"
#include "vgpu/wall.h"

/*
 * Takes up the wall of the GPU with that door, if its driver has one, for this process and what it
 * will become and start. SPARES: this process itself does not compute, and its own calls pass:
 * QEMU. It has no capability CAP_SYS_NICE and gains no privileges any more afterwards, and
 * $VGPUD_WALL names the keeper. Of a process with one thread. Returns 0, also without such a
 * driver; or -errno with the reason.
 */
int wall_take_up(const char *door, bool spares, struct vgpu_error *err);

/* keeper.c: vgpud's answer: the driver whose calls wait ("": no wall) and, once vgpud knows this
 * process as a descendant of a VF's owner, the gate of that VF. */
struct wall_gate {
	char driver[16];
	const struct gate_seat *seat; /* NULL: it does not yet */
	struct gate_worker *page;
	int bell;
	uint32_t generation; /* of the VF */
};
/* Asks at the door for keepers. Mappings and descriptor stay until this process ends. Returns 0,
 * also if nobody is there, for then there is no wall; or -errno: there is no answer. */
int wall_knock(const char *door, struct wall_gate *out);
/* Keeps the wall until nobody is behind it. OWNER: the process that has taken it up. */
void wall_keep(int listener, const char *door, struct wall_gate *gate, pid_t owner, bool spares);
/* look.c: makes the call for the process, if it may be made. Returns 0 with *RESULT, or -errno:
 * what the caller gets. */
int wall_look(int listener, const struct seccomp_notif *call, pid_t process,
	      const struct vgpu_wall_row *row, int64_t *result);

/* filter.c: sets the filter. Returns its listener, or -errno. */
int wall_filter(const struct vgpu_wall *wall);
/* Returns whether the call still waits: its process is the one that has made it. */
bool wall_waits(int listener, const struct seccomp_notif *call);

#endif
