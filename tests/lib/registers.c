/* SPDX-License-Identifier: MIT */
/* Tests of registers and commands in all layouts, on any bus. */
#include <stdlib.h>
#include <time.h>

#include "bus.h"
#include "vgpu/clock.h"

#define LAYOUTS 3
static const char *const names[LAYOUTS] = {"navi", "tonga", "soft"};

static void identity(void)
{
	uint8_t pf[4096], vf[4096];
	uint16_t at;
	uint32_t i;

	for (i = 0; i < LAYOUTS; i++) {
		begin(names[i]);
		bus->read(SOFTGPU_PF, VFIO_REGION_CONFIG, 0, pf, sizeof(pf));
		bus->read(2, VFIO_REGION_CONFIG, 0, vf, sizeof(vf));
		CU_ASSERT(pf[0x0a] == 0x80 && pf[0x0b] == 0x03);
		CU_ASSERT(vf[0x0a] == 0x80 && vf[0x0b] == 0x03);
		CU_ASSERT_EQUAL(sriov, 0x330);
		CU_ASSERT_EQUAL(cap, 0x400);
		at = 0;
		CU_ASSERT_FALSE(vfio_find_ext_cap(vf, PCI_EXT_CAP_SRIOV, &at));
		CU_ASSERT_EQUAL(get_own(SOFTGPU_ID), SOFTGPU_ID_VALUE);
		end();
	}
}

/* Each command in each state: legal ones are taken, all others are aborted. */
static void command_order(void)
{
	static const uint8_t codes[] = {GPUIOV_CMD_IDLE, GPUIOV_CMD_SAVE, GPUIOV_CMD_LOAD,
					GPUIOV_CMD_RUN,	 GPUIOV_CMD_INIT, GPUIOV_CMD_SHUTDOWN};
	/* States: 0 none, 1 loaded, 2 running, 3 idled, 4 saved. Each entry is the state that the
	 * command leads to; 9: aborted. */
	static const uint8_t next[5][6] = {
		{9, 9, 9, 9, 1, 9}, {9, 9, 9, 2, 9, 9}, {3, 9, 9, 9, 9, 9},
		{9, 4, 9, 9, 9, 9}, {9, 9, 1, 9, 9, 0},
	};
	uint32_t l, i, c, state;

	for (l = 0; l < LAYOUTS; l++) {
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

/* A command starts only by a write of a whole dword with EXECUTE set. */
static void command_protocol(void)
{
	uint32_t region, offset;
	uint8_t byte = GPUIOV_CMD_INIT | GPUIOV_CMD_EXECUTE;

	begin("navi");
	offset = where(GPUIOV_CMD, &region);
	set(GPUIOV_CMD, GPUIOV_CMD_INIT | GPUIOV_FCN_VF(0) << 8);
	bus->write(SOFTGPU_PF, region, offset, &byte, 1);
	CU_ASSERT_EQUAL(get(GPUIOV_VM_INIT), 0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_INIT, 0), 0);
	CU_ASSERT_EQUAL(get(GPUIOV_VM_INIT), 1);
	CU_ASSERT_EQUAL(get(GPUIOV_ACTIVE_FCN) & 0xff, 0x80);
	end();
}

/* Writes N commands for their VFs as a chain, waits for its end and returns its status. */
static uint32_t chain(uint32_t n, const uint32_t (*of)[2])
{
	uint32_t words[SOFTGPU_CHAIN_LENGTH + 1] = {0}, i, status;

	for (i = 0; i < n && i < SOFTGPU_CHAIN_LENGTH; i++)
		words[i] = of[i][0] | GPUIOV_CMD_EXECUTE | GPUIOV_FCN_VF(of[i][1]) << 8;
	words[SOFTGPU_CHAIN_LENGTH] = n;
	bus->write(SOFTGPU_PF, VFIO_REGION_BAR5, SOFTGPU_CHAIN, words, sizeof(words));
	do
		status = get_own(SOFTGPU_CHAIN_STATUS);
	while (status & SOFTGPU_CHAIN_ACTIVE);
	return status;
}

/* Commands of a chain are done in order, up to the first that fails. */
static void chains(void)
{
	static const uint32_t first[][2] = {{GPUIOV_CMD_INIT, 0}, {GPUIOV_CMD_RUN, 0}};
	static const uint32_t over[][2] = {{GPUIOV_CMD_SAVE, 0},
					   {GPUIOV_CMD_INIT, 1},
					   {GPUIOV_CMD_RUN, 1}};
	static const uint32_t wrong[][2] = {{GPUIOV_CMD_IDLE, 1},
					    {GPUIOV_CMD_LOAD, 0},
					    {GPUIOV_CMD_SAVE, 1}};
	uint64_t took = 0;
	uint32_t status, i;
	vgpu_nsec began;

	begin("soft");
	CU_ASSERT_EQUAL(get(GPUIOV_FEATURES) & SOFTGPU_TAKES_CHAINS, SOFTGPU_TAKES_CHAINS);
	CU_ASSERT_EQUAL(chain(2, first), 2);
	CU_ASSERT_EQUAL(get(GPUIOV_ACTIVE_FCN), 0x80 | GPUIOV_ACTIVE_RUNNING << 8);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 0), 0);
	began = vgpu_now();
	CU_ASSERT_EQUAL(chain(3, over), 3);
	CU_ASSERT_EQUAL(get(GPUIOV_ACTIVE_FCN), 0x81 | GPUIOV_ACTIVE_RUNNING << 8);
	for (i = 0; i < 3; i++)
		took += get_own(SOFTGPU_CHAIN_TOOK + 4 * i);
	CU_ASSERT(took > 0 && took <= vgpu_now() - began);
	/* VF 0 is not loaded while VF 1 is on the engine, and VF 1 not saved after that. */
	status = chain(3, wrong);
	CU_ASSERT_EQUAL(SOFTGPU_CHAIN_DONE(status), 1);
	CU_ASSERT_EQUAL(SOFTGPU_CHAIN_CODE(status), GPUIOV_STATUS_ABORTED);
	CU_ASSERT_EQUAL(get(GPUIOV_ACTIVE_FCN), 0x81 | GPUIOV_ACTIVE_IDLE << 8);
	/* None, and more than there is room for, are no chain. */
	CU_ASSERT_EQUAL(chain(0, first), status);
	CU_ASSERT_EQUAL(chain(SOFTGPU_CHAIN_LENGTH + 1, over), status);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_SAVE, 1), 0);
	end();
	begin("navi");
	CU_ASSERT_EQUAL(chain(2, first), 0);
	CU_ASSERT_EQUAL(get(GPUIOV_VM_INIT), 0);
	end();
}

