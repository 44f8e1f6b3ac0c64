/* SPDX-License-Identifier: MIT */
/*
 * softgpu's device between its PF and two VF processes, which this harness plays: configuration
 * space, GPU-IOV registers, mailboxes, commands, memory and resets from one side; from the other
 * side any word in the page, notices, orders that nobody takes, a page that somebody wants to
 * shrink, and processes that end. VF 0 has a hostile process, VF 1 an honest one. The device asks
 * its carrier only for what is within bounds, believes of VF 1 nothing that VF 1 has not said, and
 * can always be destroyed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"
#include "page.h"
#include "program.h"
#include "softgpu.h"
#include "vfio/device.h"

#define VFS 2u
#define HOSTILE 0
#define HONEST 1
#define VRAM (4 * (uint64_t)GPUIOV_FB_UNIT)
#define MAX_OPS 100u
#define CLIENT 65536u

static uint8_t client[CLIENT];

static void on_irq(void *, int fn, uint32_t vector)
{
	HOLDS(fn == SOFTGPU_PF && vector < 32);
}

static int on_dma(void *, int fn, uint64_t iova, void *buffer, uint64_t size, bool to_client)
{
	HOLDS(fn == SOFTGPU_PF);
	if (iova > CLIENT || size > CLIENT - iova)
		return -EFAULT;
	memcpy(to_client ? client + iova : buffer, to_client ? buffer : client + iova, size);
	return 0;
}

static void on_vfs(void *, uint32_t n)
{
	HOLDS(n <= VFS);
}

/* Nobody connects, and the device only hands it on. */
static int on_listen(void *, int vf, struct vgpu_error *)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	HOLDS(vf >= 0 && vf < (int)VFS && fd >= 0);
	HOLDS(bind(fd, &(struct sockaddr){.sa_family = AF_UNIX}, sizeof(sa_family_t)) == 0);
	HOLDS(listen(fd, 1) == 0);
	return fd;
}

static const struct softgpu_carrier carrier = {.irq = on_irq,
					       .dma = on_dma,
					       .vfs_changed = on_vfs,
					       .listen = on_listen};

/* A VF process: what it has been given. Under the lock, which is never held during a call of the
 * device: the device's threads start and kill processes. */
static struct process {
	bool is_there;
	struct vf_page *page;
	int control, page_fd, notice;
	int pidfd; /* the device's: an eventfd, readable when the process is gone */
} processes[VFS];
static pthread_mutex_t processes_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t scribble; /* what a fresh page is full of */

/* As the kernel does. With the lock. */
static void end_process(struct process *p)
{
	const uint64_t one = 1;

	if (!p->is_there)
		return;
	p->is_there = false;
	HOLDS(write(p->pidfd, &one, sizeof(one)) == sizeof(one));
	munmap(p->page, sizeof(*p->page));
	close(p->control);
	close(p->page_fd);
	close(p->notice);
}

static void notify(const struct process *p)
{
	const uint64_t one = 1;

	atomic_fetch_add(&p->page->notices, 1);
	HOLDS(write(p->notice, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
}

/* What a process that gives a file back does, and how it ends. */
static int give_back(const int *fds, uint32_t n, int *pidfd)
{
	HOLDS(n == 1 && fcntl(fds[0], F_GETFD) >= 0);
	HOLDS(fallocate(fds[0], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)VRAM) == 0);
	*pidfd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	HOLDS(*pidfd >= 0);
	return 0;
}

/* In place of the function that starts programs. */
int program_start(const char *name, const char *const *args, const int *fds, uint32_t n, pid_t *pid,
		  int *pidfd, struct vgpu_error *)
{
	unsigned long vf;
	struct process *p;

	if (strcmp(args[0], "--give-back") == 0)
		return give_back(fds, n, pidfd);
	vf = strtoul(args[1], NULL, 10);
	p = &processes[vf];
	HOLDS(strcmp(name, "softgpu-vf") == 0 && strcmp(args[0], "--vf") == 0 && vf < VFS);
	HOLDS(n == VF_DMA_FD - VF_CONTROL_FD);
	pthread_mutex_lock(&processes_lock);
	HOLDS(!p->is_there); /* one process for each VF */
	p->control = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
	p->page_fd = fcntl(fds[1], F_DUPFD_CLOEXEC, 0);
	p->notice = fcntl(fds[2], F_DUPFD_CLOEXEC, 0);
	p->pidfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	HOLDS(p->control >= 0 && p->page_fd >= 0 && p->notice >= 0 && p->pidfd >= 0);
	p->page = mmap(NULL, sizeof(*p->page), PROT_READ | PROT_WRITE, MAP_SHARED, p->page_fd, 0);
	HOLDS(p->page != MAP_FAILED);
	p->is_there = true;
	*pid = 1 + (pid_t)vf;
	*pidfd = p->pidfd;
	if (vf == HOSTILE) {
		memset(p->page, scribble, sizeof(*p->page));
		HOLDS(ftruncate(p->page_fd, 0) < 0);
	}
	atomic_store(&p->page->ready, 1);
	notify(p);
	pthread_mutex_unlock(&processes_lock);
	return 0;
}

/* In place of the system's: a pidfd is the eventfd from above. */
int pidfd_send_signal(int pidfd, int sig, siginfo_t *info, unsigned flags)
{
	uint32_t i;

	HOLDS(sig == SIGKILL && !info && flags == 0);
	pthread_mutex_lock(&processes_lock);
	for (i = 0; i < VFS; i++)
		if (processes[i].pidfd == pidfd)
			end_process(&processes[i]);
	pthread_mutex_unlock(&processes_lock);
	return 0;
}

int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	uint64_t count;

	HOLDS(type == P_PIDFD && (options & ~(WNOHANG | WNOWAIT)) == WEXITED);
	if (options & WNOWAIT)
		return 0;
	if (read((int)id, &count, sizeof(count)) != sizeof(count)) {
		HOLDS(options & WNOHANG); /* else it waits for ever */
		return -1;
	}
	info->si_code = CLD_EXITED;
	return 0;
}

