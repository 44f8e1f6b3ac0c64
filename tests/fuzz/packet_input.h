/* SPDX-License-Identifier: MIT */
#pragma once

#include "fuzz.h"
#include "softgpu/packets.h"

/* A packet of an input. Offsets and sizes have 2 bytes there; a mark in them makes one of 8. */
static inline struct softgpu_packet packet_of(struct input *in)
{
	struct softgpu_packet p = {.opcode = (uint32_t)input_number(in, 1)};
	uint32_t a;

	p.flags = (uint32_t)input_number(in, 1);
	for (a = 0; a < 7; a++) {
		p.arg[a] = input_number(in, 2);
		if (p.arg[a] >> 8 == 0xff)
			p.arg[a] = input_number(in, 8);
	}
	if (p.opcode == SOFTGPU_MANDELBROT || p.opcode == SOFTGPU_GEMM)
		p.arg[p.opcode == SOFTGPU_GEMM ? 3 : 1] |= input_number(in, 2) << 32;
	return p;
}