static uint32_t shown(enum softgpu_shows word)
{
	uint32_t value;

	bus->read(SOFTGPU_PF, VFIO_REGION_BAR2, 4 * word, &value, sizeof(value));
	return value;
}

/* The status page shows what the registers do, and counts commands and chains. */
static void status_page(void)
{
	static const uint32_t first[][2] = {{GPUIOV_CMD_INIT, 3}, {GPUIOV_CMD_RUN, 3}};
	uint32_t taken;

	begin("soft");
	CU_ASSERT_EQUAL(get(GPUIOV_FEATURES) & SOFTGPU_SHOWS, SOFTGPU_SHOWS);
	taken = shown(SOFTGPU_SHOWS_TAKEN);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_RUN, 3), GPUIOV_STATUS_ABORTED);
	CU_ASSERT_EQUAL(shown(SOFTGPU_SHOWS_TAKEN), taken + 1);
	CU_ASSERT_EQUAL(shown(SOFTGPU_SHOWS_STATUS), GPUIOV_STATUS_ABORTED);
	CU_ASSERT_EQUAL(chain(2, first), shown(SOFTGPU_SHOWS_CHAIN));
	CU_ASSERT_EQUAL(shown(SOFTGPU_SHOWS_TAKEN), taken + 2);
	CU_ASSERT_EQUAL(shown(SOFTGPU_SHOWS_STATUS), GPUIOV_STATUS_DONE);
	CU_ASSERT_EQUAL(shown(SOFTGPU_SHOWS_TOOK), get_own(SOFTGPU_CHAIN_TOOK));
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_IDLE, 3), 0);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_SAVE, 3), 0);
	bring_up(2);
	put(2, (struct softgpu_packet){.opcode = SOFTGPU_SPIN, .arg = {100}});
	ring(2);
	CU_ASSERT_EQUAL(get(GPUIOV_VM_BUSY), 4);
	CU_ASSERT_EQUAL(shown(SOFTGPU_SHOWS_BUSY), 4);
	CU_ASSERT_EQUAL(shown(SOFTGPU_SHOWS_SEQUENCE) % 2, 0);
	end();
}

static float number(uint32_t i)
{
	return (float)(i * 2654435761u % 1999) / 999.0f - 1.0f;
}