static struct softgpu *gpu;
static const struct gpuiov_layout *layout;
static uint32_t sriov, cap, block;

/* Finds the offsets of the capabilities. */
static void look(void)
{
	uint8_t config[4096];
	uint16_t at = 0;

	softgpu_read(gpu, SOFTGPU_PF, VFIO_REGION_CONFIG, 0, config, sizeof(config));
	HOLDS(vfio_find_ext_cap(config, PCI_EXT_CAP_SRIOV, &at));
	sriov = at;
	at = 0;
	HOLDS(vfio_find_ext_cap(config, PCI_EXT_CAP_VENDOR, &at));
	cap = at;
	block = layout->block_pointer ? cap + ((uint32_t)config[cap + layout->block_pointer] << 4)
				      : cap;
}

static void write_config(uint32_t at, uint32_t value, uint32_t size)
{
	softgpu_write(gpu, SOFTGPU_PF, VFIO_REGION_CONFIG, at, &value, size);
}

/* Enables VFs with 16 MiB each and opens all gates, as vgpud does. */
static void bring_up(void)
{
	uint32_t i, all = UINT32_MAX;

	for (i = 0; i < VFS; i++)
		write_config(cap + layout->at[GPUIOV_FB_TABLE].offset + 4 * i,
			     (1 + i) << 16 | (1 - layout->fb_size_bias), 4);
	write_config(sriov + SRIOV_NUM_VFS, VFS, 2);
	write_config(sriov + SRIOV_CTRL, SRIOV_CTRL_VF_ENABLE | SRIOV_CTRL_MSE, 2);
	for (i = GPUIOV_GATE_REGISTERS; i <= GPUIOV_GATE_MEMORY; i++)
		softgpu_write(gpu, SOFTGPU_PF, VFIO_REGION_BAR5, layout->at[i].offset, &all, 4);
}

/* A region, and an offset in it, which is usually that of a register. */
static uint32_t some_place(struct input *in, uint64_t *offset)
{
	static const uint32_t regions[] = {VFIO_REGION_BAR0, 2, 4, VFIO_REGION_BAR5,
					   VFIO_REGION_CONFIG};
	static const uint32_t own = SOFTGPU_ID; /* softgpu's own registers */
	uint32_t choice = (uint32_t)input_number(in, 1), n = (uint32_t)input_number(in, 1);
	const struct gpuiov_location *at = &layout->at[n % GPUIOV_REGISTERS];

	if (choice & 0x80) {
		*offset = at->space == GPUIOV_MMIO  ? at->offset
			  : at->space == GPUIOV_CAP ? cap + at->offset
						    : block + at->offset;
		if (at->space == GPUIOV_NOWHERE || choice & 0x20)
			*offset = own + 4 * (n % 32);
		if (at->space == GPUIOV_NOWHERE || at->space == GPUIOV_MMIO || choice & 0x20)
			return VFIO_REGION_BAR5;
		return VFIO_REGION_CONFIG;
	}
	*offset = input_number(in, choice & 0x40 ? 8 : 2);
	return regions[choice % 5];
}

