/* SPDX-License-Identifier: MIT */
/*
 * The device library without a socket: registers and commands in both layouts, isolation, hostile
 * rings, and results that are the same to the bit however often they were preempted.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "sha256.h"
#include "softgpu.h"
#include "suite.h"
#include "vfio/device.h"

#define MIB UINT64_C(1048576)
#define VF_MIB 64u

static struct softgpu *gpu;
static const struct gpuiov_layout *layout;
static uint16_t sriov, cap, block;
static _Atomic uint32_t irqs_pf, irqs_vf;
static _Atomic uint32_t n_vfs;
static uint8_t client_memory[65536];

static void on_irq(void *opaque, int fn, uint32_t vector)
{
	(void)opaque;
	(void)vector;
	atomic_fetch_add(fn == SOFTGPU_PF ? &irqs_pf : &irqs_vf, 1);
}

static int on_dma(void *opaque, int vf, uint64_t iova, void *buffer, uint64_t size, bool to_client)
{
	(void)opaque;
	(void)vf;
	if (iova < 0x10000 || iova - 0x10000 > sizeof(client_memory) ||
	    size > sizeof(client_memory) - (iova - 0x10000))
		return -EFAULT;
	if (to_client)
		memcpy(client_memory + (iova - 0x10000), buffer, size);
	else
		memcpy(buffer, client_memory + (iova - 0x10000), size);
	return 0;
}

static void on_vfs(void *opaque, uint32_t n)
{
	(void)opaque;
	atomic_store(&n_vfs, n);
}

static const struct softgpu_carrier carrier = {on_irq, on_dma, on_vfs};

static uint32_t where(enum gpuiov_register reg, uint32_t *region)
{
	const struct gpuiov_location *at = &layout->at[reg];

	*region = at->space == GPUIOV_MMIO ? 5 : 7;
	return at->offset + (at->space == GPUIOV_CAP ? cap : at->space == GPUIOV_BLOCK ? block : 0);
}

static uint32_t get(enum gpuiov_register reg)
{
	uint32_t region, offset = where(reg, &region), value;

	softgpu_read(gpu, SOFTGPU_PF, region, offset, &value, 4);
	return value;
}

static void set(enum gpuiov_register reg, uint32_t value)
{
	uint32_t region, offset = where(reg, &region);

	softgpu_write(gpu, SOFTGPU_PF, region, offset, &value, 4);
}

static void set_config16(uint32_t offset, uint16_t value)
{
	softgpu_write(gpu, SOFTGPU_PF, 7, offset, &value, 2);
}

static void partition(uint32_t vf, uint32_t mib, uint32_t at_mib)
{
	uint32_t region, offset = where(GPUIOV_FB_TABLE, &region);
	uint32_t entry = (mib / 16 - layout->fb_size_bias) | (at_mib / 16) << 16;

	softgpu_write(gpu, SOFTGPU_PF, region, offset + 4 * vf, &entry, 4);
}

/* Waits for the device, for as long as a loaded machine may take. */
static bool await(bool (*condition)(void *), void *arg)
{
	struct timespec pause = {0, 200000};
	int i;

	for (i = 0; i < 100000; i++) {
		if (condition(arg))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static bool is_settled(void *arg)
{
	(void)arg;
	return !(get(GPUIOV_CMD) & GPUIOV_CMD_EXECUTE) &&
	       (get(GPUIOV_CMD_STATUS) & 0xff) < GPUIOV_STATUS_IDLING;
}

/* Issues a command and waits for its end: the status. */
static uint32_t command(uint32_t code, uint32_t vf)
{
	set(GPUIOV_CMD, code | GPUIOV_CMD_EXECUTE | GPUIOV_FCN_VF(vf) << 8);
	CU_ASSERT(await(is_settled, NULL));
	return get(GPUIOV_CMD_STATUS) & 0xff;
}

static void begin_with(const struct softgpu_config *base, const char *name)
{
	struct softgpu_config config = *base;
	uint8_t bytes[4096];
	struct vgpu_error err;
	uint16_t at = 0;
	uint32_t vsec, i;

	layout = gpuiov_layout_by_name(name);
	config.n_vfs = 4;
	config.vram = 512 * MIB;
	config.layout = layout;
	config.seed = 1;
	CU_ASSERT_EQUAL_FATAL(softgpu_create(&gpu, &config, &carrier, NULL, &err), 0);
	softgpu_read(gpu, SOFTGPU_PF, 7, 0, bytes, sizeof(bytes));
	sriov = cap = 0;
	CU_ASSERT(vfio_find_ext_cap(bytes, PCI_EXT_CAP_SRIOV, &sriov));
	do {
		CU_ASSERT_FATAL(vfio_find_ext_cap(bytes, PCI_EXT_CAP_VENDOR, &at));
		memcpy(&vsec, bytes + at + 4, 4);
	} while ((vsec & 0xffff) != GPUIOV_VSEC_ID);
	cap = at;
	block = layout->block_pointer ? (uint16_t)(cap + (bytes[cap + layout->block_pointer] << 4))
				      : cap;
	set(GPUIOV_CONTEXT, 4u << 10); /* 1 MiB into the PF's memory */
	for (i = 0; i < 4; i++)
		partition(i, VF_MIB, 64 + i * VF_MIB);
	set_config16(sriov + SRIOV_NUM_VFS, 4);
	set_config16(sriov + SRIOV_CTRL, SRIOV_CTRL_VF_ENABLE);
	CU_ASSERT_EQUAL(atomic_load(&n_vfs), 4);
}

static void begin(const char *name)
{
	struct softgpu_config config = {0};

	begin_with(&config, name);
}

static void end(void)
{
	softgpu_destroy(gpu);
}

static void vf_write64(uint32_t vf, uint32_t offset, uint64_t value)
{
	softgpu_write(gpu, (int)vf, 5, offset, &value, 8);
}

static uint32_t vf_read32(uint32_t vf, uint32_t offset)
{
	uint32_t value;

	softgpu_read(gpu, (int)vf, 5, offset, &value, 4);
	return value;
}

#define FENCE_AT 65536u

/* Brings a VF's context up with a ring of 64 packets at 0 and its fence at 64 KiB. */
static void bring_up(uint32_t vf)
{
	set(GPUIOV_GATE_REGISTERS, 0xf);
	set(GPUIOV_GATE_DOORBELL, 0xf);
	set(GPUIOV_GATE_MEMORY, 0xf);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_INIT, vf), 0);
	vf_write64(vf, SOFTGPU_RING_SIZE, 64);
	vf_write64(vf, SOFTGPU_FENCE_ADDR, FENCE_AT);
}

