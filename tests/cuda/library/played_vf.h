/* SPDX-License-Identifier: MIT */
/*
 * A VF that several processes share, as the files of sysfs show it in a VM, without a VM: its
 * window is a memory file, its registers are memory that processes of this program have in common,
 * and this process does what the VF's process and the PF do. The worker is the real one.
 * vfio_device_open() opens it under any name.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Begins to play, with a thread of this process. Programs are forked after that. */
void played_vf_start(void);
void played_vf_end(void);
/* How long the VF has the engine, each second time; the other times it has it for all its work,
 * because on a busy machine large GPU kernels get nowhere in short slices. 0, as at first: always.
 */
void played_vf_slices(uint32_t us);
/* Whether the VF has bits of enum softgpu_feature. */
void played_vf_features(uint32_t features);
/* Whether the VF reads as ones and loses what is written, as while it has no process; how often
 * programs have read that. */
void played_vf_away(bool away);
uint32_t played_vf_looks(void);
/* The VF is not brought up so many times, by order of its host; how often that was. */
void played_vf_refuse(uint32_t times);
uint32_t played_vf_refused(void);
/* S seconds pass at once, for the programs and for the test. */
void played_vf_later(int64_t s);
/* How often the VF was reset, because it was brought up while it was up; how often up and down. */
uint32_t played_vf_resets(void);
uint32_t played_vf_ups(void);
uint32_t played_vf_downs(void);
/* The window. */
uint8_t *played_vf_window(uint64_t *bytes);
/* Writes the doorbell of slots. */
void played_vf_bell(void);