/* Commands with their codes and VFs, as one chain: where the layout has none, nothing happens. */
static void write_chain(struct input *in)
{
	uint32_t n = 1 + (uint32_t)input_number(in, 1) % (SOFTGPU_CHAIN_LENGTH + 1), i, dword;

	for (i = 0; i < n; i++) {
		dword = (uint32_t)input_number(in, 4);
		softgpu_write(gpu, SOFTGPU_PF, VFIO_REGION_BAR5, SOFTGPU_CHAIN + 4 * i, &dword, 4);
	}
	softgpu_write(gpu, SOFTGPU_PF, VFIO_REGION_BAR5, SOFTGPU_CHAIN_GO, &n, 4);
}

/* What the PF's driver may do. */
static void access_pf(struct input *in, uint32_t op)
{
	uint32_t region, size;
	uint8_t data[64];
	uint64_t at;

	if ((op & 0x30) == 0x30) {
		write_chain(in);
		return;
	}
	if (op & 0x10) { /* a command with its code and VF */
		at = layout->at[GPUIOV_CMD].offset +
		     (layout->at[GPUIOV_CMD].space == GPUIOV_BLOCK ? block : cap);
		write_config((uint32_t)at, (uint32_t)input_number(in, 4), 4);
		return;
	}
	region = some_place(in, &at);
	if (op & 0x20) {
		softgpu_read(gpu, SOFTGPU_PF, region, at, data, 1 + input_number(in, 1) % 64);
		return;
	}
	size = op & 0x40 ? (uint32_t)input_number(in, 1) % sizeof(data) + 1 : op & 0x80 ? 8 : 4;
	input_bytes(in, data, size);
	softgpu_write(gpu, SOFTGPU_PF, region, at, data, size);
}

/* Takes the orders that have come. Whoever has a partition's file cannot shrink it either. */
static void take_orders(const struct process *p)
{
	char space[CMSG_SPACE(sizeof(int) * VF_ORDER_FDS)];
	struct vf_order order;
	struct iovec iov = {&order, sizeof(order)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space};
	struct cmsghdr *cmsg;
	int fd;

	for (;;) {
		m.msg_controllen = sizeof(space);
		if (recvmsg(p->control, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) <= 0)
			return;
		HOLDS(order.type >= VF_ORDER_MEMORY && order.type <= VF_ORDER_LOOK);
		cmsg = CMSG_FIRSTHDR(&m);
		if (!cmsg)
			continue;
		HOLDS(order.type == VF_ORDER_MEMORY && cmsg->cmsg_len == CMSG_LEN(sizeof(fd)));
		memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
		HOLDS(ftruncate(fd, 0) < 0);
		close(fd);
	}
}

/* Answers the RUN word, and whether it is there. */
static void answer(const struct process *p)
{
	uint32_t word = atomic_load(&p->page->run);

	if (VF_RUN_STATE(word) > VF_STOPPED && VF_RUN_STATE(word) != VF_PARKED)
		atomic_compare_exchange_strong(&p->page->run, &word,
					       word - VF_RUN_STATE(word) +
						       (VF_RUN_STATE(word) == VF_RUN ? VF_PARKED
										     : VF_STOPPED));
	atomic_store(&p->page->answered, atomic_load(&p->page->asked));
}

/* The words of the page that are the process's, and RUN. */
static _Atomic uint32_t *own_word(struct vf_page *page, uint32_t n)
{
	_Atomic uint32_t *const words[] = {
		&page->run,
		(_Atomic uint32_t *)&page->status,
		(_Atomic uint32_t *)&page->status + 1,
		&page->resets,
		&page->answered,
		&page->to_vf_taken,
		&page->violations,
		&page->gate_drops,
		&page->to_pf.serial,
		&page->to_pf.words[n / 16 % 4],
		&page->ready,
	};

	return words[n % 16 % (sizeof(words) / sizeof(words[0]))];
}

