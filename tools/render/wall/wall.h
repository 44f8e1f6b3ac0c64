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
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/types.h>

#include "vgpu/gate.h"
#include "vgpu/types.h"
#include "vgpu/wall.h"

/*
 * Puts this process, and what it will execute and start, behind the wall of the GPU at DOOR, if its
 * driver has one. SPARES: the calls of this process itself pass, because it does not compute
 * (QEMU). Afterwards it has no CAP_SYS_NICE, can gain no privileges, and $VGPUD_WALL names the
 * keeper. The process must have one thread. Returns 0, also if the driver has no wall; or -errno
 * with the reason.
 */
int wall_take_up(const char *door, bool spares, struct vgpu_error *err);

/* keeper.c: vgpud's answer: the driver whose calls wait ("": no wall) and the gate of the VF, once
 * vgpud knows this process as a descendant of the VF's owner. */
struct wall_gate {
	char driver[16];
	const struct gate_seat *seat; /* NULL: it does not yet */
	struct gate_worker *page;
	int bell;
	uint32_t generation; /* of the VF */
};
/* Asks at the door for keepers, and writes the answer to OUT; its mappings and descriptor stay
 * until this process ends. Returns 0, also if no process listens there, because then there is no
 * wall; or -errno if there is no answer. */
int wall_knock(const char *door, struct wall_gate *out);
/* Answers the calls that LISTENER brings until no process is behind the wall. OWNER: the process
 * that has taken it up. */
void wall_keep(int listener, const char *door, struct wall_gate *gate, pid_t owner, bool spares);
/* look.c: makes a call in place of PROCESS, if ROW allows it. Returns 0 with the call's result in
 * *RESULT, or -errno, which the caller gets. */
int wall_look(int listener, const struct seccomp_notif *call, pid_t process,
	      const struct vgpu_wall_row *row, int64_t *result);

/* filter.c: sets the filter for this thread. Returns its listener, a descriptor of the caller's, or
 * -errno. */
int wall_filter(const struct vgpu_wall *wall);
/* Returns whether CALL still waits. If so, the number in it is still that of the process that has
 * made it. */
bool wall_waits(int listener, const struct seccomp_notif *call);