static uint64_t wptr[4];

static void put(uint32_t vf, struct softgpu_packet p)
{
	softgpu_write(gpu, (int)vf, 0, wptr[vf] % 64 * 64, &p, 64);
	wptr[vf]++;
}

static void ring(uint32_t vf)
{
	softgpu_write(gpu, (int)vf, 2, 0, &wptr[vf], 8);
}

struct fence {
	uint32_t vf;
	uint64_t value;
};

static bool fence_reached(void *arg)
{
	struct fence *f = arg;
	uint64_t value;

	softgpu_read(gpu, (int)f->vf, 0, FENCE_AT, &value, 8);
	return value == f->value;
}

static void pci_identity(void)
{
	static const char *const names[] = {"navi", "tonga"};
	uint8_t pf[4096], vf[4096];
	uint16_t at;
	uint32_t i, ones = UINT32_MAX, size;

	for (i = 0; i < 2; i++) {
		begin(names[i]);
		softgpu_read(gpu, SOFTGPU_PF, 7, 0, pf, 4096);
		softgpu_read(gpu, 2, 7, 0, vf, 4096);
		CU_ASSERT(pf[0x0a] == 0x80 && pf[0x0b] == 0x03);
		CU_ASSERT(vf[0x0a] == 0x80 && vf[0x0b] == 0x03);
		CU_ASSERT_EQUAL(sriov, 0x330);
		at = 0;
		CU_ASSERT_FALSE(vfio_find_ext_cap(vf, PCI_EXT_CAP_SRIOV, &at));
		/* capabilities: power management, express, MSI-X */
		CU_ASSERT(pf[pf[0x34]] == 0x01 && pf[pf[pf[0x34] + 1]] == 0x10 &&
			  pf[pf[pf[pf[0x34] + 1] + 1]] == 0x11);
		/* a BAR is sized by writing ones */
		softgpu_write(gpu, 0, 7, 0x24, &ones, 4);
		softgpu_read(gpu, 0, 7, 0x24, &size, 4);
		CU_ASSERT_EQUAL(~size + 1, 0x40000);
		/* identity does not change */
		softgpu_write(gpu, 0, 7, 0, &ones, 4);
		softgpu_read(gpu, 0, 7, 0, &size, 4);
		CU_ASSERT_EQUAL(memcmp(&size, vf, 4), 0);
		/* NumVFs is fixed while VFs are enabled */
		set_config16(sriov + SRIOV_NUM_VFS, 2);
		softgpu_read(gpu, SOFTGPU_PF, 7, sriov + SRIOV_NUM_VFS, &size, 2);
		CU_ASSERT_EQUAL(size & 0xffff, 4);
		end();
	}
}

/* Every command in every state: taken where it is legal, aborted where it is not. */
static void command_order(void)
{
	static const uint8_t codes[] = {GPUIOV_CMD_IDLE, GPUIOV_CMD_SAVE, GPUIOV_CMD_LOAD,
					GPUIOV_CMD_RUN,	 GPUIOV_CMD_INIT, GPUIOV_CMD_SHUTDOWN};
	/* state: 0 none, 1 loaded, 2 running, 3 idled, 4 saved; where each leads, 9: aborted */
	static const uint8_t next[5][6] = {
		{9, 9, 9, 9, 1, 9}, {9, 9, 9, 2, 9, 9}, {3, 9, 9, 9, 9, 9},
		{9, 4, 9, 9, 9, 9}, {9, 9, 1, 9, 9, 0},
	};
	static const char *const names[] = {"navi", "tonga"};
	uint32_t l, i, c, state;

	for (l = 0; l < 2; l++) {
		begin(names[l]);
		srand(4);
		for (state = 0, i = 0; i < 600; i++) {
			c = (uint32_t)rand() % 6;
			if (next[state][c] == 9) {
				CU_ASSERT_EQUAL(command(codes[c], 1), GPUIOV_STATUS_ABORTED);
			} else {
				CU_ASSERT_EQUAL(command(codes[c], 1), 0);
				state = next[state][c];
			}
		}
		CU_ASSERT_EQUAL(command(9, 1), GPUIOV_STATUS_UNSUPPORTED);
		CU_ASSERT_EQUAL(command(GPUIOV_CMD_INIT, 7), GPUIOV_STATUS_ABORTED);
		end();
	}
}