/* Submits one job of each kind; then the VF's whole memory is hashed. */
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
		bus->write((int)vf, VFIO_REGION_BAR0, base + i * sizeof(values), values,
			   sizeof(values));
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
					.arg = {base + 8 * MIB, CLIENT_IOVA, 50001}});
	put(vf, (struct softgpu_packet){.opcode = SOFTGPU_SHA256,
					.arg = {base + 9 * MIB, base, 8 * MIB + 7}});
	put(vf, (struct softgpu_packet){.opcode = SOFTGPU_DMA_OUT,
					.arg = {base + 9 * MIB, CLIENT_IOVA + 60000, 32}});
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
	bus->read(0, 0, 10 * MIB, digest, 32);
	CU_ASSERT_EQUAL(memcmp(client_memory + 60000, digest, 32), 0);
}

/* Two VFs take turns of random, mostly tiny, length; each computes what one VF computes alone. */
static void preempted_results(void)
{
	uint8_t alone[32], digest[32];
	uint32_t l, i, vf, turns;
	struct timespec pause;
	struct fence f[2] = {{0, 7}, {1, 7}};

	for (i = 0; i < CLIENT_SIZE; i++)
		client_memory[i] = (uint8_t)(i * 13);
	begin("navi");
	undisturbed(alone);
	end();
	for (l = 0; l < LAYOUTS; l++) {
		begin(names[l]);
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
			bus->read((int)vf, VFIO_REGION_BAR0, 10 * MIB, digest, 32);
			CU_ASSERT_EQUAL(memcmp(alone, digest, 32), 0);
		}
		end();
	}
}

/* The save area holds a VF's context only while the VF is saved. The device checks the context on
 * LOAD. */
static void damaged_context(void)
{
	uint8_t byte;

	begin("navi");
	bring_up(0);
	command(GPUIOV_CMD_RUN, 0);
	command(GPUIOV_CMD_IDLE, 0);
	command(GPUIOV_CMD_SAVE, 0);
	bus->read(SOFTGPU_PF, 0, MIB + 40, &byte, 1);
	byte ^= 4;
	bus->write(SOFTGPU_PF, 0, MIB + 40, &byte, 1);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_LOAD, 0), GPUIOV_STATUS_ABORTED);
	byte ^= 4;
	bus->write(SOFTGPU_PF, 0, MIB + 40, &byte, 1);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_LOAD, 0), 0);
	end();
}

/* A closed gate stops accesses to registers, doorbell or memory; the device counts each of them. */
static void gates(void)
{
	uint32_t value = 0, drops;
	uint64_t one = 1;

	begin("navi");
	bus->read(0, 0, 0, &value, 4);
	CU_ASSERT_EQUAL(value, UINT32_MAX);
	CU_ASSERT_EQUAL(command(GPUIOV_CMD_INIT, 0), 0);
	vf_write64(0, SOFTGPU_RING_SIZE, 64);
	CU_ASSERT_EQUAL(vf_read32(0, SOFTGPU_RING_SIZE), 0);
	bus->write(0, 2, 0, &one, 8);
	CU_ASSERT_EQUAL(get(GPUIOV_VM_BUSY), 0);
	bus->read(SOFTGPU_PF, 5, SOFTGPU_GATE_DROPS, &drops, 4);
	CU_ASSERT(drops >= 4);
	set(GPUIOV_GATE_MEMORY, 1);
	set(GPUIOV_GATE_REGISTERS, 1);
	set(GPUIOV_GATE_DOORBELL, 1);
	bus->read(0, 0, 0, &value, 4);
	CU_ASSERT_EQUAL(value, 0);
	vf_write64(0, SOFTGPU_RING_SIZE, 64);
	CU_ASSERT_EQUAL(vf_read32(0, SOFTGPU_RING_SIZE), 64);
	bus->write(0, 2, 0, &one, 8);
	CU_ASSERT_EQUAL(get(GPUIOV_VM_BUSY), 1);
	end();
}

