/* SPDX-License-Identifier: MIT */
/*
 * A VF process between its client and the device, which this harness plays: any access of the
 * client to BARs and configuration space, resets, any packets in the ring, a guest that writes to
 * its memory while packets are executed; orders, gates, messages and contexts from the device, with
 * images that were changed on their way. All threads of the process are this one thread, step by
 * step. The partition lies between pages that nobody may touch.
 *
 * A second kind of input executes a ring twice, once without being stopped, once stopped, saved and
 * loaded every few tiles: the guest must not be able to tell the two apart.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "confine.h"
#include "fuzz.h"
#include "packet_input.h"
#include "protocol.h"
#include "vf.h"

#define WINDOW (UINT64_C(64) << 10)
#define GUARD (UINT64_C(64) << 20) /* on both sides of the partition */
#define CLIENT (UINT64_C(32) << 10)
#define MAX_OPS 60u
#define MAX_PACKETS 16u
#define MAX_TILES 80u

/* What the process does outside of itself. */
static int control_fd = -1, notice_fd = -1, dma_fd = -1;
static void *map_guarded(size_t size, int fd);
static void unmap_guarded(void *p, size_t size);
static int device_hears(void);
static enum tile next_tile(const struct vf *vf, struct job *job, uint64_t *error);
static void must_not_end(int code);

#define VF_CONTROL_FD control_fd
#define VF_NOTICE_FD notice_fd
#define VF_DMA_FD dma_fd
#define main process_main
int process_main(int argc, char **argv);
#define mmap(at, size, protection, flags, fd, offset) map_guarded(size, fd)
#define munmap(p, size) unmap_guarded(p, size)
#define vf_futex_wait(word, value, timeout) ((void)(value), (void)(timeout), device_hears())
#define kernel_tile next_tile
#define _exit must_not_end
#include "../../tools/softgpu/vf/engine.c"
#include "../../tools/softgpu/vf/main.c"
#include "../../tools/softgpu/vf/orders.c"
#include "../../tools/softgpu/vf/registers.c"
#include "../../tools/softgpu/vf/says.c"
#define follow_run follow_worker
#include "../../tools/softgpu/vf/compute.c"
#undef follow_run
#undef main
#undef mmap
#undef munmap
#undef kernel_tile
#undef _exit

static struct vf vf;
static struct {
	int socket, wake;
	struct worker_shared *shared;
	uint32_t runs; /* that the process has begun */
	uint32_t ends; /* the run that it has said the end of */
} worker;
static int device_fd; /* the other end of the control socket */
static uint8_t client[CLIENT], client_before[CLIENT];
static uint8_t before[WINDOW], after[WINDOW];
static struct input *input; /* what happens while packets are executed */
static uint32_t tiles, stop_after;
static bool stop_kills, is_pure;

static void must_not_end(int code)
{
	fprintf(stderr, "the process ends with %d\n", code);
	abort();
}