/* One at a time, started only by EXECUTE in a whole dword, and never by accident. */
static void command_protocol(void)
{
	struct softgpu_config config = {.latency = {[SOFTGPU_T_INIT] = {.a = 20 * VGPU_MSEC}}};
	uint32_t region, offset, value;
	uint8_t byte = GPUIOV_CMD_INIT | GPUIOV_CMD_EXECUTE;

	begin_with(&config, "navi");
	offset = where(GPUIOV_CMD, &region);
	set(GPUIOV_CMD, GPUIOV_CMD_INIT | GPUIOV_FCN_VF(0) << 8);
	softgpu_write(gpu, SOFTGPU_PF, region, offset, &byte, 1);
	CU_ASSERT_EQUAL(get(GPUIOV_VM_INIT), 0);
	set(GPUIOV_CMD, GPUIOV_CMD_INIT | GPUIOV_CMD_EXECUTE | GPUIOV_FCN_VF(0) << 8);
	CU_ASSERT_EQUAL(get(GPUIOV_CMD_STATUS) & 0xff, GPUIOV_STATUS_INITING);
	set(GPUIOV_CMD, GPUIOV_CMD_INIT | GPUIOV_CMD_EXECUTE | GPUIOV_FCN_VF(1) << 8);
	softgpu_read(gpu, SOFTGPU_PF, 5, SOFTGPU_DROPPED_CMDS, &value, 4);
	CU_ASSERT_EQUAL(value, 1);
	CU_ASSERT(await(is_settled, NULL));
	CU_ASSERT_EQUAL(get(GPUIOV_VM_INIT), 1);
	CU_ASSERT_EQUAL(get(GPUIOV_ACTIVE_FCN) & 0xff, 0x80);
	end();
}

static float number(uint32_t i)
{
	return (float)(i * 2654435761u % 1999) / 999.0f - 1.0f;
}

/* A job of every kind, one after the other; then the VF's whole memory is hashed. */
static void submit_everything(uint32_t vf, uint32_t fence)
{
	float values[4096];
	uint32_t i, a_bits;
	uint64_t base = MIB;
	float alpha = 1.25f;
	double x = -2.0, y = -1.2, step = 0.02;
	struct softgpu_packet m = {.opcode = SOFTGPU_MANDELBROT,
				   .arg = {base + 4 * MIB, 131 | UINT64_C(97) << 32}};

	memcpy(&a_bits, &alpha, 4);
	memcpy(&m.arg[2], &x, 8);
	memcpy(&m.arg[3], &y, 8);
	memcpy(&m.arg[4], &step, 8);
	m.arg[5] = 300;
	for (i = 0; i < 4096; i++)
		values[i] = number(i);
	for (i = 0; i < 64; i++)
		softgpu_write(gpu, (int)vf, 0, base + i * sizeof(values), values, sizeof(values));
	put(vf, (struct softgpu_packet){.opcode = SOFTGPU_FILL,
					.arg = {base + 2 * MIB, 300000, 0xdeadbeef}});
	put(vf,
	    (struct softgpu_packet){.opcode = SOFTGPU_COPY, .arg = {base + 3 * MIB, base, 700001}});
	put(vf, (struct softgpu_packet){.opcode = SOFTGPU_SAXPY,
					.arg = {base + 3 * MIB, base, 100003, a_bits}});
	put(vf, (struct softgpu_packet){.opcode = SOFTGPU_GEMM,
					.arg = {base + 6 * MIB, base, base + 100000,
						67 | UINT64_C(131) << 32, 259}});
	put(vf, m);
	put(vf, (struct softgpu_packet){.opcode = SOFTGPU_DMA_IN,
					.arg = {base + 8 * MIB, 0x10000, 50001}});
	put(vf, (struct softgpu_packet){.opcode = SOFTGPU_SHA256,
					.arg = {base + 9 * MIB, base, 8 * MIB + 7}});
	put(vf, (struct softgpu_packet){.opcode = SOFTGPU_DMA_OUT,
					.arg = {base + 9 * MIB, 0x10000 + 60000, 32}});
	put(vf, (struct softgpu_packet){.opcode = SOFTGPU_FENCE, .flags = 1, .arg = {fence}});
	ring(vf);
}

static void undisturbed(uint8_t digest[32])
{
	struct fence f = {0, 1};

	bring_up(0);
	submit_everything(0, 1);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
	CU_ASSERT(await(fence_reached, &f));
	softgpu_read(gpu, 0, 0, 10 * MIB, digest, 32);
	CU_ASSERT_EQUAL(memcmp(client_memory + 60000, digest, 32), 0);
}