/* Messages travel both ways; one that is not yet acknowledged is not overwritten. */
static void mailbox(void)
{
	uint32_t l, trn, rcv, control, region, value;

	for (l = 0; l < LAYOUTS; l++) {
		begin(names[l]);
		trn = where(GPUIOV_MBOX_TRN, &region);
		rcv = where(GPUIOV_MBOX_RCV, &region);
		control = where(GPUIOV_MBOX_CONTROL, &region);
		value = 1;
		bus->write(2, 5, trn, &value, 4);
		bus->write(2, 5, control, &value, 4);
		value = 9;
		bus->write(2, 5, trn, &value, 4);
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

/* An acknowledgement is for the message that was read, not for one that has replaced it since. */
static void mailbox_unread(void)
{
	uint32_t l, trn, rcv, control, region, value;

	for (l = 0; l < LAYOUTS; l++) {
		begin(names[l]);
		trn = where(GPUIOV_MBOX_TRN, &region);
		rcv = where(GPUIOV_MBOX_RCV, &region);
		control = where(GPUIOV_MBOX_CONTROL, &region);
		set(GPUIOV_MBOX_INDEX, 2);
		for (value = 1; value <= 2; value++) {
			const uint32_t none = 0, valid = GPUIOV_MBOX_TRN_VALID;

			bus->write(2, 5, control, &none, 4);
			bus->write(2, 5, trn, &value, 4);
			bus->write(2, 5, control, &valid, 4);
			if (value == 1)
				CU_ASSERT_EQUAL(get(GPUIOV_MBOX_RCV), 1);
		}
		set(GPUIOV_MBOX_CONTROL, GPUIOV_MBOX_RCV_ACK);
		CU_ASSERT_EQUAL(get(GPUIOV_IH_PENDING), 4);
		CU_ASSERT_FALSE(vf_read32(2, control) & GPUIOV_MBOX_TRN_ACK);
		CU_ASSERT_EQUAL(get(GPUIOV_MBOX_RCV), 2);
		set(GPUIOV_MBOX_CONTROL, GPUIOV_MBOX_RCV_ACK);
		CU_ASSERT_EQUAL(get(GPUIOV_IH_PENDING), 0);
		CU_ASSERT(vf_read32(2, control) & GPUIOV_MBOX_TRN_ACK);
		for (value = 1; value <= 2; value++) {
			set(GPUIOV_MBOX_CONTROL, 0);
			set(GPUIOV_MBOX_TRN, value);
			set(GPUIOV_MBOX_CONTROL, GPUIOV_MBOX_TRN_VALID);
			if (value == 1)
				CU_ASSERT_EQUAL(vf_read32(2, rcv), 1);
		}
		value = GPUIOV_MBOX_RCV_ACK;
		bus->write(2, 5, control, &value, 4);
		CU_ASSERT_FALSE(get(GPUIOV_MBOX_CONTROL) & GPUIOV_MBOX_TRN_ACK);
		CU_ASSERT(vf_read32(2, control) & GPUIOV_MBOX_RCV_VALID);
		bus->write(2, 5, control, &value, 4);
		CU_ASSERT(get(GPUIOV_MBOX_CONTROL) & GPUIOV_MBOX_TRN_ACK);
		end();
	}
}

/* A word that is not marked as a message can be read, too: so the PF writes the end of a reset. */
static void mailbox_unmarked(void)
{
	uint32_t region;

	begin("navi");
	set(GPUIOV_MBOX_INDEX, 2);
	set(GPUIOV_MBOX_TRN, 5);
	set(GPUIOV_MBOX_CONTROL, GPUIOV_MBOX_TRN_VALID);
	set(GPUIOV_MBOX_CONTROL, 0);
	set(GPUIOV_MBOX_TRN, 6);
	CU_ASSERT_EQUAL(vf_read32(2, where(GPUIOV_MBOX_RCV, &region)), 6);
	CU_ASSERT_FALSE(vf_read32(2, where(GPUIOV_MBOX_CONTROL, &region)) & GPUIOV_MBOX_RCV_VALID);
	end();
}

/* The engine's mailbox and the busy bits report a queue that drains. */
static bool is_drained(void *)
{
	return get(GPUIOV_HVVM_DW1) == 2u << 2 * 3;
}

static void busy_and_empty(void)
{
	begin("navi");
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

const struct test register_tests[] = {
	{"PF and VFs report their identity", identity},
	{"commands are taken only in their legal order", command_order},
	{"a command starts only by a write of a whole dword", command_protocol},
	{"a chain's commands are done in order", chains},
	{"the status page shows what the registers do", status_page},
	{"results are bit-identical, however often work is preempted", preempted_results},
	{"LOAD refuses a damaged context", damaged_context},
	{"closed gates stop and count a VF's accesses", gates},
	{"mailbox messages travel both ways", mailbox},
	{"a mailbox message is not acknowledged unread", mailbox_unread},
	{"a mailbox word without a mark can be read", mailbox_unmarked},
	{"a queue that drains is reported", busy_and_empty},
	{NULL, NULL},
};
