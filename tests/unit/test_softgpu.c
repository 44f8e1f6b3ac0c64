/* SPDX-License-Identifier: MIT */
/*
 * The device library without a socket or a bus: the register tests that run on every bus,
 * isolation, hostile rings, faults.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bus.h"
#include "gpu.h"
#include "leaving.h"
#include "sha256.h"
#include "suite.h"
#include "vgpu/clock.h"

static struct softgpu *gpu;
static struct softgpu_config config_of_next; /* latencies and faults of the next GPU */
static _Atomic uint32_t n_vfs;
static uint8_t memory_of_client[CLIENT_SIZE];
/* The memory of the PF's client. */
#define PAGE 4096u
#define HOST_MIB 128u
#define HOST_IOVA UINT64_C(0x100000000)
static uint8_t *host_memory;
uint8_t *client_memory = memory_of_client;

static void on_irq(void *opaque, int fn, uint32_t vector)
{
	(void)opaque;
	(void)fn;
	(void)vector;
}

static pthread_mutex_t dma_lock = PTHREAD_MUTEX_INITIALIZER;

static int on_dma(void *opaque, int fn, uint64_t iova, void *buffer, uint64_t size, bool to_client)
{
	(void)opaque;
	if (fn == SOFTGPU_PF) {
		if (iova < HOST_IOVA || iova - HOST_IOVA + size > HOST_MIB * MIB)
			return -EFAULT;
		memcpy(to_client ? host_memory + (iova - HOST_IOVA) : buffer,
		       to_client ? buffer : host_memory + (iova - HOST_IOVA), size);
		return 0;
	}
	if (iova < CLIENT_IOVA || iova - CLIENT_IOVA > CLIENT_SIZE ||
	    size > CLIENT_SIZE - (iova - CLIENT_IOVA))
		return -EFAULT;
	/* Two VFs write the same at the same time. */
	pthread_mutex_lock(&dma_lock);
	if (to_client)
		memcpy(client_memory + (iova - CLIENT_IOVA), buffer, size);
	else
		memcpy(buffer, client_memory + (iova - CLIENT_IOVA), size);
	pthread_mutex_unlock(&dma_lock);
	return 0;
}

static void on_vfs(void *opaque, uint32_t n)
{
	(void)opaque;
	atomic_store(&n_vfs, n);
}

static const struct softgpu_carrier carrier = {.irq = on_irq, .dma = on_dma, .vfs_changed = on_vfs};

static void library_begin(const char *name)
{
	struct vgpu_error err;

	config_of_next.n_vfs = VFS;
	config_of_next.vram = 512 * MIB;
	config_of_next.layout = gpuiov_layout_by_name(name);
	config_of_next.seed = 1;
	CU_ASSERT_EQUAL_FATAL(softgpu_create(&gpu, &config_of_next, &carrier, NULL, &err), 0);
	config_of_next = (struct softgpu_config){0};
}

static void library_enable_vfs(void)
{
	set_config16(sriov + SRIOV_NUM_VFS, VFS);
	set_config16(sriov + SRIOV_CTRL, SRIOV_CTRL_VF_ENABLE);
	CU_ASSERT_EQUAL(atomic_load(&n_vfs), VFS);
}

static void library_read(int fn, uint32_t region, uint64_t offset, void *data, uint32_t size)
{
	softgpu_read(gpu, fn, region, offset, data, size);
}

static void library_write(int fn, uint32_t region, uint64_t offset, const void *data, uint32_t size)
{
	softgpu_write(gpu, fn, region, offset, data, size);
}

static void library_end(void)
{
	softgpu_destroy(gpu);
}

static const struct bus library = {library_begin, library_enable_vfs, library_read, library_write,
				   library_end};
const struct bus *bus = &library;

static void begin_with(const struct softgpu_config *config, const char *name)
{
	config_of_next = *config;
	begin(name);
}

