/* SPDX-License-Identifier: MIT */
/*
 * Executes the packets about the arena, in the ring's thread. Each ring has a range of it, so what
 * one maps is no other's, and is gone when the ring is closed.
 */
#pragma once

#include "device.h"
#include "packet.h"
#include "piece.h"

struct map {
	const struct device_ops *ops;
	struct device *device;
	const struct device_arena *arena; /* NULL: there is none */
	uint64_t window_size;
};

/* Begins with nothing mapped. OPS and DEVICE must outlive M; WINDOW_SIZE: bytes of the slot's
 * window. */
void map_init(struct map *m, const struct device_ops *ops, struct device *device,
	      uint64_t window_size);

/* Adds the range of the arena that SOURCE has to *L. */
void map_limit(const struct map *m, uint32_t source, struct packet_limits *l);

/* Returns whether packets with OPCODE are executed here. */
bool map_executes(uint32_t opcode);

enum { MAP_DONE = 0, MAP_MORE = 1 };

/* Executes a part of JOB's packet, which was checked, while nothing is in flight. Returns MAP_MORE:
 * call again; or, negative, an enum softgpu_error: BAD_MAP, after which nothing of it is mapped, or
 * FAULTED: the device is lost. */
int map_packet(const struct map *m, uint32_t source, struct piece_job *job, uint8_t *window);

/* Unmaps all that SOURCE has mapped, while nothing is in flight. Returns 0 or -EIO: the device is
 * lost. */
int map_close(const struct map *m, uint32_t source);
