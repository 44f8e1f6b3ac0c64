/* SPDX-License-Identifier: MIT */
/*
 * The device library without a socket or a bus: the register tests that run on every bus,
 * isolation, hostile rings, faults.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bus.h"
#include "gpu.h"
#include "leaving.h"
#include "link_private.h"
#include "protocol.h"
#include "sha256.h"
#include "spent.h"
#include "suite.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "workers.h"

static struct softgpu *gpu;
static struct softgpu_config config_of_next; /* latencies and faults of the next GPU */
static _Atomic uint32_t n_vfs;
static uint8_t memory_of_client[CLIENT_SIZE];
/* The memory of the PF's client. */
#define PAGE 4096u
#define HOST_MIB 128u
#define HOST_IOVA UINT64_C(0x100000000)
static uint8_t *host_memory;
/* When it is 1, the next copy to or from that memory fails, as if its file got no more memory; or
 * calls DURING_COPY. */
static _Atomic uint32_t copies_left;
static void (*during_copy)(void);
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
		if (atomic_load(&copies_left) > 0 && atomic_fetch_sub(&copies_left, 1) == 1) {
			if (!during_copy)
				return -ENOSPC;
			during_copy();
		}
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

TEST(pci_identity, "PF and VFs have correct configuration spaces")
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
TEST(one_command, "a second command at a time is dropped")
{
	struct softgpu_config config = {.latency = {[SOFTGPU_T_INIT] = {.a = 500 * VGPU_MSEC}}};

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
TEST(reset_in_a_chain, "a reset in a chain ends it, or not")
{
	static const uint32_t codes[] = {GPUIOV_CMD_SAVE | GPUIOV_FCN_VF(0) << 8,
					 GPUIOV_CMD_INIT | GPUIOV_FCN_VF(1) << 8,
					 GPUIOV_CMD_RUN | GPUIOV_FCN_VF(1) << 8};
	struct softgpu_config config = {.latency = {[SOFTGPU_T_SAVE] = {.a = 300 * VGPU_MSEC},
						    [SOFTGPU_T_FLR] = {.a = 600 * VGPU_MSEC}}};
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
TEST(hostile_packets, "a hostile packet stops only its VF")
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
TEST(running_time, "a VF tells for how long it has run")
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

/* IDLE with UNLESS_BUSY leaves a VF alone that has work; one that has none is idle, and begins none
 * that comes then. */
TEST(idle_unless_busy, "a VF that has work goes on")
{
	const uint32_t polite = GPUIOV_CMD_IDLE | SOFTGPU_CMD_UNLESS_BUSY;
	uint64_t least = 1, seen;

	begin("navi");
	bring_up(0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
	while (command(polite, 0) == SOFTGPU_STATUS_BUSY) /* it is not parked yet */
		sched_yield();
	put(0, (struct softgpu_packet){.opcode = SOFTGPU_ENDLESS});
	ring(0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_SAVE, 0), 0);
	CU_ASSERT_EQUAL(ran(0), 0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_LOAD, 0), 0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
	CU_ASSERT(await(has_run, &least));
	CU_ASSERT_EQUAL(command(polite, 0), SOFTGPU_STATUS_BUSY);
	least = ran(0) + 10 * VGPU_MSEC;
	CU_ASSERT(await(has_run, &least));
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), 0);
	seen = ran(0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_SAVE, 0), 0);
	CU_ASSERT_EQUAL(ran(0), seen);
	end();
}

/* Impossible rings, doorbell values and fences outside of the memory stop the VF with the right
 * error. */
TEST(hostile_rings, "a hostile ring stops only its VF")
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
TEST(random_rings, "random rings affect no other VF")
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
TEST(memory, "memory: each partition is a file of its own")
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

/* What goes to standard error meanwhile. */
static struct {
	int file, before;
} heard = {-1, -1};

static void listen_to_log(void)
{
	fflush(stderr);
	heard.file = memfd_create("log", MFD_CLOEXEC);
	heard.before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
	CU_ASSERT_FATAL(heard.file >= 0 && heard.before >= 0);
	dup2(heard.file, STDERR_FILENO);
}

/* How often TEXT was heard. */
static uint32_t end_of_log(const char *text)
{
	char all[4096] = "";
	const char *p = all;
	uint32_t n = 0;

	dup2(heard.before, STDERR_FILENO);
	CU_ASSERT(pread(heard.file, all, sizeof(all) - 1, 0) >= 0);
	fputs(all, stderr);
	close(heard.file);
	close(heard.before);
	while ((p = strstr(p, text))) {
		n++;
		p++;
	}
	return n;
}

static void begin_fill(uint64_t to, uint64_t from, uint64_t size, uint32_t what)
{
	uint64_t range[2] = {to, size};

	softgpu_write(gpu, SOFTGPU_PF, 5, SOFTGPU_FILL_OFFSET, range, 16);
	softgpu_write(gpu, SOFTGPU_PF, 5, SOFTGPU_COPY_FROM, &from, 8);
	softgpu_write(gpu, SOFTGPU_PF, 5, SOFTGPU_FILL_CTRL, &what, 4);
}

