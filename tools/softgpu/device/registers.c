/* SPDX-License-Identifier: MIT */
/*
 * The PF's registers. A read computes the value from the device's state, a write takes effect at
 * once. The layout tells where each register lies.
 */
#include <string.h>

#include "gpu.h"
#include "link.h"
#include "workers.h"

void raise_pf(struct softgpu *gpu, uint32_t vector, uint32_t bits)
{
	bool has_status = gpu->layout->at[GPUIOV_INTR_STATUS].space != GPUIOV_NOWHERE;

	if (vector == GPUIOV_VECTOR_ENGINE && has_status) {
		gpu->intr_status |= bits;
		/* The command itself, not INTR_ENABLE, decides whether its completion interrupts.
		 */
		if (!(bits & (gpu->intr_enable | GPUIOV_INTR_CMD_COMPLETE)))
			return;
	}
	if (vector == GPUIOV_VECTOR_ENGINE && !has_status && !(bits & GPUIOV_INTR_CMD_COMPLETE))
		return; /* the older layout has only the interrupt for completions */
	if (fault_happens(gpu, SOFTGPU_FAULT_LOSE_IRQ, -1, -1))
		return;
	gpu->irqs_pf |= 1u << vector;
}

static bool vm_bit(const struct vf *vf, enum gpuiov_register reg)
{
	switch (reg) {
	case GPUIOV_VM_BUSY:
		return vf->busy;
	case GPUIOV_VM_INIT:
		return vf->state != CONTEXT_NONE;
	case GPUIOV_IH_PENDING:
		return vf->to_pf.valid && !vf->to_pf.acked;
	default: /* VF_RESET_REQ */
		return vf->reset_waits || vf->reset_at != VGPU_NEVER;
	}
}

/* Returns a register with one bit for each VF. */
static uint32_t vm_bitmap(const struct softgpu *gpu, enum gpuiov_register reg)
{
	uint32_t i, bits = 0;

	for (i = 0; i < gpu->enabled; i++) {
		const struct vf *vf = &gpu->vfs[i];

		bits |= (uint32_t)vm_bit(vf, reg) << i;
	}
	return bits;
}

uint32_t registers_busy(const struct softgpu *gpu)
{
	return vm_bitmap(gpu, GPUIOV_VM_BUSY);
}

static uint32_t mailbox_control(const struct channel *out, const struct channel *in)
{
	return (out->valid ? GPUIOV_MBOX_TRN_VALID : 0) | (out->acked ? GPUIOV_MBOX_TRN_ACK : 0) |
	       (in->valid && !in->acked ? GPUIOV_MBOX_RCV_VALID : 0) |
	       (in->acked ? GPUIOV_MBOX_RCV_ACK : 0);
}

static void mailbox_write(struct channel *out, struct channel *in, uint32_t value)
{
	if (!(value & GPUIOV_MBOX_TRN_VALID)) {
		out->valid = false;
		out->acked = false;
	} else {
		out->valid = true;
	}
	/* The VF may have replaced a message that the PF has read by one that it has not. */
	if (value & GPUIOV_MBOX_RCV_ACK && in->valid && in->seen)
		in->acked = true;
}

static struct vf *mailbox_vf(struct softgpu *gpu)
{
	return gpu->mbox_index < gpu->enabled ? &gpu->vfs[gpu->mbox_index] : NULL;
}

/* Writes MBOX_CONTROL, and tells the VF's process of messages and acknowledgements. */
static void pf_mailbox_control(struct softgpu *gpu, uint32_t value)
{
	struct vf *vf = mailbox_vf(gpu);
	bool was_valid;

	if (!vf)
		return;
	was_valid = vf->to_vf.valid;
	mailbox_write(&vf->to_vf, &vf->to_pf, value);
	if (vf->to_vf.valid != was_valid)
		link_message(vf->link);
	if (vf->to_pf.acked)
		link_acknowledge(vf->link);
}

void registers_take_message(struct softgpu *gpu, int index, bool valid, const uint32_t words[4])
{
	struct channel *c = &gpu->vfs[index].to_pf;

	c->valid = valid;
	c->acked = false;
	c->seen = false;
	if (!valid)
		return;
	memcpy(c->words, words, sizeof(c->words));
	firmware_wake(gpu);
	if (gpu->mbox_int & GPUIOV_MBOX_INT_VALID)
		raise_pf(gpu, GPUIOV_VECTOR_MAILBOX, 0);
}

