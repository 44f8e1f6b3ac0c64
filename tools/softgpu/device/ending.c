/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "ending.h"
#include "softgpu.h"

#include "vgpu/descriptor.h"

int ending_create(struct ending *e, struct vgpu_error *err)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	e->changed = vgpu_eventfd();
	e->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (e->changed >= 0 && e->signals >= 0)
		return 0;
	return vgpu_error_set(err, -errno, "descriptors for signals: %s", strerror(errno));
}

void ending_used(struct ending *e)
{
	vgpu_eventfd_signal(e->changed);
}

/* "0, 2": the VFs of the mask USED. */
static void list(uint32_t used, char *out, size_t size)
{
	size_t at = 0;
	unsigned vf;

	for (vf = 0; used >> vf; vf++)
		if (used >> vf & 1 && at < size)
			at += (size_t)snprintf(out + at, size - at, "%s%u", at ? ", " : "", vf);
}

/* The packages' scripts look for the words "VFs in use". */
static void tell(uint32_t used, bool draining)
{
	char vfs[128] = "none";

	list(used, vfs, sizeof(vfs));
	sd_notifyf(0, "STATUS=VFs in use: %s%s", vfs,
		   draining ? "; ends when they are free, or at once with SIGTERM" : "");
	if (draining && used)
		fprintf(stderr,
			"<5>softgpu: still running, because VFs are in use: %s. It ends when they "
			"are free, or at once with SIGTERM, which ends their VMs\n",
			vfs);
}

void ending_await(struct ending *e, struct softgpu *gpu)
{
	struct pollfd fds[] = {{e->signals, POLLIN, 0}, {e->changed, POLLIN, 0}};
	uint32_t used = softgpu_used(gpu);
	bool draining = false, ends = false;
	struct signalfd_siginfo info;

	sd_notify(0, "READY=1");
	tell(used, false);
	while (!ends && !(draining && used == 0)) {
		if (poll(fds, 2, -1) < 0)
			continue;
		vgpu_eventfd_drain(e->changed);
		while (read(e->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
			draining |= info.ssi_signo == SIGUSR1;
			ends |= info.ssi_signo != SIGUSR1;
		}
		used = softgpu_used(gpu);
		tell(used, draining);
	}
	sd_notify(0, "STOPPING=1");
}