/* Clears or copies memory. Returns the status at the end. */
static uint32_t try_fill(uint64_t to, uint64_t from, uint64_t size, uint32_t what)
{
	uint32_t status = SOFTGPU_FILL_BUSY;

	begin_fill(to, from, size, what);
	while (status & SOFTGPU_FILL_BUSY)
		softgpu_read(gpu, SOFTGPU_PF, 5, SOFTGPU_FILL_CTRL, &status, 4);
	return status;
}

static void fill(uint64_t to, uint64_t from, uint64_t size, uint32_t what)
{
	CU_ASSERT_EQUAL(try_fill(to, from, size, what), 0);
}

static bool copy_fails(uint64_t to, uint64_t from, uint64_t size)
{
	return try_fill(to, from, size, SOFTGPU_COPY_START) == SOFTGPU_FILL_FAILED;
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
TEST(aperture, "memory: a VF's memory is swapped out and in")
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

/* Puts PACKETS into the VF's ring, and waits until they are done. */
static void carry_out(uint32_t vf, const struct softgpu_packet *packets, uint32_t n)
{
	struct fence done = {vf, wptr[vf] + n + 1};
	uint32_t i;

	for (i = 0; i < n; i++)
		put(vf, packets[i]);
	put(vf, (struct softgpu_packet){SOFTGPU_FENCE, 0, {done.value}});
	ring(vf);
	CU_ASSERT(await(fence_reached, &done));
}

static uint32_t here(void)
{
	return get(GPUIOV_FB_TABLE) >> 16;
}

static bool needs_reset(void *unused)
{
	(void)unused;
	return (get_own(SOFTGPU_HANG_INFO) & 0xff) == GPUIOV_FCN_VF(0);
}

static const struct softgpu_config with_workers = {.device = "host",
						   .window = 16 * MIB,
						   .module_memory = MIB,
						   .kill_after = VGPU_SEC};

static void run_vf(uint32_t vf)
{
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, vf), 0);
}

static void save_vf(uint32_t vf)
{
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, vf), 0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_SAVE, vf), 0);
}

/* The same with a worker, which alone reaches the memory behind the window: its bytes are copied to
 * host memory and back, and the entry of the VF's memory is accepted only if all of them were. */
TEST(aperture_of_a_worker, "memory: a worker's memory is swapped out and in")
{
	const uint64_t base[2] = {HOST_IOVA, HOST_MIB * MIB}, home = 512 * MIB, old = 64 * MIB;
	const uint64_t window = 16 * MIB, size = VF_MIB * MIB, part = 20 * MIB;
	const struct softgpu_packet marks[] = {
		{SOFTGPU_FILL, 0, {window, size - window, 0x77777777}},
		{SOFTGPU_FILL, 0, {size - 64, 64, 0x12345678}},
	};
	const struct softgpu_packet look[] = {
		{SOFTGPU_DOWNLOAD, 0, {MIB, window, 64}},
		{SOFTGPU_DOWNLOAD, 0, {MIB + 64, size - 64, 64}},
	};
	uint32_t *host, shown;

	host_memory = calloc(HOST_MIB, MIB);
	host = (uint32_t *)(void *)host_memory;
	begin_with(&with_workers, "navi");
	softgpu_write(gpu, SOFTGPU_PF, 5, SOFTGPU_HOST_BASE, base, 16);
	bring_up(0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
	carry_out(0, marks, 2);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), 0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_SAVE, 0), 0);
	fill(home, old, part, SOFTGPU_COPY_START);
	CU_ASSERT_EQUAL(host[(part - 4) / 4], 0x77777777);
	partition(0, VF_MIB, 512); /* refused: the rest was not copied */
	CU_ASSERT_EQUAL(here(), 64 / 16);
	fill(home + part, old + part, size - part, SOFTGPU_COPY_START);
	CU_ASSERT_EQUAL(host[(size - 4) / 4], 0x12345678);
	softgpu_read(gpu, SOFTGPU_PF, 0, old + size - 4, &shown, 4); /* for the PF to compare */
	CU_ASSERT_EQUAL(shown, 0x12345678);
	/* a VF that has run since must be copied anew */
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_LOAD, 0), 0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), 0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_SAVE, 0), 0);
	partition(0, VF_MIB, 512);
	CU_ASSERT_EQUAL(here(), 64 / 16);
	fill(home, old, size, SOFTGPU_COPY_START);
	partition(0, VF_MIB, 512);
	CU_ASSERT_EQUAL(here(), 512 / 16);
	fill(old, 0, size, SOFTGPU_FILL_START);
	softgpu_read(gpu, SOFTGPU_PF, 0, old + size - 4, &shown, 4);
	CU_ASSERT_EQUAL(shown, 0);

	/* back, half of it; given up, because the PF clears it; and all of it, to another place */
	fill(old, home, part, SOFTGPU_COPY_START);
	partition(0, VF_MIB, 64);
	CU_ASSERT_EQUAL(here(), 512 / 16);
	fill(old, 0, size, SOFTGPU_FILL_START);
	CU_ASSERT_EQUAL(copy_fails(old + part, home + part, size - part), true);
	host[(size - 4) / 4] = 0x1111;
	fill(320 * MIB, home, size, SOFTGPU_COPY_START);
	partition(0, VF_MIB, 320);
	CU_ASSERT_EQUAL(here(), 320 / 16);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_LOAD, 0), 0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
	carry_out(0, look, 2);
	CU_ASSERT_EQUAL(word(0, MIB), 0x77777777);
	CU_ASSERT_EQUAL(word(0, MIB + 64), 0x12345678);
	CU_ASSERT_EQUAL(word(0, MIB + 124), 0x1111);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), 0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_SAVE, 0), 0);

	/* its worker dies while it is out: the copy back fails, and the PF learns that this VF
	 * needs a reset; after that it begins with clear memory */
	fill(home, 320 * MIB, size, SOFTGPU_COPY_START);
	partition(0, VF_MIB, 512);
	softgpu_lock(gpu);
	workers_kill(gpu, 0);
	softgpu_unlock(gpu);
	CU_ASSERT(copy_fails(old, home, size));
	CU_ASSERT(await(needs_reset, NULL));
	reset_vf(0);
	partition(0, VF_MIB, 64);
	bring_up(0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
	carry_out(0, look, 2);
	CU_ASSERT_EQUAL(word(0, MIB), 0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), 0);
	end();
	free(host_memory);
	host_memory = NULL;
}