void registers_take_acknowledgement(struct softgpu *gpu, int index)
{
	struct channel *c = &gpu->vfs[index].to_vf;

	if (!c->valid || c->acked)
		return;
	c->acked = true;
	if (gpu->mbox_int & GPUIOV_MBOX_INT_ACK)
		raise_pf(gpu, GPUIOV_VECTOR_MAILBOX, 0);
}

/* Returns DW1 or DW2: two bits for each VF; the odd one is set while a message of its scheduler
 * waits. */
static uint32_t hvvm_pairs(const struct softgpu *gpu, uint32_t first)
{
	uint32_t i, bits = 0;

	for (i = 0; i < 16; i++)
		if (first + i < SOFTGPU_MAX_VFS && gpu->hvvm_waits >> (first + i) & 1)
			bits |= 2u << 2 * i;
	return bits;
}

/* Reads a register of the layout. PART: which dword of a register that has several. */
static uint32_t reg_read(struct softgpu *gpu, enum gpuiov_register reg, uint32_t part)
{
	struct vf *vf = mailbox_vf(gpu);

	switch (reg) {
	case GPUIOV_INTR_ENABLE:
		return gpu->intr_enable;
	case GPUIOV_INTR_STATUS:
		return gpu->intr_status;
	case GPUIOV_HVVM_DW0:
		return gpu->hvvm_vf |
		       (gpu->hvvm_waits >> (gpu->hvvm_vf & 31) & 1 ? GPUIOV_HVVM_CTX_EMPTY << 16
								   : 0);
	case GPUIOV_HVVM_DW1:
		return hvvm_pairs(gpu, 0);
	case GPUIOV_HVVM_DW2:
		return hvvm_pairs(gpu, 16);
	case GPUIOV_CONTEXT:
		return gpu->context_reg | 1; /* size: one unit for each VF */
	case GPUIOV_FB_AVAILABLE:
		return (uint32_t)(gpu->config.vram >> 20);
	case GPUIOV_CMD:
		return gpu->cmd_dword;
	case GPUIOV_CMD_STATUS:
		return gpu->firmware.scheduler ? gpu->firmware.answer : gpu->status;
	case GPUIOV_VM_BUSY:
	case GPUIOV_VM_INIT:
	case GPUIOV_IH_PENDING:
	case GPUIOV_VF_RESET_REQ:
		return vm_bitmap(gpu, reg);
	case GPUIOV_FEATURES:
		return SOFTGPU_COUNTS | SOFTGPU_EXPELS |
		       (gpu->firmware.scheduler ? SOFTGPU_SCHEDULES
						: SOFTGPU_TAKES_CHAINS | SOFTGPU_SHOWS);
	case GPUIOV_ACTIVE_FCN:
		return (gpu->active < 0 ? GPUIOV_FCN_PF : GPUIOV_FCN_VF((uint32_t)gpu->active)) |
		       gpu->active_status << 8;
	case GPUIOV_RESET_CONTROL:
		return gpu->gpu_reset_at != VGPU_NEVER || gpu->vfs_changing ? GPUIOV_RESET_PF : 0;
	case GPUIOV_RESET_NOTIFICATION:
		return gpu->reset_notification;
	case GPUIOV_GATE_REGISTERS:
	case GPUIOV_GATE_DOORBELL:
	case GPUIOV_GATE_MEMORY:
		return gpu->gates[reg - GPUIOV_GATE_REGISTERS];
	case GPUIOV_MBOX_INDEX:
		return gpu->mbox_index;
	case GPUIOV_MBOX_TRN:
		return vf ? vf->to_vf.words[part] : 0;
	case GPUIOV_MBOX_RCV:
		if (vf)
			vf->to_pf.seen = true;
		return vf ? vf->to_pf.words[part] : 0;
	case GPUIOV_MBOX_CONTROL:
		return vf ? mailbox_control(&vf->to_vf, &vf->to_pf) : 0;
	case GPUIOV_MBOX_INT:
		return gpu->mbox_int;
	case GPUIOV_FB_TABLE:
	case GPUIOV_FB_CONSUMED: /* their bytes are in the configuration space */
	case GPUIOV_REGISTERS:
		break;
	}
	return 0;
}

