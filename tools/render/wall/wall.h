/* SPDX-License-Identifier: MIT */
/*
 * The wall behind the Vulkan layer: calls that give work to the GPU wait in the kernel for the
 * VF's gate, even if a process has removed the layer. `vgpuctl run` and `vgpud-qemu` install it
 * before they exec the program; neither the program nor its descendants can remove it.
 *
 * The wall is a seccomp filter that hands such calls to the wall's keeper, a process beside the
 * program: a child of it that wait() does not return. The keeper ends with the last process behind
 * the wall; if it ends before, the caught calls fail with ENOSYS.
 *
 *   launch.c   installs the wall
 *   keeper.c   the keeper: answers the calls that the filter catches
 *   look.c     calls that the keeper makes in place of a process, with a checked copy
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
 * Puts this process, and the programs that it will execute and start, behind the wall of the GPU at
 * DOOR, if its driver has one. SPARES: the calls of this process itself pass, because it does not
 * compute (QEMU). Afterwards this process has no CAP_SYS_NICE, can gain no privileges, and
 * $VGPUD_WALL names the keeper. The process must have one thread. Returns 0, also if the driver has
 * no wall; or -errno with the reason.
 */
int wall_take_up(const char *door, bool spares, struct vgpu_error *err);

/* keeper.c: vgpud's answer: the driver whose calls the wall catches ("": no wall) and the gate of
 * the VF, as soon as vgpud knows this process as a descendant of the VF's owner. */
struct wall_gate {
	char driver[16];
	const struct gate_seat *seat; /* NULL: vgpud does not know this process yet */
	struct gate_worker *page;
	int bell;
	uint32_t generation; /* of the VF */
};
/* Connects to DOOR as a keeper, and writes vgpud's answer to OUT; OUT's mappings and descriptor
 * stay until this process ends. Returns 0, also if no process listens at DOOR, because then there
 * is no wall; or -errno if vgpud does not answer in time. */
int wall_knock(const char *door, struct wall_gate *out);
/* Answers the calls that LISTENER brings. Returns when no process is behind the wall any more.
 * OWNER: the process that installed the wall; SPARES: as in wall_take_up(). */
void wall_keep(int listener, const char *door, struct wall_gate *gate, pid_t owner, bool spares);
/* look.c: makes CALL in place of PROCESS, if ROW allows it. Returns 0 with the call's result in
 * *RESULT, or -errno, which the caller of the call gets. */
int wall_look(int listener, const struct seccomp_notif *call, pid_t process,
	      const struct vgpu_wall_row *row, int64_t *result);

/* filter.c: sets the filter for this thread. Returns its listener, a descriptor that the caller
 * closes, or -errno. */
int wall_filter(const struct vgpu_wall *wall);
/* Returns whether CALL still waits for an answer. If so, its caller still lives, and the process
 * number in CALL is the caller's. */
bool wall_waits(int listener, const struct seccomp_notif *call);