/* What VFs have used of the host's CPUs, and completed, is counted beyond the ends of processes. */
TEST(spending, "what VFs spend and complete is counted")
{
	uint64_t spent[4], before;
	uint32_t workers;

	for (workers = 0; workers <= 1; workers++) {
		if (workers)
			begin_with(&with_workers, "navi");
		else
			begin("navi");
		bring_up(0);
		CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 0), 0);
		carry_out(0, NULL, 0);
		carry_out(0, NULL, 0);
		softgpu_read(gpu, SOFTGPU_PF, 5, SOFTGPU_SPENT, spent, sizeof(spent));
		before = spent[0];
		CU_ASSERT(before > 0);
		CU_ASSERT_EQUAL(spent[1], 2);
		CU_ASSERT_EQUAL(spent[3], 0);
		softgpu_lock(gpu);
		link_kill(gpu->vfs[0].link);
		softgpu_unlock(gpu);
		softgpu_read(gpu, SOFTGPU_PF, 5, SOFTGPU_SPENT, spent, sizeof(spent));
		CU_ASSERT(spent[0] >= before);
		CU_ASSERT_EQUAL(spent[1], 2);
		end();
	}
}

#define HOME (512 * MIB)
#define OLD (64 * MIB)
#define SIZE (VF_MIB * MIB)

/* VF 0 alone: another VF that was saved during its worker's run goes on with that run, and has work
 * until then. */
static bool has_no_work(void *unused)
{
	(void)unused;
	return !(get(GPUIOV_VM_BUSY) & 1);
}

/* VF 0 computes and is saved: its device memory is 0x77777777. Its worker's run is over, so that
 * none was stopped that the next one would continue. */
static void compute_and_save(void)
{
	const struct softgpu_packet mark = {SOFTGPU_FILL,
					    0,
					    {16 * MIB, SIZE - 16 * MIB, 0x77777777}};

	carry_out(0, &mark, 1);
	CU_ASSERT(await(has_no_work, NULL));
	save_vf(0);
}

static void begin_saved(void)
{
	const uint64_t base[2] = {HOST_IOVA, HOST_MIB * MIB};

	host_memory = calloc(HOST_MIB, MIB);
	begin_with(&with_workers, "navi");
	softgpu_write(gpu, SOFTGPU_PF, 5, SOFTGPU_HOST_BASE, base, 16);
	bring_up(0);
	run_vf(0);
	compute_and_save();
}

static void end_saved(void)
{
	end();
	free(host_memory);
	host_memory = NULL;
}

/* Whether VF 0 runs again, and finds in its device memory what it has left there. */
static void expect_whole(void)
{
	const struct softgpu_packet look[] = {
		{SOFTGPU_DOWNLOAD, 0, {MIB, 16 * MIB, 64}},
		{SOFTGPU_DOWNLOAD, 0, {MIB + 64, SIZE - 64, 64}},
	};

	CU_ASSERT_EQUAL(command(GPUIOV_CMD_LOAD, 0), 0);
	run_vf(0);
	carry_out(0, look, 2);
	CU_ASSERT_EQUAL(word(0, MIB), 0x77777777);
	CU_ASSERT_EQUAL(word(0, MIB + 124), 0x77777777);
	save_vf(0);
}

/* Sets a limit of this process, and returns what it was. */
static struct rlimit limit(int which, struct rlimit to)
{
	struct rlimit was;