static void pci_identity(void)
{
	static const char *const names[] = {"navi", "tonga", "soft"};
	uint8_t pf[4096], vf[4096];
	uint16_t at;
	uint32_t i, ones = UINT32_MAX, size;

	for (i = 0; i < 3; i++) {
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

static bool has_error(void *arg)
{
	return vf_read32(*(uint32_t *)arg, SOFTGPU_STATUS) != 0;
}

/* While a command is executed, another one is dropped and counted. */
static void one_command(void)
{
	struct softgpu_config config = {.latency = {[SOFTGPU_T_INIT] = {.a = 20 * VGPU_MSEC}}};

	begin_with(&config, "navi");
	set(GPUIOV_CMD, GPUIOV_CMD_INIT | GPUIOV_CMD_EXECUTE | GPUIOV_FCN_VF(0) << 8);
	CU_ASSERT_EQUAL(get(GPUIOV_CMD_STATUS) & 0xff, GPUIOV_STATUS_INITING);
	set(GPUIOV_CMD, GPUIOV_CMD_INIT | GPUIOV_CMD_EXECUTE | GPUIOV_FCN_VF(1) << 8);
	CU_ASSERT_EQUAL(get_own(SOFTGPU_DROPPED_CMDS), 1);
	CU_ASSERT(await(is_settled, NULL));
	CU_ASSERT_EQUAL(get(GPUIOV_VM_INIT), 1);
	end();
}

static bool chain_has_ended(void *unused)
{
	(void)unused;
	return !(get_own(SOFTGPU_CHAIN_STATUS) & SOFTGPU_CHAIN_ACTIVE);
}

/* If the PF resets the VF of a chain's command in progress, the next command is aborted. If that
 * VF's guest resets it, the others' commands are done. */
static void reset_in_a_chain(void)
{
	static const uint32_t codes[] = {GPUIOV_CMD_SAVE | GPUIOV_FCN_VF(0) << 8,
					 GPUIOV_CMD_INIT | GPUIOV_FCN_VF(1) << 8,
					 GPUIOV_CMD_RUN | GPUIOV_FCN_VF(1) << 8};
	struct softgpu_config config = {.latency = {[SOFTGPU_T_SAVE] = {.a = 20 * VGPU_MSEC},
						    [SOFTGPU_T_FLR] = {.a = 200 * VGPU_MSEC}}};
	uint32_t words[SOFTGPU_CHAIN_LENGTH + 1] = {codes[0], codes[1], codes[2], 3}, by_guest;

	for (by_guest = 0; by_guest < 2; by_guest++) {
		begin_with(&config, "soft");
		bring_up(0);
		CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
		CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), 0);
		softgpu_write(gpu, SOFTGPU_PF, VFIO_REGION_BAR5, SOFTGPU_CHAIN, words,
			      sizeof(words));
		if (by_guest)
			softgpu_function_reset(gpu, 0);
		else
			set(GPUIOV_VF_RESET_REQ, 1);
		CU_ASSERT(await(chain_has_ended, NULL));
		CU_ASSERT_EQUAL(get_own(SOFTGPU_CHAIN_STATUS),
				by_guest ? 3 : 1 | GPUIOV_STATUS_ABORTED << 8);
		CU_ASSERT_EQUAL(get(GPUIOV_VM_INIT) >> 1 & 1, by_guest);
		end();
	}
}

/* A hostile packet stops its VF with the right error, and affects nothing else. */
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
		{{.opcode = SOFTGPU_DMA_OUT, .arg = {size, CLIENT_IOVA, 64}}, SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_SPIN, .arg = {UINT64_MAX}}, SOFTGPU_BAD_ARGUMENT},
		{{.opcode = SOFTGPU_EVENT, .arg = {size - 4}}, SOFTGPU_BAD_ARGUMENT},
		{{.opcode = SOFTGPU_EVENT, .arg = {size}}, SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_COUNT, .arg = {size, 1}}, SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_UPLOAD, .arg = {0, size - 10, 11}}, SOFTGPU_OUT_OF_RANGE},
		{{.opcode = SOFTGPU_LAUNCH, .arg = {0, 0, sizeof(struct softgpu_launch)}},
		 SOFTGPU_BAD_OPCODE},
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

static uint64_t ran(uint32_t vf)
{
	return vf_read32(vf, SOFTGPU_RAN) | (uint64_t)vf_read32(vf, SOFTGPU_RAN + 4) << 32;
}

static bool has_run(void *least)
{
	return ran(0) >= *(uint64_t *)least;
}

/* A VF tells for how long its packets were executed, also while one is, and not how long others'
 * were. */