/* What a process that somebody has taken over may do. */
static void be_hostile(struct input *in, uint32_t op)
{
	struct process *p = &processes[HOSTILE];
	struct vf_page *page = p->page;
	uint64_t most = UINT64_MAX - 1;
	uint32_t at, i;

	switch (op >> 4) {
	case 0:
		answer(p);
		break;
	case 1: /* all that it says is of the generation at hand */
		atomic_store(&page->status,
			     (uint64_t)atomic_load(&page->generation) << 32 | input_number(in, 1));
		break;
	case 2:
		take_orders(p);
		return;
	case 3:
		end_process(p);
		return;
	case 4: /* what the page means goes with its bytes: these are never given back */
		HOLDS(ftruncate(p->page_fd, (off_t)(input_number(in, 2) % sizeof(*page))) < 0);
		i = (uint32_t)fcntl(p->page_fd, F_GET_SEALS);
		HOLDS(fallocate(p->page_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) <
			      0 ||
		      !(i & F_SEAL_FUTURE_WRITE));
		break;
	case 5: /* a descriptor that is full, and makes others wait */
		fcntl(p->notice, F_SETFL, 0);
		if (fcntl(p->notice, F_SETFL, O_NONBLOCK) == 0 &&
		    write(p->notice, &most, sizeof(most)) > 0)
			fcntl(p->notice, F_SETFL, O_NONBLOCK);
		break;
	case 6:
		input_bytes(in, page->image, 1 + input_number(in, 2) % sizeof(page->image));
		break;
	case 7:
		atomic_fetch_add(&page->resets, 1);
		break;
	case 8: /* any word of the page */
	case 9:
		at = (uint32_t)input_number(in, 2) % (sizeof(*page) / 4);
		atomic_store((_Atomic uint32_t *)page + at, (uint32_t)input_number(in, 4));
		break;
	case 10: /* serials that the device has used */
		atomic_store(&page->to_vf_taken, atomic_load(&page->to_vf.serial));
		break;
	default:
		at = (uint32_t)input_number(in, 1);
		atomic_store(own_word(page, at), (uint32_t)input_number(in, 1 + at % 4));
		break;
	}
	if (!(op & 8))
		notify(p);
}

static uint32_t read_register(enum gpuiov_register reg)
{
	const struct gpuiov_location *at = &layout->at[reg];
	uint32_t value = 0, where = at->offset;

	if (at->space == GPUIOV_NOWHERE)
		return 0;
	where += at->space == GPUIOV_CAP ? cap : at->space == GPUIOV_BLOCK ? block : 0;
	softgpu_read(gpu, SOFTGPU_PF,
		     at->space == GPUIOV_MMIO ? VFIO_REGION_BAR5 : VFIO_REGION_CONFIG, where,
		     &value, sizeof(value));
	return value;
}

/* VF 1 has not done or said anything. */
static void check_honest(void)
{
	uint32_t said = read_register(GPUIOV_VM_BUSY) | read_register(GPUIOV_IH_PENDING), value;

	softgpu_read(gpu, SOFTGPU_PF, VFIO_REGION_BAR5, SOFTGPU_VIOLATORS, &value, sizeof(value));
	HOLDS(!((said | value) >> HONEST & 1));
}

static void operate(struct input *in)
{
	uint32_t op = (uint32_t)input_number(in, 1), i;
	int fn = (int)(op >> 4) % (int)(VFS + 1) - 1;

	switch (op % 8) {
	case 0:
		softgpu_function_reset(gpu, fn);
		break;
	case 1:
		softgpu_function_closed(gpu, fn);
		break;
	case 2:
	case 3:
		access_pf(in, op);
		break;
	default:
		pthread_mutex_lock(&processes_lock);
		for (i = 0; i <= (op & 7) - 4; i++) {
			if (processes[HOSTILE].is_there)
				be_hostile(in, (uint32_t)input_number(in, 1));
		}
		pthread_mutex_unlock(&processes_lock);
		break;
	}
	pthread_mutex_lock(&processes_lock);
	if (processes[HONEST].is_there) {
		take_orders(&processes[HONEST]);
		answer(&processes[HONEST]);
		notify(&processes[HONEST]);
	}
	pthread_mutex_unlock(&processes_lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint64_t shape = input_number(&in, 1);
	struct softgpu_config config = {.n_vfs = VFS, .vram = VRAM, .seed = 1};
	struct softgpu_region region;
	struct vgpu_error err;
	int before = next_fd(), fn;
	uint32_t i;

	layout = shape & 1   ? &gpuiov_layout_tonga
		 : shape & 8 ? &gpuiov_layout_soft
			     : &gpuiov_layout_navi;
	config.layout = layout;
	scribble = shape & 4 ? (uint8_t)input_number(&in, 1) : 0;
	HOLDS(softgpu_create(&gpu, &config, &carrier, NULL, &err) == 0);
	look();
	if (shape & 2)
		bring_up();
	for (i = 0; i < MAX_OPS && in.left > 0; i++)
		operate(&in);
	check_honest();
	for (fn = 0; fn < (int)VFS; fn++) {
		softgpu_region(gpu, fn, VFIO_REGION_BAR0, &region);
		HOLDS(region.mmap_fd < 0 || region.mmap_size <= VRAM);
	}
	softgpu_destroy(gpu);
	for (i = 0; i < VFS; i++)
		HOLDS(!processes[i].is_there);
	HOLDS(next_fd() == before);
	return 0;
}