static void reg_write(struct softgpu *gpu, enum gpuiov_register reg, uint32_t part, uint32_t value)
{
	struct vf *vf = mailbox_vf(gpu);
	uint32_t i;

	switch (reg) {
	case GPUIOV_INTR_ENABLE:
		gpu->intr_enable = value;
		break;
	case GPUIOV_INTR_STATUS:
		gpu->intr_status &= ~value;
		break;
	case GPUIOV_HVVM_DW0:
		gpu->hvvm_vf = value & GPUIOV_HVVM_VF;
		if (value & GPUIOV_HVVM_RCV_ACK && gpu->hvvm_vf < SOFTGPU_MAX_VFS)
			gpu->hvvm_waits &= ~(1u << gpu->hvvm_vf);
		break;
	case GPUIOV_CONTEXT:
		gpu->context_reg = value & ~0x3ffu;
		break;
	case GPUIOV_CMD:
		command_write(gpu, value);
		break;
	case GPUIOV_RESET_CONTROL:
		if (value & GPUIOV_RESET_PF)
			command_gpu_reset(gpu);
		break;
	case GPUIOV_RESET_NOTIFICATION:
		gpu->reset_notification &= ~value;
		break;
	case GPUIOV_VF_RESET_REQ:
		for (i = 0; i < gpu->enabled; i++)
			if (value >> i & 1 && gpu->firmware.scheduler)
				firmware_reset(gpu, (int)i);
			else if (value >> i & 1)
				command_reset_by_pf(gpu, (int)i);
		break;
	case GPUIOV_GATE_REGISTERS:
	case GPUIOV_GATE_DOORBELL:
	case GPUIOV_GATE_MEMORY:
		if (gpu->firmware.scheduler)
			break; /* it keeps the gates */
		gpu->gates[reg - GPUIOV_GATE_REGISTERS] = value;
		link_gates(gpu);
		break;
	case GPUIOV_MBOX_INDEX:
		gpu->mbox_index = value & 0x1f;
		break;
	case GPUIOV_MBOX_TRN:
		if (!vf)
			break;
		vf->to_vf.words[part] = value;
		link_words(vf->link);
		break;
	case GPUIOV_MBOX_CONTROL:
		if (!gpu->firmware.scheduler) /* it reads the messages */
			pf_mailbox_control(gpu, value);
		break;
	case GPUIOV_MBOX_INT:
		gpu->mbox_int = value & 3;
		break;
	default: /* read-only */
		break;
	}
}

/* Returns the bytes of a register in configuration space. */
static uint32_t width(enum gpuiov_register reg)
{
	switch (reg) {
	case GPUIOV_FB_AVAILABLE:
		return 2;
	case GPUIOV_CMD_STATUS:
	case GPUIOV_RESET_CONTROL:
		return 1;
	default:
		return 4;
	}
}

static bool is_multiple(enum gpuiov_register reg)
{
	return reg == GPUIOV_MBOX_TRN || reg == GPUIOV_MBOX_RCV;
}

/* Returns the offset of a register in configuration space; 0: it is not there. */
static uint32_t config_place(const struct softgpu *gpu, enum gpuiov_register reg)
{
	const struct gpuiov_location *at = &gpu->layout->at[reg];

	if (reg == GPUIOV_FB_TABLE || reg == GPUIOV_FB_CONSUMED)
		return 0;
	if (at->space == GPUIOV_CAP)
		return gpu->cap + at->offset;
	if (at->space == GPUIOV_BLOCK)
		return gpu->block + at->offset;
	return 0;
}

void registers_config_read(struct softgpu *gpu, uint32_t offset, void *data, uint32_t size)
{
	uint32_t reg, at, value;

	for (reg = 0; reg < GPUIOV_REGISTERS; reg++) {
		at = config_place(gpu, (enum gpuiov_register)reg);
		if (at == 0 || at >= offset + size || at + 4 <= offset)
			continue;
		value = reg_read(gpu, (enum gpuiov_register)reg, 0);
		memcpy(gpu->pf.bytes + at, &value, width((enum gpuiov_register)reg));
	}
	pci_read(&gpu->pf, offset, data, size);
}

/* Applies the entries of the memory table that were written, from the bytes of the configuration
 * space. Only whole dwords count. */