static void running_time(void)
{
	uint64_t least = 10 * VGPU_MSEC, seen;
	vgpu_nsec start;

	begin("navi");
	bring_up(0);
	CU_ASSERT_EQUAL(ran(0), 0);
	put(0, (struct softgpu_packet){.opcode = SOFTGPU_ENDLESS});
	ring(0);
	start = vgpu_now();
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
	CU_ASSERT(await(has_run, &least));
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), 0);
	seen = ran(0);
	CU_ASSERT(seen >= least && seen <= vgpu_now() - start);
	CU_ASSERT_EQUAL(ran(0), seen);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_SAVE, 0), 0);
	CU_ASSERT_EQUAL(ran(1), 0);
	/* It runs no modules: there is nothing to tell of. */
	CU_ASSERT_EQUAL(vf_read32(0, SOFTGPU_ABOUT_AT), 0);
	end();
}

/* Impossible rings, doorbell values and fences outside of the memory stop the VF with the right
 * error. */
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

/* Random packets in random places: the VF stops or continues; the device keeps running, and the
 * memory of other VFs is untouched. */
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

/* Each partition is a file of its own; the PF sees all memory through its own window. */
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
		/* beyond its partition a VF reads ones and cannot write */
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

static void fill(uint64_t to, uint64_t from, uint64_t size, uint32_t what)
{
	uint64_t range[2] = {to, size};
	uint32_t status = SOFTGPU_FILL_BUSY;

	softgpu_write(gpu, SOFTGPU_PF, 5, SOFTGPU_FILL_OFFSET, range, 16);
	softgpu_write(gpu, SOFTGPU_PF, 5, SOFTGPU_COPY_FROM, &from, 8);
	softgpu_write(gpu, SOFTGPU_PF, 5, SOFTGPU_FILL_CTRL, &what, 4);
	while (status & SOFTGPU_FILL_BUSY)
		softgpu_read(gpu, SOFTGPU_PF, 5, SOFTGPU_FILL_CTRL, &status, 4);
	CU_ASSERT_EQUAL(status, 0);
}

static uint32_t word(int vf, uint64_t at)
{
	uint32_t value;

	softgpu_read(gpu, vf, 0, at, &value, 4);
	return value;
}

static void set_word(int vf, uint64_t at, uint32_t value)
{
	softgpu_write(gpu, vf, 0, at, &value, 4);
}

/* A VF's memory is copied to host memory and back. The VF then has exactly the copied bytes, right
 * or wrong, except those that its user has written meanwhile. While the memory is out, the VF
 * cannot be loaded. */
static void aperture(void)
{
	uint64_t base[2] = {HOST_IOVA, HOST_MIB * MIB}, home = 512 * MIB, old = 64 * MIB;
	uint64_t size = VF_MIB * MIB;

	host_memory = calloc(HOST_MIB, MIB);
	begin("navi");
	set(GPUIOV_GATE_MEMORY, 0xf);
	partition(0, VF_MIB, 512); /* refused: there is no aperture yet */
	CU_ASSERT_NOT_EQUAL(get(GPUIOV_FB_TABLE) >> 16, 512 / 16);
	softgpu_write(gpu, SOFTGPU_PF, 5, SOFTGPU_HOST_BASE, base, 16);
	set_word(0, 0, 0x1111);
	set_word(0, 5 * PAGE, 0x2222);
	set_word(0, 9 * PAGE, 0x3333);
	set_word(0, size - 4, 0x4444);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_INIT, 0), GPUIOV_STATUS_DONE);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), GPUIOV_STATUS_DONE);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), GPUIOV_STATUS_DONE);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_SAVE, 0), GPUIOV_STATUS_DONE);
	fill(home, old, size, SOFTGPU_COPY_START);
	CU_ASSERT_EQUAL(memcmp(host_memory + 5 * PAGE, "\x22\x22", 3), 0);
	partition(0, VF_MIB, 512 + 96); /* refused: beyond the end of the aperture */
	CU_ASSERT_EQUAL(get(GPUIOV_FB_TABLE) >> 16, 64 / 16);
	partition(0, VF_MIB, 512);
	CU_ASSERT_EQUAL(get(GPUIOV_FB_TABLE) >> 16, 512 / 16);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_LOAD, 0), GPUIOV_STATUS_ABORTED);
	/* the VF's user sees the memory, and writes to it */
	CU_ASSERT_EQUAL(word(0, 0), 0x1111);
	set_word(0, 0, 0x5555);
	/* one wrong byte in host memory, one page that is not copied back, and all the rest */
	host_memory[5 * PAGE] ^= 1;
	fill(old, home, 9 * PAGE, SOFTGPU_COPY_START);
	fill(old + 10 * PAGE, home + 10 * PAGE, size - 10 * PAGE, SOFTGPU_COPY_START);
	partition(0, VF_MIB, 64);
	CU_ASSERT_EQUAL(word(0, 0), 0x5555);
	CU_ASSERT_EQUAL(word(0, 5 * PAGE), 0x2223);
	CU_ASSERT_EQUAL(word(0, 9 * PAGE), 0);
	CU_ASSERT_EQUAL(word(0, size - 4), 0x4444);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_LOAD, 0), GPUIOV_STATUS_DONE);
	/* cleared while it is out: both in host memory and in the VF's window */
	reset_vf(0);
	partition(0, VF_MIB, 512);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_INIT, 0), GPUIOV_STATUS_ABORTED);
	fill(home, 0, size, SOFTGPU_FILL_START);
	CU_ASSERT_EQUAL(word(0, size - 4), 0);
	CU_ASSERT_EQUAL(host_memory[5 * PAGE], 0);
	end();
	free(host_memory);
	host_memory = NULL;
}