/* Two VFs take turns of random, mostly tiny length; both compute the same as one alone. */
static void preempted_results(void)
{
	static const char *const names[] = {"navi", "tonga"};
	uint8_t alone[32], digest[32];
	uint32_t l, i, vf, turns;
	struct timespec pause;
	struct fence f[2] = {{0, 7}, {1, 7}};

	for (i = 0; i < sizeof(client_memory); i++)
		client_memory[i] = (uint8_t)(i * 13);
	begin("navi");
	memset(wptr, 0, sizeof(wptr));
	undisturbed(alone);
	end();
	for (l = 0; l < 2; l++) {
		begin(names[l]);
		memset(wptr, 0, sizeof(wptr));
		for (vf = 0; vf < 2; vf++) {
			bring_up(vf);
			submit_everything(vf, 7);
			CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, vf), 0);
			CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, vf), 0);
			CU_ASSERT_EQUAL(command(GPUIOV_CMD_SAVE, vf), 0);
		}
		srand(5);
		for (turns = 0; turns < 200000; turns++) {
			vf = turns % 2;
			if (fence_reached(&f[0]) && fence_reached(&f[1]))
				break;
			CU_ASSERT_EQUAL_FATAL(command(GPUIOV_CMD_LOAD, vf), 0);
			CU_ASSERT_EQUAL_FATAL(command(GPUIOV_CMD_RUN, vf), 0);
			pause = (struct timespec){0, rand() % 100000};
			nanosleep(&pause, NULL);
			CU_ASSERT_EQUAL_FATAL(command(GPUIOV_CMD_IDLE, vf), 0);
			CU_ASSERT_EQUAL_FATAL(command(GPUIOV_CMD_SAVE, vf), 0);
		}
		CU_ASSERT(turns > 20);
		for (vf = 0; vf < 2; vf++) {
			softgpu_read(gpu, (int)vf, 0, 10 * MIB, digest, 32);
			CU_ASSERT_EQUAL(memcmp(alone, digest, 32), 0);
		}
		end();
	}
}

/* What a VF's context is, is only in the save area while it is saved; and it is checked. */
static void damaged_context(void)
{
	uint8_t byte;

	begin("navi");
	memset(wptr, 0, sizeof(wptr));
	bring_up(0);
	command(GPUIOV_CMD_RUN, 0);
	command(GPUIOV_CMD_IDLE, 0);
	command(GPUIOV_CMD_SAVE, 0);
	softgpu_read(gpu, SOFTGPU_PF, 0, MIB + 40, &byte, 1);
	byte ^= 4;
	softgpu_write(gpu, SOFTGPU_PF, 0, MIB + 40, &byte, 1);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_LOAD, 0), GPUIOV_STATUS_ABORTED);
	byte ^= 4;
	softgpu_write(gpu, SOFTGPU_PF, 0, MIB + 40, &byte, 1);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_LOAD, 0), 0);
	end();
}

static bool has_error(void *arg)
{
	return vf_read32(*(uint32_t *)arg, SOFTGPU_STATUS) != 0;
}

static bool is_reset(void *arg)
{
	uint32_t bit = 1u << *(uint32_t *)arg;

	return get(GPUIOV_RESET_NOTIFICATION) & bit && !(get(GPUIOV_VF_RESET_REQ) & bit);
}

static void reset_vf(uint32_t vf)
{
	set(GPUIOV_VF_RESET_REQ, 1u << vf);
	CU_ASSERT(await(is_reset, &vf));
	set(GPUIOV_RESET_NOTIFICATION, 1u << vf);
	CU_ASSERT_EQUAL(get(GPUIOV_VM_INIT) >> vf & 1, 0);
}

/* A hostile packet stops its VF with the right error, and touches nothing else. */
static void hostile_packets(void)
{
	const uint64_t size = VF_MIB * MIB, wild = UINT64_MAX - 3;
	static const struct {
		struct softgpu_packet p;
		uint32_t error;
	} cases[] = {
		{{.opcode = 0x77}, SOFTGPU_BAD_OPCODE},
		{{.opcode = UINT32_MAX}, SOFTGPU_BAD_OPCODE},
		{{.opcode = SOFTGPU_FILL, .arg = {0, 3, 0}}, SOFTGPU_BAD_ARGUMENT},
		{{.opcode = SOFTGPU_FILL, .arg = {2, 8, 0}}, SOFTGPU_BAD_ARGUMENT},
		{{.opcode = SOFTGPU_FILL, .arg = {size - 4, 8, 0}}, SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_FILL, .arg = {wild - wild % 4, 8, 0}}, SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_FILL, .arg = {4, wild - wild % 4, 0}}, SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_COPY, .arg = {0, size - 10, 11}}, SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_COPY, .arg = {wild, 0, 8}}, SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_COPY, .arg = {MIB, MIB + 5, 10}}, SOFTGPU_BAD_ARGUMENT},
		{{.opcode = SOFTGPU_SAXPY, .arg = {0, 0, UINT64_MAX / 2}}, SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_GEMM, .arg = {0, 0, 0, 0, 5}}, SOFTGPU_BAD_ARGUMENT},
		{{.opcode = SOFTGPU_GEMM,
		  .arg = {0, 0, 0, 0xffffffff | UINT64_C(0xffffffff) << 32, 5}},
		 SOFTGPU_BAD_ARGUMENT},
		{{.opcode = SOFTGPU_GEMM,
		  .arg = {0, 0, 0, 1000 | UINT64_C(1000000) << 32, 1000000}},
		 SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_SHA256, .arg = {size - 31, 0, 5}}, SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_SHA256, .arg = {0, 100, wild}}, SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_MANDELBROT, .arg = {0, 0, 0, 0, 0, 9}}, SOFTGPU_BAD_ARGUMENT},
		{{.opcode = SOFTGPU_MANDELBROT, .arg = {0, 16385 | UINT64_C(1) << 32, 0, 0, 0, 9}},
		 SOFTGPU_BAD_ARGUMENT},
		{{.opcode = SOFTGPU_DMA_IN, .arg = {0, 0x0fff0, 64}}, SOFTGPU_DMA_FAULT},
		{{.opcode = SOFTGPU_DMA_OUT, .arg = {0, wild, 64}}, SOFTGPU_DMA_FAULT},
		{{.opcode = SOFTGPU_DMA_OUT, .arg = {size, 0x10000, 64}}, SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_SPIN, .arg = {UINT64_MAX}}, SOFTGPU_BAD_ARGUMENT},
		{{.opcode = SOFTGPU_FAULT}, SOFTGPU_FAULTED},
	};
	uint8_t canary[4096], seen[4096];
	uint32_t vf = 0, i, other;

	memset(canary, 0x5a, sizeof(canary));
	begin("navi");
	set(GPUIOV_GATE_MEMORY, 0xf);
	for (other = 1; other < 4; other++)
		softgpu_write(gpu, (int)other, 0, 0, canary, sizeof(canary));
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(wptr, 0, sizeof(wptr));
		bring_up(0);
		put(0, cases[i].p);
		ring(0);
		CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
		CU_ASSERT(await(has_error, &vf));
		CU_ASSERT_EQUAL(vf_read32(0, SOFTGPU_STATUS), cases[i].error);
		CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), 0);
		reset_vf(0);
	}
	for (other = 1; other < 4; other++) {
		softgpu_read(gpu, (int)other, 0, 0, seen, sizeof(seen));
		CU_ASSERT_EQUAL(memcmp(seen, canary, sizeof(seen)), 0);
	}
	end();
}