	getrlimit((__rlimit_resource_t)which, &was);
	CU_ASSERT_EQUAL(setrlimit((__rlimit_resource_t)which, &to), 0);
	return was;
}

static struct rlimit limit_to(int which, rlim_t n)
{
	struct rlimit to;

	getrlimit((__rlimit_resource_t)which, &to);
	to.rlim_cur = n;
	return limit(which, to);
}

/* Returns whether the PF's own file has no pages but those of saved contexts. */
static bool is_freed(void *unused)
{
	struct stat st;

	(void)unused;
	return fstat(gpu->memfd, &st) == 0 && st.st_blocks * 512 < (blkcnt_t)MIB;
}

/* The process of a VF that executes PROGRAM; 0: there is none. */
static pid_t process_of(uint32_t vf, const char *program)
{
	DIR *tasks = opendir("/proc/self/task");
	char path[64], line[512], wanted[16];
	struct dirent *task;
	ssize_t n;
	pid_t pid, found = 0;
	FILE *children;
	int fd, k = snprintf(wanted, sizeof(wanted), "--vf%c%u%c", 0, vf, 0);

	while (found == 0 && (task = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%.16s/children", task->d_name);
		children = fopen(path, "re");
		while (children && found == 0 && fscanf(children, "%d", &pid) == 1) {
			snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
			fd = open(path, O_RDONLY | O_CLOEXEC);
			n = fd < 0 ? 0 : read(fd, line, sizeof(line));
			if (n > 0 && memmem(line, (size_t)n, wanted, (size_t)k) &&
			    memmem(line, (size_t)n, program, strlen(program)))
				found = pid;
			vgpu_close(&fd);
		}
		if (children)
			fclose(children);
	}
	closedir(tasks);
	return found;
}

static pid_t worker_of(uint32_t vf)
{
	return process_of(vf, "softgpu-worker");
}

/* How much memory of its own the worker of VF 0 has, in bytes. */
static uint64_t memory_of_worker(void)
{
	unsigned long long kib = 0;
	char path[64], line[128];
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", worker_of(0));
	status = fopen(path, "re");
	CU_ASSERT_FATAL(status != NULL);
	while (fgets(line, sizeof(line), status) && sscanf(line, "RssAnon: %llu", &kib) != 1)
		;
	fclose(status);
	return kib << 10;
}

static bool has_given_back(void *had)
{
	return memory_of_worker() < *(uint64_t *)had - SIZE / 2;
}

static struct rlimit descriptors;

static void have_descriptors(void)
{
	limit(RLIMIT_NOFILE, descriptors);
}

/* Host memory, files and descriptors run out in the middle of a swap. Each time the copy fails, one
 * sentence says so until the memory has moved, no worker is killed, and when the host has enough
 * again the swap goes on. */
TEST(shortage, "memory: what the host lacks costs no VF its memory")
{
	static const char sentence[] = "VF 0: this host has too little memory";
	struct rlimit was;
	uint64_t had;

	signal(SIGXFSZ, SIG_IGN);
	begin_saved();
	had = memory_of_worker();
	/* out: the PF's memory gets no page, twice; then no file of this process may grow, which
	 * is where the PF compares; then there is no descriptor */
	listen_to_log();
	atomic_store(&copies_left, 20);
	CU_ASSERT(copy_fails(HOME, OLD, SIZE));
	atomic_store(&copies_left, 1);
	CU_ASSERT(copy_fails(HOME, OLD, SIZE));
	was = limit_to(RLIMIT_FSIZE, OLD + 24 * MIB);
	CU_ASSERT(copy_fails(HOME, OLD, SIZE));
	limit(RLIMIT_FSIZE, was);
	CU_ASSERT_EQUAL(end_of_log(sentence), 1);
	was = limit_to(RLIMIT_NOFILE, 3);
	CU_ASSERT(copy_fails(HOME, OLD, SIZE));
	limit(RLIMIT_NOFILE, was);
	CU_ASSERT_FALSE(needs_reset(NULL));
	fill(HOME, OLD, SIZE, SOFTGPU_COPY_START);

	/* when it has left, its worker cannot be told so until its window has come: nothing else
	 * comes before it has been told */
	descriptors = limit_to(RLIMIT_NOFILE, 3);
	partition(0, VF_MIB, 512);
	CU_ASSERT_EQUAL(here(), 512 / 16);
	fill(OLD, 0, SIZE, SOFTGPU_FILL_START);
	during_copy = have_descriptors;
	atomic_store(&copies_left, 3);
	CU_ASSERT(copy_fails(OLD, HOME, SIZE));
	during_copy = NULL;
	CU_ASSERT_EQUAL(atomic_load(&copies_left), 0);
	CU_ASSERT_FALSE(needs_reset(NULL));
	CU_ASSERT(await(has_given_back, &had));

	/* back: the same, and its worker has no room in the file through which it copies */
	listen_to_log();
	atomic_store(&copies_left, 20);
	CU_ASSERT(copy_fails(OLD, HOME, SIZE));
	was = limit_to(RLIMIT_FSIZE, 4096);
	CU_ASSERT(copy_fails(OLD, HOME, SIZE));
	limit(RLIMIT_FSIZE, was);
	was = limit_to(RLIMIT_NOFILE, 3);
	CU_ASSERT(copy_fails(OLD + 16 * MIB, HOME + 16 * MIB, SIZE - 16 * MIB));
	limit(RLIMIT_NOFILE, was);
	CU_ASSERT(end_of_log(sentence) <= 1); /* it may have been said above */
	CU_ASSERT_FALSE(needs_reset(NULL));
	fill(OLD, HOME, SIZE, SOFTGPU_COPY_START);
	partition(0, VF_MIB, 64);
	CU_ASSERT_EQUAL(here(), 64 / 16);
	expect_whole();

	/* A copy that has failed keeps no memory when its VF runs again. */
	atomic_store(&copies_left, 20);
	CU_ASSERT(copy_fails(HOME, OLD, SIZE));
	CU_ASSERT_FALSE(is_freed(NULL));
	expect_whole();
	CU_ASSERT(await(is_freed, NULL));
	end_saved();
	signal(SIGXFSZ, SIG_DFL);
}

/* A worker that says, when its VF has left, that the VF runs: nobody would ask it again, and what
 * it has would be missing to others. */
TEST(refuses_to_leave, "memory: who stays after it has left loses its worker")
{
	const struct softgpu_packet spin = {SOFTGPU_SPIN, 0, {3600000000}}; /* an hour */
	struct worker_message run = {.type = WORKER_RUN, .run = {.ring_size = 64}};
	struct vf_order order;
	int fds[VF_ORDER_FDS];

	begin_saved();
	run.run.rptr = wptr[0] - 1;
	library_write(0, VFIO_REGION_BAR0, run.run.rptr % 64 * 64, &spin, sizeof(spin));
	fill(HOME, OLD, SIZE, SOFTGPU_COPY_START); /* the packet too: it may be read there */
	softgpu_lock(gpu); /* as a VF's process could that its guest has taken over */
	workers_begin_turn(gpu, 0);
	CU_ASSERT_FATAL(workers_order(gpu, 0, &order, fds));
	CU_ASSERT_EQUAL(send(fds[0], &run, sizeof(run), MSG_DONTWAIT), sizeof(run));
	softgpu_unlock(gpu);
	partition(0, VF_MIB, 512);
	CU_ASSERT_EQUAL(here(), 512 / 16);
	fill(OLD, 0, SIZE, SOFTGPU_FILL_START);
	CU_ASSERT(await(needs_reset, NULL));
	end_saved();
}

/* The VF is reset while a piece of its memory is on its way to host memory, and computes again. */
static void reset_and_run(void)
{
	reset_vf(0);
	bring_up(0);
	run_vf(0);
	save_vf(0);
}

TEST(copied_by_another, "memory: what a worker has copied counts for that worker")
{
	begin_saved();
	during_copy = reset_and_run;
	atomic_store(&copies_left,
		     17); /* the first of the device memory: the window is 16 pieces */
	try_fill(HOME, OLD, SIZE, SOFTGPU_COPY_START);
	during_copy = NULL;
	CU_ASSERT_EQUAL(atomic_load(&copies_left), 0);
	partition(0, VF_MIB, 512); /* refused: the first piece was another worker's */
	CU_ASSERT_EQUAL(here(), 64 / 16);
	end_saved();
}

static void kill_worker(void)
{
	softgpu_lock(gpu);
	workers_kill(gpu, 0);
	softgpu_unlock(gpu);
}

/* The VF that has lost its worker is reset, begins with clear memory, and computes again. */
static void expect_new(void)
{
	const struct softgpu_packet look = {SOFTGPU_DOWNLOAD, 0, {MIB, 16 * MIB, 64}};

	CU_ASSERT(await(needs_reset, NULL));
	reset_vf(0);
	partition(0, VF_MIB, 64);
	bring_up(0);
	run_vf(0);
	set_word(0, FENCE_AT, 0); /* the window is what it was */
	set_word(0, MIB, 1);
	carry_out(0, &look, 1);
	CU_ASSERT_EQUAL(word(0, MIB), 0);
	compute_and_save();
}

/* The process of a VF that was taken over lets the worker run while the VF does not have the GPU.
 */
TEST(runs_out_of_turn, "a worker runs only while its VF has the GPU")
{
	const struct worker_message run = {.type = WORKER_RUN, .run = {.ring_size = 64}};
	struct vf_order order;
	int fds[VF_ORDER_FDS];

	begin_saved();
	softgpu_lock(gpu);
	CU_ASSERT_FATAL(workers_order(gpu, 0, &order, fds));
	CU_ASSERT_EQUAL(send(fds[0], &run, sizeof(run), MSG_DONTWAIT), sizeof(run));
	softgpu_unlock(gpu);
	expect_new();
	end_saved();
}

static bool counts(void *unused)
{
	(void)unused;
	return word(0, MIB) > 0;
}

/* Such a process says that the VF has no work, while the worker runs: the GPU is not given to
 * another before the worker says the same, or is gone. */
TEST(only_says_that_it_rests, "a VF has stopped when its worker says so too")
{
	_Atomic uint32_t *run;
	pid_t pid;

	begin_with(&with_workers, "navi");
	bring_up(0);
	run_vf(0);
	put(0, (struct softgpu_packet){SOFTGPU_COUNT, 0, {MIB, UINT64_C(1) << 40}});
	ring(0);
	CU_ASSERT(await(counts, NULL));
	pid = process_of(0, "softgpu-vf");
	CU_ASSERT_FATAL(pid > 0);
	kill(pid, SIGSTOP);
	softgpu_lock(gpu);
	run = &link_page(gpu->vfs[0].link)->run;
	atomic_store(run, atomic_load(run) - VF_RUN + VF_PARKED);
	softgpu_unlock(gpu);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), GPUIOV_STATUS_ABORTED);
	end();
}

