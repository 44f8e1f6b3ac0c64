/* SPDX-License-Identifier: MIT */
#include "vf_process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "program.h"
#include "vgpu/descriptor.h"

#define READY_MS 10000

int vf_process_start(struct vf_process *p, bool alone, struct vgpu_error *err)
{
	char device[16];
	const char *const args[] = {"--vf",	"0",	  "--vram", "268435456", "--layout",
				    "navi",	"--user", "65534",  "--group",	 "65534",
				    "--device", device,	  NULL};
	int pair[2] = {-1, -1}, fds[VF_DMA_FD - VF_CONTROL_FD], page_fd, r = 0;

	*p = (struct vf_process){.pidfd = -1, .control = -1, .notice = -1};
	page_fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	p->notice = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (page_fd < 0 || p->notice < 0 || ftruncate(page_fd, sizeof(*p->page)) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		r = vgpu_error_set(err, -errno, "descriptors: %s", strerror(errno));
	p->control = pair[0];
	snprintf(device, sizeof(device), "%d", alone ? 1 : (int)getpid());
	if (r == 0)
		p->page = mmap(NULL, sizeof(*p->page), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd,
			       0);
	if (p->page == MAP_FAILED) {
		p->page = NULL;
		r = vgpu_error_set(err, -errno, "page: %s", strerror(errno));
	}
	fds[VF_CONTROL_FD - PROGRAM_FIRST_FD] = pair[1];
	fds[VF_PAGE_FD - PROGRAM_FIRST_FD] = page_fd;
	fds[VF_NOTICE_FD - PROGRAM_FIRST_FD] = p->notice;
	fds[VF_LOG_FD - PROGRAM_FIRST_FD] = STDERR_FILENO;
	r = r ? r
	      : program_start("softgpu-vf", args, fds, VF_DMA_FD - VF_CONTROL_FD, &p->pid,
			      &p->pidfd, err);
	vgpu_close(&pair[1]);
	vgpu_close(&page_fd);
	return r;
}

bool vf_process_ready(const struct vf_process *p)
{
	struct pollfd fds[] = {{p->notice, POLLIN, 0}, {p->pidfd, POLLIN, 0}};

	return poll(fds, 2, READY_MS) > 0 && atomic_load(&p->page->ready);
}

bool vf_process_ended(const struct vf_process *p, int ms)
{
	struct pollfd gone = {p->pidfd, POLLIN, 0};

	return poll(&gone, 1, ms) == 1;
}

void vf_process_end(struct vf_process *p)
{
	siginfo_t info;

	if (p->pidfd >= 0) {
		pidfd_send_signal(p->pidfd, SIGKILL, NULL, 0);
		waitid(P_PIDFD, (id_t)p->pidfd, &info, WEXITED);
	}
	if (p->page)
		munmap(p->page, sizeof(*p->page));
	vgpu_close(&p->pidfd);
	vgpu_close(&p->control);
	vgpu_close(&p->notice);
	p->page = NULL;
}
