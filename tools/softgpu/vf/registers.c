/* SPDX-License-Identifier: MIT */
/*
 * A VF's registers, as its client sees them. The client may be hostile: its accesses use the time
 * and the lock of this process, for which no other VF and not softgpu waits.
 */
#include <string.h>
#include <unistd.h>

#include "vf.h"
#include "vfio/device.h"
#include "vfio/user_proto.h"
#include "vgpu/clock.h"

/* How long a client's reset waits until the device has taken note of it, milliseconds. Longer than
 * the device makes a VF wait that has caused too much (device/processes/allowance.c), also if 31
 * VFs have; shorter than a process may take to answer after a reset (ANSWER_MS in
 * device/processes/link.c). */
#define RESET_TAKEN_MS 1900

/* Returns whether a gate is open; counts a dropped access if it is not. */
static bool check_gate(struct vf *vf, enum vf_gate gate)
{
	if (atomic_load(&vf->page->gates) >> gate & 1)
		return true;
	atomic_fetch_add(&vf->page->gate_drops, 1);
	vf_note(vf);
	return false;
}

/* Returns the mailbox register at a BAR 5 offset, and which of its dwords; GPUIOV_REGISTERS: none.
 */
static enum gpuiov_register mailbox_register(const struct vf *vf, uint32_t offset, uint32_t *part)
{
	static const enum gpuiov_register own[] = {GPUIOV_MBOX_TRN, GPUIOV_MBOX_RCV,
						   GPUIOV_MBOX_CONTROL, GPUIOV_MBOX_INT};
	uint32_t i, dwords;

	for (i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		const struct gpuiov_location *at = &vf->layout->at[own[i]];

		dwords = i < 2 ? 4 : 1;
		if (at->space == GPUIOV_MMIO && offset >= at->offset &&
		    offset < at->offset + 4 * dwords) {
			*part = (offset - at->offset) / 4;
			return own[i];
		}
	}
	return GPUIOV_REGISTERS;
}

static uint32_t mailbox_control(struct vf *vf)
{
	uint32_t in = atomic_load(&vf->page->to_vf.serial), value = 0;

	vf->to_vf_read = in;
	if (vf->to_pf)
		value |= GPUIOV_MBOX_TRN_VALID;
	if (vf->to_pf && atomic_load(&vf->page->to_pf_taken) == vf->to_pf)
		value |= GPUIOV_MBOX_TRN_ACK;
	if (in)
		value |= atomic_load(&vf->page->to_vf_taken) == in ? GPUIOV_MBOX_RCV_ACK
								   : GPUIOV_MBOX_RCV_VALID;
	return value;
}