/* VF 0 has another process than *ARG, a pid, and the device knows. */
static bool has_another_process(void *arg)
{
	uint64_t fences;
	pid_t now;

	softgpu_lock(gpu);
	now = link_process(gpu->vfs[0].link, &fences);
	softgpu_unlock(gpu);
	return now > 0 && now != *(pid_t *)arg;
}

/* Kills VF 0's process, which has LEFT of what it could have used; before that it is LOOKED at.
 * Returns how long the VF owes for that, from *SINCE on. */
static vgpu_nsec kill_with(int64_t left, bool looked, vgpu_nsec *since)
{
	struct spent_of *s = &gpu->spent[0].of[SPENT_PROCESS];
	vgpu_nsec owes;

	softgpu_lock(gpu);
	spent_too_much(gpu, 0);
	s->left = left;
	if (looked)
		spent_too_much(gpu, 0);
	owes = spent_owed(gpu, 0);
	*since = s->left_at;
	link_kill(gpu->vfs[0].link);
	softgpu_unlock(gpu);
	return owes;
}

/* VF 0 has no process. *JUDGED: what the last one took has been judged by then. */
static bool has_ended(void *judged)
{
	uint64_t fences;
	bool ended;

	softgpu_lock(gpu);
	ended = link_process(gpu->vfs[0].link, &fences) == 0;
	*(bool *)judged = gpu->spent[0].of[SPENT_PROCESS].left >= 0;
	softgpu_unlock(gpu);
	return ended;
}