static void fb_table_written(struct softgpu *gpu, uint32_t offset, uint32_t size)
{
	uint32_t table = gpu->cap + gpu->layout->at[GPUIOV_FB_TABLE].offset, i, at, entry;
	uint64_t fb_size;

	for (i = 0; i < gpu->config.n_vfs; i++) {
		at = table + 4 * i;
		if (at < offset || at + 4 > offset + size)
			continue;
		memcpy(&entry, gpu->pf.bytes + at, 4);
		fb_size = entry & 0xffff;
		if (entry)
			fb_size += gpu->layout->fb_size_bias;
		/* An entry that is not accepted reads back unchanged. */
		if (memory_set_partition(gpu, (int)i, (uint64_t)(entry >> 16) * GPUIOV_FB_UNIT,
					 fb_size * GPUIOV_FB_UNIT))
			gpu->fb_entries[i] = entry;
		else
			memcpy(gpu->pf.bytes + at, &gpu->fb_entries[i], 4);
	}
}

static void sriov_written(struct softgpu *gpu)
{
	uint16_t ctrl, n;

	memcpy(&ctrl, gpu->pf.bytes + gpu->sriov + SRIOV_CTRL, 2);
	memcpy(&n, gpu->pf.bytes + gpu->sriov + SRIOV_NUM_VFS, 2);
	if (n > gpu->config.n_vfs)
		n = (uint16_t)gpu->config.n_vfs;
	command_vfs_enabled(gpu, ctrl & SRIOV_CTRL_VF_ENABLE ? n : 0);
}

void registers_config_write(struct softgpu *gpu, uint32_t offset, const void *data, uint32_t size)
{
	uint32_t table = gpu->cap + gpu->layout->at[GPUIOV_FB_TABLE].offset;
	uint32_t reg, at, bytes, value;

	/* NumVFs cannot be changed while VFs are enabled; the specification demands this. */
	if (gpu->enabled && offset < gpu->sriov + SRIOV_NUM_VFS + 2 &&
	    offset + size > gpu->sriov + SRIOV_NUM_VFS)
		return;
	if (offset + size > table && offset < table + 4 * gpu->config.n_vfs && size < 4)
		return;
	pci_write(&gpu->pf, offset, data, size);
	for (reg = 0; reg < GPUIOV_REGISTERS; reg++) {
		at = config_place(gpu, (enum gpuiov_register)reg);
		bytes = width((enum gpuiov_register)reg);
		if (at == 0 || at < offset || at + bytes > offset + size)
			continue;
		value = 0;
		memcpy(&value, (const uint8_t *)data + (at - offset), bytes);
		reg_write(gpu, (enum gpuiov_register)reg, 0, value);
	}
	fb_table_written(gpu, offset, size);
	if (offset < gpu->sriov + SRIOV_NUM_VFS + 2 && offset + size > gpu->sriov + SRIOV_CTRL)
		sriov_written(gpu);
}

/* Returns the register of the layout at a BAR 5 offset, and which of its dwords; GPUIOV_REGISTERS:
 * none. */
static enum gpuiov_register mmio_register(const struct softgpu *gpu, uint32_t offset,
					  uint32_t *part)
{
	uint32_t reg;

	for (reg = 0; reg < GPUIOV_REGISTERS; reg++) {
		const struct gpuiov_location *at = &gpu->layout->at[reg];
		uint32_t dwords = is_multiple((enum gpuiov_register)reg) ? 4 : 1;

		if (at->space == GPUIOV_MMIO && offset >= at->offset &&
		    offset < at->offset + 4 * dwords) {
			*part = (offset - at->offset) / 4;
			return (enum gpuiov_register)reg;
		}
	}
	return GPUIOV_REGISTERS;
}

static uint32_t half(uint64_t value, uint32_t offset)
{
	return (uint32_t)(offset & 4 ? value >> 32 : value);
}

static void set_half(uint64_t *value, uint32_t offset, uint32_t half_value)
{
	uint64_t keep = offset & 4 ? 0xffffffffu : ~UINT64_C(0xffffffff);

	*value = (*value & keep) | (uint64_t)half_value << (offset & 4 ? 32 : 0);
}

/* softgpu's own 64-bit registers; NULL: OFFSET is none of them. */
static uint64_t *wide_register(struct softgpu *gpu, uint32_t offset)
{
	switch (offset & ~4u) {
	case SOFTGPU_FILL_OFFSET:
		return &gpu->fill_offset;
	case SOFTGPU_FILL_SIZE:
		return &gpu->fill_size;
	case SOFTGPU_COPY_FROM:
		return &gpu->copy_from;
	case SOFTGPU_HOST_BASE:
		return &gpu->host_base;
	case SOFTGPU_HOST_SIZE:
		return &gpu->host_size;
	default:
		return NULL;
	}
}