/* Rings that make no sense, doorbells from nowhere, fences outside. */
static void hostile_rings(void)
{
	static const struct {
		uint64_t base, size, fence, doorbell;
		uint32_t error;
	} cases[] = {
		{0, 0, FENCE_AT, 1, SOFTGPU_BAD_RING},
		{0, 63, FENCE_AT, 1, SOFTGPU_BAD_RING},
		{0, UINT64_C(1) << 62, FENCE_AT, 1, SOFTGPU_BAD_RING},
		{8, 64, FENCE_AT, 1, SOFTGPU_BAD_RING},
		{VF_MIB * MIB - 64, 64, FENCE_AT, 1, SOFTGPU_BAD_RING},
		{UINT64_MAX - 63, 64, FENCE_AT, 1, SOFTGPU_BAD_RING},
		{0, 64, FENCE_AT, 65, SOFTGPU_BAD_RING},
		{0, 64, FENCE_AT, UINT64_MAX, SOFTGPU_BAD_RING},
		{0, 64, VF_MIB * MIB - 4, 1, SOFTGPU_OUT_OF_RANGE},
		{0, 64, UINT64_MAX - 7, 1, SOFTGPU_OUT_OF_RANGE},
		{0, 64, 3, 1, SOFTGPU_OUT_OF_RANGE},
	};
	struct softgpu_packet fence = {.opcode = SOFTGPU_FENCE, .arg = {1}};
	uint32_t i, vf = 0;

	begin("tonga");
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bring_up(0);
		softgpu_write(gpu, 0, 0, 0, &fence, 64);
		vf_write64(0, SOFTGPU_RING_BASE, cases[i].base);
		vf_write64(0, SOFTGPU_RING_SIZE, cases[i].size);
		vf_write64(0, SOFTGPU_FENCE_ADDR, cases[i].fence);
		softgpu_write(gpu, 0, 2, 0, &cases[i].doorbell, 8);
		CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
		CU_ASSERT(await(has_error, &vf));
		CU_ASSERT_EQUAL(vf_read32(0, SOFTGPU_STATUS), cases[i].error);
		CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), 0);
		reset_vf(0);
	}
	end();
}

/* Random packets in random places: the VF stops or goes on; the device lives, the others' memory
 * is untouched. */
static void random_rings(void)
{
	uint8_t canary[4096], seen[4096];
	uint32_t round, i, j, error;
	struct timespec pause = {0, 300000};

	memset(canary, 0xc3, sizeof(canary));
	begin("navi");
	set(GPUIOV_GATE_MEMORY, 0xf);
	softgpu_write(gpu, 1, 0, 0, canary, sizeof(canary));
	srand(6);
	for (round = 0; round < 150; round++) {
		memset(wptr, 0, sizeof(wptr));
		bring_up(0);
		for (i = 0; i < 20; i++) {
			struct softgpu_packet p = {.opcode = (uint32_t)rand() % 12};

			for (j = 0; j < 7; j++)
				p.arg[j] = rand() % 3 ? (uint64_t)rand() % (2 * VF_MIB * MIB)
						      : (uint64_t)rand() << (rand() % 34);
			put(0, p);
		}
		ring(0);
		CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
		nanosleep(&pause, NULL);
		CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), 0);
		error = vf_read32(0, SOFTGPU_STATUS);
		CU_ASSERT(error <= SOFTGPU_FAULTED);
		reset_vf(0);
	}
	softgpu_read(gpu, 1, 0, 0, seen, sizeof(seen));
	CU_ASSERT_EQUAL(memcmp(seen, canary, sizeof(seen)), 0);
	end();
}