/* A process that ends between two looks is judged, too, and the next one, which may be another
 * client's, begins with all that can be saved up. */
TEST(spent_before, "what a process spent is paid before the next one")
{
	vgpu_nsec since, owes;
	bool judged = false;
	pid_t pid;

	begin("navi");
	bring_up(0);
	pid = process_of(0, "softgpu-vf");
	CU_ASSERT_FATAL(pid > 0);
	owes = kill_with(50 * (int64_t)VGPU_MSEC, true, &since);
	CU_ASSERT_FATAL(await(has_another_process, &pid));
	CU_ASSERT(vgpu_now() - since >= owes);
	kill_with(-1000 * (int64_t)VGPU_SEC, false, &since);
	CU_ASSERT(await(has_ended, &judged));
	CU_ASSERT(judged);
	end();
}

/* VF 0's predecessor has taken too much: its process pays for that only with when the next one
 * comes. Its own excess it pays for. */
TEST(rests, "a VF's process is not ended for what another one took")
{
	struct link *link;
	vgpu_nsec since;
	uint64_t first;
	bool judged;
	pid_t pid;

	begin("navi");
	bring_up(0);
	link = gpu->vfs[0].link;
	first = link_serial(link);
	pid = process_of(0, "softgpu-vf");
	CU_ASSERT_FATAL(pid > 0);
	softgpu_lock(gpu);
	since = vgpu_now();
	link_rest(link, first - 1);
	CU_ASSERT(!link->kill && !link->greedy);
	link_kill(link);
	softgpu_unlock(gpu);
	CU_ASSERT_FATAL(await(has_another_process, &pid));
	CU_ASSERT(vgpu_now() - since >= SPENT_REST);
	softgpu_lock(gpu);
	CU_ASSERT_EQUAL(link_serial(link), first + 1);
	link_rest(link, first);
	CU_ASSERT(!link->kill && !link->greedy);
	link_rest(link, first + 1);
	softgpu_unlock(gpu);
	CU_ASSERT(await(has_ended, &judged));
	end();
}

/* A process that computes, as the worker of a VF with so much memory that is told to end; USED: its
 * CPU time. */
static pid_t leave_computing(uint32_t vf, uint64_t size, _Atomic vgpu_nsec *used)
{
	pid_t pid = fork();
	uint64_t was;

	while (pid == 0)
		atomic_store(used, spent_cpu(0));
	softgpu_lock(gpu);
	was = gpu->vfs[vf].fb_size;
	gpu->vfs[vf].fb_size = size;
	leaving_add_worker(gpu->leaving, pidfd_open(pid, 0), pid, (int)vf, VGPU_NEVER);
	gpu->vfs[vf].fb_size = was;
	softgpu_unlock(gpu);
	return pid;
}

