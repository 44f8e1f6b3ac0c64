/* SPDX-License-Identifier: MIT */
/*
 * The pages of a gated GPU: what vgpud and the Vulkan layer (tools/render/layer) share. vgpud makes
 * them, each a sealed memfd, and sends them to the layer through its door; nothing but values comes
 * back. Processes with the layer are called workers.
 *
 *   seat     vgpud writes, the workers of that VF read: the gate, and what they may have
 *   account  the workers of that VF write: the memory that they have together
 *   worker   one worker writes, vgpud reads: what it has in flight
 *   bell     an eventfd, which a worker rings when vgpud must look at its page
 *
 * A worker lets a submission in as follows, with sequentially consistent accesses: it counts it in
 * `in_flight`, then looks at the gate, and takes it back if the gate is shut. vgpud shuts the gate,
 * then looks at `in_flight`. So either the worker sees the shut gate, or vgpud sees the submission.
 */
#ifndef VGPU_GATE_H
#define VGPU_GATE_H

#include <stdatomic.h>
#include <stdint.h>

#define GATE_MAGIC 0x76677067u
#define GATE_VERSION 1u
#define GATE_PAGE 4096u
/* The longest name of a device, with its NUL: what follows "vulkan:" in the configuration. */
#define GATE_DEVICE 128u

struct gate_seat {
	uint32_t magic, version;
	_Atomic uint32_t gate;	     /* a futex; odd: open. Goes up by one each time */
	_Atomic uint32_t generation; /* of the VF: one more at each reset */
	_Atomic uint64_t memory;     /* device memory that its workers may have, bytes; 0: all */
	char device[GATE_DEVICE];
	/* vgpud's own, for the next vgpud: who has the VF, and whether its driver counts as up. */
	_Atomic uint32_t owner; /* process; 0: nobody */
	_Atomic uint32_t up;
	_Atomic uint64_t started; /* of the process, clock ticks after boot */
	_Atomic uint64_t workers; /* bitmap of the places of its workers */
	/* For the wall (tools/render/wall): the value of `gate` at which nothing was under way any
	 * more. From then on nothing passes before the gate has opened again. */
	_Atomic uint32_t shut;
	_Atomic uint32_t reserved;
	_Atomic uint64_t walls; /* of `workers`, the keepers of walls: vgpud's own */
};

struct gate_account {
	_Atomic uint64_t memory; /* bytes */
};

struct gate_worker {
	_Atomic uint32_t generation; /* of the VF, as the worker has found it */
	_Atomic uint32_t in_flight;  /* submissions with commands that the driver has */
	_Atomic uint32_t work;	     /* there is something in flight, or held */
	_Atomic uint32_t reserved;
	_Atomic uint64_t submissions; /* that have ended */
	_Atomic uint64_t held;	      /* of these, that had to wait for the gate */
	_Atomic uint64_t memory;      /* its part of the account */
	_Atomic uint64_t refused;     /* allocations of memory, for the limit */
	_Atomic uint64_t longest;     /* submission, nanoseconds */
};

static inline int gate_is_open(uint32_t gate)
{
	return gate & 1;
}

/* What the door answers, with the descriptors seat, account, worker and bell, in this order, if
 * STATUS is 0; else with none, and with the reason. */
struct gate_welcome {
	uint32_t magic, version;
	int32_t status; /* 0, or a positive errno */
	uint32_t generation;
	char why[240];
};
#define GATE_DESCRIPTORS 4u

/* What the door of walls answers, at the path of the door with this behind it: beside the welcome,
 * the kernel's driver whose calls wait there; "": there is no wall. DRIVER is said to everybody. */
#define GATE_WALL_DOOR ".wall"
struct gate_wall {
	struct gate_welcome welcome;
	char driver[16];
};
/* The variable that names the keeper of the wall, a process. */
#define GATE_WALL_KEEPER "VGPUD_WALL"

/* The layer's name, and the variable that tells it where the door is. */
#define GATE_LAYER "VK_LAYER_VGPUD_gate"
#define GATE_DOOR "VGPUD_GATE"
/* Beside vgpud's socket: a link to the door of the VM with that UUID, for vgpud-qemu. */
#define GATE_DOOR_OF_VM "vm-%s.door"
/* The number of a process in which the layer does nothing: QEMU, which does not compute. */
#define GATE_SPARES "VGPUD_GATE_SPARES"

#endif
