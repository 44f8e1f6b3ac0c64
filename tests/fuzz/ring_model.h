/* SPDX-License-Identifier: MIT */
/*
 * What fuzz_ring.c puts around a ring: a device whose addresses are its own, a clock that only
 * counts, a compiler that runs when it is told to, and a moment at which the ring's thread sleeps.
 * So a ring needs no thread, and what happens to it is determined by the input alone.
 */
#pragma once

#include "device.h"
#include "fuzz.h"
#include "packet.h"

#define WINDOW (UINT64_C(28) << 10)
#define SIZE (UINT64_C(36) << 10)
/* What offsets in an input name of the window. */
#define LOW (UINT64_C(16) << 10)
/* The arena: granules of each ring's range, and the bytes of one. */
#define GRANULES UINT64_C(32)
#define GRANULE UINT64_C(256)

/* Where an input puts things, unless it wants something else. */
#define RING UINT64_C(0)
#define PACKETS 16u
#define SLOT_RINGS UINT64_C(0x400)
#define SLOT_PACKETS 8u
#define SLOTS UINT64_C(0x2000)
#define FENCE UINT64_C(0x2200)
#define STRUCTS UINT64_C(0x2400)
#define STRUCT_ROOM UINT64_C(0xd80)
#define N_STRUCTS 4u
#define IMAGES UINT64_C(0x5c00)
#define IMAGE_ROOM UINT64_C(0x400)

/* ring_device.c */

extern struct device *const model_device;
extern const struct device_ops model_ops;

/* The partition, each part of it as large as the ring believes. */
extern uint8_t *model_window, *model_memory;

/* Forgets all; the partition is clear. After so many mappings the device has no room for more. */
void device_begin(uint64_t maps);
/* What must hold when no ring uses the device any more: nothing that was compiled is kept, and if
 * the last run has ended IDLE, nothing is mapped. */
void device_end(bool idle);
/* Executes up to BLOCKS blocks of what is in the queue. */
void device_advance(uint32_t blocks);
/* Stops it hard, and lets it go on: device_advance() does nothing meanwhile. */
void device_hold(bool held);
/* From now on each piece ends as soon as it can, whatever of it has not run. */
void device_hurry(void);
/* Returns whether a guest's own function has read or written what is not the VF's: DEVICE_LOST is
 * right. */
bool device_has_faulted(void);
/* Nobody may use the queue until the next call: the run is over. */
void device_rest(bool rests);
/* The offset in the partition of the byte at OFFSET of the arena. UINT64_MAX: it is not mapped. */
uint64_t device_mapped(uint64_t offset);

/* ring_code.c */

struct code;
struct gate_param;

/* An image of a module. */
extern const char code_text[];

/* The GPU kernels of TEXT, which is code_text, with the worker's gate if it is GATED. */
struct code *code_create(const char *text, bool gated);
void code_destroy(struct code *c);
/* Finds the one of that name, which then is P's. False: there is none. */
bool code_find(struct code *c, const char *name, struct piece *p, struct device_params *params);
/* The device's address of the array that P, which is of code_find(), adds to; *WORDS of it. */
uint64_t code_array(const struct piece *p, uint64_t *words);
/* Executes a block of P with its array at ARRAY in this process. It must change just what it should
 * if it RUNS, and nothing if the gate keeps it from that. */
void code_run(const struct piece *p, const struct gate_param *gate, uint32_t block, uint32_t *array,
	      bool runs);

/* ring_aside.c */

/* From here to aside_end(), what runs beside the ring does so by the rules above. */
void aside_begin(void);
void aside_end(void);
/* Moves the clock. */
void aside_later(vgpu_nsec by);
/* The compiler's thread runs to its end. Whether there was one. */
bool aside_compile(void);

/* fuzz_ring.c */

/* The ring is inside of ring_execute(), and comes to a place where others may act. */
void on_moment(bool sleeps);
/* The N bytes at OFFSET, of the partition or mapped in the arena, may be written from now on. */
void may_write(uint64_t offset, uint64_t n);
/* The guest writes to its window. */
void guest_writes(uint64_t at, const void *bytes, uint64_t n);

/* ring_input.c */

/* Puts packets, up to MOST, into a ring of N at BASE, behind those before FROM. Returns FROM and
 * their number. */
uint64_t fill_ring(struct input *in, uint64_t base, uint64_t n, uint64_t from, uint64_t most);
/* Writes slots, their rings, what packets refer to, and images of modules. */
void fill_slots(struct input *in);
void fill_structures(struct input *in);
void fill_images(struct input *in);
