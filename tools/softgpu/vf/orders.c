/* SPDX-License-Identifier: MIT */
/* What the device orders: a partition, a client, a worker, a reset, a context. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vf.h"
#include "vgpu/local_socket.h"

/*
 * Takes over the file of a partition; -1: there is none. Its number never changes: the server's
 * thread sends it to a client after it has let go of the lock, and must not send what else has got
 * the number meanwhile. Returns 0 or -errno.
 */
static int set_memfd(struct vf *vf, int fd)
{
	int r = 0;

	if (fd < 0)
		fd = fcntl(vf->none, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (vf->memfd < 0) {
		vf->memfd = fd;
		return 0;
	}
	if (dup3(fd, vf->memfd, O_CLOEXEC) < 0)
		r = -errno;
	close(fd);
	return r;
}

/* Changes the partition. The device does this only while nothing is executed. */
static void take_memory(struct vf *vf, const struct vf_order *order, const int *fds)
{
	void *p;

	if (vf->executing)
		_exit(1);
	compute_destroy(vf->compute);
	vf->compute = NULL;
	if (vf->memory)
		munmap(vf->memory, vf->window);
	p = fds[0] >= 0 ? mmap(NULL, order->window, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0)
			: NULL;
	if (p == MAP_FAILED || set_memfd(vf, fds[0]) < 0)
		_exit(1);
	vf->memory = p;
	vf->window = order->window;
	vf->modules = order->modules;
	vf->size = order->size;
	memset(vf->last_words, 0, sizeof(vf->last_words)); /* an earlier guest's */
}

static void take_worker(struct vf *vf, const struct vf_order *order, const int *fds)
{
	const struct compute_setup setup = {
		.socket = fds[0],
		.shared = fds[1],
		.wake = fds[2],
		.stops = order->stops,
		.stop_us = order->stop_us,
		.kill_after = order->kill_after,
		.kill_disturbed = order->kill_disturbed,
	};

	if (vf->executing)
		_exit(1);
	compute_destroy(vf->compute);
	vf->modules = order->modules;
	vf->compute = compute_create(vf, &setup);
	if (!vf->compute)
		_exit(1);
}

static void receive_order(struct vf *vf)
{
	int fds[VF_ORDER_FDS] = {-1, -1, -1};
	struct vgpu_received received;
	struct vf_order order;

	if (vgpu_socket_receive(VF_CONTROL_FD, &order, sizeof(order), 0, &received) !=
		    (ssize_t)sizeof(order) ||
	    received.n_fds > VF_ORDER_FDS)
		_exit(1);
	memcpy(fds, received.fds, received.n_fds * sizeof(*fds));
	switch (order.type) {
	case VF_ORDER_MEMORY:
		take_memory(vf, &order, fds);
		break;
	case VF_ORDER_CLIENT:
		vf->client = fds[0];
		break;
	case VF_ORDER_WORKER:
		take_worker(vf, &order, fds);
		break;
	}
}

/* The VF has been reset: resets all its state except its memory. */
static void forget(struct vf *vf)
{
	memset(&vf->live, 0, sizeof(vf->live));
	atomic_store(&vf->wptr, 0);
	vf->bell_heard = vf->bell;
	vf->loaded = false;
	vf->dead = false;
	vf->int_enable = 0;
	vf->to_pf = 0;
	atomic_store(&vf->page->to_pf.serial, 0);
	pci_build(&vf->pci, SOFTGPU_DEVICE_VF, SOFTGPU_VF_VECTORS, vf->vram);
}

static void take_context(struct vf *vf)
{
	struct packet_limits limits = vf_limits(vf);

	switch (VF_CONTEXT_KIND(vf->context)) {
	case VF_CONTEXT_INIT:
		memset(&vf->live, 0, sizeof(vf->live));
		atomic_store(&vf->wptr, 0);
		vf->bell_heard = vf->bell;
		vf->dead = false;
		vf->loaded = true;
		break;
	case VF_CONTEXT_LOADED:
		memcpy(&vf->live, vf->page->image, sizeof(vf->live));
		/* The saved packet has been checked, but the VF may have another partition now. */
		if (vf->live.job.active &&
		    (packet_check(&limits, &vf->live.job.packet) != SOFTGPU_OK ||
		     !kernel_job_is_valid(&vf->live.job)))
			vf->live.job.active = false;
		vf->loaded = true;
		break;
	default:
		memset(&vf->live, 0, sizeof(vf->live));
		vf->loaded = false;
		break;
	}
}

void vf_take_orders(struct vf *vf)
{
	for (; vf->orders != atomic_load(&vf->page->orders); vf->orders++)
		receive_order(vf);
}

/* GENERATION counts resets. The device changes FORGET first, then GENERATION; this function reads
 * GENERATION first, does what FORGET and CONTEXT ask for, and adopts the new generation last. So
 * nothing that this process reports in a generation belongs to the one before. */
void vf_follow(struct vf *vf)
{
	struct vf_page *page = vf->page;
	uint32_t generation = atomic_load(&page->generation), word;

	if (!vf->executing)
		vf_take_orders(vf);
	word = atomic_load(&page->forget);
	if (word != vf->forget) {
		vf->forget = word;
		forget(vf);
	}
	word = atomic_load(&page->context);
	if (word != vf->context) {
		vf->context = word;
		take_context(vf);
	}
	if (generation != vf->generation) {
		vf->generation = generation;
		vf->busy = false;
		vf_publish(vf);
		vf_notify(vf);
	}
}
