/* SPDX-License-Identifier: MIT */
/* The thread that reads and writes settings, stops VFs and resets them. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>

#include "settings.h"
#include "vfio/thread.h"
#include "vgpu/descriptor.h"

static void stop_and_reset(struct settings_writer *w)
{
	vgpu_vf_set stops = atomic_exchange(&w->stops, 0), resets = atomic_exchange(&w->resets, 0);
	uint32_t i;

	for (i = 0; i < VGPU_GPU_MAX_VFS; i++) {
		if (stops >> i & 1 && (!w->ops->stop || w->ops->stop(w->pf, i) < 0))
			atomic_fetch_or(&w->stops_failed, VGPU_VF_BIT(i));
		if (resets >> i & 1) {
			atomic_store(&w->reset_results[i], pci_reset_vf(w->pf, i));
			atomic_fetch_or(&w->resets_done, VGPU_VF_BIT(i));
		}
	}
}

static void *run(void *arg)
{
	struct settings_writer *w = arg;
	struct pollfd p = {.fd = w->wake, .events = POLLIN};
	bool end, asked;
	int r = 0;

	do {
		poll(&p, 1, -1);
		vgpu_eventfd_drain(w->wake);
		end = atomic_load(&w->end);
		stop_and_reset(w);
		asked = atomic_load(&w->asked);
		if (asked)
			r = w->result = w->ops->write(w->pf, w->n_vfs, &w->want, &w->have, &w->end);
		else if (w->ops->look)
			r = w->ops->look(w->pf, w->n_vfs);
		/* The settings go when the PF's driver goes. */
		if (r == -ENODEV || r == -ENOENT)
			atomic_store(&w->lost, -ENODEV);
		if (asked)
			atomic_store(&w->asked, false);
		vgpu_eventfd_signal(w->done);
	} while (!end);
	return NULL;
}

void settings_writer_wake(struct settings_writer *w)
{
	vgpu_eventfd_signal(w->wake);
}

int settings_writer_start(struct settings_writer *w, const struct settings_ops *ops, const char *pf,
			  uint32_t n_vfs, const struct vgpu_program *have)
{
	int r;

	w->ops = ops;
	w->n_vfs = n_vfs;
	snprintf(w->pf, sizeof(w->pf), "%s", pf);
	w->have = *have;
	w->wake = vgpu_eventfd();
	w->done = vgpu_eventfd();
	r = w->wake < 0 ? w->wake : w->done < 0 ? w->done : 0;
	if (r == 0)
		r = -vfio_thread_create(&w->thread, "vgpud-settings", SCHED_OTHER, 0, run, w);
	if (r < 0) {
		vgpu_close(&w->wake);
		vgpu_close(&w->done);
	}
	return r;
}

void settings_writer_end(struct settings_writer *w)
{
	atomic_store(&w->end, true);
	settings_writer_wake(w);
	pthread_join(w->thread, NULL);
	vgpu_close(&w->wake);
	vgpu_close(&w->done);
}