/* A register of chains that is a word of memory; NULL: OFFSET is none, or this layout has none. */
static uint32_t *chain_register(struct softgpu *gpu, uint32_t offset)
{
	uint32_t i;

	if (gpu->layout->at[GPUIOV_FEATURES].space == GPUIOV_NOWHERE)
		return NULL;
	for (i = 0; i < SOFTGPU_CHAIN_LENGTH; i++) {
		if (offset == SOFTGPU_CHAIN + 4 * i)
			return &gpu->chain.dwords[i];
		if (offset == SOFTGPU_CHAIN_TOOK + 4 * i)
			return &gpu->chain.took[i];
	}
	return NULL;
}

uint32_t registers_mmio_read(struct softgpu *gpu, uint32_t offset)
{
	uint32_t part;
	enum gpuiov_register reg = mmio_register(gpu, offset, &part);
	const uint64_t *wide = wide_register(gpu, offset);
	const uint32_t *word;

	if (reg != GPUIOV_REGISTERS)
		return reg_read(gpu, reg, part);
	word = chain_register(gpu, offset);
	if (word)
		return *word;
	if (wide)
		return half(*wide, offset);
	switch (offset) {
	case SOFTGPU_ID:
		return SOFTGPU_ID_VALUE;
	case SOFTGPU_FILL_CTRL:
		return gpu->fill_status;
	case SOFTGPU_HANG_INFO:
		return gpu->hang_info;
	case SOFTGPU_CHAIN_STATUS:
		return command_chain_status(gpu);
	case SOFTGPU_FB_OVERLAP:
		return memory_overlaps(gpu);
	case SOFTGPU_DROPPED_CMDS:
		return gpu->dropped;
	case SOFTGPU_GATE_DROPS:
		return gpu->gate_drops;
	case SOFTGPU_VIOLATORS:
		return gpu->violators;
	case SOFTGPU_VIOLATIONS:
		return gpu->violations;
	case SOFTGPU_PREEMPT_LEVEL:
		return gpu->workers ? workers_tested(gpu)->level : SOFTGPU_PREEMPT_TILE;
	case SOFTGPU_PREEMPT_TYPICAL:
		return gpu->workers ? (uint32_t)workers_tested(gpu)->typical : 0;
	case SOFTGPU_PREEMPT_LONGEST:
		return gpu->workers ? (uint32_t)workers_tested(gpu)->longest : 0;
	case SOFTGPU_PREEMPT_LEAK:
		return gpu->workers ? workers_tested(gpu)->leak : 0;
	default:
		return offset >= SOFTGPU_SPENT ? spent_read(gpu, offset)
					       : firmware_read(gpu, offset);
	}
}

void registers_mmio_write(struct softgpu *gpu, uint32_t offset, uint32_t value)
{
	uint32_t part;
	enum gpuiov_register reg = mmio_register(gpu, offset, &part);
	uint64_t *wide = wide_register(gpu, offset);
	uint32_t *word;

	if (reg != GPUIOV_REGISTERS) {
		reg_write(gpu, reg, part, value);
		return;
	}
	if (offset == SOFTGPU_VIOLATORS)
		gpu->violators &= ~value;
	if (offset == SOFTGPU_EXPEL)
		links_expel(gpu, value);
	firmware_write(gpu, offset, value);
	word = chain_register(gpu, offset);
	if (word && offset < SOFTGPU_CHAIN_GO && !gpu->chain.active)
		*word = value;
	if (offset == SOFTGPU_CHAIN_GO && chain_register(gpu, SOFTGPU_CHAIN))
		command_chain(gpu, value);
	/* The registers of a clear or copy in progress cannot be changed; the aperture can. */
	if (gpu->fill_status & SOFTGPU_FILL_BUSY && wide != &gpu->host_base &&
	    wide != &gpu->host_size)
		return;
	if (wide) {
		set_half(wide, offset, value);
	} else if (offset == SOFTGPU_FILL_CTRL &&
		   value & (SOFTGPU_FILL_START | SOFTGPU_COPY_START)) {
		gpu->fill_status = SOFTGPU_FILL_BUSY;
		gpu->fill_copies = value & SOFTGPU_COPY_START;
		pthread_cond_signal(&gpu->filler_cond);
	}
}