/* The GPU clears memory. Pages that a former user still has mapped are not those of the next
 * user. */
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

/* Each fault has its effect, and a reset ends it. */
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

/* Computes a digest as text, with the code under test. */
static void sha256_of(const uint8_t *data, uint64_t n, char text[65])
{
	uint32_t state[8], j;
	uint8_t digest[32];
	uint64_t i;

	sha256_begin(state);
	for (i = 0; i + 64 <= n; i += 64)
		sha256_block(state, data + i);
	sha256_end(state, data + i, n, digest);
	for (j = 0; j < 32; j++)
		sprintf(text + 2 * j, "%02x", digest[j]);
}

/* Computes the digest of the same bytes with sha256sum, an independent implementation. */
static bool sha256sum_of(const uint8_t *data, uint64_t n, char text[65])
{
	char path[] = "/tmp/vgpud-test.XXXXXX", command[64];
	int fd = mkstemp(path);
	FILE *said = NULL;
	bool ok;

	snprintf(command, sizeof(command), "sha256sum <%s", path);
	ok = fd >= 0 && write(fd, data, n) == (ssize_t)n;
	if (ok)
		said = popen(command, "r");
	ok = said && fscanf(said, "%64[0-9a-f]", text) == 1;
	if (said)
		pclose(said);
	if (fd >= 0) {
		close(fd);
		unlink(path);
	}
	return ok;
}

/* Guests check the device's digests with the same code that the device uses. Here that code is
 * compared with another implementation, at all lengths where the padding changes, and at some long
 * ones. */
static void sha256_against_another(void)
{
	static const uint32_t lengths[] = {0,	1,   3,	  54,  55,  56,	  57,	 62,
					   63,	64,  65,  118, 119, 120,  121,	 127,
					   128, 129, 183, 184, 300, 4096, 12345, 300001};
	static uint8_t data[300001];
	char ours[65] = "", theirs[65] = "";
	uint32_t i, x = 1;

	for (i = 0; i < sizeof(data); i++) {
		x = x * 1664525 + 1013904223;
		data[i] = (uint8_t)(x >> 24);
	}
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		sha256_of(data, lengths[i], ours);
		CU_ASSERT_FATAL(sha256sum_of(data, lengths[i], theirs));
		CU_ASSERT_STRING_EQUAL(ours, theirs);
	}
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

static bool reads_ones(void *arg)
{
	(void)arg;
	return get(GPUIOV_CMD) == UINT32_MAX;
}

/* A device that does not survive its reset reads as all ones. */
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

/* A reset of the whole GPU removes VFs, memory contents and settings. */
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

/* The number of threads that can still be created; negative: any number. */
static int threads_left = -1;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	if (threads_left == 0)
		return EAGAIN;
	threads_left -= threads_left > 0;
	return __real_pthread_create(thread, attr, run, arg);
}

