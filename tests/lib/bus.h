/* SPDX-License-Identifier: MIT */
/*
 * softgpu as its register tests see it, on any bus: a PF and four VFs with partitions of 64 MiB,
 * reached through their regions. The helpers of the register tests are declared here too.
 */
#pragma once

#include <stdatomic.h>

#include "softgpu.h"
#include "test.h"
#include "vfio/device.h"
#include "softgpu/registers.h"
#include "softgpu/packets.h"
#include "vfio/gpuiov.h"

#define MIB UINT64_C(1048576)
#define VFS 4u
#define VF_MIB 64u
#define FENCE_AT 65536u
/* The address of client_memory for the VFs' DMA. */
#define CLIENT_IOVA 0x10000u
#define CLIENT_SIZE 65536u

/* FN is a VF's number, or SOFTGPU_PF. */
struct bus {
	/* Begins with a freshly reset GPU of the given layout. */
	void (*begin)(const char *layout);
	void (*enable_vfs)(void);
	void (*read)(int fn, uint32_t region, uint64_t offset, void *data, uint32_t size);
	void (*write)(int fn, uint32_t region, uint64_t offset, const void *data, uint32_t size);
	void (*end)(void);
};

/* Both defined by the test program. */
extern const struct bus *bus;
extern uint8_t *client_memory;

extern const struct test register_tests[];

/* State of the GPU under test. */
extern const struct gpuiov_layout *layout;
extern uint16_t sriov, cap, block;
extern uint64_t wptr[VFS];

/* Begins with a GPU of the given layout: partitions are set, VFs are enabled, all gates are
 * closed. */
void begin(const char *layout);
void end(void);

/* Access to the PF's registers. */
uint32_t where(enum gpuiov_register reg, uint32_t *region);
uint32_t get(enum gpuiov_register reg);
void set(enum gpuiov_register reg, uint32_t value);
uint32_t get_own(uint32_t offset);
void set_config16(uint32_t offset, uint16_t value);
void partition(uint32_t vf, uint32_t mib, uint32_t at_mib);
/* Issues a command, waits for its end and returns the status. */
uint32_t command(uint32_t code, uint32_t vf);
void reset_vf(uint32_t vf);

/* Access to a VF. */
void vf_write64(uint32_t vf, uint32_t offset, uint64_t value);
uint32_t vf_read32(uint32_t vf, uint32_t offset);
/* Initialises the VF's context, with a ring of 64 packets at 0 and a fence at 64 KiB. */
void bring_up(uint32_t vf);
void put(uint32_t vf, struct softgpu_packet p);
void ring(uint32_t vf);

/* Waits until CONDITION holds, for as long as a loaded machine may need. */
bool await(bool (*condition)(void *), void *arg);
struct fence {
	uint32_t vf;
	uint64_t value;
};
bool fence_reached(void *fence);
bool is_settled(void *unused);
bool is_filled(void *unused);
bool is_reset(void *vf);
