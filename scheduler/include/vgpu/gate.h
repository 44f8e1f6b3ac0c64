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
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define GATE_MAGIC 0x76677067u
#define GATE_VERSION 1u
#define GATE_PAGE 4096u
/* The longest name of a device, with its NUL: what follows "vulkan:" in the configuration. */
#define GATE_DEVICE 128u

struct gate_seat {
	uint32_t magic, version;
	_Atomic uint32_t gate;	     /* a futex; odd: open. Each change adds one */
	_Atomic uint32_t generation; /* incarnation of the VF: each reset adds one */
	_Atomic uint64_t memory; /* limit on the device memory of its workers, bytes; 0: no limit */
	char device[GATE_DEVICE];
	/* vgpud's own state, kept for the next vgpud: the VF's owner, and whether its driver counts
	 * as up. */
	_Atomic uint32_t owner; /* process; 0: none */
	_Atomic uint32_t up;
	_Atomic uint64_t started; /* start time of that process, clock ticks after boot */
	_Atomic uint64_t workers; /* bitmap of the places of the VF's workers */
	/* For the wall (tools/render/wall): the value of `gate` at which the last submission had
	 * ended. Nothing is submitted until the gate opens again. */
	_Atomic uint32_t shut;
	/* An incarnation of the VF, plus 1, whose workers lose their devices: the VF is taken from
	 * them. 0: none. */
	_Atomic uint32_t lost;
	_Atomic uint64_t
		walls; /* the places in `workers` that belong to keepers of walls; vgpud's own */
};

struct gate_account {
	_Atomic uint64_t memory; /* device memory of all workers, bytes */
};

struct gate_worker {
	_Atomic uint32_t generation; /* incarnation of the VF, as the worker has last read it */
	_Atomic uint32_t in_flight;  /* submissions that the driver has and that contain commands */
	_Atomic uint32_t work;	     /* a submission is in flight or held */
	_Atomic uint32_t reserved;
	_Atomic uint64_t submissions; /* submissions that have ended */
	_Atomic uint64_t held;	      /* submissions that had to wait for the gate */
	_Atomic uint64_t memory;      /* the worker's part of the account */
	_Atomic uint64_t refused;     /* memory allocations refused because of the limit */
	_Atomic uint64_t longest;     /* the longest submission, nanoseconds */
};

static inline int gate_is_open(uint32_t gate)
{
	return gate & 1;
}

/* The door's answer: with STATUS 0, the descriptors seat, account, worker and bell, in this order;
 * otherwise no descriptor, and the reason. */
struct gate_welcome {
	uint32_t magic, version;
	int32_t status; /* 0, or a positive errno */
	uint32_t generation;
	char why[240];
};
#define GATE_DESCRIPTORS 4u

/* Suffix of the path of the door of walls. Its answer names, in addition, the kernel driver whose
 * calls wait there; "": there is no wall. Every client gets DRIVER. */
#define GATE_WALL_DOOR ".wall"
struct gate_wall {
	struct gate_welcome welcome;
	char driver[16];
};
/* The environment variable with the process number of the wall's keeper. */
#define GATE_WALL_KEEPER "VGPUD_WALL"

/* The layer's name, and the environment variable with the path of the door. */
#define GATE_LAYER "VK_LAYER_VGPUD_gate"
#define GATE_DOOR "VGPUD_GATE"
/* A link beside vgpud's socket to the door of the VM with that UUID, for vgpud-qemu. */
#define GATE_DOOR_OF_VM "vm-%s.door"
/* The environment variable with the number of a process in which the layer does nothing: QEMU,
 * which does not compute. */
#define GATE_SPARES "VGPUD_GATE_SPARES"