/* What a closed gate stops: registers, doorbell, memory; each is counted. */
static void gates(void)
{
	uint32_t value = 0, drops;
	uint64_t one = 1;

	begin("navi");
	softgpu_read(gpu, 0, 0, 0, &value, 4);
	CU_ASSERT_EQUAL(value, UINT32_MAX);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_INIT, 0), 0);
	vf_write64(0, SOFTGPU_RING_SIZE, 64);
	CU_ASSERT_EQUAL(vf_read32(0, SOFTGPU_RING_SIZE), 0);
	softgpu_write(gpu, 0, 2, 0, &one, 8);
	CU_ASSERT_EQUAL(get(GPUIOV_VM_BUSY), 0);
	softgpu_read(gpu, SOFTGPU_PF, 5, SOFTGPU_GATE_DROPS, &drops, 4);
	CU_ASSERT(drops >= 4);
	set(GPUIOV_GATE_MEMORY, 1);
	set(GPUIOV_GATE_REGISTERS, 1);
	set(GPUIOV_GATE_DOORBELL, 1);
	softgpu_read(gpu, 0, 0, 0, &value, 4);
	CU_ASSERT_EQUAL(value, 0);
	vf_write64(0, SOFTGPU_RING_SIZE, 64);
	CU_ASSERT_EQUAL(vf_read32(0, SOFTGPU_RING_SIZE), 64);
	softgpu_write(gpu, 0, 2, 0, &one, 8);
	CU_ASSERT_EQUAL(get(GPUIOV_VM_BUSY), 1);
	end();
}

/* A partition is a file of its own; the PF sees all, through its own window. */
static void memory(void)
{
	struct softgpu_region r[4];
	uint32_t i, j, value;

	begin("navi");
	set(GPUIOV_GATE_MEMORY, 0xf);
	for (i = 0; i < 4; i++) {
		value = 0x1000 + i;
		softgpu_write(gpu, (int)i, 0, 4096, &value, 4);
		softgpu_region(gpu, (int)i, 0, &r[i]);
		CU_ASSERT_EQUAL(r[i].mmap_size, VF_MIB * MIB);
		for (j = 0; j < i; j++)
			CU_ASSERT_NOT_EQUAL(r[i].mmap_fd, r[j].mmap_fd);
		softgpu_read(gpu, SOFTGPU_PF, 0, (64 + i * VF_MIB) * MIB + 4096, &value, 4);
		CU_ASSERT_EQUAL(value, 0x1000 + i);
		/* beyond its partition a VF reads ones, and writes nothing */
		softgpu_read(gpu, (int)i, 0, VF_MIB * MIB - 2, &value, 4);
		CU_ASSERT_EQUAL(value, UINT32_MAX);
		CU_ASSERT(ftruncate(r[i].mmap_fd, 4096) < 0); /* sealed */
	}
	softgpu_region(gpu, SOFTGPU_PF, 0, &r[0]);
	CU_ASSERT_EQUAL(r[0].mmap_fd, -1);
	softgpu_read(gpu, SOFTGPU_PF, 5, SOFTGPU_FB_OVERLAP, &value, 4);
	CU_ASSERT_EQUAL(value, 0);
	partition(2, VF_MIB, 64 + VF_MIB);
	softgpu_read(gpu, SOFTGPU_PF, 5, SOFTGPU_FB_OVERLAP, &value, 4);
	CU_ASSERT_EQUAL(value, 6);
	end();
}

static bool is_filled(void *arg)
{
	uint32_t value;

	(void)arg;
	softgpu_read(gpu, SOFTGPU_PF, 5, SOFTGPU_FILL_CTRL, &value, 4);
	return !(value & SOFTGPU_FILL_BUSY);
}

/* Clearing by the GPU; and what a user that has gone still has mapped is not the next one's. */
static void forgetting(void)
{
	struct softgpu_region r;
	uint64_t range[2] = {64 * MIB, VF_MIB * MIB};
	uint32_t value = 0x12345678, start = 1, vf = 0;
	uint8_t *kept;

	begin("navi");
	set(GPUIOV_GATE_MEMORY, 0xf);
	softgpu_region(gpu, 0, 0, &r);
	kept = mmap(NULL, 4096, PROT_READ, MAP_SHARED, r.mmap_fd, 0);
	CU_ASSERT_FATAL(kept != MAP_FAILED);
	softgpu_write(gpu, 0, 0, 0, &value, 4);
	CU_ASSERT_EQUAL(memcmp(kept, &value, 4), 0);
	softgpu_write(gpu, SOFTGPU_PF, 5, SOFTGPU_FILL_OFFSET, range, 16);
	softgpu_write(gpu, SOFTGPU_PF, 5, SOFTGPU_FILL_CTRL, &start, 4);
	CU_ASSERT(await(is_filled, NULL));
	CU_ASSERT_EQUAL(kept[0], 0);
	softgpu_function_closed(gpu, 0);
	CU_ASSERT(await(is_reset, &vf));
	softgpu_write(gpu, 0, 0, 0, &value, 4);
	CU_ASSERT_EQUAL(kept[0], 0);
	range[1] = UINT64_MAX;
	softgpu_write(gpu, SOFTGPU_PF, 5, SOFTGPU_FILL_OFFSET, range, 16);
	softgpu_write(gpu, SOFTGPU_PF, 5, SOFTGPU_FILL_CTRL, &start, 4);
	CU_ASSERT(await(is_filled, NULL));
	softgpu_read(gpu, SOFTGPU_PF, 5, SOFTGPU_FILL_CTRL, &value, 4);
	CU_ASSERT_EQUAL(value, SOFTGPU_FILL_FAILED);
	munmap(kept, 4096);
	end();
}