static bool is_gone(void *pid)
{
	return kill(*(pid_t *)pid, 0) < 0;
}

/* Returns whether it has used more than a worker without memory may. */
static bool goes_on(void *used)
{
	return atomic_load((_Atomic vgpu_nsec *)used) > 1500 * VGPU_MSEC;
}

/* A worker may compute as long as it takes to end, and to clear the memory that it had. After that
 * it is killed, and so is the process that it was for. */
TEST(computes_at_its_end, "a worker that computes instead of ending costs its VF its process")
{
	_Atomic vgpu_nsec *used =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t small, large;
	bool judged;

	CU_ASSERT_FATAL(used != MAP_FAILED);
	begin("navi");
	bring_up(0);
	large = leave_computing(1, 4096 * MIB, &used[1]);
	small = leave_computing(0, 0, &used[0]);
	CU_ASSERT(await(is_gone, &small));
	CU_ASSERT(atomic_load(&used[0]) > 500 * VGPU_MSEC);
	CU_ASSERT(await(goes_on, &used[1]));
	CU_ASSERT(await(has_ended, &judged));
	kill(large, SIGKILL);
	CU_ASSERT(await(is_gone, &large));
	end();
	munmap(used, PAGE);
}

/* VF 1 computes in its own device memory. */
static void expect_other(void)
{
	static uint32_t value;
	const struct softgpu_packet work[] = {
		{SOFTGPU_FILL, 0, {16 * MIB, 64, ++value}},
		{SOFTGPU_DOWNLOAD, 0, {MIB, 16 * MIB, 64}},
	};

	CU_ASSERT_EQUAL(command(GPUIOV_CMD_LOAD, 1), 0);
	run_vf(1);
	carry_out(1, work, 2);
	CU_ASSERT_EQUAL(word(1, MIB), value);
	save_vf(1);
}

static void begin_other(void)
{
	bring_up(1);
	run_vf(1);
	save_vf(1);
}

/* A worker is killed at each stage of a swap: while it copies the first, a later and the last piece
 * out; while it takes them back; and when its VF leaves. */
TEST(dies, "memory: a worker that dies during a swap costs its VF a reset")
{
	static const struct {
		uint32_t out, in; /* copies for the PF until it is killed */
	} instants[] = {{17, 0}, {40, 0}, {VF_MIB, 0}, {0, 0}, {0, 17}, {0, 40}, {0, VF_MIB}};
	uint32_t i;

	begin_saved();
	begin_other();
	during_copy = kill_worker;
	for (i = 0; i < sizeof(instants) / sizeof(instants[0]); i++) {
		atomic_store(&copies_left, instants[i].out);
		try_fill(HOME, OLD, SIZE, SOFTGPU_COPY_START);
		if (instants[i].out + instants[i].in == 0)
			kill_worker();
		partition(0, VF_MIB, 512);
		/* all has been copied when the last piece is on its way */
		CU_ASSERT_EQUAL(here() == 512 / 16,
				instants[i].out == 0 || instants[i].out == VF_MIB);
		expect_other();
		if (here() == 512 / 16) {
			atomic_store(&copies_left, instants[i].in);
			CU_ASSERT(copy_fails(OLD, HOME, SIZE));
			partition(0, VF_MIB, 64);
			CU_ASSERT_EQUAL(here(), 512 / 16);
		}
		CU_ASSERT_EQUAL(atomic_load(&copies_left), 0);
		expect_new();
		expect_other();
	}
	during_copy = NULL;
	end_saved();
}

/* Nobody waits for an answer of a worker whose VF has no work, or whose compiler is at work. If it
 * dies then, the PF learns that its VF needs a reset, and the reset starts another, although this
 * one has never run anything. */
TEST(dies_idle, "a worker that dies without work costs its VF a reset")
{
	const struct softgpu_packet nop = {SOFTGPU_NOP, 0, {0}};
	pid_t pid;

	begin_with(&with_workers, "navi");
	bring_up(0);
	pid = worker_of(0);
	CU_ASSERT_FATAL(pid > 0);
	kill(pid, SIGKILL);
	CU_ASSERT(await(needs_reset, NULL));
	reset_vf(0);
	bring_up(0);
	run_vf(0);
	carry_out(0, &nop, 1);
	save_vf(0);
	end();
}

static void stop_worker(void)
{
	pid_t pid;

	while ((pid = worker_of(0)) <= 0)
		;
	kill(pid, SIGSTOP);
}

static bool is_stopping(void *unused)
{
	(void)unused;
	return atomic_load(&copies_left) == 0;
}

/* The worker stands still in the middle of a copy. Meanwhile another VF computes, and softgpu
 * answers; then the copy fails, and the VF is reset. */