static void *map_guarded(size_t size, int fd)
{
	uint8_t *p = mmap(NULL, size + 2 * GUARD, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	HOLDS(p != MAP_FAILED);
	return mmap(p + GUARD, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
}

static void unmap_guarded(void *p, size_t size)
{
	HOLDS(munmap((uint8_t *)p - GUARD, size + 2 * GUARD) == 0);
}

/* Nothing is confined or served here. */
int confine_user(uid_t, gid_t, const char *, struct vgpu_error *)
{
	return 0;
}

int confine_files(struct vgpu_error *)
{
	return 0;
}

int confine_memory(uint64_t, struct vgpu_error *)
{
	return 0;
}

int confine_calls(bool, struct vgpu_error *)
{
	return 0;
}

int vfio_server_create(struct vfio_server **, const char *, int, struct vgpu_error *)
{
	return -ENOSYS;
}

int vfio_server_adopt(struct vfio_server *, int, const struct vfio_server_ops *, void *,
		      struct vfio_endpoint **)
{
	return -ENOSYS;
}

void vfio_server_ask(struct vfio_server *, void (*call)(void *data), void *data)
{
	call(data);
}

void vfio_endpoint_irq(struct vfio_endpoint *, uint32_t vector)
{
	HOLDS(vector < SOFTGPU_VF_VECTORS);
}

void vfio_endpoint_sync(struct vfio_endpoint *)
{
}

int vfio_endpoint_dma(struct vfio_endpoint *, uint64_t iova, void *buffer, size_t size,
		      bool to_client)
{
	HOLDS(size <= VF_DMA_MOST);
	if (iova > CLIENT || size > CLIENT - iova)
		return -EFAULT;
	memcpy(to_client ? client + iova : buffer, to_client ? buffer : client + iova, size);
	return 0;
}

/* Waits shorter than the clock counts; other tests show that long work can be stopped. */
static void shorten(struct softgpu_packet *p)
{
	if (p->opcode == SOFTGPU_NONPREEMPTIBLE || p->opcode == SOFTGPU_SPIN)
		p->arg[0] = p->arg[0] ? 1 : 0;
	if (p->opcode == SOFTGPU_ENDLESS)
		p->opcode = SOFTGPU_NOP;
	if (p->opcode == SOFTGPU_COUNT && p->arg[1] > 8)
		p->arg[1] = 8;
	if (p->opcode == SOFTGPU_EVENT && is_pure)
		p->opcode = SOFTGPU_NOP; /* the time of a run is its own */
}

/* Stops the run as the device does, and writes into the ring as a guest on another CPU does. */
static enum tile next_tile(const struct vf *v, struct job *job, uint64_t *error)
{
	uint32_t word = atomic_load(&v->page->run), at;

	shorten(&job->packet);
	tiles++;
	if (tiles % (stop_after + 1) == stop_after || tiles > MAX_TILES)
		atomic_store(&v->page->run,
			     VF_RUN_WORD(word >> 3, stop_kills ? VF_KILLING : VF_STOPPING));
	if (!is_pure && input->left > 0 && v->memory) {
		at = (uint32_t)input_number(input, 2) % WINDOW;
		v->memory[at] = (uint8_t)input_number(input, 1);
	}
	return kernel_tile(v, job, error);
}

/* The descriptors become the process's. */
static void send_order(const struct vf_order *order, const int *fds, uint32_t n)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * VF_ORDER_FDS)];
	} out = {.space = {0}};
	struct iovec iov = {(void *)order, sizeof(*order)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n > 0) {
		m.msg_control = out.space;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		out.align = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
					     .cmsg_type = SCM_RIGHTS,
					     .cmsg_len = CMSG_LEN(sizeof(int) * n)};
		memcpy(CMSG_DATA(&out.align), fds, sizeof(int) * n);
	}
	HOLDS(sendmsg(device_fd, &m, MSG_DONTWAIT) == sizeof(*order));
	while (n > 0)
		close(fds[--n]);
	atomic_fetch_add(&vf.page->orders, 1);
}

static void give_context(enum vf_context_kind kind)
{
	uint32_t serial = (atomic_load(&vf.page->context) >> 3) + 1;

	atomic_store(&vf.page->context, VF_CONTEXT_WORD(serial, (uint32_t)kind));
}

/* The device resets the VF, which executes nothing then. */
static void reset(void)
{
	uint32_t word = atomic_load(&vf.page->run);

	atomic_store(&vf.page->run, VF_RUN_WORD(word >> 3, VF_STOPPED));
	memset(vf.page->image, 0, sizeof(vf.page->image));
	atomic_fetch_add(&vf.page->forget, 1);
	atomic_fetch_add(&vf.page->generation, 1);
	give_context(VF_CONTEXT_NONE);
}

/* Memory of SIZE bytes; 0: none. The device changes it when there is no context. */
static void give_memory(uint64_t size)
{
	struct vf_order order = {.type = VF_ORDER_MEMORY, .window = size, .size = size};
	int fd = size ? memfd_create("partition", MFD_CLOEXEC) : -1;

	HOLDS(size == 0 || (fd >= 0 && ftruncate(fd, (off_t)size) == 0));
	reset();
	send_order(&order, &fd, fd >= 0);
}