/* Messages both ways; one that is not yet acknowledged is not overwritten. */
static void mailbox(void)
{
	static const char *const names[] = {"navi", "tonga"};
	uint32_t l, trn, rcv, control, region, value;

	for (l = 0; l < 2; l++) {
		begin(names[l]);
		trn = where(GPUIOV_MBOX_TRN, &region);
		rcv = where(GPUIOV_MBOX_RCV, &region);
		control = where(GPUIOV_MBOX_CONTROL, &region);
		value = 1;
		softgpu_write(gpu, 2, 5, trn, &value, 4);
		softgpu_write(gpu, 2, 5, control, &value, 4);
		value = 9;
		softgpu_write(gpu, 2, 5, trn, &value, 4);
		CU_ASSERT_EQUAL(get(GPUIOV_IH_PENDING), 4);
		set(GPUIOV_MBOX_INDEX, 2);
		CU_ASSERT_EQUAL(get(GPUIOV_MBOX_RCV), 1);
		CU_ASSERT(get(GPUIOV_MBOX_CONTROL) & GPUIOV_MBOX_RCV_VALID);
		set(GPUIOV_MBOX_TRN, 77);
		set(GPUIOV_MBOX_CONTROL, GPUIOV_MBOX_RCV_ACK | GPUIOV_MBOX_TRN_VALID);
		CU_ASSERT_EQUAL(get(GPUIOV_IH_PENDING), 0);
		CU_ASSERT(vf_read32(2, control) & GPUIOV_MBOX_TRN_ACK);
		CU_ASSERT(vf_read32(2, control) & GPUIOV_MBOX_RCV_VALID);
		CU_ASSERT_EQUAL(vf_read32(2, rcv), 77);
		CU_ASSERT_EQUAL(vf_read32(1, rcv), 0);
		end();
	}
}

/* Faults do what they say, and a reset ends them. */
static void faults(void)
{
	struct softgpu_config config = {0};
	struct vgpu_error err;
	uint32_t value;

	CU_ASSERT_EQUAL(softgpu_parse_fault(&config, "hang,cmd=save,vf=0,count=1", &err), 0);
	CU_ASSERT_EQUAL(softgpu_parse_fault(&config, "refuse-reset,vf=3,count=1", &err), 0);
	begin_with(&config, "navi");
	bring_up(0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), 0);
	set(GPUIOV_CMD, GPUIOV_CMD_SAVE | GPUIOV_CMD_EXECUTE | GPUIOV_FCN_VF(0) << 8);
	CU_ASSERT_EQUAL(get(GPUIOV_CMD_STATUS) & 0xff, GPUIOV_STATUS_SAVING);
	CU_ASSERT_EQUAL(get(GPUIOV_ACTIVE_FCN) >> 8 & 15, GPUIOV_ACTIVE_STALLED);
	CU_ASSERT(get(GPUIOV_INTR_STATUS) & GPUIOV_INTR_NEED_FLR);
	softgpu_read(gpu, SOFTGPU_PF, 5, SOFTGPU_HANG_INFO, &value, 4);
	CU_ASSERT_EQUAL(value, 0x80 | GPUIOV_CMD_SAVE << 8);
	reset_vf(0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_INIT, 0), 0);
	set(GPUIOV_VF_RESET_REQ, 1u << 3);
	CU_ASSERT_EQUAL(get(GPUIOV_RESET_NOTIFICATION), 0);
	reset_vf(3);
	end();
}

static void option_texts(void)
{
	static const char *const bad_latencies[] = {"",		 "idle",     "idle=",	 "idle=-3",
						    "idle=5-3",	 "bogus=3",  "idle=3,",	 "idle=~5",
						    "idle=~5/9", "idle=nan", "idle=1e99"};
	static const char *const bad_faults[] = {"",
						 "explode",
						 "hang,",
						 "hang,vf",
						 "hang,vf=31",
						 "hang,cmd=flr",
						 "hang,ppm=2000000",
						 "late-idle,us=9-2",
						 "hang,vf=-1"};
	struct softgpu_config config = {0};
	struct vgpu_error err;
	size_t i;

	CU_ASSERT_EQUAL(softgpu_parse_latency(&config, "idle=30,save=60-120,flr=~20000/0.3", &err),
			0);
	CU_ASSERT_EQUAL(config.latency[SOFTGPU_T_IDLE].a, 30000);
	CU_ASSERT_EQUAL(config.latency[SOFTGPU_T_SAVE].b, 120000);
	CU_ASSERT_EQUAL(config.latency[SOFTGPU_T_FLR].sigma, 0.3);
	for (i = 0; i < sizeof(bad_latencies) / sizeof(bad_latencies[0]); i++)
		CU_ASSERT_EQUAL(softgpu_parse_latency(&config, bad_latencies[i], &err), -EINVAL);
	for (i = 0; i < sizeof(bad_faults) / sizeof(bad_faults[0]); i++)
		CU_ASSERT_EQUAL(softgpu_parse_fault(&config, bad_faults[i], &err), -EINVAL);
	CU_ASSERT_EQUAL(softgpu_parse_fault(&config, "late-idle,vf=2,us=1000-2000,skip=3", &err),
			0);
	CU_ASSERT_EQUAL(config.faults[0].skip, 3);
	CU_ASSERT_EQUAL(config.n_faults, 1);
}