TEST(hangs, "memory: a worker that does not answer costs its VF a reset")
{
	vgpu_nsec began, took, longest = 0;
	uint32_t rounds = 0;

	begin_saved();
	begin_other();
	during_copy = stop_worker;
	atomic_store(&copies_left, 20);
	began = vgpu_now();
	begin_fill(HOME, OLD, SIZE, SOFTGPU_COPY_START);
	CU_ASSERT(await(is_stopping, NULL));
	for (; vgpu_now() - began < 3 * VGPU_SEC; rounds++) {
		took = vgpu_now();
		expect_other();
		took = vgpu_now() - took;
		longest = took > longest ? took : longest;
	}
	CU_ASSERT(longest < 2 * VGPU_SEC);
	CU_ASSERT_FALSE(needs_reset(NULL)); /* it has 5 s */
	CU_ASSERT(await(is_filled, NULL));
	during_copy = NULL;
	CU_ASSERT(vgpu_now() - began >= 5 * VGPU_SEC);
	partition(0, VF_MIB, 512);
	CU_ASSERT_EQUAL(here(), 64 / 16);
	expect_new();
	expect_other();
	printf(" %u rounds of the other VF, %.0f ms at most;", rounds, (double)longest / 1e6);
	end_saved();
}

static void *write_page(void *page)
{
	int fds[2] = {-1, -1};

	softgpu_lock(gpu);
	workers_memory(gpu, 0, fds);
	fds[1] = fcntl(fds[1], F_DUPFD_CLOEXEC, 0);
	softgpu_unlock(gpu);
	CU_ASSERT_EQUAL(pwrite(fds[1], page, 1, 0), 1);
	close(fds[1]);
	return NULL;
}

/* A worker can keep the lock of the file through which its memory is copied, by a write from memory
 * that is never there. softgpu does not wait for it. */
TEST(locked_stage, "memory: a worker that keeps the lock of its file keeps nobody")
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register page = {.range.len = PAGE, .mode = UFFDIO_REGISTER_MODE_MISSING};
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	void *never = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffd_msg fault;
	pthread_t writer;

	page.range.start = (uintptr_t)never;
	if (uffd < 0) {
		printf(" skipped: userfaultfd: %s;", strerror(errno));
		munmap(never, PAGE);
		return;
	}
	begin_saved();
	fill(HOME, OLD, SIZE, SOFTGPU_COPY_START);
	partition(0, VF_MIB, 512);
	CU_ASSERT_FATAL(ioctl(uffd, UFFDIO_API, &api) == 0 &&
			ioctl(uffd, UFFDIO_REGISTER, &page) == 0);
	pthread_create(&writer, NULL, write_page, never);
	CU_ASSERT_EQUAL(read(uffd, &fault, sizeof(fault)), sizeof(fault)); /* it has the lock */
	begin_fill(OLD, HOME, SIZE, SOFTGPU_COPY_START);
	CU_ASSERT(await(is_filled, NULL));
	close(uffd);
	pthread_join(writer, NULL);
	partition(0, VF_MIB, 64);
	expect_whole();
	end_saved();
	munmap(never, PAGE);
}

/* A worker that answers in time each time, and late in all, keeps the engine that copies from
 * others. */
TEST(dawdles, "memory: a worker that answers late in all costs its VF a reset")
{
	const struct timespec pause = {.tv_sec = 3};
	vgpu_nsec began;
	pid_t pid;

	begin_saved();
	pid = worker_of(0);
	during_copy = stop_worker;
	atomic_store(&copies_left, 20);
	begin_fill(HOME, OLD, SIZE, SOFTGPU_COPY_START);
	CU_ASSERT(await(is_stopping, NULL));
	nanosleep(&pause, NULL);
	CU_ASSERT_FALSE(needs_reset(NULL));
	atomic_store(&copies_left, 20);
	kill(pid, SIGCONT);
	CU_ASSERT(await(is_stopping, NULL));
	began = vgpu_now();
	CU_ASSERT(await(is_filled, NULL));
	CU_ASSERT(vgpu_now() - began < 4 * VGPU_SEC); /* not the 5 s of one answer */
	during_copy = NULL;
	expect_new();
	end_saved();
}

/* The GPU clears memory. Pages that a former user still has mapped are not those of the next
 * user. */
TEST(forgetting, "memory: cleared, and out of reach of a former user")
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
TEST(faults, "faults have their effect until a reset")
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

TEST(option_texts, "options: latencies and faults")
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
TEST(sha256_against_another, "SHA-256 against sha256sum")
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
TEST(sha256_vectors, "SHA-256 test vectors")
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
TEST(bricked, "a GPU that does not survive its reset reads as all ones")
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

TEST(gpu_reset, "a reset of the whole GPU clears it")
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
TEST(no_threads, "a thread that cannot be created leaves nothing behind")
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
TEST(stuck_process, "a process that does not end is reported")
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

int main(int argc, char **argv)
{
	const struct test *const tables[] = {register_tests, NULL};

	return suite_main("softgpu device", tables, argc, argv);
}