static void end_worker(void)
{
	if (!worker.shared)
		return;
	munmap(worker.shared, sizeof(*worker.shared));
	close(worker.socket);
	close(worker.wake);
	worker.shared = NULL;
}

/* Another worker, which this harness plays, too. */
static void give_worker(void)
{
	const struct vf_order order = {.type = VF_ORDER_WORKER, .modules = 1, .stops = 1};
	int fds[VF_ORDER_FDS], pair[2];

	end_worker();
	HOLDS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	fds[0] = pair[1];
	fds[1] = memfd_create("worker", MFD_CLOEXEC);
	fds[2] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	worker.socket = pair[0];
	worker.wake = fcntl(fds[2], F_DUPFD_CLOEXEC, 0);
	worker.runs = worker.ends = 0;
	HOLDS(fds[1] >= 0 && fds[2] >= 0 && worker.wake >= 0);
	HOLDS(ftruncate(fds[1], sizeof(*worker.shared)) == 0);
	worker.shared =
		mmap(NULL, sizeof(*worker.shared), PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	HOLDS(worker.shared != MAP_FAILED);
	send_order(&order, fds, VF_ORDER_FDS);
}

/* What a worker says before the VF runs: whatever it likes, and then that it has ended, or that is
 * the last of it. */
static void act_as_worker(struct input *in, uint32_t op)
{
	struct worker_message m = {0};
	uint32_t i;

	if (!worker.shared)
		return;
	atomic_store(&worker.shared->waits, op >> 7);
	atomic_store(&worker.shared->state,
		     op % 4 == 3 ? (uint32_t)input_number(in, 1) : WORKER_READY);
	memset(worker.shared->text, 'x', sizeof(worker.shared->text)); /* and no end */
	pthread_mutex_lock(&vf.lock);
	look_at_worker(&vf);
	pthread_mutex_unlock(&vf.lock);
	for (i = 0; i < (op >> 2) % 4; i++) {
		m.type = (uint32_t)input_number(in, 1) % (WORKER_ENDED + 2);
		m.serial = worker.runs + (uint32_t)input_number(in, 1) % 3;
		m.dma.at = input_number(in, 3);
		m.dma.bytes = input_number(in, 3);
		m.dma.iova = input_number(in, 2);
		m.dma.out = (uint32_t)input_number(in, 1);
		if (m.dma.out & 0x80)
			m.dma.bytes = -m.dma.at + m.dma.out; /* a sum that wraps */
		send(worker.socket, &m, m.dma.out == 0x7f ? 8 : sizeof(m), MSG_DONTWAIT);
	}
	if (op & 0x40) {
		shutdown(worker.socket, SHUT_RDWR);
		return;
	}
	m = (struct worker_message){.type = WORKER_ENDED, .serial = worker.runs + 1};
	m.ended.end = (uint32_t)input_number(in, 1) % 5;
	m.ended.error = (uint32_t)input_number(in, 1);
	m.ended.active = op & 1;
	m.ended.rptr = input_number(in, 1);
	if (send(worker.socket, &m, sizeof(m), MSG_DONTWAIT) == sizeof(m))
		worker.ends = m.serial;
}

/* In place of a sleep until the device does something: it hears of a client's reset, or does not.
 */
static int device_hears(void)
{
	if (atomic_load(&vf.page->resets) % 4 == 3)
		return -ETIMEDOUT;
	reset();
	atomic_store(&vf.page->resets_taken, atomic_load(&vf.page->resets));
	return 0;
}

/* The first thread of the process, until it would sleep. */
static void work(void)
{
	uint32_t rounds = 0, state;

	while ((state = VF_RUN_STATE(atomic_load(&vf.page->run))) != VF_STOPPED &&
	       state != VF_PARKED) {
		/* Nobody waits for the end of a run here: where it has not been said, the
		 * worker goes when it has said the rest. */
		if (vf.compute && worker.ends != vf.compute->serial + 1)
			shutdown(worker.socket, SHUT_WR);
		follow_run(&vf);
		if (vf.compute)
			worker.runs = vf.compute->serial;
		HOLDS(++rounds <= 4);
	}
	/* The device may take it without asking. */
	HOLDS(state != VF_PARKED || !memcmp(vf.page->image, &vf.live, sizeof(vf.live)));
}

static void run_vf(void)
{
	uint32_t word = atomic_load(&vf.page->run);

	tiles = 0;
	if (VF_RUN_STATE(word) == VF_STOPPED)
		atomic_store(&vf.page->run, VF_RUN_WORD((word >> 3) + 1, VF_RUN));
	work();
}

static void stop_run(void)
{
	uint32_t word = atomic_load(&vf.page->run);

	if (VF_RUN_STATE(word) == VF_PARKED)
		atomic_store(&vf.page->run, VF_RUN_WORD(word >> 3, VF_STOPPED));
	else if (VF_RUN_STATE(word) == VF_RUN)
		atomic_store(&vf.page->run, VF_RUN_WORD(word >> 3, VF_STOPPING));
	work();
}

/* The image is taken, changed perhaps, and given back. */
static void save_and_load(struct input *in, bool changed)
{
	uint8_t image[VF_IMAGE_SIZE];
	uint32_t i, n = changed ? (uint32_t)input_number(in, 1) % 4 : 0, at;

	stop_run();
	memcpy(image, vf.page->image, sizeof(image));
	memset(vf.page->image, 0, sizeof(image));
	give_context(VF_CONTEXT_SAVED);
	vf_follow(&vf);
	HOLDS(!vf.loaded);
	for (i = 0; i < n; i++) {
		at = (uint32_t)input_number(in, 1) * 4 % sizeof(struct context);
		input_bytes(in, image + at, 4);
	}
	memcpy(vf.page->image, image, sizeof(image));
	give_context(VF_CONTEXT_LOADED);
}

static void act_as_device(struct input *in, uint32_t op)
{
	static const uint64_t sizes[] = {0, 4096, WINDOW, WINDOW};
	struct vf_page *page = vf.page;
	uint32_t i;

	switch (op % 10) {
	case 0:
		if (vf.has_worker && op > 10)
			act_as_worker(in, (uint32_t)input_number(in, 1));
		run_vf();
		break;
	case 1:
		stop_run();
		break;
	case 2:
		stop_run();
		memset(page->image, 0, sizeof(page->image));
		give_context(VF_CONTEXT_INIT);
		break;
	case 3:
		save_and_load(in, op & 0x80);
		break;
	case 4:
		stop_run();
		give_memory(sizes[op / 10 % 4]);
		if (vf.has_worker && sizes[op / 10 % 4])
			give_worker();
		break;
	case 5:
		atomic_store(&page->gates, (uint32_t)input_number(in, 1));
		atomic_store(&page->dead, op > 250);
		break;
	case 6:
		for (i = 0; i < 4; i++)
			atomic_store(&page->to_vf.words[i], (uint32_t)input_number(in, 1));
		atomic_store(&page->to_vf.serial, (uint32_t)input_number(in, 1));
		break;
	case 7:
		atomic_store(&page->to_pf_taken, op & 0x80 ? (uint32_t)input_number(in, 1)
							   : atomic_load(&page->to_pf.serial));
		break;
	case 8:
		stop_after = op / 10;
		stop_kills = input_number(in, 1) & 1;
		break;
	default:
		stop_run();
		reset();
		break;
	}
	pthread_mutex_lock(&vf.lock);
	vf_follow(&vf);
	follow_mailbox(&vf);
	pthread_mutex_unlock(&vf.lock);
	atomic_store(&page->asked, op);
	answer(&vf);
	HOLDS(atomic_load(&page->answered) == op);
	HOLDS(atomic_load(&page->status) >> 32 == atomic_load(&page->generation));
}

/* An access as the vfio-user server checks it: within the region. */
static void access_region(uint32_t index, uint64_t offset, uint64_t count, struct input *in,
			  bool writes)
{
	struct vfio_server_region region;
	uint8_t *data;

	registers_ops.region(&vf, index, &region);
	HOLDS(region.mmap_fd < 0 || region.mmap_size <= WINDOW);
	if (region.size == 0)
		return;
	offset %= region.size;
	if (count > region.size - offset)
		count = region.size - offset;
	data = malloc(count);
	HOLDS(data);
	input_bytes(in, data, writes ? count : 0);
	if (writes)
		registers_ops.write(&vf, index, offset, data, (uint32_t)count);
	else
		registers_ops.read(&vf, index, offset, data, (uint32_t)count);
	/* An older library must not take the VF for what it knows. Behind a gate are ones. */
	if (!writes && index == VFIO_REGION_BAR5 && offset == SOFTGPU_FEATURES && count > 0)
		HOLDS(!(data[0] & SOFTGPU_HAD_MODULES) || data[0] == 0xff);
	free(data);
}

static void act_as_client(struct input *in, uint32_t op)
{
	static const uint32_t regions[] = {VFIO_REGION_BAR0, VFIO_REGION_BAR2, 4, VFIO_REGION_BAR5,
					   VFIO_REGION_CONFIG};
	static const uint32_t own[] = {
		SOFTGPU_RING_BASE, SOFTGPU_RING_SIZE, SOFTGPU_FENCE_ADDR,     SOFTGPU_RING_RPTR,
		SOFTGPU_STATUS,	   SOFTGPU_ERROR_AT,  SOFTGPU_PARTITION_SIZE, SOFTGPU_FEATURES,
		SOFTGPU_RAN,	   SOFTGPU_FAULTS,    SOFTGPU_ABOUT_AT};
	static const enum gpuiov_register mailbox[] = {GPUIOV_MBOX_TRN, GPUIOV_MBOX_RCV,
						       GPUIOV_MBOX_CONTROL, GPUIOV_MBOX_INT};
	uint64_t wptr;

	switch (op % 6) {
	case 0:
		registers_ops.reset(&vf);
		break;
	case 1: /* the doorbell */
		wptr = input_number(in, 1);
		registers_ops.write(&vf, VFIO_REGION_BAR2,
				    wptr % 256 == 255 ? SOFTGPU_SLOT_DOORBELL : SOFTGPU_DOORBELL,
				    &wptr, sizeof(wptr));
		work();
		break;
	case 2:
		access_region(VFIO_REGION_BAR5, own[op / 6 % 8], 8, in, op & 0x80);
		break;
	case 3:
		access_region(VFIO_REGION_BAR5, vf.layout->at[mailbox[op / 6 % 4]].offset, 4, in,
			      op & 0x80);
		break;
	default:
		access_region(regions[op / 6 % 5], input_number(in, 3), 1 + input_number(in, 1), in,
			      op & 0x80);
		break;
	}
	HOLDS(registers_ops.irqs(&vf, op % 8) <= SOFTGPU_VF_VECTORS);
}

/* Puts packets into the ring, as a guest does, and says how many. */
static uint32_t fill_ring(struct input *in, uint64_t base, uint64_t n)
{
	uint32_t count = (uint32_t)input_number(in, 1) % (MAX_PACKETS + 1), i;
	struct softgpu_packet p;

	for (i = 0; i < count; i++) {
		p = packet_of(in);
		if (p.opcode == SOFTGPU_MANDELBROT)
			p.arg[5] = p.arg[5] > 1000000 ? p.arg[5] : p.arg[5] % 500;
		if (n && vf.memory)
			memcpy(vf.memory + base + i % n * sizeof(p), &p, sizeof(p));
	}
	return count;
}

/* A ring of 16 packets at the start of the window, a fence behind it, and the gates open. */
static void set_up(void)
{
	const uint64_t place[] = {0, MAX_PACKETS}, fence = 1024;

	atomic_store(&vf.page->gates, 7);
	give_context(VF_CONTEXT_INIT);
	registers_ops.write(&vf, VFIO_REGION_BAR5, SOFTGPU_RING_BASE, place, sizeof(place));
	registers_ops.write(&vf, VFIO_REGION_BAR5, SOFTGPU_FENCE_ADDR, &fence, sizeof(fence));
	HOLDS(vf.live.ring_size == MAX_PACKETS && vf.live.fence_addr == fence);
}

/* Executes COUNT packets in the memory of BEFORE, stopped after each EVERY tiles. False: it would
 * take long. */
static bool execute_all(uint64_t count, uint32_t every)
{
	uint32_t done;

	stop_after = every;
	memcpy(vf.memory, before, WINDOW);
	memcpy(client, client_before, CLIENT);
	set_up();
	registers_ops.write(&vf, VFIO_REGION_BAR2, SOFTGPU_DOORBELL, &count, sizeof(count));
	for (done = 0; done <= MAX_TILES; done += every + 1) {
		run_vf();
		if (VF_RUN_STATE(atomic_load(&vf.page->run)) == VF_PARKED)
			return true;
		save_and_load(input, false);
	}
	return false;
}

/* The same packets, once at a stretch, once in parts. */
static void compare(struct input *in)
{
	uint32_t every = (uint32_t)input_number(in, 1) % 8, count;
	uint64_t error, error_at, rptr;
	bool dead;

	is_pure = true;
	stop_kills = false;
	count = fill_ring(in, 0, MAX_PACKETS);
	input_bytes(in, vf.memory + 2048, in->left);
	memcpy(before, vf.memory, WINDOW);
	memset(client_before, 0x5a, CLIENT);
	if (!execute_all(count, MAX_TILES))
		return;
	memcpy(after, vf.memory, WINDOW);
	error = vf.dead ? vf.error : 0;
	error_at = vf.dead ? vf.error_at : 0;
	dead = vf.dead;
	rptr = vf.live.rptr;
	stop_run();
	reset();
	vf_follow(&vf);
	if (!execute_all(count, every))
		return;
	HOLDS(!memcmp(after, vf.memory, WINDOW));
	HOLDS(vf.dead == dead && vf.live.rptr == rptr);
	HOLDS(!dead || (vf.error == error && vf.error_at == error_at));
}

static void operate(struct input *in)
{
	uint32_t op = (uint32_t)input_number(in, 1);

	switch (op % 4) {
	case 0:
		act_as_device(in, (uint32_t)input_number(in, 1));
		break;
	case 1:
		op = fill_ring(in, 0, vf.window / 64 < MAX_PACKETS ? 0 : MAX_PACKETS);
		break;
	default:
		act_as_client(in, (uint32_t)input_number(in, 1));
		break;
	}
}

static void begin(uint64_t shape)
{
	int pair[2];

	vf = (struct vf){.memfd = -1, .vram = UINT64_C(16) << 20};
	vf.layout = shape & 1 ? &gpuiov_layout_tonga : &gpuiov_layout_navi;
	vf.page = aligned_alloc(64, sizeof(*vf.page));
	HOLDS(vf.page && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	memset(vf.page, 0, sizeof(*vf.page));
	device_fd = pair[0];
	control_fd = pair[1];
	notice_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	HOLDS(notice_fd >= 0);
	vfio_mutex_init(&vf.lock);
	pci_build(&vf.pci, SOFTGPU_DEVICE_VF, SOFTGPU_VF_VECTORS, vf.vram);
	stop_after = MAX_TILES;
	is_pure = false;
	vf.has_worker = (shape & 12) == 8;
	vf.worker_events = epoll_create1(EPOLL_CLOEXEC); /* nobody waits: workers are ready */
	HOLDS(vf.worker_events >= 0);
	give_memory(WINDOW);
	if (vf.has_worker)
		give_worker();
	vf_follow(&vf);
	HOLDS(vf.memory && vf.window == WINDOW);
}

static void end(void)
{
	compute_destroy(vf.compute);
	end_worker();
	if (vf.memory)
		unmap_guarded(vf.memory, vf.window);
	if (vf.memfd >= 0)
		close(vf.memfd);
	close(device_fd);
	close(control_fd);
	close(notice_fd);
	close(vf.worker_events);
	pthread_mutex_destroy(&vf.lock);
	free(vf.page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	int first = next_fd();
	uint64_t shape = input_number(&in, 1);
	uint32_t i;

	input = &in;
	begin(shape);
	if (shape & 2)
		set_up();
	if (shape & 4)
		compare(&in);
	for (i = 0; i < MAX_OPS && in.left > 0; i++)
		operate(&in);
	stop_run();
	end();
	HOLDS(next_fd() == first);
	return 0;
}