/* FIPS 180-4 examples, and a million times 'a' from NIST's test vectors. */
static void sha256_vectors(void)
{
	static const struct {
		const char *text, *digest;
	} cases[] = {
		{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
	};
	uint32_t state[8], i, j;
	uint8_t digest[32], letters[64];
	char text[65];

	for (i = 0; i < 3; i++) {
		sha256_begin(state);
		sha256_end(state, (const uint8_t *)cases[i].text, strlen(cases[i].text), digest);
		for (j = 0; j < 32; j++)
			sprintf(text + 2 * j, "%02x", digest[j]);
		CU_ASSERT_STRING_EQUAL(text, cases[i].digest);
	}
	memset(letters, 'a', sizeof(letters));
	sha256_begin(state);
	for (i = 0; i < 1000000 / 64; i++)
		sha256_block(state, letters);
	sha256_end(state, letters, 1000000, digest);
	for (j = 0; j < 32; j++)
		sprintf(text + 2 * j, "%02x", digest[j]);
	CU_ASSERT_STRING_EQUAL(text,
			       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Queues that drain are told through the engine's mailbox, and the busy bits. */
static bool is_drained(void *arg)
{
	(void)arg;
	return get(GPUIOV_HVVM_DW1) == 2u << 2 * 3;
}

static void busy_and_empty(void)
{
	begin("navi");
	memset(wptr, 0, sizeof(wptr));
	set(GPUIOV_INTR_ENABLE, GPUIOV_INTR_HVVM_RCV | GPUIOV_INTR_BUSY);
	bring_up(3);
	put(3, (struct softgpu_packet){.opcode = SOFTGPU_SPIN, .arg = {100}});
	ring(3);
	CU_ASSERT_EQUAL(get(GPUIOV_VM_BUSY), 8);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 3), 0);
	CU_ASSERT(await(is_drained, NULL));
	CU_ASSERT_EQUAL(get(GPUIOV_VM_BUSY), 0);
	CU_ASSERT(get(GPUIOV_INTR_STATUS) & GPUIOV_INTR_HVVM_RCV);
	set(GPUIOV_INTR_STATUS, GPUIOV_INTR_HVVM_RCV);
	CU_ASSERT_FALSE(get(GPUIOV_INTR_STATUS) & GPUIOV_INTR_HVVM_RCV);
	set(GPUIOV_HVVM_DW0, 3);
	CU_ASSERT_EQUAL(GPUIOV_HVVM_RCV_DATA(get(GPUIOV_HVVM_DW0)), GPUIOV_HVVM_CTX_EMPTY);
	set(GPUIOV_HVVM_DW0, 3 | GPUIOV_HVVM_RCV_ACK);
	CU_ASSERT_EQUAL(get(GPUIOV_HVVM_DW1), 0);
	end();
}

static bool reads_ones(void *arg)
{
	(void)arg;
	return get(GPUIOV_CMD) == UINT32_MAX;
}

/* A device that does not survive a reset. */
static void bricked(void)
{
	struct softgpu_config config = {0};
	uint8_t reset = GPUIOV_RESET_PF;

	CU_ASSERT_EQUAL(softgpu_parse_fault(&config, "brick", NULL), 0);
	begin_with(&config, "navi");
	softgpu_write(gpu, SOFTGPU_PF, 7, cap + layout->at[GPUIOV_RESET_CONTROL].offset, &reset, 1);
	CU_ASSERT(await(reads_ones, NULL));
	end();
}

/* A reset of the whole GPU: no VFs, no memory, no settings. */
static bool no_vfs(void *arg)
{
	(void)arg;
	return atomic_load(&n_vfs) == 0;
}

static void gpu_reset(void)
{
	uint32_t value = 0xabcdef01;

	begin("navi");
	set(GPUIOV_GATE_MEMORY, 1);
	softgpu_write(gpu, 0, 0, 0, &value, 4);
	softgpu_write(gpu, SOFTGPU_PF, 0, 0, &value, 4);
	value = GPUIOV_RESET_PF;
	softgpu_write(gpu, SOFTGPU_PF, 7, cap + layout->at[GPUIOV_RESET_CONTROL].offset, &value, 1);
	CU_ASSERT(await(no_vfs, NULL));
	CU_ASSERT(await(is_filled, NULL));
	softgpu_read(gpu, SOFTGPU_PF, 0, 0, &value, 4);
	CU_ASSERT_EQUAL(value, 0);
	CU_ASSERT_EQUAL(get(GPUIOV_GATE_MEMORY), 0);
	end();
}

static const struct test tests[] = {
	{"configuration spaces of PF and VFs", pci_identity},
	{"commands: only in their legal order", command_order},
	{"commands: one at a time, by a whole dword", command_protocol},
	{"results are bit-identical however often preempted", preempted_results},
	{"a damaged context is refused", damaged_context},
	{"hostile packets stop their VF only", hostile_packets},
	{"hostile rings stop their VF only", hostile_rings},
	{"random rings", random_rings},
	{"gates", gates},
	{"memory: a file for each partition", memory},
	{"memory: cleared, and not kept by who has gone", forgetting},
	{"mailbox", mailbox},
	{"faults", faults},
	{"options: latencies and faults", option_texts},
	{"SHA-256 test vectors", sha256_vectors},
	{"busy bits, and queues that drain", busy_and_empty},
	{"reset of the whole GPU", gpu_reset},
	{"a GPU that does not survive its reset", bricked},
	{NULL, NULL},
};

SUITE_MAIN("softgpu device", tests)