static void write_mailbox_control(struct vf *vf, uint32_t value)
{
	struct vf_page *page = vf->page;
	uint32_t in = atomic_load(&page->to_vf.serial), i;

	if (!(value & GPUIOV_MBOX_TRN_VALID)) {
		vf->to_pf = 0;
	} else if (!vf->to_pf) {
		for (i = 0; i < 4; i++)
			atomic_store(&page->to_pf.words[i], vf->words[i]);
		vf->to_pf = ++vf->to_pf_last;
	}
	atomic_store(&page->to_pf.serial, vf->to_pf);
	/* The PF may have replaced the message that the client has seen. */
	if (value & GPUIOV_MBOX_RCV_ACK && in && in == vf->to_vf_read)
		atomic_store(&page->to_vf_taken, in);
	vf_notify(vf);
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

/* Reads a register that can be read whether or not the VF has the engine. */
static uint32_t read_fact(struct vf *vf, uint32_t offset)
{
	struct softgpu_about about;
	uint32_t value;

	if ((offset & ~4u) == SOFTGPU_RAN)
		return half(vf->ran + (vf->executing ? vgpu_now() - vf->run_since : 0), offset);
	if ((offset & ~4u) == SOFTGPU_FAULTS)
		return half(vf->faults, offset);
	if (offset >= SOFTGPU_WORDS_AT && offset - SOFTGPU_WORDS_AT < sizeof(vf->last_words)) {
		memcpy(&value, vf->last_words + (offset - SOFTGPU_WORDS_AT), sizeof(value));
		return value;
	}
	if (offset < SOFTGPU_ABOUT_AT || offset - SOFTGPU_ABOUT_AT >= sizeof(about) || !vf->modules)
		return 0;
	about = compute_about(vf->compute);
	memcpy(&value, (uint8_t *)&about + offset - SOFTGPU_ABOUT_AT, sizeof(value));
	return value;
}

static uint32_t read_register(struct vf *vf, uint32_t offset)
{
	bool loaded = vf->loaded && !vf->executing;
	uint32_t part;

	switch (mailbox_register(vf, offset, &part)) {
	case GPUIOV_MBOX_TRN:
		return vf->words[part];
	case GPUIOV_MBOX_RCV:
		vf->to_vf_read = atomic_load(&vf->page->to_vf.serial);
		return atomic_load(&vf->page->to_vf.words[part]);
	case GPUIOV_MBOX_CONTROL:
		return mailbox_control(vf);
	case GPUIOV_MBOX_INT:
		return vf->int_enable;
	default:
		break;
	}
	switch (offset & ~4u) {
	case SOFTGPU_RING_WPTR:
		return half(atomic_load(&vf->wptr), offset);
	case SOFTGPU_MEMORY_SIZE:
		return half(vf->window, offset);
	case SOFTGPU_PARTITION_SIZE:
		return half(vf->size, offset);
	case SOFTGPU_FEATURES:
		return offset == SOFTGPU_FEATURES && vf->modules
			       ? SOFTGPU_HAS_MODULES | SOFTGPU_HAS_SLOTS | SOFTGPU_HAS_ARENA |
					 SOFTGPU_HAS_AWAIT | SOFTGPU_HAS_IMAGES |
					 SOFTGPU_HAS_MANY_MODULES | SOFTGPU_HAS_OUTPUT
			       : 0;
	case SOFTGPU_STATUS:
		return vf->dead ? half(vf->error, offset) : 0;
	case SOFTGPU_ERROR_AT:
		return vf->dead ? half(vf->error_at, offset) : 0;
	/* The others belong to the context: they can be read while it is loaded and not in use. */
	case SOFTGPU_RING_BASE:
		return loaded ? half(vf->live.ring_base, offset) : 0;
	case SOFTGPU_RING_SIZE:
		return loaded ? half(vf->live.ring_size, offset) : 0;
	case SOFTGPU_RING_RPTR:
		return loaded ? half(vf->live.rptr, offset) : 0;
	case SOFTGPU_FENCE_ADDR:
		return loaded ? half(vf->live.fence_addr, offset) : 0;
	default:
		return read_fact(vf, offset);
	}
}

static void write_register(struct vf *vf, uint32_t offset, uint32_t value)
{
	uint32_t part;

	switch (mailbox_register(vf, offset, &part)) {
	case GPUIOV_MBOX_TRN:
		if (!vf->to_pf)
			vf->words[part] = value;
		return;
	case GPUIOV_MBOX_CONTROL:
		write_mailbox_control(vf, value);
		return;
	case GPUIOV_MBOX_INT:
		vf->int_enable = value & 3;
		return;
	default:
		break;
	}
	/* The ring can be set up while the VF has the engine and its ring is empty. */
	if (!check_gate(vf, VF_GATE_REGISTERS) || !vf->loaded || vf->executing ||
	    engine_has_work(vf))
		return;
	switch (offset & ~4u) {
	case SOFTGPU_RING_BASE:
		set_half(&vf->live.ring_base, offset, value);
		break;
	case SOFTGPU_RING_SIZE:
		set_half(&vf->live.ring_size, offset, value);
		break;
	case SOFTGPU_FENCE_ADDR:
		set_half(&vf->live.fence_addr, offset, value);
		break;
	default:
		return;
	}
	engine_put_image(vf);
}

/* Registers are dwords: a narrower read returns a part of one, and a narrower write has no effect.
 */
static void read_registers(struct vf *vf, uint64_t offset, uint8_t *data, uint32_t size)
{
	uint32_t value, part, n;

	while (size > 0) {
		value = read_register(vf, (uint32_t)offset & ~3u);
		part = (uint32_t)offset & 3;
		n = 4 - part < size ? 4 - part : size;
		memcpy(data, (uint8_t *)&value + part, n);
		offset += n;
		size -= n;
		data += n;
	}
}

static void write_registers(struct vf *vf, uint64_t offset, const uint8_t *data, uint32_t size)
{
	uint32_t value;

	if (offset % 4)
		return;
	for (; size >= 4; size -= 4, offset += 4, data += 4) {
		memcpy(&value, data, 4);
		write_register(vf, (uint32_t)offset, value);
	}
}

static void write_doorbell(struct vf *vf, uint64_t offset, uint64_t value)
{
	if (!check_gate(vf, VF_GATE_DOORBELL))
		return;
	if (offset == SOFTGPU_SLOT_DOORBELL) {
		vf->bell += vf->modules ? 1 : 0;
	} else {
		atomic_store(&vf->wptr, value);
	}
	if (vf->compute)
		compute_doorbell(vf->compute, atomic_load(&vf->wptr), vf->bell);
	if (vf->dead)
		return;
	vf->busy |= vf->executing || !vf->loaded || engine_has_work(vf);
	engine_kick(vf);
	if (vf_publish(vf))
		vf_notify(vf);
}

/* Checks that a range lies in the window; counts a violation if it does not. */
static bool check_range(struct vf *vf, uint64_t offset, uint32_t size)
{
	if (offset <= vf->window && size <= vf->window - offset)
		return true;
	atomic_fetch_add(&vf->page->violations, 1);
	vf_notify(vf);
	return false;
}

static void on_read(void *device, uint32_t region, uint64_t offset, void *data, uint32_t count)
{
	struct vf *vf = device;

	memset(data, 0, count);
	pthread_mutex_lock(&vf->lock);
	vf_follow(vf);
	if (atomic_load(&vf->page->dead))
		memset(data, 0xff, count);
	else if (region == VFIO_REGION_CONFIG)
		pci_read(&vf->pci, (uint32_t)offset, data, count);
	else if (region == VFIO_REGION_BAR5)
		read_registers(vf, offset, data, count);
	else if (region == VFIO_REGION_BAR0 &&
		 (!check_gate(vf, VF_GATE_MEMORY) || !check_range(vf, offset, count)))
		memset(data, 0xff, count);
	else if (region == VFIO_REGION_BAR0 &&
		 pread(vf->memfd, data, count, (off_t)offset) != (ssize_t)count)
		memset(data, 0xff, count);
	pthread_mutex_unlock(&vf->lock);
}

static void on_write(void *device, uint32_t region, uint64_t offset, const void *data,
		     uint32_t count)
{
	struct vf *vf = device;
	uint64_t value;

	pthread_mutex_lock(&vf->lock);
	vf_follow(vf);
	if (atomic_load(&vf->page->dead)) {
		pthread_mutex_unlock(&vf->lock);
		return;
	}
	if (region == VFIO_REGION_CONFIG) {
		pci_write(&vf->pci, (uint32_t)offset, data, count);
	} else if (region == VFIO_REGION_BAR5) {
		write_registers(vf, offset, data, count);
	} else if (region == VFIO_REGION_BAR2 &&
		   (offset == SOFTGPU_DOORBELL || offset == SOFTGPU_SLOT_DOORBELL) &&
		   count == sizeof(value)) {
		memcpy(&value, data, sizeof(value));
		write_doorbell(vf, offset, value);
	} else if (region == VFIO_REGION_BAR0 && check_gate(vf, VF_GATE_MEMORY) &&
		   check_range(vf, offset, count) &&
		   pwrite(vf->memfd, data, count, (off_t)offset) != (ssize_t)count) {
		_exit(1); /* the host has no memory left */
	}
	pthread_mutex_unlock(&vf->lock);
}

static void on_region(void *device, uint32_t index, struct vfio_server_region *out)
{
	static const uint64_t sizes[] = {[VFIO_REGION_BAR2] = BAR2_SIZE,
					 [4] = BAR4_SIZE,
					 [VFIO_REGION_BAR5] = BAR5_SIZE,
					 [VFIO_REGION_CONFIG] = PCI_CONFIG_SIZE};
	struct vf *vf = device;
	uint64_t power = 4096;

	*out = (struct vfio_server_region){.writable = true, .mmap_fd = -1};
	if (index == VFIO_REGION_BAR0) {
		while (power < vf->vram)
			power <<= 1;
		out->size = power;
		pthread_mutex_lock(&vf->lock);
		vf_follow(vf);
		out->mmap_fd = vf->memfd;
		out->mmap_size = vf->window;
		pthread_mutex_unlock(&vf->lock);
	} else if (index < sizeof(sizes) / sizeof(sizes[0])) {
		out->size = sizes[index];
	}
}

static uint32_t on_irqs(void *, uint32_t index)
{
	if (index == VFIO_USER_IRQ_MSIX)
		return SOFTGPU_VF_VECTORS;
	return index == VFIO_USER_IRQ_ERR || index == VFIO_USER_IRQ_REQ;
}

/* Asks the device to reset the VF, and answers the client when the device has taken note of that.
 */
static void on_reset(void *device)
{
	struct timespec rest = {RESET_TAKEN_MS / 1000, RESET_TAKEN_MS % 1000 * 1000000L};
	struct vf *vf = device;
	uint32_t wanted = atomic_fetch_add(&vf->page->resets, 1) + 1, bell;

	vf_notify(vf);
	do {
		bell = atomic_load(&vf->page->bell);
		if (atomic_load(&vf->page->resets_taken) == wanted)
			return;
	} while (vf_futex_wait(&vf->page->bell, bell, &rest) != -ETIMEDOUT);
}

/* A process serves one client and ends with it. The device then starts another process, with new
 * memory. */
static void on_disconnected(void *)
{
	_exit(0);
}

const struct vfio_server_ops registers_ops = {
	.region = on_region,
	.irqs = on_irqs,
	.read = on_read,
	.write = on_write,
	.reset = on_reset,
	.disconnected = on_disconnected,
};
