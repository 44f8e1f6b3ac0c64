/* SPDX-License-Identifier: MIT */
/*
 * What GPU kernels print. The device has one buffer for all of the VF, so what it holds is taken
 * out before GPU kernels of another ring may print. Each ring's text is kept until its guest takes
 * it by OUTPUT: the last OUTPUT_MOST bytes. Only the ring's thread calls these.
 */
#pragma once

#include "device.h"

/* As much as the buffer of CUDA's driver has at first. */
#define OUTPUT_MOST (1u << 20)

struct output {
	const struct device_ops *ops;
	struct device *device;
	uint32_t printer; /* one more than the ring whose GPU kernels may have printed; 0: none */
	struct {
		char *text;
		uint32_t bytes;
	} of[DEVICE_SOURCES];
};

/* Returns whether output_begin() for SOURCE needs the device to be idle. */
bool output_must_settle(const struct output *o, uint32_t source);
/* A GPU kernel of SOURCE that can print is launched next. */
void output_begin(struct output *o, uint32_t source);
/* Answers OUTPUT, whose struct softgpu_output is at AT in the window, while the device is idle.
 * PRINTS: GPU kernels of SOURCE can print. */
void output_answer(struct output *o, uint32_t source, bool prints, void *at);
/* Forgets what SOURCE has printed, while the device is idle. */
void output_close(struct output *o, uint32_t source);
/* Frees the text. The device may still execute: what it holds is not taken out. */
void output_destroy(struct output *o);