static unsigned entries(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Linux lists a thread in /proc for an instant after it has been joined. */
static bool has_threads(void *n)
{
	return entries("/proc/self/task") == *(unsigned *)n;
}

/* Whichever thread cannot be created, the error says why, and nothing stays behind in a process
 * that continues, such as QEMU. */
static void no_threads(void)
{
	static const char *const devices[] = {NULL, "host"};
	struct softgpu_config config = {.n_vfs = VFS,
					.vram = 512 * MIB,
					.layout = &gpuiov_layout_navi,
					.seed = 1,
					.kill_after = 25 * VGPU_MSEC};
	unsigned fds, threads, i;
	struct vgpu_error err;
	int n;

	for (i = 0; i < 2; i++) {
		config.device = devices[i];
		fds = entries("/proc/self/fd");
		threads = entries("/proc/self/task");
		for (n = 0; n < 2 + 2 * (int)VFS + (int)i; n++) {
			threads_left = n;
			err.text[0] = '\0';
			CU_ASSERT_EQUAL(softgpu_create(&gpu, &config, &carrier, NULL, &err),
					-EAGAIN);
			threads_left = -1;
			CU_ASSERT_PTR_NOT_NULL(strstr(err.text, strerror(EAGAIN)));
			CU_ASSERT(await(has_threads, &threads));
			CU_ASSERT_EQUAL(entries("/proc/self/fd"), fds);
		}
		CU_ASSERT_EQUAL_FATAL(softgpu_create(&gpu, &config, &carrier, NULL, &err), 0);
		softgpu_destroy(gpu);
		CU_ASSERT(await(has_threads, &threads));
		CU_ASSERT_EQUAL(entries("/proc/self/fd"), fds);
	}
}

/* A process that was killed and does not end, because a tracer stops it on its way out as a hanging
 * driver would, is reported; nobody waits for it for ever. */
static void stuck_process(void)
{
	static struct softgpu none = {.lock = PTHREAD_MUTEX_INITIALIZER};
	int saved = dup(STDERR_FILENO), log = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct vgpu_error err = {""};
	struct leaving *l = NULL;
	char text[256] = "";
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	CU_ASSERT_FATAL(pid > 0 && saved >= 0 && log >= 0);
	CU_ASSERT_EQUAL_FATAL(ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXIT), 0);
	CU_ASSERT_EQUAL_FATAL(leaving_create(&l, &none, &err), 0);
	dup2(log, STDERR_FILENO);
	softgpu_lock(&none);
	leaving_add(l, pidfd_open(pid, 0), -1, vgpu_now());
	softgpu_unlock(&none);
	leaving_destroy(l); /* waits until the deadlines have passed */
	dup2(saved, STDERR_FILENO);
	CU_ASSERT(pread(log, text, sizeof(text) - 1, 0) > 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "a process that was killed 2 s ago has not ended"));
	CU_ASSERT_EQUAL(waitpid(pid, NULL, __WALL), pid); /* it has stopped in its exit */
	CU_ASSERT_EQUAL(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
	CU_ASSERT_EQUAL(waitpid(pid, NULL, 0), pid);
	close(saved);
	close(log);
}

static const struct test tests[] = {
	{"a process that does not end is reported", stuck_process},
	{"PF and VFs have correct configuration spaces", pci_identity},
	{"a second command at a time is dropped", one_command},
	{"a reset in a chain ends it, or not", reset_in_a_chain},
	{"a hostile packet stops only its VF", hostile_packets},
	{"a hostile ring stops only its VF", hostile_rings},
	{"a VF tells for how long it has run", running_time},
	{"random rings affect no other VF", random_rings},
	{"memory: each partition is a file of its own", memory},
	{"memory: a VF's memory is swapped out and in", aperture},
	{"memory: cleared, and out of reach of a former user", forgetting},
	{"a thread that cannot be created leaves nothing behind", no_threads},
	{"faults have their effect until a reset", faults},
	{"options: latencies and faults", option_texts},
	{"SHA-256 test vectors", sha256_vectors},
	{"SHA-256 against sha256sum", sha256_against_another},
	{"a reset of the whole GPU clears it", gpu_reset},
	{"a GPU that does not survive its reset reads as all ones", bricked},
	{NULL, NULL},
};

SUITE_MAIN("softgpu device", register_tests, tests)
